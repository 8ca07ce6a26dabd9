//! One run: its figures for each epoch, its hosts and its workload.

use crate::import::dlio::{self, Workload};
use serde_json::Value;
use std::collections::BTreeMap;

/// Why a folder of results cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MlperfError {
    /// A file is no JSON, or lacks a key.
    #[error("{file}: {what}")]
    File {
        /// Name of the file within the folder.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The configuration is no workload that can be imported.
    #[error("its configuration: {0}")]
    Configuration(#[from] dlio::DlioError),
}

/// Texts of the files of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunTexts {
    /// `summary.json`.
    pub summary: String,
    /// `per_epoch_stats.json`, if there is one.
    pub epochs: Option<String>,
    /// `config.yaml` and then `overrides.yaml`, as far as they are there.
    pub configuration: Vec<String>,
    /// `N_output.json` of each rank, in order of rank, if they are there.
    pub outputs: Vec<String>,
}

/// Which definitions of its figures a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Samples per second count the first step of an epoch, and utilisation leaves out each rank's own: v1.0.
    CountsFirst,
    /// Both leave it out: from v2.0 on.
    LeavesOutFirst,
}

/// Times of a rank's steps in an epoch [s].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankSteps {
    /// Time until the step's batch was there.
    pub load: Vec<f64>,
    /// Time from the end of the barrier before until the end of computing.
    pub process: Vec<f64>,
    /// Time of computing.
    pub compute: Vec<f64>,
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Number of emulated accelerators.
    pub accelerators: u32,
    /// Number of hosts.
    pub hosts: u32,
    /// Cores of a host, if the run says so.
    pub cores: Option<u32>,
    /// Memory of a host [B], if the run says so.
    pub memory: Option<f64>,
    /// Accelerator utilisation of each epoch.
    pub utilisation: Vec<f64>,
    /// Samples per second of each epoch.
    pub samples_per_second: Vec<f64>,
    /// Duration of the steps of each epoch [s]; `None` where the run does not say.
    pub durations: Vec<Option<f64>>,
    /// Definitions of these figures.
    pub round: Round,
    /// The workload.
    pub workload: Workload,
    /// Steps of each rank in each epoch, if the run has them: by epoch, then by rank.
    pub steps: Vec<Vec<RankSteps>>,
}

impl Run {
    /// Returns the number of steps of an epoch.
    #[must_use]
    pub fn steps_of_epoch(&self) -> u64 {
        let samples = self.workload.files.saturating_mul(self.workload.samples_per_file);
        samples / self.workload.batch.saturating_mul(self.accelerators.into()).max(1)
    }

    /// Returns the samples per second of accelerators that never wait.
    #[must_use]
    pub fn fastest(&self) -> f64 {
        f64::from(self.accelerators) * self.workload.batch as f64 / self.workload.step.mean()
    }

    /// Returns the mean time of a step after the first of its epoch [s].
    #[must_use]
    pub fn steady_step(&self) -> f64 {
        self.workload.step.mean() / mean(&self.utilisation)
    }

    /// Returns the time until the first batches of an epoch, mean over ranks and epochs [s]; `None` if the run does not tell.
    ///
    /// In the first round a rank leaves its own first step out of utilisation, and samples per second count it. Later rounds tell
    /// it by the duration of the epoch alone.
    #[must_use]
    pub fn first_batch(&self) -> Option<f64> {
        let all: Vec<f64> = self.first_batches().into_iter().flatten().collect();
        (!all.is_empty()).then(|| mean(&all))
    }

    /// Returns the same of each epoch.
    fn first_batches(&self) -> Vec<Option<f64>> {
        let steps = self.steps_of_epoch() as f64;
        let compute = self.workload.step.mean();
        let of = |epoch: usize| -> Option<f64> {
            let batch = f64::from(self.accelerators) * self.workload.batch as f64;
            let whole = match self.round {
                Round::CountsFirst => steps * batch / self.samples_per_second.get(epoch)?,
                Round::LeavesOutFirst => (*self.durations.get(epoch)?)?,
            };
            Some(
                (whole - (steps - 1.0) * compute / self.utilisation.get(epoch)? - compute).max(0.0),
            )
        };
        (0..self.utilisation.len()).map(of).collect()
    }

    /// Returns the time that the loader takes to begin an epoch, beside reading at `bandwidth` [s]: that of each of PyTorch's workers before
    /// the first epoch, or that of TensorFlow's pipeline before each. `None` if the run has no first batches.
    #[must_use]
    pub fn start(&self, bandwidth: f64) -> Option<f64> {
        let Workload { pytorch, read_threads, batch, sample_size, .. } = self.workload;
        let of = self.first_batches();
        let all: Vec<f64> = of.iter().copied().flatten().collect();
        let late = match (pytorch, of.first()?, all.split_first()?) {
            (true, Some(first), (_, later @ [_, ..])) => {
                (first - mean(later)) / read_threads.max(1) as f64
            }
            // The bandwidth is that at which its first batch came, the start included.
            (true, _, _) => 0.0,
            (false, _, _) => {
                mean(&all) - f64::from(self.accelerators) * batch as f64 * sample_size / bandwidth
            }
        };
        Some(late.max(0.0))
    }

    /// Returns the bytes per second that were read in the steady state [B/s].
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        let batch = f64::from(self.accelerators) * self.workload.batch as f64;
        batch * self.workload.sample_size / self.steady_step()
    }

    /// Returns the bandwidth at which the first batches of an epoch came, if they took long enough to tell [B/s]: all ranks read at once,
    /// a batch for each of PyTorch's workers, and one batch for all of TensorFlow's threads.
    #[must_use]
    pub fn first_bandwidth(&self) -> Option<f64> {
        let all: Vec<f64> = self.first_batches().into_iter().flatten().collect();
        // The start of workers delays the first epoch's.
        let later = if all.len() > 1 { &all[1..] } else { &all[..] };
        let first = Some(mean(later)).filter(|first| *first > 1.0)?;
        let Workload { pytorch, read_threads, batch, sample_size, .. } = self.workload;
        let batches = if pytorch { read_threads.max(1) } else { 1 };
        let all = f64::from(self.accelerators) * batches as f64;
        Some(all * batch as f64 * sample_size / first)
    }
}

/// Reads a run.
///
/// # Errors
/// If a file is malformed, lacks what every run has, or has a value that no run can have.
pub fn read(texts: &RunTexts) -> Result<Run, MlperfError> {
    let file = |name: &str| {
        let file = name.to_owned();
        move |what: String| MlperfError::File { file: file.clone(), what }
    };
    let summary = parsed(&texts.summary).map_err(file("summary.json"))?;
    let summary = Summary::read(&summary).map_err(file("summary.json"))?;
    let workload = dlio::read(&texts.configuration, &[])?;
    if workload.checkpoints.is_some() {
        let what = "the run writes checkpoints and trains nothing; import its configuration with `import dlio`";
        return Err(file("config.yaml")(what.to_owned()));
    }
    let epochs = summary.utilisation.len();
    let durations = match &texts.epochs {
        None => vec![None; epochs],
        Some(text) => {
            let name = "per_epoch_stats.json";
            let all = durations(&parsed(text).map_err(file(name))?).map_err(file(name))?;
            (1..).take(epochs).map(|epoch| all.get(&epoch).copied()).collect()
        }
    };
    let mut steps: Vec<Vec<RankSteps>> = Vec::new();
    for (rank, text) in texts.outputs.iter().enumerate() {
        let name = format!("{rank}_output.json");
        let of = parsed(text).and_then(|of| rank_steps(&of)).map_err(file(&name))?;
        steps.resize(steps.len().max(of.len()), Vec::new());
        steps.iter_mut().zip(of).for_each(|(epoch, of)| epoch.push(of));
    }
    let Summary { accelerators, hosts, cores, memory, utilisation, samples_per_second } = summary;
    let round = Round::LeavesOutFirst;
    let mut run = Run {
        accelerators,
        hosts,
        cores,
        memory,
        utilisation,
        samples_per_second,
        durations,
        round,
        workload,
        steps,
    };
    let (step, size) = (run.workload.step.mean(), run.workload.sample_size);
    for (key, value) in [("train.computation_time", step), ("dataset.record_length", size)] {
        if !(value > 0.0 && value.is_finite()) {
            let what = format!(
                "`{key}` is missing or 0: without it nothing says what the accelerators asked for"
            );
            return Err(file("config.yaml")(what));
        }
    }
    let steps = run.steps_of_epoch();
    if steps < 2 {
        return Err(file("config.yaml")(format!(
            "an epoch has {} samples, which is less than two steps of {} samples on each of {accelerators} accelerators: there is no steady state to read",
            run.workload.files.saturating_mul(run.workload.samples_per_file),
            run.workload.batch
        )));
    }
    run.round = run.definitions();
    Ok(run)
}

/// Largest relative difference of two figures that are equal by definition: they are printed rounded.
const SAME: f64 = 2e-3;

impl Run {
    /// Returns which definitions the run's figures have.
    fn definitions(&self) -> Round {
        let share = mean(&self.samples_per_second) / self.fastest();
        let whole = self.steps_of_epoch() as f64
            * f64::from(self.accelerators)
            * self.workload.batch as f64
            / mean(&self.samples_per_second);
        let durations: Option<Vec<f64>> = self.durations.iter().copied().collect();
        // How far the figures are from each definition; where durations are missing, as far as figures are rounded.
        let off_first = durations.map_or(SAME, |of| (mean(&of) / whole - 1.0).abs());
        let off_later = (share / mean(&self.utilisation) - 1.0).abs();
        if off_later < off_first { Round::LeavesOutFirst } else { Round::CountsFirst }
    }
}

struct Summary {
    accelerators: u32,
    hosts: u32,
    cores: Option<u32>,
    memory: Option<f64>,
    utilisation: Vec<f64>,
    samples_per_second: Vec<f64>,
}

impl Summary {
    fn read(of: &Value) -> Result<Summary, String> {
        let accelerators = whole(of, "num_accelerators")?;
        let hosts = match of.get("num_hosts") {
            None => 1,
            Some(_) => whole(of, "num_hosts")?,
        };
        if hosts > accelerators {
            return Err(format!(
                "`num_hosts` is {hosts}, more than the {accelerators} accelerators"
            ));
        }
        let metric = of.get("metric").ok_or("`metric` is missing: this run trained nothing")?;
        let percent = positive(metric, "train_au_percentage")?;
        if percent.iter().any(|of| *of > 100.5) {
            return Err("`metric.train_au_percentage` is above 100".to_owned());
        }
        let samples_per_second = positive(metric, "train_throughput_samples_per_second")?;
        if samples_per_second.len() != percent.len() {
            return Err(
                "`metric` has utilisation and throughput of different numbers of epochs".to_owned()
            );
        }
        Ok(Summary {
            accelerators,
            hosts,
            cores: per_host(of, "host_cpu_count", hosts).map(|cores| cores.round().max(1.0) as u32),
            memory: per_host(of, "host_memory_GB", hosts).map(|of| of * f64::from(1 << 30)),
            utilisation: percent.into_iter().map(|of| of / 100.0).collect(),
            samples_per_second,
        })
    }
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

fn whole(of: &Value, key: &str) -> Result<u32, String> {
    let value = of.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
    let number = value.as_u64().and_then(|value| u32::try_from(value).ok());
    number
        .filter(|number| (1..=1_000_000).contains(number))
        .ok_or_else(|| format!("`{key}` is {value}; a run has from 1 to 1,000,000"))
}

/// Returns a list of numbers above 0 under a key of `metric`; newer files have the list as a text.
fn positive(metric: &Value, key: &str) -> Result<Vec<f64>, String> {
    let value = metric.get(key).ok_or_else(|| format!("`metric.{key}` is missing"))?;
    let text = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let list = text.as_ref().unwrap_or(value).as_array();
    let numbers: Option<Vec<f64>> = list.and_then(|list| list.iter().map(Value::as_f64).collect());
    numbers
        .filter(|all| !all.is_empty() && all.iter().all(|of| *of > 0.0 && of.is_finite()))
        .ok_or_else(|| {
            format!("`metric.{key}` is {value}; a run has a number above 0 for each epoch")
        })
}

/// Returns a figure of one host. Where ranks share hosts, DLIO adds up the hosts that its first ranks are on, and fills the rest of the list
/// with zeros: the sum over the list is that over all hosts.
fn per_host(of: &Value, key: &str, hosts: u32) -> Option<f64> {
    let list = of.get(key)?.as_array()?;
    let sum: f64 = list.iter().filter_map(Value::as_f64).sum();
    // Older files have a single host's number.
    let hosts = if list.len() == 1 { 1.0 } else { f64::from(hosts) };
    (sum > 0.0 && sum.is_finite()).then_some(sum / hosts)
}

/// Returns the duration of the training block of each epoch, by its number from 1 [s].
fn durations(of: &Value) -> Result<BTreeMap<u64, f64>, String> {
    let all = of.as_object().ok_or("not a table of epochs")?;
    let mut epochs = BTreeMap::new();
    for (name, epoch) in all {
        let Some(number) = name.parse::<u64>().ok() else { continue };
        let duration = epoch.get("block1").and_then(|block| block.get("duration"));
        let seconds = duration.and_then(|of| match of {
            Value::String(text) => text.parse::<f64>().ok(),
            other => other.as_f64(),
        });
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && seconds.is_finite());
        let none = || format!("epoch {name} has no `block1.duration` above 0");
        epochs.insert(number, seconds.ok_or_else(none)?);
    }
    Ok(epochs)
}

/// Time of a step at most [s].
const LONGEST: f64 = 1e6;

/// Returns the steps of a rank in each epoch.
fn rank_steps(of: &Value) -> Result<Vec<RankSteps>, String> {
    let all = of.as_object().ok_or("not a table of epochs")?;
    let mut epochs: Vec<(u64, RankSteps)> = Vec::new();
    for (name, epoch) in all {
        let Some(number) = name.parse::<u64>().ok() else { continue };
        let list = |key: &str| -> Result<Vec<f64>, String> {
            let block = epoch.get(key).and_then(|of| of.get("block1")).and_then(Value::as_array);
            let seconds = |of: &Value| {
                of.as_f64().filter(|seconds| (0.0..=LONGEST).contains(seconds)).ok_or_else(|| {
                    format!("epoch {name} has {of} in `{key}`; a step takes from 0 to {LONGEST} s")
                })
            };
            block.into_iter().flatten().map(seconds).collect()
        };
        let steps =
            RankSteps { load: list("load")?, process: list("proc")?, compute: list("compute")? };
        let number_of_steps = steps.process.len();
        if number_of_steps == 0 || steps.load.len() != number_of_steps {
            return Err(format!("epoch {name} lacks `load` or `proc` of its steps"));
        }
        epochs.push((number, steps));
    }
    epochs.sort_by_key(|epoch| epoch.0);
    Ok(epochs.into_iter().map(|epoch| epoch.1).collect())
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
