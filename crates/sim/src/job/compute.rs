//! Computation of devices, on GPUs of their own or shared ones or on cores, and the host-side work of their trainers.

use forebay_engine::Time;
use forebay_report::{Cause, StallCause};
use forebay_scenario::BatchInterval;

use super::jobs::Jobs;
use crate::device::{Gpu, State};
use crate::env::{Delay, Env, broken};
use crate::ids::{DeviceId, TrainerId};

impl Jobs {
    /// Charges the computation or the update of device `d` up to `until`. Threads that have taken longer than a step takes have waited
    /// for cores first.
    pub(super) fn charge_step(&mut self, d: DeviceId, until: Time) {
        if self.devices[d].account.state() == State::Updating {
            let device = &mut self.devices[d];
            return device.account.update(&mut self.jobs[device.job].steps, until);
        }
        if self.trains_on_cores(d)
            && let Some(span) = self.devices.span_of_threads(d)
        {
            let turn = Time(until.0.saturating_sub(span.0));
            self.charge(d, turn, StallCause::own(Cause::CpuWait));
        }
        let device = &mut self.devices[d];
        device.account.compute(&mut self.jobs[device.job].steps, until);
    }

    /// Returns whether device `d` stands for threads that train on the node's cores.
    #[inline]
    pub(super) fn trains_on_cores(&self, d: DeviceId) -> bool {
        self.jobs[self.devices[d].job].plan.threads.is_some()
    }
}

impl Jobs {
    /// Sets the speed of the GPU of device `d` relative to its speed without faults.
    pub(crate) fn set_pace(&mut self, env: &mut Env, d: DeviceId, pace: f64) {
        self.devices[d].set_pace(pace);
        let Some(gpu) = self.gpu_of(d) else { return };
        gpu.set_pace(env, pace);
    }

    /// Returns the shared GPU of device `d`; `None` if GPUs are not simulated as shared.
    #[inline]
    pub(super) fn gpu_of(&mut self, d: DeviceId) -> Option<&mut Gpu> {
        let device = &self.devices[d];
        self.loaders[device.loader].gpus.shared(device.model.into(), device.stage)
    }

    /// Puts the batch of device `d` into a buffer of its GPU. If the device still has a buffer from its last batch, the batch
    /// overwrites that one.
    pub(super) fn hold_input(&mut self, d: DeviceId) {
        let new = self.devices[d].input.hold_buffer();
        if let (true, Some(gpu)) = (new, self.gpu_of(d)) {
            gpu.take_input();
        }
    }

    /// Frees the buffer of the batch of device `d`, unless the device may train on the batch again.
    pub(super) fn leave_input(&mut self, d: DeviceId) {
        let device = &mut self.devices[d];
        if self.jobs[device.job].plan.batches.interval != BatchInterval::Every(1.0) {
            return;
        }
        let held = device.input.leave_buffer();
        if let (true, Some(gpu)) = (held, self.gpu_of(d)) {
            gpu.free_input();
        }
    }

    /// Begins the computation of device `d` on its GPU, which other devices and loaders may use at the same time.
    pub(super) fn compute_on_gpu(&mut self, env: &mut Env, d: DeviceId, delay: Delay) {
        self.devices[d].begin_kernels(delay.span.seconds());
        if let Some(gpu) = self.gpu_of(d) {
            gpu.take_activations();
        }
        self.begin_kernels(env, d);
    }

    /// Begins the current kind of kernels of device `d`.
    fn begin_kernels(&mut self, env: &mut Env, d: DeviceId) {
        let kernels = self.devices[d].kernels();
        let Some(gpu) = self.gpu_of(d) else {
            return broken("kernels run on a GPU that is simulated as shared");
        };
        gpu.begin_kernels(env, d, kernels);
    }

    /// Ends the current kind of kernels of device `d`, or its step on cores.
    pub(crate) fn end_kernels(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        let (busy, kernels) = (device.account.state() == State::Busy, device.kernels().0);
        let Some(gpu) = self.gpu_of(d) else { return self.end_work(env, d) };
        // A device whose job has ended runs no further kernels.
        if let Some(next) = gpu.end_kernels(env.now, kernels).filter(|_| busy) {
            self.devices[d].go_on_with_kernels(next);
            return self.begin_kernels(env, d);
        }
        gpu.free_activations();
        self.end_work(env, d);
    }
}

impl Jobs {
    /// Begins the host-side work of the trainers of device `d` for a step; returns true if the device computes meanwhile.
    pub(super) fn begin_launch(&mut self, env: &mut Env, d: DeviceId) -> bool {
        if self.devices[d].op.at() == 0 {
            // A stage without input of its own begins its step here.
            self.settle(d, env.now);
        }
        let job = &self.jobs[self.devices[d].job];
        job.plan.launch.as_ref().is_none_or(|launch| self.devices.begin_launch(env, d, launch))
    }

    /// Ends the host-side work of trainer `t` for a step, or of one of its threads; a device that has waited for that goes on.
    pub(crate) fn end_launch(&mut self, env: &mut Env, t: TrainerId) {
        if let Some(d) = self.devices.end_launch(env, t) {
            self.settle(d, env.now);
            self.end_op(env, d);
        }
    }
}
