//! Fits what PyTorch's loader costs: collating a batch, taking it, starting workers, and what ranks do beside computing.

use super::cell::median;
use super::estimate::{Law, Term};
use super::laws::cells;
use super::others::{plain, resampled};
use super::shape::Piece;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;
use std::collections::{BTreeMap, BTreeSet};

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

/// What a rank does in a step beside computing, where n ranks of a machine wait for each other: `work`; a varying time, exponentially
/// distributed, of which the slowest rank has the mean times 1 + 1/2 + … + 1/n; and `serial`, which ranks do one after the other, so that
/// the mean rank waits for (n + 1) / 2 of them. `slowest` is 1 for the slowest rank of each step, 0 for the mean of ranks.
const RANKS: Law<'static> = Law {
    pieces: &[Piece {
        columns: 3,
        features: |x| match (x[0], x[1] > 0.0) {
            (ranks, false) => [1.0, 1.0, (ranks + 1.0) / 2.0],
            (ranks, true) => [1.0, (1..=ranks as u32).map(|of| 1.0 / f64::from(of)).sum(), ranks],
        },
    }],
    terms: &[term("work", "s", 0), term("varying", "s", 1), term("serial", "s", 2)],
    settings: &["ranks", "slowest"],
};

/// Returns two samples for each of `samples`: the time of the mean rank, and of the slowest.
fn mean_and_slowest(samples: &[&Sample]) -> Vec<Sample> {
    let of = |sample: &Sample, name: &str, slowest: f64| {
        let mut one = sample.clone();
        one.settings.insert("slowest".to_owned(), slowest);
        one.observed = [("beside".to_owned(), *sample.observed.get(name)?)].into();
        Some(one)
    };
    let both = |sample: &&Sample| [of(sample, "own", 0.0), of(sample, "slowest", 1.0)];
    samples.iter().flat_map(both).flatten().collect()
}

/// Smallest share of the throughput of threads without a lock at which the lock shows.
const FREE: f64 = 0.97;

/// Fits the share of their decoding for which threads of one interpreter hold its lock, for each library: with the most threads that
/// have a core each, of `cores` cores, they get 1 ÷ share of the throughput of one thread.
fn locks(samples: &[&Sample], cores: f64, draws: usize) -> Vec<(String, Fit)> {
    let of = |part: &'static str| samples.iter().filter(move |sample| sample.label("part") == part);
    let most = |sample: &&&Sample| cores <= 0.0 || sample.setting("threads") <= cores;
    let libraries: BTreeSet<&str> = of("threads").map(|sample| sample.label("format")).collect();
    let fit = |library: &str| -> Option<Fit> {
        let threads =
            || of("threads").filter(|sample| sample.label("format") == library).filter(most);
        let number = threads().map(|sample| sample.setting("threads")).fold(1.0, f64::max);
        let with_most = threads().filter(|sample| sample.setting("threads") == number);
        let shares = with_most.filter_map(|sample| {
            let same = |other: &&&Sample| {
                other.label("format") == library
                    && other.setting("bytes") == sample.setting("bytes")
            };
            let mut alone: Vec<f64> =
                of("decode").filter(same).map(|one| one.seconds_each()).collect();
            (!alone.is_empty()).then(|| sample.seconds_each() / median(&mut alone))
        });
        let shares: Vec<f64> = shares.map(|share| share.min(1.0)).collect();
        let (share, drawn) = resampled(&shares, draws, median)?;
        let mut fit = plain(&["share".to_owned()], "1", &[share], &drawn);
        fit.samples = shares.len() as u64;
        if let Some(found) = fit.parameters.get_mut("share").filter(|_| share * number < 1.0 / FREE)
        {
            found.value = 0.0;
            found.ci95 = None;
            found.unidentified = Some(format!(
                "{number} threads do not wait for each other: it is at most {share:.2}"
            ));
            fit.draws.clear();
        }
        Some(fit)
    };
    libraries.into_iter().filter_map(|of| Some((format!("lock-{of}"), fit(of)?))).collect()
}

/// Fits the parts of a loader that the samples, from a machine of `cores` cores (0 if unknown), have.
pub(super) fn parts(samples: &[&Sample], cores: f64, draws: usize) -> BTreeMap<String, Fit> {
    let of = |part: &str| -> Vec<&Sample> {
        samples.iter().filter(|sample| sample.label("part") == part).copied().collect()
    };
    let observed = |name: &'static str| {
        move |sample: &Sample| sample.observed.get(name).copied().unwrap_or(f64::NAN)
    };
    let (batches, starts) = (of("batch"), of("start"));
    let ranks = mean_and_slowest(&of("ranks"));
    let fit = |law: &Law<'_>, samples: &[&Sample], value: &dyn Fn(&Sample) -> f64| {
        let cells = cells(samples, law.settings, value);
        law.fit(&cells, &[vec![0; cells.cells.len()]], draws)
    };
    let all = [
        ("collate", fit(&COLLATE, &batches, &observed("made"))),
        ("inline", fit(&COLLATE, &batches, &observed("inline"))),
        ("take", fit(&TAKE, &batches, &observed("taken"))),
        ("start", fit(&START, &starts, &Sample::seconds_each)),
        ("ranks", fit(&RANKS, &ranks.iter().collect::<Vec<_>>(), &observed("beside"))),
    ];
    let all = all.into_iter().filter_map(|(name, fit)| Some((name.to_owned(), fit?)));
    all.chain(locks(samples, cores, draws)).collect()
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
                        &[("made", made), ("taken", taken), ("inline", made / 2.0)],
                        trial,
                    ));
                }
            }
            for workers in [1.0, 2.0, 4.0] {
                let seconds = (20e-3 + 8e-3 * workers) * noise;
                all.push(sample("start", &[("workers", workers)], &[("seconds", seconds)], trial));
            }
        }
        let fits = parts(&all.iter().collect::<Vec<_>>(), 2.0, 200);
        for (part, name, value) in [
            ("collate", "fixed", 0.5e-3),
            ("collate", "per_byte", 0.3e-9),
            ("inline", "fixed", 0.25e-3),
            ("inline", "per_byte", 0.15e-9),
            ("take", "fixed", 0.4e-3),
            ("take", "per_byte", 1e-11),
            ("start", "fixed", 20e-3),
            ("start", "per_worker", 8e-3),
        ] {
            let found = fits[part].value(name).unwrap_or(0.0);
            assert!((found / value - 1.0).abs() < 0.06, "{part}.{name}: {found} for {value}");
        }
        assert!(parts(&[], 2.0, 200).is_empty());
    }

    #[test]
    fn constant_varying_and_serial_work_of_ranks_are_told_apart() {
        // System: one, two, four and eight ranks of 1.5 ms, an exponentially distributed time of 0.4 ms, and turns of 0.2 ms; means over
        // steps with 1 % of noise. Expectation: each is found; without turns they are 0.
        for serial in [0.2e-3, 0.0] {
            let mut all = Vec::new();
            for trial in 0..8_u32 {
                let noise = 1.0 + 0.005 * f64::from(trial % 5) - 0.01;
                for ranks in [1.0_f64, 2.0, 4.0, 8.0] {
                    let longest: f64 = (1..=ranks as u32).map(|of| 1.0 / f64::from(of)).sum();
                    let own = 1.5e-3 + 0.4e-3 + serial * (ranks + 1.0) / 2.0;
                    let slowest = 1.5e-3 + 0.4e-3 * longest + serial * ranks;
                    let observed = [("own", own * noise), ("slowest", slowest * noise)];
                    all.push(sample("ranks", &[("ranks", ranks)], &observed, trial));
                }
            }
            let fits = parts(&all.iter().collect::<Vec<_>>(), 16.0, 200);
            let value = |name| fits["ranks"].value(name).unwrap_or(0.0);
            assert!((value("work") / 1.5e-3 - 1.0).abs() < 0.04, "{serial}: {}", value("work"));
            assert!((value("varying") / 0.4e-3 - 1.0).abs() < 0.08, "{}", value("varying"));
            assert!((value("serial") - serial).abs() < 0.02e-3, "{serial}: {}", value("serial"));
        }
    }

    #[test]
    fn the_lock_of_an_interpreter_shows_where_threads_wait_for_each_other() {
        // System: images of 2 ms; two threads of one library need 1.2 ms for each, those of another 1 ms; four threads on two cores say
        // nothing. Expectation: a lock that is held for 60 % of the work, and none that shows.
        let mut all = Vec::new();
        for trial in 0..8_u32 {
            let noise = 1.0 + 0.004 * f64::from(trial % 3);
            for (library, two) in [("pillow", 1.2e-3), ("turbo", 1.0e-3)] {
                for (part, threads, seconds) in
                    [("decode", 1.0, 2e-3), ("threads", 2.0, two), ("threads", 4.0, 3e-3)]
                {
                    let settings = [("bytes", 3e4), ("threads", threads)];
                    let mut one = sample(part, &settings, &[("seconds", seconds * noise)], trial);
                    one.labels.insert("format".to_owned(), library.to_owned());
                    all.push(one);
                }
            }
        }
        let fits = parts(&all.iter().collect::<Vec<_>>(), 2.0, 200);
        let share = |library: &str| &fits[library].parameters["share"];
        assert!(
            (share("lock-pillow").value / 0.6 - 1.0).abs() < 0.02,
            "{:?}",
            share("lock-pillow")
        );
        assert!(share("lock-pillow").ci95.is_some());
        assert_eq!(share("lock-turbo").value, 0.0);
        assert!(
            share("lock-turbo")
                .unidentified
                .as_ref()
                .is_some_and(|why| why.contains("at most 0.50"))
        );
    }
}
