//! What measured rows may be explained by, besides the time that a worker needs for a sample.

use super::{Factors, Observed};
use serde::Serialize;

/// Half of the range of an explanation's amount that is searched [binary orders of magnitude].
pub(super) const REACH: f64 = 4.0;

/// What limits a job where its workers do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The step takes longer, or less long, than scenario and profile say; in proportion for all batch sizes.
    Step,
    /// The trainer needs a constant time for each batch besides its step.
    Batch,
    /// The job's threads get a part of the cores only.
    Cores,
    /// Computing threads slow each other the more there are, so that throughput falls beyond some number of workers.
    Crowd,
    /// The storages give all readers together less than the scenario says.
    Server,
    /// Workers hold a lock that they have in common for a part of their work, as threads of one interpreter do.
    Lock,
}

/// A limit, and the scale of its amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Explanation {
    /// What limits the job.
    pub limit: Limit,
    /// Amount in the middle of the range that is searched, in the limit's own unit.
    middle: f64,
}

impl Explanation {
    /// Returns the explanation by the step alone.
    #[must_use]
    pub fn step() -> Explanation {
        Explanation { limit: Limit::Step, middle: 1.0 }
    }

    /// Returns all explanations of `rows`; `bytes` has what each row reads from storage [B/s].
    #[must_use]
    pub fn all(rows: &[Observed], bytes: &[f64]) -> Vec<Explanation> {
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let longest = most(&mut rows.iter().map(|row| row.step_time));
        let fastest = most(&mut bytes.iter().copied());
        let of = |limit, middle| Explanation { limit, middle };
        let mut all = vec![
            Explanation::step(),
            of(Limit::Batch, longest / 16.0),
            of(Limit::Cores, 0.25),
            of(Limit::Crowd, 1.0 / 256.0),
            of(Limit::Lock, 1.0 / 16.0),
        ];
        if fastest > 0.0 {
            all.push(of(Limit::Server, 4.0 * fastest));
        }
        all
    }

    /// Returns the amount at `place`, a place of the range from −[`REACH`] to [`REACH`].
    pub(super) fn amount(&self, place: f64) -> f64 {
        let place = match self.limit {
            Limit::Cores => place / 2.0,
            Limit::Crowd => place * 2.0,
            _ => place,
        };
        self.middle * place.exp2()
    }

    /// Returns the changes at a point of the search range: the place of the amount, and the binary logarithm of the factor on a
    /// worker's time for a sample.
    pub(super) fn factors(&self, [place, sample]: [f64; 2]) -> Factors {
        let (amount, unchanged) = (self.amount(place), Factors::default());
        let changed = match self.limit {
            Limit::Step => Factors { step: amount, ..unchanged },
            Limit::Batch => Factors { batch: amount, ..unchanged },
            Limit::Cores => Factors { cores: amount, ..unchanged },
            Limit::Crowd => Factors { crowd: amount, ..unchanged },
            Limit::Server => Factors { server: amount, ..unchanged },
            Limit::Lock => Factors { lock: amount, ..unchanged },
        };
        Factors { sample: sample.exp2(), ..changed }
    }

    /// Returns the end of the range at which the amount changes nothing; `None` for the step, whose factor 1 in the middle
    /// of the range changes nothing.
    pub(super) fn without_effect(&self) -> Option<f64> {
        match self.limit {
            Limit::Step => None,
            Limit::Batch | Limit::Crowd | Limit::Lock => Some(-REACH),
            Limit::Cores | Limit::Server => Some(REACH),
        }
    }
}
