//! What it costs to hand an item through the queue.

use super::{Cell, Context, Count, List, Probe, ProbeError, Queue, Seconds, Trial, team};
use serde::Deserialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The table `[queue]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// Capacities of the queue.
    pub capacity: List<Count>,
    /// Numbers of producers.
    pub producers: List<Count>,
    /// Numbers of consumers.
    pub consumers: List<Count>,
    /// Items that a consumer takes at once.
    #[serde(default = "one")]
    pub batch: List<Count>,
    /// Time for this probe.
    pub budget: Option<Seconds>,
}

fn one() -> List<Count> {
    List(vec![Count(1)])
}

/// The probe `queue`: operations are items.
#[derive(Debug)]
pub struct QueueProbe {
    settings: QueueSettings,
}

impl QueueProbe {
    /// A probe by these settings.
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
                    // A batch larger than the queue is taken in several goes.
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
        let (producers, consumers) = (cell.count("producers"), cell.count("consumers"));
        let (queue, open) = (Queue::new(cell.count("capacity")), AtomicUsize::new(producers));
        let batch = cell.count("batch").max(1);
        let team = team(producers + consumers, |index| {
            if index < producers { produce(&queue, &open, context) } else { consume(&queue, batch) }
        })?;
        let operations = team.members[producers..].iter().map(|member| member.value).sum();
        Ok(Trial {
            operations,
            seconds: team.longest(),
            core_seconds: team.core_seconds(),
            threads: producers + consumers,
            waited: team.waited(),
            ..Trial::default()
        })
    }
}

/// Puts items until time is up; the last producer closes the queue. Returns how many.
fn produce(queue: &Queue<u64>, open: &AtomicUsize, context: &Context<'_>) -> u64 {
    /// So many items that looking at the clock does not count.
    const TURN: u64 = 64;
    let (start, mut items) = (Instant::now(), 0);
    while start.elapsed() < context.length {
        for item in items..items + TURN {
            if queue.put(item).is_err() {
                return item;
            }
        }
        items += TURN;
    }
    if open.fetch_sub(1, Ordering::SeqCst) == 1 {
        queue.close();
    }
    items
}

/// Takes items until the queue is closed and empty. Returns how many.
fn consume(queue: &Queue<u64>, batch: usize) -> u64 {
    let (mut items, mut taken) = (0, Vec::with_capacity(batch));
    loop {
        let got = if batch == 1 {
            usize::from(queue.take().is_some())
        } else {
            queue.take_many(batch, &mut taken)
        };
        items += got as u64;
        taken.clear();
        if got < batch {
            return items;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Ruler;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_item_put_is_taken() {
        let (queue, open) = (Queue::new(8), AtomicUsize::new(2));
        let stop = AtomicBool::new(false);
        let context = Context {
            directory: Path::new("."),
            length: Duration::from_millis(5),
            ruler: Ruler::default(),
            deadline: Instant::now(),
            stop: &stop,
            seed: 0,
        };
        let team = team(4, |index| match index {
            0 | 1 => produce(&queue, &open, &context),
            2 => consume(&queue, 1),
            _ => consume(&queue, 5),
        });
        let items: Vec<u64> = team.unwrap().members.iter().map(|member| member.value).collect();
        assert!(items[0] > 0 && items[1] > 0, "{items:?}");
        assert_eq!(items[0] + items[1], items[2] + items[3]);
    }

    #[test]
    fn batches_larger_than_the_queue_are_no_cells() {
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
