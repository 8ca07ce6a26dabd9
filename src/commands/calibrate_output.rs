//! The output directory of a calibration: `calibration.json` (plan and machine), `samples.jsonl`, `profile.toml`.

use super::{Failure, input, output};
use crate::fit;
use crate::input::path_as_json;
use crate::input::shown;
use crate::probe::{Journal, Plan};
use crate::profile::{Host, Profile, Provenance};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Contents of `calibration.json`: which plan was measured, on which machine, with which data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    /// Name of the plan.
    pub(super) name: String,
    /// Text of the plan.
    pub(super) plan: String,
    /// Description of the machine in words.
    pub(super) machine: String,
    /// The user's own data set, if one is read instead of generated files.
    #[serde(with = "path_as_json::optional")]
    pub(super) data: Option<PathBuf>,
}

/// Names of the files in the output directory.
pub(super) const FILES: [&str; 3] = ["calibration.json", "samples.jsonl", "profile.toml"];

/// The output directory of a calibration, open and locked.
pub(super) struct Output {
    directory: PathBuf,
    header: Header,
    /// Journal of the samples, kept in `samples.jsonl`.
    pub(super) journal: Journal,
    /// A locked file in the directory, so that no second calibration writes there.
    _lock: File,
}

impl Output {
    /// Opens `directory`, or creates it. Continues the calibration in it, which must have the same plan, machine and data.
    pub(super) fn open(directory: &Path, header: &Header) -> Result<Output, Failure> {
        let unwritable = |error| Failure::unwritable(directory, &error);
        fs::create_dir_all(directory).map_err(unwritable)?;
        let path = directory.join("calibration.json");
        let samples = directory.join("samples.jsonl");
        match input::text_if_there(&path, input::RECORDED)? {
            Some(text) => header.same_as(&text, directory)?,
            None if samples.exists() => {
                return Err(Failure::Input(format!(
                    "{} has no calibration.json beside it, so that nothing says what was measured; name another --output, or remove the file",
                    shown(&samples)
                )));
            }
            None => {
                let text = serde_json::to_string_pretty(header).unwrap_or_default() + "\n";
                output::file(&path, |to| to.write_all(text.as_bytes()))?;
            }
        }
        let lock = File::open(&path).map_err(|error| Failure::unreadable(&path, &error))?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            let place = shown(directory);
            return Err(Failure::Input(format!(
                "another calibration is writing to {place}; wait until that calibration ends, or name another --output"
            )));
        }
        let journal = Journal::open(&samples)?;
        Ok(Output { directory: directory.to_owned(), header: header.clone(), journal, _lock: lock })
    }

    /// Returns the directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the profile.
    pub(super) fn profile(&self) -> PathBuf {
        self.directory.join("profile.toml")
    }

    /// Fits the samples, of a machine in these words with this host; `versions` are those of the libraries that were measured.
    pub(super) fn fit(
        &self,
        machine: String,
        host: Host,
        versions: BTreeMap<String, String>,
    ) -> Profile {
        let samples = self.journal.samples();
        let provenance = Provenance {
            machine,
            forebay: env!("CARGO_PKG_VERSION").to_owned(),
            date: day(samples.last().map_or(0.0, |sample| sample.at)),
            plan: self.header.name.clone(),
            samples: "samples.jsonl".to_owned(),
            versions,
        };
        fit::profile(samples, provenance, host)
    }

    /// Writes the profile, unless it would replace an earlier one and has no fit. Returns whether it was written.
    pub(super) fn write(&self, profile: &Profile) -> Result<bool, Failure> {
        let path = self.profile();
        if profile.fits().is_empty() && path.exists() {
            return Ok(false);
        }
        let text = profile.to_toml();
        output::file(&path, |to| to.write_all(text.as_bytes())).map(|()| true)
    }
}

impl Header {
    /// Returns an error unless `text`, the header of an earlier calibration in `directory`, has the same plan, machine and
    /// data.
    fn same_as(&self, text: &str, directory: &Path) -> Result<(), Failure> {
        let refuse = |what: &str| {
            let place = shown(directory);
            Err(Failure::Input(format!(
                "{place} has samples of {what}; name another --output, or remove {place}"
            )))
        };
        let Ok(earlier) = serde_json::from_str::<Header>(text) else {
            return refuse("unknown origin: the calibration.json there cannot be read");
        };
        let plan = |header: &Header| Plan::parse(&header.name, &header.plan);
        if plan(&earlier) != plan(self) {
            return refuse(&format!("another plan, {}", earlier.name));
        }
        if earlier.machine != self.machine {
            return refuse(&format!("another machine, {}", earlier.machine));
        }
        match (&earlier.data, self.data == earlier.data) {
            (_, true) => Ok(()),
            (Some(data), _) => refuse(&format!("other data, {}", shown(data))),
            (None, _) => refuse("generated data"),
        }
    }
}

/// Returns the date (UTC, as `2026-11-21`) of a time in seconds since 1970, by the civil calendar (Hinnant, *chrono-compatible
/// low-level date algorithms*).
fn day(seconds: f64) -> String {
    let days = (seconds / 86400.0).floor() as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{date:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_civil_calendar() {
        for (seconds, expected) in [
            (0.0, "1970-01-01"),
            (951_782_400.0, "2000-02-29"),
            (1_767_225_599.0, "2025-12-31"),
            (1_795_219_200.0, "2026-11-21"),
        ] {
            assert_eq!(day(seconds), expected);
        }
    }

    #[test]
    fn calibration_output_of_another_plan_machine_or_data_is_refused() {
        let header = |plan: &str, machine: &str, data: Option<&str>| Header {
            name: "p".into(),
            plan: plan.into(),
            machine: machine.into(),
            data: data.map(PathBuf::from),
        };
        let earlier = serde_json::to_string(&header("budget = \"1 s\"", "m", None)).unwrap();
        let check =
            |now: &Header| now.same_as(&earlier, Path::new("out")).map_err(|e| e.to_string());
        assert_eq!(check(&header("# said differently\nbudget = \"1 s\"", "m", None)), Ok(()));
        let plan = check(&header("budget = \"2 s\"", "m", None)).unwrap_err();
        assert!(plan.contains("another plan, p; name another --output"), "{plan}");
        assert!(check(&header("budget = \"1 s\"", "n", None)).unwrap_err().contains("machine, m"));
        let data = check(&header("budget = \"1 s\"", "m", Some("d"))).unwrap_err();
        assert!(data.contains("generated data"), "{data}");
    }
}
