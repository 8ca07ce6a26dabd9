//! Calls of CUDA's libraries: the only module with unsafe code.
//!
//! Why it is sound: a [`super::program::Slot`] lies inside its program's block of memory; calls use the sizes
//! for which their slots were allocated; libraries are loaded before they are used; and memory that a stream
//! works on lives until the stream has finished.
#![expect(unsafe_code, reason = "functions of CUDA's libraries and launches of kernels are unsafe")]

mod blas;
mod device;
mod dnn;
mod functions;
mod line;
mod nccl;
mod nvrtc;
mod open;

pub(super) use device::{Cuda, Gpu, Recording};
pub(super) use line::{Line, Mark, Pinned, Stopwatch};
pub(in crate::probe) use nccl::Ranks;
pub(super) use nccl::unique;
pub(super) use nccl::version as nccl;
pub(super) use nvrtc::cubin;
pub(super) use open::{driver, load, version};

use crate::probe::ProbeError;
use std::fmt::Debug;

/// Returns a function for `map_err` that makes an error with the message "cannot `doing`" and CUDA's error.
fn failed<E: Debug>(doing: &str) -> impl FnOnce(E) -> ProbeError {
    move |error| ProbeError::Machine(format!("cannot {doing}: {error:?}"))
}

/// Converts a size to `i32`, as CUDA's libraries take it; reports an error if it is too large.
fn int(n: usize) -> Result<i32, ProbeError> {
    i32::try_from(n).map_err(|_| {
        ProbeError::Machine(format!("{n} is more than CUDA's libraries take: lower the batch"))
    })
}
