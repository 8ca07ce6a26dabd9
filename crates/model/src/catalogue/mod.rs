//! Facts that are published: models layer by layer, GPUs, interconnects. Nothing here was measured by
//! forebay, and nothing is fitted.
//!
//! A model is a list of layers that small constructors make out of its architecture (`convolution of 64
//! channels, 3 × 3`), so that sizes follow from shapes; tests check the totals against published ones.
//!
//! # What is counted
//!
//! - *Parameters*: what is trained, so that gradients are as many.
//! - *FLOPs*: of one sample's forward pass; a multiplication with its addition is two. Products of matrices and
//!   convolutions count, as in published totals; norms, activations and pooling, which wait for memory
//!   and not for arithmetic, do not. Attention counts all pairs of tokens, masked ones too.
//! - *Activations*: elements that the forward pass leaves for the backward one, each tensor once, at the
//!   layer that makes it. An activation function that works in place makes none; masks of dropout are left out.
//! - *Experts*: parameters count all experts; FLOPs and activations count those that a token takes. Every expert gets
//!   as many tokens, and no token is dropped.

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
