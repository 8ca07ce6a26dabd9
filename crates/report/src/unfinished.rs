//! Runs that the simulator's clock could not hold.

use super::Outcome;

/// A job had work left when the run ended: what it showed until then is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// The clock of the simulation could go no further, 213 days of whole picoseconds after the start.
    #[error(
        "job {job:?} takes longer than can be simulated, 213 days; look for a rate of it that is too low \
         or a time that is too long, or write a shorter run"
    )]
    TooLong {
        /// Name of the first such job.
        job: String,
    },
    /// It failed time and again before it had written a checkpoint, or ended.
    #[error(
        "job {job:?} fails more often than it gets on: write a longer `mtbf`, or a `checkpoint` that is \
         written sooner and faster"
    )]
    Failing {
        /// Name of the job.
        job: String,
    },
}

impl Outcome {
    /// The outcome, if all of its jobs did what they were asked for.
    ///
    /// # Errors
    /// With the first job that did not.
    pub fn whole(self) -> Result<Outcome, Unfinished> {
        match self.unfinished {
            Some(unfinished) => Err(unfinished),
            None => Ok(self),
        }
    }
}
