//! Layers of networks for images; parameters, work and activations follow from their shapes.

use super::layer::{Input, Layer};

/// Window of a convolution or a pooling layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Rows and columns of the window.
    size: [u64; 2],
    stride: u64,
    /// Rows and columns of padding on each side.
    padding: [u64; 2],
}

impl Window {
    /// Returns a square window of `size` × `size`, with the same stride and padding in both directions.
    pub(super) const fn square(size: u64, stride: u64, padding: u64) -> Window {
        Window { size: [size; 2], stride, padding: [padding; 2] }
    }

    /// Returns a window with odd numbers of rows and columns, padded so that the image keeps its size.
    pub(super) const fn same(rows: u64, columns: u64) -> Window {
        Window { size: [rows, columns], stride: 1, padding: [rows / 2, columns / 2] }
    }

    const fn area(self) -> u64 {
        self.size[0] * self.size[1]
    }

    /// Returns the number of window positions along `axis` (0: rows, 1: columns) in an image that has `length` rows or columns.
    const fn along(self, axis: usize, length: u64) -> u64 {
        (length + 2 * self.padding[axis] - self.size[axis]) / self.stride + 1
    }
}

/// A 1 × 1 window.
pub(super) const POINT: Window = Window::square(1, 1, 0);

/// A network under construction: its layers so far, and the shape of the last output, which is the next layer's input.
#[derive(Debug, Clone)]
pub(super) struct Network {
    channels: u64,
    height: u64,
    width: u64,
    layers: Vec<Layer>,
}

impl Network {
    /// Returns a network without layers, whose first layer will read `input`.
    pub(super) fn new(input: Input) -> Network {
        let (channels, height, width) = match input {
            Input::Image { channels, height, width } => (channels, height, width),
            Input::Tokens(values) | Input::Noise(values) => (values, 1, 1),
        };
        Network { channels, height, width, layers: Vec::new() }
    }

    /// Returns the layers.
    pub(super) fn layers(self) -> Vec<Layer> {
        self.layers
    }

    /// Returns the number of channels of the last output.
    pub(super) fn channels(&self) -> u64 {
        self.channels
    }

    fn elements(&self) -> u64 {
        self.channels * self.height * self.width
    }

    /// Adds a layer whose output has the current shape; the caller has set the shape.
    fn push(&mut self, name: &str, parameters: u64, flops: u64) -> &mut Network {
        let (name, activations) = (name.to_owned(), self.elements());
        let layer = Layer::plain(name, parameters, flops, activations);
        self.layers.push(layer);
        self
    }

    fn look(&mut self, through: Window, channels: u64) {
        self.height = through.along(0, self.height);
        self.width = through.along(1, self.width);
        self.channels = channels;
    }

    /// Adds a convolution whose channels are divided into `groups`.
    fn grouped(&mut self, name: &str, to: u64, of: Window, groups: u64, bias: u64) -> &mut Network {
        let weights = of.area() * (self.channels / groups) * to;
        self.look(of, to);
        self.push(name, weights + bias, 2 * weights * self.height * self.width)
    }

    /// Adds a convolution to `to` channels, without a bias.
    pub(super) fn conv(&mut self, name: &str, to: u64, of: Window) -> &mut Network {
        self.grouped(name, to, of, 1, 0)
    }

    /// Adds a convolution with a bias.
    pub(super) fn biased(&mut self, name: &str, to: u64, of: Window) -> &mut Network {
        self.grouped(name, to, of, 1, to)
    }

    /// Adds a depthwise convolution (each channel by itself), without a bias.
    pub(super) fn depthwise(&mut self, name: &str, of: Window) -> &mut Network {
        self.grouped(name, self.channels, of, self.channels, 0)
    }

    /// Adds a transposed convolution, without a bias: each input point becomes a window.
    pub(super) fn transposed(&mut self, name: &str, to: u64, of: Window) -> &mut Network {
        let weights = of.area() * self.channels * to;
        let flops = 2 * weights * self.height * self.width;
        let grown = |axis: usize, length: u64| {
            (length - 1) * of.stride + of.size[axis] - 2 * of.padding[axis]
        };
        (self.height, self.width) = (grown(0, self.height), grown(1, self.width));
        self.channels = to;
        self.push(name, weights, flops)
    }

    /// Adds a batch norm: one scale and one shift for each channel.
    pub(super) fn norm(&mut self, name: &str) -> &mut Network {
        self.push(name, 2 * self.channels, 0)
    }

    /// Adds a convolution and its batch norm, `NAME.conv` and `NAME.bn`.
    pub(super) fn normed(&mut self, name: &str, to: u64, of: Window) -> &mut Network {
        self.conv(&format!("{name}.conv"), to, of).norm(&format!("{name}.bn"))
    }

    /// Sets the kept activations of the last layer to 0: its output is only added to another tensor, so the backward pass does
    /// not need it.
    pub(super) fn added(&mut self) -> &mut Network {
        if let Some(last) = self.layers.last_mut() {
            last.activations = 0;
        }
        self
    }

    /// Adds a pooling layer.
    pub(super) fn pool(&mut self, name: &str, of: Window) -> &mut Network {
        self.look(of, self.channels);
        self.push(name, 0, 0)
    }

    /// Adds a global average pool: the mean of each channel.
    pub(super) fn average(&mut self, name: &str) -> &mut Network {
        (self.height, self.width) = (1, 1);
        self.push(name, 0, 0)
    }

    /// Adds a fully connected layer from all values to `to` values, with a bias.
    pub(super) fn linear(&mut self, name: &str, to: u64) -> &mut Network {
        let weights = self.elements() * to;
        (self.channels, self.height, self.width) = (to, 1, 1);
        self.push(name, weights + to, 2 * weights)
    }

    /// Adds parallel branches that all read the current output; each function in `branches` adds the layers of one branch. Their
    /// output channels are concatenated.
    pub(super) fn branches(&mut self, branches: &[&dyn Fn(&mut Network)]) -> &mut Network {
        let start = Network { layers: Vec::new(), ..self.clone() };
        let mut channels = 0;
        for branch in branches {
            let mut network = start.clone();
            branch(&mut network);
            channels += network.channels;
            (self.height, self.width) = (network.height, network.width);
            self.layers.extend(network.layers);
        }
        self.channels = channels;
        self
    }

    /// Adds a branch whose output no later layer reads: the layer after the branch reads the current output.
    pub(super) fn aside(&mut self, branch: impl Fn(&mut Network)) -> &mut Network {
        let mut network = Network { layers: Vec::new(), ..self.clone() };
        branch(&mut network);
        self.layers.extend(network.layers);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Network {
        Network::new(Input::Image { channels: 3, height: 8, width: 6 })
    }

    #[test]
    fn parameters_flops_and_activations_of_a_convolution_match_closed_forms() {
        // 3 × 3 over 3 channels to 4 at stride 2 on 8 × 6 points gives 4 × 3 points.
        let mut network = start();
        network.biased("c", 4, Window::square(3, 2, 1));
        let layer = &network.layers[0];
        assert_eq!((layer.parameters, layer.activations), (3 * 3 * 3 * 4 + 4, 4 * 4 * 3));
        assert_eq!(layer.flops, 2 * 108 * 12);
        network.depthwise("d", Window::same(1, 3));
        assert_eq!((network.layers[1].parameters, network.layers[1].flops), (12, 2 * 12 * 12));
    }

    #[test]
    fn a_transposed_convolution_inverts_the_shape_change_of_a_convolution() {
        let mut network = start();
        network.conv("c", 5, Window::square(4, 2, 1)).transposed("t", 3, Window::square(4, 2, 1));
        assert_eq!((network.channels, network.height, network.width), (3, 8, 6));
        // A transposed convolution has the same products, in the opposite direction.
        assert_eq!(network.layers[0].flops, network.layers[1].flops);
    }

    #[test]
    fn outputs_of_branches_are_concatenated_and_unread_branches_change_no_shape() {
        let mut network = start();
        network.branches(&[
            &|n| {
                n.conv("a", 4, POINT);
            },
            &|n| {
                n.conv("b", 5, Window::same(3, 3));
            },
        ]);
        assert_eq!((network.channels, network.height), (9, 8));
        network.aside(|n| {
            n.average("mean").linear("side", 2);
        });
        assert_eq!((network.channels, network.height, network.layers.len()), (9, 8, 4));
        assert_eq!(network.layers[3].parameters, 9 * 2 + 2);
        network.linear("l", 1);
        assert_eq!(network.layers[4].parameters, 9 * 48 + 1);
    }
}
