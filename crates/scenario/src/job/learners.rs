//! Settings of `parallel.data.learners`: models that share a GPU.

use super::model::{ResolvedModel, on};
use super::rules::Rules;
use super::settings::JobSettings;
use super::{BatchInterval, Catalogue, Device, Job, Kernels, occupancy};
use crate::check::Check;
use crate::field::Field;
use crate::number::{Count, Factor};
use crate::role::Role;
use crate::sync::{Averaging, Sync, SyncSettings};
use forebay_model::device_memory::Footprint;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// Maximum number of learners on a GPU.
const MOST: u64 = 256;
/// Maximum number of learners that a policy tries if `most` is not set.
const MOST_TRIED: u32 = 32;

/// Learners on each GPU: independent models, each of which trains on its own batches in its own stream (Koliousis et
/// al., *Crossbow: Scaling Deep Learning with Small Batch Sizes on Multi-GPU Servers*, PVLDB 12(11), 2019).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Learners {
    /// Number of learners on each GPU; if a policy finds the number, the maximum that the policy tries.
    pub most: u32,
    /// The policy that finds the number of learners, if there is one.
    pub tuning: Option<Tuning>,
}

/// Crossbow's auto-tuner. It begins with one learner on each GPU and adds one to each GPU while throughput grows by
/// more than a threshold; after the first measurement it always adds one. When throughput grows by less, it takes the
/// last learner away and stops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Growth of throughput above which another learner is added: (now − before) ÷ before.
    pub threshold: f64,
    /// Number of steps over which throughput is measured, counted from the last change of the number of learners.
    pub window: u64,
}

impl Learners {
    /// One model on each GPU.
    pub const ONE: Learners = Learners { most: 1, tuning: None };

    /// Returns the number of learners on each GPU at the start.
    #[must_use]
    pub fn first(&self) -> u32 {
        if self.tuning.is_some() { 1 } else { self.most }
    }

    /// Returns whether each GPU has one model, and no policy may add others.
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Self::ONE
    }
}

impl Job {
    /// Returns the largest number of models of a job copy that train on batches of their own.
    #[must_use]
    pub fn models(&self) -> u32 {
        self.ranks().saturating_mul(self.learners.most)
    }

    /// Returns the largest number of models that one loader feeds.
    #[must_use]
    pub fn models_per_loader(&self) -> u32 {
        self.copies_per_loader().saturating_mul(self.learners.most)
    }

    /// Returns whether more learners of the same kind can be added: no policy finds their number, the job trains on GPUs, and
    /// more learners do not enlarge the batch, because their gradients are not added up.
    #[must_use]
    pub fn is_open_to_learners(&self) -> bool {
        let alone = self.sync.as_ref().is_none_or(|sync| sync.averaging.is_some());
        alone && self.learners.tuning.is_none() && self.device == Device::Accelerator
    }

    /// Returns whether the learners of each GPU sum their gradients on it, before GPUs exchange gradients.
    #[must_use]
    pub fn sums_gradients(&self) -> bool {
        let exchanges = |sync: &Sync| sync.averaging.is_none();
        self.learners.most > 1 && self.sync.as_ref().is_some_and(exchanges)
    }

    /// Returns whether learners move models or gradients in the memory of their GPU.
    #[must_use]
    pub fn uses_gpu_memory(&self) -> bool {
        self.averaging().is_some() || self.sums_gradients()
    }

    /// Returns whether model copies or learners have models of their own between exchanges, which average these models.
    #[must_use]
    pub fn averages_models(&self) -> bool {
        self.averages_parameters() || self.averaging().is_some()
    }

    /// Returns how models are averaged; `None` if models are not averaged, or there is only one model.
    #[must_use]
    pub fn averaging(&self) -> Option<Averaging> {
        self.sync.as_ref().and_then(|sync| sync.averaging).filter(|_| self.models() > 1)
    }
}

/// Learners on each GPU.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LearnersSettings {
    /// A fixed number of learners.
    Constant(Count<1, MOST>),
    /// The number of learners that a policy finds: it adds learners while each addition increases throughput enough.
    Auto(TuningSettings),
}

/// Policy that finds how many learners increase throughput enough to be worth it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TuningSettings {
    /// Growth of throughput, as a share of the throughput before, above which another learner is added (default: 0.1).
    #[schemars(extend("x-role" = Role::Choice))]
    threshold: Field<Factor>,
    /// Number of steps over which throughput is measured (default: 20).
    #[schemars(extend("x-role" = Role::Choice))]
    window: Field<Count<1, 1_000_000>>,
    /// Maximum number of learners that are tried; fewer if this many do not fit into the GPU's memory (default: 32).
    #[schemars(extend("x-role" = Role::Choice))]
    most: Field<Count<1, MOST>>,
}

impl LearnersSettings {
    /// Returns the number of learners on each GPU; with a policy, returns the policy and the maximum number that it
    /// tries.
    fn resolve(&self) -> Learners {
        match self {
            Self::Constant(number) => Learners { most: number.small(), tuning: None },
            Self::Auto(tuning) => Learners {
                most: tuning.most.get().map_or(MOST_TRIED, |most| most.small()),
                tuning: Some(Tuning {
                    threshold: tuning.threshold.get().map_or(0.1, |threshold| threshold.0),
                    window: tuning.window.get().map_or(20, |window| window.0),
                }),
            },
        }
    }
}

impl JobSettings {
    /// Returns whether the scenario file splits each model over several GPUs.
    pub(super) fn splits_models(&self) -> bool {
        self.parallel.get().is_some_and(|of| {
            of.pipeline.is_written()
                || of.tensor.is_written()
                || of.context.is_written()
                || of.expert.is_written()
        })
    }

    /// Returns the number of learners on each GPU; `None` if a policy finds it.
    pub(super) fn number_of_learners(&self) -> Option<u32> {
        let learners = self.learners_at().map_or(Learners::ONE, |(_, written)| written.resolve());
        learners.tuning.is_none().then_some(learners.most)
    }

    /// Returns the learners on each GPU. A policy tries at most as many learners as fit into `memory` [B], if each of
    /// them takes `footprint`.
    pub(super) fn learners(
        &self,
        footprint: Option<Footprint>,
        sync: Option<&Sync>,
        memory: f64,
    ) -> Learners {
        let Some((_, written)) = self.learners_at() else { return Learners::ONE };
        let learners = written.resolve();
        let averages = sync.is_some_and(|sync| sync.averaging.is_some());
        let fits = |footprint: Footprint| footprint.most_learners(averages, memory).max(1);
        match (footprint, learners.tuning) {
            (Some(one), Some(_)) => Learners { most: learners.most.min(fits(one)), ..learners },
            _ => learners,
        }
    }

    /// Returns the kinds of kernels of a step, each with the part of a GPU that it fills. If `occupancy` is not set,
    /// this part is determined only if several learners share a GPU. Returns an empty list if the part is not known.
    pub(super) fn kernels(
        &self,
        check: Check<'_>,
        model: &ResolvedModel,
        batch: u64,
        learners: Learners,
    ) -> Vec<Kernels> {
        let Some(settings) = self.model_settings() else { return Vec::new() };
        if model.device != Device::Accelerator {
            check.no_effect(settings.occupancy.at, "the steps run on cores");
            return Vec::new();
        }
        if let Some((at, occupancy)) = settings.occupancy.given() {
            return occupancy.resolve(check, at, (&model.step, batch)).unwrap_or_default();
        }
        let unsaid = !settings.occupancy.is_written() && !learners.is_one();
        let found = if unsaid { occupancy::unsaid(check, model, batch) } else { None };
        if let (true, None, Some(at)) = (unsaid, &found, self.model_at()) {
            let remedy = "write `occupancy = 0.4`, `occupancy = { half = \"24 samples\" }`, \
                          `occupancy = { added = { per_sample = \"0.5 us\" } }`, or a `step` with `fixed` and \
                          `per_sample`";
            check.required(at, &settings.occupancy, "occupancy", remedy);
        }
        found.unwrap_or_default()
    }
}

/// Returns the time that an averaging takes for each learner on a GPU, moving bytes included, by the profile's trials of this
/// model on this GPU [s]; `None` if the profile has no such trials, or if they do not determine it.
#[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53")]
pub(super) fn averaging(check: Check<'_>, model: &ResolvedModel, batch: u64) -> Option<f64> {
    let of_model = |model: Catalogue| check.profile?.averaging.get(model.name());
    let fits = model.catalogue.and_then(of_model);
    fits?.get(&on(model.device, model.gpu))?.addition(batch as f64)
}

impl Rules<'_> {
    /// Refuses learners on cores, and settings with which a learner would lack a whole model, a model of its own or a batch.
    pub(super) fn check_learners(&self, job: &Job) {
        let averages = job.sync.as_ref().is_some_and(|sync| sync.averaging.is_some());
        let written = self.settings.learners_at().map(|(at, _)| at);
        let refuse = |at: [Option<usize>; 2], what: String, remedy: &str| {
            self.check.wrong(self.check.blame(&at, self.at), what, remedy);
        };
        if job.learners.is_one() && !averages {
            return;
        }
        let at = [written, self.settings.sync_at()];
        if job.device != Device::Accelerator {
            let (what, remedy) = match averages {
                true => ("models are averaged on GPUs", "leave out `sync.model-averaging`"),
                false => ("learners share GPUs", "leave out `parallel.data.learners`"),
            };
            refuse(at, format!("{what}, but the steps run on cores"), remedy);
        }
        let own = self.settings.sync.get().is_some_and(SyncSettings::moves_own_models);
        if own && job.learners.most > 1 {
            let what = "each learner has a model of its own, but a GPU exchanges one model with the centre";
            refuse(at, what.to_owned(), "write `[job.sync.model-averaging]`");
        } else if let Some((what, remedy)) = self.unlike_tuning(job) {
            refuse(at, what.to_owned(), remedy);
        }
        if job.parallelism.as_ref().is_some_and(|of| of.zero > 0) {
            let what =
                "each learner needs a whole model, which `parallel.zero` shards over model copies"
                    .to_owned();
            refuse(at, what, "remove `parallel.zero`");
        }
        if job.learners.tuning.is_some() && job.batch_interval != BatchInterval::Every(1.0) {
            let what = "a learner that the policy adds has no batch to repeat".to_owned();
            refuse([self.settings.interval_at(), written], what, "leave out `batch_interval`");
        }
    }

    /// Returns, if a policy cannot change the number of learners because GPUs do not meet in each step, the reason and a
    /// remedy. Models that are averaged meet at the averages.
    fn unlike_tuning(&self, job: &Job) -> Option<(&'static str, &'static str)> {
        let sync = job.sync.as_ref().filter(|sync| sync.averaging.is_none())?;
        job.learners.tuning?;
        if sync.servers.is_some() {
            let what = "a policy compares steps that all GPUs do together, but with parameter servers each GPU goes on by itself";
            Some((what, "write a fixed number of `learners`, or `[job.sync.allreduce]`"))
        } else if sync.interval > 1 {
            let what =
                "a learner that the policy adds between two exchanges has no model of its own";
            Some((what, "leave out `period`, or write a fixed number of `learners`"))
        } else {
            None
        }
    }

    /// Remarks that settings of exchanges between GPUs have no effect for a job with one GPU: its learners sum their
    /// gradients in the memory of that GPU.
    pub(super) fn remark_sums(&self, job: &Job) {
        if !self.settings.sync.get().is_some_and(SyncSettings::names_ways) {
            return;
        }
        self.check.remark(format!(
            "The collective, fusion and transport settings in `sync` of `{}` have no effect: the job's learners sum their gradients in the memory of the job's only GPU.",
            job.name
        ));
    }

    /// Remarks that the profile's trials of learners or averagings do not cover the job's batch or number of learners, or that averages on
    /// a real GPU are simulated to take no time, because nothing says how long they take.
    pub(super) fn remark_measured_learners(&self, job: &Job, bandwidth: f64) {
        let (Some(profile), Some(model)) = (self.check.profile, job.catalogue) else { return };
        let device = on(job.device, job.gpu);
        let averaging = job.averaging();
        let written =
            self.settings.model_settings().is_some_and(|model| model.occupancy.is_written());
        let shares = !job.learners.is_one() && !written;
        let measured = averaging.is_some_and(|of| of.includes_bytes);
        for (table, fits, used) in
            [("learners", &profile.learners, shares), ("averaging", &profile.averaging, measured)]
        {
            let fit = fits.get(model.name()).and_then(|fits| fits.get(&device));
            let fit = fit.filter(|fit| used && fit.addition(job.batch as f64).is_some());
            let Some(fit) = fit else { continue };
            let part = format!("{table}.{}.{device}", model.name());
            for (name, key, value) in [
                ("batch", "batch", job.batch as f64),
                ("learners", "parallel.data.learners", job.learners.most.into()),
            ] {
                let setting = format!("job.{}.{key}", job.name);
                self.check.in_range(&part, fit, name, &setting, value);
            }
        }
        let free = averaging.is_some_and(|of| of.latency == 0.0) && bandwidth.is_infinite();
        if free && job.gpu.is_some() {
            self.check.remark(format!(
                "Averages of models on a GPU of `{}` take no time, because nothing says how long they take: calibrate `averaging` of {} on {device}, or write `cluster.node.gpu_memory_bandwidth`.",
                job.name,
                model.name()
            ));
        }
    }

    /// Remarks that `gpu_memory_bandwidth` has no effect for a job that neither averages models nor sums gradients of
    /// learners, or whose averagings were measured as a whole.
    pub(super) fn remark_gpu_memory(&self, job: &Job) {
        let why = match job.averaging() {
            Some(of) if of.includes_bytes => {
                "the profile's `averaging` includes the time in which models move in a GPU's memory"
            }
            None if !job.uses_gpu_memory() => {
                "the job neither averages models nor sums gradients of learners"
            }
            _ => return,
        };
        if let Some(at) = self.check.find(&["cluster", "node", "gpu_memory_bandwidth"]) {
            let (key, name) = (self.check.document.path(at), &job.name);
            self.check.remark(format!("`{key}` has no effect on `{name}`: {why}."));
        }
    }
}

impl JsonSchema for LearnersSettings {
    fn schema_name() -> Cow<'static, str> {
        "Learners".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let number = json_schema!({
            "type": "integer",
            "minimum": 1,
            "maximum": MOST,
            "description": "Learners on each GPU.",
        });
        let auto = generator.subschema_for::<TuningSettings>();
        json_schema!({
            "anyOf": [number, {
                "type": "object",
                "properties": { "constant": number, "auto": auto },
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
            }],
        })
    }
}
