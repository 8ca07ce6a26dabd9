//! Converts YAML and overrides to a workload.

use super::{Times, Workload, at};
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
    #[error("not a DLIO workload: both `dataset` and `train` are missing")]
    NoWorkload,
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

/// Sections that forebay reads, with the keys that it understands or that have no effect on reading.
const KNOWN: [(&str, &[&str]); 4] = [
    (
        "dataset",
        &[
            "data_folder",
            "format",
            "num_files_train",
            "num_samples_per_file",
            "record_length",
            "record_length_bytes",
            "record_length_stdev",
            "record_length_bytes_stdev",
            "record_length_resize",
            "record_length_bytes_resize",
            "num_subfolders_train",
            "num_files_eval",
            "num_subfolders_eval",
            "keep_files",
            "file_prefix",
        ],
    ),
    (
        "reader",
        &[
            "data_loader",
            "batch_size",
            "batch_size_eval",
            "read_threads",
            "computation_threads",
            "prefetch_size",
            "file_shuffle",
            "sample_shuffle",
            "shuffle_size",
            "transfer_size",
            "multiprocessing_context",
            "pin_memory",
            "preprocess_time",
            "dont_use_mmap",
        ],
    ),
    ("train", &["epochs", "computation_time", "total_training_steps", "seed_change_epoch", "seed"]),
    ("metric", &["au", "exclude_start_steps", "exclude_end_steps"]),
];

/// Limit for the nesting of keys in an override; Hydra's workloads have three levels.
const DEEPEST: usize = 16;

/// Reads a workload: files in order, where later files override earlier ones, then overrides in Hydra's notation,
/// `++workload.reader.read_threads=8`.
///
/// # Errors
/// If a file or override is invalid; the error names the key at fault.
pub fn read(files: &[String], overrides: &[String]) -> Result<Workload, DlioError> {
    let mut all = Value::Object(Map::new());
    for (file, text) in files.iter().enumerate() {
        let value: Value = serde_saphyr::from_str(text).map_err(|error| {
            // The first line has the message; the other lines show the place.
            let text = error.to_string();
            let what = text.lines().next().unwrap_or_default().to_owned();
            let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
            DlioError::Malformed { file, line, what }
        })?;
        merge(&mut all, value);
    }
    for text in overrides {
        change(&mut all, text)?;
    }
    // Files of Hydra's groups contain only the sections of the workload.
    if let Some(inner) = all.get("workload").filter(|inner| inner.is_object()) {
        all = inner.clone();
    }
    if at(&all, "dataset").is_none() && at(&all, "train").is_none() {
        return Err(DlioError::NoWorkload);
    }
    workload(&all)
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

fn workload(of: &Value) -> Result<Workload, DlioError> {
    let get = Keys { of };
    let framework = get.word("framework", "tensorflow")?;
    let loader = get.word("reader.data_loader", &framework)?;
    let pytorch = match loader.as_str() {
        "pytorch" => true,
        "tensorflow" => false,
        other => {
            let remedy = "forebay imports \"pytorch\" and \"tensorflow\"".to_owned();
            let (key, value) = ("reader.data_loader".to_owned(), other.to_owned());
            return Err(DlioError::Value { key, value, remedy });
        }
    };
    let name = match at(of, "model") {
        Some(Value::String(name)) => name.clone(),
        _ => get.word("model.name", "dlio")?,
    };
    let either =
        |long: &str, short: &str, default: f64| get.number(long, get.number(short, default)?);
    let off = |key| Ok::<_, DlioError>(get.word(key, "off")? == "off");
    let steps = get.whole_or("train.total_training_steps", 0, 0)?;
    Ok(Workload {
        name,
        pytorch,
        files: get.whole_or("dataset.num_files_train", 8, 1)?,
        samples_per_file: get.whole_or("dataset.num_samples_per_file", 1, 1)?,
        sample_size: either("dataset.record_length_bytes", "dataset.record_length", 65536.0)?,
        sample_size_sd: either(
            "dataset.record_length_bytes_stdev",
            "dataset.record_length_stdev",
            0.0,
        )?,
        transfer_size: match get.number("reader.transfer_size", 0.0)? {
            0.0 => None,
            size => Some(size),
        },
        shuffled: !(off("reader.file_shuffle")? && off("reader.sample_shuffle")?),
        contiguous: pytorch || get.word("dataset.format", "tfrecord")? != "tfrecord",
        batch: get.whole_or("reader.batch_size", 1, 1)?,
        read_threads: get.whole_or("reader.read_threads", 1, 0)?,
        computation_threads: get.whole_or("reader.computation_threads", 1, 1)?,
        prefetch: get.whole_or("reader.prefetch_size", 2, 0)?,
        preprocess: get.times("reader.preprocess_time")?,
        step: get.times("train.computation_time")?,
        epochs: get.whole_or("train.epochs", 1, 1)?,
        steps: (steps > 0).then_some(steps),
        warm_up: get.whole_or("metric.exclude_start_steps", 1, 0)?,
        utilisation: match get.number("metric.au", 0.0)? {
            0.0 => None,
            share => Some(share),
        },
        seed: get.whole_or("train.seed", 123, 0)?,
        left_out: left_out(of),
    })
}

/// Returns the keys whose settings are not simulated.
fn left_out(of: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for (section, known) in KNOWN {
        let keys = of.get(section).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        all.extend(
            keys.filter(|key| !known.contains(&key.as_str())).map(|key| format!("{section}.{key}")),
        );
    }
    let workflow = ["checkpoint", "evaluation"].into_iter();
    let on = |key: &&str| at(of, &format!("workflow.{key}")) == Some(&Value::Bool(true));
    all.extend(workflow.filter(on).map(|key| format!("workflow.{key}")));
    all
}

/// Reads the values of a workload by their paths of keys.
struct Keys<'a> {
    of: &'a Value,
}

impl Keys<'_> {
    fn wrong(key: &str, value: &Value, remedy: &str) -> DlioError {
        DlioError::Value {
            key: key.to_owned(),
            value: value.to_string(),
            remedy: remedy.to_owned(),
        }
    }

    fn word(&self, key: &str, default: &str) -> Result<String, DlioError> {
        match at(self.of, key) {
            None => Ok(default.to_owned()),
            Some(Value::String(word)) => Ok(word.to_lowercase()),
            // YAML reads `off` as a boolean.
            Some(Value::Bool(false)) => Ok("off".to_owned()),
            Some(other) => Err(Self::wrong(key, other, "write a word")),
        }
    }

    fn number(&self, key: &str, default: f64) -> Result<f64, DlioError> {
        let Some(value) = at(self.of, key) else { return Ok(default) };
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| Self::wrong(key, value, "write a number of at least 0"))
    }

    fn whole_or(&self, key: &str, default: u64, least: u64) -> Result<u64, DlioError> {
        let Some(value) = at(self.of, key) else { return Ok(default) };
        let whole = value.as_u64().filter(|whole| *whole >= least);
        let remedy = format!("write a whole number of at least {least}");
        whole.ok_or_else(|| Self::wrong(key, value, &remedy))
    }

    /// Reads a time: a number, `{mean, stdev}`, or `{type, …}`.
    fn times(&self, key: &str) -> Result<Times, DlioError> {
        let Some(value) = at(self.of, key) else { return Ok(Times::Constant(0.0)) };
        if !value.is_object() {
            return Ok(Times::Constant(self.number(key, 0.0)?));
        }
        let of = |part: &str| self.number(&format!("{key}.{part}"), 0.0);
        let kind = self.word(&format!("{key}.type"), "normal")?;
        let times = match kind.as_str() {
            "normal" if of("stdev")? == 0.0 => Times::Constant(of("mean")?),
            "normal" => Times::Normal { mean: of("mean")?, sd: of("stdev")? },
            "uniform" => Times::Uniform { low: of("min")?, high: of("max")? },
            "gamma" => Times::Gamma { shape: of("shape")?, scale: of("scale")? },
            "exponential" => Times::Exponential { mean: of("scale")? },
            _ => {
                let remedy = "forebay imports normal, uniform, gamma and exponential";
                return Err(Self::wrong(&format!("{key}.type"), &kind.into(), remedy));
            }
        };
        if times.mean() > 0.0 && times.cv().is_finite() && times.cv() >= 0.0 {
            return Ok(times);
        }
        Err(Self::wrong(key, value, "write parameters whose mean is above 0"))
    }
}
