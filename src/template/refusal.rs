//! Why no scenario of the answers is accepted.

use super::training::Spread;
use super::{ScenarioAnswers, TemplateError};
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
    /// Returns the memory that parameters, gradients and optimizer states need on a GPU [B]; 0 if memory is not the reason.
    pub(super) fn states(&self) -> f64 {
        match self {
            Refused::Problems(_) => 0.0,
            Refused::TooLarge { needed, activations } => needed - activations,
        }
    }
}

impl ScenarioAnswers {
    /// Returns why no attempt to write the scenario was accepted; `refused` has each attempt with the reason.
    pub(super) fn refusal(&self, refused: &[(Spread, Refused)]) -> TemplateError {
        let problems = refused.iter().filter_map(|(_, why)| match why {
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
        let sizes = refused.iter().filter_map(|(spread, why)| match why {
            Refused::TooLarge { needed, activations } => Some((spread, *needed, *activations)),
            Refused::Problems(_) => None,
        });
        let why = match sizes.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((spread, needed, activations)) => format!(
                "the split that needs least, {}, takes {:.1} GB of the memory of each GPU: {:.1} GB for parameters, gradients and \
                 optimizer, and {:.1} GB for activations, of which none is recomputed",
                spread.said((self.gpus, self.nodes)),
                needed / 1e9,
                (needed - activations) / 1e9,
                activations / 1e9
            ),
            None => {
                let first = problems.iter().flat_map(|problems| problems.iter()).next();
                first.map_or(String::new(), |problem| problem.what.clone())
            }
        };
        TemplateError(format!(
            "`{}` cannot be trained so on {} x {} {}: {why}. Name more --nodes or --gpus, a --gpu with more memory, a smaller --batch, \
             or another --model",
            self.model, self.nodes, self.gpus, self.gpu
        ))
    }
}

/// Returns a problem of the data that every attempt had, whatever the batch and however the model was spread. Problems of the job,
/// such as its buffers, depend on the batch.
fn always<'p>(refused: &[&'p Problems]) -> Option<&'p Problem> {
    let has = |problems: &Problems, key: &str| problems.iter().any(|other| other.key == key);
    let mut first = refused.first()?.iter().filter(|problem| !problem.key.starts_with("job."));
    first.find(|problem| refused.iter().all(|problems| has(problems, &problem.key)))
}
