//! Why no scenario of the answers is accepted.

use super::{ScenarioAnswers, TemplateError};
use crate::scenario::{Problem, Problems};

impl ScenarioAnswers {
    /// Returns why no attempt to write the scenario was accepted; `refused` has the problems of each attempt.
    pub(super) fn refusal(&self, refused: &[Problems]) -> TemplateError {
        if let Some(Problem { key, what, remedy, .. }) = always(refused) {
            return TemplateError(format!(
                "the scenario of these answers is refused: {key}: {what}: {remedy}, or name another --storage or --dataset"
            ));
        }
        let why = refused.first().map(ToString::to_string).unwrap_or_default();
        let why = why.lines().take(3).collect::<Vec<_>>().join("\n");
        TemplateError(format!(
            "`{}` cannot be trained so on {} x {} {}: name another model or GPU, or more of them (--gpus, --nodes), or a smaller \
             --batch\n{why}",
            self.model, self.nodes, self.gpus, self.gpu
        ))
    }
}

/// Returns a problem of the data that every attempt had, whatever the batch and however the model was spread: it is the reason, and
/// not that the model does not fit into GPU memory. Problems of the job, such as its buffers, depend on the batch.
fn always(refused: &[Problems]) -> Option<&Problem> {
    let has = |problems: &Problems, key: &str| problems.iter().any(|other| other.key == key);
    let mut first = refused.first()?.iter().filter(|problem| !problem.key.starts_with("job."));
    first.find(|problem| refused.iter().all(|problems| has(problems, &problem.key)))
}
