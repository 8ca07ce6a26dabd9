//! Which sample comes when, and how large it is: the same draws as in the simulated world.

use crate::random::{Permutation, Purpose, Sampler, Streams};
use crate::scenario::{Dataset, Layout, SampleOrder, SampleSizes};

/// The size of each sample of a data set as stored [B]: at least one byte, and whole.
#[derive(Debug, Clone)]
pub(super) enum Sizes {
    Constant(u64),
    /// By number of the sample.
    Each(Vec<u32>),
}

impl Sizes {
    /// The sizes of data set number `index`; `None` where they are no whole data set's.
    pub(super) fn drawn(dataset: &Dataset, index: usize, seed: u64) -> Option<Sizes> {
        let SampleSizes::Drawn(distribution) = &dataset.sizes else { return None };
        let sampler = Sampler::new(distribution);
        if let Some(size) = sampler.is_constant() {
            return Some(Sizes::Constant(whole(size)));
        }
        // Sizes are the same in every replication.
        let streams = Streams::new(seed, 0);
        let draw = |sample| {
            let address = streams.at(Purpose::SampleSize, index as u64, sample, 0);
            u32::try_from(whole(sampler.draw(&mut { address }))).unwrap_or(u32::MAX)
        };
        Some(Sizes::Each((0..dataset.samples).map(draw).collect()))
    }

    /// Size of a sample [B].
    #[inline]
    pub(super) fn of(&self, sample: u64) -> u64 {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Each(sizes) => sizes.get(sample as usize).map_or(1, |size| u64::from(*size)),
        }
    }

    /// Bytes of the samples `from..to`.
    pub(super) fn sum(&self, from: u64, to: u64) -> u64 {
        match self {
            Sizes::Constant(size) => size.saturating_mul(to - from),
            Sizes::Each(_) => (from..to).map(|sample| self.of(sample)).sum(),
        }
    }
}

fn whole(size: f64) -> u64 {
    size.round().max(1.0) as u64
}

/// The order in which a job copy visits files, epoch after epoch.
#[derive(Debug, Clone)]
pub(super) struct FileOrder {
    files: u64,
    shuffled: bool,
    streams: Streams,
    /// Number of the job copy.
    owner: u64,
    /// That of the epoch asked for last.
    permutation: Option<(u64, Permutation)>,
}

impl FileOrder {
    pub(super) fn new(dataset: &Dataset, streams: Streams, owner: u64) -> FileOrder {
        let shuffled = dataset.order == SampleOrder::Shuffled;
        FileOrder { files: files(dataset), shuffled, streams, owner, permutation: None }
    }

    /// The epoch of a place of the job copy's reading.
    pub(super) fn epoch(&self, place: u64) -> u64 {
        place / self.files
    }

    /// The file at a place of the job copy's reading.
    pub(super) fn at(&mut self, place: u64) -> u64 {
        let (epoch, index) = (place / self.files, place % self.files);
        if !self.shuffled {
            return index;
        }
        let known = self.permutation.take().filter(|(of, _)| *of == epoch);
        let (_, permutation) = self.permutation.insert(known.unwrap_or_else(|| {
            let key = self.streams.at(Purpose::Order, self.owner, epoch, 0);
            (epoch, Permutation::new(key, self.files))
        }));
        permutation.at(index)
    }
}

/// Files of an epoch: samples or shards.
pub(super) fn files(dataset: &Dataset) -> u64 {
    match dataset.layout {
        Layout::FilePerSample => dataset.samples,
        Layout::Shards { samples_per_shard, .. } => dataset.samples.div_ceil(samples_per_shard),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Distribution;
    use std::collections::BTreeSet;

    fn dataset(sizes: Distribution) -> Dataset {
        let toml = r#"
            name = "x"
            [run]
            steps = 1
            [cluster]
            nodes = 1
            node.cores = 1
            [storage.m.memory]
            [dataset.d]
            samples = 100
            sample_size = "10 B"
            [[job]]
            name = "j"
            dataset = "d"
            storage = "m"
            batch = 1
            loader.tf-queue = { threads = 1, capacity = "1 samples" }
            model.step = "1 ms"
        "#;
        let file = crate::scenario::ScenarioFile::parse("x.toml", toml.to_owned()).unwrap();
        let dataset = file.resolve(&[]).unwrap().datasets.remove(0);
        Dataset { sizes: SampleSizes::Drawn(sizes), ..dataset }
    }

    #[test]
    fn each_epoch_visits_every_file_once_in_another_order() {
        let dataset = dataset(Distribution::Constant(10.0));
        let mut order = FileOrder::new(&dataset, Streams::new(1, 0), 0);
        let epoch = |order: &mut FileOrder, from| (from..from + 100).map(|i| order.at(i)).collect();
        let (first, second): (Vec<u64>, Vec<u64>) = (epoch(&mut order, 0), epoch(&mut order, 100));
        assert_ne!(first, second);
        for visited in [first, second] {
            assert_eq!(visited.into_iter().collect::<BTreeSet<_>>().len(), 100);
        }
    }

    #[test]
    fn sizes_are_whole_bytes_and_do_not_depend_on_the_replication() {
        let dataset = dataset(Distribution::Exponential { mean: 3.0 });
        let sizes = Sizes::drawn(&dataset, 0, 1).unwrap();
        assert!((0..100).all(|sample| sizes.of(sample) >= 1));
        assert_eq!(sizes.sum(0, 100), (0..100).map(|sample| sizes.of(sample)).sum::<u64>());
        let again = Sizes::drawn(&dataset, 0, 1).unwrap();
        assert!((0..100).all(|sample| sizes.of(sample) == again.of(sample)));
    }
}
