//! Time series of a job, averaged for figures.

use crate::metric::{OVER_TIME, OverTime};
use crate::report::SeriesReport;

/// Returns times and values of the series at no more than `most` points, each the mean of equally many neighbours.
pub(super) fn points(series: &SeriesReport, most: usize) -> (Vec<f64>, [Vec<Option<f64>>; 5]) {
    let width = series.time.len().div_ceil(most.max(1)).max(1);
    let time: Vec<Option<f64>> = series.time.iter().copied().map(Some).collect();
    let time = means(&time, width).into_iter().flatten().collect();
    let column = |(name, find): (&str, OverTime)| match name {
        "step_time" => means(&under_way(find(series)), width),
        _ => means(find(series), width),
    };
    (time, OVER_TIME.map(column))
}

/// Returns the step times without gaps: each instant at which no step ended gets the time of the step that was in progress then,
/// which is the next one to end.
fn under_way(ended: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut next = None;
    let mut filled: Vec<Option<f64>> = ended
        .iter()
        .rev()
        .map(|time| {
            next = time.or(next);
            next
        })
        .collect();
    filled.reverse();
    filled
}

/// Returns the mean of each group of `width` neighbours. Missing values are left out; a group without values gives `None`.
fn means(values: &[Option<f64>], width: usize) -> Vec<Option<f64>> {
    let mean = |group: &[Option<f64>]| {
        let (mut sum, mut count) = (0.0, 0.0);
        for value in group.iter().flatten() {
            sum += value;
            count += 1.0;
        }
        (count > 0.0).then_some(sum / count)
    };
    values.chunks(width).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_within_a_step_get_the_step_time_of_that_step() {
        let ended = [Some(1.0), None, None, Some(3.0), None];
        assert_eq!(under_way(&ended), [Some(1.0), Some(3.0), Some(3.0), Some(3.0), None]);
    }

    #[test]
    fn neighbouring_time_series_values_are_averaged_and_gaps_are_skipped() {
        let values = [Some(1.0), Some(3.0), None, Some(4.0), None];
        assert_eq!(means(&values, 2), [Some(2.0), Some(4.0), None]);
    }
}
