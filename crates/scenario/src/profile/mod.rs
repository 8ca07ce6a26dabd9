//! Parameters of a machine: fitted, with interval, unit and provenance; the hinge between measuring
//! and predicting.
//!
//! A profile is a TOML file: [`Profile::open`] refuses what cannot be used, with line, key and
//! remedy; [`Profile::to_toml`] writes what reads back as the same.

mod check;
mod compare;
mod file;
mod known;
mod laws;
#[cfg(test)]
mod tests;
mod throughput;
mod write;

pub use compare::{Change, Verdict, compare};
pub use file::{ProfileError, ProfileProblem};
pub use throughput::ThroughputTable;

use forebay_model::law::CachePolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Where the parameters come from.
    pub provenance: Provenance,
    /// What the machine has.
    #[serde(default)]
    pub host: Host,
    /// Reads by kind of access: `direct`, `cold`, `warm`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub read: BTreeMap<String, Fit>,
    /// Decoding by format: `jpeg`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decode: BTreeMap<String, Fit>,
    /// Training steps by model and device: `lenet5`, `cpu-1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub step: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Learners that share a GPU by model and device: the batch with which one alone keeps half of it busy,
    /// `half_batch`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub learners: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Memory of a GPU that a learner takes by model and device: `fixed` and `per_sample` [B].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Copies from the host to a GPU by that and by the host's memory: `cuda-0`, `pinned`, `pageable`, `staged`,
    /// `pinned-beside-step`; `latency` [s] and `bandwidth` [B/s].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub copy: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Hand-off through a bounded queue: `per_item` [core-s].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Fit>,
    /// Speed of a core while n of them are busy, against one alone: `speed_2`, `speed_4`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Fit>,
    /// Page cache by the policy that explains what it kept: `lru`, `random`, `minio` (several where
    /// they explain it alike, `any` where it kept all that was read), with its `size` [B].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cache: BTreeMap<String, Fit>,
    /// Messages and collectives by transport and by kind with ranks: `nccl`, `allreduce-8`. Range number
    /// k of sizes has `alpha_k`, `beta_k`, and from the second on `from_k`, where it begins.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub transport: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Differences between equal runs: `run_to_run`, relative standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Fit>,
    /// Throughput of reads by size and number of readers, by the names of [`Profile::read`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub throughput: BTreeMap<String, ThroughputTable>,
}

/// Where the parameters come from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The machine in words: processor, memory, kernel. No host name.
    pub machine: String,
    /// Version of forebay.
    pub forebay: String,
    /// Day of the measurement, UTC: `2026-11-21`.
    pub date: String,
    /// Name of the plan.
    pub plan: String,
    /// File with the raw samples, relative to the profile.
    pub samples: String,
    /// Versions of libraries, drivers, tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

/// What the machine has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Cores that this process may use: affinity and quota considered; may be a fraction.
    pub cores: f64,
    /// Main memory that it may use [B].
    pub memory: f64,
}

/// One law fitted to samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The law's parameters by name.
    pub parameters: BTreeMap<String, Parameter>,
    /// Samples that the fit used.
    pub samples: u64,
    /// Median of |measured − fitted| ÷ measured.
    pub residual: f64,
    /// Smallest and largest value of each setting that was measured: beyond, the law extrapolates.
    #[serde(default)]
    pub range: BTreeMap<String, [f64; 2]>,
    /// Joint bootstrap draws of the parameters, in the order of `parameters`: they keep what the
    /// intervals lose, that errors of parameters go together.
    #[serde(default)]
    pub draws: Vec<Vec<f64>>,
}

/// A fitted value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The value; infinite for a rate that nothing was seen to limit.
    pub value: f64,
    /// Its unit: `s`, `B/s`, `1/s`, `core-s/B`.
    pub unit: String,
    /// 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Why the data cannot tell this value, where they cannot: it is a default then, or one of
    /// several that fit as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unidentified: Option<String>,
}

impl Profile {
    /// All fits by path: `read.direct`, `step.lenet5.cpu-1`, `queue`.
    #[must_use]
    pub fn fits(&self) -> Vec<(Vec<String>, &Fit)> {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut all: Vec<(Vec<String>, &Fit)> = Vec::new();
        all.extend(self.read.iter().map(|(name, fit)| (path(&["read", name]), fit)));
        all.extend(self.decode.iter().map(|(name, fit)| (path(&["decode", name]), fit)));
        let mut deep = |kind: &str, fits| {
            let fits: &BTreeMap<String, BTreeMap<String, Fit>> = fits;
            for (outer, inner) in fits {
                all.extend(inner.iter().map(|(name, fit)| (path(&[kind, outer, name]), fit)));
            }
        };
        deep("step", &self.step);
        deep("learners", &self.learners);
        deep("memory", &self.memory);
        deep("copy", &self.copy);
        all.extend(self.cache.iter().map(|(policy, fit)| (path(&["cache", policy]), fit)));
        for (transport, kinds) in &self.transport {
            let of = |(kind, fit): (&String, _)| (path(&["transport", transport, kind]), fit);
            all.extend(kinds.iter().map(of));
        }
        let single = [("queue", &self.queue), ("cores", &self.cores), ("noise", &self.noise)];
        all.extend(single.iter().filter_map(|(n, fit)| Some((path(&[n]), fit.as_ref()?))));
        all
    }
}

/// JSON Schema of a profile, from the types that read it.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Profile).to_value()
}

impl Profile {
    /// The fit of reads by `access` and layout (`file-per-sample`, `records`), with its name; that of
    /// the access alone where layouts were not measured apart.
    #[must_use]
    pub fn read_fit(&self, access: &str, layout: &str) -> Option<(String, &Fit)> {
        named(&self.read, access, layout)
    }

    /// The fit of decoding images that are resized to `resize` [pixels] (0: as stored), with its name;
    /// that of the format alone where sizes were not measured apart.
    #[must_use]
    pub fn decode_fit(&self, format: &str, resize: u32) -> Option<(String, &Fit)> {
        named(&self.decode, format, &resize.to_string())
    }
}

impl Profile {
    /// The page cache as a simulation may take it: its policy and size [B]; none where the
    /// measurements do not tell them.
    #[must_use]
    pub fn page_cache(&self) -> Option<(CachePolicy, f64)> {
        let told = |policy: &CachePolicy| {
            let size = self.cache.get(policy.name())?.parameters.get("size")?;
            size.unidentified.is_none().then_some((*policy, size.value))
        };
        CachePolicy::TOLD.iter().find_map(told)
    }
}

impl Profile {
    /// Bandwidth by which batches come to the first GPU that was measured, through pinned memory as loaders copy
    /// them, or from it where only that was measured [B/s].
    #[must_use]
    pub fn copy_bandwidth(&self) -> Option<f64> {
        let of_gpu = self.copy.values().next()?;
        let found = ["staged", "pinned"].iter().find_map(|name| of_gpu.get(*name))?;
        found.value("bandwidth").filter(|bandwidth| *bandwidth > 0.0)
    }
}

/// The fit `kind-variant`, or else `kind`.
fn named<'a, T>(
    fits: &'a BTreeMap<String, T>,
    kind: &str,
    variant: &str,
) -> Option<(String, &'a T)> {
    let whole = format!("{kind}-{variant}");
    let found = |name: String| fits.get(&name).map(|fit| (name, fit));
    found(whole).or_else(|| found(kind.to_owned()))
}

impl Fit {
    /// The value of a parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        Some(self.parameters.get(name)?.value)
    }

    /// The same fit with the parameters of its draw number `index`, counted round and round;
    /// unchanged without draws.
    #[must_use]
    pub fn drawn(&self, index: usize) -> Fit {
        let mut fit = self.clone();
        if !self.draws.is_empty() {
            let draw = &self.draws[index % self.draws.len()];
            for (parameter, &value) in fit.parameters.values_mut().zip(draw) {
                parameter.value = value;
            }
        }
        fit
    }
}
