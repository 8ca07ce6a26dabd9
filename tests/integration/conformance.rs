//! The same assertions for the simulated and the live world: order, bounds, blocking, starvation and
//! conservation. No test asserts how long something takes on a busy machine, only what must hold under any
//! load.

use super::runs::written;
use forebay::live::{CopyTask, monotonic, run_copy};
use forebay::report::{Cause, JobOutcome, StallCause};
use forebay::scenario::{Scenario, Stop};
use forebay::sim;
use std::sync::atomic::AtomicBool;

/// Returns one job on data in memory.
fn scenario(steps: u32, job: &str, loader: &str) -> Scenario {
    written(&text(steps, job, loader), &[])
}

fn text(steps: u32, job: &str, loader: &str) -> String {
    format!(
        r#"# Do both worlds agree?
name = "conformance"
[run]
steps = {steps}
warm_up = "off"
[cluster]
nodes = 1
node = {{ cores = 1, gpus = 2 }}
[storage.ram.memory]
[dataset.d]
samples = 1000
sample_size = "100 B"
[[job]]
name = "j"
dataset = "d"
storage = "ram"
batch = 4
{job}
{loader}
"#
    )
}

/// Returns a stage that reads.
fn read(keys: &str) -> String {
    format!("[[job.loader.stages]]\nname = \"read\"\n{keys}\n")
}

const FAST: &str = "workers = 2\nper_sample = [\"read\"]\nbuffer = \"16 samples\"";
const SLOW: &str = "workers = 1\nper_sample = [\"read\", { delay = \"3 ms\" }]\nbuffer = 16";

/// Returns the job's outcome in each world, after checking the invariants of every run.
pub(crate) fn worlds(scenario: &Scenario) -> [(&'static str, JobOutcome); 2] {
    let options = sim::Options { trace: true, ..sim::Options::default() };
    let simulated = sim::run(scenario, 0, &options).jobs.remove(0);
    let part = CopyTask { trace: true, ..CopyTask::default() };
    let stop = AtomicBool::new(false);
    let live = run_copy(scenario, &part, &stop, || Some(monotonic())).expect("a live run").job;
    let both = [("simulated", simulated), ("live", live)];
    both.iter().for_each(|(world, job)| check(world, job));
    both
}

/// Checks bounds, conservation, and that stalls by cause add up.
fn check(world: &str, job: &JobOutcome) {
    let (queue, counts) = (&job.queue, &job.samples);
    assert!(queue.level <= queue.capacity, "{world}: {} of {}", queue.level, queue.capacity);
    let most = queue.capacity as f64 * (1.0 + 1e-9);
    for bin in &job.series.bins {
        assert!(bin.level_seconds <= most * job.series.width, "{world}: a bin above capacity");
    }
    assert_eq!(counts.started, counts.enqueued + counts.in_progress, "{world}: {counts:?}");
    let out = counts.dequeued + counts.overwritten + counts.left;
    assert_eq!(queue.initial + counts.enqueued, out, "{world}: {counts:?}");
    let mut before = job.start;
    for (index, step) in job.steps.iter().enumerate() {
        let stalls = job.stalls.iter().filter(|stall| stall.step as usize == index);
        let stalled: f64 = stalls.map(|stall| stall.seconds).sum();
        let duration = step.end - before;
        let gap = (step.compute + stalled - duration).abs();
        assert!(gap <= 1e-9, "{world}: step {index} of {duration} s: {gap} s without a cause");
        before = step.end;
    }
}

/// Returns the time stalled for `cause` [s].
fn stalled(job: &JobOutcome, cause: StallCause) -> f64 {
    job.stalls.iter().filter(|stall| stall.cause == cause).map(|stall| stall.seconds).sum()
}

fn total(job: &JobOutcome) -> f64 {
    job.stalls.iter().map(|stall| stall.seconds).sum()
}

fn elapsed(job: &JobOutcome) -> f64 {
    job.steps.last().map_or(0.0, |step| step.end) - job.start
}

fn fresh(job: &JobOutcome) -> Vec<u64> {
    job.steps.iter().map(|step| step.fresh).collect()
}

#[test]
fn the_rate_of_a_slow_loader_limits_the_trainer() {
    // System: one worker that needs 3 ms a sample, batches of 4. Expectation: at most one step every 12 ms, and
    // the stall's cause is the latency.
    for (world, job) in worlds(&scenario(20, "model.step = \"1 ms\"", &read(SLOW))) {
        assert_eq!(job.steps.len(), 20, "{world}");
        assert!(elapsed(&job) >= 20.0 * 0.012 * (1.0 - 1e-9), "{world}: {}", elapsed(&job));
        let latency = stalled(&job, StallCause::own(Cause::Latency));
        assert!(latency > 0.5 * total(&job), "{world}: {latency} of {}", total(&job));
        assert!(total(&job) > 0.5 * elapsed(&job), "{world}");
        assert_eq!(job.samples.dequeued, 80, "{world}");
    }
}

#[test]
fn each_storage_limit_bounds_the_read_rate() {
    // System: 80 samples of 10 kB from a storage with one binding limit. Expectation: neither world reads
    // faster than the limit, and the stalls have its cause.
    let cases = [
        ("operations = \"400 /s\"", 4, 80.0 / 400.0, Cause::Open),
        ("latency = \"8 ms\"", 4, 80.0 / 4.0 * 8e-3, Cause::Latency),
        ("bandwidth = \"4 MB/s\"", 4, 80.0 * 2.5e-3, Cause::Transfer),
        ("per_stream = \"4 MB/s\"", 2, 80.0 / 2.0 * 2.5e-3, Cause::Transfer),
        ("bandwidth = [\"8 MB/s\", \"4 MB/s\"]", 2, 80.0 * 1.25e-3, Cause::Transfer),
    ];
    for (limit, workers, least, cause) in cases {
        let loader = read(&format!("workers = {workers}\nper_sample = [\"read\"]\nbuffer = 4"));
        let text = text(20, "model.step = \"10 us\"", &loader)
            .replace("[storage.ram.memory]", "[storage.ram.local-disk]")
            .replace("100 B", "10 kB")
            .replace("[dataset.d]", &format!("bandwidth = \"1 TB/s\"\n{limit}\n[dataset.d]"));
        let text = match limit.starts_with("bandwidth") {
            true => text.replace("bandwidth = \"1 TB/s\"\n", ""),
            false => text,
        };
        for (world, job) in worlds(&written(&text, &[])) {
            // A wait may be shorter by the delay of the wait before it.
            let took = elapsed(&job);
            assert!(took >= least - 0.003, "{world}: {limit}: {took} s for {least} s");
            let waited = stalled(&job, StallCause::own(cause));
            assert!(waited > 0.7 * total(&job), "{world}: {limit}: {waited} of {}", total(&job));
        }
    }
}

#[test]
fn reads_of_shards_pay_latency_for_each_request() {
    // System: samples of 10 kB in shards, 2 ms to the first byte. Expectation: each request waits for the
    // latency, and each shard is opened once.
    let loader = read("workers = 1\nper_sample = [\"read\"]\nbuffer = 4");
    let text = text(10, "model.step = \"10 us\"", &loader)
        .replace("[storage.ram.memory]", "[storage.ram.local-disk]\nbandwidth = \"1 TB/s\"")
        .replace("[dataset.d]", "latency = \"2 ms\"\noperations = \"100 /s\"\n[dataset.d]")
        .replace("\"100 B\"", "\"10 kB\"\nlayout.shards = { samples = 20, request = \"10 kB\" }");
    for (world, job) in worlds(&written(&text, &[])) {
        let took = elapsed(&job);
        assert!(took >= 40.0 * 2e-3 + 2.0 * 10e-3 - 0.003, "{world}: {took}");
        let latency = stalled(&job, StallCause::own(Cause::Latency));
        assert!(latency > 0.5 * total(&job), "{world}: {latency} of {}", total(&job));
    }
}

#[test]
fn fast_workers_block_on_a_full_queue_and_a_slow_trainer_does_not_stall() {
    let job = "model.step = \"10 ms\"\nprefill = \"full\"";
    for (world, job) in worlds(&scenario(20, job, &read(FAST))) {
        let totals = job.steps.last().expect("steps").queue;
        assert!(totals.blocked_seconds > 0.0, "{world}");
        assert_eq!(job.queue.initial, 16, "{world}");
        assert!(total(&job) < 0.2 * elapsed(&job), "{world}: {}", total(&job));
        assert!(elapsed(&job) > 0.19, "{world}");
    }
}

#[test]
fn in_order_delivery_holds_back_finished_samples() {
    // System: 4 workers whose delays vary widely. Expectation: with in-order delivery, finished samples wait
    // for earlier ones, so that some of the stall has the cause `order`; with order "any", none has.
    let loader = |order: &str| {
        read(&format!(
            "workers = 4\norder = \"{order}\"\nbuffer = 16\n\
             per_sample = [\"read\", {{ delay = {{ lognormal = {{ median = \"1 ms\", p99 = \"9 ms\" }} }} }}]"
        ))
    };
    let held = |order| {
        worlds(&scenario(40, "model.step = \"1 us\"", &loader(order)))
            .map(|(_, job)| stalled(&job, StallCause::own(Cause::Order)))
    };
    assert_eq!(held("any"), [0.0, 0.0]);
    assert!(held("in-order").iter().all(|held| *held > 0.0));
}

#[test]
fn simulated_and_live_runs_repeat_batches_in_the_same_steps() {
    for interval in ["4", "1.5", "2.75"] {
        let job = format!("batch_interval = {interval}\nmodel.step = \"100 us\"");
        let [(_, simulated), (_, live)] = worlds(&scenario(33, &job, &read(FAST)));
        assert_eq!(fresh(&simulated), fresh(&live), "{interval}");
        assert_eq!(simulated.samples.dequeued, live.samples.dequeued, "{interval}");
    }
}

#[test]
fn an_adaptive_batch_interval_stays_within_its_maximum() {
    let job = "batch_interval = { adaptive = { level = \"16 samples\", max = 5 } }\n\
               model.step = \"200 us\"";
    for (world, job) in worlds(&scenario(40, job, &read(SLOW))) {
        let fresh = fresh(&job);
        let longest = fresh.split(|fresh| *fresh > 0).map(<[u64]>::len).max();
        assert!(longest <= Some(4), "{world}: {fresh:?}");
    }
}

#[test]
fn a_circular_queue_repeats_samples_without_stalls() {
    let job = "queue = \"circular\"\nmodel.step = \"1 ms\"";
    for (world, job) in worlds(&scenario(60, job, &read(SLOW))) {
        let trained: u64 = job.steps.iter().map(|step| step.samples).sum();
        let fresh: u64 = fresh(&job).iter().sum();
        assert_eq!(trained, 240, "{world}");
        assert!(fresh < trained, "{world}: re-read {fresh} of {trained}");
        assert!(!job.queue.ages.is_empty(), "{world}");
        // The trainer waits only for its first batch.
        assert!(job.stalls.iter().all(|stall| stall.step == 0), "{world}");
    }
    // A worker that takes no time at all would overwrite samples endlessly at one simulated instant.
    let quick = FAST.replace("\"read\"]", "\"read\", { delay = \"100 us\" }]");
    let fast = "queue = \"circular\"\nmodel.step = \"5 ms\"";
    for (world, job) in worlds(&scenario(10, fast, &read(&quick))) {
        assert!(job.samples.overwritten > 0 || !job.queue.reuse.is_empty(), "{world}");
        let blocked = job.steps.last().expect("steps").queue.blocked_seconds;
        assert_eq!(blocked, 0.0, "{world}: nobody waits for room");
    }
}

#[test]
fn model_copies_share_a_queue_and_wait_for_their_peers() {
    let job = "model.step = \"1 ms\"\nparallel.data.copies_per_node = 2";
    for (world, job) in worlds(&scenario(20, job, &read(SLOW))) {
        assert!(job.steps.iter().all(|step| step.samples == 8 && step.fresh == 8), "{world}");
        // One copy gets its batch before the other, and then waits for its peer.
        let peers = job.stalls.iter().filter(|stall| stall.cause.peer).count();
        assert!(peers > 0, "{world}");
    }
}

#[test]
fn loader_stages_pass_samples_on_and_gather_batches() {
    let loader = read("workers = 2\nper_sample = [\"read\", { delay = \"1 ms\" }]\nbuffer = 8")
        + "[[job.loader.stages]]\nname = \"collate\"\nworkers = 1\nunit = \"batch\"\n\
           per_item = [{ compute = \"100 us\" }]\norder = \"in-order\"\nbuffer = 2\n";
    for (world, job) in worlds(&scenario(20, "model.step = \"100 us\"", &loader)) {
        assert_eq!(job.queue.capacity, 8, "{world}");
        assert_eq!(job.samples.dequeued, 80, "{world}");
        assert!(stalled(&job, StallCause::own(Cause::Latency)) > 0.0, "{world}");
    }
}

#[test]
fn an_epoch_reads_every_sample_once() {
    // System: sizes that vary, one epoch. Expectation: both worlds read all samples, each once, and so all
    // bytes of the data set.
    let mut scenario = scenario(1, "model.step = \"10 us\"", &read(FAST));
    scenario.run.stop = Stop::Epochs(1.0);
    for (world, job) in worlds(&scenario) {
        assert_eq!(job.samples.started, 1000, "{world}");
        assert_eq!(job.steps.len(), 250, "{world}");
    }
}

#[test]
fn a_duration_ends_the_run_in_the_middle_of_a_step() {
    let mut scenario = scenario(1, "model.step = \"10 ms\"", &read(FAST));
    scenario.run.stop = Stop::Duration(0.095);
    for (world, job) in worlds(&scenario) {
        assert!(job.steps.len() <= 9, "{world}: {}", job.steps.len());
        assert!(elapsed(&job) <= 0.095, "{world}");
    }
}

#[test]
fn never_started_live_runs_fail_and_immediately_stopped_live_runs_succeed() {
    let scenario = scenario(5, "model.step = \"1 ms\"", &read(FAST));
    let stop = AtomicBool::new(false);
    let part = CopyTask::default();
    // The live run is never started: no outcome.
    assert!(run_copy(&scenario, &part, &stop, || None).is_err());
    // Stopped before it began: possibly no step, and still an outcome.
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let job = run_copy(&scenario, &part, &stop, || Some(monotonic())).expect("an outcome").job;
    assert!(job.steps.len() <= 5);
}

#[test]
fn slow_copies_of_pinned_batches_to_the_device_cause_stalls() {
    // System: batches of 400 kB, handed over and pinned at 1 GB/s, then copied at 100 MB/s: 4 ms. Expectation:
    // a step takes at least 4 ms, and the stall's cause is the copy.
    let machine = [("cluster.node.pcie", "\"100 MB/s\""), ("dataset.d.decoded_size", "\"100 kB\"")];
    let loader = "loader.pytorch = { workers = 2, ipc = \"1 GB/s\", pin_memory = { bandwidth = \"1 GB/s\" \
                  }, to_device = true }";
    let scenario = written(&text(20, "model.step = \"1 ms\"", loader), &machine);
    for (world, job) in worlds(&scenario) {
        assert!(job.steps[19].end >= 0.079, "{world}: {}", job.steps[19].end);
        let own = job.stalls.iter().filter(|of| of.cause == StallCause::own(Cause::Copy));
        let copying = own.map(|stall| stall.seconds).sum::<f64>();
        assert!(copying >= 20.0 * 2e-3, "{world}: {copying}");
    }
}

#[test]
fn kernel_launches_longer_than_gpu_compute_cause_launch_stalls() {
    // System: a device of 1 ms, launches of 4 ms; then a device that begins only after a launch. Expectation:
    // stalls for the launch, and no others except for cores.
    for (launch, least) in [("\"4 ms\"", 2e-3), ("{ work = \"4 ms\", overlap = false }", 3e-3)] {
        let model = format!("model = {{ step = \"1 ms\", launch = {launch} }}");
        for (world, job) in worlds(&scenario(20, &model, "loader.in-memory = {}")) {
            let of = |cause| {
                let own = job.stalls.iter().filter(|of| of.cause == StallCause::own(cause));
                own.map(|stall| stall.seconds).sum::<f64>() / 20.0
            };
            assert!(of(Cause::Launch) >= least, "{world}: {launch}: {}", of(Cause::Launch));
            assert!(job.steps[19].end >= 0.08, "{world}: {launch}: {}", job.steps[19].end);
        }
    }
}
