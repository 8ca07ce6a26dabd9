//! Stands for GPUs in a program that was built without them.

use super::{ABSENT, Copied, Copies, Difference, Exchange, Precision, Steps, Task, Training};
use crate::probe::ProbeError;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

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

    pub(in crate::probe) fn copy(&self, _: Copies<'_>) -> Result<Copied, ProbeError> {
        match *self {}
    }
}

/// There are none.
#[derive(Debug)]
pub struct Learners {
    /// None.
    pub learners: Vec<Learner>,
    /// None.
    pub lanes: Arc<Lanes>,
}

impl Learners {
    /// Says that there are none.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &Training<'_>) -> Result<Learners, ProbeError> {
        Err(ProbeError::Machine(ABSENT.to_owned()))
    }
}

/// There is none.
#[derive(Debug)]
pub enum Learner {}

impl Learner {
    /// Cannot be asked.
    ///
    /// # Errors
    /// None.
    pub fn begin(&mut self, _: u64, _: usize, _: bool) -> Result<(), ProbeError> {
        match *self {}
    }

    /// Cannot be asked.
    ///
    /// # Errors
    /// None.
    pub fn end(&mut self, _: u64) -> Result<Instant, ProbeError> {
        match *self {}
    }

    /// Cannot be asked.
    ///
    /// # Errors
    /// None.
    pub fn ended(&mut self, _: u64) -> Result<Option<Instant>, ProbeError> {
        match *self {}
    }
}

/// There are none.
#[derive(Debug)]
pub enum Lanes {}

impl Lanes {
    /// Cannot be asked.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match *self {}
    }

    /// Cannot be asked.
    ///
    /// # Errors
    /// None.
    pub fn copy(&self, _: &AtomicBool) -> Result<(), ProbeError> {
        match *self {}
    }
}

/// There are none.
#[derive(Debug)]
pub(in crate::probe) enum Ranks {}

impl Ranks {
    pub(in crate::probe) fn open(_: usize, _: usize) -> Result<Ranks, ProbeError> {
        Err(ProbeError::Machine(ABSENT.to_owned()))
    }

    pub(in crate::probe) fn run(&self, _: Exchange, _: usize, _: u64) -> Result<(), ProbeError> {
        match *self {}
    }
}
