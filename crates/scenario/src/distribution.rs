//! Distributions: quantities that may vary.

mod empirical;
pub(super) mod jitter;
pub(super) mod or_table;
pub(super) mod settings;

pub(super) use empirical::FilesOfValues;
pub use forebay_model::distribution::Distribution;
