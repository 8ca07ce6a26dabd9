//! Fully connected layers and the table that turns tokens into vectors.

use super::layer::{At, Gradient, Layer, spread};
use super::product::{Matrix, Panels};
use super::real::Real;
use forebay_model::random::Generator;

/// `y = W·x + b` for each row of a sample.
pub(super) struct Linear {
    rows: usize,
    from: usize,
    to: usize,
    panels: Panels,
}

impl Linear {
    /// Returns a layer that turns the `rows` vectors of a sample, each of `from` values, into as many vectors
    /// of `to` values.
    pub(super) fn new(rows: usize, from: usize, to: usize) -> Self {
        Linear { rows, from, to, panels: Panels::default() }
    }
}

impl<F: Real> Layer<F> for Linear {
    fn outputs(&self) -> usize {
        self.rows * self.to
    }

    fn parameters(&self) -> usize {
        self.to * (self.from + 1)
    }

    fn initialise(&self, parameters: &mut [F], draw: &mut Generator) {
        let (weights, bias) = parameters.split_at_mut(self.to * self.from);
        spread(weights, self.from, 1.0, draw);
        bias.fill(F::default());
    }

    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let (weights, bias) = parameters.split_at(self.to * self.from);
        for y in output.chunks_exact_mut(self.to) {
            y.copy_from_slice(bias);
        }
        let x = Matrix::new(input, input.len() / self.from, self.from);
        let w = Matrix::new(weights, self.to, self.from).transposed();
        F::multiply(&mut self.panels, x, w, output, self.to, true);
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let (weights, _) = parameters.split_at(self.to * self.from);
        let (d_weights, d_bias) = back.parameters.split_at_mut(self.to * self.from);
        for d in back.output.chunks_exact(self.to) {
            d_bias.iter_mut().zip(d).for_each(|(sum, &d)| *sum += d);
        }
        let rows = back.output.len() / self.to;
        let d = Matrix::new(back.output, rows, self.to);
        let x = Matrix::new(at.input, rows, self.from);
        F::multiply(&mut self.panels, d.transposed(), x, d_weights, self.from, true);
        if let Some(d_input) = back.input {
            let w = Matrix::new(weights, self.to, self.from);
            F::multiply(&mut self.panels, d, w, d_input, self.from, false);
        }
    }
}

/// A learnt vector for each token plus one for each position.
pub(super) struct Embedding {
    /// Number of different tokens (`tokens`), of positions (`length`), and of values in a vector (`width`).
    pub(super) tokens: usize,
    pub(super) length: usize,
    pub(super) width: usize,
}

impl Embedding {
    /// Returns where the row of a token begins in the table; tokens are stored as floating-point numbers.
    fn row<F: Real>(&self, token: F) -> usize {
        (token.wide() as usize).min(self.tokens - 1) * self.width
    }
}

impl<F: Real> Layer<F> for Embedding {
    fn outputs(&self) -> usize {
        self.length * self.width
    }

    fn parameters(&self) -> usize {
        (self.tokens + self.length) * self.width
    }

    fn initialise(&self, parameters: &mut [F], draw: &mut Generator) {
        spread(parameters, 2, 1.0, draw);
    }

    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let (table, places) = parameters.split_at(self.tokens * self.width);
        for (tokens, y) in
            input.chunks_exact(self.length).zip(output.chunks_exact_mut(self.length * self.width))
        {
            let rows = places.chunks_exact(self.width).zip(y.chunks_exact_mut(self.width));
            for (&token, (place, y)) in tokens.iter().zip(rows) {
                let vector = &table[self.row(token)..][..self.width];
                for ((y, &a), &b) in y.iter_mut().zip(vector).zip(place) {
                    *y = a + b;
                }
            }
        }
    }

    /// Adds to the gradient of the parameters. Sets the gradient of the input to zero, because the loss has
    /// no gradient with respect to tokens.
    fn backward(&mut self, _: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let (d_table, d_places) = back.parameters.split_at_mut(self.tokens * self.width);
        let rows = at.input.iter().zip(back.output.chunks_exact(self.width));
        for (i, (&token, d)) in rows.enumerate() {
            let place = &mut d_places[i % self.length * self.width..][..self.width];
            let vector = &mut d_table[self.row(token)..][..self.width];
            for ((a, b), &d) in vector.iter_mut().zip(place).zip(d) {
                *a += d;
                *b += d;
            }
        }
        if let Some(d_input) = back.input {
            d_input.fill(F::default());
        }
    }
}
