//! Systems and what to expect of them, by hand and at random.

use super::reference::Reference;
use super::*;
use crate::engine::Time;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000_000;

fn demand(route: &[(LinkId, f64)], weight: f64, cap: f64) -> Demand {
    Demand {
        route: route.iter().map(|&(link, per_unit)| Use { link, per_unit }).collect(),
        weight,
        cap,
    }
}

fn plain(route: &[LinkId]) -> Demand {
    demand(&route.iter().map(|&l| (l, 1.0)).collect::<Vec<_>>(), 1.0, f64::INFINITY)
}

/// Runs to the end; all completions in the order told.
fn drain(net: &mut Network<u32>) -> Vec<(u64, u32)> {
    let mut told = Vec::new();
    while let Some(at) = net.next() {
        let before = told.len();
        while let Some(flow) = net.finish(at) {
            told.push((at.0, flow.token));
        }
        assert!(told.len() > before, "an announced instant finishes a flow");
    }
    told
}

#[test]
fn two_flows_share_a_link_and_the_second_then_has_it_alone() {
    // System: 10 units/s; works 10 and 30 start together.
    // Expectation: at 5 each the first is done at 2 s; 20 are left, at 10: done at 4 s.
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(10.0));
    let g = net.group(plain(&[link]));
    net.start(Time(0), g, 10.0, 1);
    net.start(Time(0), g, 30.0, 2);
    assert_eq!(drain(&mut net), [(2 * SECOND, 1), (4 * SECOND, 2)]);
    let usage = net.usage(Time(4 * SECOND), link);
    assert!((usage.served - 40.0).abs() < 1e-9 && (usage.busy - 4.0).abs() < 1e-12, "{usage:?}");
    assert!((usage.flow_seconds - 6.0).abs() < 1e-12, "2 flows for 2 s, then 1: {usage:?}");
}

#[test]
fn weights_coefficients_and_caps_divide_a_link() {
    // System: 12 units/s; A uses 2 per unit, B has weight 3, C is capped at 1.
    // Expectation: C takes 1 and leaves 11 = 2 x + 3 x, x = 2.2: A 2.2, B 6.6.
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(12.0));
    let a = net.group(demand(&[(link, 2.0)], 1.0, f64::INFINITY));
    let b = net.group(demand(&[(link, 1.0)], 3.0, f64::INFINITY));
    let c = net.group(demand(&[(link, 1.0)], 1.0, 1.0));
    for g in [a, b, c] {
        net.start(Time(0), g, f64::INFINITY, 0);
    }
    assert_eq!(net.next(), None, "endless flows never finish");
    for (g, rate) in [(a, 2.2), (b, 6.6), (c, 1.0)] {
        assert!((net.rate(g) - rate).abs() < 1e-12, "{g:?}");
    }
}

#[test]
fn a_private_link_that_binds_leaves_the_server_to_others() {
    // System: server 10, private links 2 and 100; one flow over each.
    // Expectation: 2 and 8, because the second takes what the first cannot.
    let mut net = Network::new();
    let server = net.link(Capacity::Fixed(10.0));
    let slow = net.link(Capacity::Fixed(2.0));
    let fast = net.link(Capacity::Fixed(100.0));
    let (a, b) = (net.group(plain(&[slow, server])), net.group(plain(&[fast, server])));
    net.start(Time(0), a, 4.0, 1);
    net.start(Time(0), b, 8.0, 2);
    assert_eq!(net.next(), Some(Time(SECOND)));
    assert!((net.rate(a) - 2.0).abs() < 1e-12 && (net.rate(b) - 8.0).abs() < 1e-12);
    assert_eq!(drain(&mut net), [(SECOND, 2), (2 * SECOND, 1)]);
}

#[test]
fn equal_flows_finish_together_in_order_of_start() {
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(3.0));
    let (a, b) = (net.group(plain(&[link])), net.group(demand(&[(link, 1.0)], 2.0, 1e9)));
    // All keys are 0.7, in two groups: 1, 2, 1, 2 weights share 3.
    for (token, g, work) in [(1, a, 0.7), (2, b, 1.4), (3, a, 0.7), (4, b, 1.4)] {
        net.start(Time(5), g, work, token);
    }
    let tokens: Vec<u32> = drain(&mut net).iter().map(|&(_, token)| token).collect();
    assert_eq!(tokens, [1, 2, 3, 4]);
    assert_eq!(net.next(), None);
}

#[test]
fn flows_started_as_one_finish_as_one() {
    // System: 10 units/s; 4 flows of work 5 as one. Expectation: 2.5 each, done at 2 s.
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(10.0));
    let g = net.group(plain(&[link]));
    let flow = net.start_many(Time(0), g, 5.0, 4, 9);
    assert_eq!((net.active(g), net.next()), (4, Some(Time(2 * SECOND))));
    let done = net.finish(Time(2 * SECOND)).expect("it is due");
    assert_eq!(done, Finished { token: 9, flow, count: 4 });
    assert_eq!((net.active(g), net.finish(Time(2 * SECOND)), net.next()), (0, None, None));
}

#[test]
fn what_asks_for_nothing_finishes_at_once() {
    // Zero work on a dead link, and work that no link and no cap limits.
    let mut net = Network::new();
    let (dead, endless) =
        (net.link(Capacity::Fixed(0.0)), net.link(Capacity::Fixed(f64::INFINITY)));
    let (a, b) = (net.group(plain(&[dead])), net.group(plain(&[endless])));
    net.start(Time(7), a, 0.0, 1);
    net.start(Time(7), b, 1e12, 2);
    net.start(Time(7), b, 0.0, 3);
    assert_eq!(drain(&mut net).iter().map(|told| told.0).collect::<Vec<_>>(), [7; 3]);
    assert_eq!(net.usage(Time(7), endless).served, 1e12);
}

#[test]
fn a_dead_link_stalls_flows_until_it_lives_again() {
    // System: 10 units/s, dead from 1 s to 3 s; work 20. Expectation: done at 4 s.
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(10.0));
    let g = net.group(plain(&[link]));
    net.start(Time(0), g, 20.0, 1);
    net.set_capacity(Time(SECOND), link, Capacity::Fixed(0.0));
    assert_eq!(net.next(), None);
    net.set_capacity(Time(3 * SECOND), link, Capacity::Fixed(10.0));
    assert_eq!(drain(&mut net), [(4 * SECOND, 1)]);
    assert!((net.usage(Time(4 * SECOND), link).busy - 4.0).abs() < 1e-12, "stalled is busy");
}

#[test]
fn capacity_follows_the_number_of_flows() {
    // System: 10 units/s for one flow, 6 for more. Works 6 and 16.
    // Expectation: 3 each, the first done at 2 s; 10 left at 10: done at 3 s.
    let mut net = Network::new();
    let link = net.link(Capacity::ByFlows([10.0, 6.0].into()));
    let g = net.group(plain(&[link]));
    net.start(Time(0), g, 6.0, 1);
    net.start(Time(0), g, 16.0, 2);
    assert_eq!(drain(&mut net), [(2 * SECOND, 1), (3 * SECOND, 2)]);
}

#[test]
fn a_cancelled_flow_says_what_is_left_and_frees_its_share() {
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(10.0));
    let g = net.group(plain(&[link]));
    let first = net.start(Time(0), g, 10.0, 1);
    let second = net.start(Time(0), g, 30.0, 2);
    assert_eq!(net.cancel(Time(SECOND), first), Some(5.0));
    assert_eq!(net.cancel(Time(SECOND), first), None, "stale");
    // 25 left at 10 units/s.
    assert_eq!(net.next(), Some(Time(SECOND * 7 / 2)));
    assert_eq!(net.finish(Time(SECOND * 7 / 2)).map(|f| f.flow), Some(second));
    assert_eq!(net.cancel(Time(SECOND * 7 / 2), second), None, "finished");
}

#[test]
fn a_flow_that_is_done_but_not_told_can_be_cancelled() {
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(1.0));
    let g = net.group(plain(&[link]));
    net.start(Time(0), g, 1.0, 1);
    let rival = net.start(Time(0), g, 1.0, 2);
    let at = net.next().expect("both are due");
    assert_eq!(net.finish(at).map(|f| f.token), Some(1));
    assert_eq!(net.cancel(at, rival), Some(0.0));
    assert_eq!((net.finish(at), net.next()), (None, None));
}

#[test]
fn a_flow_that_is_due_can_be_cancelled_before_it_is_told() {
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(1.0));
    let g = net.group(plain(&[link]));
    let flow = net.start(Time(0), g, 1.0, 1);
    let at = net.next().expect("it is due");
    assert_eq!(net.cancel(at, flow), Some(0.0));
    assert_eq!((net.finish(at), net.next()), (None, None));
}

#[test]
fn completions_round_up_but_exact_ones_stay() {
    let due = |left: f64, rate: f64| clock::due(Time(100), left, 0.0, rate, left).0;
    assert_eq!(due(3.0, 1.0), 103, "exact");
    assert_eq!(
        due(3.0, 0.1),
        130,
        "exact but for rounding: 3 / 0.1 is 30.000000000000004 or 29.9..."
    );
    assert_eq!(due(0.1 + 0.2, 0.1), 103, "exact but for rounding, which is up");
    assert_eq!(due(3.1, 1.0), 104, "up");
    assert_eq!(due(1e-3, 1.0), 101, "up");
    assert_eq!(due(0.0, 0.0), 100, "nothing left");
    assert_eq!(due(5.0, f64::INFINITY), 100, "no limit");
    assert_eq!(due(5.0, 0.0), u64::MAX, "stalled");
    assert_eq!(due(f64::INFINITY, f64::INFINITY), u64::MAX, "endless");
    assert_eq!(due(1e30, 1.0), u64::MAX, "beyond all time");
}

#[test]
fn late_ties_are_still_ties_and_late_work_takes_as_long() {
    // After 2e6 s of an endless flow, two equal flows on a shared clock, and one alone.
    let mut net = Network::new();
    let server = net.link(Capacity::Fixed(3e9));
    let nics = [net.link(Capacity::Fixed(1e10)), net.link(Capacity::Fixed(1e10))];
    let groups = nics.map(|nic| net.group(plain(&[nic, server])));
    let endless = net.group(plain(&[server]));
    net.start(Time(0), endless, f64::INFINITY, 0);
    assert_eq!(net.next(), None);
    let mut now = Time(0);
    for step in 1..=20_000_u64 {
        // A flow that always finds the clocks in use.
        now = Time(step * 100 * SECOND);
        let f = net.start(now, groups[0], 1e20, 1);
        net.next();
        assert!(net.cancel(now, f).is_some());
    }
    for g in groups {
        net.start(now, g, 1e9, 2);
    }
    assert_eq!(net.next(), Some(Time(now.0 + SECOND)), "1e9 at a third of 3e9");
    let told: Vec<u32> = drain(&mut net).iter().map(|&(_, token)| token).collect();
    assert_eq!(told, [2, 2]);
}

#[test]
fn the_same_calls_give_the_same_results() {
    let run = || {
        let mut net = Network::new();
        let links: Vec<LinkId> =
            (1..8).map(|c| net.link(Capacity::Fixed(f64::from(c) * 1.1))).collect();
        for n in 0..400u32 {
            let g = net.group(plain(&[links[n as usize % 7], links[(n * n) as usize % 6]]));
            net.start(Time(0), g, 1.0 + f64::from(n % 13) / 3.0, n);
        }
        let told = drain(&mut net);
        let end = Time(told.last().expect("flows finish").0);
        let served: Vec<u64> = links.iter().map(|&l| net.usage(end, l).served.to_bits()).collect();
        (told, served)
    };
    assert_eq!(run(), run());
}

#[test]
fn rebasing_changes_no_instant() {
    let build = || {
        let mut net = Network::new();
        let link = net.link(Capacity::Fixed(7e8));
        let g = net.group(plain(&[link]));
        for token in 0..50 {
            // Sizes repeat: ties must survive.
            net.start(Time(u64::from(token)), g, 1e5 + f64::from(token % 10) * 777.7, token);
        }
        net
    };
    let (mut plainly, mut rebased, mut told) = (build(), build(), Vec::new());
    while let Some(at) = rebased.next() {
        while let Some(flow) = rebased.finish(at) {
            told.push((at.0, flow.token));
        }
        rebased.core_for_test().rebase();
    }
    assert_eq!(told, drain(&mut plainly));
}

#[test]
fn a_tie_between_ceiling_and_link_is_left_when_the_link_falls_behind() {
    // System: A capped at 2, link of 4 with B. At 2 each, cap and link limit A alike.
    // Expectation: when B has a second flow, A falls to 4/3.
    let mut net = Network::new();
    let (link, own) = (net.link(Capacity::Fixed(4.0)), net.link(Capacity::Fixed(0.5)));
    let (a, b) = (net.group(demand(&[(link, 1.0)], 1.0, 2.0)), net.group(plain(&[own, link])));
    net.start(Time(0), a, 9.0, 0);
    net.start(Time(0), b, 9.0, 0);
    net.next();
    net.set_capacity(Time(0), own, Capacity::Fixed(7.0));
    net.next();
    assert!((net.rate(a) - 2.0).abs() < 1e-12);
    net.start(Time(0), b, 9.0, 0);
    net.next();
    assert!((net.rate(a) - 4.0 / 3.0).abs() < 1e-12, "{}", net.rate(a));
}

/// What a random run does.
#[derive(Debug, Clone)]
enum Act {
    Start { group: usize, work: f64, count: u32 },
    Cancel { flow: usize },
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

fn any_demand(links: usize) -> impl Strategy<Value = Demand> {
    let coefficient = prop_oneof![3 => Just(1.0), 1 => 0.1f64..3.0];
    let route = prop::collection::vec((0..links, coefficient), 0..4);
    let weight = prop_oneof![3 => Just(1.0), 1 => Just(2.0), 1 => 0.1f64..3.0];
    let cap = prop_oneof![3 => Just(f64::INFINITY), 2 => 0.1f64..10.0, 1 => Just(2.0)];
    (route, weight, cap).prop_map(|(route, weight, cap)| {
        let route: Vec<_> = route.into_iter().map(|(l, a)| (LinkId::new(l), a)).collect();
        demand(&route, weight, cap)
    })
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

    /// Both run up to `now`; the rates are compared whenever the same flows are active.
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn fast_and_slow_agree_on_rates_instants_and_usage(
        capacities in prop::collection::vec(any_capacity(), 2..6),
        demands in prop::collection::vec(any_demand(2), 1..4),
        wide in prop::collection::vec(any_demand(5), 0..6),
        acts in prop::collection::vec((0u64..SECOND, any_act()), 1..40),
        patience in prop_oneof![Just(0u32), Just(2), Just(64)],
    ) {
        let fits = |d: &&Demand| d.route.iter().all(|u| u.link.index() < capacities.len());
        let demands: Vec<Demand> = demands.iter().chain(&wide).filter(fits).cloned().collect();
        let mut pair = Pair::new(&capacities, &demands, patience);
        let mut now = Time(0);
        for (wait, act) in &acts {
            // Some things happen at one instant.
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

    #[test]
    fn every_flow_is_at_its_cap_or_among_the_fastest_of_a_full_link(
        capacities in prop::collection::vec(prop_oneof![4 => 0.1f64..20.0, 1 => Just(0.0)], 1..6),
        demands in prop::collection::vec((any_demand(6), 0u32..4), 1..12),
    ) {
        let fits = |d: &(Demand, u32)| d.0.route.iter().all(|u| u.link.index() < capacities.len());
        let demands: Vec<(Demand, u32)> =
            demands.into_iter().map(|(d, n)| (d.normal(), n)).filter(fits).collect();
        let rates = max_min_shares(&capacities, &demands);
        let load = |link: usize| -> f64 {
            let of = |((d, n), rate): (&(Demand, u32), &f64)| {
                let uses = d.route.iter().filter(|u| u.link.index() == link);
                uses.map(|u| u.per_unit * f64::from(*n) * rate).sum::<f64>()
            };
            demands.iter().zip(&rates).map(of).sum()
        };
        for (link, capacity) in capacities.iter().enumerate() {
            prop_assert!(load(link) <= capacity * (1.0 + 1e-9) + 1e-12);
        }
        for ((d, n), &rate) in demands.iter().zip(&rates).filter(|((_, n), _)| *n > 0) {
            let level = rate / d.weight;
            let bottleneck = d.route.iter().map(|u| u.link.index()).any(|link| {
                let full = load(link) >= capacities[link] * (1.0 - 1e-9);
                let fastest = demands.iter().zip(&rates).all(|((other, _), &rate)| {
                    let shares = other.route.iter().any(|u| u.link.index() == link);
                    !shares || rate / other.weight <= level * (1.0 + 1e-9)
                });
                full && fastest
            });
            prop_assert!(rate >= d.cap * (1.0 - 1e-9) || bottleneck, "{n} of {d:?} at {rate}");
        }
    }
}
