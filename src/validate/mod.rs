//! Measures how wrong predictions are, on points that no fit has used.
//!
//! This is the only module that uses both worlds. A [`Plan`] names points of a scenario. The live world runs each point several
//! times, interleaved with the others, and the simulated world predicts an interval for a single run. [`Verdict`] summarises
//! the errors.

mod bound;
mod explanation;
mod factors;
mod measure;
mod measured;
mod naive;
mod observed;
mod pace;
mod plan;
mod point;
mod predict;
mod refit;
#[cfg(test)]
mod refit_tests;
mod telling;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

pub use bound::{Bound, Likeness, Work};
pub use explanation::{Explanation, Limit};
pub use factors::Factors;
pub use measure::{LiveRun, Runs, lacking, least_runs, measure};
pub use measured::{MeasuredError, MeasuredRow, read_measured};
pub use naive::{Naive, naive};
pub use observed::Observed;
pub use pace::{Pace, Witness};
pub use plan::{Plan, PlanError, PlanPoint, Use, schema};
pub use point::{Point, Prediction};
pub use predict::{
    PredictError, Simulated, figures, resolve, show, simulate, step_at_crossover, with_errors,
    with_noise,
};
pub use refit::{Explained, Refit, Told, refit};
pub use telling::{Telling, candidates, telling};
pub use text::{next_time_text, refitted, render};
pub use verdict::{Class, Verdict};
