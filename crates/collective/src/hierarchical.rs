//! Hierarchical collectives: inside groups, then across groups, then inside again.
//!
//! [`Across::Leaders`]: one rank of each group exchanges data across groups on behalf of its group (as in the two-level
//! collectives of MPI libraries, and in Horovod if group sizes differ). [`Across::SameIndex`]: the i-th ranks of all
//! groups exchange the i-th part of the buffer across groups (as in Horovod's hierarchical allreduce over NCCL:
//! reduce-scatter inside, allreduce across, allgather inside), which needs groups of equal size.

use super::part::{Shape, Step, StepCopies};
use super::placement::{Base, Placement};
use super::plan::Task;
use super::request::{Across, Collective, Levels};
use super::shards::{Shards, cut};
use super::transfer::Kind;
use super::two_level::TwoLevel;
use super::{Invalid, Operation};

/// Neighbouring groups of equal size.
#[derive(Debug, Clone, Copy)]
struct Alike {
    /// Number of the first group.
    group: u64,
    /// First rank of the first group.
    first: u64,
    size: u64,
    count: u64,
}

/// A collective in groups.
pub(super) struct Grouped<'a> {
    collective: &'a Collective,
    levels: &'a Levels,
    alike: Vec<Alike>,
}

impl<'a> Grouped<'a> {
    pub(super) fn new(collective: &'a Collective, levels: &'a Levels) -> Grouped<'a> {
        let mut alike: Vec<Alike> = Vec::new();
        let mut first = 0;
        for (group, size) in levels.groups.iter().map(|&size| u64::from(size)).enumerate() {
            match alike.last_mut() {
                Some(last) if last.size == size => last.count += 1,
                _ => alike.push(Alike { group: group as u64, first, size, count: 1 }),
            }
            first += size;
        }
        Grouped { collective, levels, alike }
    }

    /// Returns the stages in their order; all steps of one stage begin together.
    pub(super) fn stages(&self) -> Result<Vec<Vec<StepCopies>>, Invalid> {
        let same = self.levels.across == Across::SameIndex;
        Ok(match self.collective.operation {
            Operation::Broadcast => {
                [self.leaders(Operation::Broadcast)?, self.inside(Operation::Broadcast)?].concat()
            }
            Operation::Reduce => {
                [self.inside(Operation::Reduce)?, self.leaders(Operation::Reduce)?].concat()
            }
            Operation::Allreduce if same => [
                self.inside(Operation::ReduceScatter)?,
                self.same_index()?,
                self.inside(Operation::Allgather)?,
            ]
            .concat(),
            Operation::Allreduce => [
                self.inside(Operation::Reduce)?,
                self.leaders(Operation::Allreduce)?,
                self.inside(Operation::Broadcast)?,
            ]
            .concat(),
            Operation::ReduceScatter => [
                self.inside(Operation::Reduce)?,
                self.leaders(Operation::ReduceScatter)?,
                self.parts(|task| task.scatter()),
            ]
            .concat(),
            Operation::Allgather => [
                self.parts(|task| task.scatter().backwards(Kind::Copy)),
                self.leaders(Operation::Allgather)?,
                self.inside(Operation::Broadcast)?,
            ]
            .concat(),
            Operation::AllToAll => self.exchange(),
        })
    }

    fn ranks(&self) -> u64 {
        self.collective.ranks.into()
    }

    fn task(&self, ranks: u64, bytes: u64) -> Task {
        Task::new(ranks, bytes, self.collective.chunk)
    }

    /// Returns the group of the root, and the root's index in it.
    fn root(&self) -> (u64, u64) {
        let root = if self.collective.operation.has_root() { self.collective.root } else { 0 };
        self.levels.group_of(root)
    }

    /// Returns the index of the rank that acts for a group of `size` ranks.
    fn leader(&self, size: u64) -> u64 {
        self.root().1.min(size - 1)
    }

    fn group(&self, alike: &Alike, step: Step, window: (u64, u64)) -> StepCopies {
        let base = Base::Blocks { first: alike.first };
        let (root, copies) = (self.leader(alike.size), alike.count);
        let (folded, switch) = (step.folded, self.ranks() + alike.group);
        let place = Placement { size: alike.size, folded, root, base, switch, copies };
        StepCopies { step, place, window }
    }

    /// Returns the steps of an operation on all bytes inside every group.
    fn inside(&self, operation: Operation) -> Result<Vec<Vec<StepCopies>>, Invalid> {
        let parts = self.alike.iter().map(|alike| {
            let steps = self.task(alike.size, self.collective.bytes);
            let steps = steps.steps(self.levels.inner, operation)?;
            Ok(steps.into_iter().map(|step| self.group(alike, step, (0, 0))).collect())
        });
        Ok(side_by_side(parts.collect::<Result<_, Invalid>>()?))
    }

    /// Returns a step that runs inside every group, on the parts of the buffer that belong to the group's ranks.
    fn parts(&self, step: impl Fn(&Task) -> Step) -> Vec<Vec<StepCopies>> {
        let (bytes, ranks) = (self.collective.bytes, self.ranks());
        if bytes == 0 {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for alike in self.alike.iter().filter(|alike| alike.size > 1) {
            if bytes.is_multiple_of(ranks) {
                let group = alike.size * (bytes / ranks);
                let window = (alike.first * (bytes / ranks), group);
                parts.push(self.group(alike, step(&self.task(alike.size, group)), window));
                continue;
            }
            for i in 0..alike.count {
                let first = alike.first + i * alike.size;
                let one = Alike { first, group: alike.group + i, count: 1, ..*alike };
                let borders = (first..=first + alike.size).map(|rank| cut(bytes, ranks, rank));
                let task = Task { shards: Shards::at(borders.collect()), ..self.task(1, 0) };
                parts.push(self.group(&one, step(&task), (0, 0)));
            }
        }
        vec![parts]
    }

    /// Returns the steps of an operation across groups, in which one rank of each group takes part.
    fn leaders(&self, operation: Operation) -> Result<Vec<Vec<StepCopies>>, Invalid> {
        let (firsts, bytes) = (self.levels.firsts(), self.collective.bytes);
        let groups = self.levels.groups.len() as u64;
        let leaders = firsts.iter().zip(&self.levels.groups);
        let leaders = leaders.map(|(first, &size)| (first + self.leader(size.into())) as u32);
        let base = Base::List(leaders.collect::<Vec<_>>().into());
        let mut task = self.task(groups, bytes);
        if matches!(operation, Operation::Allgather | Operation::ReduceScatter) {
            let ends = firsts.iter().copied().chain([self.ranks()]);
            let borders = ends.map(|first| cut(bytes, self.ranks(), first)).collect();
            task.shards = Shards::at(borders);
        }
        let steps = task.steps(self.levels.outer, operation)?.into_iter();
        let place = |folded| {
            let (root, switch) = (self.root().0, self.ranks() + groups);
            Placement { size: groups, folded, root, base: base.clone(), switch, copies: 1 }
        };
        let copies =
            |step: Step| vec![StepCopies { place: place(step.folded), step, window: (0, 0) }];
        Ok(steps.map(copies).collect())
    }

    /// Returns the steps of an allreduce of the i-th part among the i-th ranks of all groups. The first parts may be
    /// a byte longer.
    fn same_index(&self) -> Result<Vec<Vec<StepCopies>>, Invalid> {
        let (size, groups) = (self.alike[0].size, self.levels.groups.len() as u64);
        let longer = self.collective.bytes % size;
        let both = [(0, longer), (longer, size - longer)].into_iter();
        let parts = both.filter(|&(_, copies)| copies > 0).map(|(first, copies)| {
            let start = cut(self.collective.bytes, size, first);
            let bytes = cut(self.collective.bytes, size, first + 1) - start;
            let steps = self.task(groups, bytes).steps(self.levels.outer, Operation::Allreduce)?;
            let base = Base::Strided { first, apart: size };
            let switch = self.ranks() + groups + first;
            let place = Placement { size: groups, folded: false, root: 0, base, switch, copies };
            let part = |step: Step| {
                let place = Placement { folded: step.folded, ..place.clone() };
                StepCopies { place, step, window: (start, bytes) }
            };
            Ok(steps.into_iter().map(part).collect())
        });
        Ok(side_by_side(parts.collect::<Result<_, Invalid>>()?))
    }

    fn exchange(&self) -> Vec<Vec<StepCopies>> {
        let shards = Shards::fair(self.collective.bytes, self.ranks());
        if shards.bytes() == 0 || shards.parts() < 2 {
            return Vec::new();
        }
        let step = Step::new(Shape::TwoLevel(TwoLevel { shards, size: self.alike[0].size }));
        vec![vec![StepCopies { step, place: Placement::whole(self.ranks(), 0), window: (0, 0) }]]
    }
}

/// Merges lists of steps into stages: the first stage has the first step of each list, the second stage the second
/// steps, and so on.
fn side_by_side(parts: Vec<Vec<StepCopies>>) -> Vec<Vec<StepCopies>> {
    let mut stages: Vec<Vec<StepCopies>> = Vec::new();
    for steps in parts {
        for (i, part) in steps.into_iter().enumerate() {
            if i == stages.len() {
                stages.push(Vec::new());
            }
            stages[i].push(part);
        }
    }
    stages
}
