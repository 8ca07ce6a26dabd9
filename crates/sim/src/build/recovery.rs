//! Checkpoints and failures of job copies.

use crate::checkpoint::{CheckpointRun, StatePart};
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
                Some(servers) => self.server_parts(of, checkpoint, (servers, node), true),
                None => {
                    let parts = of.job.parts_of(checkpoint);
                    self.node_parts(checkpoint, parts, (node, Client::Writer), |place| place)
                }
            };
            let pause = self.recurring(checkpoint.pause);
            CheckpointRun::new(checkpoint.every, writers, checkpoint.asynchronous, pause)
        });
        let readers = match (&job.checkpoint, &job.failures) {
            (Some(checkpoint), Some(Failures { reads_back: true, .. })) => match servers {
                Some(servers) => self.server_parts(of, checkpoint, (servers, node), false),
                None => {
                    let parts = of.job.parts_read(checkpoint);
                    let file = |place| of.job.file_read(checkpoint, place);
                    self.node_parts(checkpoint, parts, (node, Client::Copy), file)
                }
            },
            _ => Vec::new(),
        };
        let failures = job.failures.as_ref().map(|f| self.failures(of, f, readers));
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

    /// Returns the parts of a checkpoint that servers write or read: each server its part, unless the first one writes everything.
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
        let mut parts = Vec::new();
        for (number, share) in (0..).zip(shares).filter(|(_, share)| *share > 0.0) {
            let port = ways.port(of.job.ranks() + number);
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

    /// Returns a part of `bytes` bytes of a checkpoint, in file number `file` of a storage; a node writes or reads it, and `client`
    /// determines the route of the bytes.
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

    fn failures(&self, of: &JobCopy, failures: &Failures, readers: Vec<StatePart>) -> FailureRun {
        let dataset = &self.scenario.datasets[of.job.dataset];
        let interval = match of.job.batch_interval {
            BatchInterval::Every(interval) => interval,
            BatchInterval::Adaptive { .. } => 1.0,
        };
        FailureRun {
            when: failures.when.clone(),
            restart: failures.restart,
            readers,
            reading: Vec::new(),
            unread: 0,
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
