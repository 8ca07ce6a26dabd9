//! Model copies that agree on their gradients: collectives on the same network as the data.
//!
//! - `sync`: buckets of gradients as backward makes them, one after the other on the network; `root`: parameters
//!   from a root before that, and its update,
//! - `exchange`: one collective, transfer by transfer; `message`: what a transfer waits for; `overhead`: what
//!   it costs the nodes' cores,
//! - `measured`: one of which only its time is known,
//! - `plan`: by which collective gradients of some size are reduced; `ways`: the links between ranks,
//! - `group`: collectives of some GPUs of a job copy whose models are spread over several,
//! - `timeline`: what a trace shows of them,
//! - `idle`: how long a collective takes when nothing else is on its way.

mod exchange;
mod group;
mod idle;
mod measured;
mod message;
mod overhead;
mod plan;
mod root;
mod sync;
mod timeline;
mod ways;

pub(super) use group::{Group, Planned, planned};
pub(super) use message::Messages;
pub(super) use overhead::{IdleCores, Overhead};
pub(super) use plan::{Plan, Reduction};
pub(super) use sync::{BucketRun, Piece, SyncRun};
pub(super) use timeline::SyncTracks;
pub(super) use ways::{Port, Ways};
