//! The key that a first scenario sweeps.

use super::training::Layout;
use crate::scenario::{Override, ScenarioFile};

/// A key that may be swept, and values for it.
pub(super) type Axis = (&'static str, Vec<u64>);

/// Returns keys that decide how fast a model on sequences trains, the one that matters most first: micro-batches and stages of a
/// pipeline, the batch, and steps between two exchanges of gradients. Its samples are small and need little decoding, so that workers of
/// the loader hardly matter. `layout` spreads the model over GPUs.
pub(super) fn of_sequences(batch: u64, layout: &Layout) -> Vec<Axis> {
    let mut parts: Vec<u64> = [4, 2, 1].map(|part| batch / part).to_vec();
    parts.retain(|part| *part > 0);
    parts.dedup();
    let mut axes = Vec::new();
    if layout.stages > 1 {
        axes.push(("job.parallel.pipeline.micro_batches", parts.clone()));
        axes.push((
            "job.parallel.pipeline.stages",
            [1, 2, 4].map(|of| of * layout.stages).to_vec(),
        ));
    }
    axes.push(("job.batch", parts));
    if layout.keys.contains("sync.allreduce") {
        axes.push(("job.accumulation", vec![1, 2, 4, 8]));
    }
    axes
}

/// Returns the scenario `text` with the first of `axes` that it accepts in place of the keys of `[sweep]`, its last table; without
/// such an axis, returns it as it is.
pub(super) fn with_swept(text: String, axes: &[Axis]) -> String {
    match (accepted(&text, axes), text.rfind("[sweep]")) {
        (Some(line), Some(at)) => {
            let keys = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
            format!("{}{line}", &text[..keys])
        }
        _ => text,
    }
}

/// Returns the first of `axes` of which the scenario accepts at least two values, with these values, as a line of `[sweep]`.
fn accepted(text: &str, axes: &[Axis]) -> Option<String> {
    let file = ScenarioFile::parse("the new scenario", text.to_owned()).ok()?;
    let is_accepted = |key: &str, value: u64| {
        let change: Option<Override> = format!("{key}={value}").parse().ok();
        change.is_some_and(|change| file.resolve(&[change]).is_ok())
    };
    axes.iter().find_map(|(key, values)| {
        let fine = values.iter().filter(|value| is_accepted(key, **value));
        let fine: Vec<String> = fine.map(u64::to_string).collect();
        (fine.len() > 1).then(|| format!("\"{key}\" = [{}]\n", fine.join(", ")))
    })
}
