//! What a calibration did.

use super::state::State;
use crate::probe::repeat::{median_interval, relative_half_width};
use crate::probe::watch::NOT_OURS;
use crate::probe::{Cell, ProbeError, Rules};
use std::collections::BTreeMap;

/// What a calibration did.
#[derive(Debug, Default)]
pub struct Summary {
    /// Every cell that was or could have been measured.
    pub cells: Vec<CellSummary>,
    /// What the user should know: probe and text.
    pub notes: Vec<(String, String)>,
    /// Probes that ended early, and why.
    pub failures: Vec<(String, ProbeError)>,
    /// Whether the user had enough before the end.
    pub interrupted: bool,
}

/// What is known of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSummary {
    /// The probe.
    pub probe: String,
    /// Which kind of trials.
    pub cell: Cell,
    /// Trials that count.
    pub used: usize,
    /// Why others do not count, and how many.
    pub excluded: BTreeMap<String, u32>,
    /// Median time of an operation [s]; not a number without trials.
    pub median: f64,
    /// 95 % interval of the median [s], from six trials on.
    pub interval: Option<[f64; 2]>,
    /// Why no further trial was made.
    pub end: End,
}

/// Why no further trial of a cell was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The interval of the median is as narrow as the plan wants it.
    Precise,
    /// The plan wants no more trials; the interval is wider.
    MostTrials,
    /// Trials still drift after as many as the plan wants.
    Drifts,
    /// The machine was not ours for long enough.
    NotOurs,
    /// Time was up.
    Budget,
    /// The probe failed, or the user had enough.
    Stopped,
}

impl Summary {
    /// Adds the cells of a probe; `whole` unless it ended early.
    pub(super) fn add(&mut self, probe: &str, states: &[State], rules: &Rules, whole: bool) {
        let cells = states.iter().map(|state| summarise(probe, state, rules, whole));
        self.cells.extend(cells);
    }
}

fn summarise(probe: &str, state: &State, rules: &Rules, whole: bool) -> CellSummary {
    let (used, steady) = state.settled();
    let (median, interval) = median_interval(used).unwrap_or((f64::NAN, None));
    let mut excluded = state.excluded.clone();
    if used.len() < state.values.len() {
        let drifted = (state.values.len() - used.len()) as u32;
        excluded.insert("a trend".to_owned(), drifted);
    }
    let not_ours = used.is_empty() && excluded.contains_key(NOT_OURS);
    let end = if state.hungry(rules) && !whole {
        End::Stopped
    } else if not_ours {
        End::NotOurs
    } else if state.hungry(rules) {
        End::Budget
    } else if used.len() < rules.at_least.0 {
        End::NotOurs
    } else if relative_half_width(used) <= rules.precision.0 && steady {
        End::Precise
    } else if steady {
        End::MostTrials
    } else {
        End::Drifts
    };
    let (probe, cell, used) = (probe.to_owned(), state.cell.clone(), used.len());
    CellSummary { probe, cell, used, excluded, median, interval, end }
}
