//! One message of a schedule.

/// What the receiver does with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Keeps them.
    Copy,
    /// Adds them to its own.
    Reduce,
}

/// Bytes of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span {
    /// The first [B].
    pub start: u64,
    /// How many [B].
    pub bytes: u64,
}

/// What one rank has for one rank in an all-to-all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Whose it was.
    pub origin: u32,
    /// Whose it will be.
    pub destination: u32,
}

/// Blocks that travel together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocks {
    /// From each of some ranks to each of some, `(first, step, count)`.
    Grid {
        /// Whose they were.
        origins: (u64, u64, u64),
        /// Whose they will be.
        destinations: (u64, u64, u64),
    },
    /// Bruck: what is at `rank` and has still to go on by `distance`, a power of two.
    Distance {
        /// The sender.
        rank: u64,
        /// How far this transfer carries it.
        distance: u64,
        /// Of all.
        ranks: u64,
    },
}

impl Blocks {
    /// One by one.
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
    /// Of the buffer that all ranks have in common: two spans, of which any may be empty.
    Spans([Span; 2]),
    /// Of an all-to-all.
    Blocks(Blocks),
}

/// What it takes to carry a transfer out, whatever its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// How many [B].
    pub bytes: u64,
    /// What the receiver does.
    pub kind: Kind,
}

/// A message from one rank to another. Ids from the number of ranks on are switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transfer {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// How many [B]; may be 0, which still is a message.
    pub bytes: u64,
    /// What the receiver does.
    pub kind: Kind,
    /// Which bytes.
    pub content: Content,
}
