//! x
use forebay::published::*;
fn main() {
    let p = Published::parse("s", SCALING).expect("p");
    let t = std::time::Instant::now();
    let f = fit(&p);
    eprintln!("{f:?} {:?}", t.elapsed());
    let mut groups: std::collections::BTreeMap<String, Vec<f64>> = Default::default();
    for c in compare(&p, &f) {
        println!(
            "{:45} {:4} {:?} {:10.4} {:10.4} {:+.1} %",
            c.result.series,
            c.result.gpus,
            c.result.role(),
            c.predicted,
            c.result.measured,
            100.0 * c.relative_error()
        );
        groups
            .entry(format!("{} {} {:?}", c.result.cluster, c.result.transport, c.result.role()))
            .or_default()
            .push(c.relative_error().abs());
    }
    for (g, e) in groups {
        println!(
            "{g}: {} rows, mean {:.1} %",
            e.len(),
            100.0 * e.iter().sum::<f64>() / e.len() as f64
        );
    }
}
