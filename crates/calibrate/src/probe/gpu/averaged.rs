//! Times training steps of learners that average their models, as the learners of live runs do.

use super::batch::network_of;
use super::compile::compile;
use super::task::block;
use super::turns::{self, Stepper};
use super::{Board, Lanes, Learner, Learners, Steps, Task};
use crate::probe::ProbeError;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Least number of steps for warming up.
const WARM: u64 = 3;

/// Trains the learners of a task, which average every `every` steps, for about `length` seconds, but at least three steps, and
/// for whole periods.
pub(super) fn train(
    board: &Board,
    task: Task<'_>,
    every: u64,
    length: f64,
) -> Result<Steps, ProbeError> {
    let before = board.free()?;
    let batches = [task.batch];
    let network = network_of(task.model)?;
    // The initial parameters of learners are kept between trials, because drawing them takes longer than training.
    let program = compile(&network, task.batch, task.precision);
    let (content, form) = board.begun.of(&network, &program, task).1.arriving(network.feed);
    let training = task.averaging(board.number, &batches, every, (content.len(), form));
    let Learners { learners, lanes } =
        Learners::begun(&board.gpu, &training, &mut |program, _, _| {
            board.begun.of(&network, program, task)
        })?;
    for _ in &learners {
        lanes.copy(&[&content], &AtomicBool::new(false))?;
    }
    let own = |learner| Own { learner, lanes: Arc::clone(&lanes), batch: task.batch };
    let mut learners: Vec<_> = learners.into_iter().map(own).collect();
    // The first averaging loads its kernels.
    let warm = WARM.next_multiple_of(every);
    turns::train(&mut learners, 0..warm)?;
    let start = Instant::now();
    turns::train(&mut learners, warm..2 * warm)?;
    let each = (start.elapsed().as_secs_f64() / warm as f64).max(1e-6);
    let memory_taken = before.saturating_sub(board.free()?);
    let rounds = ((length / each).clamp(3.0, 10_000.0) as u64).next_multiple_of(every);
    let beat = board.pulse.look();
    let start = Instant::now();
    let ends = turns::train(&mut learners, 2 * warm..2 * warm + rounds)?;
    let seconds = start.elapsed().as_secs_f64();
    let beats = beat.zip(board.pulse.look());
    let starts = std::iter::once(&start).chain(&ends);
    let laps = ends.iter().zip(starts).map(|(end, start)| (*end - *start).as_secs_f64()).collect();
    let loss = learners[0].learner.loss()?;
    let memory = block(task.model, task.batch, task.precision).unwrap_or(0);
    Ok(Steps { rounds, seconds, laps, loss, memory, memory_taken, beats })
}

/// A learner that takes the same batch from its lane for each step.
struct Own {
    learner: Learner,
    lanes: Arc<Lanes>,
    batch: usize,
}

impl Stepper for Own {
    fn begin(&mut self, step: u64) -> Result<(), ProbeError> {
        self.learner.begin::<&[u8]>(step, self.batch, true, &[])?;
        self.lanes.repeat();
        Ok(())
    }

    fn end(&mut self, step: u64) -> Result<Instant, ProbeError> {
        self.learner.end(step)
    }
}
