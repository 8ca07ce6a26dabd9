//! Charges the waits of devices to their causes.
//!
//! A wait has the same causes whether it ends or is cut off, because a checkpoint begins, the number of learners changes, the job
//! copy fails or the run ends: [`Jobs::settle`] charges what has passed of it.

use std::mem;

use forebay_engine::Time;
use forebay_report::{Cause, StallCause};

use super::causes::{Wait, own};
use super::jobs::Jobs;
use super::program::Op;
use crate::device::State;
use crate::env::Env;
use crate::ids::{DeviceId, JobId};

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
        self.causes().of_device(d, until, &mut pieces);
        pieces.iter().for_each(|piece| self.charge(d, piece.end, piece.cause));
        self.segments = pieces;
    }

    /// Does the same, and shows the causes in the timeline.
    pub(super) fn settle_and_trace(&mut self, env: &mut Env, d: DeviceId, until: Time) {
        self.settle(d, until);
        let pieces = mem::take(&mut self.segments);
        self.devices.trace_causes(env, d, &pieces);
        self.segments = pieces;
    }

    /// Accounts for the activities of job copy `j` up to the end of its last complete step. Activities for later steps are cut off
    /// there; devices that finished early have nothing left to do.
    pub(super) fn close_open(&mut self, j: JobId) {
        let end = self.jobs[j].steps.last_end();
        let devices = self.jobs[j].parts.devices;
        // These waits also explain waits of other devices.
        for d in devices {
            let device = &self.devices[d];
            let (step, account) = (device.step(), &device.account);
            let swaps =
                device.op.waits() && device.stage == 0 && self.op_of(d) == Some(Op::AwaitSwap);
            if account.clock() < end && (swaps || account.state() == State::Starving) {
                self.settle(d, end);
                let input = &mut self.devices[d].input;
                self.segments.iter().for_each(|piece| input.note_wait(step, *piece));
            }
        }
        for d in devices {
            self.settle(d, end);
        }
    }

    /// Ends the wait of device `d` for the input of `op`, if it waited, and takes the input.
    pub(super) fn end_wait(&mut self, now: Time, d: DeviceId, op: Op) {
        if self.devices[d].op.waits() {
            let since = self.devices[d].account.clock();
            self.settle(d, now);
            let device = &mut self.devices[d];
            device.op.end_wait();
            if op == Op::AwaitSwap {
                device.note_work(now);
                self.remember_swap(d, (since, now));
            }
        }
        if let Op::Receive(input) = op {
            self.part(d).use_input(input);
        }
    }

    /// Remembers the wait of device `d` for a swap, which also explains the stalls of devices that waited for the model copy of
    /// `d`.
    fn remember_swap(&mut self, d: DeviceId, wait: Wait) {
        let device = &mut self.devices[d];
        let step = device.step();
        if device.stage == 0 {
            device.input.forget_waits(|of, _| of + 1 >= step);
            device.input.note_wait(step, own(Cause::Swap, wait));
        }
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
            let slowest = *slowest.get_or_insert_with(|| self.causes().slowest_chain(j, last));
            self.causes().of_step_end(d, (since, env.now), slowest, &mut pieces);
            pieces.iter().for_each(|piece| self.charge(d, piece.end, piece.cause));
            self.devices.trace_causes(env, d, &pieces);
        }
        self.segments = pieces;
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
