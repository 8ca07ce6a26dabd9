//! What publications say that nominal numbers reach, and how far an answer depends on it.
//!
//! A number of a data sheet is not what a program reaches. The ranges are in a TOML file with their sources ([`RANGES`]); `nominal`
//! finds the numbers of a scenario that have one, and the changes of the file that reach another amount; `draws` simulates the
//! scenario over what was reached.

mod draws;
mod nominal;
mod reached;
mod words;

pub use draws::{
    DRAWS, Draws, Effect, Question, changes_of_draw, draws, effects, ends, reached_in_draw,
};
pub use nominal::{Nominal, changes, nominal};
pub use reached::{Publication, RANGES, Reached, Unit, all, table};
