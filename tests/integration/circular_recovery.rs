//! Failures of jobs whose queue is circular: samples that were trained on or lost before the saved state do not
//! come again, and all others do.

use std::collections::BTreeSet;

use forebay::report::{JobOutcome, TrainedSample};
use forebay::sim::{Options, run};

use super::base::changed;
use super::recovery::{assert_near, assert_whole, end};

type Changes<'a> = &'a [(&'a str, &'a str)];

/// Returns the outcome of the base job with a circular queue and these changes, with each sample recorded.
fn recorded(changes: Changes<'_>) -> JobOutcome {
    let common = [("job.queue", "\"circular\""), ("dataset.d.order", "\"sequential\"")];
    let options = Options { trace: true, ..Options::default() };
    let outcome = run(&changed(&[&common[..], changes].concat()), 0, &options);
    let job = outcome.whole().unwrap_or_else(|e| panic!("{e}: {changes:?}")).jobs.remove(0);
    assert_whole(&job);
    job
}

/// A trainer that takes a batch in each step, and one thread that puts one sample after the other into a
/// circular queue.
struct Ring {
    capacity: usize,
    batch: usize,
    /// Time that a sample takes, and time of a step [ms].
    sample: f64,
    step: f64,
}

/// What a number of steps take from a ring.
#[derive(Default)]
struct Taken {
    /// The samples of all steps, in order.
    trained: Vec<u64>,
    /// For each step, how many samples had been taken or overwritten when it began, and how many of them it was
    /// the first to take.
    counts: Vec<(usize, usize)>,
    /// The samples that were taken or overwritten when the last step ends.
    passed: BTreeSet<u64>,
}

impl Ring {
    /// Returns what `steps` steps take if the samples `coming` come.
    fn steps(&self, coming: impl Fn(usize) -> u64, steps: usize) -> Taken {
        let (mut slots, mut put, mut read) = (Vec::new(), 0, 0);
        let mut of = Taken::default();
        for step in 0..=steps {
            let time = self.batch as f64 * self.sample + step as f64 * self.step;
            let until = ((time + 1e-6) / self.sample) as usize;
            for number in put..until {
                match slots.get_mut(number % self.capacity) {
                    Some(slot) => {
                        of.passed.insert(std::mem::replace(slot, coming(number)));
                    }
                    None => slots.push(coming(number)),
                }
            }
            put = until;
            if step < steps {
                let before = of.passed.len();
                for _ in 0..self.batch {
                    of.trained.push(slots[read]);
                    of.passed.insert(slots[read]);
                    read = (read + 1) % slots.len();
                }
                of.counts.push((of.passed.len(), of.passed.len() - before));
            }
        }
        of
    }
}

#[test]
fn samples_of_a_circular_queue_resume_behind_those_trained_on_or_overwritten() {
    // System: one thread that makes a sample in 1 ms or 20 ms, steps of 10 samples in 100.37 ms or of 4 in 41
    // ms, so that most samples are overwritten, or most are trained on twice; 12 steps, a checkpoint after the
    // fifth, a failure in the eighth, and a restart of 50 ms. Expectation: the two steps since the checkpoint
    // and 30 ms are lost, and the queue fills again until it has a batch; after it come the samples that the
    // first five steps neither took nor saw overwritten, all fresh. With `resume = "epoch"` all samples come
    // again, and as many of them are not fresh as had been taken or overwritten.
    let rings =
        [(20, 10, 1.0, 100.37), (8, 4, 20.0, 41.0), (7, 4, 20.0, 41.0), (64, 10, 1.0, 100.37)];
    let resumes = ["position", "epoch"];
    for ((capacity, batch, sample, step), resume) in
        rings.into_iter().flat_map(|ring| resumes.map(|resume| (ring, resume)))
    {
        let ring = Ring { capacity, batch, sample, step };
        let filling = batch as f64 * sample;
        let failed = filling + 7.0 * step + 30.0;
        let loader = format!(
            "{{ tf-queue = {{ threads = 1, capacity = \"{capacity} samples\", decode = \"{sample} ms\" }} }}"
        );
        let texts = [
            ("job.loader", loader),
            ("job.batch", batch.to_string()),
            ("job.model.step", format!("\"{step} ms\"")),
            (
                "job.failures",
                format!("{{ at = [\"{failed} ms\"], restart = \"50 ms\", resume = \"{resume}\" }}"),
            ),
        ];
        let mut changes: Vec<_> = texts.iter().map(|(key, text)| (*key, text.as_str())).collect();
        changes.extend([
            ("storage.s", "{ memory = {} }"),
            ("storage.c", "{ file-server = { bandwidth = \"1 TB/s\" } }"),
            ("cluster.network.nic", "\"1 TB/s\""),
            ("dataset.d.samples", "100000"),
            ("run.steps", "12"),
            ("job.checkpoint", r#"{ steps = 5, bytes = "1 B", storage = "c" }"#),
        ]);
        let job = recorded(&changes);
        let recovery = job.recovery.as_ref().expect("it fails");
        assert_near(1e3 * recovery.lost_seconds, 2.0 * step + 30.0, 1e-9);
        assert_near(1e3 * end(&job), filling + 14.0 * step + 30.0 + 50.0 + filling, 1e-9);
        let first = ring.steps(|number| number as u64, 5);
        let skipped = if resume == "epoch" { BTreeSet::new() } else { first.passed.clone() };
        let known = first.passed.len() - skipped.len();
        let left: Vec<u64> = (0..100_000).filter(|sample| !skipped.contains(sample)).collect();
        let then = ring.steps(|number| left[number], 7);
        let found: Vec<u64> = job.trained.iter().map(|of| of.sample).collect();
        assert_eq!(found, [first.trained, then.trained].concat(), "{capacity}, {batch}, {resume}");
        let fresh = then.counts.iter().map(|(passed, new)| passed.saturating_sub(known).min(*new));
        let fresh: Vec<u64> =
            first.counts.iter().map(|(_, new)| *new).chain(fresh).map(|new| new as u64).collect();
        let found: Vec<u64> = job.steps.iter().map(|step| step.fresh).collect();
        assert_eq!(found, fresh, "{capacity}, {batch}, {resume}");
    }
}

/// Returns named jobs whose loaders, model copies and exchanges differ.
fn kinds() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    const DECODE: &str = r#"decode = { gamma = { mean = "500 us", cv = 2 } }"#;
    let loader = |threads: u32| -> &'static str {
        let text = format!(
            "{{ tf-queue = {{ threads = {threads}, capacity = \"64 samples\", {DECODE} }} }}"
        );
        text.leak()
    };
    let stages = r#"{ stages = [
        { name = "read", workers = 3, per_sample = ["read"], buffer = 32 },
        { name = "decode", workers = 5, per_sample = [{ compute = "500 us" }], buffer = 64 }] }"#;
    let shards = ("dataset.d.layout", r#"{ shards = { samples = 37, request = "100 kB" } }"#);
    let servers = r#"{ parameters = "5 MB", consistency = "asynchronous" }"#;
    let averaging = r#"{ parameters = "5 MB", period = 3 }"#;
    let two = ("job.parallel.data.copies_per_node", "2");
    let slow = ("job.model.step", "\"4 ms\"");
    vec![
        ("fast", vec![("job.loader", loader(8)), slow]),
        ("slow", vec![("job.loader", loader(2))]),
        ("full at the start", vec![("job.prefill", "\"full\""), ("job.loader", loader(4)), slow]),
        ("two stages", vec![("job.loader", stages), slow]),
        ("shards", vec![shards, ("job.loader", loader(8)), slow]),
        ("two nodes", vec![("job.nodes", "2"), two, ("job.loader", loader(4)), slow]),
        ("each batch twice", vec![("job.batch_interval", "2"), ("job.loader", loader(4))]),
        ("model stages", vec![("job.parallel", "{ pipeline = { stages = 3 } }"), slow]),
        (
            "asynchronous servers",
            vec![
                ("job.nodes", "2"),
                two,
                ("job.sync.parameter-server", servers),
                ("job.model.jitter", "{ gamma = { cv = 0.5 } }"),
            ],
        ),
        (
            "averaged learners",
            vec![
                ("job.nodes", "2"),
                ("job.parallel.data.learners", "2"),
                ("job.model.occupancy", "0.5"),
                ("job.sync.model-averaging", averaging),
            ],
        ),
    ]
}

#[test]
fn jobs_with_circular_queues_never_count_a_sample_as_fresh_twice() {
    // System: loaders, model copies and exchanges of many kinds, three failures each, for a number of steps or
    // of epochs. Expectation: the run ends, and as many different samples are recorded as the steps count as
    // fresh; only the 64 samples that a queue is filled with are not of the data set, and only pipelines take
    // batches for steps that the end of the run cuts off.
    let runs = ["{ steps = 80, warm_up = \"off\" }", "{ epochs = 1.5, warm_up = \"off\" }"];
    for ((name, kind), length) in kinds().iter().flat_map(|kind| runs.map(|run| (kind, run))) {
        for seed in ["1", "2", "3"] {
            let more = [
                ("run", length),
                ("run.seed", seed),
                ("storage.c", "{ file-server = { bandwidth = \"100 MB/s\" } }"),
                ("dataset.d.samples", "992"),
                ("job.checkpoint", r#"{ steps = 7, bytes = "100 kB", storage = "c" }"#),
                ("job.failures", r#"{ at = ["47 ms", "101 ms", "173 ms"], restart = "20 ms" }"#),
            ];
            let changes = [&more[..], kind].concat();
            let job = recorded(&changes);
            let recovery = job.recovery.as_ref().expect("it fails");
            assert!(recovery.failures >= 2 && recovery.lost_seconds > 0.0, "{name}: {recovery:?}");
            let different: BTreeSet<&TrainedSample> = job.trained.iter().collect();
            let fresh: u64 = job.steps.iter().map(|step| step.fresh).sum();
            let unread = if *name == "full at the start" { 64 } else { 0 };
            let cut = if *name == "model stages" { 2 * 16 } else { 0 };
            let taken = different.len() as u64 + unread;
            assert!((taken..=taken + cut).contains(&fresh), "{name}, {length}: {taken} of {fresh}");
        }
    }
}
