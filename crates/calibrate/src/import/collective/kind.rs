//! The operations that benchmarks time.

/// A collective operation, or a single message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Collective {
    /// Every rank gets the sum over all ranks.
    AllReduce,
    /// Every rank gets its part of the sum over all ranks.
    ReduceScatter,
    /// Every rank gets the data of all ranks.
    AllGather,
    /// Every rank gets a part of the data of each rank.
    AllToAll,
    /// Every rank gets the data of one rank.
    Broadcast,
    /// One rank gets the sum over all ranks.
    Reduce,
    /// One rank gets the data of all ranks.
    Gather,
    /// Every rank gets a part of the data of one rank.
    Scatter,
    /// One rank gets the data of another.
    Message,
    /// Every rank sends to the next and receives from the previous, at the same time.
    SendReceive,
}

use Collective::{
    AllGather, AllReduce, AllToAll, Broadcast, Gather, Message, Reduce, ReduceScatter, Scatter,
    SendReceive,
};

impl Collective {
    /// All operations.
    pub const ALL: [Collective; 10] = [
        AllReduce,
        ReduceScatter,
        AllGather,
        AllToAll,
        Broadcast,
        Reduce,
        Gather,
        Scatter,
        Message,
        SendReceive,
    ];

    /// Returns the name in samples and profiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AllReduce => "allreduce",
            ReduceScatter => "reduce-scatter",
            AllGather => "allgather",
            AllToAll => "all-to-all",
            Broadcast => "broadcast",
            Reduce => "reduce",
            Gather => "gather",
            Scatter => "scatter",
            Message => "message",
            SendReceive => "send-receive",
        }
    }

    /// Returns the operation that a benchmark calls `word`, ignoring case and punctuation; `None` if it is unknown.
    #[must_use]
    pub fn named(word: &str) -> Option<Collective> {
        let plain: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
        Some(match plain.to_ascii_lowercase().as_str() {
            "allreduce" => AllReduce,
            "reducescatter" => ReduceScatter,
            "allgather" => AllGather,
            "alltoall" | "alltoallpersonalizedexchange" => AllToAll,
            "broadcast" | "bcast" => Broadcast,
            "reduce" => Reduce,
            "gather" => Gather,
            "scatter" => Scatter,
            "message" | "pingpong" => Message,
            "sendreceive" | "sendrecv" => SendReceive,
            _ => return None,
        })
    }

    /// Returns whether MPI benchmarks print the bytes of one rank for this operation; the total size is then the printed size ×
    /// ranks.
    pub(super) fn per_rank(self) -> bool {
        matches!(self, AllGather | AllToAll | Gather | Scatter)
    }

    /// Returns bus bandwidth ÷ algorithm bandwidth, as nccl-tests define them (its `PERFORMANCE.md`).
    pub(super) fn bus_factor(self, ranks: f64) -> f64 {
        match self {
            AllReduce => 2.0 * (ranks - 1.0) / ranks,
            ReduceScatter | AllGather | AllToAll | Gather | Scatter => (ranks - 1.0) / ranks,
            Broadcast | Reduce | Message | SendReceive => 1.0,
        }
    }
}
