//! Nodes of a job copy that are not simulated, where all nodes meet: at the end of a step, and before a collective.
//!
//! Each of them arrives as late as a node that is like it would, so the last one of all arrives later than the last one that is
//! simulated. When it arrives is drawn: the latest of as many times as there are further nodes, from the distribution of the times at
//! which simulated nodes have arrived, in this step and in earlier ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_report::{Cause, StallCause};
use forebay_scenario::Distribution;

use super::arrival_law::{ArrivalLaw, Arrived};
use crate::ids::{DeviceId, IdVec, Ids, RangeVec, SimulatedNodeId};

/// The nodes of a job copy: which are simulated, and for how many others each stands.
#[derive(Debug, Clone)]
pub(crate) struct NodesOfJob {
    /// Node of each device of the job copy.
    pub(crate) nodes: RangeVec<DeviceId, SimulatedNodeId>,
    /// Ranges of simulated nodes that are alike, each with the number of further nodes that are like them.
    pub(crate) alike: Vec<(Ids<SimulatedNodeId>, u32)>,
    /// Number of the job copy, as its random numbers use it.
    pub(crate) owner: u64,
    pub(crate) epochs: EpochsOfLoader,
}

impl NodesOfJob {
    /// Returns the number of nodes that are simulated.
    pub(crate) fn simulated(&self) -> u32 {
        self.alike.iter().map(|(nodes, _)| nodes.len() as u32).sum()
    }
}

/// When the loaders of a job copy begin epochs anew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpochsOfLoader {
    /// Batches of an epoch; `None`: the loader begins once.
    pub(crate) batches: Option<u64>,
    /// Batches that model copies take in a step.
    pub(crate) taken: u64,
}

/// Where in an epoch of its loader a step is. Loaders begin an epoch with no batch ready, so that the first steps of an epoch differ
/// from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PlaceInEpoch {
    /// The step begins with the first batch of an epoch.
    Begins,
    /// Some of the step's batches are the first ones of an epoch.
    Turns,
    /// Number of steps since an epoch began, up to [`EARLY`].
    After(u64),
}

/// Number of steps after the beginning of an epoch from which on steps are alike.
const EARLY: u64 = 3;

impl EpochsOfLoader {
    fn place_of(self, step: u64) -> PlaceInEpoch {
        let (epoch, begin) = (self.batches.unwrap_or(u64::MAX).max(1), step * self.taken);
        let end = begin + self.taken;
        // The last batch before the step's end that began an epoch.
        let first = (end - 1) / epoch * epoch;
        match first {
            _ if begin.is_multiple_of(epoch) => PlaceInEpoch::Begins,
            first if first > begin => PlaceInEpoch::Turns,
            first => PlaceInEpoch::After((step - first / self.taken).min(EARLY)),
        }
    }
}

/// A meeting of a job copy's nodes: its number among those of a step, the step's place in an epoch, and the range of nodes.
type Kind = (u32, PlaceInEpoch, usize);

/// The meetings of a job copy's nodes, of which only some are simulated.
#[derive(Debug)]
pub(crate) struct Others {
    of: Arc<NodesOfJob>,
    /// When the nodes set out for the next meeting.
    since: Time,
    /// When each simulated node arrived at meetings that are not over, by step and number within the step.
    open: BTreeMap<(u64, u32), IdVec<SimulatedNodeId, Option<Arrival>>>,
    laws: BTreeMap<Kind, ArrivalLaw>,
    /// Sampler of the logarithm of a share, with the sign changed.
    log_share: Sampler,
}

/// When a node arrived, and what it had waited for.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Time,
    waited: Waited,
}

/// What a node has waited for longest in a step, and when it last waited: it has computed since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) cause: Cause,
    pub(crate) until: Time,
}

/// The wait for the last of all nodes, once all simulated ones have arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitForOthers {
    /// While the last node still waited itself, and while it computed.
    pieces: [Segment; 2],
}

impl WaitForOthers {
    /// Returns the wait from `now` on for `span`, for a node that waited for `cause` and then computed for as long as the last simulated
    /// node, which had `waited`.
    fn new((now, span): (Time, Span), cause: Cause, waited: Waited) -> WaitForOthers {
        let computed = now.since(waited.until.min(now));
        let middle = now + Span(span.0.saturating_sub(computed.0));
        let piece = |start, end, cause| Segment { start, end, cause: StallCause::peer(cause) };
        let pieces = [piece(now, middle, cause), piece(middle, now + span, Cause::Compute)];
        WaitForOthers { pieces }
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

impl Others {
    /// Returns the meetings of a job copy, none of which has begun.
    pub(crate) fn new(of: Arc<NodesOfJob>) -> Others {
        let log_share = Sampler::new(&Distribution::Exponential { mean: 1.0 });
        let (open, laws) = (BTreeMap::new(), BTreeMap::new());
        Others { of, since: Time::ZERO, open, laws, log_share }
    }

    /// Lets the nodes set out for their next step at `now`.
    pub(crate) fn begin_step(&mut self, now: Time) {
        self.since = now;
    }

    /// Forgets the meetings in progress, because the job copy has failed.
    pub(crate) fn abort(&mut self, now: Time) {
        self.open.clear();
        self.since = now;
    }

    /// Records that device `d` arrives at meeting `number` of `step`, after what it has `waited` for.
    pub(crate) fn arrive(
        &mut self,
        (step, number): (u64, u32),
        (now, d): (Time, DeviceId),
        waited: Waited,
    ) {
        let Others { of, open, .. } = self;
        let none = || IdVec::filled(None, of.simulated());
        let arrived = open.entry((step, number)).or_insert_with(none);
        arrived[of.nodes[d]] = Some(Arrival { at: now, waited });
    }

    /// Ends meeting `number` of `step`, at which the last simulated node arrives now; returns the wait for the last one of all, `None`
    /// if a simulated node is the last one.
    pub(crate) fn last(
        &mut self,
        (step, number): (u64, u32),
        now: Time,
        streams: &Streams,
    ) -> Option<WaitForOthers> {
        let arrived = self.open.remove(&(step, number))?;
        let place = self.of.epochs.place_of(step);
        let seconds = |at: Time| at.since(self.since.min(at)).seconds();
        let mut latest: Option<Arrived> = None;
        for (index, (nodes, others)) in self.of.alike.iter().enumerate().filter(|(_, of)| of.1 > 0)
        {
            let of_nodes = arrived[*nodes].iter().flatten();
            let times: Vec<Arrived> =
                of_nodes.map(|of| (seconds(of.at), of.waited.cause)).collect();
            let law = self.laws.entry((number, place, index)).or_default();
            let mut generator = streams.at(Purpose::Others, self.of.owner, step, index as u64);
            // The largest of n equal draws exceeds what a single one exceeds with this probability.
            let log_share = self.log_share.draw(&mut generator);
            let probability = -(-log_share / f64::from(*others)).exp_m1();
            let of_range = law.further(times, probability.max(f64::MIN_POSITIVE));
            latest = latest.into_iter().chain([of_range]).max_by(|a, b| a.0.total_cmp(&b.0));
        }
        let (at, cause) = latest?;
        let span = Span::from_seconds((at - seconds(now)).max(0.0));
        let last = arrived.iter().flatten().max_by_key(|of| of.at)?;
        (span > Span::ZERO).then(|| WaitForOthers::new((now, span), cause, last.waited))
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
        let of = NodesOfJob {
            nodes: RangeVec::new(DeviceId::new(0), nodes.iter()),
            alike: vec![(nodes, (all - simulated) as u32)],
            owner: 0,
            epochs: EpochsOfLoader { batches: None, taken: 1 },
        };
        let (mut others, streams) = (Others::new(Arc::new(of)), Streams::new(1, 0));
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(7);
        let (mut sampled, mut full) = (0.0, 0.0);
        for step in 1..=steps {
            let times = draw(&mut generator, all);
            let of_simulated = &times[..simulated];
            for (node, seconds) in of_simulated.iter().enumerate() {
                let d = DeviceId::new(node as u32);
                let (at, until) = (Time::from_seconds(*seconds), Time::ZERO);
                let waited = Waited { cause: Cause::Decode, until };
                others.arrive((step, 0), (at, d), waited);
            }
            let largest = of_simulated.iter().copied().fold(0.0, f64::max);
            let now = Time::from_seconds(largest);
            let wait = others.last((step, 0), now, &streams);
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
    fn a_wait_for_others_is_for_their_input_until_they_compute() {
        // System: the last simulated node has computed for 3 ns since its last wait; the last of all nodes arrives 5 ns later.
        // Expectation: it still waits for 2 ns, and then computes for 3.
        let waited = Waited { cause: Cause::Decode, until: Time(7_000) };
        let wait = WaitForOthers::new((Time(10_000), Span(5_000)), Cause::Latency, waited);
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
    fn steps_are_told_apart_by_their_place_in_an_epoch() {
        // System: epochs of 21 batches, of which steps take 8; and a loader that begins once. Expectation: by hand.
        use PlaceInEpoch::{After, Begins, Turns};
        let epochs = EpochsOfLoader { batches: Some(21), taken: 8 };
        let places = [0, 1, 2, 3, 4, 5].map(|step| epochs.place_of(step));
        assert_eq!(places, [Begins, After(1), Turns, After(1), After(2), Turns]);
        let once = EpochsOfLoader { batches: None, taken: 8 };
        let places = [0, 1, 2, 3, 4].map(|step| once.place_of(step));
        assert_eq!(places, [Begins, After(1), After(2), After(3), After(3)]);
    }
}
