//! Sequences split over GPUs (context parallelism): each attention needs the keys and values of all ranks.

use super::pipeline_schedules::{adds_up, spread, waits};
use super::runs::{near, run, simulate, step, written};
use forebay::report::{Cause, JobOutcome, ParallelReport, summarise};
use forebay::scenario::ScenarioFile;

/// Returns a scenario with steps of 0.96 s and the keys `rest`, on GPUs of a node with ports of 10 GB/s and 50
/// µs of latency.
pub(crate) fn text(rest: &str) -> String {
    let node = "intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
    spread(node, &format!("model.step = {{ per_sample = \"4 ms\" }}\n{rest}"))
}

/// Returns the outcome of the scenario's job, after checking that compute and stalls make up its steps.
pub(crate) fn of(rest: &str) -> JobOutcome {
    let job = run(&text(rest));
    adds_up(&job);
    job
}

/// Returns the `parallel` part of the scenario's report.
pub(crate) fn told(rest: &str) -> ParallelReport {
    let scenario = written(&text(rest), &[]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    report.jobs[0].parallel.expect("spread over GPUs")
}

/// Returns keys for `ranks` context ranks with 8 attentions and `kilobytes` kB of keys and values for each of
/// 240 samples.
fn context(ranks: u32, kilobytes: u32, rest: &str) -> String {
    format!(
        "parallel.context = {{ ranks = {ranks}, attentions = 8, keys_values = \"{kilobytes} kB\", \
         algorithm = \"ring\" {rest} }}\n"
    )
}

/// Returns the time of half of an allreduce of `bytes` bytes around a ring of n [s].
fn half_ring(n: f64, bytes: f64) -> f64 {
    (n - 1.0) * (50e-6 + bytes / n / 10e9)
}

#[test]
fn context_parallel_exchanges_lengthen_a_step_only_by_their_exposed_time() {
    // System: c ranks, 8 attentions of 240 × 100 kB or 2 MB, around rings. Expectation: a c-th of the compute;
    // exposed, an allgather in forward, and one with a reduce-scatter in backward, for each attention;
    // overlapped, each block takes the longer of its compute and these exchanges; a third of a block is
    // forward.
    for (ranks, kilobytes) in [(2, 100), (4, 100), (4, 2000), (8, 2000), (1, 2000)] {
        let c = f64::from(ranks);
        let bytes = 240.0 * 1e3 * f64::from(kilobytes);
        let (gather, block) = (half_ring(c, bytes), 0.96 / c / 8.0);
        for fidelity in [", fidelity = \"flow\"", ", fidelity = \"analytic\""] {
            let what = format!("{ranks} ranks, {kilobytes} kB{fidelity}");
            let exposed =
                of(&context(ranks, kilobytes, &format!(", exchange = \"exposed\"{fidelity}")));
            near(step(&exposed), 8.0 * (block + 3.0 * gather), &what);
            let waited = waits(&exposed, Cause::Communication) * step(&exposed);
            assert!((waited - 24.0 * gather).abs() < 1e-6, "{what}: waited {waited}");
            let (forward, backward) = (block / 3.0, 2.0 / 3.0 * block);
            let expected = 8.0 * (forward.max(gather) + backward.max(2.0 * gather));
            near(step(&of(&context(ranks, kilobytes, fidelity))), expected, &what);
        }
        let sent = told(&context(ranks, kilobytes, "")).key_value_bytes.expect("known");
        assert!((sent - 24.0 * (c - 1.0) / c * bytes).abs() < 1.0, "{ranks}: {sent}");
    }
}

#[test]
fn gradients_are_reduced_over_model_copies_and_context_ranks() {
    // System: 400 MB of gradients on c ranks of each of d model copies, in one bucket. Expectation: all ranks
    // have the same parameters, so that one ring of c·d ranks reduces them.
    for (ranks, copies) in [(2, 1), (2, 2), (4, 2)] {
        let n = f64::from(ranks * copies);
        let job = of(&format!(
            "{}parallel.data.copies_per_node = {copies}\n\
             sync.allreduce = {{ gradients = \"400 MB\", buckets = \"all\", algorithm = \"ring\" }}",
            context(ranks, 0, "")
        ));
        let keys = 8.0 * (f64::from(ranks) - 1.0) * 50e-6;
        let (block, c) = (0.96 / f64::from(ranks), f64::from(ranks));
        assert!(3.0 * keys / 8.0 < block / 8.0 / 3.0, "keys are hidden");
        let expected = 0.96 / c + 2.0 * half_ring(n, 400e6);
        near(step(&job), expected, &format!("{ranks} ranks of {copies} copies"));
    }
    // ZeRO shards over all of these ranks.
    let zero = "sync.allreduce = { gradients = \"400 MB\", buckets = \"all\", algorithm = \"ring\" }\n\
                parallel.zero.stage = 1";
    let told = told(&format!("{}{zero}", context(4, 0, "")));
    near(
        told.gradient_bytes.expect("known"),
        2.0 * 0.75 * 400e6,
        "a reduce-scatter and an allgather",
    );
}

#[test]
fn tensor_context_and_pipeline_parallelism_together_divide_transferred_bytes() {
    // System: two stages, layers split over 2 ranks, sequences over 4. Expectation: 16 GPUs; a group of 4
    // exchanges half of the heads' keys and values; each GPU sends a quarter of the activations.
    let rest = "parallel.tensor = { ranks = 2, allreduces = 0, activations = \"1 kB\" }\n\
                parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 4, activations = \"80 kB\" }\n";
    let told = told(&format!("{}{rest}", context(4, 100, "")));
    assert_eq!((told.tensor, told.context, told.pipeline, told.gpus), (2, 4, 2, 16));
    // Each GPU takes part in half of the attentions.
    near(told.key_value_bytes.expect("known"), 12.0 * 0.75 * 240.0 * 100e3 / 2.0, "keys");
    // One of two GPUs sends activations on, the other sends their gradients back.
    near(told.activation_bytes.expect("known"), 80e3 / 4.0, "activations");
    let job = of(&format!("{}{rest}", context(4, 0, ", exchange = \"exposed\"")));
    assert!(step(&job) > 0.96 / 8.0 / 2.0 && step(&job) < 0.96 / 8.0, "{}", step(&job));
}

#[test]
fn catalogue_transformers_provide_sizes_of_attention_keys_and_values() {
    // System: Llama 3 of 8 G parameters, whose 8 heads of keys and values are 1,024 wide; 8,192 tokens in 16
    // bits, 32 blocks, one sequence on 4 ranks. Expectation: 2 · 8,192 · 1,024 · 2 B in each attention; a
    // quarter of the activations on each rank.
    let job = |ranks: u32| {
        let node = "gpu = \"h100-sxm5\", gpu_memory = \"1 TB\", intra = { kind = \"switch\", bandwidth = \"300 GB/s\" }";
        let model = "model = { catalogue = \"llama3-8b\", precision = \"bf16\", optimizer = \"sgd\", \
                     efficiency = 0.4, memory = { workspace = \"0 B\" } }";
        let keys = format!("{model}\nparallel.context.ranks = {ranks}");
        spread(node, &keys).replace("batch = 240", "batch = 1")
    };
    let report = |ranks| {
        let scenario = written(&job(ranks), &[]);
        summarise(&scenario, &[simulate(&scenario)], 0.0)
    };
    let sent = report(4).jobs[0].parallel.and_then(|of| of.key_value_bytes).expect("known");
    near(sent, 32.0 * 3.0 * 0.75 * 2.0 * 8192.0 * 1024.0 * 2.0, "keys and values");
    let held = |ranks| {
        let scenario = written(&job(ranks), &[]);
        scenario.jobs[0].footprints[0]
    };
    near(held(4).activations * 4.0, held(1).activations, "activations");
    near(held(4).parameters, held(1).parameters, "parameters");
}

#[test]
fn missing_attention_settings_for_context_parallelism_are_requested() {
    let refused = |rest: &str| {
        let text = text(rest);
        let file = ScenarioFile::parse("x.toml", text.clone()).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err(&text).to_string()
    };
    let told = refused("parallel.context.ranks = 2");
    assert!(
        told.contains("write `attentions = 32`") && told.contains("write `keys_values"),
        "{told}"
    );
    let told = refused(&context(17, 1, ""));
    assert!(told.contains("fewer `ranks`"), "{told}");
}
