//! Matrix products with a long inner dimension, as in the gradient of filters: each value is a dot product.

use super::product::{Product, put};
use pulp::{Simd, bytemuck};
use std::ops::Range;

/// Smallest inner dimension k for which C is computed by dot products: adding up a vector's lanes then costs
/// little.
pub(super) const LONG: usize = 256;

/// Largest number of rows m for which C is computed by dot products: packing B does not pay for so few rows.
pub(super) const FEW: usize = 64;

/// Number of columns in a tile: with several columns, each loaded value takes part in several dot products.
const BESIDE: usize = 4;

impl Product<'_> {
    /// Computes some rows of C, in tiles of `TALL` rows and `BESIDE` columns.
    #[inline(always)]
    pub(super) fn dots<S: Simd, const TALL: usize>(&mut self, simd: S, rows: Range<usize>) {
        let (a, b, depth) = (self.a, self.b, self.a.columns);
        for left in (0..b.columns).step_by(BESIDE) {
            let columns = BESIDE.min(b.columns - left);
            let right: [&[f32]; BESIDE] =
                std::array::from_fn(|c| &b.data[(left + c.min(columns - 1)) * b.right..][..depth]);
            for top in rows.clone().step_by(TALL) {
                let present = TALL.min(rows.end - top);
                let row = |r: usize| &a.data[(top + r.min(present - 1)) * a.down..][..depth];
                let sums = dots::<S, TALL>(simd, std::array::from_fn(row), right);
                for (r, sums) in sums.iter().enumerate().take(present) {
                    let row = &mut self.c[(top + r) * self.stride + left..][..columns];
                    put(row, sums, self.keep);
                }
            }
        }
    }
}

/// Number of running sums of a dot product: as many as one vector of 512 bits holds, or two vectors of 256
/// bits. The two vectors are added as the halves of a 512-bit vector are, so that both vector lengths round
/// alike.
const LANES: usize = 16;

/// Returns the dot products of each row of `a` with each row of `b`; all rows have the same length.
#[inline(always)]
fn dots<S: Simd, const TALL: usize>(
    simd: S,
    a: [&[f32]; TALL],
    b: [&[f32]; BESIDE],
) -> [[f32; BESIDE]; TALL] {
    let (a, b) = (a.map(<[f32]>::as_chunks::<LANES>), b.map(<[f32]>::as_chunks::<LANES>));
    let (left, right) = (a.map(|(whole, _)| whole), b.map(|(whole, _)| whole));
    let mut sums = part::<S, TALL>(simd, left, right, 0);
    for first in (S::F32_LANES..LANES).step_by(S::F32_LANES) {
        let others = part::<S, TALL>(simd, left, right, first);
        for (sum, other) in sums.as_flattened_mut().iter_mut().zip(others.as_flattened()) {
            *sum = simd.add_f32s(*sum, *other);
        }
    }
    let mut totals = sums.map(|sums| sums.map(|sum| simd.reduce_sum_f32s(sum)));
    for (totals, (_, row)) in totals.iter_mut().zip(a) {
        for (total, (_, other)) in totals.iter_mut().zip(b) {
            *total += row.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
        }
    }
    totals
}

/// Returns one vector of the running sums of each dot product, from lane `first` on.
#[inline(always)]
fn part<S: Simd, const TALL: usize>(
    simd: S,
    a: [&[[f32; LANES]]; TALL],
    b: [&[[f32; LANES]]; BESIDE],
    first: usize,
) -> [[S::f32s; BESIDE]; TALL] {
    let count = a[0].len();
    let (a, b) = (a.map(|row| &row[..count]), b.map(|row| &row[..count]));
    let vector = |chunk: &[f32; LANES]| -> S::f32s {
        bytemuck::pod_read_unaligned(bytemuck::cast_slice(&chunk[first..first + S::F32_LANES]))
    };
    let mut sums = [[simd.splat_f32s(0.0); BESIDE]; TALL];
    for k in 0..count {
        let b = b.map(|row| vector(&row[k]));
        for (sums, row) in sums.iter_mut().zip(a) {
            let a = vector(&row[k]);
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = simd.mul_add_e_f32s(a, b, *sum);
            }
        }
    }
    sums
}
