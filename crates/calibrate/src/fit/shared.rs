//! Fits the storage that the nodes of a cluster share: reads, opens and writes by more and more nodes.

use super::cell::{Cell, Cells, Observation};
use super::estimate::{Law, Term};
use super::shape::Piece;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;
use std::collections::BTreeMap;

/// Law of reads: the time of a request is the longest of the times that each limit alone would give it. Settings are the size, the number
/// of nodes and that of threads of each node.
const READ: Law<'static> = Law {
    pieces: &[
        Piece { columns: 2, features: |x| [1.0 / (x[1] * x[2]), x[0] / (x[1] * x[2]), 0.0] },
        Piece { columns: 1, features: |x| [x[0], 0.0, 0.0] },
        Piece { columns: 1, features: |_| [1.0, 0.0, 0.0] },
        Piece { columns: 1, features: |x| [x[0] / x[1], 0.0, 0.0] },
    ],
    terms: &[
        Term {
            name: "latency",
            unit: "s",
            at: (0, 0),
            rate: false,
            unseen: "no trial waited for single requests: measure fewer threads or smaller files",
        },
        Term {
            name: "per_stream",
            unit: "B/s",
            at: (0, 1),
            rate: true,
            unseen: "no trial was limited by single streams",
        },
        Term {
            name: "bandwidth",
            unit: "B/s",
            at: (1, 0),
            rate: true,
            unseen: "all nodes together did not reach a limit of bytes",
        },
        Term {
            name: "operations",
            unit: "1/s",
            at: (2, 0),
            rate: true,
            unseen: "all nodes together did not reach a limit of requests",
        },
        Term {
            name: "per_client",
            unit: "B/s",
            at: (3, 0),
            rate: true,
            unseen: "no single node reached a limit of bytes before all together did",
        },
    ],
    settings: &["size", "nodes", "streams"],
};

/// Law of opens, of files that are not read.
const OPEN: Law<'static> = Law {
    pieces: &[
        Piece { columns: 1, features: |x| [1.0 / (x[0] * x[1]), 0.0, 0.0] },
        Piece { columns: 1, features: |_| [1.0, 0.0, 0.0] },
    ],
    terms: &[
        Term {
            name: "latency",
            unit: "s",
            at: (0, 0),
            rate: false,
            unseen: "no trial waited for single opens: measure fewer threads",
        },
        Term {
            name: "operations",
            unit: "1/s",
            at: (1, 0),
            rate: true,
            unseen: "all nodes together did not reach a limit of opens",
        },
    ],
    settings: &["nodes", "streams"],
};

/// Law of writes: time of a byte.
const WRITE: Law<'static> = Law {
    pieces: &[
        Piece { columns: 1, features: |x| [1.0 / (x[0] * x[1]), 0.0, 0.0] },
        Piece { columns: 1, features: |_| [1.0, 0.0, 0.0] },
        Piece { columns: 1, features: |x| [1.0 / x[0], 0.0, 0.0] },
    ],
    terms: &[
        Term {
            name: "per_stream",
            unit: "B/s",
            at: (0, 0),
            rate: true,
            unseen: "no trial was limited by single streams",
        },
        Term {
            name: "bandwidth",
            unit: "B/s",
            at: (1, 0),
            rate: true,
            unseen: "all nodes together did not reach a limit of bytes",
        },
        Term {
            name: "per_client",
            unit: "B/s",
            at: (2, 0),
            rate: true,
            unseen: "no single node reached a limit before all together did",
        },
    ],
    settings: &["nodes", "streams"],
};

/// Shares of the highest rate from which on a limit may bind a cell, for the starts of a fit; above one, it binds none.
const NEAR: [f64; 3] = [2.0, 0.93, 0.8];

/// Returns the fits of reads by kind of access, of opens and of writes.
pub(super) fn storage(all: &[&Sample], draws: usize) -> BTreeMap<String, Fit> {
    let of = |probe: &str| -> Vec<&Sample> {
        all.iter().filter(|sample| sample.probe == probe).copied().collect()
    };
    let reads = of("shared-read");
    let mut fits: BTreeMap<String, Fit> = super::by(
        &reads,
        |sample| sample.label("access").to_owned(),
        |group| reading(group, draws),
    )
    .into_iter()
    .filter_map(|(access, fit)| Some((access, fit?)))
    .collect();
    fits.extend(fit(&OPEN, &of("shared-open"), draws).map(|fit| ("open".to_owned(), fit)));
    fits.extend(fit(&WRITE, &of("shared-write"), draws).map(|fit| ("write".to_owned(), fit)));
    fits.retain(|name, _| !name.is_empty());
    fits
}

fn reading(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let mut fit = fit(&READ, samples, draws)?;
    // The spread of latencies is that of single requests: of the trials with the fewest threads of one node.
    let fewest = samples
        .iter()
        .map(|s| s.setting("nodes") * s.setting("streams"))
        .fold(f64::INFINITY, f64::min);
    let alone: Vec<&Sample> = samples
        .iter()
        .filter(|s| s.setting("nodes") * s.setting("streams") == fewest)
        .copied()
        .collect();
    super::others::add_latency_spread(&mut fit, &alone, draws);
    Some(fit)
}

/// A trial of reads by several nodes at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadTrial {
    /// Size of the files [B].
    pub size: f64,
    /// Number of nodes.
    pub nodes: f64,
    /// Number of threads of each node.
    pub streams: f64,
    /// Rate of all nodes together [requests/s].
    pub rate: f64,
}

/// Returns the trials of reads of the shared storage with this kind of access in which no node was lost.
#[must_use]
pub fn read_trials(samples: &[Sample], access: &str) -> Vec<ReadTrial> {
    let counts = |sample: &&Sample| {
        sample.probe == "shared-read"
            && sample.label("access") == access
            && sample.excluded.is_none()
            && !sample.labels.contains_key(super::AGAIN)
    };
    let samples: Vec<&Sample> = samples.iter().filter(counts).collect();
    let trial = |of: Observation| match of.x[..] {
        [size, nodes, streams] => Some(ReadTrial { size, nodes, streams, rate: 1.0 / of.value }),
        _ => None,
    };
    together(&samples, READ.settings).into_iter().filter_map(trial).collect()
}

/// Returns the trials of all nodes together, as observations of the time of one operation. All nodes of a trial are one observation:
/// rates add up, and writes last as long as the slowest node's.
pub(super) fn together(samples: &[&Sample], settings: &[&str]) -> Vec<Observation> {
    let key = |sample: &Sample| {
        let mut labels = sample.labels.clone();
        labels.remove("node");
        format!("{} {labels:?} {:?} {}", sample.probe, sample.settings, sample.trial)
    };
    let whole = |group: &[&Sample]| -> Option<Observation> {
        let first = group.first()?;
        if first.settings.get("nodes").is_some_and(|nodes| *nodes != group.len() as f64) {
            // A node was lost in this trial.
            return None;
        }
        let rate: f64 = match first.probe.as_str() {
            "shared-write" => {
                let all: u64 = group.iter().map(|sample| sample.operations).sum();
                all as f64 / group.iter().map(|sample| sample.seconds).fold(0.0, f64::max)
            }
            _ => group.iter().map(|sample| 1.0 / sample.seconds_each()).sum(),
        };
        let x = settings.iter().map(|name| first.setting(name)).collect();
        Some(Observation { x, value: 1.0 / rate, at: first.at })
    };
    super::by(samples, key, whole).into_values().flatten().collect()
}

fn fit(law: &Law<'_>, samples: &[&Sample], draws: usize) -> Option<Fit> {
    let cells = Cells::new(together(samples, law.settings));
    law.fit(&cells, &starts(law, &cells), draws)
}

/// Returns assignments of cells to pieces from which a fit starts: each limit binds the cells near its highest rate, or none.
fn starts(law: &Law<'_>, cells: &Cells) -> Vec<Vec<usize>> {
    // A limit's rate in a cell: its feature ÷ the time. The first piece is no limit of a rate.
    let rate = |piece: usize, cell: &Cell| (law.pieces[piece].features)(&cell.x)[0] / cell.mean;
    let limits: Vec<usize> = (1..law.pieces.len()).collect();
    let most = |piece: usize| cells.cells.iter().map(|cell| rate(piece, cell)).fold(0.0, f64::max);
    let highest: Vec<f64> = limits.iter().map(|piece| most(*piece)).collect();
    let choices = NEAR.len().pow(limits.len() as u32);
    let start = |choice: usize| -> Vec<usize> {
        let near = |index: usize| NEAR[choice / NEAR.len().pow(index as u32) % NEAR.len()];
        let piece = |cell: &Cell| {
            let binds = |(index, piece): (usize, &usize)| {
                (rate(*piece, cell) >= near(index) * highest[index]).then_some(*piece)
            };
            limits.iter().enumerate().find_map(binds).unwrap_or(0)
        };
        cells.cells.iter().map(piece).collect()
    };
    let mut all: Vec<Vec<usize>> = (0..choices).map(start).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials of a storage with these limits by 1 to `nodes` nodes; each node's sample has its share. Rates are off by up to 1 %.
    fn reads(nodes: usize, limits: [f64; 5]) -> Vec<Sample> {
        let [latency, per_stream, per_client, bandwidth, operations] = limits;
        let mut samples = Vec::new();
        let mut number = 0_u32;
        for count in (1..=nodes).filter(|count| count.is_power_of_two() || *count == nodes) {
            for streams in [1.0, 4.0] {
                for size in [16384.0, 262_144.0, 4_194_304.0] {
                    for trial in 0..3 {
                        number += 1;
                        let all = count as f64;
                        let off = 1.0 + 0.01 * f64::from(number * 7 % 13) / 6.5 - 0.01;
                        let alone = all * streams / (latency + size / per_stream);
                        let rate = off
                            * alone
                                .min(bandwidth / size)
                                .min(operations)
                                .min(all * per_client / size);
                        for node in 0..count {
                            samples.push(Sample {
                                probe: "shared-read".into(),
                                labels: [
                                    ("access".to_owned(), "direct".to_owned()),
                                    ("node".to_owned(), format!("n{node}")),
                                ]
                                .into(),
                                settings: [
                                    ("nodes".to_owned(), all),
                                    ("streams".to_owned(), streams),
                                    ("size".to_owned(), size),
                                ]
                                .into(),
                                trial,
                                operations: 1000,
                                seconds: 1000.0 * all / rate,
                                core_seconds: 0.0,
                                observed: [].into(),
                                beside: None,
                                excluded: None,
                                at: f64::from(number),
                            });
                        }
                    }
                }
            }
        }
        samples
    }

    fn fitted(samples: &[Sample]) -> Fit {
        let samples: Vec<&Sample> = samples.iter().collect();
        storage(&samples, 100).remove("direct").expect("a fit")
    }

    #[test]
    fn limits_of_server_node_and_stream_are_told_apart() {
        // System: a server of 400 MB/s and 5,000 requests/s, nodes of 120 MB/s, streams of 50 MB/s, 1 ms. Expectation: each within 3 %.
        let truth = [1e-3, 50e6, 120e6, 400e6, 5e3];
        let fit = fitted(&reads(6, truth));
        let names = ["latency", "per_stream", "per_client", "bandwidth", "operations"];
        for (name, truth) in names.into_iter().zip(truth) {
            let found = &fit.parameters[name];
            assert!((found.value / truth - 1.0).abs() < 0.03, "{name}: {found:?} for {truth}");
            assert!(found.unidentified.is_none(), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_limit_that_no_trial_reached_is_not_invented() {
        let unlimited = f64::INFINITY;
        let fit = fitted(&reads(4, [2e-3, 100e6, unlimited, 40e6, unlimited]));
        assert!((fit.parameters["bandwidth"].value / 40e6 - 1.0).abs() < 0.02, "{fit:?}");
        for name in ["operations", "per_client"] {
            let found = &fit.parameters[name];
            assert!(found.value.is_infinite() || found.unidentified.is_some(), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_point_that_was_left_out_is_predicted_by_the_others() {
        let truth = [1e-3, 50e6, 120e6, 400e6, 5e3];
        let samples = reads(6, truth);
        for nodes in [2.0, 4.0] {
            let others: Vec<Sample> =
                samples.iter().filter(|s| s.setting("nodes") != nodes).cloned().collect();
            let law = fitted(&others).shared_read().expect("a law");
            for sample in samples.iter().filter(|s| s.setting("nodes") == nodes) {
                let (size, streams) = (sample.setting("size"), sample.setting("streams"));
                let measured = nodes / sample.seconds_each();
                let predicted = law.requests_per_second(size, nodes, streams);
                assert!((predicted / measured - 1.0).abs() < 0.05, "{nodes} {size} {streams}");
            }
        }
    }

    #[test]
    fn trials_that_a_node_left_do_not_count() {
        let mut samples = reads(2, [1e-3, 50e6, 120e6, 400e6, 5e3]);
        let lost = samples.iter().rposition(|sample| sample.setting("nodes") == 2.0).unwrap();
        let before: Vec<&Sample> = samples.iter().collect();
        let all = together(&before, READ.settings).len();
        samples.remove(lost);
        let after: Vec<&Sample> = samples.iter().collect();
        assert_eq!(together(&after, READ.settings).len(), all - 1);
    }
}
