//! Keras' old `GeneratorEnqueuer`: nobody is woken, and workers may deliver the same.

use super::on_request::text;
use super::runs::{simulate, steady, written};
use forebay::report::{Cause, JobOutcome, StallCause};
use forebay::scenario::{Scenario, Stop};

/// Batches of 4 reads of `latency` and steps of `step`.
fn of(latency: &str, step: &str, loader: &str) -> Scenario {
    let text =
        text(4, latency, &format!("model.step = \"{step}\""), &format!("keras = {{ {loader} }}"));
    written(&text.replace("steps = 20", "steps = 200"), &[])
}

fn step(latency: &str, step: &str, loader: &str) -> f64 {
    steady(&simulate(&of(latency, step, loader)), 20).step
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found}, not {expected}");
}

#[test]
fn a_trainer_that_finds_nothing_sleeps_50_ms() {
    // System: a worker that makes a batch in 60 ms, steps of 1 ms. Expectation: the trainer looks 50 and
    // 100 ms after its step, when the batch is long there; with batches of 120 ms it looks at 150. In the
    // mean it takes what one worker makes, but in quanta: with a queue, later batches wait meanwhile.
    let job = simulate(&of("\"15 ms\"", "1 ms", "workers = 1, generator = {}")).jobs.remove(0);
    let first = job.steps[0].end;
    assert!((first - 0.101).abs() < 1e-9, "found at 100 ms: {first}");
    let waited = |job: &JobOutcome| {
        let of = job.stalls.iter().filter(|stall| stall.step == 0);
        let of = of.map(|stall| (stall.cause, (stall.seconds * 1e6).round()));
        of.filter(|(_, seconds)| *seconds > 0.0).collect::<Vec<_>>()
    };
    // 60 ms of reading, and 40 of sleeping on: both count as latency.
    assert_eq!(waited(&job), [(StallCause::own(Cause::Latency), 100_000.0)]);
    // One that is always slower by less than 50 ms costs up to that.
    let woken = step("\"15 ms\"", "1 ms", "workers = 1");
    near(woken, 60e-3);
    let slept = step("\"15 ms\"", "1 ms", "workers = 1, generator = {}");
    assert!((60e-3..110e-3).contains(&slept), "{slept}");
    // One that is there in time costs nothing.
    near(step("\"1 ms\"", "10 ms", "workers = 4, generator = {}"), 10e-3);
}

#[test]
fn who_sleeps_holds_nobody_up() {
    // System: model copies of two overlapping stages whose steps vary, a worker that is faster, a queue of
    // 10. Expectation: a copy that asks while another sleeps takes what is there beside the other's batch,
    // so that all steps are done, even the last when nothing more is made.
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
fn a_thread_that_finds_enough_sleeps_50_ms() {
    // System: batches in no time, a queue of two, steps of 10 ms. Expectation: threads fill the queue, and
    // look again 50 ms later, when it has been empty for 30: 50 ms for every 2 batches of one thread, or
    // 60 where the trainer sleeps too; processes wait for room, and are there in time.
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
fn processes_that_begin_alike_deliver_alike() {
    // System: four workers. Expectation: every sample four times, unless they are told apart; threads of
    // a safe generator deliver each once.
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
fn without_workers_the_trainer_makes_its_batches() {
    // System: batches of 4 ms, steps of 10. Expectation: 14 ms; with a worker 10.
    near(step("\"1 ms\"", "10 ms", "workers = 0"), 14e-3);
    near(step("\"1 ms\"", "10 ms", "workers = 0, generator = {}"), 14e-3);
    let remarks = of("\"1 ms\"", "1 ms", "workers = 0, generator = {}").remarks;
    assert!(remarks.join("\n").contains("no effect: there are no workers"), "{remarks:?}");
    near(step("\"1 ms\"", "10 ms", "workers = 1"), 10e-3);
}
