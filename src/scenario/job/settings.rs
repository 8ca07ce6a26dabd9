//! How `[[job]]` is written.

use super::rules::Rules;
use super::{BatchInterval, Job, Pipeline, QueueKind, StepTime};
use crate::scenario::check::Check;
use crate::scenario::distribution::settings::Jitter;
use crate::scenario::document::NodeId;
use crate::scenario::field::{Field, List};
use crate::scenario::loader::settings::{LoaderSettings, ResolvedLoader};
use crate::scenario::number::{Amount, Count, Factor, Positive};
use crate::scenario::{Cluster, Dataset, Storage};
use crate::units::{Samples, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A training job; `copies` of it run independently, each on nodes of its own.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct JobSettings {
    /// Name, for reports and for `--set job.NAME.batch=64`.
    #[schemars(required)]
    pub(in crate::scenario) name: Field<String>,
    /// Independent copies of this job (default: 1).
    pub(in crate::scenario) copies: Field<Count<1, 1_000_000>>,
    /// Nodes of each copy, each with its own loader and queue (default: 1).
    pub(in crate::scenario) nodes: Field<Count<1, 1_000_000>>,
    /// When the first copy starts (default: 0 s).
    pub(super) start: Field<Amount<Time>>,
    /// Time from one copy's start to the next's (default: 0 s).
    pub(super) stagger: Field<Amount<Time>>,
    /// Name of the data set.
    #[schemars(required)]
    dataset: Field<String>,
    /// Name of the storage that the data set is on.
    #[schemars(required)]
    storage: Field<String>,
    /// Samples per model copy and step.
    #[schemars(required)]
    pub(super) batch: Field<Count<1, 1_000_000_000>>,
    /// How often a model copy takes a fresh batch: every so many steps, which may be a fraction of
    /// at least 1, or adaptive (default: 1).
    pub(super) batch_interval: Field<IntervalSettings>,
    /// What the last buffer does when it is full (default: "bounded").
    pub(super) queue: Field<QueueKind>,
    /// Samples in the last buffer at the start: "full" or a number (default: none).
    pub(super) prefill: Field<Prefill>,
    /// What fills the queue.
    #[schemars(required)]
    loader: Field<LoaderSettings>,
    /// What is trained.
    #[schemars(required)]
    model: Field<ModelSettings>,
    /// How the model is spread over the GPUs of a node.
    pub(super) parallel: Field<ParallelSettings>,
}

/// How often a model copy takes a fresh batch.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::scenario) enum IntervalSettings {
    /// Every so many steps.
    Every(Factor),
    /// When the queue holds enough.
    Adaptive(AdaptiveSettings),
}

/// A fresh batch when the queue holds enough, and at the latest after `max` steps on one batch.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct AdaptiveSettings {
    /// Samples that must be in the queue for a fresh batch before `max` steps have passed.
    #[schemars(required)]
    pub(super) level: Field<Positive<Samples>>,
    /// Most steps on one batch.
    #[schemars(required)]
    max: Field<Count<1, 1_000_000_000>>,
}

/// What is trained.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelSettings {
    /// Time of one step of one model copy: forward, backward and update.
    #[schemars(required)]
    step: Field<StepSettings>,
    /// Factor drawn anew for each step and model copy, with mean 1 (default: none).
    jitter: Field<Jitter>,
}

/// Time of a step: `fixed + batch · per_sample`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StepSettings {
    fixed: Field<Amount<Time>>,
    per_sample: Field<Amount<Time>>,
}

/// How the model is spread over the GPUs of a node.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct ParallelSettings {
    /// Data parallel: copies of the model.
    pub(super) data: Field<DataSettings>,
    /// Pipeline parallel: the model split over GPUs (default: not split).
    pub(super) pipeline: Field<PipelineSettings>,
}

/// Copies of the model.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct DataSettings {
    /// Model copies on each node, all fed from the node's queue (default: 1).
    pub(super) copies_per_node: Field<Count<1, 10_000>>,
}

/// The model split over consecutive stages, each on a GPU of its own: `stages` or `shares`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct PipelineSettings {
    /// Number of equal stages.
    stages: Field<Count<1, 10_000>>,
    /// Share of the step time of each stage; they sum to 1.
    shares: Field<List<Factor>>,
    /// Whether stages work on different batches at once (default: true).
    overlap: Field<bool>,
}

/// Samples in the last buffer at the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::scenario) enum Prefill {
    Full,
    Samples(u64),
}

/// What jobs refer to; `None` where it is wrong.
#[derive(Clone, Copy)]
pub(in crate::scenario) struct Around<'a> {
    pub(in crate::scenario) cluster: Option<&'a Cluster>,
    pub(in crate::scenario) storage_names: &'a [&'a str],
    pub(in crate::scenario) storage: &'a [Option<Storage>],
    pub(in crate::scenario) dataset_names: &'a [&'a str],
    pub(in crate::scenario) datasets: &'a [Option<Dataset>],
}

impl JobSettings {
    /// The checked job of the table at node `at`.
    pub(in crate::scenario) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        around: Around<'_>,
    ) -> Option<Job> {
        check.required(at, &self.name, "name", "write `name = \"lenet\"`");
        check.required(at, &self.dataset, "dataset", "name a data set");
        check.required(at, &self.storage, "storage", "name the storage that the data set is on");
        check.required(at, &self.batch, "batch", "write `batch = 64`");
        check.required(at, &self.loader, "loader", "write `[job.loader.tf-queue]`");
        check.required(at, &self.model, "model", "write `[job.model]` with `step = \"3 ms\"`");
        let dataset = check.reference(&self.dataset, "dataset", around.dataset_names);
        let storage = check.reference(&self.storage, "storage", around.storage_names);
        let loader = self.loader(check);
        let rules = Rules { settings: self, check, at, around, loader: loader.as_ref() };
        // What is wrong has been recorded; with something in its place the rest can be checked.
        let job = Job {
            name: self.name.get().cloned().unwrap_or_default(),
            copies: self.copies.get().map_or(1, |copies| copies.small()),
            nodes: self.nodes.get().map_or(1, |nodes| nodes.small()),
            start: self.start.get().map_or(0.0, |start| start.0),
            stagger: self.stagger.get().map_or(0.0, |stagger| stagger.0),
            dataset: dataset.unwrap_or(usize::MAX),
            storage: storage.unwrap_or(usize::MAX),
            batch: self.batch.get()?.0,
            batch_interval: self.interval(check),
            loader: rules.graph(),
            queue: self.queue.get().copied().unwrap_or(QueueKind::Bounded),
            prefill: rules.prefill(self.batch.get()?.0),
            copies_per_node: self.data().map_or(1, |(_, copies)| copies),
            pipeline: self.pipeline(check),
            step: self.step(check),
        };
        rules.check(&job);
        Some(job)
    }

    fn loader(&self, check: Check<'_>) -> Option<ResolvedLoader> {
        let (at, loader) = self.loader.given()?;
        // Without a batch other problems of the loader are still worth finding.
        loader.resolve(check, at, self.batch.get().map_or(1, |batch| batch.0))
    }

    fn step(&self, check: Check<'_>) -> StepTime {
        let step = self.model.given().and_then(|(at, model)| model.resolve(check, at));
        step.unwrap_or(StepTime { fixed: 0.0, per_sample: 0.0, jitter: None })
    }

    /// The model copies of a node and where they are written.
    pub(super) fn data(&self) -> Option<(NodeId, u32)> {
        let (at, copies) = self.parallel.get()?.data.get()?.copies_per_node.given()?;
        Some((at, copies.small()))
    }

    fn pipeline(&self, check: Check<'_>) -> Option<Pipeline> {
        let (at, pipeline) = self.parallel.get()?.pipeline.given()?;
        pipeline.resolve(check, at)
    }

    fn interval(&self, check: Check<'_>) -> BatchInterval {
        let every_step = BatchInterval::Every(1.0);
        match self.batch_interval.given() {
            None => every_step,
            Some((at, IntervalSettings::Every(steps))) if steps.0 < 1.0 => {
                let remedy = "write at least 1; for more samples per step write a larger `batch`";
                let what = format!("an interval of {} steps is less than one", steps.0);
                check.wrong(at, what, remedy);
                every_step
            }
            Some((_, IntervalSettings::Every(steps))) => BatchInterval::Every(steps.0),
            Some((at, IntervalSettings::Adaptive(adaptive))) => {
                adaptive.resolve(check, check.inside(at)).unwrap_or(every_step)
            }
        }
    }
}

impl AdaptiveSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<BatchInterval> {
        let remedy = "write `level = \"512 samples\"`";
        let level = check.required(at, &self.level, "level", remedy);
        let max = check.required(at, &self.max, "max", "write `max = 16`");
        Some(BatchInterval::Adaptive { level: level?.whole(), max: max?.0 })
    }
}

impl ModelSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<StepTime> {
        check.required(at, &self.step, "step", "write `step = \"3 ms\"`");
        let jitter = match self.jitter.given() {
            Some((at, jitter)) => Some(jitter.resolve(check, at)?),
            None => None,
        };
        let (at, step) = self.step.given()?;
        let fixed = step.fixed.get().map_or(0.0, |time| time.0);
        let per_sample = step.per_sample.get().map_or(0.0, |time| time.0);
        if fixed == 0.0 && per_sample == 0.0 {
            let wrong = |time: &Field<Amount<Time>>| time.is_written() && time.get().is_none();
            if !wrong(&step.fixed) && !wrong(&step.per_sample) {
                let remedy = "write `step = \"3 ms\"` or `step = { fixed = \"2 ms\", per_sample = \
                              \"15 us\" }`";
                check.wrong(at, "a step takes no time", remedy);
            }
            return None;
        }
        Some(StepTime { fixed, per_sample, jitter })
    }
}

impl PipelineSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Pipeline> {
        let choices = [("stages", self.stages.at), ("shares", self.shares.at)];
        let remedy = "write `stages = 4` or `shares = [0.5, 0.5]`";
        let overlap = self.overlap.get().copied().unwrap_or(true);
        if check.one_of(at, &choices, remedy)? == 0 {
            let stages = self.stages.get()?.small();
            let shares = vec![1.0 / f64::from(stages); stages as usize];
            return Some(Pipeline { shares, overlap });
        }
        let (at, list) = self.shares.given()?;
        let shares: Vec<f64> =
            list.0.iter().map(|share| Some(share.get()?.0)).collect::<Option<_>>()?;
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            check.wrong(
                at,
                format!("the shares sum to {sum}, not to 1"),
                "write shares that sum to 1",
            );
            return None;
        }
        Some(Pipeline { shares: shares.iter().map(|share| share / sum).collect(), overlap })
    }
}

impl<'de> Deserialize<'de> for Prefill {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrSamples;

        impl Visitor<'_> for WordOrSamples {
            type Value = Prefill;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"full\" or a number of samples, like \"1000 samples\",")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Prefill, E> {
                if text == "full" {
                    return Ok(Prefill::Full);
                }
                let text = serde::de::value::StrDeserializer::new(text);
                Amount::<Samples>::deserialize(text)
                    .map(|samples| Prefill::Samples(samples.whole()))
            }
        }

        deserializer.deserialize_any(WordOrSamples)
    }
}

impl JsonSchema for Prefill {
    fn schema_name() -> Cow<'static, str> {
        "Prefill".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let samples = generator.subschema_for::<Amount<Samples>>();
        json_schema!({ "anyOf": [{ "const": "full" }, samples] })
    }
}

impl JsonSchema for IntervalSettings {
    fn schema_name() -> Cow<'static, str> {
        "BatchInterval".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let adaptive = generator.subschema_for::<AdaptiveSettings>();
        let every = json_schema!({ "type": "number", "minimum": 1 });
        json_schema!({
            "anyOf": [every, {
                "type": "object",
                "properties": { "every": every, "adaptive": adaptive },
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
            }],
        })
    }
}

impl JsonSchema for StepSettings {
    fn schema_name() -> Cow<'static, str> {
        "StepTime".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Amount<Time>>();
        json_schema!({
            "anyOf": [time, {
                "type": "object",
                "properties": { "fixed": time, "per_sample": time },
                "additionalProperties": false,
                "minProperties": 1,
            }],
        })
    }
}
