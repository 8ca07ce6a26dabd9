//! Synchronisation of model copies: exchange of gradients and parameters on the same network as the data. What ranks wait for, and
//! when they start an exchange, is in `job`.
//!
//! - `communicators`: the owner of all communicators; `communicator`: ranks that have collectives with each other, one after the
//!   other; `kind`: their kinds; `sequence`: their collectives and participants; `cycle`: which steps update parameters and end
//!   with exchanges; `progress`: which collectives ranks have started and which are over,
//! - `plan`: the algorithm that reduces gradients of some size, and collectives of which only the time is known; `ways`: the
//!   routes between ranks, and the time of messages on the nodes' cores,
//! - `exchange`: one collective, transfer by transfer, and what a transfer waits for,
//! - `own_links`: collectives on links that nothing else uses; `idle`: the duration of a collective when nothing else is in
//!   progress, found once for each collective,
//! - `servers`: parameter servers and their parts of buckets; `worker`: the progress of a model copy with them; `parcels`: the
//!   connections, which carry one part after the other,
//! - `averages`: averages of the models of learners.

mod averages;
mod communicator;
mod communicators;
mod cycle;
mod exchange;
mod idle;
mod kind;
mod own_links;
mod parcels;
mod plan;
mod progress;
mod sequence;
mod servers;
mod ways;
mod worker;

pub(crate) use averages::Averages;
pub(crate) use communicator::CommunicatorRun;
pub(crate) use communicators::{Clocks, Communicators, SyncTracks};
pub(crate) use cycle::{ByStepKind, Cycle, StepKind};
pub(crate) use exchange::{Around, Exchange};
pub use idle::IdleCollectives;
pub(crate) use kind::{ByCommunicator, Communicator};
pub(crate) use own_links::{LinkUsers, LinkUses};
pub(crate) use parcels::Parcel;
pub(crate) use plan::Plan;
pub(crate) use sequence::{Collectives, Planned, Ranks, Sequence};
pub(crate) use servers::{Ports, ServerRun, ServerTracks, ServerWorker, Shard};
pub(crate) use ways::{IdleCores, Overhead, RankLinks, RankRoute, RankRoutes};
pub(crate) use worker::Held;
