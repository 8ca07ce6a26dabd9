//! Global batches over all model copies: weak and strong scaling.

use forebay::report::{JobOutcome, Report, summarise};
use forebay::scenario::ScenarioFile;

use super::base::{base, changed};
use super::runs::{near, simulate};

/// Data in memory, steps of 1 ms plus 0.1 ms for each sample.
const FED: [(&str, &str); 5] = [
    ("storage.s", "{ memory = {} }"),
    ("job.loader", "{ in-memory = {} }"),
    ("job.model.step", "{ fixed = \"1 ms\", per_sample = \"0.1 ms\" }"),
    ("run.steps", "50"),
    ("dataset.d.samples", "100000"),
];
const GLOBAL: (&str, &str) = ("job.global_batch", "256");

fn job(changes: &[(&str, &str)]) -> JobOutcome {
    simulate(&changed(&[&FED[..], changes].concat())).jobs.remove(0)
}

fn report(changes: &[(&str, &str)]) -> Report {
    let scenario = changed(&[&FED[..], changes].concat());
    summarise(&scenario, &[simulate(&scenario)], 0.0)
}

#[test]
fn a_global_batch_is_split_evenly_over_model_copies() {
    // Expectation: the same outcome as with the equivalent batch for each model copy, to the last byte.
    for (nodes, each) in [("1", "256"), ("2", "128"), ("4", "64"), ("8", "32")] {
        let nodes = ("job.nodes", nodes);
        assert_eq!(job(&[nodes, GLOBAL]), job(&[nodes, ("job.batch", each)]));
    }
    let copies = ("job.parallel.data.copies_per_node", "4");
    let shared = [("job.nodes", "2"), copies];
    let each = [("job.batch", "32")];
    assert_eq!(job(&[&shared[..], &[GLOBAL]].concat()), job(&[&shared[..], &each].concat()));
}

#[test]
fn a_global_batch_is_split_over_unequal_numbers_of_model_copies_per_node() {
    let data = "{ copies_per_node = [4, 2], loaders = \"per-rank\" }";
    let changes = [("job.nodes", "2"), ("job.parallel.data", data), ("job.global_batch", "96")];
    let found = job(&changes);
    assert!(found.steps.iter().all(|step| step.samples == 96));
    // Each model copy has 16 samples: 1 ms and 1.6 ms.
    near(found.steps[49].end, 50.0 * 2.6e-3, "steps of 16 samples");
}

#[test]
fn strong_scaling_divides_the_batch_and_weak_scaling_multiplies_it() {
    // System: one to eight model copies. Expectation: with a batch of 64 each, a step takes 7.4 ms, and samples
    // per second grow in proportion; with a global batch of 256 it takes 1 ms + 25.6 ms ÷ n.
    for nodes in [1_u32, 2, 4, 8] {
        let text = nodes.to_string();
        let of = |batch: (&str, &str)| job(&[("job.nodes", &*text), batch]);
        let (weak, strong) = (of(("job.batch", "64")), of(GLOBAL));
        near(weak.steps[49].end, 50.0 * 7.4e-3, "weak");
        assert!(weak.steps.iter().all(|step| step.samples == 64 * u64::from(nodes)));
        near(strong.steps[49].end, 50.0 * (1e-3 + 25.6e-3 / f64::from(nodes)), "strong");
        assert!(strong.steps.iter().all(|step| step.samples == 256));
    }
}

#[test]
fn epochs_to_accuracy_grow_only_with_weak_scaling() {
    // Expectation: 10 · (1 + B ÷ 256) epochs at a global batch of B.
    let accuracy = ("job.accuracy", "{ least_epochs = 10, critical_batch = 256 }");
    for (nodes, ranks) in [("1", 1.0), ("4", 4.0), ("8", 8.0)] {
        let epochs = |batch: (&str, &str)| {
            let found = report(&[accuracy, ("job.nodes", nodes), batch]);
            found.jobs[0].time_to_accuracy.as_ref().expect("a law").epochs
        };
        near(epochs(GLOBAL), 20.0, "strong");
        near(epochs(("job.batch", "64")), 10.0 * (1.0 + 64.0 * ranks / 256.0), "weak");
    }
}

#[test]
fn a_global_batch_not_divisible_by_the_number_of_model_copies_is_refused() {
    let unequal = "job.parallel.data={ copies_per_node = [4, 2], loaders = \"per-rank\" }";
    let text = base().replace("batch = 16", "global_batch = 256");
    let both = base().replace("batch = 16", "batch = 16\nglobal_batch = 256");
    let none = base().replace("batch = 16", "");
    for (text, sets, says) in [
        (&text, &["job.nodes=6"][..], "write 258 or 252"),
        (&text, &["job.nodes=5"], "256 samples cannot be divided equally among 5 model copies"),
        (&text, &["job.nodes=2", unequal, "job.global_batch=100"], "write 102 or 96"),
        (&text, &["job.nodes=8", "job.global_batch=4"], "write 8, or fewer nodes"),
        (&text, &["job.parallel.data.learners={ auto = {} }"], "the policy changes the number"),
        (&both, &[], "`batch` and `global_batch` contradict each other"),
        (&none, &[], "one of the keys `batch`, `global_batch` is missing"),
    ] {
        let file = ScenarioFile::parse("test.toml", text.clone()).expect("a scenario");
        let sets: Vec<_> = sets.iter().map(|set| set.parse().expect("an override")).collect();
        let problems = file.resolve(&sets).expect_err(says).to_string();
        assert!(problems.contains(says), "{says}: {problems}");
    }
    // A setting by `--set` takes precedence.
    let file = ScenarioFile::parse("test.toml", text).expect("a scenario");
    let set = "job.batch=8".parse().expect("an override");
    assert_eq!(file.resolve(&[set]).expect("a scenario").jobs[0].batch, 8);
}

#[test]
fn a_global_batch_is_split_over_learners() {
    // Expectation: the global batch as samples in each step, whatever the number of learners.
    let of = |learners| {
        let changes = [("job.parallel.data.learners", learners), ("job.model.occupancy", "0.2")];
        job(&[&changes[..], &[("job.nodes", "2"), GLOBAL]].concat())
    };
    for learners in ["1", "2", "4"] {
        assert!(of(learners).steps.iter().all(|step| step.samples == 256), "{learners}");
    }
}
