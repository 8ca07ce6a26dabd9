//! Steady state: once the steps of a job repeat exactly, further repetitions are not simulated but computed.
//!
//! After a step, a job copy may rest ([`crate::job::Jobs::rest_state`]): the step is over on all devices, no transfer is in
//! progress, and the next event of the calendar lies beyond the end of the run. What comes next is then a function of a state that
//! a fingerprint describes completely. If this state comes again after some steps, a cycle, everything that followed it the first
//! time follows it again, up to the end of the run. That is what makes the repetition certain. The equality of [`CYCLES`] cycles in
//! all that the steps record, to the picosecond, only guards against errors here.
//!
//! The search is Brent's: each resting state is compared with one reference, which moves on after 1, 2, 4, 8 … steps. So it finds a
//! cycle of any length, and keeps one state.
//!
//! As many whole cycles as fit before the end of the run are left out: the run ends sooner, by nearer goals of the job copy, fewer
//! samples to read, or an earlier end. The books that grow (steps, queues, uses of resources, bytes, energy, checkpoints) then get
//! what one cycle adds, as often as cycles were left out. So the end of the run, with the rest of a cycle, is simulated as ever.

use forebay_engine::fluid::LinkUse;
use forebay_engine::{Fingerprint, Span, Time};
use forebay_report::{EnergyOutcome, Outcome, RepeatedSteps};
use forebay_scenario::{Scenario, SteadyState, Stop};

use super::Options;
use super::resource::Resources;
use crate::env::Env;
use crate::ids::JobId;
use crate::job::{JobTotals, Jobs};
use crate::storage::Site;

/// Number of equal cycles after which later ones are left out.
const CYCLES: u64 = 3;

/// Number of complete states compared without success after which the search ends: a comparison takes about as long as a step.
const MOST_MISSES: u32 = 64;

/// The search for a steady state, and the steps that were not simulated.
#[derive(Debug, Default)]
pub(super) struct Steady<'a> {
    /// The scenario of the run; `None` if nothing is searched.
    scenario: Option<&'a Scenario>,
    /// End of the run, if it ends at a given time, and whether it has just been set to an earlier one.
    end: Option<Time>,
    sooner: bool,
    reference: Option<Reference>,
    misses: u32,
    left_out: Option<LeftOut>,
}

/// A state with which later ones are compared.
#[derive(Debug)]
struct Reference {
    /// Number of complete steps in this state.
    step: u64,
    phase: [u64; 2],
    state: [u64; 2],
    /// Number of steps after which the state came again, and how often it has come again so far; `None` if it has not.
    cycle: Option<(u64, u64)>,
    /// Books at the start of the last cycle to be compared, once that has begun.
    books: Option<Box<Books>>,
}

/// Books that grow by the same amount in each cycle.
#[derive(Debug)]
struct Books {
    job: JobTotals,
    uses: Vec<Vec<LinkUse>>,
    energy: Option<EnergyOutcome>,
}

/// Repetitions of a cycle that were left out.
#[derive(Debug)]
struct LeftOut {
    /// Number of complete steps before them.
    after: u64,
    /// Number of steps of the cycle, its duration, the number of its events, and the number of repetitions.
    cycle: u64,
    span: Span,
    events: u64,
    times: u64,
    before: Box<Books>,
    now: Box<Books>,
}

/// The parts of a run that the search reads and changes.
pub(super) struct Running<'r> {
    pub(super) env: &'r mut Env,
    pub(super) jobs: &'r mut Jobs,
    pub(super) resources: &'r mut Resources,
}

/// Result of comparing a resting state with the reference.
enum Found {
    Nothing,
    /// The last cycle to be compared begins now.
    LastCycle,
    /// The state has come again often enough, after so many steps each time.
    Repetition(u64),
}

impl<'a> Steady<'a> {
    /// Returns a search of a run that ends at `end`, or with its jobs if that is never. Nothing is searched if the scenario or the
    /// options of the run ask for every step.
    pub(super) fn new(scenario: &'a Scenario, options: &Options<'_>, end: Time) -> Steady<'a> {
        let searches = scenario.fidelity.steady_state == SteadyState::Skip
            && !options.trace
            && !matches!(scenario.run.stop, Stop::Known { .. });
        let end = (end != Time::NEVER).then_some(end);
        Steady { scenario: searches.then_some(scenario), end, ..Steady::default() }
    }

    /// Returns the end of the run, if it ends at a given time.
    pub(super) fn end(&self) -> Option<Time> {
        self.end
    }

    /// Whether the run has to go on with an earlier end.
    #[inline]
    pub(super) fn has_new_end(&self) -> bool {
        self.sooner
    }

    /// Returns the new end of the run if it has one.
    pub(super) fn take_end(&mut self, end: Time) -> Option<Time> {
        let sooner = std::mem::take(&mut self.sooner);
        self.end.filter(|new| sooner && *new < end)
    }

    /// Adds what was left out to the outcome of the run.
    pub(super) fn extend(&self, scenario: &Scenario, outcome: &mut Outcome) {
        let Some(LeftOut { after, cycle, span, events, times, before, now }) = &self.left_out
        else {
            return;
        };
        let Some(job) = outcome.jobs.first_mut() else { return };
        let to = (&mut job.parallel, &mut job.recovery, &mut job.checkpoints);
        now.job.extend(&before.job, (*span, *times), to);
        if let (Some(all), Some(now), Some(before)) =
            (&mut outcome.energy, &now.energy, &before.energy)
        {
            all.add_gained(now, before, *times as f64);
        }
        outcome.repeated = Some(RepeatedSteps {
            job: scenario.jobs[job.job].name.clone(),
            first: after + 1,
            last: after + cycle * times,
            cycle: *cycle,
            events: events * times,
        });
    }
}

impl Steady<'_> {
    /// Begins the search, if the run can have a steady state.
    pub(super) fn begin(&self, env: &mut Env, jobs: &mut Jobs) {
        if jobs.may_repeat(env) {
            // Also in runs of every step, which must give the same results.
            env.network.forget_when_idle();
            jobs.halt_after_steps(self.scenario.is_some());
        }
    }

    /// Looks at the state of job copy `j`, which has halted between two steps: leaves out what repeats.
    #[cold]
    pub(super) fn look(&mut self, run: &mut Running<'_>, j: JobId) {
        let Some(scenario) = self.scenario else { return };
        match self.compare(run, j) {
            Found::Nothing => {}
            Found::LastCycle => {
                let books = run.books(scenario, j, true);
                if let Some(reference) = &mut self.reference {
                    reference.books = Some(Box::new(books));
                }
            }
            Found::Repetition(cycle) => self.leave_out(run, j, cycle),
        }
    }

    /// Returns when the run ends at the latest if job copy `j` goes on with its last `cycle` steps; `None` if the run does not end.
    fn expected_end(&self, run: &Running<'_>, j: JobId, cycle: u64) -> Option<Time> {
        let span = run.jobs.span_of_last(j, cycle).0;
        // One cycle more, because the last steps of the run may take longer.
        let after = |cycles: u64| span.saturating_mul(cycles.saturating_add(1));
        let left = run.jobs.left_of_goal(j, cycle).until_end;
        let by_goal = left.map(|left| Time(run.env.now.0.saturating_add(after(left))));
        self.end.into_iter().chain(by_goal).min()
    }

    /// Compares the present state with the reference.
    fn compare(&mut self, run: &mut Running<'_>, j: JobId) -> Found {
        let step = run.jobs.completed(j);
        if step < 2 {
            // The duration of the first step is not that of a cycle.
            return Found::Nothing;
        }
        let expected = self.reference.as_ref().and_then(Reference::expected);
        if expected.is_some_and(|expected| step < expected) {
            return Found::Nothing;
        }
        if expected.is_some_and(|expected| step > expected) {
            self.forget_reference(run.jobs, j);
        }
        let Some(to) = self.phase(run, j, 1) else { return Found::Nothing };
        let phase = to.digest();
        let cycle = match &self.reference {
            Some(of)
                if of.phase == phase && run.jobs.rest_state(j, to.clone()) == Some(of.state) =>
            {
                of.cycle.unwrap_or((step - of.step, 0))
            }
            Some(of) if of.cycle.is_none() && step < 2 * of.step => {
                return if of.phase == phase { self.miss(run.jobs) } else { Found::Nothing };
            }
            _ => return self.refer(run, j, (step, phase), to),
        };
        let (cycle, times) = (cycle.0, cycle.1 + 1);
        if times > 1 && !run.jobs.repeats(j, cycle) {
            self.miss(run.jobs);
            return self.refer(run, j, (step, phase), to);
        }
        if let Some(of) = &mut self.reference {
            of.cycle = Some((cycle, times));
        }
        match times {
            CYCLES => Found::Repetition(cycle),
            _ if times == CYCLES - 1 => Found::LastCycle,
            _ => Found::Nothing,
        }
    }

    /// Returns a fingerprint of what changes first between two states of job copy `j`, given that it goes on with its last `cycle`
    /// steps. Returns `None` if it does not rest, or if anything happens by itself before the end of the run.
    fn phase(&self, run: &Running<'_>, j: JobId, cycle: u64) -> Option<Fingerprint> {
        let Running { env, jobs, .. } = run;
        let end = self.expected_end(run, j, cycle)?;
        let rests = env.calendar.peek().is_none_or(|next| next > end) && env.network.is_idle();
        let mut to = Fingerprint::new(env.now);
        to.add(env.network.memory(env.now).map_or(u64::MAX, |span| span.0));
        (rests && jobs.describe_phase(end, j, &mut to)).then_some(to)
    }

    /// Makes the present state the reference.
    fn refer(
        &mut self,
        run: &mut Running<'_>,
        j: JobId,
        (step, phase): (u64, [u64; 2]),
        to: Fingerprint,
    ) -> Found {
        self.forget_reference(run.jobs, j);
        match run.jobs.rest_state(j, to) {
            None => return self.miss(run.jobs),
            Some(state) => {
                self.reference = Some(Reference { step, phase, state, cycle: None, books: None });
            }
        }
        Found::Nothing
    }

    fn forget_reference(&mut self, jobs: &mut Jobs, j: JobId) {
        if self.reference.take().is_some_and(|of| of.books.is_some()) {
            jobs.discard_cycle(j);
        }
    }

    /// Counts a comparison without success; after many of them, the search ends.
    fn miss(&mut self, jobs: &mut Jobs) -> Found {
        self.misses += 1;
        if self.misses == MOST_MISSES {
            jobs.halt_after_steps(false);
        }
        Found::Nothing
    }

    /// Leaves out as many repetitions of the last `cycle` steps of job copy `j` as fit before the end of the run.
    fn leave_out(&mut self, run: &mut Running<'_>, j: JobId, cycle: u64) {
        let Some(scenario) = self.scenario else { return };
        let (now, span) = (run.env.now, run.jobs.span_of_last(j, cycle));
        // Seen from the end by whole cycles, nothing may happen by itself either.
        let phase = self.phase(run, j, cycle).map(|to| to.digest());
        let reference = self.reference.take();
        let alone = reference.as_ref().is_some_and(|of| Some(of.phase) == phase);
        let before = reference.and_then(|of| of.books);
        let Some(before) = before.filter(|_| alone && span > Span::ZERO) else {
            self.miss(run.jobs);
            return run.jobs.discard_cycle(j);
        };
        run.jobs.halt_after_steps(false);
        let of_goal = run.jobs.left_of_goal(j, cycle).cycles;
        let of_loaders = run.jobs.times_left(j, &before.job);
        let of_time = self.end.map(|end| end.since(now).0 / span.0);
        let times = [of_goal, of_loaders, of_time].into_iter().flatten().min().unwrap_or(0);
        if times == 0 {
            return run.jobs.discard_cycle(j);
        }
        let books = Box::new(run.books(scenario, j, false));
        let after = run.jobs.completed(j);
        let Running { env, jobs, resources } = run;
        let site = &mut Site { env, storages: &mut jobs.loaders.storages };
        let all = Span(span.0 * times);
        resources.leave_out(site, jobs.communicators.link_uses(), (&before.uses, all, times));
        jobs.repeat_cycle(now, j, (cycle, times), &before.job);
        if let Some(end) = &mut self.end {
            (*end, self.sooner) = (Time(end.0 - all.0), true);
        }
        let events = run.jobs.events_in_last(j, cycle);
        self.left_out = Some(LeftOut { after, cycle, span, events, times, before, now: books });
    }
}

impl Running<'_> {
    /// Returns the present books of job copy `j`, from which a cycle `begins`.
    fn books(&mut self, scenario: &Scenario, j: JobId, begins: bool) -> Books {
        let Running { env, jobs, resources } = self;
        let energy = resources.energy((env, jobs), scenario, None);
        jobs.settle_own_links(env, j);
        let storages = &mut jobs.loaders.storages;
        let uses = resources.uses(&mut Site { env, storages }, jobs.communicators.link_uses());
        let now = env.now;
        let job = if begins { jobs.begin_cycle(now, j) } else { jobs.totals(j) };
        Books { job, uses, energy }
    }
}

impl Reference {
    /// Returns the number of complete steps at which the state is expected to come again; `None` if no cycle is known.
    fn expected(&self) -> Option<u64> {
        self.cycle.map(|(cycle, times)| self.step + cycle * (times + 1))
    }
}
