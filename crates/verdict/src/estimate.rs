//! A verdict without trials: an estimate from the causes of stalls.

use forebay_report::{Report, Verdict};
use forebay_scenario::Scenario;

use super::numbers::FULL;

/// Returns the verdict on a job from the causes of its stalls alone; `why` says why nothing was tried.
pub(crate) fn verdict(
    (scenario, report, job): (&Scenario, &Report, usize),
    why: Option<&str>,
) -> Verdict {
    let finding = report.bottleneck.as_ref().map_or("", |of| of.finding.as_str());
    let full: Vec<&str> = report
        .resources
        .iter()
        .filter(|of| of.utilisation_max.mean.is_some_and(|used| used >= FULL))
        .map(|of| of.name.as_str())
        .collect();
    let full = (!full.is_empty()).then(|| format!("Full: {}.", full.join(", ")));
    let said: Vec<String> = std::iter::once(finding.to_owned()).chain(full).collect();
    let why = why.unwrap_or("nothing was tried");
    let text = format!("{} (An estimate from what was waited for last: {why}.)", said.join(" "));
    Verdict {
        job: scenario.jobs[job].name.clone(),
        quick: true,
        long_run: None,
        in_step: None,
        limits: Vec::new(),
        without_effect: Vec::new(),
        uncertain: Vec::new(),
        not_tried: Vec::new(),
        needs: Vec::new(),
        nothing_suffices: false,
        events: 0,
        text,
    }
}
