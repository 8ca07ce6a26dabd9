//! Fits what PyTorch's loader costs: collating a batch, taking it, starting workers.

use super::estimate::{Law, Term};
use super::laws::cells;
use super::shape::Piece;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;
use std::collections::BTreeMap;

const fn term(name: &'static str, unit: &'static str, column: usize) -> Term {
    Term { name, unit, at: (0, column), rate: false, unseen: "" }
}

/// Work of a worker for a batch, from its size and the bytes of a sample.
const COLLATE: Law<'static> = Law {
    pieces: &[Piece { columns: 3, features: |x| [1.0, x[0], x[0] * x[1]] }],
    terms: &[term("fixed", "s", 0), term("per_sample", "s", 1), term("per_byte", "s/B", 2)],
    settings: &["batch", "sample"],
};

/// Time of the loop's thread to take a batch that is ready.
const TAKE: Law<'static> = Law {
    pieces: &[Piece { columns: 2, features: |x| [1.0, x[0] * x[1], 0.0] }],
    terms: &[term("fixed", "s", 0), term("per_byte", "s/B", 1)],
    settings: &["batch", "sample"],
};

/// Time to start workers, from their number.
const START: Law<'static> = Law {
    pieces: &[Piece { columns: 2, features: |x| [1.0, x[0], 0.0] }],
    terms: &[term("fixed", "s", 0), term("per_worker", "s", 1)],
    settings: &["workers"],
};

/// Fits the parts of a loader that the samples have.
pub(super) fn parts(samples: &[&Sample], draws: usize) -> BTreeMap<String, Fit> {
    let of = |part: &str| -> Vec<&Sample> {
        samples.iter().filter(|sample| sample.label("part") == part).copied().collect()
    };
    let observed = |name: &'static str| {
        move |sample: &Sample| sample.observed.get(name).copied().unwrap_or(f64::NAN)
    };
    let (batches, starts) = (of("batch"), of("start"));
    let fit = |law: &Law<'_>, samples: &[&Sample], value: &dyn Fn(&Sample) -> f64| {
        let cells = cells(samples, law.settings, value);
        law.fit(&cells, &[vec![0; cells.cells.len()]], draws)
    };
    let all = [
        ("collate", fit(&COLLATE, &batches, &observed("made"))),
        ("take", fit(&TAKE, &batches, &observed("taken"))),
        ("start", fit(&START, &starts, &Sample::seconds_each)),
    ];
    all.into_iter().filter_map(|(name, fit)| Some((name.to_owned(), fit?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(
        part: &str,
        settings: &[(&str, f64)],
        observed: &[(&str, f64)],
        trial: u32,
    ) -> Sample {
        let named = |pairs: &[(&str, f64)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        Sample {
            probe: "pytorch".to_owned(),
            labels: [("part".to_owned(), part.to_owned())].into(),
            settings: named(settings),
            trial,
            operations: 1,
            seconds: observed[0].1,
            core_seconds: 0.0,
            observed: named(observed),
            beside: None,
            excluded: None,
            at: f64::from(trial),
        }
    }

    #[test]
    fn the_costs_of_a_loader_are_found() {
        // System: 0.5 ms, 2 us for each sample and 0.3 ns for each byte to collate; 0.4 ms and 0.01 ns for each byte to take; 20 ms and
        // 8 ms for each worker to start.
        let mut all = Vec::new();
        for trial in 0..6_u32 {
            let noise = 1.0 + 0.004 * f64::from(trial % 3);
            for bytes in [65_536.0, 602_112.0] {
                for batch in [8.0, 32.0, 128.0] {
                    let made = (0.5e-3 + 2e-6 * batch + 0.3e-9 * batch * bytes) * noise;
                    let taken = (0.4e-3 + 1e-11 * batch * bytes) * noise;
                    let settings = [("sample", bytes), ("batch", batch)];
                    all.push(sample(
                        "batch",
                        &settings,
                        &[("made", made), ("taken", taken)],
                        trial,
                    ));
                }
            }
            for workers in [1.0, 2.0, 4.0] {
                let seconds = (20e-3 + 8e-3 * workers) * noise;
                all.push(sample("start", &[("workers", workers)], &[("seconds", seconds)], trial));
            }
        }
        let fits = parts(&all.iter().collect::<Vec<_>>(), 200);
        for (part, name, value) in [
            ("collate", "fixed", 0.5e-3),
            ("collate", "per_byte", 0.3e-9),
            ("take", "fixed", 0.4e-3),
            ("take", "per_byte", 1e-11),
            ("start", "fixed", 20e-3),
            ("start", "per_worker", 8e-3),
        ] {
            let found = fits[part].value(name).unwrap_or(0.0);
            assert!((found / value - 1.0).abs() < 0.06, "{part}.{name}: {found} for {value}");
        }
        assert!(parts(&[], 200).is_empty());
    }
}
