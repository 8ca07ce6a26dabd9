//! A variation of a scenario: constants that vary by a few per cent.
//!
//! Workers whose work takes exactly the same time march in step: they ask for the same resource at the same instant, for ever. Real
//! times vary, and then workers spread. Where that changes the answer, advice must not rest on the constant times.

use forebay_scenario::{Distribution, Operation, Scenario};

use super::numbers::CV;

/// Returns the scenario with constant work of loaders that varies; `None` if no loader has any.
pub(crate) fn varied(scenario: &Scenario) -> Option<Scenario> {
    let mut then = scenario.clone();
    let mut any = false;
    for job in &mut then.jobs {
        for stage in &mut job.loader.stages {
            for operation in stage.per_sample.iter_mut().chain(&mut stage.per_item) {
                any |= vary(operation);
            }
        }
    }
    any.then_some(then)
}

/// Makes constant work vary, and returns whether it did.
fn vary(operation: &mut Operation) -> bool {
    let (Operation::Compute(work) | Operation::Delay(work)) = operation else { return false };
    let Distribution::Constant(mean) = *work else { return false };
    if mean <= 0.0 {
        return false;
    }
    *work = Distribution::Gamma { shape: 1.0 / (CV * CV), scale: mean * CV * CV };
    true
}
