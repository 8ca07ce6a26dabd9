//! MobileNet.

use super::image;
use crate::catalogue::image::{Network, POINT, Window};
use crate::catalogue::layer::Model;

/// Stages of MobileNet v2: expansion, channels, number of blocks, stride of the first block (the paper's table 2).
const STAGES: [[u64; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

/// Returns MobileNet v2 with width multiplier 1.
pub(super) fn mobilenet_v2() -> Model {
    let mut network = Network::new(image(224));
    network.normed("stem", 32, Window::square(3, 2, 1));
    for (stage, [expansion, channels, blocks, first]) in (1..).zip(STAGES) {
        for block in 0..blocks {
            let of = |part: &str| format!("block{stage}.{block}.{part}");
            let wide = expansion * network.channels();
            if expansion > 1 {
                network.normed(&of("expand"), wide, POINT);
            }
            let depthwise = Window::square(3, if block == 0 { first } else { 1 }, 1);
            network.depthwise(&of("depthwise.conv"), depthwise).norm(&of("depthwise.bn")).normed(
                &of("project"),
                channels,
                POINT,
            );
        }
    }
    network.normed("last", 1280, POINT).average("avgpool").linear("classifier", 1000);
    Model {
        name: "mobilenetv2",
        input: image(224),
        layers: network.layers(),
        source: "M. Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018; torchvision",
    }
}
