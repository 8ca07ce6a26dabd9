//! Timed experiments on a machine, what other programs measured, and the parameters fitted to both.
//!
//! # Example
//!
//! A JPEG that a probe makes is what its decoder reads.
//!
//! ```
//! use forebay_calibrate::probe::image::Decoder;
//!
//! assert!(Decoder::new(None).decode(b"no image").is_err());
//! ```

pub mod fit;
pub mod import;
pub mod measurement;
pub mod probe;
