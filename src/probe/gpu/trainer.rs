//! Networks in training on a GPU.

use super::batch::{Batch, place_parameters};
use super::call::{Cuda, Gpu, Stopwatch};
use super::compile::compile;
use super::numerics::{self, Device, Difference, numbers_of};
use super::program::{Call, Program};
use super::{Precision, Steps, Task, survey, whole};
use crate::probe::{ProbeError, network};
use std::time::Instant;

/// A GPU that can be trained on.
#[derive(Debug)]
pub(in crate::probe) struct Board {
    gpu: Gpu,
}

impl Board {
    /// Opens the GPU of a number.
    pub(in crate::probe) fn open(number: usize) -> Result<Board, ProbeError> {
        survey::ready(number).map_err(ProbeError::Machine)?;
        Ok(Board { gpu: Gpu::open(number)? })
    }

    /// Memory that is free [B].
    pub(in crate::probe) fn free(&self) -> Result<usize, ProbeError> {
        Ok(self.gpu.memory()?.0)
    }

    /// Each operator, and small networks as a whole, against the same on cores.
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
        }
        Ok(found)
    }

    /// Steps for about `length` seconds, three at least.
    pub(in crate::probe) fn train(&self, task: Task<'_>, length: f64) -> Result<Steps, ProbeError> {
        let unknown = || ProbeError::Machine(format!("no model is called `{}`", task.model));
        let network = network::model(task.model).ok_or_else(unknown)?;
        let mut learners = (0..task.learners as u64)
            .map(|i| Learner::new(&self.gpu, &network, task, task.seed.wrapping_add(i)))
            .collect::<Result<Vec<_>, _>>()?;
        let each = warm_up(&mut learners, task.graph)?;
        let rounds = (length / each).clamp(3.0, 10_000.0) as u64;
        let mut watch = Stopwatch::default();
        let start = Instant::now();
        for _ in 0..rounds {
            watch.mark(&learners[0].cuda)?;
            learners.iter_mut().try_for_each(Learner::step)?;
        }
        watch.mark(&learners[0].cuda)?;
        learners.iter().try_for_each(|learner| learner.cuda.wait())?;
        let seconds = start.elapsed().as_secs_f64();
        let (laps, loss) = (watch.laps()?, learners[0].loss()?);
        Ok(Steps { rounds, seconds, laps, loss, memory: learners[0].program.bytes })
    }

    /// Copies `bytes` from the host to the GPU `times` times; wall time [s].
    pub(in crate::probe) fn copy(
        &self,
        bytes: usize,
        pinned: bool,
        times: u64,
    ) -> Result<f64, ProbeError> {
        let mut memory = super::program::Memory::default();
        let slot = memory.take(bytes);
        let mut cuda = Cuda::new(&self.gpu, memory.bytes(), Precision::Fp32)?;
        let mut fixed = self.gpu.pinned(if pinned { bytes } else { 1 })?;
        let words = |error| ProbeError::Machine(format!("cannot fill pinned memory: {error:?}"));
        fixed.as_mut_slice().map_err(words)?.fill(1);
        let plain = vec![1_u8; if pinned { 0 } else { bytes }];
        let mut start = Instant::now();
        // Once before the clock counts.
        for turn in 0..=times {
            if turn == 1 {
                cuda.wait()?;
                start = Instant::now();
            }
            if pinned { cuda.copy_pinned(slot, &fixed)? } else { cuda.write(slot, &plain)? }
        }
        cuda.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Steps that are not timed: they choose algorithms and get memory. Gives the time of a round [s].
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
    calls: Vec<Call>,
}

impl Learner {
    fn new(
        gpu: &Gpu,
        of: &network::Network,
        task: Task<'_>,
        seed: u64,
    ) -> Result<Learner, ProbeError> {
        let program = compile(of, task.batch, task.precision);
        let mut cuda = Cuda::new(gpu, program.bytes, task.precision)?;
        let batch = Batch::invent(of, task.batch, seed);
        batch.copy(&mut cuda, &program)?;
        place_parameters(&mut cuda, program.parameters, &program.blocks, &batch.parameters)?;
        cuda.run(&program.feed)?;
        cuda.run(&program.settle)?;
        let calls = program.step().cloned().collect();
        Ok(Learner { cuda, program, calls })
    }

    /// Records a step, to be repeated as a whole.
    fn record(&mut self) -> Result<(), ProbeError> {
        self.cuda.record(&self.calls)
    }

    /// Begins a step; whoever wants its end waits.
    fn step(&mut self) -> Result<(), ProbeError> {
        if self.cuda.replay()? { Ok(()) } else { self.cuda.run(&self.calls) }
    }

    fn loss(&mut self) -> Result<f64, ProbeError> {
        let loss = numbers_of(&mut self.cuda, self.program.loss, 1, Precision::Fp32)?;
        Ok(loss.first().copied().unwrap_or(f64::NAN))
    }
}
