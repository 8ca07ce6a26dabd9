//! Splits of a buffer into parts of whole bytes, as equal as possible.

use super::transfer::Span;
use std::sync::Arc;

/// Returns the offset of part `i` of `parts` [B]. The lengths of parts differ by at most one byte;
/// the longer parts come first.
pub(super) fn cut(bytes: u64, parts: u64, i: u64) -> u64 {
    bytes / parts * i + i.min(bytes % parts)
}

/// Cuts a span into `parts` and returns part `i`.
pub(super) fn piece(whole: Span, parts: u64, i: u64) -> Span {
    let at = cut(whole.bytes, parts, i);
    Span { start: whole.start + at, bytes: cut(whole.bytes, parts, i + 1) - at }
}

/// Returns the number of chunks of at most `chunk` bytes, at least one; one if `chunk` is `None`.
pub(super) fn chunks(bytes: u64, chunk: Option<u64>) -> u64 {
    chunk.map_or(1, |chunk| bytes.div_ceil(chunk)).max(1)
}

/// The parts of a buffer that belong to ranks, in the order of ranks.
#[derive(Debug, Clone)]
pub(super) struct Shards {
    bytes: u64,
    parts: u64,
    /// Length of an equal part [B], and number of parts at the beginning that are one byte longer.
    fair: (u64, u64),
    /// Offsets of the borders between parts [B], if the lengths of parts differ by more than one
    /// byte.
    borders: Option<Arc<[u64]>>,
    /// Number of pairs at the beginning whose two parts count as one.
    paired: u64,
}

impl Shards {
    /// Creates parts whose lengths differ by at most one byte.
    pub(super) fn fair(bytes: u64, parts: u64) -> Shards {
        Shards { bytes, parts, fair: (bytes / parts, bytes % parts), borders: None, paired: 0 }
    }

    /// Creates parts between `borders`, which include 0 and the number of all bytes.
    pub(super) fn at(borders: Vec<u64>) -> Shards {
        let bytes = borders.last().copied().unwrap_or(0);
        let parts = borders.len() as u64 - 1;
        Shards { bytes, parts, fair: (0, 0), borders: Some(borders.into()), paired: 0 }
    }

    /// Returns the parts with the first `2 · paired` of them joined two by two.
    pub(super) fn paired(&self, paired: u64) -> Shards {
        Shards { paired, parts: self.parts - paired, ..self.clone() }
    }

    /// Returns the number of parts.
    pub(super) fn parts(&self) -> u64 {
        self.parts
    }

    /// Returns the number of bytes of all parts together.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the offset at which part `i` begins [B].
    pub(super) fn border(&self, i: u64) -> u64 {
        let single = if i < self.paired { 2 * i } else { i + self.paired };
        match &self.borders {
            None => self.fair.0 * single + single.min(self.fair.1),
            Some(borders) => borders[single as usize],
        }
    }

    /// Returns parts `i` to `j - 1` as one span; the second span is empty.
    pub(super) fn span(&self, i: u64, j: u64) -> [Span; 2] {
        let start = self.border(i);
        [Span { start, bytes: self.border(j) - start }, Span::default()]
    }

    /// Returns `count` parts from `i` on. If they run past the last part, the second span has the
    /// rest, from part 0 on; otherwise it is empty.
    pub(super) fn around(&self, i: u64, count: u64) -> [Span; 2] {
        let end = i + count;
        if end <= self.parts {
            return self.span(i, end);
        }
        [self.span(i, self.parts)[0], self.span(0, end - self.parts)[0]]
    }

    /// Returns the length of part `i` [B].
    pub(super) fn len(&self, i: u64) -> u64 {
        self.border(i + 1) - self.border(i)
    }

    /// Returns the bytes of parts `first`, `first + step`, … together [B]; for fair parts only.
    pub(super) fn every(&self, first: u64, step: u64) -> u64 {
        let below = |end: u64| end.saturating_sub(first).div_ceil(step);
        self.fair.0 * below(self.parts) + below(self.fair.1)
    }
}
