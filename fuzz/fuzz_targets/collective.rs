//! Any bytes are read as what each benchmark of collectives prints, or refused in words.
#![no_main]

use forebay::import::collective::{Benchmark, CollectiveDefaults, read};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let wanted = CollectiveDefaults { transport: "t".to_owned(), ..CollectiveDefaults::default() };
    for of in [Benchmark::NcclTests, Benchmark::Osu, Benchmark::Imb, Benchmark::DeepBench] {
        if let Err(error) = read(of, &text, &wanted) {
            assert!(!error.to_string().is_empty());
        }
    }
});
