//! Hosts that take batches ahead. A host submits a GPU's next steps while the GPU still computes, so it asks the loader for their
//! batches before the GPU needs them, and copies these batches to the GPU meanwhile, one after the other, if the trainer copies
//! batches. What `launch` does for a step is not done ahead, and buffers of a GPU are counted only for batches of steps that have
//! begun.

use std::collections::VecDeque;

/// The host of a device, and the batches that it has taken for steps that the device has not begun.
#[derive(Debug)]
pub(crate) struct Host {
    /// Maximum number of steps that the host is ahead of the device's step in progress.
    pub(crate) ahead: u64,
    /// Number of the step that the host prepares next.
    pub(crate) step: u64,
    /// Number of steps before `step` on the last batch that was taken.
    pub(crate) on_batch: u64,
    /// Whether the host waits for a batch.
    pub(crate) waits: bool,
    pub(crate) taken: VecDeque<Taken>,
}

/// A batch that a host has taken for a step that has not begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) step: u64,
    /// Number of samples that the batch lacks.
    pub(crate) missing: u64,
    /// Whether the batch is on the device; true at once if the trainer copies no batches.
    pub(crate) copied: bool,
}

impl Host {
    /// Returns a host that is up to `ahead` steps ahead of its device.
    pub(crate) fn new(ahead: u64) -> Host {
        Host { ahead, step: 0, on_batch: 0, waits: false, taken: VecDeque::new() }
    }

    /// Forgets all batches; the device's next step is `step`, which needs a new batch.
    pub(crate) fn restart(&mut self, step: u64) {
        *self = Host { step, on_batch: u64::MAX / 2, ..Host::new(self.ahead) };
    }

    /// Ends the host's wait for a batch; returns whether it has waited.
    pub(crate) fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// Returns the batch for `step`, which is the oldest one, if there is one.
    pub(crate) fn batch_of(&self, step: u64) -> Option<Taken> {
        self.taken.front().copied().filter(|taken| taken.step == step)
    }

    /// Returns the oldest batch that is not on the device, if there is one.
    pub(crate) fn uncopied(&mut self) -> Option<&mut Taken> {
        self.taken.iter_mut().find(|taken| !taken.copied)
    }
}
