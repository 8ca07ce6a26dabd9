//! Results of a cell's trials so far.

use super::DRIFT;
use crate::measurement::Sample;
use crate::probe::repeat::{leading_trend, relative_half_width};
use crate::probe::{Cell, Rules};
use std::collections::BTreeMap;

/// Results of a cell's trials so far.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) cell: Cell,
    /// Time per operation of each trial, in the order of the trials [s]. Trials that were excluded for any
    /// reason except a trend are left out.
    pub(super) values: Vec<f64>,
    /// Whether the trials are a time series, such as of a token bucket that is drained: a trend is what they measure.
    is_series: bool,
    /// Number of trials that count and ran beside others, by what others took.
    pub(super) beside: BTreeMap<String, u32>,
    /// Number of excluded trials, by reason.
    pub(super) excluded: BTreeMap<String, u32>,
    /// Number of trials ever made, earlier runs of the program included.
    pub(super) total: u32,
    /// Number of trials made since the program started.
    pub(super) session: u32,
}

impl State {
    /// Returns the state of a cell, computed from the `samples` that belong to the cell.
    pub(super) fn new(probe: &str, cell: Cell, samples: &[Sample]) -> State {
        let of = |sample: &&Sample| {
            sample.probe == probe
                && sample.labels == cell.labels
                && sample.settings == cell.settings
        };
        let mut state = State {
            cell: cell.clone(),
            values: vec![],
            is_series: false,
            beside: [].into(),
            excluded: [].into(),
            total: 0,
            session: 0,
        };
        samples.iter().filter(of).for_each(|sample| state.add(sample));
        state.session = 0;
        state
    }

    /// Adds a trial.
    pub(super) fn add(&mut self, sample: &Sample) {
        self.total += 1;
        self.session += 1;
        self.is_series |= is_series(sample);
        match &sample.excluded {
            // Trends are ignored here: they are found anew from all values.
            Some(why) if !why.starts_with("a trend") => {
                *self.excluded.entry(kind(why)).or_default() += 1;
            }
            _ => {
                self.values.push(sample.seconds_each());
                if let Some(what) = &sample.beside {
                    *self.beside.entry(kind(what)).or_default() += 1;
                }
            }
        }
    }

    /// Returns the values that follow a drifting start, and `true`. If the values drift throughout, returns all
    /// of them and `false`.
    pub(super) fn settled(&self) -> (&[f64], bool) {
        match leading_trend(&self.values, DRIFT).filter(|_| !self.is_series) {
            None if self.is_series => (&self.values, true),
            Some(from) => (&self.values[from..], true),
            None => (&self.values, false),
        }
    }

    /// Returns whether the cell needs another trial.
    pub(super) fn hungry(&self, rules: &Rules) -> bool {
        let (used, steady) = self.settled();
        let (least, most) = (rules.at_least.0, rules.at_most.0);
        // Trials end even if none of them can be used.
        let patience = self.total as usize <= 3 * most + rules.warm_up as usize;
        let known = steady && relative_half_width(used) <= rules.precision.0;
        patience && (used.len() < least || (used.len() < most && !known))
    }

    /// Returns the estimated number of trials that the cell still needs.
    pub(super) fn left(&self, rules: &Rules) -> u64 {
        if !self.hungry(rules) {
            return 0;
        }
        let warm_up = rules.warm_up.saturating_sub(self.session);
        let least = rules.at_least.0.saturating_sub(self.values.len()).max(1);
        u64::from(warm_up) + least as u64
    }
}

/// Returns whether a sample is a part of a time series.
pub(super) fn is_series(sample: &Sample) -> bool {
    sample.observed.contains_key("rested")
}

/// Returns the part of a reason before its colon: a percentage behind it makes no reason of its own.
fn kind(reason: &str) -> String {
    reason.split(':').next().unwrap_or(reason).to_owned()
}
