//! Ranges of nominal numbers: what publications reached of NICs, links, disks, GPUs and writers, with the sources.
//!
//! A number of a data sheet is not what a program reaches. A range is the log-normal distribution over the sources in a TOML file
//! ([`RANGES`]). `nominal` finds the numbers of a scenario that have a range, and the changes of the file that set another amount. A
//! draw takes one amount from each range; `draws` simulates the scenario with these amounts.

mod draws;
mod nominal;

pub use draws::{
    Common, DRAWS, Draws, Effect, Question, changes_of_draw, draws, effects, ends, reached_in_draw,
};
pub use nominal::{Nominal, changes, nominal};

use crate::report::format;
use crate::scenario::change::AmountUnit;
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
    /// The class of numbers that it is about, and what was reached.
    pub about: String,
    /// What a number of the class is a number of: `NIC`.
    pub noun: String,
    /// What the publications used: `by sockets`.
    pub how: String,
    /// The command, or what else replaces the number by a measured one.
    pub measure: String,
    /// The line that it is about; `None` if `keys` says what it is about.
    #[serde(default)]
    pub line: Option<Line>,
    /// Keys of a scenario that have such numbers, as paths in the schema: `storage.NAME.local-disk.bandwidth`.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Beginnings of the names of the GPUs that it holds for; all if empty.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// Beginnings of the names of the catalogue's models that it holds for; all if empty.
    #[serde(default)]
    pub models: Vec<String>,
    /// Smallest nominal bandwidth that it holds for [B/s].
    #[serde(default)]
    pub least: f64,
    /// Bandwidth from which on it holds no longer [B/s].
    #[serde(default = "infinite")]
    pub below: f64,
    /// What `reached` of the sources is.
    #[serde(default)]
    pub unit: Unit,
    /// Sources; each counts once.
    pub sources: Vec<Publication>,
}

/// A line with a nominal rate, and what goes over it. The same NIC has a range for gradients and one for reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// Gradients over sockets.
    Sockets,
    /// Gradients by RDMA.
    Rdma,
    /// Gradients between GPUs of a node that NVLink joins.
    Nvlink,
    /// Gradients between GPUs of a node over PCIe.
    Pcie,
    /// Reads over a NIC.
    Reads,
}

impl Line {
    /// Returns the range of the line; `None` if the file has none.
    #[must_use]
    pub fn range(self) -> Option<&'static Reached> {
        all().iter().find(|range| range.line == Some(self))
    }
}

fn infinite() -> f64 {
    f64::INFINITY
}

/// Unit of what sources reached; it says what a draw does with the number of the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A share of the nominal number, which a draw multiplies.
    #[default]
    Share,
    /// A number that takes the place of the written one.
    Number,
    /// A bandwidth [B/s] that takes the place of the written one.
    Bandwidth,
}

/// A publication, or a thread of an issue tracker.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// What was reached, in the range's unit.
    pub reached: f64,
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

impl Unit {
    /// Returns how a scenario writes a number that a draw puts in place of the written one; `None` for shares.
    #[must_use]
    pub fn amount(self) -> Option<AmountUnit> {
        match self {
            Self::Share => None,
            Self::Number => Some(AmountUnit::Number),
            Self::Bandwidth => Some(AmountUnit::Bandwidth),
        }
    }

    /// Returns an interval in words: `21 to 60 %`, `1.1 to 2.4 GB/s`.
    #[must_use]
    pub fn words(self, [low, high]: [f64; 2]) -> String {
        match self {
            Self::Share | Self::Number => {
                let [low, high] = [low, high].map(|of| format::count((100.0 * of).round()));
                format!("{low} to {high} %")
            }
            Self::Bandwidth => format!("{} to {}", format::rate(low, "B"), format::rate(high, "B")),
        }
    }
}

impl Reached {
    /// Returns whether a nominal bandwidth [B/s] is of its class.
    #[must_use]
    pub fn has(&self, bandwidth: f64) -> bool {
        (self.least..self.below).contains(&bandwidth)
    }

    /// Returns the median over the sources, and the standard deviation of the logarithm.
    #[must_use]
    pub fn median_and_sd(&self) -> (f64, f64) {
        let logs: Vec<f64> = self.sources.iter().map(|source| source.reached.ln()).collect();
        let (mean, sd) = (stats::mean(&logs), stats::sd(&logs));
        (mean.unwrap_or(0.0).exp(), sd.unwrap_or(0.0))
    }

    /// Returns the quantile `at` (0 to 1); of shares at most 1.
    #[must_use]
    pub fn quantile(&self, at: f64) -> f64 {
        let (median, sd) = self.median_and_sd();
        let found = median * (sd * stats::normal_quantile(at)).exp();
        match self.unit {
            Unit::Share | Unit::Number => found.min(1.0),
            Unit::Bandwidth => found,
        }
    }

    /// Returns the interval that 90 % of publications lie in.
    #[must_use]
    pub fn interval90(&self) -> [f64; 2] {
        [0.05, 0.95].map(|at| self.quantile(at))
    }

    /// Returns the range without the sources that `is_left_out` names, to judge their results.
    #[must_use]
    pub fn without(&self, is_left_out: impl Fn(&Publication) -> bool) -> Reached {
        let sources = self.sources.iter().filter(|of| !is_left_out(of)).cloned().collect();
        Reached { sources, ..self.clone() }
    }
}

/// Returns a table in Markdown of what the named ranges say, with their sources.
#[must_use]
pub fn table(names: &[&str]) -> String {
    let mut text =
        String::from("| what | sources | 5 % | median | 95 % |\n|---|---|---|---|---|\n");
    let mut sources = String::new();
    for range in all().iter().filter(|of| names.contains(&of.name.as_str())) {
        let shown = |of: f64| match range.unit {
            Unit::Share | Unit::Number => percent(of),
            Unit::Bandwidth => format::rate(of, "B"),
        };
        let [low, high] = range.interval90().map(shown);
        let (middle, count) = (shown(range.median_and_sd().0), range.sources.len());
        let _ = writeln!(text, "| {} | {count} | {low} | {middle} | {high} |", range.about);
        for of in &range.sources {
            let (reached, text, title, url) = (shown(of.reached), &of.text, &of.title, &of.url);
            let _ = writeln!(sources, "- {reached}: {text} ([{title}]({url}))");
        }
    }
    format!("{text}\n{sources}")
}

fn percent(share: f64) -> String {
    format!("{} %", format::count((100.0 * share).round()))
}
