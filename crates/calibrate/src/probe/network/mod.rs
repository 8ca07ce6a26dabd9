//! Networks as data: which operators, of which sizes, in which order. Whatever trains them, on cores or
//! on a GPU, has the same ones.

mod models;

pub(super) use models::{bottlenecks, encoder, language, model, residual_block};

/// Where a convolution's patches lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    /// Channels in and out.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Side of the image.
    pub(super) side: usize,
    /// Side of a patch, distance between patches, zeros around the image.
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
}

impl Shape {
    /// Side of what comes out.
    pub(super) fn out(&self) -> usize {
        (self.side + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// Values of a patch.
    pub(super) fn patch(&self) -> usize {
        self.from * self.kernel * self.kernel
    }
}

/// Windows of which the largest value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Windows {
    pub(super) channels: usize,
    /// Side of the image, of a window, distance between windows, and how far they reach beyond the
    /// image: less than a window.
    pub(super) side: usize,
    pub(super) window: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
}

impl Windows {
    /// Side of what comes out.
    pub(super) fn out(&self) -> usize {
        (self.side + 2 * self.padding - self.window) / self.stride + 1
    }
}

/// An operator with its sizes for one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operator {
    /// Filters and, unless a batch norm follows, a bias for each channel.
    Conv { shape: Shape, bias: bool },
    /// `rows` vectors of `from` values become as many of `to` values.
    Linear { rows: usize, from: usize, to: usize },
    /// `max(x, 0)` of so many values.
    Relu(usize),
    /// `x·Φ(x)` of so many values.
    Gelu(usize),
    /// The largest of each window.
    MaxPool(Windows),
    /// The mean of each channel of `plane` values.
    Average { channels: usize, plane: usize },
    /// Batch norm of channels of `plane` values.
    BatchNorm { channels: usize, plane: usize },
    /// Layer norm of each row.
    LayerNorm { rows: usize, width: usize },
    /// Causal self-attention; query, key and value of a row lie side by side.
    Attention { heads: usize, length: usize, width: usize },
    /// A vector for each token plus one for each place.
    Embedding { tokens: usize, length: usize, width: usize },
    /// `body(x) + shortcut(x)`; an empty shortcut is x itself.
    Residual { body: Vec<Operator>, shortcut: Vec<Operator> },
}

impl Operator {
    /// Values of a sample before it.
    pub(super) fn inputs(&self) -> usize {
        match self {
            Operator::Conv { shape, .. } => shape.from * shape.side * shape.side,
            Operator::Linear { rows, from, .. } => rows * from,
            Operator::Relu(n) | Operator::Gelu(n) => *n,
            Operator::MaxPool(windows) => windows.channels * windows.side * windows.side,
            Operator::Average { channels, plane } | Operator::BatchNorm { channels, plane } => {
                channels * plane
            }
            Operator::LayerNorm { rows, width } => rows * width,
            Operator::Attention { length, width, .. } => 3 * length * width,
            Operator::Embedding { length, .. } => *length,
            Operator::Residual { body, .. } => body.first().map_or(0, Operator::inputs),
        }
    }

    /// Values of a sample behind it.
    pub(super) fn outputs(&self) -> usize {
        match self {
            Operator::Conv { shape, .. } => shape.to * shape.out() * shape.out(),
            Operator::Linear { rows, to, .. } => rows * to,
            Operator::MaxPool(windows) => windows.channels * windows.out() * windows.out(),
            Operator::Average { channels, .. } => *channels,
            Operator::Attention { length, width, .. }
            | Operator::Embedding { length, width, .. } => length * width,
            Operator::Residual { body, .. } => body.last().map_or(0, Operator::outputs),
            same => same.inputs(),
        }
    }
}

/// What a network is fed with, and what it is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feed {
    /// So many values and one of so many classes.
    Image { values: usize, classes: usize },
    /// So many tokens of so many kinds, each of which the next one is to be told from.
    Tokens { length: usize, kinds: usize },
}

impl Feed {
    /// Values of a sample, and targets of it.
    pub(super) fn sizes(self) -> (usize, usize) {
        match self {
            Feed::Image { values, .. } => (values, 1),
            Feed::Tokens { length, .. } => (length, length),
        }
    }

    /// Different targets.
    pub(super) fn kinds(self) -> usize {
        match self {
            Feed::Image { classes, .. } => classes,
            Feed::Tokens { kinds, .. } => kinds,
        }
    }
}

/// How gradients change parameters; the rates are those that training is begun with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Update {
    /// Gradient descent with momentum 0.9.
    Momentum { rate: f64 },
    /// Adam (Kingma and Ba, 2015) with β₁ = 0.9, β₂ = 0.999.
    Adam { rate: f64 },
}

/// A network and how it is trained.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    pub(super) feed: Feed,
    pub(super) operators: Vec<Operator>,
    pub(super) update: Update,
}
