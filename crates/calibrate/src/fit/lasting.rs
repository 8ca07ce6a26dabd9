//! How long the noise of a machine lasts: trials that follow each other soon are slow together.

use super::cell::median;
use crate::measurement::Sample;
use std::collections::BTreeMap;

/// Smallest number of equal trials whose deviations from their mean count.
const FEWEST: usize = 4;
/// Largest deviation that counts [median absolute deviations]: three standard deviations of a normal distribution.
const CLIPPED: f64 = 4.45;
/// Longest lag, as a share of the time from the first trial to the last: beyond, there are few pairs of trials.
const LONGEST: f64 = 0.25;
/// Smallest number of pairs of trials that tell a correlation.
const PAIRS: usize = 30;

/// The deviation of a trial from the mean of those equal to it.
#[derive(Debug, Clone, Copy)]
struct Deviation {
    at: f64,
    off: f64,
    /// Number of the kind of trials.
    kind: usize,
}

/// Returns the time for which deviations of trials of `length` last [s]: that length, and twice the integral of their autocorrelation
/// over longer lags, up to the first lag without one. The variance of a run's mean is that of a trial, times this time, divided by the
/// run's. Pairs of equal trials do not count, because deviations from a mean of few are correlated by themselves.
pub(super) fn lasting(samples: &[&Sample], length: f64) -> f64 {
    let all = deviations(samples);
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return length };
    let longest = LONGEST * (last.at - first.at);
    let variance = all.iter().map(|of| of.off.powi(2)).sum::<f64>() / all.len() as f64;
    if variance <= 0.0 || length <= 0.0 {
        return length;
    }
    let (mut from, mut to, mut lasts) = (length / 2.0, 1.5 * length, length);
    while to <= longest {
        let Some(covariance) = covariance(&all, from, to).filter(|of| *of > 0.0) else { break };
        lasts += 2.0 * (covariance / variance).min(1.0) * (to - from);
        (from, to) = (to, 2.0 * to);
    }
    lasts
}

/// Returns the deviations of all trials that have enough equal ones, in order of time.
fn deviations(samples: &[&Sample]) -> Vec<Deviation> {
    let mut kinds: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let kind = format!("{} {:?} {:?}", sample.probe, sample.labels, sample.settings);
        let value = sample.seconds_each().ln();
        if value.is_finite() {
            kinds.entry(kind).or_default().push((sample.at, value));
        }
    }
    let mut all = Vec::new();
    for (kind, trials) in kinds.into_values().filter(|of| of.len() >= FEWEST).enumerate() {
        let mean = trials.iter().map(|(_, value)| value).sum::<f64>() / trials.len() as f64;
        all.extend(trials.iter().map(|(at, value)| Deviation { at: *at, off: value - mean, kind }));
    }
    let most = CLIPPED * median(&mut all.iter().map(|of| of.off.abs()).collect::<Vec<_>>());
    all.iter_mut().for_each(|of| of.off = of.off.clamp(-most, most));
    all.sort_by(|a, b| a.at.total_cmp(&b.at));
    all
}

/// Returns the mean product of the deviations of trials of different kinds that lie between `from` and `to` [s] apart; `None` if there
/// are few such pairs.
fn covariance(all: &[Deviation], from: f64, to: f64) -> Option<f64> {
    let (mut sum, mut pairs) = (0.0, 0);
    for (index, one) in all.iter().enumerate() {
        let later = all[index + 1..].iter().take_while(|other| other.at - one.at < to);
        for other in later.filter(|other| other.at - one.at >= from && other.kind != one.kind) {
            sum += one.off * other.off;
            pairs += 1;
        }
    }
    (pairs >= PAIRS).then(|| sum / pairs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials of 0.1 s of 20 kinds in turns, for which the machine keeps a pace of ±10 % for `pace` trials.
    fn samples(pace: usize) -> Vec<Sample> {
        let noise = |number: usize| ((number * 7919 + 13) % 101) as f64 / 50.0 - 1.0;
        let one = |index: usize| Sample {
            probe: "decode".to_owned(),
            labels: BTreeMap::new(),
            settings: [("bytes".to_owned(), (1 + index % 20) as f64)].into(),
            trial: (index / 20) as u32,
            operations: 100,
            seconds: 0.1 * (0.1 * noise(index / pace)).exp(),
            core_seconds: 0.1,
            observed: BTreeMap::new(),
            beside: None,
            excluded: None,
            at: 0.1 * (index + 1) as f64,
        };
        (0..1600).map(one).collect()
    }

    #[test]
    fn noise_lasts_as_long_as_the_machine_keeps_its_pace() {
        // System: a pace for one trial, and for 30, which is 3 s. Expectation: the length of a trial; the integral time of a pace that is
        // kept for 3 s, which is 3 s.
        let lasting = |pace| lasting(&samples(pace).iter().collect::<Vec<_>>(), 0.1);
        let (one, many) = (lasting(1), lasting(30));
        assert!((0.1..0.25).contains(&one), "{one}");
        assert!((2.0..4.5).contains(&many), "{many}");
    }

    #[test]
    fn a_few_trials_say_nothing_of_how_long_noise_lasts() {
        let few = samples(30);
        assert_eq!(lasting(&few[..40].iter().collect::<Vec<_>>(), 0.1), 0.1);
        assert_eq!(lasting(&[], 0.1), 0.1);
    }
}
