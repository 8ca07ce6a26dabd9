//! Settings of `[job.model]`.

use super::device_memory::MemorySettings;
use super::gpu::GpuSettings;
use super::occupancy::OccupancySettings;
use super::{Catalogue, Device, Launch, RealGpu, StepOf, StepTime, launch};
use crate::check::Check;
use crate::distribution::jitter::{Jitter, factor};
use crate::document::NodeId;
use crate::field::Field;
use crate::names::choose;
use crate::number::{Amount, Count, Share};
use crate::profile::Fit;
use crate::reading::step_law;
use crate::role::Role;
use crate::sync::Gradient;
use forebay_model::catalogue::{self, Gpu, Precision};
use forebay_model::device_memory::Optimizer;
use forebay_model::law::StepLaw;
use forebay_model::units::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// The model that is trained, and the device that trains it.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSettings {
    /// Time of one step of one model copy: forward, backward and update (default: as the profile
    /// says of this model on this device).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) step: Field<StepSettings>,
    /// Meaning of the time `step` if `parallel.pipeline` cuts batches into micro-batches: "batch", the time of all
    /// samples of a model copy's step on one device, however they are cut, or "micro-batch", the time of one micro-batch
    /// as a function of its samples (default: "batch").
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) step_of: Field<StepOf>,
    /// In place of `step`: share of the peak FLOP/s of `cluster.node.gpu` that a step of the catalogue's model reaches.
    /// The step time follows from the FLOPs of forward and backward, and from the precision.
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) efficiency: Field<Share>,
    /// Floating-point format of products, activations and gradients: "fp32", "tf32", or, in mixed precision with 32 bits, "fp16"
    /// or "bf16" (default: "fp32").
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) precision: Field<Precision>,
    /// Part of a GPU that a learner's kernels occupy while they run: a number such as `0.4`, the batch that occupies half of
    /// the GPU: `{ half = "24 samples" }`, the time that each other learner adds to a step:
    /// `{ added = { fixed = "8 us", per_sample = "0.5 us" } }`, or a part for each kind of kernels:
    /// `{ kernels = [{ share = 0.3, occupancy = 0.2 }, …] }`. Where it follows from the batch, each learner slows each other one
    /// down by it: a step beside k - 1 others takes 1 + (k - 1) · occupancy times as long. With a number or kernels, learners
    /// keep their speed until the GPU is full (default: the whole; with several learners, as the profile says, or the
    /// per-sample part of `step` ÷ the whole `step`).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) occupancy: Field<OccupancySettings>,
    /// Optimizer that updates the parameters: "sgd", "momentum" or "adam", which keep 0, 1 or 2 values for each
    /// parameter in the GPU's memory (default: "momentum").
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) optimizer: Field<Optimizer>,
    /// GPU memory that the model takes: `{ parameters = "102 MB", activations = "89 MB", workspace = "1 GB" }`
    /// (default: as the catalogue says).
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) memory: Field<MemorySettings>,
    /// Keep the part of the model that does not fit into the GPU's memory in the node's memory, and transfer it over
    /// `cluster.node.pcie` for each use (default: false, and such a model is refused).
    #[schemars(extend("x-role" = Role::Choice))]
    pub(super) out_of_core: Field<bool>,
    /// Random factor with mean 1 on the step time, sampled for each step and model copy. Among model copies that train together,
    /// the slowest one sets the pace (default: as the profile says if it gives the step time, otherwise none).
    #[schemars(extend("x-role" = Role::Limit))]
    jitter: Field<Jitter>,
    /// Name of the model: one that forebay can train itself, or one whose layers forebay knows (default: none; `step` must then
    /// be set).
    #[schemars(extend("x-role" = Role::Identity))]
    catalogue: Field<ModelName>,
    /// Tokens of each sample, for a model of the catalogue that works on sequences (default: the sequence length that the model
    /// was first trained with).
    #[schemars(extend("x-role" = Role::Identity))]
    sequence: Field<Count<1, 10_000_000>>,
    /// What the steps run on: "accelerator", a GPU that live runs emulate; `{ gpu = { number = 0 } }`, a GPU that live
    /// runs really train on; or `{ cpu = { threads = 1 } }`, the node's cores (default: "accelerator").
    #[schemars(extend("x-role" = Role::Identity))]
    pub(super) device: Field<DeviceSettings>,
    /// Core-seconds that a thread of the trainer needs for each step, while the accelerator computes:
    /// launching kernels, the interpreter (default: none).
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) launch: launch::Written,
}

/// Hardware that training steps run on.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeviceSettings {
    /// A GPU of the node for each model copy.
    Accelerator,
    /// A GPU of the node for each model copy, which live runs really train on.
    Gpu(GpuSettings),
    /// The node's cores, shared with the loader.
    Cpu(CpuSettings),
}

/// The node's cores, shared with the loader.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CpuSettings {
    /// Threads of each model copy (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    threads: Field<Count<1, 10_000>>,
}

/// Time of a step: `fixed + batch · per_sample`, at least `floor`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepSettings {
    fixed: Field<Amount<Time>>,
    per_sample: Field<Amount<Time>>,
    floor: Field<Amount<Time>>,
}

/// Name of a model that forebay can train itself, that its catalogue knows layer by layer, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelName {
    trainable: Option<Catalogue>,
    known: Option<&'static str>,
}

impl ModelName {
    /// Returns the names of all models that a scenario file can name.
    fn all() -> BTreeSet<&'static str> {
        Catalogue::ALL.into_iter().map(Catalogue::name).chain(catalogue::MODELS).collect()
    }
}

impl<'de> serde::Deserialize<'de> for ModelName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl Visitor<'_> for Name {
            type Value = ModelName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a model, such as \"resnet50\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ModelName, E> {
                let trainable = Catalogue::ALL.into_iter().find(|model| model.name() == text);
                let known = catalogue::MODELS.into_iter().find(|name| *name == text);
                if trainable.is_none() && known.is_none() {
                    let names: Vec<&str> = ModelName::all().into_iter().collect();
                    let remedy = choose(text, &names);
                    return Err(E::custom(format!("unknown model {text:?}\n{remedy}")));
                }
                Ok(ModelName { trainable, known })
            }
        }

        deserializer.deserialize_str(Name)
    }
}

impl JsonSchema for ModelName {
    fn schema_name() -> Cow<'static, str> {
        "ModelName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::all().into_iter().collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

/// Checked settings of a job's model.
pub(crate) struct ResolvedModel {
    pub(super) step: StepTime,
    pub(super) device: Device,
    pub(super) gpu: Option<RealGpu>,
    pub(super) launch: Option<Launch>,
    pub(super) catalogue: Option<Catalogue>,
    /// The model's gradients in the order in which backward computes them; empty if its layers are not known.
    pub(super) gradients: Vec<Gradient>,
    /// Whether the step time comes from the profile.
    pub(super) measured: bool,
    /// Precision in which the GPUs compute, if the step time follows from their peak FLOP/s.
    pub(super) peak: Option<Precision>,
}

impl ModelSettings {
    /// Returns the checked model of the table at document node `at`; `None` if it is wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        gpu: Option<&Gpu>,
        batch: u64,
    ) -> Option<ResolvedModel> {
        let device = match self.device.get() {
            None | Some(DeviceSettings::Accelerator | DeviceSettings::Gpu(_)) => {
                Device::Accelerator
            }
            Some(DeviceSettings::Cpu(cpu)) => {
                Device::Cpu { threads: cpu.threads.get().map_or(1, |threads| threads.small()) }
            }
        };
        let catalogue = self.catalogue.get().and_then(|model| model.trainable);
        self.check_sequence(check);
        let jitter = match self.jitter.given() {
            Some((at, jitter)) => Some(jitter.resolve(check, at)?),
            None => None,
        };
        let gpu_used = self.real_gpu(check, at, catalogue);
        let launch = launch::resolve(&self.launch, check, device);
        let efficiency = self.efficiency(check, at);
        let measured = !self.step.is_written() && !self.efficiency.is_written();
        let step = match self.step.given() {
            _ if efficiency.is_some() => self.by_arithmetic(check, efficiency?, gpu, device)?,
            Some((at, step)) => step.resolve(check, at)?,
            None if measured => {
                self.measured(check, at, (catalogue, on(device, gpu_used)), batch)?
            }
            None => return None,
        };
        let jitter = jitter.or(step.jitter.clone());
        let step = StepTime { jitter, ..step };
        let gradients = self.gradients();
        let peak = efficiency.map(|_| self.precision());
        let gpu = gpu_used;
        Some(ResolvedModel { step, device, gpu, launch, catalogue, gradients, measured, peak })
    }

    /// Returns the GPU that a live run trains on, if the scenario file names one.
    fn real_gpu(
        &self,
        check: Check<'_>,
        at: NodeId,
        catalogue: Option<Catalogue>,
    ) -> Option<RealGpu> {
        let Some(DeviceSettings::Gpu(settings)) = self.device.get() else { return None };
        if catalogue.is_none() && (!self.catalogue.is_written() || self.catalogue.get().is_some()) {
            let what = "a real GPU needs a catalogue model that forebay can train";
            check.wrong(
                at,
                what,
                "write `catalogue = \"resnet50\"`, or `device = \"accelerator\"`",
            );
            return None;
        }
        settings.resolve(check, self.device.at.unwrap_or(at), self.precision())
    }

    /// Returns the catalogue's model of this name; `None` if the catalogue does not have it.
    pub(super) fn known(&self) -> Option<catalogue::Model> {
        let name = self.catalogue.get()?.known?;
        match (self.sequence.get(), catalogue::longest_sequence(name)) {
            // `check_sequence` refuses a longer sequence.
            (Some(tokens), Some(longest)) => {
                catalogue::model_of_length(name, u64::from(tokens.small()).min(longest))
            }
            _ => catalogue::model(name),
        }
    }

    /// Checks that the model can work on sequences of the length that `sequence` sets.
    fn check_sequence(&self, check: Check<'_>) {
        let Some((at, tokens)) = self.sequence.given() else { return };
        let name = self.catalogue.get().and_then(|model| model.known);
        let Some(longest) = name.and_then(catalogue::longest_sequence) else {
            return check.no_effect(
                self.sequence.at,
                "only transformers of the catalogue have a sequence length",
            );
        };
        if u64::from(tokens.small()) > longest {
            let what = format!("{:?} accepts at most {longest} tokens", name.unwrap_or_default());
            check.wrong(at, what, format!("write `sequence = {longest}`, or less"));
        }
    }

    /// Returns the bytes of a sample's activations between two transformer blocks; `None` if the model is not a
    /// transformer of the catalogue.
    pub(super) fn hidden_bytes(&self) -> Option<f64> {
        let model = self.known()?;
        let elements =
            model.layers.iter().map(|layer| layer.reduced).max().filter(|all| *all > 0)?;
        Some(self.precision().bytes() * elements as f64)
    }

    /// Returns the bytes of the keys and values of a sample in one attention layer; `None` if the model is not a
    /// transformer of the catalogue.
    pub(super) fn keys_values_bytes(&self) -> Option<f64> {
        let model = self.known()?;
        let elements = model.layers.iter().map(|layer| layer.keys_values).max();
        Some(self.precision().bytes() * elements.filter(|all| *all > 0)? as f64)
    }

    /// Returns the model's mixture of experts, and the bytes of a sample's tokens in one dispatch; `None` if the
    /// catalogue's model has no experts, or the model is not in the catalogue.
    pub(super) fn mixture(&self) -> Option<(catalogue::Mixture, f64)> {
        let mixture = self.known()?.mixture()?;
        let bytes = self.precision().bytes() * mixture.dispatched as f64;
        Some((mixture, bytes))
    }

    /// Returns the share of a step's time that the forward pass takes: by FLOPs, or a third if they are not known.
    pub(super) fn forward(&self) -> f64 {
        let of = |model: catalogue::Model| {
            let (forward, backward) = (model.flops() as f64, model.backward_flops() as f64);
            (forward > 0.0).then(|| forward / (forward + backward))
        };
        self.known().and_then(of).unwrap_or(1.0 / 3.0)
    }

    /// Returns whether `step` is the time of a whole batch or of one micro-batch.
    pub(super) fn step_of(&self) -> StepOf {
        self.step_of.get().copied().unwrap_or_default()
    }

    /// Returns the precision in which the model computes.
    pub(super) fn precision(&self) -> Precision {
        self.precision.get().copied().unwrap_or_default()
    }

    /// Returns the step time that the profile has for the model on `device` and batches of `batch` samples; reports an error if
    /// there is none.
    fn measured(
        &self,
        check: Check<'_>,
        at: NodeId,
        (catalogue, device): (Option<Catalogue>, String),
        batch: u64,
    ) -> Option<StepTime> {
        let Some(model) = catalogue else {
            if !self.catalogue.is_written() || self.catalogue.get().is_some() {
                let remedy = "write `step = \"3 ms\"`, or a `catalogue` model that the profile has measured, or one with \
                              `efficiency = 0.4` on a `cluster.node.gpu`";
                check.required(at, &self.step, "step", remedy);
            }
            return None;
        };
        let fit = step_fit(check, model, &device);
        if let Some(law) = fit.and_then(step_law) {
            let cv = fit.and_then(|fit| fit.value("jitter"));
            let StepLaw { floor, fixed, per_sample } = law;
            if floor + fixed + per_sample == 0.0 {
                let what = format!(
                    "the profile's step time of {} on {device} is 0 by its parameters or one of its draws",
                    model.name()
                );
                let remedy = "calibrate the model's steps again, or write `step = \"3 ms\"`";
                check.wrong(at, what, remedy);
                return None;
            }
            // Micro-batches are smaller than the batch, so that its ratio is not theirs.
            let whole = fit.filter(|_| self.step_of() == StepOf::Batch);
            let ratio = whole.map_or(1.0, |fit| fit.step_ratio(batch as f64));
            let step = StepTime { fixed, per_sample, floor, jitter: cv.and_then(factor) };
            return Some(step.times(ratio));
        }
        let part = format!("step.{}.{device}", model.name());
        let by_peak = self.known().filter(|_| device == Device::Accelerator.name());
        let example = match by_peak {
            Some(_) => "step = \"3 ms\"`, `efficiency = 0.4` on a `cluster.node.gpu",
            None => "step = \"3 ms\"",
        };
        check.unsaid(at, "step", example, &part)?;
        Some(StepTime { fixed: 0.0, per_sample: 0.0, floor: 0.0, jitter: None })
    }
}

/// Returns the profile's fit of the step time of a model on a device, if it has one.
pub(super) fn step_fit<'c>(check: Check<'c>, model: Catalogue, device: &str) -> Option<&'c Fit> {
    check.profile?.step.get(model.name())?.get(device)
}

/// Returns the name of the device in a profile's table of steps.
pub(super) fn on(device: Device, gpu: Option<RealGpu>) -> String {
    gpu.map_or_else(|| device.name(), |gpu| gpu.name())
}

impl StepSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<StepTime> {
        let or_zero = |time: &Field<Amount<Time>>| time.get().map_or(0.0, |time| time.0);
        let (fixed, per_sample) = (or_zero(&self.fixed), or_zero(&self.per_sample));
        let floor = or_zero(&self.floor);
        if fixed == 0.0 && per_sample == 0.0 && floor == 0.0 {
            let wrong = |time: &Field<Amount<Time>>| time.is_written() && time.get().is_none();
            if !wrong(&self.fixed) && !wrong(&self.per_sample) && !wrong(&self.floor) {
                let remedy = "write `step = \"3 ms\"` or `step = { fixed = \"2 ms\", per_sample = \
                              \"15 us\" }`";
                check.wrong(at, "a step takes no time", remedy);
            }
            return None;
        }
        Some(StepTime { fixed, per_sample, floor, jitter: None })
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
                "properties": { "fixed": time, "per_sample": time, "floor": time },
                "additionalProperties": false,
                "minProperties": 1,
            }],
        })
    }
}
