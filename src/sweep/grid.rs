//! The points of a grid, in a fixed order.

use crate::scenario::{Axis, Override, Value};

/// Maximum number of points of a grid: at a millisecond each, they take more than a day.
pub const MOST_POINTS: usize = 100_000_000;

/// Every combination of the axes' values; the last axis changes fastest.
#[derive(Debug, Clone)]
pub struct Grid {
    axes: Vec<Axis>,
    len: usize,
}

impl Grid {
    /// Returns the grid over `axes`; without axes, it has one point.
    ///
    /// # Errors
    /// Returns the number of points if there are more than [`MOST_POINTS`].
    pub fn new(axes: Vec<Axis>) -> Result<Grid, f64> {
        let all: f64 = axes.iter().map(|axis| axis.values.len() as f64).product();
        if all > MOST_POINTS as f64 {
            return Err(all);
        }
        Ok(Grid { axes, len: all as usize })
    }

    /// Returns the points to check first: all points if there are at most `most`; otherwise the first point and all points that
    /// differ from it in one axis, so that every value occurs. This list is cut to `most` points.
    pub fn samples(&self, most: usize) -> Vec<usize> {
        if self.len <= most {
            return (0..self.len).collect();
        }
        std::iter::once(0).chain(self.each_value().map(|(index, _)| index)).take(most).collect()
    }

    /// Returns the points that differ from the first in one axis, each with its value there.
    pub fn each_value(&self) -> impl Iterator<Item = (usize, &Value)> {
        self.axes
            .iter()
            .scan(self.len, |stride, axis| {
                *stride /= axis.values.len().max(1);
                let stride = *stride;
                let values = axis.values.iter().enumerate().skip(1);
                Some(values.map(move |(at, value)| (at * stride, value)))
            })
            .flatten()
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the grid has no points, because an axis has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the keys of the axes.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.key.as_str())
    }

    /// Returns the key of each axis and its values.
    pub fn axes(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        let words = |axis: &Axis| axis.values.iter().map(ToString::to_string).collect();
        self.axes.iter().map(move |axis| (axis.key.as_str(), words(axis)))
    }

    /// Returns the values at point `index`, one per axis.
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

    /// Returns the overrides that turn the scenario into that of point `index`.
    pub fn overrides(&self, index: usize) -> Vec<Override> {
        let set = |(key, value): (&str, &Value)| Override::new(key.to_owned(), value.clone());
        self.keys().zip(self.values(index)).map(set).collect()
    }

    /// Describes point `index` for messages: `threads = 8, jobs = 16`.
    pub fn describe(&self, index: usize) -> String {
        let pair = |(key, value): (&str, &Value)| format!("{key} = {value}");
        self.keys().zip(self.values(index)).map(pair).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(lengths: &[i64]) -> Result<Grid, f64> {
        let axis = |(at, length): (usize, &i64)| Axis {
            key: format!("key{at}"),
            values: (0..*length).map(Value::from).collect(),
        };
        Grid::new(lengths.iter().enumerate().map(axis).collect())
    }

    #[test]
    fn sampled_points_of_a_large_grid_cover_every_value_of_every_axis() {
        let grid = grid(&[10, 100, 20]).expect("few points");
        assert_eq!(grid.samples(20_000).len(), 20_000);
        let samples = grid.samples(1_000);
        assert_eq!(samples.len(), 1 + 9 + 99 + 19);
        for (axis, length) in [(0, 10), (1, 100), (2, 20)] {
            let values = samples.iter().map(|at| grid.values(*at)[axis].to_string());
            let different: std::collections::BTreeSet<String> = values.collect();
            assert_eq!(different.len(), length);
        }
        assert_eq!(grid.samples(5).len(), 5);
    }

    #[test]
    fn sweep_grids_of_more_than_100_million_points_are_refused() {
        assert_eq!(grid(&[10_000, 10_000]).map(|grid| grid.len()), Ok(MOST_POINTS));
        assert_eq!(grid(&[1_000; 8]).map(|grid| grid.len()), Err(1e24));
        assert_eq!(grid(&[3, 0]).map(|grid| grid.len()), Ok(0));
    }
}
