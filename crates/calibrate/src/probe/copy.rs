//! The probe `copy`: measures how long copies from the host to a GPU take.

use super::fresh::Decoding;
use super::gpu::{Board, Copied, Copies, Precision, Task};
use super::step::{DeviceName, process_core_seconds};
use super::{
    Bytes, Cell, Context, Count, List, ModelName, Probe, ProbeError, Seconds, Tables, Trial,
};
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
    /// What else runs during the copies, one table or several; each adds trials of every memory kind and size to those
    /// of copies alone (default: nothing).
    pub beside: Option<Tables<BesideSettings>>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// What runs during the copies: training, decoding, or both.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BesideSettings {
    /// Network to train on another stream (default: none).
    pub model: Option<ModelName>,
    /// Batch size: samples per training step. Needed with `model`.
    pub batch: Option<Count>,
    /// Precision of the training: `fp32`, `tf32`, `bf16`. Needed with `model`.
    pub precision: Option<Precision>,
    /// Threads that decode images into the batches that are copied (default: none).
    pub decode: Option<DecodingSettings>,
}

/// Threads that decode images during the copies. Copies from pageable memory, and staged ones, take the batches that the threads
/// have just decoded; their times do not contain the wait for a batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecodingSettings {
    /// Number of threads.
    pub threads: Count,
    /// Width of the generated images [pixels]; the height is three quarters of the width.
    pub width: Count,
    /// Side of the square that images are resized to [pixels].
    pub resize: Count,
}

/// Largest side of images that are decoded beside copies [pixels].
const LARGEST_SIDE: usize = 8192;
/// A trial's limit, in lengths of a trial: few threads decode more slowly than batches are copied.
const LONGEST: f64 = 4.0;

fn first() -> DeviceName {
    DeviceName::Cuda(0)
}

/// A kind of host memory that is copied to a GPU. Copies take their bytes from 512 MiB in turn, so that caches do not hold them, or
/// from batches that have just been decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostMemory {
    /// Pinned (page-locked) memory, which the GPU reads directly.
    Pinned,
    /// Ordinary memory, which the driver copies to pinned memory of its own first. The calling thread waits for each copy.
    Pageable,
    /// Ordinary memory, which the calling thread copies to pinned memory first, as live runs do with batches. It waits for
    /// each copy.
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

impl CopySettings {
    /// Returns what is wrong with the settings, with a remedy; `None` if they are valid.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.companions().find_map(|of| of.problem())
    }

    fn companions(&self) -> impl Iterator<Item = &BesideSettings> {
        self.beside.iter().flat_map(|tables| &tables.0)
    }
}

impl BesideSettings {
    fn problem(&self) -> Option<String> {
        let training = [self.model.is_some(), self.batch.is_some(), self.precision.is_some()];
        let sides = self.decode.iter().flat_map(|of| [of.width.0, of.resize.0]);
        let side = sides.max().filter(|&side| side > LARGEST_SIDE);
        let nothing = training == [false; 3] && self.decode.is_none();
        if nothing || ![[false; 3], [true; 3]].contains(&training) {
            let remedy = "write `model`, `batch` and `precision`, or `decode`, or all of them";
            return Some(format!("copy.beside: training needs all its keys; {remedy}"));
        }
        side.map(|side| {
            format!("copy.beside: {side} pixels are too many; write at most {LARGEST_SIDE}")
        })
    }

    /// Returns what goes on beside the copies, as cells of the profile name it: `step`, `decode` or `step-decode`.
    fn label(&self) -> String {
        let parts = [self.model.as_ref().map(|_| "step"), self.decode.map(|_| "decode")];
        parts.into_iter().flatten().collect::<Vec<_>>().join("-")
    }

    /// Returns the cell of copies with these labels and size beside this.
    fn cell(&self, labels: [(&str, &str); 2], size: f64) -> Cell {
        let beside = self.label();
        let training = self.model.as_ref().zip(self.batch);
        let model = training.map(|(model, _)| ("model", model.name()));
        let batch = training.map(|(_, batch)| ("batch", batch.0 as f64));
        let decoding = self.decode.map(|of| {
            let DecodingSettings { threads, width, resize } = of;
            [("threads", threads), ("width", width), ("resize", resize)]
                .map(|(k, n)| (k, n.0 as f64))
        });
        let labels = labels.into_iter().chain([("beside", beside.as_str())]).chain(model);
        let settings =
            [("size", size)].into_iter().chain(batch).chain(decoding.into_iter().flatten());
        Cell::new(&labels.collect::<Vec<_>>(), &settings.collect::<Vec<_>>())
    }

    /// Returns the task of one learner that trains with CUDA graphs for as long as copies run; `None` without training.
    fn task(&self, seed: u64) -> Option<Task<'_>> {
        let (model, batch, precision) =
            (self.model.as_ref()?.name(), self.batch?.0, self.precision?);
        Some(Task { model, batch, precision, learners: 1, average_every: None, graph: true, seed })
    }
}

/// The probe `copy`: each operation is one copy.
#[derive(Debug)]
pub struct CopyProbe {
    settings: CopySettings,
    board: Option<Board>,
    /// For each table of `beside`: its decoding, if it has any.
    decoding: Vec<Option<Decoding>>,
}

impl CopyProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &CopySettings) -> CopyProbe {
        CopyProbe { settings: settings.clone(), board: None, decoding: Vec::new() }
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
            for size in &self.settings.size {
                let labels = [("memory", memory.name()), ("device", device.as_str())];
                cells.push(Cell::new(&labels, &[("size", size.0 as f64)]));
                let beside = |of: &BesideSettings| of.cell(labels, size.0 as f64);
                cells.extend(self.settings.companions().map(beside));
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
        let decoding = |of: &BesideSettings| {
            let DecodingSettings { threads, width, resize } = of.decode?;
            Some(Decoding::new(threads.0, width.0, resize.0 as u32))
        };
        self.decoding = self.settings.companions().map(decoding).collect();
        Ok(Vec::new())
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let Some(board) = &self.board else { return Err(ProbeError::Time) };
        let named = |of: &&HostMemory| of.name() == cell.label("memory");
        let memory = self.settings.memory.iter().find(named).copied().unwrap_or(HostMemory::Pinned);
        let bytes = cell.count("size");
        let labels = ["memory", "device"].map(|name| (name, cell.label(name)));
        let mut companions = self.settings.companions().zip(&self.decoding);
        let beside = companions.find(|(of, _)| of.cell(labels, bytes as f64) == *cell);
        let alone = Copies { bytes, memory, times: 3, within: f64::INFINITY, beside: None };
        let once = board.copy(alone, None)?.seconds / 3.0;
        let length = context.length.as_secs_f64();
        let copies = Copies {
            times: (length / once).clamp(1.0, 1e6) as u64,
            within: LONGEST * length,
            beside: beside.and_then(|(of, _)| of.task(context.seed)),
            ..alone
        };
        let core = process_core_seconds();
        let found = board.copy(copies, beside.and_then(|(_, of)| of.as_ref()))?;
        let Copied { times, seconds, steps, training, step_alone } = found;
        let core_seconds = process_core_seconds() - core;
        let mut trial =
            Trial { operations: times, seconds, core_seconds, threads: 1, ..Trial::default() };
        if steps > 0 {
            trial.observed.insert("steps_per_second".to_owned(), steps as f64 / training);
            trial.observed.insert("steps_per_second_alone".to_owned(), 1.0 / step_alone);
        }
        Ok(trial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(text: &str) -> CopyProbe {
        CopyProbe::new(&toml::from_str(text).expect("settings"))
    }

    #[test]
    fn gpu_copies_are_measured_alone_and_on_request_also_beside_training_and_decoding() {
        let text = "size = [\"4 KiB\", \"1 MiB\"]\nmemory = [\"pinned\", \"staged\"]\n";
        let plain = probe(text).cells();
        assert_eq!(plain.len(), 4);
        assert!(plain.iter().all(|cell| !cell.labels.contains_key("beside")));
        let step = "model = \"resnet50\", batch = 32, precision = \"bf16\"";
        let decode = "decode = { threads = 12, width = 256, resize = 224 }";
        let several =
            [format!("{{ {step} }}"), format!("{{ {decode} }}"), format!("{{ {step}, {decode} }}")];
        let one = probe(&format!("{text}beside = {}", several[0])).cells();
        assert!(plain.iter().all(|cell| one.contains(cell)) && one.len() == 8);
        let probe = probe(&format!("{text}beside = [{}]", several.join(", ")));
        let cells = probe.cells();
        assert!(one.iter().all(|cell| cells.contains(cell)) && cells.len() == 16);
        let of =
            |label: &str| cells.iter().find(|cell| cell.label("beside") == label).expect("one");
        assert_eq!((of("step").label("model"), of("step").count("batch")), ("resnet50", 32));
        assert_eq!((of("decode").count("threads"), of("decode").count("width")), (12, 256));
        assert_eq!(of("step-decode").count("batch"), of("step-decode").count("threads") + 20);
        let task = probe.settings.companions().next().expect("one").task(7).expect("training");
        assert_eq!((task.model, task.batch, task.precision), ("resnet50", 32, Precision::Bf16));
        assert_eq!(probe.settings.problem(), None);
    }

    #[test]
    fn training_or_decoding_beside_copies_needs_all_its_keys() {
        for (beside, expected) in [
            ("{ model = \"lenet5\", batch = 32 }", "copy.beside: training needs all its keys"),
            ("{}", "write `model`, `batch` and `precision`, or `decode`"),
            (
                "{ decode = { threads = 1, width = 9000, resize = 224 } }",
                "9000 pixels are too many",
            ),
        ] {
            let text = format!("size = [\"1 MiB\"]\nmemory = [\"staged\"]\nbeside = {beside}");
            let settings: CopySettings = toml::from_str(&text).expect("settings");
            let found = settings.problem().expect("a problem");
            assert!(found.contains(expected), "{found}");
        }
    }
}
