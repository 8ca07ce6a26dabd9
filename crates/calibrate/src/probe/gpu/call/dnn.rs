//! Convolutions by cuDNN.

use super::functions::DnnFunctions;
use super::{failed, int};
use crate::probe::ProbeError;
use crate::probe::gpu::program::{Convolution, ConvolutionPass, Precision, Slot};
use cudarc::cudnn::sys;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use forebay_networks::Shape;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// A cuDNN handle for one stream, and the method chosen for each convolution.
pub(super) struct Dnn {
    functions: &'static DnnFunctions,
    handle: sys::cudnnHandle_t,
    stream: Arc<CudaStream>,
    precision: Precision,
    ways: BTreeMap<(ConvolutionPass, Shape, usize), Method>,
    room: CudaSlice<u8>,
}

/// Descriptors of a convolution, the algorithm that cuDNN recommends for it, and the workspace that the
/// algorithm needs [B].
struct Method {
    functions: &'static DnnFunctions,
    x: sys::cudnnTensorDescriptor_t,
    w: sys::cudnnFilterDescriptor_t,
    y: sys::cudnnTensorDescriptor_t,
    convolution: sys::cudnnConvolutionDescriptor_t,
    algorithm: Algorithm,
    room: usize,
}

#[derive(Clone, Copy)]
enum Algorithm {
    Forward(sys::cudnnConvolutionFwdAlgo_t),
    Data(sys::cudnnConvolutionBwdDataAlgo_t),
    Filters(sys::cudnnConvolutionBwdFilterAlgo_t),
}

// SAFETY: a handle and descriptors may be used by any thread, but only by one at a time; `&mut self` ensures this.
unsafe impl Send for Dnn {}

impl Dnn {
    pub(super) fn new(stream: &Arc<CudaStream>, precision: Precision) -> Result<Dnn, ProbeError> {
        let room = stream.alloc_zeros::<u8>(256).map_err(failed("get memory for cuDNN"))?;
        let functions = DnnFunctions::get().map_err(ProbeError::Machine)?;
        let mut handle: sys::cudnnHandle_t = ptr::null_mut();
        // SAFETY: the function writes one pointer.
        unsafe { (functions.cudnnCreate)(&mut handle) }.result().map_err(failed("open cuDNN"))?;
        let (stream, ways) = (Arc::clone(stream), BTreeMap::new());
        let dnn = Dnn { functions, handle, stream, precision, ways, room };
        // SAFETY: handle and stream live.
        unsafe { (functions.cudnnSetStream)(handle, dnn.stream.cu_stream().cast()) }
            .result()
            .map_err(failed("use cuDNN"))?;
        Ok(dnn)
    }

    /// Chooses the method of a convolution before it is computed for the first time.
    fn prepare(&mut self, of: &Convolution) -> Result<(), ProbeError> {
        let key = (of.way, of.shape, of.samples);
        if self.ways.contains_key(&key) {
            return Ok(());
        }
        let method = Method::new(self.functions, self.handle, of, self.precision)?;
        if method.room > self.room.len() {
            // The GPU may still use the old workspace.
            self.stream.synchronize().map_err(failed("wait for the GPU"))?;
            self.room = self
                .stream
                .alloc_zeros::<u8>(method.room)
                .map_err(failed("get memory for a convolution"))?;
        }
        self.ways.insert(key, method);
        Ok(())
    }

    pub(super) fn convolve(
        &mut self,
        of: &Convolution,
        at: impl Fn(Slot) -> u64,
    ) -> Result<(), ProbeError> {
        self.prepare(of)?;
        let Some(method) = self.ways.get(&(of.way, of.shape, of.samples)) else { return Ok(()) };
        let (functions, handle, size) = (self.functions, self.handle, self.room.len());
        let room = self.room.device_ptr(&self.stream).0 as *mut c_void;
        let (one, zero) = (1.0_f32, 0.0_f32);
        let (one, zero) = ((&raw const one).cast::<c_void>(), (&raw const zero).cast::<c_void>());
        let [x, w, y] = [of.x, of.w, of.y].map(|slot| at(slot) as *mut c_void);
        let Method { x: dx, w: dw, y: dy, convolution: c, .. } = *method;
        // SAFETY: slots hold tensors as described; handle, descriptors and workspace live.
        unsafe {
            match method.algorithm {
                Algorithm::Forward(algorithm) => (functions.cudnnConvolutionForward)(
                    handle, one, dx, x, dw, w, c, algorithm, room, size, zero, dy, y,
                ),
                Algorithm::Data(algorithm) => (functions.cudnnConvolutionBackwardData)(
                    handle, one, dw, w, dy, y, c, algorithm, room, size, zero, dx, x,
                ),
                Algorithm::Filters(algorithm) => (functions.cudnnConvolutionBackwardFilter)(
                    handle, one, dx, x, dy, y, c, algorithm, room, size, zero, dw, w,
                ),
            }
        }
        .result()
        .map_err(failed("convolve"))
    }
}

impl Method {
    fn new(
        functions: &'static DnnFunctions,
        handle: sys::cudnnHandle_t,
        of: &Convolution,
        precision: Precision,
    ) -> Result<Method, ProbeError> {
        let failed = || failed("describe a convolution to cuDNN");
        let (kind, math) = match precision {
            Precision::Fp32 => {
                (sys::cudnnDataType_t::CUDNN_DATA_FLOAT, sys::cudnnMathType_t::CUDNN_FMA_MATH)
            }
            Precision::Tf32 => {
                (sys::cudnnDataType_t::CUDNN_DATA_FLOAT, sys::cudnnMathType_t::CUDNN_DEFAULT_MATH)
            }
            Precision::Bf16 => (
                sys::cudnnDataType_t::CUDNN_DATA_BFLOAT16,
                sys::cudnnMathType_t::CUDNN_TENSOR_OP_MATH,
            ),
        };
        let Shape { from, to, side, kernel, stride, padding } = of.shape;
        let [samples, from, to, side, kernel, stride, padding, out] =
            [of.samples, from, to, side, kernel, stride, padding, of.shape.out()].map(int);
        let (samples, from, to, side) = (samples?, from?, to?, side?);
        let (kernel, stride, padding, out) = (kernel?, stride?, padding?, out?);
        let order = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
        let mut method = Method {
            functions,
            x: ptr::null_mut(),
            w: ptr::null_mut(),
            y: ptr::null_mut(),
            convolution: ptr::null_mut(),
            algorithm: Algorithm::Forward(
                sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            ),
            room: 0,
        };
        // SAFETY: each function writes one pointer.
        unsafe {
            let made = (functions.cudnnCreateTensorDescriptor)(&mut method.x);
            made.result().map_err(failed())?;
            let made = (functions.cudnnCreateFilterDescriptor)(&mut method.w);
            made.result().map_err(failed())?;
            let made = (functions.cudnnCreateTensorDescriptor)(&mut method.y);
            made.result().map_err(failed())?;
            let made = (functions.cudnnCreateConvolutionDescriptor)(&mut method.convolution);
            made.result().map_err(failed())?;
        }
        let (x, w, y, c) = (method.x, method.w, method.y, method.convolution);
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let sums = sys::cudnnDataType_t::CUDNN_DATA_FLOAT;
        let DnnFunctions {
            cudnnSetTensor4dDescriptor: tensor,
            cudnnSetFilter4dDescriptor: filter,
            cudnnSetConvolution2dDescriptor: describe,
            cudnnSetConvolutionMathType: set_math,
            ..
        } = functions;
        // SAFETY: descriptors were made above.
        unsafe {
            tensor(x, order, kind, samples, from, side, side).result().map_err(failed())?;
            tensor(y, order, kind, samples, to, out, out).result().map_err(failed())?;
            filter(w, kind, order, to, from, kernel, kernel).result().map_err(failed())?;
            let described = describe(c, padding, padding, stride, stride, 1, 1, mode, sums);
            described.result().map_err(failed())?;
            set_math(c, math).result().map_err(failed())?;
        }
        (method.algorithm, method.room) = method.recommended(handle, of.way)?;
        Ok(method)
    }

    /// Returns the first algorithm in cuDNN's recommendations that works for this convolution, and its workspace
    /// [B].
    fn recommended(
        &self,
        handle: sys::cudnnHandle_t,
        way: ConvolutionPass,
    ) -> Result<(Algorithm, usize), ProbeError> {
        /// Length of the list of recommended algorithms: more than cuDNN has.
        const MOST: usize = 16;
        let failed = || failed("choose an algorithm for a convolution");
        let nothing =
            || ProbeError::Machine("cuDNN has no algorithm for one of the convolutions".to_owned());
        let fine = |status| status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS;
        let &Method { functions, x, w, y, convolution: c, .. } = self;
        let (most, mut count) = (MOST as i32, 0);
        // SAFETY: descriptors live; `found` is plain data with room for `most` results.
        unsafe {
            match way {
                ConvolutionPass::Forward => {
                    let mut found: [sys::cudnnConvolutionFwdAlgoPerf_t; MOST] = std::mem::zeroed();
                    let to = found.as_mut_ptr();
                    (functions.cudnnGetConvolutionForwardAlgorithm_v7)(
                        handle, x, w, c, y, most, &mut count, to,
                    )
                    .result()
                    .map_err(failed())?;
                    let best = found[..count as usize].iter().find(|of| fine(of.status));
                    let best = best.ok_or_else(nothing)?;
                    Ok((Algorithm::Forward(best.algo), best.memory))
                }
                ConvolutionPass::Data => {
                    let mut found: [sys::cudnnConvolutionBwdDataAlgoPerf_t; MOST] =
                        std::mem::zeroed();
                    let to = found.as_mut_ptr();
                    (functions.cudnnGetConvolutionBackwardDataAlgorithm_v7)(
                        handle, w, y, c, x, most, &mut count, to,
                    )
                    .result()
                    .map_err(failed())?;
                    let best = found[..count as usize].iter().find(|of| fine(of.status));
                    let best = best.ok_or_else(nothing)?;
                    Ok((Algorithm::Data(best.algo), best.memory))
                }
                ConvolutionPass::Filters => {
                    let mut found: [sys::cudnnConvolutionBwdFilterAlgoPerf_t; MOST] =
                        std::mem::zeroed();
                    let to = found.as_mut_ptr();
                    (functions.cudnnGetConvolutionBackwardFilterAlgorithm_v7)(
                        handle, x, y, c, w, most, &mut count, to,
                    )
                    .result()
                    .map_err(failed())?;
                    let best = found[..count as usize].iter().find(|of| fine(of.status));
                    let best = best.ok_or_else(nothing)?;
                    Ok((Algorithm::Filters(best.algo), best.memory))
                }
            }
        }
    }
}

impl Drop for Method {
    fn drop(&mut self) {
        // SAFETY: descriptors were made by us, or are null, and are used no more. An error can no longer be reported.
        unsafe {
            (self.functions.cudnnDestroyTensorDescriptor)(self.x).result().ok();
            (self.functions.cudnnDestroyFilterDescriptor)(self.w).result().ok();
            (self.functions.cudnnDestroyTensorDescriptor)(self.y).result().ok();
            (self.functions.cudnnDestroyConvolutionDescriptor)(self.convolution).result().ok();
        }
    }
}

impl Drop for Dnn {
    fn drop(&mut self) {
        // SAFETY: the handle was made by us and is used no more.
        unsafe { (self.functions.cudnnDestroy)(self.handle) }.result().ok();
    }
}
