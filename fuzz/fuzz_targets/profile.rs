//! Any bytes are read as a profile or refused in words.
#![no_main]

use forebay::profile::Profile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match Profile::parse("fuzz.toml", &text) {
        Ok(profile) => {
            for (_, fit) in profile.fits() {
                fit.parameters.keys().for_each(|name| {
                    let _ = fit.value(name);
                });
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
