//! Functions of CUDA's libraries, taken from the very files that were loaded. cudarc, whose types are used here, would open
//! libraries by names without a version (`libcudnn.so`), and so could get other files than those that the user names.

use crate::probe::gpu::libraries::{CUBLAS, CUDNN, Library, NVRTC};
use cudarc::cublas::sys as blas;
use cudarc::cudnn::sys as dnn;
use cudarc::nvrtc::sys as nvrtc;
use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::sync::OnceLock;

/// Opens a library that `load` has loaded: the loader finds it by its name, wherever its file is.
fn opened(library: Library) -> Result<Handle, String> {
    // SAFETY: the initialisers of the library have run already.
    unsafe { Handle::open(Some(library.file), RTLD_NOW | RTLD_GLOBAL) }
        .map_err(|error| format!("{} cannot be opened: {error}", library.name))
}

/// Declares the functions that are used of a library, with the types that its header gives them.
macro_rules! functions {
    ($doc:literal, $name:ident, $library:expr; $($symbol:ident($($type:ty),*) -> $result:ty;)*) => {
        #[doc = $doc]
        #[expect(non_snake_case, reason = "these are the library's own names")]
        pub(super) struct $name {
            $(pub(super) $symbol: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl $name {
            /// Returns the functions; the library must have been loaded, and stays open.
            pub(super) fn get() -> Result<&'static $name, String> {
                static FOUND: OnceLock<Result<$name, String>> = OnceLock::new();
                let find = || {
                    let handle = opened($library)?;
                    let lacks = |error| format!("{}: {error}", $library.name);
                    let found = $name {
                        // SAFETY: the header declares the function with this type.
                        $($symbol: *unsafe { handle.get(stringify!($symbol).as_bytes()) }.map_err(lacks)?,)*
                    };
                    std::mem::forget(handle);
                    Ok(found)
                };
                FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
            }
        }
    };
}

type DnnHandle = dnn::cudnnHandle_t;
type Tensor = dnn::cudnnTensorDescriptor_t;
type Filter = dnn::cudnnFilterDescriptor_t;
type Convolution = dnn::cudnnConvolutionDescriptor_t;
type Data = *mut c_void;
type Input = *const c_void;

functions! { "Functions of cuDNN.", DnnFunctions, CUDNN;
    cudnnGetVersion() -> usize;
    cudnnCreate(*mut DnnHandle) -> dnn::cudnnStatus_t;
    cudnnDestroy(DnnHandle) -> dnn::cudnnStatus_t;
    cudnnSetStream(DnnHandle, dnn::cudaStream_t) -> dnn::cudnnStatus_t;
    cudnnCreateTensorDescriptor(*mut Tensor) -> dnn::cudnnStatus_t;
    cudnnDestroyTensorDescriptor(Tensor) -> dnn::cudnnStatus_t;
    cudnnSetTensor4dDescriptor(
        Tensor, dnn::cudnnTensorFormat_t, dnn::cudnnDataType_t, c_int, c_int, c_int, c_int
    ) -> dnn::cudnnStatus_t;
    cudnnCreateFilterDescriptor(*mut Filter) -> dnn::cudnnStatus_t;
    cudnnDestroyFilterDescriptor(Filter) -> dnn::cudnnStatus_t;
    cudnnSetFilter4dDescriptor(
        Filter, dnn::cudnnDataType_t, dnn::cudnnTensorFormat_t, c_int, c_int, c_int, c_int
    ) -> dnn::cudnnStatus_t;
    cudnnCreateConvolutionDescriptor(*mut Convolution) -> dnn::cudnnStatus_t;
    cudnnDestroyConvolutionDescriptor(Convolution) -> dnn::cudnnStatus_t;
    cudnnSetConvolution2dDescriptor(
        Convolution, c_int, c_int, c_int, c_int, c_int, c_int, dnn::cudnnConvolutionMode_t, dnn::cudnnDataType_t
    ) -> dnn::cudnnStatus_t;
    cudnnSetConvolutionMathType(Convolution, dnn::cudnnMathType_t) -> dnn::cudnnStatus_t;
    cudnnGetConvolutionForwardAlgorithm_v7(
        DnnHandle, Tensor, Filter, Convolution, Tensor, c_int, *mut c_int, *mut dnn::cudnnConvolutionFwdAlgoPerf_t
    ) -> dnn::cudnnStatus_t;
    cudnnGetConvolutionBackwardDataAlgorithm_v7(
        DnnHandle, Filter, Tensor, Convolution, Tensor, c_int, *mut c_int, *mut dnn::cudnnConvolutionBwdDataAlgoPerf_t
    ) -> dnn::cudnnStatus_t;
    cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        DnnHandle, Tensor, Tensor, Convolution, Filter, c_int, *mut c_int, *mut dnn::cudnnConvolutionBwdFilterAlgoPerf_t
    ) -> dnn::cudnnStatus_t;
    cudnnConvolutionForward(
        DnnHandle, Input, Tensor, Input, Filter, Input, Convolution, dnn::cudnnConvolutionFwdAlgo_t, Data, usize, Input,
        Tensor, Data
    ) -> dnn::cudnnStatus_t;
    cudnnConvolutionBackwardData(
        DnnHandle, Input, Filter, Input, Tensor, Input, Convolution, dnn::cudnnConvolutionBwdDataAlgo_t, Data, usize,
        Input, Tensor, Data
    ) -> dnn::cudnnStatus_t;
    cudnnConvolutionBackwardFilter(
        DnnHandle, Input, Tensor, Input, Tensor, Input, Convolution, dnn::cudnnConvolutionBwdFilterAlgo_t, Data, usize,
        Input, Filter, Data
    ) -> dnn::cudnnStatus_t;
}

type Kind = blas::cudaDataType;

functions! { "Functions of cuBLAS.", BlasFunctions, CUBLAS;
    cublasGetProperty(blas::libraryPropertyType, *mut c_int) -> blas::cublasStatus_t;
    cublasCreate_v2(*mut blas::cublasHandle_t) -> blas::cublasStatus_t;
    cublasDestroy_v2(blas::cublasHandle_t) -> blas::cublasStatus_t;
    cublasSetStream_v2(blas::cublasHandle_t, blas::cudaStream_t) -> blas::cublasStatus_t;
    cublasSetWorkspace_v2(blas::cublasHandle_t, Data, usize) -> blas::cublasStatus_t;
    cublasGemmStridedBatchedEx(
        blas::cublasHandle_t, blas::cublasOperation_t, blas::cublasOperation_t, c_int, c_int, c_int, Input, Input, Kind,
        c_int, c_longlong, Input, Kind, c_int, c_longlong, Input, Data, Kind, c_int, c_longlong, c_int,
        blas::cublasComputeType_t, blas::cublasGemmAlgo_t
    ) -> blas::cublasStatus_t;
}

functions! { "Functions of NVRTC.", NvrtcFunctions, NVRTC;
    nvrtcVersion(*mut c_int, *mut c_int) -> nvrtc::nvrtcResult;
    nvrtcCreateProgram(
        *mut nvrtc::nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) -> nvrtc::nvrtcResult;
    nvrtcCompileProgram(nvrtc::nvrtcProgram, c_int, *const *const c_char) -> nvrtc::nvrtcResult;
    nvrtcGetProgramLogSize(nvrtc::nvrtcProgram, *mut usize) -> nvrtc::nvrtcResult;
    nvrtcGetProgramLog(nvrtc::nvrtcProgram, *mut c_char) -> nvrtc::nvrtcResult;
    nvrtcGetCUBINSize(nvrtc::nvrtcProgram, *mut usize) -> nvrtc::nvrtcResult;
    nvrtcGetCUBIN(nvrtc::nvrtcProgram, *mut c_char) -> nvrtc::nvrtcResult;
    nvrtcDestroyProgram(*mut nvrtc::nvrtcProgram) -> nvrtc::nvrtcResult;
}
