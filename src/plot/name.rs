//! What columns are called on an axis.

use super::Unit;

/// Columns of sweeps and of series, in words, and what they are measured in.
const KNOWN: [(&str, &str, Unit); 28] = [
    ("time", "Time", Unit::Seconds),
    ("step_time", "Step time", Unit::Seconds),
    ("samples_per_second", "Samples per second", Unit::Number),
    ("fresh_samples_per_second", "Fresh samples per second", Unit::Number),
    ("steps_per_second", "Steps per second", Unit::Number),
    ("epoch_time", "Epoch time", Unit::Seconds),
    ("epochs_per_second", "Epochs per second", Unit::Number),
    ("accelerator_utilisation", "Accelerator utilisation", Unit::Share),
    ("stall", "Stall, share of time", Unit::Share),
    ("queue_occupancy", "Samples in the queue", Unit::Number),
    ("occupancy", "Samples in the queue", Unit::Number),
    ("exhaustions", "Queue exhaustions", Unit::Number),
    ("time_empty", "Queue empty, share of time", Unit::Share),
    ("enqueue_rate", "Enqueue rate, samples per second", Unit::Number),
    ("unblocked_enqueue_rate", "Unblocked enqueue rate, samples per second", Unit::Number),
    ("dequeue_rate", "Dequeue rate, samples per second", Unit::Number),
    ("net_enqueue_rate", "Net enqueue rate, samples per second", Unit::Number),
    ("time_to_exhaustion", "Time to exhaustion", Unit::Seconds),
    ("exhausted_copies", "Copies whose queue ran dry", Unit::Share),
    ("time_to_accuracy", "Time to accuracy", Unit::Seconds),
    ("epochs_to_accuracy", "Epochs to accuracy", Unit::Number),
    ("statistical_efficiency", "Statistical efficiency", Unit::Share),
    ("gpu_occupancy", "Part of a GPU in use", Unit::Share),
    ("share", "Share of time", Unit::Share),
    ("energy_per_sample", "Energy per sample [J]", Unit::Number),
    ("local_share", "Bytes read on the own node", Unit::Share),
    ("makespan", "Makespan", Unit::Seconds),
    ("job", "Job", Unit::Number),
];

/// What an axis with this column is called.
pub fn label_of(column: &str) -> String {
    if let Some((_, label, _)) = KNOWN.iter().find(|(name, _, _)| *name == column) {
        return (*label).to_owned();
    }
    if let Some(cause) = column.strip_prefix("stall_") {
        return format!("Stall by {cause}, share of time");
    }
    let last = column.rsplit('.').next().unwrap_or(column).replace('_', " ");
    let mut letters = last.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// What this column is measured in.
pub fn unit_of(column: &str) -> Unit {
    if column.starts_with("stall_") {
        return Unit::Share;
    }
    let known = KNOWN.iter().find(|(name, _, _)| *name == column);
    known.map_or(Unit::Number, |(_, _, unit)| *unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_scenarios_are_called_by_their_last_word() {
        assert_eq!(label_of("job.loader.tf-queue.threads"), "Threads");
        assert_eq!(label_of("job.batch_interval"), "Batch interval");
    }
}
