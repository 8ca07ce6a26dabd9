//! Any bytes are read as a plan of `calibrate` and one of `validate`, or refused in words.
#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = forebay::probe::Plan::parse("fuzz.toml", &text) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = forebay::validate::Plan::parse(Path::new("fuzz.toml"), &text) {
        assert!(!error.to_string().is_empty());
    }
});
