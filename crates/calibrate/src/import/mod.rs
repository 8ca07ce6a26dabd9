//! Imports of what other programs measured, or are configured to do, from their files.

pub mod collective;
pub mod dlio;
pub mod kineto;
