//! The ruler as a probe, so that what was subtracted stands beside the other samples.

use super::{Cell, Context, Probe, ProbeError, Seconds, Trial, ruler, team};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// The table `[clock]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockSettings {
    /// Time for this probe (default: what the budget of the plan leaves).
    pub budget: Option<Seconds>,
}

/// The probe `clock`: operations are looks at the clock, or turns of an empty loop.
#[derive(Debug)]
pub struct ClockProbe {
    budget: Option<Seconds>,
}

impl ClockProbe {
    /// A probe by these settings.
    #[must_use]
    pub fn new(settings: &ClockSettings) -> ClockProbe {
        ClockProbe { budget: settings.budget }
    }
}

impl Probe for ClockProbe {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn cells(&self) -> Vec<Cell> {
        ["look", "turn"].iter().map(|what| Cell::new(&[("what", what)], &[])).collect()
    }

    fn budget(&self) -> Option<Duration> {
        self.budget.map(Seconds::duration)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        /// So many that the clock around them does not count.
        const GO: u32 = 100_000;
        let go = if cell.label("what") == "look" { ruler::looks } else { ruler::turns };
        let team = team(1, |_| {
            let (start, mut goes, mut seconds) = (Instant::now(), 0, 0.0);
            while goes == 0 || start.elapsed() < context.length {
                seconds += go(GO) * f64::from(GO);
                goes += 1;
            }
            (goes, seconds)
        })?;
        let (goes, seconds) = team.members[0].value;
        let core_seconds = team.core_seconds();
        let operations = goes * u64::from(GO);
        let waited = team.waited();
        Ok(Trial { operations, seconds, core_seconds, threads: 1, waited, ..Trial::default() })
    }
}
