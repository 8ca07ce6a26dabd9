//! The numbers that networks compute with: `f32` for speed, `f64` for checks of gradients.

use super::product::{Matrix, Panels, fast, plain, vectors};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// A floating-point number.
pub(super) trait Real:
    Copy
    + Send
    + Sync
    + Default
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + Sum
    + 'static
{
    /// Returns the number nearest to `x`.
    fn of(x: f64) -> Self;
    /// Returns this number as an `f64`, without rounding.
    fn wide(self) -> f64;
    /// Returns e to the power of this number.
    fn exp(self) -> Self;
    /// Returns the square root.
    fn sqrt(self) -> Self;
    /// Runs loops compiled for the vector instructions of the processor at hand; every function that they
    /// call must be inlined.
    fn vectors<R>(run: impl FnOnce() -> R) -> R;
    /// Sets `c`, whose rows are `stride` apart, to a·b, or adds a·b to it if `keep`.
    fn multiply(
        panels: &mut Panels,
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        c: &mut [Self],
        stride: usize,
        keep: bool,
    );
}

impl Real for f64 {
    fn of(x: f64) -> f64 {
        x
    }
    fn wide(self) -> f64 {
        self
    }
    fn exp(self) -> f64 {
        self.exp()
    }
    fn sqrt(self) -> f64 {
        self.sqrt()
    }
    fn vectors<R>(run: impl FnOnce() -> R) -> R {
        run()
    }
    fn multiply(
        _: &mut Panels,
        a: Matrix<'_, f64>,
        b: Matrix<'_, f64>,
        c: &mut [f64],
        stride: usize,
        keep: bool,
    ) {
        plain(a, b, c, stride, keep);
    }
}

impl Real for f32 {
    #[inline]
    fn of(x: f64) -> f32 {
        x as f32
    }
    #[inline]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    /// Computes e^x without branches and calls, so that loops over it become vector instructions: e^x = 2^n·e^r
    /// with |r| ≤ ln 2 / 2, and e^r by its Taylor polynomial (relative error below 3e-7). For x below −60 the
    /// result is e^−60, so that softmax gives no subnormal numbers, with which processors compute slowly.
    #[inline]
    fn exp(self) -> f32 {
        /// Adding this constant to a number rounds the number to a whole number, which is then in the lowest bits
        /// of the sum.
        const ROUND: f32 = 12_582_912.0;
        let x = self.clamp(-60.0, 88.0);
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
        let e = 1.0 / 720.0;
        let e = e * r + 1.0 / 120.0;
        let e = e * r + 1.0 / 24.0;
        let e = e * r + 1.0 / 6.0;
        let e = ((e * r + 0.5) * r + 1.0) * r + 1.0;
        let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
        e * f32::from_bits(power)
    }
    #[inline]
    fn sqrt(self) -> f32 {
        self.sqrt()
    }
    fn vectors<R>(run: impl FnOnce() -> R) -> R {
        vectors(run)
    }
    fn multiply(
        panels: &mut Panels,
        a: Matrix<'_, f32>,
        b: Matrix<'_, f32>,
        c: &mut [f32],
        stride: usize,
        keep: bool,
    ) {
        fast(panels, a, b, c, stride, keep);
    }
}
