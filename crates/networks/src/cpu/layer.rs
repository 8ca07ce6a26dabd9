//! The interface of operators on cores, and operators that consist of others.

use super::real::Real;
use forebay_model::random::Generator;
use rand::Rng;

/// An operator with its gradients. Batches are slices, sample after sample. Parameters and their gradients are
/// kept outside of the operator, so that several threads share the parameters and each has gradients of its own.
pub(super) trait Layer<F: Real>: Send {
    /// Returns the number of output values for each sample.
    fn outputs(&self) -> usize;

    /// Returns the number of parameters.
    fn parameters(&self) -> usize {
        0
    }

    /// Sets the parameters to their initial values.
    fn initialise(&self, parameters: &mut [F], draw: &mut Generator) {
        let _ = (parameters, draw);
    }

    /// Computes `output` from `input`; may keep what [`Layer::backward`] needs.
    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]);

    /// Adds the gradient of the parameters to `back.parameters` and sets `back.input`. [`Layer::forward`]
    /// must have run on the same batch.
    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>);
}

/// Input and output of the forward pass, at which gradients are computed.
#[derive(Clone, Copy)]
pub(super) struct At<'a, F> {
    /// Input of the forward pass.
    pub(super) input: &'a [F],
    /// Output of the forward pass.
    pub(super) output: &'a [F],
}

/// Gradients of the loss with respect to output, parameters and input of a layer.
pub(super) struct Gradient<'a, F> {
    /// Gradient of the output, which is given.
    pub(super) output: &'a [F],
    /// Gradient of the parameters, to which the layer adds.
    pub(super) parameters: &'a mut [F],
    /// Gradient of the input, which the layer sets; `None` if it is not needed because no earlier layer has
    /// parameters.
    pub(super) input: Option<&'a mut [F]>,
}

/// Layers that run one after another.
pub(super) struct Sequential<F> {
    layers: Vec<Box<dyn Layer<F>>>,
    /// Output of each layer but the last.
    between: Vec<Vec<F>>,
    /// Gradients between layers in the backward pass: of a layer's output (`near`) and of its input (`far`).
    near: Vec<F>,
    far: Vec<F>,
}

impl<F: Real> Sequential<F> {
    pub(super) fn new(layers: Vec<Box<dyn Layer<F>>>) -> Self {
        assert!(!layers.is_empty(), "a network has layers");
        let between = vec![Vec::new(); layers.len() - 1];
        Sequential { layers, between, near: Vec::new(), far: Vec::new() }
    }
}

impl<F: Real> Layer<F> for Sequential<F> {
    fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs())
    }

    fn parameters(&self) -> usize {
        self.layers.iter().map(|layer| layer.parameters()).sum()
    }

    fn initialise(&self, mut parameters: &mut [F], draw: &mut Generator) {
        for layer in &self.layers {
            let (own, rest) = parameters.split_at_mut(layer.parameters());
            layer.initialise(own, draw);
            parameters = rest;
        }
    }

    fn forward(&mut self, mut parameters: &[F], input: &[F], output: &mut [F]) {
        let samples = output.len() / self.outputs();
        let last = self.layers.len() - 1;
        for (i, layer) in self.layers.iter_mut().enumerate() {
            let (own, rest) = parameters.split_at(layer.parameters());
            parameters = rest;
            let (before, after) = self.between.split_at_mut(i);
            let from = before.last().map_or(input, |values| values);
            if i == last {
                layer.forward(own, from, output);
            } else {
                after[0].resize(samples * layer.outputs(), F::default());
                layer.forward(own, from, &mut after[0]);
            }
        }
    }

    fn backward(&mut self, mut parameters: &[F], at: At<'_, F>, mut back: Gradient<'_, F>) {
        let mut gradients = back.parameters;
        let last = self.layers.len() - 1;
        for (i, layer) in self.layers.iter_mut().enumerate().rev() {
            let (rest, own) = parameters.split_at(parameters.len() - layer.parameters());
            parameters = rest;
            let (rest, own_gradients) =
                gradients.split_at_mut(gradients.len() - layer.parameters());
            gradients = rest;
            let output = if i == last { at.output } else { &self.between[i] };
            let incoming = if i == last { back.output } else { &self.near };
            if i == 0 {
                let at = At { input: at.input, output };
                let input = back.input.take();
                let back = Gradient { output: incoming, parameters: own_gradients, input };
                layer.backward(own, at, back);
            } else {
                let input = &self.between[i - 1];
                self.far.resize(input.len(), F::default());
                let back = Gradient {
                    output: incoming,
                    parameters: own_gradients,
                    input: Some(&mut self.far),
                };
                layer.backward(own, At { input, output }, back);
                std::mem::swap(&mut self.near, &mut self.far);
            }
        }
    }
}

/// `body(x) + shortcut(x)`; without a shortcut `body(x) + x`.
pub(super) struct Residual<F> {
    body: Sequential<F>,
    shortcut: Option<Sequential<F>>,
    /// Output of the body (`main`), output of the shortcut (`side`), and gradient of the shortcut's input
    /// (`back`).
    main: Vec<F>,
    side: Vec<F>,
    back: Vec<F>,
}

impl<F: Real> Residual<F> {
    pub(super) fn new(body: Sequential<F>, shortcut: Option<Sequential<F>>) -> Self {
        Residual { body, shortcut, main: Vec::new(), side: Vec::new(), back: Vec::new() }
    }
}

impl<F: Real> Layer<F> for Residual<F> {
    fn outputs(&self) -> usize {
        self.body.outputs()
    }

    fn parameters(&self) -> usize {
        self.body.parameters() + self.shortcut.as_ref().map_or(0, Sequential::parameters)
    }

    fn initialise(&self, parameters: &mut [F], draw: &mut Generator) {
        let (body, side) = parameters.split_at_mut(self.body.parameters());
        self.body.initialise(body, draw);
        if let Some(shortcut) = &self.shortcut {
            shortcut.initialise(side, draw);
        }
    }

    fn forward(&mut self, parameters: &[F], input: &[F], output: &mut [F]) {
        let (own, others) = parameters.split_at(self.body.parameters());
        self.main.resize(output.len(), F::default());
        self.body.forward(own, input, &mut self.main);
        let side: &[F] = match &mut self.shortcut {
            None => input,
            Some(shortcut) => {
                self.side.resize(output.len(), F::default());
                shortcut.forward(others, input, &mut self.side);
                &self.side
            }
        };
        for ((y, &a), &b) in output.iter_mut().zip(&self.main).zip(side) {
            *y = a + b;
        }
    }

    fn backward(&mut self, parameters: &[F], at: At<'_, F>, back: Gradient<'_, F>) {
        let Gradient { output, parameters: gradients, mut input } = back;
        let (own, others) = parameters.split_at(self.body.parameters());
        let (own_gradients, other_gradients) = gradients.split_at_mut(self.body.parameters());
        let through = Gradient { output, parameters: own_gradients, input: input.as_deref_mut() };
        self.body.backward(own, At { input: at.input, output: &self.main }, through);
        let side: &[F] = match &mut self.shortcut {
            None => output,
            Some(shortcut) => {
                self.back.resize(at.input.len(), F::default());
                let at = At { input: at.input, output: &self.side };
                let input = Some(&mut self.back[..]);
                shortcut.backward(
                    others,
                    at,
                    Gradient { output, parameters: other_gradients, input },
                );
                &self.back
            }
        };
        for (sum, &x) in input.into_iter().flatten().zip(side) {
            *sum += x;
        }
    }
}

/// Returns a uniform random number in [0, 1).
pub(super) fn uniform(draw: &mut Generator) -> f64 {
    (draw.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Sets weights to uniform random numbers in ±√(3·gain/inputs), so that a weighted sum over `inputs` values has
/// `gain` times the variance of the values (He et al., 2015: gain 2 before a ReLU).
pub(super) fn spread<F: Real>(weights: &mut [F], inputs: usize, gain: f64, draw: &mut Generator) {
    let bound = (3.0 * gain / inputs as f64).sqrt();
    weights.fill_with(|| F::of((2.0 * uniform(draw) - 1.0) * bound));
}
