//! Learners of one network on one GPU: each has places of its own in one block of memory, and all agree by
//! synchronous model averaging (A. Koliousis et al., *Crossbow*, VLDB 2019).

use super::compile::{blocks_for, compile_in};
use super::program::{Call, Launch, Memory, Precision, Program, Slot, Word};
use forebay_networks::{Feed, Network};

/// Learners, and places for batches that are on their way to them.
#[derive(Debug)]
pub(super) struct Crew {
    /// Memory that all need [B].
    pub(super) bytes: usize,
    /// By learner, and by size of a batch: the full one first.
    pub(super) learners: Vec<Vec<Program>>,
    /// Where batches arrive.
    pub(super) arrivals: Vec<Slot>,
    feed: Feed,
    centre: Option<Centre>,
}

/// The central model: numbers of 4 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Centre {
    pub(super) model: Slot,
    /// Before its last move.
    pub(super) last: Slot,
    /// What replicas were drawn to it by, all together.
    pub(super) correction: Slot,
}

/// What is trained by how many, and how batches arrive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'w> {
    /// Sizes of batches, the full one first.
    pub(super) batches: &'w [usize],
    pub(super) precision: Precision,
    pub(super) learners: usize,
    /// Places for batches, and the bytes of each.
    pub(super) arrivals: (usize, usize),
}

impl Crew {
    /// The learners of a network.
    pub(super) fn new(network: &Network, wanted: Wanted<'_>) -> Crew {
        let mut memory = Memory::default();
        let program = |memory: &mut Memory, samples: usize| {
            memory.part();
            compile_in(memory, network, samples, wanted.precision)
        };
        let learner = |memory: &mut Memory| {
            wanted.batches.iter().map(|&samples| program(memory, samples)).collect::<Vec<_>>()
        };
        let learners: Vec<_> = (0..wanted.learners).map(|_| learner(&mut memory)).collect();
        let (count, bytes) = wanted.arrivals;
        let arrivals = (0..count).map(|_| memory.keep(bytes)).collect();
        let parameters = learners.first().and_then(|of| of.first()).map(|of| of.parameters.bytes());
        let centre = parameters.filter(|_| wanted.learners > 1).map(|bytes| {
            let [model, last, correction] = [bytes; 3].map(|bytes| memory.keep(bytes));
            Centre { model, last, correction }
        });
        Crew { bytes: memory.bytes(), learners, arrivals, feed: network.feed, centre }
    }

    /// The programs that train on full batches.
    fn replicas(&self) -> impl Iterator<Item = &Program> {
        self.learners.iter().filter_map(|of| of.first())
    }

    /// Puts `bytes` that have arrived at a place before a program.
    pub(super) fn feed(&self, program: &Program, arrival: Slot, bytes: usize) -> Vec<Call> {
        let n = program.input.bytes() / 4;
        let [from, count, to, values] =
            [arrival.into(), bytes.max(1).into(), program.input.into(), n.into()];
        let spread = match self.feed {
            Feed::Image { .. } => launch("spread_values", n, [from, count, to, values]),
            Feed::Tokens { kinds, .. } => {
                launch("spread_tokens", n, [from, count, to, values, kinds.into()])
            }
        };
        std::iter::once(spread).chain(program.feed.iter().cloned()).collect()
    }

    /// The central model begins where the first replica does.
    pub(super) fn gather(&self) -> Vec<Call> {
        let Some((centre, first)) = self.centre.zip(self.replicas().next()) else {
            return Vec::new();
        };
        let n = first.parameters.bytes() / 4;
        let copy =
            |to: Slot| launch("narrow_f32", n, [first.parameters.into(), to.into(), n.into()]);
        let zero = launch("zero", n, [centre.correction.into(), n.into()]);
        vec![copy(centre.model), copy(centre.last), zero]
    }

    /// All replicas are drawn to the central model by a share of their distance; it moves by the sum of
    /// that, and by `keep` of its last move.
    pub(super) fn agree(&self, share: f32, keep: f32) -> Vec<Call> {
        let Some(Centre { model, last, correction }) = self.centre else { return Vec::new() };
        let n = model.bytes() / 4;
        let near = |replica: &Program| {
            let words = [replica.parameters, model, correction].map(Word::from);
            let [replica, model, correction] = words;
            launch("draw_near", n, [replica, model, correction, n.into(), share.into()])
        };
        let [to, before, sum] = [model, last, correction].map(Word::from);
        let central = launch("move_central", n, [to, before, sum, n.into(), keep.into()]);
        let settle = self.replicas().flat_map(|of| of.settle.iter().cloned());
        self.replicas().map(near).chain([central]).chain(settle).collect()
    }

    /// The central model, where there are several learners.
    #[cfg(test)]
    pub(super) fn centre(&self) -> Option<Centre> {
        self.centre
    }
}

/// A kernel in which each thread does some of `n` equal things.
fn launch<const N: usize>(kernel: &str, n: usize, words: [Word; N]) -> Call {
    let (kernel, blocks) = (kernel.to_owned(), blocks_for(n));
    Call::Launch(Launch { kernel, blocks, threads: 256, words: words.into() })
}
