//! Relaxes limits of a loader: what its keys in the scenario file set, and nothing else.

use crate::scenario::{Operation, Order, Preset, Replaced, Stage, StageGraph};

use super::FACTOR;
use crate::verdict::lever::Kind;

pub(super) fn lift(loader: &mut StageGraph, kind: Kind) {
    match kind {
        Kind::Workers => more_workers(loader),
        Kind::Prefetch => deeper(loader),
        // Keras and DALI have no key for the order, and only PyTorch's workers can live on.
        Kind::Order if loader.preset.order_key().is_none() => {}
        Kind::Restart if loader.preset != Preset::Pytorch => {}
        Kind::Order => {
            if let Some(requests) = &mut loader.requests {
                requests.in_order = false;
            }
            loader.stages.iter_mut().for_each(|stage| stage.order = Order::Any);
        }
        Kind::Restart => {
            if let Some(requests) = &mut loader.requests {
                requests.persistent = true;
            }
        }
        Kind::Polling => {
            if let Some(generator) = &mut loader.generator {
                generator.period /= FACTOR;
            }
        }
        Kind::Lock => avoid_lock(loader),
        Kind::Collate if loader.preset == Preset::Stages => {}
        Kind::Collate | Kind::HandOver | Kind::Pinning => {
            let (preset, pinning) = (loader.preset, kind == Kind::Pinning);
            let stages = loader.stages.iter_mut().filter(|of| is_pinning(preset, of) == pinning);
            stages.for_each(|stage| lighten(&mut stage.per_item, kind));
        }
        Kind::Decode if decodes_on_gpu(loader) => {
            loader.stages.iter_mut().for_each(|stage| lighten(&mut stage.per_item, kind));
        }
        _ => loader.stages.iter_mut().for_each(|stage| {
            lighten(&mut stage.per_sample, kind);
            if loader.preset == Preset::Stages {
                lighten(&mut stage.per_item, kind);
            }
        }),
    }
}

/// Returns whether the scenario file sets the number of workers of a stage. It does not for stages that only hand batches on, such as
/// PyTorch's pinning thread.
pub(in crate::verdict) fn has_workers(loader: &StageGraph, stage: &Stage) -> bool {
    loader.preset == Preset::Stages || !stage.per_sample.is_empty()
}

/// Returns whether GPUs decode, and cores do not.
pub(in crate::verdict) fn decodes_on_gpu(loader: &StageGraph) -> bool {
    let is_kernel = |of: &Operation| matches!(of, Operation::Kernel(_));
    let is_work = |of: &Operation| matches!(of, Operation::Compute(_) | Operation::Decode(_));
    loader.stages.iter().any(|stage| stage.per_item.iter().any(is_kernel))
        && !loader.stages.iter().any(|stage| stage.per_sample.iter().any(is_work))
}

/// Returns whether a stage is PyTorch's pinning thread, or the stage behind it, which copies batches to devices.
pub(in crate::verdict) fn is_pinning(preset: Preset, stage: &Stage) -> bool {
    preset == Preset::Pytorch && stage.per_sample.is_empty()
}

/// Makes processes of threads that share an interpreter's lock, where there is one. Processes of a generator would repeat each other's
/// samples.
fn avoid_lock(loader: &mut StageGraph) {
    let alone = loader.requests.is_some_and(|requests| requests.ahead == 0);
    let preset = loader.preset;
    let locked = loader.stages.iter().any(|of| of.lock > 0.0 && !is_pinning(preset, of));
    if locked && !alone && loader.generator.is_none() {
        to_processes(loader);
    }
}

/// Makes processes of the workers. They copy batches to the trainer, in whose process PyTorch's pinning thread stays.
fn to_processes(loader: &mut StageGraph) {
    let (copies, preset) = (loader.process_copies.take().map(Operation::Memcpy), loader.preset);
    for stage in loader.stages.iter_mut().filter(|stage| !is_pinning(preset, stage)) {
        stage.lock = 0.0;
        stage.per_item.extend(copies.clone());
    }
}

/// Doubles the workers, and buffers whose size follows from the number of workers. If the trainer makes its own batches, lets a
/// loader worker make them.
fn more_workers(loader: &mut StageGraph) {
    if loader.requests.is_some_and(|requests| requests.ahead == 0) {
        return first_worker(loader);
    }
    let have: Vec<bool> = loader.stages.iter().map(|stage| has_workers(loader, stage)).collect();
    let of_data = loader.preset == Preset::TfData;
    for (at, stage) in loader.stages.iter_mut().enumerate().filter(|(at, _)| have[*at]) {
        let added = u64::from(stage.workers);
        stage.workers = stage.workers.saturating_mul(2);
        // In `tf.data`, there is room for one sample of each parallel call; the first stage keeps shuffled samples too.
        match (of_data, at) {
            (true, 0) => stage.buffer += added,
            (true, _) => stage.buffer = stage.buffer.max(2 * added),
            (false, _) => {}
        }
    }
    if loader.preset == Preset::Pytorch {
        deeper(loader);
    }
}

/// Lets a worker make the batches that the trainer made: by default a process in PyTorch, and a thread in Keras.
fn first_worker(loader: &mut StageGraph) {
    let Some(requests) = &mut loader.requests else { return };
    let process = loader.preset == Preset::Pytorch;
    (requests.ahead, requests.replaced) =
        if process { (2, Replaced::WhenTaken) } else { (11, Replaced::WhenWanted) };
    let buffer = if process { requests.ahead } else { requests.ahead + 1 };
    loader.stages.iter_mut().for_each(|stage| stage.buffer = buffer);
    if process {
        to_processes(loader);
    }
}

/// Doubles the number of batches, or samples, that are loaded ahead; without workers, none are.
fn deeper(loader: &mut StageGraph) {
    if loader.requests.is_some_and(|requests| requests.ahead == 0) {
        return;
    }
    let double = |stage: &mut Stage| stage.buffer = stage.buffer.saturating_mul(2);
    match (loader.preset, &mut loader.requests) {
        (Preset::Pytorch, requests) => {
            loader.stages.iter_mut().for_each(double);
            if let Some(requests) = requests {
                requests.ahead = requests.ahead.saturating_mul(2);
            }
        }
        // Keras requests one batch more than its queue holds, and the trainer's own request comes on top.
        (Preset::Keras, Some(requests)) => {
            requests.ahead = requests.ahead.saturating_mul(2).saturating_sub(1);
            loader.stages.iter_mut().for_each(|stage| stage.buffer = requests.ahead + 1);
        }
        (Preset::Dali, _) => loader.stages.iter_mut().skip(1).for_each(double),
        _ => loader.stages.iter_mut().rev().take(1).for_each(double),
    }
}

/// Halves one kind of work among the operations.
fn lighten(operations: &mut [Operation], kind: Kind) {
    for operation in operations {
        match (operation, kind) {
            (Operation::Compute(work), Kind::Decode | Kind::Collate | Kind::Pinning)
            | (Operation::Delay(work), Kind::Delay) => {
                *work = work.scaled(1.0 / FACTOR);
            }
            (Operation::Decode(law), Kind::Decode) => {
                law.fixed /= FACTOR;
                law.per_byte /= FACTOR;
                law.per_pixel /= FACTOR;
            }
            (Operation::Kernel(kernel), Kind::Decode) => kernel.per_sample /= FACTOR,
            (Operation::Memcpy(per_byte), Kind::HandOver | Kind::Pinning) => *per_byte /= FACTOR,
            _ => {}
        }
    }
}
