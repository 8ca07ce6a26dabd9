//! Estimate of the memory that a run needs, before it is built.
//!
//! Each constant is measured: it is the memory of a run with 10^5 or 10^6 objects of one kind, divided by that number, and
//! rounded up (`tests/robustness/memory.sh` measures again). The constants serve to refuse runs that cannot fit into memory,
//! not to predict the memory of small runs.

use forebay_scenario::{ENDLESS, Job, Scenario, Stop, Storage};

/// Memory of a job copy with its first node and the loader there [B].
const COPY: f64 = 6500.0;

/// Memory of each node after the first, with its loader and links [B]: for a job that reads from memory or a local disk, and
/// for one that reads over the network.
const NODE: [f64; 2] = [9500.0, 12_000.0];

/// Memory of each worker [B]: for a job that reads from memory or a local disk, and for one that reads over the network, whose
/// workers have transfers in progress.
const WORKER: [f64; 2] = [700.0, 1800.0];

/// Memory of each sample of the batch that a worker is making [B].
const MAKING: f64 = 30.0;

/// Memory of a model copy [B]: without exchanges with other model copies, and with exchanges.
const MODEL: [f64; 2] = [500.0, 4000.0];

/// Memory of each sample or batch that fits into a buffer [B], including the spare room of a buffer that has just grown.
const PLACE: f64 = 40.0;

/// Memory of the record of one step of a job copy, with the step's stalls [B].
const STEP: f64 = 150.0;

/// Memory of each unit (a file or a page) of a cache [B].
const UNIT: f64 = 12.0;

/// Maximum memory that the operating system allocates for a cache because of one request: one page for each of the cache's three
/// tables [B].
const TOUCH: f64 = 3.0 * 4096.0;

/// Memory that one replication needs [B].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Memory of the simulated world while the replication runs, without its outcome [B].
    pub world: f64,
    /// Memory of the outcome, which grows during the run and is kept until all replications are done [B].
    pub outcome: f64,
}

/// Returns an estimate of the memory that a replication of `scenario` needs.
#[must_use]
pub fn memory(scenario: &Scenario) -> Memory {
    // The samples of half and a quarter of the size may run at the same time.
    let sampled = scenario.fidelity.nodes.map(|nodes| scenario.sampled(nodes, 0.0).share * 1.75);
    let simulated = sampled.unwrap_or(1.0).min(1.0);
    let of = |job: &Job| {
        let (copies, nodes) = (f64::from(job.copies), simulated * f64::from(job.nodes));
        let loaders = nodes * f64::from(job.loaders_per_node());
        let stages = &job.loader.stages;
        let workers: f64 = stages.iter().map(|stage| f64::from(stage.workers)).sum();
        let from_others = usize::from(reads_from_others(scenario, job));
        // Buffers with a huge capacity do not grow beyond what is read.
        let read = samples(scenario, job) / loaders;
        let buffers: f64 = stages.iter().map(|stage| (stage.buffer as f64).min(read)).sum();
        // Workers do not know the run's end and work beyond it, but not beyond the end of an epoch.
        let epoch = scenario.datasets[job.dataset].samples as f64 / loaders;
        let making = (workers * job.batch as f64).min(epoch);
        let each = COPY
            + (nodes - 1.0) * NODE[from_others]
            + loaders * (workers * WORKER[from_others] + making * MAKING + buffers * PLACE)
            + simulated * f64::from(job.models()) * MODEL[usize::from(job.sync.is_some())];
        (copies * each, copies * steps(scenario, job).unwrap_or(0.0) * STEP)
    };
    let all = scenario.jobs.iter().map(of);
    let (world, outcome) = all.fold((0.0, 0.0), |(a, b), (world, steps)| (a + world, b + steps));
    Memory { world: world + simulated * caches(scenario), outcome }
}

/// Returns whether a job reads from other machines.
fn reads_from_others(scenario: &Scenario, job: &Job) -> bool {
    let path = scenario.storage.get(job.storage).map(Storage::reads);
    job.reads_data() && path.is_none_or(|path| path.is_remote() || path.measured().is_some())
}

/// Returns the number of steps of a job copy if the scenario determines it; `None` for a `duration`, where the number of steps
/// depends on stalls, and for runs whose length the scenario does not give.
fn steps(scenario: &Scenario, job: &Job) -> Option<f64> {
    let goal = scenario.goal(job).steps;
    match scenario.stop_of(job) {
        Stop::Duration(_) | Stop::Known { .. } => None,
        Stop::Steps(_) | Stop::Epochs(_) => (goal != ENDLESS).then_some(goal as f64),
    }
}

/// Returns an estimate of the number of samples that the loaders of a job copy read: the number that the goal needs; for a
/// `duration`, the number for which the trainers have time; if the scenario does not give the run's length, the maximum number of
/// events.
fn samples(scenario: &Scenario, job: &Job) -> f64 {
    let of_step = job.batch as f64 * f64::from(job.models());
    let fresh = scenario.goal(job).fresh;
    match scenario.stop_of(job) {
        Stop::Known { most, .. } => most as f64,
        Stop::Duration(seconds) => seconds / job.step_seconds().max(1e-9) * of_step,
        Stop::Steps(_) | Stop::Epochs(_) => {
            let steps = steps(scenario, job).map_or(f64::INFINITY, |steps| steps * of_step);
            steps.min(if fresh == ENDLESS { f64::INFINITY } else { fresh as f64 })
        }
    }
}

/// Returns the memory of the caches of all nodes [B]; the operating system provides it only as it is touched.
fn caches(scenario: &Scenario) -> f64 {
    let kinds = || {
        let groups = scenario.cluster.groups.iter().map(|group| &group.node);
        groups.chain([&scenario.cluster.node])
    };
    let of = |job: &Job| {
        let tier = scenario.storage.get(job.reads_from()).and_then(|storage| storage.cache);
        let paged = kinds().any(|node| scenario.keeps_pages(job, node));
        let layers =
            f64::from(u32::from(paged)) + f64::from(u32::from(tier.is_some() && job.reads_data()));
        let own = if scenario.cluster.share_nodes { 1 } else { job.copies };
        let nodes = f64::from(own) * f64::from(job.nodes);
        let dataset = &scenario.datasets[job.dataset];
        let pages = dataset.places().saturating_mul(dataset.units_per_place()) as f64;
        let decoded = if job.decoded_cache.is_some() { dataset.samples as f64 } else { 0.0 };
        let touched = TOUCH * f64::from(job.copies) * samples(scenario, job);
        (nodes * UNIT * (layers * pages + decoded)).min((layers + 1.0) * touched)
    };
    scenario.jobs.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_scenario::ScenarioFile;

    fn of(run: &str, loader: &str) -> Memory {
        let text = format!(
            "name = \"m\"\n[run]\n{run}\n[cluster]\nnodes = 100\nnode = {{ cores = 2, memory = \"64 GB\", page_cache = {{}} }}\n\
             [storage.s.file-server]\nbandwidth = \"1 GB/s\"\n[dataset.d]\nsamples = 1000000\nsample_size = \"10 B\"\n\
             [[job]]\nname = \"j\"\ncopies = 100\ndataset = \"d\"\nstorage = \"s\"\nbatch = 8\n\
             loader.tf-queue = {loader}\nmodel.step = \"10 us\"\n"
        );
        memory(&ScenarioFile::parse("m.toml", text).unwrap().resolve(&[]).unwrap())
    }

    const SMALL: &str = "{ threads = 1, capacity = \"16 samples\", decode = \"100 ms\" }";

    #[test]
    fn estimates_of_buffer_memory_omit_samples_beyond_the_length_of_the_run() {
        let endless = "{ threads = 1, capacity = \"1000000000 samples\", decode = \"100 ms\" }";
        let [small, large] = [SMALL, endless].map(|loader| of("steps = 200", loader).world);
        assert!(large - small <= 100.0 * 1600.0 * PLACE, "{small} {large}");
    }

    #[test]
    fn estimated_memory_of_network_reads_is_one_to_two_times_measured_memory() {
        // System: a job on 4000 nodes, each with 24 workers that read batches of 64 samples of random sizes from a file server.
        // Expectation: at least the measured memory of such a run, 210 MB, and no more than twice that.
        let text = "name = \"m\"\n[run]\nsteps = 6\n[cluster]\nnodes = 4000\nnode = { cores = 24, gpus = 1 }\n[storage.s.file-server]\n\
                    bandwidth = \"100 GB/s\"\n[dataset.d]\nsamples = 1281167\n\
                    sample_size = { lognormal = { mean = \"400 kB\", cv = 0.6 } }\n[[job]]\nname = \"j\"\n\
                    nodes = 4000\ndataset = \"d\"\nstorage = \"s\"\nbatch = 64\n\
                    loader.tf-queue = { threads = 24, capacity = \"1536 samples\", decode = \"7 ms\" }\n\
                    model.step = \"200 ms\"\n";
        let file = ScenarioFile::parse("m.toml", text.to_owned()).unwrap();
        let world = memory(&file.resolve(&[]).unwrap()).world;
        assert!((210e6..420e6).contains(&(1.25 * world)), "{world}");
    }

    #[test]
    fn memory_estimates_omit_step_records_if_only_a_duration_is_set() {
        assert_eq!(of("duration = \"10 s\"", SMALL).outcome, 0.0);
        assert_eq!(of("steps = 1000", SMALL).outcome, 100.0 * 1000.0 * STEP);
    }

    #[test]
    fn memory_estimates_count_all_cacheable_files_if_step_count_is_unset() {
        // System: a million files that each of a hundred nodes may keep. Expectation: without a given length all units count;
        // with one step hardly any do.
        assert!(of("", SMALL).world > 1e8 * UNIT);
        assert!(of("steps = 1", SMALL).world < 5e8);
    }
}
