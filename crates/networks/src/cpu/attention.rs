//! Causal self-attention of several heads (Vaswani et al., 2017).

use super::layer::{At, Gradient, Layer};
use super::product::{Matrix, Panels};
use super::real::Real;
use super::sums::{Sums, largest, sum};

/// Self-attention without projections: takes rows of query, key and value side by side and returns rows of
/// attended values. The projections before and after it are linear layers of their own.
pub(super) struct Attention<F> {
    heads: usize,
    length: usize,
    /// Number of values in a row, all heads together.
    width: usize,
    /// Attention weights of each sample and head: how much each row attends to each row.
    weights: Vec<F>,
    scores: Vec<F>,
    panels: Panels,
}

impl<F: Real> Attention<F> {
    pub(super) fn new(heads: usize, length: usize, width: usize) -> Self {
        let scores = vec![F::default(); length * length];
        Attention { heads, length, width, weights: Vec::new(), scores, panels: Panels::default() }
    }

    /// Returns 1/√(width of a head).
    fn scale(&self) -> F {
        F::of(1.0 / ((self.width / self.heads) as f64).sqrt())
    }
}

/// Turns the scores of one head into weights: in each row, a softmax over the columns up to the row's own;
/// later columns become zero.
fn soften<F: Real>(scores: &mut [F], length: usize, scale: F) {
    let rows = scores.chunks_exact_mut(length).enumerate();
    F::vectors(|| {
        for (i, row) in rows {
            let (seen, later) = row.split_at_mut(i + 1);
            later.fill(F::default());
            let top = largest(seen);
            seen.iter_mut().for_each(|x| *x = ((*x - top) * scale).exp());
            let share = F::of(1.0) / sum(seen);
            seen.iter_mut().for_each(|x| *x *= share);
        }
    });
}

impl<F: Real> Layer<F> for Attention<F> {
    fn outputs(&self) -> usize {
        self.length * self.width
    }

    fn forward(&mut self, _: &[F], input: &[F], output: &mut [F]) {
        let (length, width, head, scale) =
            (self.length, self.width, self.width / self.heads, self.scale());
        let samples = output.len() / (length * width);
        self.weights.resize(samples * self.heads * length * length, F::default());
        let mut weights = self.weights.chunks_exact_mut(length * length);
        for (x, y) in
            input.chunks_exact(3 * length * width).zip(output.chunks_exact_mut(length * width))
        {
            for (h, weights) in weights.by_ref().take(self.heads).enumerate() {
                let part =
                    |i: usize| Matrix::strided(&x[i * width + h * head..], length, head, 3 * width);
                let keys = part(1).transposed();
                F::multiply(&mut self.panels, part(0), keys, weights, length, false);
                soften(weights, length, scale);
                let weights = Matrix::new(weights, length, length);
                F::multiply(&mut self.panels, weights, part(2), &mut y[h * head..], width, false);
            }
        }
    }

    fn backward(&mut self, _: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let Some(d_input) = back.input else { return };
        let (length, width, head, scale) =
            (self.length, self.width, self.width / self.heads, self.scale());
        let square = length * length;
        for (i, dx) in d_input.chunks_exact_mut(3 * length * width).enumerate() {
            let x = &at.input[i * 3 * length * width..][..3 * length * width];
            let d = &back.output[i * length * width..][..length * width];
            for h in 0..self.heads {
                let part =
                    |i: usize| Matrix::strided(&x[i * width + h * head..], length, head, 3 * width);
                let place = |i: usize| i * width + h * head;
                let weights = &self.weights[(i * self.heads + h) * square..][..square];
                let d = Matrix::strided(&d[h * head..], length, head, width);
                let (panels, scores) = (&mut self.panels, &mut self.scores);
                let turned = Matrix::new(weights, length, length).transposed();
                F::multiply(panels, turned, d, &mut dx[place(2)..], 3 * width, false);
                F::multiply(panels, d, part(2).transposed(), scores, length, false);
                harden(scores, weights, length, scale);
                let d_scores = Matrix::new(scores, length, length);
                F::multiply(panels, d_scores, part(1), &mut dx[place(0)..], 3 * width, false);
                let turned = d_scores.transposed();
                F::multiply(panels, turned, part(0), &mut dx[place(1)..], 3 * width, false);
            }
        }
    }
}

/// Turns gradients with respect to weights into gradients with respect to scores.
fn harden<F: Real>(gradients: &mut [F], weights: &[F], length: usize, scale: F) {
    let rows = gradients.chunks_exact_mut(length).zip(weights.chunks_exact(length));
    F::vectors(|| {
        for (d, w) in rows {
            let mut level = Sums::new();
            level.add_pairs(d, w, |d, w| d * w);
            let level = level.total();
            d.iter_mut().zip(w).for_each(|(d, &w)| *d = w * (*d - level) * scale);
        }
    });
}
