//! Models split over GPUs: tensor parallelism, ZeRO, pipelines, and their combinations.

use super::pipeline_schedules::{adds_up, spread, waits};
use super::runs::{near, run, simulate, step, written};
use forebay::report::{Cause, JobOutcome, ParallelReport, summarise};
use forebay::scenario::ScenarioFile;
use forebay::sim::Options;

/// Links between the GPUs of a node with ports of 10 GB/s.
const SWITCH: &str = "intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
/// Steps of 1 s.
const STEP: &str = "model.step = { per_sample = \"4166666667 ps\" }";
/// The exact step time [s].
const SECOND: f64 = 240.0 * 4_166_666_667e-12;

fn text(rest: &str) -> String {
    spread(SWITCH, &format!("{STEP}\n{rest}"))
}

fn on_nodes(nodes: u32, rest: &str) -> String {
    text(rest).replace("batch = 240", &format!("nodes = {nodes}\nbatch = 240"))
}

fn of(text: &str) -> JobOutcome {
    let job = run(text);
    adds_up(&job);
    job
}

fn told(text: &str) -> ParallelReport {
    let scenario = written(text, &[]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    report.jobs[0].parallel.expect("spread over GPUs")
}

fn refused(text: &str) -> String {
    let file = ScenarioFile::parse("x.toml", text.to_owned()).and_then(|file| file.resolve(&[]));
    file.map(|_| ()).expect_err(text).to_string()
}

#[test]
fn tensor_parallel_step_time_is_compute_over_ranks_plus_activation_allreduces() {
    // System: t ranks, 8 allreduces in forward and 8 in backward of 240 × 1 MB around rings. Expectation:
    // compute takes a t-th of the second, plus 16 times 2 (t − 1) phases of the latency and a t-th of the
    // bytes.
    let tensor = |ranks: u32, rest: &str| {
        text(&format!(
            "parallel.tensor = {{ ranks = {ranks}, allreduces = 8, activations = \"1 MB\", \
             algorithm = \"ring\" {rest} }}"
        ))
    };
    for ranks in [1, 2, 4, 8] {
        let t = f64::from(ranks);
        let sum = 2.0 * (t - 1.0) * (50e-6 + 240e6 / t / 10e9);
        let expected = SECOND / t + 16.0 * sum;
        for fidelity in ["flow", "analytic"] {
            let job = of(&tensor(ranks, &format!(", fidelity = \"{fidelity}\"")));
            near(step(&job), expected, &format!("{ranks} ranks, {fidelity}"));
            let waited = waits(&job, Cause::Communication) * step(&job);
            assert!((waited - 16.0 * sum).abs() < 1e-6, "{ranks}: {waited}");
        }
        let sent = told(&tensor(ranks, "")).sum_bytes.expect("known");
        assert!((sent - 16.0 * 2.0 * (t - 1.0) / t * 240e6).abs() < 1.0, "{ranks}: {sent}");
    }
    // Micro-batches send the same bytes in more allreduces.
    let micro = tensor(4, "")
        + "parallel.pipeline = { stages = 1, schedule = \"gpipe\", micro_batches = 10 }\n";
    let sum = 2.0 * 3.0 * (50e-6 + 24e6 / 4.0 / 10e9);
    near(step(&of(&micro)), SECOND / 4.0 + 160.0 * sum, "ten micro-batches");
}

#[test]
fn step_time_grows_with_the_number_and_size_of_tensor_parallel_allreduces() {
    let time = |keys: &str| step(&of(&text(&format!("parallel.tensor = {{ ranks = 8, {keys} }}"))));
    let usual = time("allreduces = 8, activations = \"1 MB\", algorithm = \"ring\"");
    assert!(time("allreduces = 16, activations = \"1 MB\", algorithm = \"ring\"") > usual + 0.1);
    assert!(time("allreduces = 8, activations = \"2 MB\", algorithm = \"ring\"") > usual + 0.1);
    assert!(time("allreduces = 8, activations = \"1 MB\", algorithm = \"flat\"") > usual + 0.1);
    let auto = time("allreduces = 8, activations = \"1 MB\"");
    assert!(auto < 1.5 * usual, "NCCL chooses what is near the best: {auto}, {usual}");
}

#[test]
fn tensor_parallel_allreduce_bytes_follow_from_the_catalogue_transformer() {
    // System: GPT-2, twelve blocks of 768 values, 1024 tokens, 24 sequences; Llama with gated layers, and
    // Mixtral with experts. Expectation: two allreduces in each block, in forward and in backward, of all
    // hidden values; stages send the same values to the next stage.
    let of = |name: &str, keys: &str, rest: &str| {
        let model = format!("model = {{ catalogue = \"{name}\", step = \"1 s\"{keys} }}");
        let text = spread(SWITCH, &format!("{model}\n{rest}"));
        told(&text.replace("batch = 240", "batch = 24"))
    };
    let split = "parallel.tensor.ranks = 4";
    let stages = "parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 4 }";
    for (name, blocks, tokens, values) in [
        ("gpt2", 12.0, 1024.0, 768.0),
        ("llama3-8b", 32.0, 8192.0, 4096.0),
        ("mixtral-8x7b", 32.0, 32_768.0, 4096.0),
    ] {
        let hidden = 24.0 * tokens * values * 4.0;
        let sums = 4.0 * blocks * 2.0 * 0.75 * hidden;
        near(of(name, "", split).sum_bytes.expect("known"), sums, name);
        let mixed = of(name, ", precision = \"bf16\"", split);
        near(mixed.sum_bytes.expect("known"), sums / 2.0, "16 bits");
        let staged = of(name, "", stages);
        near(staged.activation_bytes.expect("known"), hidden, "there and back, over two GPUs");
    }
}

#[test]
fn one_pipeline_stage_exposes_as_much_communication_as_an_unsplit_model() {
    // System: four nodes reduce 1 GB of gradients, in buckets during backward. Expectation: equal step times
    // and exposed communication, whether a step is simulated as a whole, or as one stage of one micro-batch.
    for sync in [
        "buckets = \"250 MB\"",
        "buckets = \"100 MB\", overlap = false",
        "algorithm = \"halving-doubling\"",
    ] {
        let sync = format!("sync.allreduce = {{ gradients = \"1 GB\", tensors = 20, {sync} }}");
        let whole = of(&on_nodes(4, &sync));
        let one = "parallel.pipeline = { stages = 1, schedule = \"1f1b\", micro_batches = 1 }";
        let parts = of(&on_nodes(4, &format!("{sync}\n{one}")));
        near(step(&parts), step(&whole), &sync);
        let [found, expected] = [&parts, &whole].map(|job| waits(job, Cause::Communication));
        assert!((found - expected).abs() < 1e-6, "{sync}: {found}, not {expected}");
    }
}

#[test]
fn each_stage_reduces_its_own_gradients() {
    // System: two stages, one micro-batch, model copies on two nodes, 1 GB of gradients over NICs of 10 GB/s
    // and 10 µs. Expectation: the last stage's half is reduced while the first stage computes; the first
    // stage's half takes 2 × (10 µs + 25 ms).
    let pipeline = "parallel.pipeline = { stages = 2, schedule = \"gpipe\", micro_batches = 1 }";
    let sync = "sync.allreduce = { gradients = \"1 GB\", algorithm = \"ring\" }";
    let job = of(&on_nodes(2, &format!("{pipeline}\n{sync}")));
    near(step(&job), SECOND + 2.0 * (10e-6 + 0.025), "half of them exposed");
    let bubbles = (SECOND - 2.0 * (10e-6 + 0.025)) / 2.0;
    near(waits(&job, Cause::Bubble) * step(&job), bubbles, "the first half is hidden in a bubble");
    let told = told(&on_nodes(2, &format!("{pipeline}\n{sync}")));
    near(told.gradient_bytes.expect("known"), 0.5e9, "a stage's on each of two ranks");
}

#[test]
fn bytes_sent_at_zero_optimizer_stages_1_to_3_match_published_volumes() {
    // System: four nodes, 1 GB of gradients in one bucket after backward, over a ring. Expectation: at ZeRO
    // stages 1 and 2 the time of an allreduce; at stage 3 half as much again, because parameters are gathered
    // twice (Rajbhandari et al., 7).
    let sync = "sync.allreduce = { gradients = \"1 GB\", algorithm = \"ring\" }";
    let of = |zero: &str| of(&on_nodes(4, &format!("{sync}\n{zero}")));
    let half = 3.0 * (10e-6 + 0.025);
    let plain = "parallel.pipeline = { stages = 1, schedule = \"1f1b\", micro_batches = 1 }";
    near(step(&of(plain)), SECOND + 2.0 * half, "allreduce");
    for (stage, halves) in [(1, 2.0), (2, 2.0), (3, 3.0)] {
        let zero = format!("parallel.zero.stage = {stage}");
        let job = of(&zero);
        near(step(&job), SECOND + halves * half, &zero);
        let sent = told(&on_nodes(4, &format!("{sync}\n{zero}"))).gradient_bytes.expect("known");
        near(sent, halves * 0.75e9, &zero);
    }
    // In buckets most of this time is hidden.
    let buckets = sync.replace("\"1 GB\"", "\"1 GB\", tensors = 20, buckets = \"50 MB\"");
    let hidden = step(&run(&on_nodes(4, &format!("{buckets}\nparallel.zero.stage = 3"))));
    assert!(hidden < SECOND + 0.5 * half && hidden > SECOND, "{hidden}");
}

#[test]
fn bytes_sent_at_zero_optimizer_stages_in_a_pipeline_match_published_volumes() {
    // System: four nodes, each a model copy of two stages and two micro-batches; 1 GB of gradients, half of
    // them in each stage, over rings of NICs. Expectation (Rajbhandari et al., sections 5 and 7): a
    // reduce-scatter of gradients once a step at ZeRO stage 1 and for each micro-batch from stage 2 on;
    // parameters gathered once a step, at stage 3 for each of four passes.
    let pipeline = "parallel.pipeline = { stages = 2, schedule = \"gpipe\", micro_batches = 2 }";
    let sync = "sync.allreduce = { gradients = \"1 GB\", algorithm = \"ring\" }";
    let with =
        |stage: u32| on_nodes(4, &format!("{pipeline}\n{sync}\nparallel.zero.stage = {stage}"));
    // A rank sends three quarters of its stage's 0.5 GB in each half of an allreduce.
    for (stage, halves) in [(1, 2.0), (2, 3.0), (3, 6.0)] {
        let sent = told(&with(stage)).gradient_bytes.expect("known");
        near(sent, halves * 0.375e9, &format!("ZeRO {stage}"));
    }
    // Three quarters of a second of passes; then the first stage's last reduce-scatter and its gather, 3 × (10
    // µs + 12.5 ms) each. Earlier reduce-scatters are hidden by backward passes; gathers for each pass are not.
    let steps = [1, 2, 3].map(|stage| step(&of(&with(stage))));
    let half = 3.0 * (10e-6 + 0.0125);
    near(steps[0], 0.75 * SECOND + 2.0 * half, "ZeRO 1");
    near(steps[1], steps[0], "ZeRO 2");
    assert!(steps[2] > steps[1] + half, "{steps:?}");
}

#[test]
fn zero_optimizer_stages_1_to_3_divide_model_states_in_memory_over_ranks() {
    // System: GPT-2 XL in mixed precision with Adam on four ranks. Expectation: 4, 2 and 12 bytes for each
    // parameter, of which each further ZeRO stage divides one more by four.
    let of = |stage: u32| {
        let zero = if stage > 0 {
            format!("parallel.zero.stage = {stage}\nsync.allreduce = {{}}")
        } else {
            String::new()
        };
        let model = "model = { catalogue = \"gpt2-xl\", step = \"1 s\", precision = \"fp16\", optimizer = \"adam\" }";
        let text = spread(SWITCH, &format!("parallel.data.copies_per_node = 4\n{model}\n{zero}"));
        let held = written(&text, &[]).jobs[0].footprint().expect("known");
        [held.parameters, held.gradients, held.optimizer].map(|bytes| bytes / 1_557_611_200.0)
    };
    assert_eq!(of(0), [2.0, 2.0, 12.0]);
    assert_eq!(of(1), [2.0, 2.0, 3.0]);
    assert_eq!(of(2), [2.0, 0.5, 3.0]);
    assert_eq!(of(3), [0.5, 0.5, 3.0]);
}

#[test]
fn combined_data_tensor_and_pipeline_parallelism_has_the_expected_step_time() {
    // System: two model copies of two stages of two ranks on one node, one micro-batch. Expectation: each stage
    // computes a quarter of the second, half a second in total; eight allreduces of 2.4 GB in two phases of 120
    // ms; activations of 1 GB to the next stage (100 ms) and, sharing the ports with the last stage's
    // gradients, back: 200 MB more; then the first stage's gradients, two phases of 10 ms; latencies of 50 µs.
    let all = |fidelity: &str| {
        format!(
            "parallel.data.copies_per_node = 2\n\
             parallel.tensor = {{ ranks = 2, allreduces = 4, activations = \"10 MB\", algorithm = \"ring\", \
             fidelity = \"{fidelity}\" }}\n\
             parallel.pipeline = {{ stages = 2, schedule = \"1f1b\", micro_batches = 1, activations = \"1 GB\" }}\n\
             sync.allreduce = {{ gradients = \"800 MB\", algorithm = \"ring\" }}"
        )
    };
    let expected = SECOND / 2.0 + 8.0 * 2.0 * (0.12 + 50e-6) + 0.1 + 0.12 + 0.02 + 4.0 * 50e-6;
    for fidelity in ["flow", "analytic"] {
        let job = of(&text(&all(fidelity)));
        near(step(&job), expected, fidelity);
        assert_eq!(job.steps[0].samples, 480);
    }
    let told = told(&text(&all("flow")));
    assert_eq!((told.data, told.pipeline, told.tensor, told.gpus), (2, 2, 2, 4));
}

#[test]
fn tensor_parallel_ranks_are_placed_on_the_same_node() {
    // System: a model copy of four stages of four ranks over two nodes. Expectation: tensor allreduces stay
    // inside nodes, and only activations between the second and the third stage use NICs.
    let rest = "parallel.tensor = { ranks = 4, allreduces = 16, activations = \"1 MB\" }\n\
                parallel.pipeline = { stages = 4, stages_per_node = 2, schedule = \"1f1b\", micro_batches = 8, \
                activations = \"80 MB\" }";
    let scenario = written(&on_nodes(2, rest), &[]);
    let outcome = simulate(&scenario);
    let nic = outcome.resources.iter().find(|resource| resource.name == "node.nic").expect("a NIC");
    // 80 MB of four ranks into each node in each step: forward into one, backward into the other.
    near(nic.utilisation * step(&outcome.jobs[0]), 4.0 * 80e6 / 10e9, "NIC");
    let whole = rest.replace("stages_per_node = 2, ", "");
    let one = simulate(&written(&text(&whole), &[]));
    assert!(
        one.resources
            .iter()
            .all(|resource| !resource.name.contains("nic") || resource.utilisation == 0.0)
    );
}

#[test]
fn the_value_gpus_of_copies_per_node_fills_all_gpus_with_model_copies() {
    // System: nodes of sixteen GPUs, model copies of two stages of four ranks. Expectation: two model copies on
    // each node.
    let rest = "parallel.data.copies_per_node = \"gpus\"\n\
                parallel.tensor = { ranks = 4, allreduces = 4, activations = \"1 MB\" }\n\
                parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 4 }";
    let told = told(&on_nodes(3, rest));
    assert_eq!((told.data, told.gpus), (6, 8));
}

#[test]
fn timelines_of_split_models_show_passes_and_waits() {
    let rest = "parallel.tensor = { ranks = 2, allreduces = 4, activations = \"1 MB\" }\n\
                parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 4 }";
    let options = Options { trace: true, ..Options::default() };
    let outcome = forebay::sim::run(&written(&text(rest), &[]), 0, &options);
    let trace = outcome.trace.expect("it was asked for");
    let shown = format!("{trace:?}");
    for name in ["forward", "backward", "bubble", "communication"] {
        assert!(shown.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn invalid_splits_of_models_are_refused_with_a_remedy() {
    let tensor = "parallel.tensor = { ranks = 2, allreduces = 4, activations = \"1 MB\" }";
    let two = "parallel.data.copies_per_node = 2\n";
    for (rest, what) in [
        ("parallel.tensor.ranks = 2".to_owned(), "`allreduces = 96`: two for each block"),
        (format!("{tensor}\nparallel.pipeline.stages = 2"), "write `schedule = \"1f1b\"`"),
        (
            "parallel.tensor = { ranks = 17, allreduces = 1, activations = \"1 B\" }".to_owned(),
            "fewer `ranks`",
        ),
        (format!("{two}parallel.zero.stage = 1"), "write `sync.allreduce = {}`"),
        (
            format!("{two}sync.reduce-broadcast.parameters = \"1 GB\"\nparallel.zero.stage = 1"),
            "a root updates all parameters",
        ),
        (
            "parallel.zero.stage = 1\nparallel.data = { copies_per_node = 2, learners = 2 }"
                .to_owned(),
            "each learner needs a whole model",
        ),
        (
            format!("{tensor}\nmodel.device = {{ cpu = {{}} }}"),
            "split over accelerators, not over cores",
        ),
    ] {
        let found = refused(&text(&rest));
        assert!(found.contains(what), "{rest}: {found}");
    }
    let alone = text("parallel.zero.stage = 2");
    let remarks = written(&alone, &[]).remarks.join("\n");
    assert!(remarks.contains("`parallel.zero` has no effect"), "{remarks}");
}

#[test]
fn tensor_parallel_ranks_on_several_nodes_allreduce_over_nics() {
    // System: four ranks on two nodes, with NICs of 1 GB/s; 8 allreduces in forward and 8 in backward of 240 MB
    // around a ring. Expectation: the slowest link of the ring determines the time, 6 phases of 10 µs and 60 MB
    // over a NIC for each allreduce.
    let tensor = |each: u32, rest: &str| {
        let keys = format!(
            "parallel.tensor = {{ ranks = 4, ranks_per_node = {each}, allreduces = 8, activations = \"1 MB\", \
             algorithm = \"ring\", fidelity = \"flow\" }}\n{rest}"
        );
        on_nodes(4 / each, &keys).replace("nic = \"10 GB/s\"", "nic = \"1 GB/s\"")
    };
    let sum = |latency: f64, rate: f64| 6.0 * (latency + 60e6 / rate);
    near(step(&of(&tensor(2, ""))), SECOND / 4.0 + 16.0 * sum(10e-6, 1e9), "two nodes");
    near(step(&of(&tensor(1, ""))), SECOND / 4.0 + 16.0 * sum(10e-6, 1e9), "four nodes");
    near(step(&of(&tensor(4, ""))), SECOND / 4.0 + 16.0 * sum(50e-6, 10e9), "one node");
    let told = told(&tensor(2, ""));
    assert_eq!((told.data, told.tensor, told.gpus), (1, 4, 4));
    // Stages and model copies are placed after these ranks: two stages of four ranks on two nodes each, two
    // model copies.
    let rest = "parallel.pipeline = { stages = 2, schedule = \"gpipe\", micro_batches = 1 }\n\
                sync.allreduce = { gradients = \"800 MB\", buckets = \"all\", algorithm = \"ring\" }";
    let both = tensor(2, rest).replace("nodes = 2\nbatch", "nodes = 8\nbatch");
    // The first stage's gradients follow all other work: each GPU has an eighth of them, two GPUs of each node
    // share its NIC.
    let gradients = 2.0 * (10e-6 + 100e6 / 2.0 / 0.5e9);
    near(step(&of(&both)), SECOND / 4.0 + 16.0 * sum(10e-6, 1e9) + gradients, "copies of stages");
}

#[test]
fn tensor_parallel_ranks_that_do_not_fill_nodes_are_refused() {
    let tensor = |keys: &str, rest: &str| {
        on_nodes(
            2,
            &format!(
                "parallel.tensor = {{ ranks = 4, allreduces = 8, activations = \"1 MB\", {keys} }}\n{rest}"
            ),
        )
    };
    let told = refused(&tensor("ranks_per_node = 3", ""));
    assert!(told.contains("write a `ranks_per_node` that divides `ranks`"), "{told}");
    let stages = "parallel.pipeline = { stages = 2, schedule = \"gpipe\", micro_batches = 1, stages_per_node = 1 }";
    let told = refused(&tensor("ranks_per_node = 2", stages));
    assert!(told.contains("leave out `stages_per_node`, or `ranks_per_node`"), "{told}");
}
