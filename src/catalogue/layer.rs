//! Layers and models as numbers.

/// What one sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// An image.
    Image {
        /// Channels: 3 for colours.
        channels: u64,
        /// Rows of pixels.
        height: u64,
        /// Columns of pixels.
        width: u64,
    },
    /// A sequence of so many tokens.
    Tokens(u64),
    /// So many random numbers.
    Noise(u64),
}

impl Input {
    /// Values of a sample.
    #[must_use]
    pub fn elements(self) -> u64 {
        match self {
            Input::Image { channels, height, width } => channels * height * width,
            Input::Tokens(values) | Input::Noise(values) => values,
        }
    }
}

/// One layer of a model, for one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its name, as the source has it: `layer1.0.conv1`.
    pub name: String,
    /// Trained parameters.
    pub parameters: u64,
    /// Work of the forward pass [FLOP].
    pub flops: u64,
    /// Elements kept for the backward pass.
    pub activations: u64,
    /// Those of them that every rank keeps where tensors are split over ranks.
    pub whole: u64,
    /// Elements of its result that such ranks have in parts, and add up.
    pub reduced: u64,
}

impl Layer {
    /// Work of the backward pass [FLOP]: a product for the gradient of each factor, so twice the forward
    /// pass.
    #[must_use]
    pub fn backward_flops(&self) -> u64 {
        2 * self.flops
    }
}

/// A model, layer by layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Its name: `resnet50`.
    pub name: &'static str,
    /// What one sample is.
    pub input: Input,
    /// Layers in the order of the forward pass; parallel branches one after the other.
    pub layers: Vec<Layer>,
    /// Where the architecture is published.
    pub source: &'static str,
}

impl Model {
    /// Trained parameters of all layers.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(|layer| layer.parameters).sum()
    }

    /// Work of the forward pass over one sample [FLOP].
    #[must_use]
    pub fn flops(&self) -> u64 {
        self.layers.iter().map(|layer| layer.flops).sum()
    }

    /// Work of the backward pass over one sample [FLOP].
    #[must_use]
    pub fn backward_flops(&self) -> u64 {
        self.layers.iter().map(Layer::backward_flops).sum()
    }

    /// Elements that one sample's forward pass keeps for the backward one, without the sample itself.
    #[must_use]
    pub fn activations(&self) -> u64 {
        self.layers.iter().map(|layer| layer.activations).sum()
    }

    /// Tensors of gradients with something in them, in the order in which the backward pass makes them:
    /// the last layer's first.
    pub fn gradients(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().rev().filter(|layer| layer.parameters > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_and_gradients_come_from_the_end() {
        let layer = |name: &str, parameters, flops, activations| Layer {
            name: name.to_owned(),
            parameters,
            flops,
            activations,
            whole: 0,
            reduced: 0,
        };
        let layers = vec![layer("a", 10, 40, 3), layer("pool", 0, 0, 1), layer("b", 5, 10, 2)];
        let model = Model { name: "m", input: Input::Tokens(7), layers, source: "" };
        assert_eq!((model.parameters(), model.flops(), model.backward_flops()), (15, 50, 100));
        assert_eq!((model.activations(), model.input.elements()), (6, 7));
        let order: Vec<&str> = model.gradients().map(|layer| layer.name.as_str()).collect();
        assert_eq!(order, ["b", "a"]);
    }
}
