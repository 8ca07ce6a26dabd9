//! Tests of bottlenecks in reports on outcomes made by hand.

use crate::fixture::{outcome, scenario};
use crate::{Bottleneck, Cause, StallCause, summarise};

#[test]
fn the_bottleneck_names_the_limiting_resource_and_gives_advice() {
    let report = summarise(&scenario(), &[outcome([0.335, 0.335])], 0.0);
    let found = report.bottleneck.unwrap();
    assert_eq!((found.cause.as_str(), found.resource.as_str()), ("latency", "nfs.latency"));
    assert!((found.share - 0.315 / 0.335 * 2.0 / 3.0).abs() < 1e-9);
    assert!(found.text.contains("a batch interval of 17 (now 1)"), "{}", found.text);
    let idle = summarise(&scenario(), &[outcome([0.0205, 0.0205])], 0.0).bottleneck.unwrap();
    assert_eq!((idle.cause.as_str(), idle.resource.as_str()), ("compute", "accelerators"));
    assert!(idle.text.starts_with("The accelerators of"), "{}", idle.text);
    // On cores the text does not mention accelerators.
    let mut on_cores = scenario();
    on_cores.jobs[0].device = forebay_scenario::Device::Cpu { threads: 1 };
    let slow = summarise(&on_cores, &[outcome([0.335, 0.335])], 0.0).bottleneck.unwrap();
    assert!(slow.text.contains("of the trainers' time"), "{}", slow.text);
    let report = summarise(&on_cores, &[outcome([0.0205, 0.0205])], 0.0);
    let text = crate::text::render(&report, 100, false);
    assert!(!text.contains("accelerator"), "{text}");
    let busy = report.bottleneck.unwrap();
    assert_eq!(busy.resource, "node.cores");
    assert!(busy.text.contains("only faster or more cores would"), "{}", busy.text);
}

/// Returns the bottleneck of eight model copies that wait for their own decoding and for a peer's computing, for these shares of
/// time.
fn ranks_with(decode: f64, computing: f64) -> Bottleneck {
    let mut scenario = scenario();
    scenario.jobs[0].copies_per_node = 8;
    let mut outcome = outcome([0.1, 0.1]);
    for copy in &mut outcome.jobs {
        for stalls in copy.stalls.chunks_mut(2) {
            stalls[0].cause = StallCause::own(Cause::Decode);
            stalls[0].seconds = 0.1 * decode;
            stalls[1].cause = StallCause::peer(Cause::Compute);
            stalls[1].seconds = 0.1 * computing;
        }
    }
    summarise(&scenario, &[outcome], 0.0).bottleneck.unwrap()
}

#[test]
fn waits_for_late_peers_are_attributed_to_the_cause_of_the_lateness() {
    // System: eight model copies. The batch of the last one comes late by a tenth of the step; the other seven have theirs at
    // once, and wait while the last one computes. Expectation: the bottleneck is the cause of the late batch (decoding).
    let late = ranks_with(0.1, 0.7);
    assert_eq!((late.cause.as_str(), late.resource.as_str()), ("decode", "lenet.workers"));
    assert!(late.text.contains("and 70.0 % into waiting for model copies"), "{}", late.text);
    // If the seven wait longer than the late batch explains, step times differ between the copies: the bottleneck is the slowest
    // rank.
    let uneven = ranks_with(0.05, 0.7);
    assert_eq!((uneven.cause.as_str(), uneven.resource.as_str()), ("peer.compute", "slowest rank"));
    assert!(uneven.text.contains("balance the ranks"), "{}", uneven.text);
}

#[test]
fn transfer_stalls_are_attributed_to_the_resource_that_is_full() {
    for (utilisation, carrier) in [(0.95, "nfs.bandwidth"), (0.5, "nfs.per_stream")] {
        let mut outcome = outcome([0.1, 0.1]);
        outcome.resources[0].utilisation_max = utilisation;
        let stalls = outcome.jobs.iter_mut().flat_map(|copy| &mut copy.stalls);
        stalls.for_each(|stall| stall.cause = StallCause::own(Cause::Transfer));
        let found = summarise(&scenario(), &[outcome], 0.0).bottleneck.unwrap();
        assert_eq!(found.resource, carrier);
    }
}
