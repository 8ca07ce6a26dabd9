//! Residual networks.

use super::image;
use crate::catalogue::image::{Network, POINT, Window};
use crate::catalogue::layer::Model;

const SOURCE: &str = "K. He et al., Deep Residual Learning for Image Recognition, CVPR 2016";
/// The stride is in the 3 × 3 convolution, as in torchvision and NVIDIA's "v1.5".
const SOURCE_V15: &str =
    "K. He et al., Deep Residual Learning for Image Recognition, CVPR 2016; torchvision (v1.5)";

/// Returns ResNet-50.
pub(super) fn resnet50() -> Model {
    bottlenecks("resnet50", [3, 4, 6, 3])
}

/// Returns ResNet-101.
pub(super) fn resnet101() -> Model {
    bottlenecks("resnet101", [3, 4, 23, 3])
}

/// Returns ResNet-152.
pub(super) fn resnet152() -> Model {
    bottlenecks("resnet152", [3, 8, 36, 3])
}

/// Returns a network for ImageNet; `blocks` is the number of blocks in each stage.
fn bottlenecks(name: &'static str, blocks: [u64; 4]) -> Model {
    let mut network = Network::new(image(224));
    network
        .conv("conv1", 64, Window::square(7, 2, 3))
        .norm("bn1")
        .pool("maxpool", Window::square(3, 2, 1));
    for (stage, (blocks, width)) in (1..).zip(blocks.into_iter().zip([64, 128, 256, 512])) {
        for block in 0..blocks {
            let stride = if stage > 1 && block == 0 { 2 } else { 1 };
            bottleneck(&mut network, &format!("layer{stage}.{block}"), width, stride);
        }
    }
    network.average("avgpool").linear("fc", 1000);
    Model { name, input: image(224), layers: network.layers(), source: SOURCE_V15 }
}

fn bottleneck(network: &mut Network, name: &str, width: u64, stride: u64) {
    let of = |part: &str| format!("{name}.{part}");
    if network.channels() != 4 * width {
        let shortcut = Window::square(1, stride, 0);
        network.aside(|n| {
            n.normed(&of("downsample"), 4 * width, shortcut).added();
        });
    }
    network
        .normed(&of("1"), width, POINT)
        .normed(&of("2"), width, Window::square(3, stride, 1))
        .normed(&of("3"), 4 * width, POINT);
}

/// Returns ResNet-32 for CIFAR-10: 6·5 + 2 layers, shortcuts without parameters (the paper's option A).
pub(super) fn resnet32() -> Model {
    let mut network = Network::new(image(32));
    network.normed("stem", 16, Window::same(3, 3));
    for (stage, width) in (1..).zip([16, 32, 64]) {
        for block in 0..5 {
            let stride = if stage > 1 && block == 0 { 2 } else { 1 };
            network
                .normed(&format!("layer{stage}.{block}.1"), width, Window::square(3, stride, 1))
                .normed(&format!("layer{stage}.{block}.2"), width, Window::same(3, 3));
        }
    }
    network.average("avgpool").linear("fc", 10);
    Model { name: "resnet32", input: image(32), layers: network.layers(), source: SOURCE }
}
