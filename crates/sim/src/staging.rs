//! Staging: the files of a job's data set on their way to its nodes, before its first step.

mod shared;

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::StagingOutcome;
use forebay_scenario::{Framing, Replicas};

use super::env::Env;
use super::event::{ActivityId, Delay, Event};
use super::index::{CopyId, DatasetId, IdVec, Ids, JobId, StagingId};
use super::notice::Notice;
use super::read::{Mount, RequestLatency};
use super::worker::Waiting;

/// The copying of a job copy's data set to one of its nodes.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) job: JobId,
    /// RankRoute of the bytes, from the storage to the node's tier.
    pub(super) mount: Mount,
    /// How its files become another data set's, if they do.
    pub(super) convert: Option<Box<Conversion>>,
    pub(super) files: Files,
    /// Files that may be copied at a time, and streams that copy one.
    pub(super) streams: u32,
    pub(super) busy: u32,
    pub(super) began: Time,
    pub(super) ended: Option<Time>,
    /// Bytes that have come.
    pub(super) bytes: f64,
}

/// How files of one data set become another's on a node, or come to a storage that nodes share.
#[derive(Debug)]
pub(super) struct Conversion {
    /// The data set that is made.
    pub(super) dataset: DatasetId,
    /// What surrounds its samples, and how many are in a file.
    pub(super) record: Framing,
    pub(super) samples_per_file: u64,
    /// Core-seconds of a sample.
    pub(super) compute: Sampler,
    /// The node's cores.
    pub(super) cores: Option<GroupId>,
    /// RankRoute of what is written to the node's tier.
    pub(super) write: Option<GroupId>,
    /// What all nodes share, where it is written there.
    pub(super) to: Option<Mount>,
}

/// Files that are copied to a node, and which is next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files {
    pub(super) dataset: DatasetId,
    pub(super) next: u64,
    /// Who copies what, and which node this is.
    pub(super) of: Replicas,
    pub(super) node: u64,
    pub(super) end: u64,
    pub(super) samples_per_file: u64,
    pub(super) samples: u64,
    /// What surrounds each.
    pub(super) record: Framing,
}

/// A stream of a node: a file that is being copied.
#[derive(Debug)]
pub(super) struct Copying {
    staging: StagingId,
    file: u64,
    bytes: f64,
    refusals: u8,
    /// Whether it is read already, and written to what all nodes share: then `bytes` are those of one of
    /// the files there, or of a part of one, and the next begins with sample `next`.
    writes: bool,
    next: u64,
    phase: Phase,
}

/// What a stream waits for.
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
    pub(super) stagings: IdVec<Staging>,
    /// Streams that copy files to nodes.
    copies: IdVec<Copying>,
}

impl Stagings {
    /// Begins to copy data sets to the nodes of a job copy.
    pub(super) fn begin(&mut self, env: &mut Env, stagings: Ids<Staging>) {
        for s in stagings {
            let staging = &mut self.stagings[s];
            staging.began = env.now;
            // One stream more than there are files, where there are few, finds that there are none.
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

    /// What stream `c` waited for has come.
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
            Phase::Converting => self.write_copy(env, c),
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

    /// Stream `c` copies file after file until one takes time, or none is left.
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

    /// Gives stream `c` its next file; false if there is none.
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

    /// Opens the file of stream `c`; true if it is copied already.
    fn open_copy(&mut self, env: &mut Env, c: CopyId) -> bool {
        let Some(station) = self.way_of_copy(c).station else { return self.ask_for_copy(env, c) };
        self.copies[c].phase = Phase::Opening;
        let station = &mut env.stations[station];
        let visit = Waiting { activity: ActivityId::Copy(c), delay: station.service };
        if station.queue.arrive(env.now, visit) {
            env.after(visit.delay, Event::Opened(visit.activity));
        }
        false
    }

    /// Asks for the file of stream `c`, which may be refused; true if it is copied already.
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

    /// The bytes of the file of stream `c` have come: that is all, or they become others.
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
                env.network.start(env.now, cores, seconds, ActivityId::Copy(c));
                false
            }
            _ => self.write_copy(env, c),
        }
    }

    /// Core-seconds of the conversion of a sample.
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

    /// What has become of the file of stream `c` is written; true if it is there at once.
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

    /// The file of stream `c` is there.
    fn copied(&mut self, c: CopyId) -> bool {
        let Copying { staging, bytes, .. } = self.copies[c];
        self.stagings[staging].bytes += bytes;
        true
    }

    /// What was copied to the nodes of a job copy.
    pub(super) fn outcome(&self, stagings: Ids<Staging>) -> Vec<StagingOutcome> {
        let one = |staging: &Staging| {
            let seconds = staging.ended?.since(staging.began).seconds();
            Some(StagingOutcome { seconds, bytes: staging.bytes })
        };
        self.stagings[stagings].iter().filter_map(one).collect()
    }

    /// Whether all of these are over.
    pub(super) fn are_over(&self, stagings: Ids<Staging>) -> bool {
        self.stagings[stagings].iter().all(|staging| staging.ended.is_some())
    }
}

impl Files {
    /// How many there are.
    fn number(&self) -> u64 {
        self.of.held(self.node, self.end)
    }

    fn samples_of(&self, file: u64) -> std::ops::Range<u64> {
        let first = file * self.samples_per_file;
        first..first.saturating_add(self.samples_per_file).min(self.samples)
    }
}
