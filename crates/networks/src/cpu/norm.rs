//! Normalisation layers: batch norm (each channel over the batch) and layer norm (each row over its values).

use super::layer::{At, Gradient, Layer};
use super::real::Real;
use super::sums::{Sums, sum};
use forebay_model::random::Generator;
use std::ops::Range;

/// Added to a variance, so that its square root is not zero.
const EPSILON: f64 = 1e-5;

/// Batch norm with the statistics of the batch (Ioffe and Szegedy, 2015). Where threads split a
/// batch, each has the statistics of its part, as replicas have in data-parallel training.
pub(super) struct BatchNorm<F> {
    channels: usize,
    /// Number of values of a channel in a sample.
    plane: usize,
    /// Mean and 1/sd of each channel.
    moments: Vec<(F, F)>,
}

impl<F: Real> BatchNorm<F> {
    pub(super) fn new(channels: usize, plane: usize) -> Self {
        BatchNorm { channels, plane, moments: Vec::new() }
    }
}

impl<F> BatchNorm<F> {
    /// Returns the ranges of a channel's planes, sample after sample, in a batch of `values` values.
    fn planes(&self, channel: usize, values: usize) -> impl Iterator<Item = Range<usize>> {
        let plane = self.plane;
        let first = channel * plane..values;
        first.step_by(self.channels * plane).map(move |start| start..start + plane)
    }
}

impl<F: Real> Layer<F> for BatchNorm<F> {
    fn outputs(&self) -> usize {
        self.channels * self.plane
    }

    fn parameters(&self) -> usize {
        2 * self.channels
    }

    fn initialise(&self, parameters: &mut [F], _: &mut Generator) {
        let (scale, shift) = parameters.split_at_mut(self.channels);
        scale.fill(F::of(1.0));
        shift.fill(F::default());
    }

    /// Computes channel after channel, so that a channel's values are still in the cache when its moments are
    /// known.
    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let share = F::of(self.channels as f64 / input.len() as f64);
        let (scale, shift) = parameters.split_at(self.channels);
        self.moments.clear();
        for c in 0..self.channels {
            let planes = || self.planes(c, input.len());
            let moments = F::vectors(|| {
                let (mut sum, mut squares) = (Sums::new(), Sums::new());
                planes().for_each(|at| sum.add(&input[at], |x| x));
                let mean = sum.total() * share;
                planes().for_each(|at| squares.add(&input[at], |x| (x - mean) * (x - mean)));
                let rate = F::of(1.0) / (squares.total() * share + F::of(EPSILON)).sqrt();
                for at in planes() {
                    let pairs = output[at.clone()].iter_mut().zip(&input[at]);
                    pairs.for_each(|(y, &x)| *y = (x - mean) * (scale[c] * rate) + shift[c]);
                }
                (mean, rate)
            });
            self.moments.push(moments);
        }
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, mut back: Gradient<'_, F>) {
        let share = F::of(self.channels as f64 / at.input.len() as f64);
        let (d_scale, d_shift) = back.parameters.split_at_mut(self.channels);
        for (c, &(mean, rate)) in self.moments.iter().enumerate() {
            let planes = || self.planes(c, at.input.len());
            F::vectors(|| {
                let (mut sum, mut product) = (Sums::new(), Sums::new());
                for place in planes() {
                    let (x, d) = (&at.input[place.clone()], &back.output[place]);
                    sum.add(d, |d| d);
                    product.add_pairs(x, d, |x, d| (x - mean) * d);
                }
                let (sum, product) = (sum.total(), product.total() * rate);
                d_scale[c] += product;
                d_shift[c] += sum;
                let (level, tilt) = (sum * share, product * share * rate);
                let Some(d_input) = back.input.as_deref_mut() else { return };
                let gain = parameters[c] * rate;
                for place in planes() {
                    let values = at.input[place.clone()].iter().zip(&back.output[place.clone()]);
                    for (dx, (&x, &d)) in d_input[place].iter_mut().zip(values) {
                        *dx = gain * (d - level - (x - mean) * tilt);
                    }
                }
            });
        }
    }
}

/// Layer norm of each row (Ba, Kiros and Hinton, 2016).
pub(super) struct LayerNorm<F> {
    rows: usize,
    width: usize,
    /// Mean and 1/sd of each row.
    moments: Vec<(F, F)>,
}

impl<F: Real> LayerNorm<F> {
    /// Returns a layer for samples of `rows` rows, each of `width` values.
    pub(super) fn new(rows: usize, width: usize) -> Self {
        LayerNorm { rows, width, moments: Vec::new() }
    }
}

impl<F: Real> Layer<F> for LayerNorm<F> {
    fn outputs(&self) -> usize {
        self.rows * self.width
    }

    fn parameters(&self) -> usize {
        2 * self.width
    }

    fn initialise(&self, parameters: &mut [F], _: &mut Generator) {
        let (scale, shift) = parameters.split_at_mut(self.width);
        scale.fill(F::of(1.0));
        shift.fill(F::default());
    }

    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let share = F::of(1.0 / self.width as f64);
        let (scale, shift) = parameters.split_at(self.width);
        self.moments.clear();
        F::vectors(|| {
            for (x, y) in input.chunks_exact(self.width).zip(output.chunks_exact_mut(self.width)) {
                let (mean, mut squares) = (sum(x) * share, Sums::new());
                squares.add(x, |x| (x - mean) * (x - mean));
                let rate = F::of(1.0) / (squares.total() * share + F::of(EPSILON)).sqrt();
                self.moments.push((mean, rate));
                for (((y, &x), &scale), &shift) in y.iter_mut().zip(x).zip(scale).zip(shift) {
                    *y = (x - mean) * rate * scale + shift;
                }
            }
        });
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let width = self.width;
        let mut d_input = back.input;
        let rows = at.input.chunks_exact(width).zip(back.output.chunks_exact(width));
        F::vectors(|| {
            for (i, ((x, d), &moments)) in rows.zip(&self.moments).enumerate() {
                let row = d_input.as_deref_mut().map(|all| &mut all[i * width..][..width]);
                row_gradient(&parameters[..width], (x, d), moments, back.parameters, row);
            }
        });
    }
}

/// Adds a row's contribution to the gradients of scale and shift; sets the gradient of the row itself.
#[inline(always)]
fn row_gradient<F: Real>(
    scale: &[F],
    (x, d): (&[F], &[F]),
    (mean, rate): (F, F),
    d_parameters: &mut [F],
    d_input: Option<&mut [F]>,
) {
    let (d_scale, d_shift) = d_parameters.split_at_mut(scale.len());
    let values = || x.iter().zip(d);
    for ((d_scale, d_shift), (&x, &d)) in d_scale.iter_mut().zip(d_shift).zip(values()) {
        *d_scale += d * (x - mean) * rate;
        *d_shift += d;
    }
    let Some(d_input) = d_input else { return };
    let share = F::of(1.0 / scale.len() as f64);
    // Sums of the gradients of the normalised values (`level`), and of these gradients times the normalised
    // values (`tilt`).
    let (mut level, mut tilt) = (Sums::new(), Sums::new());
    level.add_pairs(d, scale, |d, scale| d * scale);
    for ((dx, &scale), (&x, &d)) in d_input.iter_mut().zip(scale).zip(values()) {
        *dx = d * scale * ((x - mean) * rate);
    }
    tilt.add(d_input, |x| x);
    let (level, tilt) = (level.total() * share, tilt.total() * share);
    for ((dx, &scale), (&x, &d)) in d_input.iter_mut().zip(scale).zip(values()) {
        *dx = rate * (d * scale - level - (x - mean) * rate * tilt);
    }
}
