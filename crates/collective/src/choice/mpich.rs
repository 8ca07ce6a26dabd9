//! MPICH's thresholds: Thakur, Rabenseifner and Gropp, *Optimization of collective communication
//! operations in MPICH*, 2005; the same as defaults of `MPIR_CVAR_*` in MPICH 3's `src/mpi/coll`.

use super::Choice;
use crate::{Algorithm, Operation};

/// `BCAST_SHORT_MSG_SIZE`, and `BCAST_MIN_PROCS` [ranks].
const BROADCAST_SHORT: u64 = 12_288;
const BROADCAST_FEW: u64 = 8;
/// `BCAST_LONG_MSG_SIZE`.
const BROADCAST_LONG: u64 = 524_288;
/// `REDUCE_SHORT_MSG_SIZE`, `ALLREDUCE_SHORT_MSG_SIZE`.
const REDUCE_SHORT: u64 = 2_048;
/// `REDSCAT_COMMUTATIVE_LONG_MSG_SIZE`.
const REDUCE_SCATTER_LONG: u64 = 524_288;
/// `ALLGATHER_SHORT_MSG_SIZE`, `ALLGATHER_LONG_MSG_SIZE`: bytes with which all ranks end [B].
const ALLGATHER_SHORT: u64 = 81_920;
const ALLGATHER_LONG: u64 = 524_288;
/// `ALLTOALL_SHORT_MSG_SIZE`, with 8 ranks or more: bytes from each rank to each other rank [B].
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
