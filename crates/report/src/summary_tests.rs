//! Tests of reports on outcomes made by hand.

use super::fixture::{copy, outcome, scenario};
use super::*;
use forebay_scenario::{Distribution, Operation, QueueKind, Scenario, WarmUp};

#[track_caller]
fn assert_close(figure: Figure, expected: f64) {
    let mean = figure.mean.unwrap();
    assert!((mean - expected).abs() < 1e-9 * expected.abs().max(1.0), "{mean} for {expected}");
}

/// System: copies with step times of 0.1 and 0.05 s. Expectation: every figure is the mean of both copies' figures.
#[test]
fn reported_metrics_are_means_over_all_copies_of_a_job() {
    let report = summarise(&scenario(), &[outcome([0.1, 0.05])], 0.5);
    let job = &report.jobs[0];
    let figures = &job.figures;
    assert_close(figures.step_time, 0.075);
    assert_close(figures.samples_per_second, 150.0);
    assert_close(figures.fresh_samples_per_second, 150.0);
    assert_close(figures.steps, 40.0);
    assert_close(figures.epoch_time, 2.25);
    assert_close(figures.accelerator_utilisation, 0.3);
    assert_close(figures.stall.total, 0.7);
    let share = |cause| {
        figures.stall.causes.iter().find(|(of, _)| *of == StallCause::own(cause)).unwrap().1
    };
    assert_close(share(Cause::Latency), 0.7 * 2.0 / 3.0);
    assert_close(share(Cause::CpuWait), 0.7 / 3.0);
    assert_close(share(Cause::Open), 0.0);
    assert!((figures.step_time.p50.unwrap() - 0.075).abs() < 1e-9);
    assert!((figures.step_time.p99.unwrap() - 0.1).abs() < 1e-9);
    let spread = job.step_time_spread.unwrap();
    assert!((spread.min - 0.05).abs() < 1e-9 && (spread.max - 0.1).abs() < 1e-9);
    assert!((job.samples_per_second_max.unwrap() - 200.0).abs() < 1e-6);
    // Equal batches: the interval has no width (but rounding).
    let [low, high] = figures.step_time.ci95.unwrap();
    assert!((low - 0.075).abs() < 1e-12 && (high - 0.075).abs() < 1e-12, "{low} {high}");
    assert_eq!((report.events, report.flows, report.replications), (100, 10, 1));
    assert_eq!((report.makespan.mean, report.wall_time), (Some(5.0), 0.5));
}

#[test]
fn stall_shares_and_accelerator_utilisation_add_up_to_one() {
    let mut with_warm_up = scenario();
    with_warm_up.run.warm_up = WarmUp::Steps(7);
    for scenario in [scenario(), with_warm_up] {
        let report = summarise(&scenario, &[outcome([0.13, 0.057]), outcome([0.2, 0.03])], 0.0);
        let figures = &report.jobs[0].figures;
        let sum: f64 = figures.stall.causes.iter().filter_map(|(_, f)| f.mean).sum();
        let total = figures.stall.total.mean.unwrap();
        assert!((sum - total).abs() < 1e-9);
        assert!((total + figures.accelerator_utilisation.mean.unwrap() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn queue_metrics_are_differences_of_totals_since_the_warm_up() {
    let mut scenario = scenario();
    scenario.run.warm_up = WarmUp::Steps(10);
    let report = summarise(&scenario, &[outcome([0.1, 0.1])], 0.0);
    let job = &report.jobs[0];
    let queue = &job.queue;
    assert_eq!((queue.capacity, job.warm_up_steps), (100, 10.0));
    assert_close(job.figures.steps, 30.0);
    assert_close(queue.occupancy, 50.0);
    assert_close(queue.time_empty, 0.1);
    assert_close(queue.enqueue_rate, 100.0);
    assert_close(queue.dequeue_rate, 100.0);
    // Held up half of the time: twice the rate when not.
    assert_close(queue.unblocked_enqueue_rate, 200.0);
    // Starved a tenth of the time: the trainers would take a ninth more.
    assert_close(queue.unstalled_dequeue_rate, 100.0 / 0.9);
    assert_close(queue.net_enqueue_rate, 200.0 - 100.0 / 0.9);
    assert_close(queue.waiting_time, 3.0);
    // The warm-up lasts until second 2: the first of two exhaustions lies within, yet it is the one
    // that ends the initial stock.
    assert_close(queue.exhaustions, 1.0);
    assert_close(queue.exhaustion_duration, 0.2);
    assert_close(queue.time_to_exhaustion, 0.5);
    assert_close(queue.exhausted_copies, 1.0);
    assert!(queue.age.is_none() && queue.reuse.is_none());
}

#[test]
fn a_queue_whose_workers_are_always_blocked_has_no_unblocked_rate() {
    let mut outcome = outcome([0.1, 0.1]);
    for copy in &mut outcome.jobs {
        let steps = copy.steps.iter_mut();
        steps.for_each(|step| step.queue.blocked_seconds = 4.0 * (step.end - 1.0));
        copy.queue.initial = 99;
    }
    let queue = &summarise(&scenario(), &[outcome], 0.0).jobs[0].queue;
    assert_eq!(queue.unblocked_enqueue_rate.mean, None);
    assert_eq!(queue.net_enqueue_rate.mean, None);
    assert_eq!(queue.time_to_exhaustion.mean, None, "it was not full at the start");
    assert_eq!(queue.exhausted_copies.mean, None);
}

#[test]
fn the_share_of_copies_with_exhausted_queues_counts_all_job_copies() {
    let said = |dry: usize| {
        let mut outcome = outcome([0.1, 0.1]);
        outcome.jobs.iter_mut().skip(dry).for_each(|copy| copy.queue.exhaustions.clear());
        let report = summarise(&scenario(), &[outcome], 0.0);
        let share = report.jobs[0].queue.exhausted_copies.mean;
        (share, text::render(&report, 400, false))
    };
    for (dry, share, words) in [
        (2, 1.0, "full at the start and dry after 500 ms in 100.0 % of the copies"),
        (1, 0.5, "full at the start and dry after 500 ms in 50.0 % of the copies"),
        (0, 0.0, "full at the start and never dry"),
    ] {
        let (found, text) = said(dry);
        assert_eq!(found, Some(share));
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn reports_on_circular_queues_contain_sample_ages_and_reuse_counts() {
    let mut scenario = scenario();
    scenario.jobs[0].queue = QueueKind::Circular;
    let mut outcome = outcome([0.1, 0.1]);
    outcome.jobs[0].queue.ages = vec![(1.0, 90), (2.0, 10)];
    outcome.jobs[1].queue.ages = vec![(1.0, 100)];
    outcome.jobs[0].queue.reuse = vec![1, 2, 1];
    outcome.jobs[1].queue.reuse = vec![0, 4];
    let queue = &summarise(&scenario, &[outcome], 0.0).jobs[0].queue;
    let age = queue.age.unwrap();
    assert_close(age, 1.05);
    assert_eq!((age.p50, age.p95, age.p99), (Some(1.0), Some(1.0), Some(2.0)));
    let reuse = queue.reuse.as_ref().unwrap();
    assert_eq!((reuse.mean, &reuse.histogram), (Some(1.0), &vec![1, 6, 1]));
}

/// System: replications of 40 measured steps with means of 0.1 and 0.2. Expectation: Student's interval 0.15 ± 12.706 · 0.0707 / √2,
/// and a quarter of a step in 40 more.
#[test]
fn several_replications_give_a_student_t_confidence_interval() {
    let report = summarise(&scenario(), &[outcome([0.1, 0.1]), outcome([0.2, 0.2])], 0.0);
    let [low, high] = report.jobs[0].figures.step_time.ci95.unwrap();
    let common = 0.25 / 40.0;
    assert!((high - 0.15 - 12.7062 * 0.05 - 0.15 * common).abs() < 1e-4, "{high}");
    // By the logarithm, where it would reach below 0.
    assert!((low - 0.15 * (-12.7062_f64 / 3.0 - common).exp()).abs() < 1e-6, "{low}");
    assert_eq!(report.resources[0].utilisation.ci95, Some([0.25, 0.25]));
    assert_eq!((report.events, report.flows), (200, 20));
}

/// System: steps that take 0.1 or 0.2 s by the toss of a coin, in 32 batches of two. Expectation: Student's interval of the
/// batch means, which is widened if neighbouring steps depend on each other.
#[test]
fn one_replication_gives_the_interval_of_batch_means() {
    let tosses = 0x1b3a_77c4_5d02_e96f_u64;
    let mut outcome = Outcome { jobs: vec![copy(64, 0.1)], ..Outcome::default() };
    let mut end = 1.0;
    for (i, step) in outcome.jobs[0].steps.iter_mut().enumerate() {
        end += if tosses >> i & 1 == 1 { 0.2 } else { 0.1 };
        step.end = end;
    }
    let figures = &summarise(&scenario(), &[outcome], 0.0).jobs[0].figures;
    let mean = (end - 1.0) / 64.0;
    assert_close(figures.step_time, mean);
    let [low, high] = figures.step_time.ci95.unwrap();
    let student = 1.998 * 0.05 / 8.0;
    assert!((0.9..1.5).contains(&((high - low) / 2.0 / student)), "{low} {high}");
    // The interval of the rate is the reciprocal of that of the time.
    let [slow, fast] = figures.samples_per_second.ci95.unwrap();
    assert!((slow - 10.0 / high).abs() < 1e-9 && (fast - 10.0 / low).abs() < 1e-9);
}

#[test]
fn strongly_correlated_steps_have_no_interval_and_a_warning_says_why() {
    let mut outcome = outcome([0.1, 0.1]);
    for copy in &mut outcome.jobs {
        (20..40).for_each(|i| copy.steps[i].end = 3.0 + (i - 19) as f64 * 0.2);
    }
    let report = summarise(&scenario(), &[outcome], 0.0);
    assert_eq!(report.jobs[0].figures.step_time.ci95, None);
    let said = |warning: &String| warning.contains("fewer than ten independent batches");
    assert!(report.warnings.iter().any(said), "{:?}", report.warnings);
}

#[test]
fn a_run_of_under_twice_the_samples_held_by_loaders_has_no_interval() {
    // System: 40 steps of 10 samples in each copy, that wait for input; its loaders hold 150 samples, or 250. Expectation: 400
    // are twice as many as 150, and not twice as many as 250: then there is no interval, and the report says why.
    let report = |held: u64| {
        let mut outcome = outcome([0.1, 0.1]);
        for step in outcome.jobs.iter_mut().flat_map(|copy| &mut copy.steps) {
            step.queue.started = step.queue.dequeued + held;
        }
        summarise(&scenario(), &[outcome], 0.0)
    };
    let (enough, short) = (report(150), report(250));
    assert!(enough.jobs[0].figures.step_time.ci95.is_some());
    assert_eq!(short.jobs[0].figures.step_time.ci95, None);
    assert!(!short.jobs[0].length.enough);
    let why = short.jobs[0].length.why.as_deref().unwrap_or_default();
    assert!(why.contains("not twice as many: run longer"), "{why}");
}

#[test]
fn waits_for_peers_are_reported_if_they_occur() {
    let mut outcome = outcome([0.1, 0.1]);
    let stalls = outcome.jobs.iter_mut().flat_map(|copy| &mut copy.stalls);
    stalls.for_each(|stall| stall.cause = StallCause::peer(Cause::Decode));
    let report = summarise(&scenario(), &[outcome], 0.0);
    let (of, figure) = *report.jobs[0].figures.stall.causes.last().unwrap();
    assert_eq!(of.to_string(), "peer.decode");
    assert_close(figure, 0.8);
    let found = report.bottleneck.unwrap();
    assert_eq!((found.cause.as_str(), found.resource.as_str()), ("peer.decode", "slowest rank"));
}

#[test]
fn the_first_epoch_is_reported_separately() {
    let mut outcome = outcome([0.1, 0.1]);
    // 300 samples are 30 steps. The rest of the run is twice as slow.
    for copy in &mut outcome.jobs {
        (30..40).for_each(|i| copy.steps[i].end = 4.0 + (i - 29) as f64 * 0.2);
    }
    let job = &summarise(&scenario(), &[outcome], 0.0).jobs[0];
    let (first, later) = (job.first_epoch.as_ref().unwrap(), job.later_epochs.as_ref().unwrap());
    assert_close(first.step_time, 0.1);
    assert_close(first.epoch_time, 3.0);
    assert_close(first.steps, 30.0);
    assert_close(later.step_time, 0.2);
    assert_close(later.epoch_time, 6.0);
    let mut longer = scenario();
    longer.datasets[0].samples = 400;
    let job = &summarise(&longer, &[self::outcome([0.1, 0.1])], 0.0).jobs[0];
    assert!(job.first_epoch.is_none() && job.later_epochs.is_none());
}

#[test]
fn the_length_of_the_warm_up_is_detected_for_each_job_copy() {
    let mut scenario = scenario();
    scenario.run.warm_up = WarmUp::Auto;
    let mut outcome = outcome([0.1, 0.1]);
    // The first ten steps of one copy take 0.5 s instead.
    for (i, step) in outcome.jobs[0].steps.iter_mut().enumerate() {
        step.end += 0.4 * (i + 1).min(10) as f64;
    }
    let job = &summarise(&scenario, &[outcome], 0.0).jobs[0];
    assert_eq!(job.warm_up_steps, 5.0);
    assert_close(job.figures.step_time, 0.1);
    assert_close(job.figures.steps, 35.0);
}

#[test]
fn time_series_have_no_value_for_periods_without_observations() {
    let mut outcome = outcome([0.1, 0.1]);
    let bin = |enqueued, blocked_seconds, steps| Bin {
        level_seconds: 50.0,
        enqueued,
        dequeued: 100,
        blocked_seconds,
        steps,
        step_seconds: 0.1 * steps as f64,
    };
    // The job runs from second 1 to 5, and nothing happens within the first second.
    outcome.jobs[0].series = Series {
        width: 2.0 / 3.0 * 1.5,
        bins: vec![Bin::default(), bin(200, 0.0, 10), bin(100, 2.0, 0), bin(50, 4.0, 10)],
    };
    let series = &summarise(&scenario(), &[outcome], 0.0).jobs[0].series;
    assert_eq!(series.time, [1.5, 2.5, 3.5, 4.5]);
    assert_eq!(series.occupancy, [0.0, 50.0, 50.0, 50.0].map(Some));
    assert_eq!(series.enqueue_rate, [0.0, 200.0, 100.0, 50.0].map(Some));
    assert_eq!(series.unblocked_enqueue_rate, [Some(0.0), Some(200.0), Some(200.0), None]);
    assert_eq!(series.net_enqueue_rate, [Some(0.0), Some(100.0), Some(100.0), None]);
    assert_eq!(series.step_time, [None, Some(0.1), None, Some(0.1)]);
}

#[test]
fn unreliable_results_and_ineffective_settings_cause_warnings() {
    let warned = |scenario: &Scenario, word: &str| {
        let report = summarise(scenario, &[outcome([0.1, 0.1])], 0.0);
        report.warnings.iter().any(|warning| warning.contains(word))
    };
    let fine = scenario();
    assert!(summarise(&fine, &[outcome([0.1, 0.1])], 0.0).warnings.is_empty());
    let with_latency = |latency| {
        let mut scenario = scenario();
        scenario.storage[0].path.latency = latency;
        scenario
    };
    assert!(warned(&with_latency(Distribution::Constant(0.01)), "lockstep"));
    let heavy = with_latency(Distribution::Pareto { scale: 0.01, shape: 0.9 });
    assert!(warned(&heavy, "latency of `nfs` has an infinite mean"));
    let with_warm_up = |steps| {
        let mut scenario = scenario();
        scenario.run.warm_up = WarmUp::Steps(steps);
        scenario
    };
    let mut limited = scenario();
    limited.cluster.node.pcie = 1e9;
    assert!(warned(&limited, "`cluster.node.pcie` has no effect"));
    limited.jobs[0].loader.stages[0].per_item.push(Operation::Copy);
    assert!(!warned(&limited, "pcie"));
    assert!(warned(&with_warm_up(21), "Only 19 steps"));
    assert!(warned(&with_warm_up(40), "No step"));
    assert!(warned(&with_warm_up(99), "No step"));
}

#[test]
fn a_simulation_without_completed_steps_still_gives_a_report() {
    let empty = Outcome { jobs: vec![JobOutcome::default()], ..Outcome::default() };
    for outcomes in [vec![], vec![empty]] {
        let report = summarise(&scenario(), &outcomes, 0.0);
        assert_eq!(report.jobs[0].figures.step_time, Figure::default());
        assert!(report.bottleneck.is_none());
        assert!(text::render(&report, 80, false).contains("no step was completed"));
        assert!(json::render(&report).contains("\"bottleneck\": null"));
    }
}

#[test]
fn json_reports_have_all_documented_keys() {
    let report = summarise(&scenario(), &[outcome([0.1, 0.05])], f64::NAN);
    let text = json::render(&report);
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    let job = &read["jobs"][0];
    for key in ["mean", "ci95", "p50", "p95", "p99"] {
        assert!(job["step_time"].get(key).is_some(), "{key}");
    }
    assert_eq!(job["stall"]["total"]["mean"].as_f64(), report.jobs[0].figures.stall.total.mean);
    assert!(job["stall"]["cpu-wait"]["mean"].as_f64().unwrap() > 0.2);
    assert!(read["wall_time"].is_null());
    for key in ["scenario", "seed", "version", "resources", "bottleneck", "makespan", "warnings"] {
        assert!(read.get(key).is_some(), "{key}");
    }
    assert!(text.find("\"total\"").unwrap() < text.find("\"open\"").unwrap());
    assert!(text.ends_with("}\n"));
}

#[test]
fn lines_of_text_reports_are_at_most_as_long_as_the_terminal_is_wide() {
    let mut scenario = scenario();
    scenario.run.warm_up = WarmUp::Steps(25);
    scenario.jobs[0].name = "a-name-that-is-much-longer-than-names-should-be\u{1b}[31m".into();
    scenario.name = "x".repeat(200);
    let report = summarise(&scenario, &[outcome([0.1, 0.11]), outcome([0.12, 0.13])], 0.1);
    for width in [0, 40, 80, 120] {
        let text = text::render(&report, width, false);
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width.max(40), "{longest} of {width}:\n{text}");
        assert!(!text.contains('\u{1b}'));
    }
    assert!(text::render(&report, 80, true).contains("\u{1b}[1m"));
}
