//! Fair splits in whole bytes.

use super::transfer::Span;
use std::sync::Arc;

/// Where part `i` of `parts` begins: all are equal but for one byte, the first being the larger.
pub(super) fn cut(bytes: u64, parts: u64, i: u64) -> u64 {
    bytes / parts * i + i.min(bytes % parts)
}

/// A span, moved on by `start`, cut into `parts` of which the `i`-th.
pub(super) fn piece(whole: Span, parts: u64, i: u64) -> Span {
    let at = cut(whole.bytes, parts, i);
    Span { start: whole.start + at, bytes: cut(whole.bytes, parts, i + 1) - at }
}

/// How many chunks, each of `chunk` at most: one at least.
pub(super) fn chunks(bytes: u64, chunk: Option<u64>) -> u64 {
    chunk.map_or(1, |chunk| bytes.div_ceil(chunk)).max(1)
}

/// The parts of a buffer that belong to ranks, in the order of ranks.
#[derive(Debug, Clone)]
pub(super) struct Shards {
    bytes: u64,
    parts: u64,
    /// How long a fair part is, and how many of the first are a byte longer.
    fair: (u64, u64),
    /// Borders where they are not fair.
    borders: Option<Arc<[u64]>>,
    /// So many pairs at the beginning are one part each.
    paired: u64,
}

impl Shards {
    /// Equal ones, but for a byte.
    pub(super) fn fair(bytes: u64, parts: u64) -> Shards {
        Shards { bytes, parts, fair: (bytes / parts, bytes % parts), borders: None, paired: 0 }
    }

    /// Between borders, 0 and all bytes among them.
    pub(super) fn at(borders: Vec<u64>) -> Shards {
        let bytes = borders.last().copied().unwrap_or(0);
        let parts = borders.len() as u64 - 1;
        Shards { bytes, parts, fair: (0, 0), borders: Some(borders.into()), paired: 0 }
    }

    /// With the first `2 · paired` parts joined two by two.
    pub(super) fn paired(&self, paired: u64) -> Shards {
        Shards { paired, parts: self.parts - paired, ..self.clone() }
    }

    /// How many.
    pub(super) fn parts(&self) -> u64 {
        self.parts
    }

    /// Of all.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where part `i` begins.
    pub(super) fn border(&self, i: u64) -> u64 {
        let single = if i < self.paired { 2 * i } else { i + self.paired };
        match &self.borders {
            None => self.fair.0 * single + single.min(self.fair.1),
            Some(borders) => borders[single as usize],
        }
    }

    /// Parts from `i` up to `j`.
    pub(super) fn span(&self, i: u64, j: u64) -> [Span; 2] {
        let start = self.border(i);
        [Span { start, bytes: self.border(j) - start }, Span::default()]
    }

    /// `count` parts from `i` on, around the end.
    pub(super) fn around(&self, i: u64, count: u64) -> [Span; 2] {
        let end = i + count;
        if end <= self.parts {
            return self.span(i, end);
        }
        [self.span(i, self.parts)[0], self.span(0, end - self.parts)[0]]
    }

    /// How long part `i` is.
    pub(super) fn len(&self, i: u64) -> u64 {
        self.border(i + 1) - self.border(i)
    }

    /// Bytes of parts `first`, `first + step`, … below the end.
    pub(super) fn every(&self, first: u64, step: u64) -> u64 {
        let below = |end: u64| end.saturating_sub(first).div_ceil(step);
        self.fair.0 * below(self.parts) + below(self.fair.1)
    }
}
