//! The operations of workers.

use forebay_model::random::{Purpose, Sampler};
use forebay_scenario::{Distribution, InnerThreads, Job, Operation, Stage};

use super::Builder;
use crate::team::Team;
use crate::worker::{Draw, Work};

/// Maximum number of operations in each list of a stage. The random-number key of an operation consists of stage, list and
/// position in the list; this limit keeps the keys of different operations distinct.
const LIST: usize = 128;

impl Builder<'_> {
    /// Adds the operations of the stages of `job`, for all of its copies.
    pub(super) fn operations(&mut self, job: &Job) {
        let image = self.scenario.datasets[job.dataset].image;
        let pixels = image.map_or(0.0, |image| image.pixels());
        self.first_operations.clear();
        for (index, stage) in job.loader.stages.iter().enumerate() {
            let salt = index * 2 * LIST;
            self.first_operations.push(self.parts.loaders.works.next_id());
            for (list, base) in [(&stage.per_sample, 0), (&stage.per_item, LIST)] {
                for (operation, salt) in list.iter().zip((salt + base) as u64..) {
                    let work = self.work(operation, salt, pixels);
                    // Inner threads work on single samples only.
                    let team = job.cpu.inner.filter(|_| base == 0);
                    self.parts.loaders.works.push(in_team(work, team));
                }
            }
            if job.hand_off > 0.0 {
                let salt = (salt + 2 * LIST - 1) as u64;
                let work = Work::constant(job.hand_off, |seconds| self.recurring(seconds), salt);
                self.parts.loaders.works.push(work);
            }
        }
    }

    fn work(&mut self, operation: &Operation, salt: u64, pixels: f64) -> Work {
        let mut draw = |distribution: &Distribution, purpose| {
            Draw::new(Sampler::new(distribution), |seconds| self.recurring(seconds), purpose, salt)
        };
        match operation {
            Operation::Read => Work::Read,
            Operation::Decode(law) => Work::Decode(*law, pixels),
            Operation::Compute(distribution) => Work::Compute(draw(distribution, Purpose::Compute)),
            Operation::Delay(distribution) => Work::Delay(draw(distribution, Purpose::Delay)),
            Operation::Copy => Work::Copy,
            Operation::CopyStored => Work::CopyStored,
            Operation::Kernel(kernel) => {
                Work::Kernel(kernel.per_sample / self.scenario.cluster.node.gpu_speed)
            }
            Operation::Memcpy(per_byte) => Work::Memcpy(*per_byte),
        }
    }
}

/// Returns the computation as work that the threads of `team` share, if there is a team; work other than computations is
/// returned unchanged.
fn in_team(work: Work, team: Option<InnerThreads>) -> Work {
    match (work, team) {
        (work @ (Work::Compute(_) | Work::Decode(..)), Some(team)) => {
            let InnerThreads { threads, efficiency } = team;
            Work::Team(Box::new(Team { work, threads, speed: f64::from(threads) * efficiency }))
        }
        (work, _) => work,
    }
}

/// Returns the number of operations on an item of the stage, including the hand-over to the next stage.
pub(super) fn operations_of(stage: &Stage, job: &Job) -> usize {
    stage.per_sample.len() + stage.per_item.len() + usize::from(job.hand_off > 0.0)
}
