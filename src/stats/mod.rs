//! Statistics of simulation output: intervals, quantiles, warm-up. Pure functions of slices.

mod interval;
mod log_histogram;
mod quantile;
mod warm_up;

pub use interval::{batch_means_interval, mean, sd, student_975, t_interval};
pub use log_histogram::LogHistogram;
pub use quantile::{quantile, weighted_quantile};
pub use warm_up::{Truncation, mser5};
