//! Least squares in a few unknowns that must not be negative.

/// Largest number of unknowns.
pub(super) const MOST: usize = 3;

/// Columns count as linearly dependent if a pivot is below this share of the diagonal.
const SINGULAR: f64 = 1e-9;

/// One value for each unknown; a law with fewer unknowns uses only the first values.
pub(super) type Coefficients = [f64; MOST];

/// The sums over rows that least squares needs (normal equations).
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    products: [[f64; MOST]; MOST],
    targets: [f64; MOST],
}

impl Sums {
    /// Adds a row: `value` should equal the sum of the coefficients times `features`.
    pub(super) fn add(&mut self, features: &Coefficients, value: f64, weight: f64) {
        for (i, a) in features.iter().enumerate() {
            self.targets[i] += weight * a * value;
            for (j, b) in features.iter().enumerate() {
                self.products[i][j] += weight * a * b;
            }
        }
    }

    /// Solves for the coefficients of the first `columns` columns, none of them negative.
    pub(super) fn solve(&self, columns: usize) -> Coefficients {
        self.solve_within((1 << columns) - 1)
    }

    /// Solves for the coefficients of the columns in the set `all` (a bit for each), none of them negative; the others are 0. At
    /// most seven sets of columns can have positive coefficients, so all sets are tried.
    pub(super) fn solve_within(&self, all: usize) -> Coefficients {
        let mut best = ([0.0; MOST], 0.0);
        for set in (1..=all).rev().filter(|set| set & !all == 0) {
            let Some(found) = self.solve_set(set) else { continue };
            if found.iter().any(|c| *c < 0.0) {
                continue;
            }
            let gain: f64 = found.iter().zip(&self.targets).map(|(c, t)| c * t).sum();
            if set == all {
                return found;
            }
            // Among sets that do equally well the first is kept, whatever the rounding.
            if gain > best.1 * (1.0 + 1e-9) {
                best = (found, gain);
            }
        }
        best.0
    }

    /// Returns whether the rows determine the coefficients of the columns in `set` separately.
    pub(super) fn tells_apart(&self, set: usize) -> bool {
        self.solve_set(set).is_some()
    }

    /// Solves for the columns in `set` by elimination; the matrix is scaled so that its diagonal is one. Returns `None` if the
    /// columns are linearly dependent.
    fn solve_set(&self, set: usize) -> Option<Coefficients> {
        let chosen = |i: usize| set >> i & 1 == 1;
        let size: [f64; MOST] = std::array::from_fn(|i| self.products[i][i].sqrt());
        if (0..MOST).any(|i| chosen(i) && !(size[i] > 0.0 && size[i].is_finite())) {
            return None;
        }
        let mut rows = [[0.0; MOST + 1]; MOST];
        for i in (0..MOST).filter(|i| chosen(*i)) {
            for j in (0..MOST).filter(|j| chosen(*j)) {
                rows[i][j] = self.products[i][j] / (size[i] * size[j]);
            }
            rows[i][MOST] = self.targets[i] / size[i];
        }
        // The matrix is positive definite, so no rows need to be exchanged.
        for i in (0..MOST).filter(|i| chosen(*i)) {
            if rows[i][i] < SINGULAR {
                return None;
            }
            for k in (0..MOST).filter(|k| chosen(*k) && *k != i) {
                let factor = rows[k][i] / rows[i][i];
                let pivot = rows[i];
                rows[k].iter_mut().zip(pivot).for_each(|(a, b)| *a -= factor * b);
            }
        }
        let value = |i: usize| if chosen(i) { rows[i][MOST] / rows[i][i] / size[i] } else { 0.0 };
        Some(std::array::from_fn(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(rows: &[([f64; 3], f64)]) -> Sums {
        let mut sums = Sums::default();
        rows.iter().for_each(|(features, value)| sums.add(features, *value, 1.0));
        sums
    }

    #[test]
    fn least_squares_recovers_the_coefficients_of_noiseless_data() {
        let rows = [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 2.0, 5.0], [1.0, 3.0, 1.0]];
        let rows = rows.map(|r| (r, 2.0 + 3.0 * r[1] + 0.5 * r[2]));
        let found = sums(&rows).solve(3);
        for (found, expected) in found.iter().zip([2.0, 3.0, 0.5]) {
            assert!((found - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn the_least_squares_fit_allows_no_negative_coefficient() {
        // The values decrease, so the best fit without a negative slope is the mean.
        let found = sums(&[([1.0, 0.0, 0.0], 3.0), ([1.0, 1.0, 0.0], 1.0)]).solve(2);
        assert_eq!(found, [2.0, 0.0, 0.0]);
    }

    #[test]
    fn least_squares_fits_with_linearly_dependent_columns_are_solved() {
        let found = sums(&[([1.0, 2.0, 0.0], 4.0), ([2.0, 4.0, 0.0], 8.0)]).solve(2);
        assert!((found[0] + 2.0 * found[1] - 4.0).abs() < 1e-9, "{found:?}");
        assert_eq!(Sums::default().solve(3), [0.0; 3]);
    }
}
