//! The lock around the state of a job copy, and the threads that wait for changes of the state.

use super::state::{Item, State};
use super::training::Step;
use forebay_engine::Time;
use forebay_metrics::{Activity, Segment};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Measures the time since the start of a run.
pub trait Watch: Copy + Send + Sync {
    /// Returns a watch that starts now.
    fn begun() -> Self;
    /// Returns the time since the start.
    fn now(self) -> Time;
}

/// The state that all threads of a job copy share, with its lock.
pub struct Shared<W> {
    state: Mutex<State>,
    /// One condition variable for each worker, then one for each device, so that only threads with something to do are woken.
    sleepers: Vec<Condvar>,
    /// Condition variable of the thread that waits for the end of the job.
    done: Condvar,
    /// Latest end of the run.
    until: Time,
    clock: OnceLock<W>,
    /// Whether the job is over, for threads that do not hold the lock.
    pub over: Arc<AtomicBool>,
}

impl<W: Watch> Shared<W> {
    /// Wraps the state of a job that has not started, and that ends at `until` at the latest.
    pub fn new(state: State, until: Time) -> Shared<W> {
        let threads = state.workers.len() + state.training.devices.len();
        Shared {
            state: Mutex::new(state),
            sleepers: (0..threads).map(|_| Condvar::new()).collect(),
            done: Condvar::new(),
            until,
            clock: OnceLock::new(),
            over: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Locks the state, even if a thread has panicked while it held the lock.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the clock of the run. The first call starts the clock if the job has not started.
    pub fn clock(&self) -> W {
        *self.clock.get_or_init(W::begun)
    }

    /// Starts the job with `clock` as the clock of the run.
    pub fn start(&self, clock: W, begin: impl FnOnce(&mut State, Time)) {
        self.clock.get_or_init(|| clock);
        self.act(&mut Vec::new(), |state, now| {
            begin(state, now);
            state.start(now);
        });
    }

    /// Changes the state at one instant, unless the job is over, and wakes the threads that have something to do.
    #[inline]
    fn act<R>(
        &self,
        woken: &mut Vec<u32>,
        change: impl FnOnce(&mut State, Time) -> R,
    ) -> Option<R> {
        let clock = self.clock();
        let mut state = self.lock();
        let now = clock.now();
        let result = if state.ended.is_some() {
            None
        } else if now >= self.until {
            state.end(self.until);
            None
        } else {
            Some(change(&mut state, now))
        };
        std::mem::swap(&mut state.wakes, woken);
        let ended = state.ended.is_some();
        // Woken threads need the lock.
        drop(state);
        for thread in woken.drain(..) {
            self.sleepers[thread as usize].notify_one();
        }
        if ended {
            self.over.store(true, Ordering::Relaxed);
            self.done.notify_all();
        }
        result
    }

    /// Reports that worker `w` has finished its item. Returns the next item and the time since which it is available; `None` if
    /// the job is over.
    pub fn finish(
        &self,
        w: u32,
        item: Item,
        log: &[(Time, Activity)],
        woken: &mut Vec<u32>,
    ) -> Option<(Item, Time)> {
        let next = self.act(woken, |state, now| {
            state.finish(now, w, item, log);
            let worker = &mut state.workers[w as usize];
            worker.working.then(|| (std::mem::take(&mut worker.item), worker.since))
        });
        next?.or_else(|| self.next(w))
    }

    /// Waits for the next item of worker `w`; `None` if the job is over.
    pub fn next(&self, w: u32) -> Option<(Item, Time)> {
        let mut state = self.lock();
        loop {
            if state.ended.is_some() {
                return None;
            }
            let worker = &mut state.workers[w as usize];
            if worker.working {
                return Some((std::mem::take(&mut worker.item), worker.since));
            }
            if let Some(look) = worker.asleep {
                state = self.doze(state, w as usize, look, |state, now| state.look_again(now, w));
                continue;
            }
            worker.parked = true;
            state = self.sleepers[w as usize].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the next step of device `d`; `None` if the job is over.
    pub fn next_step(&self, d: u32) -> Option<Step> {
        let mut state = self.lock();
        let place = state.workers.len() + d as usize;
        loop {
            if state.ended.is_some() {
                return None;
            }
            let device = &mut state.training.devices[d as usize];
            if let Some(step) = device.next_step() {
                return Some(step);
            }
            if let Some(look) = device.asleep {
                state = self.doze(state, place, look, |state, now| state.look(now, d));
                continue;
            }
            device.parked = true;
            state = self.sleepers[place].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reports that device `d` has executed its step; `waits` are the device's waits in this step. Returns the next step; `None`
    /// if the job is over.
    pub fn stepped(&self, d: u32, waits: &[Segment], woken: &mut Vec<u32>) -> Option<Step> {
        let next = self.act(woken, |state, now| {
            state.stepped(now, d, waits);
            state.training.devices[d as usize].next_step()
        });
        next?.or_else(|| self.next_step(d))
    }

    /// Reports that a step has been submitted to device `d`, which still executes it. Returns the next step if it can be
    /// submitted at once. The outer `None` means that the job is over.
    pub fn given(&self, d: u32, woken: &mut Vec<u32>) -> Option<Option<Step>> {
        self.act(woken, |state, now| {
            state.given(now, d);
            state.training.devices[d as usize].next_step()
        })
    }

    /// Returns the next step of device `d`, if it is available within `wait`. The outer `None` means that the job is over.
    pub fn step_within(&self, d: u32, wait: Duration) -> Option<Option<Step>> {
        let mut state = self.lock();
        for turn in 0..2 {
            if state.ended.is_some() {
                return None;
            }
            let place = state.workers.len() + d as usize;
            let device = &mut state.training.devices[d as usize];
            device.parked = turn == 0;
            let step = device.next_step();
            if step.is_some() || turn > 0 {
                return Some(step);
            }
            let woken = self.sleepers[place].wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(None)
    }

    /// Reports that device `d` has been idle since `end`, and waits for its next step.
    pub fn ran_dry(&self, d: u32, end: Time) -> Option<Step> {
        self.act(&mut Vec::new(), |state, now| state.ran_dry(now, d, end));
        self.next_step(d)
    }

    /// Sleeps until `look` and then calls `act`, unless the job ends before.
    fn doze<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
        thread: usize,
        look: Time,
        act: impl FnOnce(&mut State, Time),
    ) -> MutexGuard<'s, State> {
        let left = Duration::from_nanos(look.since(self.clock().now()).0 / 1000);
        let woken = self.sleepers[thread].wait_timeout(state, left);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        if self.clock().now() >= look {
            self.act(&mut Vec::new(), act);
        }
        self.lock()
    }

    /// Ends the job with the failure `why`.
    pub fn fail(&self, why: String) {
        self.act(&mut Vec::new(), |state, now| {
            state.failure = Some(why);
            state.end(now);
        });
    }

    /// Waits until the job is over. Ends the job at its latest end, or when `stop` is set.
    pub fn wait(&self, stop: &AtomicBool) {
        const LOOK: Duration = Duration::from_millis(20);
        let mut state = self.lock();
        while state.ended.is_none() {
            let now = self.clock().now();
            if now >= self.until || stop.load(Ordering::Relaxed) {
                drop(state);
                self.act(&mut Vec::new(), State::end_now);
                return;
            }
            let left = Duration::from_nanos(self.until.since(now).0 / 1000);
            let waited = self.done.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn end_now(&mut self, now: Time) {
        self.end(now);
    }
}
