//! Normalisation: of channels over a batch, of rows over their width.

use super::layer::{At, Gradient, Layer};
use super::real::Real;
use forebay_model::random::Generator;

/// Keeps the square root of a variance away from zero.
const EPSILON: f64 = 1e-5;

/// Batch norm with the statistics of the batch (Ioffe and Szegedy, 2015). Where threads split a
/// batch, each has the statistics of its part, as replicas have in data-parallel training.
pub(super) struct BatchNorm<F> {
    channels: usize,
    /// Values of a channel in a sample.
    plane: usize,
    /// Mean and 1/sd of each channel.
    moments: Vec<(F, F)>,
}

impl<F: Real> BatchNorm<F> {
    pub(super) fn new(channels: usize, plane: usize) -> Self {
        BatchNorm { channels, plane, moments: Vec::new() }
    }
}

/// The planes of one channel, sample after sample.
fn planes<F>(
    values: &[F],
    channel: usize,
    channels: usize,
    plane: usize,
) -> impl Iterator<Item = &[F]> {
    values.chunks_exact(plane).skip(channel).step_by(channels)
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

    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let BatchNorm { channels, plane, .. } = *self;
        let share = F::of(channels as f64 / input.len() as f64);
        let (scale, shift) = parameters.split_at(channels);
        self.moments.clear();
        for c in 0..channels {
            let sum = |of: &dyn Fn(&[F]) -> F| planes(input, c, channels, plane).map(of).sum::<F>();
            let mean = sum(&|p| p.iter().copied().sum()) * share;
            let variance = sum(&|p| p.iter().map(|&x| (x - mean) * (x - mean)).sum()) * share;
            self.moments.push((mean, F::of(1.0) / (variance + F::of(EPSILON)).sqrt()));
        }
        let pairs = input.chunks_exact(plane).zip(output.chunks_exact_mut(plane));
        for (i, (x, y)) in pairs.enumerate() {
            let c = i % channels;
            let (mean, rate) = self.moments[c];
            let (gain, shift) = (scale[c] * rate, shift[c]);
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = (x - mean) * gain + shift);
        }
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let BatchNorm { channels, plane, .. } = *self;
        let share = F::of(channels as f64 / at.input.len() as f64);
        let mut terms = Vec::with_capacity(channels);
        for (c, &(mean, rate)) in self.moments.iter().enumerate() {
            let (mut sum, mut product) = (F::default(), F::default());
            let both =
                planes(at.input, c, channels, plane).zip(planes(back.output, c, channels, plane));
            for (x, d) in both {
                sum += d.iter().copied().sum();
                product += x.iter().zip(d).map(|(&x, &d)| (x - mean) * d).sum();
            }
            product *= rate;
            back.parameters[c] += product;
            back.parameters[channels + c] += sum;
            terms.push((sum * share, product * share * rate));
        }
        let Some(d_input) = back.input else { return };
        let values = at.input.chunks_exact(plane).zip(back.output.chunks_exact(plane));
        for (i, (dx, (x, d))) in d_input.chunks_exact_mut(plane).zip(values).enumerate() {
            let c = i % channels;
            let ((mean, rate), (level, tilt)) = (self.moments[c], terms[c]);
            let gain = parameters[c] * rate;
            for ((dx, &x), &d) in dx.iter_mut().zip(x).zip(d) {
                *dx = gain * (d - level - (x - mean) * tilt);
            }
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
    /// `rows` of `width` values per sample.
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
        for (x, y) in input.chunks_exact(self.width).zip(output.chunks_exact_mut(self.width)) {
            let mean = x.iter().copied().sum::<F>() * share;
            let variance = x.iter().map(|&x| (x - mean) * (x - mean)).sum::<F>() * share;
            let rate = F::of(1.0) / (variance + F::of(EPSILON)).sqrt();
            self.moments.push((mean, rate));
            for (((y, &x), &scale), &shift) in y.iter_mut().zip(x).zip(scale).zip(shift) {
                *y = (x - mean) * rate * scale + shift;
            }
        }
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let share = F::of(1.0 / self.width as f64);
        let scale = &parameters[..self.width];
        let (d_scale, d_shift) = back.parameters.split_at_mut(self.width);
        let mut d_input = back.input;
        let rows = at.input.chunks_exact(self.width).zip(back.output.chunks_exact(self.width));
        for (i, ((x, d), &(mean, rate))) in rows.zip(&self.moments).enumerate() {
            let (mut level, mut tilt) = (F::default(), F::default());
            for j in 0..self.width {
                let normal = (x[j] - mean) * rate;
                d_scale[j] += d[j] * normal;
                d_shift[j] += d[j];
                level += d[j] * scale[j];
                tilt += d[j] * scale[j] * normal;
            }
            let (level, tilt) = (level * share, tilt * share);
            let Some(d_input) = d_input.as_deref_mut() else { continue };
            let row = &mut d_input[i * self.width..][..self.width];
            for (j, dx) in row.iter_mut().enumerate() {
                *dx = rate * (d[j] * scale[j] - level - (x[j] - mean) * rate * tilt);
            }
        }
    }
}
