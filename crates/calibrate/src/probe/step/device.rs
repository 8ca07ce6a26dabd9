//! Devices on which steps are timed, and how steps are timed on GPUs.

use super::{Steps, process_core_seconds};
use crate::probe::gpu::{Beat, Board, Precision, Task};
use crate::probe::{Cell, Context, ProbeError, Trial};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// A device to train on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum DeviceName {
    /// The processor's cores.
    Cpu,
    /// The GPU of this number.
    Cuda(usize),
}

impl TryFrom<String> for DeviceName {
    type Error = String;

    fn try_from(name: String) -> Result<DeviceName, String> {
        let number = || name.strip_prefix("cuda:")?.parse::<u8>().ok();
        match (name.as_str(), number()) {
            ("cpu", _) => Ok(DeviceName::Cpu),
            (_, Some(number)) => Ok(DeviceName::Cuda(usize::from(number))),
            _ => Err(format!("`{name}`: write `cpu`, `cuda:0`, `cuda:1`, ...")),
        }
    }
}

impl schemars::JsonSchema for DeviceName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DeviceName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "`cpu`, or a GPU by its number",
            "pattern": "^(cpu|cuda:[0-9]+)$",
        })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Cpu => to.write_str("cpu"),
            DeviceName::Cuda(number) => write!(to, "cuda:{number}"),
        }
    }
}

/// Compares the results of a GPU with those of the cores. Returns a note with the largest difference; reports
/// an error if rounding does not explain a difference.
pub(super) fn check(board: &Board, precision: Precision, seed: u64) -> Result<String, ProbeError> {
    let found = board.check(precision, seed)?;
    let name = precision.name();
    let wrong = found.iter().filter(|of| !of.passes());
    let wrong: Vec<String> = wrong.map(ToString::to_string).collect();
    if !wrong.is_empty() {
        let wrong = wrong.join("; ");
        return Err(ProbeError::Machine(format!("in {name} the GPU computes wrongly: {wrong}")));
    }
    let share = |of: &&crate::probe::gpu::Difference| of.error / of.limit;
    let worst = found.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    let worst = worst.map_or_else(String::new, |of| {
        format!("; nearest to its limit of {:.0e}: {}, {:.1e}", of.limit, of.what, of.error)
    });
    Ok(format!("{} results in {name} agree with the cores{worst}", found.len()))
}

/// How steps run on a GPU. Each setup counts as a device of its own, for which step times are fitted to the
/// batch size separately.
#[derive(Debug, Clone, Copy)]
pub(super) struct GpuSetup {
    /// The GPU's number.
    pub(super) number: usize,
    pub(super) precision: Precision,
    /// Whether a step is recorded once as a CUDA graph and then launched as a whole.
    pub(super) graph: bool,
    /// Number of networks that train at the same time.
    pub(super) learners: usize,
    /// Steps between two averagings of the networks; `None` without averaging.
    pub(super) average_every: Option<usize>,
}

impl GpuSetup {
    /// Returns the cell of a network and a batch size.
    pub(super) fn cell(&self, model: &str, batch: usize) -> Cell {
        let graph = if self.graph { "-graph" } else { "" };
        let several = match self.learners {
            1 => String::new(),
            several => format!("-{several}-learners"),
        };
        let precision = self.precision.name();
        let averaging = |every: usize| format!("-averaging-{every}");
        let averaging = self.average_every.map_or_else(String::new, averaging);
        let device = format!("cuda-{}-{precision}{graph}{several}{averaging}", self.number);
        let labels = [("model", model), ("device", &device), ("precision", precision)];
        let settings = [
            ("batch", batch as f64),
            ("learners", self.learners as f64),
            ("gpu", self.number as f64),
            ("graph", f64::from(u8::from(self.graph))),
        ];
        let every = self.average_every.map(|every| ("average_every", every as f64));
        let settings: Vec<_> = settings.into_iter().chain(every).collect();
        Cell::new(&labels, &settings)
    }
}

/// Returns the task that a cell describes.
fn task(cell: &Cell, seed: u64) -> Task<'_> {
    let named = Precision::ALL.iter().find(|of| of.name() == cell.label("precision"));
    Task {
        model: cell.label("model"),
        batch: cell.count("batch"),
        precision: named.copied().unwrap_or(Precision::Fp32),
        learners: cell.count("learners").max(1),
        average_every: Some(cell.count("average_every") as u64).filter(|every| *every > 0),
        graph: cell.count("graph") == 1,
        seed,
    }
}

/// Returns those cells that need more memory than the GPU has free.
pub(super) fn too_large(board: &Board, mut cells: Vec<Cell>) -> Result<Vec<Cell>, ProbeError> {
    let free = board.free()?;
    cells.retain(|cell| task(cell, 0).memory() > free);
    Ok(cells)
}

/// Times training steps on a GPU.
pub(super) fn trial(
    board: &Board,
    cell: &Cell,
    context: &Context<'_>,
) -> Result<Trial, ProbeError> {
    let core = process_core_seconds();
    let ran = board.train(task(cell, context.seed), context.length.as_secs_f64())?;
    let on_gpu = Steps { seconds: ran.laps.clone(), ..Steps::default() };
    let mut observed: BTreeMap<String, f64> = [
        ("jitter".to_owned(), on_gpu.jitter()),
        ("loss".to_owned(), ran.loss),
        ("device_seconds".to_owned(), ran.laps.iter().sum()),
        ("memory".to_owned(), ran.memory as f64),
        ("memory_taken".to_owned(), ran.memory_taken as f64),
    ]
    .into();
    observed.extend(clocks(&ran.beats));
    let excluded = ran.beats.as_ref().and_then(|(before, after)| after.disturbed(before));
    Ok(Trial {
        operations: ran.rounds,
        seconds: ran.seconds,
        core_seconds: process_core_seconds() - core,
        threads: 1,
        waited: 0.0,
        observed,
        excluded,
        ..Trial::default()
    })
}

/// Returns the observations of the GPU's clock: before the steps, after them, and the highest that the GPU can
/// have [Hz].
fn clocks(beats: &Option<(Beat, Beat)>) -> Vec<(String, f64)> {
    let Some((before, after)) = beats else { return Vec::new() };
    let named = |name: &str, hertz| (name.to_owned(), hertz);
    vec![
        named("clock_before", before.clock),
        named("clock_after", after.clock),
        named("clock_most", after.most),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::StepProbe;
    use super::*;
    use crate::probe::Probe;

    /// System: a table of one and two learners without averaging, and one with averaging every first and every fourth step.
    /// Expectation: trials with averaging are other kinds of trials, on a device of their own name, and only they have the
    /// setting; one learner does not average.
    #[test]
    fn learners_that_average_are_trials_of_their_own() {
        let table =
            "model = [\"lenet5\"]\nbatch = [16]\ndevice = [\"cuda:0\"]\nlearners = [1, 2]\n";
        let averaging = format!("{table}average_every = [1, 4]\n");
        let settings = [table, &averaging].map(|text| toml::from_str(text).unwrap());
        let cells = StepProbe::new(&settings).cells();
        let of = |cell: &Cell| {
            let every = cell.settings.get("average_every").copied();
            (cell.label("device").to_owned(), cell.count("learners"), every)
        };
        let expected = [
            ("cuda-0-fp32", 1, None),
            ("cuda-0-fp32-2-learners", 2, None),
            ("cuda-0-fp32-2-learners-averaging-1", 2, Some(1.0)),
            ("cuda-0-fp32-2-learners-averaging-4", 2, Some(4.0)),
        ];
        let expected =
            expected.map(|(device, learners, every)| (device.to_owned(), learners, every));
        assert_eq!(cells.iter().map(of).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn gpu_precision_graph_and_learners_are_part_of_the_device_name() {
        let way = |precision, graph, learners, average_every| GpuSetup {
            number: 1,
            precision,
            graph,
            learners,
            average_every,
        };
        let name = |way: GpuSetup| way.cell("lenet5", 4).label("device").to_owned();
        assert_eq!(name(way(Precision::Fp32, false, 1, None)), "cuda-1-fp32");
        assert_eq!(name(way(Precision::Bf16, true, 3, None)), "cuda-1-bf16-graph-3-learners");
        let cell = way(Precision::Tf32, true, 2, Some(5)).cell("lenet5", 4);
        assert_eq!(cell.label("device"), "cuda-1-tf32-graph-2-learners-averaging-5");
        let asked = task(&cell, 9);
        let expected = Task {
            model: "lenet5",
            batch: 4,
            precision: Precision::Tf32,
            learners: 2,
            average_every: Some(5),
            graph: true,
            seed: 9,
        };
        assert_eq!(asked, expected);
    }

    /// System: tasks on a GPU that differ in samples, learners and precision. Expectation: more samples, more
    /// learners, wider numbers and the central model of an averaging need more memory.
    #[test]
    fn gpu_memory_grows_with_batch_size_learners_number_width_and_averaging() {
        let bytes = |precision, learners, batch| {
            let way =
                GpuSetup { number: 0, precision, graph: false, learners, average_every: None };
            let averages = GpuSetup { average_every: Some(1), ..way };
            let bytes = |way: GpuSetup| task(&way.cell("resnet50", batch), 0).memory();
            (bytes(way), bytes(averages))
        };
        let (one, _) = bytes(Precision::Fp32, 1, 8);
        let (two, averages) = bytes(Precision::Fp32, 2, 8);
        assert_eq!(two, 2 * one);
        assert!(bytes(Precision::Fp32, 1, 16).0 > one && bytes(Precision::Bf16, 1, 8).0 < one);
        // Parameters, gradients and momentum alone take 12 bytes for each parameter.
        assert!(one > 12 * 25_557_032, "{one}");
        // The central model, the one before and the sum of corrections.
        assert!(averages - two > 12 * 25_557_032, "{two} {averages}");
    }
}
