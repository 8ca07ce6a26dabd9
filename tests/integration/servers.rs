//! Parameter servers: incast at their NICs and cores, waits between model copies, and staleness of updates.

use super::base::model_copies;
use super::runs::{near, shipped, simulate, step, written};
use forebay::report::{Cause, JobOutcome, Outcome, Report, StallCause, summarise};
use forebay::scenario::ScenarioFile;
use forebay::sim::{self, Options};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// Returns a job on `nodes` nodes with `copies` model copies each, steps of 100 ms, and `sync` as its table of
/// `[job.sync]`.
fn text(nodes: u32, copies: u32, sync: &str) -> String {
    model_copies((nodes, copies), 8, ["0 s", "0 s"], sync)
}

/// Returns such a job with 100 MB of parameters on servers, and the other `keys`.
fn servers(nodes: u32, copies: u32, keys: &str) -> String {
    text(nodes, copies, &format!("parameter-server]\nparameters = \"100 MB\"\n{keys}"))
}

/// Returns `text` with steps that vary with a coefficient of variation of `cv`.
fn varying(text: &str, cv: f64) -> String {
    let model = format!("model = {{ step = \"100 ms\", jitter = {{ gamma = {{ cv = {cv} }} }} }}");
    text.replace("model.step = \"100 ms\"", &model)
}

/// Returns the outcome, after checking that compute and stalls make up each step.
fn outcome(text: &str) -> Outcome {
    let outcome = simulate(&written(text, &[]));
    for job in &outcome.jobs {
        let mut before = job.start;
        assert!(!job.steps.is_empty(), "no step");
        for (index, step) in job.steps.iter().enumerate() {
            let stalls = job.stalls.iter().filter(|stall| stall.step as usize == index);
            let sum = step.compute + stalls.map(|stall| stall.seconds).sum::<f64>();
            let took = step.end - before;
            assert!((sum - took).abs() < 1e-9, "step {index}: {took} s, of which {sum} s are told");
            before = step.end;
        }
    }
    outcome
}

fn run(text: &str) -> JobOutcome {
    outcome(text).jobs.remove(0)
}

/// Returns the time of a step beyond its 100 ms [s].
fn beside(text: &str) -> f64 {
    step(&run(text)) - 0.1
}

fn stalled(job: &JobOutcome, cause: StallCause) -> f64 {
    let of = job.stalls.iter().filter(|stall| stall.cause == cause);
    of.map(|stall| stall.seconds).sum::<f64>() / job.steps.len() as f64
}

/// Returns the bytes that a resource served.
fn served(outcome: &Outcome, name: &str) -> f64 {
    outcome.resources.iter().find(|of| of.name == name).expect(name).served
}

#[test]
fn many_model_copies_share_the_nic_of_a_parameter_server() {
    // System: W model copies of 100 MB on nodes of their own, S servers with parts of the model, NICs of 1
    // GB/s, an idle network. Expectation: W · 100 MB into S NICs, and as much out of them; if there are more
    // servers than model copies, or server NICs are faster, the NICs of the model copies are the limit: 100 MB
    // in each direction.
    for (workers, number) in
        [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (6, 3), (4, 4), (2, 8)]
    {
        for nic in [0.25, 1.0, 4.0] {
            let keys = format!("servers = {number}\nserver.nic = \"{nic} GB/s\"");
            let own = 0.1;
            let there = f64::from(workers) * 0.1 / (f64::from(number) * nic);
            let what = format!("{workers} with {number} at {nic} GB/s");
            near(beside(&servers(workers, 1, &keys)), 2.0 * there.max(own), &what);
        }
    }
    // Two nodes with four model copies each: their own NICs carry 400 MB.
    near(beside(&servers(2, 4, "servers = 8")), 0.8, "by nodes");
    // Latency is paid in each direction, and a stream is limited to its cap: 100 MB at 0.5 GB/s.
    near(beside(&servers(2, 1, "servers = 2\ntransport.tcp.latency = \"1 ms\"")), 0.202, "latency");
    near(beside(&servers(1, 1, "transport.tcp.per_stream = \"0.5 GB/s\"")), 0.4, "a stream");
    near(
        beside(&servers(1, 1, "tensors = 5\ntransport.tcp.per_tensor = \"2 ms\"")),
        0.21,
        "tensors",
    );
}

#[test]
fn gradient_updates_queue_for_the_cores_of_parameter_servers() {
    // System: four model copies push 100 MB each at once, which a core adds at 0.5 GB/s. Expectation: after the
    // 0.4 s of incast 0.2 s for each push, one after the other on one core, in pairs on two; half of that with
    // two servers; pulls take the same time.
    let of = |keys: &str| beside(&servers(4, 1, keys));
    let update = "server = { update = \"0.5 GB/s\", cores";
    near(of(&format!("{update} = 1 }}")), 0.8 + 4.0 * 0.2, "one core");
    near(of(&format!("{update} = 2 }}")), 0.8 + 2.0 * 0.2, "two cores");
    near(of(&format!("{update} = 8 }}")), 0.8 + 0.2, "a core each");
    near(of(&format!("servers = 2\n{update} = 1 }}")), 0.4 + 4.0 * 0.1, "two servers");
    // Servers on the job's nodes share their cores with decoding.
    let beside_workers = |loader: &str| {
        let keys = "servers = 2\nserver = { placement = \"with-workers\", update = \"0.2 GB/s\" }";
        let text = servers(2, 1, keys).replace("loader.in-memory = {}", loader);
        step(&run(&text.replace("cores = 8", "cores = 1").replace("steps = 8", "steps = 60")))
    };
    // 0.5 s for the update, 0.4 s for decoding.
    let (alone, busy) = (
        beside_workers("loader.in-memory = {}"),
        beside_workers("loader.pytorch = { workers = 4, decode = \"50 ms\" }"),
    );
    assert!(alone < 0.7 && busy > 0.85, "{busy} {alone}");
}

#[test]
fn parameter_servers_on_worker_nodes_exchange_local_gradients_in_memory() {
    // System: two nodes, a server on each. Expectation: half of 100 MB stays on the node, half crosses the NIC:
    // 50 ms in each direction, and over PCIe of 0.1 GB/s 500 ms for the half that stays; one server on the
    // first node receives 100 MB from the other node.
    let own = "server.placement = \"with-workers\"";
    near(beside(&servers(2, 1, &format!("servers = 2\n{own}"))), 0.1, "halves");
    near(beside(&servers(2, 1, own)), 0.2, "one server");
    let pcie = servers(2, 1, &format!("servers = 2\n{own}"))
        .replace("gpus = 8", "gpus = 8, pcie = \"0.1 GB/s\"");
    near(beside(&pcie), 1.0, "over PCIe");
    let host = pcie.replace("servers = 2\n", "servers = 2\ntransport.tcp = {}\n");
    near(beside(&host), 2.0, "all over PCIe");
}

#[test]
fn pushes_and_pulls_of_buckets_overlap_with_the_backward_pass() {
    // System: four tensors of 25 MB, ready after 5/8 … 8/8 of 100 ms, each with 25 ms to push and 25 ms to
    // pull. Expectation: as one bucket 200 ms; in buckets the pull of one overlaps with the push of the next:
    // five times 25 ms, from 62.5 ms on, or from the end of backward.
    let of = |keys: &str| beside(&servers(1, 1, &format!("tensors = 4\nbackward = 0.5\n{keys}")));
    near(of("server.nic = \"1 GB/s\""), 0.2, "all together");
    near(of("buckets = \"25 MB\""), 0.0625 + 5.0 * 0.025 - 0.1, "in buckets");
    near(of("buckets = \"25 MB\"\noverlap = false"), 5.0 * 0.025, "after backward");
    // Two model copies: 50 ms for each bucket at one server, 25 ms at two servers that have half of each
    // bucket. With whole buckets at each server, two buckets are pushed at once, in 50 ms, and then two more;
    // with three servers, the one with two buckets is last.
    let two = |keys: &str| {
        let keys = format!("tensors = 4\nbuckets = \"25 MB\"\noverlap = false\n{keys}");
        beside(&servers(2, 1, &keys))
    };
    near(two(""), 5.0 * 0.05, "one server");
    near(two("servers = 2"), 5.0 * 0.025, "halves");
    near(two("servers = 2\nserver.split = \"buckets\""), 3.0 * 0.05, "whole buckets");
    near(two("servers = 3\nserver.split = \"buckets\""), 0.075 + 0.075 + 0.05, "uneven ones");
}

#[test]
fn latency_to_parameter_servers_does_not_occupy_connections() {
    // System: a model copy, one server, k tensors of 100 MB ÷ k in buckets of their own after backward, drawn NICs and latencies.
    // Expectation: buckets leave one after the other, the last one arrives a latency later, and its pull takes as long as it and
    // a latency; other pulls go on beside the pushes.
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(54);
    for _ in 0..200 {
        let tensors: u32 = generator.random_range(1..=12);
        let latency: f64 = generator.random_range(0.0..0.05);
        let nic: f64 = generator.random_range(0.1..1.0);
        let keys = format!(
            "tensors = {tensors}\nbuckets = \"1 kB\"\noverlap = false\nserver.nic = \"{nic} GB/s\"\n\
             transport.tcp.latency = \"{latency} s\""
        );
        let each = 0.1 / nic / f64::from(tensors);
        let expected = f64::from(tensors + 1) * each + 2.0 * latency;
        let found = beside(&servers(1, 1, &keys).replace("steps = 8", "steps = 3"));
        let what = format!("{tensors} tensors, {latency} s, {nic} GB/s");
        assert!((found / expected - 1.0).abs() < 1e-3, "{what}: {found}, not {expected}");
    }
}

#[test]
fn zero_staleness_slack_is_synchronous_and_unlimited_slack_asynchronous() {
    let of = |consistency: &str| {
        let keys =
            format!("servers = 2\ntensors = 3\nbuckets = \"30 MB\"\nconsistency = {consistency}");
        run(&varying(&servers(4, 2, &keys), 0.4))
    };
    let (synchronous, asynchronous) = (of("\"synchronous\""), of("\"asynchronous\""));
    assert_eq!(of("{ stale = 0 }"), synchronous);
    assert_eq!(of("{ stale = 1000000000 }"), asynchronous);
    assert_ne!(synchronous, asynchronous);
    // The same seed gives the same outcome; slack below the drift of the model copies lies in between.
    assert_eq!(of("\"asynchronous\""), asynchronous);
}

/// Returns the steps per second with this jitter, where an exchange takes little time, and the number of
/// updates by staleness.
fn pace(consistency: &str, cv: f64) -> (f64, Vec<(u64, u64)>) {
    let keys = format!("servers = 8\nserver.nic = \"10 GB/s\"\nconsistency = {consistency}");
    let text = servers(8, 1, &keys).replace("100 MB", "1 MB").replace("steps = 8", "steps = 300");
    let job = run(&varying(&text, cv));
    let sync = job.sync.expect("books");
    (1.0 / (job.steps[299].end / 300.0), sync.staleness.into_iter().collect())
}

#[test]
fn more_staleness_slack_reduces_the_step_time_lost_to_stragglers() {
    // System: eight model copies whose steps vary by half. Expectation: synchronous steps take the longest of
    // eight times; each step of slack helps, and without a limit no copy waits: a step takes its mean, 100 ms
    // plus a millisecond in each direction.
    let all = ["\"synchronous\"", "{ stale = 1 }", "{ stale = 4 }", "\"asynchronous\""];
    let paces = all.map(|consistency| pace(consistency, 0.5).0);
    for pair in paces.windows(2) {
        assert!(pair[1] > 1.03 * pair[0], "{paces:?}");
    }
    assert!((paces[3] * 0.102 - 1.0).abs() < 0.02, "{paces:?}");
    assert!(paces[0] < 0.65 * paces[3], "{paces:?}");
}

#[test]
fn staleness_counts_updates_by_other_copies_between_pull_and_push() {
    // System: eight model copies. Expectation: a synchronous update combines all copies and has no staleness;
    // otherwise each copy has missed seven updates of others on average, whatever the slack.
    let mean = |all: &[(u64, u64)]| {
        let (sum, count) =
            all.iter().fold((0, 0), |(sum, n), (of, updates)| (sum + of * updates, n + updates));
        sum as f64 / count as f64
    };
    let (_, synchronous) = pace("\"synchronous\"", 0.5);
    assert_eq!(synchronous, [(0, 2400)]);
    let (_, asynchronous) = pace("\"asynchronous\"", 0.5);
    assert!((mean(&asynchronous) - 7.0).abs() < 0.1, "{asynchronous:?}");
    let most = |all: &[(u64, u64)]| all.iter().map(|(of, _)| *of).max().expect("some");
    let (_, stale) = pace("{ stale = 1 }", 0.5);
    assert!(most(&stale) < most(&asynchronous), "{stale:?} {asynchronous:?}");
    // No copy is ahead of the slowest by more than the slack s, so none misses more than (s + 1) + s updates of
    // each other copy.
    assert!(most(&stale) <= 7 * 3, "{stale:?}");
}

#[test]
fn a_slow_node_delays_only_model_copies_that_wait_for_it() {
    // System: four nodes, one of which takes 300 ms for a step; nothing else takes time. Expectation:
    // synchronous steps take 300 ms, of which the others wait for 200; asynchronous copies together make 3 · 10
    // + 10 ÷ 3 steps a second, four of which are a step of the report.
    let of = |consistency: &str| {
        let text = servers(4, 1, &format!("consistency = {consistency}"))
            .replace("nic = \"1 GB/s\"", "nic = \"1000 TB/s\"")
            .replace("nodes = 4\nnode =", "nodes = 3\ngroup.slow = { nodes = 1, node = { gpu_speed = 0.3333333333333333 } }\nnode =")
            .replace("steps = 8", "steps = 150");
        run(&text)
    };
    let together = of("\"synchronous\"");
    assert!((step(&together) - 0.3).abs() < 1e-5, "{}", step(&together));
    let waits = stalled(&together, StallCause::peer(Cause::Compute));
    assert!((waits - 0.75 * 0.2).abs() < 1e-3, "{waits}");
    let apart = of("\"asynchronous\"");
    let expected = 4.0 / (30.0 + 10.0 / 3.0);
    let mean = apart.steps[149].end / 150.0;
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean}, not {expected}");
    assert!(stalled(&apart, StallCause::peer(Cause::Compute)) < 1e-9);
    // With bounded slack, the slow copy eventually sets the pace.
    let bounded = of("{ stale = 3 }");
    assert!((step(&bounded) - 0.3).abs() < 0.01, "{}", step(&bounded));
    let samples = |job: &JobOutcome| job.steps.iter().map(|step| step.samples).collect::<Vec<_>>();
    assert_eq!(samples(&apart), vec![32; 150]);
}

#[test]
fn bytes_of_pushes_and_pulls_are_conserved() {
    // System: three nodes, two model copies each, two servers; eight steps. Expectation: each model copy pushes
    // 100 MB in each step, and pulls as much before it; NICs of nodes and servers carry exactly these bytes.
    let found = outcome(&servers(3, 2, "servers = 2"));
    let sync = found.jobs[0].sync.clone().expect("books");
    assert_eq!((sync.pushed, sync.updates), (6 * 8 * 100_000_000, 48));
    for name in ["node.nic.out", "server.nic", "node.nic", "server.nic.out"] {
        near(served(&found, name), 4.8e9, name);
    }
    let keys = "tensors = 8\nbuckets = \"12.5 MB\"\nserver.split = \"buckets\"\nservers = 3";
    assert_eq!(run(&servers(3, 2, keys)).sync.expect("books").pushed, 6 * 8 * 100_000_000);
    // A tenth of the gradients, and all parameters.
    let keys = "compression.quantised.ratio = 0.1";
    let found = outcome(&servers(3, 2, keys));
    near(served(&found, "server.nic"), 0.48e9, "pushed");
    near(served(&found, "server.nic.out"), 4.8e9, "pulled");
}

#[test]
fn reads_and_pulls_of_parameters_share_a_nic() {
    // System: two nodes that read batches of 100 MB from a file server through the NICs of 1 GB/s over which
    // they also pull parameters. Expectation: with steps that take no time a NIC is always full, 200 ms a step;
    // with a separate storage network pushes and pulls take 100 ms each, one after the other, which hides the
    // reads.
    let of = |network: &str| {
        let text = servers(2, 1, "servers = 2")
            .replace("nic = \"1 GB/s\"", &format!("nic = \"1 GB/s\"{network}"))
            .replace(
                "[storage.memory.memory]",
                "[storage.memory.file-server]\nbandwidth = \"100 GB/s\"",
            )
            .replace("sample_size = \"1 kB\"", "sample_size = \"25 MB\"")
            .replace("steps = 8", "steps = 200")
            .replace("100 ms", "1 ns")
            .replace("loader.in-memory = {}", "loader.pytorch = { workers = 2 }");
        step(&run(&text))
    };
    let (shared, apart) = (of(""), of(", storage_nic = \"1 GB/s\""));
    assert!((apart / 0.2 - 1.0).abs() < 0.02, "{apart}");
    assert!((shared / 0.3 - 1.0).abs() < 0.05, "{shared}");
}

#[test]
fn accumulated_gradients_are_pushed_once() {
    // System: four model copies, 0.4 s to push and 0.4 s to pull. Expectation: with accumulation over four
    // steps, a step takes a quarter of that, synchronous or not; an update is counted for four steps.
    let of = |keys: &str| {
        let text = servers(4, 1, keys).replace("steps = 8", "steps = 40");
        run(&text.replace("batch = 8", "batch = 8\naccumulation = 4"))
    };
    let job = of("");
    let rounds: Vec<f64> = job.steps.iter().skip(3).step_by(4).map(|step| step.end).collect();
    near((rounds[9] - rounds[0]) / 9.0, 0.4 + 0.8, "four steps and an exchange");
    assert_eq!(job.sync.expect("books").updates, 40);
    assert_eq!(of("consistency = \"asynchronous\"").steps[39].samples, 32);
}

#[test]
fn elastic_averaging_exchanges_parameters_once_per_period() {
    // System: four model copies with a centre and a period of 1, 2 or 5 steps. Expectation: the exchange is
    // paid once per period; by default no copy waits for others; its bytes are those of the parameters,
    // whatever the gradients.
    let of = |period: u64, keys: &str| {
        let sync =
            format!("elastic-averaging]\nparameters = \"100 MB\"\nperiod = {period}\n{keys}");
        text(4, 1, &sync).replace("steps = 8", "steps = 40")
    };
    for period in [1, 2, 5] {
        let job = run(&of(period, "consistency = \"synchronous\""));
        let ends = job.steps.iter().skip(period as usize - 1).step_by(period as usize);
        let rounds: Vec<f64> = ends.map(|step| step.end).collect();
        let each = (rounds[rounds.len() - 1] - rounds[0]) / (rounds.len() - 1) as f64;
        near(each, 0.1 * period as f64 + 0.8, "a round");
        assert_eq!(job.sync.expect("books").pushed, 4 * 40 / period * 100_000_000);
    }
    let slow = |keys: &str| run(&varying(&of(5, keys), 0.8)).steps[39].end;
    assert!(slow("") < 0.97 * slow("consistency = \"synchronous\""), "asynchronous by default");
    assert!(slow("servers = 4") < slow(""), "servers");
    // ResNet-50 of the catalogue has 25,557,032 parameters.
    let model = "model = { catalogue = \"resnet50\", step = \"100 ms\" }";
    let known = |keys: &str| {
        let text = of(2, keys).replace("parameters = \"100 MB\"\n", "");
        run(&text.replace("model.step = \"100 ms\"", model)).sync.expect("books").pushed
    };
    assert_eq!(known(""), 80 * 4 * 25_557_032);
    assert_eq!(known("precision = \"fp16\""), 80 * 2 * 25_557_032);
}

#[test]
fn step_time_with_parameter_servers_is_the_sum_of_compute_and_stall_time() {
    // System: pushes in buckets together with every other cause of stalls. Expectation: compute and stalls make
    // up each step (which `outcome` checks), and the same seed gives the same outcome.
    let model = "model.step = \"100 ms\"";
    let loader = "loader.in-memory = {}";
    for consistency in ["\"synchronous\"", "{ stale = 2 }", "\"asynchronous\""] {
        let keys =
            format!("tensors = 5\nbuckets = \"20 MB\"\nservers = 2\nconsistency = {consistency}");
        let base =
            servers(2, 2, &keys).replace("nodes = 2\nnode", "nodes = 2\nshare_nodes = true\nnode");
        for (from, to) in [
            (model, "model = { step = \"100 ms\", device = { cpu = { threads = 2 } } }"),
            (model, "model = { step = \"100 ms\", launch = { work = \"150 ms\", threads = 2 } }"),
            (
                model,
                "model = { step = \"100 ms\", launch = { work = \"50 ms\", overlap = false } }",
            ),
            (model, "model = { step = \"100 ms\", jitter = { gamma = { cv = 1.0 } } }"),
            (model, "batch_interval = 2.5\nmodel.step = \"1 ns\""),
            (
                model,
                "accumulation = 3\nmodel = { step = \"100 ms\", jitter = { gamma = { cv = 1.0 } } }",
            ),
            (loader, "loader.dali = { threads = 2, gpu = { decode = \"9 ms\" } }"),
            (loader, "copies = 2\nloader.pytorch = { workers = 1, decode = \"20 ms\" }"),
            (
                loader,
                "parallel.data.loaders = \"per-rank\"\nloader.pytorch = { workers = 1, decode = \"20 ms\" }",
            ),
            (
                loader,
                "loader.pytorch = { workers = 1, decode = { exponential = { mean = \"40 ms\" } } }",
            ),
            ("samples = 1000000", "samples = 70"),
            ("steps = 8", "duration = \"3 s\""),
            ("steps = 8", "epochs = 0.0003"),
        ] {
            let text = base.replace(from, to);
            let first = outcome(&text);
            assert_eq!(first, outcome(&text), "{consistency} {to}");
            let job = &first.jobs[0];
            let waits = stalled(job, StallCause::own(Cause::Communication));
            assert!(waits > 0.0 || to.contains("40 ms"), "{to}");
            let samples: u64 = job.steps.iter().map(|step| step.samples).sum();
            let fresh: u64 = job.steps.iter().map(|step| step.fresh).sum();
            assert!(fresh <= samples, "{consistency} {to}: {fresh} of {samples}");
        }
    }
    // Only steps take time.
    let none = servers(2, 2, "").replace("nic = \"1 GB/s\", ", "");
    let job = run(&varying(&none, 0.5));
    assert_eq!(stalled(&job, StallCause::own(Cause::Communication)), 0.0);
}

#[test]
fn invalid_server_settings_are_refused_and_ineffective_settings_reported() {
    let wrong = |keys: &str, from: &str, to: &str| {
        let text = servers(2, 2, keys).replace(from, to);
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err(keys).to_string()
    };
    let job = "loader.in-memory = {}";
    let with = |more: &str| format!("{job}\n{more}");
    for (keys, from, to, what) in [
        ("", "parameters = \"100 MB\"", "", "write `parameters = \"102 MB\"`"),
        ("consistency = \"eventual\"", "", "", "asynchronous"),
        ("consistency = { stale = -1 }", "", "", "whole number"),
        ("servers = 0", "", "", "whole number"),
        ("server.placement = \"elsewhere\"", "", "", "with-workers"),
        ("compression.quantised = {}", "", "", "write `ratio = 0.01`"),
        ("compression.sparse.ratio = 0", "", "", "the ratio is out of range"),
        ("transport.tcp.profile = \"x\"", "", "", "cannot be taken from a profile"),
        ("", job, &with("parallel.pipeline.stages = 2"), "no backward passes"),
        (
            "",
            job,
            &with("checkpoint = { steps = 2, bytes = \"1 MB\" }"),
            "write checkpoints, but \"memory\" is on the job's nodes",
        ),
        ("tensors = 100000\nbuckets = \"1 kB\"\nservers = 100", "", "", "fewer `servers`"),
        ("", "100 MB", "900 PB", "write at most 9007199254740992 bytes"),
    ] {
        let found = wrong(keys, from, to);
        assert!(found.contains(what), "{keys} {to}: {found}");
    }
    let remarks =
        |keys: &str, copies: u32| written(&servers(1, copies, keys), &[]).remarks.join("\n");
    let idle = "precision = \"fp16\"\nbackward = 0.5\nserver = { placement = \"with-workers\", nic = \"1 GB/s\", cores = 2 }";
    let said = remarks(
        &format!("{idle}\ncompression.sparse = {{ ratio = 0.1, decompress = \"1 GB/s\" }}"),
        2,
    );
    for key in ["precision", "backward", "nic", "cores", "decompress"] {
        assert!(said.contains(&format!("{key}` has no effect")), "{key}: {said}");
    }
    assert!(remarks("consistency = \"asynchronous\"", 1).contains("consistency` has no effect"));
    assert!(
        remarks("servers = 2\nserver.split = \"buckets\"", 2)
            .contains("1 of 2 servers have nothing to do")
    );
    assert!(!remarks("consistency = \"asynchronous\"\nservers = 2", 2).contains("no effect"));
    let accuracy = |keys: &str, more: &str| {
        let text =
            servers(1, 2, keys).replace(job, &with(&format!("accuracy = {{ epochs = 3{more} }}")));
        written(&text, &[]).remarks.join("\n")
    };
    assert!(accuracy("consistency = \"asynchronous\"", "").contains("staleness"));
    assert!(accuracy("", ", staleness = 0.1").contains("staleness` has no effect"));
    let stale = accuracy("consistency = { stale = 2 }", ", staleness = 0.1");
    assert!(!stale.contains("effect"), "{stale}");
}

#[test]
fn traces_show_bytes_in_flight_and_the_lead_of_the_fastest_model_copy() {
    let text = varying(&servers(2, 1, "consistency = \"asynchronous\""), 0.5);
    let options = Options { trace: true, ..Options::default() };
    let scenario = written(&text, &[]);
    let traced = sim::run(&scenario, 0, &options);
    let trace = traced.trace.clone().expect("a trace");
    let counter = |name: &str| {
        let track = trace.tracks.iter().position(|(_, of)| of == name).expect(name);
        let values = trace.counters.iter().filter(move |of| of.track as usize == track);
        values.map(|of| of.value).fold(0.0, f64::max)
    };
    assert!(counter("on the way [B]") >= 100e6);
    assert!(counter("lead [exchanges]") >= 1.0);
    assert!(trace.spans.iter().any(|span| span.name == "communication"));
    // Tracing changes no outcome.
    assert_eq!(traced.jobs, simulate(&scenario).jobs);
}

/// Returns the report of four model copies whose steps vary.
fn report(keys: &str, more: &str) -> Report {
    let text = varying(&servers(4, 1, keys), 0.5).replace("steps = 8", "steps = 60");
    let job = "loader.in-memory = {}";
    let scenario = written(&text.replace(job, &format!("{job}\n{more}")), &[]);
    summarise(&scenario, &[simulate(&scenario)], 0.0)
}

#[test]
fn reports_of_parameter_server_jobs_explain_steps_and_state_staleness() {
    let asynchronous = report("consistency = \"asynchronous\"", "accumulation = 3");
    let sync = asynchronous.jobs[0].sync.clone().expect("servers");
    assert_eq!((sync.steps_per_exchange, sync.bytes_per_exchange), (3, 100_000_000));
    let staleness = sync.staleness.expect("observed");
    let mean = staleness.mean.mean.expect("observed");
    assert!(mean > 2.0 && mean < 3.5 && staleness.max > 3, "{staleness:?}");
    let all: f64 = staleness.distribution.iter().map(|of| of.share).sum();
    assert!((all - 1.0).abs() < 1e-9 && staleness.distribution.len() > 2, "{staleness:?}");
    let text = forebay::report::text::render(&asynchronous, 400, false);
    assert!(text.contains("a step is 4 batches, done by any of 4 model copies"), "{text}");
    assert!(
        text.contains("after every 3 of its own steps a model copy exchanges 100 MB with 1 server"),
        "{text}"
    );
    assert!(text.contains("updates of other ranks"), "{text}");
    let json = serde_json::to_value(&asynchronous).expect("JSON");
    assert_eq!(json["jobs"][0]["sync"]["staleness"]["max"], staleness.max);
    let together =
        report("", "").jobs[0].sync.clone().and_then(|of| of.staleness).expect("observed");
    assert_eq!((together.mean.mean, together.max), (Some(0.0), 0));
}

#[test]
fn staleness_lengthens_time_to_accuracy_by_the_assumed_extra_epochs() {
    // System: 10 epochs, and a tenth more for each missed update; four model copies miss about three.
    // Expectation: 13 epochs, and the report states the assumption.
    let epochs = |keys: &str, staleness: &str| {
        let of = report(keys, &format!("accuracy = {{ epochs = 10{staleness} }}"));
        let accuracy = of.jobs[0].time_to_accuracy.clone().expect("said");
        (accuracy.epochs, accuracy.assumed)
    };
    let keys = "consistency = \"asynchronous\"";
    let (free, said) = epochs(keys, "");
    assert_eq!(free, 10.0);
    assert!(said.contains("stale updates counted as fully useful"), "{said}");
    let (costly, said) = epochs(keys, ", staleness = 0.1");
    assert!((costly - 13.0).abs() < 0.4, "{costly}");
    assert!(said.contains("for stale updates"), "{said}");
    assert_eq!(epochs("", ", staleness = 0.1").0, 10.0);
}

#[test]
fn the_nic_of_one_parameter_server_limits_the_throughput_of_32_nodes() {
    // System: `scenarios/parameter-server.toml`. Expectation: with one server 32 nodes are as fast as its NIC,
    // 64 images for 102 MB, with any consistency; with eight servers synchronous copies wait for a third of the
    // time, asynchronous ones hardly.
    let rate = |sync: &str| {
        let scenario = shipped(
            "parameter-server",
            &[("job.nodes", "32"), ("job.sync.parameter-server", sync)],
        );
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        let figures = &report.jobs[0].figures;
        (figures.samples_per_second.mean.expect("steps"), figures.stall.total.mean.expect("steps"))
    };
    let most = 64.0 * 3.125e9 / (4.0 * 25_557_032.0);
    let (one, _) = rate("{ buckets = \"25 MiB\", servers = 1, consistency = \"asynchronous\" }");
    assert!(one > 0.97 * most && one < 1.01 * most, "{one} of {most}");
    let (_, together) = rate("{ buckets = \"25 MiB\", servers = 8 }");
    let (_, apart) = rate("{ buckets = \"25 MiB\", servers = 8, consistency = \"asynchronous\" }");
    assert!(together > 0.3 && apart < 0.06, "{together} {apart}");
}

#[test]
fn exchange_time_depends_on_server_placement_precision_and_compression() {
    // System: ResNet-50 with its 25,557,032 parameters at one server. Expectation: the bytes in both directions
    // over the NIC; half of the time in 16 bits; compression at 1 GB/s takes the time of the gradients' bytes
    // once more, and shortens the push.
    let model = "model = { catalogue = \"resnet50\", step = \"100 ms\" }";
    let known = |keys: &str| {
        let text = servers(1, 1, keys).replace("parameters = \"100 MB\"\n", "");
        beside(&text.replace("model.step = \"100 ms\"", model))
    };
    let bytes = 4.0 * 25_557_032.0 / 1e9;
    near(known(""), 2.0 * bytes, "32 bits");
    near(known("precision = \"fp16\""), bytes, "16 bits");
    let coding = "compression.quantised = { ratio = 0.25, compress = \"1 GB/s\" }";
    near(known(coding), bytes + 0.25 * bytes + bytes, "compressed");
    near(known("compression.sparse.ratio = 0.01"), 0.01 * bytes + bytes, "sparse");
    // A rack's uplink is on the route to a server in a rack of its own, and to one in another rack, but not to
    // one in the same rack.
    let racks = |nodes: u32, keys: &str| {
        let network =
            format!("nic = \"1 GB/s\", racks = {{ nodes = {nodes}, uplink = \"0.5 GB/s\" }}");
        beside(&servers(2, 1, keys).replace("nic = \"1 GB/s\"", &network))
    };
    near(racks(1, "server.nic = \"9 GB/s\""), 0.4, "each node by its uplink");
    near(racks(2, "server.nic = \"9 GB/s\""), 0.8, "both by one");
    near(racks(1, "server.placement = \"with-workers\""), 0.4, "in the other rack");
    near(racks(2, "server.placement = \"with-workers\""), 0.2, "in the same rack");
    // Messages need cores at both ends, also at servers: 1 ms at each end in each direction.
    let messages = "transport.tcp.cpu.per_message = \"1 ms\"";
    near(beside(&servers(1, 1, messages)), 0.204, "messages");
    let cores = |keys: &str| written(&servers(1, 2, keys), &[]).remarks.join("\n");
    assert!(!cores(&format!("{messages}\nserver.cores = 1")).contains("no effect"));
    assert!(cores("server.cores = 1").contains("cores` has no effect"));
}
