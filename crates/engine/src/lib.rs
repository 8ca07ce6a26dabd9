//! Knows simulated time, the order of events and the loop over them; nothing else.
mod calendar;
pub mod fluid;
mod heap;
mod integral;
mod prefetch;
mod run;
pub mod stats;
#[cfg(test)]
mod tests;
mod time;
pub use calendar::{Calendar, LaneId, TimerId};
pub use heap::Heap;
pub use integral::Integral;
pub use prefetch::prefetch;
pub use run::{Model, run};
pub use time::{PS_PER_SECOND, Span, Time};
