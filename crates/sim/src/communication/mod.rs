//! Model copies that agree on their gradients: collectives on the same network as the data.
//!
//! - `pieces`: steps cut where gradients are ready,
//! - `servers`: servers that have the parameters; `worker`: where a model copy is with them; `shard`: one server's part of
//!   a bucket; `push`: the way there and back, `lines`: one part after the other,
//! - `communicators`: the owner of all of them; `communicator`: ranks that have collectives with each other, one after the other;
//! - `sync`: the end of a step, when gradients are reduced; `root`: the update at a root, or of everyone,
//! - `sums`: gradients of learners that share a GPU, added up there before;
//! - `exchange`: one collective, transfer by transfer; `message`: what a transfer waits for; `overhead`: what
//!   it costs the nodes' cores,
//! - `measured`: one of which only its time is known,
//! - `plan`: by which collective gradients of some size are reduced; `ways`: the links between ranks,
//! - `own_links`: collectives on links that nothing else uses,
//! - `timeline`: what a trace shows of them,
//! - `idle`: how long a collective takes when nothing else is on its way.

mod communicator;
mod communicators;
mod exchange;
mod idle;
mod lines;
mod measured;
mod message;
mod overhead;
mod own_links;
mod pieces;
mod plan;
mod push;
mod root;
mod servers;
mod shard;
mod sums;
mod sync;
mod timeline;
mod ways;
mod worker;

pub(super) use communicator::{CommunicatorRun, Planned, Ranks, Sequence};
pub(super) use communicators::Communicators;
pub(super) use message::Message;
pub(super) use overhead::{IdleCores, Overhead};
pub(super) use own_links::{LinkUsers, LinkUses};
pub(super) use pieces::{Piece, Pieces};
pub(super) use plan::Plan;
pub(super) use servers::{ServerRun, ServerTracks};
pub(super) use shard::Shard;
pub(super) use sums::Sums;
pub(super) use sync::SyncRun;
pub(super) use timeline::SyncTracks;
pub(super) use ways::{RankLinks, RankRoutes};
pub(super) use worker::Held;
