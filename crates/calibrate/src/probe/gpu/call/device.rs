//! A GPU that carries out calls.

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
    /// Opens the GPU of a number; driver and libraries must have been found.
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

    /// A context of the GPU of a number, without our kernels.
    pub(super) fn context(number: usize) -> Result<Arc<CudaContext>, ProbeError> {
        let context = CudaContext::new(number).map_err(failed("open the GPU"))?;
        // SAFETY: nothing has been allocated. Each block of memory belongs to one stream, which orders all, or
        // whoever shares it orders streams by marks.
        unsafe { context.disable_event_tracking() };
        Ok(context)
    }

    /// Free memory and all of it [B].
    pub(in crate::probe::gpu) fn memory(&self) -> Result<(usize, usize), ProbeError> {
        // What was given back is free once the GPU has come to that.
        self.context.synchronize().map_err(failed("wait for the GPU"))?;
        self.context.mem_get_info().map_err(failed("ask the GPU for its memory"))
    }

    /// Memory of the host that the GPU reads itself, `bytes` long.
    pub(in crate::probe::gpu) fn pinned(&self, bytes: usize) -> Result<Pinned, ProbeError> {
        Pinned::new(&self.context, bytes)
    }
}

/// A stream over a block of memory that carries out calls one after the other.
pub(in crate::probe::gpu) struct Cuda {
    // Dropped in this order.
    blas: Blas,
    dnn: Dnn,
    functions: BTreeMap<String, CudaFunction>,
    line: Line,
    precision: Precision,
}

/// Calls that were recorded, to be repeated as one.
pub(in crate::probe::gpu) struct Recording(CudaGraph);

// SAFETY: a graph may be used by any thread, by one at a time; whoever has it repeats it.
unsafe impl Send for Recording {}

impl Cuda {
    /// A stream with `bytes` of memory, all zero.
    pub(in crate::probe::gpu) fn new(
        gpu: &Gpu,
        bytes: usize,
        precision: Precision,
    ) -> Result<Cuda, ProbeError> {
        Cuda::on(Line::new(gpu, bytes)?, precision)
    }

    /// Another stream over the same memory.
    pub(in crate::probe::gpu) fn beside(&self) -> Result<Cuda, ProbeError> {
        Cuda::on(self.line.beside()?, self.precision)
    }

    fn on(line: Line, precision: Precision) -> Result<Cuda, ProbeError> {
        let (blas, dnn) = (Blas::new(&line.stream)?, Dnn::new(&line.stream, precision)?);
        Ok(Cuda { blas, dnn, functions: BTreeMap::new(), line, precision })
    }

    /// The stream itself.
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
        // SAFETY: kinds and order of what is given are the kernel's, which tests carry out elsewhere;
        // places lie in the block of memory, which lives as long as the stream.
        unsafe { builder.launch(config) }.map(|_| ()).map_err(failed("launch a kernel"))
    }

    /// Records calls, to be repeated by [`Cuda::replay`] as one. They must have been carried out before.
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

    /// Repeats what was recorded.
    pub(in crate::probe::gpu) fn replay(&mut self, of: &Recording) -> Result<(), ProbeError> {
        of.0.launch().map_err(failed("repeat a step"))
    }

    /// Waits until all is done.
    pub(in crate::probe::gpu) fn wait(&self) -> Result<(), ProbeError> {
        self.line.wait()
    }

    /// Where the stream is.
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
    /// Records calls and repeats them.
    fn record_and_replay(&mut self, calls: &[Call], times: usize) -> Result<(), ProbeError> {
        let recording = self.record(calls)?;
        (0..times).try_for_each(|_| self.replay(&recording))?;
        // The recording must live until it has been repeated.
        self.wait()
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // Nothing may be freed while it is used; an error of the wait says that nothing is used.
        self.wait().ok();
    }
}
