//! What a job copy has against failures of its nodes.

use crate::fluid::GroupId;
use crate::scenario::{BatchInterval, Checkpoint, Failures, Stop};
use crate::sim::checkpoint::CheckpointRun;
use crate::sim::recovery::{EpochRun, FailureRun, RecoveryRun, Restored};

use super::Builder;
use super::job::JobCopy;
use super::mount::Client;

impl Builder<'_, '_> {
    /// Checkpoints and failures of a job copy on nodes from `node` on, whose loaders are those from `first`
    /// on.
    pub(super) fn recovery(
        &mut self,
        of: &JobCopy,
        node: u32,
        first: u32,
    ) -> Option<Box<RecoveryRun>> {
        let job = of.job;
        if job.checkpoint.is_none() && job.failures.is_none() {
            return None;
        }
        let checkpoint = job.checkpoint.as_ref().map(|c| self.checkpoint(of, c, node));
        let failures = job.failures.as_ref().map(|f| self.failures(of, f));
        let restored = self.parts.loaders[first as usize..].iter().map(|loader| {
            let stages = loader.stages.clone();
            let stages = &self.parts.stages[stages.start as usize..stages.end as usize];
            let stages = stages.iter().map(|stage| stage.hand_over.clone()).collect();
            Restored::new(stages, loader)
        });
        let restored = restored.collect();
        Some(Box::new(RecoveryRun::new(checkpoint, failures, restored)))
    }

    fn checkpoint(&mut self, of: &JobCopy, checkpoint: &Checkpoint, node: u32) -> CheckpointRun {
        let Checkpoint { every, bytes, storage, asynchronous, pause, .. } = *checkpoint;
        let parts = (node..).zip(of.job.parts_of(checkpoint)).filter(|(_, part)| *part > 0.0);
        let parts = parts.map(|(node, part)| (part, self.writing(storage, node, part))).collect();
        let pause = self.recurring(pause);
        CheckpointRun::new(every, bytes, parts, asynchronous, pause)
    }

    /// The way of what node `node` writes to a storage, so many bytes, if it is limited.
    fn writing(&mut self, storage: usize, node: u32, bytes: f64) -> Option<GroupId> {
        self.node = node;
        let (mount, ..) = self.mount(storage, Client::Writer, None);
        let striped = mount.striped.as_ref();
        let way = striped.map_or(0, |striped| striped.way(u64::from(node), 0, bytes));
        mount.way(way)
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
            number: vec![0; of.job.nodes as usize],
            down: None,
            in_vain: 0,
            begun: 0,
            epoch: EpochRun {
                samples: dataset.samples,
                places: dataset.places(),
                per_place: dataset.layout.samples_per_place().min(dataset.samples),
                goal: matches!(self.scenario.stop_of(of.job), Stop::Epochs(_)),
                interval,
                copies: u64::from(of.job.copies_per_loader()),
            },
        }
    }
}
