//! Barriers of a job copy of which only some nodes are simulated: the end of a step, and the start of each collective.
//!
//! The last of all nodes arrives at a barrier later than the last simulated one. Its arrival is drawn: the latest of as many arrivals as
//! there are nodes that are not simulated, each from the distribution of the arrivals of simulated nodes with the same hardware, in
//! this step and in earlier ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_report::{Cause, StallCause};
use forebay_scenario::Distribution;

use super::arrival_law::{ArrivalLaw, Arrived};
use crate::ids::{DeviceId, IdVec, Ids, RangeVec, SimulatedNodeId};

/// Which nodes of a job copy are simulated, and how many nodes they represent.
#[derive(Debug, Clone)]
pub(crate) struct NodeSample {
    /// Node of each device of the job copy.
    pub(crate) nodes: RangeVec<DeviceId, SimulatedNodeId>,
    /// Ranges of simulated nodes with the same hardware, each with the number of nodes with this hardware that are not simulated.
    pub(crate) alike: Vec<(Ids<SimulatedNodeId>, u32)>,
    /// Owner of the job copy's random numbers in [`Streams`].
    pub(crate) owner: u64,
    pub(crate) epochs: EpochsOfLoader,
}

impl NodeSample {
    /// Returns the number of nodes that are simulated.
    pub(crate) fn simulated(&self) -> u32 {
        self.alike.iter().map(|(nodes, _)| nodes.len() as u32).sum()
    }
}

/// When the loaders of a job copy begin an epoch with empty queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpochsOfLoader {
    /// Batches of an epoch; `None`: queues are empty only at the first step.
    pub(crate) batches: Option<u64>,
    /// Batches that model copies take in a step.
    pub(crate) taken: u64,
}

/// Position of a step in an epoch. Loaders begin an epoch with empty queues, so the first steps of an epoch differ from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PlaceInEpoch {
    /// The step begins with the first batch of an epoch.
    First,
    /// The step takes the last batches of an epoch and the first ones of the next.
    Across,
    /// Number of steps since an epoch began, up to [`EARLY`].
    After(u64),
}

/// Number of steps into an epoch after which its start no longer matters.
const EARLY: u64 = 3;

impl EpochsOfLoader {
    fn place_of(self, step: u64) -> PlaceInEpoch {
        let (epoch, begin) = (self.batches.unwrap_or(u64::MAX).max(1), step * self.taken);
        let end = begin + self.taken;
        // The last batch up to the step's end that begins an epoch.
        let first = (end - 1) / epoch * epoch;
        match first {
            _ if begin.is_multiple_of(epoch) => PlaceInEpoch::First,
            first if first > begin => PlaceInEpoch::Across,
            first => PlaceInEpoch::After((step - first / self.taken).min(EARLY)),
        }
    }
}

/// What arrivals depend on: the number of the barrier in its step, the step's position in an epoch, and the nodes' hardware.
type Kind = (u32, PlaceInEpoch, usize);

/// The barriers of a job copy of which only some nodes are simulated.
#[derive(Debug)]
pub(crate) struct SampledBarrier {
    of: Arc<NodeSample>,
    /// Start of the step, from which arrivals are counted.
    since: Time,
    /// Arrivals of simulated nodes at barriers at which some have not arrived, by step and number within the step.
    open: BTreeMap<(u64, u32), IdVec<SimulatedNodeId, Option<Arrival>>>,
    laws: BTreeMap<Kind, ArrivalLaw>,
    /// Exponential distribution with mean 1: the maximum of n equal draws is exceeded by one draw with probability
    /// 1 - exp(-E / n).
    exponential: Sampler,
}

/// Arrival of a node at a barrier, and what it had waited for in this step.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Time,
    waited: Waited,
}

/// The longest wait of a node in a step, by cause, and the end of its last wait, after which it computes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) cause: Cause,
    pub(crate) until: Time,
}

/// The wait at a barrier for the last of all nodes, after all simulated ones have arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BarrierWait {
    /// The part in which the last node still waits, and the part in which it computes.
    pieces: [Segment; 2],
}

impl BarrierWait {
    /// Returns the wait for `span` from `now` on, for a node that waits for `cause` and then computes for as long as the last simulated
    /// node has computed since it `waited`.
    fn new((now, span): (Time, Span), cause: Cause, waited: Waited) -> BarrierWait {
        let computed = now.since(waited.until.min(now));
        let middle = now + Span(span.0.saturating_sub(computed.0));
        let piece = |start, end, cause| Segment { start, end, cause: StallCause::peer(cause) };
        let pieces = [piece(now, middle, cause), piece(middle, now + span, Cause::Compute)];
        BarrierWait { pieces }
    }

    /// Returns when the last simulated node arrived.
    pub(crate) fn start(&self) -> Time {
        self.pieces[0].start
    }

    /// Returns when the last of all nodes arrives.
    pub(crate) fn end(&self) -> Time {
        self.pieces[1].end
    }

    /// Returns the parts of the wait between `from` and `until`, in order of time.
    pub(crate) fn within(self, from: Time, until: Time) -> impl Iterator<Item = Segment> {
        let clip = move |Segment { start, end, cause }: Segment| {
            let part = Segment { start: start.max(from), end: end.min(until), cause };
            (part.start < part.end).then_some(part)
        };
        self.pieces.into_iter().filter_map(clip)
    }
}

impl SampledBarrier {
    /// Returns the barriers before any node has arrived.
    pub(crate) fn new(of: Arc<NodeSample>) -> SampledBarrier {
        let exponential = Sampler::new(&Distribution::Exponential { mean: 1.0 });
        let (open, laws) = (BTreeMap::new(), BTreeMap::new());
        SampledBarrier { of, since: Time::ZERO, open, laws, exponential }
    }

    /// Begins a step at `now`: arrivals are counted from here on.
    pub(crate) fn begin_step(&mut self, now: Time) {
        self.since = now;
    }

    /// Removes the arrivals at barriers in progress, because the job copy has failed.
    pub(crate) fn abort(&mut self, now: Time) {
        self.open.clear();
        self.since = now;
    }

    /// Records that device `d` arrives at barrier `number` of `step`, after what it has `waited` for.
    pub(crate) fn arrive(
        &mut self,
        (step, number): (u64, u32),
        (now, d): (Time, DeviceId),
        waited: Waited,
    ) {
        let SampledBarrier { of, open, .. } = self;
        let none = || IdVec::filled(None, of.simulated());
        let arrived = open.entry((step, number)).or_insert_with(none);
        arrived[of.nodes[d]] = Some(Arrival { at: now, waited });
    }

    /// Draws the arrival of the last of all nodes at barrier `number` of `step`, where the last simulated node arrives now; returns the
    /// wait for it, `None` if the simulated node is the last.
    pub(crate) fn last(
        &mut self,
        (step, number): (u64, u32),
        now: Time,
        streams: &Streams,
    ) -> Option<BarrierWait> {
        let arrived = self.open.remove(&(step, number))?;
        let place = self.of.epochs.place_of(step);
        let seconds = |at: Time| at.since(self.since.min(at)).seconds();
        let mut latest: Option<Arrived> = None;
        for (index, (nodes, further)) in self.of.alike.iter().enumerate().filter(|(_, of)| of.1 > 0)
        {
            let of_nodes = arrived[*nodes].iter().flatten();
            let times: Vec<Arrived> =
                of_nodes.map(|of| (seconds(of.at), of.waited.cause)).collect();
            let law = self.laws.entry((number, place, index)).or_default();
            let mut generator = streams.at(Purpose::LastNode, self.of.owner, step, index as u64);
            let drawn = self.exponential.draw(&mut generator);
            let probability = -(-drawn / f64::from(*further)).exp_m1();
            let of_range = law.further(times, probability.max(f64::MIN_POSITIVE));
            latest = latest.into_iter().chain([of_range]).max_by(|a, b| a.0.total_cmp(&b.0));
        }
        let (at, cause) = latest?;
        let span = Span::from_seconds((at - seconds(now)).max(0.0));
        let last = arrived.iter().flatten().max_by_key(|of| of.at)?;
        (span > Span::ZERO).then(|| BarrierWait::new((now, span), cause, last.waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
    use rand_distr::StandardNormal;

    /// Returns the mean time at which the last of `all` nodes arrives, if `simulated` of them are simulated over `steps` steps, and
    /// the same if all are; `draw` returns the arrivals of a step.
    fn last(
        (simulated, all, steps): (usize, usize, u64),
        draw: impl Fn(&mut Xoshiro256PlusPlus, usize) -> Vec<f64>,
    ) -> [f64; 2] {
        let nodes = Ids::new(SimulatedNodeId::new(0), SimulatedNodeId::new(simulated as u32));
        let of = NodeSample {
            nodes: RangeVec::new(DeviceId::new(0), nodes.iter()),
            alike: vec![(nodes, (all - simulated) as u32)],
            owner: 0,
            epochs: EpochsOfLoader { batches: None, taken: 1 },
        };
        let (mut barrier, streams) = (SampledBarrier::new(Arc::new(of)), Streams::new(1, 0));
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(7);
        let (mut sampled, mut full) = (0.0, 0.0);
        for step in 1..=steps {
            let times = draw(&mut generator, all);
            let of_simulated = &times[..simulated];
            for (node, seconds) in of_simulated.iter().enumerate() {
                let d = DeviceId::new(node as u32);
                let (at, until) = (Time::from_seconds(*seconds), Time::ZERO);
                let waited = Waited { cause: Cause::Decode, until };
                barrier.arrive((step, 0), (at, d), waited);
            }
            let largest = of_simulated.iter().copied().fold(0.0, f64::max);
            let now = Time::from_seconds(largest);
            let wait = barrier.last((step, 0), now, &streams);
            let later = wait.map_or(0.0, |wait| wait.end().since(now).seconds());
            sampled += largest + later;
            full += times.iter().copied().fold(0.0, f64::max);
        }
        [sampled, full].map(|sum| sum / steps as f64)
    }

    fn normal(generator: &mut Xoshiro256PlusPlus) -> f64 {
        generator.sample(StandardNormal)
    }

    #[test]
    fn the_last_of_all_nodes_arrives_as_late_as_if_all_were_simulated() {
        // System: 8 or 16 of 512 nodes, whose times vary from node to node, from step to step, or both. Expectation: the mean of the
        // last arrival is that of 512 nodes, to 1 %.
        for (name, common, own) in
            [("node", 0.0, 0.05), ("step", 0.1, 0.0), ("both", 0.1, 0.05), ("wide", 0.02, 0.2)]
        {
            for simulated in [8, 16] {
                let [sampled, full] = last((simulated, 512, 2000), |g, all| {
                    let level = 2.0 + common * normal(g);
                    (0..all).map(|_| level + own * normal(g)).collect()
                });
                assert!((sampled / full - 1.0).abs() < 0.01, "{name}: {sampled} {full}");
            }
        }
    }

    #[test]
    fn rare_stalls_hold_up_nearly_every_step_of_many_nodes() {
        // System: a node is late by half a second once in 200 steps. Expectation: 8 simulated nodes of 512 see it in one of 25 steps, and
        // the last of all is late in 92 % of the steps.
        let [sampled, full] = last((8, 512, 16_000), |g, all| {
            (0..all).map(|_| if g.random::<f64>() < 0.005 { 1.5 } else { 1.0 }).collect()
        });
        assert!((sampled / full - 1.0).abs() < 0.01, "{sampled} {full}");
    }

    #[test]
    fn nodes_that_always_arrive_together_are_never_late() {
        let [sampled, full] = last((8, 512, 50), |_, all| vec![1.25; all]);
        assert_eq!(sampled, full);
    }

    #[test]
    fn a_wait_for_the_last_node_is_for_its_input_until_it_computes() {
        // System: the last simulated node has computed for 3 ns since its last wait; the last of all nodes arrives 5 ns later.
        // Expectation: it still waits for 2 ns, and then computes for 3.
        let waited = Waited { cause: Cause::Decode, until: Time(7_000) };
        let wait = BarrierWait::new((Time(10_000), Span(5_000)), Cause::Latency, waited);
        let pieces = |from, until| -> Vec<(u64, u64, Cause)> {
            let parts = wait.within(Time(from), Time(until));
            parts.map(|of| (of.start.0, of.end.0, of.cause.cause)).collect()
        };
        let all = [(10_000, 12_000, Cause::Latency), (12_000, 15_000, Cause::Compute)];
        assert_eq!(pieces(0, 99_000), all);
        assert_eq!(pieces(11_000, 12_000), [(11_000, 12_000, Cause::Latency)]);
        assert_eq!([wait.start(), wait.end()], [Time(10_000), Time(15_000)]);
    }

    #[test]
    fn the_position_of_a_step_in_an_epoch_follows_from_its_batches() {
        // System: epochs of 21 batches, of which steps take 8; and a loader that begins once. Expectation: by hand.
        use PlaceInEpoch::{Across, After, First};
        let epochs = EpochsOfLoader { batches: Some(21), taken: 8 };
        let places = [0, 1, 2, 3, 4, 5].map(|step| epochs.place_of(step));
        assert_eq!(places, [First, After(1), Across, After(1), After(2), Across]);
        let once = EpochsOfLoader { batches: None, taken: 8 };
        let places = [0, 1, 2, 3, 4].map(|step| once.place_of(step));
        assert_eq!(places, [First, After(1), After(2), After(3), After(3)]);
    }
}
