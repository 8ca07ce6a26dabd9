//! The numbers that decide what a verdict says, each with its reason.

// What is worth a change, and what counts as fed.

/// Smallest share of the step time that is worth a change: less than a run's own uncertainty.
pub(crate) const WORTH: f64 = 0.01;

/// Share of the time that a job may wait for input and still count as fed.
pub(crate) const ENOUGH_INPUT: f64 = 0.02;

/// Share of time above which another job that waits gets a verdict too.
pub(crate) const WAITING: f64 = 0.05;

/// Difference of step times above which constants count as marching in step.
pub(crate) const IN_STEP: f64 = 0.02;

/// Difference of step times, or of what changes save, up to which they count as the same.
pub(crate) const SAME: f64 = 0.02;

/// Share of the time that a job computes from which on its step time is named as the limit.
pub(crate) const BUSY: f64 = 0.9;

/// Factor of limits that are relaxed: twice the amount or half the time.
pub(crate) const FACTOR: f64 = 2.0;

/// Coefficient of variation of what was constant. From 0.001 to 0.5 it makes little difference how large it is: what counts is that
/// nothing stays in step.
pub(crate) const CV: f64 = 0.05;

// How long runs are, and how well they know a step's time.

/// Maximum relative half-width of the step time's interval at which one replication is enough. It is well below the 5 % that
/// the verdict promises, because a trial varies more where it waits less.
pub(crate) const PRECISE: f64 = 0.02;

/// Relative half-width of step times in first trials: twice what a change must save to be worth it, since pairs of runs with the same
/// random numbers tell smaller differences apart.
pub(crate) const COARSE: f64 = 0.02;

/// Relative half-width of step times in the trials whose results are printed.
pub(crate) const FINE: f64 = 0.01;

/// Smallest relative half-width of a step time's interval: a run with other seeds differs at least by how it begins and ends.
pub(crate) const LEAST: f64 = 0.005;

/// Relative half-width of a step time's interval where a run is too short to give one.
pub(crate) const ROUGH: f64 = 0.05;

/// Number of groups of consecutive steps whose means are compared pairwise.
pub(crate) const GROUPS: usize = 12;

/// Number of epochs that jobs have read before runs in which caches are warm: the second one replaces what the first one left.
pub(crate) const EPOCHS_BEFORE: f64 = 2.0;

/// Fewest steps that a trial is compared over.
pub(crate) const FEWEST: usize = 40;

/// Number of times that the content of the loaders is replaced in the steps that are compared: twice for a lever that doubles it.
pub(crate) const TURNS: f64 = 4.0;

/// Steps without an interval are compared over this many times the fewest steps.
pub(crate) const ALIKE: usize = 4;

/// Number of times that something rare must come in a trial.
pub(crate) const OFTEN: usize = 4;

// How many events and trials a verdict takes.

/// Events that a verdict on a job may always take, a few seconds; otherwise ten times those of the base run.
pub const LEAST_EVENTS: u64 = 15_000_000;

/// A verdict may take this many times the events of the base run.
pub(crate) const RUNS: u64 = 10;

/// Number of trials that a verdict must be able to pay for. If filling the caches before each trial takes more, trials begin with
/// empty caches.
pub(crate) const TRIALS: u64 = 40;

/// Parts of these events until which it finds what helps, what limits the job then, and what the job needs; what one leaves, the
/// next may take.
pub(crate) const PARTS: [f64; 3] = [0.45, 0.6, 1.0];

/// Part of a search's events for first trials.
pub(crate) const FIRST: f64 = 0.7;

/// Number of trials that run at the same time. It is fixed, because decisions fall between such groups.
pub(crate) const AT_ONCE: usize = 4;

/// Number of levers that are tried over the whole length of the base run.
pub(crate) const MOST_WHOLE: usize = 8;

/// Number of other jobs that get a verdict.
pub(crate) const MOST_OTHERS: usize = 3;

/// A trial may become this many times as long as the base run.
pub(crate) const MOST_LONGER: u64 = 4;

/// A trial may take this many times the events of the base run's replication.
pub(crate) const MOST_TIMES: u64 = 8;

/// A trial may always take this number of events.
pub(crate) const FEWEST_EVENTS: u64 = 200_000;

// What is tried first.

/// How likely a lever helps at least: requests in bursts wait although what serves them is mostly idle.
pub(crate) const UNLIKELY: f64 = 0.1;

/// Assumed probability that a lever without a resource of its own takes load off a full resource, as a cache does. A lever that
/// does not saves nothing while that resource is full.
pub(crate) const LIGHTENS: f64 = 0.5;

/// Utilisation above which a storage may hold up what shares links with its reads.
pub(crate) const HALF: f64 = 0.5;

/// Weight of the promise of a choice beside that of an amount, which decides only what is tried first: most choices are well made. One
/// that acts on at most [`FEW`] causes of stalls is as likely to help as an amount.
pub(crate) const CHOICES: f64 = 0.5;

/// Number of causes of stalls up to which a choice counts as made for them.
pub(crate) const FEW: usize = 3;

// Needs.

/// Factors of what counts as plentiful: the smallest that feeds the job is taken, because loaders that hold much take long to show what
/// they do in the long run.
pub(crate) const PLENTY: [f64; 5] = [2.0, 4.0, 8.0, 16.0, 32.0];

/// Ratio of an amount that feeds the job to one that does not, up to which the search goes on: with the rounding of amounts, a need is
/// known to less than a fifth.
pub(crate) const STEP: f64 = 1.1;

/// A long run that confirms needs may take one part in this number of the events that are left.
pub(crate) const LASTING: u64 = 30;

/// Number of times that amounts are made small and then tried together in a long run. Those of short runs may be too small by a step or
/// two.
pub(crate) const MOST_ROUNDS: usize = 3;

// Sentences beside what limits a job.

/// Smallest share of a job's time that checkpoints or failures must take to be mentioned.
pub(crate) const MENTIONED: f64 = 0.005;

/// Smallest share of the time of writing checkpoints in which other job copies write theirs, at which that is said.
pub(crate) const TOGETHER: f64 = 0.5;

/// Smallest share of a job's time of what the first epoch waits for.
pub(crate) const NOTED: f64 = 0.05;

/// Fewest failures that make an average.
pub(crate) const FEWEST_FAILURES: f64 = 10.0;

/// Least utilisation at which a resource counts as full.
pub(crate) const FULL: f64 = 0.95;
