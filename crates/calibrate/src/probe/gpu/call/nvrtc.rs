//! Compiles kernels.

use super::functions::NvrtcFunctions;
use cudarc::nvrtc::sys;
use std::ffi::{CString, c_char};
use std::ptr;

/// Compiles kernels for an architecture such as `sm_90` and returns the binary. NVRTC must have been loaded; no
/// driver is needed.
///
/// # Errors
/// If the source does not compile; the error has the compiler's messages.
pub(in crate::probe::gpu) fn cubin(source: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let functions = NvrtcFunctions::get()?;
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let mut program: sys::nvrtcProgram = ptr::null_mut();
    // SAFETY: both texts live until the call returns, which copies them; there are no headers.
    unsafe {
        let (name, none) = (c"kernels.cu".as_ptr(), ptr::null());
        (functions.nvrtcCreateProgram)(&mut program, source.as_ptr(), name, 0, none, none)
    }
    .result()
    .map_err(words)?;
    let compiled = compile(functions, program, architecture);
    // SAFETY: the program was made above and is not used again.
    unsafe { (functions.nvrtcDestroyProgram)(&mut program) }.result().map_err(words)?;
    compiled
}

fn compile(
    functions: &NvrtcFunctions,
    program: sys::nvrtcProgram,
    architecture: &str,
) -> Result<Vec<u8>, String> {
    let architecture = CString::new(format!("--gpu-architecture={architecture}"));
    let architecture = architecture.map_err(|error| error.to_string())?;
    let options: [*const c_char; 3] = [
        architecture.as_ptr(),
        c"--std=c++17".as_ptr(),
        // Lambdas with parameters of any type are device functions only by default.
        c"--device-as-default-execution-space".as_ptr(),
    ];
    // SAFETY: program and options live, and buffers are as long as the library says.
    unsafe {
        let compiled =
            (functions.nvrtcCompileProgram)(program, options.len() as i32, options.as_ptr());
        let mut length = 0;
        if let Err(error) = compiled.result() {
            (functions.nvrtcGetProgramLogSize)(program, &mut length).result().map_err(words)?;
            let mut log = vec![0_u8; length];
            let to = log.as_mut_ptr().cast();
            (functions.nvrtcGetProgramLog)(program, to).result().map_err(words)?;
            let log = String::from_utf8_lossy(&log);
            return Err(format!("{error:?}: {}", log.trim_end_matches('\0')));
        }
        (functions.nvrtcGetCUBINSize)(program, &mut length).result().map_err(words)?;
        let mut code = vec![0_u8; length];
        (functions.nvrtcGetCUBIN)(program, code.as_mut_ptr().cast()).result().map_err(words)?;
        Ok(code)
    }
}

fn words<E: std::fmt::Debug>(error: E) -> String {
    format!("NVRTC: {error:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::gpu::kernels;
    use crate::probe::gpu::libraries::{self, LIBRARIES};

    #[test]
    fn all_kernels_compile_for_the_oldest_architecture() {
        compile_for(&kernels::ARCHITECTURES[..1]);
    }

    #[test]
    #[ignore = "half a minute; the oldest architecture has the fewest instructions"]
    fn all_kernels_compile_for_every_architecture() {
        compile_for(&kernels::ARCHITECTURES);
    }

    #[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
    fn compile_for(architectures: &[&str]) {
        let folders = libraries::folders();
        let mut loaded =
            LIBRARIES[..2].iter().map(|&library| crate::probe::gpu::call::load(library, &folders));
        if let Some(why) = loaded.find_map(Result::err) {
            eprintln!("skipped: {why}");
            return;
        }
        let source = kernels::source();
        for &architecture in architectures {
            let code = cubin(&source, architecture).unwrap_or_else(|why| panic!("{why}"));
            assert!(code.starts_with(b"\x7fELF"), "{architecture}");
            for name in kernels::names() {
                let has = code.windows(name.len()).any(|part| part == name.as_bytes());
                assert!(has, "{architecture} lacks {name}");
            }
        }
        let wrong = cubin(&source.replace("EPSILON)", "EPSILIN)"), "sm_90").unwrap_err();
        assert!(wrong.contains("norm.cu(") && wrong.contains("EPSILIN"), "{wrong}");
    }
}
