//! Any bytes are read as a DLIO workload, and another one that changes it, behind a line of `---`; each becomes a scenario
//! that is read, or is refused in words.
#![no_main]

use forebay::import::dlio::{self, Deployment};
use forebay::scenario::ScenarioFile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let files: Vec<String> = text.split("\n---\n").take(2).map(str::to_owned).collect();
    let place = Deployment {
        accelerators: 8,
        hosts: 2,
        cores: 64,
        nic: None,
        beside: None,
        bandwidth: "10 GB/s".to_owned(),
        source: "fuzz.yaml".to_owned(),
    };
    match dlio::read(&files, &[]) {
        Ok(workload) => {
            let parsed = ScenarioFile::parse("imported", dlio::scenario(&workload, &place));
            if let Err(problems) = parsed.and_then(|file| file.resolve(&[])) {
                assert!(!problems.render(false).is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
