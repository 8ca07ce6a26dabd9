//! `forebay calibrate`: measures this machine.

use super::calibrate_output::{self, Header, Output};
use super::interrupt::Late;
use super::paths::Paths;
use super::progress::tick;
use super::{
    Failure, calibrate_table, cluster, input, interrupt, output, profile_text, profile_trust,
};
use crate::cli::Calibrate;
use crate::input::shown;
use crate::probe::gpu::Survey;
use crate::probe::{
    DeviceName, Event, List, Machine, Plan, Probe, ProbeError, Ruler, Runner, Seconds, Summary,
    Workspace,
};
use crate::profile::Host;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name and text of each built-in plan.
const PLANS: [(&str, &str); 4] = [
    ("quick", include_str!("../../calibrate/plans/quick.toml")),
    ("full", include_str!("../../calibrate/plans/full.toml")),
    ("gpu", include_str!("../../calibrate/plans/gpu.toml")),
    ("cluster", include_str!("../../calibrate/plans/cluster.toml")),
];

/// Plan of `--check`.
const CHECK: (&str, &str) = ("check", include_str!("../../calibrate/plans/check.toml"));

pub(super) fn execute(calibrate: &Calibrate, quiet: bool) -> Result<(), Failure> {
    let to_check = calibrate.check.as_deref().map(cluster::to_check).transpose()?;
    let (name, text) = match &to_check {
        Some(_) => (CHECK.0.to_owned(), CHECK.1.to_owned()),
        None => plan_text(&calibrate.plan)?,
    };
    let output = calibrate.check.as_deref().map(cluster::check_directory);
    let output = output.unwrap_or_else(|| calibrate.output.clone());
    let outputs = calibrate_output::FILES.map(|file| output.join(file));
    let built_in = PLANS.iter().any(|(name, _)| calibrate.plan == Path::new(name));
    let paths = Paths::default().prints(true);
    let paths = paths.reads_all("the plan", Some(&calibrate.plan).filter(|_| !built_in));
    let paths = paths.reads_below("--data", calibrate.data.as_ref());
    let write = |paths: Paths, file| paths.writes_below("--output", file);
    outputs.into_iter().fold(paths, write).check()?;
    let mut plan = Plan::parse(&name, &text).map_err(|error| Failure::Input(error.to_string()))?;
    train_on(&mut plan, &calibrate.device)?;
    let budget = budget(calibrate, &plan)?;
    let directory = calibrate.directory.clone().unwrap_or_else(working_directory);
    if plan.cluster.is_some() {
        // Ranks may have other working directories, and node-local ones are no shared storage.
        let directory = calibrate.directory.clone().unwrap_or_else(|| PathBuf::from("."));
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let wanted = cluster::Wanted {
            calibrate,
            plan: (name, text),
            parsed: plan,
            budget,
            directory,
            output,
            check: to_check,
        };
        return cluster::execute(&wanted, quiet);
    }
    let data = calibrate.data.as_deref();
    let machine = Machine::look(data.unwrap_or(&directory));
    let mut probes = plan.probes(machine.cores, data)?;
    select(&mut probes, &calibrate.only)?;

    let data = data.map(|data| fs::canonicalize(data).unwrap_or_else(|_| data.to_owned()));
    let header = Header { name: name.clone(), plan: text, machine: machine.words(), data };
    let mut out = Output::open(&calibrate.output, &header)?;
    let stop = interrupt::careful_flag();
    let (workspace, notes) = Workspace::create(&directory).map_err(unusable)?;
    notes.iter().for_each(|note| output::warn(quiet, note));
    let runner = Runner {
        rules: plan.trials,
        limits: plan.watch.limits(),
        cores: machine.cores,
        ruler: Ruler::measure(),
        seed: u64::from(plan.seed),
        workspace: &workspace,
        deadline: Instant::now() + budget,
        stop,
    };
    let mut progress = Progress::new(&probes, &plan, quiet);
    let run = runner.run(&mut probes, &mut out.journal, &mut |event| progress.show(&event));
    progress.bar.finish_and_clear();
    drop(workspace);
    let summary =
        run.map_err(|error| Failure::Machine(format!("{error}\n{}", kept(&out, calibrate))))?;
    if !interrupt::raised() {
        let kept = format!("samples are kept in {}", shown(&calibrate.output));
        interrupt::when_late(Late::End(format!("{kept}; the same command continues with them")));
    }
    let versions = if plan.measures_gpus() { Survey::look().versions() } else { BTreeMap::new() };
    finish(&summary, &out, &machine, versions, calibrate)
}

/// Returns the failure that the directory for files of probes cannot be used: the user's if another directory mends it.
fn unusable(error: ProbeError) -> Failure {
    match error.is_wrong_directory() {
        true => Failure::Input(error.to_string()),
        false => error.into(),
    }
}

/// Returns the message of a calibration that ends before its last trial: how many samples are saved, and where.
fn kept(out: &Output, calibrate: &Calibrate) -> String {
    let (count, place) = (out.journal.samples().len(), shown(&calibrate.output));
    format!("{count} samples are kept in {place}; the same command measures the rest")
}

/// Writes the profile and prints the table of results. Returns an error if the calibration was interrupted, or a probe failed or
/// measured nothing.
fn finish(
    summary: &Summary,
    out: &Output,
    machine: &Machine,
    versions: BTreeMap<String, String>,
    calibrate: &Calibrate,
) -> Result<(), Failure> {
    if summary.interrupted {
        return Err(Failure::Interrupted(kept(out, calibrate)));
    }
    let count = out.journal.samples().len();
    let place = shown(&calibrate.output);
    let host = Host { cores: machine.cores, memory: machine.memory };
    let profile = out.fit(machine.words(), host, versions);
    let file = shown(&out.profile());
    let mut text = calibrate_table::render(summary, machine);
    text.push_str(&profile_text::page_cache(&profile));
    text.push_str(&match out.write(&profile)? {
        true => format!("{count} samples are kept in {place}, the profile in {file}\n"),
        false => format!("{count} samples are kept in {place}; {file} is as it was\n"),
    });
    text.push_str(&profile_trust::line(&profile));
    output::text(&text)?;
    let missing = calibrate_table::missing(summary);
    let late = |(_, error): &(String, ProbeError)| matches!(error, ProbeError::Time);
    match (&summary.failures[..], missing) {
        (failures, Some(what)) if failures.iter().all(late) => Err(Failure::Check(what)),
        ([], _) => Ok(()),
        (failures, _) => {
            let lines = failures.iter().map(|(probe, error)| format!("{probe}: {error}"));
            let lines = lines.collect::<Vec<_>>().join("\n");
            Err(Failure::Machine(format!("{lines}\n{}", kept(out, calibrate))))
        }
    }
}

/// Returns the name and text of a plan: of a built-in plan if `path` is its name, otherwise of the file at `path`.
fn plan_text(path: &Path) -> Result<(String, String), Failure> {
    let ours = |(name, _): &&(&str, &str)| path == Path::new(name);
    if let Some((name, text)) = PLANS.iter().find(ours) {
        return Ok(((*name).to_owned(), (*text).to_owned()));
    }
    let text = input::toml(path)?;
    Ok((shown(path), text))
}

/// Makes the plan time training steps on `devices`, if there are any, instead of the plan's own devices.
fn train_on(plan: &mut Plan, devices: &[String]) -> Result<(), Failure> {
    if devices.is_empty() {
        return Ok(());
    }
    let Some(steps) = &mut plan.step else {
        let why = "--device: the plan times no training steps; add a table `[step]`";
        return Err(Failure::Input(why.to_owned()));
    };
    let mut named: Vec<DeviceName> = Vec::new();
    for name in devices {
        let device = DeviceName::try_from(name.clone());
        let device = device.map_err(|why| Failure::Input(format!("--device {why}")))?;
        if !named.contains(&device) {
            named.push(device);
        }
    }
    for step in &mut steps.0 {
        step.device = List(named.clone());
    }
    Ok(())
}

/// Returns the time limit for all probes together: from `--budget` if given, otherwise from the plan.
fn budget(calibrate: &Calibrate, plan: &Plan) -> Result<Duration, Failure> {
    let Some(text) = &calibrate.budget else { return Ok(plan.budget()) };
    let seconds = Seconds::try_from(text.clone());
    let seconds = seconds.map_err(|why| Failure::Input(format!("--budget: {why}")))?;
    Ok(seconds.duration())
}

/// Returns the directory for probe files if the user names none: `$SLURM_TMPDIR`, `$TMPDIR`, or the current directory.
fn working_directory() -> PathBuf {
    let named = ["SLURM_TMPDIR", "TMPDIR"].iter().filter_map(std::env::var_os);
    named.map(PathBuf::from).find(|path| path.is_dir()).unwrap_or_else(|| PathBuf::from("."))
}

/// Removes the probes that `only` does not name; keeps all probes if `only` is empty. Returns an error if the plan does not have
/// a named probe.
fn select(probes: &mut Vec<Box<dyn Probe>>, only: &[String]) -> Result<(), Failure> {
    let names: Vec<&str> = probes.iter().map(|probe| probe.name()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        let known = names.join(", ");
        return Err(Failure::Input(format!(
            "--only {unknown}: the plan has no such probe; choose from {known}"
        )));
    }
    probes.retain(|probe| only.is_empty() || only.iter().any(|name| name == probe.name()));
    Ok(())
}

/// Progress bar, drawn only on a terminal, and warnings.
struct Progress {
    bar: ProgressBar,
    quiet: bool,
    /// Name and estimated number of trials of each probe that has not started yet.
    expected: Vec<(&'static str, u64)>,
}

impl Progress {
    fn new(probes: &[Box<dyn Probe>], plan: &Plan, quiet: bool) -> Progress {
        let expected = probes.iter().map(|probe| {
            let rules = probe.rules(plan.trials);
            let each = u64::from(rules.warm_up) + rules.at_least.0 as u64;
            (probe.name(), probe.cells().len() as u64 * each)
        });
        let expected: Vec<_> = expected.collect();
        let all = expected.iter().map(|(_, trials)| trials).sum();
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(all), target);
        let style = "{bar:30} {pos} of {len} trials, {elapsed} elapsed, {eta} left: {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        tick(&bar);
        Progress { bar, quiet, expected }
    }

    fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Prepare(probe) => {
                let at = self.expected.iter().position(|(name, _)| name == probe);
                self.expected.drain(..=at.unwrap_or(0).min(self.expected.len().max(1) - 1));
                self.bar.set_message((*probe).to_owned());
            }
            Event::Trial(_, left) => {
                let later: u64 = self.expected.iter().map(|(_, trials)| trials).sum();
                self.bar.inc(1);
                self.bar.set_length(self.bar.position() + left + later);
            }
            Event::Note(probe, text) => self.say(&format!("{probe}: {text}")),
            Event::Failure(probe, error) => self.say(&format!("{probe}: {error}")),
        }
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| output::warn(self.quiet, text));
    }
}
