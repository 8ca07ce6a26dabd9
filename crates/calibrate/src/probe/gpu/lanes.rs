//! Lanes by which batches come to a GPU: pinned memory, a place on the GPU, a stream that copies.

use super::call::{Gpu, Line, Mark, Pinned};
use super::program::Slot;
use crate::probe::ProbeError;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As many batches as may be on their way or wait on the GPU at a time.
pub struct Lanes {
    lanes: Vec<Mutex<Lane>>,
    bytes: usize,
    /// A batch in memory that is not pinned, as loaders make them.
    source: Vec<u8>,
    state: Mutex<State>,
    /// Somebody has given a lane back.
    free: Condvar,
}

struct Lane {
    pinned: Pinned,
    place: Slot,
    line: Line,
}

#[derive(Default)]
struct State {
    /// Lanes, and when what was in them had been taken.
    free: VecDeque<(usize, Option<Mark>)>,
    full: VecDeque<Arrival>,
}

/// A batch on the GPU.
pub(super) struct Arrival {
    pub(super) lane: usize,
    /// When all of it was there.
    pub(super) arrived: Mark,
}

impl Lanes {
    /// Lanes to these places, with streams over the block of `line`.
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

    /// Bytes of a batch.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a batch to the GPU: into pinned memory by this thread, from there by the GPU; ends when it is
    /// there, or early once `over` is raised.
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

    /// The same without waiting until it is there; nothing where all lanes are full.
    pub(super) fn send(&self) -> Result<(), ProbeError> {
        let Some(lane) = self.state().free.pop_front() else { return Ok(()) };
        let number = lane.0;
        let arrived = self.start(lane)?;
        self.state().full.push_back(Arrival { lane: number, arrived });
        Ok(())
    }

    /// The batch that arrived first.
    pub(super) fn take(&self) -> Option<Arrival> {
        self.state().full.pop_front()
    }

    /// Nobody needs the batch of a lane after a mark.
    pub(super) fn give(&self, lane: usize, taken: Mark) {
        self.state().free.push_back((lane, Some(taken)));
        self.free.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free lane.
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

    /// Begins the copy of a batch behind what was in its lane.
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
