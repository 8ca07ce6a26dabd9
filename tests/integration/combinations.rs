//! Random combinations of a job's settings: splits, exchanges, learners, failures, loaders. Combinations that
//! are not refused run to the end and conserve samples and time.
//!
//! `FOREBAY_COMBINATIONS=100000 FOREBAY_REFUSALS=list cargo test --locked --test integration combinations`
//! tries 100,000 combinations, and writes each refusal with its count to the file `list`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::runs::Draws;
use forebay::report::JobOutcome;
use forebay::scenario::{QueueKind, Scenario, ScenarioFile};
use forebay::sim::{Options, run};

const SPLITS: [&str; 20] = [
    "",
    "",
    "parallel.data.copies_per_node = 2",
    "parallel.pipeline = { stages = 2, overlap = true }",
    "parallel.pipeline = { shares = [0.5, 0.3, 0.2], overlap = false, activations = \"1 MB\" }",
    "parallel.pipeline = { stages = 2, schedule = \"gpipe\", micro_batches = 2, activations = \"1 MB\" }",
    "parallel.pipeline = { stages = 3, schedule = \"1f1b\", micro_batches = 4, activations = \"1 MB\" }\n\
     parallel.data.copies_per_node = 2",
    "parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 4, stages_per_node = 1 }",
    "parallel.pipeline = { stages = 2, schedule = \"interleaved-1f1b\", chunks = 2, micro_batches = 4, activations = \"1 MB\" }",
    "parallel.pipeline = { stages = 2, schedule = \"zb-h1\", micro_batches = 4, activations = \"1 MB\" }\n\
     parallel.data.copies_per_node = 2",
    "parallel.pipeline = { stages = 2, schedule = \"zb-v\", micro_batches = 4, activations = \"1 MB\", weight_gradients = 0.4 }\n\
     parallel.data.copies_per_node = 2",
    "parallel.pipeline = { stages = 4, schedule = \"zb-v\", micro_batches = 2, stages_per_node = 2, activations = \"1 MB\" }",
    "parallel.context = { ranks = 2, attentions = 3, keys_values = \"50 kB\" }",
    "parallel.context = { ranks = 2, attentions = 2, keys_values = \"50 kB\", exchange = \"exposed\" }\n\
     parallel.tensor = { ranks = 2, allreduces = 4, activations = \"100 kB\" }\n\
     parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 2, activations = \"1 MB\" }",
    "parallel.expert = { ranks = 2, layers = 3, dispatched = \"50 kB\", parameters = 0.5, time = 0.5, imbalance = 1.5 }\n\
     parallel.data.copies_per_node = 2",
    "parallel.expert = { ranks = 2, layers = 4, dispatched = \"50 kB\", parameters = 0.5, time = 0.5 }\n\
     parallel.data.copies_per_node = 4\n\
     parallel.tensor = { ranks = 2, allreduces = 4, activations = \"100 kB\" }\n\
     parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 2 }",
    "parallel.tensor = { ranks = 2, allreduces = 3, activations = \"100 kB\" }",
    "parallel.tensor = { ranks = 2, allreduces = 2, activations = \"50 kB\", ranks_per_node = 1 }",
    "parallel.tensor = { ranks = 2, allreduces = 4, activations = \"100 kB\" }\n\
     parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 2 }",
    "parallel.pipeline = { stages = 1, schedule = \"gpipe\", micro_batches = 1 }\n\
     parallel.data.copies_per_node = 2",
];
const SHARDS: [&str; 12] = [
    "",
    "",
    "",
    "",
    "parallel.zero.stage = 1",
    "parallel.zero.stage = 2",
    "parallel.zero.stage = 3",
    "parallel.zero = { stage = 1, groups = { size = 2 } }",
    "parallel.zero = { stage = 2, groups = \"node\", quantised_weights = { ratio = 0.3, decompress = \"1 GB/s\" } }",
    "parallel.zero = { stage = 3, groups = \"node\" }",
    "parallel.zero = { stage = 3, secondary = \"node\" }",
    "parallel.zero = { stage = 3, secondary = { size = 2 }, quantised_weights = { ratio = 0.5, compress = \"2 GB/s\" } }",
];
const EXCHANGES: [&str; 15] = [
    "",
    "sync.allreduce = { gradients = \"8 MB\" }",
    "sync.allreduce = { gradients = \"8 MB\", tensors = 4, buckets = \"3 MB\", algorithm = \"ring\" }",
    "sync.allreduce = { gradients = \"8 MB\", tensors = 4, fusion = { buffer = \"5 MB\", cycle = \"2 ms\" } }",
    "sync.allreduce = { gradients = \"8 MB\", compression.quantised = { ratio = 0.3, compress = \"2 GB/s\", decompress = \"1 GB/s\" } }",
    "sync.allreduce = { gradients = \"8 MB\", compression.sparse = { ratio = 0.1, decompress = \"1 GB/s\" } }",
    "sync.allreduce = { gradients = \"8 MB\", period = 3 }",
    "sync.allreduce = { gradients = \"8 MB\", transport.nccl.cpu.per_message = \"100 us\" }",
    "sync.allreduce = { gradients = \"8 MB\", fidelity = \"analytic\" }",
    "sync.reduce-broadcast = { parameters = \"8 MB\", tensors = 4, buffers = \"per-layer\" }",
    "sync.model-averaging = { parameters = \"8 MB\", period = 2 }",
    "sync.parameter-server = { parameters = \"8 MB\", servers = 2 }",
    "sync.parameter-server = { parameters = \"8 MB\", servers = 1, consistency = { stale = 2 }, tensors = 3, buckets = \"3 MB\" }",
    "sync.parameter-server = { parameters = \"8 MB\", consistency = \"asynchronous\", compression.quantised.ratio = 0.3 }",
    "sync.elastic-averaging = { parameters = \"8 MB\", period = 2 }",
];
const LEARNERS: [&str; 8] = [
    "",
    "",
    "",
    "",
    "",
    "",
    "parallel.data.learners = 2\nmodel.occupancy = 0.4",
    "parallel.data.learners = { auto = { window = 2, most = 3 } }\nmodel.occupancy = 0.4",
];
const FAILURES: [&str; 7] = [
    "",
    "",
    "failures = { at = [\"20 ms\", \"45 ms\"], restart = \"10 ms\" }",
    "failures = { at = [\"30 ms\"], restart = \"5 ms\" }\n\
     checkpoint = { interval = \"15 ms\", bytes = \"2 MB\", storage = \"c\" }",
    "failures = { at = [\"40 ms\"], restart = \"5 ms\", read_back = true }\n\
     checkpoint = { steps = 1, bytes = \"2 MB\", storage = \"c\", writers = \"each\", asynchronous = true, pause = \"1 ms\" }",
    "failures = { at = [\"40 ms\"], restart = \"5 ms\" }\n\
     checkpoint = { steps = 1, bytes = \"2 MB\", storage = \"c\", asynchronous = true, when_busy = \"queue\" }",
    "failures = { at = [\"40 ms\"], restart = \"5 ms\" }\n\
     checkpoint = { interval = \"4 ms\", bytes = \"2 MB\", storage = \"c\", asynchronous = true, when_busy = \"together\" }",
];
const LOADERS: [&str; 10] = [
    "loader.in-memory = {}",
    "loader.tf-queue = { threads = 2, capacity = \"32 samples\", decode = \"300 us\" }",
    "loader.tf-queue = { threads = 2, capacity = \"32 samples\", decode = \"300 us\" }\nqueue = \"circular\"",
    "loader.pytorch = { workers = 2, decode = \"300 us\" }",
    "loader.pytorch = { workers = 2, decode = \"300 us\", pin_memory = { work = \"50 us\", bandwidth = \"8 GB/s\" }, to_device = true }",
    "loader.pytorch = { workers = 2, iterable = true, in_order = false, decode = \"300 us\" }",
    "loader.tf-data = { parallel_calls = 2, decode = \"300 us\" }",
    "loader.keras = { workers = 2, decode = \"300 us\" }",
    "loader.dali = { threads = 2, gpu = { decode = \"100 us\" } }",
    "loader.stages = [{ name = \"a\", workers = 2, per_sample = [\"read\", { compute = \"200 us\" }], buffer = 24 }]",
];
const OTHERS: [&str; 12] = [
    "",
    "",
    "model.catalogue = \"lenet5\"\nmodel.device = { gpu = { ahead = 2 } }",
    "batch_interval = 2",
    "model.launch = { work = \"200 us\" }",
    "model.jitter = { gamma = { cv = 0.3 } }",
    "accumulation = 2",
    "cpu_quota = 1.5",
    "memory_traffic = \"3 GB/s\"\ninner_threads = { threads = 3 }",
    "model.launch = { work = \"200 us\", gil = 0.5 }",
    "model.device = { cpu = { threads = 3 } }",
    "parallel.data.loaders = \"per-rank\"",
];

fn text(draws: &mut Draws) -> String {
    let mut text = String::from(
        "name = \"combination\"\n[run]\nsteps = 6\nwarm_up = \"off\"\nreplications = 1\n\
         [cluster]\nnodes = 4\n\
         node = { cores = 4, scheduling = \"shared\", gpus = 8, pcie = \"4 GB/s\", \
         memory_bandwidth = \"5 GB/s\", \
         intra = { kind = \"switch\", bandwidth = \"5 GB/s\", latency = \"5 us\" } }\n\
         network = { nic = \"1 GB/s\", latency = \"10 us\" }\n\
         [storage]\ns = { file-server = { bandwidth = \"1 GB/s\", latency = \"100 us\" } }\n\
         c = { file-server = { bandwidth = \"500 MB/s\" } }\n\
         [dataset.d]\nsamples = 400\nsample_size = \"20 kB\"\n\
         [[job]]\nname = \"j\"\ndataset = \"d\"\nstorage = \"s\"\nbatch = 8\nmodel.step = \"5 ms\"\n",
    );
    let split = draws.one_of(&SPLITS);
    let least = if split.contains("per_node = 1") { 1 } else { 0 };
    let _ = writeln!(
        text,
        "nodes = {}\n{split}",
        [1, 2, 4][least as usize + draws.below(3 - least) as usize]
    );
    let kinds: [&[&str]; 6] = [&SHARDS, &EXCHANGES, &LEARNERS, &FAILURES, &LOADERS, &OTHERS];
    for kind in kinds {
        let _ = writeln!(text, "{}", draws.one_of(kind));
    }
    text.replace("\"shared\"", draws.one_of(&["\"shared\"", "\"fifo\""]))
}

/// Checks that all steps are done, that each instant of them is compute or stall, and that each sample is
/// accounted for; otherwise returns what is wrong.
fn audit(job: &JobOutcome, bounded: bool) -> Result<(), String> {
    let holds = |is: bool, what: &str| if is { Ok(()) } else { Err(what.to_owned()) };
    holds(job.steps.len() == 6, &format!("{} steps", job.steps.len()))?;
    let (mut begin, mut computed) = (job.start, 0.0);
    for step in &job.steps {
        holds(step.end >= begin && step.samples > 0, &format!("{step:?}"))?;
        (begin, computed) = (step.end, computed + step.compute);
    }
    let negative = job.stalls.iter().find(|stall| stall.seconds < 0.0);
    holds(negative.is_none(), &format!("{negative:?}"))?;
    let stalls: f64 = job.stalls.iter().map(|stall| stall.seconds).sum();
    let (sum, elapsed) = (computed + stalls, begin - job.start);
    let adds_up = (sum - elapsed).abs() < 1e-9 * elapsed + 1e-10;
    holds(adds_up, &format!("{computed} s computed and {stalls} s waited of {elapsed} s"))?;
    let counts = job.samples;
    let read = counts.enqueued + counts.in_progress + counts.dropped;
    holds(counts.started == read, &format!("{counts:?}"))?;
    let taken = counts.dequeued + counts.overwritten + counts.left + counts.cleared;
    holds(job.queue.initial + counts.enqueued == taken, &format!("{counts:?}"))?;
    let fresh: u64 = job.steps.iter().map(|step| step.fresh).sum();
    holds(!bounded || fresh <= counts.dequeued, &format!("{fresh} fresh, {counts:?}"))?;
    let sent = job
        .parallel
        .map_or(0.0, |of| of.activations + of.sums + of.keys_values + of.gradients + of.swapped);
    holds(sent.is_finite() && sent >= 0.0, &format!("{sent} B"))
}

/// Runs a scenario; returns an error if its outcome is wrong.
fn check(scenario: &Scenario) -> Result<(), String> {
    let options = Options { most_events: Some(3_000_000), ..Options::default() };
    let ran = std::panic::catch_unwind(|| run(scenario, 0, &options));
    let outcome = ran.map_err(|_| "it panics".to_owned())?;
    if let Some(unfinished) = outcome.unfinished {
        return Err(format!("{unfinished:?}"));
    }
    let bounded = scenario.jobs[0].queue == QueueKind::Bounded;
    outcome.jobs.iter().try_for_each(|job| audit(job, bounded))
}

/// Returns the first error message without names and numbers.
fn reason(problems: &str) -> String {
    let first = problems.lines().find(|line| line.starts_with("error")).unwrap_or(problems);
    let said = first.split_once(": ").map_or(first, |(_, rest)| rest);
    said.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect()
}

#[test]
fn accepted_combinations_of_settings_run_and_conserve_samples_and_time() {
    let asked = std::env::var("FOREBAY_COMBINATIONS").ok().and_then(|text| text.parse().ok());
    let number: u32 = asked.unwrap_or(5_000);
    let mut draws = Draws(23);
    let mut refused: BTreeMap<String, u32> = BTreeMap::new();
    let (mut ran, mut wrong) = (0, Vec::new());
    for _ in 0..number {
        let text = text(&mut draws);
        let file = ScenarioFile::parse("combination.toml", text.clone());
        match file.and_then(|file| file.resolve(&[])) {
            Ok(scenario) => {
                ran += 1;
                wrong.extend(check(&scenario).err().map(|what| format!("{what}\n{text}")));
            }
            Err(problems) => {
                *refused.entry(reason(&problems.to_string())).or_default() += 1;
            }
        }
    }
    let list: Vec<String> = refused.iter().map(|(why, times)| format!("{times:6} {why}")).collect();
    if let Some(file) = std::env::var_os("FOREBAY_REFUSALS") {
        std::fs::write(file, list.join("\n")).expect("a file for the list");
    }
    let first = wrong.iter().take(5).map(String::as_str).collect::<Vec<&str>>().join("\n");
    assert!(wrong.is_empty(), "{} of {ran}:\n{first}", wrong.len());
    assert!(ran * 4 > number, "{ran} of {number} ran\n{}", list.join("\n"));
}
