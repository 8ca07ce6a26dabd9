//! `forebay validate`: measures how wrong predictions are.

use super::command_line;
use super::interrupt::Late;
use super::memory::{self, Together};
use super::paths::Paths;
use super::validate_points::predictions;
use super::{
    Failure, input, interrupt, output, points, run_figure, validate_figure, validate_measured,
};
use crate::cli::{ReportFormat, Validate};
use crate::input::shown;
use crate::live::{self, Settings, Source, Store};
use crate::profile::Profile;
use crate::report;
use crate::scenario::{Override, Problems, Scenario, ScenarioFile, Value};
use crate::validate::{
    self, LiveRun, Observed, Plan, PlanPoint, Point, Refit, Runs, Telling, Verdict, measure,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn execute(wanted: &Validate, quiet: bool) -> Result<(), Failure> {
    match (&wanted.plan, &wanted.measured) {
        (Some(plan), None) => live(wanted, plan, quiet),
        (None, Some(rows)) => points::pool(None)?.install(|| validate_measured::execute(wanted, rows)),
        _ => Err(Failure::Input(
            "name either a plan to run on this machine, or measured rows with --measured FILE and their scenario with --scenario FILE"
                .to_owned(),
        )),
    }
}

/// A scenario and the profile of the machine that runs it.
pub(super) struct Base {
    pub(super) file: ScenarioFile,
    source: PathBuf,
    pub(super) profile: Profile,
    /// The override `profile=…`; `None` if the scenario's own key holds.
    named: Option<Override>,
}

impl Base {
    /// Opens a scenario with the profile of `--profile`, otherwise with the one that the scenario names; if there is neither, with
    /// an empty profile unless `needed`.
    pub(super) fn open(
        scenario: &Path,
        profile: Option<&Path>,
        needed: bool,
    ) -> Result<Base, Failure> {
        let file = ScenarioFile::open(scenario)?;
        let source = scenario.to_owned();
        let Some(path) = profile else {
            return match file.profile(&[])? {
                Some(own) => Ok(Base { file, source, profile: (*own).clone(), named: None }),
                None if needed => {
                    let what =
                        "which machine? give --profile FILE, as `forebay calibrate` wrote it";
                    Err(Failure::Input(what.to_owned()))
                }
                None => Ok(Base { file, source, profile: Profile::default(), named: None }),
            };
        };
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let profile = Profile::open(&path).map_err(|error| Failure::Input(error.to_string()))?;
        // The profile is read again for each point, here and in the processes of live runs.
        let once = input::is_read_once(&path);
        let path = if once { input::in_memory(&profile.to_toml())? } else { path };
        let value = Value::from(path.to_string_lossy().as_ref());
        let named = Some(Override::new("profile".to_owned(), value));
        Ok(Base { file, source, profile, named })
    }

    /// Adds the scenario and the files that it names to the files that the command reads.
    pub(super) fn read_by(&self, paths: Paths) -> Paths {
        // What is wrong with the scenario is reported at its first point.
        self.file.resolve(self.named.as_slice()).ok();
        let paths = paths.reads("the scenario", &self.source);
        paths.reads_all("the scenario's input", self.file.files_read())
    }

    pub(super) fn overrides(&self, set: &[String]) -> Result<Vec<Override>, Problems> {
        let mut all: Vec<Override> =
            set.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        all.extend(self.named.clone());
        Ok(all)
    }
}

/// Returns what the command writes: to standard output and, unless it only predicts, into its directory.
pub(super) fn paths(wanted: &Validate) -> Paths {
    let paths = Paths::default().prints(true);
    if wanted.predict_only {
        return paths;
    }
    let files = ["runs.jsonl", "points.json", "parity.svg"].map(|name| wanted.output.join(name));
    files.into_iter().fold(paths, |paths, file| paths.writes_below("--output", file))
}

fn live(wanted: &Validate, path: &Path, quiet: bool) -> Result<(), Failure> {
    let text = input::toml(path)?;
    let mut plan = Plan::parse(path, &text).map_err(|error| Failure::Input(error.to_string()))?;
    let base = Base::open(&plan.scenario, wanted.profile.as_deref(), true)?;
    base.read_by(paths(wanted).reads("the plan", path)).check()?;
    place_crossovers(&base, &mut plan)?;
    let pool = points::pool(None)?;
    let sets = plan.points.iter().map(|point| &point.set);
    check_memory(&base, sets, pool.current_num_threads())?;
    // Points may name files, too, which are known now that all points have been read.
    base.read_by(paths(wanted)).check()?;
    if wanted.predict_only {
        // The predicted machine may be another one than this, so a refused live run is only a warning.
        for (why, points) in refused_here(&base, plan.points.iter(), wanted)? {
            let points = match &points[..] {
                [one] => format!("point {one:?}"),
                several => format!("{} of {} points", several.len(), plan.points.len()),
            };
            output::warn(quiet, &format!("{points} cannot be run here: {why}"));
        }
        let runs = vec![Runs::default(); plan.points.len()];
        let points = pool.install(|| predictions(&base, &plan, runs))?;
        return show(wanted, &points, Fitted::default());
    }
    fs::create_dir_all(&wanted.output)
        .map_err(|error| Failure::unwritable(&wanted.output, &error))?;
    let mut journal = Journal::open(&wanted.output.join("runs.jsonl"))?;
    let known = std::mem::take(&mut journal.known);
    // Report what is wrong with a point before hours of runs.
    let lacking = validate::lacking(&plan, &known);
    if let Some((why, _)) = refused_here(&base, lacking, wanted)?.into_iter().next() {
        return Err(why.into());
    }
    let bar = progress(validate::least_runs(&plan), quiet);
    let mut store = Store::default();
    let run = |point: &PlanPoint, attempt: u32| {
        bar.set_message(point.name.clone());
        let observed = observe(&base, point, wanted, &mut store)?;
        bar.inc(1);
        let (name, set) = (point.name.clone(), point.set.clone());
        let run = LiveRun { point: name, set, attempt, observed };
        journal.keep(&run)?;
        Ok(run)
    };
    let runs = measure(&plan, &known, run);
    bar.finish_and_clear();
    let runs = runs.map_err(|failure: Failure| match failure {
        Failure::Interrupted(_) => {
            let kept = format!("finished runs are kept in {}", shown(&journal.path));
            Failure::Interrupted(format!(
                "{kept}; run the same command again to continue with these runs"
            ))
        }
        other => other,
    })?;
    let kept = format!("finished runs are kept in {}", shown(&journal.path));
    interrupt::when_late(Late::End(format!(
        "{kept}; run the same command again to continue with these runs"
    )));
    let points = pool.install(|| predictions(&base, &plan, runs))?;
    finish(wanted, &points, Fitted::default())
}

/// Returns why this machine refuses live runs of points: each reason once, with the names of its points.
fn refused_here<'p>(
    base: &Base,
    points: impl Iterator<Item = &'p PlanPoint>,
    wanted: &Validate,
) -> Result<Vec<(live::Failure, Vec<&'p str>)>, Failure> {
    let mut found: Vec<(live::Failure, Vec<&str>)> = Vec::new();
    for point in points {
        let scenario = base.file.resolve(&base.overrides(&point.set)?)?;
        let refused = with_settings(wanted, |settings| Ok(live::check(&scenario, settings).err()))?;
        let Some(why) = refused else { continue };
        match found.iter_mut().find(|(known, _)| known.to_string() == why.to_string()) {
            Some((_, names)) => names.push(&point.name),
            None => found.push((why, vec![&point.name])),
        }
    }
    Ok(found)
}

/// Checks that the simulation that needs the most memory fits into memory, before any simulation allocates it.
pub(super) fn check_memory<'s>(
    base: &Base,
    sets: impl Iterator<Item = &'s Vec<String>>,
    at_once: usize,
) -> Result<(), Failure> {
    let together = Together { at_once, kept: at_once, threads: false };
    let mut largest: Option<Scenario> = None;
    for set in sets {
        let scenario = base.file.resolve(&base.overrides(set)?)?;
        let needs = |of: &Scenario| together.needs(of);
        if largest.as_ref().is_none_or(|largest| needs(largest) < needs(&scenario)) {
            largest = Some(scenario);
        }
    }
    match largest {
        Some(of) => memory::check(&format!("`{}`", of.name), &of, together),
        None => Ok(()),
    }
}

/// Sets the step time of each point that has `crossover`: to the value of `crossover` times the time that the loader needs for a
/// step's samples.
fn place_crossovers(base: &Base, plan: &mut Plan) -> Result<(), Failure> {
    for point in &mut plan.points {
        let Some(factor) = point.crossover else { continue };
        let overrides = base.overrides(&point.set)?;
        let step = validate::step_at_crossover(&base.file, &overrides, &base.profile, factor)?;
        point.set.push(step.ok_or_else(|| nothing(&point.name))?);
    }
    Ok(())
}

/// Makes one live run of a point and returns what was measured.
fn observe(
    base: &Base,
    point: &PlanPoint,
    wanted: &Validate,
    store: &mut Store,
) -> Result<Observed, Failure> {
    let scenario = base.file.resolve(&base.overrides(&point.set)?)?;
    let mut overrides = base.overrides(&point.set)?;
    overrides.push(Override::new("run.replications", Value::from(1_u32)));
    let scenario = crate::scenario::Scenario {
        run: crate::scenario::Run { replications: 1, ..scenario.run.clone() },
        ..scenario
    };
    let name = base.source.to_string_lossy().into_owned();
    let source = Source { name, text: base.file.text().to_owned(), overrides };
    let mut outcomes = Vec::new();
    with_settings(wanted, |settings| {
        Ok(live::run(&scenario, &source, settings, store, &mut outcomes, &mut |_| {})?)
    })?;
    let report = report::summarise(&scenario, &outcomes, 0.0);
    Observed::from_report(&report).ok_or_else(|| {
        Failure::Input(format!(
            "point {:?} ended before its first step; write a longer run for this point",
            point.name
        ))
    })
}

/// Calls `act` with the settings of a live run and returns its result.
fn with_settings<R>(
    wanted: &Validate,
    act: impl FnOnce(&Settings<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let executable = std::env::current_exe().map_err(|error| {
        Failure::Machine(format!("cannot find the path of the program `forebay` itself: {error}"))
    })?;
    act(&Settings {
        directory: wanted.directory.as_deref().unwrap_or(Path::new(".")),
        data: None,
        named: wanted.directory.is_some(),
        trace: false,
        executable: &executable,
        stop: interrupt::careful_flag(),
    })
}

pub(super) fn nothing(point: &str) -> Failure {
    Failure::Input(format!(
        "point {point:?} completes no step in the simulation; write a longer run for this point"
    ))
}

/// What rows told before they were predicted.
#[derive(Clone, Copy, Default)]
pub(super) struct Fitted<'a> {
    pub(super) refit: Option<&'a Refit>,
    /// The run that would tell the explanations apart.
    pub(super) telling: Option<&'a Telling>,
    /// What `next()` costs the loops of rows for each batch although it is ready, if the rows say it [s].
    pub(super) next_time: Option<f64>,
}

/// Prints the table of points and the verdict.
fn show(wanted: &Validate, points: &[Point], fitted: Fitted<'_>) -> Result<(), Failure> {
    let Fitted { refit, telling, next_time } = fitted;
    match wanted.format {
        ReportFormat::Text => {
            let told = refit.map(|refit| validate::refitted(refit, telling)).unwrap_or_default();
            let told = told + &next_time.map(validate::next_time_text).unwrap_or_default();
            output::text(&(told + &validate::render(points, output::width())))
        }
        ReportFormat::Json => {
            let verdict = Verdict::from_points(points);
            let value = serde_json::json!({ "fitted": refit, "telling": telling, "next_time": next_time, "points": points, "verdict": verdict, "version": env!("CARGO_PKG_VERSION"), "command": command_line::typed() });
            output::stdout(format!("{value:#}\n").as_bytes())
        }
    }
}

/// Writes the parity plot and the points, and prints the table. Returns an error if the mean error exceeds the tolerance.
pub(super) fn finish(
    wanted: &Validate,
    points: &[Point],
    fitted: Fitted<'_>,
) -> Result<(), Failure> {
    fs::create_dir_all(&wanted.output)
        .map_err(|error| Failure::unwritable(&wanted.output, &error))?;
    let figure = validate_figure::parity(points);
    let path = wanted.output.join("parity.svg");
    run_figure::save(&path, run_figure::Kind::Svg, &figure)?;
    let table = wanted.output.join("points.json");
    let json = serde_json::to_vec_pretty(points).unwrap_or_default();
    output::file(&table, |to| to.write_all(&json))?;
    show(wanted, points, fitted)?;
    let Some(tolerance) = wanted.tolerance else { return Ok(()) };
    match Verdict::from_points(points) {
        Some(verdict) if verdict.mean_error <= tolerance => Ok(()),
        Some(verdict) => Err(Failure::Check(format!(
            "the mean error is {:.1} %, more than --tolerance allows ({:.1} %)",
            100.0 * verdict.mean_error,
            100.0 * tolerance
        ))),
        None => Err(Failure::Check(
            "no held-out point could be used, so the error is unknown".to_owned(),
        )),
    }
}

/// File of the finished live runs, one JSON object per line.
struct Journal {
    path: PathBuf,
    file: fs::File,
    known: Vec<LiveRun>,
}

impl Journal {
    fn open(path: &Path) -> Result<Journal, Failure> {
        let unwritable = |error: std::io::Error| Failure::unwritable(path, &error);
        let text = input::text_if_there(path, input::RECORDED)?.unwrap_or_default();
        // A last line that was cut off is not a run.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let foreign = |line: usize, why: &str| {
            let file = shown(path);
            Failure::Input(format!(
                "cannot use {file}: line {line} does not describe a live run{why}; name another --output"
            ))
        };
        let mut known = Vec::new();
        for (index, line) in text[..whole].lines().enumerate() {
            let run = serde_json::from_str(line);
            known.push(run.map_err(|error| foreign(index + 1, &format!(" ({error})")))?);
        }
        if !may_be_cut_off(&text[whole..]) {
            return Err(foreign(text[..whole].lines().count() + 1, ""));
        }
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(unwritable)?;
        file.set_len(whole as u64).map_err(unwritable)?;
        Ok(Journal { path: path.to_owned(), file, known })
    }

    fn keep(&mut self, run: &LiveRun) -> Result<(), Failure> {
        let line = serde_json::to_string(run).unwrap_or_default() + "\n";
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| Failure::unwritable(&self.path, &error))
    }
}

/// Returns whether `text` may be the beginning of a line that describes a live run.
fn may_be_cut_off(text: &str) -> bool {
    let begin = "{\"point\":";
    text.starts_with(begin) || begin.starts_with(text)
}

fn progress(runs: u64, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(runs), target);
    let template = "{bar:30} {pos}/{len} live runs, {eta} left; {msg}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
