//! A stream over a block of memory: copies, marks, waits.

use super::device::Gpu;
use super::failed;
use crate::probe::ProbeError;
use crate::probe::gpu::program::Slot;
use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DevicePtr, HostSlice, PinnedHostSlice, result,
};
use std::sync::Arc;

/// A stream over a block of memory, which it may share with others.
pub(in crate::probe::gpu) struct Line {
    // Dropped in this order: who is last frees the block, by its own first stream.
    block: Arc<CudaSlice<u8>>,
    pub(super) stream: Arc<CudaStream>,
    pub(super) gpu: Gpu,
}

impl Line {
    /// A stream with a block of `bytes`, all zero.
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
        // Other streams may use it from now on.
        line.wait()?;
        Ok(line)
    }

    /// Another stream over the same block.
    pub(in crate::probe::gpu) fn beside(&self) -> Result<Line, ProbeError> {
        let stream = self.gpu.context.new_stream().map_err(failed("make a stream"))?;
        Ok(Line { block: Arc::clone(&self.block), stream, gpu: self.gpu.clone() })
    }

    /// Address of the block.
    pub(super) fn base(&self) -> u64 {
        self.block.device_ptr(&self.stream).0
    }

    /// Address of the first `bytes` of a place.
    fn at(&self, slot: Slot, bytes: usize) -> u64 {
        let end = slot.offset() + bytes;
        assert!(bytes <= slot.bytes() && end <= self.block.len(), "the place is of this block");
        self.base() + slot.offset() as u64
    }

    /// Copies to a place; `bytes` may be used again afterwards.
    pub(in crate::probe::gpu) fn write(&self, to: Slot, bytes: &[u8]) -> Result<(), ProbeError> {
        self.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        // SAFETY: the place is as long; what is not pinned has been read when the call returns.
        unsafe {
            result::memcpy_htod_async(self.at(to, bytes.len()), bytes, self.stream.cu_stream())
        }
        .map_err(failed("copy to the GPU"))
    }

    /// Copies from a place.
    pub(in crate::probe::gpu) fn read(
        &self,
        from: Slot,
        bytes: usize,
    ) -> Result<Vec<u8>, ProbeError> {
        self.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        let mut read = vec![0; bytes];
        // SAFETY: the place is as long, and nobody has `read` before the stream has come here.
        unsafe {
            result::memcpy_dtoh_async(&mut read, self.at(from, bytes), self.stream.cu_stream())
        }
        .map_err(failed("copy from the GPU"))?;
        self.wait()?;
        Ok(read)
    }

    /// Begins to copy the first `bytes` to a place.
    pub(in crate::probe::gpu) fn copy_pinned(
        &self,
        to: Slot,
        from: &Pinned,
        bytes: usize,
    ) -> Result<(), ProbeError> {
        self.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        // SAFETY: the place is as long; who fills `from` or drops it waits for the mark that `_done` leaves.
        unsafe {
            let (all, _done) = from.0.stream_synced_slice(&self.stream);
            let place = self.at(to, bytes);
            result::memcpy_htod_async(place, &all[..bytes], self.stream.cu_stream())
        }
        .map_err(failed("copy to the GPU"))
    }

    /// Where the stream is.
    pub(in crate::probe::gpu) fn mark(&self) -> Result<Mark, ProbeError> {
        // Who waits for it sleeps; it tells times.
        let event = self.stream.record_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC));
        event.map(|event| Mark(Arc::new(event))).map_err(failed("mark a time"))
    }

    /// What comes next begins after a mark, of whatever stream.
    pub(in crate::probe::gpu) fn after(&self, mark: &Mark) -> Result<(), ProbeError> {
        self.stream.wait(&mark.0).map_err(failed("order streams"))
    }

    /// Waits until all is done.
    pub(in crate::probe::gpu) fn wait(&self) -> Result<(), ProbeError> {
        self.stream.synchronize().map_err(failed("wait for the GPU"))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Nothing may be freed while it is used; an error of the wait says that nothing is used.
        self.wait().ok();
    }
}

/// A place in a stream, and when the GPU came to it.
#[derive(Debug, Clone)]
pub(in crate::probe::gpu) struct Mark(Arc<CudaEvent>);

impl Mark {
    /// Waits until the GPU has come to it.
    pub(in crate::probe::gpu) fn wait(&self) -> Result<(), ProbeError> {
        self.0.synchronize().map_err(failed("wait for the GPU"))
    }

    /// Whether the GPU has come to it.
    pub(in crate::probe::gpu) fn is_passed(&self) -> Result<bool, ProbeError> {
        self.0.try_is_complete().map_err(failed("ask the GPU"))
    }

    /// Time from an earlier mark to this one, by the GPU's clock, once it has come to both [s].
    pub(in crate::probe::gpu) fn since(&self, earlier: &Mark) -> Result<f64, ProbeError> {
        let ms = earlier.0.elapsed_ms(&self.0).map_err(failed("read a time"))?;
        Ok(f64::from(ms) * 1e-3)
    }
}

/// Memory of the host that the GPU reads itself.
#[derive(Debug)]
pub(in crate::probe::gpu) struct Pinned(PinnedHostSlice<u8>);

impl Pinned {
    pub(super) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Pinned, ProbeError> {
        // SAFETY: any bytes are bytes. Without the flag that makes reading by the host slow.
        unsafe { context.alloc_pinned_with_flags(bytes.max(1), 0) }
            .map(Pinned)
            .map_err(failed("get memory that the GPU reads itself"))
    }

    /// Fills its beginning, after copies out of it have ended.
    pub(in crate::probe::gpu) fn fill(&mut self, from: &[u8]) -> Result<(), ProbeError> {
        let to = self.0.as_mut_slice().map_err(failed("fill memory that the GPU reads itself"))?;
        to[..from.len()].copy_from_slice(from);
        Ok(())
    }
}

/// Times of a stream, by its own clock.
#[derive(Default)]
pub(in crate::probe::gpu) struct Stopwatch {
    marks: Vec<Mark>,
}

impl Stopwatch {
    /// Marks where the stream is.
    pub(in crate::probe::gpu) fn mark(&mut self, of: &Line) -> Result<(), ProbeError> {
        self.marks.push(of.mark()?);
        Ok(())
    }

    /// Times between marks, after all were passed [s].
    pub(in crate::probe::gpu) fn laps(&self) -> Result<Vec<f64>, ProbeError> {
        self.marks.windows(2).map(|pair| pair[1].since(&pair[0])).collect()
    }
}
