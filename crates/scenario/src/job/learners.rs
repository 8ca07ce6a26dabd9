//! How `parallel.data.learners` is written: models that share a GPU.

use super::model::ResolvedModel;
use super::rules::Rules;
use super::settings::JobSettings;
use super::{BatchInterval, Device, Job, Kernels, occupancy};
use crate::check::Check;
use crate::field::Field;
use crate::number::{Count, Factor};
use crate::sync::{Averaging, Sync, SyncSettings};
use forebay_model::device_memory::Footprint;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// Most learners on a GPU.
const MOST: u64 = 256;
/// Most that a policy tries where nothing is said.
const MOST_TRIED: u32 = 32;

/// Learners on each GPU: models of their own, which train on batches of their own in streams of their own
/// (Koliousis et al., *Crossbow: Scaling Deep Learning with Small Batch Sizes on Multi-GPU Servers*, PVLDB
/// 12(11), 2019).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Learners {
    /// How many; where a policy finds that, the most that it tries.
    pub most: u32,
    /// The policy, if there is one.
    pub tuning: Option<Tuning>,
}

/// Crossbow's auto-tuner: it begins with one learner on each GPU and adds one to each while throughput grows by
/// more than a threshold; the first look always adds. Then it takes the last one away, and is done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Growth of throughput that a learner more is worth: (now − before) ÷ before.
    pub threshold: f64,
    /// Steps over which throughput is taken, from when the last change was made.
    pub window: u64,
}

impl Learners {
    /// One model on each GPU.
    pub const ONE: Learners = Learners { most: 1, tuning: None };

    /// How many there are at the start.
    #[must_use]
    pub fn first(&self) -> u32 {
        if self.tuning.is_some() { 1 } else { self.most }
    }

    /// Whether there is nothing but one model on each GPU.
    #[must_use]
    pub fn is_one(&self) -> bool {
        *self == Self::ONE
    }
}

impl Job {
    /// Models of a job copy that train on batches of their own, at most.
    #[must_use]
    pub fn models(&self) -> u32 {
        self.ranks().saturating_mul(self.learners.most)
    }

    /// The same of those that a loader feeds.
    #[must_use]
    pub fn models_per_loader(&self) -> u32 {
        self.copies_per_loader().saturating_mul(self.learners.most)
    }

    /// Why learners, or an average of models, are not simulated beside the rest of it.
    fn unlike_learners(&self) -> impl Iterator<Item = &'static str> {
        let unlike = [
            (self.device != Device::Accelerator, "the steps run on cores"),
            (self.is_split(), "the model is split over stages or GPUs"),
            (self.accumulation > 1, "gradients of several steps are added up"),
        ];
        unlike.into_iter().filter(|(is, _)| *is).map(|(_, why)| why)
    }

    /// Whether more learners may be written that train as those do that there are: no policy finds how many are worth it,
    /// and they add nothing to a batch whose gradients are added up.
    #[must_use]
    pub fn is_open_to_learners(&self) -> bool {
        let alone = self.sync.as_ref().is_none_or(|sync| sync.averaging.is_some());
        alone && self.learners.tuning.is_none() && self.unlike_learners().next().is_none()
    }

    /// Whether the learners of each GPU add their gradients up there, before GPUs do among each other.
    #[must_use]
    pub fn sums_gradients(&self) -> bool {
        let reduces = |sync: &Sync| sync.averaging.is_none() && sync.servers.is_none();
        self.learners.most > 1 && self.sync.as_ref().is_some_and(reduces)
    }

    /// Whether learners move models or gradients in the memory of their GPU.
    #[must_use]
    pub fn uses_gpu_memory(&self) -> bool {
        self.averaging().is_some() || self.sums_gradients()
    }

    /// How learners agree, where they average models.
    #[must_use]
    pub fn averaging(&self) -> Option<Averaging> {
        self.sync.as_ref().and_then(|sync| sync.averaging).filter(|_| self.models() > 1)
    }
}

/// Learners on each GPU.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LearnersSettings {
    /// So many.
    Constant(Count<1, MOST>),
    /// As many as are worth it.
    Auto(TuningSettings),
}

/// The policy that finds how many learners are worth it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TuningSettings {
    /// Growth of throughput, as a share of that before, that a learner more is worth (default: 0.1).
    threshold: Field<Factor>,
    /// Steps over which throughput is taken (default: 20).
    window: Field<Count<1, 1_000_000>>,
    /// Most learners that are tried; fewer where they do not fit into the GPU's memory (default: 32).
    most: Field<Count<1, MOST>>,
}

impl LearnersSettings {
    /// How many at most, and the policy that finds how many.
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
    /// Learners on each GPU, unless a policy finds how many.
    pub(super) fn number_of_learners(&self) -> Option<u32> {
        let learners = self.learners_at().map_or(Learners::ONE, |(_, written)| written.resolve());
        learners.tuning.is_none().then_some(learners.most)
    }

    /// Learners on each GPU, of which each holds `footprint`, on GPUs of `memory`: a policy tries those that fit.
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

    /// What the kernels of a step fill of a GPU that `learners` share.
    pub(super) fn kernels(
        &self,
        check: Check<'_>,
        model: &ResolvedModel,
        batch: u64,
        learners: Learners,
    ) -> Vec<Kernels> {
        let Some(settings) = self.model_settings() else { return Vec::new() };
        if model.device != Device::Accelerator {
            check.no_effect(&settings.occupancy, "the steps run on cores");
            return Vec::new();
        }
        if let Some((at, occupancy)) = settings.occupancy.given() {
            return occupancy.resolve(check, at, batch).unwrap_or_default();
        }
        let unsaid = !settings.occupancy.is_written() && !learners.is_one();
        let found = if unsaid { occupancy::unsaid(check, model, batch) } else { None };
        if let (true, None, Some(at)) = (unsaid, &found, self.model_at()) {
            let remedy = "write `occupancy = 0.4`, `occupancy = { half = \"24 samples\" }`, or a `step` with \
                          `fixed` and `per_sample`";
            check.required(at, &settings.occupancy, "occupancy", remedy);
        }
        found.unwrap_or_default()
    }
}

impl Rules<'_> {
    /// Learners are on GPUs, and nothing else of the job is such that they are not simulated.
    pub(super) fn check_learners(&self, job: &Job) {
        let averages = job.sync.as_ref().is_some_and(|sync| sync.averaging.is_some());
        let written = self.settings.learners_at().map(|(at, _)| at);
        let refuse = |at: [Option<usize>; 2], what: String, remedy: &str| {
            self.check.wrong(self.check.blame(&at, self.at), what, remedy);
        };
        if job.learners.is_one() && !averages {
            return;
        }
        let (named, remedy) = match averages {
            true => ("models are averaged", "leave out `sync.model-averaging`"),
            false => ("GPUs have several learners", "leave out `parallel.data.learners`"),
        };
        let at = [written, self.settings.sync_at()];
        for why in job.unlike_learners() {
            refuse(at, format!("a job in which {named} is not simulated where {why}"), remedy);
        }
        if let Some((what, remedy)) = self.unlike_sums(job) {
            refuse(at, what.to_owned(), remedy);
        }
        if job.learners.tuning.is_some() && job.batch_interval != BatchInterval::Every(1.0) {
            let what = "a learner that is added has no batch to train on again".to_owned();
            refuse([self.settings.interval_at(), written], what, "leave out `batch_interval`");
        }
    }

    /// Why gradients of learners are not simulated, and what to write instead, where they are not averaged.
    fn unlike_sums(&self, job: &Job) -> Option<(&'static str, &'static str)> {
        let sync = job.sync.as_ref().filter(|sync| sync.averaging.is_none())?;
        let apart = job.learners.tuning.is_some() && sync.interval > 1;
        let remedy = "write `[job.sync.allreduce]` or `[job.sync.model-averaging]`";
        if sync.servers.is_some() {
            Some(("learners exchange nothing with servers: each GPU has one sum of theirs", remedy))
        } else if apart {
            let what = "a learner that is added has no model of its own between two exchanges";
            Some((what, "leave out `period`, or write a number of `learners`"))
        } else {
            None
        }
    }

    /// What is written of exchanges between GPUs by a job that has one, whose learners add their gradients up there.
    pub(super) fn remark_sums(&self, job: &Job) {
        if !self.settings.sync.get().is_some_and(SyncSettings::names_ways) {
            return;
        }
        self.check.remark(format!(
            "What `sync` of `{}` says of collectives, fusion and transports has no effect: it has one GPU, in whose memory \
             its learners add their gradients up.",
            job.name
        ));
    }

    /// Bandwidth that nobody moves models or gradients by.
    pub(super) fn remark_gpu_memory(&self, job: &Job) {
        let at = self.check.find(&["cluster", "node", "gpu_memory_bandwidth"]);
        if let Some(at) = at.filter(|_| !job.uses_gpu_memory()) {
            let key = self.check.document.path(at);
            let name = &job.name;
            self.check.remark(format!(
                "`{key}` has no effect on `{name}`: it averages no models, and has no learners' gradients to add up."
            ));
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
