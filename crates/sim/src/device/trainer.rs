//! Trainers: their host-side work on their nodes' cores for a step, and steps that run on cores.
//!
//! Each GPU has a trainer. The trainers of the GPUs that split a stage work at the same time, each on the cores of its node,
//! and the stage waits for the last of them.

use forebay_engine::{Span, Time};
use forebay_model::random::Sampler;

use crate::env::Cores;
use crate::ids::{DeviceId, Ids, TrainerId};

/// The trainer of one GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trainer {
    pub(crate) device: DeviceId,
    /// Number of the trainer within the job copy.
    pub(crate) number: u32,
    /// How the trainer gets the cores of its node.
    pub(crate) cores: Cores,
}

/// The settings of the host-side work that each trainer of a job does for a step.
#[derive(Debug, Clone)]
pub(crate) struct LaunchRun {
    /// Core-seconds of each thread for a step [s].
    pub(crate) work: Sampler,
    pub(crate) threads: u32,
    /// Whether the device computes during the host-side work.
    pub(crate) overlap: bool,
}

/// The trainers of a device, and the work on cores that they are doing for a step.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Launching {
    pub(crate) trainers: Ids<TrainerId>,
    pub(crate) since: Time,
    /// Core-seconds of each thread of the trainer with the most work [s].
    pub(crate) work: f64,
    /// Number of trainers that are still working; where cores are given first come, first served, the number of their threads.
    pub(crate) open: u32,
    /// The threads of the device's step, if the device trains on cores and has no host-side work.
    pub(crate) threads: CoreThreads,
}

impl Launching {
    /// Returns trainers that do nothing yet.
    pub(crate) fn of(trainers: Ids<TrainerId>) -> Launching {
        Launching { trainers, ..Launching::default() }
    }

    /// Forgets the work in progress, which has been cancelled.
    pub(crate) fn stop(&mut self) {
        *self = Launching::of(self.trainers);
    }
}

/// How a model copy uses the node's cores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuThreads {
    pub(crate) number: u32,
    /// Speed of a core relative to an undisturbed core, when these threads have the node to themselves. This was the case when
    /// the step time was measured.
    pub(crate) speed: f64,
}

/// The threads of a device's step that have not computed to the end, on cores that serve one thread after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CoreThreads {
    pub(crate) open: u32,
    /// Number of threads that got their cores when the step began, and end together.
    pub(crate) together: u32,
    /// Time that each thread takes on an undisturbed core.
    pub(crate) span: Span,
}

impl CoreThreads {
    /// Ends the threads that end next; returns their number.
    pub(crate) fn end(&mut self) -> u32 {
        let ended = std::mem::take(&mut self.together).max(1);
        self.open -= ended;
        ended
    }
}
