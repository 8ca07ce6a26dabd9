//! Locality: how much of the data that nodes read lies on their own storage.

use super::JobOutcome;
use super::figures::Figure;
use super::sample::over_replications;
use super::window::ratio;
use forebay_engine::stats::mean;

/// Returns the share of the bytes read that nodes found on their own storage, from the outcomes of a job's copies, grouped by replication; `None` if every
/// node has the whole data set, or nothing was read.
pub(super) fn local_share(copies: &[Vec<&JobOutcome>]) -> Option<Figure> {
    let share = |copy: &&JobOutcome| ratio(copy.local.own, copy.local.own + copy.local.peers);
    let each =
        |copies: &Vec<&JobOutcome>| mean(&copies.iter().filter_map(share).collect::<Vec<_>>());
    let shares: Vec<f64> = copies.iter().filter_map(each).collect();
    (!shares.is_empty()).then(|| over_replications(&shares))
}
