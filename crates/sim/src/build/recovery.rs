//! Checkpoints and failures of job copies.

use crate::checkpoint::{CheckpointRun, CheckpointSettings, StatePart};
use crate::communication::RankRoutes;
use crate::index::{LoaderId, RangeVec};
use crate::job_run::Parts;
use crate::loader::LoaderRun;
use crate::recovery::{EpochRun, FailureRun, FailureSettings, RecoveryRun, Restored};
use forebay_scenario::{BatchInterval, Checkpoint, ServerPlace, Stop, Writers};

use super::Builder;
use super::job::JobCopy;
use super::mount::Client;

impl Builder<'_> {
    /// Adds the checkpoints and failures of a job copy, if it has any, and records them in its `parts`. The job copy is on nodes
    /// from `node` on and has loaders from `first` on. `servers` are the routes to its parameter servers, if it has any.
    pub(super) fn recovery(
        &mut self,
        of: &JobCopy,
        parts: &mut Parts,
        (node, first): (u32, LoaderId),
        servers: Option<&RankRoutes>,
    ) {
        let job = of.job;
        let all = &self.parts.recoveries;
        let (recovery, checkpoint) = (all.all.next_id(), all.checkpoints.next_id());
        let failure = all.failures.next_id();
        if let Some(checkpoint) = &job.checkpoint {
            let settings = CheckpointSettings {
                every: checkpoint.every,
                writers: self.writers(of, checkpoint, node, servers),
                asynchronous: checkpoint.asynchronous,
                pause: self.recurring(checkpoint.pause),
            };
            let checkpoint = CheckpointRun::new(of.number, recovery, settings);
            self.parts.recoveries.checkpoints.push(checkpoint);
        }
        if let Some(failures) = &job.failures {
            let settings = FailureSettings {
                when: failures.when.clone(),
                restart: failures.restart,
                readers: self.readers(of, node, servers),
                resume: failures.resume,
                epoch: self.epoch(of, first),
            };
            let nodes = job.failing_nodes();
            let failures = FailureRun::new(of.number, recovery, settings, nodes);
            self.parts.recoveries.failures.push(failures);
        }
        if job.checkpoint.is_some() || job.failures.is_some() {
            let restored = self.restored(of, first);
            self.parts.recoveries.all.push(RecoveryRun::new(restored));
        }
        let all = &self.parts.recoveries;
        parts.checkpoints = all.checkpoints.ids_from(checkpoint);
        parts.failures = all.failures.ids_from(failure);
        parts.recoveries = all.all.ids_from(recovery);
    }

    /// Returns the initial state of each loader of a job copy; its loaders are those from `first` on.
    fn restored(&self, of: &JobCopy, first: LoaderId) -> RangeVec<LoaderRun, Restored> {
        let loaders = &self.parts.loaders;
        let restored = |loader: &LoaderRun| {
            let stages = loaders.stages[loader.stages.all].iter();
            let stages = stages.map(|stage| stage.buffer.clone()).collect();
            Restored::new(stages, loader, of.job.prefill)
        };
        RangeVec::new(first, loaders[loaders.loaders.ids_from(first)].iter().map(restored))
    }

    /// Returns the parts of each checkpoint that the job copy's nodes or servers write.
    fn writers(
        &mut self,
        of: &JobCopy,
        checkpoint: &Checkpoint,
        node: u32,
        servers: Option<&RankRoutes>,
    ) -> Vec<StatePart> {
        match servers {
            Some(servers) => self.server_parts(of, checkpoint, (servers, node), true),
            None => {
                let parts = of.job.parts_of(checkpoint);
                self.node_parts(checkpoint, parts, (node, Client::Writer), |place| place)
            }
        }
    }

    /// Returns the parts of a checkpoint that the job copy's nodes or servers read back after a failure.
    fn readers(&mut self, of: &JobCopy, node: u32, servers: Option<&RankRoutes>) -> Vec<StatePart> {
        let reads = of.job.failures.as_ref().is_some_and(|failures| failures.reads_back);
        match (of.job.checkpoint.as_ref().filter(|_| reads), servers) {
            (None, _) => Vec::new(),
            (Some(checkpoint), Some(servers)) => {
                self.server_parts(of, checkpoint, (servers, node), false)
            }
            (Some(checkpoint), None) => {
                let parts = of.job.parts_read(checkpoint);
                let file = |place| of.job.file_read(checkpoint, place);
                self.node_parts(checkpoint, parts, (node, Client::Copy), file)
            }
        }
    }

    /// Returns the parts of a checkpoint that nodes from `node` on move to or from its storage, as clients of kind `client`. For
    /// each node of the job, `file` is the node that writes the file of its part.
    fn node_parts(
        &mut self,
        checkpoint: &Checkpoint,
        parts: Vec<f64>,
        (node, client): (u32, Client),
        file: impl Fn(u32) -> u32,
    ) -> Vec<StatePart> {
        let parts = (0..).zip(parts).filter(|(_, part)| *part > 0.0);
        parts
            .map(|(place, part)| {
                let file = u64::from(node + file(place));
                self.state_part(checkpoint.storage, (node + place, client), file, part)
            })
            .collect()
    }

    /// Returns the parts of a checkpoint that servers write or read: each server its part, unless the first one writes
    /// everything.
    fn server_parts(
        &mut self,
        of: &JobCopy,
        checkpoint: &Checkpoint,
        (ways, node): (&RankRoutes, u32),
        writes: bool,
    ) -> Vec<StatePart> {
        let Some(of_job) = of.job.servers() else { return Vec::new() };
        let shares = match checkpoint.writers {
            Writers::First if writes => vec![1.0],
            Writers::First | Writers::Each => of_job.shares(),
        };
        let (mut parts, first) = (Vec::new(), of.job.ranks_by_node().sum::<u32>());
        for (number, share) in (0..).zip(shares).filter(|(_, share)| *share > 0.0) {
            let port = ways.port(first + number);
            let whence = match of_job.place {
                ServerPlace::Own { .. } => {
                    let nic = port.outside[usize::from(!writes)].first().copied();
                    (node, Client::Server { nic, writes })
                }
                ServerPlace::WithWorkers if writes => (port.node, Client::Writer),
                ServerPlace::WithWorkers => (port.node, Client::Copy),
            };
            let bytes = share * checkpoint.bytes;
            // Files of job copies on other nodes begin on other targets.
            let file = u64::from(node) + u64::from(number);
            parts.push(self.state_part(checkpoint.storage, whence, file, bytes));
        }
        parts
    }

    /// Returns a part of `bytes` bytes of a checkpoint, in file number `file` of a storage; a node writes or reads it, and
    /// `client` determines the route of the bytes.
    fn state_part(
        &mut self,
        storage: usize,
        (node, client): (u32, Client),
        file: u64,
        bytes: f64,
    ) -> StatePart {
        self.node = node;
        let (mount, ..) = self.mount(storage, client, None);
        StatePart { bytes, way: mount.way_of_file(file, bytes) }
    }

    /// Returns the size of an epoch of a job copy whose first loader is `first`.
    fn epoch(&self, of: &JobCopy, first: LoaderId) -> EpochRun {
        let dataset = &self.scenario.datasets[of.job.dataset];
        let interval = match of.job.batch_interval {
            BatchInterval::Every(interval) => interval,
            BatchInterval::Adaptive { .. } => 1.0,
        };
        let requests = self.parts.loaders[first].requests.as_ref();
        EpochRun {
            samples: dataset.samples,
            places: dataset.places(),
            per_place: dataset.layout.samples_per_place().min(dataset.samples),
            goal: matches!(self.scenario.stop_of(of.job), Stop::Epochs(_)),
            interval,
            copies: u64::from(of.job.models_per_loader()),
            batch: of.job.batch,
            batches: requests.map_or(1, |requests| requests.epoch()),
        }
    }
}
