//! The simulated world: the scenario's jobs on a model of the cluster.
//!
//! [`run`] simulates one replication. Inside, a `World` owns every component as plain data
//! in flat arrays with typed indices and holds the one `match` on `Event`; each file adds
//! the behaviour of one kind of component to it:
//!
//! - `workers`, `read` and `sizes`: the workers of loader stages and what their operations ask of
//!   the machine,
//! - `stages`: hand-over between stages, order, blocking,
//! - `trainer`: devices, steps, the barrier between model copies, batch intervals, pipelines,
//! - `background`, `station`, `barrier`, `build`, `collect`.
//!
//! The last buffer, the timelines that stalls are explained from and the recorder are
//! `crate::account`'s: the live world keeps the same books.

mod background;
mod barrier;
mod build;
mod collect;
mod event;
mod read;
mod sizes;
mod stages;
mod station;
mod trainer;
mod workers;
mod world;

pub use barrier::Barrier;
pub use station::Station;
pub use world::{Options, run};
