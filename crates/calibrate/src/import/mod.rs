//! Imports measurements and configurations of other programs from their files.

pub mod collective;
pub mod dlio;
pub mod kineto;
mod label;
pub mod mlperf;
