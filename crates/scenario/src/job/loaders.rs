//! Where a job's loaders run: one for all model copies of a node, or one for each model copy.

use super::Job;
use super::rules::Rules;
use super::settings::JobSettings;
use crate::Preset;
use crate::document::NodeId;
use crate::loader::settings::LoaderSettings;
use schemars::JsonSchema;

/// Where loaders run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Loaders {
    /// One loader for all model copies of a node.
    PerNode,
    /// One loader for each model copy.
    PerRank,
}

impl Loaders {
    /// Returns the value as scenario files write it.
    fn written(self) -> &'static str {
        match self {
            Loaders::PerNode => "per-node",
            Loaders::PerRank => "per-rank",
        }
    }
}

impl JobSettings {
    /// Returns where the loaders run: as `parallel.data.loaders` says, or as is usual for the loader.
    pub(super) fn loaders(&self) -> Loaders {
        let usual = || self.loader.get().map_or(Loaders::PerNode, |of| of.usual_place().0);
        self.loaders_at().map_or_else(usual, |(_, loaders)| loaders)
    }

    /// Returns `parallel.data.loaders` and its document node, if it is set.
    fn loaders_at(&self) -> Option<(NodeId, Loaders)> {
        let (at, loaders) = self.parallel.get()?.data.get()?.loaders.given()?;
        Some((at, *loaders))
    }
}

impl Rules<'_> {
    /// Records where loaders run if the scenario does not say it, and says where that is not what the loader's framework does.
    pub(super) fn note_loaders(&self, job: &Job) {
        let preset = job.loader.preset;
        let shared = job.copies_per_loader() > 1;
        let copies = job.copies_per_node;
        match self.settings.loaders_at() {
            Some((_, Loaders::PerNode)) if preset == Preset::Dali && shared => {
                self.check.remark(format!(
                    "`parallel.data.loaders = \"per-node\"` feeds {copies} model copies of `{}` from one pipeline, but each of \
                     DALI's pipelines belongs to one GPU: remove `loaders`.",
                    job.name
                ));
            }
            Some(_) => {}
            None => self.assume_loaders(),
        }
        if preset == Preset::Pytorch && shared && self.settings.loaders_at().is_none() {
            self.check.note(format!(
                "One loader on each node feeds the {copies} model copies of `{}` there: its settings are per node. Under PyTorch's \
                 DDP each rank has a loader, with `num_workers` of its own: write `parallel.data.loaders = \"per-rank\"`, or \
                 \"per-node\" if this is meant.",
                job.name
            ));
        }
    }

    fn assume_loaders(&self) {
        let data = self.settings.parallel.get().and_then(|parallel| parallel.data.at);
        let usual = self.settings.loader.get().map(LoaderSettings::usual_place);
        if let (Some(at), Some((loaders, source))) = (data, usual) {
            self.check.assume(at, "loaders", &format!("{:?}", loaders.written()), source);
        }
    }
}
