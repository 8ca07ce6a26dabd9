//! `forebay import`: reads what other programs measured.

use super::paths::Paths;
use super::{Failure, import_collective, import_mlperf, input, output};
use crate::cli::{Dlio, Import, ImportFormat, ImportFrom, Kineto};
use crate::import::collective::Benchmark;
use crate::import::dlio::{self, Deployment, DlioError, Said};
use crate::import::kineto::{self, Trace, TracedStep};
use crate::input::{FileKind, printable_line};
use crate::report::format;
use crate::scenario::{Problem, Problems, ScenarioFile};
use crate::stats::{mean, quantile};
use std::io::BufReader;
use std::path::{Path, PathBuf};

pub(super) fn execute(import: &Import, quiet: bool) -> Result<(), Failure> {
    let files: Vec<&Path> = match &import.from {
        ImportFrom::Kineto(wanted) => vec![&wanted.trace],
        ImportFrom::Dlio(wanted) => wanted.parts.iter().map(Path::new).collect(),
        ImportFrom::Mlperf(wanted) => {
            std::iter::once(&wanted.folder).chain(&wanted.system).map(PathBuf::as_path).collect()
        }
        ImportFrom::NcclTests(wanted)
        | ImportFrom::Osu(wanted)
        | ImportFrom::Imb(wanted)
        | ImportFrom::DeepBench(wanted) => wanted.files.iter().map(PathBuf::as_path).collect(),
    };
    Paths::default().prints(true).reads_all("the input", files).check()?;
    let collective = |of, wanted| import_collective::execute(of, wanted, quiet);
    match &import.from {
        ImportFrom::Kineto(trace) => kineto(trace, quiet),
        ImportFrom::Dlio(workload) => dlio(workload, quiet),
        ImportFrom::Mlperf(wanted) => import_mlperf::execute(wanted, quiet),
        ImportFrom::NcclTests(wanted) => collective(Benchmark::NcclTests, wanted),
        ImportFrom::Osu(wanted) => collective(Benchmark::Osu, wanted),
        ImportFrom::Imb(wanted) => collective(Benchmark::Imb, wanted),
        ImportFrom::DeepBench(wanted) => collective(Benchmark::DeepBench, wanted),
    }
}

/// Converts a DLIO workload into a scenario, checks that the scenario is valid, and prints it.
fn dlio(wanted: &Dlio, quiet: bool) -> Result<(), Failure> {
    let (overrides, files): (Vec<String>, Vec<String>) =
        wanted.parts.iter().cloned().partition(|part| is_override(part));
    if files.is_empty() {
        return Err(Failure::Input("name a workload file in addition to the overrides".to_owned()));
    }
    if wanted.accelerators < wanted.hosts {
        return Err(Failure::Input(format!(
            "{} accelerators are fewer than {} hosts; write at least one for each host",
            wanted.accelerators, wanted.hosts
        )));
    }
    let texts =
        files.iter().map(|file| input::text_or_standard_input(Path::new(file), input::WRITTEN));
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let given = Given { files: &files, texts: &texts, overrides: &overrides };
    let workload = dlio::read(&texts, &overrides).map_err(|error| given.refuse(&error))?;
    let names = files.iter().filter_map(|file| Path::new(file).file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let place = Deployment {
        accelerators: wanted.accelerators,
        hosts: wanted.hosts,
        cores: wanted.cores,
        nic: None,
        beside: None,
        start: None,
        bandwidth: wanted.bandwidth.clone(),
        source: names.iter().chain(&overrides).cloned().collect::<Vec<_>>().join(" "),
    };
    if !workload.left_out.is_empty() {
        let keys = workload.left_out.join(", ");
        output::warn(quiet, &format!("{}: not used: {keys}", given.names()));
    }
    let text = dlio::scenario(&workload, &place);
    let parsed = ScenarioFile::parse("imported", text.clone());
    parsed.and_then(|file| file.resolve(&[])).map_err(|problems| given.refuse_all(&problems))?;
    output::stdout(text.as_bytes())
}

/// Returns whether an argument is an override, `++workload.reader.batch_size=8` or `workload=unet3d`; paths may contain `=` too.
fn is_override(part: &str) -> bool {
    let key = part.split_once('=').map(|(key, _)| key);
    let of_hydra = |key: &str| {
        key == "workload" || key.starts_with('+') || key.contains('.') && !key.contains('/')
    };
    key.is_some_and(of_hydra) && !Path::new(part).exists()
}

/// The inputs of a workload: names of files, their texts, and overrides.
struct Given<'a> {
    files: &'a [String],
    texts: &'a [String],
    overrides: &'a [String],
}

impl Given<'_> {
    /// Returns the file and line, or the override, that gives `key` its value; the names of all files if none does.
    fn place(&self, key: &str) -> String {
        match dlio::said(self.texts, self.overrides, key) {
            Some(Said::File(file, line)) => format!("{}:{line}", self.name(file)),
            Some(Said::Override(number)) => printable_line(&self.overrides[number]),
            None => self.names(),
        }
    }

    /// Returns the name of a file for messages.
    fn name(&self, file: usize) -> String {
        input::name(Path::new(&self.files[file]))
    }

    /// Returns the names of all files for messages, separated by commas.
    fn names(&self) -> String {
        (0..self.files.len()).map(|file| self.name(file)).collect::<Vec<_>>().join(", ")
    }

    fn refuse(&self, error: &DlioError) -> Failure {
        let place = match error {
            DlioError::Value { key, .. } => self.place(key),
            DlioError::Malformed { file, line, .. } => {
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                format!("{}{line}", self.name(*file))
            }
            DlioError::Override(text) => printable_line(text),
            DlioError::OnlyGenerates => self.place("workflow.train"),
            DlioError::NoWorkload | DlioError::OnlyOverrides { .. } => self.names(),
        };
        let hint = match error {
            DlioError::Malformed { file, .. } => {
                input::other_kind(&self.texts[*file], FileKind::Dlio)
            }
            DlioError::NoWorkload => input::other_kind(&self.texts.concat(), FileKind::Dlio),
            _ => String::new(),
        };
        Failure::Input(format!("cannot use {place}: {error}{hint}"))
    }

    /// Reports the problems of the generated scenario, each at the option or workload key that its value came from, because the
    /// user has never seen the scenario's text.
    fn refuse_all(&self, problems: &Problems) -> Failure {
        let line = |problem: &Problem| {
            let Problem { key, what, remedy, .. } = problem;
            match dlio::source(key) {
                Some(option) if option.starts_with("--") => {
                    format!("cannot use {option}: {what}; {remedy}")
                }
                Some(source) => {
                    let place = self.place(source);
                    format!(
                        "cannot use {place}: `{source}` becomes the scenario's `{key}`: {what}; {remedy}"
                    )
                }
                None => {
                    let files = self.names();
                    format!(
                        "cannot use {files}: the scenario's `{key}` follows from it: {what}; {remedy}"
                    )
                }
            }
        };
        Failure::Input(problems.iter().map(line).collect::<Vec<_>>().join("\nforebay: "))
    }
}

/// Statistics of a traced run, without its warm-up steps.
struct Training {
    steps: usize,
    /// Mean, median and 95th percentile of step times [s].
    step_time: [f64; 3],
    /// Share of time spent waiting for the loader, or why it is not known.
    stall: Result<f64, &'static str>,
    samples_per_second: Option<f64>,
}

fn kineto(wanted: &Kineto, quiet: bool) -> Result<(), Failure> {
    let path = &wanted.trace;
    let keys = wanted.keys.iter().map(|text| key_and_value(text)).collect::<Result<Vec<_>, _>>()?;
    let trace = kineto::read(BufReader::new(input::open_within(path, input::TRACED)?)).map_err(
        |error| {
            let hint = input::other_kind(&input::beginning(path), FileKind::Kineto);
            Failure::Input(format!("cannot use {}: {error}{hint}", input::name(path)))
        },
    )?;
    for note in &trace.notes {
        output::warn(quiet, &format!("{}: {note}", input::name(path)));
    }
    let training = training(&trace, wanted).ok_or_else(|| {
        let longest = trace.ranks.iter().map(Vec::len).max().unwrap_or(0);
        let steps = if longest == 1 { "step" } else { "steps" };
        Failure::Input(format!(
            "cannot use {}: the trace has {longest} whole {steps}, and none is left after --warm-up {}; write --warm-up {}",
            input::name(path),
            wanted.warm_up,
            longest.saturating_sub(1)
        ))
    })?;
    let text = match wanted.format {
        ImportFormat::Text => text(&training),
        ImportFormat::Json => format!("{:#}\n", json(&training, &keys)),
        ImportFormat::Csv => row(&training, &keys)?,
    };
    output::stdout(text.as_bytes())
}

fn key_and_value(text: &str) -> Result<(&str, &str), Failure> {
    let wrong = || {
        Failure::Input(format!("--set {text:?} has no value; write KEY=VALUE, as in job.batch=64"))
    };
    text.split_once('=').ok_or_else(wrong)
}

fn training(trace: &Trace, wanted: &Kineto) -> Option<Training> {
    let steps = trace.ranks.iter().filter_map(|steps| steps.get(wanted.warm_up..));
    let steps: Vec<&TracedStep> = steps.flatten().collect();
    let mut times: Vec<f64> = steps.iter().map(|step| step.seconds).collect();
    let sum: f64 = times.iter().sum();
    let waited = steps.iter().fold(0.0, |sum, step| sum + step.waiting);
    times.sort_by(f64::total_cmp);
    let of = |q| quantile(&times, q).unwrap_or(0.0);
    Some(Training {
        steps: steps.len(),
        step_time: [mean(&times)?, of(0.5), of(0.95)],
        stall: match trace.unknown {
            Some(why) => Err(why),
            None => Ok(if sum > 0.0 { waited / sum } else { 0.0 }),
        },
        samples_per_second: wanted
            .batch
            .filter(|_| sum > 0.0)
            .map(|batch| f64::from(batch) * trace.ranks.len() as f64 * steps.len() as f64 / sum),
    })
}

fn text(training: &Training) -> String {
    let [mean, median, p95] = training.step_time.map(format::seconds);
    let rate = training.samples_per_second.map(|rate| format::rate(rate, "samples"));
    let rate = rate.unwrap_or_else(|| "unknown: give --batch".to_owned());
    let stall = match training.stall {
        Ok(stall) => format::share(stall),
        Err(why) => format!("not known: {why}"),
    };
    let steps = training.steps;
    format!(
        "steps                {steps}\nstep time            {mean} (median {median}, p95 {p95})\n\
         waiting for data     {stall}\nsamples per second   {rate}\n"
    )
}

fn json(training: &Training, keys: &[(&str, &str)]) -> serde_json::Value {
    let [mean, median, p95] = training.step_time;
    let keys: serde_json::Map<_, _> =
        keys.iter().map(|&(key, value)| (key.to_owned(), value.into())).collect();
    serde_json::json!({
        "keys": keys,
        "steps": training.steps,
        "step_time": { "mean": mean, "p50": median, "p95": p95 },
        "stall": training.stall.ok(),
        "samples_per_second": training.samples_per_second,
    })
}

/// Returns a row for `validate --measured` as CSV, with its header.
fn row(training: &Training, keys: &[(&str, &str)]) -> Result<String, Failure> {
    let rate = training.samples_per_second.map(|rate| rate.to_string()).unwrap_or_default();
    let measured = [
        ("steps", training.steps.to_string()),
        ("samples_per_second", rate),
        ("step_time", training.step_time[0].to_string()),
        ("stall", training.stall.map(|stall| stall.to_string()).unwrap_or_default()),
    ];
    let first = [("name", String::new()), ("use", "check".to_owned())].into_iter();
    let keys = keys.iter().map(|(key, value)| (*key, (*value).to_owned()));
    csv_row(&first.chain(keys).chain(measured).collect::<Vec<_>>())
}

/// Returns a header and a row of CSV.
pub(super) fn csv_row(columns: &[(&str, String)]) -> Result<String, Failure> {
    let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let values: Vec<&str> = columns.iter().map(|(_, value)| value.as_str()).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.write_record(&header).and_then(|()| writer.write_record(&values));
    let bytes = written
        .map_err(|e| e.to_string())
        .and_then(|()| writer.into_inner().map_err(|error| error.to_string()));
    let bytes = bytes.map_err(|error| Failure::Input(format!("cannot write the row: {error}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
