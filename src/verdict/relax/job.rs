//! Relaxes limits of a job: of its loader, steps, recovery and synchronisation.

use crate::scenario::{
    Every, FailureTimes, Job, OtherSchedule, OtherSchedules, Parallelism, Scenario, Schedule,
    ServerPlace, Sync, Writers,
};

use super::{FACTOR, loader};
use crate::verdict::lever::Kind;

/// Relaxes one limit of a job.
pub(super) fn lift(job: &mut Job, kind: Kind) {
    match kind {
        Kind::Quota => job.cpu.quota *= FACTOR,
        Kind::Launch => {
            if let Some(launch) = &mut job.launch {
                launch.work = launch.work.scaled(1.0 / FACTOR);
            }
        }
        Kind::Jitter => job.step.jitter = None,
        Kind::Step => {
            job.step.fixed /= FACTOR;
            job.step.per_sample /= FACTOR;
            job.step.floor /= FACTOR;
            // What other learners add to a step remains, and is a larger part of it.
            let added = job.kernels.iter_mut().filter(|kernels| kernels.added);
            added.for_each(|kernels| kernels.occupancy = (FACTOR * kernels.occupancy).min(1.0));
        }
        Kind::MicroBatches => {
            if let Some(split) = &mut job.parallelism {
                split.micro_batches = split.micro_batches.saturating_mul(2);
            }
        }
        Kind::Schedule | Kind::Chunks => reschedule(job, kind),
        Kind::Balance => balance(job),
        Kind::Overlap => overlap(job),
        Kind::Failures | Kind::RestartTime => lift_failures(job, kind),
        Kind::CheckpointInterval
        | Kind::CheckpointOften
        | Kind::CheckpointAside
        | Kind::CheckpointWriters
        | Kind::CheckpointPause => lift_checkpoint(job, kind),
        Kind::Lock
        | Kind::Workers
        | Kind::Decode
        | Kind::Collate
        | Kind::HandOver
        | Kind::Pinning
        | Kind::Delay
        | Kind::Prefetch
        | Kind::Order
        | Kind::Restart
        | Kind::Polling => loader::lift(&mut job.loader, kind),
        _ => {
            if let Some(sync) = &mut job.sync {
                lift_sync(sync, kind);
            }
        }
    }
}

/// Lets training go on during exchanges, if some exchange can begin before the end of a step. Learners on a real GPU always wait.
fn overlap(job: &mut Job) {
    let averages = job.averaging().is_some();
    let (fixed, after) = (averages && job.gpu.is_some(), job.averages_parameters());
    // Where ranks shard gradients, those of a micro-batch are reduced while the next one is computed.
    let several = job.parallelism.as_ref().is_some_and(|of| of.zero >= 2 && of.micro_batches > 1);
    let Some(sync) = job.sync.as_mut().filter(|_| !fixed && !after) else { return };
    if averages || several || sync.buckets.iter().any(|bucket| bucket.ready < 1.0) {
        sync.overlap = true;
    }
}

/// Changes the pipeline schedule to the one with the fewest bubbles that the scenario file would be accepted with: one in which
/// gradients of weights fill them, or one with more chunks.
fn reschedule(job: &mut Job, kind: Kind) {
    let chunks =
        |of: &OtherSchedule| matches!(of.parallelism.schedule, Schedule::Interleaved { .. });
    let mut others = job.other_schedules.iter().filter(|of| chunks(of) == (kind == Kind::Chunks));
    let Some(other) = others.next().cloned() else { return };
    // An earlier change of the micro-batches stays.
    let micro_batches = job.parallelism.as_ref().map_or(1, |of| of.micro_batches);
    job.parallelism = Some(Parallelism { micro_batches, ..other.parallelism });
    job.footprints = other.footprints;
    job.other_schedules = OtherSchedules::default();
}

/// Shards the states of a job inside each of its nodes, if each node's GPUs have the memory for that.
pub(super) fn shard_in_nodes(scenario: &mut Scenario, at: usize) -> Option<()> {
    let changed = scenario.jobs.get(at)?.sharded_in_nodes()?;
    let cluster = &scenario.cluster;
    let memories = cluster.groups.iter().map(|group| group.node.gpu_memory);
    let least = memories.fold(cluster.node.gpu_memory, f64::min);
    let fits = changed.footprint().is_none_or(|held| held.total() <= least);
    scenario.jobs[at] = changed;
    fits.then_some(())
}

fn balance(job: &mut Job) {
    if let Some(pipeline) = &mut job.pipeline {
        let stages = pipeline.shares.len() as f64;
        pipeline.shares.iter_mut().for_each(|share| *share = 1.0 / stages);
        // A schedule decides which stages overlap.
        pipeline.overlap |= job.parallelism.is_none();
    }
}

fn lift_failures(job: &mut Job, kind: Kind) {
    let Some(failures) = &mut job.failures else { return };
    match (kind, &mut failures.when) {
        (Kind::RestartTime, _) => failures.restart /= FACTOR,
        (_, FailureTimes::Random { mtbf, .. }) => *mtbf *= FACTOR,
        (_, FailureTimes::At(_)) => {}
    }
}

fn lift_checkpoint(job: &mut Job, kind: Kind) {
    let several = job.has_copies_of_state();
    let Some(checkpoint) = &mut job.checkpoint else { return };
    match kind {
        Kind::CheckpointInterval => checkpoint.every = stretched(checkpoint.every, FACTOR),
        Kind::CheckpointOften => checkpoint.every = stretched(checkpoint.every, 1.0 / FACTOR),
        Kind::CheckpointAside => {
            checkpoint.asynchronous = true;
            if checkpoint.pause == 0.0 {
                checkpoint.pause = checkpoint.copying;
            }
        }
        Kind::CheckpointWriters if several => checkpoint.writers = Writers::Each,
        Kind::CheckpointPause => checkpoint.pause /= FACTOR,
        _ => {}
    }
}

/// Returns the time or the number of steps between checkpoints, multiplied by `times`.
fn stretched(every: Every, times: f64) -> Every {
    match every {
        Every::Seconds(seconds) => Every::Seconds(seconds * times),
        Every::Steps(steps) => Every::Steps(((steps as f64 * times) as u64).max(1)),
    }
}

fn lift_sync(sync: &mut Sync, kind: Kind) {
    let transport = &mut sync.transport;
    match kind {
        Kind::TransportLatency => {
            transport.latency /= FACTOR;
            transport.latency_inside /= FACTOR;
            transport.per_tensor /= FACTOR;
        }
        Kind::TransportStream => {
            transport.per_stream *= FACTOR;
            transport.per_stream_inside *= FACTOR;
            transport.sum *= FACTOR;
        }
        Kind::MessageCpu => {
            transport.cpu.per_message /= FACTOR;
            transport.cpu.per_byte /= FACTOR;
        }
        Kind::Gradients => shrink(sync),
        Kind::Period => {
            sync.interval = sync.interval.saturating_mul(2);
            if let Some(averaging) = &mut sync.averaging {
                averaging.period = averaging.period.saturating_mul(2);
            }
        }
        Kind::Averaging => {
            if let Some(averaging) = &mut sync.averaging {
                averaging.latency /= FACTOR;
            }
        }
        Kind::ServerNic | Kind::ServerCores => lift_servers(sync, kind),
        Kind::RootUpdate => {
            if let Some(root) = &mut sync.root {
                root.update /= FACTOR;
            }
        }
        _ => {}
    }
}

/// Halves the bytes of each exchange, and what compressing them takes.
fn shrink(sync: &mut Sync) {
    for bucket in &mut sync.buckets {
        bucket.bytes /= 2;
        bucket.raw /= 2;
        bucket.compress /= 2.0;
    }
    sync.decompress /= 2.0;
    if let Some(root) = &mut sync.root {
        root.parameters.iter_mut().for_each(|of| of.bytes /= 2);
    }
    let parts = sync.servers.iter_mut().flat_map(|servers| servers.parts.iter_mut().flatten());
    for part in parts {
        part.push /= 2;
        part.pull /= 2;
    }
}

fn lift_servers(sync: &mut Sync, kind: Kind) {
    let Some(servers) = &mut sync.servers else { return };
    if kind == Kind::ServerCores {
        servers.update *= FACTOR;
    }
    if let ServerPlace::Own { nic, cores } = &mut servers.place {
        match kind {
            Kind::ServerNic => *nic *= FACTOR,
            _ => *cores = cores.saturating_mul(2),
        }
    }
}
