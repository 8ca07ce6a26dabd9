//! Tests: large hostile files are refused within seconds.

use super::*;
use std::time::Instant;

#[test]
fn large_invalid_scenario_files_are_refused_fast_and_with_short_messages() {
    const SIZE: usize = 1 << 19;
    let fill = |piece: &str| piece.repeat(SIZE / piece.len());
    let number = |piece: &str| -> String {
        (0..SIZE / (piece.len() + 6)).map(|n| piece.replace('#', &format!("{n:06}"))).collect()
    };
    for (name, text) in [
        ("unknown keys", number("k# = 1\n")),
        ("jobs", fill("[[job]]\n")),
        ("data sets", number("[dataset.d#]\n")),
        ("axes", format!("{FLETCHER}{}", number("\"job.copies#\" = [1]\n"))),
        ("unknown keys in jobs", format!("[[job]]\n{}", number("k# = 1\n"))),
        ("values of an axis", format!("{FLETCHER}\"job.copies\" = [{}]", "-1, ".repeat(99_000))),
        ("an array", format!("name = [{}]", fill("1,"))),
        ("a text", format!("name = \"{}\"", fill("x"))),
        ("stages", format!("job = [{{loader.stages=[{}]}}]", fill("{},"))),
        (
            "operations",
            format!("job = [{{loader.stages=[{{per_sample=[{}]}}]}}]", fill("\"read\",")),
        ),
        ("syntax errors", fill("a b\n")),
        ("brackets", fill("[")),
        ("quotes", fill("\"")),
    ] {
        let start = Instant::now();
        let shown = wrong(&text);
        assert!(!shown.is_empty() && shown.len() < 100_000, "{name}: {} bytes", shown.len());
        // Around 0.1 s on an idle machine; anything quadratic takes minutes.
        assert!(start.elapsed().as_secs() < 60, "{name}: {:?}", start.elapsed());
    }
}
