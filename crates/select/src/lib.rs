//! Which of several settings to take, if all that is known of each is what independent replications show.
//!
//! - [`Race`]: which alternatives meet constraints, and which of those is the best, with a stated certainty and from as few
//!   replications as that takes: fully sequential ranking and selection.
//! - [`smallest`]: the first setting of an ordered list that meets a goal, by bisection, with a check that more never meets it less.
//! - [`first_pairs`]: all pairs of two ordered settings that meet a goal while no earlier pair does.
//!
//! What an alternative is, and how a replication of it is made, is the caller's.

mod bisection;
mod pairs;
mod race;

pub use bisection::{Judged, Smallest, smallest};
pub use pairs::{Pair, Pairs, first_pairs};
pub use race::{Known, Observation, Place, Race, Rules, boundary};
