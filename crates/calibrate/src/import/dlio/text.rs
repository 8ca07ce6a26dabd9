//! Converts a workload to the text of a scenario.

use super::{Deployment, Times, Workload};
use std::fmt::Write as _;

/// Smallest number of steps of each accelerator; if a run has fewer, its scenario says that the run is too short.
const FEWEST_STEPS: u64 = 200;
/// Default size of requests by readers of record files [B]: TensorFlow's buffer.
const REQUEST: f64 = 262_144.0;

/// Returns the scenario of a workload in a deployment. Each accelerator has its own loader, and all accelerators execute each
/// step together.
#[must_use]
pub fn scenario(of: &Workload, at: &Deployment) -> String {
    let Deployment { accelerators, hosts, bandwidth, source } = at;
    let (name, per_host) = (name(of), accelerators.div_ceil(*hosts));
    let goal = of.utilisation.map_or("fully".to_owned(), |share| format!("{} %", 100.0 * share));
    let busy = if of.utilisation.is_some() { "at least " } else { "" };
    let demand = of.batch as f64 * of.sample_size / of.step.mean();
    let left_out = match of.left_out.is_empty() {
        true => String::new(),
        false => format!("# Not simulated: {}.\n", of.left_out.join(", ")),
    };
    let steps = steps(of, *accelerators);
    let short = match steps.is_some_and(|steps| steps < FEWEST_STEPS) {
        true => format!(
            "# Too short: each accelerator takes {} steps in all. MLPerf Storage asks for a data set of 500 steps an epoch; \
             raise\n# `dataset.num_files_train`, as its `datasize` command says, or write `[run] steps` below.\n",
            steps.unwrap_or(0)
        ),
        false => String::new(),
    };
    let stop = match of.steps {
        Some(steps) => format!("steps = {steps}"),
        None => format!("epochs = {}", of.epochs),
    };
    let warm_up = match of.warm_up {
        0 => "\"off\"".to_owned(),
        steps => steps.to_string(),
    };
    let (samples, order) = (
        of.files.saturating_mul(of.samples_per_file),
        if of.shuffled { "" } else { "order = \"sequential\"\n" },
    );
    let (layout, loader, step) = (layout(of), loader(of), step(of));
    let sampler = sampler(of, *accelerators);
    format!(
        "# Does this storage keep {accelerators} accelerators busy {busy}{goal}: {name} of DLIO?\n\
         #\n\
         # Imported from {source}. {}\n{short}{left_out}\
         name = \"{name}\"\n\n\
         [run]\n{stop}\nwarm_up = {warm_up}\nreplications = 1\nseed = {}\n\n\
         [cluster]\nnodes = {hosts}\n[cluster.node]\ncores = 64\ngpus = {per_host}\n\n\
         [storage.data.file-server]\nbandwidth = \"{bandwidth}\"\n\n\
         [dataset.train]\nsamples = {samples}\nsample_size = {}\n{order}{layout}\n\
         [[job]]\nname = \"{name}\"\nnodes = {hosts}\ndataset = \"train\"\nstorage = \"data\"\nbatch = {}\n\
         {sampler}\n{loader}\n\
         [job.parallel.data]\ncopies_per_node = {per_host}\nloaders = \"per-rank\"\n\n\
         [job.model]\n{step}",
        demand_of(demand),
        of.seed,
        size(of),
        of.batch,
    )
}

/// Returns the number of steps of each accelerator in the whole run; `None` if the workload itself sets the number of steps.
fn steps(of: &Workload, accelerators: u32) -> Option<u64> {
    let samples = of.files.saturating_mul(of.samples_per_file);
    let of_epoch = samples / of.batch.saturating_mul(u64::from(accelerators)).max(1);
    of.steps.is_none().then(|| of_epoch.saturating_mul(of.epochs))
}

fn demand_of(demand: f64) -> String {
    match demand.is_finite() {
        true => format!("An accelerator that never waits takes {:.4} GB/s.", demand / 1e9),
        false => "Steps take no time.".to_owned(),
    }
}

/// Returns the workload's name, changed to a name that scenarios accept.
fn name(of: &Workload) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = of.name.chars().map(kept).collect();
    if name.is_empty() { "dlio".to_owned() } else { name }
}

fn size(of: &Workload) -> String {
    match of.sample_size_sd > 0.0 {
        true => format!(
            "{{ normal = {{ mean = \"{} B\", sd = \"{} B\" }} }}",
            of.sample_size, of.sample_size_sd
        ),
        false => format!("\"{} B\"", of.sample_size),
    }
}

fn layout(of: &Workload) -> String {
    match of.samples_per_file {
        1 => "layout.file-per-sample = {}\n".to_owned(),
        samples => {
            let request = of.transfer_size.unwrap_or(REQUEST);
            format!("layout.shards = {{ samples = {samples}, request = \"{request} B\" }}\n")
        }
    }
}

/// Returns the line that sets a contiguous sampler if each of several ranks reads a contiguous part of the samples and there are
/// at least as many files as ranks; otherwise an empty text.
fn sampler(of: &Workload, accelerators: u32) -> &'static str {
    let several = accelerators > 1 && of.files >= u64::from(accelerators);
    if several && of.contiguous { "sampler = \"contiguous\"\n" } else { "" }
}

fn loader(of: &Workload) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |text_of: String| writeln!(text, "{text_of}").unwrap_or_default();
    if of.pytorch {
        line("[job.loader.pytorch]".to_owned());
        line(format!("workers = {}", of.read_threads));
        if of.read_threads > 0 {
            let factor = match of.prefetch {
                0 => 2,
                prefetch => prefetch.div_ceil(of.read_threads),
            };
            line(format!("prefetch_factor = {factor}"));
            line("persistent_workers = true".to_owned());
        }
        line("drop_last = true".to_owned());
    } else {
        line("[job.loader.tf-data]".to_owned());
        line(format!("parallel_reads = {}", of.read_threads.max(1)));
        line(format!("parallel_calls = {}", of.computation_threads));
        line(format!("prefetch = {}", of.prefetch.max(1)));
    }
    if of.preprocess.mean() > 0.0 {
        line(format!("delay = {}", times(of.preprocess)));
    }
    text
}

fn times(of: Times) -> String {
    match of {
        Times::Constant(time) => format!("\"{time} s\""),
        Times::Normal { mean, sd } => {
            format!("{{ normal = {{ mean = \"{mean} s\", sd = \"{sd} s\" }} }}")
        }
        Times::Uniform { low, high } => {
            format!("{{ uniform = {{ low = \"{low} s\", high = \"{high} s\" }} }}")
        }
        Times::Gamma { .. } => {
            format!("{{ gamma = {{ mean = \"{} s\", cv = {} }} }}", of.mean(), of.cv())
        }
        Times::Exponential { mean } => format!("{{ exponential = {{ mean = \"{mean} s\" }} }}"),
    }
}

/// Returns the scenario's lines for the step time: the mean, and a gamma-distributed factor with the same ratio of standard
/// deviation to mean as the workload's step time.
fn step(of: &Workload) -> String {
    let (mean, cv) = (of.step.mean(), of.step.cv());
    let jitter =
        if cv > 0.0 { format!("jitter = {{ gamma = {{ cv = {cv} }} }}\n") } else { String::new() };
    format!("step = \"{mean} s\"\n{jitter}")
}
