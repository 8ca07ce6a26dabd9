//! `forebay explain-defaults`: ranks the nominal numbers of a scenario by how much its answer depends on them, and lists the defaults that
//! a run uses where its scenario gives no value.

use super::interrupt;
use super::paths::Paths;
use super::points::{self, Opened};
use super::{Failure, output};
use crate::cli::{ExplainDefaults, ReportFormat};
use crate::ranges::{self, Effect, Question};
use crate::report::format::seconds;
use crate::report::{self, Outcome};
use crate::scenario::{Assumed, Scenario};
use crate::sim;
use serde_json::{Value, json};

pub(super) fn execute(explain: &ExplainDefaults) -> Result<(), Failure> {
    let paths = Paths::default().writes("--output", explain.output.as_ref())?;
    let paths = paths.prints(explain.output.is_none());
    let opened =
        Opened::from_arguments(&explain.scenario.scenario, &explain.scenario.options, Vec::new())?;
    let scenario = opened.resolve()?;
    opened.read_by(paths).check()?;
    let assumed = scenario.origins.assumed();
    let is_terminal = explain.output.is_none() && output::has_width();
    let text = match (explain.format, explain.all) {
        (ReportFormat::Text, true) if is_terminal => narrow(&assumed),
        (ReportFormat::Text, true) => table(&assumed),
        (ReportFormat::Text, false) => {
            let text = short(ranked(&opened, explain)?.as_ref(), assumed.len());
            if is_terminal { output::wrapped(&text, output::width()) } else { text }
        }
        (ReportFormat::Json, true) => format!("{:#}\n", json!({ "assumed": assumed })),
        (ReportFormat::Json, false) => {
            let ranked = ranked(&opened, explain)?;
            let ranked: Vec<Value> = ranked.iter().flat_map(Ranked::json).collect();
            format!("{:#}\n", json!({ "ranked": ranked, "assumed": assumed }))
        }
    };
    match &explain.output {
        Some(path) => output::file(path, |to| to.write_all(text.as_bytes())),
        None => output::stdout(text.as_bytes()),
    }
}

/// Nominal numbers by how much the step time of a job depends on them.
struct Ranked {
    job: String,
    /// Step time with the nominal numbers [s].
    step: f64,
    effects: Vec<Effect>,
}

/// Returns the ranked numbers of the scenario; `None` if none has a range.
fn ranked(opened: &Opened, explain: &ExplainDefaults) -> Result<Option<Ranked>, Failure> {
    let scenario = opened.resolve_to_run(|_| 1)?;
    if ranges::nominal(opened.source(), &scenario).is_empty() {
        return Ok(None);
    }
    let pool = points::pool(explain.scenario.options.threads)?;
    let options = sim::Options { stop: Some(interrupt::flag()), ..sim::Options::default() };
    let outcome = sim::run(&scenario, 0, &options).whole()?;
    let found = pool.install(|| rank(opened, &scenario, &outcome, &options));
    match (interrupt::raised(), found) {
        (true, _) => Err(Failure::Interrupted("nothing was ranked".into())),
        (false, None) => {
            let what = "no job completes a step that counts, so nothing can be ranked";
            Err(Failure::Input(format!("{what}; run longer, or list all defaults with `--all`")))
        }
        (false, found) => Ok(found),
    }
}

fn rank(
    opened: &Opened,
    scenario: &Scenario,
    outcome: &Outcome,
    options: &sim::Options<'_>,
) -> Option<Ranked> {
    let report = report::summarise(scenario, std::slice::from_ref(outcome), 0.0);
    let of = (scenario, outcome, &report);
    let question = Question::of_bottleneck(opened.source(), of, options)?;
    let of_job = &report.jobs[question.job];
    let step = of_job.figures.step_time.mean?;
    Some(Ranked { job: of_job.name.clone(), step, effects: ranges::effects(question) })
}

impl Ranked {
    fn json(&self) -> Vec<Value> {
        let one = |effect: &Effect| {
            let number = &effect.number;
            json!({
                "job": self.job,
                "key": number.key,
                "value": number.value,
                "range": number.range.name,
                "sources": number.range.sources.len(),
                "reached90": number.range.interval90(),
                "step_time": self.step,
                "step_time_at": effect.steps,
                "measure": number.range.measure,
            })
        };
        self.effects.iter().map(one).collect()
    }
}

/// Formats the ranked numbers, a paragraph for each, and says how many defaults have no range.
fn short(ranked: Option<&Ranked>, defaults: usize) -> String {
    let mut text = match ranked {
        None => "No number of this scenario has a range of published results.\n".to_owned(),
        Some(of) => format!(
            "A step of `{}` takes {} with what data sheets say. What it takes over what publications reached, one number at a time:\n",
            of.job,
            seconds(of.step)
        ),
    };
    for Effect { number, steps } in ranked.iter().flat_map(|of| &of.effects) {
        let reached = number.range.unit.words(number.range.interval90());
        let [at_low, at_high] = steps.map(seconds);
        let (how, sources) = (&number.range.how, number.range.sources.len());
        let (key, measure) = (&number.key, &number.range.measure);
        let value = number.value.as_deref().unwrap_or("not set");
        text += &format!(
            "\n{key} = {value}\n  {at_low} to {at_high} at {reached}, {how} in {sources} publications\n  measure it: {measure}\n"
        );
    }
    text + &format!("\n{defaults} keys have defaults: `--all` lists them with their sources.\n")
}

/// Formats keys, values and sources as a table of three columns.
fn table(assumed: &[Assumed]) -> String {
    let row = |of: &Assumed| [of.key.clone(), of.value.clone(), of.source.clone()];
    let heading = ["key", "value", "source"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(heading).chain(assumed.iter().map(row)).collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).min(WIDEST)
    };
    let (keys, values) = (width(0), width(1));
    let line =
        |[key, value, source]: &[String; 3]| format!("{key:keys$}  {value:values$}  {source}\n");
    rows.iter().map(line).collect()
}

/// Formats the same table for a terminal, which would break its lines anywhere.
fn narrow(assumed: &[Assumed]) -> String {
    let mut table = output::table(false);
    table.set_header(["key", "value", "source"]);
    for of in assumed {
        table.add_row([&of.key, &of.value, &of.source]);
    }
    format!("{table}\n")
}

/// Maximum width of a column [characters]. A longer cell moves the rest of its row out of alignment.
const WIDEST: usize = 60;
