//! Ranges of what publications reached, from their file.

use crate::report::format;
use crate::stats;
use serde::Deserialize;
use std::fmt::Write;
use std::sync::OnceLock;

/// The ranges that the repository contains.
pub const RANGES: &str = include_str!("../../calibrate/published/ranges.toml");

/// What publications reached of a nominal number, as log-normal over the sources.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reached {
    /// Name of the range.
    pub name: String,
    /// The class of numbers that it is about, and what the shares are shares of.
    pub about: String,
    /// What the publications used: `sockets`.
    pub by: String,
    /// How to measure the number.
    pub measure: String,
    /// Sources; each counts once.
    pub sources: Vec<Source>,
}

/// A publication, or a thread of an issue tracker.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Share of the nominal number that was reached.
    pub share: f64,
    /// What the source says.
    pub text: String,
    /// Its title.
    pub title: String,
    /// Where it is.
    pub url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    range: Vec<Reached>,
}

/// Returns all ranges, in the order of the file.
#[must_use]
pub fn all() -> &'static [Reached] {
    static ALL: OnceLock<Vec<Reached>> = OnceLock::new();
    // A test reads the file, which is part of the program.
    ALL.get_or_init(|| toml::from_str::<File>(RANGES).map_or_else(|_| Vec::new(), |of| of.range))
}

impl Reached {
    /// Returns the median share over the sources, and the standard deviation of its logarithm.
    #[must_use]
    pub fn median_and_sd(&self) -> (f64, f64) {
        let logs: Vec<f64> = self.sources.iter().map(|source| source.share.ln()).collect();
        let (mean, sd) = (stats::mean(&logs), stats::sd(&logs));
        (mean.unwrap_or(0.0).exp(), sd.unwrap_or(0.0))
    }

    /// Returns the quantile `at` (0 to 1) of the share. No more than the whole number is reached.
    #[must_use]
    pub fn quantile(&self, at: f64) -> f64 {
        let (median, sd) = self.median_and_sd();
        (median * (sd * stats::normal_quantile(at)).exp()).min(1.0)
    }

    /// Returns the shares between which 90 % of publications lie.
    #[must_use]
    pub fn interval90(&self) -> [f64; 2] {
        [0.05, 0.95].map(|at| self.quantile(at))
    }
}

/// Returns a table in Markdown of what the named ranges say, with their sources.
#[must_use]
pub fn table(names: &[&str]) -> String {
    let mut text =
        String::from("| what | sources | 5 % | median | 95 % |\n|---|---|---|---|---|\n");
    let mut sources = String::new();
    for range in all().iter().filter(|of| names.contains(&of.name.as_str())) {
        let [low, high] = range.interval90().map(percent);
        let (middle, count) = (percent(range.median_and_sd().0), range.sources.len());
        let _ = writeln!(text, "| {} | {count} | {low} | {middle} | {high} |", range.about);
        for of in &range.sources {
            let share = percent(of.share);
            let _ = writeln!(sources, "- {share}: {} ([{}]({}))", of.text, of.title, of.url);
        }
    }
    format!("{text}\n{sources}")
}

fn percent(share: f64) -> String {
    format!("{} %", format::count((100.0 * share).round()))
}
