//! Checks of a job's sampler.

use super::rules::Rules;
use super::{Job, Split};
use crate::{Dataset, Layout};

impl Rules<'_> {
    /// Checks that the data set has shards if the sampler splits shards, and that each loader owns at least one file or
    /// sample. Remarks that the sampler has no effect with one loader.
    pub(super) fn check_split(&self, job: &Job, dataset: &Dataset) {
        let Some(at) = self.settings.sampler.at else { return };
        let files = matches!(dataset.layout, Layout::Shards { .. } | Layout::RowGroups(_));
        if job.split == Split::Shards && !files {
            let what = format!("the data set {:?} has no shards", dataset.name);
            let remedy = "write `sampler = \"contiguous\"`, or `layout.shards` in the data set";
            self.check.wrong(at, what, remedy);
        }
        let (parts, ranks) = (dataset.places(), u64::from(job.loaders()));
        if job.split != Split::Strided && parts < ranks {
            let what = if files { "files" } else { "samples" };
            let what =
                format!("{ranks} loaders cannot share {parts} {what}: each needs at least one");
            self.check.wrong(at, what, "write fewer nodes or ranks, or `sampler = \"strided\"`");
        }
        if ranks == 1 && !self.check.lenient {
            self.check
                .remark(format!("`job.{}.sampler` has no effect: one loader reads all.", job.name));
        }
    }
}
