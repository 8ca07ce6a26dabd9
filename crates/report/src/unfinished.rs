//! Runs that ended before their jobs were done.

use super::Outcome;

/// Why a run ended while a job still had work left: its figures up to then are no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// The simulation reached the end of its clock, 213 days of whole picoseconds after the start.
    #[error(
        "job {job:?} takes longer than can be simulated, 213 days; look for a rate of it that is too low \
         or a time that is too long, or write a shorter run"
    )]
    TooLong {
        /// Name of the first job that had work left.
        job: String,
    },
    /// The job kept failing before it could write a checkpoint or end.
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
    /// Returns the outcome if all of its jobs finished their work.
    ///
    /// # Errors
    /// Reports the first job that did not finish, and why.
    pub fn whole(self) -> Result<Outcome, Unfinished> {
        match self.unfinished {
            Some(unfinished) => Err(unfinished),
            None => Ok(self),
        }
    }
}
