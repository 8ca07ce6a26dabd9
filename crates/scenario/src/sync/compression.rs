//! How gradients are made smaller before they are sent.

use super::gradients::Bucket;
use crate::check::Check;
use crate::field::Field;
use crate::number::{Positive, Share};
use forebay_model::units::Bandwidth;
use schemars::JsonSchema;
use serde::Deserialize;

/// Least share of the bytes that is sent.
const LEAST_RATIO: f64 = 1e-6;

/// What compression does to gradients, and what it costs their GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Coding {
    /// Bytes that are sent ÷ those of gradients.
    ratio: f64,
    /// Rate at which gradients are compressed [B/s]; may be infinite.
    compress: f64,
    /// Rate at which what has come is taken apart [B/s]; may be infinite.
    decompress: f64,
    /// Whether compressed gradients of different ranks cannot be added up.
    pub(super) sparse: bool,
}

/// How gradients are made smaller before they are sent (S. Agarwal et al., *On the Utility of Gradient
/// Compression in Distributed Training Systems*, MLSys 2022, and H. Xu et al., *GRACE: A Compressed
/// Communication Framework for Distributed Machine Learning*, ICDCS 2021, who compare such ways). The GPU
/// compresses between its pieces of backward, and takes apart what has come before it updates.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CompressionSettings {
    /// Every number in fewer bits, or all in fewer numbers: what comes of it can be added up like
    /// gradients, as half precision or low rank can.
    Quantised(Field<CodingSettings>),
    /// Some numbers with their places, as the largest of all: different ones of each rank, so that an
    /// allreduce becomes an allgather, whose bytes grow with the ranks.
    Sparse(Field<CodingSettings>),
}

/// What compression does and costs.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CodingSettings {
    /// Bytes that are sent ÷ those of gradients, places counted.
    #[schemars(required)]
    ratio: Field<Share>,
    /// Rate at which a GPU compresses its gradients (default: infinite).
    compress: Field<Positive<Bandwidth>>,
    /// Rate at which it takes apart the compressed bytes that have come (default: infinite).
    decompress: Field<Positive<Bandwidth>>,
}

impl CompressionSettings {
    fn coding(&self) -> &Field<CodingSettings> {
        match self {
            Self::Quantised(coding) | Self::Sparse(coding) => coding,
        }
    }

    /// Says that nobody takes anything apart.
    pub(super) fn remark_servers(&self, check: Check<'_>) {
        if let Some(coding) = self.coding().get() {
            let why = "servers do it, at the rate of their `update`, and send whole parameters";
            check.no_effect(&coding.decompress, why);
        }
    }
}

/// What is written of compression: `None` if that is wrong, `Some(None)` if it is nothing.
pub(super) fn resolve(
    settings: &Field<CompressionSettings>,
    check: Check<'_>,
) -> Option<Option<Coding>> {
    let Some((_, kind)) = settings.given() else {
        return (!settings.is_written()).then_some(None);
    };
    let (at, coding) = kind.coding().given()?;
    let ratio = check.required(at, &coding.ratio, "ratio", "write `ratio = 0.01`")?.0;
    if !(LEAST_RATIO..=1.0).contains(&ratio) {
        let at = coding.ratio.at.unwrap_or(at);
        check.wrong(at, "nothing of the gradients is left", "write at least 1e-6, such as 0.01");
        return None;
    }
    let rate = |rate: &Field<Positive<Bandwidth>>| rate.get().map_or(f64::INFINITY, |rate| rate.0);
    let sparse = matches!(kind, CompressionSettings::Sparse(_));
    let (compress, decompress) = (rate(&coding.compress), rate(&coding.decompress));
    Some(Some(Coding { ratio, compress, decompress, sparse }))
}

impl Coding {
    /// `buckets` as each rank sends them.
    pub(super) fn compress(&self, buckets: &mut [Bucket]) {
        for bucket in buckets {
            let bytes = bucket.bytes as f64;
            bucket.compress = bytes / self.compress;
            bucket.bytes = ((bytes * self.ratio).round() as u64).max(bucket.bytes.min(1));
        }
    }

    /// Compressed `buckets` as `ranks` gather them where they cannot be added up: one's after the other's.
    pub(super) fn gather(&self, buckets: &mut [Bucket], ranks: u32) {
        if self.sparse {
            let all = |bucket: &mut Bucket| {
                bucket.bytes = bucket.bytes.saturating_mul(u64::from(ranks));
            };
            buckets.iter_mut().for_each(all);
        }
    }

    /// Time of a GPU to take apart what has come of `buckets` [s].
    pub(super) fn decompress(&self, buckets: &[Bucket]) -> f64 {
        buckets.iter().map(|bucket| bucket.bytes as f64 / self.decompress).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sparse_grows_with_the_ranks_and_what_is_quantised_does_not() {
        // System: 1 MB to a hundredth, compressed at 1 GB/s, taken apart at 100 MB/s, among 8. Expectation: 10 kB in
        // 1 ms, taken apart in 0.1 ms; sparse ones of all, 80 kB in 0.8 ms.
        let bucket =
            Bucket { bytes: 1_000_000, raw: 1_000_000, tensors: 1, ready: 1.0, compress: 0.0 };
        for (sparse, bytes, seconds) in [(false, 10_000, 1e-4), (true, 80_000, 8e-4)] {
            let coding = Coding { ratio: 0.01, compress: 1e9, decompress: 1e8, sparse };
            let mut buckets = vec![bucket];
            coding.compress(&mut buckets);
            coding.gather(&mut buckets, 8);
            assert_eq!((buckets[0].bytes, buckets[0].compress), (bytes, 1e-3));
            assert!((coding.decompress(&buckets) - seconds).abs() < 1e-12);
        }
    }
}
