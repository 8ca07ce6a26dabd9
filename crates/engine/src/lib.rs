//! The engine of the simulator: simulated time, the calendar of events and the loop over them, fluid networks, and
//! statistics of output. It is independent of the simulated system.
//!
//! # Example
//!
//! Two transfers of 1 GB share a link of 1 GB/s: each is done after two seconds.
//!
//! ```
//! use forebay_engine::Time;
//! use forebay_engine::fluid::{Capacity, Demand, Network, Use};
//!
//! let mut network = Network::new();
//! let link = network.link(Capacity::Fixed(1e9));
//! let route = [Use { link, per_unit: 1.0 }].into();
//! let group = network.group(Demand { route, weight: 1.0, cap: f64::INFINITY });
//! network.start(Time::ZERO, group, 1e9, "first");
//! network.start(Time::ZERO, group, 1e9, "second");
//! assert_eq!(network.next(), Some(Time::from_seconds(2.0)));
//! ```
mod calendar;
mod fingerprint;
pub mod fluid;
mod heap;
mod integral;
mod prefetch;
mod radix_heap;
mod run;
pub mod stats;
#[cfg(test)]
mod tests;
mod time;
pub use calendar::{Calendar, LaneId, TimerId};
pub use fingerprint::Fingerprint;
pub use heap::Heap;
pub use integral::Integral;
pub use prefetch::prefetch;
pub use run::{Model, run};
pub use time::{PS_PER_SECOND, Span, Time};
