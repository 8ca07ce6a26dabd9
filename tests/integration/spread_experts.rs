//! Expert parallelism: experts of a mixture split over model copies, and tokens sent to the ranks of their
//! experts.

use super::pipeline_schedules::{spread, waits};
use super::runs::{near, simulate, step, written};
use super::split_sequences::{of, text, told};
use forebay::report::{Cause, summarise};
use forebay::scenario::ScenarioFile;

/// Returns keys for `copies` model copies, `ranks` of which together hold all experts: eight expert layers with
/// half of the compute and three quarters of the parameters; each layer dispatches `kilobytes` kB for each of
/// 240 samples.
fn experts((copies, ranks): (u32, u32), kilobytes: u32, rest: &str) -> String {
    format!(
        "parallel.data.copies_per_node = {copies}\nparallel.expert = {{ ranks = {ranks}, layers = 8, \
         dispatched = \"{kilobytes} kB\", parameters = 0.75, time = 0.5, algorithm = \"flat\" {rest} }}\n"
    )
}

/// Returns the time of an all-to-all of n ranks with `bytes` bytes each, sent to one rank after the other [s].
fn all_to_all(n: f64, bytes: f64) -> f64 {
    (n - 1.0) * (50e-6 + bytes / n / 10e9)
}

/// Returns the time of an allreduce of `bytes` bytes around a ring of n [s].
fn ring(n: f64, bytes: f64) -> f64 {
    2.0 * (n - 1.0) * (50e-6 + bytes / n / 10e9)
}

#[test]
fn each_expert_layer_waits_for_its_busiest_rank_and_four_all_to_alls() {
    // System: e model copies that share experts, with equal loads, with x times the mean load on the busiest
    // rank, or with a capacity of x times the mean that is filled up. Expectation: in each layer all ranks wait
    // for the busiest, forward and backward, and for all-to-alls of its number of tokens: s · (1/2 + x/2) + 4 ·
    // 8 all-to-alls of x times the bytes.
    for (copies, ranks, kilobytes) in [(2, 2, 100), (4, 4, 1000), (8, 4, 100), (2, 1, 100)] {
        for (load, x) in [("", 1.0), (", imbalance = 1.5", 1.5), (", capacity_factor = 2", 2.0)] {
            if ranks == 1 && x == 1.5 {
                continue;
            }
            for fidelity in [", fidelity = \"flow\"", ", fidelity = \"analytic\""] {
                let what = format!("{ranks} of {copies} ranks, {kilobytes} kB{load}{fidelity}");
                let job = of(&experts((copies, ranks), kilobytes, &format!("{load}{fidelity}")));
                let e = f64::from(ranks);
                let tokens =
                    if ranks == 1 { 0.0 } else { all_to_all(e, x * 240e3 * f64::from(kilobytes)) };
                near(step(&job), 0.96 * (0.5 + 0.5 * x) + 32.0 * tokens, &what);
                // A rank with fewer tokens also waits for ranks with more.
                let waited = waits(&job, Cause::Communication) * step(&job);
                assert!((waited - 32.0 * tokens).abs() < 1e-6, "{what}: waited {waited}");
            }
            let sent = told(&experts((copies, ranks), kilobytes, load)).token_bytes.expect("known");
            let mean = if load.contains("capacity") { x } else { 1.0 };
            let e = f64::from(ranks);
            let expected = 32.0 * mean * (e - 1.0) / e * 240e3 * f64::from(kilobytes);
            assert!((sent - expected).abs() < 32.0 * 8.0, "{ranks}{load}: {sent}, not {expected}");
        }
    }
}

#[test]
fn gradients_of_experts_are_reduced_among_their_replicas() {
    // System: 400 MB of gradients on d model copies, 300 MB of which belong to experts, which e copies hold
    // together. Expectation: all d copies allreduce 100 MB; each copy allreduces its 300 MB ÷ e of experts with
    // the d ÷ e copies that hold the same experts.
    let sync = "sync.allreduce = { gradients = \"400 MB\", buckets = \"all\", algorithm = \"ring\", \
                fidelity = \"analytic\" }\n";
    for (copies, ranks) in [(4, 4), (4, 2), (8, 2), (8, 8)] {
        let (d, e) = (f64::from(copies), f64::from(ranks));
        let job = of(&format!("{}{sync}", experts((copies, ranks), 0, "")));
        let (dense, own) = (ring(d, 100e6), ring(d / e, 300e6 / e));
        let expected = 0.96 + f64::max(dense, own);
        near(step(&job), expected, &format!("{ranks} of {copies}"));
        // ZeRO shards dense parameters and experts each over the ranks that hold them.
        for (zero, gathers) in [(1, 1.0), (2, 1.0), (3, 2.0)] {
            let rest = format!("{sync}parallel.zero.stage = {zero}\n");
            let told = told(&format!("{}{rest}", experts((copies, ranks), 0, "")));
            let half = |n: f64, bytes: f64| (n - 1.0) / n * bytes;
            let each = half(d, 100e6) + half(d / e, 300e6 / e);
            let what = format!("{ranks} of {copies}, stage {zero}");
            near(told.gradient_bytes.expect("known"), (1.0 + gathers) * each, &what);
        }
    }
}

#[test]
fn each_tensor_and_context_rank_dispatches_its_share_of_expert_tokens() {
    // System: two stages, layers split over 2 ranks, sequences over 2, experts over 2 model copies.
    // Expectation: 8 GPUs in each copy; for each layer, each GPU of its stage dispatches a quarter of the
    // tokens.
    let rest = "parallel.tensor = { ranks = 2, allreduces = 0, activations = \"1 kB\" }\n\
                parallel.context = { ranks = 2, attentions = 0, keys_values = \"1 kB\" }\n\
                parallel.pipeline = { stages = 2, schedule = \"SCHEDULE\", micro_batches = 4 CHUNKS }\n";
    for (schedule, chunks) in [("1f1b", ""), ("interleaved-1f1b", ", chunks = 2"), ("zb-h1", "")] {
        let rest = rest.replace("SCHEDULE", schedule).replace("CHUNKS", chunks);
        let told = told(&format!("{}{rest}", experts((2, 2), 100, "")));
        assert_eq!((told.data, told.expert, told.gpus), (2, 2, 8), "{schedule}");
        let sent = 32.0 / 2.0 * 0.5 * 240.0 * 100e3 / 4.0;
        near(told.token_bytes.expect("known"), sent, schedule);
        let balanced = step(&of(&format!("{}{rest}", experts((2, 2), 1, ""))));
        let busiest = step(&of(&format!("{}{rest}", experts((2, 2), 1, ", imbalance = 2"))));
        // A stage's expert half takes twice as long on the busiest rank.
        assert!(busiest > 1.3 * balanced && busiest < 1.5 * balanced, "{schedule}: {busiest}");
    }
}

#[test]
fn a_catalogue_mixture_of_experts_model_provides_expert_settings() {
    // System: Mixtral 8x7B, 32,768 tokens of 4,096 values in 16 bits, each sent to 2 of 8 experts in 32 blocks;
    // 45.1 of its 46.7 G parameters belong to experts. Expectation: 2 · 32,768 · 4,096 · 2 B in each of 4 · 32
    // all-to-alls; each of 8 model copies holds an eighth of the experts.
    let job = |ranks: u32, rest: &str| {
        let node = "gpu = \"h100-sxm5\", gpu_memory = \"2 TB\", intra = { kind = \"switch\", bandwidth = \"300 GB/s\" }";
        let model = "model = { catalogue = \"mixtral-8x7b\", precision = \"bf16\", optimizer = \"adam\", \
                     efficiency = 0.4, memory = { workspace = \"0 B\" } }\nparallel.data.copies_per_node = 8";
        let keys = format!("{model}\nparallel.expert.ranks = {ranks}\n{rest}");
        spread(node, &keys).replace("batch = 240", "batch = 1")
    };
    let of = |ranks| {
        let scenario = written(&job(ranks, ""), &[]);
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        (scenario.jobs[0].footprints[0], report.jobs[0].parallel.expect("spread"))
    };
    let (held, told) = of(8);
    let tokens = 2.0 * 32_768.0 * 4096.0 * 2.0;
    near(told.token_bytes.expect("known"), 4.0 * 32.0 * 7.0 / 8.0 * tokens, "tokens");
    let (all, experts) = (46_702_792_704.0, 32.0 * 8.0 * 3.0 * 4096.0 * 14_336.0);
    near(held.parameters, 2.0 * (all - experts + experts / 8.0), "parameters");
    near(of(1).0.parameters, 2.0 * all, "parameters of one");
    let refused = |text: &str| {
        let file = ScenarioFile::parse("x.toml", text.to_owned());
        file.and_then(|file| file.resolve(&[])).map(|_| ()).expect_err(text).to_string()
    };
    let message = refused(&job(3, ""));
    assert!(message.contains("8 experts cannot be divided equally among 3 ranks"), "{message}");
}

#[test]
fn checkpoints_contain_every_expert_once() {
    // System: four nodes of two model copies each, experts over four copies: 1 GB, of which experts are three
    // quarters. Expectation: the first node writes all of the shared part; the first two nodes write half of
    // the experts each. With `writers = "each"`, all nodes write equal parts.
    let parts = |writers: &str| {
        let rest = format!(
            "{}checkpoint = {{ steps = 2, bytes = \"1 GB\", storage = \"memory\", writers = \"{writers}\" }}",
            experts((2, 4), 0, "")
        );
        let text = text(&rest).replace("batch = 240", "batch = 240\nnodes = 4");
        let scenario = written(&text, &[]);
        let job = &scenario.jobs[0];
        let mut nodes = vec![0.0; 4];
        for part in job.parts_written(job.checkpoint.as_ref().expect("written")) {
            nodes[part.node as usize] += part.bytes;
        }
        nodes
    };
    for (found, expected) in
        [(parts("first"), [0.25e9 + 0.375e9, 0.375e9, 0.0, 0.0]), (parts("each"), [0.25e9; 4])]
    {
        assert_eq!(found.len(), 4);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1.0, "{found}, not {expected}");
        }
    }
}

#[test]
fn missing_expert_settings_are_requested_and_invalid_settings_refused() {
    let refused = |rest: &str| {
        let text = text(rest);
        let file = ScenarioFile::parse("x.toml", text.clone()).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err(&text).to_string()
    };
    let told = refused("parallel.expert.ranks = 2");
    for key in ["layers", "dispatched", "parameters", "time"] {
        assert!(told.contains(&format!("write `{key} =")), "{key}: {told}");
    }
    let told = refused(&experts((3, 2), 1, ""));
    assert!(told.contains("3 model copies cannot be divided into groups of 2"), "{told}");
    let uneven = text(&experts((3, 2), 1, "")).replace("batch = 240", "batch = 240\nnodes = 2");
    let told = ScenarioFile::parse("x.toml", uneven).and_then(|file| file.resolve(&[]));
    let told = told.map(|_| ()).expect_err("two groups on a node, one on two").to_string();
    assert!(told.contains("on different numbers of nodes"), "{told}");
    // Far more GPUs than can be numbered.
    let told = refused(&format!(
        "{}parallel.tensor = {{ ranks = 1000, allreduces = 1, activations = \"1 kB\" }}\n\
         parallel.pipeline = {{ stages = 1000, schedule = \"1f1b\", micro_batches = 4 }}",
        experts((2, 10_000), 1, "")
    ));
    assert!(told.contains("GPUs"), "{told}");
    let told = refused(&experts((2, 2), 1, ", imbalance = 2.5"));
    assert!(told.contains("write a number from 1 to `ranks`"), "{told}");
    let told = refused(&experts((2, 2), 1, ", capacity_factor = 0.5"));
    assert!(told.contains("write 1 or more"), "{told}");
    let told = refused(&experts((2, 2), 1, "").replace("flat", "ring"));
    assert!(told.contains("all-to-all"), "{told}");
}
