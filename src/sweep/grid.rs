//! Points of a grid, in order.

use crate::scenario::{Axis, Override, Value};

/// Every combination of the axes' values; the last axis changes fastest.
#[derive(Debug, Clone)]
pub struct Grid {
    axes: Vec<Axis>,
    len: usize,
}

impl Grid {
    /// The grid over `axes`; without axes, one point. `None` if there are more points than can be
    /// counted.
    pub fn new(axes: Vec<Axis>) -> Option<Grid> {
        let len = axes.iter().try_fold(1usize, |len, axis| len.checked_mul(axis.values.len()))?;
        Some(Grid { axes, len })
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether an axis has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Keys of the axes.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.key.as_str())
    }

    /// Values at point `index`, one per axis.
    pub fn values(&self, index: usize) -> Vec<&Value> {
        let mut rest = index;
        let mut values: Vec<&Value> = self
            .axes
            .iter()
            .rev()
            .filter_map(|axis| {
                let at = rest % axis.values.len().max(1);
                rest /= axis.values.len().max(1);
                axis.values.get(at)
            })
            .collect();
        values.reverse();
        values
    }

    /// What point `index` changes in the scenario.
    pub fn overrides(&self, index: usize) -> Vec<Override> {
        let set = |(key, value): (&str, &Value)| Override::new(key.to_owned(), value.clone());
        self.keys().zip(self.values(index)).map(set).collect()
    }

    /// Point `index` as a message names it: `threads = 8, jobs = 16`.
    pub fn describe(&self, index: usize) -> String {
        let pair = |(key, value): (&str, &Value)| format!("{key} = {value}");
        self.keys().zip(self.values(index)).map(pair).collect::<Vec<_>>().join(", ")
    }
}
