//! Pairs of nodes, and all-reduce.

use super::{End, Event, Kind, Survey};
use crate::message::{Found, Task, Timing};
use std::collections::BTreeSet;

/// Time in which connections are made before a transfer begins [s].
const CONNECTING: f64 = 0.5;
/// Rate of a pair ÷ best rate of any pair, below which others in its round may slow it.
const SLOWED: f64 = 0.92;
/// Largest number of pairs that are measured again alone.
const ALONE: usize = 16;
/// Number of round trips of short messages.
const MESSAGES: u32 = 200;
/// Number of connections of a pair.
const STREAMS: usize = 4;
/// Time of a trial of all-reduce [s], and largest number of rounds in it.
const COLLECTIVE: f64 = 1.0;
const MOST_ROUNDS: f64 = 2000.0;

/// Ranks of a sender and of its receiver.
type Pair = (u32, u32);

/// Returns rounds in which every one of `ranks` is paired once with every other one, by the circle method: one stays, the others move
/// on by one place from round to round. With an odd number of ranks, one of them rests in each round.
fn tournament(ranks: &[u32]) -> Vec<Vec<Pair>> {
    let mut places: Vec<Option<u32>> = ranks.iter().copied().map(Some).collect();
    if places.len() % 2 == 1 {
        places.push(None);
    }
    let all = places.len();
    let mut rounds = Vec::new();
    for _ in 1..all {
        let pair = |index: usize| places[index].zip(places[all - 1 - index]);
        rounds.push((0..all / 2).filter_map(pair).collect());
        places[1..].rotate_right(1);
    }
    rounds
}

/// Returns pairs to measure again alone, so that each node whose pairs were all far below the `best` rate is in one of them.
fn slowed_pairs(rounds: &[(Vec<Pair>, Vec<f64>)], best: f64) -> Vec<Pair> {
    let all = || {
        // The only pair of a round was alone.
        let rounds = rounds.iter().filter(|(pairs, _)| pairs.len() > 1);
        rounds.flat_map(|(pairs, rates)| pairs.iter().copied().zip(rates.iter().copied()))
    };
    let is_slow = |rate: f64| rate < SLOWED * best;
    let mut known: BTreeSet<u32> =
        all().filter(|(_, rate)| !is_slow(*rate)).flat_map(|((a, b), _)| [a, b]).collect();
    let mut chosen = Vec::new();
    for ((a, b), _) in all().filter(|(_, rate)| is_slow(*rate)) {
        if chosen.len() < ALONE && (known.insert(a) | known.insert(b)) {
            chosen.push((a, b));
        }
    }
    chosen
}

impl Survey<'_> {
    /// Measures transfers between pairs of nodes: all pairs of a round at once, first in one direction, then in the other. Pairs that
    /// others may have slowed are measured again alone.
    pub(super) fn pairs(&mut self) -> Result<(), End> {
        let rounds = tournament(&self.leaders);
        let most = match self.order.settings.all_pairs {
            Some(true) => rounds.len(),
            _ => self.order.settings.rounds.map_or(3, |rounds| rounds.0).min(rounds.len()),
        };
        (self.on)(Event::Begin("pairs of nodes"));
        let mut best = 0.0_f64;
        if let Some(pair) = rounds.first().and_then(|round| round.first()) {
            best = self.transfers(&[*pair], "alone", None)?.into_iter().fold(best, f64::max);
        }
        let mut slowed: Vec<(Vec<Pair>, Vec<f64>)> = Vec::new();
        for (number, round) in rounds.iter().take(most).enumerate() {
            self.latencies(round)?;
            for direction in [false, true] {
                // All pairs of a round go the same way, so that those which cross a link between groups of nodes slow each other.
                let turned = |&(a, b): &Pair| {
                    if direction { (a.max(b), a.min(b)) } else { (a.min(b), a.max(b)) }
                };
                let pairs: Vec<Pair> = round.iter().map(turned).collect();
                let round = (2 * number + usize::from(direction)) as f64;
                let rates = self.transfers(&pairs, "together", Some(round))?;
                best = rates.iter().copied().fold(best, f64::max);
                slowed.push((pairs, rates));
            }
            (self.on)(Event::Trial(number + 1, most));
        }
        for pair in slowed_pairs(&slowed, best) {
            self.transfers(&[pair], "alone", None)?;
        }
        match self.order.settings.incast {
            Some(true) => self.incast(),
            _ => Ok(()),
        }
    }

    /// Measures transfers of `pairs` at the same time, in round number `round`; returns the median rate of each [B/s].
    fn transfers(
        &mut self,
        pairs: &[Pair],
        way: &'static str,
        round: Option<f64>,
    ) -> Result<Vec<f64>, End> {
        let mut rates = vec![Vec::new(); pairs.len()];
        let kind = |survey: &Survey<'_>, &(from, to): &Pair| {
            let names = [survey.crew.node(from), survey.crew.node(to)];
            let labels = [("way", way), ("node", names[0].as_str()), ("to", names[1].as_str())];
            let numbers = [("streams", STREAMS as f64), ("at_once", pairs.len() as f64)];
            let round = round.map(|round| ("round", round));
            Kind::new("pair", &labels, &numbers.into_iter().chain(round).collect::<Vec<_>>())
        };
        let kinds: Vec<Kind> = pairs.iter().map(|pair| kind(self, pair)).collect();
        let done = kinds.iter().map(|kind| self.trials(kind)).min().unwrap_or(0);
        for (kind, rates) in kinds.iter().zip(&mut rates) {
            let of = self.journal.samples().iter().filter(|sample| kind.has(sample));
            rates.extend(of.map(|sample| 1.0 / sample.seconds_each()));
        }
        for trial in done..self.at_least() {
            self.go_on()?;
            let found = self.transfer(pairs)?;
            for (index, found) in found.iter().enumerate() {
                self.record(
                    &kinds[index],
                    trial,
                    pairs[index].0,
                    found.count,
                    found.seconds,
                    found,
                )?;
                rates[index].push(found.rate);
            }
        }
        Ok(rates.into_iter().map(median).collect())
    }

    /// Runs one trial of `pairs`; returns what each receiver found.
    pub(super) fn transfer(&mut self, pairs: &[Pair]) -> Result<Vec<Found>, End> {
        let ranks: Vec<u32> = pairs.iter().flat_map(|&(from, to)| [to, from]).collect();
        let starts = self.crew.at(&ranks, CONNECTING);
        let (skip, length) = self.times();
        let mut tasks = Vec::new();
        for (index, &(from, to)) in pairs.iter().enumerate() {
            let (tag, streams) = (self.crew.tag(), STREAMS);
            let at = |start: f64| Timing { start, skip, length };
            let Some(address) = self.crew.mate(to).map(|mate| mate.address) else { continue };
            tasks.push((to, Task::Receive { tag, streams, timing: at(starts[2 * index]) }));
            let timing = at(starts[2 * index + 1]);
            tasks.push((from, Task::Send { to: address, tag, streams, timing }));
        }
        let found = self.work(tasks, CONNECTING + skip + length)?;
        Ok(found.into_iter().step_by(2).collect())
    }

    /// Measures short messages between the pairs of a round.
    fn latencies(&mut self, round: &[Pair]) -> Result<(), End> {
        let kind = |survey: &Survey<'_>, &(from, to): &Pair| {
            let names = [survey.crew.node(from), survey.crew.node(to)];
            Kind::new("ping", &[("node", names[0].as_str()), ("to", names[1].as_str())], &[])
        };
        let kinds: Vec<Kind> = round.iter().map(|pair| kind(self, pair)).collect();
        let done = kinds.iter().map(|kind| self.trials(kind)).min().unwrap_or(0);
        for trial in done..self.at_least() {
            self.go_on()?;
            let mut tasks = Vec::new();
            for &(from, to) in round {
                let (tag, count) = (self.crew.tag(), MESSAGES);
                let Some(address) = self.crew.mate(to).map(|mate| mate.address) else { continue };
                tasks.push((to, Task::Echo { tag, count }));
                tasks.push((from, Task::Knock { to: address, tag, count }));
            }
            let found = self.work(tasks, 10.0)?;
            for (index, found) in found.iter().skip(1).step_by(2).enumerate() {
                // One way takes half of a round trip.
                let seconds = found.count * 0.5 / found.rate;
                self.record(&kinds[index], trial, round[index].0, found.count, seconds, found)?;
            }
        }
        Ok(())
    }

    /// Measures incast: all other nodes send to the first one at once.
    fn incast(&mut self) -> Result<(), End> {
        let [to, ref from @ ..] = self.leaders[..] else { return Ok(()) };
        let pairs: Vec<Pair> = from.iter().map(|from| (*from, to)).collect();
        if pairs.len() > 1 {
            self.transfers(&pairs, "incast", None)?;
        }
        Ok(())
    }

    /// Measures all-reduce in a ring of all nodes.
    pub(super) fn all_reduces(&mut self) -> Result<(), End> {
        let Some(sizes) = self.order.settings.allreduce.clone() else { return Ok(()) };
        (self.on)(Event::Begin("all-reduce"));
        for (number, size) in sizes.iter().enumerate() {
            let kind = self.collective(size.0);
            let done = self.trials(&kind);
            if done < self.at_least() {
                let first = self.all_reduce(size.0, 1)?;
                let times = (COLLECTIVE / first.seconds * first.count).clamp(1.0, MOST_ROUNDS);
                for trial in done..self.at_least() {
                    self.go_on()?;
                    let found = self.all_reduce(size.0, times as u32)?;
                    let rank = self.leaders[0];
                    self.record(&kind, trial, rank, found.count, found.seconds, &found)?;
                }
            }
            (self.on)(Event::Trial(number + 1, sizes.0.len()));
        }
        Ok(())
    }

    /// Measures all-reduce by NCCL among the GPUs of all nodes, if every node has GPUs.
    pub(super) fn nccl(&mut self) -> Result<(), End> {
        let Some(sizes) = self.order.settings.allreduce.clone() else { return Ok(()) };
        let here = |rank: &u32| self.crew.mate(*rank).map_or(0, |mate| mate.facts.gpus);
        let gpus: Vec<usize> = self.leaders.iter().map(here).collect();
        let all: usize = gpus.iter().sum();
        if gpus.contains(&0) {
            return Ok(());
        }
        let kind = |bytes: f64| {
            let numbers = [("bytes", bytes), ("ranks", all as f64)];
            Kind::new("collective", &[("transport", "nccl"), ("collective", "allreduce")], &numbers)
        };
        let sizes: Vec<usize> = sizes.iter().map(|size| size.0 as usize).collect();
        if sizes.iter().all(|size| self.trials(&kind(*size as f64)) > 0) {
            return Ok(());
        }
        (self.on)(Event::Begin("all-reduce by NCCL"));
        let made = self.work(vec![(self.leaders[0], Task::NcclId)], 30.0)?;
        let id = made.first().and_then(|of| of.lines.first()).cloned().unwrap_or_default();
        let trials = self.at_least();
        let mut first = 0;
        let mut tasks = Vec::new();
        for (rank, here) in self.leaders.iter().zip(&gpus) {
            let (id, sizes) = (id.clone(), sizes.clone());
            tasks.push((*rank, Task::Nccl { id, first, all, sizes, trials }));
            first += here;
        }
        let found = self.work(tasks, 60.0)?;
        let lines = found.into_iter().next().map_or_else(Vec::new, |of| of.lines);
        for line in lines {
            let values: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let [bytes, times, seconds] = values[..] else { continue };
            let (kind, rank) = (kind(bytes), self.leaders[0]);
            let trial = self.trials(&kind);
            self.record(&kind, trial, rank, times, seconds, &Found::default())?;
        }
        Ok(())
    }

    /// Returns the kind of an all-reduce of all nodes.
    pub(super) fn collective(&self, bytes: u64) -> Kind {
        let numbers = [("bytes", bytes as f64), ("ranks", self.leaders.len() as f64)];
        Kind::new("collective", &[("transport", "tcp"), ("collective", "allreduce")], &numbers)
    }

    /// Returns the tasks of an all-reduce of all nodes, `times` times.
    pub(super) fn ring(
        &mut self,
        bytes: u64,
        times: u32,
        starts: &[f64],
        (skip, length): (f64, f64),
    ) -> Vec<(u32, Task)> {
        let (tag, ranks, all) = (self.crew.tag(), self.leaders.len(), self.leaders.clone());
        let task = |(position, rank): (usize, &u32)| {
            let next = self.crew.mate(all[(position + 1) % ranks])?.address;
            let (bytes, start) = (bytes as usize, starts[position]);
            let timing = Timing { start, skip, length };
            Some((*rank, Task::AllReduce { next, tag, position, ranks, bytes, times, timing }))
        };
        all.iter().enumerate().filter_map(task).collect()
    }

    /// Runs an all-reduce `times` times; returns the figures of the slowest node.
    pub(super) fn all_reduce(&mut self, bytes: u64, times: u32) -> Result<Found, End> {
        let leaders = self.leaders.clone();
        let starts = self.crew.at(&leaders, CONNECTING);
        let tasks = self.ring(bytes, times, &starts, (0.0, 0.0));
        let found = self.work(tasks, 60.0)?;
        let slowest = found.into_iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        slowest.ok_or_else(|| End::Because("nobody takes part".to_owned()))
    }

    /// Returns warm-up and window of a trial [s].
    pub(super) fn times(&self) -> (f64, f64) {
        let settings = &self.order.settings;
        (settings.before.map_or(0.3, |of| of.0), settings.window.map_or(1.0, |of| of.0))
    }
}

/// Returns the median; 0 without values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    forebay_engine::stats::quantile(&values, 0.5).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_others_slowed_everywhere_are_measured_alone() {
        let round = |pairs: [Pair; 2], rates: [f64; 2]| (pairs.to_vec(), rates.to_vec());
        let crossing = [
            round([(0, 3), (1, 2)], [0.7, 0.7]),
            round([(3, 0), (2, 1)], [0.7, 0.7]),
            round([(0, 2), (3, 1)], [0.7, 0.7]),
        ];
        assert_eq!(slowed_pairs(&crossing, 1.0), [(0, 3), (1, 2)]);
        let within = round([(0, 1), (2, 3)], [1.0, 0.6]);
        assert_eq!(slowed_pairs(&[crossing[0].clone(), within], 1.0), [(0, 3), (1, 2)]);
        let alone = (vec![(0, 1)], vec![0.5]);
        assert_eq!(slowed_pairs(&[alone], 1.0), []);
    }

    #[test]
    fn a_tournament_pairs_everyone_once_with_everyone() {
        for count in 2..=9_u32 {
            let ranks: Vec<u32> = (0..count).collect();
            let rounds = tournament(&ranks);
            let mut all = BTreeSet::new();
            for round in &rounds {
                let busy: BTreeSet<u32> = round.iter().flat_map(|&(a, b)| [a, b]).collect();
                assert_eq!(busy.len(), 2 * round.len(), "nobody is in two pairs of a round");
                all.extend(round.iter().map(|&(a, b)| (a.min(b), a.max(b))));
            }
            assert_eq!(all.len() as u32, count * (count - 1) / 2, "{count}");
        }
    }
}
