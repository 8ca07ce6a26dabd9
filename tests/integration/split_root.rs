//! Models that are spread over GPUs and have a root: the first model copy, whose GPUs broadcast and update their parts.

use super::pipeline_schedules::{adds_up, gpipe, mean, spread};
use super::runs::{near, run};
use forebay::report::{Cause, JobOutcome, StallCause};

/// Returns the job of 6 steps with batches of 0.96 s, on `nodes` nodes whose GPUs have ports of 10 GB/s, with the keys `job`.
fn on(nodes: u32, job: &str) -> JobOutcome {
    let node = "scheduling = \"shared\", intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
    let text = spread(node, &format!("model.step = {{ per_sample = \"4 ms\" }}\n{job}"))
        .replace("batch = 240", &format!("nodes = {nodes}\nbatch = 240"))
        .replace("steps = 4", "steps = 6");
    let job = run(&text);
    adds_up(&job);
    job
}

fn root(rest: &str) -> String {
    format!("sync.reduce-broadcast = {{ parameters = \"800 MB\"{rest} }}\n")
}

#[test]
fn one_stage_has_a_root_as_a_model_without_stages_does() {
    // System: the same job without stages and as one stage. Expectation: the same steps.
    let layers = ", buffers = \"per-layer\", tensors = 8";
    for (job, rest) in [
        ("", String::new()),
        ("", ", update = \"30 ms\"".to_owned()),
        ("", ", broadcast = \"flat\", reduce = \"binomial-tree\"".to_owned()),
        ("", layers.to_owned()),
        ("", format!("{layers}, overlap = false, update = \"30 ms\"")),
        ("accumulation = 2\n", layers.to_owned()),
        ("accumulation = 3\n", ", update = \"30 ms\"".to_owned()),
        ("parallel.data.learners = 2\nmodel.occupancy = 0.4\n", layers.to_owned()),
        ("", format!("{layers}, transport.nccl = {{ per_tensor = \"1 ms\" }}")),
    ] {
        let keys = format!("{job}{}", root(&rest));
        let (whole, stage) = (on(4, &keys), on(4, &format!("{keys}{}", gpipe(1, 1))));
        for (one, other) in stage.steps.iter().zip(&whole.steps) {
            near(one.end, other.end, &keys);
        }
        assert!(mean(&whole) > 0.97, "{keys}: nothing is exposed");
    }
}

#[test]
fn each_stage_has_a_root_of_its_own() {
    // System: two model copies of two stages on nodes of their own, 800 MB of parameters, an update of 60 ms, all packed.
    // Expectation: both stages' broadcasts share the NICs before the step, for 80 ms; the last stage's reduction is hidden
    // behind the first stage's backward pass; the first stage's takes 40 ms, and its update half of 60 ms.
    let sync = root(", broadcast = \"flat\", reduce = \"flat\", update = \"60 ms\"");
    let job = on(2, &format!("{sync}{}", gpipe(2, 1)));
    let (broadcast, reduction) = (10e-6 + 800e6 / 10e9, 10e-6 + 400e6 / 10e9);
    near(mean(&job), broadcast + 0.96 + reduction + 0.03, "a step");
    // The other model copy waits while the root updates.
    let waits = job.stalls.iter().filter(|of| of.cause == StallCause::peer(Cause::Compute));
    assert!(waits.map(|of| of.seconds).sum::<f64>() > 0.0);
}

#[test]
fn forward_waits_only_for_the_layers_that_it_has_reached() {
    // System: two model copies in one stage of four micro-batches; eight layers, which are broadcast one after the other.
    // Expectation: with overlap, the first forward pass hides most of the broadcasts.
    let of = |overlap: bool| {
        let layers = format!(", buffers = \"per-layer\", tensors = 8, overlap = {overlap}");
        mean(&on(2, &format!("{}{}", root(&layers), gpipe(1, 4))))
    };
    assert!(of(true) < of(false) - 0.03, "{} {}", of(true), of(false));
}

#[test]
fn every_split_has_a_root_for_each_part_of_the_model() {
    // System: layers, sequences, experts or stages split over GPUs, and learners. Expectation: steps take longer than without
    // an exchange, and as many bytes are sent however the reductions are done.
    let splits = [
        "parallel.tensor = { ranks = 2, allreduces = 2, activations = \"0 B\" }\n".to_owned(),
        "parallel.context = { ranks = 2, attentions = 1, keys_values = \"0 B\" }\n".to_owned(),
        "parallel.expert = { ranks = 2, layers = 1, dispatched = \"1 B\", parameters = 0.5, time = 0.5 }\n".to_owned(),
        format!("parallel.data.learners = 2\nmodel.occupancy = 0.5\n{}", gpipe(2, 2)),
    ];
    for split in splits {
        let with = on(4, &format!("{}{split}", root(", update = \"10 ms\"")));
        let without = on(4, &split);
        assert!(mean(&with) > mean(&without) + 0.05, "{split}");
        let flat = on(4, &format!("{}{split}", root(", broadcast = \"flat\", reduce = \"flat\"")));
        let sent = |job: &JobOutcome| job.parallel.expect("spread").gradients;
        near(sent(&with), sent(&flat), &split);
    }
}
