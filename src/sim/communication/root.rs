//! A root: forward waits for the parameters that come from there, and everyone for its update.

use crate::account::Segment;
use crate::engine::{Span, Time};
use crate::report::{Cause, StallCause};
use crate::sim::device::State;
use crate::sim::event::{Clock, Customer, Delay, Event};
use crate::sim::world::World;

use super::sync::Stage;

impl World<'_> {
    /// Whether device `d` must wait for parameters before its piece of a step; it does.
    pub(in crate::sim) fn awaits_parameters(&mut self, now: Time, d: u32) -> bool {
        let device = &mut self.devices[d as usize];
        let job = &self.jobs[device.job as usize];
        let informed = match (&job.sync, &job.servers) {
            (Some(sync), _) => sync.may_begin(device.next, device.piece),
            (None, Some(_)) if device.piece == 0 && job.is_held() => false,
            (None, Some(servers)) => servers.may_begin(device.model, device.next),
            (None, None) => true,
        };
        if informed {
            return false;
        }
        (device.state, device.since) = (State::Uninformed, now);
        self.trace_device(now, d, Cause::Communication.name());
        true
    }

    /// Parameters have arrived: devices of job copy `j` that waited for no others compute.
    pub(super) fn go_on_with_parameters(&mut self, clock: &mut Clock, j: u32) {
        for d in self.jobs[j as usize].devices.clone() {
            let device = &self.devices[d as usize];
            let (since, job) = (device.since, &mut self.jobs[j as usize]);
            let begins = |sync: &super::SyncRun| sync.may_begin(device.next, device.piece);
            if device.state == State::Uninformed && job.sync.as_deref().is_some_and(begins) {
                let cause = StallCause::own(Cause::Communication);
                job.steps.add_stall(Segment { start: since, end: clock.now, cause });
                self.compute_on_device(clock, d);
            }
        }
    }

    /// All gradients of job copy `j` are reduced: its root applies them, or all take them apart, once all have computed.
    pub(super) fn begin_update(&mut self, clock: &mut Clock, j: u32) {
        let job = &mut self.jobs[j as usize];
        let root = job.devices.start;
        let Some(sync) = job.sync.as_mut().filter(|sync| sync.computed.is_some()) else { return };
        if sync.update == Span::ZERO {
            return self.end_communication(clock, j);
        }
        (sync.stage, sync.updating) = (Stage::Updating, Some(clock.now));
        let everyone = if sync.root { root..root + 1 } else { job.devices.clone() };
        let all = &self.devices[everyone.start as usize..everyone.end as usize];
        let slowest = all.iter().map(|device| device.pace).fold(1.0, f64::min);
        let delay = match slowest < 1.0 {
            true => Delay::once(sync.update.seconds() / slowest),
            false => Delay { span: sync.update, lane: None },
        };
        clock.after(delay, Event::Waited(Customer::Reduction(j)));
        for d in everyone {
            self.trace_device(clock.now, d, "compute");
        }
    }

    /// All of job copy `j` have computed since `start`, or its root has, and the others waited for it.
    pub(super) fn account_for_update(&mut self, now: Time, j: u32, start: Time) {
        let job = &mut self.jobs[j as usize];
        if start == now {
            return;
        }
        if job.sync.as_ref().is_some_and(|sync| !sync.root) {
            for d in job.devices.clone() {
                self.devices[d as usize].updated += now.since(start).seconds();
                job.steps.add_compute(start, now);
            }
            return;
        }
        self.devices[job.devices.start as usize].updated += now.since(start).seconds();
        job.steps.add_compute(start, now);
        let cause = StallCause::peer(Cause::Compute);
        for d in job.devices.clone().skip(1) {
            if self.devices[d as usize].state != State::Off {
                job.steps.add_stall(Segment { start, end: now, cause });
            }
        }
    }
}
