//! Networks as data: which operators, of which sizes, in which order. Training on cores ([`cpu`]) and training
//! on a GPU use the same networks.
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

/// The sizes of a convolution of square images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Number of input channels.
    pub from: usize,
    /// Number of output channels.
    pub to: usize,
    /// Side of the image.
    pub side: usize,
    /// Side of a filter, and so of a patch of the image.
    pub kernel: usize,
    /// Distance between neighbouring patches.
    pub stride: usize,
    /// Rows and columns of zeros added on each side of the image.
    pub padding: usize,
}

impl Shape {
    /// Returns the side of the output.
    pub fn out(&self) -> usize {
        (self.side + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// Returns the number of values of a patch, all channels together.
    pub fn patch(&self) -> usize {
        self.from * self.kernel * self.kernel
    }
}

/// The sizes of a max pooling, which takes the largest value of each window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Number of channels, each with windows of its own.
    pub channels: usize,
    /// Side of the image.
    pub side: usize,
    /// Side of a window.
    pub window: usize,
    /// Distance between neighbouring windows.
    pub stride: usize,
    /// How far windows reach beyond the image: less than a window.
    pub padding: usize,
}

impl Windows {
    /// Returns the side of the output.
    pub fn out(&self) -> usize {
        (self.side + 2 * self.padding - self.window) / self.stride + 1
    }
}

/// An operator with its sizes for one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "what is said of each kind names its numbers")]
pub enum Operator {
    /// Convolution with filters and, if `bias`, a bias for each channel; a batch norm behind it replaces the
    /// bias.
    Conv { shape: Shape, bias: bool },
    /// Fully connected layer: `rows` vectors of `from` values become as many vectors of `to` values.
    Linear { rows: usize, from: usize, to: usize },
    /// ReLU, `max(x, 0)`, of this number of values.
    Relu(usize),
    /// GELU, `x·Φ(x)`, of this number of values.
    Gelu(usize),
    /// Max pooling: the largest value of each window.
    MaxPool(Windows),
    /// Global average pooling: the mean of each of `channels` channels with `plane` values.
    Average { channels: usize, plane: usize },
    /// Batch norm of `channels` channels with `plane` values each.
    BatchNorm { channels: usize, plane: usize },
    /// Layer norm of each of `rows` rows with `width` values.
    LayerNorm { rows: usize, width: usize },
    /// Causal self-attention of `heads` heads over `length` rows of `width` values; in the input, query, key
    /// and value of a row lie side by side.
    Attention { heads: usize, length: usize, width: usize },
    /// Embedding: a vector of `width` values for each of `tokens` tokens, plus one for each of `length`
    /// positions.
    Embedding { tokens: usize, length: usize, width: usize },
    /// Residual connection, `body(x) + shortcut(x)`; an empty shortcut is x itself.
    Residual { body: Vec<Operator>, shortcut: Vec<Operator> },
}

impl Operator {
    /// Returns the number of input values for each sample.
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

    /// Returns the number of output values for each sample.
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

/// Inputs and targets of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "what is said of each kind names its numbers")]
pub enum Feed {
    /// Images of `values` values, each of one of `classes` classes, which is the target.
    Image { values: usize, classes: usize },
    /// Sequences of `length` tokens of `kinds` kinds; the target at each position is the next token.
    Tokens { length: usize, kinds: usize },
}

impl Feed {
    /// Returns the number of input values and the number of targets of a sample.
    pub fn sizes(self) -> (usize, usize) {
        match self {
            Feed::Image { values, .. } => (values, 1),
            Feed::Tokens { length, .. } => (length, length),
        }
    }

    /// Returns the number of different targets.
    pub fn kinds(self) -> usize {
        match self {
            Feed::Image { classes, .. } => classes,
            Feed::Tokens { kinds, .. } => kinds,
        }
    }
}

/// The optimiser; its rate is the learning rate at the beginning of training.
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
    /// Inputs and targets.
    pub feed: Feed,
    /// The operators, in order.
    pub operators: Vec<Operator>,
    /// The optimiser.
    pub update: Update,
}
