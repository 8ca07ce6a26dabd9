//! Training steps on the processor: real networks, forward, backward and update.
//!
//! A batch is split among threads. Each thread computes the gradient of its part; the gradients are summed, and
//! one update follows. The arithmetic is that of a deep-learning framework at about its speed, but in safe Rust
//! and without a framework. Gradients are checked against finite differences.

mod attention;
mod build;
mod conv;
mod dots;
mod layer;
mod linear;
mod loss;
mod norm;
mod optimiser;
mod pack;
mod patches;
mod pointwise;
mod product;
mod real;
mod sums;
#[cfg(test)]
mod tests;
mod training;

use crate::Operator;
use layer::{At, Gradient, Layer};
use training::Training;
pub use training::begin;

/// Names of networks that [`build`] knows.
pub const MODELS: [&str; 3] = ["lenet5", "resnet-small", "transformer-small"];

/// Names of further networks that [`build`] knows, of a size for GPUs; on cores a step takes minutes.
pub const LARGE_MODELS: [&str; 2] = ["resnet50", "gpt-small"];

/// A network in training.
pub trait Network: Send {
    /// Makes one training step over the current batch: the synthetic one, or the one that [`Network::step_on`]
    /// left. Returns the loss before the update.
    fn step(&mut self) -> f64;

    /// Makes one training step over the batch `values`: as many samples as [`Network::batch`], one after
    /// another, all of the same length. Evenly spaced values of each sample, clamped to ±4, enter the network.
    /// Returns the loss before the update.
    fn step_on(&mut self, values: &[f32]) -> f64;

    /// Returns the batch size: samples per step.
    fn batch(&self) -> usize;

    /// Returns the number of threads of a step: at most one for each sample.
    fn threads(&self) -> usize;

    /// Returns the number of parameters.
    fn parameters(&self) -> usize;

    /// Returns the reason why a step since the last call had too few threads, which makes the step's time
    /// meaningless; `None` if every step had all its threads.
    fn lacked_threads(&mut self) -> Option<std::io::Error>;
}

/// Output and gradients of operators, computed in `f64`.
pub struct Reference {
    /// Output of the last operator.
    pub output: Vec<f64>,
    /// Gradient with respect to the input.
    pub input: Vec<f64>,
    /// Gradient with respect to the parameters.
    pub parameters: Vec<f64>,
}

/// Runs consecutive operators on `input`, forward and backward, in `f64`; `given` is the gradient of the
/// output.
pub fn reference(
    operators: &[Operator],
    parameters: &[f32],
    input: &[f32],
    given: &[f32],
) -> Reference {
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let (own, input, given) = (wide(parameters), wide(input), wide(given));
    let mut layers = build::layers::<f64>(operators);
    let mut output = vec![0.0; given.len()];
    layers.forward(&own, &input, &mut output);
    let (mut d_own, mut d_input) = (vec![0.0; own.len()], vec![0.0; input.len()]);
    let back = Gradient { output: &given, parameters: &mut d_own, input: Some(&mut d_input[..]) };
    layers.backward(&own, At { input: &input, output: &output }, back);
    Reference { output, input: d_input, parameters: d_own }
}

/// Returns loss and gradient before the first step, computed in `f64` from the same numbers as [`begin`]
/// returns.
pub fn loss(network: &crate::Network, samples: usize, seed: u64) -> (f64, Vec<f64>) {
    let (parameters, input, _) = begin(network, samples, seed);
    let mut training = Training::<f64>::new(network, 1, samples, seed);
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
    training.parameters = wide(&parameters);
    training.parts[0].input = wide(&input);
    let loss = training.differentiate();
    (loss, std::mem::take(&mut training.parts[0].gradient))
}

/// Returns the losses of the first `steps` training steps.
pub fn losses(network: &crate::Network, samples: usize, steps: usize, seed: u64) -> Vec<f64> {
    let mut training = Training::<f32>::new(network, 1, samples, seed);
    (0..steps).map(|_| training.step()).collect()
}

/// The error that no model has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no model is named `{0}`; the known models are lenet5, resnet-small, transformer-small, resnet50, gpt-small"
)]
pub struct UnknownModel(pub String);

/// Builds the network called `model`; `seed` determines its random parameters and its synthetic batch. A value
/// of 0 for `threads` or `batch` counts as 1.
pub fn build(
    model: &str,
    threads: usize,
    batch: usize,
    seed: u64,
) -> Result<Box<dyn Network>, UnknownModel> {
    let found = crate::model(model).ok_or_else(|| UnknownModel(model.to_owned()))?;
    Ok(Box::new(Training::<f32>::new(&found, threads, batch, seed)))
}
