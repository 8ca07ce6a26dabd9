//! Products of matrices by cuBLAS.

use super::functions::BlasFunctions;
use super::{failed, int};
use crate::probe::ProbeError;
use crate::probe::gpu::program::{Matrix, Precision, Product, Slot};
use cudarc::cublas::sys;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// Workspace of cuBLAS [B], allocated in advance so that cuBLAS allocates none while a step is recorded.
const ROOM: usize = 32 << 20;

/// A cuBLAS handle for one stream.
pub(super) struct Blas {
    functions: &'static BlasFunctions,
    handle: sys::cublasHandle_t,
    _room: CudaSlice<u8>,
}

// SAFETY: a handle may be used by any thread, but only by one at a time; `&mut self` ensures this.
unsafe impl Send for Blas {}

impl Blas {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Blas, ProbeError> {
        let room = stream.alloc_zeros::<u8>(ROOM).map_err(failed("get memory for cuBLAS"))?;
        let functions = BlasFunctions::get().map_err(ProbeError::Machine)?;
        let mut handle: sys::cublasHandle_t = ptr::null_mut();
        // SAFETY: the function writes one pointer.
        unsafe { (functions.cublasCreate_v2)(&mut handle) }
            .result()
            .map_err(failed("open cuBLAS"))?;
        let at = room.device_ptr(stream).0;
        let blas = Blas { functions, handle, _room: room };
        // SAFETY: handle and stream live; the workspace lives as long as the handle.
        unsafe {
            let set = (functions.cublasSetStream_v2)(handle, stream.cu_stream().cast());
            set.result().map_err(failed("use cuBLAS"))?;
            let set = (functions.cublasSetWorkspace_v2)(handle, at as *mut c_void, ROOM);
            set.result().map_err(failed("give memory to cuBLAS"))?;
        }
        Ok(blas)
    }

    /// Computes a matrix product. cuBLAS takes column-major matrices; read as column-major, a row-major matrix
    /// is transposed. So the call computes cᵀ = bᵀ·aᵀ.
    pub(super) fn product(
        &mut self,
        of: &Product,
        precision: Precision,
        at: impl Fn(Slot) -> u64,
    ) -> Result<(), ProbeError> {
        let kind = match precision {
            Precision::Bf16 => sys::cudaDataType::CUDA_R_16BF,
            _ => sys::cudaDataType::CUDA_R_32F,
        };
        let result = if of.wide { sys::cudaDataType::CUDA_R_32F } else { kind };
        let compute = match precision {
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let operation = |of: &Matrix| match of.turned {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let (one, zero) = (1.0_f32, 0.0_f32);
        let [m, n, k] = of.sides;
        // SAFETY: slots hold matrices of these sizes, and the handle lives.
        unsafe {
            (self.functions.cublasGemmStridedBatchedEx)(
                self.handle,
                operation(&of.b),
                operation(&of.a),
                int(n)?,
                int(m)?,
                int(k)?,
                (&raw const one).cast(),
                at(of.b.slot) as *const c_void,
                kind,
                int(of.b.down)?,
                of.b.apart as i64,
                at(of.a.slot) as *const c_void,
                kind,
                int(of.a.down)?,
                of.a.apart as i64,
                (&raw const zero).cast(),
                at(of.c.slot) as *mut c_void,
                result,
                int(of.c.down)?,
                of.c.apart as i64,
                int(of.count)?,
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        }
        .result()
        .map_err(failed("multiply matrices"))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: the handle was made by us and is used no more. An error can no longer be reported.
        unsafe { (self.functions.cublasDestroy_v2)(self.handle) }.result().ok();
    }
}
