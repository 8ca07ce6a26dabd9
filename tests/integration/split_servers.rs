//! Models that are spread over GPUs and exchange gradients or parameters with parameter servers.

use super::pipeline_schedules::{adds_up, gpipe, mean, spread};
use super::runs::{near, run, simulate, written};
use forebay::report::JobOutcome;

/// Returns a job of 12 steps with batches of 0.96 s on four nodes, whose GPUs have ports of 10 GB/s, with the keys `job`.
fn text(job: &str) -> String {
    let node = "scheduling = \"shared\", pcie = \"10 GB/s\", intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
    let step = if job.contains("jitter") { "" } else { "model.step = { per_sample = \"4 ms\" }\n" };
    spread(node, &format!("{step}{job}"))
        .replace("batch = 240", "nodes = 4\nbatch = 240")
        .replace("steps = 4", "steps = 12")
        .replace(
            "[storage.memory.memory]",
            "[storage]\nmemory.memory = {}\ndisk.file-server.bandwidth = \"10 GB/s\"",
        )
}

fn of(job: &str) -> JobOutcome {
    let job = run(&text(job));
    adds_up(&job);
    job
}

fn servers(rest: &str) -> String {
    format!("sync.parameter-server = {{ parameters = \"800 MB\"{rest} }}\n")
}

#[test]
fn one_stage_exchanges_with_servers_as_a_model_without_stages_does() {
    // System: the same job without stages and as one stage. Expectation: the same steps and the same bytes and updates.
    let jitter = "model = { step = \"960 ms\", jitter = { gamma = { cv = 0.3 } } }\n";
    let ways = [
        ("", servers("")),
        ("", servers(", servers = 3, tensors = 10, buckets = \"100 MB\"")),
        (
            "",
            servers(
                ", servers = 2, tensors = 10, buckets = \"100 MB\", server = { split = \"buckets\", update = \"2 GB/s\" }",
            ),
        ),
        ("", servers(", servers = 2, server.placement = \"with-workers\"")),
        (
            "",
            servers(
                ", transport.nccl = { per_tensor = \"3 ms\", cpu.per_message = \"1 ms\" }, tensors = 4, buckets = \"200 MB\"",
            ),
        ),
        ("", servers(", compression.quantised = { ratio = 0.25, compress = \"20 GB/s\" }")),
        ("accumulation = 3\n", servers("")),
        (jitter, servers(", consistency = \"asynchronous\"")),
        (jitter, servers(", consistency = { stale = 2 }, tensors = 4, buckets = \"200 MB\"")),
        (jitter, "sync.elastic-averaging = { parameters = \"800 MB\", period = 2 }\n".to_owned()),
    ];
    for (job, sync) in ways {
        let keys = format!("{job}{sync}");
        let (whole, stage) = (of(&keys), of(&format!("{keys}{}", gpipe(1, 1))));
        for (one, other) in stage.steps.iter().zip(&whole.steps) {
            near(one.end, other.end, &keys);
        }
        assert_eq!(stage.sync, whole.sync, "{keys}");
        assert!(mean(&whole) > 0.97, "{keys}: nothing is exposed");
    }
}

#[test]
fn each_stage_exchanges_its_own_part_with_the_servers() {
    // System: four model copies of two stages and two micro-batches on nodes of their own; one server with all 800 MB, whose
    // NIC moves the 400 MB of a stage for all four in 160 ms. Expectation: the last stage's gradients are ready 160 ms before
    // the first stage's, so their pushes, and then the pulls of the last stage's parameters, are hidden behind backward and
    // behind the first stage's pushes; the first stage waits for its own pushes and pulls. The first step waits for pulls of
    // everything.
    let job = of(&format!("{}{}", servers(""), gpipe(2, 2)));
    let (step, part) = (0.96 * 3.0 / 4.0, 10e-6 + 4.0 * 400e6 / 10e9);
    let expected = 12.0 * step + (10e-6 + 4.0 * 800e6 / 10e9) + (12.0 + 11.0) * part;
    near(job.steps.last().expect("steps").end, expected, "12 steps");
    let sync = job.sync.expect("servers");
    assert_eq!((sync.updates, sync.pushed), (4 * 12, 4 * 12 * 800_000_000));
    assert_eq!(sync.staleness.into_iter().collect::<Vec<_>>(), [(0, 48)]);
}

#[test]
fn more_servers_or_rarer_exchanges_take_less_time_with_stages_too() {
    let time = |job: &str, sync: &str| mean(&of(&format!("{job}{}{}", servers(sync), gpipe(2, 2))));
    let base = time("", "");
    assert!(time("", ", servers = 4") < 0.85 * base);
    assert!(time("accumulation = 4\n", "") < 0.85 * base);
    assert!(time("", ", compression.quantised.ratio = 0.25") < 0.95 * base);
    assert!(time("", ", server.update = \"1 GB/s\"") > 1.1 * base);
}

#[test]
fn model_copies_of_several_stages_go_on_by_themselves_with_asynchronous_servers() {
    // System: four model copies of two stages whose steps vary by a third. Expectation: without waiting for each other they are
    // faster, and updates are stale; with a slack of 0 they are not.
    let jitter = "model = { step = \"960 ms\", jitter = { gamma = { cv = 0.3 } } }\n";
    let of = |consistency: &str| {
        let sync = servers(&format!(", consistency = {consistency}")).replace("800 MB", "8 kB");
        of(&format!("{jitter}{sync}{}", gpipe(2, 2)))
    };
    let (together, apart) = (of("\"synchronous\""), of("\"asynchronous\""));
    assert!(mean(&apart) < 0.95 * mean(&together), "{} {}", mean(&apart), mean(&together));
    let most = |job: &JobOutcome| {
        let sync = job.sync.as_ref().expect("servers");
        sync.staleness.keys().max().copied().expect("updates")
    };
    assert!(most(&apart) >= 3 && most(&together) == 0);
    let zero = of("{ stale = 0 }");
    assert_eq!(zero.steps, together.steps);
    let endless = of("{ stale = 1000 }");
    assert_eq!(endless.steps, apart.steps);
}

#[test]
fn every_split_exchanges_all_parts_of_the_model_with_the_servers() {
    // System: layers, sequences, or experts split over GPUs. Expectation: all GPUs of a model copy together push each
    // parameter once; ranks that split sequences push the sums of their own parts of a sequence.
    let tensor = "parallel.tensor = { ranks = 2, allreduces = 2, activations = \"0 B\" }\n";
    let context = "parallel.context = { ranks = 2, attentions = 1, keys_values = \"0 B\" }\n";
    let expert = "parallel.expert = { ranks = 2, layers = 1, dispatched = \"1 B\", parameters = 0.5, time = 0.5 }\n";
    for (split, pushed) in [(tensor, 1.0), (context, 2.0), (expert, 0.75)] {
        for consistency in ["\"synchronous\"", "\"asynchronous\"", "{ stale = 1 }"] {
            let sync = servers(&format!(", consistency = {consistency}, servers = 2"));
            let job = of(&format!("{sync}{split}{}", gpipe(2, 2)));
            let found = job.sync.expect("servers");
            assert_eq!(found.updates, 4 * 12, "{split}{consistency}");
            let expected = pushed * 4.0 * 12.0 * 800e6;
            assert!(
                (found.pushed as f64 / expected - 1.0).abs() < 1e-6,
                "{split}: {}",
                found.pushed
            );
        }
    }
}

#[test]
fn split_models_with_servers_restart_from_what_the_servers_held() {
    // System: four model copies of two stages that fail after 4.5 s, and restart after 1 s from a checkpoint after every second
    // step. Expectation: the steps since the last checkpoint are done again, and each sample is trained on in order.
    let recovery = "failures = { at = [\"4500 ms\"], restart = \"1 s\" }\n\
                    checkpoint = { steps = 2, bytes = \"1 B\", storage = \"disk\" }\n";
    for consistency in ["\"synchronous\"", "\"asynchronous\""] {
        let sync = servers(&format!(", consistency = {consistency}"));
        let keys = format!("{sync}{}", gpipe(2, 2));
        let (plain, failed) = (of(&keys), of(&format!("{keys}{recovery}")));
        assert_eq!(failed.steps.len(), plain.steps.len());
        let step = mean(&plain);
        let lost =
            failed.steps.last().expect("steps").end - plain.steps.last().expect("steps").end - 1.0;
        assert!(
            lost > -1e-9 && lost < 2.5 * step,
            "{consistency}: {lost} s lost, steps of {step} s"
        );
    }
}

#[test]
fn sharded_optimizers_beside_servers_are_refused() {
    let keys = format!("{}parallel.zero.stage = 1\n", servers(""));
    let file = forebay::scenario::ScenarioFile::parse("test.toml", text(&keys)).expect("parsed");
    let problems = file.resolve(&[]).expect_err("refused").to_string();
    assert!(problems.contains("parameter servers hold what `parallel.zero` shards"), "{problems}");
    let whole = simulate(&written(&text(&servers("")), &[]));
    assert!(whole.unfinished.is_none());
}
