//! Jobs that begin when others have ended.

use crate::account::Steps;
use crate::engine::Time;

use super::event::{Clock, Delay, Event};
use super::index::JobId;
use super::world::World;

/// A job copy that waits for others to end.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) job: JobId,
    /// Jobs of the scenario of which all copies must have ended.
    pub(super) after: Vec<usize>,
    /// Time from then on until it begins.
    pub(super) delay: Delay,
}

impl World<'_> {
    /// A job copy has ended: those begin that waited for it last.
    #[cold]
    pub(super) fn release_jobs(&mut self, clock: &mut Clock) {
        let jobs = &self.jobs;
        let over = |of: &usize| jobs.iter().all(|run| run.job != *of || run.finished);
        let ready = |waiting: &mut Waiting| waiting.after.iter().all(over);
        for next in self.waiting.extract_if(.., ready) {
            clock.after(next.delay, Event::JobStarted(next.job));
        }
    }

    /// Job copy `j` begins now, which was not known before.
    pub(super) fn begin_late(&mut self, now: Time, j: JobId) {
        let job = &mut self.jobs[j];
        job.start = now;
        job.steps = Steps::new(now);
        for l in job.loaders {
            self.loaders[l].queue.restart(now);
        }
    }
}
