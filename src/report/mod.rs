//! What a run showed, simulated or live: plain numbers, and their forms for people and programs.

mod cause;
mod outcome;

pub use cause::{Cause, StallCause};
pub use outcome::*;
