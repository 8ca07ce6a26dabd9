//! Checks of a job against the machine that it runs on, and remarks about both.

use super::model::{on, step_fit};
use super::rules::Rules;
use super::{Device, Job};
use crate::reading::decode_law;
use crate::{Dataset, Operation};

impl Rules<'_> {
    /// Checks a job that trains on cores: its model is not split, and its loader copies nothing to a device.
    pub(super) fn check_device(&self, job: &Job) {
        let Device::Cpu { .. } = job.device else { return };
        let device = self.settings.model.get().and_then(|model| model.device.at);
        let pipeline = self.settings.parallel.get().and_then(|parallel| parallel.pipeline.at);
        if job.is_split() {
            let at = self.check.blame(&[pipeline, device], self.at);
            let what = "a model can be split over accelerators, not over cores";
            self.check.wrong(at, what, "remove `pipeline`, or write `device = \"accelerator\"`");
        }
        if job.loader.requests.is_some_and(|requests| requests.to_device) {
            let at = self.check.blame(&[device], self.at);
            let what = "training on cores copies nothing to a device";
            self.check.wrong(at, what, "remove `to_device`, or write `device = \"accelerator\"`");
        }
    }

    /// Remarks on settings beyond the range of the profile's measurements, and on settings that have no effect.
    pub(super) fn remark(&self, job: &Job, measured_step: bool) {
        if let (true, Some(model)) = (measured_step, job.catalogue)
            && let device = on(job.device, job.gpu)
            && let Some(fit) = step_fit(self.check, model, &device)
        {
            let part = format!("step.{}.{device}", model.name());
            let setting = format!("job.{}.batch", job.name);
            self.check.in_range(&part, fit, "batch", &setting, job.batch as f64);
        }
        if let Some(dataset) = self.around.datasets.get(job.dataset).and_then(Option::as_ref) {
            self.remark_reads(job, dataset);
            self.remark_decodes(job, dataset);
            self.remark_decoded(job, dataset);
        }
        self.remark_speed(job);
        self.remark_lock(job);
        if let Some(cluster) = self.around.cluster {
            self.remark_cpu(job, &cluster.node);
            self.remark_gpu_memory(job);
            self.remark_measured_learners(job, cluster.node.gpu_memory_bandwidth);
        }
    }

    fn remark_reads(&self, job: &Job, dataset: &Dataset) {
        let storage = self.around.storage.get(job.reads_from()).and_then(Option::as_ref);
        let Some(access) = storage.map(|storage| storage.path.access) else { return };
        let profile = self
            .check
            .profile
            .filter(|_| self.around.measured.get(job.reads_from()).copied().unwrap_or(false));
        let layout = dataset.layout.name();
        let fit = profile.and_then(|profile| profile.read_fit(access.measured(), layout));
        let Some((name, fit)) = fit else { return };
        let part = format!("read.{name}");
        let (name, size) = (&dataset.name, dataset.mean_request());
        self.check.in_range(&part, fit, "size", &format!("dataset.{name}.sample_size"), size);
        let Some(first) = job.loader.stages.first() else { return };
        let readers = format!("job.{}.loader: workers of {:?}", job.name, first.name);
        self.check.in_range(&part, fit, "readers", &readers, first.workers.into());
    }

    fn remark_image(&self, job: &Job, dataset: &Dataset, key: &str, why: &str) {
        let (dataset, job) = (&dataset.name, &job.name);
        self.check.remark(format!("`dataset.{dataset}.{key}` has no effect on `{job}`: {why}."));
    }

    fn remark_decodes(&self, job: &Job, dataset: &Dataset) {
        let decodes = |operation: &&Operation| matches!(operation, Operation::Decode(_));
        let stages = || job.loader.stages.iter();
        let works = || stages().flat_map(|stage| stage.per_sample.iter().chain(&stage.per_item));
        let Some(image) = dataset.image else { return };
        let computes = works().any(|op| matches!(op, Operation::Decode(_) | Operation::Compute(_)));
        if self.loader.is_some() && !computes {
            self.remark_image(job, dataset, "image", "its loader does not decode");
        }
        let resize = image.resize.unwrap_or(0);
        let fit = self.check.profile.and_then(|profile| profile.decode_fit("jpeg", resize));
        let (part, fit) =
            fit.map_or((String::new(), None), |(name, fit)| (format!("decode.{name}"), Some(fit)));
        let Some(fit) = fit.filter(|fit| {
            let law = decode_law(fit);
            works().any(|op| matches!((op, law), (Operation::Decode(of), Some(law)) if *of == law))
        }) else {
            if computes && image.resize.is_some() {
                let why = "the compute time of its loader is written";
                self.remark_image(job, dataset, "image.resize", why);
            }
            return;
        };
        let key = format!("dataset.{}", dataset.name);
        let bytes = dataset.mean_size();
        self.check.in_range(&part, fit, "bytes", &format!("{key}.sample_size"), bytes);
        let pixels = image.pixels();
        self.check.in_range(&part, fit, "pixels", &format!("{key}.image"), pixels);
        let decoding = stages().filter(|stage| stage.per_sample.iter().any(|op| decodes(&op)));
        for stage in decoding {
            let setting = format!("job.{}.loader: workers of {:?}", job.name, stage.name);
            self.check.in_range(&part, fit, "threads", &setting, stage.workers.into());
        }
    }

    fn remark_speed(&self, job: &Job) {
        let speed = self.check.find(&["cluster", "node", "gpu_speed"]);
        if speed.is_some() && job.device != Device::Accelerator {
            self.check.remark(format!(
                "`cluster.node.gpu_speed` has no effect on `{}`, which trains on cores.",
                job.name
            ));
        }
    }
}
