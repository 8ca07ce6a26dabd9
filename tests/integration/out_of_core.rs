//! Models that do not fit on a GPU and are swapped to its node's memory.

use super::pipeline_schedules::{adds_up, spread, waits};
use super::runs::{near, run, simulate, step, written};
use forebay::report::{Cause, JobOutcome, StallCause, summarise, text};
use forebay::scenario::ScenarioFile;

/// Returns a model with steps of 1 s, a third of which is forward. It needs 4 GB each for parameters, gradients
/// and momentum, and 24 GB for activations.
fn model(capacity: &str, pcie: &str, rest: &str) -> String {
    let node = format!("gpu_memory = \"{capacity}\", pcie = \"{pcie}\"");
    let model = format!(
        "model = {{ step = {{ per_sample = \"{} s\" }}, memory = {{ parameters = \"4 GB\", activations = \"100 MB\" }}, \
         out_of_core = true }}\n{rest}",
        1.0 / 240.0
    );
    spread(&node, &model)
}

fn of(text: &str) -> JobOutcome {
    let job = run(text);
    adds_up(&job);
    job
}

fn refused(text: &str) -> String {
    let file = ScenarioFile::parse("x.toml", text.to_owned()).and_then(|file| file.resolve(&[]));
    file.map(|_| ()).expect_err(text).to_string()
}

#[test]
fn step_time_is_the_longer_of_compute_and_swapping() {
    // System: S GB of activations are swapped out during forward (1/3 s) and in during backward (2/3 s) over an
    // idle link. Expectation: max(1/3, S/B) + max(2/3, S/B).
    for (capacity, pcie, swapped, bandwidth) in [
        ("24 GB", "12 GB/s", 12e9, 12e9),
        ("24 GB", "24 GB/s", 12e9, 24e9),
        ("24 GB", "48 GB/s", 12e9, 48e9),
        ("30 GB", "12 GB/s", 6e9, 12e9),
        ("12 GB", "48 GB/s", 24e9, 48e9),
    ] {
        let text = model(capacity, pcie, "");
        let job = of(&text);
        let time = swapped / bandwidth;
        let expected = f64::max(1.0 / 3.0, time) + f64::max(2.0 / 3.0, time);
        near(step(&job), expected, &format!("{capacity}, {pcie}"));
        let exposed = waits(&job, Cause::Swap) * step(&job);
        assert!((exposed - (expected - 1.0)).abs() < 1e-6, "{capacity}, {pcie}: {exposed}");
        near(job.parallel.expect("books").swapped, 4.0 * 2.0 * swapped, "bytes of four steps");
    }
}

#[test]
fn activations_are_swapped_first_then_optimizer_states_then_parameters() {
    // System: 12 GB/s in each direction. Expectation, at 8 GB: all activations, 2 s in each direction, and 4 GB
    // of momentum, which are swapped in and out at the update, 1/3 s. At 2 GB: gradients too and half of the
    // parameters; forward reads 2 GB beside the activations that go out, backward reads 24 + 2 GB, the update
    // reads 8 GB and writes 6 GB.
    near(step(&of(&model("8 GB", "12 GB/s", ""))), 4.0 + 1.0 / 3.0, "momentum");
    near(step(&of(&model("2 GB", "12 GB/s", ""))), 2.0 + 26.0 / 12.0 + 8.0 / 12.0, "parameters");
    // Micro-batches add to gradients, which must be swapped in first.
    let micro = "parallel.pipeline = { stages = 1, schedule = \"1f1b\", micro_batches = 2 }";
    let held = written(&model("8 GB", "12 GB/s", micro), &[]).jobs[0].footprint().expect("known");
    near(held.activations, 12e9, "1f1b has one of two in progress");
}

#[test]
fn less_swapping_shortens_steps() {
    let time = |capacity: &str, pcie: &str, rest: &str| step(&of(&model(capacity, pcie, rest)));
    let slow = time("16 GB", "12 GB/s", "");
    assert!(time("20 GB", "12 GB/s", "") < slow, "more memory");
    assert!(time("16 GB", "16 GB/s", "") < slow, "a faster link");
    let stages = "parallel.pipeline = { stages = 4, schedule = \"1f1b\", micro_batches = 8 }";
    assert!(time("16 GB", "12 GB/s", stages) < slow, "fewer layers on each GPU");
    // Batches use the same link.
    let bulky = model("16 GB", "12 GB/s", "").replace("\"100 B\"", "\"100 MB\"").replace(
        "loader.in-memory = {}",
        "loader.stages = [{ name = \"copy\", workers = 1, unit = \"batch\", per_sample = [\"read\"], per_item = [\"copy\"], buffer = 1 }]",
    );
    assert!(time("16 GB", "12 GB/s", "") + 0.1 < step(&of(&bulky)), "batches on the same link");
}

#[test]
fn swapping_is_skipped_if_models_fit_in_gpu_memory_and_refused_if_impossible() {
    let fits = written(&model("40 GB", "12 GB/s", ""), &[]);
    assert!(fits.remarks.join("\n").contains("out_of_core` has no effect: the model fits"));
    near(step(&of(&model("40 GB", "12 GB/s", ""))), 1.0, "all of it fits");
    let not = refused(
        &model("24 GB", "12 GB/s", "").replace("out_of_core = true", "out_of_core = false"),
    );
    assert!(not.contains("`model.out_of_core = true`"), "{not}");
    let unknown = refused(&model("24 GB", "12 GB/s", "").replace(", pcie = \"12 GB/s\"", ""));
    assert!(unknown.contains("write `cluster.node.pcie = \"12 GB/s\"`"), "{unknown}");
    let full = refused(&model("24 GB", "12 GB/s\", memory = \"8 GB", ""));
    // Synthetic data take no memory.
    assert!(full.contains("need 12.0 GB, and a node has 8.0 GB"), "{full}");
    let large =
        model("1 GB", "12 GB/s", "").replace("\"100 MB\" }", "\"100 MB\", workspace = \"2 GB\" }");
    assert!(refused(&large).contains("GPU memory"));
}

#[test]
fn reports_state_the_swapped_bytes() {
    let scenario = written(&model("24 GB", "12 GB/s", ""), &[]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let page = text::render(&report, 200, false);
    assert!(page.contains("A GPU sends 24 GB to and from its node's memory in a step."), "{page}");
    assert!(page.contains("holds 24 GB of 24 GB, and 12 GB more"), "{page}");
    assert!(page.contains("into swapping over PCIe: a smaller batch or model"), "{page}");
    let idle = page.lines().filter(|line| line.contains("no effect"));
    assert!(idle.into_iter().all(|line| line.contains("cluster.network")), "{page}");
    assert_eq!(report.jobs[0].parallel.and_then(|of| of.swap_bytes), Some(24e9));
}

#[test]
fn waits_for_a_swapping_peer_are_attributed_to_swapping() {
    // System: two model copies with next to no gradients, one of them with a link of half the bandwidth: 4 s a
    // step, 3 s of it beyond compute, and 2 s. Expectation: the fast copy waits more for its peer's swapping
    // than for its compute.
    let text = model("24 GB", "12 GB/s", "");
    let scenario = written(
        &text,
        &[
            ("cluster.nodes", "1"),
            ("cluster.group.slow", "{ nodes = 1, node = { pcie = \"6 GB/s\" } }"),
            ("job.nodes", "2"),
            ("job.sync.allreduce", "{ gradients = \"1 kB\" }"),
        ],
    );
    let job = simulate(&scenario).jobs.remove(0);
    adds_up(&job);
    let of = |cause| {
        let all = job.stalls.iter().filter(|stall| stall.cause == StallCause::peer(cause));
        all.map(|stall| stall.seconds).sum::<f64>()
    };
    let (swap, compute) = (of(Cause::Swap), of(Cause::Compute));
    assert!(swap > 1.5 * compute && swap > 1.0, "{swap} s and {compute} s");
}
