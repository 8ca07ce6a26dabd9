//! Synchronisation of model copies: exchange of gradients and parameters on the same network as the data.
//!
//! - `pieces`: steps cut where gradients are ready,
//! - `servers`: parameter servers; `worker`: the progress of a model copy with them; `shard`: one server's part of a bucket;
//!   `push`: pushes and pulls; `lines`: connections, which carry one part after the other,
//! - `communicators`: the owner of all communicators; `communicator`: ranks that have collectives with each other, one after the
//!   other; `sequence`: their collectives and participants; `progress`: which collectives ranks have started and which are over,
//! - `sync`: the end of a step, when gradients are reduced; `root`: the update at a root, or on every device,
//! - `sums`: gradients of learners that share a GPU, added up there before they are reduced,
//! - `exchange`: one collective, transfer by transfer; `message`: what a transfer waits for; `overhead`: the time of messages on
//!   the nodes' cores,
//! - `measured`: collectives of which only the time is known,
//! - `plan`: the algorithm that reduces gradients of some size; `ways`: the routes between ranks,
//! - `own_links`: collectives on links that nothing else uses,
//! - `timeline`: collectives in the timeline,
//! - `idle`: the duration of a collective when nothing else is in progress; `idle_results`: these durations, each found once.

mod averages;
mod communicator;
mod communicators;
mod exchange;
mod idle;
mod idle_results;
mod lines;
mod measured;
mod message;
mod overhead;
mod own_links;
mod pieces;
mod plan;
mod progress;
mod push;
mod root;
mod sequence;
mod servers;
mod shard;
mod sums;
mod sync;
mod timeline;
mod ways;
mod worker;

pub(crate) use averages::Averages;
pub(crate) use communicator::CommunicatorRun;
pub(crate) use communicators::{Clocks, Communicators};
pub use idle_results::IdleCollectives;
pub(crate) use overhead::{IdleCores, Overhead};
pub(crate) use own_links::{LinkUsers, LinkUses};
pub(crate) use pieces::{Piece, Pieces};
pub(crate) use plan::Plan;
pub(crate) use sequence::{Collectives, Planned, Ranks, Sequence};
pub(crate) use servers::{Ports, ServerRun, ServerTracks, ServerWorker};
pub(crate) use shard::Shard;
pub(crate) use sums::Sums;
pub(crate) use sync::UpdateRun;
pub(crate) use timeline::SyncTracks;
pub(crate) use ways::{RankLinks, RankRoute, RankRoutes};
pub(crate) use worker::Held;
