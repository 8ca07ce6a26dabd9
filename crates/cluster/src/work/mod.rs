//! What a rank does when rank 0 asks for it.

mod alone;
mod files;
mod nccl;
mod ring;
mod run;
mod stream;

pub(crate) use files::path_of;

use crate::arrivals::{Arrivals, Member};
use crate::clock::Clock;
use crate::control::Sender;
use crate::message::{Found, Task};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the tasks of a rank share.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) member: Member,
    pub(crate) arrivals: Arrivals,
    pub(crate) clock: Clock,
    /// Set to stop all tasks.
    pub(crate) stop: Arc<AtomicBool>,
    /// Connection to rank 0, for samples of running tasks.
    pub(crate) to: Sender,
    /// Name of the node.
    pub(crate) node: String,
}

impl Worker {
    /// Does `task`.
    pub(crate) fn work(&self, task: Task) -> Result<Found, String> {
        match task {
            Task::Alone { name, plan, only, budget, earlier } => {
                alone::run(self, &alone::Order { name, plan, only, budget, earlier })
            }
            Task::Write { folder, sizes, seed } => files::write(self, &folder, &sizes, seed),
            Task::Look { path, size, patience } => files::look(&path, size, patience),
            Task::Read { files, streams, direct, only_open, timing, seed } => {
                let how = files::How { streams, direct, only_open, seed };
                files::read(self, &files, how, timing)
            }
            Task::Checkpoint { folder, streams, bytes, start } => {
                files::checkpoint(self, &folder, streams, bytes, start)
            }
            Task::Send { to, tag, streams, timing } => stream::send(self, to, tag, streams, timing),
            Task::Receive { tag, streams, timing } => stream::receive(self, tag, streams, timing),
            Task::Knock { to, tag, count } => stream::knock(self, to, tag, count),
            Task::Echo { tag, count } => stream::echo(self, tag, count),
            Task::AllReduce { next, tag, position, ranks, bytes, times, timing } => {
                let place = ring::Place { next, tag, position, ranks };
                ring::all_reduce(self, place, bytes, times, timing)
            }
            Task::NcclId => nccl::new_id(),
            Task::Nccl { id, first, all, sizes, trials } => {
                nccl::all_reduce(&id, first, all, &sizes, trials)
            }
            Task::Run { command, patience } => run::run(self, &command, patience),
            Task::Remove { folder } => files::remove(&folder),
        }
    }

    /// Returns whether all tasks shall end early.
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs `count` threads; returns what each returns, or the first error.
fn threads<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    std::thread::scope(|scope| {
        let work = &work;
        let spawn = |number: usize| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || work(number));
            thread.map_err(|error| {
                format!("cannot start {count} threads: {error}; raise `ulimit -u`, or write fewer streams in the plan")
            })
        };
        let all: Vec<_> = (0..count).map(spawn).collect();
        let end = |thread: Result<std::thread::ScopedJoinHandle<'_, Result<T, String>>, String>| {
            thread?.join().unwrap_or_else(|_| Err("a thread ended early".to_owned()))
        };
        // All threads end before the first error is returned.
        let ended: Vec<Result<T, String>> = all.into_iter().map(end).collect();
        ended.into_iter().collect()
    })
}
