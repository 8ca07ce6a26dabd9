//! Gradient allreduces: their cost, their overlap with backward, and other traffic on the same links.

use super::base::model_copies;
use super::runs::{near, run, step, written};
use forebay::collective::{Algorithm, Collective, Cost, Operation, closed_form};
use forebay::report::{Cause, JobOutcome, StallCause};
use forebay::scenario::ScenarioFile;
use forebay::sim::{self, Options};

/// Returns a job on `nodes` nodes with `copies` model copies each, 100 MB of gradients, steps of 100 ms.
fn text(nodes: u32, copies: u32, sync: &str) -> String {
    let sync = format!("allreduce]\ngradients = \"100 MB\"\n{sync}");
    model_copies((nodes, copies), 6, ["2 us", "10 us"], &sync)
}

fn exposed(job: &JobOutcome) -> f64 {
    let of = |stall: &&forebay::report::Stall| stall.cause == StallCause::own(Cause::Communication);
    job.stalls.iter().filter(of).map(|stall| stall.seconds).sum::<f64>() / job.steps.len() as f64
}

#[test]
fn allreduces_on_idle_links_take_their_textbook_formulas() {
    // System: one rank on each of n nodes, an idle network. Expectation: the step plus the closed form of its
    // allreduce, as flows or by formula.
    let cost = Cost { alpha: 10e-6, beta: 1e-9, gamma: 1.0 / 50e9 };
    for algorithm in [
        Algorithm::Ring,
        Algorithm::HalvingDoubling,
        Algorithm::RecursiveDoubling,
        Algorithm::BinomialTree,
    ] {
        for ranks in [2, 4, 8, 16] {
            let whole = Collective::new(Operation::Allreduce, algorithm, ranks, 100_000_000);
            let expected = 0.1 + closed_form(&whole, &cost, &cost).expect("known");
            for fidelity in ["flow", "analytic"] {
                let sync = format!(
                    "algorithm = \"{}\"\nfidelity = \"{fidelity}\"\noverlap = false\ntransport.nccl.sum = \"50 GB/s\"",
                    algorithm.name()
                );
                let job = run(&text(ranks, 1, &sync));
                near(step(&job), expected, &format!("{} of {ranks}, {fidelity}", algorithm.name()));
                near(exposed(&job), expected - 0.1, "exposed");
            }
        }
    }
}

#[test]
fn allreduces_of_buckets_overlap_with_the_backward_pass() {
    // System: two nodes; four tensors of 25 MB, ready after 5/8 … 8/8 of 100 ms, each reduced in 25 ms by a
    // ring (12.5 MB twice). Expectation: as one bucket, 100 ms exposed; in buckets of 25 MB the first begins at
    // 62.5 ms and the last ends at 162.5 ms; without overlap 200 ms, as with one bucket.
    let two = |sync: &str| {
        let sync = format!(
            "tensors = 4\nbackward = 0.5\nalgorithm = \"ring\"\ntransport.nccl.latency = \"0 s\"\n{sync}"
        );
        run(&text(2, 1, &sync))
    };
    near(step(&two("")), 0.2, "all together");
    let job = two("buckets = \"25 MB\"");
    near(step(&job), 0.1625, "in buckets");
    near(exposed(&job), 0.0625, "in buckets");
    near(step(&two("buckets = \"25 MB\"\noverlap = false")), 0.2, "after backward");
    // Fusion cycles of 25 ms: two tensors at 75 ms, two at 100 ms.
    near(step(&two("fusion = { cycle = \"25 ms\" }")), 0.175, "fused");
    // A fusion cycle of 70 ms: one tensor at 70 ms, three at 140 ms, of which two fit in the buffer.
    near(step(&two("fusion = { cycle = \"70 ms\" }")), 0.215, "fused in long cycles");
    // 10 ms of overhead for each tensor, before each bucket.
    let costs =
        "buckets = \"25 MB\"\ntransport.nccl = { latency = \"0 s\", per_tensor = \"10 ms\" }";
    let text = text(2, 1, &format!("tensors = 4\nbackward = 0.5\nalgorithm = \"ring\"\n{costs}"));
    near(step(&run(&text)), 0.0625 + 4.0 * 0.035, "with what each tensor costs");
}

#[test]
fn reads_and_gradients_share_a_nic() {
    // System: two nodes that read batches of 100 MB from a server through the NICs of 1 GB/s that gradients use
    // too: into a node, 100 MB of data and 100 MB of the ring. Expectation: with steps that take no time a NIC
    // is always full, 200 ms a step; with a separate storage network both take 100 ms at the same time; a slow
    // step hides the reads.
    let of = |network: &str, step: &str| {
        let text =
            text(2, 1, "algorithm = \"ring\"\nbuckets = \"all\"\ntransport.nccl.latency = \"0 s\"")
                .replace("latency = \"10 us\"", "latency = \"0 s\"")
                .replace("nic = \"1 GB/s\"", &format!("nic = \"1 GB/s\"{network}"))
                .replace(
                    "[storage.memory.memory]",
                    "[storage.memory.file-server]\nbandwidth = \"100 GB/s\"",
                )
                .replace("sample_size = \"1 kB\"", "sample_size = \"12.5 MB\"")
                .replace("steps = 6", "steps = 400")
                .replace("100 ms", step)
                .replace("loader.in-memory = {}", "loader.pytorch = { workers = 2 }");
        self::step(&run(&text))
    };
    let shared = of("", "1 ns");
    assert!((shared / 0.2 - 1.0).abs() < 0.02, "{shared}");
    let apart = of(", storage_nic = \"1 GB/s\"", "1 ns");
    assert!((apart / 0.1 - 1.0).abs() < 0.02, "{apart}");
    let slow = of(", storage_nic = \"1 GB/s\"", "300 ms");
    near(slow, 0.4, "hidden reads");
}

#[test]
fn rings_are_limited_by_the_slowest_link_on_the_route_between_ranks() {
    // System: 100 MB around rings of four ranks: 6 messages of 25 MB. Expectation: 150 ms over NICs of 1 GB/s,
    // one rank on each node; on one node 7.5 ms through ports of 20 GB/s, four times that where all ranks share
    // one link; two nodes with two ranks each 150 ms over one NIC.
    let of = |nodes: u32, copies: u32, change: [&str; 2], sync: &str| {
        let sync = format!(
            "algorithm = \"ring\"\ntransport.nccl = {{ latency = \"0 s\", latency_inside = \"0 s\" {sync} }}"
        );
        step(&run(&text(nodes, copies, &sync).replace(change[0], change[1]))) - 0.1
    };
    let none = ["", ""];
    near(of(4, 1, none, ""), 0.15, "across");
    near(of(1, 4, none, ""), 0.0075, "by ports");
    near(of(1, 4, ["\"switch\"", "\"shared\""], ""), 0.03, "by one link");
    near(of(1, 4, ["\"switch\"", "\"ring\""], ""), 0.0075, "by links around");
    near(of(2, 2, none, ""), 0.15, "two nodes");
    // A stream may be limited to a part of the NIC's rate, and headers may take a part of it.
    near(of(4, 1, none, ", per_stream = \"0.5 GB/s\""), 0.3, "in one stream");
    near(of(4, 1, none, ", efficiency = 0.5"), 0.3, "with headers");
    // Racks of two nodes with an uplink of half a NIC; with four nodes in a rack the uplink is not used.
    let racks = |nodes: u32| {
        format!("nic = \"1 GB/s\", racks = {{ nodes = {nodes}, uplink = \"0.5 GB/s\" }}")
    };
    near(of(4, 1, ["nic = \"1 GB/s\"", &racks(2)], ""), 0.3, "across racks");
    near(of(4, 1, ["nic = \"1 GB/s\"", &racks(4)], ""), 0.15, "in a rack");
    // Halving and doubling between nodes of two ranks uses both NICs if there are two.
    let halving = |nics: u32| {
        let text = text(2, 2, "algorithm = \"halving-doubling\"")
            .replace("gpus = 8", &format!("gpus = 8, nics = {nics}"));
        step(&run(&text)) - 0.1
    };
    assert!(halving(2) < 0.6 * halving(1), "{} {}", halving(2), halving(1));
    // Through the host: over PCIe at 0.25 GB/s, out and in at once.
    let host = text(4, 1, "algorithm = \"ring\"\ntransport.tcp.latency = \"0 s\"")
        .replace("gpus = 8", "gpus = 8, pcie = \"0.25 GB/s\"");
    near(step(&run(&host)) - 0.1, 0.6, "through the host");
}

#[test]
fn rings_and_trees_use_all_nics_of_a_node() {
    // System: 100 MB around rings of 16 ranks on two nodes, 30 phases of 6.25 MB, one ring for each NIC of 1
    // GB/s, ports of 20 GB/s inside. Expectation: the bytes that leave a node are divided over its NICs, as
    // flows or by formula; NCCL's default is as fast, while MPI's algorithms use one NIC.
    let of = |nics: u32, sync: &str| {
        let none = "transport.nccl = { latency = \"0 s\", latency_inside = \"0 s\" }";
        let text = text(2, 8, &format!("{none}\n{sync}"))
            .replace("gpus = 8", &format!("gpus = 8, nics = {nics}"));
        step(&run(&text)) - 0.1
    };
    for nics in [1, 2, 4] {
        let expected = 30.0 * 6.25e6 / 1e9 / f64::from(nics);
        for fidelity in ["flow", "analytic"] {
            let sync = format!("algorithm = \"ring\"\nfidelity = \"{fidelity}\"");
            near(of(nics, &sync), expected, &format!("{nics} NICs, {fidelity}"));
        }
    }
    let auto = [1, 8].map(|nics| of(nics, ""));
    assert!(auto[1] < 0.2 * auto[0], "{auto:?}");
    let trees = [1, 4].map(|nics| of(nics, "algorithm = \"double-binary-tree\""));
    assert!(trees[1] < 0.5 * trees[0], "{trees:?}");
    let mpi = [1, 8].map(|nics| of(nics, "library = \"open-mpi\""));
    assert!(mpi[1] > 0.4 * mpi[0], "{mpi:?}");
}

#[test]
fn a_hierarchical_allreduce_sends_the_fewest_bytes_over_slow_links() {
    // System: two nodes of four ranks. Expectation: inside three messages of 25 MB at 20 GB/s, twice; across
    // four rings of two with 25 MB each, at once on one NIC: 2 x 12.5 MB x 4 at 1 GB/s; a flat ring takes 14
    // messages of 12.5 MB at 1 GB/s.
    let of = |algorithm: &str| {
        let sync = format!(
            "algorithm = \"{algorithm}\"\ntransport.nccl = {{ latency = \"0 s\", latency_inside = \"0 s\" }}"
        );
        step(&run(&text(2, 4, &sync))) - 0.1
    };
    near(of("hierarchical"), 2.0 * 3.0 * 0.00125 + 0.1, "in groups");
    near(of("ring"), 14.0 * 0.0125, "around");
    // NCCL's default is not much slower than the better of both.
    let auto = of("auto");
    assert!(auto < 0.2, "{auto}");
}

#[test]
fn hierarchical_and_4096_rank_ring_allreduces_match_their_formulas() {
    // System: hierarchical rings in groups of four on eight nodes, as flows or by formula. Expectation: the
    // same time; and the formula for a ring of 4,096 ranks.
    let sync = |fidelity: &str| format!("algorithm = \"hierarchical\"\nfidelity = \"{fidelity}\"");
    let times = ["flow", "analytic"].map(|fidelity| step(&run(&text(8, 4, &sync(fidelity)))));
    near(times[0], times[1], "in groups");
    let ring = run(&text(4096, 1, "algorithm = \"ring\"\nfidelity = \"analytic\""));
    near(step(&ring), 0.1 + 2.0 * 4095.0 * (10e-6 + (100e6_f64 / 4096.0).ceil() / 1e9), "around");
}

#[test]
fn catalogue_models_reduce_gradients_layer_by_layer() {
    // System: ResNet-50 with its 25,557,032 parameters. Expectation: two ranks reduce 102 MB in 102 ms, half of
    // that in 16 bits; the first buckets are ready long before the step ends.
    let of = |keys: &str| {
        let text =
            text(2, 1, &format!("algorithm = \"ring\"\ntransport.nccl.latency = \"0 s\"\n{keys}"))
                .replace("gradients = \"100 MB\"\n", "")
                .replace(
                    "model.step = \"100 ms\"",
                    "model = { catalogue = \"resnet50\", step = \"100 ms\" }",
                );
        step(&run(&text)) - 0.1
    };
    let whole = 4.0 * 25_557_032.0 / 1e9;
    near(of("overlap = false"), whole, "32 bits");
    near(of("overlap = false\nprecision = \"fp16\""), whole / 2.0, "16 bits");
    let buckets = of("buckets = \"25 MiB\"");
    assert!(buckets > 0.2 * whole && buckets < 0.6 * whole, "{buckets} of {whole}");
}

#[test]
fn invalid_allreduce_settings_are_refused_with_a_remedy() {
    let wrong = |sync: &str, from: &str, to: &str| {
        let text = text(2, 2, sync).replace(from, to);
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err(sync).to_string()
    };
    for (sync, from, to, what) in [
        ("", "gradients = \"100 MB\"", "", "write `gradients = \"102 MB\"`"),
        ("buckets = \"1 MB\"\nfusion = {}", "", "", "either by buckets or by fusion"),
        ("algorithm = \"bruck\"", "", "", "`bruck` does not support `allreduce`"),
        ("algorithm = \"hierarchical\"\ninner = \"auto\"", "", "", "needs a plain algorithm"),
        ("transport.nccl.efficiency = 0", "", "", "`efficiency` is too small"),
        ("transport.nccl.efficiency = 1e-320", "", "", "`efficiency` is too small"),
        (
            "algorithm = \"double-binary-tree\"\nfidelity = \"flow\"\nchunk = \"1 B\"",
            "",
            "",
            "fidelity = \"analytic\"",
        ),
        (
            "",
            "loader.in-memory = {}",
            "loader.in-memory = {}\nparallel.pipeline.stages = 2",
            "no backward passes",
        ),
        (
            "algorithm = \"ring\"\ntensors = 100000\nbuckets = \"1 B\"\nfidelity = \"flow\"",
            "nodes = 2",
            "nodes = 900",
            "fidelity = \"analytic\"",
        ),
        (
            "",
            "model.step = \"100 ms\"",
            "model = { catalogue = \"resnet51\", step = \"1 s\" }",
            "unknown model \"resnet51\"",
        ),
    ] {
        let found = wrong(sync, from, to);
        assert!(found.contains(what), "{sync} {to}: {found}");
    }
    let idle = "precision = \"fp16\"\nchunk = \"1 MB\"\ninner = \"ring\"\nouter = \"ring\"";
    let remarks = written(&text(2, 1, idle), &[]).remarks.join("\n");
    for key in ["precision", "chunk", "inner", "outer"] {
        assert!(remarks.contains(&format!("{key}` has no effect")), "{key}: {remarks}");
    }
    let alone = written(&text(1, 1, ""), &[]).remarks.join("\n");
    assert!(alone.contains("`sync` has no effect"), "{alone}");
}

#[test]
fn a_trace_shows_waits_for_gradients() {
    let text = text(2, 1, "algorithm = \"ring\"");
    let options = Options { trace: true, ..Options::default() };
    let outcome = sim::run(&written(&text, &[]), 0, &options);
    let trace = serde_json::to_string(&outcome.trace).expect("a trace");
    assert!(trace.contains("\"communication\""));
}
