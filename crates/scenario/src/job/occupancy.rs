//! Settings of `model.occupancy`: the part of a GPU that a learner's kernels fill.

use super::model::{ResolvedModel, on};
use super::{Catalogue, StepTime};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Amount, Factor, Positive};
use forebay_model::law::{OccupancyLaw, Sharing};
use forebay_model::units::{Samples, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// Maximum number of kinds of kernels.
const MOST: usize = 1000;
/// Part of a GPU that learners occupy if they add nothing to each other's steps; the simulation needs a part above 0.
const LEAST: f64 = 1e-9;

/// Kernels of one kind, which run one after the other in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kernels {
    /// Share of these kernels in the time of a step that has its GPU to itself; the shares of all kinds sum to 1.
    pub share: f64,
    /// Part of the GPU that these kernels fill, above 0 and at most 1.
    pub occupancy: f64,
    /// How learners that run these kernels at the same time share the GPU.
    pub sharing: Sharing,
    /// Whether `occupancy` is computed from a time: what each other learner adds to a step, divided by the time of the step.
    pub added: bool,
}

/// Part of a GPU that a learner's kernels fill.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OccupancySettings {
    /// The same part for any batch. Learners keep their speed until the GPU is full.
    Constant(Factor),
    /// Batch that occupies half of a GPU; larger batches occupy more of it. Each learner slows each other one down by what it
    /// occupies.
    Half(Positive<Samples>),
    /// Time that each other learner on the GPU adds to a step.
    Added(AddedSettings),
    /// A part for each kind of kernels, as a profiler reports them.
    Kernels(List<KernelsSettings>),
}

/// Time that each other learner on the GPU adds to a step: `fixed + batch · per_sample`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddedSettings {
    /// Time that does not depend on the batch (default: 0 s).
    fixed: Field<Amount<Time>>,
    /// Time for each sample of the batch (default: 0 s).
    per_sample: Field<Amount<Time>>,
}

/// Kernels of one kind.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KernelsSettings {
    /// Share of a step's time; the shares of all kinds sum to 1.
    #[schemars(required)]
    share: Field<Factor>,
    /// Part of the GPU that these kernels fill: active warps ÷ the warps that the multiprocessors can hold.
    #[schemars(required)]
    occupancy: Field<Factor>,
}

impl OccupancySettings {
    /// Returns the checked kinds of kernels of a step with `batch` samples that takes the time `step`; `None` if they are wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        (step, batch): (&StepTime, u64),
    ) -> Option<Vec<Kernels>> {
        let law = match self {
            Self::Constant(part) => OccupancyLaw::Constant(whole(check, at, part.0)?),
            Self::Half(half) => OccupancyLaw::Saturating { half: half.0 },
            Self::Added(added) => return added.resolve(check, at, (step, batch)),
            Self::Kernels(list) => return list_of(check, check.inside(at), list),
        };
        Some(kernels(law, batch))
    }
}

impl AddedSettings {
    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53")]
    fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        (step, batch): (&StepTime, u64),
    ) -> Option<Vec<Kernels>> {
        let times = [&self.fixed, &self.per_sample];
        if times.iter().all(|time| !time.is_written()) {
            let what = "nothing says what other learners add to a step";
            check.wrong(at, what, "write `added = { fixed = \"8 us\", per_sample = \"0.5 us\" }`");
        }
        let [fixed, per_sample] = times.map(|time| time.get().map_or(0.0, |time| time.0));
        let found = times.iter().any(|time| time.get().is_some());
        found.then(|| mutual(fixed + per_sample * batch as f64, step, batch))
    }
}

/// Returns `part` if it is at most 1 (a whole GPU); otherwise reports an error.
fn whole(check: Check<'_>, at: NodeId, part: f64) -> Option<f64> {
    if part > 1.0 {
        let what = format!("{part} is more than a whole GPU");
        check.wrong(at, what, "write a number above 0, and at most 1");
    }
    (part <= 1.0).then_some(part)
}

fn list_of(check: Check<'_>, at: NodeId, list: &List<KernelsSettings>) -> Option<Vec<Kernels>> {
    if list.0.is_empty() || list.0.len() > MOST {
        let what = format!("there are {} sorts of kernels", list.0.len());
        let remedy = format!("write 1 to {MOST}: `[{{ share = 1, occupancy = 0.4 }}]`");
        check.wrong(at, what, remedy);
        return None;
    }
    let kernels: Option<Vec<Kernels>> = list.0.iter().map(|one| one_of(check, one)).collect();
    let kernels = kernels?;
    let sum: f64 = kernels.iter().map(|kernels| kernels.share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        let what = format!("the shares sum to {sum}, not to 1");
        check.wrong(at, what, "write shares that sum to 1");
        return None;
    }
    Some(kernels.iter().map(|of| Kernels { share: of.share / sum, ..*of }).collect())
}

fn one_of(check: Check<'_>, one: &Field<KernelsSettings>) -> Option<Kernels> {
    let (at, settings) = one.given()?;
    let share = check.required(at, &settings.share, "share", "write `share = 0.3`");
    check.required(at, &settings.occupancy, "occupancy", "write `occupancy = 0.4`");
    let (at, occupancy) = settings.occupancy.given()?;
    let occupancy = whole(check, at, occupancy.0)?;
    Some(Kernels { share: share?.0, occupancy, sharing: Sharing::UntilFull, added: false })
}

/// Returns the kernels of a step if `occupancy` is not set. Their occupancy is what each other learner of this model on this GPU
/// adds to a step by the profile, as a part of the step; otherwise it follows from the parts of the step time. `None` if neither
/// is known.
#[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53")]
pub(super) fn unsaid(check: Check<'_>, model: &ResolvedModel, batch: u64) -> Option<Vec<Kernels>> {
    let of_model = |model: Catalogue| check.profile?.learners.get(model.name());
    let fits = model.catalogue.and_then(of_model);
    let fit = fits.and_then(|fits| fits.get(&on(model.device, model.gpu)));
    let added = fit.and_then(|fit| fit.addition(batch as f64));
    let measured = added.map(|added| mutual(added, &model.step, batch));
    measured.or_else(|| by_step(&model.step, batch))
}

/// Returns the kernels of a step to which each other learner adds `added` [s].
#[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53")]
fn mutual(added: f64, step: &StepTime, batch: u64) -> Vec<Kernels> {
    let occupancy = (added / step.seconds(batch as f64)).clamp(LEAST, 1.0);
    vec![Kernels { share: 1.0, occupancy, sharing: Sharing::Mutual, added: true }]
}

/// Returns the occupancy that follows from the parts of the step time: the per-sample part ÷ the whole, because other
/// learners can use the GPU during the fixed part. `None` if the step time does not have both parts.
fn by_step(step: &StepTime, batch: u64) -> Option<Vec<Kernels>> {
    let half = step.fixed / step.per_sample;
    let law = OccupancyLaw::Saturating { half };
    let parts = step.fixed > 0.0 && step.per_sample > 0.0 && half.is_finite();
    parts.then(|| kernels(law, batch))
}

/// Returns the kernels of a step with `batch` samples, all of one kind.
#[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53")]
fn kernels(law: OccupancyLaw, batch: u64) -> Vec<Kernels> {
    let (occupancy, sharing) = (law.of(batch as f64), law.sharing());
    vec![Kernels { share: 1.0, occupancy, sharing, added: false }]
}

impl JsonSchema for AddedSettings {
    fn schema_name() -> Cow<'static, str> {
        "Added".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<Amount<Time>>();
        let about = |what: &str| {
            let mut of = time.clone();
            of.insert("description".to_owned(), what.into());
            of
        };
        json_schema!({
            "description": "Time that each other learner on the GPU adds to a step: `fixed + batch · per_sample`.",
            "anyOf": [time, {
                "type": "object",
                "properties": {
                    "fixed": about("Time that does not depend on the batch (default: 0 s)."),
                    "per_sample": about("Time for each sample of the batch (default: 0 s)."),
                },
                "additionalProperties": false,
                "minProperties": 1,
            }],
        })
    }
}

impl JsonSchema for OccupancySettings {
    fn schema_name() -> Cow<'static, str> {
        "Occupancy".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let part = json_schema!({
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 1,
            "description": "The same part of a GPU in any batch.",
        });
        let half = generator.subschema_for::<Positive<Samples>>();
        let added = generator.subschema_for::<AddedSettings>();
        let kernels = json_schema!({
            "type": "array",
            "items": generator.subschema_for::<KernelsSettings>(),
            "description": "Kernels as a profiler tells them apart, sort by sort.",
        });
        json_schema!({
            "anyOf": [part, {
                "type": "object",
                "properties": { "constant": part, "half": half, "added": added, "kernels": kernels },
                "additionalProperties": false,
                "minProperties": 1,
                "maxProperties": 1,
            }],
        })
    }
}
