//! Stands for GPUs in a program that was built without them.

use super::{ABSENT, Difference, Precision, Steps, Task};
use crate::probe::ProbeError;

/// There is none.
#[derive(Debug)]
pub(in crate::probe) enum Board {}

impl Board {
    pub(in crate::probe) fn open(_: usize) -> Result<Board, ProbeError> {
        Err(ProbeError::Machine(ABSENT.to_owned()))
    }

    pub(in crate::probe) fn free(&self) -> Result<usize, ProbeError> {
        match *self {}
    }

    pub(in crate::probe) fn check(
        &self,
        _: Precision,
        _: u64,
    ) -> Result<Vec<Difference>, ProbeError> {
        match *self {}
    }

    pub(in crate::probe) fn train(&self, _: Task<'_>, _: f64) -> Result<Steps, ProbeError> {
        match *self {}
    }

    pub(in crate::probe) fn copy(&self, _: usize, _: bool, _: u64) -> Result<f64, ProbeError> {
        match *self {}
    }
}
