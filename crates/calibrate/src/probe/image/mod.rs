//! JPEG images: decoding as training loaders do, and generated ones that cost what photographs do.

mod decoder;
mod generator;

pub use decoder::{Decoder, ImageError, Tensor};
pub use generator::{Generated, QUALITY};
