//! Options of a run, beside its scenario.

use std::sync::atomic::AtomicBool;

use super::watch::Progress;
use crate::communication::IdleCollectives;

/// Number of look-ups in caches before a run begins that count as one event, because they take about as long.
pub const LOOK_UPS_IN_EVENT: u64 = 4;

/// Options of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Whether to record a timeline.
    pub trace: bool,
    /// Whether to simulate every transfer of every collective, even on links that nothing else uses. If false, only the first
    /// collective of each kind on such links is simulated transfer by transfer, and later ones take the same time.
    pub every_transfer: bool,
    /// Results of collectives that earlier runs have simulated on links that nothing else uses, and to which this run adds its
    /// own. They only save time.
    pub collectives: Option<&'a IdleCollectives>,
    /// Number of epochs that the loaders of each job have read before the run begins, by index of the job; empty if none have.
    /// Caches hold what they keep of these epochs, and data that jobs copy before training have been copied. To fill the caches, the
    /// run looks up each unit that was read; [`LOOK_UPS_IN_EVENT`] look-ups count as one event. Not for jobs with failures, because
    /// a restart counts the samples that were read since the start of the run.
    pub epochs_before: &'a [f64],
    /// Object that receives the progress of the run from time to time.
    pub progress: Option<&'a Progress>,
    /// Flag that ends the run early when it becomes true; the outcome then holds everything that was complete by then.
    pub stop: Option<&'a AtomicBool>,
    /// Index of the job whose end ends the run, however far the other jobs have come; `None`: the run ends with its last job. A run with
    /// this option does not end because its results are known.
    pub until: Option<usize>,
    /// Whether to simulate the largest sample only where a sample of nodes stands for all: for comparisons of runs on the same nodes. The
    /// outcome then does not say how far it may be from that of all nodes.
    pub largest_sample_only: bool,
    /// Maximum number of [`Outcome::events`], after which the run ends early; the outcome then holds everything that was complete
    /// by then.
    pub most_events: Option<u64>,
}
