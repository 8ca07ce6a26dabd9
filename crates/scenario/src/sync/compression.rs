//! How gradients are made smaller before they are sent.

use super::gradients::Bucket;
use crate::check::Check;
use crate::field::Field;
use crate::number::{Positive, Share};
use crate::role::Role;
use forebay_model::units::Bandwidth;
use schemars::JsonSchema;
use serde::Deserialize;

/// Smallest ratio of compressed to uncompressed bytes that is accepted.
const LEAST_RATIO: f64 = 1e-6;

/// A checked compression of gradients: its ratio, and how fast the GPU compresses and decompresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Coding {
    /// Bytes sent ÷ bytes of the gradients.
    ratio: f64,
    /// Rate at which gradients are compressed [B/s]; may be infinite.
    compress: f64,
    /// Rate at which received bytes are decompressed [B/s]; may be infinite.
    decompress: f64,
    /// Whether compressed gradients of different ranks cannot be added up.
    pub(super) sparse: bool,
}

/// How gradients are compressed before they are sent (methods are compared in S. Agarwal et al., *On the Utility of
/// Gradient Compression in Distributed Training Systems*, MLSys 2022, and H. Xu et al., *GRACE: A Compressed
/// Communication Framework for Distributed Machine Learning*, ICDCS 2021). The GPU compresses between pieces of
/// backward, and decompresses what it has received before it updates. Only gradients are compressed: parameters that
/// ranks gather (`parallel.zero`) or pull from servers, activations and tokens keep their bytes. Where parameters are
/// averaged (`period`), their changes since the last average are compressed (D. Basu et al., *Qsparse-local-SGD*,
/// NeurIPS 2019).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CompressionSettings {
    /// Compressed gradients that can be added up like gradients: each number has fewer bits, as in half precision,
    /// or there are fewer numbers, as in a low-rank approximation.
    Quantised(Field<CodingSettings>),
    /// Some of the numbers (such as the largest ones) with their indices. Each rank sends different numbers, so an
    /// allreduce becomes an allgather, whose bytes grow with the number of ranks, and each rank decompresses those of
    /// all others.
    Sparse(Field<CodingSettings>),
}

/// Ratio and speed of a compression.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CodingSettings {
    /// Bytes sent, indices included, ÷ bytes of the gradients.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    ratio: Field<Share>,
    /// Rate at which a GPU compresses its gradients (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    compress: Field<Positive<Bandwidth>>,
    /// Rate at which a GPU decompresses the bytes that it receives (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    decompress: Field<Positive<Bandwidth>>,
}

impl CompressionSettings {
    fn coding(&self) -> &Field<CodingSettings> {
        match self {
            Self::Quantised(coding) | Self::Sparse(coding) => coding,
        }
    }

    /// Remarks that `decompress` has no effect with parameter servers, which decompress at the rate of their
    /// `update`.
    pub(super) fn remark_servers(&self, check: Check<'_>) {
        if let Some(coding) = self.coding().get() {
            let why = "servers decompress at the rate of their `update`, and send uncompressed parameters";
            check.no_effect(coding.decompress.at, why);
        }
    }
}

/// Checks and returns the compression that is set: `Some(None)` if none is set, `None` if it is wrong.
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
        check.wrong(at, "the ratio is out of range", "write a number from 1e-6 to 1, such as 0.01");
        return None;
    }
    let rate = |rate: &Field<Positive<Bandwidth>>| rate.get().map_or(f64::INFINITY, |rate| rate.0);
    let sparse = matches!(kind, CompressionSettings::Sparse(_));
    let (compress, decompress) = (rate(&coding.compress), rate(&coding.decompress));
    Some(Some(Coding { ratio, compress, decompress, sparse }))
}

impl Coding {
    /// Sets, for each of `buckets`, the compressed bytes that each rank sends, and the time to compress them.
    pub(super) fn compress(&self, buckets: &mut [Bucket]) {
        for bucket in buckets {
            let bytes = bucket.bytes as f64;
            bucket.compress = bytes / self.compress;
            bucket.bytes = ((bytes * self.ratio).round() as u64).max(bucket.bytes.min(1));
        }
    }

    /// Multiplies the bytes of sparse `buckets` by `ranks`: sparse gradients cannot be added up, so each rank
    /// gathers the gradients of all ranks.
    pub(super) fn gather(&self, buckets: &mut [Bucket], ranks: u32) {
        if self.sparse {
            let all = |bucket: &mut Bucket| {
                bucket.bytes = bucket.bytes.saturating_mul(u64::from(ranks));
            };
            buckets.iter_mut().for_each(all);
        }
    }

    /// Returns the time that a GPU needs to decompress the `buckets` of one rank, or the sum of all ranks' [s].
    pub(super) fn decompress(&self, buckets: &[Bucket]) -> f64 {
        buckets.iter().map(|bucket| bucket.bytes as f64 / self.decompress).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_gradient_bytes_grow_with_ranks_and_quantised_bytes_do_not() {
        // System: 1 MB compressed to a hundredth at 1 GB/s, decompressed at 100 MB/s, among 8 ranks. Expectation:
        // 10 kB after 1 ms, decompressed in 0.1 ms; if sparse, 80 kB of all ranks, each decompressed in 0.1 ms.
        let bucket =
            Bucket { bytes: 1_000_000, raw: 1_000_000, tensors: 1, ready: 1.0, compress: 0.0 };
        for (sparse, bytes) in [(false, 10_000), (true, 80_000)] {
            let coding = Coding { ratio: 0.01, compress: 1e9, decompress: 1e8, sparse };
            let mut buckets = vec![bucket];
            coding.compress(&mut buckets);
            let seconds = coding.decompress(&buckets);
            coding.gather(&mut buckets, 8);
            assert_eq!((buckets[0].bytes, buckets[0].compress), (bytes, 1e-3));
            assert!((seconds - 1e-4).abs() < 1e-12);
        }
    }
}
