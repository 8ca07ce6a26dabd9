//! What the beginning of an epoch takes beside reading first batches, from the results of other submitters' systems.

use super::{StorageResult, StorageResults, System};
use crate::stats::quantile;

/// Returns the time that beginning an epoch adds to reading its first batches, in the mean over epochs [s]: the start of PyTorch's workers
/// in the first epoch, TensorFlow's list of files in each. Medians of results of other submitters than that of `system`;
/// 0 in rounds that do not count the first step.
#[must_use]
pub fn start(all: &StorageResults, system: &System, of: &StorageResult) -> f64 {
    if !StorageResult::counts_first(&system.round) {
        return 0.0;
    }
    let others = all.systems.iter().filter(|other| other.submitter != system.submitter);
    let others = others.filter(|other| StorageResult::counts_first(&other.round));
    let units = others.flat_map(|other| {
        let bandwidth = other.bandwidth().0;
        let same = other.results.iter().filter(|result| result.workload == of.workload);
        same.filter_map(move |result| Some(late(result, bandwidth)? / parts(result)))
    });
    let mut units: Vec<f64> = units.collect();
    units.sort_by(f64::total_cmp);
    quantile(&units, 0.5).unwrap_or_default().max(0.0) * parts(of)
}

/// Returns by how much first batches of a result come later than their bytes explain [s].
fn late(of: &StorageResult, bandwidth: f64) -> Option<f64> {
    let later = of.first_batch_later?;
    match of.is_pytorch() {
        // Later epochs find the workers alive.
        true => Some(of.first_batch? - later),
        false => Some(later - of.bytes_of_step() / bandwidth),
    }
}

/// Returns the number to which the start is in proportion: workers, or files of one sample. Where files are few, it is one time.
fn parts(of: &StorageResult) -> f64 {
    let samples = f64::from(of.ranks) * f64::from(of.batch) * f64::from(of.steps);
    match (of.is_pytorch(), of.workload.as_str()) {
        (true, _) => f64::from(of.workers),
        (false, "resnet50") => 1.0,
        (false, _) => samples,
    }
}
