//! Loaders that make batches on request: which batch was requested from which worker, and which batches may be handed out.
//!
//! This is the bookkeeping of PyTorch's `_MultiProcessingDataLoaderIter` and Keras' `OrderedEnqueuer`, for simulated and live
//! runs: they report when the trainer wants and gets a batch and when a worker has made one.

mod begun;

use forebay_engine::{Span, Time};
use forebay_report::Delivery;
use forebay_scenario::{Dataset, Dealt, Job, NextEpoch, Replaced, Requests as Settings};
use std::collections::{BTreeMap, VecDeque};

use super::Intervals;
pub use begun::BegunEpochs;
use begun::Requested;

/// Maximum number of deliveries kept for a report.
const MOST_KEPT: usize = 100_000;

/// The requests of one loader.
#[derive(Debug, Clone)]
pub struct Requests {
    settings: Settings,
    workers: u32,
    batch: u64,
    /// Number of batches in an epoch.
    epoch: u64,
    /// Number of samples in an epoch: one entry for each worker if each worker has its own files, otherwise one entry for all
    /// workers.
    own: Vec<u64>,
    /// For each entry of `own`, the number of its samples that have not been requested in the current epoch.
    left: Vec<u64>,
    /// Samples of the data set, and number of loaders that share them.
    samples: u64,
    loaders: u64,
    /// Number of epochs begun, and position of the first sample of the next request.
    epochs: u64,
    first: u64,
    /// Number of batches that the trainer takes in the whole run.
    total: u64,
    /// Number of batches that the trainer has wanted (`wanted`), that have been requested from workers (`asked`), and that the
    /// trainer has taken (`taken`).
    wanted: u64,
    asked: u64,
    taken: u64,
    /// Limit for `asked`: the number of batches up to the end of the current epoch.
    bound: u64,
    /// Instant at which the workers have started.
    ready: Time,
    /// Instant at which the last request found room in the queue of requested batches.
    last: Time,
    /// Worker that gets the next request, round robin.
    turn: u32,
    /// Requests that wait for a worker: one inbox for each worker, or one for all.
    inboxes: Vec<VecDeque<Request>>,
    /// For each worker, number of batches requested from it and not yet taken.
    open: Vec<u32>,
    /// Batches that are being made, by number.
    made_by: BTreeMap<u64, Made>,
    /// Finished batches that wait for earlier ones.
    early: BTreeMap<u64, Made>,
    /// Number of the batch to be handed out next, if order is kept.
    next: u64,
    /// Number and worker of the batches that can be taken, oldest first.
    handed: VecDeque<(u64, u32)>,
    deliveries: Option<Vec<Delivery>>,
    /// Batches of the epochs that are not over, if they are followed.
    begun: Option<BegunEpochs>,
    /// For each entry of `own`, the batches of this epoch that workers must make again after a restart, because they were not
    /// trained on: each as the position of its first sample in the loader's reading order, and its number of samples.
    again: Vec<VecDeque<(u64, u64)>>,
    /// Whether workers must be started at the next epoch even if they persist, because batches were skipped.
    restarted: bool,
}

/// A batch to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number of the batch among all batches of the loader.
    pub batch: u64,
    /// Position of the batch's first sample in the loader's reading order.
    pub first: u64,
    /// Number of samples in the batch.
    pub samples: u64,
    /// Instant at which the worker has started.
    pub ready: Time,
}

/// A batch that `worker` makes, of `samples` samples from position `first` on.
#[derive(Debug, Clone, Copy)]
struct Made {
    worker: u32,
    first: u64,
    samples: u64,
}

impl Requests {
    /// Returns the requests of one loader of `job`. The loader reads `quota` samples of `dataset` in all. `None` if the job's
    /// loaders do not make batches on request.
    pub fn for_job(job: &Job, dataset: &Dataset, quota: u64) -> Option<Requests> {
        let settings = job.loader.requests?;
        let workers = job.loader.stages.first()?.workers;
        let loaders = u64::from(job.loaders());
        let inboxes = match settings.dealt {
            Dealt::InTurn => workers as usize,
            Dealt::AsFree => 1,
        };
        Some(Requests {
            settings,
            workers,
            batch: job.batch,
            epoch: job.batches_of_epoch(dataset).max(1),
            left: Vec::new(),
            again: Vec::new(),
            own: job.samples_of_epoch(dataset),
            samples: dataset.samples,
            loaders,
            epochs: 0,
            first: 0,
            total: quota.div_ceil(job.batch),
            wanted: 0,
            asked: 0,
            taken: 0,
            bound: 0,
            ready: Time::ZERO,
            last: Time::ZERO,
            turn: 0,
            inboxes: vec![VecDeque::new(); inboxes],
            open: vec![0; workers as usize],
            made_by: BTreeMap::new(),
            early: BTreeMap::new(),
            next: 0,
            handed: VecDeque::new(),
            deliveries: None,
            begun: None,
            restarted: false,
        })
    }

    /// Begins to record when each batch was made and taken.
    pub fn record(&mut self) {
        self.deliveries = Some(Vec::new());
    }

    /// Returns and removes the recorded deliveries.
    pub fn deliveries(&mut self) -> Vec<Delivery> {
        self.deliveries.take().unwrap_or_default()
    }

    /// Starts the job.
    pub fn start(&mut self, now: Time) {
        if self.settings.next_epoch != NextEpoch::WhenWanted {
            self.begin_epoch(now);
        }
    }

    /// Returns the number of batches that the trainer has taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the number of batches in an epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Begins to follow which batches of the epochs that are not over have been requested, so that the loader can be restarted.
    pub fn follow(&mut self) {
        self.begun = Some(BegunEpochs::default());
    }

    /// Returns the batches of the epochs that are not over, if they are followed. The samples at the positions `trained` were
    /// trained on, among them those of earlier calls.
    pub fn begun(&mut self, trained: &Intervals) -> Option<BegunEpochs> {
        let begun = self.begun.as_mut()?;
        begun.settle(trained, self.own.iter().sum());
        Some(begun.clone())
    }

    /// Goes on as if the trainer had taken `batches` batches before the job began: all batches of the epochs that are over, and
    /// those of the epochs `begun` that were trained on. The rest of these epochs comes next, with the batches first that were
    /// requested before, each from the same worker if workers have their own files. There may be two such epochs: the later one
    /// may have begun before the earlier one was over.
    pub fn resume(&mut self, batches: u64, begun: BegunEpochs) {
        self.epochs = begun.over();
        self.begun = self.begun.is_some().then_some(begun);
        (self.wanted, self.asked, self.taken, self.next) = (batches, batches, batches, batches);
        (self.bound, self.restarted) = (batches, true);
    }

    /// Raises the number of batches that the trainer takes in the whole run to at least `batches`.
    pub fn extend(&mut self, batches: u64) {
        self.total = self.total.max(batches);
    }

    /// Records that the trainer wants a batch.
    pub fn want(&mut self, now: Time) {
        self.wanted += 1;
        if self.asked == self.wanted + self.settings.ahead.saturating_sub(1) {
            self.last = now;
        }
        if self.taken == self.bound && self.settings.next_epoch == NextEpoch::WhenWanted {
            self.begin_epoch(now);
        }
    }

    /// Records that the trainer takes the oldest batch that was handed out.
    pub fn take(&mut self, now: Time) {
        self.taken += 1;
        if let Some((batch, worker)) = self.handed.pop_front() {
            self.open[worker as usize] -= 1;
            if let Some(delivery) = self.delivery(batch) {
                delivery.taken = Some(now.seconds());
            }
        }
        if self.taken == self.bound {
            match self.settings.next_epoch {
                // Another model copy already waits for a batch of the next epoch.
                NextEpoch::WhenWanted if self.wanted > self.taken => self.begin_epoch(now),
                NextEpoch::WhenWanted => {}
                NextEpoch::Polled(period) => {
                    let period = Span::from_seconds(period).0.max(1);
                    let waited = now.since(self.last).0.max(1).div_ceil(period) * period;
                    self.begin_epoch(self.last + Span(waited));
                }
            }
        }
    }

    /// Begins the first or the next epoch: workers are started (unless they persist), and requests go round robin from the first
    /// worker on.
    fn begin_epoch(&mut self, now: Time) {
        let first = std::mem::take(&mut self.restarted) || self.epochs == 0;
        // Batches of the next epoch may have been taken before.
        let later = self.begun.as_ref().map_or(0, |begun| begun.trained_from(self.epochs + 1));
        let until = (self.epochs + 1).saturating_mul(self.epoch);
        self.bound = until.saturating_add(later).min(self.total);
        let starts = first || !self.settings.persistent;
        let start = if starts { self.settings.start * f64::from(self.workers) } else { 0.0 };
        self.ready = now + Span::from_seconds(start);
        self.turn = 0;
        self.left.clone_from(&self.own);
        self.first = self.begin(self.epochs);
        self.go_on_with_epoch();
        self.epochs += 1;
    }

    /// Goes on with an epoch that had begun before the job restarted, if it is such an epoch. If each worker has its own files,
    /// it is the turn of the worker of the first batch that was not trained on.
    fn go_on_with_epoch(&mut self) {
        let Some(begun) = &self.begun else { return };
        let shares = self.own.len();
        self.again = vec![VecDeque::new(); shares];
        let mut untrained = None;
        for (first, (Requested { share, samples, .. }, is_trained)) in begun.of(self.epochs) {
            self.first = self.first.max(first + samples);
            if is_trained {
                self.left[share] -= samples;
                self.turn = ((share + 1) % shares) as u32;
            } else {
                self.again[share].push_back((first, samples));
                untrained.get_or_insert(share as u32);
            }
        }
        self.turn = untrained.unwrap_or(self.turn);
    }

    /// Returns the position of an epoch's first sample in the loader's reading order.
    fn begin(&self, epoch: u64) -> u64 {
        epoch * self.samples.div_ceil(self.loaders)
    }

    /// Requests one more batch if one is due, and returns the inbox in which the request lies; `None` if none is due or no
    /// worker may get it.
    pub fn ask(&mut self, now: Time) -> Option<u32> {
        let count = match self.settings.replaced {
            Replaced::WhenTaken => self.taken,
            Replaced::WhenWanted => self.wanted,
        };
        if self.asked >= self.bound || self.asked >= count.saturating_add(self.settings.ahead) {
            return None;
        }
        let inbox = match self.settings.dealt {
            Dealt::InTurn => self.whose_turn()?,
            Dealt::AsFree => 0,
        };
        let request = self.request(inbox);
        self.inboxes[inbox as usize].push_back(request);
        if self.settings.dealt == Dealt::InTurn {
            self.open[inbox as usize] += 1;
        }
        self.asked += 1;
        if self.asked < self.wanted.saturating_add(self.settings.ahead) {
            self.last = now.max(self.ready);
        }
        Some(inbox)
    }

    /// Returns the request for the next batch. If each worker has its own files, the batch consists of samples of worker
    /// `worker`.
    fn request(&mut self, worker: u32) -> Request {
        let share = if self.settings.iterable { worker as usize } else { 0 };
        let left = &mut self.left[share];
        let again = self.again.get_mut(share).and_then(VecDeque::pop_front);
        let (first, samples) = again.unwrap_or_else(|| {
            let samples = self.batch.min(*left);
            self.first += samples;
            (self.first - samples, samples)
        });
        *left -= samples;
        if let Some(begun) = &mut self.begun {
            let epoch = self.epochs - 1;
            begun.add(first, Requested { epoch, share, samples });
        }
        Request { batch: self.asked, first, samples, ready: self.ready }
    }

    /// Returns the next worker round robin; if order is not kept, the next one that has less than its share of requests.
    fn whose_turn(&mut self) -> Option<u32> {
        let share = self.settings.ahead.max(1) / u64::from(self.workers);
        for _ in 0..self.workers {
            let worker = self.turn;
            self.turn = (self.turn + 1) % self.workers;
            let free = self.settings.in_order || u64::from(self.open[worker as usize]) < share;
            if free && !(self.settings.iterable && self.left[worker as usize] == 0) {
                return Some(worker);
            }
        }
        None
    }

    /// Whether each worker has its own inbox of requests.
    pub fn in_turn(&self) -> bool {
        self.settings.dealt == Dealt::InTurn
    }

    /// Returns the batch that worker number `worker` is to make next.
    pub fn next(&mut self, worker: u32) -> Option<Request> {
        let inbox = if self.in_turn() { worker } else { 0 };
        let request = self.inboxes[inbox as usize].pop_front()?;
        if !self.in_turn() {
            self.open[worker as usize] += 1;
        }
        let Request { batch, first, samples, .. } = request;
        self.made_by.insert(batch, Made { worker, first, samples });
        Some(request)
    }

    /// Records that all stages have finished `batch`.
    pub fn finish(&mut self, now: Time, batch: u64) {
        let Some(made) = self.made_by.remove(&batch) else { return };
        self.early.insert(batch, made);
        let worker = made.worker;
        if let Some(kept) = &mut self.deliveries
            && kept.len() < MOST_KEPT
        {
            kept.push(Delivery { batch, worker, finished: now.seconds(), taken: None });
        }
    }

    /// Hands a finished batch to the trainer, if one can be handed out now. Returns the position of its first sample and its
    /// number of samples.
    pub fn hand_out(&mut self) -> Option<(u64, u64)> {
        let (batch, Made { worker, first, samples }) = match self.settings.in_order {
            true => self.early.remove_entry(&self.next)?,
            false => self.early.pop_first()?,
        };
        self.next += 1;
        self.handed.push_back((batch, worker));
        Some((first, samples))
    }

    fn delivery(&mut self, batch: u64) -> Option<&mut Delivery> {
        let kept = self.deliveries.as_mut()?;
        kept.iter_mut().rev().find(|delivery| delivery.batch == batch)
    }
}

#[cfg(test)]
mod tests;
