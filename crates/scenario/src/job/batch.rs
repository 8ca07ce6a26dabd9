//! Batch size of a step: for each model copy, or for all model copies together.

use super::settings::{Around, JobSettings};
use crate::check::Check;
use crate::document::NodeId;

impl JobSettings {
    /// Returns the number of samples of each model copy in a step; `None` if the setting is wrong.
    pub(super) fn checked_batch(
        &self,
        check: Check<'_>,
        at: NodeId,
        around: Around<'_>,
    ) -> Option<u64> {
        let choices = [("batch", self.batch.at), ("global_batch", self.global_batch.at)];
        let remedy =
            "write `batch = 64` (for each model copy) or `global_batch = 256` (for all together)";
        if check.one_of(at, &choices, remedy)? == 0 {
            return Some(self.batch.get()?.0);
        }
        let (at, all) = self.global_batch.given()?;
        let Some(learners) = self.number_of_learners() else {
            let what = "`global_batch` cannot be divided, because the policy changes the number of learners";
            check.wrong(
                at,
                what,
                "write `batch` (for each learner), or a fixed number of `learners`",
            );
            return None;
        };
        let models = u64::from(self.ranks(around)) * u64::from(learners);
        if !all.0.is_multiple_of(models) {
            let each = if learners > 1 { "learners" } else { "model copies" };
            let what = format!("{} samples cannot be divided equally among {models} {each}", all.0);
            check.wrong(at, what, format!("write {}", nearest(all.0, models)));
            return None;
        }
        Some(all.0 / models)
    }

    /// Returns the document node of `batch` or `global_batch`, if one of them is set.
    pub(super) fn batch_at(&self) -> Option<NodeId> {
        self.global_batch.at.or(self.batch.at)
    }
}

/// Names, as text, the multiples of `ranks` just below and just above `all`, the nearer one first.
fn nearest(all: u64, ranks: u64) -> String {
    let (below, above) = (all / ranks * ranks, all.div_ceil(ranks) * ranks);
    match below {
        0 => format!("{above}, or fewer nodes or model copies"),
        _ if all - below <= above - all => format!("{below} or {above}"),
        _ => format!("{above} or {below}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_batch_sizes_are_the_nearest_multiples_in_order_of_distance() {
        assert_eq!(nearest(256, 24), "264 or 240");
        assert_eq!(nearest(250, 24), "240 or 264");
        assert_eq!(nearest(5, 24), "24, or fewer nodes or model copies");
    }
}
