//! All-reduce in a ring over TCP: each rank has a vector, cut into as many parts as there are ranks. In each of `ranks − 1` steps a
//! rank sends a part to the next rank and adds what it receives; in as many further steps the sums go round (Patarasuk and Yuan,
//! *Bandwidth optimal all-reduce algorithms*, 2009).

use super::Worker;
use crate::arrivals::marked;
use crate::message::{Found, Timing};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes of a number [B].
const NUMBER: usize = 4;

/// Size of a segment, a multiple of [`NUMBER`] [B].
const SEGMENT: usize = 256 << 10;

/// Place of a rank in the ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) next: SocketAddr,
    pub(super) tag: u64,
    pub(super) position: usize,
    pub(super) ranks: usize,
}

/// Runs all-reduce of vectors of `bytes` `times` times, and checks the sums of the first round. The rate is that of the rounds in the
/// window; of all rounds if it has no length.
pub(super) fn all_reduce(
    worker: &Worker,
    place: Place,
    bytes: usize,
    times: u32,
    timing: Timing,
) -> Result<Found, String> {
    let said = |error: std::io::Error| error.to_string();
    let next = worker.member.connect(place.next, &marked(place.tag)).map_err(said)?;
    let mut from = worker.arrivals.take(place.tag, 1).map_err(said)?;
    let Some(previous) = from.pop() else { return Err("no connection".to_owned()) };
    let numbers = (bytes / NUMBER).max(1);
    let mut vector: Vec<u8> =
        std::iter::repeat_n(1.0_f32.to_le_bytes(), numbers).flatten().collect();
    let late = worker.clock.wait(timing.start);
    let (begin, ends) = std::thread::scope(|scope| {
        // Sending has a thread of its own, so that a rank sends while it receives.
        let most = bytes / place.ranks.max(1) / SEGMENT + 2;
        let (parts, queue): (SyncSender<Vec<u8>>, Receiver<Vec<u8>>) = sync_channel(most);
        let (spare, emptied) = sync_channel(most);
        let sending = scope.spawn(move || send(next, &queue, &spare));
        let mut ring = Ring { place, previous, parts, emptied, buffer: Vec::new() };
        let begin = worker.clock.now();
        let mut ends = Vec::new();
        while ends.len() < times as usize && !worker.stopped() {
            ring.once(&mut vector)?;
            if ends.is_empty() {
                check(&vector, place.ranks)?;
            }
            ends.push(worker.clock.now());
        }
        drop(ring);
        sending.join().unwrap_or_else(|_| Err("the sending thread ended early".to_owned()))?;
        Ok::<_, String>((begin, ends))
    })?;
    if timing.length > 0.0 {
        let (count, seconds) = (counted(begin, &ends, timing), timing.length);
        return Ok(Found { count, rate: count / seconds, seconds, late, ..Found::default() });
    }
    let count = ends.len() as f64;
    let seconds = ends.last().map_or(0.0, |last| last - begin);
    Ok(Found { count, rate: count / seconds, seconds, late, ..Found::default() })
}

/// Returns the number of rounds in the window, of rounds that follow each other and end at `ends`. Of a round that lies partly in the
/// window, that part is counted.
fn counted(begin: f64, ends: &[f64], timing: Timing) -> f64 {
    let (from, to) = (timing.start + timing.skip, timing.start + timing.skip + timing.length);
    let begins = std::iter::once(&begin).chain(ends);
    let share = |(begin, end): (&f64, &f64)| {
        ((end.min(to) - begin.max(from)) / (end - begin)).clamp(0.0, 1.0)
    };
    begins.zip(ends).map(share).sum()
}

/// Sends segments in the order in which they come, and returns their buffers.
fn send(
    mut next: TcpStream,
    queue: &Receiver<Vec<u8>>,
    spare: &SyncSender<Vec<u8>>,
) -> Result<(), String> {
    while let Ok(part) = queue.recv() {
        next.write_all(&part).map_err(|error| format!("sending failed: {error}"))?;
        spare.try_send(part).ok();
    }
    Ok(())
}

/// A rank's connections to the next and from the previous rank.
struct Ring {
    place: Place,
    previous: TcpStream,
    parts: SyncSender<Vec<u8>>,
    emptied: Receiver<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Ring {
    /// Runs one all-reduce. Each part is cut into segments, which go to the next rank as soon as they have been added, so that the network
    /// never waits for the addition.
    fn once(&mut self, vector: &mut [u8]) -> Result<(), String> {
        let Place { position, ranks, .. } = self.place;
        let numbers = vector.len() / NUMBER;
        let part = |index: usize| part(index % ranks, ranks, numbers);
        for segment in segments(part(position)) {
            self.pass(&vector[segment])?;
        }
        // The last step receives what nobody needs any more.
        let steps = 2 * (ranks - 1);
        for step in 0..steps {
            for segment in segments(part(position + 2 * ranks - 1 - step)) {
                self.receive(segment.len())?;
                match step < ranks - 1 {
                    true => add(&mut vector[segment.clone()], &self.buffer),
                    false => vector[segment.clone()].copy_from_slice(&self.buffer),
                }
                if step + 1 < steps {
                    self.pass(&vector[segment])?;
                }
            }
        }
        Ok(())
    }

    fn pass(&mut self, part: &[u8]) -> Result<(), String> {
        let mut memory = self.emptied.try_recv().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(part);
        self.parts.send(memory).map_err(|_| "sending failed: the next rank is gone".to_owned())
    }

    fn receive(&mut self, bytes: usize) -> Result<(), String> {
        self.buffer.resize(bytes, 0);
        let received = self.previous.read_exact(&mut self.buffer);
        received.map_err(|error| format!("receiving failed: {error}"))
    }
}

/// Returns the bytes of part `index` of `parts` of a vector of `numbers`.
fn part(index: usize, parts: usize, numbers: usize) -> Range<usize> {
    NUMBER * (index * numbers / parts)..NUMBER * ((index + 1) * numbers / parts)
}

/// Returns a part in segments; nothing for an empty part.
fn segments(part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = part.end;
    part.step_by(SEGMENT).map(move |from| from..(from + SEGMENT).min(end))
}

/// Adds numbers to numbers.
fn add(to: &mut [u8], from: &[u8]) {
    for (a, b) in to.chunks_exact_mut(NUMBER).zip(from.chunks_exact(NUMBER)) {
        let sum = number(a) + number(b);
        a.copy_from_slice(&sum.to_le_bytes());
    }
}

fn number(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// Checks the sums of the first round, in which every rank adds ones. Later rounds add larger numbers, which takes as long.
fn check(vector: &[u8], ranks: usize) -> Result<(), String> {
    let expected = ranks as f32;
    match vector.chunks_exact(NUMBER).map(number).find(|sum| *sum != expected) {
        Some(wrong) => Err(format!("an all-reduce of ones among {ranks} ranks gave {wrong}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_vector_of_any_length_once() {
        for (numbers, parts) in [(1, 1), (10, 3), (7, 8), (4096, 5)] {
            let all: Vec<Range<usize>> = (0..parts).map(|i| part(i, parts, numbers)).collect();
            assert_eq!((all[0].start, all[parts - 1].end), (0, NUMBER * numbers));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn rounds_at_the_edges_of_a_window_count_in_part() {
        let timing = Timing { start: 10.0, skip: 1.0, length: 2.0 };
        // Rounds of 0.8 s: 2 ÷ 0.8 of them lie in the window.
        let ends: Vec<f64> = (1..=6).map(|n| 10.0 + 0.8 * f64::from(n)).collect();
        assert!((counted(10.0, &ends, timing) - 2.5).abs() < 1e-9);
        assert!((counted(10.0, &[20.0], timing) - 0.2).abs() < 1e-9, "one long round");
        assert_eq!(counted(14.0, &[15.0], timing), 0.0);
    }

    #[test]
    fn segments_cover_a_part_once() {
        for part in [0..0, 4..8, 8..SEGMENT + 8, 0..3 * SEGMENT + 4] {
            let all: Vec<Range<usize>> = segments(part.clone()).collect();
            let covered: usize = all.iter().map(ExactSizeIterator::len).sum();
            assert_eq!(covered, part.len());
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn sums_that_lack_a_rank_are_noticed() {
        let of = |value: f32| [1.0_f32, value].into_iter().flat_map(f32::to_le_bytes).collect();
        let (mut sum, other): (Vec<u8>, Vec<u8>) = (of(1.0), of(1.0));
        add(&mut sum, &other);
        assert!(check(&sum, 2).is_ok() && check(&sum, 3).is_err());
    }
}
