//! Convolution of square images: patches as columns (im2col), then a product of matrices.

use super::layer::{At, Gradient, Layer, spread};
use super::product::{Matrix, Panels};
use super::real::Real;
use super::sums::sum;
use crate::probe::network::Shape;
use forebay_model::random::Generator;

impl Shape {
    /// Calls `run` for each row of each tap's output positions that lies in the image, with the
    /// place among the columns, the place in the image, and how many positions there are; the rest
    /// of the columns is padding.
    fn runs(&self, mut run: impl FnMut(usize, usize, usize)) {
        let (side, out) = (self.side, self.out());
        // Positions o with 0 ≤ o·stride + tap − padding < side.
        let first = |tap: usize| self.padding.saturating_sub(tap).div_ceil(self.stride);
        let end = |tap: usize| (side + self.padding - tap).div_ceil(self.stride).min(out);
        for tap in 0..self.patch() {
            let (channel, dy, dx) = (
                tap / (self.kernel * self.kernel),
                tap / self.kernel % self.kernel,
                tap % self.kernel,
            );
            let (left, right) = (first(dx), end(dx));
            for y in first(dy)..end(dy) {
                let row = channel * side + y * self.stride + dy - self.padding;
                let from = row * side + left * self.stride + dx - self.padding;
                run((tap * out + y) * out + left, from, right.saturating_sub(left));
            }
        }
    }
}

/// Filters and, unless a batch norm follows, a bias for each channel.
pub(super) struct Conv<F> {
    shape: Shape,
    bias: bool,
    columns: Vec<F>,
    panels: Panels,
}

impl<F: Real> Conv<F> {
    pub(super) fn new(shape: Shape, bias: bool) -> Self {
        let columns = vec![F::default(); shape.patch() * shape.out() * shape.out()];
        Conv { shape, bias, columns, panels: Panels::default() }
    }

    /// The patches of one image; padding stays zero.
    fn spread_out(&mut self, image: &[F]) {
        let (columns, stride) = (&mut self.columns, self.shape.stride);
        self.shape.runs(|to, from, n| {
            let values = image[from..].iter().step_by(stride);
            if stride == 1 {
                columns[to..to + n].copy_from_slice(&image[from..from + n]);
            } else {
                columns[to..to + n].iter_mut().zip(values).for_each(|(c, &x)| *c = x);
            }
        });
    }

    /// Adds columns back to where their values came from.
    fn gather(&self, columns: &[F], image: &mut [F]) {
        let stride = self.shape.stride;
        self.shape.runs(|at, to, n| {
            let pixels = image[to..].iter_mut().step_by(stride);
            pixels.zip(&columns[at..at + n]).for_each(|(x, &c)| *x += c);
        });
    }
}

impl<F: Real> Layer<F> for Conv<F> {
    fn outputs(&self) -> usize {
        self.shape.to * self.shape.out() * self.shape.out()
    }

    fn parameters(&self) -> usize {
        self.shape.to * (self.shape.patch() + usize::from(self.bias))
    }

    fn initialise(&self, parameters: &mut [F], draw: &mut Generator) {
        let filters = self.shape.to * self.shape.patch();
        spread(&mut parameters[..filters], self.shape.patch(), 2.0, draw);
        parameters[filters..].fill(F::default());
    }

    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let Shape { from, to, side, .. } = self.shape;
        let (patch, plane) = (self.shape.patch(), self.shape.out() * self.shape.out());
        let (filters, bias) = parameters.split_at(to * patch);
        let images = input.chunks_exact(from * side * side);
        for (x, y) in images.zip(output.chunks_exact_mut(to * plane)) {
            self.spread_out(x);
            for (y, &b) in y.chunks_exact_mut(plane).zip(bias) {
                y.fill(b);
            }
            let (filters, columns) =
                (Matrix::new(filters, to, patch), Matrix::new(&self.columns, patch, plane));
            F::multiply(&mut self.panels, filters, columns, y, plane, self.bias);
        }
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let Shape { from, to, side, .. } = self.shape;
        let (patch, plane) = (self.shape.patch(), self.shape.out() * self.shape.out());
        let filters = Matrix::new(&parameters[..to * patch], to, patch);
        let (d_filters, d_bias) = back.parameters.split_at_mut(to * patch);
        let mut d_input = back.input;
        // Of its own, because the padding of `columns` must stay zero.
        let mut d_columns = vec![F::default(); if d_input.is_some() { patch * plane } else { 0 }];
        for (i, d) in back.output.chunks_exact(to * plane).enumerate() {
            let place = i * from * side * side..(i + 1) * from * side * side;
            self.spread_out(&at.input[place.clone()]);
            let planes = d_bias.iter_mut().zip(d.chunks_exact(plane));
            F::vectors(|| planes.for_each(|(total, d)| *total += sum(d)));
            let d = Matrix::new(d, to, plane);
            let columns = Matrix::new(&self.columns, patch, plane).transposed();
            F::multiply(&mut self.panels, d, columns, d_filters, patch, true);
            if let Some(d_input) = d_input.as_deref_mut() {
                let turned = filters.transposed();
                F::multiply(&mut self.panels, turned, d, &mut d_columns, plane, false);
                let image = &mut d_input[place];
                image.fill(F::default());
                self.gather(&d_columns, image);
            }
        }
    }
}
