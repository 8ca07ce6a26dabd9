//! Elastic averaging by its shipped scenario: when the centre's NIC binds, and what copies wait for then.

use super::runs::{shipped, simulate};
use forebay::report::summarise;

/// Throughput of the scenario of elastic averaging with so many copies, whose period is this [images/s].
fn elastic(copies: u32, period: u32, more: &[(&str, &str)]) -> f64 {
    let (nodes, period) = (copies.to_string(), period.to_string());
    let keys = [("job.nodes", &nodes[..]), ("job.sync.elastic-averaging.period", &period[..])];
    let scenario = shipped("elastic-averaging", &[&keys[..], more].concat());
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    report.jobs[0].figures.samples_per_second.mean.expect("a rate")
}

/// A model of 102 MB through 10 Gbit/s, and a step [s].
const EXCHANGE: f64 = 102e6 / 1.25e9;
const STEP: f64 = 0.25;

#[test]
fn the_scenario_of_elastic_averaging_says_when_its_centre_binds() {
    // System: 8, 16 and 32 copies of which each takes 82 ms of the centre's NIC each way, steps of 250 ms. Expectation: as the
    // header says. The NIC is a bound at any period; where it binds, it is about what there is, whatever the number of
    // copies; at three times that period they are at 90 to 95 % of their own pace.
    for (copies, binds, free) in [(8, 3.0, 8), (16, 6.0, 16), (32, 11.0, 32)] {
        let least = f64::from(copies) * EXCHANGE / STEP;
        assert!((least - binds).abs() < 0.8, "{copies}: {least} steps");
        let alone = f64::from(copies) * 64.0 / STEP;
        for period in [1, 2, 4, 8] {
            let bound = 64.0 * f64::from(period) / EXCHANGE;
            let rate = elastic(copies, period, &[]);
            assert!(rate < bound.min(alone), "{copies}, {period}: {rate}");
            if f64::from(period) < least / 2.0 {
                assert!(rate > 0.84 * bound, "{copies}, {period}: {rate} of {bound}");
            }
        }
        let share = elastic(copies, free, &[]) / alone;
        assert!((0.895..0.955).contains(&share), "{copies}, {free}: {share}");
    }
}

#[test]
fn copies_that_are_spread_queue_for_their_centre_as_a_closed_network_does() {
    // System: W copies that compute for τ steps, push a model and pull one, each way shared by those on it; steps that vary
    // enough to spread the copies. Expectation: mean value analysis of two processor-sharing stations and a delay
    // (Reiser and Lavenberg, J. ACM 27(2), 1980), which does not depend on distributions.
    let rate = |copies: u32, period: u32| {
        let (mut queue, mut rate) = (0.0, 0.0);
        for n in 1..=copies {
            let wait = EXCHANGE * (1.0 + queue);
            rate = f64::from(n) / (f64::from(period) * STEP + 2.0 * wait);
            queue = rate * wait;
        }
        64.0 * f64::from(period) * rate
    };
    let spread = [("job.model.jitter", "{ gamma = { cv = 0.6 } }"), ("run.steps", "2000")];
    for (copies, period) in [(8, 1), (8, 4), (16, 2), (16, 4), (32, 8)] {
        let (found, expected) = (elastic(copies, period, &spread), rate(copies, period));
        assert!((found / expected - 1.0).abs() < 0.04, "{copies}, {period}: {found}, {expected}");
    }
}
