//! Hosts that submit steps to GPUs ahead (`device.gpu.ahead`), compared with closed forms.

use forebay::report::{Cause, JobOutcome, StallCause, summarise};
use forebay::scenario::Scenario;

use super::runs::{near, simulate, written};

/// Returns the outcome of a job on a GPU with steps of 10 ms on batches of 4 samples.
fn trained(ahead: u32, changes: &[(&str, &str)]) -> JobOutcome {
    simulate(&scenario(ahead, changes)).jobs.remove(0)
}

/// Returns the scenario of that job.
fn scenario(ahead: u32, changes: &[(&str, &str)]) -> Scenario {
    let text = format!(
        r#"# Does a host ask for batches early enough?
name = "hosts"
[run]
epochs = 4
warm_up = "off"
replications = 1
[cluster]
nodes = 1
node = {{ cores = 64, gpus = 4, pcie = "4 GB/s" }}
[storage.s.memory]
[dataset.d]
samples = 80
sample_size = "1 MB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 4
hand_off = "0 s"
[job.loader.pytorch]
workers = 4
to_device = true
decode = "6.25 ms"
[job.model]
step = "10 ms"
catalogue = "lenet5"
device = {{ gpu = {{ ahead = {ahead} }} }}
"#
    );
    written(&text, changes)
}

/// Returns the time for which the GPUs of a job waited for `cause` [s].
fn waited(job: &JobOutcome, cause: Cause) -> f64 {
    let of = job.stalls.iter().filter(|of| of.cause == StallCause::own(cause));
    of.map(|stall| stall.seconds).sum()
}

/// Copies that take no time.
const NO_COPIES: (&str, &str) = ("cluster.node.pcie", "\"1000000 GB/s\"");

#[test]
fn a_host_hides_the_start_of_an_epoch_behind_the_steps_that_it_has_submitted() {
    // System: 20 batches an epoch, each decoded in 25 ms by one of four workers, which start anew when the host asks for the first
    // batch of an epoch; steps of 10 ms. A host that is k steps ahead asks when the k-th last step of the epoch before begins.
    // Expectation: each epoch after the first begins with a wait of 25 ms less k steps; the GPU then has a batch for each step.
    for (ahead, wait) in [(0, 0.025), (1, 0.015), (2, 0.005), (3, 0.0), (8, 0.0)] {
        let job = trained(ahead, &[NO_COPIES]);
        assert_eq!((job.steps.len(), job.samples.dequeued), (80, 320), "{ahead} ahead");
        let [first, last] = [19, 79].map(|step: usize| job.steps[step].end);
        near(last - first, 3.0 * (0.2 + wait), &format!("{ahead} ahead"));
        near(waited(&job, Cause::FirstBatch), 0.025 + 3.0 * wait, &format!("{ahead} ahead, waits"));
    }
}

#[test]
fn a_host_copies_the_next_batch_while_the_gpu_computes() {
    // System: batches of 4 MB over a bus that needs less or more time for one than a step. Expectation: without a host that is
    // ahead, steps wait for whole copies; with one, only as far as copies take longer than steps, however far it is ahead:
    // batches are copied one by one.
    for (bus, copy) in [("\"1 GB/s\"", 0.004), ("\"250 MB/s\"", 0.016)] {
        let behind = f64::max(0.0, copy - 0.01);
        for (ahead, wait) in [(0, copy), (1, behind), (3, behind), (8, behind)] {
            let changes = [
                ("cluster.node.pcie", bus),
                ("job.loader.pytorch.decode", "\"10 us\""),
                ("dataset.d.samples", "400"),
                ("run.epochs", "1"),
            ];
            let job = trained(ahead, &changes);
            let step = (job.steps[89].end - job.steps[9].end) / 80.0;
            near(step, 0.01 + wait, &format!("{ahead} ahead, {bus}"));
            // The loader has batches at once: beside these waits, only the copy of the first batch counts, or its step.
            let (end, first) = (job.steps[19].end, if ahead > 0 { copy.min(0.01) } else { 0.0 });
            assert!((end - 20.0 * (0.01 + wait) - first).abs() < 1e-3, "{ahead}: {end}");
        }
    }
}

#[test]
fn hosts_take_batches_only_for_steps_that_need_one() {
    // System: each batch is used for four steps of 10 ms, and decoded in 120 ms by one worker; hosts are 0, 1 and 3 steps ahead.
    // Expectation: a batch every 120 ms, whatever the host, and as many samples as the epochs have.
    for ahead in [0, 1, 3] {
        let changes = [
            NO_COPIES,
            ("job.batch_interval", "4"),
            ("job.loader.pytorch.workers", "1"),
            ("job.loader.pytorch.decode", "\"30 ms\""),
            ("job.loader.pytorch.persistent_workers", "true"),
            ("run.epochs", "2"),
        ];
        let job = trained(ahead, &changes);
        assert_eq!((job.steps.len(), job.samples.dequeued), (160, 160), "{ahead} ahead");
        let step = (job.steps[76].end - job.steps[40].end) / 36.0;
        near(step, 0.03, &format!("{ahead} ahead"));
    }
}

#[test]
fn a_host_asks_for_the_next_batch_while_one_is_copied() {
    // System: the trainer's own process decodes a batch in 8 ms, whose copy takes 8 ms; steps of 10 ms; the host is one step ahead.
    // Expectation: of the steps in turn, one begins when its copy ends, 16 ms after the host asked for its batch at the end of the
    // step before the last: 26 ms for two steps. Without a host that is ahead, each step takes 26 ms.
    for (ahead, step) in [(0, 0.026), (1, 0.013)] {
        let changes = [
            ("cluster.node.pcie", "\"500 MB/s\""),
            ("job.loader.pytorch.workers", "0"),
            ("job.loader.pytorch.decode", "\"2 ms\""),
            ("dataset.d.samples", "400"),
            ("run.epochs", "1"),
        ];
        let job = trained(ahead, &changes);
        let found = (job.steps[80].end - job.steps[20].end) / 60.0;
        assert!((found / step - 1.0).abs() < 1e-3, "{ahead} ahead: {found}");
    }
}

#[test]
fn rates_and_waits_of_the_queue_do_not_count_a_host_that_waits_while_its_gpu_computes() {
    // System: one worker makes a batch of 4 in 25 ms, steps take 10 ms. Expectation: whatever the host, the GPU waits 15 of 25 ms
    // for its queue, and would take 400 samples/s.
    for ahead in [0, 1, 3] {
        let changes = [
            NO_COPIES,
            ("dataset.d.samples", "800"),
            ("job.loader.pytorch.workers", "1"),
            ("job.loader.pytorch.persistent_workers", "true"),
            ("run.epochs", "1"),
        ];
        let scenario = scenario(ahead, &changes);
        let found = summarise(&scenario, &[simulate(&scenario)], 0.0);
        let queue = &found.jobs[0].queue;
        let empty = queue.time_empty.mean.expect("a share");
        let rate = queue.unstalled_dequeue_rate.mean.expect("a rate");
        assert!((empty - 0.6).abs() < 0.005, "{ahead} ahead: {empty}");
        assert!((rate / 400.0 - 1.0).abs() < 0.01, "{ahead} ahead: {rate}");
    }
}

#[test]
fn learners_of_a_gpu_have_a_host_each() {
    // System: two learners on a GPU that each of them fills, which average after each step; each of four epochs begins with a wait
    // of 25 ms for both. Expectation: hosts that are three steps ahead, which take 60 ms, hide all such waits but the first.
    let learners = [
        NO_COPIES,
        ("job.parallel.data.learners", "2"),
        ("job.sync", "{ model-averaging = { period = 1 } }"),
        ("job.model.occupancy", "1.0"),
    ];
    let [without, with] = [0, 3].map(|ahead| trained(ahead, &learners));
    assert_eq!((without.samples.dequeued, with.samples.dequeued), (320, 320));
    let [without, with] = [&without, &with].map(|job| waited(job, Cause::FirstBatch));
    assert!((with - 0.025).abs() < 1e-6 && (without - 0.1).abs() < 1e-6, "{with} {without}");
}

#[test]
fn learners_that_leave_take_no_batch_with_them() {
    // System: a policy tries further learners, which slow each other down fully, and takes them away again; a slow loader.
    // Expectation: every sample of 20 epochs is trained on once, and the run takes as long as without hosts that are ahead.
    let changes = [
        NO_COPIES,
        ("job.parallel.data.learners", "{ auto = { most = 3, window = 6 } }"),
        ("job.sync", "{ model-averaging = { period = 1 } }"),
        ("job.model.occupancy", "1.0"),
        ("job.loader.pytorch.persistent_workers", "true"),
        ("run.epochs", "20"),
    ];
    let [without, with] = [0, 8].map(|ahead| trained(ahead, &changes));
    let trained_on = |job: &JobOutcome| job.steps.iter().map(|step| step.samples).sum::<u64>();
    assert_eq!((trained_on(&without), trained_on(&with)), (1600, 1600));
    let [without, with] = [without, with].map(|job| job.steps[job.steps.len() - 1].end);
    assert!(with <= without, "{with} s instead of {without} s");
}

#[test]
fn batches_that_a_host_has_taken_ahead_are_taken_again_after_a_failure() {
    // System: failures every 150 ms on average, a checkpoint every 50 ms; hosts are 0 and 4 steps ahead. Expectation: the job
    // trains on each sample of its four epochs once, in steps that count.
    for ahead in [0, 4] {
        let changes = [
            NO_COPIES,
            ("job.failures", "{ mtbf = \"150 ms\", restart = \"10 ms\" }"),
            ("job.checkpoint", "{ interval = \"50 ms\", bytes = \"1 MB\" }"),
            ("job.loader.pytorch.persistent_workers", "true"),
        ];
        let job = trained(ahead, &changes);
        let fresh: u64 = job.steps.iter().map(|step| step.fresh).sum();
        assert_eq!((job.steps.len(), fresh), (80, 320), "{ahead} ahead");
        assert!(job.samples.dequeued >= 320 + 4, "{ahead} ahead: some batches are taken twice");
    }
}
