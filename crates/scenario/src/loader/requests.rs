//! Loaders that make batches on request: how many batches are requested ahead of the trainer, and from which
//! workers.

/// How batches are requested from a loader.
///
/// The first batch of an epoch is requested only after all batches of the epoch before are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requests {
    /// Batches that are requested ahead of the trainer.
    pub ahead: u64,
    /// When the loader issues the request that replaces an earlier one.
    pub replaced: Replaced,
    /// Which worker gets the next request.
    pub dealt: Dealt,
    /// Whether the trainer gets batches in the order of requests, or as they are finished.
    pub in_order: bool,
    /// When the first batches of the next epoch are requested.
    pub next_epoch: NextEpoch,
    /// Time that the loader takes to start each of its workers, one after the other [s].
    pub start: f64,
    /// Whether workers live on from one epoch to the next.
    pub persistent: bool,
    /// Whether each worker has files of its own and gets no more requests when it has read them (PyTorch's
    /// `IterableDataset`); otherwise any worker makes any batch.
    pub iterable: bool,
    /// Whether samples that do not fill a batch at the end of an epoch are dropped; otherwise they are a smaller
    /// batch.
    pub drop_last: bool,
    /// Whether the trainer itself copies each batch to its device and waits for the copy.
    pub to_device: bool,
}

/// When the loader issues the request that replaces an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// When the trainer has taken the batch of the earlier request.
    WhenTaken,
    /// When the trainer asks for the batch of the earlier request, whether this batch is finished or not.
    WhenWanted,
}

/// Which worker gets the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dealt {
    /// Workers get requests round robin, even while they are busy. Only if batches may be handed out in any order, a worker
    /// that has its full share of the outstanding requests is skipped.
    InTurn,
    /// The worker that is free first gets the request.
    AsFree,
}

/// When the first batches of the next epoch are requested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NextEpoch {
    /// When the trainer asks for a batch of the next epoch.
    WhenWanted,
    /// When the loader finds that the last batch of an epoch has been taken. From the last request on, it checks at
    /// this interval [s].
    Polled(f64),
}
