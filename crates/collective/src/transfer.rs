//! One message of a schedule.

/// What the receiver does with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The receiver keeps the bytes.
    Copy,
    /// The receiver adds the bytes to its own.
    Reduce,
}

/// A range of bytes of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span {
    /// Offset of the first byte [B].
    pub start: u64,
    /// Number of bytes [B].
    pub bytes: u64,
}

/// The data that rank `origin` has for rank `destination` in an all-to-all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// The rank that has the data at the beginning.
    pub origin: u32,
    /// The rank that has the data at the end.
    pub destination: u32,
}

/// Blocks that travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocks {
    /// The blocks from each rank of one sequence to each rank of another; a sequence is
    /// `(first, step, count)`.
    Grid {
        /// The ranks that have the blocks at the beginning.
        origins: (u64, u64, u64),
        /// The ranks that have the blocks at the end.
        destinations: (u64, u64, u64),
    },
    /// Bruck's algorithm: the blocks at `rank` that this transfer carries on by `distance` ranks.
    /// `distance` is a power of two, and these blocks have this bit in the distance to their
    /// destination.
    Distance {
        /// The sender.
        rank: u64,
        /// Number of ranks by which this transfer carries the blocks on.
        distance: u64,
        /// Number of all ranks.
        ranks: u64,
    },
}

impl Blocks {
    /// Iterates over the blocks.
    pub fn iter(self) -> impl Iterator<Item = Block> {
        let count = match self {
            Blocks::Grid { origins, destinations } => origins.2 * destinations.2,
            Blocks::Distance { ranks, .. } => ranks,
        };
        (0..count).filter_map(move |i| self.nth(i))
    }

    fn nth(self, i: u64) -> Option<Block> {
        let block = |origin: u64, destination: u64| Block {
            origin: origin as u32,
            destination: destination as u32,
        };
        match self {
            Blocks::Grid { origins: o, destinations: d } => {
                Some(block(o.0 + i / d.2 * o.1, d.0 + i % d.2 * d.1))
            }
            Blocks::Distance { rank, distance, ranks } => {
                let gone = i % distance;
                let at = |way: u64| (rank + ranks - gone + way) % ranks;
                (i & distance != 0).then(|| block(at(0), at(i)))
            }
        }
    }
}

/// What a transfer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Two ranges of bytes of the collective's common buffer; either range may be empty.
    Spans([Span; 2]),
    /// Blocks of an all-to-all.
    Blocks(Blocks),
}

/// A transfer without its content: all that is needed to simulate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Number of bytes [B].
    pub bytes: u64,
    /// What the receiver does with the bytes.
    pub kind: Kind,
}

/// A message from one rank to another. An id that is not below the number of ranks is the id of a
/// switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Number of bytes [B]; a transfer of 0 bytes still is a message.
    pub bytes: u64,
    /// What the receiver does with the bytes.
    pub kind: Kind,
    /// Which bytes or blocks the transfer carries.
    pub content: Content,
}
