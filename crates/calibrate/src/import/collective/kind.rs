//! What is timed.

/// A collective operation, or one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Collective {
    /// Every rank has the sum of all.
    AllReduce,
    /// Every rank has its part of the sum of all.
    ReduceScatter,
    /// Every rank has what each had.
    AllGather,
    /// Every rank has a part of what each had.
    AllToAll,
    /// Every rank has what one had.
    Broadcast,
    /// One rank has the sum of all.
    Reduce,
    /// One rank has what each had.
    Gather,
    /// Every rank has a part of what one had.
    Scatter,
    /// One rank has what another had.
    Message,
}

use Collective::{
    AllGather, AllReduce, AllToAll, Broadcast, Gather, Message, Reduce, ReduceScatter, Scatter,
};

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 9] = [
        AllReduce,
        ReduceScatter,
        AllGather,
        AllToAll,
        Broadcast,
        Reduce,
        Gather,
        Scatter,
        Message,
    ];

    /// Its name in samples and profiles.
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
        }
    }

    /// What a benchmark calls by `word`, whatever its case and signs; none where it is something else.
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
            "message" | "pingpong" | "sendrecv" => Message,
            _ => return None,
        })
    }

    /// Whether MPI benchmarks print the bytes of one rank, where the whole is as many times more.
    pub(super) fn per_rank(self) -> bool {
        matches!(self, AllGather | AllToAll | Gather | Scatter)
    }

    /// Bus bandwidth over algorithm bandwidth, as nccl-tests print them (its `PERFORMANCE.md`).
    pub(super) fn bus_factor(self, ranks: f64) -> f64 {
        match self {
            AllReduce => 2.0 * (ranks - 1.0) / ranks,
            ReduceScatter | AllGather | AllToAll | Gather | Scatter => (ranks - 1.0) / ranks,
            Broadcast | Reduce | Message => 1.0,
        }
    }
}
