//! Softmax and cross-entropy.

use super::real::Real;
use super::sums::{largest, sum};

/// Returns the loss summed over the rows of `scores` and sets the gradient of this loss. Loss and gradient are
/// divided by `rows`, the number of rows of the whole batch; `scores` may have only a part of these rows.
pub(super) fn cross_entropy<F: Real>(
    scores: &[F],
    targets: &[usize],
    rows: usize,
    gradient: &mut [F],
) -> f64 {
    let classes = scores.len() / targets.len();
    let share = F::of(1.0 / rows as f64);
    let mut loss = 0.0;
    F::vectors(|| {
        let all = scores.chunks_exact(classes).zip(gradient.chunks_exact_mut(classes));
        for ((row, d), &target) in all.zip(targets) {
            let top = largest(row);
            for (d, &x) in d.iter_mut().zip(row) {
                *d = (x - top).exp();
            }
            let sum = sum(d);
            loss += sum.wide().ln() - (row[target] - top).wide();
            let factor = share / sum;
            d.iter_mut().for_each(|d| *d *= factor);
            d[target] -= share;
        }
    });
    loss / rows as f64
}
