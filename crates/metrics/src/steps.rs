//! Steps that a job copy has completed, and the waits of its devices meanwhile.

use forebay_engine::{Span, Time};
use forebay_report::{QueueTotals, Stall, StallCause, StepOutcome};

use super::timeline::Segment;
use std::ops::Range;

/// The steps of a job copy and their stalls.
///
/// Time that is added counts for the step in progress. If the time began before the end of the last complete step, it is split
/// among the steps in which it lies.
#[derive(Debug)]
pub struct Steps {
    complete: Vec<StepOutcome>,
    stalls: Vec<Stall>,
    fresh: u64,
    /// Stalls of the step in progress by cause [device·s].
    open_stalls: Vec<(StallCause, f64)>,
    open_compute: f64,
    open_fresh: u64,
    /// Ends of complete steps.
    ends: Vec<Time>,
    /// End of the last complete step; the start of the job copy if no step is complete.
    last_end: Time,
    /// Factor for the computing and waiting times of a device: more than 1 if not all devices are in use.
    weight: f64,
    repeated: Option<Repeated>,
}

/// Steps that were not simulated, because they repeat the steps before them.
#[derive(Debug, Clone, Copy)]
struct Repeated {
    /// Number of complete steps before these steps.
    after: usize,
    /// Length of the cycle [steps]: the last steps before these. It is repeated `times` times and takes `span`.
    cycle: usize,
    times: u64,
    span: Span,
}

impl Steps {
    /// Creates the record of a job copy that begins at `start`, without any step.
    pub fn new(start: Time) -> Steps {
        Steps {
            complete: Vec::new(),
            stalls: Vec::new(),
            fresh: 0,
            open_stalls: Vec::new(),
            open_compute: 0.0,
            open_fresh: 0,
            ends: Vec::new(),
            last_end: start,
            weight: 1.0,
            repeated: None,
        }
    }

    /// Records that from now on only the share `share` of the devices is in use; the time of all devices up to now must have
    /// been added before.
    pub fn share_among(&mut self, share: f64) {
        self.weight = 1.0 / share;
    }

    /// Returns the number of complete steps.
    #[inline]
    pub fn completed(&self) -> u64 {
        self.complete.len() as u64
    }

    /// Returns the number of fresh samples in complete steps.
    pub fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Returns the number of fresh samples in the first `steps` complete steps.
    pub fn fresh_in(&self, steps: u64) -> u64 {
        let later = self.complete[steps as usize..].iter();
        self.fresh - later.map(|step| step.fresh).sum::<u64>()
    }

    /// Returns the end of the last complete step, or the start of the job copy.
    pub fn last_end(&self) -> Time {
        self.last_end
    }

    /// Adds fresh samples that a device took to the step in progress.
    #[inline]
    pub fn add_fresh(&mut self, samples: u64) {
        self.open_fresh += samples;
    }

    /// Adds a device's wait; its time is split over the steps that it fell into.
    pub fn add_stall(&mut self, mut segment: Segment) {
        while segment.start < self.last_end && segment.start < segment.end {
            let (step, end) = self.step_at(segment.start);
            let until = end.min(segment.end);
            let seconds = self.weight * until.since(segment.start).seconds();
            self.stalls.push(Stall { step, cause: segment.cause, seconds });
            segment.start = until;
        }
        let seconds = self.weight * segment.end.since(segment.start).seconds();
        if seconds == 0.0 {
            return;
        }
        match self.open_stalls.iter_mut().find(|(cause, _)| *cause == segment.cause) {
            Some((_, sum)) => *sum += seconds,
            None => self.open_stalls.push((segment.cause, seconds)),
        }
    }

    /// Adds a device's computing; its time is split over the steps that it fell into.
    pub fn add_compute(&mut self, mut start: Time, end: Time) {
        while start < self.last_end && start < end {
            let (step, step_end) = self.step_at(start);
            let until = step_end.min(end);
            self.complete[step as usize].compute += self.weight * until.since(start).seconds();
            start = until;
        }
        self.open_compute += self.weight * end.since(start).seconds();
    }

    /// Returns the complete step in which `instant` lies, and the end of that step.
    fn step_at(&self, instant: Time) -> (u32, Time) {
        let step = self.ends.partition_point(|end| *end <= instant);
        (step as u32, self.ends[step])
    }

    /// Completes the step in progress: all devices have finished it. It trained on `samples`, and the run had handled `events`
    /// events by then.
    pub fn complete(&mut self, now: Time, samples: u64, queue: QueueTotals, events: u64) {
        self.fresh += self.open_fresh;
        let step = self.complete.len() as u32;
        let stalls = self.open_stalls.drain(..);
        self.stalls.extend(stalls.map(|(cause, seconds)| Stall { step, cause, seconds }));
        self.complete.push(StepOutcome {
            end: now.seconds(),
            compute: std::mem::take(&mut self.open_compute),
            samples,
            fresh: std::mem::take(&mut self.open_fresh),
            queue,
            events,
        });
        self.ends.push(now);
        self.last_end = now;
    }

    /// Discards all steps after the first `steps` complete ones, with their stalls, because the work of these steps is lost; the
    /// steps that are left trained on `fresh` fresh samples. The job copy began at `start`.
    pub fn roll_back(&mut self, steps: u64, fresh: u64, start: Time) {
        let kept = steps as usize;
        self.complete.truncate(kept);
        self.ends.truncate(kept);
        self.stalls.retain(|stall| u64::from(stall.step) < steps);
        self.open_stalls.clear();
        (self.open_compute, self.open_fresh) = (0.0, 0);
        self.fresh = self.complete.iter().map(|step| step.fresh).sum();
        self.last_end = self.ends.last().copied().unwrap_or(start);
        self.take_back(self.fresh - fresh);
    }

    /// Subtracts `samples` from the fresh samples of the complete steps, last step first: devices had taken these samples for
    /// steps that are lost.
    fn take_back(&mut self, mut samples: u64) {
        for step in self.complete.iter_mut().rev() {
            let part = step.fresh.min(samples);
            step.fresh -= part;
            samples -= part;
            self.fresh -= part;
        }
    }

    /// Returns the steps completed so far, while the job goes on; computing times are means over `devices` devices.
    pub fn so_far(&self, devices: usize) -> Vec<StepOutcome> {
        let of = |step: &StepOutcome| StepOutcome {
            compute: step.compute / devices.max(1) as f64,
            ..*step
        };
        self.complete.iter().map(of).collect()
    }

    /// Whether the last `cycle` steps took exactly as long as the `cycle` steps before them, with the same computation, waits,
    /// samples and numbers of events.
    pub fn repeats(&mut self, cycle: u64) -> bool {
        // Waits that were charged late lie behind those of later steps.
        self.stalls.sort_by_key(|stall| stall.step);
        let (end, cycle) = (self.complete.len(), cycle as usize);
        if end <= 2 * cycle {
            return false;
        }
        let alike = |step: usize| {
            let before = step - cycle;
            let [a, b] = [step, before].map(|of| (&self.complete[of], &self.complete[of - 1]));
            let span = |of: usize| self.ends[of].since(self.ends[of - 1]);
            let gained = |(of, last): (&StepOutcome, &StepOutcome)| {
                let queue = of.queue.since(last.queue);
                let counts = [queue.started, queue.enqueued, queue.dequeued];
                (of.samples, of.fresh, of.events - last.events, of.compute.to_bits(), counts)
            };
            span(step) == span(before) && gained(a) == gained(b)
        };
        (end - cycle..end).all(alike)
            && self.stalls_of(end - cycle..end).eq(self
                .stalls_of(end - 2 * cycle..end - cycle)
                .map(|(step, cause, seconds)| (step + cycle, cause, seconds)))
    }

    /// Returns the stalls of `steps`, with their durations as bits, so that equal means equal to the last bit.
    fn stalls_of(&self, steps: Range<usize>) -> impl Iterator<Item = (usize, StallCause, u64)> {
        let first = self.stalls.partition_point(|of| (of.step as usize) < steps.start);
        self.stalls[first..].iter().map_while(move |of| {
            let step = of.step as usize;
            (step < steps.end).then_some((step, of.cause, of.seconds.to_bits()))
        })
    }

    /// Returns the duration of the last `cycle` steps.
    pub fn span_of_last(&self, cycle: u64) -> Span {
        let last = self.ends.len() - 1;
        self.ends[last].since(self.ends[last - cycle as usize])
    }

    /// Returns the number of fresh samples in the last `cycle` steps.
    pub fn fresh_in_last(&self, cycle: u64) -> u64 {
        let first = self.complete.len() - cycle as usize;
        self.complete[first..].iter().map(|step| step.fresh).sum()
    }

    /// Returns the number of events in the last `cycle` steps; there is a step before them.
    pub fn events_in_last(&self, cycle: u64) -> u64 {
        let last = self.complete.len() - 1;
        self.complete[last].events - self.complete[last - cycle as usize].events
    }

    /// Records that the last `cycle` steps are repeated `times` times before the step in progress. The numbers and times of later steps
    /// do not include the repetitions until [`Steps::finish`] adds them.
    pub fn repeat(&mut self, cycle: u64, times: u64) {
        let (after, span) = (self.complete.len(), self.span_of_last(cycle));
        self.repeated = Some(Repeated { after, cycle: cycle as usize, times, span });
    }

    /// Adds the repetitions of steps that were left out.
    fn add_repeated(&mut self) {
        let Some(Repeated { after, cycle, times, span }) = self.repeated.take() else { return };
        let later = |end: Time, cycles: u64| Time(end.0 + span.0 * cycles).seconds();
        let queue = self.complete[after - 1].queue.since(self.complete[after - 1 - cycle].queue);
        let tail = self.complete.split_off(after);
        let events = self.complete[after - 1].events;
        self.complete.reserve(cycle * times as usize + tail.len());
        for (again, step) in (1..=times).flat_map(|n| (after - cycle..after).map(move |s| (n, s))) {
            let mut repeated = StepOutcome { events, ..self.complete[step] };
            repeated.end = later(self.ends[step], again);
            repeated.queue += queue.times(again);
            self.complete.push(repeated);
        }
        let ends = self.ends[after..].iter();
        let tail = tail.into_iter().zip(ends);
        self.complete.extend(tail.map(|(of, end)| StepOutcome { end: later(*end, times), ..of }));
        self.stalls.sort_by_key(|stall| stall.step);
        let first = self.stalls.partition_point(|of| (of.step as usize) < after - cycle);
        let until = self.stalls.partition_point(|of| (of.step as usize) < after);
        let tail = self.stalls.split_off(until);
        let by =
            |of: Stall, cycles: u64| Stall { step: of.step + cycle as u32 * cycles as u32, ..of };
        for again in 1..=times {
            (first..until).for_each(|at| self.stalls.push(by(self.stalls[at], again)));
        }
        self.stalls.extend(tail.into_iter().map(|of| by(of, times)));
    }

    /// Returns the complete steps and their stalls in order, with times as means over `devices`.
    pub fn finish(&mut self, devices: usize) -> (Vec<StepOutcome>, Vec<Stall>) {
        self.add_repeated();
        let devices = devices.max(1) as f64;
        let (mut steps, mut stalls) =
            (std::mem::take(&mut self.complete), std::mem::take(&mut self.stalls));
        steps.iter_mut().for_each(|step| step.compute /= devices);
        stalls.iter_mut().for_each(|stall| stall.seconds /= devices);
        // Devices of a pipeline report a step's waits after its end.
        stalls.sort_by_key(|stall| (stall.step, stall.cause));
        (steps, stalls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_report::Cause;

    const S: u64 = 1_000_000_000_000;

    #[test]
    fn rolled_back_training_steps_and_their_waits_are_deleted_from_the_record() {
        // System: steps end at 2 s, 5 s and 6 s with waits in each; the first one is kept. Expectation: the same record as if
        // only the first step had been done.
        let mut steps = Steps::new(Time(S));
        let cause = StallCause::own(Cause::Latency);
        for (start, end) in [(1, 2), (2, 5), (5, 6)] {
            steps.add_fresh(8);
            steps.add_stall(Segment { start: Time(start * S), end: Time(end * S), cause });
            steps.complete(Time(end * S), 8, QueueTotals::default(), 0);
        }
        steps.add_fresh(8);
        steps.add_compute(Time(6 * S), Time(7 * S));
        steps.roll_back(1, 8, Time(S));
        assert_eq!((steps.completed(), steps.fresh(), steps.last_end()), (1, 8, Time(2 * S)));
        steps.complete(Time(9 * S), 8, QueueTotals::default(), 0);
        let (complete, stalls) = steps.finish(1);
        assert_eq!((complete[1].compute, complete[1].fresh, stalls.len()), (0.0, 0, 1));
        let mut none = Steps::new(Time(S));
        none.complete(Time(2 * S), 8, QueueTotals::default(), 0);
        none.roll_back(0, 0, Time(S));
        assert_eq!((none.completed(), none.last_end()), (0, Time(S)));
    }

    #[test]
    fn fresh_samples_of_rolled_back_steps_are_subtracted_from_the_last_steps() {
        // System: steps that took 24, 8 and 8 fresh samples, of which 12 were for steps that are lost. Expectation: 28 are left,
        // also if the job goes back to these steps once more.
        let mut steps = Steps::new(Time(0));
        for (end, fresh) in [(1, 24), (2, 8), (3, 8)] {
            steps.add_fresh(fresh);
            steps.complete(Time(end * S), 8, QueueTotals::default(), 0);
        }
        assert_eq!([1, 2, 3].map(|until| steps.fresh_in(until)), [24, 32, 40]);
        for _ in 0..2 {
            steps.roll_back(3, 28, Time(0));
            assert_eq!(steps.fresh(), 28);
        }
        let fresh: Vec<u64> = steps.finish(1).0.iter().map(|step| step.fresh).collect();
        assert_eq!(fresh, [24, 4, 0]);
    }

    #[test]
    fn late_stalls_are_divided_among_the_steps_that_they_overlap() {
        // System: steps end at 2 s and 5 s; one of two devices waited from 1 s to 6 s and computed from 0 s to 1 s, reported at 6
        // s. Expectation: 1 s, 3 s and 1 s of waiting, halved.
        let mut steps = Steps::new(Time(0));
        steps.add_fresh(8);
        steps.complete(Time(2 * S), 16, QueueTotals::default(), 0);
        steps.complete(Time(5 * S), 16, QueueTotals::default(), 0);
        assert_eq!((steps.completed(), steps.fresh(), steps.last_end()), (2, 8, Time(5 * S)));
        let cause = StallCause::own(Cause::Transfer);
        steps.add_stall(Segment { start: Time(S), end: Time(6 * S), cause });
        steps.add_compute(Time(0), Time(S));
        steps.complete(Time(7 * S), 16, QueueTotals::default(), 0);
        let (steps, stalls) = steps.finish(2);
        let stalls: Vec<(u32, f64)> = stalls.iter().map(|s| (s.step, s.seconds)).collect();
        assert_eq!(stalls, [(0, 0.5), (1, 1.5), (2, 0.5)]);
        let compute: Vec<f64> = steps.iter().map(|step| step.compute).collect();
        assert_eq!(compute, [0.5, 0.0, 0.0]);
        assert_eq!(steps.iter().map(|step| step.fresh).collect::<Vec<_>>(), [8, 0, 0]);
    }

    /// Completes a step of `S` × `seconds` with a wait of a second, the samples that the queue has handed out by then, and 10 events.
    fn step(steps: &mut Steps, seconds: u64) {
        let (begin, number) = (steps.last_end(), steps.completed());
        let (waited, end) = (Time(begin.0 + S), Time(begin.0 + seconds * S));
        steps.add_fresh(8);
        let cause = StallCause::own(Cause::Latency);
        steps.add_stall(Segment { start: begin, end: waited, cause });
        steps.add_compute(waited, end);
        let queue = QueueTotals { dequeued: 8 * (number + 1), ..QueueTotals::default() };
        steps.complete(end, 8, queue, 10 * (number + 1));
    }

    #[test]
    fn repeated_steps_are_recorded_as_if_they_had_been_done() {
        // System: steps of 9 s, and then of 2 s and 3 s in turn; 17 of these pairs are done, or 3 of them, 10 left out, and 4.
        // Expectation: the steps repeat after three pairs and not before, and both records are the same but for events.
        let (mut full, mut short) = (Steps::new(Time(S)), Steps::new(Time(S)));
        for steps in [&mut full, &mut short] {
            step(steps, 9);
        }
        for pair in 0..17 {
            step(&mut full, 2);
            step(&mut full, 3);
            if !(3..13).contains(&pair) {
                step(&mut short, 2);
                assert!(!short.repeats(1));
                step(&mut short, 3);
                assert!(!short.repeats(1) && short.repeats(2) == (pair > 0));
            }
            if pair == 2 {
                assert_eq!((short.span_of_last(2), short.fresh_in_last(2)), (Span(5 * S), 16));
                let before = short.complete.last().expect("a step").queue;
                short.repeat(2, 10);
                // Queues count what is left out themselves.
                assert_eq!(before.dequeued, 56);
            }
        }
        let (mut short, short_stalls) = short.finish(1);
        let (mut full, full_stalls) = full.finish(1);
        // Steps after those left out have the totals of a queue that counts them; here it does not.
        short[27..].iter_mut().for_each(|step| step.queue.dequeued += 160);
        for step in short.iter_mut().chain(&mut full) {
            step.events = 0;
        }
        assert_eq!(short, full);
        assert_eq!(short_stalls, full_stalls);
    }
}
