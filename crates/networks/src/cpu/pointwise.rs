//! Operators without parameters: ReLU, GELU, pooling.

use super::layer::{At, Gradient, Layer};
use super::real::Real;
use super::sums::sum;
use crate::Windows;

/// ReLU, `max(x, 0)`.
pub(super) struct Relu(pub(super) usize);

impl<F: Real> Layer<F> for Relu {
    fn outputs(&self) -> usize {
        self.0
    }

    fn forward(&mut self, _: &[F], input: &[F], output: &mut [F]) {
        let zero = F::default();
        let values = output.iter_mut().zip(input);
        F::vectors(|| values.for_each(|(y, &x)| *y = if x > zero { x } else { zero }));
    }

    fn backward(&mut self, _: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let zero = F::default();
        let Some(d_input) = back.input else { return };
        F::vectors(|| {
            for ((dx, &y), &d) in d_input.iter_mut().zip(at.output).zip(back.output) {
                *dx = if y > zero { d } else { zero };
            }
        });
    }
}

/// GELU, `x·Φ(x)`, with Φ approximated by tanh (Hendrycks and Gimpel, 2016).
pub(super) struct Gelu(pub(super) usize);

/// Constants of the approximation of GELU by tanh: √(2/π) (`SLOPE`) and the factor of the cubic term (`CUBIC`).
const SLOPE: f64 = 0.797_884_560_802_865_4;
const CUBIC: f64 = 0.044_715;

/// Returns the value of tanh in the approximation of GELU at x: tanh(√(2/π)·(x + 0.044715·x³)).
#[inline(always)]
fn tanh<F: Real>(x: F) -> F {
    let two = F::of(2.0);
    let u = F::of(SLOPE) * (x + F::of(CUBIC) * x * x * x);
    F::of(1.0) - two / ((two * u).exp() + F::of(1.0))
}

impl<F: Real> Layer<F> for Gelu {
    fn outputs(&self) -> usize {
        self.0
    }

    fn forward(&mut self, _: &[F], input: &[F], output: &mut [F]) {
        let values = output.iter_mut().zip(input);
        F::vectors(|| values.for_each(|(y, &x)| *y = F::of(0.5) * x * (F::of(1.0) + tanh(x))));
    }

    fn backward(&mut self, _: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let (half, one) = (F::of(0.5), F::of(1.0));
        let Some(d_input) = back.input else { return };
        F::vectors(|| {
            for ((dx, &x), &d) in d_input.iter_mut().zip(at.input).zip(back.output) {
                let t = tanh(x);
                let inner = F::of(SLOPE) * (one + F::of(3.0 * CUBIC) * x * x);
                *dx = d * half * (one + t + x * (one - t * t) * inner);
            }
        });
    }
}

/// Max pooling: the largest value of each window. If several values are largest, the first one gets the
/// gradient.
pub(super) struct MaxPool {
    windows: Windows,
    /// For each output, the index of the input value that was chosen.
    chosen: Vec<u32>,
}

impl MaxPool {
    pub(super) fn new(windows: Windows) -> Self {
        MaxPool { windows, chosen: Vec::new() }
    }

    /// Pools windows of 2 × 2 that lie side by side.
    fn squares<F: Real>(&mut self, input: &[F], output: &mut [F]) {
        let (side, half) = (self.windows.side, self.windows.side / 2);
        let rows = output.chunks_exact_mut(half).zip(self.chosen.chunks_exact_mut(half));
        for (r, (values, chosen)) in rows.enumerate() {
            let corner = 2 * r * side;
            let (above, below) = input[corner..corner + 2 * side].split_at(side);
            for (j, (y, chosen)) in values.iter_mut().zip(chosen).enumerate() {
                let square = [above[2 * j], above[2 * j + 1], below[2 * j], below[2 * j + 1]];
                let upper = if square[1] > square[0] { 1 } else { 0 };
                let lower = if square[3] > square[2] { 3 } else { 2 };
                let best = if square[lower] > square[upper] { lower } else { upper };
                *y = square[best];
                *chosen = (corner + 2 * j + best / 2 * side + best % 2) as u32;
            }
        }
    }

    /// Pools windows of any size, stride and padding.
    fn any<F: Real>(&mut self, input: &[F], output: &mut [F]) {
        let Windows { side, window, stride, padding, .. } = self.windows;
        let out = self.windows.out();
        // Rows or columns of the image that the window number `at` covers.
        let covered = |at: usize| {
            (at * stride).saturating_sub(padding)..(at * stride + window - padding).min(side)
        };
        for (i, (y, chosen)) in output.iter_mut().zip(&mut self.chosen).enumerate() {
            let corner = i / (out * out) * side * side;
            let row = |r: usize| covered(i % out).map(move |c| corner + r * side + c);
            let places = covered(i / out % out).flat_map(row);
            let best = places.reduce(|best, at| if input[at] > input[best] { at } else { best });
            let best = best.unwrap_or(corner);
            (*y, *chosen) = (input[best], best as u32);
        }
    }
}

impl<F: Real> Layer<F> for MaxPool {
    fn outputs(&self) -> usize {
        self.windows.channels * self.windows.out() * self.windows.out()
    }

    fn forward(&mut self, _: &[F], input: &[F], output: &mut [F]) {
        self.chosen.resize(output.len(), 0);
        let Windows { side, window, stride, padding, .. } = self.windows;
        if (side % 2, window, stride, padding) == (0, 2, 2, 0) {
            self.squares(input, output);
        } else {
            self.any(input, output);
        }
    }

    fn backward(&mut self, _: &[F], _: At<'_, F>, back: Gradient<'_, F>) {
        let Some(d_input) = back.input else { return };
        d_input.fill(F::default());
        for (&i, &d) in self.chosen.iter().zip(back.output) {
            d_input[i as usize] += d;
        }
    }
}

/// The mean of each channel.
pub(super) struct GlobalAverage {
    pub(super) channels: usize,
    /// Number of values of a channel.
    pub(super) plane: usize,
}

impl<F: Real> Layer<F> for GlobalAverage {
    fn outputs(&self) -> usize {
        self.channels
    }

    fn forward(&mut self, _: &[F], input: &[F], output: &mut [F]) {
        let share = F::of(1.0 / self.plane as f64);
        let planes = output.iter_mut().zip(input.chunks_exact(self.plane));
        F::vectors(|| planes.for_each(|(y, plane)| *y = sum(plane) * share));
    }

    fn backward(&mut self, _: &[F], _: At<'_, F>, back: Gradient<'_, F>) {
        let share = F::of(1.0 / self.plane as f64);
        let Some(d_input) = back.input else { return };
        for (plane, &d) in d_input.chunks_exact_mut(self.plane).zip(back.output) {
            plane.fill(d * share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_by_two_pooling_kernel_matches_general_pooling() {
        let windows = Windows { channels: 3, side: 6, window: 2, stride: 2, padding: 0 };
        let input: Vec<f32> = (0..2 * 108).map(|i| (i * 37 % 23) as f32).collect();
        let pooled = |run: fn(&mut MaxPool, &[f32], &mut [f32])| {
            let mut pool = MaxPool { windows, chosen: vec![0; 54] };
            let mut output = vec![0.0; 54];
            run(&mut pool, &input, &mut output);
            (pool.chosen, output)
        };
        assert_eq!(pooled(MaxPool::squares), pooled(MaxPool::any));
    }
}
