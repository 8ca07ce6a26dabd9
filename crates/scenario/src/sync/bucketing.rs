//! The sizes of buckets of gradients: as set in the scenario file, or the default of the framework whose loader
//! feeds the job.

use super::Bucket;
use super::gradients::{Gradient, cut, filled};
use super::sent::MOST_TENSORS;
use crate::number::Positive;
use forebay_model::units::{Dimension, Size};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A mebibyte [B].
const MIB: f64 = (1 << 20) as f64;

/// The framework that a job trains with, as its loader implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Framework {
    /// PyTorch, with `DistributedDataParallel`.
    Pytorch,
    /// TensorFlow or Keras, with `tf.distribute`.
    Tensorflow,
    /// The loader belongs to no framework, or to several.
    #[default]
    Unsaid,
}

/// The value of `buckets`: when a bucket is full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum BucketSize {
    /// A bucket is full at this many bytes [B].
    Bytes(f64),
    /// A bucket is never full: all gradients are in one bucket.
    All,
}

/// Sizes at which buckets are full and closed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucketing {
    /// Size of the first bucket [B].
    first: f64,
    /// Size of each further bucket [B].
    rest: f64,
}

impl Bucketing {
    /// All gradients in one bucket.
    const ALL: Bucketing = Bucketing { first: f64::INFINITY, rest: f64::INFINITY };
    /// `DistributedDataParallel` of PyTorch: `bucket_cap_mb = 25`, and `_DEFAULT_FIRST_BUCKET_BYTES = 1024 * 1024`
    /// for the bucket that backward fills first.
    const PYTORCH: Bucketing = Bucketing { first: MIB, rest: 25.0 * MIB };

    /// Returns the bucketing that `written` sets, or the default. The two texts are the default's value and source,
    /// and empty if `written` sets the bucketing. `averages`: whether parameters are averaged in place of gradients.
    pub(super) fn new(
        written: Option<BucketSize>,
        framework: Framework,
        averages: bool,
    ) -> (Bucketing, [&'static str; 2]) {
        match (written, framework) {
            (Some(BucketSize::Bytes(bytes)), _) => {
                (Bucketing { first: bytes, rest: bytes }, [""; 2])
            }
            (Some(BucketSize::All), _) => (Bucketing::ALL, [""; 2]),
            (None, _) if averages => {
                (Bucketing::ALL, ["all together", "parameters are averaged after the step"])
            }
            (None, Framework::Pytorch) => (
                Bucketing::PYTORCH,
                [
                    "25 MiB, the first 1 MiB",
                    "PyTorch: DistributedDataParallel(bucket_cap_mb=25), _DEFAULT_FIRST_BUCKET_BYTES",
                ],
            ),
            (None, Framework::Tensorflow) => (
                Bucketing::ALL,
                [
                    "all together",
                    "TensorFlow: tf.distribute CommunicationOptions(bytes_per_pack=0)",
                ],
            ),
            (None, Framework::Unsaid) => {
                (Bucketing::ALL, ["all together", "the loader names no framework"])
            }
        }
    }

    /// Returns the buckets of `gradients`. If the tensors are unknown, `divisible` is the share of a step that
    /// backward takes, and the gradients are cut exactly where a bucket is full.
    pub(super) fn buckets(self, gradients: &[Gradient], divisible: Option<f64>) -> Vec<Bucket> {
        match (divisible, gradients) {
            (Some(backward), [all]) => {
                filled(&cut(all.bytes, (self.first, self.rest), backward), 0.0, 0.0)
            }
            _ => filled(gradients, self.first, self.rest),
        }
    }

    /// Returns whether `bytes` bytes that may be cut anywhere would be in more buckets than can be simulated.
    pub(super) fn too_many(self, bytes: f64) -> bool {
        (bytes - self.first) / self.rest > MOST_TENSORS as f64
    }
}

impl<'de> Deserialize<'de> for BucketSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeOrAll;

        impl Visitor<'_> for SizeOrAll {
            type Value = BucketSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} with its unit, like \"25 MiB\", or \"all\"", Size::WHAT)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BucketSize, E> {
                if text == "all" {
                    return Ok(BucketSize::All);
                }
                let size = Positive::<Size>::deserialize(text.into_deserializer());
                size.map(|size| BucketSize::Bytes(size.0))
            }
        }

        deserializer.deserialize_any(SizeOrAll)
    }
}

impl JsonSchema for BucketSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BucketSize".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Positive<Size>>();
        json_schema!({ "anyOf": [size, { "const": "all" }] })
    }
}

#[cfg(test)]
mod tests {
    use super::super::gradients::even;
    use super::*;

    #[test]
    fn the_first_bucket_of_pytorch_is_smaller_than_the_others() {
        // System: 102 MB of gradients whose tensors are unknown, backward two thirds of a step. Expectation: a
        // bucket of 1 MiB as soon as it is full, then three buckets of 25 MiB and one of what is left, the last at
        // the end of the step.
        let (bucketing, _) = Bucketing::new(None, Framework::Pytorch, false);
        let buckets = bucketing.buckets(&even(102e6, 1, 2.0 / 3.0), Some(2.0 / 3.0));
        let bytes: Vec<u64> = buckets.iter().map(|bucket| bucket.bytes).collect();
        let mib = 1 << 20;
        assert_eq!(bytes, [mib, 25 * mib, 25 * mib, 25 * mib, 102_000_000 - 76 * mib]);
        let ready = |bytes: u64| 1.0 - 2.0 / 3.0 * (1.0 - bytes as f64 / 102e6);
        assert!((buckets[0].ready - ready(mib)).abs() < 1e-12);
        assert!((buckets[1].ready - ready(26 * mib)).abs() < 1e-12);
        assert!((buckets[4].ready - 1.0).abs() < 1e-12);
    }

    #[test]
    fn gradient_buckets_split_gradients_only_if_tensor_sizes_are_unknown() {
        let (bucketing, _) = Bucketing::new(Some(BucketSize::Bytes(1e6)), Framework::Unsaid, false);
        assert_eq!(bucketing.buckets(&even(102e6, 1, 0.5), None).len(), 1);
        assert_eq!(bucketing.buckets(&even(102e6, 1, 0.5), Some(0.5)).len(), 102);
        assert_eq!(bucketing.buckets(&even(102e6, 51, 0.5), None).len(), 51);
    }

    #[test]
    fn frameworks_other_than_pytorch_have_one_bucket_for_all_gradients() {
        for framework in [Framework::Tensorflow, Framework::Unsaid] {
            let (bucketing, [value, _]) = Bucketing::new(None, framework, false);
            assert_eq!((bucketing, value), (Bucketing::ALL, "all together"));
        }
        assert_eq!(Bucketing::new(None, Framework::Pytorch, true).0, Bucketing::ALL);
    }
}
