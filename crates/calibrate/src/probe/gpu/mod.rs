//! Training steps on NVIDIA GPUs.
//!
//! The networks of [`forebay_networks`] are compiled to a list of calls. `program` defines the list; `compile`,
//! `forward` and `backward` make it; `kernels` has our own kernels (in the folder `kernels` of the crate).
//! `numerics` and `whole` check any device that executes the calls: they compare its results with the results
//! of the cores, by operator and by network. `content` lays out a batch for its copy to a GPU. `turns` submits the
//! steps of several learners in turn. All these modules need no GPU and are tested without one. The modules that need
//! a GPU are behind the feature `cuda`: `call`, the only module with unsafe code, `trainer`, `averaged`, `copies`, `lanes` and
//! `learner`. `libraries` and `survey` report which libraries and GPUs the machine has and what is missing.
#![cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "nothing can carry calls out"))]

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod averaged;
mod backward;
mod batch;
#[cfg(feature = "cuda")]
mod call;
mod compile;
mod content;
#[cfg(feature = "cuda")]
mod copies;
mod crew;
mod forward;
mod kernels;
#[cfg(feature = "cuda")]
mod lanes;
#[cfg(feature = "cuda")]
mod learner;
pub mod libraries;
mod numerics;
mod piece;
mod program;
mod survey;
mod task;
#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "cuda"))]
mod tests_on_gpu;
pub mod together;
#[cfg(feature = "cuda")]
mod trainer;
mod turns;
mod whole;

#[cfg(not(feature = "cuda"))]
use absent::unique;
#[cfg(not(feature = "cuda"))]
pub(super) use absent::{Board, Ranks};
#[cfg(not(feature = "cuda"))]
pub use absent::{Lanes, Learner, Learners};
#[cfg(feature = "cuda")]
pub(super) use call::Ranks;
#[cfg(feature = "cuda")]
use call::unique;
pub use content::Form;
#[cfg(feature = "cuda")]
pub use lanes::Lanes;
#[cfg(feature = "cuda")]
pub use learner::{Learner, Learners};
pub use numerics::{Difference, relative_error};
pub use program::Precision;
pub(super) use survey::Beat;
pub use survey::ready;
pub use survey::{Card, Found, Survey};
pub(super) use survey::{count, nccl};
pub(super) use task::{Copied, Copies, Steps, Task};
pub use task::{Exchange, Training, block};
#[cfg(feature = "cuda")]
pub(super) use trainer::Board;

/// Message of a static program, which does not contain the system's loader.
const STATIC: &str = "this forebay is a static program, which cannot open CUDA's libraries: for GPUs, install the \
                      dynamic one with `cargo install --path .`";

/// Message of a program that was built without CUDA.
#[cfg(not(feature = "cuda"))]
const ABSENT: &str = if cfg!(target_feature = "crt-static") {
    STATIC
} else {
    "this forebay was built without CUDA: build it with `--features cuda`"
};
