//! A crew of learners on a GPU: each submits its steps to a stream of its own without waiting for their ends.

use super::batch::{Batch, Beginning, network_of, placed};
use super::call::{Cuda, Gpu, Mark, Recording};
use super::crew::{Crew, Wanted};
use super::numerics::{Device, numbers_of};
use super::program::{Call, Precision, Program};
use super::{Form, Lanes, Training, survey};
use crate::probe::ProbeError;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Learners of one network on one GPU, and the lanes through which batches are copied to them.
pub struct Learners {
    /// The learners; each can be used by a thread of its own.
    pub learners: Vec<Learner>,
    /// The lanes through which batches are copied to the GPU.
    pub lanes: Arc<Lanes>,
}

impl Learners {
    /// Sets up the learners on their GPU, all with the same initial parameters.
    ///
    /// # Errors
    /// If the driver, a library or memory is missing, or something fails.
    pub fn new(of: &Training<'_>) -> Result<Learners, ProbeError> {
        survey::ready(of.gpu).map_err(ProbeError::Machine)?;
        Learners::on(&Gpu::open(of.gpu)?, of)
    }

    pub(super) fn on(gpu: &Gpu, of: &Training<'_>) -> Result<Learners, ProbeError> {
        let network = network_of(of.model)?;
        let mut parameters = None;
        Learners::begun(gpu, of, &mut |program, samples, number| {
            let drawn = || Batch::invent(&network, 1, of.seed).parameters;
            let placed = || Rc::new(placed(program.parameters, &program.blocks, &drawn()));
            let seed = of.seed.wrapping_add(number as u64);
            let batch = Rc::new(Batch::invent(&network, samples, seed));
            (Rc::clone(parameters.get_or_insert_with(placed)), batch)
        })
    }

    /// Sets up the learners. `begin(program, samples, number)` returns what learner `number` begins with in the program for batches of
    /// `samples`.
    pub(super) fn begun(
        gpu: &Gpu,
        of: &Training<'_>,
        begin: &mut dyn FnMut(&Program, usize, usize) -> Beginning,
    ) -> Result<Learners, ProbeError> {
        let network = network_of(of.model)?;
        let wanted = Wanted {
            batches: of.batches,
            precision: of.precision,
            learners: of.learners.max(1),
            arrivals: (of.lanes, of.bytes),
        };
        let crew = Arc::new(Crew::new(&network, wanted));
        let mut first = Cuda::new(gpu, crew.bytes, of.precision)?;
        for (number, programs) in crew.learners.iter().enumerate() {
            for (program, &samples) in programs.iter().zip(of.batches) {
                let (parameters, batch) = begin(program, samples, number);
                batch.copy(&mut first, program)?;
                first.write(program.parameters, &parameters)?;
                first.run(&program.feed)?;
                first.run(&program.settle)?;
            }
        }
        first.run(&crew.gather())?;
        first.wait()?;
        let meeting = Arc::new(Meeting::new(&crew, of, first.beside()?));
        let lanes = Arc::new(Lanes::new(gpu, first.line(), &crew.arrivals, of.bytes)?);
        let mut learners = Vec::new();
        for number in 0..crew.learners.len() {
            let cuda = first.beside()?;
            learners.push(Learner::new(cuda, &crew, number, of, &meeting, &lanes)?);
        }
        Ok(Learners { learners, lanes })
    }
}

/// Averaging of the replicas of all learners every few steps, on a separate stream.
struct Meeting {
    every: u64,
    calls: Vec<Call>,
    present: usize,
    state: Mutex<State>,
}

struct State {
    cuda: Cuda,
    /// Marks at the end of the last step before the next averaging, one for each learner that has submitted this
    /// step.
    marks: Vec<Mark>,
    /// Mark at the end of the last averaging.
    agreed: Option<Mark>,
}

impl Meeting {
    fn new(crew: &Crew, of: &Training<'_>, cuda: Cuda) -> Meeting {
        let share = 1.0 / crew.learners.len().max(1) as f32;
        let state = Mutex::new(State { cuda, marks: Vec::new(), agreed: None });
        let calls = of.agree_every.map_or(Vec::new(), |_| crew.agree(share, of.keep));
        let every = of.agree_every.unwrap_or(1).max(1);
        Meeting { every, calls, present: crew.learners.len(), state }
    }

    /// Records that a learner has submitted step `number`, which ends at `mark`. If averaging is due after this
    /// step and all learners have submitted the step, submits the averaging, which waits for the ends of these
    /// steps.
    fn come(&self, number: u64, mark: &Mark) -> Result<(), ProbeError> {
        if self.calls.is_empty() || !(number + 1).is_multiple_of(self.every) {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.marks.push(mark.clone());
        if state.marks.len() < self.present {
            return Ok(());
        }
        let State { cuda, marks, agreed } = &mut *state;
        for mark in marks.drain(..) {
            cuda.line().after(&mark)?;
        }
        cuda.run(&self.calls)?;
        *agreed = Some(cuda.mark()?);
        Ok(())
    }

    /// Returns the mark at the end of the last averaging; `None` before the first.
    fn agreed(&self) -> Option<Mark> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).agreed.clone()
    }
}

/// A learner on a stream of its own.
pub struct Learner {
    cuda: Cuda,
    crew: Arc<Crew>,
    number: usize,
    /// For each batch size: samples, calls of a step, and their CUDA graph if steps are recorded.
    ways: Vec<(usize, Vec<Call>, Option<Recording>)>,
    meeting: Arc<Meeting>,
    lanes: Arc<Lanes>,
    /// Whether this learner itself starts the copies of its batches, because no other thread does.
    brings: bool,
    /// Form of the samples in a batch.
    form: Form,
    /// Steps whose end the learner has not waited for yet: number of the step, and mark at its end.
    ends: VecDeque<(u64, Mark)>,
    /// End of the last step that the learner has waited for: the mark at this end (GPU's clock), and its time by
    /// the host's clock.
    last: (Mark, Instant),
}

impl Learner {
    fn new(
        mut cuda: Cuda,
        crew: &Arc<Crew>,
        number: usize,
        of: &Training<'_>,
        meeting: &Arc<Meeting>,
        lanes: &Arc<Lanes>,
    ) -> Result<Learner, ProbeError> {
        let mut ways = Vec::new();
        for (program, &samples) in crew.learners[number].iter().zip(of.batches) {
            let calls: Vec<Call> = program.step().cloned().collect();
            // The first run chooses algorithms and allocates memory.
            cuda.run(&calls)?;
            let recording = of.graph.then(|| cuda.record(&calls)).transpose()?;
            ways.push((samples, calls, recording));
        }
        let mark = cuda.mark()?;
        mark.wait()?;
        let last = (mark, Instant::now());
        let (crew, meeting, lanes) = (Arc::clone(crew), Arc::clone(meeting), Arc::clone(lanes));
        let (brings, form, ends) = (of.brings, of.form, VecDeque::new());
        Ok(Learner { cuda, crew, number, ways, meeting, lanes, brings, form, ends, last })
    }

    /// Submits step number `step` over a batch of `samples` to the stream. Takes a new batch if `fresh`,
    /// otherwise the step uses the last batch again. `content` has the bytes of the new batch if learners start
    /// the copies of their batches themselves.
    ///
    /// # Errors
    /// If something fails on the GPU.
    pub fn begin<T: AsRef<[u8]>>(
        &mut self,
        step: u64,
        samples: usize,
        fresh: bool,
        content: &[T],
    ) -> Result<(), ProbeError> {
        let way = self.ways.iter().position(|(of, ..)| *of == samples).unwrap_or(0);
        if let Some(agreed) = self.meeting.agreed() {
            self.cuda.line().after(&agreed)?;
        }
        if fresh {
            self.take(way, content)?;
        }
        let (_, calls, recording) = &self.ways[way];
        match recording {
            Some(recording) => self.cuda.replay(recording)?,
            None => self.cuda.run(calls)?,
        }
        let end = self.cuda.mark()?;
        self.meeting.come(step, &end)?;
        self.ends.push_back((step, end));
        Ok(())
    }

    /// Takes a batch from the lanes, if there is one, and submits the calls that put it into the network's
    /// input once its copy has ended.
    fn take<T: AsRef<[u8]>>(&mut self, way: usize, content: &[T]) -> Result<(), ProbeError> {
        if self.brings {
            self.lanes.send(content)?;
        }
        let Some(batch) = self.lanes.take() else { return Ok(()) };
        self.cuda.line().after(&batch.arrived)?;
        let program = &self.crew.learners[self.number][way];
        let place = self.crew.arrivals[batch.lane];
        let batch_of = (self.lanes.bytes(), self.form);
        self.cuda.run(&self.crew.feed(program, place, batch_of))?;
        self.lanes.give(batch.lane, self.cuda.mark()?);
        Ok(())
    }

    /// Waits until the GPU has finished step number `step`; returns when that was, by the GPU's clock.
    ///
    /// # Errors
    /// If something fails on the GPU.
    pub fn end(&mut self, step: u64) -> Result<Instant, ProbeError> {
        while let Some((_, end)) = self.ends.pop_front_if(|(number, _)| *number <= step) {
            end.wait()?;
            self.passed(end)?;
        }
        Ok(self.last.1)
    }

    /// Returns when the GPU finished step number `step`; `None` if it has not finished it yet.
    ///
    /// # Errors
    /// If something fails on the GPU.
    pub fn ended(&mut self, step: u64) -> Result<Option<Instant>, ProbeError> {
        let of_step = self.ends.iter().rev().find(|(number, _)| *number <= step);
        let passed = of_step.map_or(Ok(true), |(_, end)| end.is_passed())?;
        if passed { self.end(step).map(Some) } else { Ok(None) }
    }

    /// Records that the GPU has reached `end`, the mark at the end of a step, and computes the time of this end
    /// by the host's clock.
    fn passed(&mut self, end: Mark) -> Result<(), ProbeError> {
        let later = Duration::from_secs_f64(end.since(&self.last.0)?.max(0.0));
        // The clocks of GPU and host drift apart by some millionths, so the computed time may lie in the
        // future; but the host has already seen the end.
        let when = (self.last.1 + later).min(Instant::now());
        self.last = (end, when);
        Ok(())
    }

    /// Returns the loss of the last step on a full batch.
    ///
    /// # Errors
    /// If something fails on the GPU.
    pub fn loss(&mut self) -> Result<f64, ProbeError> {
        let slot = self.crew.learners[self.number][0].loss;
        let loss = numbers_of(&mut self.cuda, slot, 1, Precision::Fp32)?;
        Ok(loss.first().copied().unwrap_or(f64::NAN))
    }

    /// Returns the input of the last step on a full batch, as numbers of 4 bytes.
    #[cfg(test)]
    pub(super) fn input(&mut self) -> Result<Vec<f64>, ProbeError> {
        let slot = self.crew.learners[self.number][0].input;
        let values = slot.bytes() / 4;
        numbers_of(&mut self.cuda, slot, values, Precision::Fp32)
    }
}
