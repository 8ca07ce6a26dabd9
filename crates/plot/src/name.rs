//! Labels and units of columns on an axis.

use super::Unit;
use forebay_report::metric::{self, of_column};

/// Returns the axis label of a column: the label in the table of metrics; for a key of a scenario, the part after the last dot,
/// in words.
pub fn label_of(column: &str) -> String {
    if let Some(metric) = of_column(column) {
        return metric.label.to_string();
    }
    let last = column.rsplit('.').next().unwrap_or(column).replace('_', " ");
    let mut letters = last.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the unit of a column on an axis.
pub fn unit_of(column: &str) -> Unit {
    of_column(column).map_or(Unit::Number, |metric| Unit::from(metric.unit))
}

impl From<metric::Unit> for Unit {
    fn from(unit: metric::Unit) -> Unit {
        match unit {
            metric::Unit::Seconds => Unit::Seconds,
            metric::Unit::Bytes => Unit::Bytes,
            metric::Unit::Share => Unit::Share,
            metric::Unit::Samples
            | metric::Unit::SamplesPerSecond
            | metric::Unit::Steps
            | metric::Unit::StepsPerSecond
            | metric::Unit::Epochs
            | metric::Unit::EpochsPerSecond
            | metric::Unit::Count
            | metric::Unit::Ratio
            | metric::Unit::Joules
            | metric::Unit::Watts
            | metric::Unit::Money
            | metric::Unit::Text => Unit::Number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_scenarios_are_labelled_with_their_last_word() {
        assert_eq!(label_of("job.loader.tf-queue.threads"), "Threads");
        assert_eq!(label_of("job.batch_interval"), "Batch interval");
    }
}
