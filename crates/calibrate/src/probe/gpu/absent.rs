//! Stand-ins for the types of GPU code in a program that was built without CUDA: all attempts to make one fail.

use super::together::UNIQUE;
use super::{ABSENT, Copied, Copies, Difference, Exchange, Precision, Steps, Task, Training};
use crate::probe::ProbeError;
use crate::probe::fresh::Decoding;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A GPU; without CUDA there are no values of this type.
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

    pub(in crate::probe) fn copy(
        &self,
        _: Copies<'_>,
        _: Option<&Decoding>,
    ) -> Result<Copied, ProbeError> {
        match *self {}
    }
}

/// Learners on a GPU; without CUDA [`Learners::new`] always fails.
#[derive(Debug)]
pub struct Learners {
    /// The learners.
    pub learners: Vec<Learner>,
    /// Lanes through which batches are copied to the GPU.
    pub lanes: Arc<Lanes>,
}

impl Learners {
    /// Returns the error that this program was built without CUDA.
    ///
    /// # Errors
    /// If always.
    pub fn new(_: &Training<'_>) -> Result<Learners, ProbeError> {
        Err(ProbeError::Machine(ABSENT.to_owned()))
    }
}

/// A learner; without CUDA there are no values of this type.
#[derive(Debug)]
pub enum Learner {}

impl Learner {
    /// Is never called, as there is no [`Learner`].
    ///
    /// # Errors
    /// If none.
    pub fn begin<T: AsRef<[u8]>>(
        &mut self,
        _: u64,
        _: usize,
        _: bool,
        _: &[T],
    ) -> Result<(), ProbeError> {
        match *self {}
    }

    /// Is never called, as there is no [`Learner`].
    ///
    /// # Errors
    /// If none.
    pub fn end(&mut self, _: u64) -> Result<Instant, ProbeError> {
        match *self {}
    }

    /// Is never called, as there is no [`Learner`].
    ///
    /// # Errors
    /// If none.
    pub fn ended(&mut self, _: u64) -> Result<Option<Instant>, ProbeError> {
        match *self {}
    }
}

/// Lanes to a GPU; without CUDA there are no values of this type.
#[derive(Debug)]
pub enum Lanes {}

impl Lanes {
    /// Is never called, as there are no [`Lanes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        match *self {}
    }

    /// Is never called, as there are no [`Lanes`].
    ///
    /// # Errors
    /// If none.
    pub fn copy<T: AsRef<[u8]>>(&self, _: &[T], _: &AtomicBool) -> Result<(), ProbeError> {
        match *self {}
    }
}

/// Reports that NCCL cannot be used.
pub(in crate::probe::gpu) fn unique() -> Result<[u8; UNIQUE], ProbeError> {
    Err(ProbeError::Machine(ABSENT.to_owned()))
}

/// NCCL ranks; without CUDA there are no values of this type.
#[derive(Debug)]
pub(in crate::probe) enum Ranks {}

impl Ranks {
    pub(in crate::probe) fn open(_: usize, _: usize) -> Result<Ranks, ProbeError> {
        Err(ProbeError::Machine(ABSENT.to_owned()))
    }

    pub(in crate::probe) fn join(
        _: [u8; UNIQUE],
        _: usize,
        _: usize,
        _: usize,
        _: usize,
    ) -> Result<Ranks, ProbeError> {
        Err(ProbeError::Machine(ABSENT.to_owned()))
    }

    pub(in crate::probe) fn run(&self, _: Exchange, _: usize, _: u64) -> Result<(), ProbeError> {
        match *self {}
    }
}
