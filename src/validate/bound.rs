//! What a configuration is bound by, as predicted.

use super::Observed;
use serde::Serialize;

/// What a configuration is bound by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Reading.
    Storage,
    /// Decoding and waiting for cores.
    Cores,
    /// Loaders and trainers, whose rates are within 25 % of each other.
    Crossover,
    /// Training.
    Compute,
}

/// Rates whose ratio is no larger are near a crossover.
const NEAR: f64 = 1.25;

impl Bound {
    /// All, in the order of tables.
    pub const ALL: [Bound; 4] = [Bound::Storage, Bound::Cores, Bound::Crossover, Bound::Compute];

    /// In words, after "bound by".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bound::Storage => "storage",
            Bound::Cores => "cores",
            Bound::Crossover => "near a crossover",
            Bound::Compute => "compute",
        }
    }

    /// Of a run: what its loaders deliver unhindered against what its trainers take unstarved, and
    /// what starved trainers wait for most.
    #[must_use]
    pub fn of(run: &Observed) -> Bound {
        let [loader, trainer] = [run.unblocked_rate, run.unstalled_rate];
        if loader.max(trainer) <= NEAR * loader.min(trainer) {
            return Bound::Crossover;
        }
        if loader > trainer {
            return Bound::Compute;
        }
        let of =
            |names: &[&str]| -> f64 { names.iter().filter_map(|name| run.causes.get(*name)).sum() };
        if of(&["open", "latency", "transfer"]) >= of(&["decode", "cpu-wait"]) {
            Bound::Storage
        } else {
            Bound::Cores
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(unblocked_rate: f64, unstalled_rate: f64, transfer: f64) -> Observed {
        let causes = [("transfer".to_owned(), transfer), ("decode".to_owned(), 0.3)].into();
        Observed { unblocked_rate, unstalled_rate, causes, ..Observed::default() }
    }

    #[test]
    fn the_slower_side_binds_and_equals_cross() {
        assert_eq!(Bound::of(&run(100.0, 200.0, 0.4)), Bound::Storage);
        assert_eq!(Bound::of(&run(100.0, 200.0, 0.2)), Bound::Cores);
        assert_eq!(Bound::of(&run(200.0, 100.0, 0.4)), Bound::Compute);
        assert_eq!(Bound::of(&run(100.0, 124.0, 0.4)), Bound::Crossover);
        assert_eq!(Bound::of(&run(124.0, 100.0, 0.4)), Bound::Crossover);
    }
}
