//! Settings of `job.accuracy`: how many epochs training needs to reach a target.

use super::rules::Rules;
use super::{BatchInterval, Job, QueueKind, Resume};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Count, Factor, Share};
use crate::role::Role;
use forebay_model::law::{EpochsLaw, useful_samples};
use schemars::JsonSchema;

/// Maximum number of rows of a table of measured epochs.
const MOST: usize = 1000;

/// Number of epochs that training needs to reach a target. The number is assumed; the time of the epochs is simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// Number of epochs over fresh samples as a function of the batch size.
    pub law: EpochsLaw,
    /// Which batch decides the number of epochs.
    pub batch: CountedBatch,
    /// Factor on the number of epochs.
    pub factor: f64,
    /// Relative increase of the number of epochs for each averaged model beyond the first.
    pub per_learner: f64,
    /// Relative increase of the number of epochs for each step beyond the first between two averagings.
    pub per_step: f64,
    /// Value, relative to a fresh sample, of a sample that was already trained on in the same pass over the data set: 0
    /// to 1.
    pub usefulness: f64,
    /// Relative increase of the number of epochs for each unit of mean staleness. The staleness of an update is the
    /// number of other model copies' updates that the updating copy had not yet received.
    pub staleness: f64,
}

/// Which batch decides how many epochs are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CountedBatch {
    /// The batches of all model copies count together, because their gradients are averaged in one update. Where each
    /// of n copies updates the parameters by itself, the batches of n updates count together, because these updates
    /// start from about the same parameters.
    Global,
    /// The batch of one model copy counts, where each copy trains by itself and models are averaged. Crossbow
    /// (Koliousis et al., VLDB 2019) finds that the number of epochs then hardly depends on the number of copies.
    ModelCopy,
}

impl Accuracy {
    /// Returns the number of epochs that `job` needs.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53")]
    pub fn epochs(&self, job: &Job) -> f64 {
        let averaging = self.averaging_factor(job);
        self.factor * averaging * self.law.epochs(self.batch_of(job) as f64)
    }

    /// Returns the factor by which averaging models multiplies the number of epochs; 1 without averaging.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "periods are at most 1e6")]
    pub fn averaging_factor(&self, job: &Job) -> f64 {
        let Some(averaging) = job.averaging() else { return 1.0 };
        let updates = averaging.period / job.accumulation;
        let (others, steps) = (f64::from(job.models() - 1), (updates - 1) as f64);
        (1.0 + self.per_learner * others) * (1.0 + self.per_step * steps)
    }

    /// Returns the number of fresh samples that contribute as much to training as the given `samples`. Of these,
    /// `fresh` are fresh and count fully; each of the others counts as the share `usefulness` of a fresh sample.
    #[must_use]
    pub fn useful(&self, samples: f64, fresh: f64) -> f64 {
        useful_samples(samples, fresh, self.usefulness)
    }

    /// Returns the batch of `job` that decides the number of epochs [samples].
    #[must_use]
    pub fn batch_of(&self, job: &Job) -> u64 {
        let batch = job.batch.saturating_mul(job.accumulation);
        match self.batch {
            CountedBatch::Global => batch.saturating_mul(u64::from(job.models())),
            CountedBatch::ModelCopy => batch,
        }
    }
}

impl Job {
    /// Returns whether the job trains on samples repeatedly, within one pass over the data set or in an epoch that
    /// begins again after a failure.
    #[must_use]
    pub fn repeats(&self) -> bool {
        let alike = self.loader.generator.is_some_and(|generator| generator.distinct < 1.0);
        let again = self.batch_interval != BatchInterval::Every(1.0);
        let replays = self.failures.as_ref().is_some_and(|of| of.resume == Resume::Epoch);
        alike || again || replays || self.queue == QueueKind::Circular
    }
}

/// Number of epochs that training needs to reach a target: one of `epochs`, `least_epochs` and `table`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AccuracySettings {
    /// Number of epochs, independent of the batch size.
    #[schemars(extend("x-role" = Role::Output))]
    epochs: Field<Factor>,
    /// Number of epochs with the smallest batches; set it together with `critical_batch`.
    #[schemars(extend("x-role" = Role::Output))]
    least_epochs: Field<Factor>,
    /// Batch [samples] that needs twice as many epochs as the smallest batches: a batch needs `least_epochs` · (1 +
    /// batch ÷ `critical_batch`) epochs.
    #[schemars(extend("x-role" = Role::Output))]
    critical_batch: Field<Factor>,
    /// Measured numbers of epochs for batches: `{ batches = [64, 512], epochs = [30, 41] }`.
    #[schemars(extend("x-role" = Role::Output))]
    table: Field<TableSettings>,
    /// Which batch decides the number of epochs: "global", the batches of all models in a step together, or
    /// "model-copy", the batch of one model copy, where models are averaged instead of gradients (default: "model-copy"
    /// with `sync.model-averaging`, otherwise "global").
    #[schemars(extend("x-role" = Role::Output))]
    batch: Field<CountedBatch>,
    /// Factor on the number of epochs, for all influences that the other settings do not describe (default: 1).
    #[schemars(extend("x-role" = Role::Output))]
    factor: Field<Factor>,
    /// Relative increase of the number of epochs for each model beyond the first that `sync.model-averaging` averages
    /// (default: 0).
    #[schemars(extend("x-role" = Role::Output))]
    per_learner: Field<Share>,
    /// Relative increase of the number of epochs for each step beyond the first in the `period` of
    /// `sync.model-averaging`, which is the number of steps from one averaging to the next (default: 0).
    #[schemars(extend("x-role" = Role::Output))]
    per_step: Field<Share>,
    /// Relative increase of the number of epochs for each unit of mean staleness: the epochs are multiplied by 1 +
    /// `staleness` · mean staleness. The staleness of an update is the number of other model copies' updates that the
    /// updating copy had not yet received (default: 0, where model copies update by themselves; W. Dai et al., *Toward
    /// Understanding the Impact of Staleness in Distributed Machine Learning*, ICLR 2019, measure how many more steps
    /// training with stale updates takes).
    #[schemars(extend("x-role" = Role::Output))]
    staleness: Field<Factor>,
    /// Value of a sample of a repeated batch relative to a fresh sample, from 0 to 1; needed where batches are
    /// repeated, or epochs begin again after failures.
    #[schemars(extend("x-role" = Role::Output))]
    usefulness: Field<Share>,
}

/// Number of epochs for each listed batch size, with linear interpolation between the listed sizes.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TableSettings {
    /// Batches [samples], ascending.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Output))]
    batches: Field<List<Count<1, 1_000_000_000>>>,
    /// Number of epochs with each of the batches.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Output))]
    epochs: Field<List<Factor>>,
}

impl AccuracySettings {
    /// Returns the checked assumptions of the table at document node `at`; `None` if they are wrong.
    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId, averages: bool) -> Option<Accuracy> {
        let choices = [
            ("epochs", self.epochs.at),
            ("least_epochs", self.least_epochs.at),
            ("table", self.table.at),
        ];
        let remedy = "write `epochs = 90`, or `least_epochs = 20` and `critical_batch = 1000`, or \
                      `table = { batches = [64, 512], epochs = [30, 41] }`";
        let chosen = check.one_of(at, &choices, remedy)?;
        if chosen != 1 {
            let why = "it is used only with `least_epochs`";
            check.no_effect(self.critical_batch.at, why);
        }
        let law = match chosen {
            0 => EpochsLaw::Fixed(self.epochs.get()?.0),
            1 => self.critical(check, at)?,
            _ => {
                let (at, table) = self.table.given()?;
                EpochsLaw::Table(table.resolve(check, at)?)
            }
        };
        if !averages {
            let why = "models are not averaged";
            check.no_effect(self.per_learner.at, why);
            check.no_effect(self.per_step.at, why);
        }
        let usual = if averages { CountedBatch::ModelCopy } else { CountedBatch::Global };
        Some(Accuracy {
            law,
            batch: self.batch.get().copied().unwrap_or(usual),
            per_learner: self.per_learner.get().map_or(0.0, |share| share.0),
            per_step: self.per_step.get().map_or(0.0, |share| share.0),
            factor: self.factor.get().map_or(1.0, |factor| factor.0),
            usefulness: self.usefulness.get().map_or(1.0, |share| share.0),
            staleness: self.staleness.get().map_or(0.0, |factor| factor.0),
        })
    }

    /// Returns whether `staleness` is set.
    pub(super) fn says_staleness(&self) -> bool {
        self.staleness.is_written()
    }

    fn critical(&self, check: Check<'_>, at: NodeId) -> Option<EpochsLaw> {
        let remedy = "write `critical_batch = 1000`: the batch that needs twice as many epochs";
        let critical_batch = check.required(at, &self.critical_batch, "critical_batch", remedy)?.0;
        Some(EpochsLaw::Critical { least: self.least_epochs.get()?.0, critical_batch })
    }
}

impl TableSettings {
    #[expect(clippy::cast_precision_loss, reason = "at most 1e9")]
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Vec<(f64, f64)>> {
        check.required(at, &self.batches, "batches", "write `batches = [64, 512]`");
        check.required(at, &self.epochs, "epochs", "write `epochs = [30, 41]`");
        let ((batches_at, batches), (_, epochs)) = (self.batches.given()?, self.epochs.given()?);
        let (some, others) = (batches.0.len(), epochs.0.len());
        if some != others || some == 0 || some > MOST {
            let what = format!("there are {some} batches and {others} numbers of epochs");
            let remedy = format!("write 1 to {MOST} batches, and one number of epochs for each");
            check.wrong(at, what, remedy);
            return None;
        }
        let rows = batches.0.iter().zip(&epochs.0);
        let rows: Option<Vec<(f64, f64)>> =
            rows.map(|(batch, epochs)| Some((batch.get()?.0 as f64, epochs.get()?.0))).collect();
        let rows = rows?;
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let what = format!("{} is not larger than {} before it", pair[1].0, pair[0].0);
            check.wrong(batches_at, what, "write `batches` in ascending order");
            return None;
        }
        Some(rows)
    }
}

impl Rules<'_> {
    /// Checks that `accuracy` determines the number of epochs: `usefulness` is set if the job trains on samples
    /// repeatedly, the number does not depend on how many learners a policy finds, and the batch lies within the table.
    /// Remarks that `staleness` has no effect if all model copies update together.
    pub(super) fn check_accuracy(&self, job: &Job) {
        let (Some((at, settings)), Some(accuracy)) =
            (self.settings.accuracy.given(), &job.accuracy)
        else {
            return;
        };
        if job.repeats() && !settings.usefulness.is_written() {
            let what = "the key `usefulness` is missing, and the job trains on samples repeatedly";
            let remedy =
                "write `usefulness = 0.5`: value of a repeated sample relative to a fresh one";
            self.check.wrong(at, what, remedy);
        }
        let by_number = accuracy.batch == CountedBatch::Global || accuracy.per_learner > 0.0;
        if job.learners.tuning.is_some() && by_number {
            let what =
                "the number of epochs would depend on the number of learners that the policy finds";
            let remedy = "write `batch = \"model-copy\"` without `per_learner`, or a fixed number of learners";
            self.check.wrong(at, what, remedy);
        }
        if !job.is_uneven() {
            self.check.no_effect(
                settings.staleness.at,
                "all model copies update together, so no update is stale",
            );
        }
        self.check_range(accuracy, accuracy.batch_of(job));
    }

    /// Checks that `batch` lies between the smallest and the largest batch in the table of measured epochs.
    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53")]
    fn check_range(&self, accuracy: &Accuracy, batch: u64) {
        let EpochsLaw::Table(rows) = &accuracy.law else { return };
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
        if (first.0..=last.0).contains(&(batch as f64)) {
            return;
        }
        let table = self.settings.accuracy.get().and_then(|settings| settings.table.at);
        let at = self.check.blame(&[self.settings.batch_at(), table], self.at);
        let what = format!(
            "the table has no epochs for a batch of {batch}: it covers batches from {} to {}",
            first.0, last.0
        );
        self.check.wrong(
            at,
            what,
            "write a batch size within the table's range, or add this batch size to the table",
        );
    }
}
