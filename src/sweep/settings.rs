//! What the results of a sweep depend on, as its journal records it, and how two sweeps differ in it.

use super::Grid;
use super::journal::{fnv1a, key};
use crate::scenario::{Scenario, Setting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest number of differences that are listed.
const LISTED: usize = 5;

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
    /// Key of the first point's result, which depends on everything else.
    first: String,
}

impl SweepSettings {
    /// Returns the settings of a sweep over `grid`, whose first point is `scenario`; `files` are the names and contents of the files
    /// that the scenario names.
    pub fn new(grid: &Grid, scenario: &Scenario, files: &[(String, Vec<u8>)]) -> SweepSettings {
        let axes: Vec<_> = grid.axes().map(|(key, values)| (key.to_owned(), values)).collect();
        let swept = |of: &Setting| {
            axes.iter().any(|(key, _)| of.key.strip_prefix(key.as_str()).is_some_and(ends_a_name))
        };
        let mut settings = scenario.origins.settings();
        settings.retain(|of| !swept(of));
        let hash = |(name, bytes): &(String, Vec<u8>)| (name.clone(), hex(fnv1a(bytes)));
        SweepSettings {
            forebay: env!("CARGO_PKG_VERSION").to_owned(),
            settings,
            axes,
            files: files.iter().map(hash).collect(),
            first: key("", scenario),
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
        for (key, [before, now]) in
            pairs([self, now].map(|of| of.settings.iter().map(|of| (&of.key, of.value.clone()))))
        {
            differ(format!("`{key}`"), before.unwrap_or_else(not_set), now.unwrap_or_else(not_set));
        }
        let list = |values: &Vec<String>| format!("[{}]", values.join(", "));
        for at in 0..self.axes.len().max(now.axes.len()) {
            let (before, after) = (self.axes.get(at), now.axes.get(at));
            let keeps = before.zip(after).is_some_and(|(before, after)| {
                before.0 == after.0 && before.1.iter().all(|value| after.1.contains(value))
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
            let words = |hash: Option<String>| match hash {
                Some(hash) => format!("a file with hash {}", &hash[..hash.len().min(8)]),
                None => "not read".to_owned(),
            };
            differ(file.clone(), words(before), words(after));
        }
        let else_equal = self.forebay == now.forebay
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

/// Returns whether a key that continues with `rest` is below the name before it, or that name itself.
fn ends_a_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '['])
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
