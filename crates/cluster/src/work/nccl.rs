//! All-reduce by NCCL among the GPUs of all nodes.

use crate::message::Found;
use crate::secret;
use forebay_calibrate::probe::gpu::together::{self, Part};

/// Makes the id of a new communicator: the only line of the result, as hexadecimal digits.
pub(super) fn new_id() -> Result<Found, String> {
    let id = together::new_id().map_err(|error| error.to_string())?;
    Ok(Found { lines: vec![secret::digits(&id)], ..Found::default() })
}

/// Times all-reduce; a line of the result has size [B], operations and time [s] of a trial.
pub(super) fn all_reduce(
    id: &str,
    first: usize,
    all: usize,
    sizes: &[usize],
    trials: usize,
) -> Result<Found, String> {
    let id = secret::bytes(id).map_err(|error| format!("the communicator's id: {error}"))?;
    let timed = together::all_reduce(Part { id, first, all }, sizes, trials);
    let timed = timed.map_err(|error| error.to_string())?;
    let line = |(size, times, seconds): (usize, u64, f64)| format!("{size} {times} {seconds}");
    Ok(Found { lines: timed.into_iter().map(line).collect(), ..Found::default() })
}
