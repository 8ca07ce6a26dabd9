//! Networks as data: which operators, of which sizes, in which order. Whatever trains them, on cores ([`cpu`])
//! or on a GPU, has the same ones.
//!
//! # Example
//!
//! ```
//! let mut network = forebay_networks::cpu::build("lenet5", 1, 8, 0)?;
//! let first = network.step();
//! assert!(network.step() < first);
//! # Ok::<(), forebay_networks::cpu::UnknownModel>(())
//! ```

pub mod cpu;
mod models;

pub use models::{bottlenecks, encoder, language, model, residual_block};

/// Where a convolution's patches lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Channels in.
    pub from: usize,
    /// Channels out.
    pub to: usize,
    /// Side of the image.
    pub side: usize,
    /// Side of a patch.
    pub kernel: usize,
    /// Distance between patches.
    pub stride: usize,
    /// Zeros around the image.
    pub padding: usize,
}

impl Shape {
    /// Side of what comes out.
    pub fn out(&self) -> usize {
        (self.side + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// Values of a patch.
    pub fn patch(&self) -> usize {
        self.from * self.kernel * self.kernel
    }
}

/// Windows of which the largest value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Channels, each with windows of its own.
    pub channels: usize,
    /// Side of the image.
    pub side: usize,
    /// Side of a window.
    pub window: usize,
    /// Distance between windows.
    pub stride: usize,
    /// How far windows reach beyond the image: less than a window.
    pub padding: usize,
}

impl Windows {
    /// Side of what comes out.
    pub fn out(&self) -> usize {
        (self.side + 2 * self.padding - self.window) / self.stride + 1
    }
}

/// An operator with its sizes for one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "what is said of each kind names its numbers")]
pub enum Operator {
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
    /// The mean of each of `channels` with `plane` values.
    Average { channels: usize, plane: usize },
    /// Batch norm of `channels` with `plane` values each.
    BatchNorm { channels: usize, plane: usize },
    /// Layer norm of each of `rows` with `width` values.
    LayerNorm { rows: usize, width: usize },
    /// Causal self-attention of `heads` over `length` rows of `width` values; query, key and value of a row lie side by side.
    Attention { heads: usize, length: usize, width: usize },
    /// A vector of `width` values for each of `tokens`, plus one for each of `length` places.
    Embedding { tokens: usize, length: usize, width: usize },
    /// `body(x) + shortcut(x)`; an empty shortcut is x itself.
    Residual { body: Vec<Operator>, shortcut: Vec<Operator> },
}

impl Operator {
    /// Values of a sample before it.
    pub fn inputs(&self) -> usize {
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
    pub fn outputs(&self) -> usize {
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
#[expect(missing_docs, reason = "what is said of each kind names its numbers")]
pub enum Feed {
    /// So many values and one of so many classes.
    Image { values: usize, classes: usize },
    /// So many tokens of so many kinds, each of which the next one is to be told from.
    Tokens { length: usize, kinds: usize },
}

impl Feed {
    /// Values of a sample, and targets of it.
    pub fn sizes(self) -> (usize, usize) {
        match self {
            Feed::Image { values, .. } => (values, 1),
            Feed::Tokens { length, .. } => (length, length),
        }
    }

    /// Different targets.
    pub fn kinds(self) -> usize {
        match self {
            Feed::Image { classes, .. } => classes,
            Feed::Tokens { kinds, .. } => kinds,
        }
    }
}

/// How gradients change parameters; the rates are those that training is begun with.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "what is said of each kind names its numbers")]
pub enum Update {
    /// Gradient descent with this rate and momentum 0.9.
    Momentum { rate: f64 },
    /// Adam (Kingma and Ba, 2015) with this rate, β₁ = 0.9, β₂ = 0.999.
    Adam { rate: f64 },
}

/// A network and how it is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// What goes in.
    pub feed: Feed,
    /// What becomes of it, one after another.
    pub operators: Vec<Operator>,
    /// What training does with gradients.
    pub update: Update,
}
