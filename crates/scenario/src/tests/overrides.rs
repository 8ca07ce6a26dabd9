//! Tests of `--set key=value`.

use super::*;

fn threads(scenario: &Scenario) -> Vec<u32> {
    scenario.jobs.iter().map(|job| job.loader.stages[0].workers).collect()
}

/// Returns the example with a second job, on a cluster with room for it.
fn two_jobs() -> ScenarioFile {
    let job = &FLETCHER[FLETCHER.find("[[job]]").expect("there")..];
    let job = &job[..job.find("[sweep]").expect("there")];
    let second = job.replace("\"lenet\"", "\"alex net\"").replace("copies = 16", "copies = 2");
    let text = FLETCHER
        .replace("[sweep]", &format!("{second}[sweep]"))
        .replace("nodes = 16", "nodes = 20");
    ScenarioFile::parse("two.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn set(change: &str) -> Result<Scenario, Problems> {
    two_jobs().resolve(&[change.parse()?])
}

#[test]
fn an_override_applies_to_all_jobs_or_to_a_selected_job() {
    let key = "loader.tf-queue.threads=3";
    for (change, expected) in [
        (format!("job.{key}"), [3, 3]),
        (format!("job.lenet.{key}"), [3, 8]),
        (format!("job.\"alex net\".{key}"), [8, 3]),
        (format!("job.0.{key}"), [3, 8]),
        (format!("job.1.{key}"), [8, 3]),
    ] {
        let scenario = set(&change).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(threads(&scenario), expected, "{change}");
    }
}

#[test]
fn an_override_replaces_or_adds_values_of_every_kind() {
    let job =
        |change: &str| set(change).unwrap_or_else(|problems| panic!("{problems}")).jobs.remove(0);
    assert_eq!(job("job.queue=circular").queue, QueueKind::Circular);
    assert_eq!(job("job.queue = \"circular\"").queue, QueueKind::Circular);
    assert_eq!(job("job.batch_interval=1.5").batch_interval, BatchInterval::Every(1.5));
    let adaptive = BatchInterval::Adaptive { level: 128, max: 4 };
    let change = "job.batch_interval={ adaptive = { level = \"128 samples\", max = 4 } }";
    assert_eq!(job(change).batch_interval, adaptive);
    assert_eq!(
        job("job.loader.tf-queue.decode=1 ms").loader.stages[0].per_sample[1],
        Operation::Compute(Distribution::Constant(1e-3))
    );
    assert_eq!(job("job.prefill=full").prefill, 2000);
    assert_eq!(
        job("job.parallel.pipeline.stages=1").pipeline,
        Some(Pipeline { shares: vec![1.0], overlap: true, activations: 0.0 })
    );
    let run = |change: &str| set(change).unwrap_or_else(|problems| panic!("{problems}")).run;
    assert_eq!(run("run.duration=10 min").stop, Stop::Duration(600.0), "replaces steps");
    assert_eq!(run("run.epochs=2").stop, Stop::Epochs(2.0), "replaces steps");
    assert_eq!(run("run.warm_up=off").warm_up, WarmUp::Off);
    assert_eq!(run("run.seed=18446744073709551615").seed, u64::MAX);
}

#[test]
fn a_later_override_wins_and_the_scenario_file_is_unchanged() {
    let file = fletcher();
    let change = |text: &str| text.parse::<Override>().expect("a key and a value");
    let changes = [change("job.batch=32"), change("job.batch=16")];
    assert_eq!(file.resolve(&changes).expect("right").jobs[0].batch, 16);
    assert_eq!(file.resolve(&[]).expect("right").jobs[0].batch, 64);
    assert_eq!(changes[1], Override::new("job.batch", Value::from(16_i64)));
    assert_eq!(changes[1].to_string(), "--set job.batch=16");
}

#[test]
fn a_problem_caused_by_an_override_names_the_override() {
    for (change, what, remedy) in [
        ("job.batch=-3", "-3 is out of range", "from 1 to"),
        ("job.batch=4000", "less than one batch of 4000", "4000 samples"),
        ("job.lenet.nme=3", "unknown key `nme`", "did you mean `name`?"),
        ("job.lent.batch=3", "unknown key `lent`", "did you mean `lenet`?"),
        ("cluster.nodes=3", "the cluster has 3", "fewer copies"),
        ("cluster.node.gpus=1", "need 4 GPUs", "fewer copies"),
        ("run.steps.x=3", "found a table", "a whole number"),
        ("run=3", "found the number 3", "write a table"),
        ("job=3", "found the number 3", "an array"),
        ("storage.hpctmp={ memory = {}, local-disk = {} }", "two kinds", "keep one"),
        ("job.dataset=cifar", "no dataset named \"cifar\"", "mnist"),
    ] {
        let problems = resolved(&[change]).expect_err(change);
        let problem = problems.iter().next().expect("not empty");
        assert_eq!((problem.line, problem.column), (0, 0), "{problems}");
        let (key, _) = change.split_once('=').expect("there");
        assert!(problem.file.starts_with(&format!("--set {key}=")), "{problems}");
        assert!(problem.what.contains(what) && problem.remedy.contains(remedy), "{problems}");
    }
}

#[test]
fn malformed_override_texts_are_refused_with_a_remedy() {
    for text in ["", "job.batch", "=3", "a..b=3", "a.=3", "job.batch=[1", "job.batch=", "a b\"=3"] {
        let problems = text.parse::<Override>().expect_err(text);
        assert!(problems.to_string().contains("= help: "), "{problems}");
    }
}

#[test]
fn override_values_are_displayed_as_written() {
    for text in ["3", "1.5", "\"3 ms\"", "true", "[1, 2]", "1e300", "\"a\\\"b\\\\c\\u0007\""] {
        let change: Override = format!("x={text}").parse().expect("a value");
        assert_eq!(change.value().expect("it has one").to_string(), text);
    }
    let value = |text: &str| {
        format!("x={text}").parse::<Override>().expect("a value").value().and_then(Value::as_f64)
    };
    assert_eq!(value("3 ms"), Some(3e-3));
    assert_eq!(value("10 Gbit/s"), Some(1.25e9));
    assert_eq!(value("17"), Some(17.0));
    assert_eq!(value("circular"), None);
    assert_eq!(serde_json::json!(Value::from(3_i64)), serde_json::json!(3));
}

#[test]
fn every_sweep_value_of_the_example_scenario_is_a_valid_override() {
    let file = fletcher();
    for axis in file.axes().expect("right") {
        for values in axis.values {
            let pairs = axis.keys.iter().zip(values);
            let changes: Vec<_> = pairs.map(|(key, value)| Override::new(key, value)).collect();
            file.resolve(&changes).unwrap_or_else(|problems| panic!("{problems}"));
        }
    }
}

#[test]
fn a_cluster_with_too_few_nodes_for_all_jobs_is_refused() {
    let problems = set("cluster.nodes=17").expect_err("18 are needed");
    assert!(problems.to_string().contains("with the jobs before, need 18 nodes"), "{problems}");
    assert!(set("cluster.nodes=18").is_ok());
}

#[test]
fn an_incomplete_key_is_refused_with_the_whole_key_that_was_probably_meant() {
    // System: keys that leave out the kind, the name or a table. Expectation: one problem, whose remedy is the key that the
    // scenario accepts with the value, or those of all jobs; a whole key with a wrong value keeps its own remedy.
    for (change, expected) in [
        ("storage.hpctmp.bandwidth=1 GB/s", "`storage.hpctmp.file-server.bandwidth`"),
        ("storage.bandwidth=1 GB/s", "`storage.hpctmp.file-server.bandwidth`"),
        (
            "storage.file-server.write_bandwidth=1 GB/s",
            "`storage.hpctmp.file-server.write_bandwidth`",
        ),
        ("dataset.sample_size=1 kB", "`dataset.mnist.sample_size`"),
        ("cluster.cores=8", "`cluster.node.cores`"),
        (
            "job.threads=3",
            "`job.lenet.loader.tf-queue.threads` or `job.\"alex net\".loader.tf-queue.threads`",
        ),
    ] {
        let problems = set(change).expect_err("refused").to_string();
        let remedy = format!("write the whole key: {expected}");
        assert!(problems.contains(&remedy), "{change}: {problems}");
        assert_eq!(problems.matches("error: ").count(), 1, "{change}: {problems}");
    }
    for change in ["job.loader.tf-queue.threads=many", "cluster.node.xyzzy=1"] {
        let problems = set(change).expect_err("refused").to_string();
        assert!(!problems.contains("the whole key"), "{change}: {problems}");
    }
}

#[test]
fn a_whole_key_with_the_same_error_is_not_offered() {
    // System: a batch that does not fit into GPU memory. Expectation: the error keeps its own help, a batch that fits.
    let text = r#"
name = "large"
cluster = { nodes = 1, node = { cores = 16, gpus = 1, gpu = "h100-sxm5" } }
storage.d.local-disk = { bandwidth = "1 GB/s" }
dataset.s = { samples = 100000, sample_size = "8 kB", layout.shards = { samples = 1000 } }
[[job]]
name = "gpt"
dataset = "s"
storage = "d"
batch = 1
model = { catalogue = "gpt2-xl", efficiency = 0.4, optimizer = "adam" }
loader.pytorch.workers = 4
"#;
    let file = ScenarioFile::parse("large.toml", text.to_owned()).expect("it is TOML");
    file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
    let change = "job.batch=4096".parse().expect("a key and a value");
    let problems = file.resolve(&[change]).expect_err("too large").to_string();
    assert!(problems.contains("of GPU memory"), "{problems}");
    assert!(problems.contains("write `batch = ") && !problems.contains("whole key"), "{problems}");
}
