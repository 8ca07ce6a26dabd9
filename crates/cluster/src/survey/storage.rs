//! Reads, opens and writes on the shared storage.

use super::network::median;
use super::{AHEAD, End, Event, Kind, Survey};
use crate::message::{Found, Task, Timing};
use forebay_calibrate::fit;
use forebay_calibrate::measurement::Sample;

/// Longest window of a trial ÷ the plan's window.
const STRETCH: f64 = 5.0;
/// Number of requests of each thread that should fit into the window of a trial.
const REQUESTS: f64 = 2.0;
/// Number of opens by all nodes from which on the window of a trial is shortened.
const OPENS: f64 = 20_000.0;
/// Time that nodes get to see the files of others [s]: NFS keeps old directories for up to a minute.
const VISIBLE: f64 = 90.0;
/// Factor by which the latency of an idle storage may rise before a probe ends, and rise that is too small to count [s].
const TRIPLED: f64 = 3.0;
const SMALL_RISE: f64 = 2e-3;
/// Largest size of the large requests beside which small ones are read [B], and numbers of threads that read them.
const LARGE: u64 = 1 << 20;
const LARGE_READERS: [usize; 3] = [1, 3, 6];
/// Window of a trial beside reads ÷ time of an all-reduce alone.
const ROUNDS: f64 = 10.0;
/// Label `access` of trials of the order of service; those of a machine's own disks have others.
const SHARED: &str = "shared";
/// Time of a checkpoint [s], and smallest part of it that is written [B].
const CHECKPOINT: f64 = 3.0;
const LEAST: f64 = (4 << 20) as f64;

/// A kind of read: how many nodes with how many threads read files of which size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    nodes: usize,
    streams: usize,
    size: u64,
    only_open: bool,
}

impl Survey<'_> {
    /// Writes the files of each node, and waits until other nodes see them.
    pub(super) fn prepare(&mut self) -> Result<(), End> {
        if self.written || !self.order.data.is_empty() {
            return self.see_data();
        }
        if self.leaders.len() < 2 {
            let why = "one node is left: files that another node wrote need two".to_owned();
            return Err(End::Because(why));
        }
        (self.on)(Event::Begin("writing files"));
        let sizes = self.order.settings.files();
        let bytes: f64 = sizes.iter().map(|(size, count)| (size * count) as f64).sum();
        let task = |rank: &u32| {
            let (folder, sizes) = (self.folder_of(*rank), sizes.clone());
            let seed = self.order.seed ^ (u64::from(*rank) << 32);
            (*rank, Task::Write { folder, sizes, seed })
        };
        let tasks = self.leaders.iter().map(task).collect();
        // A rank that has written a file says so, and gets more time.
        self.work(tasks, 0.0)?;
        self.moved += bytes * self.leaders.len() as f64;
        let all = self.leaders.len();
        let (size, count) = sizes[sizes.len() - 1];
        let look = |(index, rank): (usize, &u32)| {
            let writer = self.leaders[(index + 1) % all];
            let path = crate::work::path_of(&self.folder_of(writer), size, count - 1);
            (*rank, Task::Look { path, size, patience: VISIBLE })
        };
        let tasks = self.leaders.iter().enumerate().map(look).collect();
        self.work(tasks, VISIBLE)?;
        self.written = true;
        self.direct = self.reads_past_cache()?;
        if !self.direct {
            self.note("reads go through the page cache, which is dropped before: the file system has no direct reads".to_owned());
        }
        Ok(())
    }

    /// Checks that each node sees the user's own files.
    fn see_data(&mut self) -> Result<(), End> {
        let Some((path, size)) = self.order.data.first().cloned() else { return Ok(()) };
        if !self.written {
            let look = |rank: &u32| (*rank, Task::Look { path: path.clone(), size, patience: 1.0 });
            let tasks = self.leaders.iter().map(look).collect();
            self.work(tasks, 1.0)?;
            self.written = true;
            self.direct = self.reads_past_cache()?;
        }
        Ok(())
    }

    /// Returns whether files can be read past the page cache.
    fn reads_past_cache(&mut self) -> Result<bool, End> {
        let size = self.order.settings.size.iter().min().map_or(0, |size| size.0);
        let load = Load { nodes: 1, streams: 1, size, only_open: false };
        self.direct = true;
        match self.read(load, 0, 0.0, 0.2) {
            Ok(_) => Ok(true),
            Err(End::Failed(of)) if !of.lost => Ok(false),
            Err(end) => Err(end),
        }
    }

    /// Returns the sizes of files to read: one class for the user's own.
    fn sizes(&self) -> Vec<u64> {
        if self.order.data.is_empty() {
            return self.order.settings.size.iter().map(|size| size.0).collect();
        }
        let all: u64 = self.order.data.iter().map(|(_, size)| size).sum();
        vec![all / self.order.data.len() as u64]
    }

    /// Returns all loads of reads, the lightest first.
    fn loads(&self) -> Vec<Load> {
        let mut loads = Vec::new();
        for nodes in self.numbers_of_nodes() {
            for streams in self.order.settings.streams.iter().map(|streams| streams.0) {
                for size in self.sizes() {
                    loads.push(Load { nodes, streams, size, only_open: false });
                }
            }
        }
        loads
    }

    /// Returns the load whose trials name slow nodes: each node alone, with most threads and the largest files.
    pub(super) fn naming(&self) -> Option<Load> {
        let streams = self.order.settings.streams.iter().map(|streams| streams.0).max()?;
        let size = self.sizes().into_iter().max()?;
        Some(Load { nodes: 1, streams, size, only_open: false })
    }

    /// Measures reads by more and more nodes.
    pub(super) fn reads(&mut self) -> Result<(), End> {
        let loads = self.loads();
        self.load_with(&loads, "reads of files that other nodes wrote")
    }

    /// Measures in which order the storage serves requests: one node reads small files with one thread, beside another one that reads larger
    /// files with more and more threads. Both read past the page cache.
    pub(super) fn service(&mut self) -> Result<(), End> {
        let sizes = self.sizes();
        let small = sizes.iter().copied().min().unwrap_or(0);
        let large = sizes.iter().copied().filter(|size| (2 * small..=LARGE).contains(size)).max();
        let [reader, beside, ..] = self.leaders[..] else { return Ok(()) };
        let Some(large) = large.filter(|_| self.order.data.is_empty()) else { return Ok(()) };
        let kinds = LARGE_READERS.map(|readers| {
            let numbers =
                [("size", small as f64), ("large", large as f64), ("readers", readers as f64)];
            (readers, Kind::new("service", &[("access", SHARED)], &numbers))
        });
        if kinds.iter().all(|(_, kind)| self.trials(kind) >= self.at_least()) {
            return Ok(());
        }
        self.prepare()?;
        if !self.direct {
            return Ok(());
        }
        (self.on)(Event::Begin("order of service"));
        for (readers, kind) in kinds {
            for trial in self.trials(&kind)..self.at_least() {
                self.go_on()?;
                let times = self.times();
                let ranks = [reader, beside];
                let starts = self.crew.at(&ranks, AHEAD);
                let load = |size, streams| Load { nodes: 1, streams, size, only_open: false };
                let loads = [load(small, 1), load(large, readers)];
                let mut tasks = Vec::new();
                for (index, load) in loads.into_iter().enumerate() {
                    let own = index..=index;
                    tasks.extend(self.reading(
                        load,
                        trial,
                        &ranks[own.clone()],
                        &starts[own],
                        times,
                    ));
                }
                let found = self.work(tasks, times.0 + times.1)?;
                let [of_small, of_large] = &found[..] else { continue };
                let mut both = of_small.clone();
                both.figures = [("small", of_small.rate), ("large", of_large.rate)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into();
                self.record(&kind, trial, reader, both.count, both.count / both.rate, &both)?;
            }
        }
        Ok(())
    }

    /// Measures opens of small files.
    pub(super) fn opens(&mut self) -> Result<(), End> {
        let Some(size) = self.sizes().into_iter().min() else { return Ok(()) };
        let (all, streams) = (self.leaders.len(), &self.order.settings.streams);
        let most = streams.iter().map(|streams| streams.0).max().unwrap_or(1);
        let mut loads = Vec::new();
        for nodes in [1, all] {
            for streams in [1, most] {
                let load = Load { nodes, streams, size, only_open: true };
                if !loads.contains(&load) {
                    loads.push(load);
                }
            }
        }
        self.load_with(&loads, "opens of files")
    }

    /// Measures the first load of reads again: how much the storage has drifted meanwhile.
    pub(super) fn drift(&mut self) -> Result<(), End> {
        let Some(load) = self.loads().first().copied() else { return Ok(()) };
        if self.trials(&self.kind(load, "drift")) >= self.at_least() {
            return Ok(());
        }
        self.prepare()?;
        let kind = self.kind(load, "drift");
        for trial in self.trials(&kind)..self.at_least() {
            self.go_on()?;
            self.trial(&kind, load, trial)?;
        }
        Ok(())
    }

    /// Measures these loads one after the other. Ends early if the latency of single requests between trials has tripled: other users'
    /// requests would suffer as well.
    fn load_with(&mut self, loads: &[Load], what: &'static str) -> Result<(), End> {
        let open = |survey: &Self| {
            let missing = |load: &&Load| survey.missing(**load) > 0;
            loads.iter().filter(missing).count()
        };
        if open(self) == 0 {
            return Ok(());
        }
        self.prepare()?;
        (self.on)(Event::Begin(what));
        let idle = self.idle_latency()?;
        for (number, load) in loads.iter().enumerate() {
            let kind = self.kind(*load, if load.only_open { "shared-open" } else { "shared-read" });
            let done = self.trials(&kind);
            if self.missing(*load) > 0 {
                self.care(idle)?;
            }
            for trial in done..done + self.missing(*load) {
                self.go_on()?;
                if !self.trial(&kind, *load, trial)? {
                    break;
                }
            }
            (self.on)(Event::Trial(number + 1, loads.len()));
        }
        Ok(())
    }

    /// Returns the number of trials of a load that are still to be made. Of the load that names slow nodes, each node gets as many.
    fn missing(&self, load: Load) -> usize {
        let kind = self.kind(load, if load.only_open { "shared-open" } else { "shared-read" });
        let each = if Some(load) == self.naming() { self.leaders.len() } else { 1 };
        (self.at_least() * each).saturating_sub(self.trials(&kind))
    }

    /// Returns the kind of the trials of a load.
    pub(super) fn kind(&self, load: Load, probe: &'static str) -> Kind {
        let access = if self.direct { "direct" } else { "cold" };
        let numbers = [
            ("nodes", load.nodes as f64),
            ("streams", load.streams as f64),
            ("size", load.size as f64),
        ];
        Kind::new(probe, &[("access", access)], &numbers)
    }

    /// Runs a trial of a load by the nodes whose turn it is; returns whether it was made, and not left out because too few requests would
    /// end in it.
    fn trial(&mut self, kind: &Kind, load: Load, trial: usize) -> Result<bool, End> {
        let ranks = self.turn(trial, load.nodes);
        self.trial_of(kind, load, trial, &ranks)
    }

    /// Runs a trial of a load by `ranks`; returns whether it was made.
    pub(super) fn trial_of(
        &mut self,
        kind: &Kind,
        load: Load,
        trial: usize,
        ranks: &[u32],
    ) -> Result<bool, End> {
        let (skip, window) = self.times();
        let (skip, length) = match load.only_open {
            // A cache can answer so many opens that a whole window would open too many files.
            true => {
                let shorter = (OPENS / self.best_opens().max(1.0)).clamp(window.min(0.05), window);
                (skip.min(shorter), shorter)
            }
            false => {
                let at_once = (load.nodes * load.streams) as f64 * load.size as f64;
                let needed = REQUESTS * at_once / self.best_rate().max(1.0);
                if needed > STRETCH * window {
                    return Ok(false);
                }
                (skip, needed.clamp(window, STRETCH * window))
            }
        };
        let found = self.read_by(ranks, load, trial, (skip, length))?;
        for (rank, found) in ranks.iter().zip(&found) {
            // The user's own files differ in size, so their bytes are counted.
            let bytes = found.figures.get("bytes").copied().unwrap_or(0.0);
            let count = match load.only_open || self.order.data.is_empty() {
                true => found.count,
                false => bytes / load.size as f64,
            };
            self.record(kind, trial, *rank, count, found.seconds, found)?;
            self.opened += found.rate * (skip + length);
            self.moved +=
                found.rate * (skip + length) * if load.only_open { 0.0 } else { load.size as f64 };
        }
        Ok(true)
    }

    /// Returns the highest throughput of all nodes together that was seen so far [B/s]; infinite before the first trial.
    fn best_rate(&self) -> f64 {
        let of = self.journal.samples().iter().filter(|sample| sample.probe == "shared-read");
        let rate = |sample: &Sample| {
            sample.setting("size") * sample.setting("nodes") / sample.seconds_each()
        };
        let best = of.map(rate).fold(0.0, f64::max);
        if best > 0.0 { best } else { f64::INFINITY }
    }

    /// Returns the highest rate of opens of all nodes together that was seen so far [1/s].
    fn best_opens(&self) -> f64 {
        let of = self.journal.samples().iter().filter(|sample| sample.probe == "shared-open");
        of.map(|sample| sample.setting("nodes") / sample.seconds_each()).fold(0.0, f64::max)
    }

    /// Lets nodes read; returns what each found.
    fn read(
        &mut self,
        load: Load,
        trial: usize,
        skip: f64,
        length: f64,
    ) -> Result<Vec<Found>, End> {
        let ranks = self.turn(trial, load.nodes);
        self.read_by(&ranks, load, trial, (skip, length))
    }

    /// Lets `ranks` read; returns what each found.
    fn read_by(
        &mut self,
        ranks: &[u32],
        load: Load,
        trial: usize,
        (skip, length): (f64, f64),
    ) -> Result<Vec<Found>, End> {
        let starts = self.crew.at(ranks, AHEAD);
        let tasks = self.reading(load, trial, ranks, &starts, (skip, length));
        self.work(tasks, skip + length)
    }

    /// Returns the tasks of nodes that read files of other nodes.
    fn reading(
        &self,
        load: Load,
        trial: usize,
        ranks: &[u32],
        starts: &[f64],
        (skip, length): (f64, f64),
    ) -> Vec<(u32, Task)> {
        let task = |(index, rank): (usize, &u32)| {
            let place = self.leaders.iter().position(|of| of == rank).unwrap_or(0);
            let task = Task::Read {
                files: self.files_of_another(place, trial, load.size),
                streams: load.streams,
                direct: self.direct,
                only_open: load.only_open,
                timing: Timing { start: starts[index], skip, length },
                seed: self.order.seed + (trial as u64) * 1000 + place as u64,
            };
            (*rank, task)
        };
        ranks.iter().enumerate().map(task).collect()
    }

    /// Measures the latency of the storage while no other rank uses it [s].
    fn idle_latency(&mut self) -> Result<f64, End> {
        let Some(size) = self.sizes().into_iter().min() else { return Ok(0.0) };
        let load = Load { nodes: 1, streams: 1, size, only_open: false };
        let found = self.read(load, 0, 0.05, 0.25)?;
        Ok(median(found.iter().filter_map(|of| of.figures.get("latency_p50").copied()).collect()))
    }

    /// Ends a probe if the latency has risen far above `idle`, or if all nodes together have read or opened as much as the plan allows.
    fn care(&mut self, idle: f64) -> Result<(), End> {
        let settings = &self.order.settings;
        let most = settings.most_bytes.map_or(200e9, |bytes| bytes.0 as f64);
        if self.moved > most {
            let what = format!(
                "{:.0} GB were read and written, as much as `most_bytes` of the plan allows",
                most / 1e9
            );
            return Err(End::Because(what));
        }
        let most = settings.most_operations.unwrap_or(2_000_000) as f64;
        if self.opened > most {
            let what = format!(
                "{most} files were opened, as many as `most_operations` of the plan allows"
            );
            return Err(End::Because(what));
        }
        let now = self.idle_latency()?;
        if now < TRIPLED * idle || now < idle + SMALL_RISE {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
        let again = self.idle_latency()?;
        if again < TRIPLED * idle || again < idle + SMALL_RISE {
            return Ok(());
        }
        Err(End::Because(format!(
            "a read of the idle storage takes {:.1} ms instead of {:.1} ms at the beginning: others suffer, or the storage does; the rest was not measured",
            1e3 * again,
            1e3 * idle
        )))
    }

    /// Measures writes of checkpoints: by one node and by all, with one thread and with as many as read.
    pub(super) fn writes(&mut self) -> Result<(), End> {
        let Some(size) = self.order.settings.checkpoint else { return Ok(()) };
        (self.on)(Event::Begin("writes of checkpoints"));
        let all = self.leaders.len();
        let most = self.order.settings.streams.iter().map(|streams| streams.0).max().unwrap_or(1);
        let mut kinds: Vec<(usize, usize)> = vec![(1, 1), (1, most), (all, 1), (all, most)];
        kinds.dedup();
        // Throughput of all nodes so far [B/s]: much is written where it is fast.
        let mut rate = size.0 as f64 / CHECKPOINT;
        for (number, (nodes, streams)) in kinds.iter().enumerate() {
            let at_once = (nodes * streams) as f64;
            let bytes =
                (rate * CHECKPOINT / at_once).clamp(LEAST.min(size.0 as f64), size.0 as f64);
            let bytes = (bytes / LEAST).floor().max(1.0) * LEAST.min(size.0 as f64);
            // An earlier run may have written less or more.
            let (of_nodes, of_streams) = (*nodes as f64, *streams as f64);
            let same = |s: &&Sample| {
                s.probe == "shared-write"
                    && !s.labels.contains_key(fit::AGAIN)
                    && (s.setting("nodes"), s.setting("streams")) == (of_nodes, of_streams)
            };
            let earlier = self.journal.samples().iter().find(same).map(|s| s.setting("bytes"));
            let bytes = earlier.unwrap_or(bytes);
            let numbers = [("nodes", of_nodes), ("streams", of_streams), ("bytes", bytes)];
            let kind = Kind::new("shared-write", &[], &numbers);
            // Each node has its turn in the trials that name slow ones.
            let each = if (*nodes, *streams) == (1, most) { all } else { 1 };
            for trial in self.trials(&kind)..self.at_least() * each {
                self.go_on()?;
                let ranks = self.turn(trial, *nodes);
                let starts = self.crew.at(&ranks, AHEAD);
                let task = |(rank, start): (&u32, &f64)| {
                    let folder = self.folder_of(*rank);
                    let (streams, start) = (*streams, *start);
                    (*rank, Task::Checkpoint { folder, streams, bytes: bytes as u64, start })
                };
                let tasks = ranks.iter().zip(&starts).map(task).collect();
                let found = self.work(tasks, 4.0 * CHECKPOINT)?;
                let slowest = found.iter().map(|of| of.seconds).fold(0.0, f64::max);
                let written: f64 = found.iter().map(|of| of.count).sum();
                rate = rate.max(written / slowest);
                self.moved += written;
                for (rank, found) in ranks.iter().zip(&found) {
                    self.record(&kind, trial, *rank, found.count, found.seconds, found)?;
                }
            }
            (self.on)(Event::Trial(number + 1, kinds.len()));
        }
        Ok(())
    }

    /// Returns the median time of an all-reduce of `bytes` [s]; 0 if it was not measured.
    fn time_of_ring(&self, bytes: u64) -> f64 {
        let alone = self.collective(bytes);
        let of = self.journal.samples().iter().filter(|sample| alone.has(sample));
        median(of.map(Sample::seconds_each).collect())
    }

    /// Returns the size of the vectors to add up beside reads [B]: the largest of which many rounds fit into a trial, also if reads slow them;
    /// `None` if the plan has no all-reduce.
    fn vector_beside(&self) -> Option<u64> {
        let sizes = self.order.settings.allreduce.as_ref()?;
        let (_, window) = self.times();
        let fits = |bytes: &u64| {
            let once = self.time_of_ring(*bytes);
            once > 0.0 && ROUNDS * once <= window
        };
        let sizes = || sizes.iter().map(|size| size.0);
        sizes().filter(fits).max().or_else(|| sizes().min())
    }

    /// Measures reads and all-reduce at the same time.
    pub(super) fn beside(&mut self) -> Result<(), End> {
        let (Some(bytes), Some(load)) = (self.vector_beside(), self.naming()) else {
            return Ok(());
        };
        let load = Load { nodes: self.leaders.len(), ..load };
        let kinds = ["read", "allreduce"].map(|what| {
            let numbers = [
                ("nodes", load.nodes as f64),
                ("streams", load.streams as f64),
                ("size", load.size as f64),
                ("bytes", bytes as f64),
            ];
            Kind::new("beside", &[("what", what)], &numbers)
        });
        if self.trials(&kinds[1]) >= self.at_least() {
            return Ok(());
        }
        self.prepare()?;
        (self.on)(Event::Begin("reads beside all-reduce"));
        let mut once = self.time_of_ring(bytes);
        if once <= 0.0 {
            let first = self.all_reduce(bytes, 1)?;
            once = first.seconds / first.count;
        }
        let (skip, window) = self.times();
        let length = (ROUNDS * once).clamp(window, STRETCH * window);
        // So many rounds that all-reduce outlasts the reads even if they do not slow it.
        let times = ((skip + length) / once.max(1e-6)).ceil().clamp(1.0, 1e6) as u32;
        for trial in self.trials(&kinds[1])..self.at_least() {
            self.go_on()?;
            let ranks = self.leaders.clone();
            let starts = self.crew.at(&ranks, 0.5);
            let mut tasks = self.ring(bytes, times, &starts, (skip, length));
            tasks.extend(self.reading(load, trial, &ranks, &starts, (skip, length)));
            let found = self.work(tasks, 60.0)?;
            let (rings, reads) = found.split_at(ranks.len());
            // Ranks of a ring end their rounds together: the first one's count is that of all.
            if let Some(of) = rings.first() {
                self.record(&kinds[1], trial, ranks[0], of.count, of.seconds, of)?;
            }
            for (rank, of) in ranks.iter().zip(reads) {
                self.record(&kinds[0], trial, *rank, of.count, of.count / of.rate, of)?;
            }
        }
        Ok(())
    }
}
