//! Kernels of loaders, on GPUs that learners use too.

use forebay_engine::Time;
use forebay_report::Cause;

use super::env::Env;
use super::event::ActivityId;
use super::ids::WorkerId;
use super::loaders::Loaders;
use super::worker::Phase;

impl Loaders {
    /// Begins the kernel of worker `w` on the GPU that the worker's item is for; of a model copy in stages, this is the GPU of the
    /// first stage. The kernel takes `per_sample` for each of the item's samples [s]. Returns true if the kernel takes no time, or
    /// if GPUs are not simulated as shared.
    pub(super) fn begin_kernel(&mut self, env: &mut Env, w: WorkerId, per_sample: f64) -> bool {
        let worker = &self.workers[w];
        let gpus = &mut self.loaders[worker.loader].gpus;
        let seconds = gpus.kernel_seconds(per_sample, worker.item.samples);
        let Some(gpu) = gpus.shared(worker.item.sequence, 0).filter(|_| seconds > 0.0) else {
            return true;
        };
        gpu.occupied.begin(env.now);
        let ((group, gpus), seconds) = (gpu.loader, seconds / gpu.pace);
        self.enter(env, w, Phase::OnGpu, Cause::Decode);
        env.network.start(env.now, group, seconds * gpus, ActivityId::Worker(w));
        false
    }

    /// Ends the kernel of worker `w` on the GPU of its item.
    pub(super) fn end_kernel(&mut self, now: Time, w: WorkerId) {
        let worker = &self.workers[w];
        let gpus = &mut self.loaders[worker.loader].gpus;
        if let Some(gpu) = gpus.shared(worker.item.sequence, 0) {
            gpu.occupied.end(now);
        }
    }
}
