//! The bounded buffers between real loaders and trainers: which thread waits, and whether it is woken or polls. Live runs pass
//! their items through them, and the probe `queue` times them.
//!
//! - `State`: loaders with their stages, workers, requests and last buffers; the devices; and the rules by which a sample passes
//!   from one to the next.
//! - `Buffer`: bytes of samples on their way to a real GPU.
//! - `Shared`: the lock around the state, and the threads that wait for a change of it.
//!
//! This crate reads no clock of its own: the caller passes a `Watch`.
//!
//! # Example
//!
//! A worker passes samples to a model copy for ten milliseconds.
//!
//! ```
//! use forebay_engine::Time;
//! use forebay_live_queue::{Plain, Watch};
//! use std::time::Instant;
//!
//! #[derive(Clone, Copy)]
//! struct Clock(Instant);
//!
//! impl Watch for Clock {
//!     fn begun() -> Clock {
//!         Clock(Instant::now())
//!     }
//!     fn now(self) -> Time {
//!         Time::from_seconds(self.0.elapsed().as_secs_f64())
//!     }
//! }
//!
//! let plain = Plain { producers: 1, capacity: 64, consumers: 1, batch: 8 };
//! let shared = plain.shared::<Clock>(Time::from_seconds(0.01));
//! plain.start(&shared, Clock::begun());
//! let (made, steps) = std::thread::scope(|scope| {
//!     let worker = scope.spawn(|| shared.produce(0));
//!     let steps = shared.consume(0);
//!     (worker.join().unwrap(), steps)
//! });
//! assert!(made >= 8 * steps);
//! ```

#[cfg(test)]
mod ahead_tests;
mod batches;
mod content;
mod loader;
mod plain;
mod polling;
mod requests;
mod shared;
mod stages;
mod state;
#[cfg(test)]
mod tests;
mod training;
mod tuned;

pub use content::Buffer;
pub use loader::LoaderRun;
pub use plain::Plain;
pub use shared::{Shared, Watch};
pub use state::{Item, State};
pub use training::{Step, Training};
