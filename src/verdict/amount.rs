//! Amounts of the resources that levers change, in words.

use crate::report::format::{bytes, count, number, rate, seconds};
use crate::scenario::storage::Bandwidth;
use crate::scenario::{
    Distribution, Every, FailureTimes, Job, Operation, Preset, Scenario, ServerPlace, StageGraph,
    Storage,
};

use super::lever::{Kind, Lever};
use super::relax::{decodes_on_gpu, has_workers, is_pinning};
use super::transport;

/// Returns the amount that a lever's limit has in `scenario`, in words; `None` if the limit is no
/// single number.
pub(super) fn of(Lever { kind, at }: Lever, scenario: &Scenario) -> Option<String> {
    of_storage(scenario.storage.get(at), kind)
        .or_else(|| of_machine(scenario, kind))
        .or_else(|| of_job(scenario.jobs.get(at)?, kind))
        .or_else(|| of_images(scenario, scenario.jobs.get(at)?, kind))
}

fn of_storage(storage: Option<&Storage>, kind: Kind) -> Option<String> {
    let storage = storage?;
    let path = &storage.path;
    match kind {
        Kind::TierWrite => Some(rate(storage.tier?.write?, "B")),
        Kind::TierCache => Some(bytes(storage.cache?.capacity)),
        Kind::Bandwidth => of_bandwidth(&path.bandwidth),
        Kind::PerStream => Some(rate(path.per_stream, "B")),
        Kind::Latency => Some(mean(&path.latency)),
        Kind::Operations => Some(format!("{} /s", count(path.operations))),
        Kind::Queues => Some(path.queues?.number.to_string()),
        Kind::QueueDepth => Some(path.queues?.depth.to_string()),
        Kind::QueueBandwidth => Some(rate(path.queues?.bandwidth, "B")),
        Kind::Seek => Some(seconds(path.seek()?)),
        Kind::Targets => Some(rate(path.targets?.bandwidth, "B")),
        Kind::Stripes => Some(path.targets?.stripe_count.to_string()),
        Kind::Requests => Some(format!("{} /s", count(path.limit?.rate))),
        _ => None,
    }
}

fn of_bandwidth(bandwidth: &Bandwidth) -> Option<String> {
    match bandwidth {
        Bandwidth::Fixed(of) => Some(rate(*of, "B")),
        Bandwidth::ByTransfers(_) => None,
    }
}

fn mean(of: &Distribution) -> String {
    match of {
        Distribution::Constant(value) => seconds(*value),
        varying => format!("{} on average", seconds(varying.mean())),
    }
}

fn of_machine(scenario: &Scenario, kind: Kind) -> Option<String> {
    let (cluster, node) = (&scenario.cluster, &scenario.cluster.node);
    let cache = node.page_cache.as_ref();
    match kind {
        Kind::Nic => Some(rate(cluster.nic, "B")),
        Kind::StorageNic => Some(rate(cluster.storage_nic?, "B")),
        Kind::Uplink => Some(rate(cluster.racks?.uplink, "B")),
        Kind::NetworkLatency => Some(seconds(cluster.latency)),
        Kind::Intra => Some(rate(node.intra.bandwidth, "B")),
        Kind::Pcie => Some(rate(node.pcie, "B")),
        Kind::Cores => Some(node.usable_cores.to_string()),
        Kind::MemoryBandwidth => Some(rate(node.memory_bandwidth, "B")),
        Kind::GpuMemory => Some(rate(node.gpu_memory_bandwidth, "B")),
        Kind::PageCache => Some(bytes(cache?.capacity)),
        Kind::PageCacheRate => Some(rate(cache?.bandwidth, "B")),
        _ => None,
    }
}

fn of_job(job: &Job, kind: Kind) -> Option<String> {
    let of_stages = |kind| job.loader.stages.iter().find_map(|stage| work(&stage.per_sample, kind));
    let sync = job.sync.as_ref();
    match kind {
        Kind::Quota => Some(format!("{} cores", number(job.cpu.quota))),
        // Without loader workers, the trainer itself reads.
        Kind::Workers if job.loader.requests.is_some_and(|requests| requests.ahead == 0) => {
            Some("0".to_owned())
        }
        Kind::Workers => workers(&job.loader),
        Kind::Decode if decodes_on_gpu(&job.loader) => kernel(&job.loader),
        Kind::Decode | Kind::Delay => of_stages(kind),
        Kind::Collate | Kind::HandOver | Kind::Pinning => of_batches(&job.loader, kind),
        Kind::Prefetch => ahead(&job.loader),
        Kind::Polling => Some(seconds(job.loader.generator?.period)),
        Kind::Launch => Some(mean(&job.launch.as_ref()?.work)),
        Kind::Step => Some(seconds(job.step.seconds(job.batch as f64))),
        Kind::MicroBatches => Some(job.parallelism.as_ref()?.micro_batches.to_string()),
        Kind::Schedule => Some(format!("{:?}", job.parallelism.as_ref()?.schedule.name())),
        Kind::Chunks => Some(job.parallelism.as_ref()?.schedule.chunks().to_string()),
        Kind::CheckpointStagger if job.copies == 1 => Some(seconds(job.start)),
        Kind::CheckpointStagger => Some(seconds(job.stagger)),
        Kind::CheckpointPause => Some(seconds(job.checkpoint.as_ref()?.pause)),
        Kind::CheckpointInterval | Kind::CheckpointOften => {
            Some(match job.checkpoint.as_ref()?.every {
                Every::Seconds(time) => seconds(time),
                Every::Steps(steps) => format!("{steps} steps"),
            })
        }
        Kind::Failures => match job.failures.as_ref()?.when {
            FailureTimes::Random { mtbf, .. } => Some(seconds(mtbf)),
            FailureTimes::At(_) => None,
        },
        Kind::RestartTime => Some(seconds(job.failures.as_ref()?.restart)),
        _ if transport::is_cost(kind) => {
            let amounts = transport::parts(job, kind).into_iter().map(|(_, amount)| amount);
            let amounts: Vec<String> = amounts.collect();
            (!amounts.is_empty()).then(|| amounts.join(" and "))
        }
        Kind::Gradients => {
            Some(bytes(sync?.buckets.iter().map(|bucket| bucket.bytes as f64).sum()))
        }
        Kind::Period => Some(match sync?.averaging.map_or(sync?.interval, |of| of.period) {
            1 => "1 step".to_owned(),
            interval => format!("{interval} steps"),
        }),
        Kind::Averaging => Some(seconds(sync?.averaging?.latency)),
        Kind::ServerNic | Kind::ServerCores => of_servers(job, kind),
        Kind::RootUpdate => Some(seconds(sync?.root.as_ref()?.update)),
        _ => None,
    }
}

/// Returns the mean core time of decoding an image of a job, if the profile says what decoding costs.
fn of_images(scenario: &Scenario, job: &Job, kind: Kind) -> Option<String> {
    let dataset = scenario.datasets.get(job.dataset).filter(|_| kind == Kind::Decode)?;
    let pixels = dataset.image?.pixels();
    let mut work = job.loader.stages.iter().flat_map(|stage| &stage.per_sample);
    work.find_map(|operation| match operation {
        Operation::Decode(law) => {
            let time = seconds(law.core_seconds(dataset.mean_size(), pixels));
            Some(format!("{time} for each image"))
        }
        _ => None,
    })
}

fn of_servers(job: &Job, kind: Kind) -> Option<String> {
    match job.servers()?.place {
        ServerPlace::Own { nic, .. } if kind == Kind::ServerNic => Some(rate(nic, "B")),
        ServerPlace::Own { cores, .. } => Some(format!("{cores} cores")),
        ServerPlace::WithWorkers => None,
    }
}

/// Returns the numbers of workers of a loader's stages, as far as the scenario file sets them; one number if all are equal.
fn workers(loader: &StageGraph) -> Option<String> {
    let stages = loader.stages.iter().filter(|stage| has_workers(loader, stage));
    let mut each: Vec<String> = stages.map(|stage| stage.workers.to_string()).collect();
    each.dedup();
    (!each.is_empty()).then(|| each.join(" and "))
}

/// Returns the amount that a loader prefetches, in the unit of its key.
fn ahead(loader: &StageGraph) -> Option<String> {
    let (first, last) = (loader.stages.first()?, loader.stages.last()?);
    Some(match (loader.preset, loader.requests) {
        (Preset::Pytorch, Some(of)) => (of.ahead / u64::from(first.workers.max(1))).to_string(),
        (Preset::Keras, Some(of)) => of.ahead.saturating_sub(1).to_string(),
        _ => format!("room for {}", last.buffer),
    })
}

/// Returns the time in which a GPU decodes a sample.
fn kernel(loader: &StageGraph) -> Option<String> {
    let mut work = loader.stages.iter().flat_map(|stage| &stage.per_item);
    work.find_map(|operation| match operation {
        Operation::Kernel(kernel) => Some(seconds(kernel.per_sample)),
        _ => None,
    })
}

/// Returns the work on whole batches in a loader's stages, or in the pinning thread: its time, or the rate of copies.
fn of_batches(loader: &StageGraph, kind: Kind) -> Option<String> {
    let pinning = kind == Kind::Pinning;
    let stages = loader.stages.iter().filter(|of| is_pinning(loader.preset, of) == pinning);
    let each =
        stages.flat_map(|stage| &stage.per_item).filter_map(|operation| match (operation, kind) {
            (Operation::Compute(work), Kind::Collate | Kind::Pinning) => Some(mean(work)),
            (Operation::Memcpy(per_byte), Kind::HandOver | Kind::Pinning) => {
                Some(rate(1.0 / per_byte, "B"))
            }
            _ => None,
        });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join(" and "))
}

fn work(operations: &[Operation], kind: Kind) -> Option<String> {
    operations.iter().find_map(|operation| match (operation, kind) {
        (Operation::Compute(work), Kind::Decode) | (Operation::Delay(work), Kind::Delay) => {
            Some(mean(work))
        }
        _ => None,
    })
}
