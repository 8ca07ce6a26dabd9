//! The lock around a job copy's state, and the threads that sleep before it.

use super::state::{Item, State};
use super::training::Step;
use forebay_engine::Time;
use forebay_metrics::{Activity, Segment};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Tells how long a run has lasted.
pub trait Watch: Copy + Send + Sync {
    /// Begins now.
    fn begun() -> Self;
    /// The time since it began.
    fn now(self) -> Time;
}

/// What all threads of a job copy hold.
pub struct Shared<W> {
    state: Mutex<State>,
    /// One for each worker, then one for each device: only who has something to do is woken.
    sleepers: Vec<Condvar>,
    /// For the thread that waits for the end.
    done: Condvar,
    /// When the run ends at the latest.
    until: Time,
    clock: OnceLock<W>,
    /// Whether the job is over, for those who hold no lock.
    pub over: Arc<AtomicBool>,
}

impl<W: Watch> Shared<W> {
    /// A state whose job has not begun yet, and ends at `until` at the latest.
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

    /// The state, whatever happened to a thread that held it.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clock of the run. The first call starts it if the job has not begun.
    pub fn clock(&self) -> W {
        *self.clock.get_or_init(W::begun)
    }

    /// Starts the job: `clock` is the run's.
    pub fn start(&self, clock: W, begin: impl FnOnce(&mut State, Time)) {
        self.clock.get_or_init(|| clock);
        self.act(&mut Vec::new(), |state, now| {
            begin(state, now);
            state.start(now);
        });
    }

    /// Changes the state at one instant, unless the job is over; wakes whom that concerns.
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
        // Whom we wake needs the lock.
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

    /// Worker `w` is done with its item; gives the next, and since when it is there. `None`: the job
    /// is over.
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

    /// Waits for the next item of worker `w`.
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

    /// Waits until device `d` is to carry out a step.
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

    /// Device `d` has carried out its step, except for `waits` while it was at it; gives the next one
    /// if it can begin at once.
    pub fn stepped(&self, d: u32, waits: &[Segment], woken: &mut Vec<u32>) -> Option<Step> {
        let next = self.act(woken, |state, now| {
            state.stepped(now, d, waits);
            state.training.devices[d as usize].next_step()
        });
        next?.or_else(|| self.next_step(d))
    }

    /// Device `d` has been given its step and is still at it; gives the next one if it can begin at once.
    /// `None`: the job is over.
    pub fn given(&self, d: u32, woken: &mut Vec<u32>) -> Option<Option<Step>> {
        self.act(woken, |state, now| {
            state.given(now, d);
            state.training.devices[d as usize].next_step()
        })
    }

    /// The next step of device `d`, if it comes within `wait`. `None`: the job is over.
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

    /// Device `d` has had nothing to do since `end`; gives its next step, when it is there.
    pub fn ran_dry(&self, d: u32, end: Time) -> Option<Step> {
        self.act(&mut Vec::new(), |state, now| state.ran_dry(now, d, end));
        self.next_step(d)
    }

    /// Sleeps until the instant of a `look`, and does that, unless the job ends before.
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

    /// The job cannot go on.
    pub fn fail(&self, why: String) {
        self.act(&mut Vec::new(), |state, now| {
            state.failure = Some(why);
            state.end(now);
        });
    }

    /// Waits until the job is over; ends it at its time, or when `stop` is raised.
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
