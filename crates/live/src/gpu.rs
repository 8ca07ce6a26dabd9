//! Training on real GPUs. Steps are submitted ahead, so that a GPU waits for a step only if it has nothing to do.
//!
//! A thread submits a step to its GPU and asks for the next batch while the GPU executes the step, so that the GPU need not wait
//! for the thread. The GPU's own clock says when the GPU became idle; a late batch stalls it only from then on.

use super::clock::Clock;
use super::content::{GpuPath, Pool, decodes};
use super::fault::Failure;
use super::task::CopyTask;
use forebay_calibrate::probe::gpu::{Form, Learner, Learners, Precision, Training};
use forebay_live_queue::{Shared, Step};
use forebay_scenario::{Dataset, Job, Operation, RealGpu, Scenario, Stage};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two checks of whether the GPU still has work, while a thread waits for a batch.
const LOOK: Duration = Duration::from_micros(100);
/// Limit for the number of batches in a GPU's memory.
const MOST_LANES: u64 = 64;

/// A device that executes steps asynchronously to the thread that submits them.
pub(super) trait Accelerator: Send {
    /// Submits a step; the content of its batch is not needed afterwards.
    fn begin(&mut self, step: &Step) -> Result<(), String>;

    /// Waits until step `number` has ended, and returns the time at which it ended.
    fn end(&mut self, number: u64) -> Result<Instant, String>;

    /// Returns the time at which step `number` ended; `None` if it has not ended.
    fn ended(&mut self, number: u64) -> Result<Option<Instant>, String>;
}

/// Runs the steps of device `d`. Up to `ahead` steps are submitted beyond the one that the device executes. Waits for the end of
/// step `last`. The buffers of its batches return to `pool`.
pub(super) fn train(
    shared: &Shared<Clock>,
    d: u32,
    (device, pool): (&mut dyn Accelerator, &Pool),
    ahead: u64,
    last: u64,
) {
    let mut woken = Vec::new();
    let mut next = shared.next_step(d);
    while let Some(step) = next {
        next = carry_out(shared, d, (device, pool), (step, ahead, last), &mut woken)
            .unwrap_or_else(|why| {
                shared.fail(why);
                None
            });
    }
}

/// Submits a step to the device, and returns the next step when it is available; `None` if there is none.
fn carry_out(
    shared: &Shared<Clock>,
    d: u32,
    (device, pool): (&mut dyn Accelerator, &Pool),
    (step, ahead, last): (Step, u64, u64),
    woken: &mut Vec<u32>,
) -> Result<Option<Step>, String> {
    let number = step.number;
    device.begin(&step)?;
    if !step.content.is_empty() {
        pool.give(step.content);
    }
    if ahead == 0 || number >= last {
        device.end(number)?;
        return Ok(shared.stepped(d, &[], woken));
    }
    if let Some(before) = number.checked_sub(ahead) {
        device.end(before)?;
    }
    let mut next = shared.given(d, woken);
    while let Some(None) = next {
        if let Some(end) = device.ended(number)? {
            return Ok(shared.ran_dry(d, shared.clock().at(end)));
        }
        next = shared.step_within(d, LOOK);
    }
    Ok(next.flatten())
}

impl Accelerator for Learner {
    fn begin(&mut self, step: &Step) -> Result<(), String> {
        let Step { number, samples, fresh, ref content, .. } = *step;
        let samples = usize::try_from(samples).unwrap_or(usize::MAX);
        Learner::begin(self, number, samples, fresh, content).map_err(|error| error.to_string())
    }

    fn end(&mut self, number: u64) -> Result<Instant, String> {
        Learner::end(self, number).map_err(|error| error.to_string())
    }

    fn ended(&mut self, number: u64) -> Result<Option<Instant>, String> {
        Learner::ended(self, number).map_err(|error| error.to_string())
    }
}

/// For each model copy: the learners on its GPU, and the path that brings batches to the learners.
pub(super) type Opened = Vec<(Vec<Box<dyn Accelerator>>, GpuPath)>;

/// Loads the model copies of a job copy on their GPUs. Returns an empty list if the job has no real GPUs.
pub(super) fn open(scenario: &Scenario, part: &CopyTask) -> Result<Opened, Failure> {
    let job = &scenario.jobs[part.job];
    let (Some(gpu), Some(model)) = (job.gpu, job.catalogue) else { return Ok(Vec::new()) };
    let dataset = &scenario.datasets[job.dataset];
    let sizes: Vec<u64> = std::iter::once(job.batch).chain(job.smaller_batches(dataset)).collect();
    let batches: Vec<usize> = sizes.iter().map(|&size| size as usize).collect();
    let bytes = dataset.decoded_size.unwrap_or(dataset.mean_size()) * job.batch as f64;
    let (mut opened, pool) = (Vec::new(), Arc::new(Pool::default()));
    for d in 0..job.copies_per_node {
        let training = Training {
            model: model.name(),
            gpu: number(gpu, job, part.copy, d) as usize,
            batches: &batches,
            precision: precision(gpu),
            learners: job.learners.most as usize,
            graph: gpu.graph,
            lanes: lanes(job, gpu),
            bytes: (bytes as usize).max(1),
            form: decoded_size(job, dataset).map_or(Form::Bytes, |_| Form::Floats),
            brings: copying(job).is_none(),
            agree_every: job.averaging().map(|of| of.period),
            keep: 0.9,
            seed: part.owner + u64::from(d),
        };
        let failed =
            |error: forebay_calibrate::probe::ProbeError| Failure::Lacking(error.to_string());
        let Learners { learners, lanes } = Learners::new(&training).map_err(failed)?;
        let device = |learner| -> Box<dyn Accelerator> { Box::new(learner) };
        let path = GpuPath { target: lanes, pool: pool.clone() };
        opened.push((learners.into_iter().map(device).collect(), path));
    }
    Ok(opened)
}

/// Returns the number of the GPU for model copy `d` of a job copy.
pub(super) fn number(gpu: RealGpu, job: &Job, copy: u32, d: u32) -> u32 {
    gpu.number + copy * job.copies_per_node + d
}

/// Returns the precision of the GPU's computations. Scenarios with other precisions have been refused before.
fn precision(gpu: RealGpu) -> Precision {
    let same = |of: &&Precision| of.name() == gpu.precision.name();
    Precision::ALL.iter().find(same).copied().unwrap_or(Precision::Fp32)
}

/// Returns the size of an image that the job's loader has decoded, three floats for each pixel [B]; `None` if it decodes no images.
pub(super) fn decoded_size(job: &Job, dataset: &Dataset) -> Option<f64> {
    let mut work = job.loader.stages.iter().flat_map(|stage| &stage.per_sample);
    let image = dataset.image.filter(|_| work.any(decodes))?;
    let pixels = image.resize.map_or(image.pixels(), |side| f64::from(side) * f64::from(side));
    Some(3.0 * 4.0 * pixels)
}

/// Returns the last stage that copies batches to the GPU; `None` if the learners copy them themselves.
fn copying(job: &Job) -> Option<&Stage> {
    let copies = |stage: &&Stage| stage.per_item.iter().any(Operation::copies);
    job.loader.stages.iter().rev().find(copies)
}

/// Returns the number of lanes: batches in a GPU's memory or on their way to it. If a stage of the loader copies to the GPU, this
/// is the capacity of the stage's buffer plus the number of the stage's workers. Otherwise it is the number of steps that may
/// have been submitted and not ended, plus one.
fn lanes(job: &Job, gpu: RealGpu) -> usize {
    let lanes = copying(job).map_or(u64::from(gpu.ahead) + 2, |stage| {
        stage.buffer.saturating_add(u64::from(stage.workers))
    });
    lanes.clamp(2, MOST_LANES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Time;
    use forebay_live_queue::{State, Training, Watch};
    use forebay_metrics::{Activity, Queue, StageBuffer};
    use forebay_report::Cause;
    use forebay_scenario::{BatchInterval, Goal};
    use std::thread;

    /// A test device that records the calls of [`Accelerator`]. A step ends when the thread waits for its end, or at every third
    /// check.
    #[derive(Default)]
    struct Notes {
        begun: Vec<(u64, bool)>,
        ended: u64,
        /// Maximum over time of the number of steps that were submitted and not yet awaited.
        most: u64,
        looks: u64,
        /// Step at which the device fails.
        fails: Option<u64>,
    }

    impl Accelerator for Notes {
        fn begin(&mut self, step: &Step) -> Result<(), String> {
            if self.fails == Some(step.number) {
                return Err("the GPU has fallen off the bus".to_owned());
            }
            self.begun.push((step.number, step.fresh));
            self.most = self.most.max(self.begun.len() as u64 - self.ended);
            Ok(())
        }

        fn end(&mut self, number: u64) -> Result<Instant, String> {
            assert!(number < self.begun.len() as u64, "only what was given can end");
            self.ended = self.ended.max(number + 1);
            Ok(Instant::now())
        }

        fn ended(&mut self, number: u64) -> Result<Option<Instant>, String> {
            // A step does not end at once, so a batch that arrives meanwhile is submitted.
            self.looks += 1;
            if self.looks.is_multiple_of(3) { self.end(number).map(Some) } else { Ok(None) }
        }
    }

    /// Trains for ten steps, using each batch for `interval` steps. Returns the records of the test device and the final state.
    fn run(mut notes: Notes, ahead: u64, interval: f64) -> (Notes, State) {
        let goal = Goal { steps: 10, quota: u64::MAX, fresh: u64::MAX };
        let mut state = State::new(Training::new(BatchInterval::Every(interval), goal));
        let loader = state.add_loader(u64::MAX, [(StageBuffer::of_samples(), 1)], 1);
        loader.queue = Queue::new(4, 2, false, 0, Time::ZERO);
        let shared = Shared::new(state, Time::NEVER);
        thread::scope(|threads| {
            let shared = &shared;
            threads.spawn(move || {
                let mut next = shared.next(0);
                while let Some((item, since)) = next {
                    let log = [(since, Activity::Doing(Cause::Transfer))];
                    next = shared.finish(0, item, &log, &mut Vec::new());
                }
            });
            let notes = &mut notes;
            threads.spawn(move || train(shared, 0, (notes, &Pool::default()), ahead, 9));
            shared.start(Clock::begun(), |_, _| {});
        });
        let mut now = shared.lock();
        let empty = State::new(Training::new(BatchInterval::Every(1.0), goal));
        (notes, std::mem::replace(&mut now, empty))
    }

    #[test]
    fn gpu_steps_are_submitted_in_order_up_to_a_limit_and_all_are_awaited() {
        for ahead in [0, 1, 3] {
            let (notes, state) = run(Notes::default(), ahead, 1.0);
            let numbers: Vec<u64> = notes.begun.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, (0..10).collect::<Vec<_>>());
            assert!(notes.begun.iter().all(|(_, fresh)| *fresh));
            assert_eq!((notes.ended, state.training.steps.completed()), (10, 10));
            assert!(notes.most <= ahead + 1, "{ahead}: {}", notes.most);
        }
    }

    /// System: each batch is trained on four times, steps may be submitted 2 ahead. Expectation: repeated batches are available
    /// at once, so that as many steps are ahead as permitted.
    #[test]
    fn only_the_first_step_of_a_repeated_batch_counts_as_fresh() {
        let (notes, _) = run(Notes::default(), 2, 4.0);
        let fresh: Vec<u64> =
            notes.begun.iter().filter(|(_, fresh)| *fresh).map(|(number, _)| *number).collect();
        assert_eq!(fresh, [0, 4, 8]);
        assert_eq!(notes.most, 3);
    }

    #[test]
    fn a_failed_gpu_ends_the_job_with_the_error_message_of_the_gpu() {
        let (_, state) = run(Notes { fails: Some(3), ..Notes::default() }, 1, 1.0);
        assert_eq!(state.failure.as_deref(), Some("the GPU has fallen off the bus"));
        assert_eq!(state.training.steps.completed(), 3);
    }
}
