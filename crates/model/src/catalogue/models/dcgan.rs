//! DCGAN.

use crate::catalogue::image::{Network, Window};
use crate::catalogue::layer::{Input, Model};

/// Returns DCGAN for 64 × 64 pixels: noise goes through the generator, and the generated image through the discriminator. A
/// training step also runs the discriminator on real images; that second pass of its layers is not included here.
pub(super) fn dcgan() -> Model {
    let grow = Window::square(4, 2, 1);
    let whole = Window::square(4, 1, 0);
    let mut network = Network::new(Input::Noise(100));
    network.transposed("generator.1.conv", 512, whole).norm("generator.1.bn");
    for (index, channels) in (2..).zip([256, 128, 64]) {
        network
            .transposed(&format!("generator.{index}.conv"), channels, grow)
            .norm(&format!("generator.{index}.bn"));
    }
    network.transposed("generator.5.conv", 3, grow);
    network.conv("discriminator.1.conv", 64, grow);
    for (index, channels) in (2..).zip([128, 256, 512]) {
        network.normed(&format!("discriminator.{index}"), channels, grow);
    }
    network.conv("discriminator.5.conv", 1, whole);
    Model {
        name: "dcgan",
        input: Input::Noise(100),
        layers: network.layers(),
        source: "A. Radford et al., Unsupervised Representation Learning with DCGAN, ICLR 2016; pytorch/examples",
    }
}
