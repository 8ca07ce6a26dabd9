//! Tests of completion instants: which are rounded, which are exact, and that ties stay ties.

use super::{SECOND, drain, plain};
use crate::Time;
use crate::fluid::{Capacity, LinkId, Network, clock};

#[test]
fn completion_times_are_rounded_up_unless_they_are_exact() {
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
fn flows_late_in_a_simulation_keep_exact_ties_and_durations() {
    // System: a server of 3e9 with an endless flow; after 2e6 s, two more groups start a flow of
    // 1e9 each. Expectation: each of the three gets a third of the server, and the two flows end
    // together after 1 s.
    let mut net = Network::new();
    let server = net.link(Capacity::Fixed(3e9));
    let nics = [net.link(Capacity::Fixed(1e10)), net.link(Capacity::Fixed(1e10))];
    let groups = nics.map(|nic| net.group(plain(&[nic, server])));
    let endless = net.group(plain(&[server]));
    net.start(Time(0), endless, f64::INFINITY, 0);
    assert_eq!(net.next(), None);
    let mut now = Time(0);
    for step in 1..=20_000_u64 {
        // The clocks are in use when this flow starts, so that they do not restart.
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
fn repeated_simulations_give_identical_completions_and_link_usage() {
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
fn rebasing_the_clocks_of_flows_does_not_change_completion_times() {
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
fn an_idle_network_forgets_when_its_clocks_were_rebased() {
    // System: flows that take minutes on two links, at 0 s and again at 1000.7 s, between which the network is idle. Expectation: the
    // same completions to the picosecond, and no memory while idle; a flow that follows at once on the last one may depend on it.
    let mut net = Network::new();
    net.forget_when_idle();
    let links = [7e8, 3e8].map(|capacity| net.link(Capacity::Fixed(capacity)));
    let groups = [plain(&links[..1]), plain(&links)].map(|demand| net.group(demand));
    let mut run = |begin: Time| {
        for token in 0..20_u32 {
            let size = 1e9 * (1.0 + f64::from(token % 7) / 3.0);
            net.start(begin, groups[token as usize % 2], size, token);
        }
        assert_eq!(net.memory(begin).map(|since| since.0), Some(0));
        let told: Vec<(u64, u32)> =
            drain(&mut net).iter().map(|(at, token)| (at - begin.0, *token)).collect();
        let last = begin.0 + told[told.len() - 1].0;
        assert!(net.memory(Time(last)).is_some() && net.is_idle());
        assert_eq!(net.memory(Time(last + 1)), None);
        told
    };
    let first = run(Time(0));
    assert!(first[first.len() - 1].0 > 64 * SECOND, "clocks are rebased");
    assert_eq!(first, run(Time(1_000_700_000_000_000)));
}
