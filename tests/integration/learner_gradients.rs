//! Learners that train one model: their gradients are summed on their GPU, then reduced between GPUs, and all
//! learners wait for the result (Crossbow calls it S-SGD).

use super::base::{base, changed, outcome};
use super::runs::{near, simulate, step};
use forebay::report::{Cause, JobOutcome, Outcome, Report, StallCause, summarise};
use forebay::scenario::ScenarioFile;

/// Four GPUs of a node, gradients of 10 MB, data without stalls, and steps of 1 ms that fill 0.4 of a GPU.
const BASE: [(&str, &str); 8] = [
    ("storage.s", "{ memory = {} }"),
    ("job.loader.tf-queue.decode", "\"0 s\""),
    ("job.loader.tf-queue.capacity", "\"100000 samples\""),
    ("job.parallel.data.copies_per_node", "4"),
    ("job.model.occupancy", "0.4"),
    ("job.sync", "{ allreduce = { gradients = \"10 MB\", algorithm = \"ring\" } }"),
    (MEMORY, "\"100 GB/s\""),
    (INTRA, "{ kind = \"switch\", bandwidth = \"20 GB/s\" }"),
];
const NUMBER: &str = "job.parallel.data.learners";
const GPUS: &str = "job.parallel.data.copies_per_node";
const MEMORY: &str = "cluster.node.gpu_memory_bandwidth";
const INTRA: &str = "cluster.node.intra";
const SYNC: &str = "job.sync";
const NUMBERS: [(f64, &str); 4] = [(1.0, "1"), (2.0, "2"), (4.0, "4"), (8.0, "8")];

fn run(changes: &[(&str, &str)]) -> Outcome {
    outcome(&[&BASE[..], changes].concat())
}

/// Returns the mean step time [s].
fn time(changes: &[(&str, &str)]) -> f64 {
    step(&run(changes).jobs[0])
}

fn report(changes: &[(&str, &str)]) -> Report {
    let scenario = changed(&[&BASE[..], changes].concat());
    summarise(&scenario, &[simulate(&scenario)], 0.0)
}

fn refused(changes: &[(&str, &str)]) -> String {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    let all = [&BASE[..], changes].concat();
    let set = all.iter().map(|(key, value)| format!("{key}={value}").parse().expect("one"));
    file.resolve(&set.collect::<Vec<_>>()).map(|_| ()).expect_err("refused").to_string()
}

/// Returns the compute time of k learners on their GPU, and the time to sum 10 MB for each at 100 GB/s: k
/// gradients are read, and one is written [s].
fn on_gpu(k: f64) -> (f64, f64) {
    let sum = if k > 1.0 { (k + 1.0) * 10e6 / 100e9 } else { 0.0 };
    (1e-3 * (0.4 * k).max(1.0), sum)
}

/// Time of the ring of 4 GPUs at 20 GB/s [s].
const RING: f64 = 1.5 * 10e6 / 20e9;

#[test]
fn step_time_with_learners_is_compute_plus_gpu_gradient_sum_plus_allreduce() {
    // System: k learners on each of g GPUs. Expectation: all compute together, then each GPU reads k gradients
    // and writes their sum, then one gradient of each GPU goes around a ring; none of these overlap.
    for (k, number) in NUMBERS {
        let (compute, sum) = on_gpu(k);
        near(time(&[(NUMBER, number)]), compute + sum + RING, &format!("{number} on 4 GPUs"));
    }
    for (k, number) in &NUMBERS[1..] {
        let (compute, sum) = on_gpu(*k);
        near(time(&[(NUMBER, number), (GPUS, "1")]), compute + sum, &format!("{number} on one"));
    }
    // Without a bandwidth of GPU memory, sums take no time.
    let (compute, _) = on_gpu(4.0);
    let unlimited: Vec<(&str, &str)> =
        BASE.iter().filter(|(key, _)| *key != MEMORY).copied().collect();
    let found = step(&outcome(&[&unlimited[..], &[(NUMBER, "4")]].concat()).jobs[0]);
    near(found, compute + RING, "unlimited memory");
}

#[test]
fn gradient_summation_on_a_gpu_waits_for_the_slowest_learner() {
    // System: two learners that do not fill their GPU and whose steps vary; memory that takes 3 ms for a sum,
    // or no time. Expectation: the same random times, and 3 ms more in each step.
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.3 } }");
    let ends = |memory: &str| {
        run(&[(NUMBER, "2"), (GPUS, "1"), jitter, (MEMORY, memory)]).jobs[0].steps.clone()
    };
    let (slow, fast) = (ends("\"10 GB/s\""), ends("\"1e9 GB/s\""));
    for (number, (slow, fast)) in (1..).zip(slow.iter().zip(&fast)) {
        near(slow.end - fast.end, f64::from(number) * 3e-3, "sums");
    }
}

#[test]
fn bytes_between_gpus_do_not_depend_on_the_number_of_learners() {
    // System: a ring of 4 GPUs. Expectation: 2·(4 − 1)/4 of 10 MB leaves each GPU in each of 60 steps.
    for (_, number) in NUMBERS {
        let outcome = run(&[(NUMBER, number)]);
        let links = outcome.resources.iter().filter(|of| of.name == "node.intra");
        let served = links.map(|of| of.served).sum::<f64>();
        near(served, 60.0 * 4.0 * 1.5 * 10e6, number);
    }
}

#[test]
fn gradient_sums_on_a_gpu_overlap_the_backward_pass_bucket_by_bucket() {
    // System: two learners that fill half of a GPU each, two tensors of 5 MB, ready after 2/3 of the step and
    // at its end, each a bucket: 0.15 ms to sum one, 0.375 ms around the ring. Expectation by hand: the first
    // is summed at 0.817 ms and reduced at 1.192 ms, the second is summed at 1.15 ms, and reduced 0.375 ms
    // after the first.
    let buckets = "{ allreduce = { gradients = \"10 MB\", tensors = 2, buckets = \"5 MB\", algorithm = \"ring\" } }";
    let found = time(&[(NUMBER, "2"), (SYNC, buckets)]);
    near(found, 2e-3 / 3.0 + 0.15e-3 + 2.0 * 0.375e-3, "two buckets");
    // With slow memory, the second sum waits for the first.
    let found = time(&[(NUMBER, "2"), (SYNC, buckets), (MEMORY, "\"15 GB/s\"")]);
    near(found, 2e-3 / 3.0 + 2.0 * 1e-3 + 0.375e-3, "in turn");
}

#[test]
fn learners_wait_every_step_for_gradient_sums_and_once_per_period_for_averaging() {
    // System: k learners whose steps vary, model and gradients so small that they take no time. Expectation:
    // with gradient sums all wait for the slowest of 4·k learners in each step; learners that average every
    // tenth step wait only there.
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.3 } }");
    let average = |period: &str| {
        format!("{{ model-averaging = {{ parameters = \"1 B\", period = {period} }} }}")
    };
    let steps = ("run.steps", "400");
    let gradients = "{ allreduce = { gradients = \"1 B\" } }";
    for number in ["1", "2"] {
        let of = |sync: &str| time(&[(NUMBER, number), jitter, steps, (SYNC, sync)]);
        let (sums, each, tenth) = (of(gradients), of(&average("1")), of(&average("10")));
        assert!(sums > 1.03 * each && each > 1.05 * tenth, "{number}: {sums}, {each}, {tenth}");
        let job = &run(&[(NUMBER, number), jitter, steps, (SYNC, gradients)]).jobs[0];
        let waits = waited(job, StallCause::peer(Cause::Compute));
        let all = job.steps[399].end - job.start;
        assert!(waits > 0.2 * all, "{number}: {waits} of {all} s for the slowest");
    }
}

/// Returns the stalls for a cause, summed over all steps [s].
fn waited(job: &JobOutcome, cause: StallCause) -> f64 {
    job.stalls.iter().filter(|of| of.cause == cause).map(|of| of.seconds).sum()
}

#[test]
fn gradient_sums_on_a_gpu_count_as_communication() {
    // System: four learners on each GPU, no jitter. Expectation: 1.6 ms of each step are compute, the rest is
    // communication.
    let job = run(&[(NUMBER, "4")]).jobs.remove(0);
    let (_, sum) = on_gpu(4.0);
    let communication = StallCause::own(Cause::Communication);
    near(waited(&job, communication), 60.0 * (sum + RING), "communication");
    let compute: f64 = job.steps.iter().map(|of| of.compute).sum();
    near(compute + waited(&job, communication), job.steps[59].end - job.start, "all of the time");
    assert!(job.steps.iter().all(|step| step.samples == 4 * 4 * 16));
    assert_eq!(job.samples.dequeued, 60 * 4 * 4 * 16);
}

#[test]
fn time_to_accuracy_uses_the_total_batch_of_all_learners() {
    // System: 16 samples for each learner, 4 GPUs, twice the epochs at a batch of 128. Expectation: the batch
    // is k·16·4 samples.
    let accuracy = ("job.accuracy", "{ least_epochs = 10, critical_batch = 128 }");
    let of = |number| {
        let report = report(&[(NUMBER, number), accuracy]);
        report.jobs[0].time_to_accuracy.clone().expect("accuracy")
    };
    for (k, number) in NUMBERS {
        let found = of(number);
        assert_eq!(found.batch as f64, k * 64.0);
        near(found.epochs, 10.0 * (1.0 + k * 0.5), number);
    }
}

#[test]
fn the_learner_tuning_policy_finds_the_optimum_with_summed_gradients() {
    // System: learners that fill a fifth of a GPU, sums and a ring of 1 MB. Expectation: 1 to 6 are tried, the
    // sixth gains next to nothing; all time is accounted for, whatever the number of learners.
    let job = run(&[
        (NUMBER, "{ auto = { window = 10 } }"),
        ("job.model.occupancy", "0.2"),
        (SYNC, "{ allreduce = { gradients = \"1 MB\" } }"),
        ("run.steps", "200"),
    ])
    .jobs
    .remove(0);
    let learners = job.learners.clone().expect("learners");
    let tried: Vec<u32> = learners.tried.iter().map(|of| of.learners).collect();
    assert_eq!((learners.per_gpu, &tried[..]), (5, &[1, 2, 3, 4, 5, 6][..]));
    let stalls: f64 = job.stalls.iter().map(|of| of.seconds).sum();
    let compute: f64 = job.steps.iter().map(|of| of.compute).sum();
    near(stalls + compute, job.steps[199].end - job.start, "all of the time");
}

#[test]
fn local_sgd_of_learners_pays_gpu_sum_and_allreduce_once_per_period() {
    // System: local SGD of two learners on each GPU, with a period of three steps. Expectation: each step takes
    // a third of sum and ring.
    let (compute, sum) = on_gpu(2.0);
    let local = "{ allreduce = { gradients = \"10 MB\", algorithm = \"ring\", period = 3 } }";
    let steps = run(&[(NUMBER, "2"), (SYNC, local)]).jobs[0].steps.clone();
    near((steps[59].end - steps[2].end) / 57.0, compute + (sum + RING) / 3.0, "every third");
    let one = run(&[(NUMBER, "2"), (SYNC, local), (GPUS, "1")]).jobs[0].steps.clone();
    near((one[59].end - one[2].end) / 57.0, compute + sum / 3.0, "on one GPU");
}

#[test]
fn each_gpu_sends_the_root_gpu_one_gradient_sum_for_all_its_learners() {
    // System: parameters from the first GPU, gradients to it. Expectation: two learners take longer than one
    // only by the sum on their GPU: the bytes between GPUs are the same.
    let root = (SYNC, "{ reduce-broadcast = { parameters = \"10 MB\", update = \"1 ms\" } }");
    let of = |number| time(&[(NUMBER, number), root]);
    near(of("2") - of("1"), on_gpu(2.0).1, "the sum");
}

/// Four parameter servers on the GPUs' node.
const SERVERS: &str =
    "{ parameter-server = { parameters = \"10 MB\", server = { placement = \"with-workers\" } } }";
/// Two parameter servers on nodes of their own, whose NICs of 10 GB/s are the only limit.
const NICS: [(&str, &str); 2] = [
    ("cluster.network.nic", "\"10 GB/s\""),
    (
        SYNC,
        "{ parameter-server = { parameters = \"10 MB\", servers = 2, server = { nic = \"2 GB/s\" } } }",
    ),
];

#[test]
fn each_gpu_pushes_one_gradient_sum_of_its_learners_to_the_parameter_servers() {
    // System: k learners on each of 4 GPUs, two synchronous servers with NICs of 2 GB/s. Expectation: each GPU pushes and
    // pulls 10 MB, half to and from each server, whatever k: 4 · 5 MB through each NIC each way, after 10 µs. Before the push
    // come the steps and the sum.
    for (k, number) in NUMBERS {
        let (compute, sum) = on_gpu(k);
        let exchange = 2.0 * 4.0 * 5e6 / 2e9 + 2.0 * 10e-6;
        let job = run(&[&NICS[..], &[(NUMBER, number)]].concat()).jobs.remove(0);
        near(step(&job), compute + sum + exchange, number);
        let books = job.sync.clone().expect("servers");
        assert_eq!((books.pushed, books.updates), (60 * 4 * 10_000_000, 60 * 4), "{number}");
        assert!(job.steps.iter().all(|of| of.samples as f64 == 4.0 * k * 16.0), "{number}");
    }
}

#[test]
fn learners_beside_asynchronous_servers_account_for_all_samples_and_all_time() {
    // System: two learners on each of 4 GPUs whose steps vary; servers for which no GPU waits for another. Expectation:
    // each sample is counted once, and compute and stalls fill the time.
    let servers = SERVERS.replace(", server = {", ", consistency = \"asynchronous\", server = {");
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.3 } }");
    let of = |sync: &str| run(&[(NUMBER, "2"), jitter, (SYNC, sync)]).jobs.remove(0);
    let (apart, together) = (of(&servers), of(SERVERS));
    let samples: u64 = apart.steps.iter().map(|of| of.samples).sum();
    assert_eq!((apart.steps.len(), samples), (60, 60 * 4 * 2 * 16));
    let stalls: f64 = apart.stalls.iter().map(|of| of.seconds).sum();
    let compute: f64 = apart.steps.iter().map(|of| of.compute).sum();
    near(stalls + compute, apart.steps[59].end - apart.start, "all of the time");
    assert!(step(&apart) < 0.95 * step(&together), "{} and {}", step(&apart), step(&together));
}

#[test]
fn a_learner_beside_servers_waits_for_the_slower_learner_of_its_gpu() {
    // System: two learners on one GPU that they do not fill, whose steps vary. Expectation: the exchange with the servers takes as
    // long as that of a single learner, and what else is no computing is a wait for the other learner.
    let jitter = ("job.model.jitter", "{ lognormal = { cv = 0.3 } }");
    let of = |number| {
        let free = (MEMORY, "\"1e9 GB/s\"");
        let job =
            run(&[(NUMBER, number), (GPUS, "1"), jitter, (SYNC, SERVERS), free]).jobs.remove(0);
        let peer = waited(&job, StallCause::peer(Cause::Compute));
        let communication = waited(&job, StallCause::own(Cause::Communication));
        (peer / job.steps[59].end, communication)
    };
    let ((alone, single), (peer, both)) = (of("1"), of("2"));
    assert!(alone == 0.0 && peer > 0.05, "{alone} and {peer}");
    assert!((both - single).abs() < 1e-6, "{both} and {single} s of communication");
}

#[test]
fn checkpoints_beside_asynchronous_servers_keep_the_learners_of_a_gpu_together() {
    // System: two learners on each of 4 GPUs, whose steps vary and whose gradients of three steps are added up, checkpoints
    // between steps, and failures. Expectation: each sample is counted once, and time is accounted for.
    let servers = SERVERS.replace(", server = {", ", consistency = \"asynchronous\", server = {");
    for at in ["21 ms", "33 ms", "45 ms", "57 ms"] {
        let failures = format!("{{ at = [\"{at}\"], restart = \"1 ms\" }}");
        let job = run(&[
            (NUMBER, "2"),
            (SYNC, &servers),
            ("job.model.jitter", "{ lognormal = { cv = 0.3 } }"),
            ("job.accumulation", "3"),
            ("storage.c", "{ file-server = { bandwidth = \"1e9 GB/s\" } }"),
            ("job.checkpoint", "{ steps = 1, bytes = \"1 B\", storage = \"c\" }"),
            ("job.failures", &failures),
        ])
        .jobs
        .remove(0);
        assert_eq!((job.steps.len(), job.recovery.expect("failures").failures), (60, 1), "{at}");
        let stalls: f64 = job.stalls.iter().map(|of| of.seconds).sum();
        let compute: f64 = job.steps.iter().map(|of| of.compute).sum();
        near(stalls + compute, job.steps[59].end - job.start, at);
        assert_eq!(job.steps.iter().map(|of| of.samples).sum::<u64>(), 60 * 4 * 2 * 16, "{at}");
    }
}

#[test]
fn learners_beside_servers_resume_from_a_checkpoint_after_a_failure() {
    // System: two learners on each GPU, a checkpoint every 10 steps in no time, a failure in step 26. Expectation: six steps
    // are lost, and each sample is trained on once.
    let whole = run(&[&NICS[..], &[(NUMBER, "2")]].concat()).jobs.remove(0);
    let failed = whole.steps[25].end - 1e-4;
    let times = format!("{{ at = [\"{failed} s\"], restart = \"1 s\" }}");
    let job = run(&[
        &NICS[..],
        &[
            (NUMBER, "2"),
            ("storage.c", "{ file-server = { bandwidth = \"1e9 GB/s\" } }"),
            ("job.checkpoint", "{ steps = 10, bytes = \"1 B\", storage = \"c\" }"),
            ("job.failures", &times),
        ],
    ]
    .concat())
    .jobs
    .remove(0);
    let recovery = job.recovery.expect("failures");
    assert_eq!((job.steps.len(), recovery.failures), (60, 1));
    near(recovery.lost_seconds, failed - whole.steps[19].end, "lost");
    assert_eq!(job.steps.iter().map(|of| of.samples).sum::<u64>(), 60 * 4 * 2 * 16);
}

#[test]
fn a_gpu_compresses_the_sum_that_its_learners_push_to_servers_once() {
    // System: as above, but each GPU compresses 10 MB to 2.5 MB at 5 GB/s before it pushes. Expectation: 2 ms once, a
    // quarter of the push, and the whole pull.
    let coding = "compression = { quantised = { ratio = 0.25, compress = \"5 GB/s\" } }";
    let sync = NICS[1].1.replace("servers = 2", &format!("{coding}, servers = 2"));
    for (k, number) in NUMBERS {
        let (compute, sum) = on_gpu(k);
        let exchange = 1.25 * 4.0 * 5e6 / 2e9 + 2.0 * 10e-6;
        let found = time(&[NICS[0], (NUMBER, number), (SYNC, &sync)]);
        near(found, compute + sum + 2e-3 + exchange, number);
    }
}

#[test]
fn learners_add_gradients_of_several_steps_before_their_gpu_sums_them() {
    // System: two learners on each of 4 GPUs that add up the gradients of three steps. Expectation: as local SGD with three
    // steps between exchanges.
    let (compute, sum) = on_gpu(2.0);
    let steps = run(&[(NUMBER, "2"), ("job.accumulation", "3")]).jobs[0].steps.clone();
    near((steps[59].end - steps[2].end) / 57.0, compute + (sum + RING) / 3.0, "every third");
}

#[test]
fn reports_state_the_bytes_exchanged_and_a_bottleneck_in_gpu_memory_bandwidth() {
    let two = report(&[(NUMBER, "2"), (MEMORY, "\"1 GB/s\"")]);
    let sync = two.jobs[0].sync.clone().expect("gradients");
    assert_eq!((sync.steps_per_exchange, sync.bytes_per_exchange), (1, 10_000_000));
    let says = "each of 8 model copies; after each of its own steps a GPU exchanges 10 MB";
    assert!(sync.text.contains(says), "{}", sync.text);
    let found = two.bottleneck.expect("one");
    assert_eq!(found.resource, "node.gpu.memory", "{}", found.text);
    assert!(found.text.contains("or fewer learners"), "{}", found.text);
    let network = report(&[(NUMBER, "2"), (INTRA, "{ bandwidth = \"100 MB/s\" }")]);
    assert_eq!(network.bottleneck.expect("one").resource, "network");
}

#[test]
fn gradient_collective_settings_on_one_gpu_are_reported_as_ineffective() {
    let of = |sync: &str| {
        let scenario = changed(&[&BASE[..], &[(NUMBER, "2"), (GPUS, "1"), (SYNC, sync)]].concat());
        let said =
            scenario.remarks.iter().any(|of| of.contains("in the memory of the job's only GPU"));
        let mut steps = simulate(&scenario).jobs[0].steps.clone();
        // Only the number of events may differ.
        steps.iter_mut().for_each(|step| step.events = 0);
        (said, steps)
    };
    let (said, plain) = of("{ allreduce = { gradients = \"10 MB\" } }");
    assert!(!said, "nothing is written of it");
    let slow = "{ allreduce = { gradients = \"10 MB\", algorithm = \"flat\", transport = { tcp = { latency = \"1 s\", \
                per_tensor = \"1 s\" } } } }";
    assert_eq!(of(slow), (true, plain.clone()));
    let fused = "{ allreduce = { gradients = \"10 MB\", tensors = 10, fusion = { buffer = \"1 MB\", cycle = \"1 ms\" } } }";
    assert_eq!(of(fused), (true, plain.clone()));
    let root =
        |keys: &str| of(&format!("{{ reduce-broadcast = {{ parameters = \"10 MB\"{keys} }} }}"));
    assert_eq!(root(", broadcast = \"flat\""), (true, root("").1));
}

#[test]
fn synchronisation_methods_that_learners_do_not_support_are_refused() {
    // Expectation: an error that says why.
    let (two, auto) = ((NUMBER, "2"), (NUMBER, "{ auto = {} }"));
    let elastic = "{ elastic-averaging = { parameters = \"10 MB\", period = 10 } }";
    let local = "{ allreduce = { gradients = \"10 MB\", period = 10 } }";
    for (number, sync, words) in [
        (two, elastic, "a GPU exchanges one model with the centre"),
        (auto, SERVERS, "with parameter servers each GPU goes on by itself"),
        (auto, local, "exchanges has no model of its own"),
    ] {
        let found = refused(&[number, (SYNC, sync)]);
        assert!(found.contains(words), "{words}: {found}");
    }
}

#[test]
fn each_gpu_compresses_the_gradient_sum_of_all_its_learners_once() {
    // System: k learners on each of 4 GPUs; each GPU compresses 10 MB to 2.5 MB at 5 GB/s, and decompresses at
    // 10 GB/s. Expectation: 2 ms once for each GPU, after the sum; a quarter of the ring; 0.25 ms before the
    // update.
    let sync = "{ allreduce = { gradients = \"10 MB\", algorithm = \"ring\", compression = { quantised = \
                { ratio = 0.25, compress = \"5 GB/s\", decompress = \"10 GB/s\" } } } }";
    for (k, number) in NUMBERS {
        let (compute, sum) = on_gpu(k);
        let expected = compute + sum + 2e-3 + RING / 4.0 + 0.25e-3;
        near(time(&[(NUMBER, number), (SYNC, sync)]), expected, number);
    }
    // Two buckets: the second is compressed after the first, which hides the first's allreduce.
    let buckets = sync.replace("gradients", "tensors = 2, buckets = \"5 MB\", gradients");
    let found = time(&[(NUMBER, "2"), (SYNC, &buckets)]);
    near(found, 2e-3 / 3.0 + 0.15e-3 + 2e-3 + RING / 8.0 + 0.25e-3, "two buckets");
}
