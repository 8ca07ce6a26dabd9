//! Loaders that make batches on request: what has been asked of whom, and what may be handed out.
//!
//! The bookkeeping of PyTorch's `_MultiProcessingDataLoaderIter` and Keras' `OrderedEnqueuer`, for
//! both worlds: they say when the trainer wants and gets a batch and when a worker has made one.

use forebay_engine::{Span, Time};
use forebay_report::Delivery;
use forebay_scenario::{Dataset, Dealt, Job, NextEpoch, Replaced, Requests as Settings};
use std::collections::{BTreeMap, VecDeque};

use super::Intervals;

/// Most deliveries that are kept for a report.
const MOST_KEPT: usize = 100_000;

/// The requests of one loader.
#[derive(Debug, Clone)]
pub struct Requests {
    settings: Settings,
    workers: u32,
    batch: u64,
    /// Batches of an epoch.
    epoch: u64,
    /// Samples of an epoch: of each worker where each has files of its own, otherwise of all.
    own: Vec<u64>,
    /// Of these, those that have not been asked for in the epoch in progress.
    left: Vec<u64>,
    /// Samples of the data set, and loaders that share them.
    samples: u64,
    loaders: u64,
    /// Epochs that were begun, and position of the first sample that is asked for next.
    epochs: u64,
    first: u64,
    /// Batches in all.
    total: u64,
    /// Batches that the trainer has wanted, that were asked for, and that it has taken.
    wanted: u64,
    asked: u64,
    taken: u64,
    /// Requests may go up to here: the end of the epoch in progress.
    bound: u64,
    /// When its workers are there.
    ready: Time,
    /// When the last request found room in the queue of promises.
    last: Time,
    /// Whose turn it is.
    turn: u32,
    /// Requests that wait for a worker: each worker's own, or those of all.
    inboxes: Vec<VecDeque<Request>>,
    /// Of each worker, batches asked of it and not taken.
    open: Vec<u32>,
    /// The batches that are being made.
    made_by: BTreeMap<u64, Made>,
    /// Finished batches that wait for earlier ones.
    early: BTreeMap<u64, Made>,
    /// The next to be handed out, where order is kept.
    next: u64,
    /// Workers of the batches that can be taken, oldest first.
    handed: VecDeque<(u64, u32)>,
    deliveries: Option<Vec<Delivery>>,
    /// Positions of samples that are left out, because their batches were taken before.
    trained: Intervals,
    /// Whether its workers are to be started again.
    restarted: bool,
}

/// A batch to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its number among all of the loader.
    pub batch: u64,
    /// Position of its first sample in the reading of the loader.
    pub first: u64,
    /// How many it has.
    pub samples: u64,
    /// When its worker is there.
    pub ready: Time,
}

/// A batch that a worker makes: from the first of its samples on, so many.
#[derive(Debug, Clone, Copy)]
struct Made {
    worker: u32,
    first: u64,
    samples: u64,
}

impl Requests {
    /// Those of a loader of `job`, which reads `dataset`, `quota` samples in all.
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
            trained: Intervals::default(),
            restarted: false,
        })
    }

    /// From now on keeps when each batch was made and taken.
    pub fn record(&mut self) {
        self.deliveries = Some(Vec::new());
    }

    /// What was kept.
    pub fn deliveries(&mut self) -> Vec<Delivery> {
        self.deliveries.take().unwrap_or_default()
    }

    /// The job begins.
    pub fn start(&mut self, now: Time) {
        if self.settings.next_epoch != NextEpoch::WhenWanted {
            self.begin_epoch(now);
        }
    }

    /// Batches that the trainer has taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Batches of an epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// As if so many batches had been taken before the job begins, those of the samples at these positions: what is left
    /// of their epochs comes next, of which the last may have been begun before the one before it was over.
    pub fn skip(&mut self, batches: u64, trained: Intervals) {
        let own = self.own.first().copied().unwrap_or(0);
        let left = |epoch: &u64| {
            let begin = self.begin(*epoch);
            trained.next_gap(begin) < begin + own
        };
        let last = batches / self.epoch;
        (self.epochs, self.trained) = ((0..last).find(left).unwrap_or(last), trained);
        (self.wanted, self.asked, self.taken, self.next) = (batches, batches, batches, batches);
        (self.bound, self.restarted) = (batches, true);
    }

    /// Positions of samples up to the last of so many batches that are taken in order.
    pub fn first(&self, batches: u64) -> Intervals {
        let begin = self.begin(batches / self.epoch);
        let mut first = Intervals::default();
        first.insert(0..begin + batches % self.epoch * self.batch);
        first
    }

    /// The trainer will want at least so many batches in all.
    pub fn extend(&mut self, batches: u64) {
        self.total = self.total.max(batches);
    }

    /// The trainer wants a batch.
    pub fn want(&mut self, now: Time) {
        self.wanted += 1;
        if self.asked == self.wanted + self.settings.ahead.saturating_sub(1) {
            self.last = now;
        }
        if self.taken == self.bound && self.settings.next_epoch == NextEpoch::WhenWanted {
            self.begin_epoch(now);
        }
    }

    /// The trainer takes the oldest batch that was handed out.
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
                // Another model copy waits already.
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

    /// The first epoch, or the next one: workers are started, and asked in turn from the first on.
    fn begin_epoch(&mut self, now: Time) {
        let first = std::mem::take(&mut self.restarted) || self.epochs == 0;
        // Of the next epoch, batches may have been taken before.
        let later = self.trained.count() - self.trained.below(self.begin(self.epochs + 1)).count();
        let until = (self.epochs + 1).saturating_mul(self.epoch);
        self.bound = until.saturating_add(later.div_ceil(self.batch)).min(self.total);
        let starts = first || !self.settings.persistent;
        let start = if starts { self.settings.start * f64::from(self.workers) } else { 0.0 };
        self.ready = now + Span::from_seconds(start);
        self.turn = 0;
        self.left.clone_from(&self.own);
        self.first = self.begin(self.epochs);
        self.epochs += 1;
    }

    /// Where an epoch begins in the reading of the loader: at its own first samples.
    fn begin(&self, epoch: u64) -> u64 {
        epoch * self.samples.div_ceil(self.loaders)
    }

    /// Asks for one more batch, if that is due; whose inbox it lies in.
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

    /// The next batch, of samples of worker `worker` where each has its own.
    fn request(&mut self, worker: u32) -> Request {
        let left = &mut self.left[if self.settings.iterable { worker as usize } else { 0 }];
        loop {
            let (first, samples) = (self.first, self.batch.min(*left));
            *left -= samples;
            self.first += samples;
            if samples == 0 || self.trained.next_gap(first) == first {
                return Request { batch: self.asked, first, samples, ready: self.ready };
            }
        }
    }

    /// The next worker, or out of order the next one that has less than its share to do.
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

    /// Whether each worker has requests of its own.
    pub fn in_turn(&self) -> bool {
        self.settings.dealt == Dealt::InTurn
    }

    /// What worker number `worker` is to make next.
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

    /// All stages have done what they do to `batch`.
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

    /// A finished batch that can be handed to the trainer now, if there is one; it is. The position of its first
    /// sample, and how many it has.
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
mod tests {
    use super::*;
    use forebay_scenario::ScenarioFile;

    /// The requests of a loader of 10 batches of 16 and a smaller one in an epoch, by this preset.
    fn requests(loader: &str) -> Requests {
        let text = format!(
            "name = \"r\"\n[run]\nepochs = 3\n[cluster]\nnodes = 1\nnode.cores = 4\nnode.gpus = 1\n[storage.s.memory]\n\
             [dataset.d]\nsamples = 170\nsample_size = \"1 kB\"\n[[job]]\nname = \"j\"\n\
             dataset = \"d\"\nstorage = \"s\"\nbatch = 16\nmodel.step = \"1 ms\"\n\
             loader.{loader}\n"
        );
        let file = ScenarioFile::parse("r.toml", text).expect("TOML");
        let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
        let job = &scenario.jobs[0];
        Requests::for_job(job, &scenario.datasets[0], scenario.goal(job).quota).expect("on request")
    }

    /// Takes batches until `batches` have been taken; the first sample and the number of each.
    fn take(requests: &mut Requests, batches: u64) -> Vec<(u64, u64)> {
        let (now, mut taken) = (Time(1), Vec::new());
        while requests.taken() < batches {
            requests.want(now);
            while requests.ask(now).is_some() {}
            for worker in 0..requests.workers {
                while let Some(request) = requests.next(worker) {
                    taken.push((request.batch, (request.first, request.samples)));
                    requests.finish(now, request.batch);
                }
            }
            while requests.hand_out().is_some() {}
            requests.take(now);
        }
        taken.sort_unstable();
        taken.into_iter().map(|(_, of)| of).collect()
    }

    /// The positions of the samples of these batches.
    fn trained(batches: &[(u64, u64)]) -> Intervals {
        let mut all = Intervals::default();
        batches.iter().for_each(|(first, samples)| all.insert(*first..first + samples));
        all
    }

    #[test]
    fn batches_that_were_taken_out_of_order_are_passed_over() {
        // System: 5 of the 22 batches of two epochs are taken, whichever. Expectation: the others come, in their order.
        let mut whole = requests("pytorch = { workers = 3, in_order = false }");
        whole.start(Time(0));
        let all = take(&mut whole, 22);
        for picked in [[0, 2, 3, 7, 10], [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]] {
            let taken: Vec<_> = picked.iter().map(|batch| all[*batch]).collect();
            let mut again = requests("pytorch = { workers = 3, in_order = false }");
            again.skip(5, trained(&taken));
            again.start(Time(0));
            let rest: Vec<_> = all.iter().filter(|of| !taken.contains(of)).copied().collect();
            assert_eq!(take(&mut again, 22)[..17], rest[..17], "{picked:?}");
        }
    }

    #[test]
    fn what_was_trained_on_is_passed_over_and_nothing_else() {
        // System: loaders that had handed out n batches when their state was saved. Expectation: they go on
        // with just what comes behind these, to the end, in the same epoch or the next.
        for loader in [
            "pytorch = { workers = 3 }",
            "pytorch = { workers = 2, persistent_workers = true, drop_last = true }",
            "keras = { workers = 2 }",
        ] {
            let mut whole = requests(loader);
            whole.start(Time(0));
            let total = whole.total;
            let all = take(&mut whole, total);
            assert_eq!(all.len() as u64, total, "{loader}");
            for saved in 0..total {
                let mut again = requests(loader);
                again.skip(saved, trained(&all[..saved as usize]));
                again.start(Time(0));
                let rest = take(&mut again, total);
                assert_eq!(rest[..], all[saved as usize..], "{loader}: behind {saved}");
            }
        }
    }

    #[test]
    fn persistent_workers_start_once_after_a_failure() {
        // System: two workers of 1 s each to start; a failure behind 3 of 11 batches, or in the second epoch.
        // Expectation: they start in the epoch that goes on, and not in the one after it.
        let loader = "pytorch = { workers = 2, persistent_workers = true, start = \"1 s\" }";
        for saved in [3, 14] {
            let mut again = requests(loader);
            let mut whole = requests(loader);
            whole.start(Time(0));
            again.skip(saved, trained(&take(&mut whole, saved)[..saved as usize]));
            again.start(Time(0));
            take(&mut again, saved + 1);
            assert_eq!(again.ready, Time(1) + Span::from_seconds(2.0), "behind {saved}");
            take(&mut again, saved + 12);
            assert_eq!(again.ready, Time(1), "an epoch later than {saved}");
        }
    }
}
