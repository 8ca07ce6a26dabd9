//! Builds layers from the description of a network.

use super::attention::Attention;
use super::conv::Conv;
use super::layer::{Layer, Residual, Sequential};
use super::linear::{Embedding, Linear};
use super::norm::{BatchNorm, LayerNorm};
use super::optimiser::Optimiser;
use super::pointwise::{Gelu, GlobalAverage, MaxPool, Relu};
use super::real::Real;
use crate::{Operator, Update};

/// Builds the layer of an operator.
pub(super) fn layer<F: Real>(operator: &Operator) -> Box<dyn Layer<F>> {
    match operator {
        Operator::Conv { shape, bias } => Box::new(Conv::new(*shape, *bias)),
        Operator::Linear { rows, from, to } => Box::new(Linear::new(*rows, *from, *to)),
        Operator::Relu(values) => Box::new(Relu(*values)),
        Operator::Gelu(values) => Box::new(Gelu(*values)),
        Operator::MaxPool(windows) => Box::new(MaxPool::new(*windows)),
        Operator::Average { channels, plane } => {
            Box::new(GlobalAverage { channels: *channels, plane: *plane })
        }
        Operator::BatchNorm { channels, plane } => Box::new(BatchNorm::new(*channels, *plane)),
        Operator::LayerNorm { rows, width } => Box::new(LayerNorm::new(*rows, *width)),
        Operator::Attention { heads, length, width } => {
            Box::new(Attention::new(*heads, *length, *width))
        }
        Operator::Embedding { tokens, length, width } => {
            Box::new(Embedding { tokens: *tokens, length: *length, width: *width })
        }
        Operator::Residual { body, shortcut } => {
            let shortcut = (!shortcut.is_empty()).then(|| layers(shortcut));
            Box::new(Residual::new(layers(body), shortcut))
        }
    }
}

/// Builds the layers of consecutive operators.
pub(super) fn layers<F: Real>(operators: &[Operator]) -> Sequential<F> {
    Sequential::new(operators.iter().map(layer).collect())
}

/// Builds the optimiser for this number of parameters.
pub(super) fn optimiser<F: Real>(update: Update, parameters: usize) -> Optimiser<F> {
    match update {
        Update::Momentum { rate } => Optimiser::momentum(rate, parameters),
        Update::Adam { rate } => Optimiser::adam(rate, parameters),
    }
}
