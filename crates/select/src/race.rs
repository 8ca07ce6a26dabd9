//! Fully sequential selection of the best of several alternatives among those that meet constraints.
//!
//! The procedure is that of S.-H. Kim and B. L. Nelson, *A fully sequential procedure for indifference-zone selection in simulation*,
//! ACM TOMACS 11(3), 2001 (KN, with c = 1), and, for constraints, the feasibility check of S. Andradóttir and S.-H. Kim, *Fully sequential
//! procedures for comparing constrained systems via simulation*, Naval Research Logistics 57(5), 2010, both at once (their AK+). After `first`
//! replications of each alternative, every further one is made only of alternatives that are still undecided. The sum of the
//! differences between two alternatives is a Brownian motion with drift; it leaves a triangle whose height follows from the
//! variance of the first replications, and the wrong side has the probability that the certainty allows.
//!
//! A triangle takes many replications where a difference is large and the indifference small. So half of the allowed error goes to
//! ordinary t-tests after `first`, twice, four times, eight times … as many replications, each with a smaller share of it
//! (1/2, 1/6, 1/12, …, which add up to 1): what is clear is decided by the first of them.
//!
//! Replications that are equal show no variance, but a rare event, such as a failure of a node, may only have been missed. They decide if an
//! interval is known otherwise ([`Race::know`]), or once there are so many that more than one in twenty would differ with a
//! probability of under 5 %.
//!
//! Replication `r` of all alternatives may use the same random numbers: variances are those of differences, and the
//! probabilities of all errors are added (Bonferroni), so that the certainty holds with and without them, and common random numbers save
//! replications.

use forebay_engine::stats::{mean, sd, student_quantile};

/// Replications that differ from the median, from which on their variance is an estimate.
const DIFFERING: usize = 3;

/// Number of equal replications from which on at most one in twenty differs, with a probability of 95 %: ln 0.05 ÷ ln 0.95.
const EQUAL: usize = 59;

/// What a race is to find out, and how certainly.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Probability that the result is right wherever differences exceed the indifferences, such as 0.95.
    pub certainty: f64,
    /// Difference of objectives from which on the better alternative matters; above 0.
    pub indifference: f64,
    /// For each constraint, the margin below which either decision is as good; above 0.
    pub tolerances: Vec<f64>,
    /// Replications of each alternative before anything is decided; at least 2.
    pub first: usize,
    /// Replications of each alternative after which the race ends undecided.
    pub most: usize,
}

/// What a replication of an alternative shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// Objective; larger is better.
    pub objective: f64,
    /// For each constraint how far it is met: above 0 if it is, below 0 if not.
    pub margins: Vec<f64>,
}

/// Intervals of expected values that are known from within replications. They allow for events that no replication showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// Interval of the objective; two equal ends if it is the same in every replication.
    pub objective: Option<[f64; 2]>,
    /// Interval of the margin of each constraint.
    pub margins: Vec<Option<[f64; 2]>>,
}

/// Where an alternative stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It meets all constraints, and no other is better by more than the indifference.
    Best,
    /// The alternative with this index is better.
    Beaten(usize),
    /// It misses the constraint with this index.
    Misses(usize),
    /// Not decided after as many replications as are allowed.
    Undecided,
    /// It was withdrawn, because it could not be observed.
    Withdrawn,
}

/// Returns the squared half-width h² of the triangle, in standard deviations of a difference per indifference, for an error of
/// probability `error` and a variance from `first` replications: 2 η (first − 1) with η = ((2 error)^(−2 ÷ (first − 1)) − 1) ÷ 2
/// (Kim and Nelson 2001, equation 1 with c = 1).
#[must_use]
pub fn boundary(error: f64, first: usize) -> f64 {
    let degrees = first.max(2) as f64 - 1.0;
    let eta = ((2.0 * error).powf(-2.0 / degrees) - 1.0) / 2.0;
    2.0 * eta.max(0.0) * degrees
}

/// A race between alternatives. Ask which of them need a replication ([`Race::wanted`]), make one of each, hand them in
/// ([`Race::observe`]), and ask again, until none is wanted.
#[derive(Debug, Clone)]
pub struct Race {
    rules: Rules,
    entrants: Vec<Entrant>,
    /// How comparisons and constraints are decided.
    compare: Boundary,
    check: Boundary,
}

/// When the sum of differences decides.
#[derive(Debug, Clone, Copy)]
struct Boundary {
    /// h² of the triangle.
    squared: f64,
    /// Probability of an error of all t-tests together.
    error: f64,
    /// Number of replications before the first t-test.
    first: usize,
}

impl Boundary {
    fn new(error: f64, first: usize) -> Boundary {
        Boundary { squared: boundary(error / 2.0, first), error: error / 2.0, first }
    }

    /// Returns whether the mean of the differences is decided to be above 0 or below it; `None` if it is not decided.
    fn decide(&self, differences: &[f64], indifference: f64) -> Option<bool> {
        let (number, sum) = (differences.len(), differences.iter().sum::<f64>());
        let first = first_stage(differences, self.first)?;
        let variance = variance(&differences[..first]);
        let triangle = self.squared * variance / indifference - indifference * number as f64;
        let limit = (triangle / 2.0).max(0.0).min(self.test(differences));
        match sum {
            _ if sum > limit || (sum == 0.0 && limit == 0.0) => Some(true),
            _ if sum < -limit => Some(false),
            _ => None,
        }
    }

    /// Returns how far the sum must be from 0 for the t-test after this number of replications; infinite where there is none.
    fn test(&self, differences: &[f64]) -> f64 {
        let times = differences.len() / self.first;
        if !differences.len().is_multiple_of(self.first) || !times.is_power_of_two() {
            return f64::INFINITY;
        }
        let (look, number) = (f64::from(times.ilog2()) + 1.0, differences.len() as f64);
        let error = self.error / (look * (look + 1.0));
        let quantile = student_quantile(1.0 - error, number - 1.0).unwrap_or(f64::INFINITY);
        match sd(differences) {
            Some(sd) if sd > 0.0 => quantile * sd * number.sqrt(),
            _ => f64::INFINITY,
        }
    }
}

/// Returns after how many replications, at least `first`, their variance is an estimate; `None` if it is none yet.
fn first_stage(differences: &[f64], first: usize) -> Option<usize> {
    let is_enough = |number: &usize| *number >= EQUAL || differ(&differences[..*number]);
    (first..=differences.len()).find(is_enough)
}

/// Returns whether replications differ often enough for their variance to be an estimate.
fn differ(values: &[f64]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    // With as few as two replications, all that can differ do.
    let least = DIFFERING.min(values.len().saturating_sub(1)).max(1);
    sorted.iter().filter(|value| **value != median).count() >= least
}

#[derive(Debug, Clone, Default)]
struct Entrant {
    objectives: Vec<f64>,
    /// Margins of each constraint.
    margins: Vec<Vec<f64>>,
    /// Whether all replications are equal, so that one is enough.
    is_exact: bool,
    known: Known,
    is_withdrawn: bool,
    /// Whether each constraint is met, once that is decided.
    met: Vec<Option<bool>>,
    beaten_by: Option<usize>,
}

impl Entrant {
    fn misses(&self) -> Option<usize> {
        self.met.iter().position(|met| *met == Some(false))
    }

    fn is_feasible(&self) -> bool {
        !self.is_withdrawn && self.met.iter().all(|met| *met == Some(true))
    }

    /// Whether it may still be the best.
    fn is_in(&self) -> bool {
        !self.is_withdrawn && self.beaten_by.is_none() && self.misses().is_none()
    }
}

impl Race {
    /// Begins a race between as many alternatives.
    #[must_use]
    pub fn new(alternatives: usize, rules: Rules) -> Race {
        let error = 1.0 - rules.certainty;
        let constraints = rules.tolerances.len();
        let (rivals, checks) = (alternatives.saturating_sub(1), alternatives * constraints);
        // Both kinds of error share what is allowed.
        let kinds = f64::from(u8::from(rivals > 0) + u8::from(checks > 0)).max(1.0);
        let each = |number: usize| error / kinds / number.max(1) as f64;
        let entrant = Entrant {
            margins: vec![Vec::new(); constraints],
            met: vec![None; constraints],
            ..Entrant::default()
        };
        Race {
            compare: Boundary::new(each(rivals), rules.first.max(2)),
            check: Boundary::new(each(checks), rules.first.max(2)),
            entrants: vec![entrant; alternatives],
            rules,
        }
    }

    /// Returns the alternatives that need a replication, each with its number from 0; none when the race is over.
    #[must_use]
    pub fn wanted(&self) -> Vec<(usize, usize)> {
        let first = self.rules.first.max(2);
        let number = |at: usize| self.entrants[at].objectives.len();
        let open = |at: &usize| {
            let entrant = &self.entrants[*at];
            !entrant.is_exact && !entrant.is_withdrawn
        };
        let all = 0..self.entrants.len();
        let begins: Vec<_> =
            all.filter(open).filter(|at| number(*at) < first).map(|at| (at, number(at))).collect();
        if !begins.is_empty() {
            return begins;
        }
        let left = self.undecided().into_iter().filter(open);
        left.filter(|at| number(*at) < self.rules.most).map(|at| (at, number(at))).collect()
    }

    /// Hands in the next replication of an alternative.
    pub fn observe(&mut self, alternative: usize, observation: &Observation) {
        let entrant = &mut self.entrants[alternative];
        entrant.objectives.push(observation.objective);
        for (all, margin) in entrant.margins.iter_mut().zip(&observation.margins) {
            all.push(*margin);
        }
        self.decide();
    }

    /// Says that all replications of an alternative are as the last one: it needs no more.
    pub fn settle(&mut self, alternative: usize) {
        self.entrants[alternative].is_exact = true;
        self.decide();
    }

    /// Says what is known of an alternative beside its replications.
    pub fn know(&mut self, alternative: usize, known: Known) {
        self.entrants[alternative].known = known;
        self.decide();
    }

    /// Takes an alternative out of the race.
    pub fn withdraw(&mut self, alternative: usize) {
        self.entrants[alternative].is_withdrawn = true;
        self.decide();
    }

    /// Returns the place of an alternative.
    #[must_use]
    pub fn place(&self, alternative: usize) -> Place {
        let entrant = &self.entrants[alternative];
        match (entrant.misses(), entrant.beaten_by) {
            _ if entrant.is_withdrawn => Place::Withdrawn,
            (Some(constraint), _) => Place::Misses(constraint),
            (None, Some(by)) => Place::Beaten(by),
            (None, None) if entrant.is_feasible() && self.undecided().is_empty() => Place::Best,
            (None, None) => Place::Undecided,
        }
    }

    /// Returns the best alternative: the selected one, or, if the race ended undecided, the one with the largest mean among those that meet the
    /// constraints by their means; `None` if none does.
    #[must_use]
    pub fn best(&self) -> Option<usize> {
        let meets = |at: &usize| {
            let entrant = &self.entrants[*at];
            let by_mean = |(met, margins): (&Option<bool>, &Vec<f64>)| {
                met.unwrap_or_else(|| mean(margins).is_some_and(|margin| margin >= 0.0))
            };
            entrant.is_in() && entrant.met.iter().zip(&entrant.margins).all(by_mean)
        };
        let mean_of = |at: usize| mean(&self.entrants[at].objectives).unwrap_or(f64::NEG_INFINITY);
        let feasible = (0..self.entrants.len()).filter(meets);
        feasible.rev().max_by(|a, b| mean_of(*a).total_cmp(&mean_of(*b)))
    }

    /// Returns whether everything was decided with the certainty that was asked for.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.undecided().is_empty() && self.wanted().is_empty()
    }

    /// Returns the number of replications that an alternative has.
    #[must_use]
    pub fn replications(&self, alternative: usize) -> usize {
        self.entrants[alternative].objectives.len()
    }

    /// Returns the alternatives that need more replications: those whose constraints are open, and all that may be the best if these are
    /// several.
    fn undecided(&self) -> Vec<usize> {
        let left = || (0..self.entrants.len()).filter(|at| self.entrants[*at].is_in());
        if left().count() > 1 {
            return left().collect();
        }
        left().filter(|at| !self.entrants[*at].is_feasible()).collect()
    }

    fn decide(&mut self) {
        let first = self.rules.first.max(2);
        for at in 0..self.entrants.len() {
            let entrant = &self.entrants[at];
            if entrant.is_exact || entrant.objectives.len() >= first {
                let met = self.checked(entrant);
                self.entrants[at].met = met;
            }
        }
        for at in 0..self.entrants.len() {
            let beaten = |by: &usize| {
                let rival = &self.entrants[*by];
                *by != at && rival.is_in() && rival.is_feasible() && self.beats(*by, at)
            };
            if self.entrants[at].is_in() {
                self.entrants[at].beaten_by = (0..self.entrants.len()).find(beaten);
            }
        }
    }

    /// Returns which constraints are met, as far as that is decided.
    fn checked(&self, entrant: &Entrant) -> Vec<Option<bool>> {
        let constraints = entrant.margins.iter().zip(&self.rules.tolerances).enumerate();
        let one = |(at, (margins, tolerance)): (usize, (&Vec<f64>, &f64))| {
            if let Some(met) = entrant.met[at] {
                return Some(met);
            }
            if entrant.is_exact {
                return margins.first().map(|margin| *margin >= 0.0);
            }
            let known = entrant.known.margins.get(at).copied().flatten();
            let known = known.filter(|_| !differ(margins));
            match known {
                Some([low, _]) if low >= 0.0 => Some(true),
                Some([_, high]) if high < 0.0 => Some(false),
                _ => self.check.decide(margins, *tolerance),
            }
        };
        constraints.map(one).collect()
    }

    /// Returns whether alternative `a` is decided to be better than `b`; of equal ones, the first is.
    fn beats(&self, a: usize, b: usize) -> bool {
        let (left, right) = (&self.entrants[a], &self.entrants[b]);
        let is_better = |of: f64| of > 0.0 || (of == 0.0 && a < b);
        if let (Some(left), Some(right)) = (left.exact(), right.exact()) {
            return is_better(left - right);
        }
        let varying = [left, right].into_iter().filter(|of| !of.is_exact);
        let number = varying.map(|of| of.objectives.len()).min().unwrap_or(0);
        let at = |entrant: &Entrant, replication: usize| {
            let last = entrant.objectives.len().saturating_sub(1);
            entrant.objectives.get(replication.min(last)).copied().unwrap_or(f64::NAN)
        };
        let differences: Vec<f64> =
            (0..number).map(|replication| at(left, replication) - at(right, replication)).collect();
        let is_apart = match (left.interval(), right.interval()) {
            (Some([low, _]), Some([_, high])) => low > high,
            _ => false,
        };
        if is_apart && number >= self.compare.first && !differ(&differences) {
            return true;
        }
        let sum: f64 = differences.iter().sum();
        self.compare.decide(&differences, self.rules.indifference) == Some(true) && is_better(sum)
    }
}

impl Entrant {
    /// Returns the objective if it is the same in every replication.
    fn exact(&self) -> Option<f64> {
        let first = self.objectives.first().copied();
        first.filter(|of| self.is_exact || self.known.objective == Some([*of; 2]))
    }

    /// Returns the interval of the objective that is known beside the replications.
    fn interval(&self) -> Option<[f64; 2]> {
        self.exact().map(|of| [of; 2]).or(self.known.objective)
    }
}

/// Returns the sample variance; 0 of fewer than two values.
fn variance(values: &[f64]) -> f64 {
    sd(values).map_or(0.0, |sd| sd * sd)
}

#[cfg(test)]
mod tests;
