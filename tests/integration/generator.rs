//! Keras' old `GeneratorEnqueuer`: trainer and workers poll and sleep instead of being woken, and workers may
//! deliver the same samples.

use super::conformance::worlds;
use super::on_request::text;
use super::runs::{simulate, steady, written};
use forebay::report::{Cause, JobOutcome, Stall, StallCause};
use forebay::scenario::{Scenario, ScenarioFile, Stop};

/// Returns a scenario with batches of 4 reads of `latency` and steps of `step`.
fn of(latency: &str, step: &str, loader: &str) -> Scenario {
    let text =
        text(4, latency, &format!("model.step = \"{step}\""), &format!("keras = {{ {loader} }}"));
    written(&text.replace("steps = 20", "steps = 200"), &[])
}

/// Returns the scenario with this number of steps.
fn first(steps: u64, scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.run.stop = Stop::Steps(steps);
    scenario
}

fn step(latency: &str, step: &str, loader: &str) -> f64 {
    steady(&simulate(&of(latency, step, loader)), 20).step
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found}, not {expected}");
}

#[test]
fn a_trainer_that_finds_an_empty_queue_sleeps_50_ms() {
    // System: a worker that makes a batch in 60 ms, steps of 1 ms. Expectation: the trainer polls 50 and 100 ms
    // after its step, long after the batch is ready; batches of 120 ms are found at 150 ms. On average the
    // trainer is as fast as the worker, but in steps of 50 ms: later batches queue meanwhile.
    let job = simulate(&of("\"15 ms\"", "1 ms", "workers = 1, generator = {}")).jobs.remove(0);
    let first = job.steps[0].end;
    assert!((first - 0.101).abs() < 1e-9, "found at 100 ms: {first}");
    let told = of("\"15 ms\"", "1 ms", "workers = 1, generator = { wait_time = \"70 ms\" }");
    let told = simulate(&told).jobs[0].steps[0].end;
    assert!((told - 0.071).abs() < 1e-9, "found at 70 ms: {told}");
    let waited = |job: &JobOutcome| {
        let of = job.stalls.iter().filter(|stall| stall.step == 0);
        let of = of.map(|stall| (stall.cause, (stall.seconds * 1e6).round()));
        of.filter(|(_, seconds)| *seconds > 0.0).collect::<Vec<_>>()
    };
    // 60 ms until the epoch's first batch is there, and 40 ms until the sleep ends.
    let expected = [(Cause::Latency, 40_000.0), (Cause::FirstBatch, 60_000.0)];
    assert_eq!(waited(&job), expected.map(|(cause, us)| (StallCause::own(cause), us)));
    // A worker that is always less than 50 ms too slow costs up to a whole sleep.
    let woken = step("\"15 ms\"", "1 ms", "workers = 1");
    near(woken, 60e-3);
    let slept = step("\"15 ms\"", "1 ms", "workers = 1, generator = {}");
    assert!((60e-3..110e-3).contains(&slept), "{slept}");
    // A worker that is always in time costs no sleep.
    near(step("\"1 ms\"", "10 ms", "workers = 4, generator = {}"), 10e-3);
}

#[test]
fn a_sleeping_model_copy_does_not_block_other_model_copies() {
    // System: model copies of two overlapping stages whose steps vary, a worker that is faster, a queue of 10.
    // Expectation: a copy that polls while another sleeps takes an available batch, so that all steps are done,
    // even the last, when no more batches are made.
    let job = "parallel = { data.copies_per_node = 2, pipeline = { stages = 2, overlap = true } }\n\
               model = { step = \"20 ms\", jitter = { lognormal = { cv = 2.0 } } }";
    let loader = "keras = { workers = 1, generator = { processes = true }, decode = \"100 us\" }";
    let text = text(4, "\"1 us\"", job, loader).replace("gpus = 2", "gpus = 4");
    let text = text.replace("steps = 20", "steps = 7");
    for seed in 1..=20 {
        let seed = seed.to_string();
        let done = simulate(&written(&text, &[("run.seed", seed.as_str())])).jobs[0].steps.len();
        assert_eq!(done, 7, "seed {seed}");
    }
}

#[test]
fn a_thread_that_finds_a_full_queue_sleeps_50_ms() {
    // System: batches in no time, a queue of two, steps of 10 ms. Expectation: threads fill the queue and poll
    // again 50 ms later, when it has been empty for 30 ms: 50 ms for every 2 batches of one thread, or 60 ms
    // where the trainer sleeps too; processes block until there is space, and are in time.
    let loader = |more: &str| format!("workers = 1, max_queue_size = 2, generator = {{ {more} }}");
    let threads = step("\"1 us\"", "10 ms", &loader(""));
    assert!(threads > 20e-3, "{threads}");
    near(step("\"1 us\"", "10 ms", &loader("processes = true")), 10e-3);
    // A longer queue hides the sleep.
    near(step("\"1 us\"", "10 ms", "workers = 1, max_queue_size = 10, generator = {}"), 10e-3);
    let mut pausing = of("\"1 ms\"", "100 s", "workers = 3, max_queue_size = 5, generator = {}");
    pausing.run.stop = Stop::Duration(1.0);
    let job = simulate(&pausing).jobs.remove(0);
    let batches = job.samples.left / 4;
    assert!((5..=7).contains(&batches), "each thread may fill the place that it found: {batches}");
}

#[test]
fn worker_processes_with_identical_generators_deliver_the_same_samples() {
    // System: four workers. Expectation: every sample four times from processes, unless `distinct` is set;
    // threads of a thread-safe generator deliver each sample once.
    let fresh = |loader: &str| {
        let job = simulate(&of("\"1 ms\"", "10 ms", loader)).jobs.remove(0);
        job.steps.iter().map(|step| step.fresh).sum::<u64>() as f64 / 800.0
    };
    assert_eq!(fresh("workers = 4, generator = { processes = true }"), 0.25);
    assert_eq!(fresh("workers = 4, generator = { processes = true, distinct = 1 }"), 1.0);
    assert_eq!(fresh("workers = 4, generator = {}"), 1.0);
    assert!((fresh("workers = 4, generator = { distinct = 0.9 }") - 0.9).abs() < 0.002);
    let remarks = of("\"1 ms\"", "1 ms", "workers = 4, generator = { processes = true }").remarks;
    assert!(remarks.join("\n").contains("75 % of all"), "{remarks:?}");
}

#[test]
fn without_workers_the_trainer_makes_its_own_batches() {
    // System: batches of 4 ms, steps of 10 ms. Expectation: 14 ms without workers; 10 ms with one.
    near(step("\"1 ms\"", "10 ms", "workers = 0"), 14e-3);
    near(step("\"1 ms\"", "10 ms", "workers = 0, generator = {}"), 14e-3);
    let remarks = of("\"1 ms\"", "1 ms", "workers = 0, generator = {}").remarks;
    assert!(remarks.join("\n").contains("no effect: there are no workers"), "{remarks:?}");
    near(step("\"1 ms\"", "10 ms", "workers = 1"), 10e-3);
}

/// Returns the time that the trainer waited in each step [s].
fn waits(job: &JobOutcome) -> Vec<f64> {
    let of = |step: usize| job.stalls.iter().filter(move |stall| stall.step as usize == step);
    (0..job.steps.len()).map(|step| of(step).map(|stall| stall.seconds).sum()).collect()
}

#[test]
fn each_wait_of_the_trainer_is_a_whole_number_of_sleeps() {
    // System: a worker that makes a batch in 8 ms, 16 at most in the queue, steps of 1 ms; sleeps of 50 and of
    // 30 ms. Expectation: a trainer that finds no batch sleeps for a whole period, though the batch is ready
    // sooner. The wait from the batch's completion on counts as latency, also of the first batch: 8 ms count for making that one.
    for (keys, sleep) in [("", 50e-3), ("wait_time = \"30 ms\"", 30e-3)] {
        let loader = format!("workers = 1, max_queue_size = 16, generator = {{ {keys} }}");
        for (world, job) in worlds(&first(20, &of("\"2 ms\"", "1 ms", &loader))) {
            let waits = waits(&job);
            assert!(waits[0] >= sleep - 1e-9, "{world}: {waits:?}");
            let whole = |wait: &f64| *wait == 0.0 || *wait >= sleep - 1e-9;
            assert!(waits.iter().all(whole), "{world}: {keys}: {waits:?}");
            assert!(waits.iter().filter(|wait| **wait == 0.0).count() > 5, "{world}: {waits:?}");
            let sum = |steps: std::ops::Range<u32>, cause| -> f64 {
                let of = |stall: &&Stall| {
                    steps.contains(&stall.step) && stall.cause == StallCause::own(cause)
                };
                job.stalls.iter().filter(of).map(|stall| stall.seconds).sum()
            };
            let made = sum(0..1, Cause::FirstBatch);
            assert!((made - 8e-3).abs() < 5e-3, "{world}: the first batch took {made} s");
            let slept = sum(0..1, Cause::Latency);
            assert!(
                (slept + made - waits[0]).abs() < 1e-6,
                "{world}: {slept} + {made} of {waits:?}"
            );
            let (slept, all) = (sum(1..u32::MAX, Cause::Latency), waits[1..].iter().sum::<f64>());
            assert!(slept > 0.9 * all, "{world}: {slept} of {all}");
        }
    }
}

#[test]
fn threads_poll_for_queue_space_and_processes_block_for_it() {
    // System: batches in no time, a queue of two, steps of 10 ms. Expectation: threads sleep 50 ms after every
    // two batches, so that 20 steps take ten sleeps; processes continue as soon as there is space.
    let took = |generator: &str| {
        let loader = format!("workers = 1, max_queue_size = 2, generator = {{ {generator} }}");
        worlds(&first(20, &of("\"1 us\"", "10 ms", &loader))).map(|(_, job)| {
            let steps = job.steps.last().expect("steps");
            (steps.end, steps.queue.blocked_seconds)
        })
    };
    for (threads, processes) in took("").into_iter().zip(took("processes = true")) {
        assert!(threads.0 > 9.0 * 50e-3, "{threads:?}");
        assert!(processes.0 < 0.7 * threads.0, "{processes:?} {threads:?}");
        assert!(threads.1 > 8.0 * 50e-3, "who sleeps is held up: {threads:?}");
    }
}

#[test]
fn concurrent_threads_may_overfill_the_queue_by_a_batch_each() {
    // System: the trainer has one batch and computes. Expectation: threads go on until the queue is full, each
    // with at most one further batch; processes hold their batch until there is space.
    let pausing = |keys: &str| {
        let loader = format!("workers = 3, max_queue_size = 5, generator = {{ {keys} }}");
        let mut scenario = of("\"1 ms\"", "100 s", &loader);
        scenario.run.stop = Stop::Duration(0.3);
        worlds(&scenario).map(|(world, job)| {
            assert_eq!(job.samples.dequeued, 4, "{world}");
            (job.samples.left / 4, job.samples.in_progress / 4, job.queue.capacity / 4)
        })
    };
    for (left, in_progress, capacity) in pausing("") {
        assert!((5..=7).contains(&left) && in_progress == 0 && capacity == 7, "{left}");
    }
    assert_eq!(pausing("processes = true"), [(5, 3, 5); 2]);
}

#[test]
fn simulated_and_live_runs_repeat_the_same_number_of_samples() {
    // System: generators that are not thread-safe, or processes whose generators start in the same state.
    // Expectation: the same steps have fresh samples in both worlds.
    for (generator, new) in [("", 80), ("processes = true", 20), ("distinct = 0.9", 72)] {
        let loader = format!("workers = 4, generator = {{ {generator} }}");
        let fresh = worlds(&first(20, &of("\"100 us\"", "1 ms", &loader))).map(|(_, job)| {
            let fresh: Vec<u64> = job.steps.iter().map(|step| step.fresh).collect();
            assert_eq!(fresh.iter().sum::<u64>(), new, "{generator}");
            fresh
        });
        assert_eq!(fresh[0], fresh[1], "{generator}");
    }
}

#[test]
fn each_rank_polls_and_sleeps_independently() {
    // System: a loader for each of two model copies, or one for both. Expectation: a batch in a queue that both
    // poll goes to one of them; each step takes two batches, and runs end in both worlds.
    for loaders in ["per-rank", "per-node"] {
        let job = format!(
            "model.step = \"1 ms\"\nparallel.data = {{ copies_per_node = 2, loaders = \"{loaders}\" }}"
        );
        let loader = "keras = { workers = 2, max_queue_size = 4, generator = {} }";
        let scenario = written(&text(4, "\"1 ms\"", &job, loader), &[]);
        for (world, job) in worlds(&scenario) {
            assert_eq!(job.steps.len(), 20, "{world}: {loaders}");
            assert!(job.steps.iter().all(|step| step.fresh == 8), "{world}: {loaders}");
            assert!(waits(&job)[0] >= 50e-3 - 1e-9, "{world}: {loaders}: {:?}", waits(&job));
            let queues = if loaders == "per-rank" { 2 } else { 1 };
            assert_eq!(job.queue.capacity, queues * 4 * 5, "{world}: {loaders}");
        }
    }
}

#[test]
fn the_end_of_a_run_interrupts_sleeping_trainers_and_workers() {
    // System: sleeps of an hour, a run of a tenth of a second. Expectation: the run ends.
    let keys = "workers = 2, max_queue_size = 1, generator = { wait_time = \"1 h\" }";
    let mut scenario = of("\"1 us\"", "1 ms", keys);
    scenario.run.stop = Stop::Duration(0.1);
    for (world, job) in worlds(&scenario) {
        assert_eq!(job.steps.len(), 0, "{world}: the trainer found nothing, and sleeps");
    }
    let refused = |time: &str| {
        let text = text(4, "\"1 ms\"", "model.step = \"1 ms\"", keys);
        let text = text.replace(keys, &format!("keras = {{ {keys} }}")).replace("1 h", time);
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.expect_err("refused").to_string()
    };
    assert!(refused("1 us").contains("wait_time = \"1 ms\""), "{}", refused("1 us"));
    assert!(refused("0 s").contains("is zero"), "{}", refused("0 s"));
}
