//! Summary of a calibration: what was measured, and why the trials of each cell ended.

use super::state::State;
use crate::probe::repeat::{median_interval, relative_half_width};
use crate::probe::{Cell, ProbeError, Rules};
use std::collections::BTreeMap;

/// Summary of a calibration.
#[derive(Debug, Default)]
pub struct Summary {
    /// Every cell that was or could have been measured.
    pub cells: Vec<CellSummary>,
    /// Notes for the user: name of the probe, and text.
    pub notes: Vec<(String, String)>,
    /// Probes that ended early, and why.
    pub failures: Vec<(String, ProbeError)>,
    /// Whether the user interrupted the calibration.
    pub interrupted: bool,
}

/// Summary of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellSummary {
    /// Name of the probe.
    pub probe: String,
    /// The kind of trials.
    pub cell: Cell,
    /// Number of trials from which the median is computed.
    pub used: usize,
    /// Number of trials that count and ran beside others, by what others took: `others kept cores busy`.
    pub beside: BTreeMap<String, u32>,
    /// Number of excluded trials, by reason.
    pub excluded: BTreeMap<String, u32>,
    /// Median time of an operation [s]; NaN if no trial may be used.
    pub median: f64,
    /// 95 % interval of the median [s], from six trials on.
    pub interval: Option<[f64; 2]>,
    /// Why no further trial was made.
    pub end: End,
}

/// Why no further trial of a cell was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The interval of the median is as narrow as the plan demands.
    Precise,
    /// The largest number of trials in the plan has been reached; the interval is wider than demanded.
    MostTrials,
    /// The largest number of trials in the plan has been reached, and trials still drift.
    Drifts,
    /// Too many trials were excluded.
    Excluded,
    /// Time was up.
    Budget,
    /// The probe failed, or the user interrupted the run.
    Stopped,
}

impl Summary {
    /// Returns the probes of which no kind of trial has a trial that counts, each with why its trials do not count and how many
    /// there are.
    #[must_use]
    pub fn unmeasured(&self) -> Vec<(&str, BTreeMap<&str, u32>)> {
        let mut found: Vec<(&str, usize, BTreeMap<&str, u32>)> = Vec::new();
        for cell in &self.cells {
            if found.last().is_none_or(|(probe, ..)| *probe != cell.probe) {
                found.push((&cell.probe, 0, BTreeMap::new()));
            }
            let Some((_, used, excluded)) = found.last_mut() else { continue };
            *used += cell.used;
            for (why, count) in &cell.excluded {
                *excluded.entry(why).or_default() += count;
            }
        }
        let none = found.into_iter().filter(|(_, used, _)| *used == 0);
        none.map(|(probe, _, excluded)| (probe, excluded)).collect()
    }

    /// Adds the cells of a probe to the summary; `whole` is true unless the probe ended early.
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
    let end = if state.hungry(rules) && !whole {
        End::Stopped
    } else if state.hungry(rules) {
        End::Budget
    } else if used.len() < rules.at_least.0 {
        End::Excluded
    } else if relative_half_width(used) <= rules.precision.0 && steady {
        End::Precise
    } else if steady {
        End::MostTrials
    } else {
        End::Drifts
    };
    let (probe, cell, used) = (probe.to_owned(), state.cell.clone(), used.len());
    let beside = state.beside.clone();
    CellSummary { probe, cell, used, beside, excluded, median, interval, end }
}
