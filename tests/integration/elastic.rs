//! The shipped scenario of elastic averaging: when the centre's NIC is the bottleneck, and how long copies
//! wait.

use super::runs::{shipped, simulate};
use forebay::report::summarise;

/// Returns the throughput [images/s] of the scenario of elastic averaging with `copies` copies and this period,
/// and how long a copy waits for an exchange [s].
fn elastic(copies: u32, period: u32, more: &[(&str, &str)]) -> (f64, f64) {
    let steps = f64::from(period);
    let (nodes, period) = (copies.to_string(), period.to_string());
    let keys = [("job.nodes", &nodes[..]), ("job.sync.elastic-averaging.period", &period[..])];
    let scenario = shipped("elastic-averaging", &[&keys[..], more].concat());
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let figures = &report.jobs[0].figures;
    let rate = figures.samples_per_second.mean.expect("a rate");
    let cycle = 64.0 * f64::from(copies) * steps / rate;
    (rate, cycle * figures.stall.total.mean.expect("a share"))
}

/// Transfer time of a model of 102 MB through 10 Gbit/s [s].
const EXCHANGE: f64 = 102e6 / 1.25e9;
const STEP: f64 = 0.25;

#[test]
fn throughput_of_elastic_averaging_is_bounded_by_the_central_servers_nic() {
    // System: 8, 16 and 32 copies, each of which uses the centre's NIC for 82 ms in each direction per
    // exchange; steps of 250 ms. Expectation, as in the header: the NIC bounds throughput at any period; where
    // it is the bottleneck, throughput is near the bound, whatever the number of copies; at three times the
    // critical period, copies run at 91, 95 and 97 % of their own pace and wait for 1.3 to 1.4 exchanges.
    for (copies, least, free, own, every_4) in
        [(8, 3, 8, 0.91, 1600.0), (16, 6, 16, 0.95, 2550.0), (32, 11, 32, 0.97, 2950.0)]
    {
        let alone = f64::from(copies) * 64.0 / STEP;
        assert_eq!((f64::from(copies) * EXCHANGE / STEP).ceil(), f64::from(least), "{copies}");
        for period in [1, 4] {
            let bound = 64.0 * f64::from(period) / EXCHANGE;
            let (rate, _) = elastic(copies, period, &[]);
            assert!(rate < bound.min(alone), "{copies}, {period}: {rate}");
            if 2 * period < least {
                assert!(rate > 0.83 * bound, "{copies}, {period}: {rate} of {bound}");
            }
            if period == 4 {
                assert!((rate / every_4 - 1.0_f64).abs() < 0.01, "{copies}: {rate}");
            }
        }
        let (rate, wait) = elastic(copies, free, &[]);
        assert!((rate / alone - own).abs() < 0.006, "{copies}, {free}: {}", rate / alone);
        let exchanges = wait / (2.0 * EXCHANGE);
        assert!((1.25..1.45).contains(&exchanges), "{copies}, {free}: {exchanges}");
    }
}

#[test]
fn model_copies_queue_for_the_central_server_as_in_mean_value_analysis() {
    // System: W copies, out of step, that compute for τ steps, push a model and pull one; transfers in each
    // direction share the NIC. Expectation: mean value analysis of two processor-sharing stations and a delay
    // (Reiser and Lavenberg, J. ACM 27(2), 1980), whatever the jitter of steps.
    let rate = |copies: u32, period: u32| {
        let (mut queue, mut rate) = (0.0, 0.0);
        for n in 1..=copies {
            let wait = EXCHANGE * (1.0 + queue);
            rate = f64::from(n) / (f64::from(period) * STEP + 2.0 * wait);
            queue = rate * wait;
        }
        64.0 * f64::from(period) * rate
    };
    for (jitter, points) in [
        ("{ gamma = { cv = 0.1 } }", [(8, 4), (16, 4), (32, 16)]),
        ("{ gamma = { cv = 0.6 } }", [(8, 1), (16, 2), (32, 8)]),
    ] {
        let more = [("job.model.jitter", jitter), ("run.steps", "2048"), ("run.warm_up", "1024")];
        for (copies, period) in points {
            let (found, _) = elastic(copies, period, &more);
            let expected = rate(copies, period);
            assert!(
                (found / expected - 1.0).abs() < 0.03,
                "{copies}, {period}: {found}, {expected}"
            );
        }
    }
}
