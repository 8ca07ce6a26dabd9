//! Settings of `job.copy.convert`: a data set that is made from another one while it is copied to the nodes.

use super::rules::Rules;
use super::settings::Around;
use super::{Job, Share};
use crate::check::Check;
use crate::distribution::settings::Varying;
use crate::document::NodeId;
use crate::field::Field;
use crate::role::Role;
use crate::{Dataset, Distribution};
use forebay_model::units::Time;
use schemars::JsonSchema;

/// How a job's data set is made from another one while it is staged.
///
/// A stream that copies files does three things, one after the other: it reads a file of the other data set, does the
/// work `compute` for each of the file's samples on the node's cores, and writes these samples to the target, the
/// node's tier or a storage that all nodes share, with the sizes that they have in the job's own data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Convert {
    /// Index of the other data set in [`crate::Scenario::datasets`].
    pub from: usize,
    /// CPU time for each sample [core-s].
    pub compute: Distribution,
}

/// How a job's data set is made from another one.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConvertSettings {
    /// Name of the data set that is on the storage, with as many samples as the job's own.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Identity))]
    from: Field<String>,
    /// CPU time for each sample, such as for decoding and encoding (default: 0 s).
    #[schemars(extend("x-role" = Role::Limit))]
    compute: Field<Varying<Time>>,
}

impl ConvertSettings {
    /// Returns the checked conversion of the table at document node `at`; `None` if it is wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        around: Around<'_>,
    ) -> Option<Convert> {
        check.required(at, &self.from, "from", "name the data set that is on the storage");
        let from = check.reference(&self.from, "dataset", around.dataset_names)?;
        let compute = match self.compute.given() {
            Some((at, compute)) => compute.resolve(check, at)?,
            None => Distribution::Constant(0.0),
        };
        Some(Convert { from, compute })
    }
}

impl Rules<'_> {
    /// Checks that a converted data set is not its own source, that it has as many samples as its source, and that
    /// `share` is not `part` on several nodes. Returns the data set that is on the storage.
    pub(super) fn check_convert<'d>(&'d self, job: &Job, dataset: &'d Dataset) -> &'d Dataset {
        let staging = job.staging.as_ref();
        let Some((staging, convert)) = staging.and_then(|s| Some((s, s.convert.as_ref()?))) else {
            return dataset;
        };
        let at = self.settings.copy.at.unwrap_or(self.at);
        let Some(from) = self.around.datasets.get(convert.from).and_then(Option::as_ref) else {
            return dataset;
        };
        if convert.from == job.dataset {
            let what = format!("{:?} cannot be converted from itself", dataset.name);
            let remedy = "name the data set that is on the storage, or remove `convert`";
            self.check.wrong(at, what, remedy);
        }
        if from.samples != dataset.samples {
            let what = format!(
                "{:?} has {} samples, but {:?}, which is converted from it, has {}",
                from.name, from.samples, dataset.name, dataset.samples
            );
            self.check.wrong(at, what, "write the same number of samples for both");
        }
        if staging.share == Share::Part && job.nodes > 1 {
            let what = "a node that has only part of a data set cannot convert it";
            self.check.wrong(at, what, "write `share = \"all\"`, or remove `convert`");
        }
        from
    }
}
