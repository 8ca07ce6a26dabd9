//! Runs points on many threads: each replication of each point is one task.

use super::{Grid, Row, Shard};
use crate::profile::Profile;
use crate::report::{self, Outcome, Predicted, Report, Unfinished};
use crate::scenario::{Problems, Scenario};
use crate::sim::{self, IdleCollectives};
use crate::uncertainty;
use std::iter::StepBy;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A sweep to run.
pub struct Plan<'a> {
    /// The grid that point indices refer to.
    pub grid: &'a Grid,
    /// The points to run.
    pub shard: Shard,
    /// Returns what to do at a point. It is called when the point's turn comes, in the order of the grid, so that only points
    /// in progress are in memory and a large grid is not checked for minutes before its first row.
    pub start: &'a (dyn Fn(usize) -> Start + Sync),
    /// Samples the parameters of each run from the uncertainty of measurements; `None` for replications with the parameters as measured.
    pub draws: Option<&'a SampledRuns<'a>>,
    /// Returns the rows of a point, given its report.
    pub rows: fn(&Grid, usize, &Report) -> Vec<Row>,
    /// Flag that ends the sweep early when it is raised.
    pub stop: &'a AtomicBool,
    /// Slot of each thread in which its current run reports progress; threads beyond the length report none.
    pub progress: &'a [sim::Progress],
}

type Sample<'a> = dyn Fn(usize, u64, u32) -> Result<(Scenario, Arc<Profile>), Problems> + Sync + 'a;

/// Number of results of collectives up to which points share them: a sweep over many networks would gather them without end.
const MOST_COLLECTIVES: usize = 256;

/// Runs whose parameters are sampled.
pub struct SampledRuns<'a> {
    /// Number of runs of each point.
    pub runs: u32,
    /// Whether all runs take the random numbers of the first replication.
    pub is_paired: bool,
    /// Returns the scenario of a run, given the index of its point, the point's seed and the number of the run, and the profile that it
    /// is sampled from.
    pub sample: &'a Sample<'a>,
}

/// What to do at a point.
pub enum Start {
    /// Run all replications of the point.
    Run {
        /// Scenario at the point.
        scenario: Box<Scenario>,
        /// Key of the result in the journal; empty if no journal is kept.
        key: String,
    },
    /// Take these rows, which an earlier sweep has kept.
    Kept {
        /// Key of the result in the journal.
        key: String,
        /// One row for each job.
        rows: Vec<Row>,
    },
    /// Take the rows of the point before it that has the same scenario, which may still be running.
    Same {
        /// Key of the result of both.
        key: String,
    },
    /// Report that the scenario at the point has these problems.
    Invalid(Problems),
}

/// Result of a point.
pub enum Finished {
    /// The point was run.
    Rows {
        /// Key of the result in the journal.
        key: String,
        /// One row for each job.
        rows: Vec<Row>,
    },
    /// An earlier sweep finished the point.
    Kept {
        /// Key of the result in the journal.
        key: String,
        /// One row for each job.
        rows: Vec<Row>,
    },
    /// The result is that of the point before it with this key.
    Same {
        /// Key of the result of both.
        key: String,
    },
    /// A replication of the point does not end.
    Unfinished(Unfinished),
    /// The scenario at the point has problems.
    Invalid(Problems),
}

/// Messages from the worker threads to the thread that started them.
enum Progress {
    /// A replication is finished.
    Task,
    /// A point has a result, possibly without having been run.
    Point(usize, Finished),
}

/// The next task of a thread.
enum Next {
    /// Run this replication of this point.
    Run(Arc<Point>, u32),
    /// Report a point that needs no run.
    Tell(usize, Finished),
}

/// A point in progress.
struct Point {
    index: usize,
    key: String,
    scenario: Box<Scenario>,
    runs: Mutex<Vec<Option<Done>>>,
}

/// A finished run of a point.
struct Done {
    outcome: Outcome,
    /// The scenario with sampled parameters, and by how much the run's steps are slower than simulated.
    sampled: Option<(Scenario, f64)>,
}

/// Position of the next task in the sequence of all replications of all points.
struct Cursor {
    points: StepBy<Range<usize>>,
    current: Option<(Arc<Point>, u32)>,
}

/// Runs `plan` on the threads of `pool`. Calls `tick` after each replication, and `deliver` with the result of each point, in
/// any order, until all points are done, `deliver` breaks, or `stop` is raised.
pub fn run(
    plan: &Plan<'_>,
    pool: &rayon::ThreadPool,
    mut tick: impl FnMut(),
    mut deliver: impl FnMut(usize, Finished) -> ControlFlow<()>,
) {
    let collectives = Mutex::new(IdleCollectives::default());
    let cursor = Mutex::new(Cursor { points: plan.shard.points(plan.grid.len()), current: None });
    let (sender, receiver) = mpsc::sync_channel(4 * pool.current_num_threads());
    pool.in_place_scope(|scope| {
        for thread in 0..pool.current_num_threads() {
            let (sender, cursor) = (sender.clone(), &cursor);
            let shared = &collectives;
            scope.spawn(move |_| work(plan, plan.progress.get(thread), (cursor, shared), &sender));
        }
        drop(sender);
        for progress in receiver {
            match progress {
                Progress::Task => tick(),
                // Leaving drops the receiver, which ends the threads.
                Progress::Point(index, finished) => {
                    if deliver(index, finished).is_break() {
                        break;
                    }
                }
            }
        }
    });
}

/// Works on tasks until none are left, `stop` is raised, or the receiver is gone.
fn work(
    plan: &Plan<'_>,
    progress: Option<&sim::Progress>,
    (cursor, collectives): (&Mutex<Cursor>, &Mutex<IdleCollectives>),
    sender: &SyncSender<Progress>,
) {
    while !plan.stop.load(Ordering::Relaxed) {
        let (point, replication) = match next(plan, &mut lock(cursor)) {
            Some(Next::Run(point, replication)) => (point, replication),
            Some(Next::Tell(index, finished)) => {
                if sender.send(Progress::Point(index, finished)).is_err() {
                    return;
                }
                continue;
            }
            None => return,
        };
        let run = simulate(plan, progress, &shared(collectives), (&point, replication));
        progress.into_iter().for_each(sim::Progress::reset);
        // A run that was stopped is incomplete.
        if plan.stop.load(Ordering::Relaxed) || sender.send(Progress::Task).is_err() {
            return;
        }
        let finished = match run {
            Ok(run) => finish(plan, &point, replication, run),
            Err(problems) => Some(Finished::Invalid(problems)),
        };
        if let Some(finished) = finished
            && sender.send(Progress::Point(point.index, finished)).is_err()
        {
            return;
        }
    }
}

fn simulate(
    plan: &Plan<'_>,
    progress: Option<&sim::Progress>,
    collectives: &IdleCollectives,
    (point, number): (&Point, u32),
) -> Result<Done, Problems> {
    let collectives = Some(collectives);
    let options =
        sim::Options { stop: Some(plan.stop), progress, collectives, ..sim::Options::default() };
    let Some(draws) = plan.draws else {
        let outcome = sim::run(&point.scenario, number, &options);
        return Ok(Done { outcome, sampled: None });
    };
    let seed = point.scenario.run.seed;
    let (scenario, profile) = (draws.sample)(point.index, seed, number)?;
    let replication = if draws.is_paired { 0 } else { number };
    let outcome = sim::run(&scenario, replication, &options);
    let slowdown = uncertainty::slowdown(&profile, seed, number, outcome.makespan);
    Ok(Done { outcome, sampled: Some((scenario, slowdown)) })
}

/// Returns the results of collectives that points share: a new collection when the present one has grown large.
fn shared(collectives: &Mutex<IdleCollectives>) -> IdleCollectives {
    let mut shared = lock(collectives);
    if shared.len() > MOST_COLLECTIVES {
        *shared = IdleCollectives::default();
    }
    shared.clone()
}

/// Returns the result of a point if `run` is the last one missing, or if it does not end; otherwise `None`.
fn finish(plan: &Plan<'_>, point: &Point, number: u32, run: Done) -> Option<Finished> {
    let outcome = match run.outcome.whole() {
        Ok(outcome) => outcome,
        Err(unfinished) => return Some(Finished::Unfinished(unfinished)),
    };
    let runs = keep(point, number, Done { outcome, ..run })?;
    let rows = (plan.rows)(plan.grid, point.index, &report(point, runs));
    Some(Finished::Rows { key: point.key.clone(), rows })
}

fn report(point: &Point, runs: Vec<Done>) -> Report {
    let (mut outcomes, mut predicted) = (Vec::new(), Vec::new());
    for Done { outcome, sampled } in runs {
        match sampled {
            None => outcomes.push(outcome),
            Some((scenario, slowdown)) => predicted.push(Predicted { scenario, outcome, slowdown }),
        }
    }
    match predicted.is_empty() {
        true => report::summarise(&point.scenario, &outcomes, 0.0),
        false => report::predict(&point.scenario, &predicted, 0.0),
    }
}

/// Returns the next task: the next replication of the current point, or else the first of the next point; `None` if none are
/// left.
fn next(plan: &Plan<'_>, cursor: &mut Cursor) -> Option<Next> {
    let runs = |scenario: &Scenario| plan.draws.map_or(scenario.run.replications, |of| of.runs);
    if let Some((point, replication)) = &mut cursor.current
        && *replication < runs(&point.scenario)
    {
        *replication += 1;
        return Some(Next::Run(Arc::clone(point), *replication - 1));
    }
    let index = cursor.points.next()?;
    let (scenario, key) = match (plan.start)(index) {
        Start::Run { scenario, key } => (scenario, key),
        Start::Kept { key, rows } => {
            return Some(Next::Tell(index, Finished::Kept { key, rows }));
        }
        Start::Same { key } => return Some(Next::Tell(index, Finished::Same { key })),
        Start::Invalid(problems) => return Some(Next::Tell(index, Finished::Invalid(problems))),
    };
    let missing = (0..runs(&scenario)).map(|_| None).collect();
    let point = Arc::new(Point { index, key, scenario, runs: Mutex::new(missing) });
    cursor.current = Some((Arc::clone(&point), 1));
    Some(Next::Run(point, 0))
}

/// Stores a run; returns all runs of the point if this was the last one missing.
fn keep(point: &Point, number: u32, run: Done) -> Option<Vec<Done>> {
    let mut runs = lock(&point.runs);
    *runs.get_mut(number as usize)? = Some(run);
    if runs.iter().all(Option::is_some) {
        return Some(runs.drain(..).flatten().collect());
    }
    None
}

/// Locks `mutex`. A poisoned lock is used, because a thread that panicked cannot have left its data inconsistent here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
