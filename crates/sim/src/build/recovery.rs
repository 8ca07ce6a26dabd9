//! Checkpoints and failures of job copies.

use crate::checkpoint::{CheckpointRun, Writer};
use crate::communication::RankRoutes;
use crate::index::LoaderId;
use crate::recovery::{EpochRun, FailureRun, RecoveryRun, Restored};
use forebay_scenario::{BatchInterval, Checkpoint, Failures, ServerPlace, Stop, Writers};

use super::Builder;
use super::job::JobCopy;
use super::mount::Client;

impl Builder<'_> {
    /// Returns the checkpoints and failures of a job copy, which is on nodes from `node` on and has loaders from `first` on.
    /// `servers` are the routes to the job copy's parameter servers, if it has any. Returns `None` if the job has neither
    /// checkpoints nor failures.
    pub(super) fn recovery(
        &mut self,
        of: &JobCopy,
        node: u32,
        first: LoaderId,
        servers: Option<&RankRoutes>,
    ) -> Option<Box<RecoveryRun>> {
        let job = of.job;
        if job.checkpoint.is_none() && job.failures.is_none() {
            return None;
        }
        let checkpoint = job.checkpoint.as_ref().map(|checkpoint| {
            let writers = match servers {
                Some(servers) => self.writing_servers(of, checkpoint, (servers, node)),
                None => self.writing_nodes(of, checkpoint, node),
            };
            let pause = self.recurring(checkpoint.pause);
            CheckpointRun::new(checkpoint.every, writers, checkpoint.asynchronous, pause)
        });
        let failures = job.failures.as_ref().map(|f| self.failures(of, f));
        let restored =
            self.parts.loaders[self.parts.loaders.loaders.ids_from(first)].iter().map(|loader| {
                let stages = loader.stages.all;
                let stages = &self.parts.loaders.stages[stages];
                let stages = stages.iter().map(|stage| stage.buffer.clone()).collect();
                Restored::new(stages, loader, job.prefill)
            });
        let restored = restored.collect();
        Some(Box::new(RecoveryRun::new(checkpoint, failures, restored)))
    }

    /// Returns the nodes that write a checkpoint, each with its part of the state.
    fn writing_nodes(&mut self, of: &JobCopy, checkpoint: &Checkpoint, node: u32) -> Vec<Writer> {
        let storage = checkpoint.storage;
        let parts = (node..).zip(of.job.parts_of(checkpoint)).filter(|(_, part)| *part > 0.0);
        parts
            .map(|(node, part)| self.writer(storage, (node, Client::Writer), u64::from(node), part))
            .collect()
    }

    /// Returns the servers that write a checkpoint: either the first server writes everything, or each server writes its part.
    fn writing_servers(
        &mut self,
        of: &JobCopy,
        checkpoint: &Checkpoint,
        (ways, node): (&RankRoutes, u32),
    ) -> Vec<Writer> {
        let Some(of_job) = of.job.servers() else { return Vec::new() };
        let shares = match checkpoint.writers {
            Writers::First => vec![1.0],
            Writers::Each => of_job.shares(),
        };
        let mut writers = Vec::new();
        for (number, share) in (0..).zip(shares).filter(|(_, share)| *share > 0.0) {
            let port = ways.port(of.job.ranks() + number);
            let whence = match of_job.place {
                ServerPlace::Own { .. } => (node, Client::Server(port.outside[0].first().copied())),
                ServerPlace::WithWorkers => (port.node, Client::Writer),
            };
            let bytes = share * checkpoint.bytes;
            // Files of job copies on other nodes begin on other targets.
            let file = u64::from(node) + u64::from(number);
            writers.push(self.writer(checkpoint.storage, whence, file, bytes));
        }
        writers
    }

    /// Returns a writer of `bytes` bytes to file number `file` of a storage; the writer is on a node, and `client` determines
    /// the route of the bytes.
    fn writer(
        &mut self,
        storage: usize,
        (node, client): (u32, Client),
        file: u64,
        bytes: f64,
    ) -> Writer {
        self.node = node;
        let (mount, ..) = self.mount(storage, client, None);
        Writer { bytes, way: mount.way_of_file(file, bytes) }
    }

    fn failures(&self, of: &JobCopy, failures: &Failures) -> FailureRun {
        let dataset = &self.scenario.datasets[of.job.dataset];
        let interval = match of.job.batch_interval {
            BatchInterval::Every(interval) => interval,
            BatchInterval::Adaptive { .. } => 1.0,
        };
        FailureRun {
            when: failures.when.clone(),
            restart: failures.restart,
            resume: failures.resume,
            number: vec![0; of.job.failing_nodes() as usize],
            down: None,
            failures_without_progress: 0,
            begun: 0,
            epoch: EpochRun {
                samples: dataset.samples,
                places: dataset.places(),
                per_place: dataset.layout.samples_per_place().min(dataset.samples),
                goal: matches!(self.scenario.stop_of(of.job), Stop::Epochs(_)),
                interval,
                copies: u64::from(of.job.models_per_loader()),
            },
        }
    }
}
