//! The formulas that a fit fits and a simulation evaluates, once each: pure functions of named
//! parameters in SI units.

mod decode;
mod read;
mod step;

pub use decode::DecodeLaw;
pub use read::ReadLaw;
pub use step::StepLaw;
