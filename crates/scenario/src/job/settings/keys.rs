//! What single keys of a `[[job]]` table say, with their defaults.

use super::{Around, JobSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::job::copies::CopiesSettings;
use crate::job::learners::LearnersSettings;
use crate::job::model::ModelSettings;
use crate::job::parallel::PipelineSettings;
use crate::job::{BatchInterval, Pipeline};
use crate::reading::time;
use std::ops::Range;

impl JobSettings {
    /// Returns the number of steps of a model copy whose gradients are accumulated before an update.
    pub(super) fn accumulation(&self) -> u64 {
        self.accumulation.get().map_or(1, |steps| steps.0)
    }

    /// Returns the nodes of the first copy of the job.
    pub(in crate::job) fn nodes_of(&self, around: Around<'_>) -> Range<u32> {
        let nodes = self.nodes.get().map_or(1, |nodes| nodes.small());
        around.first_node..around.first_node.saturating_add(nodes)
    }

    pub(super) fn hand_off(&self, check: Check<'_>) -> f64 {
        let queue = check.profile.and_then(|profile| profile.queue.as_ref());
        let measured = || queue.and_then(|fit| fit.value("per_item")).map_or(0.0, time);
        self.hand_off.get().map_or_else(measured, |given| given.0)
    }

    /// Returns `parallel.data.copies_per_node` and its document node, if it is set.
    pub(in crate::job) fn copies_at(&self) -> Option<(NodeId, &CopiesSettings)> {
        self.parallel.get()?.data.get()?.copies_per_node.given()
    }

    /// Returns `parallel.data.learners` and its document node, if it is set.
    pub(in crate::job) fn learners_at(&self) -> Option<(NodeId, &LearnersSettings)> {
        self.parallel.get()?.data.get()?.learners.given()
    }

    /// Returns the settings of `model`, if they are set.
    pub(in crate::job) fn model_settings(&self) -> Option<&ModelSettings> {
        self.model.get()
    }

    /// Returns the document node of `batch_interval`, if it is set.
    pub(in crate::job) fn interval_at(&self) -> Option<NodeId> {
        self.batch_interval.at
    }

    /// Returns the memory of the smallest GPU of the first copy's nodes [B].
    pub(super) fn gpu_memory(&self, around: Around<'_>) -> f64 {
        let nodes = self.nodes_of(around);
        around.cluster.map_or(f64::INFINITY, |cluster| cluster.weakest(nodes).node.gpu_memory)
    }

    /// Returns the number of pipeline stages that a model copy is split over; 1 without a pipeline.
    pub(in crate::job) fn stages(&self) -> u32 {
        let pipeline = self.parallel.get().and_then(|parallel| parallel.pipeline.get());
        pipeline.map_or(1, PipelineSettings::number)
    }

    pub(super) fn pipeline(&self, check: Check<'_>) -> Option<Pipeline> {
        let (at, pipeline) = self.parallel.get()?.pipeline.given()?;
        pipeline.resolve(check, at)
    }

    pub(super) fn interval(&self, check: Check<'_>) -> BatchInterval {
        let interval = self.batch_interval.given().and_then(|(at, i)| i.resolve(check, at));
        interval.unwrap_or(BatchInterval::Every(1.0))
    }
}
