//! The points of a grid, in a fixed order.

use crate::scenario::{Axis, Condition, Override, Value};
use crate::units;

/// Maximum number of points of a grid: at a millisecond each, they take more than a day.
pub const MOST_POINTS: usize = 100_000_000;

/// Largest number of combinations of values of a grid with conditions: each is looked at before the sweep begins.
const MOST_LOOKED_AT: usize = 10_000_000;

/// Every combination of the axes' values; the last axis changes fastest. An axis whose condition does not hold sets nothing, so that
/// its values make no more points there.
#[derive(Debug, Clone)]
pub struct Grid {
    axes: Vec<Axis>,
    len: usize,
    /// With conditions: the combinations that are points.
    points: Option<Vec<u32>>,
}

impl Grid {
    /// Returns the grid over `axes`; without axes, it has one point.
    ///
    /// # Errors
    /// Returns the number of combinations, and how many there may be, if there are too many: [`MOST_POINTS`], or ten million with
    /// conditions.
    pub fn new(axes: Vec<Axis>) -> Result<Grid, (f64, usize)> {
        let all: f64 = axes.iter().map(|axis| axis.values.len() as f64).product();
        let conditional = axes.iter().any(|axis| !axis.when.is_empty());
        let most = if conditional { MOST_LOOKED_AT } else { MOST_POINTS };
        if all > most as f64 {
            return Err((all, most));
        }
        let mut grid = Grid { axes, len: all as usize, points: None };
        if conditional {
            let points = 0..all as u32;
            let points: Vec<u32> =
                points.filter(|combination| grid.is_point(*combination as usize)).collect();
            grid.len = points.len();
            grid.points = Some(points);
        }
        Ok(grid)
    }

    /// Returns whether each axis that sets nothing has its first value, so that it counts once.
    fn is_point(&self, combination: usize) -> bool {
        let places = self.places(combination);
        let active = self.active(&places);
        places.iter().zip(active).all(|(place, active)| active || *place == 0)
    }

    /// Returns the position of each axis's value in a combination.
    fn places(&self, combination: usize) -> Vec<usize> {
        let mut rest = combination;
        let mut places: Vec<usize> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let values = axis.values.len().max(1);
                let place = rest % values;
                rest /= values;
                place
            })
            .collect();
        places.reverse();
        places
    }

    /// Returns whether the conditions of each axis hold; an axis is conditional on axes before it, which must themselves be swept.
    fn active(&self, places: &[usize]) -> Vec<bool> {
        let mut active: Vec<bool> = Vec::with_capacity(places.len());
        for axis in &self.axes {
            let holds = |of: &Condition| {
                let value = || self.axes[of.axis].values.get(places[of.axis])?.get(of.place);
                active[of.axis] && value().is_some_and(|value| of.values.contains(value))
            };
            let all = axis.when.iter().all(holds);
            active.push(all);
        }
        active
    }

    /// Returns the points to check first: all points if there are at most `most`; otherwise the first point and all points that
    /// differ from it in one axis, so that every value occurs. This list is cut to `most` points.
    pub fn samples(&self, most: usize) -> Vec<usize> {
        if self.len <= most {
            return (0..self.len).collect();
        }
        std::iter::once(0).chain(self.each_value().map(|(index, _)| index)).take(most).collect()
    }

    /// Returns, for each value of an axis after its first, a point that has it: it differs from the first point in this axis, and in those
    /// that the axis's conditions name.
    pub fn each_value(&self) -> impl Iterator<Item = (usize, &[Value])> {
        let others =
            |(at, axis): (usize, &'_ Axis)| (1..axis.values.len()).map(move |place| (at, place));
        let all = self.axes.iter().enumerate().flat_map(others);
        all.filter_map(|(at, place)| {
            let mut places = vec![0; self.axes.len()];
            self.meet(at, &mut places);
            places[at] = place;
            let index = self.index(&places)?;
            Some((index, self.axes[at].values[place].as_slice()))
        })
    }

    /// Sets the places of other axes so that the conditions of axis `at` hold.
    fn meet(&self, at: usize, places: &mut [usize]) {
        for of in &self.axes[at].when {
            let met = |values: &Vec<Value>| {
                values.get(of.place).is_some_and(|value| of.values.contains(value))
            };
            self.meet(of.axis, places);
            places[of.axis] = self.axes[of.axis].values.iter().position(met).unwrap_or(0);
        }
    }

    /// Returns the index of the point with these places of values; `None` if it is none.
    fn index(&self, places: &[usize]) -> Option<usize> {
        let lengths = self.axes.iter().map(|axis| axis.values.len());
        let combination = lengths.zip(places).fold(0, |before, (length, at)| before * length + at);
        match &self.points {
            None => Some(combination),
            Some(points) => points.binary_search(&u32::try_from(combination).ok()?).ok(),
        }
    }

    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the grid has no points, because an axis has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the swept keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().flat_map(|axis| axis.keys.iter().map(String::as_str))
    }

    /// Returns the unit of each swept key if all of its values are numbers, or all are quantities of one kind: an SI unit, or none for
    /// plain numbers. `None` for other keys.
    pub fn units(&self) -> Vec<Option<String>> {
        let unit = |value: &Value| match value.as_str() {
            Some(text) => units::si_unit(text),
            None => value.as_f64().map(|_| ""),
        };
        let of = |axis: &Axis, place: usize| {
            let mut each = axis.values.iter().map(|values| values.get(place).and_then(unit));
            let first = each.next()??;
            each.all(|other| other == Some(first)).then(|| first.to_owned())
        };
        let places = |axis: &Axis| (0..axis.keys.len()).map(|at| of(axis, at)).collect::<Vec<_>>();
        self.axes.iter().flat_map(places).collect()
    }

    /// Returns the keys of each axis and its values, as texts.
    pub fn axes(&self) -> impl Iterator<Item = (String, Vec<String>)> {
        let words = |axis: &Axis| {
            let together = |values: &Vec<Value>| join(values.iter().map(ToString::to_string));
            let of = |of: &Condition| {
                let key = &self.axes[of.axis].keys[of.place];
                format!("{key} = [{}]", join(of.values.iter().map(ToString::to_string)))
            };
            let when: Vec<String> = axis.when.iter().map(of).collect();
            let when =
                if when.is_empty() { String::new() } else { format!(" when {}", when.join(", ")) };
            (axis.keys.join(", ") + &when, axis.values.iter().map(together).collect())
        };
        self.axes.iter().map(words)
    }

    /// Returns the value of each key at point `index`; `None` where the condition of the key's axis does not hold.
    pub fn values(&self, index: usize) -> Vec<Option<&Value>> {
        let combination = match &self.points {
            None => index,
            Some(points) => points[index] as usize,
        };
        let places = self.places(combination);
        let active = self.active(&places);
        let values =
            self.axes.iter().zip(places).zip(active).flat_map(|((axis, place), active)| {
                let values = axis.values.get(place).map_or(&[][..], Vec::as_slice);
                values.iter().map(move |value| active.then_some(value))
            });
        values.collect()
    }

    /// Returns the keys that are set at point `index`, with their values.
    fn set(&self, index: usize) -> impl Iterator<Item = (&str, &Value)> {
        self.keys().zip(self.values(index)).filter_map(|(key, value)| Some((key, value?)))
    }

    /// Returns the overrides that turn the scenario into that of point `index`.
    pub fn overrides(&self, index: usize) -> Vec<Override> {
        self.set(index).map(|(key, value)| Override::new(key.to_owned(), value.clone())).collect()
    }

    /// Describes point `index` for messages: `threads = 8, jobs = 16`.
    pub fn describe(&self, index: usize) -> String {
        join(self.set(index).map(|(key, value)| format!("{key} = {value}")))
    }
}

fn join(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn axis(at: usize, length: i64, when: Vec<Condition>) -> Axis {
        let values = (0..length).map(|value| vec![Value::from(value)]).collect();
        Axis { keys: vec![format!("key{at}")], values, when }
    }

    fn grid(lengths: &[i64]) -> Result<Grid, (f64, usize)> {
        let all = lengths.iter().enumerate().map(|(at, length)| axis(at, *length, Vec::new()));
        Grid::new(all.collect())
    }

    /// Returns the condition that the key of axis `axis` has one of `values`.
    fn when(axis: usize, values: &[i64]) -> Condition {
        Condition { axis, place: 0, values: values.iter().map(|value| (*value).into()).collect() }
    }

    #[test]
    fn sampled_points_of_a_large_grid_cover_every_value_of_every_axis() {
        let grid = grid(&[10, 100, 20]).expect("few points");
        assert_eq!(grid.samples(20_000).len(), 20_000);
        let samples = grid.samples(1_000);
        assert_eq!(samples.len(), 1 + 9 + 99 + 19);
        for (axis, length) in [(0, 10), (1, 100), (2, 20)] {
            let values = samples.iter().map(|at| grid.values(*at)[axis].map(ToString::to_string));
            let different: BTreeSet<Option<String>> = values.collect();
            assert_eq!(different.len(), length);
        }
        assert_eq!(grid.samples(5).len(), 5);
    }

    #[test]
    fn sweep_grids_of_more_than_100_million_points_are_refused() {
        assert_eq!(grid(&[10_000, 10_000]).map(|grid| grid.len()), Ok(MOST_POINTS));
        assert_eq!(grid(&[1_000; 8]).map(|grid| grid.len()), Err((1e24, MOST_POINTS)));
        assert_eq!(grid(&[3, 0]).map(|grid| grid.len()), Ok(0));
    }

    #[test]
    fn values_of_an_axis_whose_condition_fails_make_no_points() {
        // System: 4 values; 3 more where the first is 1 or 2; 5 more where the second is 2. Expectation: every point once, with
        // the keys that are set there: for 0 and 3 one point, for 1 and 2 two and five.
        let axes = vec![
            axis(0, 4, Vec::new()),
            axis(1, 3, vec![when(0, &[1, 2])]),
            axis(2, 5, vec![when(1, &[2])]),
        ];
        let grid = Grid::new(axes).expect("few points");
        let described: Vec<String> = (0..grid.len()).map(|at| grid.describe(at)).collect();
        assert_eq!(described.len(), 1 + 2 * (2 + 5) + 1);
        assert_eq!(described.iter().collect::<BTreeSet<_>>().len(), described.len());
        assert_eq!(described[..3], ["key0 = 0", "key0 = 1, key1 = 0", "key0 = 1, key1 = 1"]);
        assert_eq!(described[3], "key0 = 1, key1 = 2, key2 = 0");
        assert_eq!(grid.values(0)[1..], [None, None]);
        assert_eq!(grid.overrides(3).len(), 3);
        // Every value is among the points that are checked first.
        let seen: BTreeSet<String> = grid
            .each_value()
            .map(|(at, values)| format!("{} {at} {}", grid.describe(at), values[0]))
            .collect();
        assert_eq!(seen.len(), 3 + 2 + 4);
        assert!(seen.iter().any(|of| of.starts_with("key0 = 1, key1 = 2, key2 = 4 ")), "{seen:?}");
    }

    #[test]
    fn keys_that_are_swept_together_take_the_values_of_one_element() {
        let pair = |a: i64, b: i64| vec![Value::from(a), Value::from(b)];
        let together = Axis {
            keys: vec!["a".into(), "b".into()],
            values: vec![pair(1, 10), pair(2, 20)],
            when: Vec::new(),
        };
        let grid = Grid::new(vec![axis(0, 2, Vec::new()), together]).expect("few points");
        let described: Vec<String> = (0..grid.len()).map(|at| grid.describe(at)).collect();
        let expected = ["key0 = 0, a = 1, b = 10", "key0 = 0, a = 2, b = 20"];
        assert_eq!(described[..2], expected);
        assert_eq!((grid.len(), grid.keys().count()), (4, 3));
        assert_eq!(grid.units(), [Some(String::new()), Some(String::new()), Some(String::new())]);
    }
}
