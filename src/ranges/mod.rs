//! What publications say that nominal numbers reach, and how far an answer depends on it.
//!
//! A number of a data sheet is not what a program reaches. The ranges are in a TOML file with their sources ([`RANGES`]); `nominal`
//! finds the numbers of a scenario that have one, and `draws` simulates the scenario over what was reached.

mod draws;
mod nominal;
mod reached;
mod words;

pub use draws::{DRAWS, Effect, Question, effects, rests_on};
pub use nominal::{Nominal, nominal, with};
pub use reached::{RANGES, Reached, Source, all, table};
