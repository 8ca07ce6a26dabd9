//! Runs points on many threads: each replication of each point is one task.

use super::{Grid, Row};
use crate::report::{self, Outcome, Report, Unfinished};
use crate::scenario::{Problems, Scenario};
use crate::sim;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A sweep to run.
pub struct Plan<'a> {
    /// The grid that point indices refer to.
    pub grid: &'a Grid,
    /// Returns what to do at a point. It is called when the point's turn comes, in the order of the grid, so that only points
    /// in progress are in memory and a large grid is not checked for minutes before its first row.
    pub start: &'a (dyn Fn(usize) -> Start + Sync),
    /// Returns the rows of a point, given its report.
    pub rows: fn(&Grid, usize, &Report) -> Vec<Row>,
    /// Flag that ends the sweep early when it is raised.
    pub stop: &'a AtomicBool,
    /// Slot of each thread in which its current run reports progress; threads beyond the length report none.
    pub progress: &'a [sim::Progress],
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
    Kept(Vec<Row>),
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
    Kept(Vec<Row>),
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
    outcomes: Mutex<Vec<Option<Outcome>>>,
}

/// Position of the next task in the sequence of all replications of all points.
struct Cursor {
    points: std::ops::Range<usize>,
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

/// Works on tasks until none are left, `stop` is raised, or the receiver is gone.
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
        // A run that was stopped is incomplete.
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

/// Returns the result of a point if `outcome` is the last one missing, or if its run does not end; otherwise `None`.
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

/// Returns the next task: the next replication of the current point, or else the first of the next point; `None` if none are
/// left.
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

/// Stores an outcome; returns all outcomes of the point if this was the last one missing.
fn keep(point: &Point, replication: u32, outcome: Outcome) -> Option<Vec<Outcome>> {
    let mut outcomes = lock(&point.outcomes);
    *outcomes.get_mut(replication as usize)? = Some(outcome);
    if outcomes.iter().all(Option::is_some) {
        return Some(outcomes.drain(..).flatten().collect());
    }
    None
}

/// Locks `mutex`. A poisoned lock is used, because a thread that panicked cannot have left its data inconsistent here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
