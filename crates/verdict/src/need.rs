//! What a job needs so that it does not wait for input: amounts that hold when they are set together, found by setting them together.
//!
//! First all amounts that input may wait for are made plentiful. If the job still waits, no number suffices. Otherwise one amount
//! after the other is made as small as it may be, the least promising first, so that what the job waits for now is what it needs. At each
//! step the job is fed by the amounts as they are then, so the last ones hold together.

use forebay_report::{Cause, JobReport, Need, Report, StallCause};
use forebay_scenario::{Override, Scenario};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

use super::base::{Base, Budget, Extent};
use super::lever::Lever;
use super::numbers::{COARSE, ENOUGH_INPUT, FINE, LASTING, MOST_LONGER, MOST_ROUNDS, PLENTY, STEP};
use super::rules;
use super::search::{candidates, is_of_input};
use super::trial::input_waits;

/// What was found about the needs of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Needs {
    /// What must be enlarged, and by how much; with all of it the job does not wait for input.
    pub(crate) all: Vec<Amount>,
    /// Whether the job waits for input whatever the amounts.
    pub(crate) nothing_suffices: bool,
    /// Whether the budget ended before any amounts were found.
    pub(crate) gave_up: bool,
    /// Whether the budget ended before the amounts were as small as they may be.
    pub(crate) loose: bool,
}

/// An amount that suffices together with the others.
#[derive(Debug, Clone)]
pub(crate) struct Amount {
    pub(crate) lever: Lever,
    pub(crate) factor: f64,
    pub(crate) change: Vec<Override>,
}

/// A search for needs.
struct Search<'a, 'b> {
    base: &'a Base<'b>,
    /// Levers of input, the least promising first.
    levers: Vec<&'a Lever>,
    /// Numbers of steps of short, long and lasting runs.
    lengths: [usize; 3],
    /// Numbers of steps of runs, each tried where the one before leaves it open whether the job is fed.
    steps: Vec<usize>,
    /// Whether the job must be fed with constants as they are written, too, which is what the user sees next. Workers that march in step
    /// may wait whatever the amounts; then those for times that vary remain.
    also_as_written: bool,
    /// Throughput that the job needs from its loaders ÷ their throughput in the base run.
    required: f64,
    /// Whether the job was fed in runs of these steps with these factors, so that none is simulated twice.
    known: BTreeMap<(Vec<usize>, Vec<u64>), bool>,
}

impl Search<'_, '_> {
    /// Returns the overrides that multiply each lever's amount by its factor; the nearest accepted amounts.
    fn changes(&self, factors: &[f64]) -> Option<Vec<Override>> {
        let each = self.levers.iter().zip(factors).filter(|(_, factor)| **factor > 1.0);
        let each: Option<Vec<Vec<Override>>> =
            each.map(|(lever, factor)| lever.scaled.as_ref()?.times(*factor)).collect();
        Some(each?.concat())
    }

    /// Returns whether the job is fed with these factors, and the events of the runs that show it.
    fn feeds(&self, factors: &[f64], most_events: u64) -> (bool, u64) {
        let Some(changes) = self.changes(factors) else { return (false, 0) };
        let (fed, events) = self.is_fed(self.base.scenario_with(&changes), most_events);
        if !fed || !self.also_as_written {
            return (fed, events);
        }
        let (fed, more) = self.is_fed(self.base.as_written_with(&changes), most_events);
        (fed, events + more)
    }

    /// Returns whether a changed scenario feeds the job, at no other job's cost, and the events of the runs that show it.
    fn is_fed(&self, scenario: Option<Scenario>, most_events: u64) -> (bool, u64) {
        let Some(scenario) = scenario else { return (false, 0) };
        let (mut events, mut last) = (0, 1.0);
        for steps in &self.steps {
            let extent = Extent { steps: *steps, replications: 1, most_events };
            let outcomes = self.base.run(&scenario, extent);
            events += outcomes[0].events_of_all_steps();
            let report = self.base.report_of(&scenario, &outcomes);
            let [waits, of_waits] = input_waits(&report, self.base.job);
            let [more, of_more] = drained(&report.jobs[self.base.job]);
            let (waits, half) = (waits + more, of_waits + of_more);
            last = waits;
            if waits - half > ENOUGH_INPUT || self.harms(&report) {
                return (false, events);
            }
            if waits + half <= ENOUGH_INPUT {
                return (true, events);
            }
        }
        (last <= ENOUGH_INPUT, events)
    }

    /// Returns whether steps of another job take longer than in the base run.
    fn harms(&self, report: &Report) -> bool {
        let step = |of: &JobReport| of.figures.step_time.mean;
        let all = self.base.report.jobs.iter().zip(&report.jobs).enumerate();
        let others = all.filter(|(index, _)| *index != self.base.job);
        let mut longer =
            others.filter_map(|(_, (before, after))| Some(step(after)? / step(before)?));
        longer.any(|times| times > 1.0 + ENOUGH_INPUT)
    }

    /// Returns for each list of factors whether the job is fed with it.
    fn feed_each(&mut self, each: &[Vec<f64>], budget: &mut Budget) -> Vec<bool> {
        let key = |steps: &[usize], factors: &[f64]| {
            (steps.to_vec(), factors.iter().map(|factor| factor.to_bits()).collect::<Vec<u64>>())
        };
        let new = each.iter().filter(|with| !self.known.contains_key(&key(&self.steps, with)));
        let new: Vec<&Vec<f64>> = new.collect();
        let most_events = budget.each_of(new.len().max(1), self.base);
        let found: Vec<(bool, u64)> =
            new.par_iter().map(|factors| self.feeds(factors, most_events)).collect();
        for (factors, (fed, events)) in new.into_iter().zip(found) {
            budget.spent += events;
            self.known.insert(key(&self.steps, factors), fed);
        }
        self.base.tell(budget);
        each.iter().map(|with| self.known[&key(&self.steps, with)]).collect()
    }

    fn suffices(&mut self, factors: &[f64], budget: &mut Budget) -> bool {
        // With all factors 1 this is the base run, in which the job waits.
        factors.iter().any(|factor| *factor > 1.0) && self.feed_each(&[factors.to_vec()], budget)[0]
    }

    /// Returns by how much a lever's amount must at least grow where nothing else holds samples up: as much as samples must come faster,
    /// less what its resource leaves unused.
    fn estimate(&self, lever: &Lever) -> f64 {
        let enlarged = self.base.report.resources.iter().filter(|of| lever.enlarges(of.of));
        let used = enlarged.filter_map(|of| of.utilisation_max.mean).reduce(f64::max);
        self.required * used.unwrap_or(1.0)
    }
}

/// Returns the share of time by which a job would wait longer if its buffers had not drained during the run, and its half-width: both
/// are differences of rates.
fn drained(shown: &JobReport) -> [f64; 2] {
    let (rate, lasting) =
        (&shown.figures.samples_per_second, shown.length.long_run_samples_per_second);
    let Some((mean, lasting)) = rate.mean.zip(lasting) else { return [0.0; 2] };
    let more = (1.0 - lasting / mean).max(0.0);
    let half = rate.ci95.map_or(0.0, |[low, high]| (high - low) / 2.0 / mean);
    [more, half.min(more)]
}

/// Returns the needs of the base run's job; `None` if it does not wait for input.
pub(crate) fn needs(base: &Base, levers: &[Lever], budget: &mut Budget) -> Option<Needs> {
    let waits = input_waits(&base.report, base.job)[0];
    if waits <= ENOUGH_INPUT {
        return None;
    }
    let mut search = Search::new(base, levers, waits, budget);
    Some(match search.plentiful(budget) {
        Ok(factors) => search.least(factors, budget),
        Err(nothing) => nothing,
    })
}

impl<'a, 'b> Search<'a, 'b> {
    /// Begins the search for needs of a job that waits for input for this share of its time.
    fn new(base: &'a Base<'b>, levers: &'a [Lever], waits: f64, budget: &Budget) -> Search<'a, 'b> {
        // Model copies also wait for others that wait for input.
        let waits = waits + base.shown().figures.stall.share(StallCause::peer(Cause::Compute));
        let promising = candidates(levers, base);
        let promise = |lever: &Lever| {
            promising.iter().find(|of| of.lever == *lever).map_or(0.0, |of| of.promise)
        };
        let may = |of: &&Lever| is_of_input(of) && !rules::changes_training(&of.class);
        let mut levers: Vec<&Lever> = levers.iter().filter(may).collect();
        levers.sort_by(|a, b| promise(a).total_cmp(&promise(b)));
        // Waits that come seldom come in each run.
        let rare = base.steps_with_rare(&[Cause::Restart]);
        let [short, long] = [COARSE, FINE].map(|half| base.steps_for(half).max(rare));
        // A job that is nearly fed waits seldom, so a few runs are longer if that costs little.
        let affordable = base.steps_of(budget.left() / LASTING);
        let lasting = long.max(affordable.min(long + MOST_LONGER as usize * base.measured.len()));
        Search {
            base,
            levers,
            lengths: [short, long, lasting],
            steps: Vec::new(),
            also_as_written: false,
            required: 1.0 / (1.0 - waits).max(f64::MIN_POSITIVE),
            known: BTreeMap::new(),
        }
    }

    /// Lets later runs make these numbers of steps.
    fn run_for(&mut self, steps: &[usize]) {
        self.steps = steps.to_vec();
        self.steps.dedup();
    }

    /// Returns factors with which all amounts are plentiful, so that the job is fed; what is known of its needs if there are none.
    fn plentiful(&mut self, budget: &mut Budget) -> Result<Vec<f64>, Needs> {
        let [_, long, lasting] = self.lengths;
        self.run_for(&[long, lasting]);
        // A factor below `required` suffices only where several amounts multiply, as threads and their speed do.
        let (less, more): (Vec<f64>, Vec<f64>) =
            PLENTY.iter().partition(|most| **most < self.required);
        let each = |buffers| more.iter().chain(&less).map(move |most| (*most, buffers));
        // Large buffers take long to fill, so they are enlarged only where nothing else suffices.
        for (most, buffers) in each(false).chain(each(true)) {
            let with = self.enlarged(most, buffers);
            if budget.left() > 0 && self.suffices(&with, budget) {
                return Ok(with);
            }
        }
        // Amounts that are refused together say nothing of larger ones.
        let changes = self.changes(&self.enlarged(PLENTY[PLENTY.len() - 1], true));
        let is_accepted = changes.is_some_and(|of| self.base.scenario_with(&of).is_some());
        let nothing_suffices = is_accepted && budget.left() > 0;
        Err(Needs { nothing_suffices, gave_up: !nothing_suffices, ..Needs::default() })
    }

    /// Returns for each lever the largest accepted factor up to `most`; 1 for buffers unless they are asked for.
    fn enlarged(&self, most: f64, buffers: bool) -> Vec<f64> {
        let factor = |lever: &&Lever| match buffers || !rules::is_buffer(&lever.class) {
            true => largest_of(self.base, lever, most),
            false => 1.0,
        };
        self.levers.iter().map(factor).collect()
    }

    /// Returns the least amounts that feed the job, from `factors` that do.
    fn least(&mut self, mut factors: Vec<f64>, budget: &mut Budget) -> Needs {
        let [.., lasting] = self.lengths;
        self.run_for(&self.lengths.clone());
        let all = 0..factors.len();
        let mut loose = settle(self, &mut factors, all, budget).is_none();
        let mut found = Needs { gave_up: true, ..Needs::default() };
        for _ in 0..MOST_ROUNDS {
            // An amount may be smaller again once those after it are: more workers need more cores.
            let grown: Vec<usize> = (0..factors.len()).filter(|at| factors[*at] > 1.0).collect();
            for at in &grown {
                // What was found holds, even if it is more than is needed.
                if settle(self, &mut factors, *at..at + 1, budget).is_none() {
                    loose |= grown.len() > 1;
                    break;
                }
            }
            self.round_up(&mut factors);
            self.run_for(&[lasting]);
            if self.suffices(&factors, budget) {
                found = Needs { all: self.amounts(&factors), loose, ..Needs::default() };
                if !self.base.is_varied || self.also_as_written {
                    break;
                }
                self.also_as_written = true;
                self.known.clear();
                if self.suffices(&factors, budget) || budget.left() == 0 {
                    break;
                }
            }
            for factor in factors.iter_mut().filter(|factor| **factor > 1.0) {
                *factor *= STEP;
            }
        }
        found
    }
}

/// Minimises the factors in `range`: sets all of them to 1 if the job is still fed, and otherwise minimises the first half of the range,
/// then the second. `None` if the budget runs out.
fn settle(
    search: &mut Search,
    factors: &mut [f64],
    range: Range<usize>,
    budget: &mut Budget,
) -> Option<()> {
    if budget.left() == 0 {
        return None;
    }
    let mut with = factors.to_vec();
    with[range.clone()].fill(1.0);
    if with == factors || search.suffices(&with, budget) {
        factors.copy_from_slice(&with);
        return Some(());
    }
    if range.len() == 1 {
        factors[range.start] = smallest(search, factors, range.start, budget);
        return Some(());
    }
    let middle = range.start.midpoint(range.end);
    settle(search, factors, range.start..middle, budget)?;
    settle(search, factors, middle..range.end, budget)
}

/// Returns the smallest factor of one lever with which the job does not wait for input, with the others as they are in `factors`; it
/// is above 1.
fn smallest(search: &mut Search, factors: &[f64], at: usize, budget: &mut Budget) -> f64 {
    let with = |factor: f64| {
        let mut with = factors.to_vec();
        with[at] = factor;
        with
    };
    let (mut low, mut high) = (1.0_f64, factors[at]);
    let scaled = search.levers[at].scaled.as_ref();
    let differ = |low: f64, high: f64| scaled.is_none_or(|of| of.differ(low, high));
    let estimate = search.estimate(search.levers[at]);
    // One amount just below the estimate and one just above: if the estimate is right, the search ends with them.
    let mut guess = Some([estimate / STEP.sqrt(), estimate * STEP.sqrt() * (1.0 - f64::EPSILON)]);
    while high / low > STEP && differ(low, high) {
        let ratio = (high / low).cbrt();
        let guess = guess.take().filter(|[below, above]| low < *below && *above < high);
        let between = guess.unwrap_or([low * ratio, low * ratio * ratio]);
        let fed = search.feed_each(&between.map(with), budget);
        (low, high) = match fed[..] {
            [true, _] => (low, between[0]),
            [false, true] => (between[0], between[1]),
            _ => (between[1], high),
        };
    }
    high
}

impl Search<'_, '_> {
    fn round_up(&self, factors: &mut [f64]) {
        for (factor, lever) in factors.iter_mut().zip(&self.levers) {
            if let Some(scaled) = lever.scaled.as_ref().filter(|_| *factor > 1.0) {
                *factor = scaled.round_up(*factor);
            }
        }
    }

    fn amounts(&self, factors: &[f64]) -> Vec<Amount> {
        let each = self.levers.iter().zip(factors).filter(|(_, factor)| **factor > 1.0);
        let amount = |(lever, factor): (&&Lever, &f64)| {
            let change = lever.scaled.as_ref()?.times(*factor)?;
            Some(Amount { lever: (*lever).clone(), factor: *factor, change })
        };
        each.filter_map(amount).collect()
    }
}

/// Returns the largest factor of a lever's amount, up to `most`, that the scenario accepts.
fn largest_of(base: &Base, lever: &Lever, most: f64) -> f64 {
    let accepted = |factor: &f64| {
        let changes = lever.scaled.as_ref().and_then(|of| of.times(*factor));
        changes.is_some_and(|changes| base.scenario_with(&changes).is_some())
    };
    let halves = std::iter::successors(Some(most), |factor| Some(factor / 2.0));
    halves.take_while(|factor| *factor > 1.0).find(accepted).unwrap_or(1.0)
}

impl Amount {
    /// Returns the need as reports have it.
    pub(crate) fn need(&self, base: &Base) -> Need {
        let resources = &base.report.resources;
        let now = self.lever.scaled.as_ref().and_then(|of| of.now());
        // The arm of a disk has no bandwidth, but is faster along with it.
        let is_it = |capacity: f64| now.is_none_or(|now| (capacity / now - 1.0).abs() < 1e-6);
        let resource = resources.iter().find(|of| self.lever.enlarges(of.of) && is_it(of.capacity));
        let capacity = now.or(resource.map(|of| of.capacity)).unwrap_or(0.0);
        let set = self.change.first().and_then(Override::value).and_then(|value| value.as_f64());
        Need {
            name: self.lever.words(&base.scenario),
            resource: resource.map_or_else(|| self.lever.key().to_owned(), |of| of.name.clone()),
            unit: resource.map_or(String::new(), |of| of.unit.clone()),
            capacity,
            needed: set.unwrap_or(capacity * self.factor),
            changes: self.change.iter().cloned().map(Into::into).collect(),
        }
    }
}
