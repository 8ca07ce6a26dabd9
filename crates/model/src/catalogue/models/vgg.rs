//! VGG.

use super::image;
use crate::catalogue::image::{Network, Window};
use crate::catalogue::layer::Model;

/// Returns VGG-16, configuration D, without batch norm.
pub(super) fn vgg16() -> Model {
    let mut network = Network::new(image(224));
    for (stage, (channels, convolutions)) in
        [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)].into_iter().enumerate()
    {
        for index in 1..=convolutions {
            let name = format!("conv{}_{index}", stage + 1);
            network.biased(&name, channels, Window::same(3, 3));
        }
        network.pool(&format!("pool{}", stage + 1), Window::square(2, 2, 0));
    }
    network.linear("fc6", 4096).linear("fc7", 4096).linear("fc8", 1000);
    Model {
        name: "vgg16",
        input: image(224),
        layers: network.layers(),
        source: "K. Simonyan and A. Zisserman, Very Deep Convolutional Networks for Large-Scale Image \
                 Recognition, 2014; torchvision",
    }
}
