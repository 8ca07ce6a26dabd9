//! Tests of small systems that are solved by hand.

use super::{SECOND, demand, drain, plain};
use crate::Time;
use crate::fluid::{Capacity, Finished, Network};

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
fn flows_share_a_link_by_weight_demand_coefficient_and_rate_cap() {
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
fn a_flow_limited_by_its_own_link_leaves_server_capacity_to_other_flows() {
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
    // All keys are 0.7, in two groups: flows of weights 1, 2, 1, 2 share 3 units/s.
    for (token, g, work) in [(1, a, 0.7), (2, b, 1.4), (3, a, 0.7), (4, b, 1.4)] {
        net.start(Time(5), g, work, token);
    }
    let tokens: Vec<u32> = drain(&mut net).iter().map(|&(_, token)| token).collect();
    assert_eq!(tokens, [1, 2, 3, 4]);
    assert_eq!(net.next(), None);
    // In one group, the flows of one instant are returned one after the other without another call of `next`: 5 flows
    // of work 0.6 share 3 units/s.
    for token in 1..=5 {
        net.start(Time(5 + 2 * SECOND), a, 0.6, token);
    }
    assert_eq!(net.next(), Some(Time(5 + 3 * SECOND)));
    let told = |net: &mut Network<u32>| net.finish(Time(5 + 3 * SECOND)).map(|flow| flow.token);
    for (token, more) in (1..=5).zip([true, true, true, true, false]) {
        assert_eq!((told(&mut net), net.has_finished()), (Some(token), more));
    }
    assert_eq!((told(&mut net), net.next()), (None, None));
}

#[test]
fn flows_started_as_one_batch_finish_together_as_one_completion() {
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
fn flows_without_work_or_without_a_rate_limit_finish_at_once() {
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
fn a_link_of_zero_capacity_stalls_flows_until_it_has_capacity_again() {
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
fn the_capacity_of_a_link_depends_on_its_number_of_flows() {
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
fn cancelling_a_flow_returns_its_remaining_work_and_frees_its_share() {
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
fn a_due_flow_can_be_cancelled_after_another_due_flow_has_completed() {
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
fn a_due_flow_can_be_cancelled_before_its_completion_is_reported() {
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(1.0));
    let g = net.group(plain(&[link]));
    let flow = net.start(Time(0), g, 1.0, 1);
    let at = net.next().expect("it is due");
    assert_eq!(net.cancel(at, flow), Some(0.0));
    assert_eq!((net.finish(at), net.next()), (None, None));
}

#[test]
fn a_flow_bound_by_its_rate_cap_and_link_slows_when_its_link_share_falls() {
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

#[test]
fn nics_with_equal_traffic_are_grouped_and_get_equal_rates() {
    // System: a server of 4; four NICs of 4, each with a read from the server and a transfer; later three reads that
    // use the server alone. Expectation: reads at 1 leave 3 to each transfer; reads at 4/7 leave 4 - 4/7. A NIC with
    // two reads is in another cohort: reads at 1/2 leave 3 there and 3.5 on the other NICs. With a fast server every
    // NIC is shared evenly.
    let mut net = Network::new();
    let server = net.link(Capacity::Fixed(4.0));
    let nics: Vec<_> = (0..4).map(|_| net.link(Capacity::Fixed(4.0))).collect();
    let reads: Vec<_> = nics.iter().map(|nic| net.group(plain(&[server, *nic]))).collect();
    let sends: Vec<_> =
        nics.iter().map(|nic| net.group(demand(&[(*nic, 1.0)], 1.0, 1e9))).collect();
    let alone = net.group(plain(&[server]));
    let endless = |net: &mut Network<u32>, g| net.start(Time(0), g, f64::INFINITY, 0);
    let assert_sent = |net: &mut Network<u32>, first: f64, others: f64| {
        assert_eq!(net.next(), None, "endless flows never finish");
        for (g, rate) in sends.iter().zip([first, others, others, others]) {
            assert!((net.rate(*g) - rate).abs() < 1e-12, "{g:?}: {} not {rate}", net.rate(*g));
        }
    };
    let cohorts = |net: &mut Network<u32>| {
        let cohorts = &net.core_for_test().links[server.index()].cohorts;
        cohorts.iter().map(|cohort| cohort.links).collect::<Vec<u32>>()
    };
    for g in reads.iter().chain(&sends) {
        endless(&mut net, *g);
    }
    assert_sent(&mut net, 3.0, 3.0);
    let more = [0; 3].map(|_| endless(&mut net, alone));
    assert_sent(&mut net, 4.0 - 4.0 / 7.0, 4.0 - 4.0 / 7.0);
    assert_eq!(cohorts(&mut net), [4]);
    endless(&mut net, reads[0]);
    assert_sent(&mut net, 3.0, 3.5);
    net.cancel(Time(0), more[0]);
    assert_sent(&mut net, 4.0 - 8.0 / 7.0, 4.0 - 4.0 / 7.0);
    assert_eq!(cohorts(&mut net), [3, 1]);
    net.set_capacity(Time(0), server, Capacity::Fixed(40.0));
    assert_sent(&mut net, 4.0 / 3.0, 2.0);
    assert_eq!(cohorts(&mut net), [0, 0]);
    net.set_capacity(Time(0), server, Capacity::Fixed(7.0));
    assert_sent(&mut net, 2.0, 3.0);
}

#[test]
fn peek_second_returns_the_flow_that_ends_after_the_next_one() {
    // System: a shared link; three groups, each with another link of its own, and flows of 3 and 9, of 4 and 8, and
    // of 5 units, all at the same rate. Expectation: the flow that ends after the next one is foreseen if it is
    // another group's flow; `None` if only one group is left.
    let mut net = Network::new();
    let link = net.link(Capacity::Fixed(10.0));
    let [a, b, c] = [100.0, 200.0, 300.0].map(|capacity| {
        let own = net.link(Capacity::Fixed(capacity));
        net.group(plain(&[own, link]))
    });
    for (group, work) in [(a, 9.0), (a, 3.0), (b, 4.0), (b, 8.0), (c, 5.0)] {
        net.start(Time(0), group, work, work as u32);
    }
    for (token, second) in
        [(3, Some((b, 4))), (4, Some((c, 5))), (5, Some((b, 8))), (8, Some((a, 9))), (9, None)]
    {
        let next = net.next().expect("a flow");
        assert_eq!(net.peek_second(), second, "while {token} is next");
        assert_eq!(net.finish(next).map(|flow| flow.token), Some(token));
    }
}
