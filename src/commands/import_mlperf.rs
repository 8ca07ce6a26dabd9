//! `forebay import mlperf`: a folder of results of MLPerf Storage becomes a scenario, a measured row, and an explanation.

use super::import::csv_row;
use super::{Failure, input, output};
use crate::cli::{Mlperf, MlperfFormat};
use crate::import::dlio::{self, Beside, Deployment};
use crate::import::mlperf::{
    self, ClientHost, Explained, MOST_RANKS, Round, Run, RunTexts, client_host, explain,
};
use crate::input::printable_line;
use crate::report::format::{bytes, number, rate, seconds, share};
use crate::scenario::ScenarioFile;
use crate::stats::mean;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How deep runs are looked for below the folder, and how many folders are looked into.
const DEEPEST: usize = 6;
const MOST_FOLDERS: usize = 20_000;
/// Folders within a run's that may have its configuration; the run's own is the last.
const CONFIGURATIONS: [&str; 5] = ["configs", "dlio_config", ".hydra", "hydra_config", ""];
/// Points of utilisation that ranks lack because they waited for batches, from which on a storage is taken to be its run's limit.
const WAITED: f64 = 1.0;
/// Share of the bandwidth above which a storage is taken to be its run's limit.
const FULL: f64 = 0.97;

pub(super) fn execute(wanted: &Mlperf, quiet: bool) -> Result<(), Failure> {
    let host = wanted.system.as_deref().map(described).transpose()?.unwrap_or_default();
    let mut run = whole(&wanted.folder, quiet)?;
    run.cores = host.cores.or(run.cores);
    let found = Found { nic: host.nic, ..Found::of(&run) };
    match wanted.format {
        MlperfFormat::Text => output::stdout(text(&wanted.folder, &run, &found).as_bytes()),
        MlperfFormat::Json => output::stdout(format!("{:#}\n", as_json(&run, &found)).as_bytes()),
        MlperfFormat::Scenario => {
            let text = found.scenario(&run, &wanted.folder);
            let checked = ScenarioFile::parse("imported", text.clone());
            checked.and_then(|file| file.resolve(&[])).map_err(|problems| {
                refuse(&wanted.folder, format!("its scenario is refused: {problems}"))
            })?;
            output::stdout(text.as_bytes())
        }
        MlperfFormat::Csv => output::stdout(row(&run)?.as_bytes()),
    }
}

fn refuse(folder: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("cannot use {}: {what}", input::name(folder)))
}

/// Returns the client host that a file describes.
fn described(path: &Path) -> Result<ClientHost, Failure> {
    client_host(&input::text(path)?).map_err(|why| refuse(path, why))
}

/// Returns the run of a folder; several runs of one workload on one system become one, with the epochs of all.
fn whole(folder: &Path, quiet: bool) -> Result<Run, Failure> {
    let folders = runs_below(folder)?;
    if folders.is_empty() {
        let what = "it has no `summary.json`, and no folder below it has one; name the folder of a run, or of all runs of a result";
        return Err(refuse(folder, what));
    }
    let mut known: BTreeMap<String, (Run, PathBuf)> = BTreeMap::new();
    for at in &folders {
        let read = |texts| mlperf::read(&texts).map_err(|error| refuse(at, error));
        let run = match texts(at).and_then(read) {
            Ok(run) => run,
            // The other runs of the folder can still be read.
            Err(why) if folders.len() > 1 => {
                output::warn(quiet, &format!("{why}; the other runs are used"));
                continue;
            }
            Err(why) => return Err(why),
        };
        let key = kind(&run);
        match known.get_mut(&key) {
            None => {
                known.insert(key, (run, at.clone()));
            }
            Some((of, _)) => {
                of.utilisation.extend(run.utilisation);
                of.samples_per_second.extend(run.samples_per_second);
                of.durations.extend(run.durations);
                of.steps.extend(run.steps);
            }
        }
    }
    if known.len() > 1 {
        let list: Vec<String> = known
            .iter()
            .take(5)
            .map(|(key, (_, at))| format!("{key} in {}", input::name(at)))
            .collect();
        let more = if known.len() > 5 { "; …" } else { "" };
        let what = format!(
            "it has {} results; name the folder of one: {}{more}",
            known.len(),
            list.join("; ")
        );
        return Err(refuse(folder, what));
    }
    let only = known.into_values().next();
    only.map(|(run, _)| run).ok_or_else(|| refuse(folder, "none of its runs can be read"))
}

/// Returns what runs must have in common to be runs of one result, in words.
fn kind(run: &Run) -> String {
    let cores = run.cores.map_or(String::new(), |cores| format!(" of {cores} cores"));
    let hosts = number_of_hosts(run.hosts);
    let rules = match run.round {
        Round::CountsFirst => "v1.0",
        Round::LeavesOutFirst => "v2.0",
    };
    format!(
        "{} of {} s a step, batch {}, {} files, {} read threads, on {} accelerators and {hosts}{cores}, by the rules of {rules}",
        printable_line(&run.workload.name),
        run.workload.step.mean(),
        run.workload.batch,
        run.workload.files,
        run.workload.read_threads,
        run.accelerators,
    )
}

fn number_of_hosts(hosts: u32) -> String {
    if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") }
}

/// Returns the folders of runs at or below `folder`, in order of path.
fn runs_below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), 0)];
    let mut looked = 0;
    while let Some((at, depth)) = open.pop() {
        looked += 1;
        if looked > MOST_FOLDERS {
            let what = format!(
                "more than {MOST_FOLDERS} folders lie below it; name the folder of one result"
            );
            return Err(refuse(folder, what));
        }
        if at.join("summary.json").is_file() {
            found.push(at);
            continue;
        }
        let entries = match std::fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => {
                let what = format!("{error}; name the folder of a run, which has `summary.json`");
                return Err(refuse(folder, what));
            }
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            // Links may lead in circles; names that begin with a full stop are not runs.
            let is_folder = entry.file_type().is_ok_and(|of| of.is_dir());
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if is_folder && !hidden && depth < DEEPEST {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the files of a run.
fn texts(at: &Path) -> Result<RunTexts, Failure> {
    let configuration = CONFIGURATIONS.iter().map(|name| at.join(name));
    let Some(of) = configuration.into_iter().find(|of| of.join("config.yaml").is_file()) else {
        let what = "it has no `config.yaml`, alone or in `configs` or `dlio_config`: without it nothing says what was read";
        return Err(refuse(at, what));
    };
    let mut files = vec![input::text(&of.join("config.yaml"))?];
    if of.join("overrides.yaml").is_file() {
        files.push(input::text(&of.join("overrides.yaml"))?);
    }
    let epochs = ["per_epoch_stats.json", "0_per_epoch_stats.json"].map(|name| at.join(name));
    let epochs = epochs
        .iter()
        .find(|path| path.is_file())
        .map(|path| input::text_within(path, input::RECORDED))
        .transpose()?
        .filter(|text| !text.trim().is_empty());
    let output = |rank: u32| at.join(format!("{rank}_output.json"));
    let ranks = (0..MOST_RANKS).take_while(|rank| output(*rank).is_file());
    let outputs = ranks
        .map(|rank| input::text_within(&output(rank), input::RECORDED))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(RunTexts {
        summary: input::text(&at.join("summary.json"))?,
        epochs,
        configuration: files,
        // Files without content were not kept.
        outputs: if outputs.iter().any(String::is_empty) { Vec::new() } else { outputs },
    })
}

/// What a run tells about its system.
struct Found {
    /// Bandwidth of the storage [B/s], and whether the run shows that it has no more.
    bandwidth: f64,
    is_full: bool,
    /// Work beside computing of each rank, if the run shows it.
    beside: Option<Beside>,
    explained: Explained,
    /// Bandwidth of a host's NICs together [bit/s], if a description of the system was given.
    nic: Option<f64>,
}

impl Found {
    fn of(run: &Run) -> Found {
        let steady = run.bytes_per_second();
        let first = run.first_bandwidth();
        let bandwidth = first.unwrap_or(0.0).max(steady);
        let explained = explain(run);
        // Whether the storage limited the run: where step times are known, ranks that wait for batches show it. Elsewhere it is assumed if
        // the first batches, for which all workers read at once, came at the same bandwidth as the steady state.
        let is_full = match explained.waited {
            Some(points) => points > WAITED,
            None => first.is_some_and(|first| first.min(steady) > FULL * bandwidth),
        };
        // Where the storage has bandwidth to spare, a step takes what ranks do beside computing.
        let step = run.workload.step.mean();
        let over = run.steady_step() - step;
        let usual = dlio::beside(&run.workload.name, step).map(|(of, _)| of);
        let usual = usual.unwrap_or(Beside { work: 1e-3, threads: 1, ..Beside::default() });
        let slowest = usual.slowest(run.accelerators, run.hosts, run.cores.unwrap_or(64));
        let spare = (explained.waited.is_some() || first.is_some()) && !is_full;
        let beside = (spare && over > 0.0).then(|| usual.scaled(over / slowest));
        Found { bandwidth, is_full, beside, explained, nic: None }
    }

    fn scenario(&self, run: &Run, folder: &Path) -> String {
        let place = Deployment {
            accelerators: run.accelerators,
            hosts: run.hosts,
            cores: run.cores.unwrap_or(64),
            bandwidth: format!("{} B/s", self.bandwidth.round()),
            nic: self.nic.map(|nic| format!("{} Gbit/s", nic / 1e9)),
            beside: self.beside,
            start: run.start(self.bandwidth),
            source: format!("results in {}", printable_line(&input::name(folder))),
        };
        dlio::scenario(&run.workload, &place)
    }
}

/// Says whether the data set is as large as the rules ask: 500 steps an epoch, and five times the memory of all hosts.
fn data_set(run: &Run) -> String {
    let samples = run.workload.files.saturating_mul(run.workload.samples_per_file);
    let size = samples as f64 * run.workload.sample_size;
    let memory = run.memory.map_or(String::new(), |of| {
        let times = size / (of * f64::from(run.hosts));
        format!(", {} times the hosts' memory (5 asked)", number(times))
    });
    format!(
        "data set             {}, {} steps an epoch (500 asked){memory}\n",
        bytes(size),
        run.steps_of_epoch()
    )
}

fn text(folder: &Path, run: &Run, found: &Found) -> String {
    let Run { accelerators, hosts, utilisation, .. } = run;
    let (low, high) = range(utilisation);
    let epochs = match utilisation.len() {
        1 => "1 epoch".to_owned(),
        more => format!("{more} epochs"),
    };
    let rules = match run.round {
        Round::CountsFirst => "v1.0: samples per second count first steps",
        Round::LeavesOutFirst => "v2.0 and later: first steps count nowhere",
    };
    let nics = found.nic.map_or(String::new(), |nic| {
        let each = run.bytes_per_second() / f64::from(*hosts);
        format!(
            "NICs of a host       {}, used {} in the steady state\n",
            rate(nic / 8.0, "B"),
            share(8.0 * each / nic)
        )
    });
    let hosts = number_of_hosts(*hosts);
    let cores = run.cores.map_or(String::new(), |cores| format!(" of {cores} cores"));
    let first = run.first_batch().map_or("not known".to_owned(), |first| {
        format!("{}, mean over ranks and epochs", seconds(first))
    });
    let came = run
        .first_bandwidth()
        .map_or(String::new(), |of| format!("; first batches came at {}", rate(of, "B")));
    let parts: Vec<String> = found
        .explained
        .parts
        .iter()
        .map(|part| format!("  {:>5.1} points  {}\n", part.points, part.what))
        .collect();
    let storage = match found.is_full {
        true => format!("{}: the limit of this run", rate(found.bandwidth, "B")),
        false => format!("at least {}", rate(found.bandwidth, "B")),
    };
    format!(
        "{}: {accelerators} accelerators on {hosts}{cores}, {epochs} of {} steps\n\
         rules                {rules}\n{}\
         utilisation          {} [{}, {}]\n\
         samples per second   {:.2}\n\
         first batch          {first}\n\
         read                 {} in the steady state{came}\n\
         storage's bandwidth  {storage}\n{nics}\n\
         {} lacks {:.1} points, {}:\n{}\n\
         As a scenario: forebay import mlperf {} --format scenario > mine.toml\n",
        printable_line(&run.workload.name),
        run.steps_of_epoch(),
        data_set(run),
        share(found.explained.utilisation),
        share(low),
        share(high),
        mean(&run.samples_per_second).unwrap_or_default(),
        rate(run.bytes_per_second(), "B"),
        share(found.explained.utilisation),
        100.0 * (1.0 - found.explained.utilisation),
        found.explained.basis,
        parts.concat(),
        input::name(folder),
    )
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(0.0, f64::max))
}

fn as_json(run: &Run, found: &Found) -> serde_json::Value {
    let parts = found
        .explained
        .parts
        .iter()
        .map(|part| json!({ "what": part.what, "points": part.points }));
    json!({
        "workload": run.workload.name, "accelerators": run.accelerators, "hosts": run.hosts,
        "cores_per_host": run.cores, "nic_per_host": found.nic.map(|nic| nic / 8.0), "memory_per_host": run.memory, "steps_of_epoch": run.steps_of_epoch(),
        "counts_first_steps": run.round == Round::CountsFirst,
        "utilisation": run.utilisation, "samples_per_second": run.samples_per_second,
        "first_batch": run.first_batch(), "bytes_per_second": run.bytes_per_second(),
        "bandwidth": { "value": found.bandwidth, "is_full": found.is_full, "of_first_batches": run.first_bandwidth() },
        "explanation": { "parts": parts.collect::<Vec<_>>(), "basis": found.explained.basis },
    })
}

/// Returns a row for `validate --measured`: all steps but the first of the run, as the report of the scenario counts them, with the first
/// batches of later epochs where the run tells how long they took.
fn row(run: &Run) -> Result<String, Failure> {
    let steps = run.steps_of_epoch();
    let first = run.first_batch().map_or(run.steady_step(), |of| of + run.workload.step.mean());
    let epochs = run.workload.epochs.max(1) as f64;
    let later = epochs * (steps as f64 - 1.0);
    let step = ((epochs - 1.0) * first + later * run.steady_step()) / (epochs - 1.0 + later);
    let batch = f64::from(run.accelerators) * run.workload.batch as f64;
    csv_row(&[
        ("name", printable_line(&run.workload.name)),
        ("use", "check".to_owned()),
        ("steps", steps.to_string()),
        ("samples_per_second", (batch / step).to_string()),
        ("step_time", step.to_string()),
        ("stall", (1.0 - run.workload.step.mean() / step).to_string()),
    ])
}
