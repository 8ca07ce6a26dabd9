//! Sizes of samples, from the same random numbers as in a simulation.

use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_scenario::{Dataset, Framing, SampleSizes};

/// Stored size of each sample in a data set [B]: a whole number, at least 1.
#[derive(Debug, Clone)]
pub(super) enum Sizes {
    Constant(u64),
    /// One size for each sample.
    Each(Vec<u32>),
}

impl Sizes {
    /// Samples the sizes of data set number `index`; `None` if the scenario gives a table of sizes.
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

    /// Returns the size of a sample [B].
    #[inline]
    pub(super) fn of(&self, sample: u64) -> u64 {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Each(sizes) => sizes.get(sample as usize).map_or(1, |size| u64::from(*size)),
        }
    }

    /// Returns the bytes of the samples `from..to`, including the framing of each record [B].
    pub(super) fn sum(&self, from: u64, to: u64, record: Framing) -> u64 {
        match self {
            Sizes::Constant(size) => around(record, *size).saturating_mul(to - from),
            Sizes::Each(_) => (from..to).map(|sample| around(record, self.of(sample))).sum(),
        }
    }
}

/// Returns the bytes that a sample of `size` takes in its file, including the framing of its record [B].
pub(super) fn around(record: Framing, size: u64) -> u64 {
    let padded = size.checked_next_multiple_of(u64::from(record.block.max(1)));
    padded.unwrap_or(u64::MAX).saturating_add(u64::from(record.header))
}

fn whole(size: f64) -> u64 {
    size.round().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_scenario::Distribution;

    fn of(sizes: Distribution) -> Dataset {
        Dataset { sizes: SampleSizes::Drawn(sizes), ..Dataset::of_files(100, 10.0) }
    }

    #[test]
    fn records_take_as_many_bytes_as_in_a_simulation() {
        for record in
            [Framing::NONE, Framing { header: 16, block: 0 }, Framing { header: 512, block: 512 }]
        {
            for size in [1, 511, 512, 513, 100_000] {
                let taken = around(record, size);
                assert_eq!(taken as f64, record.around(size as f64));
                assert!(
                    record.inside(taken) >= size && around(record, record.inside(taken)) <= taken
                );
            }
        }
    }

    #[test]
    fn sample_sizes_are_whole_bytes_that_add_up_and_are_drawn_reproducibly() {
        let dataset = of(Distribution::Exponential { mean: 3.0 });
        let sizes = Sizes::drawn(&dataset, 0, 1).unwrap();
        assert!((0..100).all(|sample| sizes.of(sample) >= 1));
        assert_eq!(
            sizes.sum(0, 100, Framing::NONE),
            (0..100).map(|sample| sizes.of(sample)).sum::<u64>()
        );
        let again = Sizes::drawn(&dataset, 0, 1).unwrap();
        assert!((0..100).all(|sample| sizes.of(sample) == again.of(sample)));
    }
}
