//! Relaxes (lifts) a limit: returns the changed scenario.

mod job;
mod loader;
mod machine;
mod storage;

use crate::scenario::{Job, Scenario};

use super::lever::{Kind, Lever};
use super::{checkpoints, faults, transport};

pub(super) use loader::{decodes_on_gpu, has_workers, is_pinning};

/// The factor by which amounts grow, and times and work shrink.
pub(super) const FACTOR: f64 = 2.0;

/// Returns the scenario with a lever relaxed; `None` if that changes nothing, or if a scenario file could not say so.
pub(super) fn relaxed(scenario: &Scenario, lever: Lever) -> Option<Scenario> {
    if scenario.jobs.get(lever.at).is_some_and(|job| transport::is_idle(job, lever.kind)) {
        return None;
    }
    let mut relaxed = scenario.clone();
    lift(&mut relaxed, lever)?;
    (relaxed != *scenario && relaxed.jobs.iter().all(divides)).then_some(relaxed)
}

/// Returns whether the micro-batches of a job are whole numbers of samples.
fn divides(job: &Job) -> bool {
    let split = job.parallelism.as_ref();
    split.is_none_or(|split| job.batch.is_multiple_of(split.micro_batches.into()))
}

fn lift(scenario: &mut Scenario, Lever { kind, at }: Lever) -> Option<()> {
    match kind {
        Kind::Operations
        | Kind::Bandwidth
        | Kind::PerStream
        | Kind::Latency
        | Kind::Targets
        | Kind::Stripes
        | Kind::Requests
        | Kind::Queues
        | Kind::QueueDepth
        | Kind::QueueBandwidth
        | Kind::Seek
        | Kind::Measured => storage::lift(&mut scenario.storage.get_mut(at)?.path, kind),
        Kind::TierWrite | Kind::TierCache => {
            storage::lift_tier(scenario.storage.get_mut(at)?, kind)
        }
        Kind::Background => scenario.background.retain(|load| load.storage != at),
        Kind::Nic
        | Kind::StorageNic
        | Kind::Uplink
        | Kind::NetworkLatency
        | Kind::Intra
        | Kind::Pcie
        | Kind::Cores
        | Kind::MemoryBandwidth
        | Kind::GpuMemory
        | Kind::PageCache
        | Kind::PageCacheRate
        | Kind::EqualNodes => machine::lift(&mut scenario.cluster, kind),
        Kind::Faults => faults::remove(scenario, at),
        Kind::ShardGroups => job::shard_in_nodes(scenario, at)?,
        Kind::CheckpointStagger => checkpoints::stagger(scenario, at)?,
        Kind::Lock
        | Kind::Quota
        | Kind::Workers
        | Kind::Decode
        | Kind::Collate
        | Kind::HandOver
        | Kind::Pinning
        | Kind::Delay
        | Kind::Prefetch
        | Kind::Order
        | Kind::Restart
        | Kind::Polling
        | Kind::Launch
        | Kind::Jitter
        | Kind::Step
        | Kind::MicroBatches
        | Kind::Schedule
        | Kind::Chunks
        | Kind::Balance
        | Kind::CheckpointInterval
        | Kind::CheckpointOften
        | Kind::CheckpointAside
        | Kind::CheckpointWriters
        | Kind::CheckpointPause
        | Kind::Failures
        | Kind::RestartTime
        | Kind::TransportLatency
        | Kind::TransportStream
        | Kind::Gradients
        | Kind::Period
        | Kind::Overlap
        | Kind::Averaging
        | Kind::ServerNic
        | Kind::ServerCores
        | Kind::MessageCpu
        | Kind::RootUpdate => job::lift(scenario.jobs.get_mut(at)?, kind),
    }
    Some(())
}
