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
            let mut pinned = gpu.pinned(bytes)?;
            pinned.fill(&[[0]])?;
            Ok(Mutex::new(Lane { pinned, place, line: line.beside()? }))
        };
        let lanes = places.iter().map(lane).collect::<Result<Vec<_>, ProbeError>>()?;
        let free = (0..lanes.len()).map(|lane| (lane, None)).collect();
        let state = Mutex::new(State { free, full: VecDeque::new() });
        Ok(Lanes { lanes, bytes, state, free: Condvar::new() })
    }

    /// Returns the size of a batch [B].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a batch to the GPU: this thread copies `content` to pinned memory, and the GPU copies it from there.
    /// Returns when the batch is on the GPU. If `over` is set while no lane is free, returns without a copy.
    ///
    /// Of a `content` that is longer than a batch, only the beginning is copied; a shorter one is repeated up to
    /// the size of a batch. Without content, the lane copies its last batch again (at first, zeros).
    ///
    /// # Errors
    /// If something fails on the GPU.
    pub fn copy<T: AsRef<[u8]>>(&self, content: &[T], over: &AtomicBool) -> Result<(), ProbeError> {
        let Some(lane) = self.next(over) else { return Ok(()) };
        let number = lane.0;
        let arrived = self.start(lane, content)?;
        arrived.wait()?;
        self.state().full.push_back(Arrival { lane: number, arrived });
        Ok(())
    }

    /// Starts to copy a batch to the GPU, as [`Lanes::copy`], and returns without waiting for the end; does nothing
    /// if no lane is free.
    pub(super) fn send<T: AsRef<[u8]>>(&self, content: &[T]) -> Result<(), ProbeError> {
        let Some(lane) = self.state().free.pop_front() else { return Ok(()) };
        let number = lane.0;
        let arrived = self.start(lane, content)?;
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

    /// Lets the batch of a free lane be taken again, without a copy; does nothing if no lane with a batch is free.
    pub(super) fn repeat(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let again = state.free.pop_front_if(|(_, taken)| taken.is_some());
        state.full.extend(again.and_then(|(lane, taken)| Some(Arrival { lane, arrived: taken? })));
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

    /// Starts to copy `content` through a lane. The copy waits for the mark `taken`, because earlier calls may
    /// still read the lane's last batch until then. Returns the mark at the end of the copy.
    fn start<T: AsRef<[u8]>>(
        &self,
        (number, taken): (usize, Option<Mark>),
        content: &[T],
    ) -> Result<Mark, ProbeError> {
        let mut lane = self.lanes[number].lock().unwrap_or_else(PoisonError::into_inner);
        lane.pinned.fill(content)?;
        let Lane { pinned, place, line } = &*lane;
        if let Some(taken) = taken {
            line.after(&taken)?;
        }
        line.copy_pinned(*place, (pinned, 0), self.bytes)?;
        line.mark()
    }

    /// Returns the bytes of a batch that has arrived, as they lie on the GPU.
    #[cfg(test)]
    pub(super) fn read(&self, arrival: &Arrival) -> Result<Vec<u8>, ProbeError> {
        let lane = self.lanes[arrival.lane].lock().unwrap_or_else(PoisonError::into_inner);
        lane.line.after(&arrival.arrived)?;
        lane.line.read(lane.place, self.bytes)
    }
}
