//! Timed experiments on a machine, what other programs measured, and the parameters fitted to both.

pub mod fit;
pub mod import;
pub mod measurement;
pub mod probe;
