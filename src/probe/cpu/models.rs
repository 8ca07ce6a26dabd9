//! The networks, layer by layer.

use super::attention::Attention;
use super::conv::{Conv, Shape};
use super::layer::{Layer, Residual, Sequential};
use super::linear::{Embedding, Linear};
use super::norm::{BatchNorm, LayerNorm};
use super::optimiser::Optimiser;
use super::pointwise::{Gelu, GlobalAverage, MaxPool, Relu};
use super::real::Real;

/// What a network is fed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// This many values and one of ten classes.
    Image(usize),
    /// This many tokens out of 256, each of which the next one is to be told from.
    Tokens(usize),
}

/// A network and how it is trained.
pub(super) struct Model<F> {
    pub(super) feed: Feed,
    /// Builds the layers; once for each thread.
    pub(super) layers: fn() -> Sequential<F>,
    /// The optimiser for so many parameters.
    pub(super) optimiser: fn(usize) -> Optimiser<F>,
}

/// Classes of images.
pub(super) const CLASSES: usize = 10;
/// Different tokens: bytes.
pub(super) const TOKENS: usize = 256;
/// Tokens of a sample.
const LENGTH: usize = 64;
/// Values that stand for a token, and heads that share them.
const WIDTH: usize = 128;
const HEADS: usize = 4;

/// The model of a name.
pub(super) fn model<F: Real>(name: &str) -> Option<Model<F>> {
    match name {
        "lenet5" => Some(Model {
            feed: Feed::Image(28 * 28),
            layers: lenet5,
            optimiser: |n| Optimiser::momentum(0.02, n),
        }),
        "resnet-small" => Some(Model {
            feed: Feed::Image(3 * 32 * 32),
            layers: resnet,
            optimiser: |n| Optimiser::momentum(0.02, n),
        }),
        "transformer-small" => Some(Model {
            feed: Feed::Tokens(LENGTH),
            layers: transformer,
            optimiser: |n| Optimiser::adam(1e-3, n),
        }),
        _ => None,
    }
}

/// LeNet-5 (LeCun et al., 1998) with ReLU and max pooling, 28 × 28 padded to 32 × 32.
fn lenet5<F: Real>() -> Sequential<F> {
    let first = Shape { from: 1, to: 6, side: 28, kernel: 5, stride: 1, padding: 2 };
    let second = Shape { from: 6, to: 16, side: 14, kernel: 5, stride: 1, padding: 0 };
    Sequential::new(vec![
        Box::new(Conv::new(first, true)),
        Box::new(Relu(6 * 28 * 28)),
        Box::new(MaxPool::new(6, 28)),
        Box::new(Conv::new(second, true)),
        Box::new(Relu(16 * 10 * 10)),
        Box::new(MaxPool::new(16, 10)),
        Box::new(Linear::new(1, 400, 120)),
        Box::new(Relu(120)),
        Box::new(Linear::new(1, 120, 84)),
        Box::new(Relu(84)),
        Box::new(Linear::new(1, 84, CLASSES)),
    ])
}

/// A convolution with batch norm.
fn normed<F: Real>(shape: Shape) -> [Box<dyn Layer<F>>; 2] {
    let plane = shape.out() * shape.out();
    [Box::new(Conv::new(shape, false)), Box::new(BatchNorm::new(shape.to, plane))]
}

/// Two convolutions of 3 × 3 and what goes round them; `stride` 2 halves the side.
pub(super) fn block<F: Real>(from: usize, to: usize, side: usize, stride: usize) -> Residual<F> {
    let first = Shape { from, to, side, kernel: 3, stride, padding: 1 };
    let second = Shape { from: to, side: first.out(), stride: 1, ..first };
    let mut body = Vec::from(normed(first));
    body.push(Box::new(Relu(to * first.out() * first.out())));
    body.extend(normed(second));
    let direct = Shape { kernel: 1, padding: 0, ..first };
    let shortcut = (stride != 1 || from != to).then(|| Sequential::new(normed(direct).into()));
    Residual::new(Sequential::new(body), shortcut)
}

/// The residual network of He et al. (2016) for 32 × 32 pixels with 6n + 2 layers, n = 1; 1 × 1
/// convolutions where a shortcut changes shape.
fn resnet<F: Real>() -> Sequential<F> {
    let stem = Shape { from: 3, to: 16, side: 32, kernel: 3, stride: 1, padding: 1 };
    let mut layers = Vec::from(normed(stem));
    layers.push(Box::new(Relu(16 * 32 * 32)));
    for (from, to, side, stride) in [(16, 16, 32, 1), (16, 32, 32, 2), (32, 64, 16, 2)] {
        let block = block(from, to, side, stride);
        let values = block.outputs();
        layers.push(Box::new(block));
        layers.push(Box::new(Relu(values)));
    }
    layers.push(Box::new(GlobalAverage { channels: 64, plane: 8 * 8 }));
    layers.push(Box::new(Linear::new(1, 64, CLASSES)));
    Sequential::new(layers)
}

/// A block of a transformer, norms first: attention, then two linear layers four times as wide.
pub(super) fn encoder<F: Real>(
    length: usize,
    width: usize,
    heads: usize,
) -> [Box<dyn Layer<F>>; 2] {
    let attend = Sequential::new(vec![
        Box::new(LayerNorm::new(length, width)),
        Box::new(Linear::new(length, width, 3 * width)),
        Box::new(Attention::new(heads, length, width)),
        Box::new(Linear::new(length, width, width)),
    ]);
    let think = Sequential::new(vec![
        Box::new(LayerNorm::new(length, width)),
        Box::new(Linear::new(length, width, 4 * width)),
        Box::new(Gelu(length * 4 * width)),
        Box::new(Linear::new(length, 4 * width, width)),
    ]);
    [Box::new(Residual::new(attend, None)), Box::new(Residual::new(think, None))]
}

/// A language model over bytes in GPT-2's arrangement: 2 blocks, 4 heads, 128 wide, 64 tokens.
fn transformer<F: Real>() -> Sequential<F> {
    let mut layers: Vec<Box<dyn Layer<F>>> =
        vec![Box::new(Embedding { tokens: TOKENS, length: LENGTH, width: WIDTH })];
    for _ in 0..2 {
        layers.extend(encoder(LENGTH, WIDTH, HEADS));
    }
    layers.push(Box::new(LayerNorm::new(LENGTH, WIDTH)));
    layers.push(Box::new(Linear::new(LENGTH, WIDTH, TOKENS)));
    Sequential::new(layers)
}
