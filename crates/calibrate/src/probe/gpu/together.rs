//! Collectives of NCCL among the GPUs of several machines: each process has ranks on the GPUs of its machine.

use super::task::Exchange;
use super::{Ranks, count, unique};
use crate::probe::ProbeError;
use std::time::Instant;

/// Size of the id of a communicator (`ncclUniqueId`) [B].
pub const UNIQUE: usize = 128;
/// Bytes that the operations of a trial move, roughly [B], and smallest and largest number of operations.
const MOVED: usize = 1 << 30;
const OPERATIONS: [usize; 2] = [5, 500];

/// Ranks of one machine.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Id of the communicator, the same for all ranks.
    pub id: [u8; UNIQUE],
    /// Number of the machine's first rank.
    pub first: usize,
    /// Number of ranks on all machines.
    pub all: usize,
}

/// Returns the number of GPUs of this machine; 0 without a driver.
#[must_use]
pub fn usable() -> usize {
    count().unwrap_or(0)
}

/// Returns the id of a new communicator.
///
/// # Errors
/// If nCCL cannot be used here.
pub fn new_id() -> Result<[u8; UNIQUE], ProbeError> {
    unique()
}

/// Times all-reduce of each size [B] `trials` times, after one trial that does not count; all machines must do so at the same time. Returns
/// the size, the number of operations and the time of each trial [s].
///
/// # Errors
/// If nCCL or a GPU fails.
pub fn all_reduce(
    part: Part,
    sizes: &[usize],
    trials: usize,
) -> Result<Vec<(usize, u64, f64)>, ProbeError> {
    let here = count().map_err(ProbeError::Machine)?;
    let most = sizes.iter().copied().max().unwrap_or(4);
    let ranks = Ranks::join(part.id, part.first, here, part.all, most)?;
    let mut timed = Vec::new();
    for &size in sizes {
        let times = (MOVED / size.max(1)).clamp(OPERATIONS[0], OPERATIONS[1]) as u64;
        for trial in 0..=trials {
            let begin = Instant::now();
            ranks.run(Exchange::AllReduce, size.max(4), times)?;
            if trial > 0 {
                timed.push((size, times, begin.elapsed().as_secs_f64()));
            }
        }
    }
    Ok(timed)
}
