//! How long a training step takes on the processor.

use super::cpu::{self, Network};
use super::{Cell, Context, Count, List, Probe, ProbeError, Seconds, Trial, team};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use std::time::{Duration, Instant};

/// The table `[step]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSettings {
    /// Networks.
    pub model: List<ModelName>,
    /// Samples of a step.
    pub batch: List<Count>,
    /// Numbers of threads.
    pub threads: List<Count>,
    /// Time for this probe.
    pub budget: Option<Seconds>,
}

/// The name of a network that [`cpu::build`] knows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ModelName(String);

impl TryFrom<String> for ModelName {
    type Error = cpu::UnknownModel;

    fn try_from(name: String) -> Result<ModelName, cpu::UnknownModel> {
        let known = cpu::MODELS.contains(&name.as_str());
        if known { Ok(ModelName(name)) } else { Err(cpu::UnknownModel(name)) }
    }
}

/// The probe `step`: operations are steps.
#[derive(Debug)]
pub struct StepProbe {
    settings: StepSettings,
}

impl StepProbe {
    /// A probe by these settings.
    #[must_use]
    pub fn new(settings: &StepSettings) -> StepProbe {
        StepProbe { settings: settings.clone() }
    }
}

impl Probe for StepProbe {
    fn name(&self) -> &'static str {
        "step"
    }

    fn cells(&self) -> Vec<Cell> {
        let StepSettings { model, batch, threads, .. } = &self.settings;
        let mut cells = Vec::new();
        for ModelName(model) in model {
            for threads in threads {
                let device = format!("cpu-{}", threads.0);
                // No thread without a sample.
                for batch in batch.iter().filter(|batch| *batch >= threads) {
                    let labels = [("model", model.as_str()), ("device", device.as_str())];
                    let settings = [("batch", batch.0 as f64), ("threads", threads.0 as f64)];
                    cells.push(Cell::new(&labels, &settings));
                }
            }
        }
        cells
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    /// Builds the network anew: its first step, which also gets its memory, is not timed.
    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
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
        let (_, steps) = run.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(Trial {
            operations: steps.seconds.len() as u64,
            seconds: steps.seconds.iter().sum(),
            core_seconds: steps.core_seconds,
            threads,
            waited: team.waited() * threads as f64,
            observed: [("jitter".to_owned(), steps.jitter()), ("loss".to_owned(), steps.loss)]
                .into(),
        })
    }
}

/// What single steps showed.
#[derive(Debug, Default)]
struct Steps {
    /// Wall time of each [s].
    seconds: Vec<f64>,
    /// Processor time of all threads together [core-s].
    core_seconds: f64,
    loss: f64,
}

impl Steps {
    /// Steps until time is up: three at least, or there would be no spread.
    fn run(&mut self, network: &mut dyn Network, context: &Context<'_>) {
        let (start, core) = (Instant::now(), process_core_seconds());
        while self.seconds.len() < 3 || start.elapsed() < context.length {
            let step = Instant::now();
            self.loss = network.step();
            self.seconds.push(context.ruler.less(step.elapsed().as_secs_f64(), 1));
        }
        self.core_seconds = process_core_seconds() - core;
    }

    /// Standard deviation of single steps over their mean.
    fn jitter(&self) -> f64 {
        let n = self.seconds.len() as f64;
        let mean = self.seconds.iter().sum::<f64>() / n;
        let squares: f64 = self.seconds.iter().map(|s| (s - mean).powi(2)).sum();
        (squares / (n - 1.0)).sqrt() / mean
    }
}

/// Processor time of this process so far: a step starts threads of its own, and nothing else works
/// meanwhile [core-s].
fn process_core_seconds() -> f64 {
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
    fn jitter_is_the_relative_standard_deviation() {
        let steps = Steps { seconds: vec![1.0, 2.0, 3.0], ..Steps::default() };
        assert!((steps.jitter() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_trial_takes_steps_and_says_what_they_were() {
        let text = "model = [\"lenet5\"]\nbatch = [1, 4]\nthreads = [1, 2]";
        let mut probe = StepProbe::new(&toml::from_str(text).unwrap());
        let cells = probe.cells();
        let device = |cell: &Cell| (cell.label("device").to_owned(), cell.count("batch"));
        let expected = [("cpu-1".into(), 1), ("cpu-1".into(), 4), ("cpu-2".into(), 4)];
        assert_eq!(cells.iter().map(device).collect::<Vec<_>>(), expected);
        let stop = AtomicBool::new(false);
        let context = Context {
            directory: Path::new("."),
            length: Duration::ZERO,
            ruler: Ruler { look: 0.0, turn: 0.0 },
            deadline: Instant::now(),
            stop: &stop,
            seed: 1,
        };
        let trial = probe.trial(&cells[2], &context).unwrap();
        assert_eq!((trial.operations, trial.threads), (3, 2));
        assert!(trial.core_seconds > 0.0 && trial.observed["jitter"] >= 0.0);
        let unknown = toml::from_str::<StepSettings>("model = [\"vgg\"]\nbatch=[1]\nthreads=[1]");
        assert!(unknown.unwrap_err().to_string().contains("known: lenet5"));
    }
}
