//! The batches of a device, and the host that takes batches ahead for it.

use std::collections::VecDeque;

use forebay_engine::Fingerprint;
use forebay_metrics::Segment;

use super::past_waits::PastWaits;

/// Number of steps on a batch after which each interval between batches is over, so that the next step needs a new batch.
const NEEDS_BATCH: u64 = u64::MAX / 2;

/// The batches of a device.
#[derive(Debug, Default)]
pub(crate) struct DeviceInput {
    /// Whether the device's batch occupies a buffer of its GPU; only set if the GPU's buffers are counted.
    holds_input: bool,
    /// Number of steps on the current batch so far.
    on_batch: u64,
    /// Number of samples that the current batch lacks.
    missing: u64,
    /// Batches taken for steps that a checkpoint begun now would not contain. Only kept if such steps can occur and the job may fail.
    ahead: Vec<Ahead>,
    /// The host that takes batches ahead for the device; `None` if batches are taken when their step begins.
    host: Option<Box<Host>>,
    /// Recent waits of the device for input. They explain the stalls of other devices that waited for this one.
    waits: PastWaits,
}

/// A batch taken for a step that a checkpoint begun now would not contain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    pub(crate) step: u64,
    /// Number of samples; `fresh` is the number of those that had not come before.
    pub(crate) samples: u64,
    pub(crate) fresh: u64,
}

impl DeviceInput {
    /// Returns the batches of a device whose batches `host` takes ahead, if there is one.
    pub(crate) fn new(host: Option<Host>) -> DeviceInput {
        DeviceInput { host: host.map(Box::new), ..DeviceInput::default() }
    }

    /// Records that the device's batch occupies a buffer of its GPU; returns whether it needs a new one, because the device has none
    /// from its last batch.
    pub(crate) fn hold_buffer(&mut self) -> bool {
        !std::mem::replace(&mut self.holds_input, true)
    }

    /// Records that the device's batch occupies no buffer any more; returns whether it did.
    pub(crate) fn leave_buffer(&mut self) -> bool {
        std::mem::replace(&mut self.holds_input, false)
    }

    /// Replaces the current batch by one that lacks `missing` samples.
    pub(crate) fn take(&mut self, missing: u64) {
        (self.missing, self.on_batch) = (missing, 0);
    }

    /// Counts a step on the current batch, which several steps may train on.
    pub(crate) fn count_step(&mut self) {
        self.on_batch += 1;
    }

    /// Returns the number of steps on the current batch so far.
    pub(crate) fn on_batch(&self) -> u64 {
        self.on_batch
    }

    /// Returns the number of samples that the current batch lacks.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// Sets how many samples the current batch lacks, which the device keeps after a restart.
    pub(crate) fn restore(&mut self, missing: u64) {
        self.missing = missing;
    }

    /// Records a batch taken ahead; a checkpoint begun now would contain the steps before `saved`.
    pub(crate) fn note_ahead(&mut self, saved: u64, batch: Ahead) {
        self.forget_saved(saved);
        self.ahead.push(batch);
    }

    /// Forgets the batches of the steps before `saved`, which a checkpoint contains.
    pub(crate) fn forget_saved(&mut self, saved: u64) {
        self.ahead.retain(|of| of.step >= saved);
    }

    /// Returns the batches taken for steps that a checkpoint begun now would not contain.
    pub(crate) fn ahead(&self) -> &[Ahead] {
        &self.ahead
    }

    /// Records a wait of the device for input in `step`.
    pub(crate) fn note_wait(&mut self, step: u64, wait: Segment) {
        self.waits.add(step, wait);
    }

    /// Forgets the waits that explain no stall any more; those that explain one satisfy `explains`.
    pub(crate) fn forget_waits(&mut self, explains: impl Fn(u64, &Segment) -> bool) {
        self.waits.retain(explains);
    }

    /// Returns the recent waits of the device for input, each with its step, in order of time.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (u64, Segment)> {
        self.waits.iter()
    }

    /// Forgets the current batch, batches taken ahead and waits, because the device's job copy has failed.
    pub(super) fn abort(&mut self) {
        self.holds_input = false;
        (self.missing, self.on_batch) = (0, NEEDS_BATCH);
        self.ahead.clear();
        self.waits = PastWaits::default();
    }

    /// Adds the batches of a device without a host to a fingerprint. Waits that are over explain no stall that is still to begin.
    pub(super) fn describe(&self, to: &mut Fingerprint) {
        to.add_all([self.holds_input.into(), self.on_batch, self.missing, self.ahead.len() as u64]);
    }

    /// Returns whether a host takes batches ahead for the device.
    pub(crate) fn has_host(&self) -> bool {
        self.host.is_some()
    }

    /// Returns the host that takes batches ahead for the device.
    pub(crate) fn host(&mut self) -> Option<&mut Host> {
        self.host.as_deref_mut()
    }

    /// Lets the host, if there is one, prepare `step` next, with a new batch.
    pub(super) fn restart_host(&mut self, step: u64) {
        self.host.iter_mut().for_each(|host| host.restart(step));
    }
}

/// The host of a device, and the batches that it has taken for steps that the device has not begun.
///
/// A host submits a GPU's next steps while the GPU still computes, so it asks the loader for their batches before the GPU needs
/// them, and copies these batches to the GPU meanwhile, one after the other, if the trainer copies batches. What `launch` does for a
/// step is not done ahead, and buffers of a GPU are counted only for batches of steps that have begun.
#[derive(Debug)]
pub(crate) struct Host {
    /// Maximum number of steps that the host is ahead of the device's step in progress.
    ahead: u64,
    /// Number of the step that the host prepares next.
    step: u64,
    /// Number of steps before `step` on the last batch that was taken.
    on_batch: u64,
    /// Whether the host waits for a batch.
    waits: bool,
    taken: VecDeque<Taken>,
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
    fn restart(&mut self, step: u64) {
        *self = Host { step, on_batch: NEEDS_BATCH, ..Host::new(self.ahead) };
    }

    /// Ends the host's wait for a batch; returns whether it has waited.
    pub(crate) fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// Returns the number of the step that the host prepares next.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Returns the number of steps before [`step`](Host::step) on the last batch that was taken.
    pub(crate) fn on_batch(&self) -> u64 {
        self.on_batch
    }

    /// Returns whether the host may prepare another step while its device is at step `next`: it does not wait for a batch, and is not
    /// as many steps ahead as it may be. If it `stays`, it prepares only the step of its device.
    pub(crate) fn may_prepare(&self, next: u64, stays: bool) -> bool {
        let ahead = if stays { 0 } else { self.ahead };
        !self.waits && self.step <= next + ahead
    }

    /// Prepares the next step with the batch that was taken last.
    pub(crate) fn keep_batch(&mut self) {
        (self.step, self.on_batch) = (self.step + 1, self.on_batch + 1);
    }

    /// Begins to wait for a batch.
    pub(crate) fn begin_waiting(&mut self) {
        self.waits = true;
    }

    /// Adds a batch that lacks `missing` samples for the next step. It is `copied` if it is on the device.
    pub(crate) fn add_batch(&mut self, missing: u64, copied: bool) {
        self.taken.push_back(Taken { step: self.step, missing, copied });
        (self.step, self.on_batch, self.waits) = (self.step + 1, 1, false);
    }

    /// Returns the batch for `step`, which is the oldest one, if there is one.
    pub(crate) fn batch_of(&self, step: u64) -> Option<Taken> {
        self.taken.front().copied().filter(|taken| taken.step == step)
    }

    /// Hands the oldest batch over to the device.
    pub(crate) fn hand_over(&mut self) {
        self.taken.pop_front();
    }

    /// Returns whether a batch is being copied to the device.
    pub(crate) fn is_copying(&self) -> bool {
        self.taken.iter().any(|taken| !taken.copied)
    }

    /// Records that the batch that is being copied is on the device; returns the number of samples that the batch lacks that is to be
    /// copied next, if there is one.
    pub(crate) fn end_copy(&mut self) -> Option<u64> {
        let mut uncopied = self.taken.iter_mut().filter(|taken| !taken.copied);
        uncopied.next().into_iter().for_each(|taken| taken.copied = true);
        uncopied.next().map(|taken| taken.missing)
    }
}
