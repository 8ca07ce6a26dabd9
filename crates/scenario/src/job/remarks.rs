//! Settings of a job that have no effect on its results.

use super::Job;
use super::rules::Rules;
use crate::check::Check;
use crate::{CacheUnit, Dataset, Distribution, Layout, SampleSizes, Scenario, Storage};

impl Job {
    /// Returns the sum, over the threads of one loader and its trainers, of the largest share of time in which each
    /// thread can need the interpreter's lock. If the sum is above 1, some threads wait for the lock.
    fn lock_needed(&self) -> f64 {
        let copies = if self.loader_per_copy { 1 } else { self.copies_per_node };
        let gpus = f64::from(copies) * self.gpus_per_copy() as f64;
        let trainers = gpus * f64::from(self.learners.most);
        let launch = self.launch.as_ref().map_or(0.0, |of| of.lock * f64::from(of.threads));
        let inner = self.cpu.inner.map_or(1, |inner| inner.threads);
        let alone = self.loader.requests.is_some_and(|requests| requests.ahead == 0);
        let stages = self.loader.stages.iter().enumerate();
        let (mut trainer, mut others) = (launch, 0.0);
        for (index, stage) in stages {
            let needed = stage.lock * f64::from(inner) * f64::from(stage.workers);
            if alone && index == 0 {
                // The trainer itself does the work of the first stage, between its steps.
                trainer = launch.max(needed);
            } else {
                others += needed;
            }
        }
        trainer * trainers + others
    }
}

impl Rules<'_> {
    /// Remarks that `gil` has no effect where no thread ever waits for the interpreter's lock.
    pub(super) fn remark_lock(&self, job: &Job) {
        let needed = job.lock_needed();
        if needed > 0.0 && needed < 1.0 + 1e-9 {
            self.check.remark(format!(
                "`gil` of job `{}` has no effect: no thread ever has to wait for the lock.",
                job.name
            ));
        }
    }

    /// Remarks that a cache of decoded samples has no effect if it is smaller than one sample.
    pub(super) fn remark_decoded(&self, job: &Job, dataset: &Dataset) {
        let bytes = dataset.decoded_size.unwrap_or_else(|| dataset.mean_size());
        if job.decoded_cache.is_some_and(|cache| cache.capacity < bytes) {
            let key = format!("job.{}.decoded_cache", job.name);
            // All decoded samples have the same size.
            self.check
                .remark(format!("`{key}` has no effect: it holds less than one decoded sample."));
        }
    }
}

/// Remarks that the cache of `storage` on a tier has no effect if it is smaller than one file or request of `dataset`.
pub(crate) fn remark_tier_cache(check: Check<'_>, storage: &Storage, dataset: &Dataset) {
    let Some(cache) = storage.cache else { return };
    let (unit, bytes) = match cache.unit {
        CacheUnit::File => ("file", dataset.mean_file()),
        CacheUnit::Page => ("request", dataset.mean_page()),
    };
    if cache.capacity < bytes {
        check.remark(too_small(&format!("storage.{}.cache", storage.name), unit, dataset));
    }
}

impl Scenario {
    /// Returns remarks about page caches that are too small for one request of a job, because of their set capacity or
    /// the memory that is left on the node.
    pub(crate) fn small_page_caches(&self) -> Vec<String> {
        let one = |job: &Job| {
            let dataset = &self.datasets[job.dataset];
            let written = self.cluster.node.page_cache.as_ref().is_some_and(|cache| !cache.assumed);
            let capacity = self.page_cache(job, &self.cluster.node).filter(|_| written);
            let capacity = capacity.filter(|_| self.keeps_pages(job, &self.cluster.node))?;
            let said = || too_small("cluster.node.page_cache", "request", dataset);
            (capacity < dataset.mean_page()).then(said)
        };
        let mut all: Vec<String> = self.jobs.iter().filter_map(one).collect();
        all.dedup();
        all
    }
}

/// Returns the remark that the cache with the key `key` is smaller than a `unit` of `dataset`.
fn too_small(key: &str, unit: &str, dataset: &Dataset) -> String {
    let constant = matches!(dataset.sizes, SampleSizes::Drawn(Distribution::Constant(_)));
    let (effect, one) = if constant { ("no", "one") } else { ("hardly any", "a mean") };
    let name = &dataset.name;
    format!(
        "`{key}` has {effect} effect on `{name}`: it is smaller than {one} {unit} of this data set."
    )
}

impl Dataset {
    /// Returns the mean size of a file [B].
    #[expect(clippy::cast_precision_loss, reason = "sizes are estimates")]
    fn mean_file(&self) -> f64 {
        self.samples_per_file().min(self.samples) as f64 * self.mean_read()
    }

    /// Returns the mean size of the piece that enters a page cache as a whole [B].
    fn mean_page(&self) -> f64 {
        match self.layout {
            Layout::FilePerSample | Layout::OneFile { .. } => self.mean_read(),
            Layout::Shards { request, .. } => request,
            Layout::RowGroups(_) => self.mean_request(),
        }
    }
}
