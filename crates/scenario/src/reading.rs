//! The profile that a scenario names; each profile file is read once, however many grid points a sweep has.

use super::document::{Document, NodeId, ROOT};
use super::file::ScenarioFile;
use super::overrides::Override;
use super::problem::{Log, Problems, Source};
use crate::profile::{Fit, Profile};
use forebay_model::law::{DecodeLaw, ReadLaw, StepLaw};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Options for reading a scenario.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading<'p> {
    /// Profile of the machine, used instead of the profile that the file names.
    pub profile: Option<&'p Profile>,
    /// Whether the scenario is read for a live run. Then a key that only a simulation needs may be missing from both the file and
    /// the profile: a missing bandwidth is infinite, a missing time is 0, and a missing number of cores is 1.
    pub live: bool,
}

/// Cache of profiles, by path; for a profile that cannot be read, the cache has the error.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache(Arc<Mutex<BTreeMap<PathBuf, Read>>>);

/// A profile, or the error with which reading it failed.
type Read = Result<Arc<Profile>, String>;

impl Cache {
    fn read(&self, path: PathBuf) -> Read {
        // A thread that panicked has left no entry half written here.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || Profile::open(&path).map(Arc::new).map_err(|error| error.to_string());
        if let Some(read) = known.get(&path) {
            return read.clone();
        }
        let read = open();
        known.insert(path, read.clone());
        read
    }
}

impl ScenarioFile {
    /// Returns the paths of the files that the scenario names and that have been read so far: profiles, and files of values. All of
    /// them have been read once the scenario has been resolved.
    #[must_use]
    pub fn files_read(&self) -> Vec<PathBuf> {
        let profiles = self.profiles.0.lock().unwrap_or_else(PoisonError::into_inner);
        profiles.keys().cloned().chain(self.values.paths()).collect()
    }

    /// Returns the profile that the file names, with these overrides; none if the file names none.
    ///
    /// # Errors
    /// If the profile cannot be read.
    pub fn profile(&self, overrides: &[Override]) -> Result<Option<Arc<Profile>>, Problems> {
        let document = self.changed(overrides);
        let log = Log::default();
        let profile = self.named_profile(&document, &log).flatten();
        let source = Source { file: &self.name, text: &self.text, document: &document, overrides };
        log.into_problems(&source).map_or(Ok(profile), Err)
    }

    /// Returns the path of the profile that the file names, with these overrides.
    #[must_use]
    pub fn profile_path(&self, overrides: &[Override]) -> Option<PathBuf> {
        let document = self.changed(overrides);
        let at = document.member(ROOT, "profile")?;
        document.text(at).map(|name| self.directory.join(name))
    }

    /// Returns the document with these overrides applied.
    pub(super) fn changed(&self, overrides: &[Override]) -> Document {
        let mut document = self.document.clone();
        for (index, change) in overrides.iter().enumerate() {
            document.apply(change, index);
        }
        document
    }

    /// Returns the profile that the document names: `None` if the document names none, and `Some(None)` if the profile cannot be
    /// used. Problems are recorded.
    pub(super) fn named_profile(
        &self,
        document: &Document,
        log: &Log,
    ) -> Option<Option<Arc<Profile>>> {
        let at = document.member(ROOT, "profile")?;
        let read = document.text(at).map(|name| self.profiles.read(self.directory.join(name)));
        Some(match read {
            Some(Ok(profile)) => Some(profile),
            Some(Err(error)) => unreadable(log, at, &error),
            // The reader of settings reports a `profile` that is not a text.
            None => None,
        })
    }
}

fn unreadable<T>(log: &Log, at: NodeId, error: &str) -> Option<T> {
    let what = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let remedy = "name a profile that `forebay calibrate` wrote, relative to the scenario";
    log.value(at, what, remedy);
    None
}

/// Returns `value` limited to the times that a law allows, 0 to 1e7 s: fitted or sampled parameters near zero may be negative,
/// and files may hold any number.
pub(super) fn time(value: f64) -> f64 {
    if value > 0.0 { value.min(1e7) } else { 0.0 }
}

/// Returns `value` limited to the rates that a law allows, at least 1e-6; a value that is not positive means no limit, so
/// infinity is returned.
fn rate(value: f64) -> f64 {
    if value > 0.0 { value.max(1e-6) } else { f64::INFINITY }
}

/// Returns the read law in `fit`, a profile's fit for one kind of access; `None` if the fit has none.
pub(super) fn read_law(fit: &Fit) -> Option<ReadLaw> {
    let law = fit.read()?;
    Some(ReadLaw {
        latency: time(law.latency),
        per_stream: rate(law.per_stream),
        bandwidth: rate(law.bandwidth),
        operations: rate(law.operations),
        overhead: time(law.overhead),
        cpu_fixed: time(law.cpu_fixed),
        cpu_per_byte: time(law.cpu_per_byte),
    })
}

/// Returns the decode law in `fit`, a fit of the profile; `None` if the fit has no such law.
pub(super) fn decode_law(fit: &Fit) -> Option<DecodeLaw> {
    let DecodeLaw { fixed, per_byte, per_pixel } = fit.decode()?;
    Some(DecodeLaw { fixed: time(fixed), per_byte: time(per_byte), per_pixel: time(per_pixel) })
}

/// Returns the step law in `fit`, a fit of the profile; `None` if the fit has no such law.
pub(super) fn step_law(fit: &Fit) -> Option<StepLaw> {
    let StepLaw { floor, fixed, per_sample } = fit.step()?;
    Some(StepLaw { floor: time(floor), fixed: time(fixed), per_sample: time(per_sample) })
}
