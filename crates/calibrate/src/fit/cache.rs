//! Fits the policy and the size of the page cache to the hits of second passes over working sets.

use super::bootstrap;
use super::estimate::{KEPT, rounded};
use crate::measurement::Sample;
use forebay_model::law::{CachePolicy, PassOrder};
use forebay_scenario::profile::{Fit, Parameter};
use std::collections::BTreeMap;

/// Smallest share of hits at which the page cache counts as having kept the whole working set.
const WHOLE: f64 = 0.95;
/// A policy explains the hits as well as the best one if its error is at most this many times the best error, or at most
/// [`SMALL`].
const AS_WELL: f64 = 1.5;
/// Root mean square error of the share of hits that the noise of trials alone may cause.
const SMALL: f64 = 0.03;
/// Root mean square error of the share of hits above which a policy does not explain the hits.
const UNLIKE: f64 = 0.12;
/// Number of cache sizes that are tried in each round of the search; neighbouring sizes have the same ratio.
const STEPS: u32 = 240;

/// The second pass over a working set, with the share of its reads that hit the page cache.
#[derive(Debug, Clone, Copy)]
struct Pass {
    order: PassOrder,
    /// Size of the working set [B].
    bytes: f64,
    hits: f64,
}

/// Returns the fitted size of the page cache for each policy that explains the hits; several policies if the hits do not identify
/// one. If the cache kept all working sets, the only key is `any`.
pub(super) fn cache(samples: &[&Sample], draws: usize) -> BTreeMap<String, Fit> {
    let passes: Vec<Pass> = samples.iter().filter_map(|sample| pass(sample)).collect();
    let Some(largest) = passes.iter().map(|pass| pass.bytes).reduce(f64::max) else {
        return BTreeMap::new();
    };
    // A single read may be slow for another reason, so more than half of the passes must miss.
    let missed = passes.iter().filter(|pass| pass.bytes == largest && pass.hits < WHOLE).count();
    let of_largest = passes.iter().filter(|pass| pass.bytes == largest).count();
    if 2 * missed <= of_largest {
        return [("any".to_owned(), whole(&passes, largest))].into();
    }
    let all: Vec<usize> = (0..passes.len()).collect();
    let found = CachePolicy::TOLD.map(|policy| {
        let size = best_size(policy, &passes, &all, largest);
        (policy, size, error(policy, size, &passes, &all))
    });
    let least = found.iter().map(|(.., error)| *error).fold(f64::INFINITY, f64::min);
    let explains = |error: f64| error <= (AS_WELL * least).max(SMALL);
    let candidates: Vec<_> = found.into_iter().filter(|(.., error)| explains(*error)).collect();
    let doubt = doubt(&candidates, least);
    let of = |(policy, size, error): (CachePolicy, f64, f64)| {
        let fit = fit(policy, size, error, &passes, largest, draws, doubt.clone());
        (policy.name().to_owned(), fit)
    };
    candidates.into_iter().map(of).collect()
}

fn pass(sample: &Sample) -> Option<Pass> {
    let order = match sample.label("order") {
        "cyclic" => PassOrder::Cyclic,
        "shuffled" => PassOrder::Shuffled,
        _ => return None,
    };
    let hits = *sample.observed.get("hits")?;
    let bytes = sample.setting("bytes");
    ((0.0..=1.0).contains(&hits) && bytes > 0.0).then_some(Pass { order, bytes, hits })
}

/// Returns the fit for a cache that kept all working sets: the cache is at least as large as the largest working set.
fn whole(passes: &[Pass], largest: f64) -> Fit {
    let why = format!(
        "the page cache kept all of {:.1} MB: its size is at least that, and its policy is unknown; write a larger `disk` in \
         the plan's [cache] to find it",
        largest / 1e6
    );
    let size = parameter(rounded(largest), None, Some(why));
    let samples = passes.len() as u64;
    Fit { parameters: size, samples, range: range(passes), ..Fit::default() }
}

/// Returns why the policy or its size is not identified; `None` if it is.
fn doubt(candidates: &[(CachePolicy, f64, f64)], least: f64) -> Option<String> {
    if least > UNLIKE {
        return Some(format!(
            "no policy explains the hits: the nearest is off by {:.0} % of the reads",
            100.0 * least
        ));
    }
    let names: Vec<&str> = candidates.iter().map(|(policy, ..)| policy.name()).collect();
    (names.len() > 1).then(|| format!("{} explain the hits equally well", names.join(" and ")))
}

fn fit(
    policy: CachePolicy,
    size: f64,
    error: f64,
    passes: &[Pass],
    largest: f64,
    draws: usize,
    doubt: Option<String>,
) -> Fit {
    let indices: Vec<f64> = (0..passes.len()).map(|index| index as f64).collect();
    let drawn = bootstrap::plain_draws(&indices, draws, |picked| {
        let picked: Vec<usize> = picked.iter().map(|index| *index as usize).collect();
        best_size(policy, passes, &picked, largest)
    });
    let drawn: Vec<Vec<f64>> = drawn.into_iter().map(|size| vec![rounded(size)]).collect();
    let size = rounded(size);
    let ci95 = bootstrap::interval(&drawn, 0, size);
    let narrow = || match ci95 {
        None => Some("too few trials for an interval".to_owned()),
        Some([low, high]) => {
            (high - low > size).then(|| "the interval is wider than the value".to_owned())
        }
    };
    Fit {
        parameters: parameter(size, ci95, doubt.or_else(narrow)),
        samples: passes.len() as u64,
        residual: rounded(error),
        alone: None,
        ratios: Vec::new(),
        range: range(passes),
        draws: drawn.into_iter().take(KEPT).collect(),
    }
}

fn parameter(
    value: f64,
    ci95: Option<[f64; 2]>,
    unidentified: Option<String>,
) -> BTreeMap<String, Parameter> {
    [("size".to_owned(), Parameter { value, unit: "B".to_owned(), ci95, unidentified })].into()
}

fn range(passes: &[Pass]) -> BTreeMap<String, [f64; 2]> {
    let bytes = || passes.iter().map(|pass| pass.bytes);
    let ends = [bytes().fold(f64::INFINITY, f64::min), bytes().fold(0.0, f64::max)];
    [("bytes".to_owned(), ends)].into()
}

/// Returns the root mean square difference between the share of hits that a policy predicts and the measured one.
fn error(policy: CachePolicy, size: f64, passes: &[Pass], picked: &[usize]) -> f64 {
    let square = |&index: &usize| {
        let Pass { order, bytes, hits } = passes[index];
        (policy.hits(order, size / bytes) - hits).powi(2)
    };
    (picked.iter().map(square).sum::<f64>() / picked.len().max(1) as f64).sqrt()
}

/// Returns the cache size with the smallest error: the best size on a coarse grid, then on finer grids around this size.
fn best_size(policy: CachePolicy, passes: &[Pass], picked: &[usize], largest: f64) -> f64 {
    let (mut low, mut high) = (largest / 64.0, largest * 2.0);
    let mut best = low;
    for _ in 0..3 {
        let at = |step: u32| low * (high / low).powf(f64::from(step) / f64::from(STEPS));
        let error = |size: f64| error(policy, size, passes, picked);
        let sizes = (0..=STEPS).map(at);
        best = sizes.min_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(best);
        let ratio = (high / low).powf(2.0 / f64::from(STEPS));
        (low, high) = (best / ratio, best * ratio);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::random::{Generator, Purpose, Streams};
    use rand::RngExt;

    fn sample(order: &str, bytes: f64, hits: f64) -> Sample {
        Sample {
            probe: "cache".into(),
            labels: [("order".to_owned(), order.to_owned())].into(),
            settings: [("bytes".to_owned(), bytes)].into(),
            trial: 0,
            operations: 1,
            seconds: 1.0,
            core_seconds: 0.0,
            observed: [("hits".to_owned(), hits)].into(),
            beside: None,
            excluded: None,
            at: 0.0,
        }
    }

    /// Returns noisy trials as the probe would make them with a cache of `size`.
    fn trials(policy: CachePolicy, size: f64, generator: &mut Generator) -> Vec<Sample> {
        let mut all = Vec::new();
        for bytes in [16e6, 32e6, 64e6, 128e6] {
            for (name, order) in [("cyclic", PassOrder::Cyclic), ("shuffled", PassOrder::Shuffled)]
            {
                for _ in 0..3 {
                    let noise: f64 = 0.02 * (generator.random::<f64>() - 0.5);
                    let hits = (policy.hits(order, size / bytes) + noise).clamp(0.0, 1.0);
                    all.push(sample(name, bytes, hits));
                }
            }
        }
        all
    }

    fn found(samples: &[Sample]) -> BTreeMap<String, Fit> {
        cache(&samples.iter().collect::<Vec<_>>(), 200)
    }

    #[test]
    fn the_fit_recovers_the_policy_and_size_of_a_simulated_cache() {
        let mut generator = Streams::new(3, 0).at(Purpose::Trial, 0, 0, 0);
        for policy in CachePolicy::TOLD {
            for size in [20e6, 45e6, 90e6] {
                let mut fits = found(&trials(policy, size, &mut generator));
                if size == 90e6 {
                    // Only one set does not fit, so a different size lets `random` explain the hits of `minio`, or the reverse.
                    fits.retain(|name, fit| {
                        let doubt =
                            &mut fit.parameters.get_mut("size").expect("a size").unidentified;
                        *doubt = doubt.take().filter(|why| !why.contains("equally well"));
                        name == policy.name()
                    });
                }
                let names: Vec<&String> = fits.keys().collect();
                assert_eq!(names, [policy.name()], "{size}");
                let parameter = &fits[policy.name()].parameters["size"];
                assert!((parameter.value / size - 1.0).abs() < 0.05, "{policy:?} {parameter:?}");
                assert_eq!(parameter.unidentified, None);
                let [low, high] = parameter.ci95.expect("an interval");
                assert!(low <= parameter.value && parameter.value <= high);
            }
        }
    }

    #[test]
    fn the_policy_of_a_cache_that_keeps_everything_is_not_identified() {
        let fits = found(&[sample("cyclic", 1e6, 1.0), sample("shuffled", 8e6, 0.99)]);
        let size = &fits["any"].parameters["size"];
        assert_eq!(size.value, 8e6);
        assert!(size.unidentified.as_ref().is_some_and(|why| why.contains("kept all of 8.0 MB")));
        assert!(found(&[]).is_empty());
    }

    #[test]
    fn all_policies_that_explain_the_hits_equally_well_are_named() {
        // With one set in one order, each policy has a size that gives these hits.
        let fits = found(&[sample("shuffled", 16e6, 0.3), sample("shuffled", 16e6, 0.31)]);
        assert!(fits.len() > 1, "{fits:?}");
        for fit in fits.values() {
            let why = fit.parameters["size"].unidentified.as_ref().expect("a reason");
            assert!(why.contains("explain the hits equally well"), "{why}");
        }
    }

    #[test]
    fn hits_that_no_policy_explains_are_reported() {
        // More hits in the same order than in a different one.
        let hits = [("cyclic", 0.9), ("shuffled", 0.1)];
        let odd: Vec<Sample> =
            hits.iter().flat_map(|(order, hits)| [sample(order, 8e6, *hits); 1]).collect();
        for fit in found(&odd).values() {
            let why = fit.parameters["size"].unidentified.as_ref().expect("a reason");
            assert!(why.contains("no policy explains"), "{why}");
        }
    }
}
