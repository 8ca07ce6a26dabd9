//! Training steps that run on the node's cores, which the loader uses too.

use forebay_engine::Span;
use forebay_metrics::Segment;
use forebay_report::{Cause, StallCause};

use super::device::State;
use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::ids::{DeviceId, StationId};
use super::invariant::broken;
use super::jobs::Jobs;
use super::notice::Notice;
use super::worker::{Cores, Waiting};

/// How a model copy uses the node's cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuThreads {
    pub(super) number: u32,
    /// Speed of a core relative to an undisturbed core, when these threads have the node to themselves. This was the case when
    /// the step time was measured.
    pub(super) speed: f64,
}

/// The threads of a device's step that have not computed to the end, on cores that serve one thread after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CoreThreads {
    open: u32,
    /// Number of threads that got their cores when the step began, and end together.
    together: u32,
    /// Time that each thread takes on an undisturbed core.
    span: Span,
}

impl CoreThreads {
    /// Ends the threads that end next; returns their number.
    fn end(&mut self) -> u32 {
        let ended = std::mem::take(&mut self.together).max(1);
        self.open -= ended;
        ended
    }
}

impl Jobs {
    /// Begins a step of device `d`: its threads run in parallel on the node's cores.
    pub(super) fn compute_on_cores(
        &mut self,
        env: &mut Env,
        d: DeviceId,
        threads: CpuThreads,
        delay: Delay,
    ) {
        let activity = ActivityId::Step(d);
        match self.cores_of(d) {
            None => env.after(delay, Event::Stepped(d)),
            Some(Cores::Shared(group)) => {
                let work = delay.span.seconds() * threads.speed;
                env.network.start_many(env.now, group, work, threads.number, activity);
            }
            Some(Cores::Fifo(_) | Cores::Paced(..)) => self.take_cores(env, d, threads, delay),
        }
    }

    /// Lets each thread of a step of device `d` take a core that serves one thread after the other.
    fn take_cores(&mut self, env: &mut Env, d: DeviceId, threads: CpuThreads, delay: Delay) {
        let Some((station, pace)) = self.cores_of(d).and_then(Cores::slots) else {
            return broken("threads take cores that serve one thread after the other");
        };
        let delay = match threads.speed {
            1.0 => delay,
            speed => Delay::once(delay.span.seconds() * speed),
        };
        let visit = Waiting { activity: ActivityId::Step(d), delay, pace };
        let queue = &mut env.stations[station].queue;
        let begun = (0..threads.number).filter(|_| queue.arrive(env.now, visit)).count() as u32;
        let all = CoreThreads { open: threads.number, together: begun, span: delay.span };
        if let Some(launching) = &mut self.devices[d].launching {
            launching.threads = all;
        }
        match pace {
            _ if begun == 0 => {}
            // Threads that begin together end together.
            None => env.use_core(visit),
            Some(group) => {
                let work = delay.span.seconds();
                env.network.start_many(env.now, group, work, begun, visit.activity);
            }
        }
    }

    /// Ends threads of the step of device `d`, and frees their cores; returns true if all threads have ended. The time that the
    /// step has waited for cores is recorded.
    pub(super) fn end_threads(&mut self, env: &mut Env, d: DeviceId) -> bool {
        let Some(station) = self.slots_of(d) else { return true };
        let Some(launching) = &mut self.devices[d].launching else {
            broken("a step on cores has trainers");
            return true;
        };
        let ended = launching.threads.end();
        let CoreThreads { open, span, .. } = launching.threads;
        leave_slots(env, station, ended);
        let device = &mut self.devices[d];
        if open > 0 {
            return false;
        }
        let took = env.now.since(device.since);
        if device.state == State::Busy && took > span {
            let cause = StallCause::own(Cause::CpuWait);
            let start = device.since;
            device.since = start + Span(took.0 - span.0);
            self.jobs[device.job].steps.add_stall(Segment { start, end: device.since, cause });
        }
        true
    }

    /// Returns the station of the cores that device `d` trains on, if they serve one thread after the other.
    fn slots_of(&self, d: DeviceId) -> Option<StationId> {
        self.jobs[self.devices[d].job].plan.threads?;
        self.cores_of(d)?.slots().map(|(station, _)| station)
    }

    /// Returns how the trainer of device `d` gets the cores of its node; `None` if it uses none.
    fn cores_of(&self, d: DeviceId) -> Option<Cores> {
        let launching = self.devices[d].launching.as_ref()?;
        Some(self.trainers[launching.trainers.start].cores)
    }

    /// Frees the cores of threads of the step of device `d`, which are cancelled at the same time.
    pub(super) fn leave_cores(&mut self, env: &mut Env, d: DeviceId) {
        if let Some(station) = self.slots_of(d)
            && let Some(launching) = &mut self.devices[d].launching
        {
            leave_slots(env, station, launching.threads.end());
        }
    }
}

/// Frees `number` cores, and gives each to the next activity in the queue.
fn leave_slots(env: &mut Env, station: StationId, number: u32) {
    for _ in 0..number {
        let next = env.stations[station].queue.leave(env.now);
        env.notices.extend(next.map(Notice::CoreFree));
    }
}
