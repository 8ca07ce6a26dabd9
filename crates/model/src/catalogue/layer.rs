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
    /// Trained parameters, of all experts where it has some.
    pub parameters: u64,
    /// Work of the forward pass, in those experts that each token takes [FLOP].
    pub flops: u64,
    /// Elements kept for the backward pass, in those experts that each token takes.
    pub activations: u64,
    /// Those of them that every rank keeps where tensors are split over ranks.
    pub whole: u64,
    /// Elements of its result that such ranks have in parts, and add up.
    pub reduced: u64,
    /// Keys and values of a sample that the queries of all its tokens meet here; 0 if it is no attention.
    pub keys_values: u64,
    /// Its experts, if all its parameters belong to experts.
    pub experts: Option<Experts>,
}

/// Experts of a layer: equal parts of its parameters, a few of which each token takes (N. Shazeer et al.,
/// *Outrageously Large Neural Networks*, ICLR 2017).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// Number of experts.
    pub count: u64,
    /// Experts that each token takes.
    pub per_token: u64,
    /// Elements of a sample that are sent to the experts before this layer; 0 if they got them for an earlier one.
    pub dispatched: u64,
    /// Elements of a sample that the experts send back after this layer; 0 if a later one sends them.
    pub combined: u64,
}

impl Layer {
    /// A layer without experts and attention, of which ranks that split tensors have parts.
    pub(super) fn plain(name: String, parameters: u64, flops: u64, activations: u64) -> Layer {
        let (whole, reduced, keys_values, experts) = (0, 0, 0, None);
        Layer { name, parameters, flops, activations, whole, reduced, keys_values, experts }
    }

    /// Parameters that one token uses: those of the experts that it takes, or all.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        self.experts.map_or(self.parameters, |of| self.parameters / of.count * of.per_token)
    }

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

    /// Parameters that one token uses: without those of experts that it does not take.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        self.layers.iter().map(Layer::active_parameters).sum()
    }

    /// Its mixture of experts; `None` if no layer has experts.
    #[must_use]
    pub fn mixture(&self) -> Option<Mixture> {
        let layers = || self.layers.iter().filter_map(|layer| Some((layer, layer.experts?)));
        let most = |of: fn(&Experts) -> u64| layers().map(|(_, experts)| of(&experts)).max();
        Some(Mixture {
            experts: most(|experts| experts.count)?,
            per_token: most(|experts| experts.per_token)?,
            parameters: layers().map(|(layer, _)| layer.parameters).sum(),
            layers: layers().filter(|(_, experts)| experts.dispatched > 0).count() as u64,
            dispatched: most(|experts| experts.dispatched)?,
        })
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

/// Experts of a whole model. Where layers differ, the largest figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mixture {
    /// Experts of a layer.
    pub experts: u64,
    /// Experts that each token takes in a layer.
    pub per_token: u64,
    /// Parameters of all experts of all layers.
    pub parameters: u64,
    /// Times that tokens are dispatched to experts in one forward pass: once for each block with experts.
    pub layers: u64,
    /// Elements of a sample that one dispatch sends, and that come back: tokens × hidden × `per_token`.
    pub dispatched: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &str, parameters: u64, flops: u64, activations: u64) -> Layer {
        Layer::plain(name.to_owned(), parameters, flops, activations)
    }

    #[test]
    fn a_mixture_counts_all_experts_and_a_token_uses_those_it_takes() {
        // System: two blocks of 4 experts, of which a token takes 1, in two layers each, and a plain layer.
        // Expectation: 2 dispatches; 2 × (40 + 80) parameters in experts, a fourth of which are active.
        let experts =
            |dispatched, combined| Some(Experts { count: 4, per_token: 1, dispatched, combined });
        let into = Layer { experts: experts(6, 0), ..layer("in", 40, 10, 3) };
        let out = Layer { experts: experts(0, 6), ..layer("out", 80, 20, 3) };
        let layers = vec![layer("plain", 5, 1, 1), into.clone(), out.clone(), into, out];
        let mut model = Model { name: "m", input: Input::Tokens(3), layers, source: "" };
        let mixture =
            Mixture { experts: 4, per_token: 1, parameters: 240, layers: 2, dispatched: 6 };
        assert_eq!(model.mixture(), Some(mixture));
        assert_eq!((model.parameters(), model.active_parameters()), (245, 65));
        model.layers.truncate(1);
        assert_eq!((model.mixture(), model.active_parameters()), (None, 5));
    }

    #[test]
    fn totals_are_sums_and_gradients_come_from_the_end() {
        let layers = vec![layer("a", 10, 40, 3), layer("pool", 0, 0, 1), layer("b", 5, 10, 2)];
        let model = Model { name: "m", input: Input::Tokens(7), layers, source: "" };
        assert_eq!((model.parameters(), model.flops(), model.backward_flops()), (15, 50, 100));
        assert_eq!((model.activations(), model.input.elements()), (6, 7));
        let order: Vec<&str> = model.gradients().map(|layer| layer.name.as_str()).collect();
        assert_eq!(order, ["b", "a"]);
    }
}
