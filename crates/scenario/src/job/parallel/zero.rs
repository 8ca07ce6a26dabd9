//! Settings of `[job.parallel.zero]`: state that data parallel ranks shard.

use super::Parallelism;
use super::buckets::StageBucket;
use super::groups::GroupSettings;
use crate::check::Check;
use crate::field::Field;
use crate::number::{Count, Positive, Share};
use crate::role::Role;
use forebay_model::units::Bandwidth;
use schemars::JsonSchema;

/// Sharding of state over data parallel ranks, instead of full copies on each rank (Rajbhandari et al., *ZeRO*, 2020).
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ZeroSettings {
    /// ZeRO's stage, which says what is sharded: 1, the optimizer's values; 2, gradients too; 3, parameters too.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) stage: Field<Count<1, 3>>,
    /// Ranks that shard states among themselves: "all" data parallel ranks; "node", those of a node; or `{ size = 16 }`, as many
    /// neighbouring ranks. Groups hold the same states: ranks gather parameters and reduce-scatter gradients inside their
    /// group, and once in an update each shard of gradients is summed across groups by an allreduce. With stage 3 this is
    /// PyTorch FSDP's `HYBRID_SHARD` (with `set_requires_all_reduce`) and MiCS (Zhang et al., 2022; DeepSpeed's
    /// `mics_shard_size`) (default: "all").
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) groups: Field<GroupSettings>,
    /// With stage 3, ranks that also keep the gathered parameters, sharded among themselves, so that backward gathers them inside
    /// this group, as "node" or `{ size = 8 }`: hpZ of ZeRO++ (Wang et al., 2023; DeepSpeed's `zero_hpz_partition_size`).
    /// Forward still gathers from all ranks that shard the states (default: backward gathers as forward does).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) secondary: Field<GroupSettings>,
    /// Quantisation of the parameters that ranks gather: qwZ of ZeRO++ (Wang et al., 2023), DeepSpeed's
    /// `zero_quantized_weights`. `sync.allreduce.compression` leaves these parameters alone (default: parameters are
    /// gathered in `model.precision`).
    #[schemars(extend("x-role" = Role::Choice))]
    quantised_weights: Field<QuantisedSettings>,
}

/// Quantisation of parameters before they are gathered.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuantisedSettings {
    /// Bytes gathered, scales included, ÷ bytes of the parameters, above 0 and up to 1: 0.5 for 8 bits in place of 16.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    ratio: Field<Share>,
    /// Rate at which a GPU quantises its shard before each gather (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    compress: Field<Positive<Bandwidth>>,
    /// Rate at which a GPU dequantises the bytes that it receives, before it uses the parameters (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    decompress: Field<Positive<Bandwidth>>,
}

/// Quantisation of parameters before they are gathered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantisation {
    /// Bytes gathered ÷ bytes of the parameters.
    pub ratio: f64,
    /// Rate at which a GPU quantises its shard [B/s]; may be infinite.
    pub compress: f64,
    /// Rate at which a GPU dequantises the bytes that it receives [B/s]; may be infinite.
    pub decompress: f64,
}

/// Smallest ratio of quantised to unquantised bytes that is accepted.
const LEAST_RATIO: f64 = 1e-6;

impl ZeroSettings {
    /// Returns the checked quantisation of gathered parameters; `None` if they are not quantised, or the setting is
    /// wrong.
    pub(super) fn quantisation(&self, check: Check<'_>) -> Option<Quantisation> {
        let (at, of) = self.quantised_weights.given()?;
        let ratio = check.required(at, &of.ratio, "ratio", "write `ratio = 0.5`")?.0;
        if ratio < LEAST_RATIO {
            let at = of.ratio.at.unwrap_or(at);
            let remedy = format!("write a number from {LEAST_RATIO} to 1, such as 0.5");
            check.wrong(at, "the ratio is out of range", remedy);
            return None;
        }
        let rate =
            |rate: &Field<Positive<Bandwidth>>| rate.get().map_or(f64::INFINITY, |rate| rate.0);
        Some(Quantisation { ratio, compress: rate(&of.compress), decompress: rate(&of.decompress) })
    }
}

impl Parallelism {
    /// Returns the bytes in which ranks gather the parameters of `bucket` [B].
    #[must_use]
    pub fn gathered_bytes(&self, bucket: &StageBucket) -> u64 {
        match self.quantised {
            Some(of) => ((bucket.parameters as f64 * of.ratio).round() as u64).max(1),
            None => bucket.parameters,
        }
    }

    /// Returns the times in which a GPU quantises its shard of the parameters of `bucket` and dequantises what it
    /// receives, for a gather among `ranks` ranks [s].
    #[must_use]
    pub fn quantisation_times(&self, bucket: &StageBucket, ranks: u32) -> (f64, f64) {
        let Some(of) = self.quantised.filter(|_| ranks > 1) else { return (0.0, 0.0) };
        let (bytes, ranks) = (bucket.parameters as f64, f64::from(ranks));
        let received = bytes * of.ratio * (ranks - 1.0) / ranks;
        (bytes / ranks / of.compress, received / of.decompress)
    }
}
