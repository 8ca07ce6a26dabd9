//! The bytes of samples that are copied to a real GPU. Items carry them from stage to stage, and steps hand them to devices that
//! copy their batches themselves. Runs without a real GPU have no such bytes, and allocate nothing for them.

use std::collections::{BTreeMap, VecDeque};

/// A buffer for the bytes of samples, which can be used again without new memory.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl Buffer {
    /// Removes all bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Removes the bytes behind the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.filled = self.filled.min(length);
    }

    /// Appends `size` bytes, which the caller must write, and returns them.
    pub fn append(&mut self, size: usize) -> &mut [u8] {
        let from = self.filled;
        self.filled += size;
        if self.bytes.len() < self.filled {
            self.bytes.resize(self.filled, 0);
        }
        &mut self.bytes[from..self.filled]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

/// The contents of the items in a loader's last buffer.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Samples in the last buffer that have no content, because they were there from the start; they are taken first.
    bare: u64,
    /// Number of samples and content of each item, oldest first.
    items: VecDeque<(u64, Vec<Buffer>)>,
    /// Number of samples in `items`.
    samples: u64,
    /// Contents of finished batches that wait for earlier ones, by the position of their first sample.
    early: BTreeMap<u64, Vec<Buffer>>,
}

impl Contents {
    /// Records that the last buffer has `samples` samples at the start.
    pub(super) fn start(&mut self, samples: u64) {
        self.bare = samples;
    }

    /// Keeps the content of a batch that may have to wait for earlier ones.
    pub(super) fn hold(&mut self, first: u64, content: Vec<Buffer>) {
        if !content.is_empty() {
            self.early.insert(first, content);
        }
    }

    /// Returns the content of the batch from position `first` on, whose turn has come.
    pub(super) fn release(&mut self, first: u64) -> Vec<Buffer> {
        self.early.remove(&first).unwrap_or_default()
    }

    /// Puts the content of `samples` samples behind the others. Drops the oldest content if more than `most` samples have one, as
    /// a circular queue overwrites its oldest samples.
    pub(super) fn put(&mut self, samples: u64, content: Vec<Buffer>, most: u64) {
        if content.is_empty() {
            return;
        }
        self.items.push_back((samples, content));
        self.samples += samples;
        while let Some((oldest, _)) = self.items.pop_front_if(|_| self.samples > most) {
            self.samples -= oldest;
        }
    }

    /// Takes the contents of the oldest `samples` samples, in order. They are fewer if samples have no content: those from the
    /// start, and those that a device takes from a circular queue once more.
    pub(super) fn take(&mut self, samples: u64) -> Vec<Buffer> {
        let bare = self.bare.min(samples);
        self.bare -= bare;
        let (mut left, mut taken) = (samples - bare, Vec::new());
        while let Some((samples, content)) = self.items.pop_front_if(|(of, _)| *of <= left) {
            left -= samples;
            self.samples -= samples;
            taken.extend(content);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(byte: u8) -> Vec<Buffer> {
        let mut buffer = Buffer::default();
        buffer.append(2).fill(byte);
        vec![buffer]
    }

    fn bytes(content: &[Buffer]) -> Vec<u8> {
        content.iter().flat_map(|buffer| buffer.as_ref().to_vec()).collect()
    }

    #[test]
    fn a_cleared_buffer_is_filled_again_without_new_memory() {
        let mut buffer = Buffer::default();
        buffer.append(3).copy_from_slice(&[1, 2, 3]);
        buffer.append(2).copy_from_slice(&[4, 5]);
        assert_eq!(buffer.as_ref(), [1, 2, 3, 4, 5]);
        buffer.truncate(4);
        assert_eq!(buffer.as_ref(), [1, 2, 3, 4]);
        let memory = buffer.bytes.as_ptr();
        buffer.clear();
        assert!(buffer.as_ref().is_empty());
        buffer.append(5).copy_from_slice(&[6; 5]);
        assert_eq!((buffer.as_ref(), buffer.bytes.as_ptr()), (&[6; 5][..], memory));
    }

    #[test]
    fn batches_get_the_contents_of_their_samples_after_those_that_were_there_from_the_start() {
        let mut contents = Contents::default();
        contents.start(3);
        (1..=3).for_each(|byte| contents.put(1, content(byte), 9));
        assert!(contents.take(2).is_empty());
        assert_eq!(bytes(&contents.take(2)), [1, 1]);
        assert_eq!(bytes(&contents.take(2)), [2, 2, 3, 3]);
        assert!(contents.take(2).is_empty());
    }

    #[test]
    fn a_full_circular_queue_drops_its_oldest_contents() {
        let mut contents = Contents::default();
        (1..=5).for_each(|byte| contents.put(2, content(byte), 4));
        assert_eq!(bytes(&contents.take(4)), [4, 4, 5, 5]);
    }

    #[test]
    fn contents_of_early_batches_wait_for_their_turn() {
        let mut contents = Contents::default();
        contents.hold(8, content(8));
        contents.hold(4, content(4));
        assert_eq!(bytes(&contents.release(4)), [4, 4]);
        assert_eq!(bytes(&contents.release(8)), [8, 8]);
        assert!(contents.release(8).is_empty());
    }
}
