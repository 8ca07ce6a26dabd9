//! Runs that ended before their jobs were done.

use super::Outcome;

/// Why a run ended while a job still had work left. The figures of such a run are not valid
/// results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// The simulation reached the end of its clock, 213 days of whole picoseconds after the start.
    #[error(
        "job {job:?} takes longer than 213 days, the most that can be simulated; look for a rate that is too low or a time \
         that is too long in it, or write a shorter run"
    )]
    TooLong {
        /// Name of the first job that had work left.
        job: String,
    },
    /// Nothing was left to happen, although jobs had work left: a mistake in the simulator.
    #[error(
        "internal error: the simulation stands still at {at} s, before job {job:?} has ended. Report this as a bug of forebay, \
         with the scenario and these lines:\n{state}"
    )]
    Standstill {
        /// Name of the first job that had work left.
        job: String,
        /// Simulated time, in words [s].
        at: String,
        /// What each unfinished job, its devices and its workers wait for, in lines.
        state: String,
    },
    /// The job kept failing before it could write a checkpoint or end.
    #[error(
        "job {job:?} fails too often to make progress: write a longer `mtbf`, or a `checkpoint` that is written sooner and \
         faster"
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
