//! Lanes through which batches are copied to a GPU: each has pinned memory, a slot on the GPU and a stream for
//! copies.

use super::call::{Gpu, Line, Mark, Pinned};
use super::program::Slot;
use crate::probe::ProbeError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The lanes to a GPU: one for each batch that may be on its way to the GPU or wait there at the same time.
pub struct Lanes {
    lanes: Vec<Mutex<Lane>>,
    bytes: usize,
    /// The batch that every lane copies, in memory that is not pinned, as loaders produce batches.
    source: Vec<u8>,
    state: Mutex<State>,
    /// Notified when a lane becomes free.
    free: Condvar,
}

struct Lane {
    pinned: Pinned,
    place: Slot,
    line: Line,
}

#[derive(Default)]
struct State {
    /// Free lanes, each with a mark: once the GPU has reached the mark, no call reads the lane's last batch any
    /// more. The mark is `None` if the lane had no batch yet.
    free: VecDeque<(usize, Option<Mark>)>,
    full: VecDeque<Arrival>,
}

/// A batch on the GPU or on its way there.
pub(super) struct Arrival {
    pub(super) lane: usize,
    /// Mark at the end of the batch's copy.
    pub(super) arrived: Mark,
}

impl Lanes {
    /// Makes a lane for each of the slots `places`; the lanes' streams use the same block of memory as `line`.
    pub(super) fn new(
        gpu: &Gpu,
        line: &Line,
        places: &[Slot],
        bytes: usize,
    ) -> Result<Lanes, ProbeError> {
        let lane = |&place: &Slot| {
            Ok(Mutex::new(Lane { pinned: gpu.pinned(bytes)?, place, line: line.beside()? }))
        };
        let lanes = places.iter().map(lane).collect::<Result<Vec<_>, ProbeError>>()?;
        let free = (0..lanes.len()).map(|lane| (lane, None)).collect();
        let state = Mutex::new(State { free, full: VecDeque::new() });
        let source = (0..bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        Ok(Lanes { lanes, bytes, source, state, free: Condvar::new() })
    }

    /// Returns the size of a batch [B].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a batch to the GPU: this thread copies it to pinned memory, and the GPU copies it from there.
    /// Returns when the batch is on the GPU. If `over` is set while no lane is free, returns without a copy.
    ///
    /// # Errors
    /// Something fails on the GPU.
    pub fn copy(&self, over: &AtomicBool) -> Result<(), ProbeError> {
        let Some(lane) = self.next(over) else { return Ok(()) };
        let number = lane.0;
        let arrived = self.start(lane)?;
        arrived.wait()?;
        self.state().full.push_back(Arrival { lane: number, arrived });
        Ok(())
    }

    /// Starts to copy a batch to the GPU and returns without waiting for the end; does nothing if no lane is
    /// free.
    pub(super) fn send(&self) -> Result<(), ProbeError> {
        let Some(lane) = self.state().free.pop_front() else { return Ok(()) };
        let number = lane.0;
        let arrived = self.start(lane)?;
        self.state().full.push_back(Arrival { lane: number, arrived });
        Ok(())
    }

    /// Takes the oldest batch that is on the GPU or on its way there.
    pub(super) fn take(&self) -> Option<Arrival> {
        self.state().full.pop_front()
    }

    /// Frees a lane; its batch may be overwritten once the GPU has reached the mark `taken`.
    pub(super) fn give(&self, lane: usize, taken: Mark) {
        self.state().free.push_back((lane, Some(taken)));
        self.free.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free lane and takes it; returns `None` if `over` is set before a lane is free.
    fn next(&self, over: &AtomicBool) -> Option<(usize, Option<Mark>)> {
        const LOOK: Duration = Duration::from_millis(20);
        let mut state = self.state();
        loop {
            if let Some(lane) = state.free.pop_front() {
                return Some(lane);
            }
            if over.load(Ordering::Relaxed) {
                return None;
            }
            let waited = self.free.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Starts to copy a batch through a lane. The copy waits for the mark `taken`, because earlier calls may
    /// still read the lane's last batch until then. Returns the mark at the end of the copy.
    fn start(&self, (number, taken): (usize, Option<Mark>)) -> Result<Mark, ProbeError> {
        let mut lane = self.lanes[number].lock().unwrap_or_else(PoisonError::into_inner);
        lane.pinned.fill(&self.source)?;
        let Lane { pinned, place, line } = &*lane;
        if let Some(taken) = taken {
            line.after(&taken)?;
        }
        line.copy_pinned(*place, pinned, self.bytes)?;
        line.mark()
    }
}
