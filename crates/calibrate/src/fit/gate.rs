//! Fits the gate of a throttle, from reads after a rest: its period, and the speed of the storage behind it.

use super::cell::median;
use super::estimate::{Law, Term};
use super::laws::{cells, join};
use super::others::{plain, resampled};
use super::shape::Piece;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;
use std::collections::BTreeMap;

/// Share of the trials of a size that must stop. A storage of another kind stops now and then.
const STOPPING: f64 = 0.75;
/// Largest scatter of a period: the median deviation from the median, relative to it.
const SCATTER: f64 = 0.1;
/// Smallest number of requests before a stop. Where fewer pass, a period is known too roughly.
const FEWEST: u64 = 8;

const OPEN: Law<'static> = Law {
    pieces: &[Piece { columns: 2, features: |x| [1.0, x[0], 0.0] }],
    terms: &[
        Term { name: "latency", unit: "s", at: (0, 0), rate: false, unseen: "" },
        Term { name: "per_stream", unit: "B/s", at: (0, 1), rate: true, unseen: "" },
    ],
    settings: &["size"],
};

/// Fits a gate; `None` if the storage does not stop.
pub(super) fn gate(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let periods = periods(samples)?;
    let fewest = samples.iter().map(|sample| sample.setting("readers")).reduce(f64::min)?;
    let (alone, together): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().partition(|sample| sample.setting("readers") <= fewest);
    let open = cells(&alone, OPEN.settings, Sample::seconds_each);
    let mut fit = OPEN.fit(&open, &[vec![0; open.cells.len()]], draws)?;
    let (value, drawn) = resampled(&periods, draws, median)?;
    join(&mut fit, plain(&["period".to_owned()], "s", &[value], &drawn));
    let most = together.iter().map(|sample| sample.setting("readers")).reduce(f64::max);
    let rates = together.iter().filter(|sample| Some(sample.setting("readers")) == most);
    let rates: Vec<f64> = rates
        .map(|sample| sample.setting("size") / sample.seconds_each())
        .filter(|rate| rate.is_finite())
        .collect();
    if let Some((value, drawn)) = resampled(&rates, draws, median) {
        join(&mut fit, plain(&["bandwidth".to_owned()], "B/s", &[value], &drawn));
    }
    fit.samples = samples.len() as u64;
    Some(fit)
}

/// Returns the times from the first request to the end of the stop [s], for the size of which most requests pass before; `None` if the
/// storage does not stop each time after as long.
fn periods(samples: &[&Sample]) -> Option<Vec<f64>> {
    let mut groups: BTreeMap<[u64; 2], Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let key = ["size", "readers"].map(|name| sample.setting(name) as u64);
        groups.entry(key).or_default().push(sample);
    }
    let stops = |group: &Vec<&Sample>| {
        let again = |sample: &&Sample| {
            let of = |name: &str| sample.observed.get(name).copied().filter(|at| *at > 0.0);
            of("stopped").and(of("again"))
        };
        let found: Vec<f64> = group.iter().filter_map(again).collect();
        (found.len() as f64 >= STOPPING * group.len() as f64).then_some(found)
    };
    let passing = |group: &Vec<&Sample>| group.iter().map(|of| of.operations).min().unwrap_or(0);
    let stopping = groups.values().filter_map(|group| Some((passing(group), stops(group)?)));
    let (passed, found) = stopping.max_by_key(|(passed, _)| *passed)?;
    let middle = median(&mut found.clone());
    let off = median(&mut found.iter().map(|one| (one / middle - 1.0).abs()).collect::<Vec<_>>());
    (passed >= FEWEST && off < SCATTER).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials of three sizes with one reader and of the largest with four, behind a gate that lets `allowed` bytes pass every 100 ms, or
    /// on a free disk: 0.15 ms and 1 GB/s for each request, 2 GB/s for all.
    fn samples(allowed: Option<f64>) -> Vec<Sample> {
        let mut all = Vec::new();
        for (size, readers) in [(32768.0, 1.0), (262144.0, 1.0), (1048576.0, 1.0), (1048576.0, 4.0)]
        {
            for trial in 0..4_u32 {
                let noise = 1.0 + 0.01 * f64::from(trial % 3);
                let alone: f64 = 0.15e-3 + size / 1e9;
                let each = alone.max(readers * size / 2e9) / readers * noise;
                let passed = allowed.map_or(0.3 / each, |bytes| bytes / size).floor();
                let again = allowed.map_or(0.0, |_| 0.1 * noise);
                let stopped = allowed.map_or(0.0, |_| passed * each);
                let observed = [("stopped", stopped), ("again", again)];
                all.push(Sample {
                    probe: "gate".to_owned(),
                    labels: [("access".to_owned(), "direct".to_owned())].into(),
                    settings: [("size".to_owned(), size), ("readers".to_owned(), readers)].into(),
                    trial,
                    operations: passed as u64,
                    seconds: passed * each,
                    core_seconds: 0.0,
                    observed: observed.map(|(name, value)| (name.to_owned(), value)).into(),
                    beside: None,
                    excluded: None,
                    at: f64::from(trial),
                });
            }
        }
        all
    }

    fn fitted(samples: &[Sample]) -> Option<Fit> {
        gate(&samples.iter().collect::<Vec<_>>(), 200)
    }

    #[test]
    fn the_period_of_a_gate_and_the_speed_behind_it_are_found() {
        // System: 44 MB/s in periods of 100 ms. Expectation: the period, the latency and both bandwidths of the disk behind the gate.
        let fit = fitted(&samples(Some(4.4e6))).expect("a gate");
        let expected =
            [("period", 0.1), ("latency", 0.15e-3), ("per_stream", 1e9), ("bandwidth", 2e9)];
        for (name, value) in expected {
            let found = fit.value(name).unwrap_or(0.0);
            assert!((found / value - 1.0).abs() < 0.05, "{name}: {found} for {value}");
        }
    }

    #[test]
    fn a_storage_that_does_not_stop_or_stops_at_random_has_no_gate() {
        assert_eq!(fitted(&samples(None)), None);
        let mut wandering = samples(Some(4.4e6));
        for (index, sample) in wandering.iter_mut().enumerate() {
            *sample.observed.get_mut("again").expect("there") *= 1.0 + (index * 7 % 5) as f64;
        }
        assert_eq!(fitted(&wandering), None);
        let mut seldom = samples(Some(4.4e6));
        for sample in seldom.iter_mut().filter(|sample| sample.trial > 1) {
            sample.observed.clear();
        }
        assert_eq!(fitted(&seldom), None);
        assert_eq!(fitted(&[]), None);
    }
}
