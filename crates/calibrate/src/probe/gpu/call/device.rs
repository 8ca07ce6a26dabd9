//! A GPU that executes the calls of a step.

use super::blas::Blas;
use super::dnn::Dnn;
use super::line::{Line, Mark};
use super::{Pinned, failed};
use crate::probe::ProbeError;
use crate::probe::gpu::kernels;
use crate::probe::gpu::numerics::Device;
use crate::probe::gpu::program::{Call, Launch, Precision, Slot, Word};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaModule, LaunchConfig, PushKernelArg,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A GPU with our kernels.
#[derive(Debug, Clone)]
pub(in crate::probe::gpu) struct Gpu {
    pub(super) context: Arc<CudaContext>,
    module: Arc<CudaModule>,
}

impl Gpu {
    /// Opens GPU number `number` and loads our kernels; the driver and CUDA's libraries must have been loaded.
    pub(in crate::probe::gpu) fn open(number: usize) -> Result<Gpu, ProbeError> {
        let context = Gpu::context(number)?;
        let (major, minor) =
            context.compute_capability().map_err(failed("ask the GPU what it can do"))?;
        let code = super::cubin(&kernels::source(), &format!("sm_{major}{minor}"))
            .map_err(ProbeError::Machine)?;
        let code = cudarc::nvrtc::Ptx::from_binary(code);
        let module = context.load_module(code).map_err(failed("load kernels"))?;
        Ok(Gpu { context, module })
    }

    /// Returns a CUDA context of GPU number `number`, without our kernels.
    pub(super) fn context(number: usize) -> Result<Arc<CudaContext>, ProbeError> {
        let context = CudaContext::new(number).map_err(failed("open the GPU"))?;
        // SAFETY: nothing has been allocated yet. Each block of memory belongs to one stream, which orders all
        // its uses; streams that share a block are ordered by marks.
        unsafe { context.disable_event_tracking() };
        Ok(context)
    }

    /// Returns the GPU's free and total memory [B].
    pub(in crate::probe::gpu) fn memory(&self) -> Result<(usize, usize), ProbeError> {
        // Memory that was freed asynchronously becomes free only when the GPU gets to that point.
        self.context.synchronize().map_err(failed("wait for the GPU"))?;
        self.context.mem_get_info().map_err(failed("ask the GPU for its memory"))
    }

    /// Allocates `bytes` of pinned host memory, which the GPU reads directly.
    pub(in crate::probe::gpu) fn pinned(&self, bytes: usize) -> Result<Pinned, ProbeError> {
        Pinned::new(&self.context, bytes)
    }
}

/// A CUDA stream with a block of GPU memory; executes calls one after the other.
pub(in crate::probe::gpu) struct Cuda {
    // Fields are dropped in this order.
    blas: Blas,
    dnn: Dnn,
    functions: BTreeMap<String, CudaFunction>,
    line: Line,
    precision: Precision,
}

/// Calls recorded as a CUDA graph, which is launched as a whole.
pub(in crate::probe::gpu) struct Recording(CudaGraph);

// SAFETY: a graph may be used by any thread, but by one at a time; only the owner of the recording launches it.
unsafe impl Send for Recording {}

impl Cuda {
    /// Makes a stream with a block of `bytes` of GPU memory, all zero.
    pub(in crate::probe::gpu) fn new(
        gpu: &Gpu,
        bytes: usize,
        precision: Precision,
    ) -> Result<Cuda, ProbeError> {
        Cuda::on(Line::new(gpu, bytes)?, precision)
    }

    /// Makes another stream that uses the same block of memory.
    pub(in crate::probe::gpu) fn beside(&self) -> Result<Cuda, ProbeError> {
        Cuda::on(self.line.beside()?, self.precision)
    }

    fn on(line: Line, precision: Precision) -> Result<Cuda, ProbeError> {
        let (blas, dnn) = (Blas::new(&line.stream)?, Dnn::new(&line.stream, precision)?);
        Ok(Cuda { blas, dnn, functions: BTreeMap::new(), line, precision })
    }

    /// Returns the stream with its block of memory.
    pub(in crate::probe::gpu) fn line(&self) -> &Line {
        &self.line
    }

    fn launch(&mut self, of: &Launch, base: u64) -> Result<(), ProbeError> {
        if !self.functions.contains_key(&of.kernel) {
            let function = self.line.gpu.module.load_function(&of.kernel);
            let function = function.map_err(failed("find a kernel"))?;
            self.functions.insert(of.kernel.clone(), function);
        }
        let Some(function) = self.functions.get(&of.kernel) else { return Ok(()) };
        /// A kernel argument, converted to one of the two types that kernels take.
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
        let mut builder = self.line.stream.launch_builder(function);
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
        // SAFETY: types and order of the arguments are those of the kernel; tests run each kernel in an
        // emulator. Slots lie in the block of memory, which lives as long as the stream.
        unsafe { builder.launch(config) }.map(|_| ()).map_err(failed("launch a kernel"))
    }

    /// Records calls as a CUDA graph for [`Cuda::replay`]. The calls must have been run before, because the
    /// first run chooses algorithms and allocates memory.
    pub(in crate::probe::gpu) fn record(
        &mut self,
        calls: &[Call],
    ) -> Result<Recording, ProbeError> {
        self.wait()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.line.stream.begin_capture(mode).map_err(failed("record a step"))?;
        let ran = self.run(calls);
        let graph = self.line.stream.end_capture(CUgraphInstantiate_flags(0));
        ran?;
        let nothing = || ProbeError::Machine("a step was recorded and has no calls".to_owned());
        graph.map_err(failed("record a step"))?.map(Recording).ok_or_else(nothing)
    }

    /// Launches a recorded CUDA graph.
    pub(in crate::probe::gpu) fn replay(&mut self, of: &Recording) -> Result<(), ProbeError> {
        of.0.launch().map_err(failed("repeat a step"))
    }

    /// Waits until the GPU has finished all work of the stream.
    pub(in crate::probe::gpu) fn wait(&self) -> Result<(), ProbeError> {
        self.line.wait()
    }

    /// Puts a mark at the current end of the stream and returns it.
    pub(in crate::probe::gpu) fn mark(&self) -> Result<Mark, ProbeError> {
        self.line.mark()
    }
}

impl Device for Cuda {
    fn write(&mut self, to: Slot, bytes: &[u8]) -> Result<(), ProbeError> {
        self.line.write(to, bytes)
    }

    fn read(&mut self, from: Slot, bytes: usize) -> Result<Vec<u8>, ProbeError> {
        self.line.read(from, bytes)
    }

    fn run(&mut self, calls: &[Call]) -> Result<(), ProbeError> {
        self.line.gpu.context.bind_to_thread().map_err(failed("use the GPU"))?;
        let base = self.line.base();
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

    fn repeat(&mut self, calls: &[Call], times: usize) -> Result<(), ProbeError> {
        self.record_and_replay(calls, times)
    }
}

impl Cuda {
    /// Records calls as a CUDA graph, launches it `times` times and waits for the end.
    fn record_and_replay(&mut self, calls: &[Call], times: usize) -> Result<(), ProbeError> {
        let recording = self.record(calls)?;
        (0..times).try_for_each(|_| self.replay(&recording))?;
        // The graph must live until its last launch has ended.
        self.wait()
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // Nothing may be freed while the GPU uses it; if the wait fails, the GPU uses nothing any more.
        self.wait().ok();
    }
}
