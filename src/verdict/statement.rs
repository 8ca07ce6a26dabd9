//! The verdict as a report has it, from the result of a search.

use crate::report::{Limit, LongRun, Need, OtherJob, Verdict};
use crate::scenario::Scenario;

use super::candidates::{Candidate, FULL, Subject, USED};
use super::finder::{Found, Tried};
use super::lever::Lever;
use super::reference::{Effect, Reference};
use super::{MOST_NOT_TRIED, PROMISING, WORTH, relax, words};

/// What is known of a job when its verdict is put into words.
pub(super) struct Statement<'s, 'a> {
    pub(super) subject: Subject<'a>,
    pub(super) found: &'s Found,
    /// Whether the steps in the run's own figures are faster than steps can be in the long run.
    pub(super) flatters: bool,
    /// The limit behind the first one.
    pub(super) next: Option<String>,
    pub(super) needs: Vec<Need>,
    /// The needs in the first epoch, if later epochs find more in caches.
    pub(super) first_epoch_needs: Vec<Need>,
    /// Base runs of the other jobs.
    pub(super) others: &'s [Reference<'a>],
    /// Events of the short runs.
    pub(super) events: u64,
}

impl Statement<'_, '_> {
    /// Returns the verdict, whose text is still empty.
    pub(super) fn verdict(&self) -> Verdict {
        let (scenario, now) = (self.subject.scenario, &self.found.now);
        let rest = || self.found.tried.iter().filter(|tried| !tried.helps());
        let names_of = |uncertain: bool| {
            let all = rest().filter(|tried| tried.is_uncertain() == uncertain);
            all.map(|tried| names(scenario, &tried.levers)).collect()
        };
        let others = self.skipped().filter(|of| !self.is_full(of));
        let others = others.filter(|candidate| candidate.promise >= PROMISING);
        Verdict {
            job: scenario.jobs[self.subject.job].name.clone(),
            quick: false,
            long_run: Some(LongRun {
                step_time: now.step,
                accelerator_utilisation: now.computing,
                reached: !now.draining && !self.flatters,
            }),
            limits: self.found.good().enumerate().map(|(at, of)| self.limit(of, at == 0)).collect(),
            saturated: self.full().map(|of| of.lever.resource(scenario)).collect(),
            without_effect: names_of(false),
            uncertain: names_of(true),
            not_tried: others.map(|of| of.lever.words(scenario)).take(MOST_NOT_TRIED).collect(),
            needs: self.needs.clone(),
            first_epoch_needs: self.first_epoch_needs.clone(),
            events: self.events,
            text: String::new(),
        }
    }

    /// Returns the advice on each limit, in words.
    pub(super) fn advice(&self) -> Vec<String> {
        self.found.good().map(|tried| words::advice(self.subject.scenario, tried)).collect()
    }

    /// Returns the full resources that were not relaxed, in words.
    pub(super) fn full_in_words(&self) -> Vec<String> {
        self.full().map(|candidate| candidate.lever.words(self.subject.scenario)).collect()
    }

    fn skipped(&self) -> impl Iterator<Item = &Candidate> {
        self.found.skipped.iter()
    }

    fn full(&self) -> impl Iterator<Item = &Candidate> {
        self.skipped().filter(|candidate| self.is_full(candidate))
    }

    /// Returns whether the resource of a candidate counts as full. A resource that fills buffers was idle while they were full.
    /// If buffers may have hidden the bottleneck in this way, the most used resource counts as full, although it was not used
    /// all the time.
    fn is_full(&self, candidate: &Candidate) -> bool {
        let hidden = self.found.now.draining || self.flatters;
        let most = self.skipped().map(|candidate| candidate.used).fold(USED, f64::max);
        candidate.used >= if hidden { most } else { FULL }
    }

    fn limit(&self, tried: &Tried, first: bool) -> Limit {
        let scenario = self.subject.scenario;
        let each = |of: &dyn Fn(&Lever) -> String| tried.levers.iter().map(of).collect::<Vec<_>>();
        let Effect { after, after_interval, gain, gain_interval } = tried.effect;
        let multiplied = tried.levers.iter().all(|lever| lever.multiplies(scenario));
        Limit {
            name: names(scenario, &tried.levers),
            lever: each(&|lever| lever.kind.row().name.to_owned()).join("+"),
            resource: each(&|lever| lever.resource(scenario)).join("+"),
            at: tried.levers.iter().map(|lever| lever.at).collect(),
            key: each(&|lever| lever.key(scenario)).join("+"),
            factor: multiplied.then_some(relax::FACTOR),
            before: self.found.now.step,
            after,
            after_interval,
            gain,
            gain_interval,
            next: self.next.clone().filter(|_| first),
            others: self.others.iter().filter_map(|other| on_other(other, tried)).collect(),
        }
    }
}

/// Returns the effect of a trial on another job; `None` if it has none, or is not known.
fn on_other(other: &Reference, tried: &Tried) -> Option<OtherJob> {
    let Effect { after, gain, gain_interval, .. } = tried.seen_from(other)?.effect;
    let [low, high] = gain_interval;
    let sure = low > WORTH || high < -WORTH;
    sure.then(|| OtherJob {
        job: other.subject.shown().name.clone(),
        before: after / (1.0 - gain),
        after,
        gain,
        gain_interval,
    })
}

pub(super) fn names(scenario: &Scenario, levers: &[Lever]) -> String {
    levers.iter().map(|lever| lever.words(scenario)).collect::<Vec<_>>().join(" and ")
}
