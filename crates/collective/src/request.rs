//! The request: a collective, its ranks, bytes, algorithm and groups.

use super::hierarchical::Grouped;
use super::invalid::{Invalid, MOST_BYTES, MOST_RANKS};
use super::part::{Step, StepCopies};
use super::placement::Placement;
use super::plan::Task;
use super::schedule::Schedule;
use super::shards::piece;
use super::transfer::Span;
use super::{Algorithm, Operation};

/// A collective: an operation, an algorithm, the ranks that take part, and the size of their buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collective {
    /// The operation.
    pub operation: Operation,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Number of ranks.
    pub ranks: u32,
    /// Size of each rank's buffer [B]: for an allgather the buffer with which all ranks end, for a reduce-scatter the
    /// buffer with which all ranks begin, for an all-to-all the data that a rank has for all ranks, itself included.
    pub bytes: u64,
    /// The rank that sends or receives the whole buffer, if the operation has a root.
    pub root: u32,
    /// Largest chunk that goes through a tree or chain on its own [B]; the buffer is cut into equal chunks. `None`
    /// for whole buffers.
    pub chunk: Option<u64>,
    /// Groups, for [`Algorithm::Hierarchical`]; `None` for other algorithms.
    pub levels: Option<Levels>,
    /// Number of ranks on each node; empty if each rank is on a node of its own. [`Algorithm::DoubleBinaryTree`]
    /// makes the trees of an allreduce over these nodes, and each channel has its own order of the ranks in a node.
    pub nodes: Vec<u32>,
    /// Number of rings or trees that work at the same time, each on its part of the bytes; at least 1. Ring number c
    /// enters a node at the node's rank c and leaves it from rank c − 1, so that each uses another NIC, as NCCL's
    /// channels do. [`Operation::AllToAll`] and [`Algorithm::Hierarchical`] ignore it.
    pub channels: u32,
}

/// Groups of ranks, and the algorithms inside and across them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Number of ranks in each group, in the order of the ranks.
    pub groups: Vec<u32>,
    /// The algorithm inside each group.
    pub inner: Algorithm,
    /// The algorithm across groups.
    pub outer: Algorithm,
    /// The ranks that exchange data across groups.
    pub across: Across,
}

/// The ranks that exchange data across groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Across {
    /// One rank of each group, with all bytes of the group.
    Leaders,
    /// Every rank, with one part of the bytes, among the ranks of the same index in all groups. Only for an allreduce
    /// or an all-to-all, and for groups of equal size.
    SameIndex,
}

impl Across {
    /// Both variants.
    pub const ALL: [Across; 2] = [Across::Leaders, Across::SameIndex];

    /// Returns the variant's name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Across::Leaders => "leaders",
            Across::SameIndex => "same-index",
        }
    }

    /// Returns the variant with this name; `None` if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Across> {
        Self::ALL.into_iter().find(|across| across.name() == name)
    }
}

impl Levels {
    /// Returns the first rank of each group.
    pub(super) fn firsts(&self) -> Vec<u64> {
        let ends = self.groups.iter().scan(0, |end, &size| {
            *end += u64::from(size);
            Some(*end)
        });
        ends.zip(&self.groups).map(|(end, &size)| end - u64::from(size)).collect()
    }

    /// Returns the group of a rank, and the rank's index in it.
    pub(super) fn group_of(&self, rank: u32) -> (u64, u64) {
        let mut index = u64::from(rank);
        for (group, &size) in self.groups.iter().enumerate() {
            if index < u64::from(size) {
                return (group as u64, index);
            }
            index -= u64::from(size);
        }
        (0, 0)
    }

    /// Returns the operations that make up `operation`: the operations inside the groups, in their order, and the
    /// operation across groups.
    pub(super) fn operations(&self, operation: Operation) -> (Vec<Operation>, Operation) {
        use Operation::{AllToAll, Allgather, Allreduce, Broadcast, Reduce, ReduceScatter};
        let inside = match operation {
            Allreduce if self.across == Across::SameIndex => vec![ReduceScatter, Allgather],
            Allreduce => vec![Reduce, Broadcast],
            Broadcast | Allgather => vec![Broadcast],
            Reduce | ReduceScatter => vec![Reduce],
            AllToAll => vec![AllToAll],
        };
        (inside, operation)
    }

    fn equal(&self) -> bool {
        self.groups.windows(2).all(|pair| pair[0] == pair[1])
    }
}

impl Collective {
    /// Creates a collective of all ranks with whole buffers, one channel and rank 0 as its root.
    #[must_use]
    pub fn new(operation: Operation, algorithm: Algorithm, ranks: u32, bytes: u64) -> Collective {
        Collective {
            operation,
            algorithm,
            ranks,
            bytes,
            root: 0,
            chunk: None,
            levels: None,
            nodes: Vec::new(),
            channels: 1,
        }
    }

    /// Returns the collective with its ranks on nodes; `nodes` has the number of ranks on each node.
    #[must_use]
    pub fn on(self, nodes: Vec<u32>) -> Collective {
        Collective { nodes, ..self }
    }

    /// Returns the schedule of the collective: its transfers in phases.
    ///
    /// # Errors
    /// Reports why the collective is not valid, as [`Collective::check`] does.
    pub fn schedule(&self) -> Result<Schedule, Invalid> {
        self.check()?;
        let stages = match &self.levels {
            Some(levels) => Grouped::new(self, levels).stages()?,
            None => self.stages()?,
        };
        let in_step = self.levels.as_ref().is_none_or(Levels::equal) && self.used_channels() == 1;
        Ok(Schedule::new(self.ranks, stages, in_step))
    }

    /// Returns the number of transfers that there would be if every rank sent one transfer in each phase of each
    /// channel. It measures the work to simulate the collective.
    ///
    /// # Errors
    /// Reports why the collective is not valid, as [`Collective::check`] does.
    pub fn most_transfers(&self) -> Result<f64, Invalid> {
        let each = f64::from(self.ranks) * self.used_channels() as f64;
        Ok(self.schedule()?.phases() as f64 * each)
    }

    /// Returns the stages in their order; the steps of all channels in one stage begin together.
    fn stages(&self) -> Result<Vec<Vec<StepCopies>>, Invalid> {
        let mut stages: Vec<Vec<StepCopies>> = Vec::new();
        let whole = Span { start: 0, bytes: self.bytes };
        let channels = self.used_channels();
        for channel in 0..channels {
            let span = piece(whole, channels, channel);
            let place = self.place(channel);
            for (number, step) in self.steps(span.bytes)?.into_iter().enumerate() {
                let place = Placement { folded: step.folded, ..place.clone() };
                stages.resize_with(stages.len().max(number + 1), Vec::new);
                stages[number].push(StepCopies { place, step, window: (span.start, 0) });
            }
        }
        Ok(stages)
    }

    /// Returns the number of channels of the schedule. It is 1 without `nodes`, for an all-to-all, and for algorithms
    /// in groups; all-to-alls and algorithms in groups use all NICs without channels.
    pub(super) fn used_channels(&self) -> u64 {
        let turns = !self.nodes.is_empty() && self.levels.is_none();
        let turns = turns && self.operation != Operation::AllToAll;
        if turns { u64::from(self.channels.max(1)) } else { 1 }
    }

    /// Returns the steps of a channel that carries `bytes`.
    fn steps(&self, bytes: u64) -> Result<Vec<Step>, Invalid> {
        let task = Task::new(self.ranks.into(), bytes, self.chunk);
        let task = Task { nodes: self.nodes.clone(), ..task };
        task.steps(self.algorithm, self.operation)
    }

    /// Returns the order of the ranks in the ring or tree of a channel.
    fn place(&self, channel: u64) -> Placement {
        let root = self.operation.has_root().then_some(self.root);
        if channel == 0 {
            return Placement::whole(self.ranks.into(), root.unwrap_or(0).into());
        }
        Placement::turned(&self.nodes, channel, root)
    }

    /// Checks that the collective is valid.
    ///
    /// # Errors
    /// Reports the first reason why it is not valid.
    pub fn check(&self) -> Result<(), Invalid> {
        let (root, ranks) = (self.root, self.ranks);
        if ranks == 0 || ranks > MOST_RANKS {
            return Err(Invalid::Ranks(ranks));
        }
        if self.bytes > MOST_BYTES {
            return Err(Invalid::Bytes(self.bytes));
        }
        if root >= ranks {
            return Err(Invalid::Root { root, ranks });
        }
        if self.chunk == Some(0) {
            return Err(Invalid::Chunk);
        }
        offered(self.algorithm, self.operation)?;
        all_in(&self.nodes, ranks)?;
        match (&self.levels, self.algorithm) {
            (None, Algorithm::Hierarchical) => Err(Invalid::Groups),
            (None, _) => Ok(()),
            (Some(levels), Algorithm::Hierarchical) => self.check_levels(levels),
            (Some(_), _) => Err(Invalid::Groups),
        }
    }

    fn check_levels(&self, levels: &Levels) -> Result<(), Invalid> {
        if levels.groups.is_empty() {
            return Err(Invalid::NotAll { in_groups: 0, ranks: self.ranks });
        }
        all_in(&levels.groups, self.ranks)?;
        if [levels.inner, levels.outer].contains(&Algorithm::Hierarchical) {
            return Err(Invalid::Nested);
        }
        let same = levels.across == Across::SameIndex;
        if self.operation == Operation::AllToAll {
            let flat = [levels.inner, levels.outer] == [Algorithm::Flat; 2];
            return if flat && same && levels.equal() { Ok(()) } else { Err(Invalid::AllToAll) };
        }
        if same && !(self.operation == Operation::Allreduce && levels.equal()) {
            return Err(Invalid::SameIndex);
        }
        let (inside, across) = levels.operations(self.operation);
        offered(levels.outer, across)?;
        inside.into_iter().try_for_each(|operation| offered(levels.inner, operation))
    }
}

/// Checks that the groups, if there are any, contain all ranks, and that none is empty.
fn all_in(groups: &[u32], ranks: u32) -> Result<(), Invalid> {
    let in_groups = groups.iter().map(|&size| u64::from(size)).sum();
    let all = in_groups == u64::from(ranks) && !groups.contains(&0);
    (all || groups.is_empty()).then_some(()).ok_or(Invalid::NotAll { in_groups, ranks })
}

fn offered(algorithm: Algorithm, operation: Operation) -> Result<(), Invalid> {
    let error = Invalid::NotOffered { algorithm, operation };
    algorithm.offers(operation).then_some(()).ok_or(error)
}
