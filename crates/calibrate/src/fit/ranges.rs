//! Converts the lines fitted to the times of a collective, each over a range of sizes, to parameters with confidence intervals.

use super::bootstrap;
use super::cell::{Cells, median};
use super::estimate::{KEPT, rounded};
use super::transport::line;
use forebay_scenario::profile::{Fit, Parameter};

/// Explanation for the parameters of a line on which only one size was measured.
const ONE_SIZE: &str =
    "only one size was measured: the line is that of all sizes, scaled to this size";

/// The cells of a collective, and the lines to which they are assigned.
pub(super) struct Lines<'a> {
    /// All cells, in ascending order of sizes.
    pub(super) cells: &'a Cells,
    /// Indices of the cells on each line.
    pub(super) lines: Vec<Vec<usize>>,
    /// Relative standard deviation of a size's mean time about its line.
    pub(super) noise: f64,
}

impl Lines<'_> {
    /// Returns the parameters with their intervals.
    pub(super) fn fit(&self, draws: usize) -> Option<Fit> {
        let means = self.cells.means();
        let coefficients = self.coefficients(&means)?;
        let ranges = self.ranges();
        let centre = self.values(&ranges, &coefficients);
        let used = 2 * self.lines.len();
        let misfit = self.misfit(&coefficients);
        let again = |means: &[f64]| Some(self.values(&ranges, &self.coefficients(means)?));
        let freedom = bootstrap::freedom(self.cells, used);
        let all = bootstrap::draws(self.cells, misfit, &centre, draws, freedom, again);
        let names = names(ranges.len());
        let parameters = (0..names.len()).map(|index| {
            let parameter = self.parameter(index, &ranges, centre[index], &all);
            (names[index].clone(), parameter)
        });
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|index| &names[*index]);
        let short = |index: usize, value| if place(index).1 == 2 { value } else { rounded(value) };
        let drawn = |draw: &Vec<f64>| order.iter().map(|i| short(*i, draw[*i])).collect();
        Some(Fit {
            parameters: parameters.collect(),
            samples: self.cells.count() as u64,
            residual: rounded(self.residual(&coefficients)),
            alone: None,
            ratios: Vec::new(),
            range: self
                .cells
                .range(0)
                .map(|range| ("bytes".to_owned(), range))
                .into_iter()
                .collect(),
            draws: all.iter().take(KEPT).map(drawn).collect(),
        })
    }

    /// Returns the offset [s] and slope [s/B] of each line. A line with only one size is the line through all sizes, scaled to
    /// the time at this size.
    fn coefficients(&self, means: &[f64]) -> Option<Vec<[f64; 2]>> {
        let all: Vec<usize> = (0..means.len()).collect();
        let of = |cells: &[usize]| {
            let found = line(self.cells, cells, means, self.noise)?.0.pieces[0]?;
            Some([found[0], found[1]])
        };
        let whole = of(&all)?;
        let at = |size: f64| whole[0] + whole[1] * size;
        let each = |cells: &Vec<usize>| match cells[..] {
            [one] => Some(whole.map(|part| part * means[one] / at(self.cells.cells[one].x[0]))),
            _ => of(cells),
        };
        self.lines.iter().map(each).collect()
    }

    /// Returns the ranges in ascending order of sizes. Each range has the index of its line and two measured sizes [B]: the last
    /// size below the range (0 if there is none) and the first size in the range.
    fn ranges(&self) -> Vec<(usize, [f64; 2])> {
        let mut of: Vec<(usize, usize)> = Vec::new();
        for (number, cells) in self.lines.iter().enumerate() {
            of.extend(cells.iter().map(|cell| (*cell, number)));
        }
        of.sort_unstable();
        let size = |cell: usize| self.cells.cells[cell].x[0];
        let mut ranges: Vec<(usize, [f64; 2])> = Vec::new();
        for (cell, line) in of {
            if ranges.last().is_none_or(|(before, _)| *before != line) {
                let below = if cell == 0 { 0.0 } else { size(cell - 1) };
                ranges.push((line, [below, size(cell)]));
            }
        }
        ranges
    }

    /// Returns the values of the parameters in the order of `names`: offset and slope of the first range; offset, slope and lower
    /// border of each further range.
    fn values(&self, ranges: &[(usize, [f64; 2])], lines: &[[f64; 2]]) -> Vec<f64> {
        let mut values = Vec::new();
        for (number, (line, [below, above])) in ranges.iter().enumerate() {
            values.extend(lines[*line]);
            if number > 0 {
                // The border is a whole number of bytes, above the smaller size and at most the larger. Thresholds in libraries
                // are the last size of the lower range.
                values.push((below * above).sqrt().floor() + 1.0);
            }
        }
        values
    }

    fn parameter(
        &self,
        index: usize,
        ranges: &[(usize, [f64; 2])],
        value: f64,
        draws: &[Vec<f64>],
    ) -> Parameter {
        let (range, part) = place(index);
        let (line, border) = ranges[range];
        let unit = ["s", "s/B", "B"][part].to_owned();
        if part == 2 {
            return Parameter { value, unit, ci95: Some(border), unidentified: None };
        }
        let ci95 = bootstrap::interval(draws, index, value).map(|ends| ends.map(rounded));
        let unidentified = match ci95 {
            _ if self.lines[line].len() == 1 => Some(ONE_SIZE.to_owned()),
            None => Some("too few trials for an interval".to_owned()),
            Some([low, high]) if high - low <= value => None,
            Some(_) if value == 0.0 => Some("too small to measure".to_owned()),
            Some(_) => Some("the interval is wider than the value".to_owned()),
        };
        Parameter { value: rounded(value), unit, ci95, unidentified }
    }

    /// Returns |measured − fitted| ÷ measured for each value of each cell.
    fn errors(&self, lines: &[[f64; 2]]) -> Vec<f64> {
        let mut errors = Vec::new();
        for (number, cells) in self.lines.iter().enumerate() {
            for cell in cells.iter().map(|cell| &self.cells.cells[*cell]) {
                let fitted = lines[number][0] + lines[number][1] * cell.x[0];
                errors.extend(cell.values.iter().map(|value| (1.0 - fitted / value).abs()));
            }
        }
        errors
    }

    fn residual(&self, lines: &[[f64; 2]]) -> f64 {
        median(&mut self.errors(lines))
    }

    /// Returns the relative standard deviation of the mean times about their lines, beyond the noise of the mean times
    /// themselves. Returns the field `noise` if every line goes exactly through its points, because it has as many coefficients
    /// as points.
    fn misfit(&self, lines: &[[f64; 2]]) -> f64 {
        let cells = &self.cells.cells;
        let free = cells.len().saturating_sub(2 * self.lines.len());
        if free == 0 {
            return self.noise;
        }
        let mean_error = |(number, cell): (usize, &usize)| {
            let cell = &cells[*cell];
            (1.0 - (lines[number][0] + lines[number][1] * cell.x[0]) / cell.mean).abs()
        };
        let of = self.lines.iter().enumerate();
        let all = of.flat_map(|(number, cells)| cells.iter().map(move |cell| (number, cell)));
        let mut errors: Vec<f64> = all.map(mean_error).collect();
        // The smallest errors, as many as there are coefficients, have no information and are left out.
        errors.sort_by(f64::total_cmp);
        let scale = 1.4826 * median(&mut errors[cells.len() - free..]);
        // The median of so few squares may exceed their mean by chance; this excess is no misfit.
        let chance = 1.0 + (5.0 / free as f64).sqrt();
        let noise =
            chance * median(&mut cells.iter().map(|cell| cell.variance).collect::<Vec<_>>());
        (scale * scale - noise).max(0.0).sqrt()
    }
}

/// Returns the index of the range (from 0) to which parameter number `index` belongs, and the parameter's kind (0: offset, 1:
/// slope, 2: border).
fn place(index: usize) -> (usize, usize) {
    if index < 2 { (0, index) } else { ((index - 2) / 3 + 1, (index - 2) % 3) }
}

/// Returns the names of the parameters of `ranges` ranges.
fn names(ranges: usize) -> Vec<String> {
    let name = |index: usize| {
        let (range, part) = place(index);
        format!("{}_{}", ["alpha", "beta", "from"][part], range + 1)
    };
    (0..3 * ranges - 1).map(name).collect()
}
