//! `forebay compare`: scenarios, options of one scenario, or reports, side by side.

use super::command_line;
use super::compare_figure;
use super::compare_text::text;
use super::diff;
use super::memory::{self, Together};
use super::options;
use super::paths::Paths;
use super::points::{self, Opened};
use super::progress::Watch;
use super::{Failure, input, interrupt, output, run_figure};
use crate::cli::{Compare, KeyChange, ReportFormat};
use crate::input::shown;
use crate::metric::{self, Metric};
use crate::probe::limits;
use crate::report::{self, Outcome};
use crate::scenario::{Override, PlanOption, Scenario, choose};
use crate::sim;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Figures that are compared unless others are named.
const USUAL: [&str; 9] = [
    "samples_per_second",
    "step_time",
    "accelerator_utilisation",
    "stall",
    "epoch_time",
    "time_to_accuracy",
    "cost_per_month",
    "cost_per_epoch",
    "cost_to_accuracy",
];
/// What is compared at most.
const MOST: usize = 50;

/// Scenarios, options or reports side by side.
#[derive(Serialize, Deserialize)]
pub(super) struct Compared {
    /// Version of forebay.
    pub(super) version: String,
    /// The command that computed this.
    pub(super) command: String,
    pub(super) compared: Vec<One>,
    #[serde(skip)]
    pub(super) metrics: Vec<&'static Metric>,
}

impl Compared {
    /// Returns the names of all jobs, in order of appearance.
    pub(super) fn jobs(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for job in self.compared.iter().flat_map(|one| &one.jobs) {
            if !names.contains(&job.name.as_str()) {
                names.push(&job.name);
            }
        }
        names
    }
}

/// One of them.
#[derive(Serialize, Deserialize)]
pub(super) struct One {
    /// Name: of the option, or of the file.
    pub(super) name: String,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
    pub(super) jobs: Vec<OneJob>,
    /// What holds it back, in a sentence.
    pub(super) bottleneck: Option<String>,
    /// Currency of its costs; `None` without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) currency: Option<String>,
    /// Warnings of its report: what its figures do not show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    /// What its report says of prices, run, settings and defaults.
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl One {
    /// Returns the job of this name.
    pub(super) fn job(&self, name: &str) -> Option<&OneJob> {
        self.jobs.iter().find(|job| job.name == name)
    }
}

/// Parts of a report that a comparison keeps as they are.
const KEPT: [&str; 5] = ["cost", "seed", "replications", "settings", "assumed"];

/// A job of one of them.
#[derive(Serialize, Deserialize)]
pub(super) struct OneJob {
    pub(super) name: String,
    pub(super) figures: Vec<Shown>,
    /// Causes of stalls with their shares of time, the largest first.
    pub(super) causes: Vec<(String, f64)>,
    /// Why the run is too short to show the long run, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) too_short: Option<String>,
}

/// A figure of a job.
#[derive(Serialize, Deserialize, Clone)]
pub(super) struct Shown {
    pub(super) metric: String,
    pub(super) mean: Option<f64>,
    pub(super) ci95: Option<[f64; 2]>,
}

pub(super) fn execute(compare: &Compare, quiet: bool) -> Result<(), Failure> {
    let paths = Paths::default().writes("--figure", compare.figure.as_ref())?.prints(true);
    let picture = compare.figure.as_deref().map(run_figure::kind).transpose()?;
    paths.reads_all("the file", compare.files.iter().map(PathBuf::as_path)).check()?;
    let metrics = metrics(compare)?;
    let is_report =
        |path: &PathBuf| path.extension().is_some_and(|of| of.eq_ignore_ascii_case("json"));
    let (reports, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        compare.files.iter().partition(|path| is_report(path));
    let compared = match (reports.is_empty(), files.is_empty()) {
        (false, false) => {
            let what = "reports cannot be compared with scenarios";
            return Err(Failure::Input(format!(
                "cannot compare: {what}; run the scenarios, or name only reports"
            )));
        }
        (false, true) => {
            check_reports(compare)?;
            check_number(reports.len())?;
            let named = names(&reports);
            let all = reports.iter().zip(named).map(|(path, name)| of_report(path, name, &metrics));
            all.collect::<Result<Vec<One>, Failure>>()?
        }
        _ => simulated(compare, &files, &metrics, quiet)?,
    };
    let failed: Vec<Failure> = compared
        .iter()
        .filter_map(|one| {
            let why = one.failed.as_ref()?;
            Some(Failure::Input(format!("cannot run `{}`: {why}", one.name)))
        })
        .collect();
    let (version, command) = (env!("CARGO_PKG_VERSION").to_owned(), command_line::typed());
    let found = Compared { version, command, compared, metrics };
    match compare.format {
        ReportFormat::Json => {
            let text = serde_json::to_string_pretty(&found)
                .map_or_else(|_| String::new(), |text| text + "\n");
            output::stdout(text.as_bytes())?;
        }
        ReportFormat::Text => output::text(&text(&found))?,
    }
    if let (Some(path), Some(kind)) = (&compare.figure, picture) {
        match compare_figure::figure(&found, !compare.columns.is_empty()) {
            Ok((figure, left_out)) => {
                run_figure::save(path, kind, &figure)?;
                left_out.iter().for_each(|what| output::warn(quiet, what));
                output::warn(quiet, &format!("wrote {}", shown(path)));
            }
            Err(why) => output::warn(quiet, &format!("{} was not drawn: {why}", shown(path))),
        }
    }
    Failure::all(failed)
}

/// Refuses options that change scenarios where only reports are read.
fn check_reports(compare: &Compare) -> Result<(), Failure> {
    let options = &compare.options;
    let given = [
        ("--option", !compare.option.is_empty()),
        ("--set", options.changes.0.iter().any(|of| matches!(of, KeyChange::Set(_)))),
        ("--unset", options.changes.0.iter().any(|of| matches!(of, KeyChange::Unset(_)))),
        ("--profile", options.profile.is_some()),
        ("--threads", options.threads.is_some()),
    ];
    let given = given.into_iter().find_map(|(name, is_given)| is_given.then_some(name));
    given.map_or(Ok(()), |name| {
        let what = format!("reports are not simulated, so `{name}` would have no effect");
        let remedy = format!("leave out `{name}`, or name the scenarios");
        Err(Failure::Input(format!("cannot compare: {what}; {remedy}")))
    })
}

/// Refuses to compare too many.
fn check_number(number: usize) -> Result<(), Failure> {
    if number <= MOST {
        return Ok(());
    }
    let what = format!("{number} are compared, and at most {MOST} can be");
    Err(Failure::Input(format!("cannot compare: {what}; leave some out")))
}

/// Returns the figures to compare.
fn metrics(compare: &Compare) -> Result<Vec<&'static Metric>, Failure> {
    let swept = || metric::all().iter().filter(|metric| metric.is_swept());
    if compare.columns.is_empty() {
        return Ok(USUAL.iter().filter_map(|name| metric::of_column(name)).collect());
    }
    let one = |name: &String| {
        let known: Vec<&str> = swept().map(|metric| &*metric.column).collect();
        let found = swept().find(|metric| metric.column == *name);
        found.ok_or_else(|| {
            Failure::Input(format!(
                "--columns: there is no column {name:?}; {}",
                choose(name, &known)
            ))
        })
    };
    compare.columns.iter().map(one).collect()
}

/// Returns a name for each file: without its directory and ending, if that tells them apart; a file that is named again has a number.
fn names(files: &[&PathBuf]) -> Vec<String> {
    let short = |path: &&PathBuf| {
        path.file_stem().map_or_else(|| shown(path), |stem| stem.to_string_lossy().into_owned())
    };
    let names: Vec<String> = files.iter().map(short).collect();
    let mut sorted = names.clone();
    sorted.sort();
    sorted.dedup();
    match sorted.len() == names.len() {
        true => names,
        false => {
            let named = |(index, path): (usize, &&PathBuf)| match files[..index]
                .iter()
                .filter(|other| *other == path)
                .count()
            {
                0 => shown(path),
                before => format!("{} ({})", shown(path), before + 1),
            };
            files.iter().enumerate().map(named).collect()
        }
    }
}

/// Simulates each scenario file or, with a single file, each of its options.
fn simulated(
    compare: &Compare,
    files: &[&PathBuf],
    metrics: &[&'static Metric],
    quiet: bool,
) -> Result<Vec<One>, Failure> {
    let open = |path: &Path| Opened::from_arguments(path, &compare.options, Vec::new());
    let given = options::parse(&compare.option)?;
    // Each name with the index of its file and its changes: standard input can be read only once.
    let mut all: Vec<(String, usize, Vec<Override>)> = Vec::new();
    let mut files_read: Vec<Opened> = Vec::new();
    if files.iter().filter(|path| path.as_path() == Path::new("-")).count() > 1 {
        let what = "standard input can be read only once, and `-` is named again";
        return Err(Failure::Input(format!("cannot compare: {what}; name files")));
    }
    if let [one] = files {
        let opened = open(one)?;
        let options = match given.is_empty() {
            true => opened.source().file.plan(opened.overrides())?.options,
            false => given,
        };
        if options.is_empty() {
            let what = "there is one scenario and no option of it";
            let remedy = "name another scenario, or write `--option NAME=KEY=VALUE`";
            return Err(Failure::Input(format!("cannot compare: {what}; {remedy}")));
        }
        for PlanOption { name, changes } in options {
            all.push((name, 0, changes));
        }
        files_read.push(opened);
    } else {
        if !given.is_empty() {
            let what = "`--option` changes one scenario, and several are named";
            return Err(Failure::Input(format!(
                "cannot compare: {what}; name one, or leave out `--option`"
            )));
        }
        check_number(files.len())?;
        for (index, (path, name)) in files.iter().zip(names(files)).enumerate() {
            all.push((name, index, Vec::new()));
            files_read.push(open(path)?);
        }
    }
    check_number(all.len())?;
    for opened in &files_read {
        opened.resolve().ok();
        let paths = Paths::default().writes("--figure", compare.figure.as_ref())?;
        opened.read_by(paths).check()?;
    }
    let threads = compare.options.threads.map_or_else(limits::threads, usize::from);
    // An option or a file that is refused leaves the others; the exit code says so.
    let resolved: Vec<Result<Scenario, Failure>> = all
        .iter()
        .map(|(_, index, changes)| {
            let opened = &files_read[*index];
            let overrides: Vec<Override> =
                opened.overrides().iter().chain(changes).cloned().collect();
            let scenario = opened.source().file.resolve(&overrides)?;
            let kept = threads.max(scenario.run.replications as usize);
            let together = Together { at_once: threads, kept, threads: true };
            memory::check(&format!("`{}`", scenario.name), &scenario, together)?;
            Ok(scenario)
        })
        .collect();
    let pool = points::pool(compare.options.threads)?;
    let runs: u64 = resolved.iter().flatten().map(|of| u64::from(of.run.replications)).sum();
    let watch = Watch::new(runs, 0, quiet);
    let mut found = Vec::new();
    for ((name, ..), scenario) in all.iter().zip(&resolved) {
        found.push(match scenario {
            Err(failure) => One::failed(name, in_one_line(failure)),
            Ok(scenario) => match outcomes(scenario, &pool, &watch)? {
                Err(why) => One::failed(name, why),
                Ok(outcomes) => {
                    let report = report::summarise(scenario, &outcomes, 0.0);
                    let json = serde_json::to_value(&report).unwrap_or_default();
                    One::of(name.clone(), &json, metrics)
                }
            },
        });
    }
    watch.end();
    Ok(found)
}

/// Returns a failure in one line: the first problem with its remedy.
fn in_one_line(failure: &Failure) -> String {
    match failure {
        Failure::Problems(problems) => problems.in_one_line(),
        other => other.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Simulates all replications; the inner error says why one of them does not end.
fn outcomes(
    scenario: &Scenario,
    pool: &rayon::ThreadPool,
    watch: &Watch,
) -> Result<Result<Vec<Outcome>, String>, Failure> {
    let options = sim::Options { stop: Some(interrupt::flag()), ..sim::Options::default() };
    let one = |replication: u32| {
        let outcome = sim::run(scenario, replication, &options).whole();
        watch.done();
        outcome.map_err(|why| why.to_string())
    };
    let all: Result<Vec<Outcome>, String> =
        pool.install(|| (0..scenario.run.replications).into_par_iter().map(one).collect());
    match interrupt::raised() {
        true => Err(Failure::Interrupted("nothing was compared".to_owned())),
        false => Ok(all),
    }
}

fn of_report(path: &Path, name: String, metrics: &[&'static Metric]) -> Result<One, Failure> {
    Ok(One::of(name, &input::report(path)?, metrics))
}

impl One {
    fn failed(name: &str, why: String) -> One {
        One {
            name: name.to_owned(),
            failed: Some(why),
            jobs: Vec::new(),
            bottleneck: None,
            currency: None,
            warnings: Vec::new(),
            rest: Map::new(),
        }
    }

    /// Returns what a JSON report has of the metrics.
    fn of(name: String, report: &Value, metrics: &[&'static Metric]) -> One {
        let text = |path: &str| report.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let jobs = report.get("jobs").and_then(Value::as_array).into_iter().flatten();
        let job = |job: &Value| OneJob {
            name: job.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            figures: metrics.iter().map(|metric| figure(metric, report, job)).collect(),
            causes: causes(job),
            too_short: job.pointer("/length/why").and_then(Value::as_str).map(str::to_owned),
        };
        let warnings = report.get("warnings").and_then(Value::as_array).into_iter().flatten();
        One {
            failed: None,
            jobs: jobs.map(job).collect(),
            bottleneck: text("/verdict/text")
                .or_else(|| text("/bottleneck/text"))
                .and_then(first_line),
            currency: text("/cost/currency"),
            warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
            rest: KEPT
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), report.get(*key)?.clone())))
                .collect(),
            name,
        }
    }
}

/// Returns the sentence that a verdict begins with: a table of what would help may follow.
fn first_line(text: String) -> Option<String> {
    text.lines().next().map(str::to_owned)
}

fn figure(metric: &Metric, report: &Value, job: &Value) -> Shown {
    let whole = || metric.json.split('.').try_fold(report, |at, key| at.get(key)).cloned();
    let found = match metric.json.starts_with("jobs.") || metric.json.is_empty() {
        true => diff::figure(metric, job),
        false => whole(),
    };
    let (mean, ci95) = found.map_or((None, None), |of| (diff::mean(&of), diff::interval(&of)));
    Shown { metric: metric.column.to_string(), mean, ci95 }
}

/// Returns the causes of a job's stalls with their shares of time, the largest first.
fn causes(job: &Value) -> Vec<(String, f64)> {
    let all = job.get("stall").and_then(Value::as_object).into_iter().flatten();
    let known = all.filter(|(cause, _)| *cause != "total");
    let mut causes: Vec<(String, f64)> =
        known.filter_map(|(cause, of)| Some((cause.clone(), diff::mean(of)?))).collect();
    causes.retain(|(_, share)| *share > 0.0);
    causes.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    causes
}
