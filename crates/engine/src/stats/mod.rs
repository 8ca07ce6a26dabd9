//! Statistics of simulation output: intervals, quantiles, warm-up. Pure functions of slices.

mod batch_means;
mod interval;
mod log_histogram;
mod quantile;
mod rare;
mod tail;
mod warm_up;

pub use batch_means::{
    Batch, FEWEST_BATCHES, MOST_BATCHES, correlation_time, independent_values, ratio_half_width,
    without_phase_means,
};
pub use interval::{mean, normal_quantile, sd, student_975, student_quantile, t_interval};
pub use log_histogram::LogHistogram;
pub use quantile::{quantile, weighted_quantile};
pub use rare::rare_sum_interval;
pub use tail::Tail;
pub use warm_up::{Truncation, mser5};
