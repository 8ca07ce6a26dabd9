//! Runs points on many threads: each replication of each point is one task.

use super::{Grid, Row};
use crate::report::{self, Outcome, Report, Unfinished};
use crate::scenario::{Problems, Scenario};
use crate::sim;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What to run.
pub struct Plan<'a> {
    /// The grid that point indices refer to.
    pub grid: &'a Grid,
    /// What to do at a point. Asked when its turn comes, in the grid's order, so that only points in progress are in
    /// memory, and a large grid is not checked for minutes before its first row.
    pub start: &'a (dyn Fn(usize) -> Start + Sync),
    /// The rows of a point.
    pub rows: fn(&Grid, usize, &Report) -> Vec<Row>,
    /// Raised by somebody to end early.
    pub stop: &'a AtomicBool,
    /// By thread, where the run in progress tells how far it is; where there are fewer, the others do not.
    pub progress: &'a [sim::Progress],
}

/// What to do at a point.
pub enum Start {
    /// Its replications are run.
    Run {
        /// The scenario there.
        scenario: Box<Scenario>,
        /// What identifies its result, or empty if nobody keeps it.
        key: String,
    },
    /// An earlier sweep finished it.
    Kept(Vec<Row>),
    /// It cannot be run.
    Invalid(Problems),
}

/// What became of a point.
pub enum Finished {
    /// It was run.
    Rows {
        /// What identifies its result.
        key: String,
        /// One row for each job.
        rows: Vec<Row>,
    },
    /// An earlier sweep finished it.
    Kept(Vec<Row>),
    /// A replication of it does not end.
    Unfinished(Unfinished),
    /// It cannot be run.
    Invalid(Problems),
}

/// What threads tell.
enum Progress {
    /// A replication is finished.
    Task,
    /// A point is, or cannot be.
    Point(usize, Finished),
}

/// What a thread does next.
enum Next {
    /// This replication of this point.
    Run(Arc<Point>, u32),
    /// Tells of a point that needs no run.
    Tell(usize, Finished),
}

/// A point in progress.
struct Point {
    index: usize,
    key: String,
    scenario: Box<Scenario>,
    outcomes: Mutex<Vec<Option<Outcome>>>,
}

/// Where the next task comes from.
struct Cursor {
    points: std::ops::Range<usize>,
    current: Option<(Arc<Point>, u32)>,
}

/// Runs `plan` on the threads of `pool`. Calls `tick` after each replication and `deliver` with what became of each
/// point, in any order, until all are done, `deliver` breaks, or `stop` is raised.
pub fn run(
    plan: &Plan<'_>,
    pool: &rayon::ThreadPool,
    mut tick: impl FnMut(),
    mut deliver: impl FnMut(usize, Finished) -> ControlFlow<()>,
) {
    let cursor = Mutex::new(Cursor { points: 0..plan.grid.len(), current: None });
    let (sender, receiver) = mpsc::sync_channel(4 * pool.current_num_threads());
    pool.in_place_scope(|scope| {
        for thread in 0..pool.current_num_threads() {
            let (sender, cursor) = (sender.clone(), &cursor);
            scope.spawn(move |_| work(plan, plan.progress.get(thread), cursor, &sender));
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

/// Works on tasks until none are left or nobody wants the results.
fn work(
    plan: &Plan<'_>,
    progress: Option<&sim::Progress>,
    cursor: &Mutex<Cursor>,
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
        let options = sim::Options { stop: Some(plan.stop), progress, ..sim::Options::default() };
        let outcome = sim::run(&point.scenario, replication, &options);
        progress.into_iter().for_each(sim::Progress::reset);
        // A run that was told to stop is not whole.
        if plan.stop.load(Ordering::Relaxed) || sender.send(Progress::Task).is_err() {
            return;
        }
        if let Some(finished) = finish(plan, &point, replication, outcome)
            && sender.send(Progress::Point(point.index, finished)).is_err()
        {
            return;
        }
    }
}

/// What became of a point, if this outcome is the last that it waited for.
fn finish(plan: &Plan<'_>, point: &Point, replication: u32, outcome: Outcome) -> Option<Finished> {
    let whole = match outcome.whole() {
        Ok(whole) => whole,
        Err(unfinished) => return Some(Finished::Unfinished(unfinished)),
    };
    let outcomes = keep(point, replication, whole)?;
    let report = report::summarise(&point.scenario, &outcomes, 0.0);
    let rows = (plan.rows)(plan.grid, point.index, &report);
    Some(Finished::Rows { key: point.key.clone(), rows })
}

/// The next replication, of the current point or else of the next one.
fn next(plan: &Plan<'_>, cursor: &mut Cursor) -> Option<Next> {
    if let Some((point, replication)) = &mut cursor.current
        && *replication < point.scenario.run.replications
    {
        *replication += 1;
        return Some(Next::Run(Arc::clone(point), *replication - 1));
    }
    let index = cursor.points.next()?;
    let (scenario, key) = match (plan.start)(index) {
        Start::Run { scenario, key } => (scenario, key),
        Start::Kept(rows) => return Some(Next::Tell(index, Finished::Kept(rows))),
        Start::Invalid(problems) => return Some(Next::Tell(index, Finished::Invalid(problems))),
    };
    let outcomes = (0..scenario.run.replications).map(|_| None).collect();
    let point = Arc::new(Point { index, key, scenario, outcomes: Mutex::new(outcomes) });
    cursor.current = Some((Arc::clone(&point), 1));
    Some(Next::Run(point, 0))
}

/// Keeps an outcome; gives all of the point's if it was the last.
fn keep(point: &Point, replication: u32, outcome: Outcome) -> Option<Vec<Outcome>> {
    let mut outcomes = lock(&point.outcomes);
    *outcomes.get_mut(replication as usize)? = Some(outcome);
    if outcomes.iter().all(Option::is_some) {
        return Some(outcomes.drain(..).flatten().collect());
    }
    None
}

/// Locks; a thread that panicked has left nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
