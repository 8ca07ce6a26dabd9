//! The probe `queue`: measures what it costs to hand a sample from a worker to a trainer, with the queue rules and
//! the lock of live runs.

use super::{Cell, Context, Count, List, Probe, ProbeError, Seconds, Trial, team};
use forebay_engine::Time;
use forebay_live_queue::{Plain, Shared, Watch};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// The table `[queue]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// Capacities of the queue [samples].
    pub capacity: List<Count>,
    /// Numbers of producer threads.
    pub producers: List<Count>,
    /// Numbers of consumer threads; each takes a batch, then all wait for each other.
    pub consumers: List<Count>,
    /// Samples that a consumer takes at once (default: [1]).
    #[serde(default = "one")]
    pub batch: List<Count>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

fn one() -> List<Count> {
    List(vec![Count(1)])
}

/// The probe `queue`: each operation is one sample that a consumer takes from the queue and uses in a step.
#[derive(Debug)]
pub struct QueueProbe {
    settings: QueueSettings,
}

impl QueueProbe {
    /// Returns a probe with these settings.
    #[must_use]
    pub fn new(settings: &QueueSettings) -> QueueProbe {
        QueueProbe { settings: settings.clone() }
    }
}

impl Probe for QueueProbe {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let QueueSettings { capacity, producers, consumers, batch, .. } = &self.settings;
        for capacity in capacity {
            for producers in producers {
                for consumers in consumers {
                    // A queue smaller than the batch would never hold a whole batch.
                    for batch in batch.iter().filter(|batch| *batch <= capacity) {
                        let number = |count: &Count| count.0 as f64;
                        cells.push(Cell::new(
                            &[],
                            &[
                                ("capacity", number(capacity)),
                                ("producers", number(producers)),
                                ("consumers", number(consumers)),
                                ("batch", number(batch)),
                            ],
                        ));
                    }
                }
            }
        }
        cells
    }

    fn budget(&self) -> Option<Duration> {
        self.settings.budget.map(Seconds::duration)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        let count = |name: &str| cell.count(name).max(1);
        let plain = Plain {
            producers: count("producers") as u32,
            capacity: count("capacity") as u64,
            consumers: count("consumers") as u32,
            batch: count("batch") as u64,
        };
        let shared: Shared<Elapsed> =
            plain.shared(Time::from_seconds(context.length.as_secs_f64()));
        let threads = plain.producers + plain.consumers;
        let team = team(threads as usize, |index| {
            let index = index as u32;
            if index == 0 {
                plain.start(&shared, Elapsed::begun());
            }
            match index.checked_sub(plain.producers) {
                None => (shared.produce(index), 0),
                Some(d) => (0, shared.consume(d) * plain.batch),
            }
        })?;
        Ok(Trial {
            operations: team.members.iter().map(|member| member.value.1).sum(),
            seconds: team.longest(),
            core_seconds: team.core_seconds(),
            threads: threads as usize,
            waited: team.waited(),
            ..Trial::default()
        })
    }
}

/// A clock that shows the time since an instant.
#[derive(Debug, Clone, Copy)]
struct Elapsed(Instant);

impl Watch for Elapsed {
    fn begun() -> Elapsed {
        Elapsed(Instant::now())
    }

    fn now(self) -> Time {
        Time(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ruler;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_sample_count_of_a_queue_trial_is_a_multiple_of_the_batch_size() {
        let stop = AtomicBool::new(false);
        let context = Context {
            directory: Path::new("."),
            length: Duration::from_millis(20),
            longest: Duration::from_millis(20),
            noise: 1.0,
            ruler: Ruler::default(),
            deadline: Instant::now(),
            stop: &stop,
            seed: 0,
        };
        let list = |count| List(vec![Count(count)]);
        let (capacity, producers, consumers, batch) = (list(64), list(2), list(2), list(8));
        let mut probe =
            QueueProbe::new(&QueueSettings { capacity, producers, consumers, batch, budget: None });
        let cell = probe.cells().remove(0);
        let trial = probe.trial(&cell, &context).expect("a trial");
        assert!(trial.operations > 0 && trial.operations.is_multiple_of(8), "{trial:?}");
        assert_eq!(trial.threads, 4);
        assert!(trial.seconds >= 0.02, "{trial:?}");
    }

    #[test]
    fn batches_larger_than_the_queue_are_not_measured() {
        let list = |counts: &[usize]| List(counts.iter().map(|&count| Count(count)).collect());
        let settings = QueueSettings {
            capacity: list(&[1, 64]),
            producers: list(&[1, 2]),
            consumers: list(&[1]),
            batch: list(&[1, 32]),
            budget: None,
        };
        assert_eq!(QueueProbe::new(&settings).cells().len(), 2 + 4);
    }
}
