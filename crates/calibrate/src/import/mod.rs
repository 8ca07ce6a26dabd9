//! What other programs measured or are told to do, read from their files.

pub mod collective;
pub mod dlio;
pub mod kineto;
