//! What other programs measured, read from their files.

pub mod kineto;
