//! Packs blocks of matrices in the order in which tiles read them.

use super::product::Matrix;
use std::ops::Range;

/// Packs the rows `depth` of the columns `across` into `to`: in strips of `WIDE` columns, each strip row after
/// row. Columns that the last strip lacks are zero.
#[inline(always)]
pub(super) fn pack<const WIDE: usize>(
    to: &mut Vec<f32>,
    matrix: Matrix<'_, f32>,
    depth: Range<usize>,
    across: Range<usize>,
) {
    to.resize(across.len().div_ceil(WIDE) * depth.len() * WIDE, 0.0);
    for (strip, left) in to.chunks_exact_mut(depth.len() * WIDE).zip(across.clone().step_by(WIDE)) {
        let (rows, _) = strip.as_chunks_mut::<WIDE>();
        let columns = WIDE.min(across.end - left);
        if columns < WIDE {
            rows.iter_mut().for_each(|row| row[columns..].fill(0.0));
        }
        if let Some(patches) = matrix.patches {
            patches.pack(matrix.data, rows, (depth.start, left));
            continue;
        }
        if matrix.right > 1 {
            turn(rows, matrix, depth.start, left, columns);
            continue;
        }
        for (row, k) in rows.iter_mut().zip(depth.clone()) {
            let values = &matrix.data[k * matrix.down + left..];
            match values.first_chunk() {
                // The length is known, so that this compiles to vector instructions instead of a call.
                Some(values) if columns == WIDE => *row = *values,
                _ => row[..columns].copy_from_slice(&values[..columns]),
            }
        }
    }
}

/// Side of the square blocks that are transposed one at a time, so that the rows read and written stay in the
/// cache.
const SQUARE: usize = 8;

/// Packs a strip of a transposed matrix, whose columns are rows in memory.
#[inline(always)]
fn turn<const WIDE: usize>(
    rows: &mut [[f32; WIDE]],
    matrix: Matrix<'_, f32>,
    top: usize,
    left: usize,
    columns: usize,
) {
    for (i, rows) in rows.chunks_mut(SQUARE).enumerate() {
        let column = |c: usize| &matrix.data[(left + c) * matrix.right + top + i * SQUARE..];
        if let Ok(rows) = <&mut [[f32; WIDE]; SQUARE]>::try_from(&mut *rows) {
            for c in 0..columns {
                // The length is known, so that this compiles to one load instead of a loop.
                let values = column(c).first_chunk().unwrap_or(&[0.0; SQUARE]);
                rows.iter_mut().zip(values).for_each(|(row, &x)| row[c] = x);
            }
        } else {
            for c in 0..columns {
                rows.iter_mut().zip(column(c)).for_each(|(row, &x)| row[c] = x);
            }
        }
    }
}
