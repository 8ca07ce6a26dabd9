//! Tunes how many of a stage's workers work at once while the job runs, as tf.data's `AUTOTUNE` does.
//!
//! At growing intervals (after 10 ms, then 20 ms, and so on up to a minute) the times that the stages took so far go into a model
//! of the pipeline. Hill climbing in the model gives the parallelism from then on. Simulated and live runs ask before a worker
//! takes its input, and report when it begins and ends an item.

mod model;

use forebay_engine::{Span, Time};
use forebay_report::Tuned;
use forebay_scenario::{Job, Stage};
use model::{Calls, Pipeline};

/// First and longest interval between two tunings [s].
const PERIODS: (f64, f64) = (0.01, 60.0);
/// Parallelism of a tuned stage before the first tuning; the number of cores if that is smaller.
const AT_FIRST: u32 = 16;

/// The tuned stages of one loader.
#[derive(Debug, Clone)]
pub struct Tuner {
    pools: Vec<Pool>,
    batch: f64,
    cores: f64,
    next: Time,
    period: Span,
}

/// The workers of one stage.
#[derive(Debug, Clone)]
struct Pool {
    name: String,
    tuned: bool,
    /// Number of workers that may work at once.
    limit: u32,
    active: u32,
    workers: Vec<Hand>,
    /// Workers that rest because as many workers as `limit` allows are active.
    resting: Vec<u32>,
    /// Sum of the times of all items [s], and number of items.
    took: f64,
    items: f64,
}

/// State of a worker: whether it is active, and when it began its item.
#[derive(Debug, Clone, Copy, Default)]
struct Hand {
    active: bool,
    since: Time,
}

impl Tuner {
    /// Returns the tuner of a loader of `job`; `None` if no stage is tuned.
    pub fn for_job(job: &Job) -> Option<Tuner> {
        let stages = &job.loader.stages;
        // A tuned stage has as many workers as there are cores.
        let cores = f64::from(stages.iter().find(|stage| stage.tuned)?.workers);
        let pool = |stage: &Stage| Pool {
            name: stage.name.clone(),
            tuned: stage.tuned,
            limit: if stage.tuned { stage.workers.min(AT_FIRST) } else { stage.workers },
            active: 0,
            workers: vec![Hand::default(); stage.workers as usize],
            resting: Vec::new(),
            took: 0.0,
            items: 0.0,
        };
        Some(Tuner {
            pools: stages.iter().map(pool).collect(),
            batch: job.batch as f64,
            cores,
            next: Time::ZERO,
            period: Span::from_seconds(PERIODS.0),
        })
    }

    /// Starts the job.
    pub fn start(&mut self, now: Time) {
        self.next = now + self.period;
    }

    /// Begins to tune a new pipeline, which works from `ready` on and whose workers have nothing to do yet.
    pub fn begin_epoch(&mut self, ready: Time) {
        for pool in self.pools.iter_mut().filter(|pool| pool.tuned) {
            pool.limit = AT_FIRST.min(pool.workers.len() as u32);
        }
        self.pools.iter_mut().for_each(|pool| (pool.took, pool.items) = (0.0, 0.0));
        self.period = Span::from_seconds(PERIODS.0);
        self.next = ready + self.period;
    }

    /// Whether worker number `worker` of `stage` may look for input; otherwise it rests.
    pub fn enter(&mut self, stage: usize, worker: u32) -> bool {
        let pool = &mut self.pools[stage];
        let hand = &mut pool.workers[worker as usize];
        let others = pool.active - u32::from(hand.active);
        let may = others < pool.limit;
        pool.active = others + u32::from(may);
        hand.active = may;
        if !may {
            pool.resting.push(worker);
        }
        may
    }

    /// Records that worker number `worker` of `stage` found input.
    pub fn begin(&mut self, stage: usize, worker: u32, now: Time) {
        self.pools[stage].workers[worker as usize].since = now;
    }

    /// Records that worker number `worker` of `stage` found no input.
    pub fn leave(&mut self, stage: usize, worker: u32) {
        let pool = &mut self.pools[stage];
        pool.active -= u32::from(std::mem::take(&mut pool.workers[worker as usize].active));
    }

    /// Records that worker number `worker` of `stage` has finished its item.
    pub fn finish(&mut self, stage: usize, worker: u32, now: Time) {
        let pool = &mut self.pools[stage];
        pool.took += now.since(pool.workers[worker as usize].since).seconds();
        pool.items += 1.0;
    }

    /// Computes new limits for the stages and returns true, if a tuning is due and each stage has finished an item; otherwise
    /// returns false.
    pub fn tune(&mut self, now: Time) -> bool {
        if now < self.next || self.pools.iter().any(|pool| pool.items == 0.0) {
            return false;
        }
        self.period = Span(self.period.0 * 2).min(Span::from_seconds(PERIODS.1));
        self.next = now + self.period;
        let [reads, calls, batch] = &mut self.pools[..] else { return false };
        let of = |pool: &Pool| Calls {
            time: pool.took / pool.items,
            parallelism: if pool.tuned { 1 } else { pool.limit },
            most: if pool.tuned { pool.workers.len() as u32 } else { pool.limit },
        };
        let (time, items) = (batch.took, batch.items);
        let pipeline = Pipeline { reads: of(reads), calls: of(calls), batch: time / items };
        (reads.limit, calls.limit) = pipeline.climb(self.batch, self.cores);
        true
    }

    /// Returns the resting workers of `stage` that may work again, and ends their rest.
    pub fn called(&mut self, stage: usize) -> Vec<u32> {
        let pool = &mut self.pools[stage];
        let free = pool.limit.saturating_sub(pool.active) as usize;
        pool.resting.split_off(pool.resting.len().saturating_sub(free))
    }

    /// Returns, for each tuned stage, the number of workers that tuning has arrived at.
    pub fn settled(&self) -> Vec<Tuned> {
        let tuned = self.pools.iter().filter(|pool| pool.tuned);
        tuned.map(|pool| Tuned { stage: pool.name.clone(), workers: pool.limit }).collect()
    }
}
