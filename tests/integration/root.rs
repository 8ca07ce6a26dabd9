//! Synchronisation at a root: it broadcasts parameters, reduces gradients, and it alone updates.

use super::base::model_copies;
use super::runs::{near, shipped, simulate, written};
use forebay::collective::{Algorithm, Collective, Cost, Operation, closed_form};
use forebay::report::{Cause, JobOutcome, Outcome, StallCause};
use forebay::scenario::ScenarioFile;

/// Returns a job on `nodes` nodes with `copies` model copies each, steps of 100 ms, and `sync` as its table of
/// `[job.sync]`.
fn text(nodes: u32, copies: u32, sync: &str) -> String {
    model_copies((nodes, copies), 4, ["2 us", "10 us"], sync)
}

/// Returns such a job with 100 MB of parameters at a root, and the other `keys`.
fn root(nodes: u32, copies: u32, keys: &str) -> String {
    text(nodes, copies, &format!("reduce-broadcast]\nparameters = \"100 MB\"\n{keys}"))
}

/// Returns keys that use one algorithm for both broadcast and reduce.
fn by(algorithm: &str, keys: &str) -> String {
    format!("broadcast = \"{algorithm}\"\nreduce = \"{algorithm}\"\n{keys}")
}

fn outcome(text: &str) -> Outcome {
    let outcome = simulate(&written(text, &[]));
    let job = &outcome.jobs[0];
    let mut before = 0.0;
    for (index, step) in job.steps.iter().enumerate() {
        let stalls = job.stalls.iter().filter(|stall| stall.step as usize == index);
        let sum = step.compute + stalls.map(|stall| stall.seconds).sum::<f64>();
        let took = step.end - before;
        assert!((sum - took).abs() < 1e-9, "step {index}: {took} s, of which {sum} s are told");
        before = step.end;
    }
    outcome
}

fn run(text: &str) -> JobOutcome {
    outcome(text).jobs.remove(0)
}

/// Returns the mean step time over all steps [s].
fn step(job: &JobOutcome) -> f64 {
    job.steps[job.steps.len() - 1].end / job.steps.len() as f64
}

/// Returns the time of a step beyond its 100 ms [s].
fn beside(text: &str) -> f64 {
    step(&run(text)) - 0.1
}

fn stalled(job: &JobOutcome, cause: StallCause) -> f64 {
    let of = job.stalls.iter().filter(|stall| stall.cause == cause);
    of.map(|stall| stall.seconds).sum::<f64>() / job.steps.len() as f64
}

#[test]
fn broadcast_and_reduce_on_idle_links_take_their_textbook_formulas() {
    // System: one rank on each of n nodes. Expectation: before each step a broadcast of all parameters, after
    // it a reduction of all gradients, by their closed forms, as flows or by formula; then the update.
    let cost = Cost { alpha: 10e-6, beta: 1e-9, gamma: 0.0 };
    let cases = [
        (Algorithm::Flat, &[2, 3, 8, 16][..]),
        (Algorithm::BinomialTree, &[2, 3, 5, 7, 8, 16]),
        (Algorithm::Ring, &[2, 5, 8, 16]),
        (Algorithm::ScatterAllgather, &[2, 4, 8, 16]),
        (Algorithm::HalvingDoubling, &[2, 4, 8, 16]),
        (Algorithm::DoubleBinaryTree, &[4, 8, 16]),
    ];
    for (algorithm, sizes) in cases {
        for &ranks in sizes {
            // With chunks, and with double trees, additions overlap, which the formulas omit.
            for (chunk, gamma) in [(None, 1.0 / 50e9), (Some(4_000_000), 0.0)] {
                let two_trees = algorithm == Algorithm::DoubleBinaryTree;
                let cost = Cost { gamma: if two_trees { 0.0 } else { gamma }, ..cost };
                let sum = if cost.gamma > 0.0 { "transport.nccl.sum = \"50 GB/s\"" } else { "" };
                let seconds = |operation| {
                    let whole = Collective::new(operation, algorithm, ranks, 100_000_000);
                    let whole = Collective { chunk, ..whole };
                    closed_form(&whole, &cost, &cost).expect("known")
                };
                let expected = seconds(Operation::Broadcast) + seconds(Operation::Reduce);
                let chunk = chunk.map_or(String::new(), |bytes| format!("chunk = \"{bytes} B\""));
                for fidelity in ["flow", "analytic"] {
                    let keys =
                        format!("{chunk}\nupdate = \"7 ms\"\nfidelity = \"{fidelity}\"\n{sum}");
                    let job = run(&root(ranks, 1, &by(algorithm.name(), &keys)));
                    let what = format!("{} of {ranks}, {fidelity}", algorithm.name());
                    near(step(&job), 0.1 + expected + 0.007, &what);
                    let communication = stalled(&job, StallCause::own(Cause::Communication));
                    near(communication, expected, &what);
                }
            }
        }
    }
}

#[test]
fn other_ranks_wait_while_the_root_rank_updates_parameters() {
    // System: four ranks, an update of 12 ms. Expectation: the root computes for 112 ms of a step, the other
    // three for 100 ms; they wait 12 ms for their peer.
    let job = run(&root(4, 1, "update = \"12 ms\""));
    near(job.steps[2].compute, 0.1 + 0.012 / 4.0, "computing");
    near(stalled(&job, StallCause::peer(Cause::Compute)), 0.012 * 3.0 / 4.0, "waiting");
    let none = run(&root(4, 1, ""));
    near(step(&job) - step(&none), 0.012, "an update");
    assert_eq!(stalled(&none, StallCause::peer(Cause::Compute)), 0.0);
}

#[test]
fn broadcast_and_reduce_at_a_root_are_never_faster_than_an_allreduce() {
    // System: the same bytes on the same cluster, with the same algorithm or the library's choice. Expectation:
    // reduce and broadcast take at least as long, whatever the nodes and copies; equally long exactly where the
    // allreduce algorithm is a reduce and a broadcast.
    let algorithms =
        ["auto", "flat", "binomial-tree", "ring", "halving-doubling", "double-binary-tree"];
    for (nodes, copies) in [(2, 1), (5, 1), (8, 1), (1, 4), (2, 4), (3, 2)] {
        for algorithm in algorithms.into_iter().chain(["hierarchical"]) {
            for chunk in ["", "chunk = \"1 MB\""] {
                let with_root = beside(&root(nodes, copies, &by(algorithm, chunk)));
                let keys = format!("algorithm = \"{algorithm}\"\n{chunk}");
                let all = format!("allreduce]\ngradients = \"100 MB\"\n{keys}");
                let without = beside(&text(nodes, copies, &all));
                let what = format!("{algorithm} {chunk} on {nodes} x {copies}");
                // Inside a node, an allreduce's trees are a chain of ranks.
                let chain = algorithm == "double-binary-tree" && nodes == 1;
                let slower = with_root > without * (1.0 - 1e-9);
                assert!(chain || slower, "{what}: {with_root} {without}");
                if chunk.is_empty() && ["flat", "binomial-tree"].contains(&algorithm) {
                    near(with_root, without, &what);
                }
                if algorithm == "ring" && chunk.is_empty() && nodes * copies > 2 {
                    assert!(with_root > 1.4 * without, "{what}: {with_root} {without}");
                }
            }
        }
    }
}

#[test]
fn per_layer_broadcast_and_reduce_overlap_forward_and_backward_passes() {
    // System: two nodes; four layers of 25 MB, each with a transfer of 25 ms; forward and backward take 50 ms
    // each, 12.5 ms for each layer. Expectation: parameters arrive after 25, 50, 75 and 100 ms, forward ends at
    // 112.5 ms, gradients are ready from 125 ms on and reduced at 225 ms; without overlap, or packed, 300 ms.
    let of = |size: &str, keys: &str| {
        let sync = format!(
            "reduce-broadcast]\nparameters = \"{size}\"\ntensors = 4\nbackward = 0.5\ntransport.nccl.latency = \"0 s\"\n{keys}"
        );
        run(&text(2, 1, &sync))
    };
    let layers = "buffers = \"per-layer\"";
    let apart = format!("{layers}\noverlap = false");
    near(step(&of("100 MB", "")), 0.3, "packed");
    near(step(&of("100 MB", layers)), 0.225, "layer by layer");
    near(step(&of("100 MB", &apart)), 0.3, "one after the other");
    // With layers of 1 MB, only the broadcast of the first layer and the reduction of its gradients are
    // exposed.
    near(step(&of("4 MB", layers)), 0.102, "hidden");
    near(stalled(&of("4 MB", layers), StallCause::own(Cause::Communication)), 0.002, "exposed");
    near(step(&of("4 MB", &apart)), 0.108, "not hidden");
    // Parameters arrive during the trainer's own work: 80 of 100 ms.
    let slow = "model = { step = \"100 ms\", launch = { work = \"80 ms\", overlap = false } }";
    let sync = "reduce-broadcast]\nparameters = \"100 MB\"\ntransport.nccl.latency = \"0 s\"";
    near(step(&run(&text(2, 1, sync).replace("model.step = \"100 ms\"", slow))), 0.3, "launch");
}

#[test]
fn per_layer_broadcast_and_reduce_pay_latency_for_each_layer() {
    // System: 100 layers of 1 MB on four nodes over a tree of two levels, 1 ms of latency. Expectation: packed
    // buffers pay four latencies, per-layer buffers 400; with overlap fewer latencies are exposed, and at 10 us
    // of latency fewer bytes.
    let of = |keys: &str, latency: &str| {
        let keys = format!(
            "tensors = 100\nbackward = 0.5\n{keys}\ntransport.nccl.latency = \"{latency}\""
        );
        beside(&root(4, 1, &by("binomial-tree", &keys)))
    };
    let (layers, apart) = ("buffers = \"per-layer\"", "buffers = \"per-layer\"\noverlap = false");
    near(of("", "1 ms"), 0.4 + 4.0 * 0.001, "packed");
    near(of(apart, "1 ms"), 0.4 + 400.0 * 0.001, "layer by layer");
    assert!(of(layers, "1 ms") < of(apart, "1 ms") - 0.05, "overlap hides some");
    assert!(of(layers, "1 ms") > of("", "1 ms"), "latency outweighs it");
    assert!(of(layers, "10 us") < of("", "10 us"), "overlap outweighs latency");
}

#[test]
fn overlapping_per_layer_communication_never_lengthens_a_step() {
    // System: per-layer buffers with different sizes, costs and routes. Expectation: overlap never makes a step
    // longer.
    for (nodes, copies, algorithm) in
        [(2, 1, "flat"), (4, 1, "ring"), (3, 2, "binomial-tree"), (2, 4, "auto"), (1, 8, "auto")]
    {
        for (tensors, backward, size) in
            [(1, 0.5, "1 MB"), (7, 0.9, "30 MB"), (20, 0.1, "200 MB"), (50, 0.66, "80 MB")]
        {
            for cost in ["", "transport.tcp = { latency = \"1 ms\", per_tensor = \"2 ms\" }"] {
                let of = |overlap: bool| {
                    let keys = by(algorithm, cost);
                    let keys = format!(
                        "tensors = {tensors}\nbackward = {backward}\nbuffers = \"per-layer\"\noverlap = {overlap}\n{keys}"
                    );
                    step(&run(&root(nodes, copies, &keys).replace("100 MB", size)))
                };
                let (with, without) = (of(true), of(false));
                assert!(with <= without + 1e-9, "{nodes} x {copies} {algorithm}: {with} {without}");
            }
        }
    }
}

#[test]
fn broadcast_and_reduce_load_the_nic_of_the_root_rank_most() {
    // System: eight nodes that all exchange directly with the root: it sends 7 x 100 MB, which is all of the
    // broadcast, and none of the 7 x 100 MB of gradients. Expectation: its NIC sends four times the mean; an
    // allreduce loads all NICs alike; a tree's root sends 3 x 100 MB of 14 x 100 MB.
    let hot = |text: &str| {
        let outcome = outcome(text);
        let out = outcome.resources.iter().find(|of| of.name == "node.nic.out").expect("a NIC");
        out.utilisation_max / out.utilisation
    };
    near(hot(&root(8, 1, &by("flat", ""))), 4.0, "flat");
    near(hot(&root(8, 1, &by("binomial-tree", ""))), 3.0 * 8.0 / 14.0, "tree");
    let all = "allreduce]\ngradients = \"100 MB\"\nalgorithm = \"ring\"";
    near(hot(&text(8, 1, all)), 1.0, "allreduce");
    // Each further rank adds its time at the root; with a tree only each further level does.
    let of = |nodes, algorithm| beside(&root(nodes, 1, &by(algorithm, "")));
    near(of(16, "flat") / of(4, "flat"), 15.0 / 3.0, "flat");
    near(of(16, "binomial-tree") / of(4, "binomial-tree"), 2.0, "tree");
}

#[test]
fn trees_chunks_and_half_precision_shorten_broadcast_and_reduce() {
    let of = |keys: &str| beside(&root(4, 2, keys));
    let flat = of(&by("flat", ""));
    assert!(of(&by("binomial-tree", "")) < flat, "a tree");
    let one = "reduce = \"flat\"\nbroadcast = \"binomial-tree\"";
    let other = "reduce = \"binomial-tree\"\nbroadcast = \"flat\"";
    assert!(of(one) < flat && of(other) < flat, "each by itself");
    assert!(of(&by("hierarchical", "")) < flat, "in groups");
    let chain = of(&by("hierarchical", "outer = \"ring\""));
    assert!(chain > of(&by("hierarchical", "")), "a chain across");
    assert!(
        of(&by("hierarchical", "inner = \"flat\"\nouter = \"flat\""))
            > of(&by("hierarchical", "outer = \"binomial-tree\""))
    );
    assert!(of(&by("ring", "chunk = \"2 MB\"")) < 0.5 * of(&by("ring", "")), "chunks");
    assert!(of("library = \"mpich\"") != of("library = \"open-mpi\""), "libraries");
    let tcp = of(&by("ring", "transport.tcp.per_stream = \"100 MB/s\""));
    assert!(tcp > 5.0 * of(&by("ring", "")), "a stream");
    near(of("transport.nccl.per_tensor = \"3 ms\"") - of(""), 0.006, "tensors");
    // ResNet-50 of the catalogue has 25,557,032 parameters.
    let catalogue = |keys: &str| {
        let sync = format!("reduce-broadcast]\ntransport.nccl.latency = \"0 s\"\n{keys}");
        let model = "model = { catalogue = \"resnet50\", step = \"100 ms\" }";
        beside(&text(2, 1, &sync).replace("model.step = \"100 ms\"", model))
    };
    let whole = 2.0 * 4.0 * 25_557_032.0 / 1e9;
    near(catalogue(""), whole, "32 bits");
    near(catalogue("precision = \"fp16\""), whole / 2.0, "16 bits");
    near(catalogue("buffers = \"per-layer\"\noverlap = false"), whole, "by layer");
    let layers = catalogue("buffers = \"per-layer\"");
    assert!(layers > 0.3 * whole && layers < 0.8 * whole, "{layers} of {whole}");
}

#[test]
fn stall_causes_account_for_all_waiting_time_of_ranks_with_jitter() {
    // System: steps that vary, per-layer buffers, and stalls for reads. Expectation: every instant has its
    // cause (which `outcome` checks), and the same seed gives the same outcome.
    let keys = by("binomial-tree", "tensors = 9\nbuffers = \"per-layer\"\nupdate = \"3 ms\"");
    let text = root(3, 2, &keys)
        .replace(
            "model.step = \"100 ms\"",
            "model = { step = \"100 ms\", jitter = { gamma = { cv = 0.2 } } }",
        )
        .replace(
            "[storage.memory.memory]",
            "[storage.memory.file-server]\nbandwidth = \"400 kB/s\"",
        )
        .replace("loader.in-memory = {}", "loader.pytorch = { workers = 2 }");
    assert_eq!(outcome(&text), outcome(&text));
    let job = run(&text);
    let reads = [Cause::Transfer, Cause::FirstBatch].map(|of| stalled(&job, StallCause::own(of)));
    assert!(reads.iter().sum::<f64>() > 0.0, "reads");
    assert!(stalled(&job, StallCause::peer(Cause::Compute)) > 0.002, "peers");
}

#[test]
fn step_time_with_broadcast_and_reduce_is_the_sum_of_compute_and_stall_time() {
    // System: per-layer buffers with an update, on cores, with kernel launches and a loader's kernels, with
    // smaller last batches, several copies, repeated batches, and in memory only. Expectation: compute and
    // stalls make up each step (which `outcome` checks), and communication is part of the stalls.
    let keys = by("binomial-tree", "tensors = 5\nbuffers = \"per-layer\"\nupdate = \"3 ms\"");
    let model = "model.step = \"100 ms\"";
    let loader = "loader.in-memory = {}";
    for (from, to) in [
        (model, "model = { step = \"100 ms\", device = { cpu = { threads = 2 } } }"),
        (model, "model = { step = \"100 ms\", launch = { work = \"150 ms\", threads = 2 } }"),
        (model, "model = { step = \"100 ms\", jitter = { gamma = { cv = 1.0 } } }"),
        (model, "batch_interval = 2.5\nmodel.step = \"1 ns\""),
        (loader, "loader.dali = { threads = 2, gpu = { decode = \"9 ms\" } }"),
        (loader, "copies = 2\nloader.pytorch = { workers = 1, decode = \"20 ms\" }"),
        ("samples = 1000000", "samples = 70"),
        ("steps = 4", "duration = \"2 s\""),
    ] {
        let text = root(2, 2, &keys).replace(from, to);
        let text = text.replace("nodes = 2\nnode", "nodes = 2\nshare_nodes = true\nnode");
        let job = run(&text);
        assert!(stalled(&job, StallCause::own(Cause::Communication)) > 0.0, "{to}");
        assert!(stalled(&job, StallCause::peer(Cause::Compute)) > 0.0, "{to}");
    }
}

#[test]
fn invalid_root_rank_settings_are_refused_and_ineffective_settings_reported() {
    let wrong = |keys: &str, from: &str, to: &str| {
        let text = root(2, 2, keys).replace(from, to);
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err(keys).to_string()
    };
    for (keys, from, to, what) in [
        ("", "parameters = \"100 MB\"", "", "write `parameters = \"102 MB\"`"),
        (
            "broadcast = \"recursive-doubling\"",
            "",
            "",
            "`recursive-doubling` does not support `broadcast`",
        ),
        ("reduce = \"bruck\"", "", "", "`bruck` does not support `reduce`"),
        ("reduce = \"hierarchical\"\nouter = \"auto\"", "", "", "needs a plain algorithm"),
        (
            "reduce = \"hierarchical\"\nouter = \"bruck\"",
            "",
            "",
            "`bruck` does not support the collective `reduce`",
        ),
        ("buffers = \"packet\"", "", "", "per-layer"),
        (
            "reduce = \"ring\"\nchunk = \"1 B\"\nfidelity = \"flow\"",
            "",
            "",
            "fidelity = \"analytic\"",
        ),
        ("", "100 MB", "900 PB", "a buffer of"),
        (
            "",
            "[job.sync.reduce",
            "[job.sync.allreduce]\ngradients = \"1 MB\"\n[job.sync.reduce",
            "sync",
        ),
    ] {
        let found = wrong(keys, from, to);
        assert!(found.contains(what), "{keys} {to}: {found}");
    }
    let remarks = |keys: &str| written(&root(2, 1, keys), &[]).remarks.join("\n");
    let idle = remarks(
        "precision = \"fp16\"\noverlap = true\nbackward = 0.5\nchunk = \"1 MB\"\ninner = \"ring\"\nouter = \"ring\"",
    );
    for key in ["precision", "overlap", "backward", "chunk", "inner", "outer"] {
        assert!(idle.contains(&format!("{key}` has no effect")), "{key}: {idle}");
    }
    let named = remarks(&by("flat", "library = \"mpich\"\nchunk = \"1 MB\""));
    assert!(named.contains("library` has no effect") && named.contains("chunk` has no effect"));
    let used = by(
        "hierarchical",
        "chunk = \"1 MB\"\ninner = \"flat\"\nbackward = 0.4\nbuffers = \"per-layer\"",
    );
    assert!(!remarks(&used).contains("no effect"));
    let used = "broadcast = \"ring\"\nchunk = \"1 MB\"\nlibrary = \"mpich\"";
    assert!(!remarks(used).contains("no effect"));
}

#[test]
fn per_layer_broadcast_and_reduce_are_hidden_on_8_nodes_but_not_on_64_nodes() {
    // System: `scenarios/root.toml`. Expectation: with per-layer buffers nothing is exposed on 8 nodes, and
    // more than with packed ones on 64; with the flat algorithm, 64 nodes wait for nine tenths of the time.
    let exposed = |nodes: &str, sync: &str| {
        let changes = [("job.nodes", nodes), ("job.sync.reduce-broadcast", sync)];
        let job = simulate(&shipped("root", &changes)).jobs.remove(0);
        stalled(&job, StallCause::own(Cause::Communication)) / step(&job)
    };
    let layers = "{ buffers = \"per-layer\" }";
    assert!(exposed("8", layers) < 0.01 && exposed("8", "{}") > 0.1);
    assert!(exposed("64", layers) > exposed("64", "{}") + 0.03);
    assert!(exposed("64", "{ broadcast = \"flat\", reduce = \"flat\" }") > 0.9);
}

#[test]
fn a_root_broadcasts_and_reduces_once_for_the_steps_whose_gradients_are_added_up() {
    // System: eight ranks that add up the gradients of three steps; six steps. Expectation: two exchanges, each of which takes
    // as long as that of single steps; the first step after an exchange waits for the parameters.
    let text = root(8, 1, &by("ring", "update = \"2 ms\""));
    let exchange = beside(&text);
    for (accumulation, exchanges) in [("1", 6.0), ("2", 3.0), ("3", 2.0), ("6", 1.0)] {
        let changes = [("job.accumulation", accumulation), ("run.steps", "6")];
        let job = simulate(&written(&text, &changes)).jobs.remove(0);
        near(job.steps[5].end, 0.6 + exchanges * exchange, accumulation);
    }
}
