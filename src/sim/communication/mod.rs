//! Model copies that agree on their gradients: collectives on the same network as the data.
//!
//! - `sync`: buckets of gradients as backward makes them, one after the other on the network,
//! - `exchange`: one collective, transfer by transfer; `message`: what a transfer waits for,
//! - `ways`: the links between ranks,
//! - `idle`: how long a collective takes when nothing else is on its way.

mod exchange;
mod idle;
mod message;
mod sync;
mod ways;

pub(super) use idle::idle_seconds;
pub(super) use message::Messages;
pub(super) use sync::{BucketRun, Reduction, SyncRun};
pub(super) use ways::{Port, Ways};
