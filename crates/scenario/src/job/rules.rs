//! Checks of a job's settings against each other, and against the data set, storage and cluster that the job uses.

use super::interval::IntervalSettings;
use super::pace::SamplePath;
use super::prefill::Prefill;
use super::settings::{Around, JobSettings};
use super::{BatchInterval, Job, QueueKind};
use crate::check::Check;
use crate::document::NodeId;
use crate::loader::settings::ResolvedLoader;
use crate::{Cluster, Dataset, StageGraph, Unit};
use forebay_model::units::{Dimension, Time};

/// Largest number of routes from loaders to storage targets (loaders × targets × stripes), to I/O queues, or to other
/// nodes.
pub(super) const MOST_WAYS: u64 = 1_000_000;
/// Longest mean time that one transfer may take [s].
const LONGEST_TRANSFER: f64 = 1e6;
/// Shortest mean time for a sample in a loader whose workers never wait for space in a buffer [s].
const SHORTEST_SAMPLE: f64 = 1e-9;

/// The settings of one job, and the other parts of the scenario against which they are checked.
pub(super) struct Rules<'a> {
    pub(super) settings: &'a JobSettings,
    pub(super) check: Check<'a>,
    /// Document node of the job's table.
    pub(super) at: NodeId,
    pub(super) around: Around<'a>,
    /// The checked loader; `None` if its settings are wrong.
    pub(super) loader: Option<&'a ResolvedLoader>,
}

impl Rules<'_> {
    /// Reports every contradiction in the settings of a job.
    pub(super) fn check(&self, job: &Job) {
        if self.loader.is_some() {
            self.check_buffer(job);
            self.check_circular(job);
            self.check_adaptive(job);
            self.check_prefill(job);
            self.check_requests(job);
        }
        self.check_start(job);
        self.check_accuracy(job);
        self.check_recovery(job);
        self.check_targets(job);
        self.check_peers(job);
        self.check_replicas(job);
        let weakest = self.around.cluster.map(|cluster| cluster.weakest(self.nodes(job)));
        if let (Some(cluster), Some(weakest)) = (self.around.cluster, &weakest) {
            self.check_gpus(job, cluster);
            self.check_alike(job, cluster);
            self.check_traffic(job, &weakest.node);
            self.check_sync(job, weakest);
            self.check_parallelism(job, weakest);
            self.check_device_memory(job, &weakest.node);
            self.check_peaks(job, cluster);
        }
        if let Some(dataset) = self.around.datasets.get(job.dataset).and_then(Option::as_ref) {
            self.check_dataset(job, dataset);
            self.check_split(job, dataset);
            self.check_decoded(job, dataset);
            if let (Some(cluster), Some(weakest)) = (self.around.cluster, &weakest) {
                self.check_memory(job, dataset, &weakest.node);
                self.check_staging(job, dataset, weakest);
                self.check_transfer(job, dataset, weakest);
                self.check_decompression(dataset);
                for kind in cluster.kinds(self.nodes(job)) {
                    self.check_pace(job, dataset, &kind);
                }
            }
        }
    }

    /// Returns the stages of the loader; an empty graph if its settings are wrong.
    pub(super) fn graph(&self) -> StageGraph {
        let empty = StageGraph::new(Vec::new());
        self.loader.map_or(empty, |loader| loader.graph.clone())
    }

    /// Returns the document node of the last buffer's size, if it is set.
    pub(super) fn buffer_at(&self) -> Option<NodeId> {
        self.loader.and_then(|loader| loader.last_buffer)
    }

    /// Returns the unit of the last buffer, and how many samples fit into it.
    fn last_buffer(&self, batch: u64) -> (Unit, u64) {
        let last = self.loader.and_then(|loader| loader.graph.stages.last());
        last.map_or((Unit::Sample, 0), |stage| match stage.unit {
            Unit::Sample => (Unit::Sample, stage.buffer),
            Unit::Batch => (Unit::Batch, stage.buffer.saturating_mul(batch)),
        })
    }

    /// Returns the number of samples in the last buffer at the start.
    pub(super) fn prefill(&self, batch: u64) -> u64 {
        match self.settings.prefill.get() {
            None => 0,
            Some(Prefill::Full) => self.last_buffer(batch).1,
            Some(Prefill::Samples(samples)) => *samples,
        }
    }

    fn check_buffer(&self, job: &Job) {
        let (_, capacity) = self.last_buffer(job.batch);
        let kept = job.kept_in_queue();
        let least = kept.saturating_add(job.batch);
        if capacity < least {
            let at = self.check.blame(&[self.buffer_at(), self.settings.batch_at()], self.at);
            let stay =
                if kept > 0 { format!(", of which {kept} stay in it") } else { String::new() };
            let what = format!(
                "the last buffer holds {capacity} samples{stay}: less than one batch of {}",
                job.batch
            );
            let remedy = format!("write a buffer of at least \"{least} samples\"");
            self.check.wrong(at, what, remedy);
        }
    }

    fn check_circular(&self, job: &Job) {
        if job.queue != QueueKind::Circular {
            return;
        }
        let at = [self.settings.queue.at];
        if self.last_buffer(job.batch).0 == Unit::Batch {
            let at = self.check.blame(&at, self.at);
            let remedy = "write `unit = \"sample\"` in the last stage, or `queue = \"bounded\"`";
            self.check.wrong(at, "a circular queue holds samples, not batches", remedy);
        }
        if job.kept_in_queue() > 0 {
            let at = self.check.blame(&at, self.at);
            let what = "a circular queue keeps no samples back";
            self.check.wrong(
                at,
                what,
                "write `queue = \"bounded\"`, or remove `min_after_dequeue` or `kept`",
            );
        }
        if matches!(job.batch_interval, BatchInterval::Adaptive { .. }) {
            let at = self.check.blame(&[at[0], self.settings.batch_interval.at], self.at);
            let what = "a circular queue never runs empty, so an adaptive interval has no effect";
            self.check.wrong(
                at,
                what,
                "write `queue = \"bounded\"`, or write the interval as a number of steps",
            );
        }
    }

    fn check_adaptive(&self, job: &Job) {
        let BatchInterval::Adaptive { level, .. } = job.batch_interval else { return };
        let written = match self.settings.batch_interval.get() {
            Some(IntervalSettings::Adaptive(adaptive)) => adaptive.level.at,
            _ => None,
        };
        let (_, capacity) = self.last_buffer(job.batch);
        if level > capacity {
            let at = self.check.blame(&[written, self.buffer_at()], self.at);
            let what = format!("the queue never holds {level} samples: its capacity is {capacity}");
            self.check.wrong(at, what, "write a lower `level`, or a larger queue");
        } else if level < job.batch {
            let at = self.check.blame(&[written, self.settings.batch_at()], self.at);
            let what = format!("{level} samples are less than one batch of {}", job.batch);
            self.check.wrong(at, what, format!("write at least \"{} samples\"", job.batch));
        }
    }

    fn check_prefill(&self, job: &Job) {
        let (unit, capacity) = self.last_buffer(job.batch);
        let at = self.check.blame(&[self.settings.prefill.at], self.at);
        let grows = job.loader.stages.last().is_some_and(|last| last.grows);
        if grows && job.prefill > 0 {
            let what = "a prefetch that tunes its own size begins empty";
            self.check.wrong(
                at,
                what,
                "remove `prefill`, or write a number of batches to prefetch",
            );
        } else if job.loader.rebuilt.is_some() && job.prefill > 0 {
            let what = "a pipeline that each epoch builds anew (`start`) begins empty";
            self.check.wrong(at, what, "remove `prefill`, or `start` and `start_per_file`");
        } else if job.prefill > capacity {
            let at = self.check.blame(&[Some(at), self.buffer_at()], self.at);
            let what = format!("{} samples do not fit into a queue of {capacity}", job.prefill);
            self.check.wrong(at, what, "write `prefill = \"full\"`, or fewer samples");
        } else if unit == Unit::Batch && !job.prefill.is_multiple_of(job.batch) {
            let what = format!("the queue holds whole batches of {}", job.batch);
            self.check.wrong(at, what, "write a multiple of the batch, or \"full\"");
        }
    }

    /// Checks a loader that makes batches on request: nothing may be prefilled, and an epoch must have at least one
    /// batch for each loader.
    fn check_requests(&self, job: &Job) {
        if job.loader.requests.is_none() {
            return;
        }
        if let (Some(at), 1..) = (self.settings.prefill.at, job.prefill) {
            let what =
                "this loader makes batches only on request, so its queue cannot be prefilled";
            self.check.wrong(at, what, "remove `prefill`");
        }
        let dataset = self.around.datasets.get(job.dataset).and_then(Option::as_ref);
        if let Some(dataset) = dataset.filter(|_| job.batch > 0) {
            self.check_iterable(job, dataset);
        }
        let loaders = u64::from(job.loaders());
        let none = |of: &&Dataset| job.batches_of_epoch(of) == 0 && loaders > 1;
        if let Some(dataset) = dataset.filter(none) {
            let samples = self.check.find(&["dataset", &dataset.name, "samples"]);
            let at = self.check.blame(&[self.settings.batch_at(), samples], self.at);
            let what = format!(
                "an epoch of {} samples has no batch of {} for each of {loaders} loaders",
                dataset.samples, job.batch
            );
            self.check.wrong(
                at,
                what,
                "write a smaller batch, fewer nodes or ranks, or a larger data set",
            );
        }
    }

    /// Checks that loaders have at most `MOST_WAYS` routes to storage targets or through I/O queues.
    fn check_targets(&self, job: &Job) {
        self.check_targets_of(job, job.storage);
        if job.reads_from() != job.storage {
            self.check_targets_of(job, job.reads_from());
        }
    }

    fn check_targets_of(&self, job: &Job, index: usize) {
        let storage = self.around.storage.get(index).and_then(Option::as_ref);
        let Some(path) = storage.map(|of| &of.path) else { return };
        let loaders = u64::from(job.copies) * u64::from(job.loaders());
        let targets =
            path.targets.map_or(0, |of| u64::from(of.number) * u64::from(of.stripe_count));
        let queues = path.queues.map_or(0, |of| u64::from(of.number));
        let ways = loaders.saturating_mul(targets.max(queues));
        if ways > MOST_WAYS {
            let name = storage.map_or("", |of| &of.name);
            let at = [self.check.find(&["storage", name]), self.settings.nodes.at];
            let (to, fewer) = match path.queues {
                Some(_) => ("through I/O queues", "queues"),
                None => ("to the targets", "targets, stripes"),
            };
            let what = format!("{loaders} loaders have {ways} routes {to}");
            let remedy = format!("write fewer {fewer} or nodes: at most {MOST_WAYS} routes");
            self.check.wrong(self.check.blame(&at, self.at), what, remedy);
        }
    }

    fn check_start(&self, job: &Job) {
        let last = job.start + job.stagger * f64::from(job.copies - 1);
        if last > Time::MAX {
            let settings = self.settings;
            let at = self.check.blame(&[settings.stagger.at, settings.start.at], self.at);
            let what = format!("the last copy starts after {last} s");
            self.check.wrong(
                at,
                what,
                "write a shorter `stagger` or an earlier `start`: the last copy must start within 1e7 s",
            );
        }
    }

    /// Checks that workers with files of their own can make whole batches: remarks on workers that cannot, and reports
    /// an error if none can.
    fn check_iterable(&self, job: &Job, dataset: &Dataset) {
        let own = job.samples_of_epoch(dataset);
        let idle = own.iter().filter(|samples| **samples == 0).count();
        let iterable = job.loader.requests.is_some_and(|requests| requests.iterable);
        if !iterable || idle == 0 {
            return;
        }
        let what =
            format!("{idle} of {} workers have less than one batch in their own files", own.len());
        if idle < own.len() {
            return self.check.remark(format!("In an epoch of `{}`, {what}.", job.name));
        }
        let at = self.check.blame(&[self.buffer_at(), self.settings.batch_at()], self.at);
        self.check.wrong(at, what, "write fewer workers, a smaller batch, or larger files");
    }

    fn check_dataset(&self, job: &Job, dataset: &Dataset) {
        if job.batch > dataset.samples {
            let samples = self.check.find(&["dataset", &dataset.name, "samples"]);
            let at = self.check.blame(&[self.settings.batch_at(), samples], self.at);
            let what = format!(
                "a batch of {} is larger than the data set {:?} of {} samples",
                job.batch, dataset.name, dataset.samples
            );
            self.check.wrong(at, what, "write a smaller batch, or a larger data set");
        }
    }

    /// Checks that reading one sample takes at most `LONGEST_TRANSFER`.
    fn check_transfer(&self, job: &Job, dataset: &Dataset, cluster: &Cluster) {
        let Some(storage) = self.around.storage.get(job.reads_from()).and_then(Option::as_ref)
        else {
            return;
        };
        if !job.reads_data() {
            return;
        }
        let time = SamplePath { job, dataset, storage, cluster }.transfer();
        if time > LONGEST_TRANSFER {
            let what = format!("reading one sample takes {time:.0} s from {:?}", storage.name);
            let remedy = "write a smaller `sample_size`, or more bandwidth: at most 1e6 s a sample";
            let size = self.check.find(&["dataset", &dataset.name, "sample_size"]);
            let nic = self.check.find(&["cluster", "network", "nic"]);
            let storage = self.check.find(&["storage", &storage.name]);
            self.check.wrong(self.check.blame(&[size, nic, storage], self.at), what, remedy);
        }
    }

    /// Checks that decompressing one row group takes at most `LONGEST_TRANSFER`.
    fn check_decompression(&self, dataset: &Dataset) {
        let time = dataset.unpacking_at_once();
        if time > LONGEST_TRANSFER {
            let what = format!("decompressing a row group takes {time:.1e} s");
            let remedy = "write a smaller `row_group` or `decompress`: at most 1e6 s a row group";
            let name = ["dataset", &dataset.name];
            let at = [&["layout", "parquet", "decompress"][..], &["layout"], &[]];
            let at = at.map(|rest| self.check.find(&[&name, rest].concat()));
            self.check.wrong(self.check.blame(&at, self.at), what, remedy);
        }
    }

    /// Checks that a loader with a circular queue needs at least `SHORTEST_SAMPLE` for a sample: such a queue never
    /// makes workers wait, so that only their own work limits how many samples they make.
    fn check_pace(&self, job: &Job, dataset: &Dataset, cluster: &Cluster) {
        let of = |index: usize| self.around.storage.get(index).and_then(Option::as_ref);
        let Some(storage) = of(job.reads_from()) else { return };
        let total = |storage| SamplePath { job, dataset, storage, cluster }.total();
        let tier = storage.cache.and_then(|cache| of(cache.on)).map_or(f64::INFINITY, total);
        let unheld = self.loader.is_some() && job.queue == QueueKind::Circular;
        if unheld && total(storage).min(tier) < SHORTEST_SAMPLE {
            let at = self.check.blame(&[self.settings.queue.at], self.at);
            let what =
                "a circular queue never blocks workers, and this loader makes samples in no time";
            let remedy = "write a `decode` or `compute` time, a slower storage or page cache, or \
                          `queue = \"bounded\"`";
            self.check.wrong(at, what, remedy);
        }
    }
}
