//! The probe `step`: measures how long a training step takes, on cores or on a GPU.

mod device;

pub use device::DeviceName;

use super::gpu::{Board, Precision};
use super::{Cell, Context, Count, List, Probe, ProbeError, Seconds, Trial, team};
use forebay_networks::cpu::{self, Network};
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The table `[step]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepSettings {
    /// Networks to train.
    pub model: List<ModelName>,
    /// Batch sizes: samples per step.
    pub batch: List<Count>,
    /// Numbers of threads for training on cores (default: [1]).
    #[serde(default = "one")]
    pub threads: List<Count>,
    /// Devices to train on, such as `cpu` and `cuda:0` (default: ["cpu"]).
    #[serde(default = "cores")]
    pub device: List<DeviceName>,
    /// Precisions of training on GPUs: `fp32`, `tf32`, `bf16` (default: ["fp32"]).
    #[serde(default = "fp32")]
    pub precision: List<Precision>,
    /// Numbers of networks that train on a GPU at the same time, each on a stream of its own (default: [1]).
    #[serde(default = "one")]
    pub learners: List<Count>,
    /// Numbers of steps between two averagings of the learners' models (default: learners do not average). One learner has
    /// nothing to average, so it is left out.
    pub average_every: Option<List<Count>>,
    /// Whether steps on a GPU are recorded once and repeated as a whole (a CUDA graph) (default: [false]).
    #[serde(default = "no")]
    pub graph: List<bool>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

fn one() -> List<Count> {
    List(vec![Count(1)])
}

fn cores() -> List<DeviceName> {
    List(vec![DeviceName::Cpu])
}

fn no() -> List<bool> {
    List(vec![false])
}

fn fp32() -> List<Precision> {
    List(vec![Precision::Fp32])
}

/// The name of a network that [`cpu::build`] knows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelName(String);

impl JsonSchema for ModelName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NetworkName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = cpu::MODELS.iter().chain(&cpu::LARGE_MODELS).copied().collect();
        schemars::json_schema!({ "type": "string", "enum": names })
    }
}

impl ModelName {
    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ModelName {
    type Error = cpu::UnknownModel;

    fn try_from(name: String) -> Result<ModelName, cpu::UnknownModel> {
        let known = cpu::MODELS.iter().chain(&cpu::LARGE_MODELS).any(|known| *known == name);
        if known { Ok(ModelName(name)) } else { Err(cpu::UnknownModel(name)) }
    }
}

impl StepSettings {
    /// Returns the cells for training on cores. Cells in which a thread would have no sample are left out.
    fn on_cores(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for ModelName(model) in &self.model {
            for threads in &self.threads {
                let device = format!("cpu-{}", threads.0);
                for batch in self.batch.iter().filter(|batch| *batch >= threads) {
                    let labels = [("model", model.as_str()), ("device", device.as_str())];
                    let settings = [("batch", batch.0 as f64), ("threads", threads.0 as f64)];
                    cells.push(Cell::new(&labels, &settings));
                }
            }
        }
        cells
    }

    /// Returns the numbers of learners, each with the steps between two averagings (`None` without averaging).
    fn crews(&self) -> Vec<(usize, Option<usize>)> {
        let learners = self.learners.iter().map(|learners| learners.0);
        match &self.average_every {
            None => learners.map(|learners| (learners, None)).collect(),
            Some(every) => learners
                .filter(|learners| *learners > 1)
                .flat_map(|learners| every.iter().map(move |every| (learners, Some(every.0))))
                .collect(),
        }
    }

    /// Returns the cells on GPU number `number`.
    fn on_gpu(&self, number: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        for ModelName(model) in &self.model {
            for &precision in &self.precision {
                for &graph in &self.graph {
                    for (learners, average_every) in self.crews() {
                        for batch in &self.batch {
                            let way = device::GpuSetup {
                                number,
                                precision,
                                graph,
                                learners,
                                average_every,
                            };
                            cells.push(way.cell(model, batch.0));
                        }
                    }
                }
            }
        }
        cells
    }
}

/// The probe `step`: each operation is one training step.
#[derive(Debug)]
pub struct StepProbe {
    settings: Vec<StepSettings>,
    /// Open GPUs by their numbers (`boards`), and the numbers of GPUs that cannot be used (`lacking`).
    boards: BTreeMap<usize, Board>,
    lacking: BTreeSet<usize>,
    /// Cells that need more memory than their GPU has free.
    large: Vec<Cell>,
}

impl StepProbe {
    /// Returns a probe of all steps that any of the `settings` names.
    #[must_use]
    pub fn new(settings: &[StepSettings]) -> StepProbe {
        StepProbe {
            settings: settings.to_vec(),
            boards: [].into(),
            lacking: [].into(),
            large: Vec::new(),
        }
    }
}

impl StepProbe {
    /// Returns the numbers of the GPUs, each with the precisions in which it trains.
    fn gpus(&self) -> BTreeMap<usize, Vec<Precision>> {
        let mut gpus: BTreeMap<usize, Vec<Precision>> = BTreeMap::new();
        for settings in &self.settings {
            for device in &settings.device {
                let DeviceName::Cuda(number) = device else { continue };
                let precisions = gpus.entry(*number).or_default();
                for precision in &settings.precision {
                    if !precisions.contains(precision) {
                        precisions.push(*precision);
                    }
                }
            }
        }
        gpus
    }
}

impl Probe for StepProbe {
    fn name(&self) -> &'static str {
        "step"
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for settings in &self.settings {
            for device in &settings.device {
                let of_device = match device {
                    DeviceName::Cpu => settings.on_cores(),
                    DeviceName::Cuda(number) if self.lacking.contains(number) => Vec::new(),
                    DeviceName::Cuda(number) => settings.on_gpu(*number),
                };
                let new = |cell: &Cell| !self.large.contains(cell) && !cells.contains(cell);
                let new: Vec<Cell> = of_device.into_iter().filter(new).collect();
                cells.extend(new);
            }
        }
        cells
    }

    /// Returns the sum of the tables' budgets; `None` if a table has none.
    fn budget(&self) -> Option<Duration> {
        self.settings.iter().map(|of| of.budget.map(Seconds::duration)).sum()
    }

    /// Opens GPUs and compares their results with those of the cores: a GPU that computes wrongly is not worth
    /// timing.
    fn prepare(&mut self, context: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        let mut notes = Vec::new();
        let cores_too = self.settings.iter().any(|of| of.device.0.contains(&DeviceName::Cpu));
        for (number, precisions) in self.gpus() {
            match Board::open(number) {
                Ok(board) => {
                    for precision in precisions {
                        context.go_on()?;
                        notes.push(device::check(&board, precision, context.seed)?);
                    }
                    let on_this =
                        |of: &&StepSettings| of.device.0.contains(&DeviceName::Cuda(number));
                    for settings in self.settings.iter().filter(on_this) {
                        let cells = settings.on_gpu(number);
                        self.large.extend(device::too_large(&board, cells)?);
                    }
                    self.boards.insert(number, board);
                }
                Err(why) if cores_too => {
                    notes.push(format!("cuda:{number} not measured: {why}"));
                    self.lacking.insert(number);
                }
                Err(why) => return Err(why),
            }
        }
        if !self.large.is_empty() {
            let count = self.large.len();
            notes.push(format!("{count} kinds of trials need more memory than the GPU has free"));
        }
        Ok(notes)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        match self.boards.get(&cell.count("gpu")) {
            Some(board) if cell.settings.contains_key("gpu") => device::trial(board, cell, context),
            _ => trial_on_cores(cell, context),
        }
    }
}

/// Times training steps on cores. The network is built anew for each trial; its first step, which also
/// allocates memory, is not timed.
fn trial_on_cores(cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
    let (threads, batch) = (cell.count("threads"), cell.count("batch"));
    let mut network = cpu::build(cell.label("model"), threads, batch, context.seed)
        .map_err(|error| ProbeError::Machine(error.to_string()))?;
    network.step();
    let run = std::sync::Mutex::new((network, Steps::default()));
    let team = team(1, |_| {
        if let Ok(mut run) = run.lock() {
            let (network, steps) = &mut *run;
            steps.run(network.as_mut(), context);
        }
    })?;
    let (mut network, steps) = run.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(source) = network.lacked_threads() {
        return Err(ProbeError::Threads { threads: network.threads(), source });
    }
    Ok(Trial {
        operations: steps.seconds.len() as u64,
        seconds: steps.seconds.iter().sum(),
        core_seconds: steps.core_seconds,
        threads,
        waited: team.waited() * threads as f64,
        observed: [("jitter".to_owned(), steps.jitter()), ("loss".to_owned(), steps.loss)].into(),
        ..Trial::default()
    })
}

/// Times of single steps.
#[derive(Debug, Default)]
struct Steps {
    /// Wall time of each step [s].
    seconds: Vec<f64>,
    /// Processor time of all threads together [core-s].
    core_seconds: f64,
    loss: f64,
}

impl Steps {
    /// Runs steps for `context.length`, but at least three, so that their spread can be computed.
    fn run(&mut self, network: &mut dyn Network, context: &Context<'_>) {
        let (start, core) = (Instant::now(), process_core_seconds());
        while self.seconds.len() < 3 || start.elapsed() < context.length {
            let step = Instant::now();
            self.loss = network.step();
            self.seconds.push(context.ruler.less(step.elapsed().as_secs_f64(), 1));
        }
        self.core_seconds = process_core_seconds() - core;
    }

    /// Returns the standard deviation of the times of single steps, divided by their mean.
    fn jitter(&self) -> f64 {
        let n = self.seconds.len() as f64;
        let mean = self.seconds.iter().sum::<f64>() / n;
        let squares: f64 = self.seconds.iter().map(|s| (s - mean).powi(2)).sum();
        (squares / (n - 1.0)).sqrt() / mean
    }
}

/// Returns the processor time of this whole process so far [core-s], including the threads that a step starts.
/// During a step nothing else runs in the process.
pub(super) fn process_core_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ruler;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn jitter_is_the_relative_standard_deviation_of_step_times() {
        let steps = Steps { seconds: vec![1.0, 2.0, 3.0], ..Steps::default() };
        assert!((steps.jitter() - 0.5).abs() < 1e-12);
    }

    /// System: two tables of steps that share one kind of trial. Expectation: each kind is timed once, and each GPU
    /// is checked in the precisions of all tables.
    #[test]
    fn several_tables_of_steps_are_one_probe() {
        let tables: crate::probe::Tables<StepSettings> = {
            #[derive(Deserialize)]
            struct Plan {
                step: crate::probe::Tables<StepSettings>,
            }
            let text = "[[step]]\nmodel = [\"lenet5\"]\nbatch = [1, 8]\ndevice = [\"cuda:0\"]\nbudget = \"2 s\"\n\
                        [[step]]\nmodel = [\"lenet5\"]\nbatch = [8, 64]\ndevice = [\"cuda:0\"]\nbudget = \"3 s\"\n\
                        precision = [\"fp32\", \"bf16\"]\n";
            toml::from_str::<Plan>(text).unwrap().step
        };
        let probe = StepProbe::new(&tables.0);
        let cells = probe.cells();
        let cell = |cell: &Cell| (cell.label("precision").to_owned(), cell.count("batch"));
        let expected = [("fp32", 1), ("fp32", 8), ("fp32", 64), ("bf16", 8), ("bf16", 64)];
        assert_eq!(
            cells.iter().map(cell).collect::<Vec<_>>(),
            expected.map(|(precision, batch)| (precision.to_owned(), batch))
        );
        assert_eq!(probe.budget(), Some(Duration::from_secs(5)));
        assert_eq!(probe.gpus()[&0], [Precision::Fp32, Precision::Bf16]);
    }

    #[test]
    fn a_trial_runs_three_steps_and_reports_threads_and_jitter() {
        let text = "model = [\"lenet5\"]\nbatch = [1, 4]\nthreads = [1, 2]";
        let mut probe = StepProbe::new(&[toml::from_str(text).unwrap()]);
        let cells = probe.cells();
        let device = |cell: &Cell| (cell.label("device").to_owned(), cell.count("batch"));
        let expected = [("cpu-1".into(), 1), ("cpu-1".into(), 4), ("cpu-2".into(), 4)];
        assert_eq!(cells.iter().map(device).collect::<Vec<_>>(), expected);
        let stop = AtomicBool::new(false);
        let context = Context {
            directory: Path::new("."),
            length: Duration::ZERO,
            longest: Duration::ZERO,
            noise: 1.0,
            ruler: Ruler { look: 0.0, turn: 0.0 },
            deadline: Instant::now(),
            stop: &stop,
            seed: 1,
        };
        let trial = probe.trial(&cells[2], &context).unwrap();
        assert_eq!((trial.operations, trial.threads), (3, 2));
        assert!(trial.core_seconds > 0.0 && trial.observed["jitter"] >= 0.0);
        let unknown = toml::from_str::<StepSettings>("model = [\"vgg\"]\nbatch=[1]\nthreads=[1]");
        assert!(unknown.unwrap_err().to_string().contains("the known models are lenet5"));
    }
}
