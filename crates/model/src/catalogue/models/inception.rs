//! Inception.

use super::image;
use crate::catalogue::image::{Network, POINT, Window};
use crate::catalogue::layer::Model;

const AVERAGE: Window = Window::same(3, 3);
const HALVE: Window = Window::square(3, 2, 0);

/// Returns Inception v3 with the auxiliary head that only training uses (layers `aux.…`).
pub(super) fn inception_v3() -> Model {
    let mut network = Network::new(image(299));
    network
        .normed("1a", 32, HALVE)
        .normed("2a", 32, Window::square(3, 1, 0))
        .normed("2b", 64, Window::same(3, 3))
        .pool("maxpool1", HALVE)
        .normed("3b", 80, POINT)
        .normed("4a", 192, Window::square(3, 1, 0))
        .pool("maxpool2", HALVE);
    for (name, pooled) in [("5b", 32), ("5c", 64), ("5d", 64)] {
        block_35(&mut network, name, pooled);
    }
    halve_35(&mut network, "6a");
    for (name, width) in [("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)] {
        block_17(&mut network, name, width);
    }
    network.aside(auxiliary);
    halve_17(&mut network, "7a");
    block_8(&mut network, "7b");
    block_8(&mut network, "7c");
    network.average("avgpool").linear("fc", 1000);
    Model {
        name: "inceptionv3",
        input: image(299),
        layers: network.layers(),
        source: "C. Szegedy et al., Rethinking the Inception Architecture for Computer Vision, CVPR 2016; torchvision",
    }
}

/// Adds convolutions one after the other, `NAME_1`, `NAME_2`, …
fn row(network: &mut Network, name: &str, layers: &[(u64, Window)]) {
    for (index, (to, window)) in (1..).zip(layers) {
        network.normed(&format!("{name}_{index}"), *to, *window);
    }
}

/// Adds a pool that keeps the size, and a 1 × 1 convolution.
fn pooled(network: &mut Network, name: &str, to: u64) {
    network.pool(&format!("{name}.pool"), AVERAGE).normed(
        &format!("{name}.branch_pool"),
        to,
        POINT,
    );
}

fn block_35(network: &mut Network, name: &str, to: u64) {
    let of = |part: &str| format!("{name}.{part}");
    network.branches(&[
        &|n| row(n, &of("1x1"), &[(64, POINT)]),
        &|n| row(n, &of("5x5"), &[(48, POINT), (64, Window::same(5, 5))]),
        &|n| {
            let three = Window::same(3, 3);
            row(n, &of("3x3dbl"), &[(64, POINT), (96, three), (96, three)]);
        },
        &|n| pooled(n, name, to),
    ]);
}

fn halve_35(network: &mut Network, name: &str) {
    let of = |part: &str| format!("{name}.{part}");
    network.branches(&[
        &|n| row(n, &of("3x3"), &[(384, HALVE)]),
        &|n| row(n, &of("3x3dbl"), &[(64, POINT), (96, Window::same(3, 3)), (96, HALVE)]),
        &|n| {
            n.pool(&of("pool"), HALVE);
        },
    ]);
}

fn block_17(network: &mut Network, name: &str, width: u64) {
    let of = |part: &str| format!("{name}.{part}");
    let (wide, high) = (Window::same(1, 7), Window::same(7, 1));
    network.branches(&[
        &|n| row(n, &of("1x1"), &[(192, POINT)]),
        &|n| row(n, &of("7x7"), &[(width, POINT), (width, wide), (192, high)]),
        &|n| {
            let four = [(width, high), (width, wide), (width, high), (192, wide)];
            row(n, &of("7x7dbl"), &[&[(width, POINT)], &four[..]].concat());
        },
        &|n| pooled(n, name, 192),
    ]);
}

fn halve_17(network: &mut Network, name: &str) {
    let of = |part: &str| format!("{name}.{part}");
    let (wide, high) = (Window::same(1, 7), Window::same(7, 1));
    network.branches(&[
        &|n| row(n, &of("3x3"), &[(192, POINT), (320, HALVE)]),
        &|n| row(n, &of("7x7x3"), &[(192, POINT), (192, wide), (192, high), (192, HALVE)]),
        &|n| {
            n.pool(&of("pool"), HALVE);
        },
    ]);
}

fn block_8(network: &mut Network, name: &str) {
    let of = |part: &str| format!("{name}.{part}");
    let split = |n: &mut Network, part: &str| {
        n.branches(&[&|n| row(n, &of(&format!("{part}a")), &[(384, Window::same(1, 3))]), &|n| {
            row(n, &of(&format!("{part}b")), &[(384, Window::same(3, 1))])
        }]);
    };
    network.branches(&[
        &|n| row(n, &of("1x1"), &[(320, POINT)]),
        &|n| {
            row(n, &of("3x3"), &[(384, POINT)]);
            split(n, "3x3");
        },
        &|n| {
            row(n, &of("3x3dbl"), &[(448, POINT), (384, Window::same(3, 3))]);
            split(n, "3x3dbl");
        },
        &|n| pooled(n, name, 192),
    ]);
}

fn auxiliary(network: &mut Network) {
    network
        .pool("aux.pool", Window::square(5, 3, 0))
        .normed("aux.conv0", 128, POINT)
        .normed("aux.conv1", 768, Window::square(5, 1, 0))
        .average("aux.avgpool")
        .linear("aux.fc", 1000);
}
