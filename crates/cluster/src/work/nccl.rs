//! All-reduce by NCCL among the GPUs of all nodes.

use crate::message::Found;
use forebay_calibrate::probe::gpu::together::{self, Part, UNIQUE};

/// Makes a number by which ranks find each other: the only line of the result.
pub(super) fn number() -> Result<Found, String> {
    let number = together::number().map_err(|error| error.to_string())?;
    let digits = number.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Found { lines: vec![digits], ..Found::default() })
}

/// Times all-reduce; a line of the result has size [B], operations and time [s] of a trial.
pub(super) fn all_reduce(
    number: &str,
    first: usize,
    all: usize,
    sizes: &[usize],
    trials: usize,
) -> Result<Found, String> {
    let id = read(number).ok_or("the number of the run is damaged")?;
    let timed = together::all_reduce(Part { id, first, all }, sizes, trials);
    let timed = timed.map_err(|error| error.to_string())?;
    let line = |(size, times, seconds): (usize, u64, f64)| format!("{size} {times} {seconds}");
    Ok(Found { lines: timed.into_iter().map(line).collect(), ..Found::default() })
}

/// Reads a number from hexadecimal digits.
fn read(number: &str) -> Option<[u8; UNIQUE]> {
    let bytes: Option<Vec<u8>> = number
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let number: String = (0..UNIQUE).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(read(&number).map(|bytes| bytes[127]), Some(127));
        assert_eq!(read("zz"), None);
        assert!(all_reduce("00", 0, 2, &[4], 1).is_err());
    }
}
