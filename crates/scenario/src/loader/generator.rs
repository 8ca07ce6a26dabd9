//! Keras' old `GeneratorEnqueuer`.

use super::{Generator, Stage, StageGraph};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Factor, Positive};
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// How long the enqueuer sleeps before it looks again, unless it is told [s].
const SLEEP: f64 = 0.05;
/// The shortest sleep [s]: systems end none much earlier.
const SHORTEST: f64 = 100e-6;

/// Keras' old `GeneratorEnqueuer` over a generator: batches in any order, looked for every 50 ms.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GeneratorSettings {
    /// `use_multiprocessing`: workers are processes, each with the whole generator, that wait for room in
    /// the queue (default: false: threads, which look every 50 ms whether there is room).
    processes: Field<bool>,
    /// Share of the samples delivered that no worker had delivered before: less than 1 of a generator that
    /// is not safe for several workers (default: 1/workers for processes, which all begin alike; 1 for
    /// threads).
    distinct: Field<Factor>,
    /// `wait_time`: how long who finds nothing, or enough, sleeps before it looks again (default: 50 ms).
    wait_time: Field<Positive<Time>>,
}

impl GeneratorSettings {
    /// Whether workers are processes.
    pub(super) fn processes(&self) -> bool {
        self.processes.get().copied().unwrap_or(false)
    }

    /// How long who finds nothing sleeps [s].
    fn period(&self, check: Check<'_>) -> f64 {
        let period = self.wait_time.get().map_or(SLEEP, |time| time.0);
        if let (Some(at), true) = (self.wait_time.at, period < SHORTEST) {
            check.wrong(
                at,
                "no system sleeps for so short a time",
                "write `wait_time = \"1 ms\"`, or more",
            );
        }
        period
    }

    /// The graph of `worker`, which makes batches of `batch` samples, with room for `queue` of them.
    pub(super) fn graph(
        &self,
        check: Check<'_>,
        at: NodeId,
        worker: Stage,
        queue: u64,
        batch: u64,
    ) -> StageGraph {
        let workers = worker.workers;
        let processes = self.processes();
        let alike = if processes { 1.0 / f64::from(workers.max(1)) } else { 1.0 };
        let distinct = self.distinct.get().map_or(alike, |share| share.0);
        if let (Some(at), true) = (self.distinct.at, distinct > 1.0) {
            check.wrong(at, "no more than all samples are new", "write `distinct = 1`, or less");
        }
        if distinct < 1.0 {
            let (path, again) = (check.document.path(at), 100.0 * (1.0 - distinct));
            check.remark(format!("`{path}` delivers samples again: {again:.0} % of all."));
        }
        // Each thread may have found one place, and all may fill it.
        let buffer = if processes { queue } else { queue.saturating_add(workers.into()) - 1 };
        let generator = Generator {
            period: self.period(check),
            enough: (!processes).then(|| queue.saturating_mul(batch)),
            distinct,
        };
        let stages = vec![Stage { buffer, ..worker }];
        StageGraph { generator: Some(generator), ..StageGraph::new(stages) }
    }
}
