//! MPICH's thresholds: Thakur, Rabenseifner and Gropp, *Optimization of collective communication
//! operations in MPICH*, 2005; the same as defaults of `MPIR_CVAR_*` in MPICH 3's `src/mpi/coll`.

use super::Choice;
use crate::{Algorithm, Operation};

/// MPICH's `BCAST_SHORT_MSG_SIZE` [B] and `BCAST_MIN_PROCS` [ranks].
const BROADCAST_SHORT: u64 = 12_288;
const BROADCAST_FEW: u64 = 8;
/// MPICH's `BCAST_LONG_MSG_SIZE` [B].
const BROADCAST_LONG: u64 = 524_288;
/// MPICH's `REDUCE_SHORT_MSG_SIZE` and `ALLREDUCE_SHORT_MSG_SIZE` [B].
const REDUCE_SHORT: u64 = 2_048;
/// MPICH's `REDSCAT_COMMUTATIVE_LONG_MSG_SIZE` [B].
const REDUCE_SCATTER_LONG: u64 = 524_288;
/// MPICH's `ALLGATHER_SHORT_MSG_SIZE` and `ALLGATHER_LONG_MSG_SIZE`: limits for the total size of
/// the gathered data [B].
const ALLGATHER_SHORT: u64 = 81_920;
const ALLGATHER_LONG: u64 = 524_288;
/// MPICH's `ALLTOALL_SHORT_MSG_SIZE`, used with 8 ranks or more: limit for the data from each rank
/// to each other rank [B].
const ALL_TO_ALL_SHORT: u64 = 256;

pub(super) fn choose(operation: Operation, bytes: u64, ranks: u64) -> Choice {
    let power = ranks.is_power_of_two();
    Choice::plain(match operation {
        Operation::Broadcast if bytes < BROADCAST_SHORT || ranks < BROADCAST_FEW => {
            Algorithm::BinomialTree
        }
        Operation::Broadcast if bytes < BROADCAST_LONG && power => Algorithm::HalvingDoubling,
        Operation::Broadcast => Algorithm::ScatterAllgather,
        Operation::Reduce if bytes <= REDUCE_SHORT => Algorithm::BinomialTree,
        Operation::Reduce => Algorithm::HalvingDoubling,
        Operation::Allreduce if bytes <= REDUCE_SHORT => Algorithm::RecursiveDoubling,
        Operation::Allreduce => Algorithm::HalvingDoubling,
        Operation::ReduceScatter if bytes < REDUCE_SCATTER_LONG => Algorithm::HalvingDoubling,
        Operation::ReduceScatter => Algorithm::Flat,
        Operation::Allgather if bytes < ALLGATHER_LONG && power => Algorithm::RecursiveDoubling,
        Operation::Allgather if bytes < ALLGATHER_SHORT => Algorithm::Bruck,
        Operation::Allgather => Algorithm::Ring,
        Operation::AllToAll if bytes / ranks.max(1) <= ALL_TO_ALL_SHORT && ranks >= 8 => {
            Algorithm::Bruck
        }
        Operation::AllToAll => Algorithm::Flat,
    })
}
