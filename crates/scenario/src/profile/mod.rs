//! Fitted parameters of a machine, with interval, unit and provenance: measurements give them, and predictions use
//! them.
//!
//! A profile is a TOML file: [`Profile::open`] refuses a file that cannot be used, with line, key and remedy;
//! [`Profile::to_toml`] writes a text that reads back as an equal profile.

mod check;
mod compare;
mod file;
mod known;
mod laws;
mod nodes;
#[cfg(test)]
mod tests;
mod throughput;
mod write;

pub use compare::{Change, Verdict, compare};
pub use file::{ProfileError, ProfileProblem};
pub use nodes::{Alike, NODE_VALUES, NodeProfile, UNLIKE};
pub use throughput::ThroughputTable;

use forebay_model::law::CachePolicy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Measured parameters of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Where the parameters come from.
    pub provenance: Provenance,
    /// Cores and memory of the machine.
    #[serde(default)]
    pub host: Host,
    /// What others took of the process's cores during the measurement; missing if they took nothing that mattered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Neighbours>,
    /// Reads by kind of access: `direct`, `cold`, `warm`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub read: BTreeMap<String, Fit>,
    /// Decoding by format: `jpeg`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decode: BTreeMap<String, Fit>,
    /// Training steps by model and device: `lenet5`, `cpu-1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub step: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Costs of a framework's loader (`pytorch`) by part: `collate` (a worker stacks a batch and hands it over), `inline` (without workers,
    /// the trainer stacks it), `take` (the trainer takes a batch that is ready) and `start` (workers start). Each is a sum of a `fixed`
    /// time [s] and times `per_sample` [s], `per_byte` [s/B] or `per_worker` [s]. `lock-pillow` has the `share` of their work for which
    /// threads that decode by Pillow hold the interpreter's lock.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub loader: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Learners that share a GPU, by model and device: `fixed` and `per_sample`, the time that each other learner adds to a
    /// step [s].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub learners: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Averaging of the models of learners that share a GPU, by model and device: `fixed` and `per_sample`, the time that an
    /// averaging takes for each of them, in which it also moves the models' bytes [s].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub averaging: BTreeMap<String, BTreeMap<String, Fit>>,
    /// GPU memory that a learner takes, by model and device: `fixed` and `per_sample` [B].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub memory: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Copies from the host to a GPU, by GPU (`cuda-0`) and by kind of copy (`pinned`, `pageable`, `staged`,
    /// `pinned-beside-step`, `staged-beside-decode-12` while 12 threads decode); `latency` [s] and `bandwidth` [B/s].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub copy: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Hand-off through a bounded queue: `per_item` [core-s].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Fit>,
    /// Speed of a core while n threads compute, also more than there are cores, relative to a core that is busy alone: `speed_2`,
    /// `speed_4`, …; beside others also `speed_1`, the share of a core that a single thread gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Fit>,
    /// Token buckets of storages, by the kind of access of [`Profile::read`]: `bandwidth` [B/s] until the `bucket` [B] is empty,
    /// then the `sustained` bandwidth [B/s]; `refill` is what an idle bucket gains per second [B/s].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub burst: BTreeMap<String, Fit>,
    /// Gates of throttles, by the kind of access of [`Profile::read`]: what the limits of [`Profile::read`] allow in a `period` [s] passes
    /// at once when it begins, with the `latency` [s] of the storage behind the gate, its `per_stream` [B/s] and its `bandwidth` for all
    /// readers together [B/s].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gate: BTreeMap<String, Fit>,
    /// Order of service of storages, by the kind of access of [`Profile::read`]: `in_flight`, the number of requests that are served at once,
    /// in order of arrival; [`SERVED_ALL`] if all share the bandwidth fairly.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service: BTreeMap<String, Fit>,
    /// Storage that all nodes of a cluster share: reads by the kind of access of [`Profile::read`], each of which opens a file and reads it
    /// whole, with the `latency` [s], the `bandwidth` of one stream (`per_stream`), of one node (`per_client`) and of all [B/s], and the
    /// `operations` that it serves [1/s]; `open`, for files that are opened without being read; `write`, for writes of checkpoints.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<String, Fit>,
    /// Network between the nodes of a cluster: `nic` (the `bandwidth` of a usual node's NIC in each direction, payload only [B/s], and the
    /// one-way `latency` [s]); `uplink` (the `bandwidth` between groups of `nodes` [B/s], if pairs of nodes slow each other); `storage`, if
    /// reads and collectives do not slow each other (the `bandwidth` that reads by one node reach on a network of their own [B/s]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub network: BTreeMap<String, Fit>,
    /// Reads and all-reduce through the same NICs at the same time: rates of `reads` and `allreduce` ÷ the rates that the trials of each
    /// alone predict where all streams share a NIC equally, as they do in a simulation. Missing if reads have a network of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Fit>,
    /// Nodes of a cluster, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, NodeProfile>,
    /// Page cache, by the policy that explains which files it kept: `lru`, `random`, `minio` (several if they
    /// explain it equally well, `any` if it kept all files that were read), with its `size` [B].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cache: BTreeMap<String, Fit>,
    /// Messages and collectives, by transport (`nccl`) and by kind and number of ranks (`allreduce-8`). A measured size has
    /// its median time, such as `at_4096` for 4,096 B; times between measured sizes are interpolated. Beyond them a law
    /// continues the time of the nearest: range number k of sizes has `alpha_k`, `beta_k`, and from the second range on
    /// `from_k`, the size at which it begins. The interval of `beyond`, a factor of 1, tells how far the law is from the
    /// measured times.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub transport: BTreeMap<String, BTreeMap<String, Fit>>,
    /// Differences between repeated runs, as relative standard deviations: `run_to_run`, by which the machine drifts, whatever the
    /// length of a run; `trial`, which lasts for `trial_length` [s] at a time and averages out over longer runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Fit>,
    /// Throughput of reads by size and number of readers; the tables have the same names as [`Profile::read`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub throughput: BTreeMap<String, ThroughputTable>,
}

/// Value of `in_flight` of [`Profile::service`] where no request waits for others.
pub const SERVED_ALL: f64 = 64.0;

/// Deviation of rates of [`Profile::beside`] from 1 that matters.
pub const BESIDE_OFF: f64 = 0.1;

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
    /// Name of the plan of measurements.
    pub plan: String,
    /// File with the raw samples, relative to the profile.
    pub samples: String,
    /// Versions of libraries, drivers, tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

/// Cores and memory of the machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Number of cores that the measuring process may use: affinity and quota considered; may be a fraction.
    pub cores: f64,
    /// Main memory that the measuring process may use [B].
    pub memory: f64,
}

/// What others took of the cores of the measuring process: other processes, the quotas of its control groups, a hypervisor.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Neighbours {
    /// Share of the trials that ran beside others.
    pub beside: f64,
    /// Cores on which the process may run that others kept busy, on average over all trials.
    pub others: f64,
    /// Share of the time in which threads of the trials wanted a core and got none, because of others or because the threads
    /// were more than the cores.
    pub waited: f64,
    /// Cores that quotas held back, on average over all trials.
    pub throttled: f64,
}

/// What a fit finds from the trials during which nobody else took the process's cores.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alone {
    /// Share of the fit's trials that ran alone.
    pub share: f64,
    /// Values of the parameters that these trials determine, in the parameters' units.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
}

/// One law fitted to samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// The law's parameters by name, as found: from all trials, alone or beside others.
    pub parameters: BTreeMap<String, Parameter>,
    /// Number of samples that the fit used.
    pub samples: u64,
    /// Median of |measured − fitted| ÷ measured.
    pub residual: f64,
    /// The parameters alone, and how often that held; missing if all trials ran alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
    /// For steps: each measured batch, ascending, with the ratio of its measured to its fitted time. Between measured batches,
    /// step times are interpolated, because steps do not follow the law exactly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratio>,
    /// Smallest and largest measured value of each setting; outside of this range the law extrapolates.
    #[serde(default)]
    pub range: BTreeMap<String, [f64; 2]>,
    /// Joint bootstrap draws of the parameters, in the order of `parameters`: unlike the intervals, they keep the
    /// correlation of the parameters' errors.
    #[serde(default)]
    pub draws: Vec<Vec<f64>>,
}

/// A measured batch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Number of samples.
    pub batch: f64,
    /// Measured ÷ fitted time of a step.
    pub ratio: f64,
}

impl Ratio {
    /// Range of ratios (measured to fitted step time) that a profile may contain; others are refused as mistakes.
    pub const POSSIBLE: std::ops::RangeInclusive<f64> = 0.01..=100.0;
}

/// A fitted value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The value; infinite for a rate if the measurements showed no limit.
    pub value: f64,
    /// Unit of the value: `s`, `B/s`, `1/s`, `core-s/B`.
    pub unit: String,
    /// 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Why the data do not determine the value, if they do not: it is then a default, or one of several values that
    /// fit equally well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unidentified: Option<String>,
}

impl Profile {
    /// Returns all fits with their paths: `read.direct`, `step.lenet5.cpu-1`, `queue`.
    #[must_use]
    pub fn fits(&self) -> Vec<(Vec<String>, &Fit)> {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut all: Vec<(Vec<String>, &Fit)> = Vec::new();
        all.extend(self.read.iter().map(|(name, fit)| (path(&["read", name]), fit)));
        all.extend(self.burst.iter().map(|(name, fit)| (path(&["burst", name]), fit)));
        all.extend(self.gate.iter().map(|(name, fit)| (path(&["gate", name]), fit)));
        all.extend(self.service.iter().map(|(name, fit)| (path(&["service", name]), fit)));
        all.extend(self.storage.iter().map(|(name, fit)| (path(&["storage", name]), fit)));
        all.extend(self.network.iter().map(|(name, fit)| (path(&["network", name]), fit)));
        all.extend(self.decode.iter().map(|(name, fit)| (path(&["decode", name]), fit)));
        let mut deep = |kind: &str, fits| {
            let fits: &BTreeMap<String, BTreeMap<String, Fit>> = fits;
            for (outer, inner) in fits {
                all.extend(inner.iter().map(|(name, fit)| (path(&[kind, outer, name]), fit)));
            }
        };
        deep("step", &self.step);
        deep("loader", &self.loader);
        deep("learners", &self.learners);
        deep("averaging", &self.averaging);
        deep("memory", &self.memory);
        deep("copy", &self.copy);
        all.extend(self.cache.iter().map(|(policy, fit)| (path(&["cache", policy]), fit)));
        for (transport, kinds) in &self.transport {
            let of = |(kind, fit): (&String, _)| (path(&["transport", transport, kind]), fit);
            all.extend(kinds.iter().map(of));
        }
        let single = [
            ("beside", &self.beside),
            ("queue", &self.queue),
            ("cores", &self.cores),
            ("noise", &self.noise),
        ];
        all.extend(single.iter().filter_map(|(n, fit)| Some((path(&[n]), fit.as_ref()?))));
        all
    }
}

impl Profile {
    /// Returns the fit at a path that [`Profile::fits`] returns, to change it.
    pub fn fit_mut(&mut self, path: &[String]) -> Option<&mut Fit> {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        match names[..] {
            ["read", name] => self.read.get_mut(name),
            ["burst", name] => self.burst.get_mut(name),
            ["gate", name] => self.gate.get_mut(name),
            ["service", name] => self.service.get_mut(name),
            ["storage", name] => self.storage.get_mut(name),
            ["network", name] => self.network.get_mut(name),
            ["decode", name] => self.decode.get_mut(name),
            ["cache", policy] => self.cache.get_mut(policy),
            ["step", outer, name] => self.step.get_mut(outer)?.get_mut(name),
            ["loader", outer, name] => self.loader.get_mut(outer)?.get_mut(name),
            ["learners", outer, name] => self.learners.get_mut(outer)?.get_mut(name),
            ["averaging", outer, name] => self.averaging.get_mut(outer)?.get_mut(name),
            ["memory", outer, name] => self.memory.get_mut(outer)?.get_mut(name),
            ["copy", outer, name] => self.copy.get_mut(outer)?.get_mut(name),
            ["transport", outer, name] => self.transport.get_mut(outer)?.get_mut(name),
            ["beside"] => self.beside.as_mut(),
            ["queue"] => self.queue.as_mut(),
            ["cores"] => self.cores.as_mut(),
            ["noise"] => self.noise.as_mut(),
            _ => None,
        }
    }
}

/// Returns the JSON Schema of a profile, made from the types that read it.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Profile).to_value()
}

impl Profile {
    /// Returns the fit of reads by `access` and layout (`file-per-sample`, `records`), with its name; the fit of
    /// the access alone if layouts were not measured separately.
    #[must_use]
    pub fn read_fit(&self, access: &str, layout: &str) -> Option<(String, &Fit)> {
        named(&self.read, access, layout)
    }

    /// Returns the fit of decoding images that are resized to `resize` [pixels] (0: as stored), with its name; the
    /// fit of the format alone if sizes were not measured separately.
    #[must_use]
    pub fn decode_fit(&self, format: &str, resize: u32) -> Option<(String, &Fit)> {
        named(&self.decode, format, &resize.to_string())
    }
}

impl Profile {
    /// Returns how reads were done of the storage that all nodes share, and their fit: `cold` (through the page cache), or `direct` where the
    /// profile has no cold reads.
    #[must_use]
    pub fn shared_reads(&self) -> Option<(&'static str, &Fit)> {
        ["cold", "direct"].into_iter().find_map(|access| Some((access, self.storage.get(access)?)))
    }

    /// Returns a value of the network between nodes, such as the bandwidth of `nic`; `None` if the measurements do not tell it.
    #[must_use]
    pub fn network_value(&self, part: &str, name: &str) -> Option<f64> {
        let parameter = self.network.get(part)?.parameters.get(name)?;
        Some(parameter.value).filter(|value| *value > 0.0 && value.is_finite())
    }

    /// Returns the rates of reads and of all-reduce beside each other ÷ those that equal shares of the NIC predict, if one of them is off by
    /// more than [`BESIDE_OFF`].
    #[must_use]
    pub fn unequal_shares(&self) -> Option<[f64; 2]> {
        let fit = self.beside.as_ref()?;
        let rates = [fit.value("reads")?, fit.value("allreduce")?];
        rates.iter().any(|rate| (rate - 1.0).abs() > BESIDE_OFF).then_some(rates)
    }
}

impl Profile {
    /// Returns the policy and size [B] of the page cache, for a simulation; `None` if the measurements do not
    /// determine them.
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
    /// Returns the bandwidth of copies of batches to the first GPU that was measured, while `decoders` threads decode images into
    /// such batches [B/s]: of copies staged through pinned memory, as loaders make them, or of copies from pinned memory if only
    /// those were measured. Time per byte is interpolated between measured numbers of threads, and constant beyond the last.
    #[must_use]
    pub fn copy_bandwidth(&self, decoders: u32) -> Option<f64> {
        let of_gpu = self.copy.values().next()?;
        let bandwidth = |fit: &Fit| fit.value("bandwidth").filter(|bandwidth| *bandwidth > 0.0);
        let (kind, alone) =
            ["staged", "pinned"].iter().find_map(|name| Some((*name, of_gpu.get(*name)?)))?;
        let start = format!("{kind}-beside-decode-");
        let threads = |name: &str| name.strip_prefix(&start)?.parse::<u32>().ok();
        let beside =
            of_gpu.iter().filter_map(|(name, fit)| Some((threads(name)?, 1.0 / bandwidth(fit)?)));
        let mut known: Vec<(u32, f64)> = beside.chain([(0, 1.0 / bandwidth(alone)?)]).collect();
        known.sort_by_key(|(threads, _)| *threads);
        let above = known.iter().position(|(threads, _)| *threads >= decoders);
        let (last, above) = (known.len() - 1, above.unwrap_or(known.len() - 1));
        let ((a, slow_a), (b, slow_b)) = (known[above.saturating_sub(1)], known[above.min(last)]);
        let share = f64::from(decoders.min(b) - a) / f64::from((b - a).max(1));
        Some(1.0 / (slow_a + share * (slow_b - slow_a)))
    }
}

/// Returns the entry named `kind-variant`, otherwise the entry named `kind`, with its name.
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
    /// Returns the value of a parameter; `None` if the fit does not have it.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        Some(self.parameters.get(name)?.value)
    }

    /// Returns the time that is added to steps with batches of `batch` samples [s]; `None` if the trials identify none of the
    /// law's parameters, or if one is missing.
    pub(crate) fn addition(&self, batch: f64) -> Option<f64> {
        let measured = self.parameters.values().any(|of| of.unidentified.is_none());
        let law = self.step().filter(|_| measured)?;
        Some(law.seconds(batch))
    }

    /// Returns the fit with the parameters of bootstrap draw number `index`, modulo the number of draws; unchanged
    /// if there are no draws.
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
