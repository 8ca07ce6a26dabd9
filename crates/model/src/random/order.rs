//! The order in which each rank of a job copy visits the files of a data set in each epoch. Simulated and live runs share it, so
//! that they read the same samples in the same order.

use super::{Generator, Permutation, Purpose, Replicas, Streams};
use schemars::JsonSchema;
use serde::Deserialize;

/// How the ranks (loaders) of a job copy split the samples or shards of each epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Rank r of n takes positions r, r + n, … of one order that all ranks share and that changes with each epoch: PyTorch's
    /// `DistributedSampler`.
    Strided,
    /// Rank r of n owns the r-th of n equal, contiguous parts of the stored files. It reads its part in each epoch, in its own
    /// order: DLIO.
    Contiguous,
    /// Rank r of n owns the stored shards r, r + n, …. It reads them in each epoch, in its own order: WebDataset's
    /// `split_by_node`.
    #[serde(rename = "shard-split")]
    Shards,
    /// Each node reads only files that are stored on it, and its ranks divide them. If several nodes store a file, they take
    /// turns: another node reads it in the next epoch. Data locality as in Spark and Hadoop.
    Local,
}

/// Order in which an epoch visits samples (one file per sample) or shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SampleOrder {
    /// Files are visited in a new seeded permutation each epoch, different for each job copy.
    Shuffled,
    /// Files are visited in stored order.
    Sequential,
}

/// The files that the ranks of a job copy visit in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visits {
    /// Number of files; each holds one sample or one shard. At least 1.
    pub files: u64,
    /// Whether each file is one sample. If so, all ranks visit equally many files: the first files of the epoch are visited again
    /// to make up for a remainder.
    pub by_sample: bool,
    /// Order of the visits.
    pub order: SampleOrder,
}

/// The order in which one rank visits files, and the epoch of the last requested visit.
#[derive(Debug, Clone)]
pub struct FileOrder {
    shuffled: bool,
    ranks: u32,
    rank: u32,
    /// The files that only this rank reads. `None` if the ranks take turns in one order of all files.
    own: Option<Box<Own>>,
    /// Number of files in an epoch: samples or shards.
    files: u64,
    /// Visits by all ranks in an epoch: the number of files, rounded up to a multiple of the ranks if each file is one sample.
    /// The added visits repeat the epoch's first files.
    places: u64,
    /// Epoch of the last requested visit, and the number of that epoch's first visit.
    epoch: u64,
    epoch_start: u64,
    /// The epoch's shuffled order, sampled at the epoch's first visit.
    shuffle: Option<Box<Shuffle>>,
}

/// Number of visits whose files are found at the same time.
const AHEAD: usize = 8;

/// The shuffled order of an epoch. If visits come one after the other, it finds the files of several visits at once.
#[derive(Debug, Clone)]
struct Shuffle {
    permutation: Permutation,
    /// Index of the visit that comes next in order.
    next: u64,
    /// Files of successive visits, found together. Those from `used` on belong to the next visits.
    ahead: [u64; AHEAD],
    used: usize,
}

impl Shuffle {
    /// Samples the order of `files` files with `generator`.
    fn new(generator: Generator, files: u64) -> Box<Shuffle> {
        let permutation = Permutation::new(generator, files);
        Box::new(Shuffle { permutation, next: u64::MAX, ahead: [0; AHEAD], used: AHEAD })
    }

    /// Returns the file of visit number `index`, which is usually `stride` after the one before.
    #[inline]
    fn at(&mut self, index: u64, stride: u64) -> u64 {
        let follows = index == self.next;
        self.next = index.wrapping_add(stride);
        if !follows {
            self.used = AHEAD;
            return self.permutation.at(index);
        }
        if self.used == AHEAD {
            let indices =
                std::array::from_fn(|k| index.wrapping_add((k as u64).wrapping_mul(stride)));
            (self.ahead, self.used) = (self.permutation.at_each(indices), 0);
        }
        self.used += 1;
        self.ahead[self.used - 1]
    }
}

/// The files that only one rank reads: `number` files from `first` on, `stride` apart.
#[derive(Debug, Clone)]
struct Own {
    first: u64,
    stride: u64,
    number: u64,
    /// Which files the rank reads in other epochs; `None` if they are the same in every epoch.
    local: Option<Local>,
}

/// A rank that reads only files on its own node.
#[derive(Debug, Clone, Copy)]
struct Local {
    of: Replicas,
    node: u64,
    rank: u64,
    ranks: u64,
}

impl Local {
    /// Returns the files that the rank reads in epoch `epoch` of a data set with `files` files.
    fn own(self, epoch: u64, files: u64) -> Own {
        let Replicas { nodes, each } = self.of;
        // The nodes that store a file take turns: another node reads it in the next epoch.
        let first = (self.node + nodes - epoch % each) % nodes + nodes * self.rank;
        let stride = nodes * self.ranks;
        let number = files.saturating_sub(first).div_ceil(stride);
        Own { first, stride, number, local: Some(self) }
    }
}

impl Own {
    /// Returns the files of rank `rank` of `ranks`; `None` if the split gives a rank no files of its own.
    fn new(split: Split, files: u64, rank: u64, ranks: u64) -> Option<Own> {
        let part = |rank: u64| (u128::from(rank) * u128::from(files) / u128::from(ranks)) as u64;
        match split {
            // `Split::Local` depends on where the files are stored: see `FileOrder::local`.
            Split::Strided | Split::Local => None,
            Split::Contiguous => {
                let number = part(rank + 1) - part(rank);
                Some(Own { first: part(rank), stride: 1, number, local: None })
            }
            Split::Shards => {
                let number = files.saturating_sub(rank).div_ceil(ranks);
                Some(Own { first: rank, stride: ranks, number, local: None })
            }
        }
    }
}

impl FileOrder {
    /// Returns the order of visits of rank `rank` of `ranks` under the split `split`.
    #[must_use]
    pub fn new(visits: Visits, split: Split, rank: u32, ranks: u32) -> FileOrder {
        let (files, ranks) = (visits.files, ranks.max(1));
        let own = Own::new(split, files, rank.into(), ranks.into()).filter(|own| own.number > 0);
        FileOrder::from_visits(visits, own, rank, ranks)
    }

    /// Returns the order of visits of rank `rank` of `ranks`, where each rank reads only files that its own node stores. Each
    /// node has equally many ranks; `of` says which nodes store which files.
    #[must_use]
    pub fn local(visits: Visits, of: Replicas, rank: u32, ranks: u32) -> FileOrder {
        let (files, ranks) = (visits.files, ranks.max(1));
        let each = (u64::from(ranks) / of.nodes).max(1);
        let number = u64::from(rank);
        let local = Local { of, node: number / each, rank: number % each, ranks: each };
        let own = Some(local.own(0, files)).filter(|own| own.number > 0);
        FileOrder::from_visits(visits, own, rank, ranks)
    }

    fn from_visits(visits: Visits, own: Option<Own>, rank: u32, ranks: u32) -> FileOrder {
        let files = visits.files;
        FileOrder {
            shuffled: visits.order == SampleOrder::Shuffled,
            ranks,
            rank: if own.is_none() { rank } else { 0 },
            own: own.map(Box::new),
            files,
            places: if visits.by_sample { files.next_multiple_of(ranks.into()) } else { files },
            epoch: 0,
            epoch_start: 0,
            shuffle: None,
        }
    }

    /// Returns the file of the rank's visit number `place` in job copy `owner`.
    #[inline]
    pub fn at(&mut self, place: u64, owner: u64, streams: &Streams) -> u64 {
        let place = place * u64::from(self.ranks) + u64::from(self.rank);
        // Earlier places wrap around to values far above `places`.
        if place.wrapping_sub(self.epoch_start) >= self.places {
            self.enter(place / self.places);
        }
        let index = place - self.epoch_start;
        if self.own.is_some() {
            return self.of_own(index, owner, streams);
        }
        let index = if index < self.files { index } else { index % self.files };
        if !self.shuffled {
            return index;
        }
        let (epoch, files) = (self.epoch, self.files);
        let shuffle = self.shuffle.get_or_insert_with(|| {
            Shuffle::new(streams.at(Purpose::Order, owner, epoch, 0), files)
        });
        shuffle.at(index, self.ranks.into())
    }

    /// Returns the file of visit number `index` of the epoch, out of the files that the rank owns. All ranks make equally many
    /// visits in an epoch: a rank that owns one file fewer than others visits one of its files again.
    #[cold]
    fn of_own(&mut self, index: u64, owner: u64, streams: &Streams) -> u64 {
        let Some(own) = &self.own else { return 0 };
        let (epoch, number, place) =
            (self.epoch, own.number, index / u64::from(self.ranks) % own.number);
        let place = if self.shuffled {
            let shuffle = self.shuffle.get_or_insert_with(|| {
                Shuffle::new(streams.at(Purpose::Order, owner, epoch, own.first), number)
            });
            shuffle.at(place, 1)
        } else {
            place
        };
        own.first + own.stride * place
    }

    /// Returns the number of the rank's visits in the first `epochs` epochs.
    #[must_use]
    pub fn visits_in(&self, epochs: f64) -> u64 {
        let (ranks, rank) = (u64::from(self.ranks), u64::from(self.rank));
        let places = (epochs * self.places as f64).round() as u64;
        places.saturating_sub(rank).div_ceil(ranks)
    }

    /// Returns the epoch of the last requested visit.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    #[cold]
    fn enter(&mut self, epoch: u64) {
        (self.epoch, self.epoch_start) = (epoch, epoch * self.places);
        if let Some(own) = &mut self.own
            && let Some(local) = own.local
        {
            **own = local.own(epoch, self.files);
        }
        self.shuffle = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const VISITS: Visits = Visits { files: 100, by_sample: true, order: SampleOrder::Shuffled };

    fn order(split: Split, rank: u32, ranks: u32) -> FileOrder {
        FileOrder::new(VISITS, split, rank, ranks)
    }

    #[test]
    fn each_epoch_visits_every_file_once_in_a_different_order() {
        let (mut order, streams) = (order(Split::Strided, 0, 1), Streams::new(1, 0));
        let epoch = |order: &mut FileOrder, from| {
            (from..from + 100).map(|i| order.at(i, 0, &streams)).collect::<Vec<u64>>()
        };
        let (first, second) = (epoch(&mut order, 0), epoch(&mut order, 100));
        assert_ne!(first, second);
        assert_eq!((order.epoch(), epoch(&mut order, 0)), (1, first.clone()), "back again");
        for visited in [first, second] {
            assert_eq!(visited.into_iter().collect::<BTreeSet<_>>().len(), 100);
        }
    }

    #[test]
    fn ranks_together_read_each_file_once_under_every_split() {
        // System: 100 files. Expectation: all ranks together read each file once in an epoch. A rank that owns a part reads this
        // part in every epoch, in a different order.
        let streams = Streams::new(1, 0);
        for split in [Split::Strided, Split::Contiguous, Split::Shards] {
            for ranks in [1, 4, 25] {
                let each = 100 / u64::from(ranks);
                let read = |rank: u32, epoch: u64| {
                    let mut order = order(split, rank, ranks);
                    let places = epoch * each..(epoch + 1) * each;
                    assert_eq!(order.visits_in(epoch as f64), places.start);
                    let files: Vec<u64> = places.map(|i| order.at(i, 3, &streams)).collect();
                    assert_eq!(order.epoch(), epoch);
                    files
                };
                let all: BTreeSet<u64> = (0..ranks).flat_map(|rank| read(rank, 1)).collect();
                assert_eq!(all.len(), 100, "{split:?} {ranks}");
                let (first, second) = (read(0, 0), read(0, 1));
                assert_ne!(first, second);
                let sets = [first, second].map(|files| files.into_iter().collect::<BTreeSet<_>>());
                assert_eq!(sets[0] == sets[1], split != Split::Strided || ranks == 1);
            }
        }
        let slice: Vec<u64> =
            (0..25).map(|i| order(Split::Contiguous, 1, 4).at(i, 0, &streams)).collect();
        assert!(slice.iter().all(|file| (25..50).contains(file)), "{slice:?}");
        let shards: Vec<u64> =
            (0..25).map(|i| order(Split::Shards, 1, 4).at(i, 0, &streams)).collect();
        assert!(shards.iter().all(|file| file % 4 == 1), "{shards:?}");
    }

    #[test]
    fn ranks_read_equally_many_samples_if_ranks_do_not_divide_the_data_set() {
        // System: 100 samples for eight ranks. Expectation: each rank reads 13 samples in every epoch, so that all samples are
        // read and the first four of the epoch twice (`DistributedSampler`).
        let streams = Streams::new(1, 0);
        for epoch in [0, 1, 7] {
            let mut times = [0; 100];
            for rank in 0..8 {
                let mut order = order(Split::Strided, rank, 8);
                for place in epoch * 13..(epoch + 1) * 13 {
                    times[order.at(place, 0, &streams) as usize] += 1;
                    assert_eq!(order.epoch(), epoch);
                }
            }
            let twice = times.iter().filter(|times| **times == 2).count();
            assert!(times.iter().all(|times| *times > 0) && twice == 4, "{epoch}: {times:?}");
        }
    }

    #[test]
    fn local_reads_of_all_ranks_cover_each_file_exactly_once_per_epoch() {
        // System: 96 files on 4 nodes, each file on one to three nodes, with one or two ranks on each node. Expectation: every
        // file is read once in an epoch, by a node that stores it. If several nodes store a file, another node reads it in the
        // next epoch.
        let (streams, of) = (Streams::new(1, 0), Visits { files: 96, ..VISITS });
        for (each, per_node) in [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)] {
            let (replicas, ranks) = (Replicas { nodes: 4, each }, 4 * per_node);
            let read = |rank: u32, epoch: u64| {
                let mut order = FileOrder::local(of, replicas, rank, ranks);
                let places = 96 / u64::from(ranks);
                let places = epoch * places..(epoch + 1) * places;
                places.map(|place| order.at(place, 0, &streams)).collect::<BTreeSet<u64>>()
            };
            for epoch in 0..4 {
                let all: BTreeSet<u64> = (0..ranks).flat_map(|rank| read(rank, epoch)).collect();
                assert_eq!(all.len(), 96, "{replicas:?}");
            }
            for rank in 0..ranks {
                let node = u64::from(rank / per_node);
                let [first, second] = [read(rank, 0), read(rank, 1)];
                assert!(first.iter().chain(&second).all(|file| replicas.holds(node, *file)));
                assert_eq!(first == second, each == 1);
            }
        }
    }

    #[test]
    fn ranks_with_unequal_shares_of_files_begin_epochs_together() {
        // System: 100 files for 3 ranks, which own 33, 33 and 34 files. Expectation: epochs begin at visits 34, 68 and 102 for
        // all ranks, as without parts, and each rank reads all files that it owns.
        let streams = Streams::new(1, 0);
        for rank in 0..3 {
            let mut order = order(Split::Contiguous, rank, 3);
            let epochs: Vec<u64> = (0..103)
                .map(|place| {
                    order.at(place, 0, &streams);
                    order.epoch()
                })
                .collect();
            let begins = [34, 68, 102].map(|place: usize| (epochs[place - 1], epochs[place]));
            assert_eq!(begins, [(0, 1), (1, 2), (2, 3)], "{rank}");
        }
        let all: BTreeSet<u64> =
            (0..34).map(|i| order(Split::Contiguous, 2, 3).at(i, 0, &streams)).collect();
        assert_eq!(all, (66..100).collect());
    }
}
