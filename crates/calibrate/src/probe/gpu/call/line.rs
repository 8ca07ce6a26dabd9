//! A stream over a block of memory: copies, marks, waits.

use super::device::Gpu;
use super::failed;
use crate::probe::ProbeError;
use crate::probe::gpu::content::lay;
use crate::probe::gpu::program::Slot;
use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, HostSlice, PinnedHostSlice, result,
};
use std::sync::Arc;

/// A CUDA stream with a block of GPU memory, which it may share with other streams.
pub(in crate::probe::gpu) struct Line {
    // Fields are dropped in this order. The last `Line` that uses a block frees it, on the stream that
    // allocated it.
    block: Arc<CudaSlice<u8>>,
    pub(super) stream: Arc<CudaStream>,
    pub(super) gpu: Gpu,
}

impl Line {
    /// Makes a stream with a block of `bytes` of GPU memory, all zero.
    pub(in crate::probe::gpu) fn new(gpu: &Gpu, bytes: usize) -> Result<Line, ProbeError> {
        let (free, _) = gpu.memory()?;
        if bytes > free {
            let (needed, free) = (bytes as f64 / 1e9, free as f64 / 1e9);
            return Err(ProbeError::Machine(format!(
                "the step needs {needed:.2} GB of the GPU's memory, of which {free:.2} GB are free: \
                 lower the batch"
            )));
        }
        gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        let stream = gpu.context.new_stream().map_err(failed("make a stream"))?;
        let block =
            stream.alloc_zeros::<u8>(bytes.max(1)).map_err(failed("get memory of the GPU"))?;
        let line = Line { block: Arc::new(block), stream, gpu: gpu.clone() };
        // Other streams may use the block from now on, so it must be zero by now.
        line.wait()?;
        Ok(line)
    }

    /// Makes another stream that uses the same block.
    pub(in crate::probe::gpu) fn beside(&self) -> Result<Line, ProbeError> {
        let stream = self.gpu.context.new_stream().map_err(failed("make a stream"))?;
        Ok(Line { block: Arc::clone(&self.block), stream, gpu: self.gpu.clone() })
    }

    /// Returns the GPU address of the block.
    pub(super) fn base(&self) -> u64 {
        self.block.device_ptr(&self.stream).0
    }

    /// Returns the GPU address of the first `bytes` of a slot; panics if they do not lie inside the block.
    fn at(&self, slot: Slot, bytes: usize) -> u64 {
        let end = slot.offset() + bytes;
        assert!(bytes <= slot.bytes() && end <= self.block.len(), "the place is of this block");
        self.base() + slot.offset() as u64
    }

    /// Copies `bytes` to a slot; the caller may reuse `bytes` afterwards.
    pub(in crate::probe::gpu) fn write(&self, to: Slot, bytes: &[u8]) -> Result<(), ProbeError> {
        self.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        // SAFETY: the slot is at least as long; memory that is not pinned has been read when the call returns.
        unsafe {
            result::memcpy_htod_async(self.at(to, bytes.len()), bytes, self.stream.cu_stream())
        }
        .map_err(failed("copy to the GPU"))
    }

    /// Returns the first `bytes` of a slot, after all earlier work of the stream.
    pub(in crate::probe::gpu) fn read(
        &self,
        from: Slot,
        bytes: usize,
    ) -> Result<Vec<u8>, ProbeError> {
        self.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        let mut read = vec![0; bytes];
        // SAFETY: the slot is at least as long, and `read` is not touched until the stream has been waited for.
        unsafe {
            result::memcpy_dtoh_async(&mut read, self.at(from, bytes), self.stream.cu_stream())
        }
        .map_err(failed("copy from the GPU"))?;
        self.wait()?;
        Ok(read)
    }

    /// Starts to copy `bytes` of `from`, the first of which is at position `at`, to a slot and returns at once.
    pub(in crate::probe::gpu) fn copy_pinned(
        &self,
        to: Slot,
        (from, at): (&Pinned, usize),
        bytes: usize,
    ) -> Result<(), ProbeError> {
        self.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        // SAFETY: the slot is at least as long; whoever fills or drops `from` waits for the event that `_done`
        // records.
        unsafe {
            let (all, _done) = from.0.stream_synced_slice(&self.stream);
            let place = self.at(to, bytes);
            result::memcpy_htod_async(place, &all[at..at + bytes], self.stream.cu_stream())
        }
        .map_err(failed("copy to the GPU"))
    }

    /// Puts a mark at the current end of the stream and returns it.
    pub(in crate::probe::gpu) fn mark(&self) -> Result<Mark, ProbeError> {
        // A thread that waits for this event sleeps instead of spinning; the event also records its time.
        let event = self.stream.record_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC));
        event.map(|event| Mark(Arc::new(event))).map_err(failed("mark a time"))
    }

    /// Makes all later work of this stream start after `mark`, which may be on any stream.
    pub(in crate::probe::gpu) fn after(&self, mark: &Mark) -> Result<(), ProbeError> {
        self.stream.wait(&mark.0).map_err(failed("order streams"))
    }

    /// Waits until the GPU has finished all work of the stream.
    pub(in crate::probe::gpu) fn wait(&self) -> Result<(), ProbeError> {
        self.stream.synchronize().map_err(failed("wait for the GPU"))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Nothing may be freed while the GPU uses it; if the wait fails, the GPU uses nothing any more.
        self.wait().ok();
    }
}

/// A point in a stream, with the time at which the GPU reached it (a CUDA event).
#[derive(Debug, Clone)]
pub(in crate::probe::gpu) struct Mark(Arc<CudaEvent>);

impl Mark {
    /// Waits until the GPU has reached the mark.
    pub(in crate::probe::gpu) fn wait(&self) -> Result<(), ProbeError> {
        self.0.synchronize().map_err(failed("wait for the GPU"))
    }

    /// Returns whether the GPU has reached the mark.
    pub(in crate::probe::gpu) fn is_passed(&self) -> Result<bool, ProbeError> {
        self.0.try_is_complete().map_err(failed("ask the GPU"))
    }

    /// Returns the time from an earlier mark to this one by the GPU's clock [s]; the GPU must have reached
    /// both.
    pub(in crate::probe::gpu) fn since(&self, earlier: &Mark) -> Result<f64, ProbeError> {
        let ms = earlier.0.elapsed_ms(&self.0).map_err(failed("read a time"))?;
        Ok(f64::from(ms) * 1e-3)
    }
}

/// Pinned host memory, which the GPU reads directly.
#[derive(Debug)]
pub(in crate::probe::gpu) struct Pinned(PinnedHostSlice<u8>);

impl Pinned {
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Pinned, ProbeError> {
        // SAFETY: any bytes are valid. The flags leave out write-combining, which makes reads by the host slow.
        unsafe { context.alloc_pinned_with_flags(bytes.max(1), 0) }
            .map(Pinned)
            .map_err(failed("get memory that the GPU reads itself"))
    }

    /// Returns the size [B].
    pub(in crate::probe::gpu) fn len(&self) -> usize {
        self.0.len()
    }

    /// Fills this memory with `content`, cut or repeated to its size, after waiting for the end of copies out of it.
    pub(in crate::probe::gpu) fn fill(
        &mut self,
        content: &[impl AsRef<[u8]>],
    ) -> Result<(), ProbeError> {
        let to = self.0.as_mut_slice().map_err(failed("fill memory that the GPU reads itself"))?;
        lay(content, to);
        Ok(())
    }
}

/// Measures times between points of a stream by the GPU's clock.
#[derive(Default)]
pub(in crate::probe::gpu) struct Stopwatch {
    marks: Vec<Mark>,
}

impl Stopwatch {
    /// Puts a mark at the current end of a stream.
    pub(in crate::probe::gpu) fn mark(&mut self, of: &Line) -> Result<(), ProbeError> {
        self.marks.push(of.mark()?);
        Ok(())
    }

    /// Returns the times between consecutive marks [s]; the GPU must have reached all of them.
    pub(in crate::probe::gpu) fn laps(&self) -> Result<Vec<f64>, ProbeError> {
        self.marks.windows(2).map(|pair| pair[1].since(&pair[0])).collect()
    }
}
