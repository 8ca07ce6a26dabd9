//! Layers and models as numbers: parameters, FLOPs and activations.

/// Type and size of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// An image.
    Image {
        /// Number of channels: 3 for a colour image.
        channels: u64,
        /// Number of rows of pixels.
        height: u64,
        /// Number of columns of pixels.
        width: u64,
    },
    /// A sequence with the given number of tokens.
    Tokens(u64),
    /// A vector with the given number of random values.
    Noise(u64),
}

impl Input {
    /// Returns the number of values in a sample.
    #[must_use]
    pub fn elements(self) -> u64 {
        match self {
            Input::Image { channels, height, width } => channels * height * width,
            Input::Tokens(values) | Input::Noise(values) => values,
        }
    }
}

/// One layer of a model; numbers are for one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Name in the source: `layer1.0.conv1`.
    pub name: String,
    /// Trained parameters; those of all experts if the layer has experts.
    pub parameters: u64,
    /// Work of the forward pass, for the experts that each token is routed to [FLOP].
    pub flops: u64,
    /// Elements kept for the backward pass, for the experts that each token is routed to.
    pub activations: u64,
    /// The part of `activations` that every rank keeps whole under tensor parallelism.
    pub whole: u64,
    /// Elements of the result that tensor-parallel ranks hold as partial sums and all-reduce.
    pub reduced: u64,
    /// Elements of the keys and values of one sample, which the queries of all its tokens attend to; 0 if the layer is not
    /// attention.
    pub keys_values: u64,
    /// Heads of keys and values, which tensor-parallel ranks divide among themselves; 0 if the layer is not attention.
    pub heads: u64,
    /// Experts of the layer; `None` unless all its parameters belong to experts.
    pub experts: Option<Experts>,
}

/// Experts of a layer: equal parts of its parameters. Each token is routed to a few of them (N. Shazeer et al., *Outrageously
/// Large Neural Networks*, ICLR 2017).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// Number of experts.
    pub count: u64,
    /// Experts that each token is routed to.
    pub per_token: u64,
    /// Elements of a sample that are sent to the experts before this layer; 0 if an earlier layer's dispatch sent them.
    pub dispatched: u64,
    /// Elements of a sample that the experts send back after this layer; 0 if they are sent back after a later layer.
    pub combined: u64,
}

impl Layer {
    /// Returns a layer without experts and attention, whose activations tensor-parallel ranks split fully.
    pub(super) fn plain(name: String, parameters: u64, flops: u64, activations: u64) -> Layer {
        let (whole, reduced, keys_values, heads, experts) = (0, 0, 0, 0, None);
        Layer { name, parameters, flops, activations, whole, reduced, keys_values, heads, experts }
    }

    /// Returns the parameters that one token uses: those of the experts that it is routed to, or all if there are no experts.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        self.experts.map_or(self.parameters, |of| self.parameters / of.count * of.per_token)
    }

    /// Returns the work of the backward pass [FLOP]: one product for the gradient of each factor, so twice the forward pass.
    #[must_use]
    pub fn backward_flops(&self) -> u64 {
        2 * self.flops
    }
}

/// A model, layer by layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Name: `resnet50`.
    pub name: &'static str,
    /// Type and size of one sample.
    pub input: Input,
    /// Layers in the order of the forward pass; parallel branches follow one another.
    pub layers: Vec<Layer>,
    /// Publication of the architecture.
    pub source: &'static str,
}

impl Model {
    /// Returns the number of trained parameters in all layers.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(|layer| layer.parameters).sum()
    }

    /// Returns the number of parameters that one token uses: all except those of experts that it is not routed to.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        self.layers.iter().map(Layer::active_parameters).sum()
    }

    /// Returns the model's mixture of experts; `None` if no layer has experts.
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

    /// Returns the work of the forward pass for one sample [FLOP].
    #[must_use]
    pub fn flops(&self) -> u64 {
        self.layers.iter().map(|layer| layer.flops).sum()
    }

    /// Returns the work of the backward pass for one sample [FLOP].
    #[must_use]
    pub fn backward_flops(&self) -> u64 {
        self.layers.iter().map(Layer::backward_flops).sum()
    }

    /// Returns the number of elements that one sample's forward pass keeps for the backward pass, without the sample itself.
    #[must_use]
    pub fn activations(&self) -> u64 {
        self.layers.iter().map(|layer| layer.activations).sum()
    }

    /// Returns the layers that have gradients, in the order in which the backward pass computes them: last layer first.
    pub fn gradients(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().rev().filter(|layer| layer.parameters > 0)
    }
}

/// Experts of a whole model. If layers differ, `experts`, `per_token` and `dispatched` are the largest values of any layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mixture {
    /// Experts in each layer.
    pub experts: u64,
    /// Experts that each token is routed to in a layer.
    pub per_token: u64,
    /// Parameters of all experts in all layers.
    pub parameters: u64,
    /// Times that tokens are dispatched to experts in one forward pass: once for each block with experts.
    pub layers: u64,
    /// Elements of a sample that one dispatch sends to experts: tokens × hidden size × `per_token`. Equally many come back.
    pub dispatched: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(name: &str, parameters: u64, flops: u64, activations: u64) -> Layer {
        Layer::plain(name.to_owned(), parameters, flops, activations)
    }

    #[test]
    fn all_experts_count_in_total_and_routed_experts_in_active_parameters() {
        // System: two blocks and a plain layer; each block has 4 experts in two layers, and each token goes to 1 expert.
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
    fn network_totals_are_layer_sums_and_gradients_come_last_layer_first() {
        let layers = vec![layer("a", 10, 40, 3), layer("pool", 0, 0, 1), layer("b", 5, 10, 2)];
        let model = Model { name: "m", input: Input::Tokens(7), layers, source: "" };
        assert_eq!((model.parameters(), model.flops(), model.backward_flops()), (15, 50, 100));
        assert_eq!((model.activations(), model.input.elements()), (6, 7));
        let order: Vec<&str> = model.gradients().map(|layer| layer.name.as_str()).collect();
        assert_eq!(order, ["b", "a"]);
    }
}
