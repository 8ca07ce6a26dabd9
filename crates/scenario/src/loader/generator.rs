//! Keras' old `GeneratorEnqueuer`.

use super::{Generator, Stage, StageGraph};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Factor, Positive};
use crate::role::Role;
use forebay_model::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// Default time for which the enqueuer sleeps between two polls [s].
const SLEEP: f64 = 0.05;
/// Minimum sleep time that may be set [s]: operating systems do not end a sleep much earlier.
const SHORTEST: f64 = 100e-6;

/// Keras' old `GeneratorEnqueuer` over a generator: batches come in any order, and the trainer looks for one every 50
/// ms.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GeneratorSettings {
    /// `use_multiprocessing`: whether workers are processes. Each process iterates over its own copy of the generator,
    /// and waits for room in the queue; threads instead poll for room, by default every 50 ms (default: false).
    #[schemars(extend("x-role" = Role::Choice))]
    processes: Field<bool>,
    /// Share of the delivered samples that no worker has delivered before: less than 1 if the generator is not safe for
    /// several workers (default: 1/workers for processes, because all begin with the same samples; 1 for threads).
    #[schemars(extend("x-role" = Role::Identity))]
    distinct: Field<Factor>,
    /// `wait_time`: time for which a trainer that finds no batch, or a worker that finds enough batches, sleeps
    /// before it looks again (default: 50 ms).
    #[schemars(extend("x-role" = Role::Limit))]
    wait_time: Field<Positive<Time>>,
}

impl GeneratorSettings {
    /// Returns whether workers are processes.
    pub(super) fn processes(&self) -> bool {
        self.processes.get().copied().unwrap_or(false)
    }

    /// Returns the time for which a trainer or worker sleeps before it looks again [s]; reports a problem if the time
    /// is too short.
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

    /// Returns the stage graph of this loader: the stage `worker`, which makes batches of `batch` samples, and a
    /// queue with room for `queue` batches.
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
            check.wrong(
                at,
                "the share of distinct samples is at most 1",
                "write `distinct = 1`, or less",
            );
        }
        if distinct < 1.0 {
            let (path, again) = (check.document.path(at), 100.0 * (1.0 - distinct));
            check.remark(format!("With `{path}`, {again:.0} % of all samples are repeats."));
        }
        // All threads may have found the same free place in the queue, and each then adds a batch.
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
