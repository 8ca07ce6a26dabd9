//! Any bytes are read as a trace of PyTorch's profiler or refused in words.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = forebay::import::kineto::read(bytes) {
        assert!(!error.to_string().is_empty());
    }
});
