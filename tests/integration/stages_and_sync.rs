//! Gradients of pipeline stages, exchanged in each way that models without stages support.

use super::pipeline_schedules::{adds_up, spread, waits};
use super::runs::{near, run, step};
use forebay::report::{Cause, JobOutcome};
use forebay::scenario::ScenarioFile;

/// Returns four model copies on nodes of their own, with these keys of the job.
fn copies(job: &str) -> String {
    let node = "scheduling = \"shared\", intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
    let step = "model.step = { per_sample = \"4 ms\" }";
    spread(node, &format!("{step}\n{job}")).replace("batch = 240", "nodes = 4\nbatch = 240")
}

fn of(job: &str) -> JobOutcome {
    let job = run(&copies(job));
    adds_up(&job);
    job
}

/// Keys for a model copy in one stage that takes a batch as one micro-batch.
const ONE_STAGE: &str =
    "\nparallel.pipeline = { stages = 1, schedule = \"gpipe\", micro_batches = 1 }";

#[test]
fn a_pipeline_of_one_stage_and_one_micro_batch_takes_as_long_as_no_pipeline() {
    // System: the same job without stages and as one stage. Expectation: the same steps and stalls, with each
    // gradient exchange.
    let plain = "gradients = \"800 MB\", tensors = 10, algorithm = \"ring\"";
    let ways = [
        "buckets = \"100 MB\"",
        "buckets = \"80 MB\"",
        "fusion = { buffer = \"256 MB\", cycle = \"20 ms\" }",
        "fusion = { buffer = \"1 GB\", cycle = \"150 ms\" }",
        "compression.quantised = { ratio = 0.25, compress = \"20 GB/s\", decompress = \"5 GB/s\" }",
        "compression.sparse = { ratio = 0.05, compress = \"20 GB/s\", decompress = \"5 GB/s\" }",
        "transport.nccl.cpu = { per_message = \"1 ms\", per_byte = \"100 ps\" }",
        "transport.nccl = { per_tensor = \"3 ms\" }",
    ];
    for way in ways {
        for fidelity in ["flow", "analytic"] {
            let sync = format!("sync.allreduce = {{ {plain}, {way}, fidelity = \"{fidelity}\" }}");
            let (whole, stage) = (of(&sync), of(&format!("{sync}{ONE_STAGE}")));
            let what = format!("{way}, {fidelity}");
            near(step(&stage), step(&whole), &what);
            let waited = [&stage, &whole].map(|job| waits(job, Cause::Communication));
            assert!((waited[0] - waited[1]).abs() < 1e-9, "{what}: {waited:?}");
            assert!(step(&whole) > 0.961, "{what}: nothing is exposed");
        }
    }
}

#[test]
fn pipeline_stages_compress_and_decompress_their_own_gradients() {
    // System: two stages of 0.48 s, 800 MB of gradients in one bucket for each stage; each stage compresses its
    // half at 4 GB/s to a quarter and decompresses at 1 GB/s; rings of four. Expectation: each stage compresses
    // 400 MB for 0.1 s within its backward pass, and the first stage's part is exposed: six transfers of 25 MB
    // over 10 GB/s, and 100 MB ÷ 1 GB/s.
    let sync = "sync.allreduce = { gradients = \"800 MB\", buckets = \"all\", algorithm = \"ring\", \
                compression.quantised = { ratio = 0.25, compress = \"4 GB/s\", decompress = \"1 GB/s\" } }";
    let stages = "\nparallel.pipeline = { stages = 2, schedule = \"gpipe\", micro_batches = 1 }";
    let job = of(&format!("{sync}{stages}"));
    near(step(&job), 0.96 + 2.0 * 0.1 + 6.0 * (10e-6 + 2.5e-3) + 0.1, "compressed");
}

#[test]
fn pipeline_stages_fuse_waiting_buckets() {
    // System: two stages, ten tensors of 80 MB; each is an allreduce of its own, or waiting tensors are fused.
    // Expectation: fewer collectives pay less latency.
    let time = |way: &str| {
        let sync = "gradients = \"800 MB\", tensors = 10, algorithm = \"ring\", transport.nccl.latency = \"20 ms\"";
        let stages = "parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 4 }";
        step(&of(&format!("sync.allreduce = {{ {sync}, {way} }}\n{stages}")))
    };
    let alone = time("buckets = \"80 MB\"");
    let fused = time("fusion = { buffer = \"1 GB\", cycle = \"1 ms\" }");
    assert!(fused < alone - 0.1, "{fused} s fused, {alone} s alone");
}

#[test]
fn unsupported_gradient_exchanges_of_stages_are_refused_with_a_reason() {
    let refused = |job: &str| {
        let text = copies(job);
        let file = ScenarioFile::parse("x.toml", text.clone()).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err(&text).to_string()
    };
    let sparse = "sync.allreduce = { gradients = \"800 MB\", compression.sparse.ratio = 0.01 }\n\
                  parallel.zero.stage = 1";
    let told = refused(&format!("{sparse}{ONE_STAGE}"));
    assert!(told.contains("sparse gradients cannot be summed"), "{told}");
    let root = "sync.reduce-broadcast.parameters = \"800 MB\"\nparallel.zero.stage = 1";
    let told = refused(&format!("{root}{ONE_STAGE}"));
    assert!(told.contains("a root updates all parameters"), "{told}");
}
