//! How long copies from the host to a GPU take.

use super::gpu::Board;
use super::step::{DeviceName, process_core_seconds};
use super::{Bytes, Cell, Context, List, Probe, ProbeError, Seconds, Trial};
use serde::Deserialize;
use std::time::Duration;

/// The table `[copy]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopySettings {
    /// Sizes of copies.
    pub size: List<Bytes>,
    /// Kinds of the host's memory.
    pub memory: List<HostMemory>,
    /// To which GPU: `cuda:0`.
    #[serde(default = "first")]
    pub device: DeviceName,
    /// Time for this probe.
    pub budget: Option<Seconds>,
}

fn first() -> DeviceName {
    DeviceName::Cuda(0)
}

/// A kind of the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostMemory {
    /// The GPU reads it itself.
    Pinned,
    /// The driver copies it first.
    Pageable,
}

/// The probe `copy`: operations are copies.
#[derive(Debug)]
pub struct CopyProbe {
    settings: CopySettings,
    board: Option<Board>,
}

impl CopyProbe {
    /// A probe by these settings.
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
            let memory = if *memory == HostMemory::Pinned { "pinned" } else { "pageable" };
            for size in &self.settings.size {
                let labels = [("memory", memory), ("device", device.as_str())];
                cells.push(Cell::new(&labels, &[("size", size.0 as f64)]));
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
        let (bytes, pinned) = (cell.count("size"), cell.label("memory") == "pinned");
        let core = process_core_seconds();
        let once = board.copy(bytes, pinned, 3)? / 3.0;
        let times = (context.length.as_secs_f64() / once).clamp(1.0, 1e6) as u64;
        let seconds = board.copy(bytes, pinned, times)?;
        let core_seconds = process_core_seconds() - core;
        Ok(Trial { operations: times, seconds, core_seconds, threads: 1, ..Trial::default() })
    }
}
