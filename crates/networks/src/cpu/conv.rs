//! Convolution of square images, as a matrix product of the filters and of patches as columns (im2col).

use super::layer::{At, Gradient, Layer, spread};
use super::patches::Patches;
use super::product::{Matrix, Panels};
use super::real::Real;
use super::sums::sum;
use crate::Shape;
use forebay_model::random::Generator;

/// A convolution: filters and, unless a batch norm follows, a bias for each channel.
pub(super) struct Conv<F> {
    shape: Shape,
    bias: bool,
    patches: Patches,
    /// The current image with zeros around it.
    padded: Vec<F>,
    columns: Vec<F>,
    back: Back<F>,
    panels: Panels,
}

/// How the gradient of the input is computed from the gradient of the output.
enum Back<F> {
    /// With stride 1: by a convolution of the gradient of the output with the filters, rotated by half a turn.
    Conv { patches: Patches, padded: Vec<F>, filters: Vec<F> },
    /// Otherwise: the gradients of all patches are computed and added up where patches overlap.
    Gather { columns: Vec<F> },
}

impl<F: Real> Back<F> {
    fn new(shape: Shape) -> Self {
        let Shape { from, to, kernel, stride, padding, .. } = shape;
        let none = F::default();
        if stride == 1 && padding < kernel {
            let padding = kernel - 1 - padding;
            let turned = Shape { from: to, to: from, side: shape.out(), padding, ..shape };
            let patches = Patches::new(turned);
            if patches.can_be_packed() {
                let padded = vec![none; patches.padded()];
                return Back::Conv { patches, padded, filters: vec![none; from * turned.patch()] };
            }
        }
        Back::Gather { columns: vec![none; shape.patch() * shape.out() * shape.out()] }
    }

    /// Rotates the filters by half a turn, once for all images of a batch.
    fn prepare(&mut self, shape: Shape, filters: &[F]) {
        let Back::Conv { filters: turned, .. } = self else { return };
        let square = shape.kernel * shape.kernel;
        for (i, filter) in filters.chunks_exact(square).enumerate() {
            let (to, from) = (i / shape.from, i % shape.from);
            let place = &mut turned[(from * shape.to + to) * square..][..square];
            place.iter_mut().zip(filter.iter().rev()).for_each(|(place, &x)| *place = x);
        }
    }
}

impl<F: Real> Conv<F> {
    pub(super) fn new(shape: Shape, bias: bool) -> Self {
        let (patches, panels) = (Patches::new(shape), Panels::default());
        let (patch, plane) = patches.size();
        let padded = vec![F::default(); patches.padded()];
        let columns = vec![F::default(); patch * plane];
        Conv { shape, bias, patches, padded, columns, back: Back::new(shape), panels }
    }

    /// Computes the gradient of an image from the gradient `d` of its output.
    fn image_gradient(&mut self, filters: Matrix<'_, F>, d: &[F], image: &mut [F]) {
        let plane = self.patches.size().1;
        let Shape { from, to, side, .. } = self.shape;
        match &mut self.back {
            Back::Conv { patches, padded, filters } => {
                patches.pad(d, padded);
                let filters = Matrix::new(filters, from, patches.size().0);
                let columns = Matrix::patches(padded, patches);
                F::multiply(&mut self.panels, filters, columns, image, side * side, false);
            }
            Back::Gather { columns } => {
                let d = Matrix::new(d, to, plane);
                F::multiply(&mut self.panels, filters.transposed(), d, columns, plane, false);
                // `padded` holds the image, which is no longer needed, and zeros around it, which are still
                // needed.
                self.padded.fill(F::default());
                self.patches.gather(columns, &mut self.padded);
                self.patches.strip(&self.padded, image);
                self.padded.fill(F::default());
            }
        }
    }
}

impl<F: Real> Layer<F> for Conv<F> {
    fn outputs(&self) -> usize {
        self.shape.to * self.shape.out() * self.shape.out()
    }

    fn parameters(&self) -> usize {
        self.shape.to * (self.shape.patch() + usize::from(self.bias))
    }

    fn initialise(&self, parameters: &mut [F], draw: &mut Generator) {
        let filters = self.shape.to * self.shape.patch();
        spread(&mut parameters[..filters], self.shape.patch(), 2.0, draw);
        parameters[filters..].fill(F::default());
    }

    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let Shape { from, to, side, .. } = self.shape;
        let (patch, plane) = self.patches.size();
        let (filters, bias) = parameters.split_at(to * patch);
        let images = input.chunks_exact(from * side * side);
        for (x, y) in images.zip(output.chunks_exact_mut(to * plane)) {
            self.patches.pad(x, &mut self.padded);
            for (y, &b) in y.chunks_exact_mut(plane).zip(bias) {
                y.fill(b);
            }
            let columns = if self.patches.can_be_packed() {
                Matrix::patches(&self.padded, &self.patches)
            } else {
                self.patches.columns(&self.padded, &mut self.columns);
                Matrix::new(&self.columns, patch, plane)
            };
            let filters = Matrix::new(filters, to, patch);
            F::multiply(&mut self.panels, filters, columns, y, plane, self.bias);
        }
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let Shape { from, to, side, .. } = self.shape;
        let (patch, plane) = self.patches.size();
        let (filters, _) = parameters.split_at(to * patch);
        let (d_filters, d_bias) = back.parameters.split_at_mut(to * patch);
        let mut d_input = back.input;
        self.back.prepare(self.shape, filters);
        for (i, d) in back.output.chunks_exact(to * plane).enumerate() {
            let place = i * from * side * side..(i + 1) * from * side * side;
            self.patches.pad(&at.input[place.clone()], &mut self.padded);
            self.patches.columns(&self.padded, &mut self.columns);
            let planes = d_bias.iter_mut().zip(d.chunks_exact(plane));
            F::vectors(|| planes.for_each(|(total, d)| *total += sum(d)));
            let columns = Matrix::new(&self.columns, patch, plane).transposed();
            let rows = Matrix::new(d, to, plane);
            F::multiply(&mut self.panels, rows, columns, d_filters, patch, true);
            if let Some(d_input) = d_input.as_deref_mut() {
                let filters = Matrix::new(filters, to, patch);
                self.image_gradient(filters, d, &mut d_input[place]);
            }
        }
    }
}
