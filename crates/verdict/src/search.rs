//! Searches for what makes a job faster: tries the levers, the most promising first, in short runs; then those that help in whole ones.

use forebay_report::{Cause, JobReport, Owner, Report, StallCause};
use rayon::prelude::*;

use super::base::{Base, Budget, Extent, RARE};
use super::lever::Lever;
use super::numbers::{
    AT_ONCE, BUSY, CHOICES, COARSE, FEW, FINE, FIRST, HALF, LIGHTENS, MENTIONED, MOST_WHOLE, SAME,
    UNLIKELY, WORTH,
};
use super::rules::{self, Reach};
use super::trial::{Effect, input_waits};

/// A lever that was tried.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    pub(crate) lever: Lever,
    pub(crate) effect: Effect,
    /// Whether the trial made all steps of the base run.
    pub(crate) is_whole: bool,
}

impl Tried {
    /// Returns whether the lever surely saves time.
    pub(crate) fn helps(&self) -> bool {
        self.effect.gain_interval[0] > WORTH
    }

    /// Returns whether the lever surely saves hardly any time.
    pub(crate) fn is_useless(&self) -> bool {
        self.effect.gain_interval[1] < WORTH
    }
}

/// The result of a search.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    /// Levers that were tried, those that save most first.
    pub(crate) tried: Vec<Tried>,
    /// Levers that may help, and for which no events were left.
    pub(crate) not_tried: Vec<Lever>,
}

impl Found {
    /// Returns the levers that save time, those that save most first.
    pub(crate) fn good(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|tried| tried.helps())
    }
}

/// A lever with the share of time that it may save.
pub(crate) struct Candidate {
    pub(crate) lever: Lever,
    /// Share of time that it may save at most.
    most: f64,
    /// `most` times the likelihood that the lever helps: the order of trials.
    pub(crate) promise: f64,
    /// Number of steps until which a first trial shows what it does.
    steps: usize,
    /// Whether it acts on what happens only at times, so that shorter trials show nothing.
    is_rare: bool,
}

/// Returns the levers that may save time, the most promising first.
pub(crate) fn candidates(levers: &[Lever], base: &Base) -> Vec<Candidate> {
    let (report, shown) = (&base.report, base.shown());
    let reads_matter = reads_matter(report, base.job);
    let each = levers.iter().map(|lever| {
        let [most, likely] = promise(lever, report, shown, reads_matter);
        let promise = most * likely;
        let steps = steps(lever, base);
        let is_rare = steps > base.steps_for(COARSE);
        Candidate { lever: lever.clone(), most, promise, steps, is_rare }
    });
    let mut all: Vec<Candidate> = each.filter(|of| of.most >= WORTH).collect();
    let first = |of: &Candidate| match (of.lever.factor, of.lever.reach) {
        _ if rules::changes_training(&of.lever.class) => UNLIKELY * of.promise,
        (Some(_), _) => of.promise,
        (None, Reach::Stalls(causes)) if causes.len() <= FEW => of.promise,
        (None, _) => CHOICES * of.promise,
    };
    all.sort_by(|a, b| first(b).total_cmp(&first(a)));
    all
}

/// Returns whether reads may hold up a job: it waits for input, or a storage is busy.
fn reads_matter(report: &Report, job: usize) -> bool {
    let storages = report.resources.iter().filter(|of| matches!(of.of.owner, Owner::Storage(_)));
    let busy = storages.filter_map(|of| of.utilisation_max.mean).fold(0.0, f64::max);
    input_waits(report, job)[0] > MENTIONED || busy > HALF
}

/// Returns the share of a job's time that a lever may save at most, and how likely it is to save that, from 0 to 1. `reads_matter` says
/// whether reads may hold up the job.
fn promise(lever: &Lever, report: &Report, shown: &JobReport, reads_matter: bool) -> [f64; 2] {
    let stall = |cause: Cause| {
        let stall = &shown.figures.stall;
        stall.share(StallCause::own(cause)) + stall.share(StallCause::peer(cause))
    };
    let all = |of: &dyn Fn(Cause) -> bool| -> f64 {
        Cause::ALL.into_iter().filter(|cause| of(*cause)).map(stall).sum()
    };
    let busy = shown.figures.accelerator_utilisation.mean.unwrap_or(0.0);
    let (own, most) = match lever.reach {
        // A stall is charged to what the awaited batch does last: what it did before may be what holds it up. And exchanges wait
        // for the last model copy, and share links with reads.
        Reach::Stalls(causes) => {
            let input = causes.iter().any(|of| of.is_input());
            let own = all(&|cause| causes.contains(&cause));
            let held_up =
                |cause: Cause| cause.is_input() || reads_matter && cause == Cause::Communication;
            (own, all(&|cause| causes.contains(&cause) || input && held_up(cause)))
        }
        Reach::All => (1.0, 1.0),
        Reach::Computing => (busy, busy + stall(Cause::Compute)),
    };
    let enlarged = report.resources.iter().filter(|of| lever.enlarges(of.of));
    let used = enlarged.filter_map(|of| of.utilisation_max.mean).reduce(f64::max);
    let likely = match used {
        Some(used) => used.min(own / most),
        // While a resource is full, only less load on it saves time, and not every lever lightens its load.
        None => own / most * (1.0 - (1.0 - LIGHTENS) * fullest(report)),
    };
    [most, likely.clamp(UNLIKELY, 1.0)]
}

/// Returns for each lever that helps the number of draws in which it passes one that stands before it, by the share of time that each may
/// save: no lever is tried in a draw.
pub(crate) fn ranks_higher(base: &Base, found: &Found) -> Vec<usize> {
    let levers: Vec<&Lever> = found.good().map(|tried| &tried.lever).collect();
    let promises = |report: &Report| -> Vec<f64> {
        let reads_matter = reads_matter(report, base.job);
        let shown = &report.jobs[base.job];
        let product = |lever: &&Lever| promise(lever, report, shown, reads_matter).iter().product();
        levers.iter().map(product).collect()
    };
    let nominal = promises(&base.report);
    let draws: Vec<Vec<f64>> = base.options.draws.iter().map(promises).collect();
    let passes = |drawn: &[f64], a: usize| {
        let mut before = (0..a).filter(|b| nominal[*b] >= nominal[a]);
        before.any(|b| drawn[a] > drawn[b] + WORTH)
    };
    (0..levers.len()).map(|a| draws.iter().filter(|drawn| passes(drawn, a)).count()).collect()
}

/// Returns the largest utilisation of a resource.
fn fullest(report: &Report) -> f64 {
    report.resources.iter().filter_map(|of| of.utilisation_max.mean).fold(0.0, f64::max)
}

/// Returns the number of steps until which a trial shows what a lever does: more if it acts on what happens only at times, such as
/// restarts, checkpoints, failures, and faults that come and go.
fn steps(lever: &Lever, base: &Base) -> usize {
    let least = base.steps_for(COARSE);
    match lever.reach {
        Reach::Stalls(causes) => {
            let reached: Vec<Cause> = RARE.into_iter().filter(|of| causes.contains(of)).collect();
            base.steps_with_rare(&reached).max(least)
        }
        Reach::All => {
            let comes_and_goes =
                base.scenario.faults.iter().any(|of| of.from > 0.0 || of.until.is_finite());
            if comes_and_goes { base.measured.end } else { least }
        }
        Reach::Computing => least,
    }
}

/// Tries levers within a budget.
pub(crate) fn search(base: &Base, levers: &[Lever], budget: &mut Budget) -> Found {
    let busy = base.shown().figures.accelerator_utilisation.mean.unwrap_or(0.0);
    let mut found = trials(base, &candidates(levers, base), budget);
    sort(&mut found.tried, busy < BUSY);
    found
}

/// Tries all candidates in short runs, and then those that help, or may help, in whole runs. Returns them sorted by what they save.
fn trials(base: &Base, candidates: &[Candidate], budget: &mut Budget) -> Found {
    // The rest of the events is for the trials that are printed.
    let most_first = budget.spent + (FIRST * budget.left() as f64) as u64;
    let mut first = Budget { most: most_first, ..*budget };
    let mut found = first_trials(base, candidates, &mut first);
    budget.spent = first.spent;
    sort(&mut found.tried, false);
    make_whole(base, &mut found, budget);
    sort(&mut found.tried, false);
    found
}

/// Tries candidates in short runs until the budget ends, in groups that run at the same time. Runs are shorter where many candidates
/// share few events.
fn first_trials(base: &Base, candidates: &[Candidate], budget: &mut Budget) -> Found {
    let mut found = Found::default();
    for (number, some) in candidates.chunks(AT_ONCE).enumerate() {
        if budget.left() == 0 {
            found.not_tried.extend(some.iter().map(|of| of.lever.clone()));
            continue;
        }
        let share = budget.left() / (candidates.len() - number * AT_ONCE) as u64;
        let most_events = budget.each_of(some.len(), base);
        let steps = |of: &Candidate| match of.is_rare {
            true => of.steps,
            false => of.steps.min(base.steps_in(share)),
        };
        let run = |of: &Candidate| {
            let extent = Extent { steps: steps(of), replications: 1, most_events };
            base.try_changes(&of.lever.changes, extent)
        };
        let effects: Vec<Option<Effect>> = some.par_iter().map(run).collect();
        for (of, effect) in some.iter().zip(effects) {
            // A run that is cut before it shows a step is no trial.
            let Some(effect) = effect else {
                found.not_tried.push(of.lever.clone());
                continue;
            };
            budget.spent += effect.events;
            let is_whole = steps(of) == base.measured.end && base.outcomes.len() == 1;
            found.tried.push(Tried { lever: of.lever.clone(), effect, is_whole });
        }
        base.tell(budget);
    }
    found
}

/// Tries again, over all steps and replications of the base run, the levers that help most or may help.
fn make_whole(base: &Base, found: &mut Found, budget: &mut Budget) {
    let again: Vec<usize> = (0..found.tried.len())
        .filter(|&at| !found.tried[at].is_whole && !found.tried[at].is_useless())
        .take(MOST_WHOLE)
        .collect();
    for some in again.chunks(AT_ONCE) {
        if budget.left() == 0 {
            break;
        }
        let most = budget.left() / AT_ONCE as u64;
        let fine = base.steps_for(FINE).min(base.steps_in(most));
        let most_events = budget.each_of(AT_ONCE, base);
        let run = |&at: &usize| {
            let lever = &found.tried[at].lever;
            let steps = steps(lever, base).max(fine);
            let extent = Extent { steps, replications: base.outcomes.len(), most_events };
            let effect = base.try_changes(&lever.changes, extent)?;
            Some(base.made_certain(effect, &lever.changes, extent, most))
        };
        let effects: Vec<Option<Effect>> = some.par_iter().map(run).collect();
        for (&at, effect) in some.iter().zip(effects) {
            let Some(effect) = effect else { continue };
            budget.spent += effect.events;
            let before = &mut found.tried[at];
            before.is_whole = true;
            // A run that was cut may be shorter than the first one.
            if effect.events < most_events || effect.half_width() < before.effect.half_width() {
                before.effect = effect;
            }
        }
        base.tell(budget);
    }
}

/// Sorts levers by what they save. Those that change the training come last; and, if asked, faster computing comes after what else helps:
/// unless a job computes nearly all the time, the question is what it waits for. Of changes that save the same, what can be bought
/// comes first.
fn sort(tried: &mut [Tried], computing_last: bool) {
    let class = |of: &Tried| match of.lever.reach {
        _ if rules::changes_training(&of.lever.class) => 2,
        Reach::Computing if computing_last => 1,
        _ => u8::from(!of.helps()),
    };
    tried.sort_by(|a, b| class(a).cmp(&class(b)).then(b.effect.gain.total_cmp(&a.effect.gain)));
    let Some(best) = tried.first().map(|of| of.effect.gain) else { return };
    let same =
        tried.iter().take_while(|of| class(of) == 0 && of.effect.gain >= best - SAME).count();
    tried[..same].sort_by_key(|of| of.lever.kind());
}

/// Returns the lever that saves most in the scenario to which the first lever of `found` has been applied: the next limit. `found`
/// has the levers that were tried on the base run.
pub(crate) fn next(
    base: &Base,
    found: &Found,
    levers: &[Lever],
    budget: &mut Budget,
) -> Option<Lever> {
    let first = found.good().next()?;
    let then = base.changed(&first.lever.changes)?;
    budget.spent += then.spent;
    let may = |of: &&Lever| !rules::changes_training(&of.class);
    let more = |of: &Lever| match of.key() == first.lever.key() {
        true if of.reach == Reach::Computing => None,
        true => of.twice(),
        false => Some(of.clone()),
    };
    let rest: Vec<Lever> = levers.iter().filter(may).filter_map(more).collect();
    let mut candidates = candidates(&rest, &then);
    // What helps before is likely to help then.
    let helps = |of: &Candidate| found.good().any(|tried| tried.lever == of.lever);
    candidates.sort_by_key(|of| !helps(of));
    let then = trials(&then, &candidates, budget);
    then.tried.into_iter().find(Tried::helps).map(|of| of.lever)
}

/// Returns whether a lever only changes how input gets to the job, so that it may be a need.
pub(crate) fn is_of_input(lever: &Lever) -> bool {
    let input = |causes: &[Cause]| causes.iter().any(|of| of.is_input());
    lever.factor.is_some_and(|factor| factor > 1.0)
        && match rules::reach(&lever.class) {
            Reach::Stalls(causes) => input(causes),
            Reach::All | Reach::Computing => false,
        }
}
