//! Where the patches of a square image lie in a padded copy of it. With a stride s the copy has s × s
//! parts for each channel, of every s-th row and column, so that what neighbouring patches have in one
//! place always lies side by side.

use super::real::Real;
use crate::Shape;

/// The patches of a convolution.
pub(super) struct Patches {
    shape: Shape,
    /// Side of a part of the padded copy.
    pitch: usize,
    /// Of each value of a patch, where the first patch has it.
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

    /// Values of a padded copy.
    pub(super) fn padded(&self) -> usize {
        self.shape.from * (self.shape.stride * self.pitch).pow(2)
    }

    /// Values of a patch, and patches.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.starts.len(), self.shape.out() * self.shape.out())
    }

    /// Where a patch has one of its values.
    #[inline(always)]
    pub(super) fn place(&self, tap: usize, patch: usize) -> usize {
        self.starts[tap] + self.offset(patch)
    }

    /// How far behind the first patch another one lies.
    #[inline(always)]
    fn offset(&self, patch: usize) -> usize {
        let out = self.shape.out();
        patch / out * self.pitch + patch % out
    }

    /// Calls `line` for each row of a part of the padded copy: the place there, the place in the image
    /// and the number of its values, which lie `stride` apart in the image.
    #[inline(always)]
    fn lines(&self, mut line: impl FnMut(usize, usize, usize)) {
        let (Shape { from, side, stride, padding, .. }, pitch) = (self.shape, self.pitch);
        // Rows or columns of a part that are not padding.
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

    /// Fills in a padded copy; its padding stays as it is.
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

    /// The image of a padded copy; what no patch has is zero.
    pub(super) fn strip<F: Real>(&self, padded: &[F], image: &mut [F]) {
        image.fill(F::default());
        self.lines(|at, to, n| {
            let values = image[to..].iter_mut().step_by(self.shape.stride);
            values.zip(&padded[at..at + n]).for_each(|(to, &x)| *to = x);
        });
    }

    /// Of each value of a patch, all patches' side by side, from a padded copy (im2col).
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

    /// Adds columns to where their values came from.
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

    /// Whether [`Patches::pack`] can be used.
    pub(super) fn can_be_packed(&self) -> bool {
        self.shape.out().is_multiple_of(PIECE)
    }

    /// As many patches as `rows` are wide, from `left` on: of each the values from `top` on, one in a
    /// row. What columns would do in two passes over much memory.
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

/// Values that are packed at a time, all in one row of an image; a strip has at most so many times as many.
const PIECE: usize = 8;
const PIECES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: value `tap` of a patch.
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
    fn patches_are_where_the_definition_has_them() {
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

    /// Whole numbers, so that no order of the sums rounds.
    #[test]
    fn columns_are_added_to_what_they_came_from() {
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
