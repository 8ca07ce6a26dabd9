//! Reads samples: whole files, shards request by request, or slices of memory.

use super::data::{Data, DataSource};
use super::fault::words;
use super::loader_stream::LoaderStream;
use super::log::Log;
use super::pace::{Pace, Request, Tally};
use super::sizes::around;
use forebay_calibrate::probe::read::open_data;
use forebay_engine::Time;
use forebay_model::random::FileOrder;
use forebay_report::Cause;
use forebay_scenario::Layout;
use rustix::io::{Errno, pread, retry_on_intr};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod one_file;

use one_file::OneFile;

/// Alignment of direct reads, in memory and in the file [B].
const BLOCK: usize = 4096;

/// Reads the samples for one worker.
pub(super) struct Reader {
    data: Arc<Data>,
    order: FileOrder,
    stream: LoaderStream,
    /// Position of the next shard in the loader's order; the loader's workers share it.
    next_file: Arc<AtomicU64>,
    buffer: Buffer,
    name: String,
    shard: Shard,
    one: OneFile,
    /// Pace of the requests; `None` if the scenario sets no limits.
    pace: Option<Pace>,
    /// Bytes read so far.
    pub(super) bytes: u64,
}

/// The shard that the worker is reading.
#[derive(Default)]
struct Shard {
    file: Option<OwnedFd>,
    number: u64,
    samples: Range<u64>,
    /// Number of samples in all earlier epochs.
    before: u64,
    /// Requests made for the current sample.
    requests: u64,
    /// Length of the shard [B].
    length: u64,
    /// Offset of the next sample [B].
    at: u64,
    /// Offset up to which the shard has been read [B].
    read_to: u64,
}

/// A buffer whose first byte is aligned to a block.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    first: usize,
    /// Range of the current sample's bytes, counted from `first`. While the sample is read, it ends at the last byte read so far.
    filled: Range<usize>,
}

/// Why a sample cannot be read; the file's name comes from [`Data`].
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("cannot open {path}: {}", words(error))]
    Open { path: String, error: io::Error },
    #[error("cannot read {path}: {}", words(&(*error).into()))]
    Read { path: String, error: Errno },
    #[error(
        "{0} is shorter than when the run began: {1} bytes where {2} were expected; start again when \
         nobody writes there"
    )]
    Truncated(String, u64, u64),
}

impl Reader {
    /// Returns the reader of one worker of a loader.
    pub(super) fn new(
        data: Arc<Data>,
        order: FileOrder,
        stream: LoaderStream,
        next_file: Arc<AtomicU64>,
        pace: Option<Pace>,
    ) -> Reader {
        Reader {
            pace,
            data,
            order,
            stream,
            next_file,
            buffer: Buffer::default(),
            name: String::new(),
            shard: Shard::default(),
            one: OneFile::default(),
            bytes: 0,
        }
    }

    /// Reads the sample at `position` in the loader's order (file per sample), or the next sample of the worker's shard. Returns
    /// its size [B].
    pub(super) fn read(&mut self, position: u64, log: &mut Log) -> Result<u64, ReadError> {
        let size = match self.data.layout {
            Layout::FilePerSample => {
                let sample = self.stream.file(&mut self.order, position);
                let size = self.data.sizes.of(sample);
                self.admit(log);
                let request = self.begin(self.stream.entity(position), 0, size, log);
                let known = request.is_some_and(|request| request.tells_latency());
                self.read_file(sample, size, known, log)?;
                self.end(request, size, log);
                size
            }
            Layout::OneFile { .. } => self.read_of_one(position, log)?,
            // Live runs with row groups are refused.
            Layout::RowGroups(_) => 0,
            Layout::Shards { samples_per_shard, request, record } => {
                if self.shard.samples.is_empty() {
                    self.next_shard(samples_per_shard, log)?;
                }
                let sample = self.shard.samples.start;
                self.shard.samples.start += 1;
                self.shard.requests = 0;
                let size = self.data.sizes.of(sample);
                let taken = around(record, size);
                self.read_record(sample, taken, request as usize, log)?;
                size
            }
        };
        self.bytes += size;
        Ok(size)
    }

    /// Returns the tally of requests against the limits of their storage.
    pub(super) fn tally(&self) -> Tally {
        self.pace.as_ref().map_or(Tally::default(), |pace| pace.tally)
    }

    /// Waits until the limits permit opening a file.
    fn admit(&mut self, log: &mut Log) {
        if let Some(pace) = &mut self.pace {
            pace.open(log);
        }
    }

    /// Begins request number `request` for the sample at `position` among the samples of all loaders; `None` if the storage has
    /// no limits.
    fn begin(&mut self, position: u64, request: u64, bytes: u64, log: &mut Log) -> Option<Request> {
        self.pace.as_mut().map(|pace| pace.begin(position, request, bytes, log))
    }

    fn end(&mut self, request: Option<Request>, bytes: u64, log: &mut Log) {
        if let (Some(pace), Some(request)) = (&mut self.pace, request) {
            pace.end(request, bytes, log);
        }
    }

    /// Returns the sample that was read last.
    pub(super) fn sample(&self) -> &[u8] {
        let range = self.buffer.filled.clone();
        &self.buffer.bytes[self.buffer.first + range.start..self.buffer.first + range.end]
    }

    /// Reads a whole file. If `known`, the request's activity has been logged already.
    fn read_file(
        &mut self,
        sample: u64,
        size: u64,
        known: bool,
        log: &mut Log,
    ) -> Result<(), ReadError> {
        let mut begin = |cause| if known { Time::ZERO } else { log.begin(cause) };
        if let DataSource::Memory(memory) = &self.data.place {
            begin(Cause::Transfer);
            copy(memory, sample, size, &mut self.buffer);
            return Ok(());
        }
        begin(Cause::Open);
        let file = self.open(sample)?;
        begin(Cause::Transfer);
        self.buffer.reserve(size as usize);
        let mut got = 0;
        while got < size {
            let space = self.buffer.space(got as usize, (size - got) as usize);
            match pread(&file, space, got) {
                Ok(0) => return Err(ReadError::Truncated(self.data.path(sample), got, size)),
                Ok(n) => got += n as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(ReadError::Read { path: self.data.path(sample), error }),
            }
        }
        self.buffer.filled = 0..size as usize;
        Ok(())
    }

    fn open(&mut self, file: u64) -> Result<OwnedFd, ReadError> {
        let DataSource::Files(files) = &self.data.place else {
            return Err(ReadError::Open { path: "memory".to_owned(), error: Errno::INVAL.into() });
        };
        files.name(file, &mut self.name);
        open_data(&files.root, Path::new(&self.name), files.direct)
            .map(OwnedFd::from)
            .map_err(|error| ReadError::Open { path: self.data.path(file), error })
    }

    fn next_shard(&mut self, samples_per_shard: u64, log: &mut Log) -> Result<(), ReadError> {
        let place = self.next_file.fetch_add(1, Ordering::Relaxed);
        let number = self.stream.file(&mut self.order, place);
        let first = number * samples_per_shard;
        let samples = first..(first + samples_per_shard).min(self.data.samples);
        let before = self.order.epoch() * self.data.samples;
        let record = self.data.layout.record();
        let length = self.data.sizes.sum(samples.start, samples.end, record);
        self.admit(log);
        let file = match &self.data.place {
            DataSource::Memory(_) => None,
            DataSource::Files(_) => {
                log.begin(Cause::Open);
                Some(self.open(number)?)
            }
        };
        self.buffer.filled = 0..0;
        self.shard = Shard { file, number, samples, before, length, ..Shard::default() };
        Ok(())
    }

    /// Reads the next `size` bytes of the shard as the current sample.
    fn read_record(
        &mut self,
        sample: u64,
        size: u64,
        request: usize,
        log: &mut Log,
    ) -> Result<(), ReadError> {
        if self.shard.file.is_none() {
            return self.copy_record(sample, size, log);
        }
        // Bytes left over from the last request begin where the last sample ended.
        let mut have = (self.shard.read_to - self.shard.at) as usize;
        let request = request.max(1).next_multiple_of(BLOCK);
        let end = self.buffer.filled.end;
        self.buffer.filled = end..end + have;
        let want = self.shard.at + size;
        while have < size as usize {
            have += self.read_some(sample, have, request, want, log)?;
        }
        self.shard.at += size;
        self.buffer.filled.end = self.buffer.filled.start + size as usize;
        Ok(())
    }

    /// Makes one request to the shard, appending to the `have` bytes in the buffer, and returns the number of bytes read. `want`
    /// is the offset up to which the sample needs bytes; only the error message uses it.
    fn read_some(
        &mut self,
        sample: u64,
        have: usize,
        request: usize,
        want: u64,
        log: &mut Log,
    ) -> Result<usize, ReadError> {
        let (from, position) = (self.shard.read_to, self.shard.before + sample);
        let left = self.shard.length.saturating_sub(from);
        let number = self.shard.requests;
        self.shard.requests += 1;
        let paced = self.begin(position, number, left.min(request as u64), log);
        if !paced.is_some_and(|paced| paced.tells_latency()) && (number == 0 || paced.is_some()) {
            log.begin(Cause::Transfer);
        }
        let path = || self.data.path(self.shard.number);
        let Some(file) = &self.shard.file else {
            return Err(ReadError::Open { path: path(), error: Errno::BADF.into() });
        };
        let got = match retry_on_intr(|| pread(file, self.buffer.append(have, request), from)) {
            Ok(0) => return Err(ReadError::Truncated(path(), from, want)),
            Ok(got) => got,
            Err(error) => return Err(ReadError::Read { path: path(), error }),
        };
        self.shard.read_to += got as u64;
        self.buffer.filled.end += got;
        self.end(paced, got as u64, log);
        Ok(got)
    }

    /// Copies a sample of a shard in memory; each sample is one request.
    fn copy_record(&mut self, sample: u64, size: u64, log: &mut Log) -> Result<(), ReadError> {
        let paced = self.begin(self.shard.before + sample, 0, size, log);
        if !paced.is_some_and(|paced| paced.tells_latency()) {
            log.begin(Cause::Transfer);
        }
        if let DataSource::Memory(memory) = &self.data.place {
            copy(memory, sample, size, &mut self.buffer);
        }
        self.end(paced, size, log);
        Ok(())
    }
}

/// Copies a sample out of the buffer that represents the data set.
fn copy(memory: &[u8], sample: u64, size: u64, buffer: &mut Buffer) {
    let size = (size as usize).min(memory.len());
    let from = (sample.wrapping_mul(size as u64) % (memory.len() - size + 1) as u64) as usize;
    buffer.reserve(size);
    buffer.space(0, size)[..size].copy_from_slice(&memory[from..from + size]);
    buffer.filled = 0..size;
}

impl Buffer {
    /// Makes room for `size` bytes and one more block. The content is lost if the buffer must grow.
    fn reserve(&mut self, size: usize) {
        let needed = size.next_multiple_of(BLOCK) + 2 * BLOCK;
        if self.bytes.len() < needed {
            self.bytes = vec![0; needed];
            self.first = self.bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        }
    }

    /// Returns the part of the buffer that begins at offset `from` and has `size` bytes, rounded up to whole blocks.
    fn space(&mut self, from: usize, size: usize) -> &mut [u8] {
        let start = self.first + from;
        let end = (start + size.next_multiple_of(BLOCK)).min(self.bytes.len());
        &mut self.bytes[start..end]
    }

    /// Returns an aligned space for `request` bytes directly after the `have` bytes in the buffer.
    fn append(&mut self, have: usize, request: usize) -> &mut [u8] {
        let end = self.filled.end;
        if !end.is_multiple_of(BLOCK) || self.first + end + request > self.bytes.len() {
            let kept = self.filled.start..self.filled.start + have;
            let start = have.next_multiple_of(BLOCK) - have;
            let needed = start + have + request + BLOCK;
            if self.first + needed > self.bytes.len() {
                let old = std::mem::take(&mut self.bytes);
                let old_first = self.first;
                self.reserve(2 * needed);
                let from = old_first + kept.start;
                self.bytes[self.first + start..self.first + start + have]
                    .copy_from_slice(&old[from..from + have]);
            } else {
                let from = self.first + kept.start..self.first + kept.end;
                self.bytes.copy_within(from, self.first + start);
            }
            self.filled = start..start + have;
        }
        let at = self.first + self.filled.end;
        &mut self.bytes[at..at + request]
    }
}
