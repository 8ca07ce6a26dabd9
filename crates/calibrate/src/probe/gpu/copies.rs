//! Times copies from the host to a GPU.

use super::call::{Gpu, Line, Pinned};
use super::program::{Memory, Slot};
use super::{Board, Copied, Copies, Lanes};
use crate::probe::fresh::{Batches, Decoding};
use crate::probe::{HostMemory, ProbeError};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Size of the memory that copies read, one part after the other [B]. It is larger than a processor's caches, because the batches of a
/// loader are no longer in them when they are copied.
const BEYOND_CACHES: usize = 512 << 20;
/// Largest number of lanes, as in live runs.
const MOST_LANES: usize = 64;

/// Host memory from which copies take their bytes, kept between trials because getting it takes longer than a trial.
#[derive(Default)]
pub(super) struct Sources {
    plain: Vec<u8>,
    pinned: Option<Pinned>,
    /// The lanes of staged copies, by the size of a copy.
    lanes: BTreeMap<usize, Lanes>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} bytes, lanes for {} sizes", self.plain.len(), self.lanes.len())
    }
}

/// Times copies, alone or beside threads that decode.
pub(super) fn time(
    board: &Board,
    of: Copies<'_>,
    decoding: Option<&Decoding>,
) -> Result<Copied, ProbeError> {
    let mut places = Memory::default();
    let slot = places.take(of.bytes);
    let line = Line::new(&board.gpu, places.bytes())?;
    let mut sources = board.sources.borrow_mut();
    sources.prepare(&board.gpu, of)?;
    let run = |batches: Option<&mut Batches<'_>>| match of.memory {
        HostMemory::Pinned => sources.pinned(&line, slot, of, batches),
        HostMemory::Pageable | HostMemory::Staged => sources.awaited(&line, slot, of, batches),
    };
    match decoding {
        Some(decoding) => decoding.beside(of.bytes, |batches| run(Some(batches)))?,
        None => run(None),
    }
}

impl Sources {
    /// Gets the memory that copies need.
    fn prepare(&mut self, gpu: &Gpu, of: Copies<'_>) -> Result<(), ProbeError> {
        let reach = BEYOND_CACHES.max(of.bytes);
        if self.plain.len() < reach {
            self.plain.resize(reach, 1);
        }
        if of.memory == HostMemory::Pinned && self.pinned.as_ref().is_none_or(|of| of.len() < reach)
        {
            let mut pinned = gpu.pinned(reach)?;
            pinned.fill(&[&self.plain[..reach]])?;
            self.pinned = Some(pinned);
        }
        if of.memory == HostMemory::Staged && !self.lanes.contains_key(&of.bytes) {
            let mut memory = Memory::default();
            let count = (reach / of.bytes.max(1)).clamp(2, MOST_LANES);
            let places: Vec<Slot> = (0..count).map(|_| memory.keep(of.bytes)).collect();
            let line = Line::new(gpu, memory.bytes())?;
            self.lanes.insert(of.bytes, Lanes::new(gpu, &line, &places, of.bytes)?);
        }
        Ok(())
    }

    /// Times copies from pinned memory, of which the next starts when the one before has ended. Decoded batches are dropped.
    fn pinned(
        &self,
        line: &Line,
        slot: Slot,
        of: Copies<'_>,
        mut batches: Option<&mut Batches<'_>>,
    ) -> Result<Copied, ProbeError> {
        let Copies { bytes, times, within, .. } = of;
        let Some(pinned) = &self.pinned else { return Ok(Copied::default()) };
        let parts = (pinned.len() / bytes.max(1)).max(1) as u64;
        let at = |turn: u64| (turn % parts) as usize * bytes;
        line.copy_pinned(slot, (pinned, at(0)), bytes)?;
        line.wait()?;
        let (start, mut done) = (Instant::now(), 0);
        while done < times && (done == 0 || start.elapsed().as_secs_f64() < within) {
            done += 1;
            line.copy_pinned(slot, (pinned, at(done)), bytes)?;
            if let Some(batches) = &mut batches {
                batches.drop_decoded();
            }
        }
        line.wait()?;
        Ok(Copied { times: done, seconds: start.elapsed().as_secs_f64(), ..Copied::default() })
    }

    /// Times copies from ordinary memory, each of which begins when the one before has arrived. They copy the batches that threads
    /// have decoded, or, if no threads decode, one part of the memory after the other.
    fn awaited(
        &self,
        line: &Line,
        slot: Slot,
        of: Copies<'_>,
        mut batches: Option<&mut Batches<'_>>,
    ) -> Result<Copied, ProbeError> {
        let Copies { bytes, times, within, .. } = of;
        let mut parts = self.plain.chunks_exact(bytes.max(1)).cycle();
        let one = |content: &[u8]| -> Result<f64, ProbeError> {
            let start = Instant::now();
            match self.lanes.get(&bytes).filter(|_| of.memory == HostMemory::Staged) {
                Some(lanes) => lanes.copy_through(content)?,
                None => {
                    line.write(slot, content)?;
                    line.wait()?;
                }
            }
            Ok(start.elapsed().as_secs_f64())
        };
        let mut next = || match &mut batches {
            Some(batches) => batches.next(one)?,
            None => one(parts.next().unwrap_or_default()),
        };
        // The first copy is not timed.
        next()?;
        let (start, mut copied) = (Instant::now(), Copied::default());
        while copied.times < times && (copied.times == 0 || start.elapsed().as_secs_f64() < within)
        {
            copied.seconds += next()?;
            copied.times += 1;
        }
        Ok(copied)
    }
}

impl Lanes {
    /// Copies a batch to the GPU as a live run does, and frees its lane at once.
    fn copy_through(&self, content: &[u8]) -> Result<(), ProbeError> {
        self.copy(&[content], &AtomicBool::new(false))?;
        if let Some(arrival) = self.take() {
            self.give(arrival.lane, arrival.arrived);
        }
        Ok(())
    }
}
