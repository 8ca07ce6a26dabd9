//! Converts a workload to the text of a scenario.

use super::{Checkpoints, Deployment, Times, Workload, beside, pytorch_start, tensorflow_start};
use std::fmt::Write as _;

/// Smallest number of steps of each accelerator; if a run has fewer, its scenario says that the run is too short.
const FEWEST_STEPS: u64 = 200;
/// Default size of requests by readers of record files [B]: TensorFlow's buffer.
const REQUEST: f64 = 262_144.0;
/// Shortest step between two checkpoints, where the workload has no time between them [s].
const SHORTEST: f64 = 1e-3;
/// Widest comment [characters].
const WIDEST: usize = 118;

/// Returns the scenario of a workload in a deployment. Each accelerator has its own loader, and all accelerators execute each
/// step together.
#[must_use]
pub fn scenario(of: &Workload, at: &Deployment) -> String {
    if let Some(checkpoints) = of.checkpoints {
        return of_checkpoints(of, checkpoints, at);
    }
    let Deployment { accelerators, hosts, cores, bandwidth, source, .. } = at;
    let (name, copies, nic) = (name(of), copies(at), nic(at));
    let goal = of.utilisation.map_or("fully".to_owned(), |share| format!("{} %", 100.0 * share));
    let busy = if of.utilisation.is_some() { "at least " } else { "" };
    let demand = of.batch as f64 * of.sample_size / of.step.mean();
    let left_out = left_out(of);
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
    let (layout, loader, step) = (layout(of), loader(of, at.start), step(of, at));
    let sampler = sampler(of, *accelerators);
    let plural = if *accelerators == 1 { "" } else { "s" };
    format!(
        "# Does this storage keep {accelerators} accelerator{plural} busy {busy}{goal}: {name} of DLIO?\n\
         #\n\
         # Imported from {source}. {}\n{short}{left_out}\
         name = \"{name}\"\n\n\
         [run]\n{stop}\nwarm_up = {warm_up}\nreplications = 1\nseed = {}\n\n\
         [cluster]\nnodes = {hosts}\n{nic}[cluster.node]\ncores = {cores}\ngpus = {}\n\n\
         [storage.data.file-server]\nbandwidth = \"{bandwidth}\"\n\n\
         [dataset.train]\nsamples = {samples}\nsample_size = {}\n{order}{layout}\n\
         [[job]]\nname = \"{name}\"\nnodes = {hosts}\ndataset = \"train\"\nstorage = \"data\"\nbatch = {}\n\
         {sampler}\n{loader}\n\
         [job.parallel.data]\ncopies_per_node = {copies}\nloaders = \"per-rank\"\n\n\
         [job.model]\n{step}",
        demand_of(demand),
        of.seed,
        accelerators.div_ceil(*hosts),
        size(of),
        of.batch,
    )
}

/// Returns the scenario of a workload that only writes checkpoints: steps without input, each with a checkpoint after it.
fn of_checkpoints(of: &Workload, checkpoints: Checkpoints, at: &Deployment) -> String {
    let Deployment { accelerators, hosts, cores, bandwidth, source, .. } = at;
    let Checkpoints { number, bytes, each_rank, every_rank_all, between } = checkpoints;
    let (name, left_out, copies, nic) = (name(of), left_out(of), copies(at), nic(at));
    let bytes = if every_rank_all { bytes * f64::from(*accelerators) } else { bytes };
    let writers = if each_rank { "each" } else { "first" };
    let gpus = accelerators.div_ceil(*hosts);
    let step = between.max(SHORTEST);
    format!(
        "# How long does this storage take for a checkpoint of {accelerators} ranks: {name} of DLIO?\n\
         #\n\
         # Imported from {source}. It trains nothing: each step stands for the time between two checkpoints.\n\
         {left_out}\
         name = \"{name}\"\n\n\
         [run]\nsteps = {}\nwarm_up = \"off\"\nreplications = 1\n\n\
         [cluster]\nnodes = {hosts}\n{nic}[cluster.node]\ncores = {cores}\ngpus = {gpus}\n\n\
         [storage.data.file-server]\nbandwidth = \"{bandwidth}\"\n\n\
         [storage.none.memory]\n\n\
         [dataset.none]\nsamples = {accelerators}\nsample_size = \"1 B\"\n\n\
         [[job]]\nname = \"{name}\"\nnodes = {hosts}\ndataset = \"none\"\nstorage = \"none\"\nbatch = 1\n\n\
         [job.loader.in-memory]\n\n\
         [job.parallel.data]\ncopies_per_node = {copies}\nloaders = \"per-rank\"\n\n\
         [job.model]\nstep = \"{step} s\"\n\n\
         [job.checkpoint]\nsteps = 1\nbytes = \"{bytes} B\"\nstorage = \"data\"\nwriters = \"{writers}\"\n",
        // The run ends with its last step, before that step's checkpoint.
        number.saturating_add(1)
    )
}

/// Returns the comment that names the keys that are not used, in lines of at most [`WIDEST`] characters.
fn left_out(of: &Workload) -> String {
    if of.left_out.is_empty() {
        return String::new();
    }
    let mut lines = vec!["# Not used:".to_owned()];
    for (index, key) in of.left_out.iter().enumerate() {
        // A comment ends with its line, whatever characters a key has.
        let key = key.replace(char::is_control, " ");
        let end = if index + 1 == of.left_out.len() { "." } else { "," };
        if lines.last().is_some_and(|line| line.len() + key.len() + 2 > WIDEST) {
            lines.push("#".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            *line += &format!(" {key}{end}");
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the line of the hosts' NICs; an empty text if they are no limit.
fn nic(at: &Deployment) -> String {
    at.nic.as_ref().map_or_else(String::new, |nic| format!("network.nic = \"{nic}\"\n"))
}

/// Returns the number of accelerators of each host, in the notation of scenarios: equal if they divide, otherwise as MPI
/// distributes ranks, one more on each of the first hosts.
fn copies(at: &Deployment) -> String {
    let (each, more) = (at.accelerators / at.hosts, at.accelerators % at.hosts);
    if more == 0 {
        return each.to_string();
    }
    let of = |host: u32| if host < more { each + 1 } else { each };
    let all: Vec<String> = (0..at.hosts).map(|host| of(host).to_string()).collect();
    format!("[{}]", all.join(", "))
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

fn loader(of: &Workload, start: Option<f64>) -> String {
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
            line(pytorch_start(start).trim_end().to_owned());
        }
        line("drop_last = true".to_owned());
    } else {
        line("[job.loader.tf-data]".to_owned());
        line(format!("parallel_reads = {}", of.read_threads.max(1)));
        line(format!("parallel_calls = {}", of.computation_threads));
        line(format!("prefetch = {}", of.prefetch.max(1)));
        line(tensorflow_start(&of.name, start).trim_end().to_owned());
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

/// Returns the scenario's lines for the step time: the mean, a gamma-distributed factor with the same ratio of standard deviation to mean
/// as the workload's step time, and what ranks do beside computing where official results tell it.
fn step(of: &Workload, at: &Deployment) -> String {
    let (mean, cv) = (of.step.mean(), of.step.cv());
    let jitter =
        if cv > 0.0 { format!("jitter = {{ gamma = {{ cv = {cv} }} }}\n") } else { String::new() };
    let known =
        at.beside.map(|of| (of, "the usual of this workload, scaled to what these results lack"));
    let launch =
        known.or_else(|| beside(&of.name, mean)).map_or_else(String::new, |(of, source)| {
            format!("launch = {} # beside computing: {source}\n", of.launch())
        });
    format!("step = \"{mean} s\"\n{jitter}{launch}")
}
