//! JPEG images: decoding and resizing as training loaders do, and generated images that cost as much to decode as
//! photographs.
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
