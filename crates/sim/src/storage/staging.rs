//! Staging: copying a job's data sets to its nodes before the first step.

use forebay_engine::Time;
use forebay_engine::fluid::GroupId;
use forebay_model::random::{Purpose, Sampler};
use forebay_report::StagingOutcome;
use forebay_scenario::{Framing, Replicas};

use super::Site;
use super::mount::{Mount, RequestLatency};
use crate::env::{ActivityId, Cores, Delay, Env, Event, Notice, broken};
use crate::ids::{CopyId, DatasetId, IdVec, Ids, JobId, StagingId};

/// The copying of one data set of a job copy to one of its nodes.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) job: JobId,
    /// The storage as this node sees it, with the route of the bytes to the node's tier.
    pub(crate) mount: Mount,
    /// Conversion of the files into those of another data set, or writing of the files to a shared storage, if there is any.
    pub(crate) convert: Option<Box<Conversion>>,
    pub(crate) files: Files,
    /// Number of streams, each of which copies one file at a time; `busy` of them are copying.
    pub(crate) streams: u32,
    pub(crate) busy: u32,
    pub(crate) began: Time,
    pub(crate) ended: Option<Time>,
    /// Bytes copied so far [B].
    pub(crate) bytes: f64,
}

/// Conversion of files of one data set into those of another on a node, or writing of the files to a storage that all nodes
/// share.
#[derive(Debug)]
pub(crate) struct Conversion {
    /// The data set that is written.
    pub(crate) dataset: DatasetId,
    /// Framing around each sample that is written; `samples_per_file` is the number of samples in each written file.
    pub(crate) record: Framing,
    pub(crate) samples_per_file: u64,
    /// Core-seconds of converting a sample [s].
    pub(crate) compute: Sampler,
    /// The node's cores.
    pub(crate) cores: Option<Cores>,
    /// Route of the bytes written to the node's tier.
    pub(crate) write: Option<GroupId>,
    /// The shared storage, if the files are written there.
    pub(crate) to: Option<Mount>,
}

/// The files to be copied to a node, and the number of the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files {
    pub(crate) dataset: DatasetId,
    pub(crate) next: u64,
    /// The assignment of files to nodes; `node` is the number of this node.
    pub(crate) of: Replicas,
    pub(crate) node: u64,
    pub(crate) end: u64,
    pub(crate) samples_per_file: u64,
    pub(crate) samples: u64,
    /// Framing around each sample.
    pub(crate) record: Framing,
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
pub(crate) enum Phase {
    Opening,
    Refused,
    Latency,
    Transfer,
    Converting,
    Writing,
}

/// The owner of all stagings.
#[derive(Debug, Default)]
pub(crate) struct Stagings {
    pub(crate) stagings: IdVec<StagingId, Staging>,
    /// Streams that copy files to nodes.
    copies: IdVec<CopyId, Copying>,
}

impl Stagings {
    /// Begins the given stagings of a job copy.
    pub(crate) fn begin(&mut self, site: &mut Site<'_>, stagings: Ids<StagingId>) {
        for s in stagings {
            let staging = &mut self.stagings[s];
            staging.began = site.env.now;
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
                self.copy_on(site, c);
            }
        }
    }

    /// Continues stream `c` after the event that the stream waited for.
    pub(crate) fn resume_copy(&mut self, site: &mut Site<'_>, c: CopyId) {
        let over = match self.copies[c].phase {
            Phase::Opening => {
                if let Some(station) = self.way_of_copy(c).station {
                    site.env.end_service(station);
                }
                self.ask_for_copy(site, c)
            }
            Phase::Refused => self.ask_for_copy(site, c),
            Phase::Latency => self.copy_bytes(site, c),
            Phase::Transfer => self.read_copy(site, c),
            Phase::Converting => self.end_conversion(site, c),
            Phase::Writing => self.count_copied(c),
        };
        if over && self.write_on(site, c) {
            self.copy_on(site, c);
        }
    }

    fn way_of_copy(&self, c: CopyId) -> &Mount {
        let copying = &self.copies[c];
        let staging = &self.stagings[copying.staging];
        let to = staging.convert.as_ref().and_then(|convert| convert.to.as_ref());
        to.filter(|_| copying.writes).unwrap_or(&staging.mount)
    }

    /// Lets stream `c` copy file after file until one takes time or none is left.
    fn copy_on(&mut self, site: &mut Site<'_>, c: CopyId) {
        while self.next_file(site, c) {
            if !self.open_copy(site, c) {
                return;
            }
        }
        let s = self.copies[c].staging;
        let staging = &mut self.stagings[s];
        staging.busy -= 1;
        if staging.busy == 0 {
            staging.ended = Some(site.env.now);
            site.env.notices.push_back(Notice::NodeStaged(staging.job));
        }
    }

    /// Gives stream `c` its next file; returns false if there is none.
    fn next_file(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let copying = &mut self.copies[c];
        let files = &mut self.stagings[copying.staging].files;
        let file = files.of.next_held(files.node, files.next);
        if file >= files.end {
            return false;
        }
        files.next = file + 1;
        let sizes = &mut site.storages.sizes[files.dataset];
        let samples = files.samples_of(file);
        copying.bytes = sizes.sum(0, 0, samples, files.record, &site.env.streams);
        copying.file = file;
        copying.writes = false;
        true
    }

    /// Opens the file of stream `c`; returns true if it is copied already.
    fn open_copy(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let Some(station) = self.way_of_copy(c).station else { return self.ask_for_copy(site, c) };
        self.copies[c].phase = Phase::Opening;
        let station = &mut site.env.stations[station];
        let visit = station.visit(site.env.now, ActivityId::Copy(c));
        if station.queue.arrive(site.env.now, visit) {
            site.env.after(visit.delay, Event::Opened(visit.activity));
        }
        false
    }

    /// Sends the request for the file of stream `c`, which may be refused; returns true if the file is copied already.
    fn ask_for_copy(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let Some(limiter) = self.way_of_copy(c).limiter else {
            return self.copy_latency(site, c);
        };
        let copying = &mut self.copies[c];
        let (owner, index) = (u64::from(copying.staging.number()), u64::from(copying.refusals));
        let (streams, file) = (&site.env.streams, copying.draw());
        let generator = || streams.at(Purpose::StagingBackOff, owner, file, index);
        match site.storages.limiters[limiter].ask(site.env.now, &mut copying.refusals, generator) {
            None => self.copy_latency(site, c),
            Some(wait) => {
                self.copies[c].phase = Phase::Refused;
                site.env.after(wait, Event::Waited(ActivityId::Copy(c)));
                false
            }
        }
    }

    fn copy_latency(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let copying = &self.copies[c];
        let (staging, file) = (copying.staging, copying.draw());
        let delay = match &self.way_of_copy(c).latency {
            RequestLatency::None => return self.copy_bytes(site, c),
            RequestLatency::Constant(delay) => *delay,
            RequestLatency::Drawn(sampler, round_trip) => {
                let purpose = Purpose::StagingLatency;
                let mut generator =
                    site.env.streams.at(purpose, u64::from(staging.number()), file, 0);
                Delay::once((sampler.draw(&mut generator) + round_trip).max(0.0))
            }
        };
        self.copies[c].phase = Phase::Latency;
        site.env.after(delay, Event::Waited(ActivityId::Copy(c)));
        false
    }

    fn copy_bytes(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let (file, bytes) = (self.file_of_bytes(c), self.copies[c].bytes);
        let mount = self.way_of_copy(c);
        let way = mount.way_of_file(&mut site.env.network, file, bytes);
        let Some(group) = way else { return self.read_copy(site, c) };
        self.copies[c].phase = Phase::Transfer;
        site.env.network.start(site.env.now, group, bytes, ActivityId::Copy(c));
        false
    }

    /// Handles the arrival of the bytes of stream `c`: the file is copied, or its conversion begins. Returns true if the stream
    /// has finished the file.
    fn read_copy(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let Copying { staging, file, writes, .. } = self.copies[c];
        if writes {
            return self.count_copied(c);
        }
        let Staging { convert, files, .. } = &self.stagings[staging];
        let Some(convert) = convert else { return self.count_copied(c) };
        let samples = files.samples_of(file);
        let seconds: f64 = match convert.compute.is_constant() {
            Some(each) => each * (samples.end - samples.start) as f64,
            None => {
                samples.map(|sample| self.conversion_of(site.env, staging, convert, sample)).sum()
            }
        };
        match convert.cores {
            Some(cores) if seconds > 0.0 => {
                self.copies[c].phase = Phase::Converting;
                let activity = ActivityId::Copy(c);
                match cores {
                    Cores::Shared(group) => {
                        site.env.network.start(site.env.now, group, seconds, activity);
                    }
                    Cores::Fifo(station) => {
                        site.env.take_core((station, None), activity, Delay::once(seconds));
                    }
                    Cores::Paced(station, group) => {
                        site.env.take_core((station, Some(group)), activity, Delay::once(seconds));
                    }
                }
                false
            }
            _ => self.write_copy(site, c),
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
    fn end_conversion(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let convert = self.stagings[self.copies[c].staging].convert.as_ref();
        if let Some((station, _)) = convert.and_then(|convert| convert.cores?.slots()) {
            let next = site.env.stations[station].queue.leave(site.env.now);
            site.env.notices.extend(next.map(Notice::CoreFree));
        }
        self.write_copy(site, c)
    }

    /// Begins to write the converted file of stream `c`; returns true if it is written at once.
    fn write_copy(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let Copying { staging, file, .. } = self.copies[c];
        let Staging { convert, files, .. } = &self.stagings[staging];
        let Some(convert) = convert else { return self.count_copied(c) };
        if convert.to.is_some() {
            let first = files.samples_of(file).start;
            let copying = &mut self.copies[c];
            (copying.writes, copying.next) = (true, first);
            return self.write_on(site, c);
        }
        let (sizes, samples) = (&mut site.storages.sizes[convert.dataset], files.samples_of(file));
        let bytes = sizes.sum(0, 0, samples, convert.record, &site.env.streams);
        self.copies[c].bytes = bytes;
        let Some(group) = convert.write else { return self.count_copied(c) };
        self.copies[c].phase = Phase::Writing;
        site.env.network.start(site.env.now, group, bytes, ActivityId::Copy(c));
        false
    }

    /// Counts the bytes of the file of stream `c`, which has been copied; returns true.
    fn count_copied(&mut self, c: CopyId) -> bool {
        let Copying { staging, bytes, .. } = self.copies[c];
        self.stagings[staging].bytes += bytes;
        true
    }

    /// Returns the outcomes of the given stagings that have ended.
    pub(crate) fn outcome(&self, stagings: Ids<StagingId>) -> Vec<StagingOutcome> {
        let one = |staging: &Staging| {
            let seconds = staging.ended?.since(staging.began).seconds();
            Some(StagingOutcome { seconds, bytes: staging.bytes })
        };
        self.stagings[stagings].iter().filter_map(one).collect()
    }

    /// Returns whether all of the given stagings have ended.
    pub(crate) fn are_over(&self, stagings: Ids<StagingId>) -> bool {
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

impl Stagings {
    /// Writes to the shared storage the samples that stream `c` has read, file by file, until a write takes time; returns true if
    /// all samples are written. The stream that writes the first sample of a file creates the file.
    pub(super) fn write_on(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        while self.next_part(site, c) {
            let Copying { staging, next, .. } = self.copies[c];
            let Some(convert) = &self.stagings[staging].convert else {
                broken("only converted data sets are written in parts");
                return true;
            };
            let begins = next.is_multiple_of(convert.samples_per_file);
            self.copies[c].next = self.end_of_part(c);
            let done = if begins { self.open_copy(site, c) } else { self.copy_bytes(site, c) };
            if !done {
                return false;
            }
        }
        true
    }

    /// Returns the end of the part that begins with the next sample of stream `c`: the end of the written file or of the
    /// samples that were read, whichever comes first.
    fn end_of_part(&self, c: CopyId) -> u64 {
        let Copying { staging, file, next, .. } = self.copies[c];
        let Staging { convert, files, .. } = &self.stagings[staging];
        let all = files.samples_of(file).end;
        let each = convert.as_ref().map_or(u64::MAX, |convert| convert.samples_per_file);
        all.min((next / each + 1).saturating_mul(each))
    }

    /// Returns the number of the file that stream `c` reads or writes at the moment.
    pub(super) fn file_of_bytes(&self, c: CopyId) -> u64 {
        let Copying { staging, file, next, writes, .. } = self.copies[c];
        let convert = &self.stagings[staging].convert;
        match convert {
            Some(convert) if writes => next.saturating_sub(1) / convert.samples_per_file,
            _ => file,
        }
    }

    /// Gives stream `c` the bytes of the next part to be written; returns false if there is none.
    fn next_part(&mut self, site: &mut Site<'_>, c: CopyId) -> bool {
        let (Copying { staging, file, next, writes, .. }, end) =
            (&self.copies[c], self.end_of_part(c));
        let Staging { convert, files, .. } = &self.stagings[*staging];
        let Some(convert) = convert.as_ref().filter(|_| *writes) else { return false };
        if *next >= files.samples_of(*file).end {
            return false;
        }
        let sizes = &mut site.storages.sizes[convert.dataset];
        let bytes = sizes.sum(0, 0, *next..end, convert.record, &site.env.streams);
        let copying = &mut self.copies[c];
        (copying.bytes, copying.refusals) = (bytes, 0);
        true
    }
}

impl Copying {
    /// Returns the random-number key of the stream. While the stream reads, it is the number of the file being read; while it
    /// writes, it is the number of the sample after the part being written, with the top bit set.
    pub(super) fn draw(&self) -> u64 {
        if self.writes { (1 << 63) | self.next } else { self.file }
    }
}
