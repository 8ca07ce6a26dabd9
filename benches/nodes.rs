//! Measures the simulation of many nodes that train one model: eight GPUs and 32 PyTorch workers each, ImageNet as files on a
//! server, every sample read and decoded by itself.
//!
//! `cargo bench --bench nodes` simulates 100 and 1,000 nodes, `-- 300` as many as given. Each run is a process of its own, so that
//! its peak memory is its own. The fastest of three runs counts, in processor time.

use std::process::Command;

use forebay::report;
use forebay::scenario::{Scenario, ScenarioFile};
use forebay::sim;

const ATTEMPTS: usize = 3;
const GPUS: u32 = 8;
const WORKERS: u32 = 32;

/// Tells a process to simulate once and to print what it took.
const ONCE: &str = "once";

fn training(nodes: u32) -> Scenario {
    let text = format!(
        r#"name = "nodes"
run = {{ steps = 20, replications = 1, warm_up = "off" }}
storage.nfs.file-server = {{ bandwidth = "1000 GB/s", latency = "4 ms", operations = "5000000 /s" }}
dataset.images = {{ samples = 1281167, sample_size = "110 kB" }}
[cluster]
nodes = {nodes}
network.nic = "100 Gbit/s"
node = {{ gpus = {GPUS}, cores = 64 }}
[[job]]
name = "resnet"
dataset = "images"
storage = "nfs"
nodes = {nodes}
batch = 64
loader.pytorch = {{ workers = {WORKERS}, decode = {{ lognormal = {{ mean = "8 ms", cv = 0.5 }} }} }}
model.step = "167 ms"
parallel.data.copies_per_node = {GPUS}
"#
    );
    let file = ScenarioFile::parse("nodes.toml", text);
    let file = file.unwrap_or_else(|problems| panic!("{problems}"));
    file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What a run took: its flows, processor time [s], and peak memory [B].
#[derive(Debug, Clone, Copy)]
struct Took {
    flows: f64,
    seconds: f64,
    bytes: f64,
}

/// Simulates and reports once in this process; prints the numbers of [`Took`].
fn once(nodes: u32) {
    let scenario = training(nodes);
    let begin = processor_seconds();
    let outcome = sim::run(&scenario, 0, &sim::Options::default());
    let report = report::summarise(&scenario, &[outcome], 0.0);
    let seconds = processor_seconds() - begin;
    print(&format!("{} {seconds} {}", report.flows, peak_bytes()));
}

/// Simulates once in a process of its own; `None` if that fails.
fn in_process(nodes: u32) -> Option<Took> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).args([ONCE, &nodes.to_string()]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[flows, seconds, bytes] = &numbers[..] else { return None };
    Some(Took { flows, seconds, bytes })
}

/// Returns the processor time of this thread [s]: wall time would include other work on a shared machine.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()) {
        Some(ns) => ns / 1e9,
        None => std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64(),
    }
}

/// Returns the peak resident memory of this process [B]; 0 where the operating system does not tell it.
fn peak_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}

fn print(line: &str) {
    use std::io::Write;
    // A closed pipe is no reason to panic.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() {
    // Cargo itself adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let mut sizes: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if words.first().is_some_and(|word| word == ONCE) {
        return sizes.into_iter().for_each(once);
    }
    if sizes.is_empty() {
        sizes = vec![100, 1000];
    }
    print("nodes     flows        s  ns/flow       MB  kB/worker  kB/GPU");
    for nodes in sizes {
        let attempts = (0..ATTEMPTS).filter_map(|_| in_process(nodes));
        let fastest = attempts.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let Some(Took { flows, seconds, bytes }) = fastest else { continue };
        let each = |number: u32| bytes / 1e3 / f64::from(nodes * number);
        print(&format!(
            "{nodes:>5} {flows:>9} {seconds:>8.2} {:>8.0} {:>8.1} {:>10.2} {:>7.2}",
            seconds * 1e9 / flows,
            bytes / 1e6,
            each(WORKERS),
            each(GPUS),
        ));
    }
}
