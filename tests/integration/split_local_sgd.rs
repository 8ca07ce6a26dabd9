//! Models that are spread over GPUs and exchange gradients or parameters only after several steps.

use super::pipeline_schedules::{adds_up, gpipe, mean, spread};
use super::runs::{near, run};
use forebay::report::{Cause, JobOutcome, StallCause};

/// Returns the job of 24 steps with batches of 0.96 s, on four nodes whose GPUs have ports of 10 GB/s, with the keys `job`.
fn of(job: &str) -> JobOutcome {
    let node = "scheduling = \"shared\", intra = { kind = \"switch\", bandwidth = \"10 GB/s\", latency = \"50 us\" }";
    let step = if job.contains("jitter") { "" } else { "model.step = { per_sample = \"4 ms\" }\n" };
    let text = spread(node, &format!("{step}{job}"))
        .replace("batch = 240", "nodes = 4\nbatch = 240")
        .replace("steps = 4", "steps = 24");
    let job = run(&text);
    adds_up(&job);
    job
}

fn allreduce(rest: &str) -> String {
    format!("sync.allreduce = {{ gradients = \"800 MB\", algorithm = \"ring\"{rest} }}\n")
}

/// Returns the time of an allreduce of `bytes` bytes around a ring of n nodes [s].
fn ring(n: f64, bytes: f64) -> f64 {
    2.0 * (n - 1.0) * (10e-6 + bytes / n / 10e9)
}

#[test]
fn one_stage_exchanges_after_several_steps_as_a_model_without_stages_does() {
    // System: the same job without stages and as one stage, which exchanges after three steps. Expectation: the same steps.
    let ways = [
        ("", ", period = 3"),
        ("accumulation = 3\n", ""),
        ("accumulation = 3\n", ", tensors = 10, buckets = \"80 MB\""),
        ("", ", tensors = 10, buckets = \"80 MB\", period = 3"),
        (
            "accumulation = 3\n",
            ", compression.quantised = { ratio = 0.25, compress = \"20 GB/s\", decompress = \"5 GB/s\" }",
        ),
        (
            "",
            ", period = 3, compression.quantised = { ratio = 0.25, compress = \"20 GB/s\", decompress = \"5 GB/s\" }",
        ),
        ("accumulation = 3\n", ", overlap = false"),
        ("accumulation = 3\n", ", period = 2"),
    ];
    for (job, sync) in ways {
        let keys = format!("{job}{}", allreduce(sync));
        let (whole, stage) = (of(&keys), of(&format!("{keys}{}", gpipe(1, 1))));
        for (one, other) in stage.steps.iter().zip(&whole.steps) {
            near(one.end, other.end, &keys);
        }
        assert!(mean(&whole) > 0.961, "{keys}: nothing is exposed");
    }
}

#[test]
fn stages_exchange_every_h_steps_at_an_hth_of_the_cost_per_step() {
    // System: four model copies of two stages on nodes of their own, 400 MB of gradients each, two micro-batches.
    // Expectation: a step takes three quarters of 0.96 s. The last stage's ring is hidden behind the first stage's last
    // backward pass; that of the first stage comes after it, once every H steps.
    let step = 0.96 * 3.0 / 4.0;
    for every in [1, 2, 3, 6] {
        for sync in [format!("overlap = false, period = {every}"), "overlap = false".to_owned()] {
            let accumulated = if sync.contains("period") { 1 } else { every };
            let sync = allreduce(&format!(", buckets = \"all\", {sync}"));
            let keys = format!("accumulation = {accumulated}\n{sync}{}", gpipe(2, 2));
            near(mean(&of(&keys)), step + ring(4.0, 400e6) / f64::from(every), &keys);
        }
    }
}

#[test]
fn stages_do_not_wait_for_other_model_copies_between_exchanges() {
    // System: four model copies of two stages whose steps vary by half, and gradients that take next to no time.
    // Expectation: with an average in each step all wait for the slowest, after 24 steps for the slowest sum of 24.
    let of = |every: u32| {
        let sync = allreduce(&format!(", period = {every}")).replace("800 MB", "2 B");
        of(&format!(
            "model = {{ step = \"960 ms\", jitter = {{ gamma = {{ cv = 0.5 }} }} }}\n{sync}{}",
            gpipe(2, 1)
        ))
    };
    let (each, rare) = (of(1), of(24));
    let waits = |job: &JobOutcome| -> f64 {
        let of = job.stalls.iter().filter(|of| of.cause == StallCause::peer(Cause::Compute));
        of.map(|stall| stall.seconds).sum()
    };
    assert!(waits(&rare) < 0.6 * waits(&each), "{} {}", waits(&rare), waits(&each));
    assert!(mean(&rare) < 0.92 * mean(&each), "{} {}", mean(&rare), mean(&each));
    assert!(rare.steps.iter().all(|step| step.samples == 4 * 240));
}

#[test]
fn ranks_that_split_sequences_sum_gradients_at_each_update_and_copies_average_rarely() {
    // System: four model copies on nodes of their own, whose sequences are split over two GPUs; 400 MB of gradients.
    // Expectation: the two GPUs sum gradients over their ports at each update, in 400 MB ÷ 10 GB/s and two latencies, and all
    // eight average parameters every H updates: their ring's slowest links are the NICs.
    let context = "parallel.context = { ranks = 2, attentions = 1, keys_values = \"0 B\", algorithm = \"ring\" }\n";
    let keys = 3.0 * 50e-6;
    let sum = 2.0 * (50e-6 + 200e6 / 10e9);
    let average = 14.0 * (50e-6_f64.max(10e-6) + 50e6 / 10e9);
    for (accumulation, period) in [(1, 2), (1, 6), (2, 2), (3, 4), (4, 1)] {
        let sync = allreduce(&format!(", buckets = \"all\", overlap = false, period = {period}"));
        let sync = sync.replace("800 MB", "400 MB");
        let job = of(&format!("accumulation = {accumulation}\n{sync}{context}"));
        let updates = 1.0 / f64::from(accumulation);
        let sums = if period > 1 { sum * updates } else { 0.0 };
        let expected = 0.48 + sums + average * updates / f64::from(period);
        let found = mean(&job);
        assert!(
            (found - expected).abs() < keys + 1e-3 * expected,
            "{accumulation} {period}: {found}, not {expected}"
        );
    }
}

#[test]
fn model_copies_that_share_experts_sum_gradients_at_each_update() {
    // System: four model copies on nodes of their own, of which two together hold all experts; 400 MB of dense gradients, and
    // 200 MB of experts' gradients on each. Expectation: pairs sum the dense gradients at each update; all average
    // the dense parameters every H updates while both model copies with the same experts average these.
    let expert = "parallel.expert = { ranks = 2, layers = 1, dispatched = \"1 B\", parameters = 0.5, time = 0.5 }\n";
    let of = |period: u32| {
        let sync = allreduce(&format!(", buckets = \"all\", overlap = false, period = {period}"));
        mean(&of(&format!("{sync}{expert}")))
    };
    let tokens = 4.0 * 10e-6;
    let pair = ring(2.0, 400e6);
    let rarely = of(24);
    let average = (of(2) - rarely) / (1.0 / 2.0 - 1.0 / 24.0);
    near(rarely - average / 24.0, 0.96 + tokens + pair, "the pair's sum");
    near(of(6), rarely + average * (1.0 / 6.0 - 1.0 / 24.0), "an average costs the same each time");
    // Both collectives of an average share the NICs.
    near(average, ring(4.0, 400e6) + ring(2.0, 200e6) - 2.0 * 10e-6, "an average");
}
