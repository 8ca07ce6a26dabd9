//! The profile that a scenario names: read once per file, whatever the number of points.

use super::document::{Document, NodeId, ROOT};
use super::file::ScenarioFile;
use super::problem::{Log, Problems, Source};
use super::value::Override;
use crate::profile::{Fit, Profile};
use forebay_model::law::{DecodeLaw, ReadLaw, StepLaw};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How a scenario is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading<'p> {
    /// What is known of the machine, instead of the profile that the file names.
    pub profile: Option<&'p Profile>,
    /// For the live world: what neither the file nor a profile says and only a simulation needs is
    /// no problem. It is infinite or 0 then, or 1 for a number.
    pub live: bool,
}

/// Profiles by path, or why they cannot be read.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache(Arc<Mutex<BTreeMap<PathBuf, Read>>>);

/// A profile, or what is wrong with it.
type Read = Result<Arc<Profile>, String>;

impl Cache {
    fn read(&self, path: PathBuf) -> Read {
        // A thread that panicked has left nothing half done here.
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
    /// The profile that the file names, with these changes; none if it names none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn profile(&self, overrides: &[Override]) -> Result<Option<Arc<Profile>>, Problems> {
        let document = self.changed(overrides);
        let log = Log::default();
        let profile = self.named_profile(&document, &log).flatten();
        let source = Source { file: &self.name, text: &self.text, document: &document, overrides };
        log.into_problems(&source).map_or(Ok(profile), Err)
    }

    /// Where the profile is that the file names, with these changes.
    #[must_use]
    pub fn profile_path(&self, overrides: &[Override]) -> Option<PathBuf> {
        let document = self.changed(overrides);
        let at = document.member(ROOT, "profile")?;
        document.text(at).map(|name| self.directory.join(name))
    }

    /// The document with these changes.
    pub(super) fn changed(&self, overrides: &[Override]) -> Document {
        let mut document = self.document.clone();
        for (index, change) in overrides.iter().enumerate() {
            document.set(change.path(), change.value(), index);
        }
        document
    }

    /// `None` if no profile is named, and `Some(None)` if that is wrong, which is recorded.
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
            // The reader of settings says what is wrong with it.
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

/// A time as a law can have it: fits and their draws may stray below zero where a parameter is near
/// it, and files may hold anything.
pub(super) fn time(value: f64) -> f64 {
    if value > 0.0 { value.min(1e7) } else { 0.0 }
}

/// A rate as a law can have it; what is none does not limit.
fn rate(value: f64) -> f64 {
    if value > 0.0 { value.max(1e-6) } else { f64::INFINITY }
}

/// What the profile knows of reads in a kind of access.
pub(super) fn read_law(fit: &Fit) -> Option<ReadLaw> {
    let law = fit.read()?;
    Some(ReadLaw {
        latency: time(law.latency),
        per_stream: rate(law.per_stream),
        bandwidth: rate(law.bandwidth),
        operations: rate(law.operations),
        cpu_fixed: time(law.cpu_fixed),
        cpu_per_byte: time(law.cpu_per_byte),
    })
}

/// What the profile knows of decoding.
pub(super) fn decode_law(fit: &Fit) -> Option<DecodeLaw> {
    let DecodeLaw { fixed, per_byte, per_pixel } = fit.decode()?;
    Some(DecodeLaw { fixed: time(fixed), per_byte: time(per_byte), per_pixel: time(per_pixel) })
}

/// What the profile knows of steps.
pub(super) fn step_law(fit: &Fit) -> Option<StepLaw> {
    let StepLaw { floor, fixed, per_sample } = fit.step()?;
    Some(StepLaw { floor: time(floor), fixed: time(fixed), per_sample: time(per_sample) })
}
