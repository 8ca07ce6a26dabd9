//! Knows simulated time and nothing else.
mod time;
pub use time::{PS_PER_SECOND, Span, Time};
