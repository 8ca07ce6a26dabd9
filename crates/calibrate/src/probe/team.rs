//! Threads that start together, each with its own wall, processor and waiting time.

use super::ProbeError;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Results of the threads of a team.
#[derive(Debug, Clone, PartialEq)]
pub struct Team<T> {
    /// Results of the threads, one for each.
    pub members: Vec<Member<T>>,
}

/// Result of one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Member<T> {
    /// What the thread's work returned.
    pub value: T,
    /// Wall time of the thread's work [s].
    pub seconds: f64,
    /// Processor time of the thread's work [core-s].
    pub core_seconds: f64,
    /// Time that the thread was ready but had no core [s]; 0 if the kernel does not report it.
    pub waited: f64,
}

impl<T> Team<T> {
    /// Returns the processor time of all threads together [core-s].
    #[must_use]
    pub fn core_seconds(&self) -> f64 {
        self.members.iter().map(|member| member.core_seconds).sum()
    }

    /// Returns the time that threads were ready but had no core, all threads together [s].
    #[must_use]
    pub fn waited(&self) -> f64 {
        self.members.iter().map(|member| member.waited).sum()
    }

    /// Returns the wall time of the slowest thread [s].
    #[must_use]
    pub fn longest(&self) -> f64 {
        self.members.iter().map(|member| member.seconds).fold(0.0, f64::max)
    }
}

/// Runs `work(0)`, `work(1)`, … on `threads` threads that start together.
///
/// # Errors
///
/// The operating system refuses to start another thread; then no thread has done any work.
pub fn team<T, F>(threads: usize, work: F) -> Result<Team<T>, ProbeError>
where
    T: Send,
    F: Fn(usize) -> T + Sync,
{
    let gate = Gate::default();
    thread::scope(|scope| {
        let mut started = Vec::new();
        for index in 0..threads {
            let (gate, work) = (&gate, &work);
            let member = move || gate.pass().then(|| timed(|| work(index)));
            match thread::Builder::new().spawn_scoped(scope, member) {
                Ok(handle) => started.push(handle),
                Err(source) => {
                    gate.open(0, false);
                    return Err(ProbeError::Threads { threads, source });
                }
            }
        }
        gate.open(threads, true);
        let members = started.into_iter().filter_map(|handle| match handle.join() {
            Ok(member) => member,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        Ok(Team { members: members.collect() })
    })
}

/// A gate at which threads wait until all of them have started.
#[derive(Default)]
struct Gate {
    /// Number of threads that have reached the gate; once the gate is open, whether the threads should work.
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
}

impl Gate {
    /// Waits at the gate until it opens; returns true if there is work, false if the thread should stop.
    fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        loop {
            if let Some(work) = state.1 {
                return work;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `threads` threads have reached the gate, then opens it; `work` says whether they should
    /// work.
    fn open(&self, threads: usize, work: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 < threads {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 = Some(work);
        self.changed.notify_all();
    }
}

/// Runs `work` on this thread and times it.
fn timed<T>(work: impl FnOnce() -> T) -> Member<T> {
    let (waited, core, wall) = (waited(), thread_core_seconds(), Instant::now());
    let value = work();
    let seconds = wall.elapsed().as_secs_f64();
    let core_seconds = thread_core_seconds() - core;
    Member { value, seconds, core_seconds, waited: (self::waited() - waited).max(0.0) }
}

/// Returns the processor time of this thread so far [core-s].
pub(super) fn thread_core_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the time that this thread was ready but had no core so far [s].
fn waited() -> f64 {
    let Ok(text) = fs::read_to_string("/proc/thread-self/schedstat") else { return 0.0 };
    let nanoseconds = text.split_whitespace().nth(1).and_then(|field| field.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_thread_of_a_team_works_once_and_is_timed() {
        let calls = AtomicUsize::new(0);
        let work = |index: usize| {
            calls.fetch_add(1, Ordering::SeqCst);
            (0..100_000_u64).fold(index as u64, |sum, i| std::hint::black_box(sum ^ i))
        };
        let team = team(3, work).unwrap();
        assert_eq!((team.members.len(), calls.into_inner()), (3, 3));
        assert!(team.members.iter().all(|member| member.seconds > 0.0));
        assert!(team.core_seconds() > 0.0 && team.waited() >= 0.0);
        assert!(team.members.iter().all(|member| member.seconds <= team.longest()));
    }

    #[test]
    fn no_thread_works_before_all_have_started() {
        let there = AtomicUsize::new(0);
        let gate = Gate::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    there.fetch_add(1, Ordering::SeqCst);
                    assert!(gate.pass());
                    assert_eq!(there.load(Ordering::SeqCst), 4);
                });
            }
            gate.open(4, true);
        });
    }
}
