//! Servers that have the parameters: how `[job.sync.….server]` and `consistency` are written.

use super::gradients::{Bucket, OfModel};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use forebay_model::units::Bandwidth;
use schemars::JsonSchema;
use serde::Deserialize;

/// Most servers.
const MOST_SERVERS: u64 = 10_000;
/// Most parts of buckets at all servers.
const MOST_PARTS: usize = 1_000_000;
/// Most bytes of all parameters.
const MOST_BYTES: u64 = 1 << 53;
/// Most steps that a model copy may be ahead.
const MOST_AHEAD: u64 = 1_000_000_000;

/// Servers that have the parameters: model copies push what they have learnt and pull what all have (M. Li et
/// al., *Scaling Distributed Machine Learning with the Parameter Server*, OSDI 2014).
#[derive(Debug, Clone, PartialEq)]
pub struct Servers {
    /// Where they are.
    pub place: ServerPlace,
    /// Rate at which a core adds what was pushed to the parameters [B/s]; may be infinite.
    pub update: f64,
    /// Exchanges that a model copy may be ahead of the slowest one; `None`: any number.
    pub slack: Option<u64>,
    /// By bucket, then server, what each model copy pushes and pulls.
    pub parts: Vec<Vec<BucketShare>>,
}

/// What a server has of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketShare {
    /// Bytes that a model copy pushes [B].
    pub push: u64,
    /// Bytes that it pulls [B].
    pub pull: u64,
}

/// Where servers are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServerPlace {
    /// On nodes of their own beside the cluster's, one on each.
    Own {
        /// Bandwidth of its NIC in each direction [B/s]; may be infinite.
        nic: f64,
        /// Its cores.
        cores: u32,
    },
    /// On the nodes of the job, one after the other.
    WithWorkers,
}

impl Servers {
    /// How many.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.parts.first().map_or(0, |parts| parts.len() as u32)
    }

    /// Of the parameters, what each has.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let mut held = vec![0.0; self.number() as usize];
        for (of, part) in self.parts.iter().flat_map(|parts| parts.iter().enumerate()) {
            held[of] += part.pull as f64;
        }
        let all: f64 = held.iter().sum();
        if all == 0.0 {
            // What is less than a byte is at the first.
            held.iter_mut().take(1).for_each(|first| *first = 1.0);
            return held;
        }
        held.iter().map(|of| of / all).collect()
    }

    /// On how many nodes of their own they are.
    #[must_use]
    pub fn own_nodes(&self) -> u32 {
        match self.place {
            ServerPlace::Own { .. } => self.number(),
            ServerPlace::WithWorkers => 0,
        }
    }

    /// Whether all model copies' gradients of a step make one update.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        self.slack == Some(0)
    }
}

/// When what is pulled is new enough.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Consistency {
    /// When all model copies have pushed the step before: all gradients of a step make one update.
    Synchronous,
    /// At once: each model copy goes on by itself.
    Asynchronous,
    /// When the slowest model copy is at most so many steps behind: stale-synchronous (Q. Ho et al., *More
    /// Effective Distributed ML via a Stale Synchronous Parallel Parameter Server*, NIPS 2013).
    Stale(Field<Count<0, MOST_AHEAD>>),
}

impl Consistency {
    /// Exchanges that a model copy may be ahead; `None` if that is wrong.
    fn slack(&self) -> Option<Option<u64>> {
        match self {
            Self::Synchronous => Some(Some(0)),
            Self::Asynchronous => Some(None),
            Self::Stale(steps) => steps.get().map(|steps| Some(steps.0)),
        }
    }
}

/// Whose nodes servers are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Placement {
    /// Nodes of their own.
    Own,
    /// The job's.
    WithWorkers,
}

/// Who has which parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Split {
    /// Each as many bytes of each bucket.
    Even,
    /// Whole buckets, each at the server that has least.
    Buckets,
}

/// What a server is.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerSettings {
    /// On nodes of their "own", or "with-workers" on the nodes of the job (default: "own").
    placement: Field<Placement>,
    /// Bandwidth of a server's NIC in each direction (default: `cluster.network.nic`).
    nic: Field<Positive<Bandwidth>>,
    /// Cores of a server (default: `cluster.node.cores`).
    cores: Field<Count<1, 100_000>>,
    /// Rate at which one core adds pushed bytes to the parameters (default: infinite).
    update: Field<Positive<Bandwidth>>,
    /// Whether each server has as much of each bucket, "even", or whole "buckets" (default: "even").
    split: Field<Split>,
}

/// What is written of servers.
pub(super) struct Written<'s> {
    pub(super) number: &'s Field<Count<1, MOST_SERVERS>>,
    pub(super) server: &'s Field<ServerSettings>,
    pub(super) consistency: &'s Field<Consistency>,
    /// What is meant where no consistency is written.
    pub(super) slack: Option<u64>,
    /// Whether messages cost cores.
    pub(super) costly: bool,
}

/// How many servers there are.
pub(super) type Number = Count<1, MOST_SERVERS>;

impl Written<'_> {
    /// The servers of buckets that are pushed as `pushed` and pulled as `pulled`, of the table at node `at`; `None` if
    /// that is wrong.
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        of: &OfModel,
        pushed: &[Bucket],
        pulled: &[Bucket],
    ) -> Option<Servers> {
        let none = ServerSettings::default();
        let server = match self.server.given() {
            Some((_, server)) => server,
            None if self.server.is_written() => return None,
            None => &none,
        };
        let slack = match self.consistency.get() {
            Some(consistency) => consistency.slack()?,
            None if self.consistency.is_written() => return None,
            None => self.slack,
        };
        if of.ranks == 1 {
            check.no_effect(self.consistency, "there is one model copy");
        }
        let place = server.place(check, of, self.costly);
        self.check_amount(check, at, pulled)?;
        let number = self.number.get().map_or(1, |number| number.small()) as usize;
        let split = server.split.get().copied().unwrap_or(Split::Even);
        let parts = parts(split, number, pushed, pulled);
        if split == Split::Buckets && pushed.len() < number {
            let (buckets, idle) = (pushed.len(), number - pushed.len());
            check.remark(format!(
                "{idle} of {number} servers have nothing to do: {buckets} whole buckets are dealt out."
            ));
        }
        let update = server.update.get().map_or(f64::INFINITY, |rate| rate.0);
        Some(Servers { place, update, slack, parts })
    }

    /// There are not more parts, or bytes, than can be followed.
    fn check_amount(&self, check: Check<'_>, at: NodeId, buckets: &[Bucket]) -> Option<()> {
        let parts =
            buckets.len().saturating_mul(self.number.get().map_or(1, |n| n.small()) as usize);
        if parts > MOST_PARTS {
            let what = format!("there are {parts} parts of buckets at servers");
            check.wrong(at, what, "write larger `buckets`, or fewer `servers`");
            return None;
        }
        let bytes = buckets.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.bytes));
        if bytes > MOST_BYTES {
            let what = format!("there are {bytes} bytes of parameters");
            check.wrong(at, what, format!("write at most {MOST_BYTES} B"));
            return None;
        }
        Some(())
    }
}

impl ServerSettings {
    fn place(&self, check: Check<'_>, of: &OfModel, costly: bool) -> ServerPlace {
        if self.placement.get() == Some(&Placement::WithWorkers) {
            let why = "servers are on the nodes of the job, and use what these have";
            check.no_effect(&self.nic, why);
            check.no_effect(&self.cores, why);
            return ServerPlace::WithWorkers;
        }
        if !self.update.is_written() && !costly {
            check.no_effect(
                &self.cores,
                "servers add in no time without `update`, and messages cost no core",
            );
        }
        ServerPlace::Own {
            nic: self.nic.get().map_or(of.nic, |nic| nic.0),
            cores: self.cores.get().map_or(of.cores, |cores| cores.small()),
        }
    }
}

/// What each of `number` servers has of each bucket.
fn parts(
    split: Split,
    number: usize,
    pushed: &[Bucket],
    pulled: &[Bucket],
) -> Vec<Vec<BucketShare>> {
    let mut held = vec![0_u64; number];
    let both = pushed.iter().zip(pulled);
    let of = |(pushed, pulled): (&Bucket, &Bucket)| match split {
        Split::Even => (0..number as u64)
            .map(|server| BucketShare {
                push: share(pushed.bytes, number as u64, server),
                pull: share(pulled.bytes, number as u64, server),
            })
            .collect(),
        Split::Buckets => {
            let least = (0..number).min_by_key(|server| held[*server]).unwrap_or(0);
            held[least] = held[least].saturating_add(pulled.bytes);
            let mut parts = vec![BucketShare { push: 0, pull: 0 }; number];
            parts[least] = BucketShare { push: pushed.bytes, pull: pulled.bytes };
            parts
        }
    };
    both.map(of).collect()
}

/// Bytes of part number `part` of `parts`, which differ by one byte at most.
fn share(bytes: u64, parts: u64, part: u64) -> u64 {
    bytes / parts + u64::from(part < bytes % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_the_whole() {
        // System: buckets of 10, 4, 3 and 7 B on three servers. Expectation: evenly, all bytes to a byte alike;
        // whole ones to whoever has least.
        let bucket = |bytes| Bucket { bytes, raw: bytes, tensors: 1, ready: 1.0, compress: 0.0 };
        let buckets = [10, 4, 3, 7].map(bucket);
        let held = |split: Split| {
            let parts = parts(split, 3, &buckets, &buckets);
            let sum = |server: usize| parts.iter().map(|of| of[server].pull).sum::<u64>();
            [sum(0), sum(1), sum(2)]
        };
        assert_eq!(held(Split::Even), [10, 7, 7]);
        assert_eq!(held(Split::Buckets), [10, 4, 10]);
    }
}
