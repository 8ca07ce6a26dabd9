//! Converts YAML and overrides to a workload.

use super::keys::Keys;
use super::{Workload, checkpoints};
use crate::import::label;
use serde_json::{Map, Value};

/// Why a workload cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DlioError {
    /// The text is not valid YAML.
    #[error("not YAML: {what}")]
    Malformed {
        /// Number of the file.
        file: usize,
        /// Number of the line, from 1; `None` if it is unknown.
        line: Option<usize>,
        /// The problem.
        what: String,
    },
    /// The text is valid YAML, but no DLIO workload.
    #[error("not a DLIO workload: `dataset`, `train` and `checkpoint` are missing")]
    NoWorkload,
    /// The workload neither trains nor writes checkpoints.
    #[error(
        "`workflow.train` is false, and nothing writes checkpoints: this workload only generates data; give the \
         workload that trains on these data"
    )]
    OnlyGenerates,
    /// There are only overrides, as in `overrides.yaml` of a folder of results.
    #[error("only overrides{}; name the workload's file before them, or `config.yaml` beside this file", .group.as_ref().map(|group| format!(" of `{group}`")).unwrap_or_default())]
    OnlyOverrides {
        /// The workload that the overrides choose by its name.
        group: Option<String>,
    },
    /// A key has a value that cannot be simulated.
    #[error("`{key}` is {value}; {remedy}")]
    Value {
        /// Name of the key.
        key: String,
        /// Value of the key.
        value: String,
        /// How to fix it.
        remedy: String,
    },
    /// Text that is not a valid override.
    #[error("{0:?} is no override; write ++workload.reader.read_threads=8")]
    Override(String),
}

/// Limit for the nesting of keys in an override; Hydra's workloads have three levels.
const DEEPEST: usize = 16;

/// Reads a workload: files in order, where later files override earlier ones, then overrides in Hydra's notation,
/// `++workload.reader.read_threads=8`. A file may also be a list of overrides, as `overrides.yaml` in folders of results.
///
/// # Errors
/// If a file or override is invalid; the error names the key at fault.
pub fn read(files: &[String], overrides: &[String]) -> Result<Workload, DlioError> {
    let mut all = Value::Object(Map::new());
    let mut listed = Vec::new();
    for (file, text) in files.iter().enumerate() {
        match parsed(file, &label::unlabelled(text))? {
            Value::Array(list) => {
                listed.extend(list.iter().filter_map(Value::as_str).map(str::to_owned))
            }
            value => merge(&mut all, value),
        }
    }
    let mut unused = Vec::new();
    let mut group = None;
    for text in listed.iter().chain(overrides) {
        match text.split_once('=') {
            // Hydra's choice of a file; the user names this file.
            Some((key, name)) if ["workload", "+workload", "++workload"].contains(&key) => {
                group = Some(name.to_owned());
                unused.push(text.clone());
            }
            // Where Hydra itself writes.
            Some((key, _)) if key.trim_start_matches('+').starts_with("hydra.") => {
                unused.push(text.clone())
            }
            _ => change(&mut all, text)?,
        }
    }
    // Files of Hydra's groups contain only the sections of the workload.
    if let Some(inner) = all.get("workload").filter(|inner| inner.is_object()).cloned() {
        let outer = all.as_object().into_iter().flatten().filter(|(key, _)| *key != "workload");
        outer.for_each(|(key, value)| leaves(key, value, &mut unused));
        all = inner;
    }
    let has = |section: &str| all.get(section).is_some_and(Value::is_object);
    // A data set or training alone is enough: the rest has defaults.
    if !["dataset", "train", "checkpoint"].into_iter().any(has) {
        return Err(match listed.is_empty() && group.is_none() {
            true => DlioError::NoWorkload,
            false => DlioError::OnlyOverrides { group },
        });
    }
    workload(&all, unused)
}

fn parsed(file: usize, text: &str) -> Result<Value, DlioError> {
    serde_saphyr::from_str(text).map_err(|error| {
        // The first line has the message after its place; the other lines show the place again.
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let what = first.strip_prefix("error: ").unwrap_or(first);
        let what = what
            .split_once(": ")
            .filter(|(place, _)| place.starts_with("line "))
            .map_or(what, |of| of.1);
        let twice =
            what.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split_once(','));
        let what = match twice {
            Some((key, _)) => format!("`{key}` is there twice; keep one of them"),
            None => what.to_owned(),
        };
        let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
        DlioError::Malformed { file, line, what }
    })
}

/// Adds the path of each value under `value` to `all`, without nulls.
fn leaves(path: &str, value: &Value, all: &mut Vec<String>) {
    match value {
        Value::Object(inner) if !inner.is_empty() => {
            inner.iter().for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, all));
        }
        Value::Null => {}
        _ => all.push(path.to_owned()),
    }
}

/// Replaces the value `under` by `over`; if both are tables, merges them key by key.
fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// Applies one override.
fn change(all: &mut Value, text: &str) -> Result<(), DlioError> {
    let wrong = || DlioError::Override(text.to_owned());
    let (path, value) = text.split_once('=').ok_or_else(wrong)?;
    let path = path.trim_start_matches('+');
    let keys = path.strip_prefix("workload.").unwrap_or(path);
    if keys.split('.').any(str::is_empty) || keys.split('.').count() > DEEPEST {
        return Err(wrong());
    }
    let value: Value = serde_saphyr::from_str(value).map_err(|_| wrong())?;
    let nested = keys
        .rsplit('.')
        .fold(value, |value, key| Value::Object([(key.to_owned(), value)].into_iter().collect()));
    let inside = all.get("workload").is_some_and(Value::is_object);
    let whole = match inside {
        true => Value::Object([("workload".to_owned(), nested)].into_iter().collect()),
        false => nested,
    };
    merge(all, whole);
    Ok(())
}

fn workload(of: &Value, mut unused: Vec<String>) -> Result<Workload, DlioError> {
    let get = Keys::new(of);
    let pytorch = is_pytorch(&get)?;
    // Older files have the name instead of a section.
    let name = match of.get("model") {
        Some(Value::String(_)) => get.word_as_written("model", "dlio")?,
        _ => get.word_as_written("model.name", "dlio")?,
    };
    let checkpoints = match get.flag("workflow.train", true)? {
        true => None,
        false if get.flag("workflow.checkpoint", false)? => Some(checkpoints::read(&get)?),
        false => return Err(DlioError::OnlyGenerates),
    };
    let reader = get.reader();
    let key = |name: &str| format!("{reader}.{name}");
    let off = |name| Ok::<_, DlioError>(get.word(&key(name), "off")? == "off");
    let mut found = Workload { name, pytorch, checkpoints, ..Workload::default() };
    if found.checkpoints.is_none() {
        let size = sample_size(&get)?;
        let steps = get.steps("train.total_training_steps")?;
        found = Workload {
            files: get.whole_or("dataset.num_files_train", 8, 1)?,
            samples_per_file: get.whole_or("dataset.num_samples_per_file", 1, 1)?,
            sample_size: size[0],
            sample_size_sd: size[1],
            transfer_size: Some(get.number(&key("transfer_size"), 0.0)?).filter(|size| *size > 0.0),
            shuffled: !(off("file_shuffle")? & off("sample_shuffle")?),
            contiguous: (get.word("dataset.format", "tfrecord")? != "tfrecord") | pytorch,
            batch: get.whole_or(&key("batch_size"), 1, 1)?,
            read_threads: get.whole_or(&key("read_threads"), 1, 0)?,
            computation_threads: get.threads(&key("computation_threads"), pytorch)?,
            prefetch: get.whole_or(&key("prefetch_size"), 2, 0)?,
            preprocess: get.times(&key("preprocess_time"))?,
            step: get.times("train.computation_time")?,
            epochs: get.whole_or("train.epochs", 1, 1)?,
            steps,
            warm_up: warm_up(&get)?,
            utilisation: Some(get.number("metric.au", 0.0)?).filter(|share| *share > 0.0),
            seed: get.whole_or("train.seed", 123, 0)?,
            ..found
        };
    }
    leaves_of(of, &mut unused);
    found.left_out = unused.into_iter().filter(|path| !get.was_used(path)).collect();
    Ok(found)
}

fn leaves_of(of: &Value, all: &mut Vec<String>) {
    let sections = of.as_object().into_iter().flatten();
    sections.for_each(|(key, value)| leaves(key, value, all));
}

fn is_pytorch(get: &Keys<'_>) -> Result<bool, DlioError> {
    let framework = get.word("framework", "tensorflow")?;
    let key = format!("{}.data_loader", get.reader());
    match get.word(&key, &framework)?.as_str() {
        "pytorch" => Ok(true),
        "tensorflow" => Ok(false),
        other => Err(DlioError::Value {
            key,
            value: other.to_owned(),
            remedy: "forebay imports \"pytorch\" and \"tensorflow\"".to_owned(),
        }),
    }
}

/// Returns mean and standard deviation of the size of a sample [B].
///
/// DLIO generates an array with two sides. Each side is the root of the size, with half the relative deviation that the size is
/// given (`derive_configurations`, `get_dimension`). The two deviate independently, so the size deviates by √2 of that: 1 ÷ √2 of
/// what the file says.
fn sample_size(get: &Keys<'_>) -> Result<[f64; 2], DlioError> {
    let either =
        |long: &str, short: &str, default: f64| get.number(long, get.number(short, default)?);
    if let Some(size) = get.record_dims()? {
        return Ok([size, 0.0]);
    }
    let size = either("dataset.record_length_bytes", "dataset.record_length", 65536.0)?;
    let sd = either("dataset.record_length_bytes_stdev", "dataset.record_length_stdev", 0.0)?;
    Ok([size, sd / std::f64::consts::SQRT_2])
}

/// Returns the number of steps that are excluded from metrics: newer versions have the key under `output`.
fn warm_up(get: &Keys<'_>) -> Result<u64, DlioError> {
    let before = get.whole_or("metric.exclude_start_steps", 1, 0)?;
    get.whole_or("output.metric.exclude_start_steps", before, 0)
}
