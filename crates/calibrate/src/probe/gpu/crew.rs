//! Learners of one network on one GPU. Each has slots of its own in one block of memory, and their replicas are
//! kept together by synchronous model averaging (A. Koliousis et al., *Crossbow*, VLDB 2019).

use super::Form;
use super::compile::{blocks_for, compile_in};
use super::program::{Call, Launch, Memory, Precision, Program, Slot, Word};
use forebay_networks::{Feed, Network};

/// The programs of all learners, and slots for batches on their way to the learners.
#[derive(Debug)]
pub(super) struct Crew {
    /// Memory that all learners and slots need together [B].
    pub(super) bytes: usize,
    /// Programs by learner and by batch size, the full batch first.
    pub(super) learners: Vec<Vec<Program>>,
    /// Slots in which batches arrive.
    pub(super) arrivals: Vec<Slot>,
    feed: Feed,
    centre: Option<Centre>,
}

/// The central model of synchronous model averaging, in numbers of 4 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Centre {
    pub(super) model: Slot,
    /// The central model before its last move.
    pub(super) last: Slot,
    /// Sum of the corrections by which replicas were moved towards the central model.
    pub(super) correction: Slot,
}

impl Centre {
    /// Number of models whose memory the central model takes.
    pub(super) const MODELS: usize = 3;
}

/// Settings for a new crew: batch sizes, precision, number of learners, slots for arriving batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'w> {
    /// Batch sizes [samples], the full batch first.
    pub(super) batches: &'w [usize],
    pub(super) precision: Precision,
    pub(super) learners: usize,
    /// Number of slots for arriving batches, and size of each slot [B].
    pub(super) arrivals: (usize, usize),
}

impl Crew {
    /// Compiles the programs of all learners of a network.
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
            let [model, last, correction] = [bytes; Centre::MODELS].map(|bytes| memory.keep(bytes));
            Centre { model, last, correction }
        });
        Crew { bytes: memory.bytes(), learners, arrivals, feed: network.feed, centre }
    }

    /// Returns each learner's program for full batches.
    fn replicas(&self) -> impl Iterator<Item = &Program> {
        self.learners.iter().filter_map(|of| of.first())
    }

    /// Returns the calls that fill the input of a program from the slot `arrival`, as [`fill`].
    pub(super) fn feed(&self, program: &Program, arrival: Slot, batch: (usize, Form)) -> Vec<Call> {
        fill(self.feed, program, arrival, batch)
    }

    /// Returns the calls that set the central model to the parameters of the first replica; none with a single
    /// learner.
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

    /// Returns the calls that average the replicas once. Each replica moves towards the central model by the
    /// share `share` of the distance between the two; the central model moves by the sum of these corrections
    /// plus `keep` times its last move.
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

    /// Returns the central model; `None` with a single learner.
    #[cfg(test)]
    pub(super) fn centre(&self) -> Option<Centre> {
        self.centre
    }
}

/// Returns the calls that fill the input of a program with evenly spaced values of the batch in the slot `arrival`, which has
/// `bytes` bytes of this form. Tokens are made of bytes in any form.
pub(super) fn fill(
    feed: Feed,
    program: &Program,
    arrival: Slot,
    (bytes, form): (usize, Form),
) -> Vec<Call> {
    let n = program.input.bytes() / 4;
    let [from, count, to, values] =
        [arrival.into(), bytes.max(1).into(), program.input.into(), n.into()];
    let spread = match (feed, form) {
        (Feed::Image { .. }, Form::Bytes) => launch("spread_values", n, [from, count, to, values]),
        (Feed::Image { .. }, Form::Floats) => {
            let count = (bytes / 4).max(1).into();
            launch("spread_floats", n, [from, count, to, values])
        }
        (Feed::Tokens { kinds, .. }, _) => {
            launch("spread_tokens", n, [from, count, to, values, kinds.into()])
        }
    };
    std::iter::once(spread).chain(program.feed.iter().cloned()).collect()
}

/// Returns a launch of a kernel over `n` elements that are divided among its threads.
fn launch<const N: usize>(kernel: &str, n: usize, words: [Word; N]) -> Call {
    let (kernel, blocks) = (kernel.to_owned(), blocks_for(n));
    Call::Launch(Launch { kernel, blocks, threads: 256, words: words.into() })
}
