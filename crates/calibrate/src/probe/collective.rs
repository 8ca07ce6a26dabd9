//! The probe `collective`: measures how long collectives among this machine's GPUs take.

use super::gpu::{Exchange, Ranks};
use super::step::process_core_seconds;
use super::{Bytes, Cell, Context, Count, List, Probe, ProbeError, Seconds, Trial, gpu};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// The table `[collective]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectiveSettings {
    /// Collectives to time: `allreduce`, `reduce-scatter`, `allgather`, `broadcast`, `reduce`.
    pub operation: List<Exchange>,
    /// Sizes of a collective: the size of a rank's send buffer or receive buffer, whichever is larger.
    pub size: List<Bytes>,
    /// Numbers of GPUs, with one rank on each; numbers larger than the machine's GPU count are left out.
    pub gpus: List<Count>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// The probe `collective`: each operation is one collective.
#[derive(Debug)]
pub struct CollectiveProbe {
    settings: CollectiveSettings,
    /// Number of the machine's GPUs; `None` before `prepare`.
    there: Option<usize>,
    /// The NCCL ranks of the last trial with their number; they are kept, because opening them takes long.
    ranks: Option<(usize, Ranks)>,
}

impl CollectiveProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &CollectiveSettings) -> CollectiveProbe {
        CollectiveProbe { settings: settings.clone(), there: None, ranks: None }
    }

    /// Runs the cell's collective `times` times; returns the total wall time [s].
    fn time(&mut self, cell: &Cell, times: u64) -> Result<f64, ProbeError> {
        let count = cell.count("ranks");
        if self.ranks.as_ref().is_none_or(|(has, _)| *has != count) {
            // The ranks of the last trial free their GPU memory before new ones allocate theirs.
            self.ranks = None;
            let most = self.settings.size.iter().map(|size| size.0).max().unwrap_or(4);
            self.ranks = Some((count, Ranks::open(count, usize::try_from(most).unwrap_or(4))?));
        }
        let Some((_, ranks)) = &self.ranks else { return Err(ProbeError::Time) };
        let named = Exchange::ALL.into_iter().find(|of| of.name() == cell.label("collective"));
        let start = Instant::now();
        ranks.run(named.unwrap_or(Exchange::AllReduce), cell.count("bytes").max(4), times)?;
        Ok(start.elapsed().as_secs_f64())
    }
}

impl Probe for CollectiveProbe {
    fn name(&self) -> &'static str {
        "collective"
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let there = |gpus: &&Count| self.there.is_none_or(|there| gpus.0 <= there);
        for gpus in self.settings.gpus.iter().filter(there) {
            for operation in &self.settings.operation {
                for size in &self.settings.size {
                    let labels = [("transport", "nccl"), ("collective", operation.name())];
                    let settings = [("bytes", size.0 as f64), ("ranks", gpus.0 as f64)];
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
        let there = gpu::count().map_err(ProbeError::Machine)?;
        let version = gpu::nccl().map_err(ProbeError::Machine)?;
        self.there = Some(there);
        Ok(notes(there, &version, &self.settings.gpus))
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let core = process_core_seconds();
        let once = self.time(cell, 5)? / 5.0;
        let times = (context.length.as_secs_f64() / once).clamp(1.0, 1e5) as u64;
        let seconds = self.time(cell, times)?;
        let core_seconds = process_core_seconds() - core;
        Ok(Trial { operations: times, seconds, core_seconds, threads: 1, ..Trial::default() })
    }
}

/// Returns notes for the user: NCCL's version, the number of the machine's GPUs (`there`), and the
/// requested numbers of GPUs (`asked`) that cannot be measured.
fn notes(there: usize, version: &str, asked: &List<Count>) -> Vec<String> {
    let mut notes = vec![format!("NCCL {version} among {there} GPUs")];
    if there == 1 && asked.iter().any(|gpus| gpus.0 == 1) {
        let what = "with one GPU only the cost of a collective that sends nothing is measured; the rest needs more GPUs";
        notes.push(what.to_owned());
    }
    let lacking: Vec<String> =
        asked.iter().filter(|gpus| gpus.0 > there).map(|gpus| gpus.0.to_string()).collect();
    if !lacking.is_empty() {
        let lacking = lacking.join(", ");
        notes.push(format!("not measured: {lacking} GPUs, as there are only {there}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_are_not_measured_on_more_gpus_than_the_machine_has() {
        let text = "operation = [\"allreduce\", \"reduce-scatter\"]\nsize = [\"4 KiB\", \"1 MiB\"]\n\
                    gpus = [1, 2, 8]";
        let mut probe = CollectiveProbe::new(&toml::from_str(text).unwrap());
        assert_eq!(probe.cells().len(), 12);
        probe.there = Some(2);
        let cells = probe.cells();
        assert_eq!(cells.len(), 8);
        let last = cells.last().expect("trials");
        assert_eq!((last.label("transport"), last.label("collective")), ("nccl", "reduce-scatter"));
        assert_eq!((last.count("bytes"), last.count("ranks")), (1 << 20, 2));
        let unknown = text.replace("allreduce", "allsum");
        assert!(toml::from_str::<CollectiveSettings>(&unknown).is_err());
    }

    #[test]
    fn gpu_counts_that_cannot_be_measured_are_reported() {
        let asked = List(vec![Count(1), Count(2), Count(4)]);
        let one = notes(1, "2.28.9", &asked).join("\n");
        for part in ["2.28.9", "a collective that sends nothing", "not measured: 2, 4 GPUs"] {
            assert!(one.contains(part), "{part}: {one}");
        }
        let eight = notes(8, "2.28.9", &asked);
        assert_eq!(eight, ["NCCL 2.28.9 among 8 GPUs"]);
    }
}
