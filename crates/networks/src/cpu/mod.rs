//! Training steps on the processor: real networks, forward, backward and update.
//!
//! A batch is split among threads; each computes its part's gradient, the gradients are summed, one
//! update follows. The same arithmetic as a framework's at about its speed, in safe Rust without a
//! framework; checked against finite differences.

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

/// Names that [`build`] knows.
pub const MODELS: [&str; 3] = ["lenet5", "resnet-small", "transformer-small"];

/// Further ones, of a size for GPUs; cores take minutes for a step of them.
pub const LARGE_MODELS: [&str; 2] = ["resnet50", "gpt-small"];

/// A network in training.
pub trait Network: Send {
    /// One step over the batch that it holds (invented, or what [`Network::step_on`] left): the
    /// loss before the update.
    fn step(&mut self) -> f64;

    /// One step over this batch: samples of any but the same length after one another, as many as
    /// [`Network::batch`]; of each, evenly spaced values enter the network, clamped to ±4.
    fn step_on(&mut self, values: &[f32]) -> f64;

    /// Samples of a step.
    fn batch(&self) -> usize;

    /// Threads of a step: at most one for each sample.
    fn threads(&self) -> usize;

    /// Number of parameters.
    fn parameters(&self) -> usize;

    /// Why a step had fewer threads than it should, so that its time means nothing, if one had.
    fn lacked_threads(&mut self) -> Option<std::io::Error>;
}

/// What an operator computes and its gradients, in 8 bytes.
pub struct Reference {
    /// What comes out.
    pub output: Vec<f64>,
    /// Gradient with respect to the input.
    pub input: Vec<f64>,
    /// Gradient with respect to the parameters.
    pub parameters: Vec<f64>,
}

/// Operators after one another on `input`; `given` is the gradient of what comes out.
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

/// Loss and gradient at the beginning, in 8 bytes from the same numbers as [`begin`].
pub fn loss(network: &crate::Network, samples: usize, seed: u64) -> (f64, Vec<f64>) {
    let (parameters, input, _) = begin(network, samples, seed);
    let mut training = Training::<f64>::new(network, 1, samples, seed);
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
    training.parameters = wide(&parameters);
    training.parts[0].input = wide(&input);
    let loss = training.differentiate();
    (loss, std::mem::take(&mut training.parts[0].gradient))
}

/// Losses of steps from the beginning.
pub fn losses(network: &crate::Network, samples: usize, steps: usize, seed: u64) -> Vec<f64> {
    let mut training = Training::<f32>::new(network, 1, samples, seed);
    (0..steps).map(|_| training.step()).collect()
}

/// There is no such model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no model is called `{0}`; known: lenet5, resnet-small, transformer-small, resnet50, gpt-small"
)]
pub struct UnknownModel(pub String);

/// The network of a name, its parameters and batch drawn from `seed`. No `threads` or no `batch`
/// mean one.
pub fn build(
    model: &str,
    threads: usize,
    batch: usize,
    seed: u64,
) -> Result<Box<dyn Network>, UnknownModel> {
    let found = crate::model(model).ok_or_else(|| UnknownModel(model.to_owned()))?;
    Ok(Box::new(Training::<f32>::new(&found, threads, batch, seed)))
}
