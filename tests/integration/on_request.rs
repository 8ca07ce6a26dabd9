//! PyTorch's and Keras' loaders in detail: the worker of each batch, the number of prefetched batches, and the
//! causes of waits. Reference values were recorded with PyTorch 2.5.1; both worlds must reproduce them.

use super::conformance::worlds;
use super::runs::{repository, simulate, steady, written};
use forebay::report::{Cause, Delivery, JobOutcome, StallCause};
use forebay::scenario::{Scenario, Stop};
use forebay::sim;

/// Returns one job whose reads take `latency`.
fn scenario(batch: u32, latency: &str, job: &str, loader: &str) -> Scenario {
    written(&text(batch, latency, job, loader), &[])
}

pub(crate) fn text(batch: u32, latency: &str, job: &str, loader: &str) -> String {
    format!(
        r#"# What do loaders on request do?
name = "on-request"
[run]
steps = 20
warm_up = "off"
[cluster]
nodes = 1
node = {{ cores = 2, gpus = 2 }}
[storage.disk.local-disk]
bandwidth = "1 TB/s"
latency = {latency}
[dataset.d]
samples = 1000
sample_size = "100 B"
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = {batch}
{job}
[job.loader]
{loader}
"#
    )
}

const FAST: &str = "\"100 us\"";
const STEP: &str = "model.step = \"1 ms\"";

/// Returns a scenario with one step that does not end within the run.
fn pausing(loader: &str) -> Scenario {
    let mut scenario = scenario(4, FAST, "model.step = \"100 s\"", loader);
    scenario.run.stop = Stop::Duration(0.25);
    scenario
}

fn in_order_of_requests(job: &JobOutcome) -> Vec<Delivery> {
    let mut all = job.deliveries.clone();
    all.sort_by_key(|delivery| delivery.batch);
    all
}

fn epochs(mut scenario: Scenario, epochs: f64) -> Scenario {
    scenario.run.stop = Stop::Epochs(epochs);
    scenario
}

#[test]
fn loader_workers_prefetch_as_many_batches_as_recorded_with_pytorch() {
    // Recorded with PyTorch 2.5.1, after one `next()` and a long pause: 1 + workers × factor. Stages after the
    // workers do not change this number.
    let behind = ", ipc = \"1 GB/s\", pin_memory = { bandwidth = \"1 GB/s\" }, to_device = true";
    for ((workers, factor, made), more) in
        [(2, 2, 5), (3, 4, 13), (4, 1, 5)].into_iter().flat_map(|of| [(of, ""), (of, behind)])
    {
        let loader =
            format!("pytorch = {{ workers = {workers}, prefetch_factor = {factor}{more} }}");
        for (world, job) in worlds(&pausing(&loader)) {
            assert_eq!(job.samples.enqueued, 4 * made, "{world}: {loader}");
            assert_eq!(job.samples.in_progress, 0, "{world}: {loader}");
            assert_eq!(job.deliveries.iter().filter(|of| of.taken.is_some()).count(), 1);
        }
    }
}

#[test]
fn keras_has_two_more_batches_in_progress_than_its_queue_holds() {
    // System: the trainer has one batch and computes. Expectation: the batches in the queue, the one that waits
    // for space in it, and the one taken; the batches in progress or finished and not taken never exceed the
    // queue length plus two.
    for (workers, queue) in [(2, 10), (4, 3), (3, 1)] {
        let loader = format!("keras = {{ workers = {workers}, max_queue_size = {queue} }}");
        for (world, job) in worlds(&pausing(&loader)) {
            assert_eq!(job.samples.started, 4 * (queue + 2), "{world}: {loader}");
            assert_eq!(job.queue.capacity, 4 * (queue + 2), "{world}: {loader}");
        }
    }
}

#[test]
fn pytorch_assigns_batches_round_robin_and_delivers_them_in_order() {
    for (world, job) in worlds(&scenario(4, FAST, STEP, "pytorch = { workers = 3 }")) {
        let all = in_order_of_requests(&job);
        assert!(all.len() >= 20, "{world}");
        assert!(all.iter().all(|of| u64::from(of.worker) == of.batch % 3), "{world}: {all:?}");
        let taken: Vec<f64> = all.iter().filter_map(|of| of.taken).collect();
        assert!(taken.is_sorted() && taken.len() == 20, "{world}: {taken:?}");
    }
}

/// Returns a scenario with one sample of 5 ms in each batch; the sample of batch 4 takes 500 ms.
fn one_slow(loader: &str) -> Scenario {
    let file = repository("tests/data/one-slow-in-ten.csv");
    let latency = format!("{{ empirical = {{ file = \"{}\" }} }}", file.display());
    let mut scenario = scenario(1, &latency, "model.step = \"1 ns\"", loader);
    scenario.run.stop = Stop::Steps(11);
    let options = sim::Options { trace: true, ..sim::Options::default() };
    let slow = |of: &Delivery| of.batch == 4;
    // A seed whose random numbers make batch 4, and no other of the first 16, slow.
    let seed = (0..10_000).find(|seed| {
        scenario.run.seed = *seed;
        let mut alone = scenario.clone();
        alone.jobs[0].loader.stages[0].workers = 1;
        alone.run.stop = Stop::Steps(16);
        let job = sim::run(&alone, 0, &options).jobs.remove(0);
        let ends = in_order_of_requests(&job);
        ends.windows(2)
            .take(15)
            .all(|pair| (pair[1].finished - pair[0].finished > 0.4) == slow(&pair[1]))
            && ends[0].finished < 0.4
    });
    scenario.run.seed = seed.expect("one in 80 does");
    scenario
}

#[test]
fn a_slow_batch_of_one_pytorch_worker_makes_the_other_worker_idle() {
    // Recorded with PyTorch 2.5.1: two workers, factor 2, items of 5 ms, item 4 of 500 ms. Finished before item
    // 4: 0, 1, 2, 3, 5, 7; item 6 queues after it. Gaps 8, 0, 2, 493, 0, 6, 0, 5, 0, 5 ms; an ideal machine
    // shows the gaps from batch 4 on as 500, 0, 5, 0, 5, 0, 5.
    for (world, job) in worlds(&one_slow("pytorch = { workers = 2 }")) {
        let all = in_order_of_requests(&job);
        let slow = all[4].finished;
        let before: Vec<u64> =
            all.iter().filter(|of| of.finished < slow).map(|of| of.batch).collect();
        assert_eq!(before, [0, 1, 2, 3, 5, 7], "{world}");
        let taken: Vec<f64> = all.iter().filter_map(|of| of.taken).collect();
        let gaps: Vec<f64> = taken.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[3] > 0.48, "{world}: {gaps:?}");
        if world == "simulated" {
            let expected = [0.0, 5e-3, 0.0, 0.5, 0.0, 5e-3, 0.0, 5e-3, 0.0, 5e-3];
            let near = |(gap, expected): (&f64, f64)| (gap - expected).abs() < 1e-6;
            assert!(gaps.iter().zip(expected).all(near), "{gaps:?}");
        }
        let latency: f64 = job.stalls.iter().map(|stall| stall.seconds).sum();
        assert!(latency > 0.48, "{world}");
    }
}

#[test]
fn out_of_order_delivery_keeps_workers_busy_despite_one_slow_batch() {
    // System: the slow batch with out-of-order delivery. Expectation: worker 1 makes all other batches, until
    // only the slow one and the one queued after it are left, which belong to worker 0.
    let mut scenario = one_slow("pytorch = { workers = 2, in_order = false }");
    scenario.run.stop = Stop::Epochs(0.011);
    for (world, job) in worlds(&scenario) {
        let mut all = job.deliveries.clone();
        all.retain(|of| of.taken.is_some());
        all.sort_by(|a, b| a.taken.partial_cmp(&b.taken).expect("times"));
        let order: Vec<u64> = all.iter().map(|of| of.batch).collect();
        if world == "simulated" {
            assert_eq!(&order[4..], [5, 7, 8, 9, 10, 4, 6], "{order:?}");
        }
        // Where both workers are about equally fast, it is random which batch queues after the slow one.
        assert_eq!(order[9], 4, "{world}: {order:?}");
        assert_eq!(all[9].worker, all[10].worker, "{world}: {order:?}");
    }
}

#[test]
fn keras_assigns_batches_to_free_workers_and_delivers_in_order() {
    // System: the slow batch in Keras, two workers. Expectation: while one worker makes the slow batch the
    // other makes as many as fit into the queue.
    for (world, job) in worlds(&one_slow("keras = { workers = 2, max_queue_size = 5 }")) {
        let all = in_order_of_requests(&job);
        let slow = all[4].finished;
        let before: Vec<u64> =
            all.iter().filter(|of| of.finished < slow).map(|of| of.batch).collect();
        // The trainer waits for batch 4, five are in the queue, one is submitted and waits for space.
        assert_eq!(before, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10], "{world}");
        let taken: Vec<f64> = all.iter().filter_map(|of| of.taken).collect();
        assert!(taken.is_sorted(), "{world}: {taken:?}");
    }
}

#[test]
fn data_loading_and_training_do_not_overlap_without_loader_workers() {
    // System: batches of 4 reads of 5 ms, steps of 10 ms. Expectation: 30 ms a step; with a worker 20 ms.
    let step = |workers: u32| {
        let loader = format!("pytorch = {{ workers = {workers} }}");
        let scenario = scenario(4, "\"5 ms\"", "model.step = \"10 ms\"", &loader);
        steady(&simulate(&scenario), 5).step
    };
    assert!((step(0) - 0.03).abs() < 1e-9 && (step(1) - 0.02).abs() < 1e-9);
    let loader = "pytorch = { workers = 0 }";
    for (world, job) in worlds(&scenario(4, "\"5 ms\"", "model.step = \"10 ms\"", loader)) {
        let last = job.steps.last().expect("steps").end - job.start;
        assert!(last > 20.0 * 0.03 - 0.003, "{world}: {last}");
        let all = in_order_of_requests(&job);
        // No batch is made during a step.
        assert!(all.iter().all(|of| of.taken.is_some_and(|t| t - of.finished < 5e-3)), "{world}");
    }
}

#[test]
fn pytorch_prefetches_no_batch_of_the_next_epoch() {
    // System: epochs of 9 batches of 4 and 3 samples left over, workers that take 20 ms to start. Expectation:
    // all nine batches are taken before the tenth is requested, again from worker 0; the stall is for
    // restarting workers, only once if workers persist.
    let restarts = |loader: &str| {
        let loader = loader.replace(" }", ", drop_last = true }");
        let text = text(4, FAST, STEP, &loader).replace("samples = 1000", "samples = 39");
        worlds(&epochs(written(&text, &[]), 3.0)).map(|(world, job)| {
            assert_eq!(job.steps.len(), 27, "{world}: whole batches only");
            let all = in_order_of_requests(&job);
            let tenth = &all[9];
            assert!(all[8].taken.is_some_and(|taken| taken < tenth.finished), "{world}");
            let stalls = job.stalls.iter();
            let restart = stalls.filter(|stall| stall.cause == StallCause::own(Cause::Restart));
            (tenth.worker, restart.map(|stall| stall.seconds).sum::<f64>())
        })
    };
    let anew = restarts("pytorch = { workers = 2, start = \"10 ms\" }");
    let persistent =
        restarts("pytorch = { workers = 2, start = \"10 ms\", persistent_workers = true }");
    assert!((anew[0].1 - 0.06).abs() < 1e-9 && (persistent[0].1 - 0.02).abs() < 1e-9);
    for (anew, persistent) in anew.into_iter().zip(persistent) {
        assert!(anew.1 > 0.055 && persistent.1 < 0.04, "{anew:?} {persistent:?}");
        assert_eq!((anew.0, persistent.0), (0, 0));
    }
}

#[test]
fn keras_polls_for_the_end_of_an_epoch_every_100_ms() {
    // System: epochs of 25 batches of 40 ms of four workers, no step time. Expectation: the last batch is taken
    // 70 ms after the first, while Keras sleeps: the second epoch begins at 100 ms.
    let text = text(1, "\"10 ms\"", "model.step = \"1 ns\"", "keras = { workers = 4 }")
        .replace("samples = 1000", "samples = 25");
    for (world, job) in worlds(&epochs(written(&text, &[]), 2.0)) {
        let all = in_order_of_requests(&job);
        let gap = all[25].finished - all[24].finished;
        assert!(gap > 0.03 && gap < 0.2, "{world}: {gap}");
        if world == "simulated" {
            // The last batch was queued at 40 ms, so that the next poll is at 140 ms.
            assert!((all[24].finished - 0.07).abs() < 1e-6, "{}", all[24].finished);
            assert!((all[25].finished - 0.15).abs() < 1e-6, "{}", all[25].finished);
        }
    }
}

#[test]
fn workers_of_an_iterable_dataset_have_files_of_their_own() {
    // System: 7 files of 12 samples, three workers, batches of 4. Expectation: worker 0 has three files and
    // makes 9 batches, the others 6 each; workers take turns as long as each has batches, then worker 0
    // continues alone. With 10 samples for each file, 7, 5 and 5 whole batches.
    let of = |samples: &str, loader: &str| {
        let text = text(4, FAST, STEP, loader).replace("samples = 1000", samples);
        worlds(&epochs(written(&text, &[]), 2.0)).map(|(world, job)| {
            let all = in_order_of_requests(&job);
            let workers: Vec<u32> = all.iter().map(|of| of.worker).collect();
            (world, job.steps.len(), workers)
        })
    };
    let iterable = "pytorch = { workers = 3, iterable = true, drop_last = true }";
    let dealt = [0, 1, 2].repeat(6).into_iter().chain([0, 0, 0]).collect::<Vec<_>>().repeat(2);
    for (world, steps, workers) in of("samples = 84\nlayout.shards = { samples = 12 }", iterable) {
        assert_eq!((steps, &workers), (42, &dealt), "{world}");
    }
    for (world, steps, _) in of("samples = 70\nlayout.shards = { samples = 10 }", iterable) {
        assert_eq!(steps, 34, "{world}");
    }
    let map_style = "pytorch = { workers = 3 }";
    for (world, steps, workers) in of("samples = 84\nlayout.shards = { samples = 12 }", map_style) {
        assert_eq!(steps, 42, "{world}");
        assert_eq!(workers, [0, 1, 2].repeat(14), "{world}");
    }
}

/// Returns the number of samples of each step.
fn trained_on(job: &JobOutcome) -> Vec<u64> {
    job.steps.iter().map(|step| step.samples).collect()
}

#[test]
fn the_last_batch_of_an_epoch_is_smaller() {
    // System: 2 epochs of 10 samples, batches of 4, steps of 1 ms plus 10 ms for each sample. Expectation:
    // steps on 4, 4 and 2 samples, which take 41, 41 and 21 ms; with `drop_last`, two steps in each epoch.
    let step = "model.step = { fixed = \"1 ms\", per_sample = \"10 ms\" }";
    let of = |job: &str, loader: &str| {
        let text = text(4, FAST, job, loader).replace("samples = 1000", "samples = 10");
        worlds(&epochs(written(&text, &[]), 2.0))
    };
    for workers in [0, 1, 3] {
        for (world, job) in of(step, &format!("pytorch = {{ workers = {workers} }}")) {
            assert_eq!(trained_on(&job), [4, 4, 2, 4, 4, 2], "{world}");
            assert_eq!((job.samples.dequeued, job.samples.left), (20, 0), "{world}");
            let computed = job.steps.iter().map(|step| step.compute);
            let expected = [0.041, 0.041, 0.021].repeat(2);
            for (computed, expected) in computed.zip(expected) {
                let off = if world == "simulated" { 1e-9 } else { 0.012 };
                assert!((computed - expected).abs() < off, "{world}: {computed}");
            }
        }
    }
    for (world, job) in of(step, "pytorch = { workers = 2, drop_last = true }") {
        assert_eq!(trained_on(&job), [4; 4], "{world}");
    }
    // Two model copies share five batches of two epochs: three steps.
    for (world, job) in
        of(&format!("parallel.data.copies_per_node = 2\n{step}"), "pytorch = { workers = 2 }")
    {
        assert_eq!(trained_on(&job), [8, 6, 6], "{world}");
    }
    // Every second step takes a fresh batch.
    for (world, job) in of(&format!("batch_interval = 2\n{step}"), "pytorch = { workers = 2 }") {
        assert_eq!(trained_on(&job), [4, 4, 4, 4, 2, 2].repeat(2), "{world}");
    }
}

#[test]
fn each_worker_of_an_iterable_dataset_has_a_smaller_last_batch() {
    // System: ten files of one sample each, distributed to two workers, batches of 4. Expectation: 4 samples of
    // each worker, then 1 of each. Three shards of 10, 10 and 5 samples, batches of 8: 15 samples of worker 0,
    // 10 of worker 1.
    let of = |batch: u32, samples: &str| {
        let text = text(batch, FAST, STEP, "pytorch = { workers = 2, iterable = true }");
        worlds(&epochs(written(&text.replace("samples = 1000", samples), &[]), 1.0))
    };
    for (world, job) in of(4, "samples = 10") {
        assert_eq!(trained_on(&job), [4, 4, 1, 1], "{world}");
    }
    for (world, job) in of(8, "samples = 25\nlayout.shards = { samples = 10 }") {
        assert_eq!(trained_on(&job), [8, 8, 7, 2], "{world}");
    }
}

#[test]
fn the_smaller_last_batch_takes_less_pipeline_compute_and_device_copy_time() {
    // System: a pipeline with a quarter and three quarters of 1 ms plus 10 ms for each sample; batches of 4, 4
    // and 2 copied to the device at 4 kB/s. Expectation: 100, 100 and 50 ms of copying, and for each batch the
    // time of its samples in both stages.
    let pipeline = "model.step = { fixed = \"1 ms\", per_sample = \"10 ms\" }\n\
                    parallel.pipeline = { shares = [0.25, 0.75] }";
    let text = text(4, FAST, pipeline, "pytorch = { workers = 2, to_device = true }")
        .replace("samples = 1000", "samples = 10")
        .replace("gpus = 2", "gpus = 2, pcie = \"4 kB/s\"");
    let job = simulate(&epochs(written(&text, &[]), 1.0)).jobs.remove(0);
    assert_eq!(trained_on(&job), [4, 4, 2]);
    let copies = job.stalls.iter().filter(|stall| stall.cause == StallCause::own(Cause::Copy));
    let copied = 2.0 * copies.map(|stall| stall.seconds).sum::<f64>();
    assert!((copied - 0.25).abs() < 1e-9, "{copied}");
    let computed: Vec<f64> = job.steps.iter().map(|step| 2.0 * step.compute).collect();
    assert!(
        (computed[1] - 0.041).abs() < 1e-9 && (computed[2] - 0.021).abs() < 1e-9,
        "{computed:?}"
    );
}

#[test]
fn step_time_with_each_pytorch_and_keras_loader_setting_matches_closed_forms() {
    // System: batches of 4, known time of each worker per batch, steps of 1 us. Expectation: the closed form.
    let step = |loader: &str| {
        let loader = loader.to_owned();
        let scenario = scenario(4, "\"1 ms\"", "model.step = \"1 us\"", &loader);
        steady(&simulate(&scenario), 8).step
    };
    let near = |loader: &str, expected: f64| {
        let found = step(loader);
        assert!((found / expected - 1.0).abs() < 0.01, "{loader}: {found}, not {expected}");
    };
    near("pytorch = { workers = 1 }", 4e-3);
    near("pytorch = { workers = 2 }", 2e-3);
    near("pytorch = { workers = 2, prefetch_factor = 8 }", 2e-3);
    near("pytorch = { workers = 2, decode = \"1 ms\" }", 4e-3);
    near("pytorch = { workers = 2, delay = \"1 ms\" }", 4e-3);
    near("pytorch = { workers = 2, collate = \"2 ms\" }", 3e-3);
    near("pytorch = { workers = 4, pin_memory = \"1500 us\" }", 1.5e-3);
    near("keras = { workers = 1 }", 4e-3);
    near("keras = { workers = 4 }", 1e-3);
    // A longer queue alone leaves the steady rate unchanged.
    near("keras = { workers = 4, max_queue_size = 100 }", 1e-3);
    near("keras = { workers = 2, decode = \"1 ms\" }", 4e-3);
    near("keras = { workers = 2, collate = \"2 ms\" }", 3e-3);
}

#[test]
fn loaders_of_two_ranks_load_in_parallel_unless_disk_or_cores_are_the_limit() {
    // System: two model copies, batches of 4 samples of 1 ms each, one worker for each loader. Expectation: one
    // loader for both copies makes two batches in each step, 8 ms; a loader for each copy makes one batch, 4
    // ms, unless the node's disk or cores limit both; each loader reads its share of the epoch.
    let of = |loaders: &str, change: (&str, &str)| {
        let job = format!(
            "model.step = \"1 us\"\n[job.parallel.data]\ncopies_per_node = 2\nloaders = \"{loaders}\""
        );
        let text = text(4, "\"1 ms\"", &job, "pytorch = { workers = 1, decode = \"1 us\" }");
        simulate(&written(&text.replace(change.0, change.1), &[]))
    };
    let none = ("steps = 20", "steps = 20");
    let step = |loaders: &str, change| steady(&of(loaders, change), 4).step;
    assert!((step("per-node", none) / 8e-3 - 1.0).abs() < 0.01);
    assert!((step("per-rank", none) / 4e-3 - 1.0).abs() < 0.01);
    // 800 B a step at 80 kB/s are 10 ms, whatever the number of loaders.
    let slow = ("\"1 TB/s\"", "\"80 kB/s\"");
    assert!(step("per-rank", slow) > 9.9e-3, "{}", step("per-rank", slow));
    // One core: 2 ms of decoding for each of eight samples.
    let busy = ("decode = \"1 us\"", "decode = \"2 ms\"");
    let busy = |cores: &str| {
        let both = text(
            4,
            "\"1 us\"",
            "model.step = \"1 us\"\n[job.parallel.data]\ncopies_per_node = 2\nloaders = \"per-rank\"",
            "pytorch = { workers = 1, decode = \"1 us\" }",
        );
        let both = both.replace(busy.0, busy.1).replace("cores = 2", cores);
        steady(&simulate(&written(&both, &[])), 4).step
    };
    assert!((busy("cores = 1") / 16e-3 - 1.0).abs() < 0.01, "{}", busy("cores = 1"));
    assert!((busy("cores = 2") / 8e-3 - 1.0).abs() < 0.01, "{}", busy("cores = 2"));
    let epoch = of("per-rank", ("steps = 20", "epochs = 1"));
    assert_eq!((epoch.jobs[0].steps.len(), epoch.jobs[0].samples.started), (125, 1000));
}

#[test]
fn more_prefetching_evens_out_more_jitter() {
    // System: reads that vary, steps of about the same mean time. Expectation: the more batches are prefetched,
    // the less the trainer waits; out of order it waits less than in order.
    let step = |loader: &str| {
        let latency = "{ lognormal = { median = \"1 ms\", p99 = \"30 ms\" } }";
        let text = text(2, latency, "model.step = \"1500 us\"", loader)
            .replace("steps = 20", "steps = 4000");
        steady(&simulate(&written(&text, &[])), 100).step
    };
    let factor = |factor| step(&format!("pytorch = {{ workers = 4, prefetch_factor = {factor} }}"));
    assert!(factor(1) > 1.02 * factor(2) && factor(2) > 1.02 * factor(8));
    let out_of_order = step("pytorch = { workers = 4, in_order = false }");
    assert!(factor(2) > 1.02 * out_of_order, "{out_of_order}");
    let size = |size| step(&format!("keras = {{ workers = 4, max_queue_size = {size} }}"));
    assert!(size(1) > 1.02 * size(8));
}

#[test]
fn tf_data_holds_finished_samples_behind_a_slow_one() {
    // System: calls whose times vary, with deterministic order and without. Expectation: stalls for order occur
    // only with deterministic order, and cost time; a prefetch of many batches bounds the queue.
    let step = |loader: &str| {
        let text = text(4, FAST, "model.step = \"1 us\"", loader)
            .replace("cores = 2", "cores = 64")
            .replace("steps = 20", "steps = 2000");
        let job = simulate(&written(&text, &[])).jobs.remove(0);
        let order = job.stalls.iter().filter(|stall| stall.cause == StallCause::own(Cause::Order));
        let held: f64 = order.map(|stall| stall.seconds).sum();
        (job.steps.last().expect("steps").end, held, job.queue.capacity)
    };
    let varying = "decode = { lognormal = { median = \"1 ms\", p99 = \"30 ms\" } }";
    let of = |keys: &str| {
        step(&format!("tf-data = {{ parallel_reads = 4, parallel_calls = 8, {keys} {varying} }}"))
    };
    let (ordered, any) = (of("prefetch = 3,"), of("prefetch = 3, deterministic = false,"));
    assert!(ordered.1 > 0.0 && any.1 == 0.0, "{ordered:?} {any:?}");
    assert!(ordered.0 > 1.1 * any.0, "{ordered:?} {any:?}");
    assert_eq!(ordered.2, 12);
    // Parallel calls, parallel reads, and the cost of a batch.
    let steady = |keys: &str| {
        let loader = format!("tf-data = {{ {keys} }}");
        let text = text(4, "\"1 ms\"", "model.step = \"1 us\"", &loader)
            .replace("cores = 2", "cores = 8")
            .replace("steps = 20", "steps = 200");
        steady(&simulate(&written(&text, &[])), 20).step
    };
    let near = |keys: &str, expected: f64| {
        let found = steady(keys);
        assert!((found / expected - 1.0).abs() < 0.01, "{keys}: {found}, not {expected}");
    };
    near("parallel_calls = 1", 4e-3);
    near("parallel_calls = 1, parallel_reads = 4", 1e-3);
    near("parallel_calls = 2, parallel_reads = 4, decode = \"4 ms\"", 8e-3);
    near("parallel_calls = 8, parallel_reads = 4, decode = \"4 ms\"", 2e-3);
    near("parallel_calls = 2, parallel_reads = 4, delay = \"4 ms\"", 8e-3);
    near("parallel_calls = 8, parallel_reads = 4, collate = \"5 ms\"", 5e-3);
}

#[test]
fn in_memory_data_cause_no_stalls() {
    for (world, job) in worlds(&scenario(4, FAST, STEP, "in-memory = {}")) {
        assert_eq!(job.samples.dequeued, 80, "{world}");
        let stalled: f64 = job.stalls.iter().map(|stall| stall.seconds).sum();
        let elapsed = job.steps.last().expect("steps").end - job.start;
        assert!(stalled < 0.2 * elapsed, "{world}: {stalled} of {elapsed}");
    }
}

#[test]
fn contradictory_loader_settings_are_refused() {
    let refused = |job: &str, loader: &str| {
        let text = text(3, FAST, job, loader);
        let file = forebay::scenario::ScenarioFile::parse("x.toml", text)
            .and_then(|file| file.resolve(&[]));
        file.expect_err("refused").to_string()
    };
    let prefilled =
        refused("prefill = \"full\"\nmodel.step = \"1 ms\"", "pytorch = { workers = 2 }");
    assert!(prefilled.contains("cannot be prefilled"), "{prefilled}");
    let circular =
        refused("queue = \"circular\"\nmodel.step = \"1 ms\"", "keras = { workers = 2 }");
    assert!(circular.contains("not batches"), "{circular}");
    let nodes = refused(
        "nodes = 500\nmodel.step = \"1 ms\"",
        "pytorch = { workers = 2, drop_last = true }",
    );
    assert!(nodes.contains("no batch of 3 for each of 500 loaders"), "{nodes}");
    let iterable = "pytorch = { workers = 500, iterable = true, drop_last = true }";
    let none = refused("model.step = \"1 ms\"", iterable);
    assert!(none.contains("500 of 500 workers have less than one batch"), "{none}");
    let few =
        scenario(4, FAST, STEP, "pytorch = { workers = 300, iterable = true, drop_last = true }")
            .remarks;
    assert!(few.join("\n").contains("200 of 300 workers have less than one batch"), "{few:?}");
    let scenario = scenario(4, FAST, STEP, "pytorch = { workers = 0, prefetch_factor = 4 }");
    let remarks = scenario.remarks.join("\n");
    assert!(remarks.contains("prefetch_factor` has no effect: there are no workers"), "{remarks}");
}
