//! Times training steps on a GPU and copies from the host to the GPU.

use super::batch::{Batch, Beginning, network_of, placed};
use super::call::{Cuda, Gpu, Recording, Stopwatch};
use super::compile::compile_in;
use super::copies::Sources;
use super::crew::fill;
use super::numerics::{self, Device, Difference, numbers_of};
use super::program::{Call, Memory, Program};
use super::survey::Pulse;
use super::{Copied, Copies, Precision, Steps, Task, averaged, copies, survey, whole};
use crate::probe::ProbeError;
use crate::probe::fresh::Decoding;
use forebay_networks as network;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// A GPU on which training steps and copies are timed.
#[derive(Debug)]
pub(in crate::probe) struct Board {
    pub(super) number: usize,
    pub(super) gpu: Gpu,
    pub(super) pulse: Pulse,
    pub(super) begun: Begun,
    pub(super) sources: RefCell<Sources>,
}

/// Initial parameters and batches, generated once, because generating them takes longer than many trials.
#[derive(Default)]
pub(super) struct Begun {
    /// Content of the slot of parameters at the beginning, by network. It does not depend on the batch size and the precision.
    parameters: RefCell<BTreeMap<String, Rc<Vec<u8>>>>,
    /// Batches by network and batch size; their parameters are empty.
    batches: RefCell<BTreeMap<(String, usize), Rc<Batch>>>,
}

impl std::fmt::Debug for Begun {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} networks", self.parameters.borrow().len())
    }
}

impl Begun {
    /// Returns the content of the slot of parameters and the batch with which the program of a task begins.
    pub(super) fn of(
        &self,
        network: &network::Network,
        program: &Program,
        task: Task<'_>,
    ) -> Beginning {
        let mut batches = self.batches.borrow_mut();
        let mut parameters = self.parameters.borrow_mut();
        let batch = batches.entry((task.model.to_owned(), task.batch)).or_insert_with(|| {
            let mut batch = Batch::invent(network, task.batch, task.seed);
            let drawn = std::mem::take(&mut batch.parameters);
            parameters
                .entry(task.model.to_owned())
                .or_insert_with(|| Rc::new(placed(program.parameters, &program.blocks, &drawn)));
            Rc::new(batch)
        });
        (parameters.get(task.model).cloned().unwrap_or_default(), Rc::clone(batch))
    }
}

impl Board {
    /// Opens GPU number `number`.
    pub(in crate::probe) fn open(number: usize) -> Result<Board, ProbeError> {
        survey::ready(number).map_err(ProbeError::Machine)?;
        let (gpu, pulse) = (Gpu::open(number)?, Pulse::new(number));
        Ok(Board { number, gpu, pulse, begun: Begun::default(), sources: RefCell::default() })
    }

    /// Returns the GPU's free memory [B].
    pub(in crate::probe) fn free(&self) -> Result<usize, ProbeError> {
        Ok(self.gpu.memory()?.0)
    }

    /// Compares the results of each operator, and of small networks as a whole, with those of the cores; returns
    /// the differences.
    pub(in crate::probe) fn check(
        &self,
        precision: Precision,
        seed: u64,
    ) -> Result<Vec<Difference>, ProbeError> {
        let mut open = |bytes, precision| -> Result<Box<dyn Device>, ProbeError> {
            Ok(Box::new(Cuda::new(&self.gpu, bytes, precision)?))
        };
        let mut found = numerics::operators(&mut open, precision, seed)?;
        for (name, of) in whole::networks() {
            found.extend(whole::network(&mut open, name, &of, 16, precision, seed)?);
            found.extend(whole::training(&mut open, name, &of, (16, 10), precision, seed)?);
            found.push(whole::repeated(&mut open, name, &of, (16, 10), precision, seed)?);
        }
        Ok(found)
    }

    /// Trains for about `length` seconds, but at least three steps.
    pub(in crate::probe) fn train(&self, task: Task<'_>, length: f64) -> Result<Steps, ProbeError> {
        if let Some(every) = task.average_every {
            return averaged::train(self, task, every, length);
        }
        let before = self.free()?;
        let mut learners = self.learners(task)?;
        let each = warm_up(&mut learners, task.graph)?;
        let memory_taken = before.saturating_sub(self.free()?);
        let rounds = (length / each).clamp(3.0, 10_000.0) as u64;
        let mut watch = Stopwatch::default();
        let beat = self.pulse.look();
        let start = Instant::now();
        for _ in 0..rounds {
            watch.mark(learners[0].cuda.line())?;
            learners.iter_mut().try_for_each(Learner::step)?;
        }
        watch.mark(learners[0].cuda.line())?;
        learners.iter().try_for_each(|learner| learner.cuda.wait())?;
        let seconds = start.elapsed().as_secs_f64();
        let beats = beat.zip(self.pulse.look());
        let (laps, loss) = (watch.laps()?, learners[0].loss()?);
        let memory = learners[0].program.bytes;
        Ok(Steps { rounds, seconds, laps, loss, memory, memory_taken, beats })
    }

    /// Makes the learners of a task, each with a stream and memory of its own.
    fn learners(&self, task: Task<'_>) -> Result<Vec<Learner>, ProbeError> {
        let network = network_of(task.model)?;
        let mut memory = Memory::default();
        let program = compile_in(&mut memory, &network, task.batch, task.precision);
        let begun = self.begun.of(&network, &program, task);
        let (content, form) = begun.1.arriving(network.feed);
        let arrival = memory.keep(content.len());
        let take = fill(network.feed, &program, arrival, (content.len(), form));
        let learner = |_| {
            let mut cuda = Cuda::new(&self.gpu, memory.bytes(), program.precision)?;
            cuda.write(arrival, &content)?;
            Learner::new(cuda, program.clone(), &begun, take.clone())
        };
        (0..task.learners).map(learner).collect()
    }

    /// Times copies from the host to the GPU, alone or during training, decoding, or both.
    pub(in crate::probe) fn copy(
        &self,
        of: Copies<'_>,
        decoding: Option<&Decoding>,
    ) -> Result<Copied, ProbeError> {
        let Some(task) = of.beside else { return copies::time(self, of, decoding) };
        let mut learners = self.learners(Task { learners: 1, ..task })?;
        let step_alone = warm_up(&mut learners, task.graph)?;
        let mut learner = learners.remove(0);
        let over = AtomicBool::new(false);
        thread::scope(|threads| {
            let (over, learner) = (&over, &mut learner);
            let keep_busy = move || {
                let start = Instant::now();
                Ok((learner.keep_busy(over)?, start.elapsed().as_secs_f64()))
            };
            let steps = thread::Builder::new()
                .spawn_scoped(threads, keep_busy)
                .map_err(|source| ProbeError::Threads { threads: 1, source })?;
            let copied = copies::time(self, of, decoding);
            over.store(true, Ordering::Relaxed);
            let lost = |_| ProbeError::Machine("the thread that trains has failed".to_owned());
            let (steps, training) = steps.join().map_err(lost)??;
            Ok(Copied { steps, training, step_alone, ..copied? })
        })
    }
}

/// Runs steps to warm up: the first one chooses algorithms and allocates memory. Returns the time of a round,
/// which is one step of each learner [s].
fn warm_up(learners: &mut [Learner], graph: bool) -> Result<f64, ProbeError> {
    const ROUNDS: u32 = 3;
    learners.iter_mut().try_for_each(Learner::step)?;
    if graph {
        learners.iter_mut().try_for_each(Learner::record)?;
    }
    learners.iter().try_for_each(|learner| learner.cuda.wait())?;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        learners.iter_mut().try_for_each(Learner::step)?;
    }
    learners.iter().try_for_each(|learner| learner.cuda.wait())?;
    Ok((start.elapsed().as_secs_f64() / f64::from(ROUNDS)).max(1e-6))
}

/// A network in training on a stream of its own.
struct Learner {
    cuda: Cuda,
    program: Program,
    /// Calls that take a batch which lies in the GPU's memory, as each step of a live run does first.
    take: Vec<Call>,
    calls: Vec<Call>,
    recording: Option<Recording>,
}

impl Learner {
    fn new(
        mut cuda: Cuda,
        program: Program,
        (parameters, batch): &Beginning,
        take: Vec<Call>,
    ) -> Result<Learner, ProbeError> {
        batch.copy(&mut cuda, &program)?;
        cuda.write(program.parameters, parameters)?;
        cuda.run(&program.feed)?;
        cuda.run(&program.settle)?;
        let calls = program.step().cloned().collect();
        Ok(Learner { cuda, program, take, calls, recording: None })
    }

    /// Records a step as a CUDA graph, which all later steps launch.
    fn record(&mut self) -> Result<(), ProbeError> {
        self.recording = Some(self.cuda.record(&self.calls)?);
        Ok(())
    }

    /// Submits a step to the stream without waiting for its end.
    fn step(&mut self) -> Result<(), ProbeError> {
        self.cuda.run(&self.take)?;
        match &self.recording {
            Some(recording) => self.cuda.replay(recording),
            None => self.cuda.run(&self.calls),
        }
    }

    /// Trains until `over` is set, at most two steps ahead of the GPU; returns the number of steps.
    fn keep_busy(&mut self, over: &AtomicBool) -> Result<u64, ProbeError> {
        let (mut steps, mut marks) = (0, VecDeque::new());
        while !over.load(Ordering::Relaxed) {
            self.step()?;
            steps += 1;
            marks.push_back(self.cuda.mark()?);
            if let Some(mark) = marks.pop_front_if(|_| steps > 2) {
                mark.wait()?;
            }
        }
        self.cuda.wait()?;
        Ok(steps)
    }

    fn loss(&mut self) -> Result<f64, ProbeError> {
        let loss = numbers_of(&mut self.cuda, self.program.loss, 1, Precision::Fp32)?;
        Ok(loss.first().copied().unwrap_or(f64::NAN))
    }
}
