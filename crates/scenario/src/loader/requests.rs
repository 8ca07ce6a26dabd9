//! Loaders that make batches on request: how many are asked for ahead of the trainer, and of whom.

/// How a loader is asked for batches.
///
/// Nothing is asked for beyond the end of an epoch before all of its batches are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requests {
    /// Batches asked for ahead of the trainer.
    pub ahead: u64,
    /// When one that the trainer no longer needs is replaced by the next.
    pub replaced: Replaced,
    /// Which worker is asked.
    pub dealt: Dealt,
    /// Whether the trainer gets batches in the order of requests, or as they are finished.
    pub in_order: bool,
    /// When the next epoch's are asked for.
    pub next_epoch: NextEpoch,
    /// Time that the loader needs to start each of its workers, one after the other [s].
    pub start: f64,
    /// Whether workers live on from one epoch to the next.
    pub persistent: bool,
    /// Whether each worker has files of its own and is no longer asked when it has read them (PyTorch's
    /// `IterableDataset`), rather than any worker making any batch.
    pub iterable: bool,
    /// Whether samples that fill no batch at the end of an epoch are left out; otherwise they are a smaller
    /// one.
    pub drop_last: bool,
    /// Whether the trainer copies each batch to its device, which waits for that.
    pub to_device: bool,
}

/// When a request is replaced by the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// When the trainer has got its batch.
    WhenTaken,
    /// When the trainer asks for it, whether it is finished or not.
    WhenWanted,
}

/// Which worker carries a request out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dealt {
    /// The next one, whatever the others have to do. Out of order: the next one that has less than
    /// its share of the requests ahead.
    InTurn,
    /// The one that is free first.
    AsFree,
}

/// When the first batches of the next epoch are asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NextEpoch {
    /// When the trainer wants one.
    WhenWanted,
    /// When the last batch is taken, which is looked for every so often [s] from the last request on.
    Polled(f64),
}
