//! Updates of parameters.

use super::real::Real;

/// How gradients change parameters.
pub(super) enum Optimiser<F> {
    /// Gradient descent with momentum 0.9.
    Momentum { rate: f64, velocity: Vec<F> },
    /// Adam (Kingma and Ba, 2015) with β₁ = 0.9, β₂ = 0.999.
    Adam { rate: f64, mean: Vec<F>, square: Vec<F>, steps: i32 },
}

/// Returns zero for a value close to zero, otherwise the value. Without new gradients, averages would fade for
/// thousands of steps through subnormal numbers, with which processors compute slowly.
#[inline]
fn faded<F: Real>(x: F) -> F {
    let tiny = F::of(1e-30);
    if x < tiny && -x < tiny { F::default() } else { x }
}

impl<F: Real> Optimiser<F> {
    pub(super) fn momentum(rate: f64, parameters: usize) -> Self {
        Optimiser::Momentum { rate, velocity: vec![F::default(); parameters] }
    }

    pub(super) fn adam(rate: f64, parameters: usize) -> Self {
        let zeros = vec![F::default(); parameters];
        Optimiser::Adam { rate, mean: zeros.clone(), square: zeros, steps: 0 }
    }

    /// Updates the parameters once.
    pub(super) fn update(&mut self, parameters: &mut [F], gradient: &[F]) {
        match self {
            Optimiser::Momentum { rate, velocity } => {
                let (rate, keep) = (F::of(*rate), F::of(0.9));
                F::vectors(|| {
                    for ((p, v), &g) in parameters.iter_mut().zip(velocity).zip(gradient) {
                        *v = faded(keep * *v + g);
                        *p -= rate * *v;
                    }
                });
            }
            Optimiser::Adam { rate, mean, square, steps } => {
                *steps += 1;
                let (one, two) = (1.0 - 0.9_f64.powi(*steps), 1.0 - 0.999_f64.powi(*steps));
                let (rate, spread, tiny) = (F::of(*rate / one), F::of(1.0 / two), F::of(1e-8));
                let (b1, c1, b2, c2) = (F::of(0.9), F::of(0.1), F::of(0.999), F::of(0.001));
                let moments = mean.iter_mut().zip(square);
                F::vectors(|| {
                    for ((p, (m, s)), &g) in parameters.iter_mut().zip(moments).zip(gradient) {
                        *m = faded(b1 * *m + c1 * g);
                        *s = faded(b2 * *s + c2 * g * g);
                        *p -= rate * *m / ((*s * spread).sqrt() + tiny);
                    }
                });
            }
        }
    }
}
