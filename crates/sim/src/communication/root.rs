//! Waits for parameters from parameter servers, and the update of parameters at a root (or the decompression of gradients on
//! every device) at the end of a step.

use forebay_engine::{Span, Time};
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use crate::device::State;
use crate::env::Env;
use crate::event::{ActivityId, Delay, Event};
use crate::ids::{DeviceId, Ids, JobId};
use crate::jobs::Jobs;

impl Jobs {
    /// Returns whether device `d` has to wait before it computes: for parameters from the servers, or for a checkpoint. If so,
    /// begins this wait; otherwise records that the computation begins.
    pub(crate) fn awaits_pull(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let parts = self.jobs[self.devices[d].job].parts;
        let there = !self.recoveries.is_saving(parts.checkpoints) && self.has_parameters(d);
        if there {
            self.begin_exchange(env.now, d);
        } else {
            self.wait_for_parameters_from(env, d);
        }
        !there
    }

    /// Begins the wait of device `d` for parameters from the servers.
    fn wait_for_parameters_from(&mut self, env: &mut Env, d: DeviceId) {
        let device = &mut self.devices[d];
        (device.state, device.since) = (State::AwaitingParameters, env.now);
        self.trace_device(env, d, Cause::Communication.name());
    }

    /// Begins the update of job copy `j`, whose devices have all computed, if all gradients are reduced. The root applies the
    /// gradients, or every device decompresses them.
    pub(super) fn begin_update(&mut self, env: &mut Env, j: JobId) {
        if !self.are_reduced(j) {
            return;
        }
        let job = &mut self.jobs[j];
        let root = job.parts.devices.start;
        let update = &mut job.update;
        if update.span == Span::ZERO {
            return self.end_communication(env, j);
        }
        update.updating = Some(env.now);
        let span = update.span;
        let everyone = if update.root { Ids::new(root, root + 1) } else { job.parts.devices };
        let delay = Delay { span, lane: None }.at_pace(self.slowest_of(everyone));
        env.after(delay, Event::Waited(ActivityId::Update(j)));
        for d in everyone {
            self.trace_device(env, d, "compute");
        }
    }

    /// Records the time of an update of job copy `j` that began at `start`. Either all devices computed, or only the root
    /// computed and the other devices stalled until it had finished.
    pub(super) fn account_for_update(&mut self, now: Time, j: JobId, start: Time) {
        let job = &mut self.jobs[j];
        if start == now {
            return;
        }
        if !job.update.root {
            for d in job.parts.devices {
                let device = &mut self.devices[d];
                if device.state != State::Off {
                    device.times.updated += now.since(start).seconds();
                    job.steps.add_compute(start, now);
                }
            }
            return;
        }
        self.devices[job.parts.devices.start].times.updated += now.since(start).seconds();
        job.steps.add_compute(start, now);
        let cause = StallCause::peer(Cause::Compute);
        for d in job.parts.devices.iter().skip(1) {
            if self.devices[d].state != State::Off {
                job.steps.add_stall(Segment { start, end: now, cause });
            }
        }
    }
}
