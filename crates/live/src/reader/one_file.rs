//! Reads samples from one file that holds all of them.

use super::{BLOCK, DataSource, ReadError, Reader, copy};
use crate::log::Log;
use forebay_report::Cause;
use rustix::io::{Errno, pread};
use std::os::fd::OwnedFd;

/// The file that a worker has open.
#[derive(Default)]
pub(super) struct OneFile {
    file: Option<OwnedFd>,
    /// Epoch in which the file was opened.
    epoch: Option<u64>,
}

impl Reader {
    /// Reads the sample at `position` in the loader's order, and returns its size [B].
    pub(super) fn read_of_one(&mut self, position: u64, log: &mut Log) -> Result<u64, ReadError> {
        let sample = self.stream.file(&mut self.order, position);
        let size = self.data.sizes.of(sample);
        self.open_once(log)?;
        let request = self.begin(self.stream.entity(position), 0, size, log);
        if !request.is_some_and(|request| request.tells_latency()) {
            log.begin(Cause::Transfer);
        }
        if let DataSource::Memory(memory) = &self.data.place {
            copy(memory, sample, size, &mut self.buffer);
        } else {
            self.read_at(sample.saturating_mul(size), size as usize)?;
        }
        self.end(request, size, log);
        Ok(size)
    }

    /// Opens the file when a new epoch begins.
    fn open_once(&mut self, log: &mut Log) -> Result<(), ReadError> {
        let epoch = Some(self.order.epoch());
        if self.one.epoch == epoch {
            return Ok(());
        }
        self.admit(log);
        let file = match &self.data.place {
            DataSource::Memory(_) => None,
            DataSource::Files(_) => {
                log.begin(Cause::Open);
                Some(self.open(0)?)
            }
        };
        self.one = OneFile { file, epoch };
        Ok(())
    }

    /// Reads `size` bytes from `at` on, rounded to whole blocks as direct reads require.
    fn read_at(&mut self, at: u64, size: usize) -> Result<(), ReadError> {
        let path = || self.data.path(0);
        let Some(file) = &self.one.file else {
            return Err(ReadError::Open { path: path(), error: Errno::BADF.into() });
        };
        let ahead = (at % BLOCK as u64) as usize;
        let (from, want) = (at - ahead as u64, ahead + size);
        self.buffer.reserve(want);
        let mut got = 0;
        while got < want {
            let (space, here) = (self.buffer.space(got, want - got), from + got as u64);
            match pread(file, space, here) {
                Ok(0) => return Err(ReadError::Truncated(path(), here, from + want as u64)),
                Ok(n) => got += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(ReadError::Read { path: path(), error }),
            }
        }
        self.buffer.filled = ahead..want;
        Ok(())
    }
}
