//! `forebay plan`: the smallest or largest value that meets goals, and the best of several options.

use super::command_line;
use super::keys;
use super::memory::{self, Together};
use super::options;
use super::paths::Paths;
use super::plan_choice_text;
use super::plan_figure;
use super::plan_text;
use super::planned::{Planned, Row, ShownFigure, ShownGoal, ShownUnknown};
use super::points::{self, Opened};
use super::progress::tick;
use super::{Failure, interrupt, output, run_figure};
use crate::cli::{Plan, ReportFormat};
use crate::input::shown;
use crate::metric::Unit;
use crate::plan::{self, Choice, Failed, Goal, Question, Setting, Unknown, Wanted};
use crate::probe::limits;
use crate::report;
use crate::scenario::{Override, PlanOption, PlanTable, PlanText, Scenario, Stop, Value};
use crate::sweep::Grid;
use crate::verdict::{self, Machines};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Options at most.
const MOST_OPTIONS: usize = 100;
/// Rows at most.
const MOST_ROWS: usize = 10_000;

/// What is asked, read from the command line and the file.
struct Asked {
    goals: Vec<Goal>,
    unknowns: Vec<Unknown>,
    options: Vec<PlanOption>,
    best: Option<Wanted>,
    rows: Vec<Point>,
}

/// A combination of values of `--for`.
#[derive(Default)]
struct Point {
    changes: Vec<Override>,
    /// The keys with their values.
    at: Vec<(String, String)>,
}

pub(super) fn execute(plan: &Plan, quiet: bool) -> Result<(), Failure> {
    let paths = Paths::default().writes("--output", plan.output.as_ref())?;
    let paths = paths.writes("--emit", plan.emit.as_ref())?;
    let paths = paths.writes("--figure", plan.figure.as_ref())?.prints(plan.output.is_none());
    let picture = plan.figure.as_deref().map(run_figure::kind).transpose()?;
    let opened =
        Opened::from_arguments(&plan.scenario.scenario, &plan.scenario.options, Vec::new())?;
    let scenario = opened.resolve_to_run(|scenario| scenario.run.replications as usize)?;
    opened.read_by(paths).check()?;
    let asked = Asked::read(plan, &opened, &scenario)?;
    check_emit(plan, &opened, &asked)?;
    let pool = points::pool(plan.scenario.options.threads)?;
    let simulated = Arc::new(AtomicUsize::new(0));
    let threads = plan.scenario.options.threads.map_or_else(limits::threads, usize::from);
    let fits = |scenario: &Scenario| {
        let together = Together { at_once: threads, kept: threads, threads: true };
        let checked = memory::check(&format!("`{}`", scenario.name), scenario, together);
        checked.map_err(|failure| failure.to_string())
    };
    let source = opened.source();
    let overrides = [source.overrides, &precision(&opened, &scenario)].concat();
    let question = Question {
        file: source.file,
        overrides: &overrides,
        goals: &asked.goals,
        best: asked.best.as_ref(),
        certainty: plan.certainty,
        within: plan.within,
        most: plan.most as usize,
        fits: &fits,
        stop: interrupt::flag(),
        simulated: &simulated,
    };
    let bar = watch(quiet, Arc::clone(&simulated));
    let currency = scenario.prices.as_ref().map(|prices| prices.currency.clone());
    let asking = (&question, &asked, currency.as_deref().unwrap_or_default());
    let (rows, is_stopped) = pool.install(|| answer(asking, &opened));
    bar.finish_and_clear();
    if rows.is_empty() {
        return Err(Failure::Interrupted("nothing was decided".to_owned()));
    }
    let (of_all, has_options) = (asked.answers(), !asked.options.is_empty());
    let best = asked.best.as_ref().filter(|_| !asked.options.is_empty());
    let mut planned = Planned {
        sentences: Vec::new(),
        scenario: scenario.name.clone(),
        seed: scenario.run.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line::typed(),
        goals: asked.goals.iter().map(ShownGoal::from).collect(),
        unknowns: asked.unknowns.iter().map(ShownUnknown::from).collect(),
        best: best.map(ShownFigure::from),
        certainty: plan.certainty,
        within: plan.within,
        currency,
        rows,
        simulated: simulated.load(Ordering::Relaxed),
        origins: scenario.origins.clone(),
    };
    planned.sentences = plan_text::sentences(&planned);
    if planned.all_failed().is_none() {
        show(plan, &planned, quiet)?;
    }
    if let (Some(path), Some(kind)) = (&plan.figure, picture) {
        match plan_figure::figure(&planned) {
            Ok((figure, left_out)) => {
                run_figure::save(path, kind, &figure)?;
                left_out.iter().for_each(|what| output::warn(quiet, what));
            }
            Err(why) => output::warn(quiet, &format!("{} was not drawn: {why}", shown(path))),
        }
    }
    if is_stopped {
        let made = planned.rows.iter().filter(|row| !row.is_stopped()).count();
        return Err(Failure::Interrupted(format!("{made} of {of_all} answers were found")));
    }
    if let (Some(path), Some(changes)) = (&plan.emit, planned.rows.first().and_then(Row::changes)) {
        let all: Vec<Override> = opened.overrides().iter().chain(changes).cloned().collect();
        // The choice would be compared with itself if the new file still had the options.
        let without: &[&str] = if has_options { &["plan"] } else { &[] };
        let text = source.file.emit(&all, without);
        output::file(path, |to| to.write_all(text.as_bytes()))?;
        output::warn(quiet, &format!("wrote {}", shown(path)));
    }
    if let Some(why) = planned.all_failed() {
        return Err(Failure::Input(format!("cannot plan: {why}")));
    }
    match planned.rows.iter().filter(|row| !row.is_met()).count() {
        0 => Ok(()),
        1 if planned.rows.len() == 1 => {
            Err(Failure::Check("no setting meets the goals".to_owned()))
        }
        missing => Err(Failure::Check(format!(
            "no setting meets the goals in {missing} of {} rows",
            planned.rows.len()
        ))),
    }
}

/// `run.precision` of a plan's runs if the scenario gives neither a length nor a precision: more replications, not longer ones,
/// decide between settings.
const PRECISION: f64 = 0.02;

/// Returns the override of the precision for a scenario that gives neither the length of a run nor a precision; otherwise none.
fn precision(opened: &Opened, scenario: &Scenario) -> Vec<Override> {
    let key = "run.precision";
    let is_written = opened.source().file.editor(opened.overrides()).value(key).is_some();
    match scenario.run.stop {
        Stop::Known { .. } if !is_written => vec![Override::new(key, PRECISION.into())],
        _ => Vec::new(),
    }
}

/// Prints or writes the answer.
fn show(plan: &Plan, planned: &Planned, quiet: bool) -> Result<(), Failure> {
    let text = match plan.format {
        ReportFormat::Json => {
            serde_json::to_string_pretty(planned).map_or_else(|_| String::new(), |text| text + "\n")
        }
        ReportFormat::Text => plan_text::text(planned),
    };
    match &plan.output {
        Some(path) => {
            output::file(path, |to| to.write_all(text.as_bytes()))?;
            output::warn(quiet, &format!("wrote {}", shown(path)));
            Ok(())
        }
        None if plan.format == ReportFormat::Json => output::stdout(text.as_bytes()),
        None => output::text(&text),
    }
}

/// Shows how many replications were simulated, on a terminal, if it takes long.
fn watch(quiet: bool, simulated: Arc<AtomicUsize>) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(1), target);
    let line = move |state: &ProgressState, to: &mut dyn std::fmt::Write| {
        if state.elapsed() >= Duration::from_millis(500) {
            let number = simulated.load(Ordering::Relaxed);
            // An error of the terminal is no reason to stop.
            write!(to, "{number} replications, {} s", state.elapsed().as_secs()).ok();
        }
    };
    if let Ok(style) = ProgressStyle::with_template("{line}") {
        bar.set_style(style.with_key("line", line));
    }
    tick(&bar);
    bar
}

/// Refuses `--emit` where there is no single answer, or where the paths of files in the scenario would lead elsewhere.
fn check_emit(plan: &Plan, opened: &Opened, asked: &Asked) -> Result<(), Failure> {
    let Some(path) = &plan.emit else { return Ok(()) };
    let rows = asked.answers();
    if rows > 1 {
        let what = format!("--emit writes one scenario, and there are {rows} answers");
        let of_option = match (asked.rows.len() > 1, plan.rows.is_empty()) {
            (true, true) => "give `--for` a single value, or leave it out with `--unset plan.for`",
            (true, false) => "give `--for` a single value, or leave it out",
            (false, _) if plan.option.is_empty() => {
                "give one `--option`, or leave them out with `--unset plan.option`"
            }
            (false, _) => "give one `--option`, or leave them out",
        };
        return Err(Failure::Input(format!("{what}: {of_option}")));
    }
    let directory = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        std::path::absolute(parent.unwrap_or(Path::new("."))).ok()
    };
    let beside = plan.scenario.scenario != Path::new("-")
        && directory(path) == directory(&plan.scenario.scenario);
    if !beside && !opened.files_read().is_empty() {
        let what = "the scenario names files, which are looked up beside it";
        return Err(Failure::Input(format!(
            "--emit {}: {what}: write it into the directory of the scenario",
            shown(path)
        )));
    }
    Ok(())
}

impl Asked {
    fn read(plan: &Plan, opened: &Opened, scenario: &Scenario) -> Result<Asked, Failure> {
        let (file, overrides) = (opened.source().file, opened.overrides());
        let table: PlanTable = file.plan(overrides)?;
        let goals = texts(
            "--goal",
            &plan.goal,
            &table.goals,
            (opened, |text| Goal::parse(text, scenario)),
        )?;
        let given = !plan.min.is_empty() || !plan.max.is_empty();
        let none: &[PlanText] = &[];
        let (min, max) = if given { (none, none) } else { (&table.min[..], &table.max[..]) };
        let unknown = |largest: bool| {
            move |text: &str| Unknown::parse(text, largest, (file, overrides, scenario))
        };
        let mut unknowns = texts("--min", &plan.min, min, (opened, unknown(false)))?;
        unknowns.extend(texts("--max", &plan.max, max, (opened, unknown(true)))?);
        let (mut options, of_file) = match plan.option.is_empty() && plan.among.is_empty() {
            true => (table.options, &table.among[..]),
            false => (options::parse(&plan.option)?, none),
        };
        let among = texts("--among", &plan.among, of_file, (opened, unknown(false)))?;
        options.extend(options_among(&among));
        let best = match &plan.best {
            Some(text) => {
                Some(Wanted::parse(text, scenario).map_err(|why| refused("--best", text, &why))?)
            }
            None => {
                let of_file = table.best.iter().cloned().collect::<Vec<_>>();
                let found =
                    texts("--best", &[], &of_file, (opened, |text| Wanted::parse(text, scenario)))?;
                found.into_iter().next()
            }
        };
        let usual = if scenario.prices.is_some() { "cost per month" } else { "throughput" };
        let best = best.or_else(|| Wanted::parse(usual, scenario).ok());
        let best = best.filter(|_| !options.is_empty() && unknowns.is_empty());
        if unknowns.is_empty() && options.is_empty() {
            let what = "cannot plan: nothing says what is to be decided";
            let remedy =
                "write `--min KEY`, `--max KEY`, or an `--option NAME=KEY=VALUE` for each choice";
            return Err(Failure::Input(format!("{what}; {remedy}")));
        }
        if goals.is_empty() && !unknowns.is_empty() {
            let what = "cannot plan: there is no goal that a value could meet";
            return Err(Failure::Input(format!("{what}; write `--goal \"stall < 2 %\"`")));
        }
        if options.len() > MOST_OPTIONS {
            let what = format!(
                "cannot plan: there are {} options, and at most {MOST_OPTIONS} can be",
                options.len()
            );
            return Err(Failure::Input(what));
        }
        let rows = rows(plan, opened, &table.rows)?;
        let asked = Asked { goals, unknowns, options, best, rows };
        asked.check(plan)?;
        Ok(asked)
    }

    /// Returns the number of answers.
    fn answers(&self) -> usize {
        let of_options = if self.unknowns.is_empty() { 1 } else { self.options.len().max(1) };
        self.rows.len() * of_options
    }

    /// Refuses what contradicts itself, and what would have no effect.
    fn check(&self, plan: &Plan) -> Result<(), Failure> {
        let refuse = |what: String, remedy: &str| {
            Err(Failure::Input(format!("cannot plan: {what}; {remedy}")))
        };
        for (at, goal) in self.goals.iter().enumerate() {
            if let Some(other) = self.goals[..at].iter().find(|other| other.excludes(goal)) {
                let what = format!("no value meets both `{}` and `{}`", other.text, goal.text);
                return refuse(what, "leave one out, or change its value");
            }
        }
        if plan.best.is_some() && !self.unknowns.is_empty() {
            let what = "`--best` has no effect, because keys are searched".to_owned();
            return refuse(what, "leave it out, or write an `--option` for each choice");
        }
        for (at, unknown) in self.unknowns.iter().enumerate() {
            let key = &unknown.key;
            let is_own = |key: &str| unknown.keys.iter().any(|own| own == key);
            if let Some(key) =
                self.unknowns[..at].iter().flat_map(|other| &other.keys).find(|of| is_own(of))
            {
                let what = format!("the key `{key}` is searched twice");
                return refuse(what, "write one `--min` or `--max` for each key");
            }
            if self.rows.iter().any(|row| row.changes.iter().any(|change| is_own(change.key()))) {
                let what = format!("`{key}` is searched, and `--for` gives it values as well");
                return refuse(what, "leave one of both out");
            }
            let sets = |option: &&PlanOption| option.changes.iter().any(|of| is_own(of.key()));
            if let Some(option) = self.options.iter().find(sets) {
                let what = format!("`{key}` is searched, and option `{}` sets it", option.name);
                return refuse(what, "leave one of both out");
            }
        }
        let combinations = self.unknowns.iter().map(|of| of.values.len());
        let combinations = combinations.fold(1_usize, usize::saturating_mul);
        if self.unknowns.len() > 1 && combinations > plan::MOST_COMBINATIONS {
            let what = format!("the keys have {combinations} combinations of values");
            let most = plan::MOST_COMBINATIONS;
            let remedy = format!(
                "several keys are searched over at most {most} combinations: write shorter ranges, or lists"
            );
            return refuse(what, &remedy);
        }
        Ok(())
    }
}

/// Returns an option for each value of the keys, named by the value, and by the key if there are several.
fn options_among(keys: &[Unknown]) -> Vec<PlanOption> {
    let option = |unknown: &Unknown, value: &Value| {
        let name = match keys.len() {
            1 => value.plain(),
            _ => format!("{} {}", keys::last(&unknown.key), value.plain()),
        };
        PlanOption { name, changes: unknown.set(value) }
    };
    keys.iter().flat_map(|key| key.values.iter().map(move |value| option(key, value))).collect()
}

/// Reads the texts of an option or, if there are none, those of the file.
fn texts<T>(
    option: &str,
    given: &[String],
    of_file: &[PlanText],
    (opened, read): (&Opened, impl Fn(&str) -> Result<T, (String, String)>),
) -> Result<Vec<T>, Failure> {
    if !given.is_empty() {
        let one = |text: &String| read(text).map_err(|why| refused(option, text, &why));
        return given.iter().map(one).collect();
    }
    let file = opened.source().file;
    let one = |text: &PlanText| {
        read(&text.text).map_err(|(what, remedy)| {
            Failure::Problems(file.refuse(opened.overrides(), text, (&what, &remedy)))
        })
    };
    of_file.iter().map(one).collect()
}

fn refused(option: &str, text: &str, (what, remedy): &(String, String)) -> Failure {
    Failure::Input(format!("{option} {text:?}: {what}; {remedy}"))
}

/// Returns the combinations of values of `--for`; one without changes if there is no such list.
fn rows(plan: &Plan, opened: &Opened, of_file: &[Override]) -> Result<Vec<Point>, Failure> {
    let given: Result<Vec<Override>, _> =
        plan.rows.iter().map(|text| Override::row(text)).collect();
    let given = given?;
    let lists = if given.is_empty() { of_file } else { &given };
    if lists.is_empty() {
        return Ok(vec![Point::default()]);
    }
    let axes = opened.source().file.axes_of(lists)?;
    let grid = Grid::new(axes).ok().filter(|grid| grid.len() <= MOST_ROWS);
    let Some(grid) = grid else {
        return Err(Failure::Input(format!(
            "cannot plan: there are more than {MOST_ROWS} rows; give `--for` fewer values"
        )));
    };
    let keys: Vec<String> = grid.keys().map(str::to_owned).collect();
    let row = |index: usize| {
        let values = grid
            .values(index)
            .into_iter()
            .map(|value| value.map_or_else(String::new, Value::plain));
        Point { changes: grid.overrides(index), at: keys.iter().cloned().zip(values).collect() }
    };
    Ok((0..grid.len()).map(row).collect())
}

/// Answers all rows, or those before a signal came; returns whether it came.
fn answer(
    (question, asked, currency): (&Question<'_>, &Asked, &str),
    opened: &Opened,
) -> (Vec<Row>, bool) {
    let mut rows = Vec::new();
    let as_it_is = [PlanOption { name: String::new(), changes: Vec::new() }];
    let searched = match (asked.unknowns.is_empty(), asked.options.is_empty()) {
        (false, false) => &asked.options[..],
        _ => &as_it_is[..],
    };
    for Point { changes, at } in &asked.rows {
        for option in searched {
            let before = [&changes[..], &option.changes].concat();
            let row = match asked.unknowns.is_empty() {
                true => choice(question, asked, (changes, at)),
                false => value(question, asked, &before, at),
            };
            let Some(mut row) = row else { return (rows, true) };
            row.option = (!option.name.is_empty()).then(|| option.name.clone());
            let is_stopped = row.is_stopped();
            rows.push(row);
            if is_stopped {
                return (rows, true);
            }
        }
    }
    // One answer has room for all that binds.
    if let [row] = &mut rows[..]
        && !row.is_met()
    {
        row.binds = binds(question, row, (opened, currency));
    }
    (rows, false)
}

/// Searches the unknown keys; `None` if a signal came.
fn value(
    question: &Question<'_>,
    asked: &Asked,
    before: &[Override],
    at: &[(String, String)],
) -> Option<Row> {
    let (answer, failed) = match plan::search(question, &asked.unknowns, before) {
        Ok(answer) => (Some(answer), None),
        Err(Failed::Setting(why)) => (None, Some(why)),
        Err(Failed::Stopped) => return None,
    };
    Some(Row { answer, failed, ..Row::new(at) })
}

/// Chooses between the options; `None` if a signal came.
fn choice(
    question: &Question<'_>,
    asked: &Asked,
    (before, at): (&[Override], &[(String, String)]),
) -> Option<Row> {
    let chosen = plan::choose(question, &asked.options, before);
    let drawn = |choice: &Choice| match choice.best {
        Some(_) if choice.options.len() > 1 && !choice.is_stopped => {
            plan::over_draws(question, choice, before)
        }
        _ => Ok(None),
    };
    match chosen.and_then(|choice| Ok((drawn(&choice)?, choice))) {
        Ok((over_draws, mut choice)) => {
            for option in &mut choice.options {
                option.changes.splice(0..0, before.iter().cloned());
            }
            Some(Row { choice: Some(choice), over_draws, ..Row::new(at) })
        }
        Err(Failed::Setting(why)) => Some(Row { failed: Some(why), ..Row::new(at) }),
        Err(Failed::Stopped) => None,
    }
}

impl Row {
    fn new(at: &[(String, String)]) -> Row {
        Row {
            at: at.to_vec(),
            option: None,
            answer: None,
            choice: None,
            over_draws: None,
            binds: None,
            failed: None,
        }
    }
}

/// Returns the verdict on the setting that comes nearest to the goals: what limits the job whose goal it misses by most, and what would help;
/// what its cost consists of if it misses a price; `None` if it misses a goal on memory.
fn binds(
    question: &Question<'_>,
    row: &Row,
    (opened, currency): (&Opened, &str),
) -> Option<String> {
    let (changes, missed) = match (&row.answer, &row.choice) {
        (Some(answer), _) => (answer.changes.clone(), answer.missed?),
        (None, Some(choice)) => {
            let nearest = &choice.options[choice.nearest?];
            (nearest.changes.clone(), nearest.misses?)
        }
        (None, None) => return None,
    };
    let setting = Setting::new(question, changes).ok()?;
    let outcome = plan::first_outcome(question, &setting).ok()?;
    let outcomes = std::slice::from_ref(&outcome);
    let mut report = report::summarise(&setting.scenario, outcomes, 0.0);
    let goal = &question.goals[missed];
    let Some(job) = goal.job_in(&report) else {
        let items = &report.cost.as_ref()?.items;
        let is_money = goal.wanted.unit() == Unit::Money;
        return is_money.then(|| plan_choice_text::items(items, currency));
    };
    report::choose_job(&mut report, &setting.scenario, job);
    let overrides = [opened.overrides(), &setting.changes].concat();
    let source = verdict::Source { overrides: &overrides, ..opened.source() };
    let options = verdict::Options {
        quick: false,
        machines: Machines { drawn: &[], spread: 0.0 },
        others: false,
        stop: Some(question.stop),
        collectives: None,
        told: None,
        least_events: None,
        late: None,
        draws: &[],
    };
    let found = verdict::find_all(source, (&setting.scenario, outcomes, &report), &options);
    found.into_iter().next().map(|verdict| verdict.text)
}
