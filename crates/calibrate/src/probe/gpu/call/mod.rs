//! Calls of CUDA: the one place with unsafe code.
//!
//! What makes it sound: a [`super::program::Slot`] lies inside the block of memory of its program, sizes in
//! calls are those that places were taken for, libraries are asked for before they are used, and whatever
//! a stream works on lives until the stream has ended.
#![expect(unsafe_code, reason = "functions of CUDA's libraries and launches of kernels are unsafe")]

mod blas;
mod device;
mod dnn;
mod line;
mod nccl;
mod nvrtc;
mod open;

pub(super) use device::{Cuda, Gpu, Recording};
pub(super) use line::{Line, Mark, Pinned, Stopwatch};
pub(in crate::probe) use nccl::Ranks;
pub(super) use nccl::version as nccl;
pub(super) use nvrtc::cubin;
pub(super) use open::{driver, load, version};

use crate::probe::ProbeError;
use std::fmt::Debug;

/// What CUDA says went wrong.
fn failed<E: Debug>(doing: &str) -> impl FnOnce(E) -> ProbeError {
    move |error| ProbeError::Machine(format!("cannot {doing}: {error:?}"))
}

/// A size as CUDA's libraries take it.
fn int(n: usize) -> Result<i32, ProbeError> {
    i32::try_from(n).map_err(|_| {
        ProbeError::Machine(format!("{n} is more than CUDA's libraries take: lower the batch"))
    })
}
