//! Compiles kernels.

use cudarc::nvrtc::{result, sys};
use std::ffi::CString;

/// Compiles kernels for an architecture such as `sm_90` and returns the binary. NVRTC must have been loaded; no
/// driver is needed.
///
/// # Errors
/// The source does not compile; the error has the compiler's messages.
pub(in crate::probe::gpu) fn cubin(source: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let program = result::create_program(&source, Some(c"kernels.cu")).map_err(words)?;
    let compiled = compile(program, architecture);
    // SAFETY: the program was made above and is not used again.
    unsafe { result::destroy_program(program) }.map_err(words)?;
    compiled
}

fn compile(program: sys::nvrtcProgram, architecture: &str) -> Result<Vec<u8>, String> {
    // Lambdas with parameters of any type are device functions only by default.
    let options = [
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".to_owned(),
        "--device-as-default-execution-space".to_owned(),
    ];
    // SAFETY: the program lives, and buffers are as long as the library says.
    unsafe {
        if let Err(error) = result::compile_program(program, &options) {
            let log = result::get_program_log(program).map_err(words)?;
            let log: Vec<u8> = log.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
            return Err(format!("{error:?}: {}", String::from_utf8_lossy(&log)));
        }
        let mut length = 0;
        sys::nvrtcGetCUBINSize(program, &mut length).result().map_err(words)?;
        let mut code = vec![0_u8; length];
        sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()).result().map_err(words)?;
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
    #[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
    fn all_kernels_compile_for_every_architecture() {
        let folders = libraries::folders();
        let mut loaded =
            LIBRARIES[..2].iter().map(|&library| crate::probe::gpu::call::load(library, &folders));
        if let Some(why) = loaded.find_map(Result::err) {
            eprintln!("skipped: {why}");
            return;
        }
        let source = kernels::source();
        for architecture in kernels::ARCHITECTURES {
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
