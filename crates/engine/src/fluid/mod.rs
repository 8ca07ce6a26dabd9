//! Everything shared is a link; everything that uses it is a flow.
//!
//! A flow has work, a weight, a cap, and a route: links, each with the capacity that a unit of
//! work uses there. Rates are weighted max-min fair: rate ÷ weight rises equally for all flows,
//! and a flow stops at its cap or where a link that it uses is full. Knows nothing of networks,
//! processors or disks.
mod clock;
mod core;
mod demand;
mod fast_path;
mod fill;
mod follow;
mod group;
mod indexed_heap;
mod link;
mod max_min;
mod network;
mod prefetch;
#[cfg(test)]
mod reference;
mod settle;
#[cfg(test)]
mod tests;
pub use demand::{Capacity, Demand, Finished, FlowId, GroupId, LinkId, LinkUse, Use};
pub use max_min::max_min_shares;
pub use network::Network;
