//! Builds the state that the threads of a job copy share, before its start.

use super::task::CopyTask;
use forebay_engine::Time;
use forebay_live_queue::{State, Training};
use forebay_metrics::{
    FirstBatches, Polling, Queue, Rebuilds, Recorder, Requests, StageBuffer, Tuner,
};
use forebay_scenario::{Job, Scenario};

/// Returns the shared state: loaders and devices, and a timeline recorder if a trace is requested.
pub(super) fn state(scenario: &Scenario, part: &CopyTask) -> State {
    let job = &scenario.jobs[part.job];
    let goal = scenario.goal(job);
    let mut state = State::new(Training::new(job.batch_interval, goal));
    for rank in 0..job.loaders_per_node() {
        let stage = |index| StageBuffer::new(job, index, goal.quota);
        let stages = job.loader.stages.iter().enumerate();
        let stages = stages.map(|(index, of)| (stage(index), of.workers));
        let loader = state.add_loader(goal.quota, stages, job.models_per_loader());
        loader.tuner = Tuner::for_job(job);
        loader.polling = Polling::for_job(job);
        let dataset = &scenario.datasets[job.dataset];
        loader.requests = Requests::for_job(job, dataset, goal.quota);
        loader.rebuilds = Rebuilds::for_job(job, dataset);
        loader.first_batches = FirstBatches::for_job(job, dataset, rank);
        if let (Some(requests), true, 0) = (&mut loader.requests, part.trace, rank) {
            requests.record();
        }
    }
    if part.trace {
        state.recorder = Some(recorder(&mut state, job, part));
    }
    state
}

/// Returns a recorder with a track for each worker, queue and device.
fn recorder(state: &mut State, job: &Job, part: &CopyTask) -> Recorder {
    let mut recorder = Recorder::default();
    let process = recorder.process(format!("{}[{}]", job.name, part.copy));
    for loader in &mut state.loaders {
        let stages = job.loader.stages.iter();
        let names = stages.flat_map(|of| (0..of.workers).map(move |i| format!("{} {i}", of.name)));
        for (w, name) in loader.workers.clone().zip(names) {
            state.workers[w as usize].track = Some(recorder.track(process, name));
        }
        loader.level_track = Some(recorder.track(process, "queue".to_owned()));
    }
    for (d, device) in state.training.devices.iter_mut().enumerate() {
        device.track = Some(recorder.track(process, format!("gpu {d}")));
    }
    recorder
}

/// Gives each loader its last buffer, in the buffer's initial state at the start time `now`. In the first copy of a job, the
/// buffer also records its history.
pub(super) fn open_queues(state: &mut State, job: &Job, part: &CopyTask, now: Time) {
    for loader in &mut state.loaders {
        loader.queue = Queue::for_job(job, loader.quota, now);
        if part.copy == 0 {
            loader.queue.record(now, 0.0);
        }
    }
}
