//! Products of matrices: blocks packed for the cache, tiles of C in registers (Goto and van de
//! Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34:3, 2008).
//!
//! Own code because the crates that multiply as fast take minutes to build or have only unsafe
//! calls; `pulp` chooses the vector instructions of the processor at run time, safely.

use super::real::Real;
use pulp::{Arch, Simd, WithSimd, bytemuck};

/// A matrix inside a slice: the element (i, j) is at `i·down + j·right`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, F> {
    data: &'a [F],
    rows: usize,
    columns: usize,
    down: usize,
    right: usize,
}

impl<'a, F: Copy> Matrix<'a, F> {
    /// Rows after one another without gaps.
    pub(super) fn new(data: &'a [F], rows: usize, columns: usize) -> Self {
        Matrix::strided(data, rows, columns, columns)
    }

    /// Rows that begin `down` apart.
    pub(super) fn strided(data: &'a [F], rows: usize, columns: usize, down: usize) -> Self {
        assert!(
            rows == 0 || data.len() >= (rows - 1) * down + columns,
            "the matrix is in the slice"
        );
        Matrix { data, rows, columns, down, right: 1 }
    }

    /// Rows for columns.
    pub(super) fn transposed(self) -> Self {
        let Matrix { data, rows, columns, down, right } = self;
        Matrix { data, rows: columns, columns: rows, down: right, right: down }
    }
}

/// Storage for packed blocks, kept from product to product.
#[derive(Default)]
pub(super) struct Panels {
    a: Vec<f32>,
    b: Vec<f32>,
}

/// The definition; what [`fast`] is checked against.
pub(super) fn plain<F: Real>(
    a: Matrix<'_, F>,
    b: Matrix<'_, F>,
    c: &mut [F],
    stride: usize,
    keep: bool,
) {
    assert_eq!(a.columns, b.rows, "inner sides");
    for i in 0..a.rows {
        let row = &mut c[i * stride..][..b.columns];
        if !keep {
            row.fill(F::default());
        }
        for k in 0..a.columns {
            let factor = a.data[i * a.down + k * a.right];
            for (j, c) in row.iter_mut().enumerate() {
                *c += factor * b.data[k * b.down + j * b.right];
            }
        }
    }
}

/// The same sums in another order.
pub(super) fn fast(
    panels: &mut Panels,
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    c: &mut [f32],
    stride: usize,
    keep: bool,
) {
    assert_eq!(a.columns, b.rows, "inner sides");
    if !keep {
        for i in 0..a.rows {
            c[i * stride..][..b.columns].fill(0.0);
        }
    }
    Arch::new().dispatch(Product { panels, a, b, c, stride });
}

/// Longest inner side of a block: a tile of B as long fits into the first-level cache.
const DEPTH: usize = 256;

/// Vectors side by side in a tile of C.
const WIDTH: usize = 2;

struct Product<'a> {
    panels: &'a mut Panels,
    a: Matrix<'a, f32>,
    b: Matrix<'a, f32>,
    c: &'a mut [f32],
    stride: usize,
}

impl WithSimd for Product<'_> {
    type Output = ();

    /// Tiles as tall as the registers allow: 32 of 512 bits, else 16.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F32_LANES == 16 { self.blocks::<S, 8>(simd) } else { self.blocks::<S, 4>(simd) }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn blocks<S: Simd, const TALL: usize>(self, simd: S) {
        let Product { panels, a, b, c, stride } = self;
        let wide = WIDTH * S::F32_LANES;
        for from in (0..a.columns).step_by(DEPTH) {
            let depth = DEPTH.min(a.columns - from);
            pack(&mut panels.a, a.transposed(), from, depth, 0..a.rows, TALL);
            for left in (0..b.columns).step_by(wide) {
                let columns = wide.min(b.columns - left);
                pack(&mut panels.b, b, from, depth, left..left + columns, wide);
                for (i, strip) in panels.a.chunks_exact(depth * TALL).enumerate() {
                    let tile = tile::<S, TALL>(simd, strip, &panels.b);
                    let rows = TALL.min(a.rows - i * TALL);
                    for (r, sums) in tile.iter().enumerate().take(rows) {
                        let row = &mut c[(i * TALL + r) * stride + left..][..columns];
                        let sums: &[f32] = bytemuck::cast_slice(sums);
                        for (c, sum) in row.iter_mut().zip(sums) {
                            *c += sum;
                        }
                    }
                }
            }
        }
    }
}

/// Rows `from..from + depth` of the columns `across`, in strips of `wide` columns, each strip row
/// after row; what is missing of the last strip is zero.
#[inline(always)]
fn pack(
    to: &mut Vec<f32>,
    from_matrix: Matrix<'_, f32>,
    from: usize,
    depth: usize,
    across: std::ops::Range<usize>,
    wide: usize,
) {
    let Matrix { data, down, right, .. } = from_matrix;
    to.resize(across.len().div_ceil(wide) * depth * wide, 0.0);
    for (strip, left) in to.chunks_exact_mut(depth * wide).zip(across.clone().step_by(wide)) {
        let columns = wide.min(across.end - left);
        for (k, row) in strip.chunks_exact_mut(wide).enumerate() {
            let start = (from + k) * down + left * right;
            if right == 1 {
                row[..columns].copy_from_slice(&data[start..start + columns]);
            } else {
                let values = data[start..].iter().step_by(right);
                row[..columns].iter_mut().zip(values).for_each(|(to, &x)| *to = x);
            }
            row[columns..].fill(0.0);
        }
    }
}

/// A tile of C: the sum over the depth of a column of A times a row of B.
#[inline(always)]
fn tile<S: Simd, const TALL: usize>(simd: S, a: &[f32], b: &[f32]) -> [[S::f32s; WIDTH]; TALL] {
    let mut sums = [[simd.splat_f32s(0.0); WIDTH]; TALL];
    let lanes = S::F32_LANES;
    for (a, b) in a.chunks_exact(TALL).zip(b.chunks_exact(WIDTH * lanes)) {
        let (left, right) = b.split_at(lanes);
        let left: S::f32s = bytemuck::pod_read_unaligned(bytemuck::cast_slice(left));
        let right: S::f32s = bytemuck::pod_read_unaligned(bytemuck::cast_slice(right));
        for (sums, &a) in sums.iter_mut().zip(a) {
            let a = simd.splat_f32s(a);
            sums[0] = simd.mul_add_e_f32s(a, left, sums[0]);
            sums[1] = simd.mul_add_e_f32s(a, right, sums[1]);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(n: usize, salt: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 + salt) % 19) as f32 - 9.0).collect()
    }

    proptest! {
        /// Whole numbers, so that no order of the sums rounds.
        #[test]
        fn fast_is_plain(m in 1_usize..40, k in 1_usize..600, n in 1_usize..70,
                         turn_a: bool, turn_b: bool, keep: bool, gap in 0_usize..3) {
            let (x, y) = (values(m * k, 3), values(k * n, 5));
            let a = if turn_a { Matrix::new(&x, k, m).transposed() } else { Matrix::new(&x, m, k) };
            let b = if turn_b { Matrix::new(&y, n, k).transposed() } else { Matrix::new(&y, k, n) };
            let mut expected = values(m * (n + gap), 7);
            let mut c = expected.clone();
            plain(a, b, &mut expected, n + gap, keep);
            fast(&mut Panels::default(), a, b, &mut c, n + gap, keep);
            prop_assert_eq!(c, expected);
        }
    }
}
