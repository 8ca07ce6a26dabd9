//! Measures the simulator's cost of allreduces: alone, by formula or transfer by transfer, and beside the reads
//! of the yardstick.
//!
//! - `analytic`: a job whose steps consist only of a ring allreduce of 1 MiB, which takes the time of the
//!   formula for an idle network; all ranks move together.
//! - `exact`: the same job, with each transfer simulated as a flow.
//! - `fletcher`: the job of `scenarios/yardstick.toml` on J nodes, whose ranks reduce 1 MiB or 25 MB around a
//!   ring after each step, transfer by transfer, on the NICs over which they also read.
//! - `minute`: one simulated minute of ResNet-50 on 100,000 GPUs, eight to a node, with a hierarchical
//!   allreduce by formula. The peak memory that is printed belongs to this case only if it is the only one that
//!   is run.

use std::time::Duration;

use forebay::report;
use forebay::scenario::{Override, Scenario, ScenarioFile};
use forebay::sim;

/// Attempts of each measurement. The fastest counts, because other work on a shared machine can only slow an
/// attempt down.
const ATTEMPTS: usize = 3;
/// Approximate number of flows of a measurement beside reads.
const FLOWS: u64 = 1 << 20;

/// Returns a job of `ranks` ranks, each on a node of its own.
fn alone(ranks: u32, steps: u64, fidelity: &str) -> Scenario {
    let text = format!(
        r#"name = "collectives"
[run]
steps = {steps}
warm_up = "off"
[cluster]
nodes = {ranks}
node = {{ cores = 1, gpus = 1 }}
network = {{ nic = "12.5 GB/s", latency = "1 us" }}
[storage.memory.memory]
[dataset.d]
samples = 10000000
sample_size = "1 kB"
[[job]]
name = "training"
nodes = {ranks}
dataset = "d"
storage = "memory"
batch = 1
model.step = "1 us"
loader.in-memory = {{}}
[job.sync.allreduce]
gradients = "1 MiB"
algorithm = "ring"
fidelity = "{fidelity}"
"#
    );
    let file = ScenarioFile::parse("collectives.toml", text);
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns one minute of data-parallel training with input in memory, on `nodes` nodes of eight GPUs.
fn minute(nodes: u32) -> Scenario {
    let text = format!(
        r#"name = "minute"
[run]
duration = "60 s"
warm_up = "off"
[cluster]
nodes = {nodes}
network = {{ nic = "200 Gbit/s", latency = "2 us" }}
[cluster.node]
cores = 64
gpus = 8
nics = 8
intra = {{ kind = "switch", bandwidth = "300 GB/s", latency = "3 us" }}
[storage.memory.memory]
[dataset.d]
samples = 1281167
sample_size = "110 kB"
[[job]]
name = "resnet50"
nodes = {nodes}
dataset = "d"
storage = "memory"
batch = 256
loader.in-memory = {{}}
model = {{ catalogue = "resnet50", step = "180 ms" }}
parallel.data = {{ copies_per_node = 8 }}
[job.sync.allreduce]
algorithm = "hierarchical"
fidelity = "analytic"
"#
    );
    let file = ScenarioFile::parse("minute.toml", text);
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the peak resident memory of this process [GB], or `None` where the operating system does not report
/// it.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024.0 / 1e9)
}

/// Returns the yardstick's job on `nodes` nodes, with gradients of `gradients` bytes or without any.
fn beside_reads(nodes: u32, steps: u64, gradients: Option<&str>) -> Scenario {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/yardstick.toml");
    let file = ScenarioFile::open(path.as_ref()).unwrap_or_else(|problems| panic!("{problems}"));
    let mut changes = vec![
        format!("cluster.nodes={nodes}"),
        format!("job.nodes={nodes}"),
        "job.copies=1".to_owned(),
        format!("run.steps={steps}"),
        format!("storage.server.file-server.bandwidth=\"{nodes} GB/s\""),
    ];
    if let Some(bytes) = gradients {
        let table = format!("{{ gradients = \"{bytes}\", algorithm = \"ring\" }}");
        changes.push(format!("job.sync.allreduce={table}"));
    }
    let changes: Vec<Override> =
        changes.iter().map(|change| change.parse().expect("an override")).collect();
    file.resolve(&changes).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the processor time of this thread: wall time would include other work on a shared machine.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match stat.split(' ').next().and_then(|ns| ns.parse().ok()) {
        Some(ns) => Duration::from_nanos(ns),
        None => std::time::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

/// Simulates and reports `scenario`; returns the number of flows and the processor time.
fn measure(scenario: &Scenario) -> (u64, Duration) {
    let begin = processor_time();
    // Every transfer is simulated, even where one transfer would give the time of all alike.
    let options = sim::Options { every_transfer: true, ..sim::Options::default() };
    let outcome = sim::run(scenario, 0, &options);
    let report = report::summarise(scenario, &[outcome], 0.0);
    (report.flows, processor_time().saturating_sub(begin))
}

/// Prints a line: name, ranks, steps, flows, time, rate.
fn show(name: &str, ranks: u32, steps: u64, attempts: usize, scenario: &Scenario) {
    let attempts = (0..attempts).map(|_| measure(scenario));
    let Some((flows, time)) = attempts.min_by_key(|(_, time)| *time) else { return };
    let (milliseconds, rate) = (time.as_secs_f64() * 1e3, flows as f64 / time.as_secs_f64() / 1e6);
    print(&format!("{name:<9} {ranks:>5} {steps:>6} {flows:>10} {milliseconds:>10.1} {rate:>9.2}"));
}

fn print(line: &str) {
    use std::io::Write;
    // A closed pipe is no reason to panic.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() {
    // `cargo bench NAME` runs one kind of cases; cargo itself adds `--bench`.
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    print("case      ranks  steps      flows         ms   Mflow/s");
    if wanted("analytic") {
        for (ranks, steps) in [(256, 100), (4096, 1)] {
            show("analytic", ranks, steps, ATTEMPTS, &alone(ranks, steps, "analytic"));
        }
    }
    if wanted("exact") {
        for (ranks, steps, attempts) in [(256, 10, ATTEMPTS), (256, 100, 1), (4096, 1, 1)] {
            show("exact", ranks, steps, attempts, &alone(ranks, steps, "flow"));
        }
    }
    let loads = [("reads", None), ("fletcher", Some("1 MiB")), ("25 MB", Some("25 MB"))];
    for (name, gradients) in loads {
        for nodes in [16, 64, 256].into_iter().filter(|_| wanted("fletcher")) {
            let ring = if gradients.is_some() { 2 * u64::from(nodes - 1) } else { 0 };
            let steps = (FLOWS / (u64::from(nodes) * (256 + ring))).max(4);
            show(name, nodes, steps, ATTEMPTS, &beside_reads(nodes, steps, gradients));
        }
    }
    if wanted("minute") {
        show("minute", 100_000, 333, 1, &minute(12_500));
        if let Some(gigabytes) = peak_memory() {
            print(&format!("most memory: {gigabytes:.2} GB"));
        }
    }
}
