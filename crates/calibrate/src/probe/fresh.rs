//! Batches that threads decode while another thread takes them, as the workers of a loader do.
#![cfg_attr(not(any(feature = "cuda", test)), expect(dead_code, reason = "nothing can be copied"))]

use super::ProbeError;
use super::decode::Set;
use forebay_image::{Decoder, Generated, QUALITY};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Seed of the images: the same in every calibration, so that profiles are comparable.
const SEED: u64 = 1;
/// Batches that each thread may have decoded ahead, as PyTorch's default `prefetch_factor`.
const AHEAD: usize = 2;

/// Images that threads decode into batches, and the memory of the batches.
#[derive(Debug)]
pub(super) struct Decoding {
    threads: usize,
    resize: u32,
    images: Set,
    /// Memory of batches, kept between trials, because the first write to each page of new memory is slow.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// A batch, and the number of the thread that decodes into its memory.
type Batch = (usize, Vec<u8>);

/// The batches, as the thread that takes them sees them.
#[derive(Debug)]
pub(super) struct Batches<'b> {
    decoded: Receiver<Batch>,
    /// For each thread: the memory into which it may decode.
    emptied: Vec<SyncSender<Vec<u8>>>,
    bytes: usize,
    spare: &'b Mutex<Vec<Vec<u8>>>,
    over: &'b AtomicBool,
}

impl Decoding {
    /// Returns the decoding of images with this width, resized to a square of side `resize` [pixels], by so many threads.
    pub(super) fn new(threads: usize, width: usize, resize: u32) -> Decoding {
        let images = Set::generated(&Generated::new(SEED, QUALITY), width);
        Decoding { threads, resize, images, spare: Mutex::default() }
    }

    /// Carries out `work` while the threads decode batches of `bytes` each. A thread waits when all its batches are decoded and
    /// none has been taken.
    ///
    /// # Errors
    /// The operating system refuses to start a thread.
    pub(super) fn beside<T>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Batches<'_>) -> T,
    ) -> Result<T, ProbeError> {
        let (threads, over) = (self.threads, AtomicBool::new(false));
        let (send, decoded) = sync_channel(AHEAD * threads);
        thread::scope(|scope| {
            let mut emptied = Vec::new();
            for index in 0..threads {
                let (give, empty) = sync_channel(AHEAD);
                for _ in 0..AHEAD {
                    give.send(self.memory(bytes.next_multiple_of(self.image()))).ok();
                }
                let (send, over) = (send.clone(), &over);
                let decode = move || self.decode((index, bytes), &empty, &send, over);
                let started = thread::Builder::new().spawn_scoped(scope, decode);
                started.map_err(|source| ProbeError::Threads { threads, source })?;
                emptied.push(give);
            }
            drop(send);
            Ok(work(&mut Batches { decoded, emptied, bytes, spare: &self.spare, over: &over }))
        })
    }

    /// Returns the size of a decoded image: three floats for each pixel [B].
    fn image(&self) -> usize {
        12 * self.resize as usize * self.resize as usize
    }

    /// Returns memory of at least this size.
    fn memory(&self, bytes: usize) -> Vec<u8> {
        let mut memory = locked(&self.spare).pop().unwrap_or_default();
        if memory.len() < bytes {
            memory.resize(bytes, 0);
        }
        memory
    }

    /// Decodes batches into the memory that comes from `empty`, until nobody takes them any more.
    fn decode(
        &self,
        (index, bytes): (usize, usize),
        empty: &Receiver<Vec<u8>>,
        decoded: &SyncSender<Batch>,
        over: &AtomicBool,
    ) {
        let mut decoder = Decoder::new(Some(self.resize));
        let mut images = self.images.images.iter().cycle().skip(index);
        while let Ok(mut batch) = empty.recv() {
            let mut filled = 0;
            while filled < bytes && !over.load(Ordering::Relaxed) {
                let Some(image) = images.next() else { return };
                let space = &mut batch[filled..];
                // The images are our own, so decoding does not fail; if it did, this loop would never end.
                if decoder.decode_into(image, move |size| &mut space[..size]).is_err() {
                    return;
                }
                filled += self.image();
            }
            if let Err(left) = decoded.send((index, batch)) {
                locked(&self.spare).push(left.0.1);
            }
        }
    }
}

impl Batches<'_> {
    /// Carries out `work` on the next decoded batch, for which it waits.
    ///
    /// # Errors
    /// The threads that decode have ended.
    pub(super) fn next<T>(&mut self, work: impl FnOnce(&[u8]) -> T) -> Result<T, ProbeError> {
        let lost = |_| ProbeError::Machine("the threads that decode have failed".to_owned());
        let batch = self.decoded.recv().map_err(lost)?;
        let done = work(&batch.1[..self.bytes]);
        self.give_back(batch);
        Ok(done)
    }

    /// Drops the batches that have been decoded, so that their threads go on.
    pub(super) fn drop_decoded(&mut self) {
        while let Ok(batch) = self.decoded.try_recv() {
            self.give_back(batch);
        }
    }

    fn give_back(&self, (thread, batch): Batch) {
        if let Some(Err(left)) = self.emptied.get(thread).map(|emptied| emptied.send(batch)) {
            locked(self.spare).push(left.0);
        }
    }
}

impl Drop for Batches<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        locked(self.spare).extend(self.decoded.try_iter().map(|(_, batch)| batch));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// System: two threads, batches of one and a half images of 8 by 8 pixels. Expectation: every batch has the bytes of decoded
    /// images, also in memory that was used before, and no thread is left when the work ends.
    #[test]
    fn threads_decode_whole_batches_again_and_again_into_the_same_memory() {
        let decoding = Decoding::new(2, 32, 8);
        let mut decoder = Decoder::new(Some(8));
        let mut first = vec![0; 768];
        let mut firsts = Vec::new();
        for image in &decoding.images.images {
            decoder.decode_into(image, |size| &mut first[..size]).expect("an image");
            firsts.push(first.clone());
        }
        for bytes in [1152, 700] {
            let same = decoding.beside(bytes, |batches| {
                let mut one = || {
                    batches.next(|batch| {
                        (batch.len(), firsts.iter().any(|of| batch.starts_with(&of[..700])))
                    })
                };
                (0..20).map(|_| one().expect("a batch")).all(|found| found == (bytes, true))
            });
            assert!(same.expect("threads"), "{bytes}");
        }
        let spare = decoding.spare.lock().expect("not poisoned");
        assert!((1..=4).contains(&spare.len()), "{}", spare.len());
    }

    /// System: one decoding thread. Five times, one of its batches is used, and the others are dropped. Expectation: the thread decodes
    /// another batch each time.
    #[test]
    fn threads_wait_until_decoded_batches_are_taken_or_dropped() {
        let decoding = Decoding::new(1, 32, 8);
        let kept = decoding.beside(768, |batches| {
            for _ in 0..5 {
                batches.next(|_| ()).expect("a batch");
                batches.drop_decoded();
            }
            batches.next(<[u8]>::len)
        });
        assert_eq!(kept.expect("a thread").expect("a batch"), 768);
    }
}
