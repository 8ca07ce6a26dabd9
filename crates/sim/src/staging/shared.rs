//! Writing files that a node has read and converted to a storage that all nodes share.

use super::{Copying, Staging, Stagings};
use crate::env::Env;
use crate::ids::CopyId;
use crate::invariant::broken;

impl Stagings {
    /// Writes to the shared storage the samples that stream `c` has read, file by file, until a write takes time; returns true if
    /// all samples are written. The stream that writes the first sample of a file creates the file.
    pub(super) fn write_on(&mut self, env: &mut Env, c: CopyId) -> bool {
        while self.next_part(env, c) {
            let Copying { staging, next, .. } = self.copies[c];
            let Some(convert) = &self.stagings[staging].convert else {
                broken("only converted data sets are written in parts");
                return true;
            };
            let begins = next.is_multiple_of(convert.samples_per_file);
            self.copies[c].next = self.end_of_part(c);
            let done = if begins { self.open_copy(env, c) } else { self.copy_bytes(env, c) };
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
    fn next_part(&mut self, env: &mut Env, c: CopyId) -> bool {
        let (Copying { staging, file, next, writes, .. }, end) =
            (&self.copies[c], self.end_of_part(c));
        let Staging { convert, files, .. } = &self.stagings[*staging];
        let Some(convert) = convert.as_ref().filter(|_| *writes) else { return false };
        if *next >= files.samples_of(*file).end {
            return false;
        }
        let sizes = &mut env.storages.sizes[convert.dataset];
        let bytes = sizes.sum(0, 0, *next..end, convert.record, &env.streams);
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
