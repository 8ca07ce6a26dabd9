//! Published facts: models layer by layer, GPUs, interconnects. Nothing here was measured by forebay, and nothing is fitted.
//!
//! A model is a list of layers. Small constructors make them from the architecture (`convolution of 64 channels, 3 × 3`), so that
//! sizes follow from shapes; tests compare the totals with published ones.
//!
//! # What is counted
//!
//! - *Parameters*: trained values, so there are as many gradients.
//! - *FLOPs*: for the forward pass of one sample; a multiplication with its addition counts as two. Products of matrices and
//!   convolutions count, as in published totals. Norms, activation functions and pooling do not, because memory
//!   bandwidth limits them, not arithmetic. Attention counts all pairs of tokens, masked ones too.
//! - *Activations*: elements that the forward pass keeps for the backward pass; each tensor counts once, at the layer that makes
//!   it. An activation function that works in place adds none; dropout masks are left out.
//! - *Experts*: parameters count all experts; FLOPs and activations count only the experts that a token is routed to. Every
//!   expert gets the same number of tokens, and no token is dropped.

mod gated;
mod gpu;
mod image;
mod interconnect;
mod layer;
mod models;
mod precision;
mod sequence;

pub use gpu::{GPUS, Gpu, gpu};
pub use interconnect::{INTERCONNECTS, Interconnect, interconnect};
pub use layer::{Experts, Input, Layer, Mixture, Model};
pub use models::{MODELS, longest_sequence, model, model_of_length};
pub use precision::Precision;
