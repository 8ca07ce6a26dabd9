//! Finds what a scenario requires that this machine, or a live run, cannot provide.

use super::fault::Failure;
use super::gpu;
use forebay_calibrate::probe::limits;
use forebay_scenario::{
    Arrivals, Device, Job, Launch, Layout, Operation, SampleSizes, Scenario, Scheduling, Stage,
    Stop, Unit,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Limit for the threads of a whole run: what systems usually allow one user.
const MOST_THREADS: u64 = 4096;

/// Resources of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Cores that this process may use; may be a fraction.
    pub cores: f64,
    /// Memory that is free or can be freed [B].
    pub memory: f64,
}

impl Machine {
    /// Returns the resources of this machine.
    #[must_use]
    pub fn this() -> Machine {
        Machine { cores: limits::cores(), memory: limits::free_memory() }
    }
}

/// Restricts this process, and the threads that it will start, to `count` of the cores that it may use.
///
/// # Errors
/// If the system cannot report or set the affinity.
pub fn use_cores(count: u32) -> Result<(), Failure> {
    let fail = |error| {
        Failure::Lacking(format!("cannot read or set the CPU affinity of this process: {error}"))
    };
    let allowed = sched_getaffinity(None).map_err(fail)?;
    let mut chosen = CpuSet::new();
    let cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    cores.take(count as usize).for_each(|core| chosen.set(core));
    if chosen.count() < allowed.count() {
        sched_setaffinity(None, &chosen).map_err(fail)?;
    }
    Ok(())
}

/// Returns whether a job reads files (generated ones or the user's) and not memory.
pub(super) fn reads_files(scenario: &Scenario, job: &Job) -> bool {
    job.reads_data() && !scenario.storage[job.storage].path.is_memory()
}

/// Checks that the scenario can run live; the error is one sentence with a remedy.
pub(super) fn check(scenario: &Scenario, machine: Machine) -> Result<(), Failure> {
    let node = &scenario.cluster.node;
    let refuse = |what: String| Err(Failure::Lacking(what));
    check_number_of_cores(node.usable_cores, machine.cores)?;
    if let Some(group) = scenario.cluster.groups.first() {
        return refuse(format!(
            "the group `{}` has nodes of another kind, but a live run uses one machine: leave out `cluster.group`",
            group.name
        ));
    }
    if node.scheduling == Scheduling::Fifo {
        return refuse(
            "this machine's scheduler shares cores, so a live run cannot use \"fifo\" scheduling: write `cluster.node.scheduling = \"shared\"`"
                .to_owned(),
        );
    }
    if matches!(scenario.run.stop, Stop::Known { .. }) {
        return Err(Failure::Input(
            "a live run needs a length: write `steps`, `epochs` or `duration` under `[run]`, such as `--set run.steps=200`"
                .to_owned(),
        ));
    }
    if let Some(background) = scenario.background.first() {
        return refuse(format!(
            "a live run has only the scenario's jobs, and cannot create the background load `{}`: leave out `background`",
            background.name
        ));
    }
    let copies: u64 = scenario.jobs.iter().map(|job| u64::from(job.copies)).sum();
    if copies > 1 && !scenario.cluster.share_nodes {
        return refuse(format!(
            "each of the {copies} job copies has its own nodes, but this machine is one node: write `cluster.share_nodes = true`, so that the copies share a node in the simulation, too"
        ));
    }
    for job in &scenario.jobs {
        check_job(scenario, job)?;
        if copies > 1 && job.launch.as_ref().is_some_and(|launch| launch.serial > 0.0) {
            return refuse(format!(
                "job copies are processes of their own in a live run, whose trainers take no turns, but the {copies} copies share a node: leave out `job.model.launch.serial` of `{}`",
                job.name
            ));
        }
    }
    let threads: u64 = scenario.jobs.iter().map(threads).sum();
    if threads > MOST_THREADS {
        return refuse(format!(
            "the jobs need {threads} threads, which is more than a live run starts: write fewer workers or `copies`, for at most {MOST_THREADS} threads"
        ));
    }
    Ok(())
}

fn threads(job: &Job) -> u64 {
    let workers: u64 = job.loader.stages.iter().map(|stage| u64::from(stage.workers)).sum();
    let launching = job.launch.as_ref().map_or(0, |launch| u64::from(launch.threads) - 1);
    let workers = u64::from(job.loaders_per_node()) * workers;
    u64::from(job.copies) * (workers + u64::from(job.models()) * (1 + launching))
}

/// Checks the number of cores. A run may use all cores that this process may use, or fewer whole cores, which are chosen by
/// affinity. A fraction of a core needs a quota that is set outside of this process.
fn check_number_of_cores(wanted: f64, available: f64) -> Result<(), Failure> {
    let same = (wanted - available).abs() < 1e-3;
    if wanted > available && !same {
        return Err(Failure::Lacking(format!(
            "the scenario's node has {wanted} cores, and this process may use {available}: write \
             `cluster.node.cores = {available}`"
        )));
    }
    if wanted.fract() != 0.0 && !same {
        return Err(Failure::Lacking(format!(
            "the scenario's node has {wanted} cores, this process may use {available}, and a live run can reserve only whole cores: write `cluster.node.cores = {}`, or start forebay in a control group whose quota is the scenario's number of cores",
            if wanted > 1.0 { wanted.floor() } else { available }
        )));
    }
    Ok(())
}

/// Refuses features of cores and of the interpreter that a live run does not emulate.
fn check_cores(scenario: &Scenario, job: &Job) -> Result<(), Failure> {
    let node = &scenario.cluster.node;
    let locks = job.loader.stages.iter().any(|stage| stage.lock > 0.0)
        || job.launch.as_ref().is_some_and(|launch| launch.lock > 0.0);
    let loads = job.loader.requests.is_some_and(|requests| requests.to_device);
    let what = [
        (node.smt.is_some(), "the hardware threads of a core: leave out `cluster.node.smt`"),
        (
            node.memory_bandwidth.is_finite(),
            "the bandwidth of memory: leave out `cluster.node.memory_bandwidth`",
        ),
        (locks, "an interpreter's lock: leave out `gil`"),
        (job.cpu.inner.is_some(), "inner threads: leave out `inner_threads`"),
        (
            job.cpu.quota.is_finite(),
            "a quota of cores: leave out `cpu_quota`, and start forebay in a control group with that quota",
        ),
        (
            loads,
            "copies to the device by the trainer: write `pin_memory`, or leave out `to_device`",
        ),
    ];
    match what.into_iter().find(|(there, _)| *there) {
        None => Ok(()),
        Some((_, what)) => {
            Err(Failure::Lacking(format!("a live run of `{}` does not emulate {what}", job.name)))
        }
    }
}

/// Checks the learners of a job: several learners need a real GPU and a fixed number.
fn check_learners(job: &Job) -> Result<(), Failure> {
    let name = &job.name;
    let refuse = |what: String| Err(Failure::Lacking(what));
    if !job.learners.is_one() && job.gpu.is_none() {
        return refuse(format!(
            "a live run has one model on each emulated device, and `{name}` has several learners: leave out \
             `parallel.data.learners`, or write `model.device = {{ gpu = {{ number = 0 }} }}`"
        ));
    }
    if job.learners.tuning.is_some() {
        return refuse(format!(
            "a live run of `{name}` does not tune the number of learners: write a number for `parallel.data.learners`"
        ));
    }
    if job.averaging().is_some() && job.accumulation > 1 {
        return refuse(format!(
            "learners of a live run update their models after each step, but `{name}` adds up the gradients of several steps: leave out `accumulation`"
        ));
    }
    let overlaps = job.sync.as_ref().is_some_and(|sync| sync.overlap);
    if job.gpu.is_some() && job.averaging().is_some() && overlaps {
        return refuse(format!(
            "learners of a live run wait for each other at an average, but those of `{name}` go on: write `sync.model-averaging.overlap = false`"
        ));
    }
    if job.averaging().is_some() && job.copies_per_node > 1 {
        return refuse(format!(
            "a live run averages models only within one GPU, but `{name}` has models on several GPUs: write `parallel.data.copies_per_node = 1`"
        ));
    }
    Ok(())
}

/// Checks the requirements of training on real GPUs.
fn check_gpu(job: &Job) -> Result<(), Failure> {
    let Some(gpu) = job.gpu else { return Ok(()) };
    let name = &job.name;
    let refuse = |what: String| Err(Failure::Lacking(what));
    if job.copies_to_devices() && job.copies_per_node > 1 && !job.loader_per_copy {
        return refuse(format!(
            "`{name}` copies batches of one loader to several GPUs, which a live run cannot do: write `parallel.data.loaders \
             = \"per-rank\"`"
        ));
    }
    let copies = |stage: &&Stage| {
        let per_item = stage.per_item.iter().any(Operation::copies);
        stage.per_sample.iter().any(Operation::copies) || per_item && stage.unit != Unit::Batch
    };
    if let Some(stage) = job.loader.stages.iter().find(copies) {
        return refuse(format!(
            "the stage `{}` of `{name}` copies single samples, but a live run copies only whole batches to GPUs: write `unit = \"batch\"` for this stage, and put `copy` into the stage's `per_item`",
            stage.name
        ));
    }
    if job.launch.as_ref().is_some_and(Launch::has_work) {
        return refuse(format!(
            "a live run launches real kernels for `{name}` and does not emulate launches: leave out `model.launch`"
        ));
    }
    let last = gpu::number(gpu, job, job.copies - 1, job.copies_per_node - 1);
    for number in gpu.number..=last {
        forebay_calibrate::probe::gpu::ready(number as usize).map_err(|why| {
            Failure::Lacking(format!(
                "`{name}` cannot train on GPU {number}: {why}; run `forebay doctor` for details, or write `device = \"accelerator\"` to emulate the GPU"
            ))
        })?;
    }
    Ok(())
}

fn check_job(scenario: &Scenario, job: &Job) -> Result<(), Failure> {
    check_cores(scenario, job)?;
    check_learners(job)?;
    check_gpu(job)?;
    let (name, dataset) = (&job.name, &scenario.datasets[job.dataset]);
    let refuse = |what: String| Err(Failure::Lacking(what));
    if job.nodes > 1 {
        return refuse(format!(
            "`{name}` runs on {} nodes, and this machine is one: write `nodes = 1`",
            job.nodes
        ));
    }
    if job.sync.is_some() && (job.gpu.is_none() || job.averaging().is_none()) {
        return refuse(format!(
            "a live run does not emulate how `{name}` exchanges gradients or models: leave out `sync`"
        ));
    }
    if job.failures.is_some() || job.checkpoint.is_some() || !scenario.faults.is_empty() {
        return refuse(format!(
            "a live run cannot emulate the failures, checkpoints or faults that affect `{name}`: leave out `failures`, `checkpoint` and `fault`"
        ));
    }
    if !job.after.is_empty() || job.arrivals != Arrivals::Regular {
        return refuse(format!(
            "a live run starts each job at a fixed time, but `{name}` starts after another job or at random arrivals: leave \
             out `after` and `arrivals`"
        ));
    }
    let path = &scenario.storage[job.storage].path;
    if path.targets.is_some() || path.limit.is_some() {
        return refuse(format!(
            "`{name}` reads from storage with stripe targets or a request rate limit, which a live run does not emulate: write `file-server`, and if the real storage is mounted, name a directory on it with --directory"
        ));
    }
    if path.seek().is_some() {
        return refuse(format!(
            "a live run does not emulate seeks of the disk that `{name}` reads from: leave out `seek`, and name a directory on a hard disk with --directory"
        ));
    }
    if path.measured().is_some() {
        return refuse(format!(
            "`{name}` reads from storage with a table of throughput, which a live run cannot emulate: write `local-disk` or `file-server`"
        ));
    }
    if job.staging.is_some() {
        return refuse(format!(
            "`{name}` copies its data set to nodes, which a live run does not do: copy the data set yourself, write the `storage` that then holds the data set, and leave out `copy`"
        ));
    }
    if job.decoded_cache.is_some() {
        return refuse(format!(
            "`{name}` caches decoded samples, which a live run cannot do: leave out `decoded_cache`"
        ));
    }
    let storage = &scenario.storage[job.storage];
    if storage.cache.is_some() {
        return refuse(format!(
            "a live run does not emulate the storage cache through which `{name}` reads: leave out the cache of `{}`, or mount real storage with such a cache and name a directory on this storage with --directory",
            storage.name
        ));
    }
    if job.kernel().is_some() {
        return refuse(format!(
            "the loader of `{name}` decodes on a GPU, which a live run does not support: leave out `loader.dali.gpu`"
        ));
    }
    if job.is_split() {
        return refuse(format!(
            "`{name}` splits its model over GPUs, which this machine does not have and a live run \
             does not emulate: leave out `parallel.pipeline`, `tensor`, `zero` and `out_of_core`"
        ));
    }
    if matches!(job.device, Device::Cpu { .. }) && job.catalogue.is_none() {
        return refuse(format!(
            "`{name}` trains on cores, which needs a catalogue model that forebay can train: write `model.catalogue = \
             \"lenet5\"`"
        ));
    }
    if matches!(dataset.sizes, SampleSizes::Table { .. }) {
        return refuse(format!(
            "the sample sizes of `{}` come from a table, which can only be simulated: write `sample_size`",
            dataset.name
        ));
    }
    if matches!(dataset.layout, Layout::RowGroups(_) | Layout::OneFile { opened: false, .. }) {
        return refuse(format!(
            "the layout of `{}` is Parquet or LMDB, which a live run cannot write: write `layout.shards = {{ samples = 1000 }}` or `layout.raw = {{}}`",
            dataset.name
        ));
    }
    if dataset.ranges.is_some() {
        return refuse(format!(
            "a live run reads each sample of `{}` in one request: leave out `request` and `readahead` of \
             its layout",
            dataset.name
        ));
    }
    let mut work = job.loader.stages.iter().flat_map(|s| s.per_sample.iter().chain(&s.per_item));
    let decodes = work.any(|operation| matches!(operation, Operation::Decode(_)));
    if dataset.image.is_some() && decodes && !reads_files(scenario, job) {
        return refuse(format!(
            "`{name}` decodes images from memory storage, but a live run decodes images only from files: write `local-disk` with `access = \"warm\"`"
        ));
    }
    if dataset.image.is_some() && dataset.layout != Layout::FilePerSample {
        return refuse(format!(
            "several images of `{}` share a file, but a live run writes each image into a separate file: write `layout.file-per-sample = {{}}`",
            dataset.name
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_run_must_reserve_whole_cores_or_the_exact_fractional_quota() {
        let of = |wanted: f64, available: f64| {
            check_number_of_cores(wanted, available).map_err(|failure| failure.to_string())
        };
        for (wanted, available) in [(1.3, 1.3), (1.0, 1.3), (1.99, 1.99), (2.0, 4.0), (0.5, 0.5)] {
            assert_eq!(of(wanted, available), Ok(()), "{wanted} of {available}");
        }
        let beyond = of(2.0, 1.3).unwrap_err();
        assert!(beyond.contains("may use 1.3: write `cluster.node.cores = 1.3`"), "{beyond}");
        let part = of(1.3, 2.0).unwrap_err();
        assert!(
            part.contains("can reserve only whole cores: write `cluster.node.cores = 1`"),
            "{part}"
        );
        assert!(of(0.5, 2.0).unwrap_err().contains("write `cluster.node.cores = 2`"));
    }
}
