//! The causes of the waits of devices: for a batch, for other model copies, for the pipeline and for swaps.
//!
//! A wait has the same causes whether it ends or is cut off, because a checkpoint begins, the number of learners changes, the job
//! copy fails or the run ends: [`Jobs::settle`] charges what has passed of it. Where the causes depend on how the wait ends, a wait
//! that is cut off is charged as if it ended next: the rank that is furthest behind is the one waited for, and the batch comes
//! from the first worker.

use std::mem;

use forebay_engine::Time;
use forebay_metrics::{Segment, launch_waits};
use forebay_report::{Cause, StallCause};

use super::jobs::Jobs;
use super::program::{Input, Op};
use crate::communication::{Communicator, Held};
use crate::device::{Device, Launching, State};
use crate::env::Env;
use crate::ids::{DeviceId, Ids, JobId, WorkerId};

/// A wait, or the part of it that is not charged yet: its start and its end.
type Wait = (Time, Time);

fn own(cause: Cause, (start, end): Wait) -> Segment {
    Segment { start, end, cause: StallCause::own(cause) }
}

impl Jobs {
    /// Charges the time of device `d` up to `until` as a wait with this cause.
    #[inline]
    pub(super) fn charge(&mut self, d: DeviceId, until: Time, cause: StallCause) {
        let device = &mut self.devices[d];
        device.account.wait(&mut self.jobs[device.job].steps, until, cause);
    }

    /// Charges the time of device `d` up to `until` to what the device is doing, whether this ends then or is cut off.
    pub(super) fn settle(&mut self, d: DeviceId, until: Time) {
        self.segments.clear();
        let account = &self.devices[d].account;
        match account.state() {
            State::Busy | State::Updating => return self.charge_step(d, until),
            _ if account.clock() >= until => return,
            _ => {}
        }
        let mut pieces = mem::take(&mut self.segments);
        self.causes(d, until, &mut pieces);
        pieces.iter().for_each(|piece| self.charge(d, piece.end, piece.cause));
        self.segments = pieces;
    }

    /// Does the same, and shows the causes in the timeline.
    pub(super) fn settle_and_trace(&mut self, env: &mut Env, d: DeviceId, until: Time) {
        self.settle(d, until);
        let pieces = mem::take(&mut self.segments);
        self.trace_causes(env, d, &pieces);
        self.segments = pieces;
    }

    /// Appends to `pieces` the causes for which device `d` has waited from the time that its account has reached up to `until`, in
    /// order of time.
    fn causes(&self, d: DeviceId, until: Time, pieces: &mut Vec<Segment>) {
        let device = &self.devices[d];
        let wait = (device.account.clock(), until);
        match device.account.state() {
            State::Off | State::Busy | State::Updating => {}
            State::Idle | State::AwaitingParameters => self.idle_causes(d, wait, pieces),
            State::Starving => {
                self.starving_causes(self.next_batch_of(d, until), wait, pieces);
                pieces.reverse();
            }
            State::Loading => pieces.push(own(Cause::Copy, wait)),
            State::Launching => pieces.extend(self.launch_causes(d, wait)),
            State::Averaging if self.op_of(d) == Some(Op::Correct) => {
                pieces.push(own(Cause::Communication, wait));
            }
            State::Averaging => self.average_causes(d, wait, pieces),
        }
    }

    /// Appends to `pieces` the causes for which device `d` has been idle: for the input of its current op, or between two steps;
    /// for a checkpoint since the job copy has waited for one.
    fn idle_causes(&self, d: DeviceId, (since, until): Wait, pieces: &mut Vec<Segment>) {
        let Device { job, ref op, .. } = self.devices[d];
        let saving = self.recoveries.saving_since(self.jobs[job].parts.checkpoints);
        let saving = saving.filter(|_| self.is_held(d));
        let before = saving.map_or(until, |saving| saving.clamp(since, until));
        if op.waits {
            self.input_causes(d, (since, before), pieces);
        } else {
            self.causes_between_steps(d, (since, before), pieces);
        }
        if before < until {
            pieces.push(own(Cause::Checkpoint, (before, until)));
        }
    }

    /// Appends to `pieces` the causes of the wait of device `d` before it begins its next step.
    fn causes_between_steps(&self, d: DeviceId, wait: Wait, pieces: &mut Vec<Segment>) {
        let Device { job: j, stage, .. } = self.devices[d];
        let job = &self.jobs[j];
        match stage {
            _ if job.trains_apart() => self.parameter_causes(d, wait, pieces),
            _ if job.plan.window == 1 => {
                let open = self.furthest_behind(d, job.parts.devices);
                let (slowest, worked) = match open {
                    Some(peer) => (self.chain_of(peer), wait.1),
                    None => self.slowest_chain(j, d),
                };
                self.end_causes(d, wait, (slowest, worked), pieces);
            }
            // The first stage has waited for an earlier step to leave the pipeline; a learner, for the other learners.
            0 => pieces.push(Segment { start: wait.0, end: wait.1, cause: job.plan.gate }),
            _ => self.stage_causes(d, wait, pieces),
        }
    }

    /// Returns the device that is furthest behind device `d` in its program, among `devices` that are in use; `None` if none is
    /// behind `d`.
    pub(super) fn furthest_behind(
        &self,
        d: DeviceId,
        devices: impl IntoIterator<Item = DeviceId>,
    ) -> Option<DeviceId> {
        let place = |d: &DeviceId| (self.devices[*d].next, self.devices[*d].op.at);
        let in_use = |d: &DeviceId| self.devices[*d].account.state() != State::Off;
        let last = devices.into_iter().filter(in_use).min_by_key(place);
        last.filter(|last| place(last) < place(&d))
    }

    /// Accounts for the activities of job copy `j` up to the end of its last complete step. Activities for later steps are cut off
    /// there; devices that finished early have nothing left to do.
    pub(super) fn close_open(&mut self, j: JobId) {
        let end = self.jobs[j].steps.last_end();
        let devices = self.jobs[j].parts.devices;
        // These waits also explain waits of other devices.
        for d in devices {
            let Device { ref account, ref op, next, stage, .. } = self.devices[d];
            let swaps = op.waits && stage == 0 && self.op_of(d) == Some(Op::AwaitSwap);
            if account.clock() < end && (swaps || account.state() == State::Starving) {
                self.settle(d, end);
                let pieces = self.segments.iter().map(|piece| (next, *piece));
                self.devices[d].input.waits.extend(pieces);
            }
        }
        for d in devices {
            self.settle(d, end);
        }
    }
}

impl Jobs {
    /// Returns the first device of the model copy to which `d` belongs.
    pub(super) fn chain_of(&self, d: DeviceId) -> DeviceId {
        d - self.devices[d].stage
    }

    /// Appends to `pieces` the causes of a wait for `peer` from `from` to `to`: while `peer` itself waited for input, the
    /// causes of that wait; otherwise the computation of `peer` from `began` on, and communication before `began`.
    pub(super) fn wait_for_peer(
        &self,
        peer: DeviceId,
        began: Time,
        (from, to): (Time, Time),
        pieces: &mut Vec<Segment>,
    ) {
        let mut at = from;
        let waits = self.devices[peer].input.waits.iter();
        let waits = waits.filter_map(|(_, wait)| clip(wait, from, to));
        let last = Segment { start: to, end: to, cause: StallCause::peer(Cause::Compute) };
        for wait in waits.chain([last]) {
            let middle = began.clamp(at, wait.start.max(at));
            let cause = StallCause::own(Cause::Communication);
            pieces.push(Segment { start: at, end: middle, cause });
            let cause = StallCause::peer(Cause::Compute);
            pieces.push(Segment { start: middle, end: wait.start.max(middle), cause });
            pieces.push(wait);
            at = wait.end;
        }
        pieces.retain(|piece| piece.start < piece.end);
    }

    /// Appends to `pieces` the causes of the wait of device `d` for parameters from servers: the computation of the model copy that
    /// held it up, and communication.
    fn parameter_causes(&self, d: DeviceId, (from, to): Wait, pieces: &mut Vec<Segment>) {
        let held =
            self.communicators.exchanges_of(d).map(|(servers, worker)| servers.held(to, worker));
        // Where the device waited for several parts of the model, the one that was held up last counts.
        let held = held.max_by_key(|held| held[1].map(|held| held.until)).unwrap_or_default();
        let mut start = from;
        for Held { by, began, until } in held.into_iter().flatten().filter(|held| held.by != d) {
            let end = until.clamp(start, to);
            self.wait_for_peer(by, began, (start, end), pieces);
            start = end;
        }
        pieces.push(own(Cause::Communication, (start, to)));
    }

    /// Appends to `pieces` the causes of the wait of device `d` for the stage before. The cause is the first stage's wait for a
    /// batch while that wait lasted, and the pipeline itself at other times.
    fn stage_causes(&self, d: DeviceId, (from, to): Wait, pieces: &mut Vec<Segment>) {
        let step = self.devices[d].next;
        let mut at = from;
        for (of, wait) in &self.devices[self.chain_of(d)].input.waits {
            let Some(wait) = clip(wait, from, to).filter(|_| *of <= step) else { continue };
            pieces.push(own(Cause::Bubble, (at, wait.start)));
            pieces.push(own(wait.cause.cause, (wait.start, wait.end)));
            at = wait.end;
        }
        pieces.push(own(Cause::Bubble, (at, to)));
    }

    /// Returns the causes of the wait of device `d` for the host-side work of its trainers.
    fn launch_causes(&self, d: DeviceId, (since, until): Wait) -> [Segment; 2] {
        let launching = self.devices[d].launching.as_deref().copied().unwrap_or_default();
        let Launching { since: began, work, .. } = launching;
        launch_waits(began, work, since, until)
    }

    /// Appends to `pieces`, latest first, the causes of the wait of device `d` for a batch that `worker` completes. If the device
    /// polls, `slept` is the time from the completion of the batch to the poll that finds it.
    pub(super) fn starving_causes(
        &self,
        (worker, slept): (WorkerId, Option<Segment>),
        (since, until): Wait,
        pieces: &mut Vec<Segment>,
    ) {
        // A host may have begun to wait before its device did.
        let slept = slept.map(|slept| Segment { start: slept.start.clamp(since, until), ..slept });
        pieces.extend(slept);
        let came = slept.map_or(until, |slept| slept.start);
        self.loaders.causes(worker, since, came, pieces);
    }

    /// Returns the worker from which the next batch of device `d` comes, and the time that the device has slept up to `until` since
    /// that batch was complete. Where no batch is promised to the device, this is a worker of the loader's last stage.
    fn next_batch_of(&self, d: DeviceId, until: Time) -> (WorkerId, Option<Segment>) {
        let loader = &self.loaders[self.devices[d].loader];
        let polling = loader.pacing.polling.as_ref();
        let found = polling.and_then(|polling| polling.promise_to(d.number()));
        match found {
            Some(found) => (WorkerId::new(found.worker), Some(found.slept(until))),
            None => (loader.stages.workers_of(loader.stages.last()).start, None),
        }
    }
}

/// Returns the part of a peer's wait within `[from, to)`, as the stall of a device that waited for that peer; `None` if there
/// is none.
fn clip(wait: &Segment, from: Time, to: Time) -> Option<Segment> {
    let (start, end) = (wait.start.max(from), wait.end.min(to));
    let cause = StallCause::peer(wait.cause.cause);
    (start < end).then_some(Segment { start, end, cause })
}

impl Jobs {
    /// Ends the wait of device `d` for the input of `op`, if it waited, and takes the input.
    pub(super) fn end_wait(&mut self, now: Time, d: DeviceId, op: Op) {
        if self.devices[d].op.waits {
            let since = self.devices[d].account.clock();
            self.settle(d, now);
            let device = &mut self.devices[d];
            device.op.waits = false;
            if op == Op::AwaitSwap {
                device.worked = now;
                self.remember_swap(d, (since, now));
            }
        }
        if let Op::Receive(input) = op {
            self.part(d).received[input.number()].pop_front();
        }
    }

    /// Remembers the wait of device `d` for a swap, which also explains the stalls of devices that waited for the model copy of
    /// `d`.
    fn remember_swap(&mut self, d: DeviceId, wait: Wait) {
        let Device { stage: 0, next: step, .. } = self.devices[d] else { return };
        let waits = &mut self.devices[d].input.waits;
        waits.retain(|(of, _)| of + 1 >= step);
        waits.push((step, own(Cause::Swap, wait)));
    }

    /// Appends to `pieces` the causes of the wait of device `d` for the input of its current op.
    fn input_causes(&self, d: DeviceId, (since, until): Wait, pieces: &mut Vec<Segment>) {
        let mut at = since;
        match self.op_of(d) {
            Some(Op::Receive(input)) => {
                // The time after the input was sent was communication, and the time before it a wait for the previous stage.
                at = self.sent(d, input).unwrap_or(until).clamp(since, until);
                self.stage_causes(d, (since, at), pieces);
            }
            Some(Op::AwaitSwap) => {
                at = until;
                pieces.push(own(Cause::Swap, (since, until)));
            }
            Some(Op::Await(communicator, number)) => {
                let last = self.last_rank(d, (communicator, number), until);
                if let Some((asked, peer)) = last.filter(|(asked, _)| *asked > since) {
                    at = asked.min(until);
                    self.wait_for_rank(d, peer, (since, at), pieces);
                }
            }
            _ => {}
        }
        pieces.push(own(Cause::Communication, (at, until)));
    }

    /// Returns when the input that device `d` waits for was sent; `None` if it was not.
    fn sent(&self, d: DeviceId, input: Input) -> Option<Time> {
        let spread = &self.jobs[self.devices[d].job].spread;
        let (part, number) = (spread.part_of(d), input.number());
        let first = self.chain_of(d);
        let chain = Ids::new(first, first + self.jobs[self.devices[d].job].stages());
        let queued = || {
            let sending = chain.iter().flat_map(|d| &spread.part_of(d).sending);
            let mut waiting = sending.flat_map(|sending| &sending.waiting);
            waiting.find(|(_, of)| of.stage == self.devices[d].stage && of.number() == number)
        };
        let known = part.received[number].front().or_else(|| part.coming[number].front()).copied();
        known.or_else(|| queued().map(|(sent, _)| *sent))
    }

    /// Returns the device of the last rank to start the collective that device `d` waits for, and when that rank starts it, or has
    /// computed the gradients that its GPU sums first: `until` if it has not started it.
    fn last_rank(
        &self,
        d: DeviceId,
        (communicator, number): (Communicator, u32),
        until: Time,
    ) -> Option<(Time, DeviceId)> {
        let (step, mut last) = (self.devices[d].next, None);
        for c in self.communicators_of(d, communicator) {
            let communicator = &self.communicators.all[c];
            let started = communicator.started_last(step, number);
            if started.is_none() && communicator.over(step) < number {
                let peer = self.furthest_behind(d, communicator.devices());
                return peer.map(|peer| (until, peer));
            }
            last = last.max(started);
        }
        // What a GPU does with the gradients of its learners after they have computed them is communication.
        let sums = self.pieces_of(d) > 0;
        let worked = |peer: DeviceId| if sums { self.devices[peer].worked } else { Time::NEVER };
        last.map(|(at, peer)| (at.min(worked(peer)), peer))
    }

    /// Appends to `pieces` the causes of the wait of device `d` for `peer`: what the model copy of `peer` waited for in that
    /// time, or its computation; the pipeline, if both are stages of one model copy.
    pub(super) fn wait_for_rank(
        &self,
        d: DeviceId,
        peer: DeviceId,
        (from, until): Wait,
        pieces: &mut Vec<Segment>,
    ) {
        if from >= until {
            return;
        }
        let first = self.chain_of(peer);
        if self.chain_of(d) == first {
            return pieces.push(own(Cause::Bubble, (from, until)));
        }
        self.wait_for_peer(first, from, (from, until), pieces);
    }

    /// Charges the waits of the devices of job copy `j`, all of which have ended the step, and the `last` one just now.
    pub(super) fn charge_ends(&mut self, env: &mut Env, j: JobId, last: DeviceId) {
        let mut slowest = None;
        let mut pieces = mem::take(&mut self.segments);
        for d in self.jobs[j].parts.devices {
            let account = &self.devices[d].account;
            let since = account.clock();
            if since == env.now || account.state() != State::Idle {
                continue;
            }
            pieces.clear();
            // Where all devices have awaited a collective, none has waited since.
            let slowest = *slowest.get_or_insert_with(|| self.slowest_chain(j, last));
            self.end_causes(d, (since, env.now), slowest, &mut pieces);
            pieces.iter().for_each(|piece| self.charge(d, piece.end, piece.cause));
            self.trace_causes(env, d, &pieces);
        }
        self.segments = pieces;
    }

    /// Appends to `pieces` the causes of the wait of device `d` at the end of a step. It waits until all devices of its own model
    /// copy have done their work, then until all other model copies have, the `slowest` one of which did at `worked`, and then for
    /// communication or swaps that a device awaits at the end of its step.
    fn end_causes(
        &self,
        d: DeviceId,
        (since, until): Wait,
        (slowest, worked): (DeviceId, Time),
        pieces: &mut Vec<Segment>,
    ) {
        let job = &self.jobs[self.devices[d].job];
        let stages = job.stages();
        let own_end = self.worked(self.chain_of(d), stages).clamp(since, until);
        let all = worked.clamp(own_end, until);
        pieces.push(own(Cause::Bubble, (since, own_end)));
        self.wait_for_rank(d, slowest, (own_end, all), pieces);
        let alone = job.parts.devices.len() == stages as usize;
        let cause = if alone { Cause::Swap } else { Cause::Communication };
        pieces.push(own(cause, (all, until)));
    }

    /// Returns the time when the last device of a model copy of `stages` stages had done its work; `first` is its first stage.
    fn worked(&self, first: DeviceId, stages: u32) -> Time {
        let all = self.devices[Ids::new(first, first + stages)].iter();
        all.map(|device| device.worked).max().unwrap_or_default()
    }

    /// Returns the slowest model copy of job copy `j`, given by its first stage, and when it had done its work: the model copy with
    /// the device that finished its own work last. If several devices finished at the same time, device `last` decides.
    fn slowest_chain(&self, j: JobId, last: DeviceId) -> (DeviceId, Time) {
        let all = self.devices[self.jobs[j].parts.devices].iter().zip(self.jobs[j].parts.devices);
        let in_use = all.filter(|(device, _)| device.account.state() != State::Off);
        let slowest = in_use.max_by_key(|(device, d)| (device.worked, *d == last));
        let first = self.chain_of(slowest.map_or(last, |(_, d)| d));
        (first, self.worked(first, self.jobs[j].stages()))
    }
}

#[cfg(test)]
mod tests {
    use forebay_report::JobOutcome;
    use forebay_scenario::ScenarioFile;

    use super::*;
    use crate::{Options, run};

    /// Runs a job on two nodes for `seconds`, with these `keys`, and with loaders that decode a sample in `decode` ms.
    fn run_for(seconds: f64, (decode, keys): (u32, &str)) -> JobOutcome {
        let text = format!(
            r#"
            name = "cut"
            run = {{ duration = "{seconds} s", warm_up = "off" }}
            cluster = {{ nodes = 2, node.cores = 1, node.gpus = 2, network.nic = "1 GB/s", network.latency = "1 ms" }}
            storage.s.memory = {{}}
            dataset.d = {{ samples = 100_000, sample_size = "1 kB" }}
            [[job]]
            name = "j"
            nodes = 2
            dataset = "d"
            storage = "s"
            {keys}
            loader.tf-queue = {{ threads = 1, capacity = "4 samples", decode = "{decode} ms" }}
            "#
        );
        let file = ScenarioFile::parse("cut.toml", text).expect("TOML");
        let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
        run(&scenario, 0, &Options::default()).jobs.remove(0)
    }

    /// Returns the stalls in the first `steps` steps.
    fn stalls(job: &JobOutcome, steps: usize) -> Vec<(u32, StallCause, f64)> {
        let mut sums: Vec<(u32, StallCause, f64)> = Vec::new();
        for stall in job.stalls.iter().filter(|stall| (stall.step as usize) < steps) {
            match sums.iter_mut().find(|sum| (sum.0, sum.1) == (stall.step, stall.cause)) {
                Some(sum) => sum.2 += stall.seconds,
                None => sums.push((stall.step, stall.cause, stall.seconds)),
            }
        }
        sums.retain(|sum| sum.2 > 1e-9);
        sums.sort_by_key(|sum| (sum.0, sum.1));
        sums
    }

    const VARYING: &str = "model = { step = \"10 ms\", jitter = { gamma = { cv = 0.7 } } }";

    #[test]
    fn a_wait_that_the_end_of_the_run_cuts_off_has_the_causes_of_one_that_ends() {
        // System: jobs whose devices wait for the loader, for the stage before, for collectives, for parameters from servers, or
        // for averages of models. Expectation: a run that ends while such waits go on has the same stalls in its steps as a longer
        // run has in the same steps.
        let pipeline = "parallel.pipeline = { stages = 2, schedule = \"1f1b\", micro_batches = 4, \
                        activations = \"1 MB\" }";
        let local = "sync.allreduce = { buckets = \"1 MB\", gradients = \"10 MB\", period = 4 }";
        let servers =
            "sync.parameter-server = { parameters = \"4 MB\", consistency = \"asynchronous\" }";
        let learners =
            "parallel.data = { learners = 2 }\nsync.model-averaging.parameters = \"10 MB\"";
        let shared = VARYING.replace(
            "{ step",
            "{ occupancy = 0.4, memory = { parameters = \"2 MB\", \
                                     activations = \"2 MB\", workspace = \"1 GB\" }, step",
        );
        for (decode, keys) in [
            (
                13,
                format!(
                    "batch = 1\n{VARYING}\nparallel.pipeline = {{ stages = 2, overlap = true }}"
                ),
            ),
            (
                13,
                format!(
                    "batch = 1\n{VARYING}\nparallel.pipeline = {{ shares = [0.2, 0.8], overlap = true }}"
                ),
            ),
            (1, format!("batch = 4\n{VARYING}\n{pipeline}\n{local}")),
            (13, format!("batch = 1\n{VARYING}\n{local}")),
            (13, format!("batch = 1\n{VARYING}\n{servers}")),
            (13, format!("batch = 1\n{shared}\n{learners}")),
        ] {
            let of = (decode, &*keys);
            let (whole, mut compared) = (run_for(1.0, of), 0);
            for length in 1..30 {
                let part = run_for(0.0171 * f64::from(length), of);
                let steps = part.steps.len();
                let (found, expected) = (stalls(&part, steps), stalls(&whole, steps));
                let near = found
                    .iter()
                    .zip(&expected)
                    .all(|(a, b)| (a.0, a.1) == (b.0, b.1) && (a.2 - b.2).abs() < 1e-9);
                assert!(
                    near && found.len() == expected.len(),
                    "{keys}: {found:?}, not {expected:?}"
                );
                compared += steps;
            }
            assert!(compared > 50, "{keys}: only {compared} steps");
        }
    }
}
