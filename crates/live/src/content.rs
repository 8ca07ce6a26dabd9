//! The path of batches to a real GPU: buffers for the bytes of samples, and where the bytes are copied to.

use forebay_calibrate::probe::ProbeError;
use forebay_calibrate::probe::gpu::Lanes;
use forebay_live_queue::Buffer;
use forebay_scenario::{Operation, Stage, StageGraph};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// What batches are copied to.
pub(super) trait Target: Send + Sync {
    /// Returns the size of a batch [B].
    fn bytes(&self) -> usize;

    /// Copies a batch; returns when it has arrived, or when `over` is set.
    fn copy(&self, content: &[Buffer], over: &AtomicBool) -> Result<(), ProbeError>;
}

impl Target for Lanes {
    fn bytes(&self) -> usize {
        Lanes::bytes(self)
    }

    fn copy(&self, content: &[Buffer], over: &AtomicBool) -> Result<(), ProbeError> {
        Lanes::copy(self, content, over)
    }
}

/// Buffers that are not in use. Memory of a size of many pages is expensive when it is new.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<Buffer>>);

impl Pool {
    /// Returns an empty buffer.
    fn take(&self) -> Buffer {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns the number of buffers that are not in use.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes back buffers whose bytes are not needed any more.
    pub(super) fn give(&self, buffers: impl IntoIterator<Item = Buffer>) {
        let empty = |mut buffer: Buffer| {
            buffer.clear();
            buffer
        };
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(buffers.into_iter().map(empty));
    }
}

/// The path of a loader's batches to a real GPU.
#[derive(Clone)]
pub(super) struct GpuPath {
    pub(super) target: Arc<dyn Target>,
    pub(super) pool: Arc<Pool>,
}

impl GpuPath {
    /// Returns the buffer for the bytes of an item's next sample; `None` if the item has the bytes of a whole batch already.
    pub(super) fn room<'c>(&self, content: &'c mut Vec<Buffer>) -> Option<&'c mut Buffer> {
        if content.is_empty() {
            content.push(self.pool.take());
        }
        let whole = self.target.bytes();
        content.last_mut().filter(|buffer| buffer.as_ref().len() < whole)
    }

    /// Appends the bytes of a sample to those of an item, as far as they fit into a batch.
    pub(super) fn append(&self, sample: &[u8], content: &mut Vec<Buffer>) {
        let Some(buffer) = self.room(content) else { return };
        let fits = sample.len().min(self.target.bytes() - buffer.as_ref().len());
        buffer.append(fits).copy_from_slice(&sample[..fits]);
    }
}

/// What the workers of a stage do with the bytes that are copied to a real GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Duty {
    /// What a worker adds to the bytes of its item.
    pub(super) adds: Adds,
    /// Whether no later stage copies the bytes, so that their buffers are free after this stage's copy.
    pub(super) ends: bool,
}

/// What a worker adds to the bytes of its item, for each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adds {
    Nothing,
    /// The sample as it was read.
    Stored,
    /// The decoded image.
    Decoded,
}

impl Duty {
    /// Returns the duty of stage number `index`; `images` says whether the samples are images.
    pub(super) fn new(graph: &StageGraph, index: usize, images: bool) -> Duty {
        let last = |does: fn(&Operation) -> bool| {
            let does = |stage: &Stage| stage.per_sample.iter().chain(&stage.per_item).any(does);
            graph.stages.iter().rposition(does)
        };
        let adds = match last(decodes).filter(|_| images) {
            Some(decoding) if decoding == index => Adds::Decoded,
            None if index == 0 => Adds::Stored,
            _ => Adds::Nothing,
        };
        Duty { adds, ends: last(Operation::copies) == Some(index) }
    }
}

/// Returns whether an operation decodes samples.
pub(super) fn decodes(operation: &Operation) -> bool {
    matches!(operation, Operation::Decode(_))
}
