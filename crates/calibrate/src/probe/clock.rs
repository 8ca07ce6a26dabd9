//! The probe `clock`: measures the overhead of timing (see `Ruler`), so that the time subtracted from other
//! samples is recorded beside them.

use super::{Cell, Context, Probe, ProbeError, Seconds, Trial, ruler, team};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// The table `[clock]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockSettings {
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// The probe `clock`: each operation is one clock reading (`look`) or one iteration of an empty loop (`turn`).
#[derive(Debug)]
pub struct ClockProbe {
    budget: Option<Seconds>,
}

impl ClockProbe {
    /// Returns a probe with these settings.
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
        /// Number of operations timed together: so many that the two clock readings around all of them are
        /// negligible.
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
