//! Runs that the simulator's clock could not hold.

use super::Outcome;

/// A job had work left when the clock of the simulation could go no further, 213 days of whole
/// picoseconds after the start: what the run showed until then is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "job {job:?} takes longer than can be simulated, 213 days; look for a rate of it that is too low or \
     a time that is too long, or write a shorter run"
)]
pub struct Unfinished {
    /// Name of the first such job.
    pub job: String,
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
