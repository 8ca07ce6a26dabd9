//! The policy that tunes the number of learners, compared with a search over all numbers.

use super::base::{base, outcome};
use super::runs::{near, simulate, written};
use forebay::report::{JobOutcome, LearnersOutcome, Outcome};

/// Default threshold of the policy.
const WORTH: f64 = 0.1;

/// A random machine: values between their bounds, log-uniform.
struct Machine(u64);

impl Machine {
    /// Returns a log-uniform random number from `least` to `most`.
    fn draw(&mut self, least: f64, most: f64) -> f64 {
        // Knuth's 64-bit linear congruential generator.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        least * (most / least).powf(part)
    }

    /// Returns the keys of a scenario of this machine.
    fn keys(mut self) -> Vec<(&'static str, String)> {
        let mut draw = |least, most| self.draw(least, most);
        vec![
            ("storage.s", "{ memory = {} }".to_owned()),
            ("job.loader.tf-queue.decode", "\"0 s\"".to_owned()),
            ("job.loader.tf-queue.capacity", "\"100000 samples\"".to_owned()),
            ("job.batch", (draw(8.0, 64.0) as u64).to_string()),
            (
                "job.model.occupancy",
                format!("{{ half = \"{} samples\" }}", draw(20.0, 200.0) as u64),
            ),
            ("job.model.step", format!("\"{} us\"", draw(500.0, 5000.0))),
            ("job.parallel.data.copies_per_node", (draw(1.0, 4.99) as u64).to_string()),
            ("job.sync.model-averaging.parameters", format!("\"{} MB\"", draw(1.0, 50.0))),
            ("job.sync.model-averaging.period", (draw(1.0, 8.99) as u64).to_string()),
            ("cluster.node.gpu_memory_bandwidth", format!("\"{} GB/s\"", draw(100.0, 1000.0))),
            ("cluster.node.intra", format!("{{ bandwidth = \"{} GB/s\" }}", draw(2.0, 50.0))),
            ("run.steps", "600".to_owned()),
        ]
    }
}

fn run(keys: &[(&'static str, String)], learners: &str) -> JobOutcome {
    let mut changes: Vec<(&str, &str)> =
        keys.iter().map(|(key, value)| (*key, &value[..])).collect();
    changes.push(("job.parallel.data.learners", learners));
    simulate(&written(&base(), &changes)).jobs.remove(0)
}

fn tuned(job: &JobOutcome) -> LearnersOutcome {
    job.learners.clone().expect("learners")
}

/// Returns the samples per second of the steps from 40 on.
fn rate(job: &JobOutcome) -> f64 {
    let steps = &job.steps;
    let samples: u64 = steps[40..].iter().map(|step| step.samples).sum();
    samples as f64 / (steps[steps.len() - 1].end - steps[39].end)
}

/// Returns the smallest number of learners to which one more adds no more than the policy's threshold: the
/// result of a search in steps of one, and the optimum if gains diminish.
fn best(keys: &[(&'static str, String)]) -> u32 {
    let of = |number: u32| rate(&run(keys, &number.to_string()));
    let mut before = of(1);
    for number in 2.. {
        let now = of(number);
        if (now - before) / before <= WORTH {
            return number - 1;
        }
        before = now;
    }
    unreachable!("a GPU is full at some point")
}

#[test]
fn the_tuning_policy_finds_the_best_number_of_learners_on_ten_machines() {
    let mut found = Vec::new();
    for seed in 1..=10 {
        let keys = Machine(seed).keys();
        let policy = tuned(&run(&keys, "{ auto = { window = 40 } }")).per_gpu;
        assert_eq!(policy, best(&keys), "machine {seed}: {keys:?}");
        found.push(policy);
    }
    found.sort_unstable();
    found.dedup();
    assert!(found.len() > 2, "machines differ: {found:?}");
}

/// Returns the outcome on a GPU with room for five learners, with these keys of the policy.
fn policy(keys: &str) -> Outcome {
    let auto = format!("{{ auto = {{ {keys} }} }}");
    outcome(&[
        ("storage.s", "{ memory = {} }"),
        ("job.loader.tf-queue.decode", "\"0 s\""),
        ("job.loader.tf-queue.capacity", "\"100000 samples\""),
        ("job.model.occupancy", "0.2"),
        ("run.steps", "400"),
        ("job.parallel.data.learners", &auto),
    ])
}

#[test]
fn the_tuning_policy_adds_learners_one_by_one_until_the_gain_is_too_small() {
    // System: 1 ms steps that fill a fifth of the GPU, measured over windows of 10 steps. Expectation: 1, 2, 3,
    // 4, 5, 6 learners are tried; the sixth gains nothing, so that 5 remain.
    let job = policy("window = 10").jobs.remove(0);
    let learners = tuned(&job);
    let tried: Vec<u32> = learners.tried.iter().map(|of| of.learners).collect();
    assert_eq!((learners.per_gpu, &tried[..]), (5, &[1, 2, 3, 4, 5, 6][..]));
    for of in &learners.tried {
        near(of.samples_per_second, 16e3 * f64::from(of.learners.min(5)), "throughput");
    }
    near(learners.tried[1].since, 10e-3 + job.start, "after ten steps");
    assert_eq!(job.steps.last().expect("a step").samples, 5 * 16);
    let of = job.samples;
    assert_eq!(of.dequeued, job.steps.iter().map(|step| step.samples).sum::<u64>());
    // All time is accounted for, whatever the number of learners.
    let stalls: f64 = job.stalls.iter().map(|of| of.seconds).sum();
    let compute: f64 = job.steps.iter().map(|of| of.compute).sum();
    near(stalls + compute, job.steps[399].end - job.start, "all of the time");
}

#[test]
fn window_threshold_and_maximum_of_the_tuning_policy_take_effect() {
    let of = |keys: &str| tuned(&policy(keys).jobs.remove(0));
    // From 2 to 3 learners throughput grows by a half, to 4 by a third; after the first window, a learner is
    // always added.
    assert_eq!(of("window = 10, threshold = 0.4").per_gpu, 3);
    assert_eq!(of("window = 10, threshold = 0.6").per_gpu, 2);
    assert_eq!(of("window = 10, threshold = 2").per_gpu, 1);
    assert_eq!(of("window = 10, threshold = 2").tried.len(), 2);
    assert_eq!((of("window = 10, most = 3").per_gpu, of("most = 1").per_gpu), (3, 1));
    let slower = of("window = 30");
    near(slower.tried[1].since, 30e-3, "a longer window");
    // A run that ends before the policy is done.
    assert_eq!(of("window = 300").per_gpu, 2);
}

#[test]
fn tuning_the_number_of_averaging_learners_accounts_for_all_time_and_samples() {
    // System: the same with averaging every third step, for which learners wait or do not. Expectation: the policy finds the same
    // number, all time is accounted for, and each model is averaged as often as its number of steps requires.
    let auto = "{ auto = { window = 12 } }";
    for overlap in ["true", "false"] {
        let job = outcome(&[
            ("storage.s", "{ memory = {} }"),
            ("job.loader.tf-queue.decode", "\"0 s\""),
            ("job.loader.tf-queue.capacity", "\"100000 samples\""),
            ("job.model.occupancy", "0.2"),
            ("job.model.jitter", "{ lognormal = { cv = 0.05 } }"),
            ("run.steps", "400"),
            ("job.sync.model-averaging", "{ period = 3, parameters = \"100 kB\" }"),
            ("job.sync.model-averaging.overlap", overlap),
            ("cluster.node.gpu_memory_bandwidth", "\"100 GB/s\""),
            ("job.parallel.data.learners", auto),
        ])
        .jobs
        .remove(0);
        assert_eq!((tuned(&job).per_gpu, tuned(&job).tried.len()), (5, 6), "{overlap}");
        let stalls: f64 = job.stalls.iter().map(|of| of.seconds).sum();
        let compute: f64 = job.steps.iter().map(|of| of.compute).sum();
        near(stalls + compute, job.steps[399].end - job.start, "all of the time");
        let samples: u64 = job.steps.iter().map(|step| step.samples).sum();
        assert_eq!(
            (job.samples.dequeued, job.samples.started),
            (samples, job.samples.enqueued + job.samples.in_progress)
        );
    }
}
