//! The simulated world: the scenario's jobs on a model of the cluster.
//!
//! [`run`] simulates one replication. Inside, a `World` owns every component as plain data
//! in flat arrays with typed indices and holds the one `match` on `Event`; each file adds
//! the behaviour of one kind of component to it:
//!
//! - `workers`, `read` and `sizes`: the workers of loader stages and what their operations ask of
//!   the machine,
//! - `stages`: hand-over between stages, order, blocking,
//! - `queue`: the last buffer, bounded or circular, and its accounts,
//! - `trainer`: devices, steps, the barrier between model copies, batch intervals, pipelines,
//! - `timeline`: who did what when, and from it the one cause of each instant of a stall,
//! - `background`, `station`, `barrier`, `recorder`, `build`, `collect`.

mod background;
mod barrier;
mod build;
mod collect;
mod event;
mod queue;
mod read;
mod recorder;
mod sizes;
mod stages;
mod station;
mod timeline;
mod trainer;
mod workers;
mod world;

pub use barrier::Barrier;
pub use station::Station;
pub use world::{Options, run};
