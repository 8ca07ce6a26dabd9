//! Fewer bytes by allreduces: averaging every few steps, gradient accumulation, and compressed gradients.

use super::base::model_copies;
use super::runs::{near, shipped, simulate, step, written};
use forebay::collective::{Algorithm, Collective, Cost, Operation, closed_form};
use forebay::report::{Cause, JobOutcome, Outcome, StallCause, summarise};
use forebay::scenario::ScenarioFile;

/// Returns a job on `nodes` nodes with `copies` model copies each, steps of 100 ms, and 100 MB of gradients.
fn text(nodes: u32, copies: u32, keys: &str) -> String {
    let sync = format!("allreduce]\ngradients = \"100 MB\"\n{keys}");
    model_copies((nodes, copies), 60, ["0 s", "0 s"], &sync)
}

fn ring(nodes: u32, keys: &str) -> String {
    text(nodes, 1, &format!("algorithm = \"ring\"\n{keys}"))
}

fn accumulated(text: &str, steps: u32) -> String {
    text.replace("batch = 8", &format!("batch = 8\naccumulation = {steps}"))
}

fn varying(text: &str, cv: f64) -> String {
    let model = format!("model = {{ step = \"100 ms\", jitter = {{ gamma = {{ cv = {cv} }} }} }}");
    text.replace("model.step = \"100 ms\"", &model)
}

/// Returns the outcome, after checking that compute and stalls make up each step.
fn outcome(text: &str) -> Outcome {
    let outcome = simulate(&written(text, &[]));
    for job in &outcome.jobs {
        let mut before = job.start;
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

/// Returns the mean step time over all steps [s].
fn mean(text: &str) -> f64 {
    let job = run(text);
    job.steps[job.steps.len() - 1].end / job.steps.len() as f64
}

fn stalled(job: &JobOutcome, cause: StallCause) -> f64 {
    let of = job.stalls.iter().filter(|stall| stall.cause == cause);
    of.map(|stall| stall.seconds).sum::<f64>() / job.steps.len() as f64
}

#[test]
fn gradient_exchange_every_h_steps_divides_the_cost_per_step_by_h() {
    // System: two nodes that reduce 100 MB around a ring in 100 ms, or average parameters. Expectation: with a
    // period of H steps, or H steps of accumulation, 100 ms ÷ H for each step; with both, ÷ the product.
    for every in [1, 2, 3, 5, 10] {
        let period = ring(2, &format!("overlap = false\nperiod = {every}"));
        near(mean(&period), 0.1 + 0.1 / f64::from(every), "averaged");
        let summed = accumulated(&ring(2, "overlap = false"), every);
        near(mean(&summed), 0.1 + 0.1 / f64::from(every), "accumulated");
    }
    near(mean(&accumulated(&ring(2, "period = 3"), 2)), 0.1 + 0.1 / 6.0, "both");
    // A run that ends between two exchanges accounts for all of its time, and the NICs carried the bytes sent.
    let cut = outcome(&ring(2, "period = 7").replace("steps = 60", "steps = 20"));
    near(cut.makespan, 20.0 * 0.1 + 2.0 * 0.1, "two exchanges");
    let nic = cut.resources.iter().find(|of| of.name == "node.nic").expect("a NIC");
    near(nic.served, 2.0 * 2.0 * 100e6, "bytes");
}

#[test]
fn allreduces_of_accumulated_gradients_overlap_only_the_last_backward_pass() {
    // System: four tensors of 25 MB, ready after 5/8 … 8/8 of 100 ms, each reduced in 25 ms. Expectation: with
    // accumulation over three steps, 37.5 ms are hidden behind the last step and 62.5 ms are not; averaging of
    // parameters hides none.
    let keys = "tensors = 4\nbackward = 0.5\nbuckets = \"25 MB\"";
    near(mean(&ring(2, keys)), 0.1625, "each step");
    near(mean(&accumulated(&ring(2, keys), 3)), 0.1 + 0.0625 / 3.0, "of three");
    near(mean(&ring(2, &format!("{keys}\nperiod = 3"))), 0.1 + 0.1 / 3.0, "averaged");
}

#[test]
fn between_exchanges_ranks_do_not_wait_for_each_other() {
    // System: eight nodes whose steps vary by half, and gradients that take next to no time. Expectation: with
    // an exchange in each step all wait for the slowest; every 20 steps they wait for the slowest sum of twenty
    // steps, which is hardly longer than the mean.
    let of = |every: u32| {
        let text = ring(8, &format!("period = {every}")).replace("100 MB", "1 B");
        run(&varying(&text, 0.5))
    };
    let (each, rare) = (of(1), of(20));
    let waits = |job: &JobOutcome| stalled(job, StallCause::peer(Cause::Compute));
    assert!(waits(&each) > 0.05, "{}", waits(&each));
    assert!(waits(&rare) < 0.35 * waits(&each), "{} {}", waits(&rare), waits(&each));
    assert!(rare.steps[59].end < 0.8 * each.steps[59].end);
    // Each step has as many samples as with an exchange in each step.
    assert!(rare.steps.iter().all(|step| step.samples == 64));
}

#[test]
fn quantised_gradients_shorten_allreduces_and_cost_gpu_time() {
    // System: two nodes, 100 MB around a ring. Expectation: the closed form for the compressed bytes;
    // compressing at 2 GB/s takes 50 ms and decompressing 25 MB at 1 GB/s takes 25 ms, and both count as
    // compute.
    let cost = Cost { alpha: 0.0, beta: 1e-9, gamma: 0.0 };
    for nodes in [2, 3, 8] {
        for ratio in [1.0, 0.5, 0.25, 0.01] {
            let bytes = (100e6 * ratio) as u64;
            let whole = Collective::new(Operation::Allreduce, Algorithm::Ring, nodes, bytes);
            let expected = closed_form(&whole, &cost, &cost).expect("known");
            let keys = format!("compression.quantised.ratio = {ratio}");
            near(step(&run(&ring(nodes, &keys))), 0.1 + expected, "quantised");
        }
    }
    let keys =
        "compression.quantised = { ratio = 0.25, compress = \"2 GB/s\", decompress = \"1 GB/s\" }";
    let job = run(&ring(2, keys));
    near(step(&job), 0.1 + 0.05 + 0.025 + 0.025, "with its costs");
    near(job.steps[5].compute, 0.1 + 0.05 + 0.025, "computing");
    near(stalled(&job, StallCause::own(Cause::Communication)), 0.025, "on the way");
    // Compression runs between pieces of backward, whose gradients become ready later.
    let buckets = format!("tensors = 4\nbackward = 0.5\nbuckets = \"25 MB\"\n{keys}");
    near(step(&run(&ring(2, &buckets))), 0.1 + 0.05 + 0.00625 + 0.025, "in buckets");
    // With a period, compression is paid once per exchange, and accumulated gradients are compressed once.
    near(mean(&ring(2, &format!("{keys}\nperiod = 5"))), 0.1 + 0.1 / 5.0, "every five");
    near(mean(&accumulated(&ring(2, keys), 5)), 0.1 + 0.1 / 5.0, "of five");
}

#[test]
fn time_of_a_sparse_gradient_allgather_grows_with_the_number_of_ranks() {
    // System: a hundredth of 100 MB on each of n ranks. Expectation: an allgather of n MB, by formula: (n − 1)
    // MB through each NIC, where a quantised allreduce of 1 MB moves 2 (n − 1)/n MB; so with many ranks sparse
    // gradients are slower.
    let cost = Cost { alpha: 0.0, beta: 1e-9, gamma: 0.0 };
    let of = |kind: &str, nodes: u32, ratio: f64, fidelity: &str| {
        let keys = format!("compression.{kind}.ratio = {ratio}\nfidelity = \"{fidelity}\"");
        step(&run(&ring(nodes, &keys))) - 0.1
    };
    for nodes in [2, 4, 7, 16] {
        let bytes = u64::from(nodes) * 1_000_000;
        let whole = Collective::new(Operation::Allgather, Algorithm::Ring, nodes, bytes);
        let expected = closed_form(&whole, &cost, &cost).expect("known");
        near(expected, f64::from(nodes - 1) * 1e-3, "by formula");
        for fidelity in ["flow", "analytic"] {
            near(of("sparse", nodes, 0.01, fidelity), expected, fidelity);
        }
    }
    assert!(of("sparse", 2, 0.1, "flow") < of("quantised", 2, 1.0, "flow"));
    assert!(of("sparse", 32, 0.1, "flow") > of("quantised", 32, 1.0, "flow"));
    // The values of the three other ranks are decompressed: 3 MB at 0.1 GB/s.
    let keys = "compression.sparse = { ratio = 0.01, decompress = \"0.1 GB/s\" }";
    near(step(&run(&ring(4, keys))), 0.1 + 0.003 + 0.03, "taken apart");
    // Allgathers work inside nodes and across them, and with each algorithm of the libraries.
    for algorithm in ["hierarchical", "auto", "flat", "recursive-doubling", "bruck"] {
        let keys = format!("algorithm = \"{algorithm}\"\ncompression.sparse.ratio = 0.01");
        assert!(step(&run(&text(4, 2, &keys))) > 0.1 + 0.006, "{algorithm}");
    }
}

#[test]
fn step_time_with_periodic_exchanges_is_the_sum_of_compute_and_stall_time() {
    // System: exchanges every three steps, together with every other cause of stalls. Expectation: compute and
    // stalls make up each step (which `outcome` checks), and the same seed gives the same outcome.
    let model = "model.step = \"100 ms\"";
    let loader = "loader.in-memory = {}";
    let base = text(2, 2, "tensors = 5\nbuckets = \"20 MB\"\ncompression.quantised = { ratio = 0.5, compress = \"9 GB/s\", decompress = \"9 GB/s\" }")
        .replace("nodes = 2\nnode", "nodes = 2\nshare_nodes = true\nnode");
    for every in ["accumulation = 3", "sync.allreduce.period = 3"] {
        for (from, to) in [
            (model, "model = { step = \"100 ms\", device = { cpu = { threads = 2 } } }"),
            (model, "model = { step = \"100 ms\", launch = { work = \"150 ms\", threads = 2 } }"),
            (model, "model = { step = \"100 ms\", jitter = { gamma = { cv = 1.0 } } }"),
            (model, "batch_interval = 2.5\nmodel.step = \"1 ns\""),
            (loader, "loader.dali = { threads = 2, gpu = { decode = \"9 ms\" } }"),
            (loader, "copies = 2\nloader.pytorch = { workers = 1, decode = \"20 ms\" }"),
            (
                loader,
                "loader.pytorch = { workers = 1, decode = { exponential = { mean = \"40 ms\" } } }",
            ),
            ("samples = 1000000", "samples = 70"),
            ("steps = 60", "duration = \"3.21 s\""),
            ("steps = 60", "epochs = 0.0005"),
            ("steps = 60", "steps = 61"),
        ] {
            let text = base.replace(from, to);
            let text = match every.strip_prefix("sync.allreduce.") {
                Some(key) => text.replace("gradients =", &format!("{key}\ngradients =")),
                None => text.replace("batch = 8", &format!("batch = 8\n{every}")),
            };
            let first = outcome(&text);
            assert_eq!(first, outcome(&text), "{every} {to}");
            assert!(!first.jobs[0].steps.is_empty());
        }
    }
}

#[test]
fn time_to_accuracy_multiplies_the_batch_size_by_the_accumulation_steps() {
    // System: at least 20 epochs, twice as many at a batch of 64; two model copies of 8. Expectation: with
    // accumulation over four steps the batch is 64, and the epochs are 40.
    let report = |steps: u32| {
        let text = accumulated(&ring(2, ""), steps);
        let job = "loader.in-memory = {}";
        let accuracy = "accuracy = { least_epochs = 20, critical_batch = 64 }";
        let scenario = written(&text.replace(job, &format!("{job}\n{accuracy}")), &[]);
        summarise(&scenario, &[simulate(&scenario)], 0.0).jobs.remove(0)
    };
    let of = |steps: u32| report(steps).time_to_accuracy.expect("said");
    assert_eq!((of(1).batch, of(1).epochs), (16, 25.0));
    assert_eq!((of(4).batch, of(4).epochs), (64, 40.0));
}

#[test]
fn invalid_exchange_settings_are_refused_and_ineffective_settings_reported() {
    let wrong = |keys: &str, from: &str, to: &str| {
        let text = text(2, 2, keys).replace(from, to);
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err(keys).to_string()
    };
    let job = "loader.in-memory = {}";
    let with = |more: &str| format!("{job}\n{more}");
    for (keys, from, to, what) in [
        ("period = 0", "", "", "whole number"),
        ("period = 1000000", job, &with("accumulation = 2"), "smaller `period` or `accumulation`"),
        ("algorithm = \"halving-doubling\"\ncompression.sparse.ratio = 2", "", "", "from 0 to 1"),
        (
            "algorithm = \"binomial-tree\"\ncompression.sparse.ratio = 0.1",
            "",
            "",
            "does not support `allgather`",
        ),
    ] {
        let found = wrong(keys, from, to);
        assert!(found.contains(what), "{keys} {to}: {found}");
    }
    let remarks = |text: &str| written(text, &[]).remarks.join("\n");
    assert!(remarks(&ring(2, "period = 2\noverlap = true")).contains("overlap` has no effect"));
    assert!(remarks(&accumulated(&ring(1, ""), 3)).contains("accumulation` has no effect"));
    assert!(!remarks(&accumulated(&ring(2, "period = 2"), 3)).contains("no effect"));
}

#[test]
fn compression_speeds_up_gradient_exchange_at_1_gbit_s_but_not_at_25_gbit_s() {
    // System: `scenarios/local-sgd.toml`. Expectation: sparse gradients are fastest at 1 Gbit/s, averaging
    // every 8 steps at 10 Gbit/s, and at 25 Gbit/s compression is slower than none.
    let of = |nic: &str, keys: &str| {
        let sync = format!("{{ buckets = \"25 MiB\"{keys} }}");
        let changes =
            [("cluster.network.nic", nic), ("job.sync.allreduce", &sync), ("run.steps", "64")];
        let scenario = shipped("local-sgd", &changes);
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        report.jobs[0].figures.samples_per_second.mean.expect("steps")
    };
    let (none, rare) = ("", ", period = 8");
    let quantised = ", compression = { quantised = { ratio = 0.25, compress = \"10 GB/s\" } }";
    let sparse = ", compression = { sparse = { ratio = 0.02, compress = \"10 GB/s\" } }";
    let at = |nic: &str| [none, rare, quantised, sparse].map(|keys| of(nic, keys));
    let [none, rare, quantised, sparse] = at("\"1 Gbit/s\"");
    assert!(sparse > 1.1 * rare && rare > quantised && quantised > 2.0 * none, "at 1 Gbit/s");
    let [none, rare, quantised, sparse] = at("\"10 Gbit/s\"");
    assert!(rare > 1.05 * sparse.max(quantised).max(none), "at 10 Gbit/s");
    let [none, _, quantised, sparse] = at("\"25 Gbit/s\"");
    assert!(none > quantised.max(sparse), "at 25 Gbit/s");
}

#[test]
fn a_run_shorter_than_the_exchange_period_is_reported() {
    let warned = |period: u32| {
        let scenario = written(&ring(2, &format!("period = {period}")), &[]);
        let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
        let length = &report.jobs[0].length;
        length.unseen.iter().chain(&length.why).any(|of| of.contains("exchange"))
    };
    assert!(warned(100) && !warned(10));
}
