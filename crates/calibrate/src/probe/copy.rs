//! The probe `copy`: measures how long copies from the host to a GPU take.

use super::gpu::{Board, Copied, Copies, Precision, Task};
use super::step::{DeviceName, process_core_seconds};
use super::{Bytes, Cell, Context, Count, List, ModelName, Probe, ProbeError, Seconds, Trial};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// The table `[copy]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopySettings {
    /// Sizes of copies.
    pub size: List<Bytes>,
    /// Kinds of host memory to copy from.
    pub memory: List<HostMemory>,
    /// GPU to copy to (default: "cuda:0").
    #[serde(default = "first")]
    pub device: DeviceName,
    /// Training that runs on another stream during the copies, in additional trials of each memory kind and
    /// size (default: none).
    pub beside: Option<BesideSettings>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// Training that runs during the copies.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BesideSettings {
    /// Network to train.
    pub model: ModelName,
    /// Batch size: samples per training step.
    pub batch: Count,
    /// Precision of the training: `fp32`, `tf32`, `bf16`.
    pub precision: Precision,
}

fn first() -> DeviceName {
    DeviceName::Cuda(0)
}

/// A kind of host memory that is copied to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostMemory {
    /// Pinned (page-locked) memory, which the GPU reads directly.
    Pinned,
    /// Ordinary memory, which the driver copies to pinned memory of its own first.
    Pageable,
    /// Ordinary memory, which the calling thread copies to pinned memory first, as live runs do with batches. Copies take
    /// their bytes from 512 MiB in turn, so that caches do not hold them.
    Staged,
}

impl HostMemory {
    /// Returns the name in plans, samples and profiles.
    fn name(self) -> &'static str {
        match self {
            HostMemory::Pinned => "pinned",
            HostMemory::Pageable => "pageable",
            HostMemory::Staged => "staged",
        }
    }
}

/// The probe `copy`: each operation is one copy.
#[derive(Debug)]
pub struct CopyProbe {
    settings: CopySettings,
    board: Option<Board>,
}

impl CopyProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &CopySettings) -> CopyProbe {
        CopyProbe { settings: settings.clone(), board: None }
    }
}

impl Probe for CopyProbe {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn cells(&self) -> Vec<Cell> {
        let device = self.settings.device.to_string().replace(':', "-");
        let mut cells = Vec::new();
        for memory in &self.settings.memory {
            let memory = memory.name();
            for size in &self.settings.size {
                let (labels, size) =
                    ([("memory", memory), ("device", device.as_str())], size.0 as f64);
                cells.push(Cell::new(&labels, &[("size", size)]));
                if let Some(beside) = &self.settings.beside {
                    let labels =
                        [labels[0], labels[1], ("beside", "step"), ("model", beside.model.name())];
                    let settings = [("size", size), ("batch", beside.batch.0 as f64)];
                    cells.push(Cell::new(&labels, &settings));
                }
            }
        }
        cells
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn prepare(&mut self, _: &Context<'_>) -> Result<Vec<String>, ProbeError> {
        let DeviceName::Cuda(number) = self.settings.device else {
            let why = "copies go to a GPU: write `device = \"cuda:0\"` below `[copy]`";
            return Err(ProbeError::Machine(why.to_owned()));
        };
        self.board = Some(Board::open(number)?);
        Ok(Vec::new())
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let Some(board) = &self.board else { return Err(ProbeError::Time) };
        let beside = self.settings.beside.as_ref().filter(|_| cell.label("beside") == "step");
        let beside = beside.map(|of| of.task(context.seed));
        let named = |of: &&HostMemory| of.name() == cell.label("memory");
        let memory = self.settings.memory.iter().find(named).copied().unwrap_or(HostMemory::Pinned);
        let bytes = cell.count("size");
        let copies = |times| Copies { bytes, memory, times, beside };
        let once = board.copy(Copies { beside: None, ..copies(3) })?.seconds / 3.0;
        let times = (context.length.as_secs_f64() / once).clamp(1.0, 1e6) as u64;
        let core = process_core_seconds();
        let Copied { seconds, steps, step_alone } = board.copy(copies(times))?;
        let core_seconds = process_core_seconds() - core;
        let mut trial =
            Trial { operations: times, seconds, core_seconds, threads: 1, ..Trial::default() };
        if steps > 0 {
            trial.observed.insert("steps_per_second".to_owned(), steps as f64 / seconds);
            trial.observed.insert("steps_per_second_alone".to_owned(), 1.0 / step_alone);
        }
        Ok(trial)
    }
}

impl BesideSettings {
    /// Returns the task of one learner that trains with CUDA graphs for as long as copies run.
    fn task(&self, seed: u64) -> Task<'_> {
        let Self { model, batch, precision } = self;
        let (model, batch, precision) = (model.name(), batch.0, *precision);
        Task { model, batch, precision, learners: 1, average_every: None, graph: true, seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_copies_are_measured_alone_and_on_request_also_during_training() {
        let text = "size = [\"4 KiB\", \"1 MiB\"]\nmemory = [\"pinned\", \"staged\"]";
        let plain = CopyProbe::new(&toml::from_str(text).unwrap()).cells();
        assert_eq!(plain.len(), 4);
        assert!(plain.iter().all(|cell| !cell.labels.contains_key("beside")));
        let beside = format!(
            "{text}\nbeside = {{ model = \"resnet50\", batch = 32, precision = \"bf16\" }}"
        );
        let probe = CopyProbe::new(&toml::from_str(&beside).unwrap());
        let cells = probe.cells();
        assert!(plain.iter().all(|cell| cells.contains(cell)) && cells.len() == 8);
        let of = cells.iter().find(|cell| cell.label("beside") == "step").expect("one beside");
        assert_eq!(
            (of.label("model"), of.count("batch"), of.count("size")),
            ("resnet50", 32, 4096)
        );
        let task = probe.settings.beside.as_ref().expect("settings").task(7);
        assert_eq!((task.model, task.batch, task.precision), ("resnet50", 32, Precision::Bf16));
    }
}
