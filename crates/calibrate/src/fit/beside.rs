//! What others took during the measurement, and what fits find without the trials beside them.

use super::estimate::rounded;
use crate::measurement::Sample;
use forebay_scenario::profile::{Alone, Neighbours, Profile};

/// Returns what others took, over all samples that count; `None` if each of them ran alone.
pub(super) fn neighbours(samples: &[&Sample]) -> Option<Neighbours> {
    let beside = samples.iter().filter(|sample| sample.beside.is_some()).count();
    if beside == 0 {
        return None;
    }
    let observed = |sample: &Sample, name: &str| sample.observed.get(name).copied().unwrap_or(0.0);
    let count = samples.len() as f64;
    let mean = |name: &str| samples.iter().map(|s| observed(s, name)).sum::<f64>() / count;
    let waited: f64 = samples.iter().map(|sample| observed(sample, "waited")).sum();
    let cores: f64 = samples.iter().map(|sample| sample.core_seconds).sum();
    let asked = (waited + cores).max(f64::MIN_POSITIVE);
    Some(Neighbours {
        beside: rounded(beside as f64 / count),
        others: rounded(mean("others")),
        waited: rounded(waited / asked),
        throttled: rounded(mean("throttled")),
    })
}

/// Adds to each fit of `found` what the fit of the same name in `alone`, from the trials that ran alone, determines.
pub(super) fn add_alone(found: &mut Profile, alone: &Profile) {
    let paths: Vec<Vec<String>> = found.fits().into_iter().map(|(path, _)| path).collect();
    for path in paths {
        let other = alone.fits().into_iter().find(|(at, _)| *at == path).map(|(_, fit)| fit);
        let Some(fit) = found.fit_mut(&path) else { continue };
        let trials = other.map_or(0, |other| other.samples);
        if trials == fit.samples {
            continue;
        }
        let told = other.into_iter().flat_map(|other| &other.parameters);
        let told = told.filter(|(name, of)| {
            of.unidentified.is_none() && of.value.is_finite() && fit.parameters.contains_key(*name)
        });
        let values = told.map(|(name, of)| (name.clone(), of.value)).collect();
        let share = rounded((trials as f64 / fit.samples.max(1) as f64).min(1.0));
        fit.alone = Some(Alone { share, values });
    }
}
