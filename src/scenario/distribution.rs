//! A quantity that may vary.

mod empirical;
pub(super) mod jitter;
pub(super) mod or_table;
pub(super) mod settings;

pub use crate::distribution::Distribution;
pub(super) use empirical::FilesOfValues;
