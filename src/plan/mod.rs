//! Decisions: the smallest or largest value of a key that meets goals, and the best of several options.
//!
//! - [`goal`]: a figure of the report, a comparison and a value, as users write them.
//! - [`unknown`]: the values of a key that are tried.
//! - [`trial`]: replications of changed scenarios, and whether they meet the goals, with the certainty that is asked for.
//! - [`search`]: the smallest or largest values, by bisection.
//! - [`choice`]: the best option, by ranking and selection.
//! - [`draws`]: whether the choice stays over what publications reached of nominal numbers.
//!
//! Decisions need the simulation only through reports, and a report only through its table of metrics.

pub mod choice;
pub mod draws;
pub mod goal;
pub mod search;
pub mod trial;
pub mod unknown;

pub use choice::{Choice, Rank, Standing, choose};
pub use draws::{OverDraws, over_draws};
pub use goal::{Goal, Wanted};
pub use search::{Answer, MOST_OF_TWO, Tried, search};
pub use trial::{Failed, Figured, Question, Setting, first_outcome};
pub use unknown::Unknown;
