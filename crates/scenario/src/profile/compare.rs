//! Differences between two profiles, and whether they are larger than chance explains.

use super::{Fit, Parameter, Profile};
use serde::Serialize;
use std::collections::BTreeMap;

/// A parameter in two profiles.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Path of the fit: `read.direct`.
    pub fit: String,
    /// Name of the parameter.
    pub parameter: String,
    /// The parameter in the first profile, if it has it.
    pub before: Option<Parameter>,
    /// The parameter in the second profile, if it has it.
    pub after: Option<Parameter>,
    /// (Second value − first value) ÷ first value; `None` if this is not a finite number.
    pub relative: Option<f64>,
    /// Whether the difference is more than chance.
    pub verdict: Verdict,
}

/// Whether a difference is more than chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The values are equal.
    Same,
    /// Each value lies outside of the other's 95 % interval.
    Beyond,
    /// At least one of the values lies within the other's 95 % interval.
    Within,
    /// One of the values is not determined by its data, or has no interval.
    Unknown,
    /// Only the first profile has the parameter.
    Gone,
    /// Only the second profile has the parameter.
    New,
}

/// Compares all parameters of two profiles.
#[must_use]
pub fn compare(first: &Profile, second: &Profile) -> Vec<Change> {
    let mut pairs: BTreeMap<(String, String), [Option<&Parameter>; 2]> = BTreeMap::new();
    for (side, profile) in [first, second].into_iter().enumerate() {
        for (path, fit) in profile.fits() {
            let Fit { parameters, .. } = fit;
            for (name, parameter) in parameters {
                let pair = pairs.entry((path.join("."), name.clone())).or_default();
                pair[side] = Some(parameter);
            }
        }
    }
    let change =
        |((fit, parameter), [before, after]): ((String, String), [Option<&Parameter>; 2])| {
            let (relative, verdict) = judge(before, after);
            let (before, after) = (before.cloned(), after.cloned());
            Change { fit, parameter, before, after, relative, verdict }
        };
    pairs.into_iter().map(change).collect()
}

fn judge(before: Option<&Parameter>, after: Option<&Parameter>) -> (Option<f64>, Verdict) {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) => (before, after),
        (Some(_), None) => return (None, Verdict::Gone),
        _ => return (None, Verdict::New),
    };
    let relative = Some(after.value / before.value - 1.0).filter(|change| change.is_finite());
    if before.value == after.value {
        return (relative, Verdict::Same);
    }
    let outside = |value: f64, of: &Parameter| {
        let [low, high] = of.ci95.filter(|_| of.unidentified.is_none())?;
        Some(!(low..=high).contains(&value))
    };
    let verdict = match (outside(after.value, before), outside(before.value, after)) {
        (Some(true), Some(true)) => Verdict::Beyond,
        (Some(_), Some(_)) => Verdict::Within,
        _ => Verdict::Unknown,
    };
    (relative, verdict)
}
