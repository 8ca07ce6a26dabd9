//! Changes of a job that may make its model fit into GPU memory.

use super::Job;
use super::copies::CopiesSettings;
use super::model::ModelSettings;
use super::rules::Rules;
use crate::fitting::Remedy;
use crate::value::Value;
use forebay_model::catalogue::Precision;
use forebay_model::device_memory::Footprint;

/// Number of batches that are tried.
const MOST_BATCHES: usize = 4;
/// Maximum number of GPUs that a layer or a model is split over, as a multiple of what it is split over now.
const MOST_SPLIT: u32 = 64;
/// Number of micro-batches for each stage of a new pipeline, the preferred one first.
const MICRO_BATCHES: [u32; 3] = [4, 2, 1];

impl Rules<'_> {
    /// Returns smaller batches that may fit into `capacity`, the largest first. Each can be divided equally among
    /// micro-batches; with `global_batch`, also among model copies.
    pub(super) fn smaller_batches(&self, job: &Job, capacity: f64) -> Vec<Remedy> {
        let (micro, most) = (smallest_batch(job), largest_batch(job, capacity));
        let each = (1..=most / micro).rev().map(|number| number * micro).take(MOST_BATCHES);
        each.map(|batch| self.batch_of(job, batch)).collect()
    }

    /// Returns the smallest batch that can be divided among micro-batches.
    pub(super) fn least_batch(&self, job: &Job) -> Remedy {
        self.batch_of(job, smallest_batch(job))
    }

    /// Returns the change to a batch of `batch` samples for each model copy.
    fn batch_of(&self, job: &Job, batch: u64) -> Remedy {
        let (key, copies) = match self.settings.global_batch.is_written() {
            true => ("global_batch", u64::from(job.models())),
            false => ("batch", 1),
        };
        Remedy::new(key, number(batch * copies))
    }

    /// Returns other changes that may help, by kind; the slightest change of each kind comes first.
    pub(super) fn other_changes(&self, job: &Job, capacity: f64) -> Vec<Vec<Remedy>> {
        vec![
            self.fewer_learners(job, capacity),
            self.shorter_numbers(),
            more_micro_batches(job),
            self.more_sharding(job),
            self.more_ranks(job),
            self.more_stages(job),
            vec![Remedy::new("model.out_of_core", Value::from(true))],
        ]
    }

    fn fewer_learners(&self, job: &Job, capacity: f64) -> Vec<Remedy> {
        let most = largest_number(job, capacity);
        let fewer = (most > 0).then(|| Remedy::new("parallel.data.learners", number(most.into())));
        fewer.into_iter().collect()
    }

    fn shorter_numbers(&self) -> Vec<Remedy> {
        let written = self.settings.model_settings();
        let now = written.map_or_else(Precision::default, ModelSettings::precision);
        let shorter = [Precision::Bf16, Precision::Fp16].into_iter();
        let gpu = self.around.cluster.and_then(|cluster| cluster.node.gpu);
        let is_known = |of: &Precision| gpu.is_none_or(|gpu| gpu.peak(*of).is_some());
        let shorter = shorter.filter(|of| of.bytes() < now.bytes() && is_known(of));
        shorter.map(|of| Remedy::new("model.precision", Value::from(of.name()))).collect()
    }

    fn more_sharding(&self, job: &Job) -> Vec<Remedy> {
        let now = job.parallelism.as_ref().map_or(0, |of| of.zero);
        let stages = (now + 1..=3).filter(|_| job.gradient_ranks() > 1);
        let stage = |stage: u32| Remedy::new("parallel.zero.stage", number(stage.into()));
        match job.sync {
            Some(_) => stages.map(stage).collect(),
            None => stages.map(|of| stage(of).and_table("sync.allreduce")).collect(),
        }
    }

    fn more_ranks(&self, job: &Job) -> Vec<Remedy> {
        let now = job.parallelism.as_ref().map_or(1, |of| of.tensor_ranks());
        let ranks = |ranks| Remedy::new("parallel.tensor.ranks", number(u64::from(ranks)));
        doubled(now).filter_map(|more| self.on_fewer_copies(&ranks(more), more / now)).collect()
    }

    fn more_stages(&self, job: &Job) -> Vec<Remedy> {
        let (now, split) = (job.shares().len() as u32, job.pipeline.is_some());
        let scheduled = |stages: u32| {
            let change = Remedy::new("parallel.pipeline.stages", number(stages.into()));
            if split {
                return Some(change);
            }
            let micro = MICRO_BATCHES.map(|each| each * stages).into_iter();
            let micro = { micro }.find(|micro| job.batch.is_multiple_of(u64::from(*micro)))?;
            let schedule = Remedy::new("parallel.pipeline.schedule", Value::from("1f1b"));
            Some(change.and(&schedule).and(&Remedy::new(MICRO, number(micro.into()))))
        };
        let of = |stages| self.on_fewer_copies(&scheduled(stages)?, stages / now);
        doubled(now).filter_map(of).collect()
    }

    /// Returns a change that makes each model copy take `times` as many GPUs, together with as many fewer model copies on each
    /// node; `None` if they cannot be divided.
    fn on_fewer_copies(&self, change: &Remedy, times: u32) -> Option<Remedy> {
        let Some((_, CopiesSettings::All(copies))) = self.settings.copies_at() else {
            return Some(change.clone());
        };
        let copies = copies.small();
        let fewer = |copies: u32| {
            change.and(&Remedy::new("parallel.data.copies_per_node", number(copies.into())))
        };
        match copies {
            1 => Some(change.clone()),
            _ => copies.is_multiple_of(times).then(|| fewer(copies / times)),
        }
    }
}

/// Key of the number of micro-batches.
const MICRO: &str = "parallel.pipeline.micro_batches";

/// Returns the smallest batch of a model copy: one sample in each micro-batch.
fn smallest_batch(job: &Job) -> u64 {
    u64::from(job.parallelism.as_ref().map_or(1, |of| of.micro_batches.max(1)))
}

/// Returns larger numbers of micro-batches that divide the batch.
fn more_micro_batches(job: &Job) -> Vec<Remedy> {
    let Some(of) = &job.parallelism else { return Vec::new() };
    let divides = |micro: &u32| job.batch.is_multiple_of(u64::from(*micro));
    let more = doubled(of.micro_batches).filter(divides);
    more.map(|micro| Remedy::new(MICRO, number(micro.into()))).collect()
}

/// Returns a number doubled, doubled again and so on.
fn doubled(now: u32) -> impl Iterator<Item = u32> {
    let times = std::iter::successors(Some(2_u32), |times| times.checked_mul(2));
    times.take_while(|times| *times <= MOST_SPLIT).map(move |times| now.saturating_mul(times))
}

fn number(value: u64) -> Value {
    Value::from(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns the largest number of learners whose footprint is at most `capacity`; 0 if not even one fits, or if the job
/// has only one.
fn largest_number(job: &Job, capacity: f64) -> u32 {
    let (Some(all), most) = (job.footprint(), f64::from(job.learners.most)) else { return 0 };
    let one = Footprint {
        parameters: all.parameters / most,
        gradients: all.gradients / most,
        optimizer: all.optimizer / most,
        activations: all.activations / most,
        averaging: 0.0,
        workspace: all.workspace,
    };
    if job.learners.most == 1 { 0 } else { one.most_learners(all.averaging > 0.0, capacity) }
}

/// Returns the largest batch whose footprint is at most `capacity` on every stage; 0 if no smaller batch than the job's
/// fits.
#[expect(clippy::cast_precision_loss, reason = "sizes are estimates")]
fn largest_batch(job: &Job, capacity: f64) -> u64 {
    let of = |held: &Footprint| {
        let left = capacity - (held.total() - held.activations);
        let sample = held.activations / job.batch.max(1) as f64;
        if left < 0.0 { 0.0 } else { (left / sample).floor() }
    };
    let least = job.footprints.iter().map(of).fold(f64::INFINITY, f64::min);
    if least < job.batch as f64 { least as u64 } else { 0 }
}
