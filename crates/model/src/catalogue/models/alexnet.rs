//! AlexNet.

use super::image;
use crate::catalogue::image::{Network, Window};
use crate::catalogue::layer::Model;

/// Returns AlexNet for one device, as in torchvision.
pub(super) fn alexnet() -> Model {
    let pool = Window::square(3, 2, 0);
    let mut network = Network::new(image(224));
    network
        .biased("conv1", 64, Window::square(11, 4, 2))
        .pool("pool1", pool)
        .biased("conv2", 192, Window::same(5, 5))
        .pool("pool2", pool)
        .biased("conv3", 384, Window::same(3, 3))
        .biased("conv4", 256, Window::same(3, 3))
        .biased("conv5", 256, Window::same(3, 3))
        .pool("pool5", pool)
        .linear("fc6", 4096)
        .linear("fc7", 4096)
        .linear("fc8", 1000);
    Model {
        name: "alexnet",
        input: image(224),
        layers: network.layers(),
        source: "A. Krizhevsky, One Weird Trick for Parallelizing Convolutional Neural Networks, 2014; torchvision",
    }
}
