//! Why no scenario of the answers is accepted.

use super::training::{PART_OF_MEMORY, Room, Spread};
use super::{ScenarioAnswers, TemplateError};
use crate::catalogue::Gpu;
use crate::scenario::{Problem, Problems};

/// Why a scenario is refused.
pub(super) enum Refused {
    /// The reader of scenarios found problems.
    Problems(Problems),
    /// A GPU has less memory than the model needs.
    TooLarge {
        /// Memory that a GPU needs [B].
        needed: f64,
        /// Part of it that activations need [B].
        activations: f64,
    },
}

impl Refused {
    /// Returns whether parameters, gradients and optimizer states alone fit into a GPU; `None` if memory is not the reason.
    pub(super) fn states_fit(&self, gpu: &Gpu) -> Option<bool> {
        match self {
            Refused::Problems(_) => None,
            Refused::TooLarge { needed, activations } => {
                Some(needed - activations <= PART_OF_MEMORY * gpu.memory)
            }
        }
    }
}

/// A way to spread the model, with a batch size and the tokens of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) spread: Spread,
    pub(super) batch: u64,
    pub(super) tokens: Option<u64>,
}

impl ScenarioAnswers {
    /// Returns why no attempt to write the scenario was accepted. `least` has the splits with the smallest batch and the shortest samples,
    /// each with the reason if it is not accepted.
    pub(super) fn refusal(
        &self,
        refused: &[Refused],
        least: Vec<(Trial, Option<Refused>)>,
        (gpu, room): (&Gpu, Room),
    ) -> TemplateError {
        let problems = refused.iter().filter_map(|why| match why {
            Refused::Problems(problems) => Some(problems),
            Refused::TooLarge { .. } => None,
        });
        let problems: Vec<&Problems> = problems.collect();
        if let (Some(Problem { key, what, remedy, .. }), true) =
            (always(&problems), problems.len() == refused.len())
        {
            return TemplateError(format!(
                "the scenario of these answers is refused: {key}: {what}: {remedy}, or name another --storage or --dataset"
            ));
        }
        let accepted = least.iter().any(|(_, why)| why.is_none());
        // Where a split fits with the smallest batch, the batch asked for is what is too large.
        let too_large = match accepted {
            true => with_this_batch(refused, gpu),
            false => too_large(&least, gpu, room),
        };
        let why = too_large.unwrap_or_else(|| {
            let first = problems.iter().flat_map(|problems| problems.iter()).next();
            first.map_or(String::new(), |problem| problem.what.clone())
        });
        // A smaller batch helps only where the states of the model leave room for activations.
        let fits = |(trial, why): &(Trial, Option<Refused>)| {
            let fits = why.as_ref().map_or(Some(true), |why| why.states_fit(gpu));
            fits == Some(true) && self.batch.is_none_or(|batch| batch > trial.batch)
        };
        let batch = match (least.iter().any(fits), accepted) {
            (true, true) => ", a smaller --batch (1 fits)",
            (true, false) if self.batch.is_some() => ", a smaller --batch",
            _ => "",
        };
        TemplateError(format!(
            "`{}` does not fit on {} of {} {}: {why}. Name more --nodes or --gpus, a --gpu with more memory{batch}, or another --model",
            self.model,
            super::scenario::counted(self.nodes, "node"),
            self.gpus,
            self.gpu
        ))
    }
}

/// Says how much memory of a GPU the refused attempts need at least; `None` if memory of GPUs is not the reason.
fn with_this_batch(refused: &[Refused], gpu: &Gpu) -> Option<String> {
    let sizes = refused.iter().filter_map(|why| match why {
        Refused::TooLarge { needed, .. } => Some(*needed),
        Refused::Problems(_) => None,
    });
    let least = sizes.reduce(f64::min)?;
    Some(format!(
        "this batch takes {:.1} GB of the memory of each GPU in the split that needs least, and a GPU has {:.1} GB",
        least / 1e9,
        gpu.memory / 1e9
    ))
}

/// Says how much memory the split that needs least takes; `None` if memory is not the reason.
fn too_large(least: &[(Trial, Option<Refused>)], gpu: &Gpu, room: Room) -> Option<String> {
    let sizes = least.iter().filter_map(|(trial, why)| match why {
        Some(why @ Refused::TooLarge { needed, activations }) => {
            Some((trial, *needed, *activations, why.states_fit(gpu) == Some(true)))
        }
        Some(Refused::Problems(_)) | None => None,
    });
    let all: Vec<_> = sizes.collect();
    let with_room = all.iter().filter(|of| of.3).min_by(|a, b| a.1.total_cmp(&b.1));
    let states = |of: &(_, f64, f64, _)| of.1 - of.2;
    let alone = || all.iter().min_by(|a, b| states(a).total_cmp(&states(b)));
    if let Some((trial, needed, activations, _)) = with_room {
        let length = trial
            .tokens
            .map_or_else(String::new, |tokens| format!(" and sequences of {tokens} tokens"));
        return Some(format!(
            "with --batch {}{length}, the split that needs least, {}, takes {:.1} GB of the memory of each GPU: {:.1} GB for \
             parameters, gradients and optimizer, and {:.1} GB for activations, of which none is recomputed",
            trial.batch,
            trial.spread.said(room),
            needed / 1e9,
            (needed - activations) / 1e9,
            activations / 1e9
        ));
    }
    alone().map(|of| {
        format!(
            "parameters, gradients and optimizer alone take {:.1} GB of the memory of each GPU in the split that needs least, {}",
            states(of) / 1e9,
            of.0.spread.said(room)
        )
    })
}

/// Returns a problem of the data that every attempt had, whatever the batch and however the model was spread. Problems of the job,
/// such as its buffers, depend on the batch.
fn always<'p>(refused: &[&'p Problems]) -> Option<&'p Problem> {
    let has = |problems: &Problems, key: &str| problems.iter().any(|other| other.key == key);
    let mut first = refused.first()?.iter().filter(|problem| !problem.key.starts_with("job."));
    first.find(|problem| refused.iter().all(|problems| has(problems, &problem.key)))
}
