//! JPEG images: decoding and resizing as training loaders do, and generated ones that cost what photographs do.
//!
//! # Example
//!
//! ```
//! let mut decoder = forebay_image::Decoder::new(None);
//! assert!(decoder.decode(b"no image").is_err());
//! ```

mod decoder;
mod generator;

pub use decoder::{Decoder, ImageError, Tensor};
pub use generator::{Generated, QUALITY};
