//! A GPU that carries out calls.

use super::blas::Blas;
use super::dnn::Dnn;
use super::failed;
use crate::probe::ProbeError;
use crate::probe::gpu::kernels;
use crate::probe::gpu::numerics::Device;
use crate::probe::gpu::program::{Call, Launch, Precision, Slot, Word};
use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream, DevicePtr,
    LaunchConfig, PinnedHostSlice, PushKernelArg,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A GPU with our kernels.
#[derive(Debug, Clone)]
pub(in crate::probe::gpu) struct Gpu {
    context: Arc<CudaContext>,
    module: Arc<CudaModule>,
}

impl Gpu {
    /// Opens the GPU of a number; driver and libraries must have been found.
    pub(in crate::probe::gpu) fn open(number: usize) -> Result<Gpu, ProbeError> {
        let context = CudaContext::new(number).map_err(failed("open the GPU"))?;
        // SAFETY: nothing has been allocated. Each block of memory belongs to one stream, which orders all.
        unsafe { context.disable_event_tracking() };
        let (major, minor) =
            context.compute_capability().map_err(failed("ask the GPU what it can do"))?;
        let code = super::cubin(&kernels::source(), &format!("sm_{major}{minor}"))
            .map_err(ProbeError::Machine)?;
        let code = cudarc::nvrtc::Ptx::from_binary(code);
        let module = context.load_module(code).map_err(failed("load kernels"))?;
        Ok(Gpu { context, module })
    }

    /// Free memory and all of it [B].
    pub(in crate::probe::gpu) fn memory(&self) -> Result<(usize, usize), ProbeError> {
        // What was given back is free once the GPU has come to that.
        self.context.synchronize().map_err(failed("wait for the GPU"))?;
        self.context.mem_get_info().map_err(failed("ask the GPU for its memory"))
    }

    /// Memory of the host that the GPU reads itself, `bytes` long.
    pub(in crate::probe::gpu) fn pinned(
        &self,
        bytes: usize,
    ) -> Result<PinnedHostSlice<u8>, ProbeError> {
        // SAFETY: filled before it is read. Without the flag that makes reading by the host slow.
        unsafe { self.context.alloc_pinned_with_flags(bytes, 0) }
            .map_err(failed("get memory that the GPU reads itself"))
    }
}

/// A stream with a block of memory: carries out calls one after the other.
pub(in crate::probe::gpu) struct Cuda {
    // Dropped in this order.
    graph: Option<CudaGraph>,
    blas: Blas,
    dnn: Dnn,
    functions: BTreeMap<String, CudaFunction>,
    memory: CudaSlice<u8>,
    stream: Arc<CudaStream>,
    precision: Precision,
    gpu: Gpu,
}

impl Cuda {
    /// A stream with `bytes` of memory, all zero.
    pub(in crate::probe::gpu) fn new(
        gpu: &Gpu,
        bytes: usize,
        precision: Precision,
    ) -> Result<Cuda, ProbeError> {
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
        let memory =
            stream.alloc_zeros::<u8>(bytes.max(1)).map_err(failed("get memory of the GPU"))?;
        let (blas, dnn) = (Blas::new(&stream)?, Dnn::new(&stream, precision)?);
        let (graph, functions, gpu) = (None, BTreeMap::new(), gpu.clone());
        Ok(Cuda { graph, blas, dnn, functions, memory, stream, precision, gpu })
    }

    /// Address of a place.
    fn base(&self) -> u64 {
        self.memory.device_ptr(&self.stream).0
    }

    fn launch(&mut self, of: &Launch, base: u64) -> Result<(), ProbeError> {
        if !self.functions.contains_key(&of.kernel) {
            let function = self.gpu.module.load_function(&of.kernel);
            let function = function.map_err(failed("find a kernel"))?;
            self.functions.insert(of.kernel.clone(), function);
        }
        let Some(function) = self.functions.get(&of.kernel) else { return Ok(()) };
        /// As kernels take it.
        enum Given {
            Whole(i64),
            Factor(f32),
        }
        let given: Vec<Given> = of
            .words
            .iter()
            .map(|word| match *word {
                Word::At(slot) => Given::Whole((base + slot.offset() as u64) as i64),
                Word::Int(number) => Given::Whole(number as i64),
                Word::Float(factor) => Given::Factor(factor),
            })
            .collect();
        let mut builder = self.stream.launch_builder(function);
        for word in &given {
            match word {
                Given::Whole(number) => builder.arg(number),
                Given::Factor(factor) => builder.arg(factor),
            };
        }
        let config = LaunchConfig {
            grid_dim: (of.blocks as u32, 1, 1),
            block_dim: (of.threads as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: kinds and order of what is given are the kernel's, which tests carry out elsewhere;
        // places lie in the block of memory, which lives as long as the stream.
        unsafe { builder.launch(config) }.map(|_| ()).map_err(failed("launch a kernel"))
    }

    /// Carries out calls, to be repeated by [`Cuda::replay`] as one. They must have been carried out before.
    pub(in crate::probe::gpu) fn record(&mut self, calls: &[Call]) -> Result<(), ProbeError> {
        self.wait()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.stream.begin_capture(mode).map_err(failed("record a step"))?;
        let ran = self.run(calls);
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0));
        ran?;
        self.graph = graph.map_err(failed("record a step"))?;
        Ok(())
    }

    /// Repeats what was recorded; whether there is anything.
    pub(in crate::probe::gpu) fn replay(&mut self) -> Result<bool, ProbeError> {
        let Some(graph) = &self.graph else { return Ok(false) };
        graph.launch().map_err(failed("repeat a step"))?;
        Ok(true)
    }

    /// Waits until all is done.
    pub(in crate::probe::gpu) fn wait(&self) -> Result<(), ProbeError> {
        self.stream.synchronize().map_err(failed("wait for the GPU"))
    }

    /// Copies to a place, without waiting where the source is pinned.
    pub(in crate::probe::gpu) fn copy_pinned(
        &mut self,
        to: Slot,
        from: &PinnedHostSlice<u8>,
    ) -> Result<(), ProbeError> {
        let end = to.offset() + from.len().min(to.bytes());
        let mut place = self.memory.slice_mut(to.offset()..end);
        self.stream.memcpy_htod(from, &mut place).map_err(failed("copy to the GPU"))
    }
}

impl Device for Cuda {
    fn write(&mut self, to: Slot, bytes: &[u8]) -> Result<(), ProbeError> {
        let mut place = self.memory.slice_mut(to.offset()..to.offset() + bytes.len());
        self.stream.memcpy_htod(bytes, &mut place).map_err(failed("copy to the GPU"))
    }

    fn read(&mut self, from: Slot, bytes: usize) -> Result<Vec<u8>, ProbeError> {
        let place = self.memory.slice(from.offset()..from.offset() + bytes);
        let read = self.stream.clone_dtoh(&place).map_err(failed("copy from the GPU"))?;
        self.wait()?;
        Ok(read)
    }

    fn run(&mut self, calls: &[Call]) -> Result<(), ProbeError> {
        self.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        let base = self.base();
        let at = |slot: Slot| base + slot.offset() as u64;
        for call in calls {
            match call {
                Call::Launch(launch) => self.launch(launch, base)?,
                Call::Product(product) => self.blas.product(product, self.precision, at)?,
                Call::Convolution(convolution) => self.dnn.convolve(convolution, at)?,
            }
        }
        Ok(())
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // Nothing may be freed while it is used; an error of the wait says that nothing is used.
        self.wait().ok();
    }
}

/// Times of a stream, by its own clock.
#[derive(Default)]
pub(in crate::probe::gpu) struct Stopwatch {
    marks: Vec<CudaEvent>,
}

impl Stopwatch {
    /// Marks where the stream is.
    pub(in crate::probe::gpu) fn mark(&mut self, of: &Cuda) -> Result<(), ProbeError> {
        let mark = of.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        self.marks.push(mark.map_err(failed("mark a time"))?);
        Ok(())
    }

    /// Times between marks, after all were passed [s].
    pub(in crate::probe::gpu) fn laps(&self) -> Result<Vec<f64>, ProbeError> {
        let lap = |pair: &[CudaEvent]| pair[0].elapsed_ms(&pair[1]).map(|ms| f64::from(ms) * 1e-3);
        self.marks.windows(2).map(lap).collect::<Result<_, _>>().map_err(failed("read a time"))
    }
}
