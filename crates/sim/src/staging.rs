//! Staging: copying a job's data sets to its nodes before the first step.

mod shared;

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::StagingOutcome;
use forebay_scenario::{Framing, Replicas};

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::ids::{CopyId, DatasetId, IdVec, Ids, JobId, StagingId};
use super::notice::Notice;
use super::read::{Mount, RequestLatency};
use super::worker::{Cores, Waiting};

/// The copying of one data set of a job copy to one of its nodes.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) job: JobId,
    /// The storage as this node sees it, with the route of the bytes to the node's tier.
    pub(super) mount: Mount,
    /// Conversion of the files into those of another data set, or writing of the files to a shared storage, if there is any.
    pub(super) convert: Option<Box<Conversion>>,
    pub(super) files: Files,
    /// Number of streams, each of which copies one file at a time; `busy` of them are copying.
    pub(super) streams: u32,
    pub(super) busy: u32,
    pub(super) began: Time,
    pub(super) ended: Option<Time>,
    /// Bytes copied so far [B].
    pub(super) bytes: f64,
}

/// Conversion of files of one data set into those of another on a node, or writing of the files to a storage that all nodes
/// share.
#[derive(Debug)]
pub(super) struct Conversion {
    /// The data set that is written.
    pub(super) dataset: DatasetId,
    /// Framing around each sample that is written; `samples_per_file` is the number of samples in each written file.
    pub(super) record: Framing,
    pub(super) samples_per_file: u64,
    /// Core-seconds of converting a sample [s].
    pub(super) compute: Sampler,
    /// The node's cores.
    pub(super) cores: Option<Cores>,
    /// Route of the bytes written to the node's tier.
    pub(super) write: Option<GroupId>,
    /// The shared storage, if the files are written there.
    pub(super) to: Option<Mount>,
}

/// The files to be copied to a node, and the number of the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files {
    pub(super) dataset: DatasetId,
    pub(super) next: u64,
    /// The assignment of files to nodes; `node` is the number of this node.
    pub(super) of: Replicas,
    pub(super) node: u64,
    pub(super) end: u64,
    pub(super) samples_per_file: u64,
    pub(super) samples: u64,
    /// Framing around each sample.
    pub(super) record: Framing,
}

/// A stream of a staging, and the file that it copies.
#[derive(Debug)]
pub(super) struct Copying {
    staging: StagingId,
    file: u64,
    bytes: f64,
    refusals: u8,
    /// Whether the file has been read and is being written to a storage that all nodes share. If so, `bytes` is the size of the
    /// file, or part of a file, that is being written [B], and the next part begins with sample `next`.
    writes: bool,
    next: u64,
    phase: Phase,
}

/// What a stream of a staging waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Refused,
    Latency,
    Transfer,
    Converting,
    Writing,
}

/// The owner of all stagings.
#[derive(Debug, Default)]
pub(super) struct Stagings {
    pub(super) stagings: IdVec<StagingId, Staging>,
    /// Streams that copy files to nodes.
    copies: IdVec<CopyId, Copying>,
}

impl Stagings {
    /// Begins the given stagings of a job copy.
    pub(super) fn begin(&mut self, env: &mut Env, stagings: Ids<StagingId>) {
        for s in stagings {
            let staging = &mut self.stagings[s];
            staging.began = env.now;
            // No more streams than files, but at least one, which ends the staging if there are no files.
            let streams = u64::from(staging.streams).min(staging.files.number().max(1));
            staging.busy = streams as u32;
            for _ in 0..streams {
                let c = self.copies.push(Copying {
                    staging: s,
                    file: 0,
                    bytes: 0.0,
                    refusals: 0,
                    writes: false,
                    next: 0,
                    phase: Phase::Opening,
                });
                self.copy_on(env, c);
            }
        }
    }

    /// Continues stream `c` after the event that the stream waited for.
    pub(super) fn resume_copy(&mut self, env: &mut Env, c: CopyId) {
        let over = match self.copies[c].phase {
            Phase::Opening => {
                if let Some(station) = self.way_of_copy(c).station {
                    env.served(station);
                }
                self.ask_for_copy(env, c)
            }
            Phase::Refused => self.ask_for_copy(env, c),
            Phase::Latency => self.copy_bytes(env, c),
            Phase::Transfer => self.read_copy(env, c),
            Phase::Converting => self.converted(env, c),
            Phase::Writing => self.copied(c),
        };
        if over && self.write_on(env, c) {
            self.copy_on(env, c);
        }
    }

    fn way_of_copy(&self, c: CopyId) -> &Mount {
        let copying = &self.copies[c];
        let staging = &self.stagings[copying.staging];
        let to = staging.convert.as_ref().and_then(|convert| convert.to.as_ref());
        to.filter(|_| copying.writes).unwrap_or(&staging.mount)
    }

    /// Lets stream `c` copy file after file until one takes time or none is left.
    fn copy_on(&mut self, env: &mut Env, c: CopyId) {
        while self.next_file(env, c) {
            if !self.open_copy(env, c) {
                return;
            }
        }
        let s = self.copies[c].staging;
        let staging = &mut self.stagings[s];
        staging.busy -= 1;
        if staging.busy == 0 {
            staging.ended = Some(env.now);
            env.notices.push_back(Notice::NodeStaged(staging.job));
        }
    }

    /// Gives stream `c` its next file; returns false if there is none.
    fn next_file(&mut self, env: &mut Env, c: CopyId) -> bool {
        let copying = &mut self.copies[c];
        let files = &mut self.stagings[copying.staging].files;
        let file = files.of.next_held(files.node, files.next);
        if file >= files.end {
            return false;
        }
        files.next = file + 1;
        let sizes = &mut env.storages.sizes[files.dataset];
        let samples = files.samples_of(file);
        copying.bytes = sizes.sum(0, 0, samples, files.record, &env.streams);
        copying.file = file;
        copying.writes = false;
        true
    }

    /// Opens the file of stream `c`; returns true if it is copied already.
    fn open_copy(&mut self, env: &mut Env, c: CopyId) -> bool {
        let Some(station) = self.way_of_copy(c).station else { return self.ask_for_copy(env, c) };
        self.copies[c].phase = Phase::Opening;
        let station = &mut env.stations[station];
        let visit = Waiting { activity: ActivityId::Copy(c), delay: station.service, pace: None };
        if station.queue.arrive(env.now, visit) {
            env.after(visit.delay, Event::Opened(visit.activity));
        }
        false
    }

    /// Sends the request for the file of stream `c`, which may be refused; returns true if the file is copied already.
    fn ask_for_copy(&mut self, env: &mut Env, c: CopyId) -> bool {
        let Some(limiter) = self.way_of_copy(c).limiter else {
            return self.copy_latency(env, c);
        };
        let copying = &mut self.copies[c];
        let (owner, index) = (u64::from(copying.staging.number()), u64::from(copying.refusals));
        let (streams, file) = (&env.streams, copying.draw());
        let generator = || streams.at(Purpose::StagingBackOff, owner, file, index);
        match env.storages.limiters[limiter].ask(env.now, &mut copying.refusals, generator) {
            None => self.copy_latency(env, c),
            Some(wait) => {
                self.copies[c].phase = Phase::Refused;
                env.after(wait, Event::Waited(ActivityId::Copy(c)));
                false
            }
        }
    }

    fn copy_latency(&mut self, env: &mut Env, c: CopyId) -> bool {
        let copying = &self.copies[c];
        let (staging, file) = (copying.staging, copying.draw());
        let delay = match &self.way_of_copy(c).latency {
            RequestLatency::None => return self.copy_bytes(env, c),
            RequestLatency::Constant(delay) => *delay,
            RequestLatency::Drawn(sampler, round_trip) => {
                let purpose = Purpose::StagingLatency;
                let mut generator = env.streams.at(purpose, u64::from(staging.number()), file, 0);
                Delay::once((sampler.draw(&mut generator) + round_trip).max(0.0))
            }
        };
        self.copies[c].phase = Phase::Latency;
        env.after(delay, Event::Waited(ActivityId::Copy(c)));
        false
    }

    fn copy_bytes(&mut self, env: &mut Env, c: CopyId) -> bool {
        let (file, bytes) = (self.file_of_bytes(c), self.copies[c].bytes);
        let mount = self.way_of_copy(c);
        let Some(group) = mount.way_of_file(file, bytes) else { return self.read_copy(env, c) };
        self.copies[c].phase = Phase::Transfer;
        env.network.start(env.now, group, bytes, ActivityId::Copy(c));
        false
    }

    /// Handles the arrival of the bytes of stream `c`: the file is copied, or its conversion begins. Returns true if the stream
    /// has finished the file.
    fn read_copy(&mut self, env: &mut Env, c: CopyId) -> bool {
        let Copying { staging, file, writes, .. } = self.copies[c];
        if writes {
            return self.copied(c);
        }
        let Staging { convert, files, .. } = &self.stagings[staging];
        let Some(convert) = convert else { return self.copied(c) };
        let samples = files.samples_of(file);
        let seconds: f64 = match convert.compute.is_constant() {
            Some(each) => each * (samples.end - samples.start) as f64,
            None => samples.map(|sample| self.conversion_of(env, staging, convert, sample)).sum(),
        };
        match convert.cores {
            Some(cores) if seconds > 0.0 => {
                self.copies[c].phase = Phase::Converting;
                let activity = ActivityId::Copy(c);
                match cores {
                    Cores::Shared(group) => {
                        env.network.start(env.now, group, seconds, activity);
                    }
                    Cores::Fifo(station) => {
                        env.take_core((station, None), activity, Delay::once(seconds));
                    }
                    Cores::Paced(station, group) => {
                        env.take_core((station, Some(group)), activity, Delay::once(seconds));
                    }
                }
                false
            }
            _ => self.write_copy(env, c),
        }
    }

    /// Returns the core-seconds of converting `sample` [s].
    fn conversion_of(
        &self,
        env: &Env,
        staging: StagingId,
        convert: &Conversion,
        sample: u64,
    ) -> f64 {
        let purpose = Purpose::StagingCompute;
        convert.compute.draw(&mut env.streams.at(purpose, u64::from(staging.number()), sample, 0))
    }

    /// Ends the conversion of the file of stream `c`, and gives its core to the next activity; returns true if the converted file
    /// is written at once.
    fn converted(&mut self, env: &mut Env, c: CopyId) -> bool {
        let convert = self.stagings[self.copies[c].staging].convert.as_ref();
        if let Some((station, _)) = convert.and_then(|convert| convert.cores?.slots()) {
            let next = env.stations[station].queue.leave(env.now);
            env.notices.extend(next.map(Notice::CoreFree));
        }
        self.write_copy(env, c)
    }

    /// Begins to write the converted file of stream `c`; returns true if it is written at once.
    fn write_copy(&mut self, env: &mut Env, c: CopyId) -> bool {
        let Copying { staging, file, .. } = self.copies[c];
        let Staging { convert, files, .. } = &self.stagings[staging];
        let Some(convert) = convert else { return self.copied(c) };
        if convert.to.is_some() {
            let first = files.samples_of(file).start;
            let copying = &mut self.copies[c];
            (copying.writes, copying.next) = (true, first);
            return self.write_on(env, c);
        }
        let (sizes, samples) = (&mut env.storages.sizes[convert.dataset], files.samples_of(file));
        let bytes = sizes.sum(0, 0, samples, convert.record, &env.streams);
        self.copies[c].bytes = bytes;
        let Some(group) = convert.write else { return self.copied(c) };
        self.copies[c].phase = Phase::Writing;
        env.network.start(env.now, group, bytes, ActivityId::Copy(c));
        false
    }

    /// Counts the bytes of the file of stream `c`, which has been copied; returns true.
    fn copied(&mut self, c: CopyId) -> bool {
        let Copying { staging, bytes, .. } = self.copies[c];
        self.stagings[staging].bytes += bytes;
        true
    }

    /// Returns the outcomes of the given stagings that have ended.
    pub(super) fn outcome(&self, stagings: Ids<StagingId>) -> Vec<StagingOutcome> {
        let one = |staging: &Staging| {
            let seconds = staging.ended?.since(staging.began).seconds();
            Some(StagingOutcome { seconds, bytes: staging.bytes })
        };
        self.stagings[stagings].iter().filter_map(one).collect()
    }

    /// Returns whether all of the given stagings have ended.
    pub(super) fn are_over(&self, stagings: Ids<StagingId>) -> bool {
        self.stagings[stagings].iter().all(|staging| staging.ended.is_some())
    }
}

impl Files {
    /// Returns the number of files to be copied to the node.
    fn number(&self) -> u64 {
        self.of.held(self.node, self.end)
    }

    fn samples_of(&self, file: u64) -> std::ops::Range<u64> {
        let first = file * self.samples_per_file;
        first..first.saturating_add(self.samples_per_file).min(self.samples)
    }
}
