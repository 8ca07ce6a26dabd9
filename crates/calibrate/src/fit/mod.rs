//! Fits the parameters of laws to raw samples. The functions are pure: the same samples give the same bytes.
//!
//! Equal trials become a cell with a robust mean, in which outliers do not count. Each law is the maximum of a few sums. It is
//! fitted to the cells by Huber's reweighted least squares on relative residuals (Huber, *Robust Statistics*, 1981). A bootstrap
//! over blocks of time gives intervals and joint draws. Deviations of cells from the law beyond their own noise widen the
//! intervals too. A parameter on which the time of no trial depends has no value, but an explanation for the user; a limit that
//! never bound a trial counts as absent.

mod additions;
#[cfg(test)]
mod averaging_tests;
mod bootstrap;
mod burst;
mod cache;
mod cell;
#[cfg(test)]
mod coverage_tests;
mod device;
#[cfg(test)]
mod device_tests;
mod estimate;
mod gate;
mod lasting;
mod laws;
mod learners;
mod loader;
mod nodes;
mod others;
mod ranges;
mod service;
mod shape;
mod shared;
mod sizes;
mod solve;
#[cfg(test)]
mod tests;
mod throughput;
mod transport;
#[cfg(test)]
mod transport_tests;

pub use nodes::{AGAIN, Behind, behind};
pub use shared::{ReadTrial, read_trials};

use crate::measurement::Sample;
use estimate::rounded;
use forebay_scenario::profile::{Alone, Fit, Host, Neighbours, Profile, Provenance};
use std::collections::BTreeMap;

/// Number of bootstrap draws for every interval.
const DRAWS: usize = 400;

/// Returns the profile of everything that the samples determine. Samples that are marked as excluded, or whose time is no
/// positive number, are left out.
#[must_use]
pub fn profile(samples: &[Sample], provenance: Provenance, host: Host) -> Profile {
    let counts = |s: &&Sample| s.excluded.is_none() && !s.labels.contains_key(AGAIN);
    let all: Vec<&Sample> = samples.iter().filter(counts).collect();
    let mut found = fitted(&all, provenance, host);
    if let Some(others) = neighbours(&all) {
        let alone: Vec<&Sample> = all.iter().filter(|s| s.beside.is_none()).copied().collect();
        let alone = fitted(&alone, Provenance::default(), found.host.clone());
        add_alone(&mut found, &alone);
        found.neighbours = Some(others);
    }
    found
}

/// Returns what others took, over all samples that count; `None` if each of them ran alone.
fn neighbours(samples: &[&Sample]) -> Option<Neighbours> {
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
fn add_alone(found: &mut Profile, alone: &Profile) {
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

/// Returns the profile of these samples, alone or not.
fn fitted(all: &[&Sample], provenance: Provenance, host: Host) -> Profile {
    let of = |probe: &str| all.iter().filter(|s| s.probe == probe).copied().collect::<Vec<_>>();
    let (read, decode, step) = (of("read"), of("decode"), of("step"));
    let pytorch = of("pytorch");
    let in_python = pytorch.iter().filter(|sample| sample.label("part") == "decode");
    let images: Vec<&Sample> = decode.iter().chain(in_python).copied().collect();
    let plain: Vec<&Sample> = step.iter().filter(|s| averages(s).is_none()).copied().collect();
    let transport = transport::transports(&of("collective"), DRAWS);
    let number = host.cores;
    let cores = others::cores(&decode, &read, number, DRAWS);
    let seconds = Sample::seconds_each;
    let equals = [
        by(&read, read_key, |group| laws::cells(group, &["size", "readers"], seconds)),
        by(
            &images,
            |s| s.label("format").to_owned(),
            |group| laws::cells(group, &others::WORK, seconds),
        ),
        by(
            &step,
            |s| format!("{}/{}", s.label("model"), s.label("device")),
            |group| laws::cells(group, &["batch", "threads"], seconds),
        ),
    ];
    let equals: Vec<_> = equals.into_iter().flat_map(BTreeMap::into_values).collect();
    let timed = read.iter().chain(&images).chain(&step);
    let length = cell::median(&mut timed.map(|sample| sample.seconds).collect::<Vec<_>>());
    let computed: Vec<&Sample> = images.iter().chain(&step).copied().collect();
    let lasts = lasting::lasting(&computed, length);
    Profile {
        provenance,
        host,
        neighbours: None,
        read: fits(&read, read_key, "records", |group| laws::read(group, DRAWS)),
        burst: fits(
            &of("burst"),
            |s| format!("{}/", s.label("access")),
            "",
            |group| burst::burst(group, DRAWS),
        ),
        gate: fits(
            &of("gate"),
            |s| format!("{}/", s.label("access")),
            "",
            |group| gate::gate(group, DRAWS),
        ),
        service: fits(
            &of("service"),
            |s| format!("{}/", s.label("access")),
            "",
            |group| service::service(group, DRAWS),
        ),
        storage: shared::storage(all, DRAWS),
        network: nodes::network(all, DRAWS),
        beside: nodes::beside(all, DRAWS),
        node: nodes::nodes(all, DRAWS),
        decode: fits(&images, decode_key, "0", |group| laws::decode(group, DRAWS)),
        loader: by(
            &pytorch,
            |sample| sample.probe.clone(),
            |group| loader::parts(group, number, DRAWS),
        ),
        step: steps(&step),
        learners: by_two(&plain, model_and_way, |group| learners::sharing(group, DRAWS)),
        averaging: by_two(&step, model_and_way, |group| learners::averaging(group, DRAWS)),
        memory: by_two(&plain, model_and_way, |group| device::memory(group, DRAWS)),
        copy: by_two(
            &of("copy"),
            |s| (s.label("device").to_owned(), device::copy_key(s)),
            |group| device::copy(group, DRAWS),
        ),
        queue: others::queue(&of("queue"), DRAWS),
        cores,
        cache: cache::cache(&of("cache"), DRAWS),
        transport,
        noise: others::noise(&equals, lasts, DRAWS),
        throughput: fits(&read, read_key, "records", throughput::table),
    }
}

/// Returns the access mode and the layout of a read, as a key.
fn read_key(sample: &Sample) -> String {
    format!("{}/{}", sample.label("access"), sample.label("layout"))
}

/// Returns the format and the size after resizing (0 without resizing), as a key.
fn decode_key(sample: &Sample) -> String {
    let resize = sample.settings.get("resize").copied().unwrap_or(0.0);
    format!("{}/{resize}", sample.label("format"))
}

/// Groups samples by `key`.
fn grouped<'s>(
    samples: &[&'s Sample],
    key: impl Fn(&Sample) -> String,
) -> BTreeMap<String, Vec<&'s Sample>> {
    let mut groups: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        groups.entry(key(sample)).or_default().push(sample);
    }
    groups
}

/// Groups samples by `key` and converts each group by `turn`.
fn by<T>(
    samples: &[&Sample],
    key: impl Fn(&Sample) -> String,
    turn: impl Fn(&[&Sample]) -> T,
) -> BTreeMap<String, T> {
    grouped(samples, key).into_iter().map(|(key, group)| (key, turn(&group))).collect()
}

/// Returns fits by the first part of a two-part key, such as `direct`. If several keys have the same first part, only the fit
/// with the second part `usual` (or the first fit, if none has it) is named so. The other fits are named by both parts, such as
/// `direct-file-per-sample`.
fn fits<T: Clone>(
    samples: &[&Sample],
    key: impl Fn(&Sample) -> String,
    usual: &str,
    fit: impl Fn(&[&Sample]) -> Option<T>,
) -> BTreeMap<String, T> {
    let found: Vec<(String, T)> =
        by(samples, key, fit).into_iter().filter_map(|(key, fit)| Some((key, fit?))).collect();
    let halves = |key: &str| {
        let (first, second) = key.split_once('/').unwrap_or((key, ""));
        (first.to_owned(), second.to_owned())
    };
    let count = |first: &str| found.iter().filter(|(key, _)| halves(key).0 == first).count();
    let has_usual = |first: &str| {
        found.iter().any(|(key, _)| halves(key) == (first.to_owned(), usual.to_owned()))
    };
    let mut fits = BTreeMap::new();
    for (key, fit) in &found {
        let (first, second) = halves(key);
        let plain = count(&first) == 1
            || second == usual
            || (!has_usual(&first) && !fits.contains_key(&first));
        fits.insert(if plain { first } else { format!("{first}-{second}") }, fit.clone());
    }
    fits.retain(|name, _| !name.is_empty());
    fits
}

/// Fits training steps, by model and device.
fn steps(samples: &[&Sample]) -> BTreeMap<String, BTreeMap<String, Fit>> {
    let names = |s: &Sample| (s.label("model").to_owned(), s.label("device").to_owned());
    by_two(samples, names, |group| laws::step(group, DRAWS))
}

/// Returns the number of steps between two averagings of a sample's learners; `None` if they did not average.
fn averages(sample: &Sample) -> Option<f64> {
    sample.settings.get("average_every").copied()
}

/// Returns the model and the way of a sample of training.
fn model_and_way(sample: &Sample) -> (String, String) {
    (sample.label("model").to_owned(), way(sample))
}

/// Returns the device label of a sample of training on a GPU, without the number of learners and their averaging in the label;
/// empty for training on cores.
fn way(sample: &Sample) -> String {
    let device = sample.label("device");
    if !sample.settings.contains_key("gpu") {
        return String::new();
    }
    let averaging = averages(sample).map(|every| format!("-averaging-{every}")).unwrap_or_default();
    let device = device.strip_suffix(&averaging).unwrap_or(device);
    let several = format!("-{}-learners", sample.setting("learners"));
    device.strip_suffix(&several).unwrap_or(device).to_owned()
}

/// Returns fits by the two names that `names` gives a sample; samples that lack a name are left out.
fn by_two(
    samples: &[&Sample],
    names: impl Fn(&Sample) -> (String, String),
    fit: impl Fn(&[&Sample]) -> Option<Fit>,
) -> BTreeMap<String, BTreeMap<String, Fit>> {
    let mut groups: BTreeMap<(String, String), Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        groups.entry(names(sample)).or_default().push(sample);
    }
    let mut fits: BTreeMap<String, BTreeMap<String, Fit>> = BTreeMap::new();
    for ((outer, inner), group) in groups {
        if let (Some(fit), false) = (fit(&group), outer.is_empty() || inner.is_empty()) {
            fits.entry(outer).or_default().insert(inner, fit);
        }
    }
    fits
}
