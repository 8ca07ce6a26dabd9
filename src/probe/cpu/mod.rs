//! Training steps on the processor: real networks, forward, backward and update.
//!
//! A batch is split among threads; each computes its part's gradient, the gradients are summed, one
//! update follows. The same arithmetic as a framework's at about its speed, in safe Rust without a
//! framework; checked against finite differences.

mod attention;
mod conv;
mod layer;
mod linear;
mod loss;
mod models;
mod norm;
mod optimiser;
mod pointwise;
mod product;
mod real;
#[cfg(test)]
mod tests;
mod training;

use training::Training;

/// Names that [`build`] knows.
pub const MODELS: [&str; 3] = ["lenet5", "resnet-small", "transformer-small"];

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
}

/// There is no such model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model is called `{0}`; known: lenet5, resnet-small, transformer-small")]
pub struct UnknownModel(pub String);

/// The network of a name, its parameters and batch drawn from `seed`. No `threads` or no `batch`
/// mean one.
pub fn build(
    model: &str,
    threads: usize,
    batch: usize,
    seed: u64,
) -> Result<Box<dyn Network>, UnknownModel> {
    let found = models::model::<f32>(model).ok_or_else(|| UnknownModel(model.to_owned()))?;
    Ok(Box::new(Training::new(&found, threads, batch, seed)))
}
