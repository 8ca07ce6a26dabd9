//! Loads CUDA's libraries, and asks for their versions.

use super::functions::{BlasFunctions, DnnFunctions, NvrtcFunctions};
use crate::probe::gpu::STATIC;
use crate::probe::gpu::libraries::{self, Library};
use cudarc::{cublas, driver};
use forebay_model::input::shown;
use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_NOW};
use std::path::{Path, PathBuf};

/// CUDA version that the driver must support: 13.0, which drivers support from version 580 on.
const NEEDED: i32 = 13_000;

/// Returns the CUDA version that the driver supports (13.0 is 13000) and the number of GPUs.
///
/// # Errors
/// If this program is static, or there is no driver, or the driver is too old or finds no GPU.
pub(in crate::probe::gpu) fn driver() -> Result<(i32, usize), String> {
    if cfg!(target_feature = "crt-static") {
        return Err(STATIC.into());
    }
    // SAFETY: opens and closes the library of that name, as any program does that is linked to it.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err("there is no NVIDIA driver: the system's loader finds no libcuda.so.1".into());
    }
    let mut version = 0;
    // SAFETY: every driver has this function; it writes one number.
    let asked = unsafe { driver::sys::cuDriverGetVersion(&mut version) };
    if asked != driver::sys::CUresult::CUDA_SUCCESS || version < NEEDED {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(format!(
            "the NVIDIA driver is for CUDA {major}.{minor}, where 13.0 is needed: driver 580 or later"
        ));
    }
    driver::result::init()
        .map_err(|error| format!("the NVIDIA driver does not start: {error:?}"))?;
    let count = driver::safe::CudaContext::device_count()
        .map_err(|error| format!("the NVIDIA driver counts no GPUs: {error:?}"))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok((version, count)),
        _ => Err("the NVIDIA driver is here, but no GPU".into()),
    }
}

/// Opens a library for the rest of the program. Returns where it was found; `None` if the system's loader found
/// it.
///
/// # Errors
/// If the library is not found, or cannot be opened.
pub(in crate::probe::gpu) fn load(
    library: Library,
    folders: &[PathBuf],
) -> Result<Option<PathBuf>, String> {
    if let Some(path) = libraries::find(library, folders) {
        let refused = |error| format!("{} cannot be opened: {error}", shown(&path));
        return keep_open(&path).map_err(refused).map(|()| Some(path));
    }
    let found = library.files().any(|file| keep_open(Path::new(&file)).is_ok());
    if found { Ok(None) } else { Err(libraries::missing(library, folders)) }
}

/// Opens a library for the rest of the program: whoever asks for it by its name gets this one.
fn keep_open(file: &Path) -> Result<(), libloading::Error> {
    // SAFETY: opening the library runs its initialisers, as it does in every program that uses it.
    let handle = unsafe { Handle::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }?;
    std::mem::forget(handle);
    Ok(())
}

/// Returns the version of a loaded library; `None` if the library reports none.
pub(in crate::probe::gpu) fn version(library: Library) -> Option<String> {
    // SAFETY: these functions only write numbers.
    unsafe {
        match library {
            libraries::NVRTC => {
                let (mut major, mut minor) = (0, 0);
                let ask = NvrtcFunctions::get().ok()?.nvrtcVersion;
                ask(&mut major, &mut minor).result().ok()?;
                Some(format!("{major}.{minor}"))
            }
            libraries::CUBLAS => {
                use cublas::sys::libraryPropertyType_t as Part;
                let ask = BlasFunctions::get().ok()?.cublasGetProperty;
                let part = |part: Part| -> Option<i32> {
                    let mut value = 0;
                    ask(part, &mut value).result().ok()?;
                    Some(value)
                };
                let (major, minor) = (part(Part::MAJOR_VERSION)?, part(Part::MINOR_VERSION)?);
                Some(format!("{major}.{minor}.{}", part(Part::PATCH_LEVEL)?))
            }
            libraries::CUDNN => {
                let version = (DnnFunctions::get().ok()?.cudnnGetVersion)();
                Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
            }
            _ => None,
        }
    }
}
