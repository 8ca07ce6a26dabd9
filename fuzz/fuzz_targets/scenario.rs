//! Any bytes are read as a scenario or refused in words: nothing panics, hangs or overflows.
#![no_main]

use forebay::scenario::{Problems, ScenarioFile};

fn shown(problems: &Problems) {
    assert!(!problems.render(false).is_empty());
    assert!(!problems.render(true).is_empty());
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes).into_owned();
    match ScenarioFile::parse("fuzz.toml", text) {
        Ok(file) => {
            let _ = file.resolve(&[]).map_err(|problems| shown(&problems));
            let axes = file.axes().map_err(|problems| shown(&problems)).unwrap_or_default();
            for axis in axes.into_iter().take(4) {
                for values in axis.values.into_iter().take(4) {
                    let change = |(key, value)| forebay::scenario::Override::new(key, value);
                    let changes: Vec<_> = axis.keys.clone().into_iter().zip(values).map(change).collect();
                    let _ = file.resolve(&changes).map_err(|problems| shown(&problems));
                }
            }
        }
        Err(problems) => shown(&problems),
    }
});
