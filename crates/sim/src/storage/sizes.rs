//! Sizes of samples.

use std::ops::Range;
use std::sync::Arc;

use forebay_engine::prefetch;
use forebay_model::random::{Purpose, Sampler, Streams};
use forebay_scenario::{Dataset, Framing, SampleSizes};

/// The sizes [B] of a data set's samples, the same for all jobs that read it.
#[derive(Debug)]
pub(crate) enum Sizes {
    Constant(f64),
    Drawn(Drawn),
    Table { table: Arc<[f64]>, job_stride: u64, stride: u64 },
}

/// Sizes that are sampled from a distribution, one for each sample; a sample has the same size each time it is read.
#[derive(Debug)]
pub(crate) struct Drawn {
    sampler: Sampler,
    /// Number of the data set.
    id: u64,
    /// Sizes sampled so far, by sample; 0 if a sample's size has not been sampled yet. Empty for data sets with more than
    /// [`Drawn::MOST_KEPT`] samples.
    known: Vec<f64>,
}

impl Sizes {
    /// Returns the sizes of `dataset`, which has number `id`.
    pub(crate) fn new(dataset: &Dataset, id: u64) -> Sizes {
        match &dataset.sizes {
            SampleSizes::Drawn(distribution) => {
                let sampler = Sampler::new(distribution);
                match sampler.is_constant() {
                    Some(size) => Sizes::Constant(size),
                    None => Sizes::Drawn(Drawn::new(sampler, id, dataset.samples)),
                }
            }
            SampleSizes::Table { table, job_stride, sample_stride } => Sizes::Table {
                table: table.clone(),
                job_stride: *job_stride,
                stride: *sample_stride,
            },
        }
    }

    /// Returns the size of every sample, if all have the same [B].
    pub(crate) fn constant(&self) -> Option<f64> {
        match self {
            Sizes::Constant(size) => Some(*size),
            Sizes::Drawn(_) | Sizes::Table { .. } => None,
        }
    }

    /// Returns whether a size depends on which sample is read, so that the order of samples must be known.
    pub(crate) fn need_order(&self) -> bool {
        matches!(self, Sizes::Drawn(_))
    }

    /// Returns the size [B] of `sample`, which job copy `copy` reads as its sample number `position`.
    #[inline]
    pub(crate) fn at(&mut self, copy: u64, position: u64, sample: u64, streams: &Streams) -> f64 {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Drawn(drawn) => drawn.at(sample, streams),
            Sizes::Table { table, job_stride, stride } => {
                table[place_in(table, copy, *job_stride, position, *stride)]
            }
        }
    }

    /// Prefetches the size of the sample that job copy `copy` will soon read as its sample number `position` into the CPU's cache.
    #[inline]
    pub(crate) fn prefetch(&self, copy: u64, position: u64) {
        if let Sizes::Table { table, job_stride, stride } = self {
            prefetch(&table[place_in(table, copy, *job_stride, position, *stride)]);
        }
    }

    /// Returns the size [B] of `sample` for any job that reads it; returns the mean size if sizes come from a table, where they
    /// depend on the job.
    pub(super) fn of_sample(&mut self, sample: u64, streams: &Streams) -> f64 {
        match self {
            Sizes::Constant(size) => *size,
            Sizes::Drawn(drawn) => drawn.at(sample, streams),
            Sizes::Table { table, .. } => table.iter().sum::<f64>() / table.len() as f64,
        }
    }

    /// Returns the total size [B] of `samples`, each with its framing, in the epoch that begins at position `base`.
    pub(crate) fn sum(
        &mut self,
        copy: u64,
        base: u64,
        samples: Range<u64>,
        record: Framing,
        streams: &Streams,
    ) -> f64 {
        match self {
            Sizes::Constant(size) => record.around(*size) * (samples.end - samples.start) as f64,
            _ => samples
                .map(|sample| record.around(self.at(copy, base + sample, sample, streams)))
                .sum(),
        }
    }
}

/// Returns the index in `table` of the size of the sample that job copy `copy` reads as its sample number `position`.
#[inline]
fn place_in(table: &[f64], copy: u64, job_stride: u64, position: u64, stride: u64) -> usize {
    let at = copy.wrapping_mul(job_stride).wrapping_add(position.wrapping_mul(stride));
    let length = table.len() as u64;
    // A division costs as much as everything else that is done for a sample here.
    let place = if length.is_power_of_two() { at & (length - 1) } else { at % length };
    place as usize
}

impl Drawn {
    /// Maximum number of samples whose sizes are kept: 16 MiB. In larger tables a look-up costs as much as sampling anew.
    const MOST_KEPT: u64 = 1 << 21;

    fn new(sampler: Sampler, id: u64, samples: u64) -> Drawn {
        let kept = if samples <= Self::MOST_KEPT { samples as usize } else { 0 };
        // The operating system provides zeroed pages when they are touched.
        Drawn { sampler, id, known: vec![0.0; kept] }
    }

    #[inline]
    fn at(&mut self, sample: u64, streams: &Streams) -> f64 {
        match self.known.get(sample as usize) {
            Some(&size) if size > 0.0 => size,
            _ => self.draw(sample, streams),
        }
    }

    #[inline(never)]
    fn draw(&mut self, sample: u64, streams: &Streams) -> f64 {
        let mut generator = streams.at(Purpose::SampleSize, self.id, sample, 0);
        let size = self.sampler.draw(&mut generator);
        if let Some(place) = self.known.get_mut(sample as usize) {
            *place = size;
        }
        size
    }
}
