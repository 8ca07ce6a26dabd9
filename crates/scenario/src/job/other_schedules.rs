//! The same job under other pipeline schedules, for advice.

use super::parallel::ParallelSettings;
use super::settings::{Around, JobSettings};
use super::{Job, Parallelism};
use crate::check::Check;
use crate::document::NodeId;
use crate::problem::Log;
use forebay_model::device_memory::Footprint;
use std::sync::Arc;

/// What changes in a job under another pipeline schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherSchedule {
    /// How a step is spread over GPUs.
    pub parallelism: Parallelism,
    /// Memory on the GPU of each pipeline stage.
    pub footprints: Vec<Footprint>,
}

/// A job under other pipeline schedules, as far as its file would be accepted with them. Comparison ignores them: they follow from
/// the job's other settings.
#[derive(Debug, Clone, Default)]
pub struct OtherSchedules(Arc<Vec<OtherSchedule>>);

impl PartialEq for OtherSchedules {
    fn eq(&self, _: &OtherSchedules) -> bool {
        true
    }
}

impl OtherSchedules {
    /// Returns the schedules.
    pub fn iter(&self) -> std::slice::Iter<'_, OtherSchedule> {
        self.0.iter()
    }
}

impl JobSettings {
    /// Returns the job of the table at document node `at` under other pipeline schedules, if `job` has one.
    pub(super) fn other_schedules(
        &self,
        (check, at): (Check<'_>, NodeId),
        around: Around<'_>,
        job: &Job,
    ) -> OtherSchedules {
        let others = job.parallelism.iter().flat_map(|of| of.schedule.others());
        let under = |schedule| {
            let mut settings = self.clone();
            settings
                .parallel
                .value
                .as_mut()
                .and_then(ParallelSettings::pipeline_mut)?
                .write(schedule);
            let log = Log::default();
            let other = settings.resolve_alone(Check { log: &log, ..check }, at, around)?;
            let parallelism = other.parallelism.filter(|_| log.is_empty())?;
            Some(OtherSchedule { parallelism, footprints: other.footprints })
        };
        // Without a pipeline there is no schedule to change, and `pipeline_mut` returns none.
        OtherSchedules(Arc::new(others.filter_map(under).collect()))
    }
}
