//! Where the patches of a square image lie in a padded copy of the image. With a stride s the copy has s × s
//! parts for each channel; a part has every s-th row and column. So the values at the same position of
//! neighbouring patches always lie side by side.

use super::real::Real;
use crate::Shape;

/// The patches of a convolution.
pub(super) struct Patches {
    shape: Shape,
    /// Side of a part of the padded copy.
    pitch: usize,
    /// For each value of the first patch, the index of this value in the padded copy.
    starts: Vec<usize>,
}

impl Patches {
    pub(super) fn new(shape: Shape) -> Patches {
        let Shape { kernel, stride, .. } = shape;
        let pitch = shape.out() + (kernel - 1) / stride;
        let start = |tap: usize| {
            let (channel, dy, dx) = (tap / kernel / kernel, tap / kernel % kernel, tap % kernel);
            let part = (channel * stride + dy % stride) * stride + dx % stride;
            (part * pitch + dy / stride) * pitch + dx / stride
        };
        Patches { shape, pitch, starts: (0..shape.patch()).map(start).collect() }
    }

    /// Returns the number of values of a padded copy.
    pub(super) fn padded(&self) -> usize {
        self.shape.from * (self.shape.stride * self.pitch).pow(2)
    }

    /// Returns the number of values of a patch, and the number of patches.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.starts.len(), self.shape.out() * self.shape.out())
    }

    /// Returns the index in the padded copy of value number `tap` of a patch.
    #[inline(always)]
    pub(super) fn place(&self, tap: usize, patch: usize) -> usize {
        self.starts[tap] + self.offset(patch)
    }

    /// Returns the distance of a patch from the first patch in the padded copy.
    #[inline(always)]
    fn offset(&self, patch: usize) -> usize {
        let out = self.shape.out();
        patch / out * self.pitch + patch % out
    }

    /// Calls `line` for each row of each part of the padded copy, with the row's place in the copy, its place
    /// in the image and the number of its values, which lie `stride` apart in the image.
    #[inline(always)]
    fn lines(&self, mut line: impl FnMut(usize, usize, usize)) {
        let (Shape { from, side, stride, padding, .. }, pitch) = (self.shape, self.pitch);
        // The first row or column of a part that is not padding, and the end of such rows or columns.
        let first = |part: usize| padding.saturating_sub(part).div_ceil(stride);
        let end = |part: usize| (side + padding).saturating_sub(part).div_ceil(stride).min(pitch);
        for (y, x) in (0..stride * stride).map(|part| (part / stride, part % stride)) {
            let (left, count) = (first(x), end(x).saturating_sub(first(x)));
            let (top, bottom) = (first(y), end(y));
            for channel in 0..from {
                let part = ((channel * stride + y) * stride + x) * pitch;
                for row in top..bottom {
                    let from = channel * side + row * stride + y - padding;
                    let from = from * side + left * stride + x - padding;
                    line((part + row) * pitch + left, from, count);
                }
            }
        }
    }

    /// Copies an image into a padded copy, whose padding stays as it is.
    pub(super) fn pad<F: Real>(&self, image: &[F], padded: &mut [F]) {
        let stride = self.shape.stride;
        F::vectors(|| match stride {
            1 => self.lines(|to, at, n| padded[to..to + n].copy_from_slice(&image[at..at + n])),
            _ => self.lines(|to, at, n| {
                let values = image[at..].iter().step_by(stride);
                padded[to..to + n].iter_mut().zip(values).for_each(|(to, &x)| *to = x);
            }),
        });
    }

    /// Copies the image out of a padded copy; values that belong to no patch become zero.
    pub(super) fn strip<F: Real>(&self, padded: &[F], image: &mut [F]) {
        image.fill(F::default());
        self.lines(|at, to, n| {
            let values = image[to..].iter_mut().step_by(self.shape.stride);
            values.zip(&padded[at..at + n]).for_each(|(to, &x)| *to = x);
        });
    }

    /// Writes the patches of a padded copy as columns of a matrix (im2col): each row has one value of all
    /// patches, side by side.
    pub(super) fn columns<F: Real>(&self, padded: &[F], columns: &mut [F]) {
        let out = self.shape.out();
        let taps = columns.chunks_exact_mut(out * out).zip(&self.starts);
        F::vectors(|| {
            for (column, &start) in taps {
                for (row, values) in
                    column.chunks_exact_mut(out).zip(padded[start..].chunks(self.pitch))
                {
                    row.copy_from_slice(&values[..out]);
                }
            }
        });
    }

    /// Adds the columns of patches to the places in a padded copy from which [`Patches::columns`] takes them
    /// (col2im).
    pub(super) fn gather<F: Real>(&self, columns: &[F], padded: &mut [F]) {
        let out = self.shape.out();
        let taps = columns.chunks_exact(out * out).zip(&self.starts);
        F::vectors(|| {
            for (column, &start) in taps {
                let rows = padded[start..].chunks_mut(self.pitch).zip(column.chunks_exact(out));
                for (sums, row) in rows {
                    sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
                }
            }
        });
    }

    /// Returns whether [`Patches::pack`] can be used.
    pub(super) fn can_be_packed(&self) -> bool {
        self.shape.out().is_multiple_of(PIECE)
    }

    /// Packs `WIDE` patches from patch `left` on into `rows`: each row has one value of all these patches, from
    /// value `top` on. This replaces [`Patches::columns`] followed by packing, which would be two passes over
    /// much memory.
    #[inline(always)]
    pub(super) fn pack<const WIDE: usize>(
        &self,
        padded: &[f32],
        rows: &mut [[f32; WIDE]],
        (top, left): (usize, usize),
    ) {
        let places: [usize; PIECES] = std::array::from_fn(|i| self.offset(left + i * PIECE));
        for (row, start) in rows.iter_mut().zip(&self.starts[top..]) {
            for (piece, place) in row.as_chunks_mut().0.iter_mut().zip(places) {
                *piece = *padded[start + place..].first_chunk().unwrap_or(&[0.0; PIECE]);
            }
        }
    }
}

/// Number of values that are packed at a time, all from one row of an image (`PIECE`), and largest number of
/// such pieces in a row of a strip (`PIECES`).
const PIECE: usize = 8;
const PIECES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns value `tap` of a patch by the definition of a convolution.
    fn value(shape: Shape, image: &[f32], tap: usize, patch: usize) -> f32 {
        let Shape { side, kernel, stride, padding, .. } = shape;
        let (channel, dy, dx) = (tap / kernel / kernel, tap / kernel % kernel, tap % kernel);
        let (y, x) = (patch / shape.out() * stride + dy, patch % shape.out() * stride + dx);
        let inside = |at: usize| (padding..side + padding).contains(&at);
        let place = || (channel * side + y - padding) * side + x - padding;
        if inside(y) && inside(x) { image[place()] } else { 0.0 }
    }

    fn numbers(n: usize, salt: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 + salt) % 19) as f32 - 9.0).collect()
    }

    fn shapes() -> impl Iterator<Item = Shape> {
        let sizes = [(8, 3, 1, 1), (16, 3, 2, 1), (16, 1, 2, 0), (6, 5, 1, 0), (16, 7, 2, 3)];
        let unusual = [(8, 3, 1, 2), (7, 3, 3, 1), (12, 5, 1, 0), (9, 2, 4, 0)];
        sizes.into_iter().chain(unusual).map(|(side, kernel, stride, padding)| Shape {
            from: 2,
            to: 1,
            side,
            kernel,
            stride,
            padding,
        })
    }

    fn packed<const WIDE: usize>(patches: &Patches, padded: &[f32], expected: &[f32]) {
        let (taps, count) = patches.size();
        let top = taps / 3;
        for left in (0..count).step_by(WIDE) {
            let mut rows = vec![[f32::NAN; WIDE]; taps - top];
            patches.pack(padded, &mut rows, (top, left));
            for (i, row) in rows.iter().enumerate() {
                assert_eq!(row, &expected[(top + i) * count + left..][..WIDE], "{left}");
            }
        }
    }

    #[test]
    fn patches_match_the_definition_of_a_convolution() {
        for shape in shapes() {
            let patches = Patches::new(shape);
            let (taps, count) = patches.size();
            let mut padded = vec![0.0; patches.padded()];
            patches.pad(&numbers(2 * shape.side * shape.side, 1), &mut padded);
            let image = numbers(2 * shape.side * shape.side, 3);
            patches.pad(&image, &mut padded);
            let all = (0..taps * count).map(|i| (i / count, i % count));
            let wanted: Vec<f32> = all.clone().map(|(t, p)| value(shape, &image, t, p)).collect();
            let found: Vec<f32> = all.map(|(t, p)| padded[patches.place(t, p)]).collect();
            assert_eq!(found, wanted, "{shape:?}");
            let mut columns = vec![f32::NAN; taps * count];
            patches.columns(&padded, &mut columns);
            assert_eq!(columns, wanted, "{shape:?}");
            if patches.can_be_packed() {
                packed::<32>(&patches, &padded, &wanted);
                packed::<16>(&patches, &padded, &wanted);
                packed::<8>(&patches, &padded, &wanted);
            }
        }
    }

    /// Uses whole numbers, so that sums are exact in any order.
    #[test]
    fn col2im_is_the_transpose_of_im2col() {
        for shape in shapes() {
            let patches = Patches::new(shape);
            let (taps, count) = patches.size();
            let (image, given) =
                (numbers(2 * shape.side * shape.side, 3), numbers(taps * count, 5));
            let mut padded = vec![0.0; patches.padded()];
            patches.gather(&given, &mut padded);
            let mut sums = vec![f32::NAN; image.len()];
            patches.strip(&padded, &mut sums);
            let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let all = (0..taps * count).map(|i| value(shape, &image, i / count, i % count));
            let columns: Vec<f32> = all.collect();
            assert_eq!(product(&image, &sums), product(&columns, &given), "{shape:?}");
        }
    }
}
