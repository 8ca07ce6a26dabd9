//! Tests of the fast network beside the slow reference network, through random runs.

use super::{SECOND, any_demand, plain};
use crate::Time;
use crate::fluid::reference::Reference;
use crate::fluid::{Capacity, Demand, FlowId, GroupId, LinkId, Network};
use proptest::prelude::*;

/// One action of a random run.
#[derive(Debug, Clone)]
enum Act {
    Start { group: usize, work: f64, count: u32 },
    Cancel { flow: usize },
    CancelAll { third: u32 },
    SetCapacity { link: usize, capacity: Capacity },
    AddGroup(Demand),
    AddLink(Capacity),
}

fn any_capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        8 => (0.5f64..20.0).prop_map(Capacity::Fixed),
        4 => (1u32..20).prop_map(|c| Capacity::Fixed(f64::from(c))),
        1 => Just(Capacity::Fixed(0.0)),
        1 => Just(Capacity::Fixed(f64::INFINITY)),
        2 => prop::collection::vec(0.5f64..20.0, 1..5).prop_map(|t| Capacity::ByFlows(t.into())),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    let work = prop_oneof![
        4 => 0.01f64..10.0,
        3 => (0u32..5).prop_map(f64::from),
        1 => Just(f64::INFINITY)
    ];
    prop_oneof![
        12 => (0..100usize, work, 1u32..4)
            .prop_map(|(group, work, count)| Act::Start { group, work, count }),
        2 => (0..100usize).prop_map(|flow| Act::Cancel { flow }),
        1 => (0..3u32).prop_map(|third| Act::CancelAll { third }),
        2 => (0..100usize, any_capacity())
            .prop_map(|(link, capacity)| Act::SetCapacity { link, capacity }),
        1 => any_demand(2).prop_map(Act::AddGroup),
        1 => any_capacity().prop_map(Act::AddLink),
    ]
}

/// Both networks, side by side.
struct Pair {
    fast: Network<u32>,
    slow: Reference<u32>,
    groups: Vec<GroupId>,
    links: usize,
    flows: Vec<(FlowId, FlowId)>,
    fast_told: Vec<(u32, u64)>,
    slow_told: Vec<(u32, u64)>,
}

impl Pair {
    fn new(capacities: &[Capacity], demands: &[Demand], patience: u32) -> Pair {
        let (mut fast, mut slow) = (Network::new(), Reference::new());
        fast.core_for_test().patience = patience;
        for c in capacities {
            assert_eq!(fast.link(c.clone()), slow.link(c.clone()));
        }
        let mut pair = Pair {
            fast,
            slow,
            groups: Vec::new(),
            links: capacities.len(),
            flows: Vec::new(),
            fast_told: Vec::new(),
            slow_told: Vec::new(),
        };
        demands.iter().for_each(|d| pair.add_group(d));
        pair
    }

    fn add_group(&mut self, demand: &Demand) {
        let (a, b) = (self.fast.group(demand.clone()), self.slow.group(demand.clone()));
        assert_eq!(a, b);
        self.groups.push(a);
    }

    /// Runs both networks up to `now`; compares the rates whenever both have the same active flows.
    fn drain(&mut self, now: Time) {
        while let Some(at) = self.fast.next().filter(|&at| at <= now) {
            let before = self.fast_told.len();
            while let Some(f) = self.fast.finish(at) {
                self.fast_told.push((f.token, at.0));
            }
            assert!(self.fast_told.len() > before, "an announced instant finishes a flow");
            self.drain_slow(at);
            self.compare();
        }
        self.drain_slow(now);
        self.fast.next();
        self.compare();
    }

    fn drain_slow(&mut self, now: Time) {
        while let Some(at) = self.slow.next().filter(|&at| at <= now) {
            while let Some(f) = self.slow.finish(at) {
                self.slow_told.push((f.token, at.0));
            }
        }
    }

    fn alike(&self) -> bool {
        self.groups.iter().all(|&g| self.fast.active(g) == self.slow.active(g))
    }

    fn compare(&mut self) {
        self.fast.next();
        self.slow.next();
        if self.alike() {
            for &g in self.groups.iter().filter(|&&g| self.fast.active(g) > 0) {
                let (a, b) = (self.fast.rate(g), self.slow.rate(g));
                assert!(a == b || (a - b).abs() <= 1e-9 * b, "{g:?}: {a} instead of {b}");
            }
        }
    }

    fn act(&mut self, now: Time, act: &Act) {
        match act {
            Act::Start { group, work, count } if !self.groups.is_empty() => {
                let (g, token) = (self.groups[group % self.groups.len()], self.flows.len() as u32);
                let a = self.fast.start_many(now, g, *work, *count, token);
                let b = self.slow.start_many(now, g, *work, *count, token);
                self.flows.push((a, b));
            }
            Act::Cancel { flow } if !self.flows.is_empty() => {
                let (a, b) = self.flows[flow % self.flows.len()];
                match (self.fast.cancel(now, a), self.slow.cancel(now, b)) {
                    (Some(a), Some(b)) => assert!(a == b || (a - b).abs() < 1e-9, "{a} {b}"),
                    (a, b) => assert_eq!(a, b),
                }
            }
            Act::CancelAll { third } => {
                let number = self.fast.cancel_all(now, |token| token % 3 == *third);
                let of = self.flows.iter().zip(0..).filter(|(_, token)| token % 3 == *third);
                let slow = of.filter(|((_, b), _)| self.slow.cancel(now, *b).is_some()).count();
                assert_eq!(number, slow);
            }
            Act::SetCapacity { link, capacity } => {
                let link = LinkId::new(link % self.links);
                self.fast.set_capacity(now, link, capacity.clone());
                self.slow.set_capacity(now, link, capacity.clone());
            }
            Act::AddGroup(demand) => self.add_group(demand),
            Act::AddLink(capacity) => {
                self.links += 1;
                assert_eq!(self.fast.link(capacity.clone()), self.slow.link(capacity.clone()));
                let route = [LinkId::new(self.links - 1), LinkId::new(0)];
                self.add_group(&plain(&route));
            }
            Act::Start { .. } | Act::Cancel { .. } => {}
        }
    }

    fn finish(&mut self, now: Time) {
        self.drain(Time(1_000_000 * SECOND).max(now));
        self.fast_told.sort_unstable();
        self.slow_told.sort_unstable();
        assert_eq!(self.fast_told.len(), self.slow_told.len());
        for (a, b) in self.fast_told.iter().zip(&self.slow_told) {
            // Levels agree to about 1e-11: sums are kept by differences.
            let slack = 2 + b.1 / 100_000_000_000;
            assert!(a.0 == b.0 && a.1.abs_diff(b.1) <= slack, "{a:?} instead of {b:?}");
        }
        let now = Time(1_000_000 * SECOND).max(now);
        assert!(self.fast.finish(now).is_none() && self.slow.finish(now).is_none());
        for link in (0..self.links).map(LinkId::new) {
            let (a, b) = (self.fast.usage(now, link), self.slow.usage(now, link));
            let near = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-8 * (1.0 + b.abs());
            assert!(near(a.busy, b.busy), "{a:?} {b:?}");
            assert!(near(a.flow_seconds, b.flow_seconds), "{a:?} {b:?}");
            assert!(b.served.is_nan() || near(a.served, b.served), "{a:?} {b:?}");
        }
    }
}

/// Checks that both networks do the same through `acts` and up to the end.
fn agree(mut pair: Pair, acts: &[(u64, Act)]) {
    let mut now = Time(0);
    for (wait, act) in acts {
        // A third of the acts happen at the instant of the act before.
        now = Time(now.0 + if wait % 3 == 0 { 0 } else { *wait });
        pair.drain(now);
        for nudge in 0.. {
            if pair.alike() {
                break;
            }
            assert!(nudge < 3, "other flows are active");
            now = Time(now.0 + 3);
            pair.drain(now);
        }
        pair.act(now, act);
        pair.compare();
    }
    pair.finish(now);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn fast_and_reference_flow_solvers_agree_on_rates_times_and_usage(
        capacities in prop::collection::vec(any_capacity(), 2..6),
        demands in prop::collection::vec(any_demand(2), 1..4),
        wide in prop::collection::vec(any_demand(5), 0..6),
        acts in prop::collection::vec((0u64..SECOND, any_act()), 1..40),
        patience in prop_oneof![Just(0u32), Just(2), Just(64)],
    ) {
        let fits = |d: &&Demand| d.route.iter().all(|u| u.link.index() < capacities.len());
        let demands: Vec<Demand> = demands.iter().chain(&wide).filter(fits).cloned().collect();
        agree(Pair::new(&capacities, &demands, patience), &acts);
    }

    #[test]
    fn fast_and_reference_flow_solvers_agree_on_server_reads_with_peer_sends(
        nodes in 2usize..7,
        server in any_capacity(),
        nics in (5.0f64..20.0, prop::collection::vec((0..12usize, any_capacity()), 0..3)),
        beside in prop::collection::vec(any_demand(5), 0..2),
        acts in prop::collection::vec((0u64..SECOND, any_act()), 20..80),
        patience in prop_oneof![Just(2), Just(64)],
    ) {
        let (nic, others) = nics;
        let mut capacities = vec![Capacity::Fixed(nic); 2 * nodes + 1];
        others.into_iter().for_each(|(link, capacity)| capacities[1 + link % (2 * nodes)] = capacity);
        capacities[0] = server;
        let (into, out) = (|node: usize| LinkId::new(1 + node % nodes), |node| LinkId::new(1 + nodes + node));
        let reads = (0..nodes).map(|node| plain(&[LinkId::new(0), into(node)]));
        let sends = (0..nodes).map(|node| plain(&[out(node), into(node + 1)]));
        let demands: Vec<Demand> = reads.chain(sends).chain(beside).collect();
        agree(Pair::new(&capacities, &demands, patience), &acts);
    }
}
