//! What the results of a sweep depend on, as its journal records it, and how two sweeps differ in it.

use super::Grid;
use super::journal::{fnv1a, key};
use crate::ranges;
use crate::scenario::{Scenario, Setting};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Largest number of differences that are listed.
const LISTED: usize = 5;

/// Number of values of an axis up to which a difference shows all.
const MOST_VALUES: usize = 40;

/// Length of all values of an axis up to which they are recorded one by one [B].
const LONGEST_AXIS: usize = 100_000;

/// What the runs of a point differ in, in place of random numbers of replications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sampled {
    /// This many runs take parameters from the uncertainty of a profile.
    Profile(u32),
    /// The runs take nominal numbers from what publications reached.
    Ranges,
}

impl Sampled {
    /// Returns the number of runs of a point.
    #[must_use]
    pub fn runs(self) -> u32 {
        match self {
            Self::Profile(runs) => runs,
            Self::Ranges => ranges::DRAWS as u32,
        }
    }
}

impl fmt::Display for Sampled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(runs) => write!(f, "`--uncertainty {runs}`"),
            Self::Ranges => f.write_str("`--assume ranges`"),
        }
    }
}

/// What the results of a sweep depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepSettings {
    /// Version of the program.
    forebay: String,
    /// Keys that the scenario sets, without the swept ones.
    settings: Vec<Setting>,
    /// Swept keys with their values.
    axes: Vec<(String, Vec<String>)>,
    /// Hash of the content of each file that the scenario names.
    files: BTreeMap<String, String>,
    /// What the runs of each point differ in, if that is not their random numbers.
    #[serde(default)]
    sampled: Option<Sampled>,
    /// Key of the first point's result, which depends on everything else.
    first: String,
}

impl SweepSettings {
    /// Returns the settings of a sweep over `grid`, whose first point is `scenario` after this number of `overrides` and those of the
    /// grid; `files` are the names and contents of the files that the scenario names; `sampled` is what the runs of each point
    /// differ in, if that is not their random numbers.
    pub fn new(
        grid: &Grid,
        scenario: &Scenario,
        overrides: usize,
        files: &[(String, Vec<u8>)],
        sampled: Option<Sampled>,
    ) -> SweepSettings {
        let axes = grid.axes().map(|(key, values)| (key, shortened(values))).collect();
        let hash = |(name, bytes): &(String, Vec<u8>)| (name.clone(), hex(fnv1a(bytes)));
        SweepSettings {
            forebay: env!("CARGO_PKG_VERSION").to_owned(),
            // A swept key may stand for keys of several jobs: what the grid's overrides set is known, their names are not compared.
            settings: scenario.origins.settings_before(overrides),
            axes,
            files: files.iter().map(hash).collect(),
            sampled,
            first: key(scenario, None),
        }
    }

    /// Returns in which settings this earlier sweep differs from `now`, both named, so that a result of it would be lost or wrong;
    /// `None` if all its results are results of the sweep `now`, too.
    pub fn differences(&self, now: &SweepSettings) -> Option<String> {
        let mut found = Vec::new();
        let mut differ = |what: String, before: String, now: String| {
            found.push(format!("{what} was {before} and is {now} now"));
        };
        if self.forebay != now.forebay {
            differ("the version of forebay".into(), self.forebay.clone(), now.forebay.clone());
        }
        let not_set = || "not set".to_owned();
        if self.sampled != now.sampled {
            let words = |of: Option<Sampled>| of.map_or_else(not_set, |of| of.to_string());
            differ("sampling".into(), words(self.sampled), words(now.sampled));
        }
        for (key, [before, now]) in
            pairs([self, now].map(|of| of.settings.iter().map(|of| (&of.key, of.value.clone()))))
        {
            differ(format!("`{key}`"), before.unwrap_or_else(not_set), now.unwrap_or_else(not_set));
        }
        let list = |values: &Vec<String>| match values.len() {
            0..=MOST_VALUES => format!("[{}]", values.join(", ")),
            more => format!("[{}, … {more} values]", values[..3].join(", ")),
        };
        for at in 0..self.axes.len().max(now.axes.len()) {
            let (before, after) = (self.axes.get(at), now.axes.get(at));
            let keeps = before.zip(after).is_some_and(|(before, after)| {
                let now: BTreeSet<&String> = after.1.iter().collect();
                before.0 == after.0 && before.1.iter().all(|value| now.contains(value))
            });
            if !keeps {
                let words = |of: Option<&(String, Vec<String>)>| {
                    of.map_or("none".into(), |(key, values)| format!("`{key} = {}`", list(values)))
                };
                differ(format!("swept key {}", at + 1), words(before), words(after));
            }
        }
        for (file, [before, after]) in
            pairs([self, now].map(|of| of.files.iter().map(|(file, hash)| (file, hash.clone()))))
        {
            // Earlier points do not depend on a file that only new values name.
            if before.is_none() {
                continue;
            }
            let words = |hash: Option<String>| match hash {
                Some(hash) => format!("a file with hash {}", &hash[..hash.len().min(8)]),
                None => "not read".to_owned(),
            };
            differ(file.clone(), words(before), words(after));
        }
        let else_equal = (&self.forebay, self.sampled) == (&now.forebay, now.sampled)
            && (&self.settings, &self.axes, &self.files) == (&now.settings, &now.axes, &now.files);
        if else_equal && self.first != now.first {
            differ("the result of the first point".into(), self.first.clone(), now.first.clone());
        }
        let more = found.len().saturating_sub(LISTED);
        found.truncate(LISTED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        (!found.is_empty()).then(|| found.join("; ") + &more)
    }
}

/// Returns the values, or, for an axis of very many, their number and hash: a journal's first line has them.
fn shortened(values: Vec<String>) -> Vec<String> {
    if values.iter().map(String::len).sum::<usize>() <= LONGEST_AXIS {
        return values;
    }
    let hash = hex(fnv1a(values.join("\n").as_bytes()));
    vec![format!("{} values with hash {}", values.len(), &hash[..8])]
}

/// Returns the keys whose values differ, with both values.
fn pairs<'a>(
    both: [impl Iterator<Item = (&'a String, String)>; 2],
) -> Vec<(String, [Option<String>; 2])> {
    let mut all: BTreeMap<String, [Option<String>; 2]> = BTreeMap::new();
    for (side, values) in both.into_iter().enumerate() {
        values.for_each(|(key, value)| all.entry(key.clone()).or_default()[side] = Some(value));
    }
    all.into_iter().filter(|(_, [before, now])| before != now).collect()
}

/// Returns a hash in hexadecimal.
pub(super) fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}

/// A scenario with all that is required, for unit tests.
#[cfg(test)]
pub(crate) const SCENARIO: &str = "name = \"x\"\n[run]\nsteps = 5\n[cluster]\nnodes = 1\n[cluster.node]\ncores = 4\ngpus = 1\n\
        [storage.disk.memory]\n[dataset.digits]\nsamples = 100\nsample_size = \"1000 B\"\n\
        [[job]]\nname = \"lenet\"\ndataset = \"digits\"\nstorage = \"disk\"\nbatch = 8\n\
        [job.loader.tf-queue]\nthreads = 2\ncapacity = \"64 samples\"\n[job.model]\nstep = \"2 ms\"\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Override, ScenarioFile};

    fn settings(text: &str, axis: &str, files: &[(&str, &str)]) -> SweepSettings {
        let file = ScenarioFile::parse("x.toml", text.to_owned()).expect("it is TOML");
        let axes = file.axes_with(&[Override::varied(axis).expect("an axis")]);
        let grid = Grid::new(axes.expect("valid values")).expect("few points");
        let first = file.resolve(&grid.overrides(0)).unwrap_or_else(|error| panic!("{error}"));
        let file = |(name, text): &(&str, &str)| ((*name).to_owned(), text.as_bytes().to_vec());
        SweepSettings::new(&grid, &first, 0, &files.iter().map(file).collect::<Vec<_>>(), None)
    }

    #[test]
    fn more_values_of_a_swept_key_in_any_order_leave_the_settings_of_a_sweep_as_they_are() {
        // System: a key of all jobs and of one, whose values come in another order and with a new first value.
        for key in ["job.loader.tf-queue.threads", "job.lenet.loader.tf-queue.threads"] {
            let of = |values: &str| settings(SCENARIO, &format!("{key}={values}"), &[]);
            let before = of("[1, 2]");
            for values in ["[1, 2]", "[2, 1]", "[3, 1, 2]", "[1, 2, 3]"] {
                assert_eq!(before.differences(&of(values)), None, "{key}: {values}");
            }
            let fewer = before.differences(&of("[1]")).expect("a lost value");
            assert!(fewer.starts_with("swept key 1 was"), "{fewer}");
            let batch = SCENARIO.replace("batch = 8", "batch = 16");
            let other = settings(&batch, &format!("{key}=[1, 2]"), &[]);
            let other = before.differences(&other).expect("another batch");
            assert_eq!(other, "`job.lenet.batch` was 8 and is 16 now");
        }
    }

    #[test]
    fn a_file_that_only_new_values_of_a_swept_key_name_is_no_difference() {
        let axis = "job.loader.tf-queue.threads=[1, 2]";
        let of = |files: &[(&str, &str)]| settings(SCENARIO, axis, files);
        let before = of(&[("a", "1")]);
        assert_eq!(before.differences(&of(&[("a", "1"), ("b", "1")])), None);
        let changed = before.differences(&of(&[("a", "2"), ("b", "1")])).expect("other content");
        assert!(changed.starts_with("a was a file with hash "), "{changed}");
        let gone = before.differences(&of(&[("b", "1")])).expect("a file that is not read");
        assert!(gone.ends_with(" and is not read now"), "{gone}");
    }
}
