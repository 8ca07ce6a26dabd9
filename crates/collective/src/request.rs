//! What is asked for.

use super::hierarchical::Grouped;
use super::invalid::{Invalid, MOST_BYTES, MOST_RANKS};
use super::part::{Step, StepCopies};
use super::placement::Placement;
use super::plan::Task;
use super::schedule::Schedule;
use super::shards::piece;
use super::transfer::Span;
use super::{Algorithm, Operation};

/// A collective: what, how, among how many, of how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collective {
    /// What.
    pub operation: Operation,
    /// How.
    pub algorithm: Algorithm,
    /// How many ranks.
    pub ranks: u32,
    /// Each rank's buffer [B]: of an allgather what all end with, of a reduce-scatter what all begin
    /// with, of an all-to-all all that a rank has for others and itself.
    pub bytes: u64,
    /// Who gives or gets it all, where the operation has a root.
    pub root: u32,
    /// Longest piece that goes through a tree or chain on its own [B]; whole buffers if none. Cut into
    /// equal ones.
    pub chunk: Option<u64>,
    /// Groups, of [`Algorithm::Hierarchical`].
    pub levels: Option<Levels>,
    /// Ranks of each node, over which [`Algorithm::DoubleBinaryTree`] makes the trees of an allreduce, and in
    /// which the channels have their own orders; empty where each rank is on a node of its own.
    pub nodes: Vec<u32>,
    /// Number of rings or trees that work at the same time, each on its part of the bytes; at least 1. Ring number c
    /// enters a node at the node's rank c and leaves it from rank c − 1, so that each uses another NIC, as NCCL's
    /// channels do. [`Operation::AllToAll`] and [`Algorithm::Hierarchical`] ignore it.
    pub channels: u32,
}

/// Groups of ranks, and how they work inside and across.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Ranks of each group, in order.
    pub groups: Vec<u32>,
    /// Inside a group.
    pub inner: Algorithm,
    /// Across groups.
    pub outer: Algorithm,
    /// Who goes across.
    pub across: Across,
}

/// Who goes across groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Across {
    /// One rank of each group, with all of its bytes.
    Leaders,
    /// Every rank, with a part; of an allreduce or an all-to-all, and where groups are equal.
    SameIndex,
}

impl Across {
    /// Both.
    pub const ALL: [Across; 2] = [Across::Leaders, Across::SameIndex];

    /// Its name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Across::Leaders => "leaders",
            Across::SameIndex => "same-index",
        }
    }

    /// The one of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Across> {
        Self::ALL.into_iter().find(|across| across.name() == name)
    }
}

impl Levels {
    /// The first rank of each group.
    pub(super) fn firsts(&self) -> Vec<u64> {
        let ends = self.groups.iter().scan(0, |end, &size| {
            *end += u64::from(size);
            Some(*end)
        });
        ends.zip(&self.groups).map(|(end, &size)| end - u64::from(size)).collect()
    }

    /// The group of a rank, and its index there.
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

    /// What groups do inside, and across, for an operation of all.
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
    /// Of all ranks, from rank 0, in whole buffers.
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

    /// The same with ranks on nodes of so many each.
    #[must_use]
    pub fn on(self, nodes: Vec<u32>) -> Collective {
        Collective { nodes, ..self }
    }

    /// Its transfers.
    ///
    /// # Errors
    /// What cannot be done.
    pub fn schedule(&self) -> Result<Schedule, Invalid> {
        self.check()?;
        let stages = match &self.levels {
            Some(levels) => Grouped::new(self, levels).stages(),
            None => self.stages(),
        };
        let in_step = self.levels.as_ref().is_none_or(Levels::equal) && self.used_channels() == 1;
        Ok(Schedule::new(self.ranks, stages, in_step))
    }

    /// Its transfers at most: one of each rank in each phase of each channel.
    ///
    /// # Errors
    /// What cannot be done.
    pub fn most_transfers(&self) -> Result<f64, Invalid> {
        let each = f64::from(self.ranks) * self.used_channels() as f64;
        Ok(self.schedule()?.phases() as f64 * each)
    }

    /// Parts that begin together, in their order, of all channels.
    fn stages(&self) -> Vec<Vec<StepCopies>> {
        let mut stages: Vec<Vec<StepCopies>> = Vec::new();
        let whole = Span { start: 0, bytes: self.bytes };
        let channels = self.used_channels();
        for channel in 0..channels {
            let span = piece(whole, channels, channel);
            let place = self.place(channel);
            for (number, step) in self.steps(span.bytes).into_iter().enumerate() {
                let place = Placement { folded: step.folded, ..place.clone() };
                stages.resize_with(stages.len().max(number + 1), Vec::new);
                stages[number].push(StepCopies { place, step, window: (span.start, 0) });
            }
        }
        stages
    }

    /// Number of channels that the schedule has: one for an all-to-all and for algorithms in groups, which use all NICs without.
    pub(super) fn used_channels(&self) -> u64 {
        let turns = !self.nodes.is_empty() && self.levels.is_none();
        let turns = turns && self.operation != Operation::AllToAll;
        if turns { u64::from(self.channels.max(1)) } else { 1 }
    }

    /// What a channel with so many bytes does.
    fn steps(&self, bytes: u64) -> Vec<Step> {
        let task = Task::new(self.ranks.into(), bytes, self.chunk);
        let task = Task { nodes: self.nodes.clone(), ..task };
        task.steps(self.algorithm, self.operation)
    }

    /// The order of the ranks in the ring or tree of a channel.
    fn place(&self, channel: u64) -> Placement {
        let root = self.operation.has_root().then_some(self.root);
        if channel == 0 {
            return Placement::whole(self.ranks.into(), root.unwrap_or(0).into());
        }
        Placement::turned(&self.nodes, channel, root)
    }

    /// Whether there is such a collective.
    ///
    /// # Errors
    /// What cannot be done.
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

/// Groups, if there are any, have all ranks, and none is empty.
fn all_in(groups: &[u32], ranks: u32) -> Result<(), Invalid> {
    let in_groups = groups.iter().map(|&size| u64::from(size)).sum();
    let all = in_groups == u64::from(ranks) && !groups.contains(&0);
    (all || groups.is_empty()).then_some(()).ok_or(Invalid::NotAll { in_groups, ranks })
}

fn offered(algorithm: Algorithm, operation: Operation) -> Result<(), Invalid> {
    let error = Invalid::NotOffered { algorithm, operation };
    algorithm.offers(operation).then_some(()).ok_or(error)
}
