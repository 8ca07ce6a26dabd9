//! What each node of a cluster reaches, which nodes fall behind their siblings, and the network between them.
//!
//! A node falls behind in a quantity if its trials are at least 8 % below the median of its siblings, by more than chance explains: a
//! t-test on the logarithms of the trials, with the variance between equal trials of a node pooled over all nodes. The level is 0.2 %
//! over all nodes and quantities of a calibration together (Bonferroni). Among 16 nodes or more, nodes differ by nature, so that a node
//! must also lie far from the others by the spread between them. What falls behind is measured again before it is named.

use super::cell::median;
use super::estimate::rounded;
use crate::measurement::Sample;
use forebay_engine::stats::student_quantile;
use forebay_scenario::profile::{Fit, NODE_VALUES, NodeProfile, Parameter, UNLIKE};
use std::collections::{BTreeMap, BTreeSet};

/// Probability that any node of a calibration is named by chance.
const LEVEL: f64 = 0.002;
/// Number of nodes from which on the spread between nodes counts too.
const MANY: usize = 16;
/// Distance from the median that counts among many nodes [robust standard deviations].
const FAR: f64 = 4.0;
/// Robust standard deviation ÷ median of absolute deviations, of a normal distribution.
const ROBUST: f64 = 1.4826;
/// Label of trials that were made again because a node fell behind.
pub const AGAIN: &str = "again";
/// Rate of a pair beside other pairs ÷ its rate alone, below which the others slow it.
const SLOWED: f64 = 0.92;
/// Rate of reads and of collectives beside each other ÷ alone, above which they use separate networks.
const APART: f64 = 0.95;

/// Trials of a quantity, by node: what the node reached in each.
type Trials = BTreeMap<String, Vec<f64>>;

/// A node that falls behind its siblings.
#[derive(Debug, Clone, PartialEq)]
pub struct Behind {
    /// Name of the node.
    pub node: String,
    /// Quantity, as in [`NODE_VALUES`]; `cores` for their number.
    pub quantity: &'static str,
    /// What the node reaches, in the quantity's unit.
    pub value: f64,
    /// What its siblings reach.
    pub usual: f64,
    /// Number of its siblings.
    pub siblings: usize,
}

impl Behind {
    /// Returns by how much the node falls behind, as a share.
    #[must_use]
    pub fn share(&self) -> f64 {
        1.0 - self.value / self.usual
    }
}

/// Returns the trials of each quantity by node: those made again, or all others.
fn trials(samples: &[&Sample], again: bool) -> BTreeMap<&'static str, Trials> {
    let usable: Vec<&Sample> = samples
        .iter()
        .filter(|sample| !sample.label("node").is_empty() && sample.excluded.is_none())
        .filter(|sample| sample.labels.contains_key(AGAIN) == again)
        .copied()
        .collect();
    let of = |probe: &str| -> Vec<&Sample> {
        usable.iter().filter(|sample| sample.probe == probe).copied().collect()
    };
    let (pairs, reads, writes) = (of("pair"), of("shared-read"), of("shared-write"));
    let decode = of("decode");
    let most = |samples: &[&Sample], name: &str| {
        samples.iter().map(|sample| sample.setting(name)).fold(0.0, f64::max)
    };
    let alone: Vec<&Sample> = reads
        .iter()
        .filter(|s| s.setting("nodes") == 1.0 && s.setting("streams") == most(&reads, "streams"))
        .filter(|s| s.setting("size") == most(&reads, "size"))
        .copied()
        .collect();
    let all_threads = most(&decode, "threads");
    let with = |threads: f64| -> Vec<&Sample> {
        decode.iter().filter(|s| s.setting("threads") == threads).copied().collect()
    };
    let copies = of("host");
    let all_copies = most(&copies, "threads");
    let copies: Vec<&Sample> =
        copies.into_iter().filter(|s| s.setting("threads") == all_copies).collect();
    let mut found = BTreeMap::new();
    found.insert("send", best_of_partners(&pairs, "node", "to"));
    found.insert("receive", best_of_partners(&pairs, "to", "node"));
    found.insert("read", rates(&alone, |s| s.setting("size") / s.seconds_each()));
    found.insert("write", rates(&alone_writes(&writes), |s| 1.0 / s.seconds_each()));
    found.insert("core", relative(&with(1.0)));
    found.insert(
        "decode",
        if all_threads > 1.0 { relative(&with(all_threads)) } else { Trials::new() },
    );
    found.insert("copy", relative(&copies));
    found.insert("disk", relative(&of("read")));
    found.insert("step", relative(&of("step")));
    found.retain(|_, trials| trials.len() > 1);
    found
}

/// Returns the writes of one node with most threads.
fn alone_writes<'s>(writes: &[&'s Sample]) -> Vec<&'s Sample> {
    let streams = writes.iter().map(|sample| sample.setting("streams")).fold(0.0, f64::max);
    let of = |s: &&&Sample| s.setting("nodes") == 1.0 && s.setting("streams") == streams;
    writes.iter().filter(of).copied().collect()
}

fn rates(samples: &[&Sample], rate: impl Fn(&Sample) -> f64) -> Trials {
    let mut trials = Trials::new();
    for sample in samples {
        trials.entry(sample.label("node").to_owned()).or_default().push(rate(sample));
    }
    trials
}

/// Returns the rates of each node with its best partner; `own` and `other` are the labels of the node and the partner. The best
/// partner is taken because a slow partner makes any node look slow, and a slow node stays slow with all of them.
fn best_of_partners(pairs: &[&Sample], own: &str, other: &str) -> Trials {
    let mut by_partner: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
    for sample in pairs.iter().filter(|sample| sample.label("way") != "incast") {
        let key = [own, other, "way"].map(|label| sample.label(label).to_owned());
        by_partner.entry(key.into()).or_default().push(1.0 / sample.seconds_each());
    }
    let mut best: BTreeMap<String, (f64, Vec<f64>)> = BTreeMap::new();
    for ((node, ..), rates) in by_partner {
        let middle = median(&mut rates.clone());
        let known = best.entry(node).or_insert((0.0, Vec::new()));
        if middle > known.0 {
            *known = (middle, rates);
        }
    }
    best.into_iter().map(|(node, (_, rates))| (node, rates)).collect()
}

/// Returns the speed in each kind of trial, relative to the median over the nodes of the nodes' medians in that kind. Trials that were made
/// again in rounds give a value for each round, its median: trials of a round are slow together.
fn relative(samples: &[&Sample]) -> Trials {
    let kind = |sample: &Sample| {
        let mut labels = sample.labels.clone();
        labels.remove("node");
        labels.remove(AGAIN);
        format!("{labels:?} {:?}", sample.settings)
    };
    let mut trials = Trials::new();
    for group in super::grouped(samples, kind).into_values() {
        let usual = usual(&rates(&group, |sample| 1.0 / sample.seconds_each()));
        for (_, round) in super::grouped(&group, |sample| sample.label(AGAIN).to_owned()) {
            for (node, speeds) in rates(&round, |sample| 1.0 / sample.seconds_each()) {
                let mut speeds: Vec<f64> = speeds.iter().map(|speed| speed / usual).collect();
                if round[0].labels.contains_key(AGAIN) {
                    speeds = vec![median(&mut speeds)];
                }
                trials.entry(node).or_default().extend(speeds);
            }
        }
    }
    trials
}

/// Returns the median over nodes of their medians.
fn usual(trials: &Trials) -> f64 {
    median(&mut trials.values().map(|own| median(&mut own.clone())).collect::<Vec<_>>())
}

/// Returns the nodes that fall behind in what was measured first, or if `again`, in what was measured again.
#[must_use]
pub fn behind(samples: &[Sample], again: bool) -> Vec<Behind> {
    let samples: Vec<&Sample> = samples.iter().collect();
    let trials = trials(&samples, again);
    let tests: usize = trials.values().map(BTreeMap::len).sum();
    let mut found = Vec::new();
    for (quantity, of_nodes) in &trials {
        let (quantity, _) =
            NODE_VALUES.iter().find(|(name, _)| name == quantity).unwrap_or(&("", ""));
        for node in of_nodes.keys() {
            found.extend(falls_behind(of_nodes, node, quantity, LEVEL / tests as f64));
        }
    }
    if !again {
        found.extend(fewer_cores(&samples));
    }
    found
}

fn falls_behind(trials: &Trials, node: &str, quantity: &'static str, level: f64) -> Option<Behind> {
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let own = logs(trials.get(node)?);
    let siblings: Vec<Vec<f64>> =
        trials.iter().filter(|(name, _)| *name != node).map(|(_, values)| logs(values)).collect();
    let middle = |values: &[f64]| median(&mut values.to_vec());
    let mut middles: Vec<f64> = siblings.iter().map(|values| middle(values)).collect();
    let usual = median(&mut middles);
    let gap = usual - middle(&own);
    if 1.0 - (-gap).exp() < UNLIKE {
        return None;
    }
    let (mut squares, mut freedom, mut count) = (0.0, 0.0, 0.0);
    for values in siblings.iter().chain([&own]) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        freedom += values.len() as f64 - 1.0;
        count += values.len() as f64;
    }
    if freedom < 1.0 {
        return None;
    }
    // A median needs more values than a mean for the same error, by π ÷ 2.
    let of_siblings = (count - own.len() as f64).max(1.0);
    let factor = std::f64::consts::FRAC_PI_2 * (1.0 / own.len() as f64 + 1.0 / of_siblings);
    let error = (squares / freedom * factor).sqrt();
    if gap <= student_quantile(1.0 - level, freedom)? * error {
        return None;
    }
    if trials.len() >= MANY {
        let spread =
            ROBUST * median(&mut middles.iter().map(|of| (of - usual).abs()).collect::<Vec<_>>());
        if gap <= FAR * spread {
            return None;
        }
    }
    let (value, usual) = (rounded(middle(&own).exp()), rounded(usual.exp()));
    Some(Behind { node: node.to_owned(), quantity, value, usual, siblings: siblings.len() })
}

/// Returns the nodes with fewer cores than usual; their number is a fact and needs no test.
fn fewer_cores(samples: &[&Sample]) -> Vec<Behind> {
    let cores: Trials = rates(
        &samples.iter().filter(|sample| sample.probe == "node").copied().collect::<Vec<_>>(),
        |sample| sample.setting("cores"),
    );
    let usual = usual(&cores);
    let of = |(node, own): (&String, &Vec<f64>)| {
        let value = own.last().copied()?;
        (1.0 - value / usual >= UNLIKE).then(|| Behind {
            node: node.clone(),
            quantity: "cores",
            value,
            usual,
            siblings: cores.len() - 1,
        })
    };
    cores.iter().filter_map(of).collect()
}

/// Returns cores, memory and values of each node.
pub(super) fn nodes(samples: &[&Sample], draws: usize) -> BTreeMap<String, NodeProfile> {
    let mut nodes: BTreeMap<String, NodeProfile> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.probe == "node") {
        let node = nodes.entry(sample.label("node").to_owned()).or_default();
        (node.cores, node.memory) = (sample.setting("cores"), sample.setting("memory"));
    }
    let trials = trials(samples, false);
    for (name, unit) in NODE_VALUES {
        for (node, own) in trials.get(name).into_iter().flatten() {
            let Some(profile) = nodes.get_mut(node) else { continue };
            let found = super::others::resampled(own, draws, median);
            let Some((value, drawn)) = found.filter(|(value, _)| value.is_finite()) else {
                continue;
            };
            let fit = super::others::plain(&[name.to_owned()], unit, &[value], &drawn);
            profile.values.extend(fit.parameters);
        }
    }
    nodes
}

/// Returns the network between nodes.
pub(super) fn network(samples: &[&Sample], draws: usize) -> BTreeMap<String, Fit> {
    let mut fits = BTreeMap::new();
    let trials = trials(samples, false);
    let of = |name: &str| trials.get(name).cloned().unwrap_or_default();
    let (send, receive) = (of("send"), of("receive"));
    // The usual node: trials of the slower direction of each node whose own value is usual.
    let mut slower: Trials = Trials::new();
    for (node, sent) in send {
        let Some(received) = receive.get(&node) else { continue };
        let less = median(&mut sent.clone()) <= median(&mut received.clone());
        slower.insert(node, if less { sent } else { received.clone() });
    }
    if !slower.is_empty() {
        let usual = usual(&slower);
        let near = |own: &&Vec<f64>| (median(&mut own.to_vec()) / usual - 1.0).abs() < UNLIKE;
        let values: Vec<f64> = slower.values().filter(near).flatten().copied().collect();
        if let Some((value, drawn)) = super::others::resampled(&values, draws, median) {
            let mut fit = super::others::plain(&["bandwidth".to_owned()], "B/s", &[value], &drawn);
            fit.samples = values.len() as u64;
            let pings: Vec<f64> = samples
                .iter()
                .filter(|sample| sample.probe == "ping")
                .map(|sample| sample.seconds_each())
                .collect();
            if let Some((value, drawn)) = super::others::resampled(&pings, draws, median) {
                let latency = super::others::plain(&["latency".to_owned()], "s", &[value], &drawn);
                super::laws::join(&mut fit, latency);
            }
            fits.insert("nic".to_owned(), fit);
        }
    }
    fits.extend(uplink(samples, draws).map(|fit| ("uplink".to_owned(), fit)));
    fits.extend(separate(samples, draws).map(|fit| ("storage".to_owned(), fit)));
    fits
}

/// A pair of nodes.
type Pair = (String, String);

/// Returns the link between groups of nodes, if pairs of nodes slow each other: what all such pairs of a round reach together. Pairs that
/// are never slowed lie within a group.
fn uplink(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let pairs: Vec<&Sample> =
        samples.iter().filter(|sample| sample.probe == "pair").copied().collect();
    let pair = |sample: &Sample| (sample.label("node").to_owned(), sample.label("to").to_owned());
    let rate = |sample: &Sample| 1.0 / sample.seconds_each();
    // The rate of each pair without others: alone, or the best of its ends elsewhere.
    let mut alone: BTreeMap<Pair, Vec<f64>> = BTreeMap::new();
    for sample in pairs.iter().filter(|sample| sample.label("way") == "alone") {
        alone.entry(pair(sample)).or_default().push(rate(sample));
    }
    let ends = [best_of_partners(&pairs, "node", "to"), best_of_partners(&pairs, "to", "node")];
    let best = |node: &String| {
        let of = ends.iter().filter_map(|trials| trials.get(node));
        of.map(|all| median(&mut all.clone())).reduce(f64::max)
    };
    let free = |of: &Pair| {
        let own = alone.get(of).map(|rates| median(&mut rates.clone()));
        own.or_else(|| Some(best(&of.0)?.min(best(&of.1)?)))
    };
    let round = |sample: &Sample| format!("{} {}", sample.setting("round"), sample.trial);
    let together: Vec<&Sample> =
        pairs.iter().filter(|sample| sample.label("way") == "together").copied().collect();
    let is_slowed =
        |sample: &Sample| free(&pair(sample)).is_some_and(|free| rate(sample) < SLOWED * free);
    // A link may be shared unevenly, so that one of two pairs is slowed in this trial and the other one in that.
    let crossing: BTreeSet<Pair> =
        together.iter().filter(|sample| is_slowed(sample)).map(|sample| pair(sample)).collect();
    let never: Vec<Pair> =
        together.iter().map(|sample| pair(sample)).filter(|of| !crossing.contains(of)).collect();
    let groups = groups(&pairs, &never, &crossing);
    let mut sums = Vec::new();
    for trial in super::grouped(&together, round).into_values() {
        let across: Vec<&Sample> =
            trial.iter().filter(|sample| crossing.contains(&pair(sample))).copied().collect();
        // Each group has a link of its own.
        let from = |sample: &Sample| format!("{:?}", groups.get(sample.label("node")));
        for link in super::grouped(&across, from).into_values() {
            if link.len() > 1 && link.iter().any(|sample| is_slowed(sample)) {
                sums.push(link.iter().map(|sample| rate(sample)).sum::<f64>());
            }
        }
    }
    let (value, drawn) = super::others::resampled(&sums, draws, median)?;
    let mut fit = super::others::plain(&["bandwidth".to_owned()], "B/s", &[value], &drawn);
    fit.samples = sums.len() as u64;
    if let Some(nodes) = group_size(&groups) {
        let number =
            Parameter { value: nodes as f64, unit: "nodes".to_owned(), ..Parameter::default() };
        fit.parameters.insert("nodes".to_owned(), number);
        // In the order of the names, the number of nodes comes after the bandwidth.
        fit.draws.iter_mut().for_each(|draw| draw.push(nodes as f64));
    }
    Some(fit)
}

/// Returns the group of each node, by a number: pairs that are `never` slowed join their nodes, unless a pair of `crossing` lies between the
/// groups of both.
fn groups(pairs: &[&Sample], never: &[Pair], crossing: &BTreeSet<Pair>) -> BTreeMap<String, usize> {
    let names = pairs.iter().flat_map(|s| ["node", "to"].map(|end| s.label(end).to_owned()));
    let names: BTreeSet<String> = names.collect();
    let mut group: BTreeMap<String, usize> =
        names.into_iter().enumerate().map(|(number, name)| (name, number)).collect();
    for (a, b) in never {
        let (from, to) = (group[a], group[b]);
        let is_between = |(one, other): &Pair| {
            let ends = [group[one], group[other]];
            ends == [from, to] || ends == [to, from]
        };
        if !crossing.iter().any(is_between) {
            group.values_mut().filter(|of| **of == from).for_each(|of| *of = to);
        }
    }
    group
}

/// Returns the number of nodes of the largest group; `None` if it has one node or all.
fn group_size(groups: &BTreeMap<String, usize>) -> Option<usize> {
    let size = |of: &usize| groups.values().filter(|other| *other == of).count();
    let largest = groups.values().map(size).max()?;
    (largest > 1 && largest < groups.len()).then_some(largest)
}

/// Trials of reads and of all-reduce: of each alone, and of both at the same time.
struct Both<'s> {
    /// A trial of reads beside all-reduce, for its settings.
    first: &'s Sample,
    reads: Vec<&'s Sample>,
    rings: Vec<&'s Sample>,
    reads_alone: Vec<&'s Sample>,
    rings_alone: Vec<&'s Sample>,
}

impl<'s> Both<'s> {
    fn new(samples: &[&'s Sample]) -> Option<Both<'s>> {
        let of = |keep: &dyn Fn(&Sample) -> bool| -> Vec<&'s Sample> {
            samples.iter().filter(|s| s.excluded.is_none() && keep(s)).copied().collect()
        };
        let beside = |what: &str| of(&|s| s.probe == "beside" && s.label("what") == what);
        let (reads, rings) = (beside("read"), beside("allreduce"));
        let first = *reads.first()?;
        let same = |s: &Sample, name: &str| s.setting(name) == first.setting(name);
        let reads_alone = of(&|s| {
            s.probe == "shared-read"
                && !s.labels.contains_key(AGAIN)
                && ["nodes", "streams", "size"].iter().all(|name| same(s, name))
        });
        let rings_alone = of(&|s| {
            s.probe == "collective"
                && s.label("transport") == "tcp"
                && same(s, "bytes")
                && s.setting("ranks") == first.setting("nodes")
        });
        let all = [&reads, &rings, &reads_alone, &rings_alone];
        let complete = all.iter().all(|samples| !samples.is_empty());
        complete.then_some(Both { first, reads, rings, reads_alone, rings_alone })
    }
}

/// Returns the median number of operations per second.
fn middle_rate(samples: &[&Sample]) -> f64 {
    median(&mut samples.iter().map(|s| 1.0 / s.seconds_each()).collect::<Vec<_>>())
}

/// Returns the network of the storage if it is another one than that of collectives: if reads and all-reduce beside each other keep their
/// rates.
fn separate(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let both = Both::new(samples)?;
    let kept = [(&both.reads, &both.reads_alone), (&both.rings, &both.rings_alone)];
    if !kept.iter().all(|(beside, alone)| middle_rate(beside) / middle_rate(alone) >= APART) {
        return None;
    }
    let of_node = |s: &&&Sample| s.probe == "shared-read" && s.setting("nodes") == 1.0;
    let rate = |s: &&Sample| s.setting("size") / s.seconds_each();
    let mut rates: Vec<f64> = samples.iter().filter(of_node).map(rate).collect();
    rates.sort_by(f64::total_cmp);
    let best: Vec<f64> = rates.iter().rev().take(3).copied().collect();
    let (value, drawn) = super::others::resampled(&best, draws, median)?;
    let mut fit = super::others::plain(&["bandwidth".to_owned()], "B/s", &[value], &drawn);
    fit.samples = both.reads.len() as u64;
    Some(fit)
}

/// Returns the rates of reads and all-reduce beside each other, relative to those that equal shares of the NIC predict; `None` if they have
/// separate networks, or if a link between groups of nodes limits them as well.
pub(super) fn beside(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let both = Both::new(samples)?;
    let network = network(samples, draws);
    if ["uplink", "storage"].iter().any(|part| network.contains_key(*part)) {
        return None;
    }
    let nic = network.get("nic")?.value("bandwidth")?;
    let [nodes, streams, size, bytes] =
        ["nodes", "streams", "size", "bytes"].map(|name| both.first.setting(name));
    // Bytes that a node sends in a ring.
    let sent = 2.0 * (nodes - 1.0) / nodes * bytes;
    let alone = [size * middle_rate(&both.reads_alone), sent * middle_rate(&both.rings_alone)];
    let predicted = shared_nic(nic, streams, alone);
    let reads = trials_of(&both.reads, |s| size / s.seconds_each() / predicted[0]);
    let rings = trials_of(&both.rings, |s| sent / s.seconds_each() / predicted[1]);
    let (of_reads, reads_drawn) = super::others::resampled(&reads, draws, median)?;
    let (of_rings, rings_drawn) = super::others::resampled(&rings, draws, median)?;
    let drawn: Vec<Vec<f64>> = reads_drawn
        .into_iter()
        .zip(rings_drawn)
        .map(|(reads, rings)| vec![reads[0], rings[0]])
        .collect();
    let names = ["reads", "allreduce"].map(str::to_owned);
    let mut fit = super::others::plain(&names, "1", &[of_reads, of_rings], &drawn);
    fit.samples = (reads.len() + rings.len()) as u64;
    let settings = ["nodes", "streams", "size", "bytes"];
    fit.range = settings.map(|name| (name.to_owned(), [both.first.setting(name); 2])).into();
    Some(fit)
}

/// Returns the mean of `figure` over the nodes of each trial.
fn trials_of(samples: &[&Sample], figure: impl Fn(&Sample) -> f64) -> Vec<f64> {
    let trials = super::grouped(samples, |sample| sample.trial.to_string());
    let mean = |all: Vec<&Sample>| all.iter().map(|s| figure(s)).sum::<f64>() / all.len() as f64;
    trials.into_values().map(mean).collect()
}

/// Returns the rates of a node's reads and ring through one NIC, where the streams of reads and the one of the ring have equal shares. `alone`
/// are their rates without the other; all in B/s.
fn shared_nic(nic: f64, streams: f64, [reads, ring]: [f64; 2]) -> [f64; 2] {
    let ring = ring.min((nic / (streams + 1.0)).max(nic - reads));
    [reads.min(nic - ring), ring]
}

#[cfg(test)]
mod tests;
