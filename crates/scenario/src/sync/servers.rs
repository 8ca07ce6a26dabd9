//! Parameter servers: the settings `[job.sync.….server]` and `consistency`.

use super::gradients::{Bucket, OfModel};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Positive};
use crate::role::Role;
use forebay_model::units::Bandwidth;
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum number of servers.
const MOST_SERVERS: u64 = 10_000;
/// Maximum number of parts of buckets, over all servers.
const MOST_PARTS: usize = 1_000_000;
/// Maximum number of bytes of all parameters.
const MOST_BYTES: u64 = 1 << 53;
/// Maximum number of steps that a model copy may be ahead of the slowest one.
const MOST_AHEAD: u64 = 1_000_000_000;

/// Parameter servers: they hold the parameters, model copies push gradients or parameters to them and pull
/// parameters from them (M. Li et al., *Scaling Distributed Machine Learning with the Parameter Server*, OSDI
/// 2014).
#[derive(Debug, Clone, PartialEq)]
pub struct Servers {
    /// Nodes that the servers run on.
    pub place: ServerPlace,
    /// Rate at which a core adds pushed bytes to the parameters [B/s]; may be infinite.
    pub update: f64,
    /// Exchanges that a model copy may be ahead of the slowest one; `None`: any number.
    pub slack: Option<u64>,
    /// Bytes that each model copy pushes and pulls, by bucket, then by server.
    pub parts: Vec<Vec<BucketShare>>,
    split: Split,
}

/// A server's part of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketShare {
    /// Bytes that a model copy pushes [B].
    pub push: u64,
    /// Bytes that a model copy pulls [B].
    pub pull: u64,
}

/// Nodes that servers run on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServerPlace {
    /// Servers run on nodes of their own beside the cluster's nodes, one server on each.
    Own {
        /// Bandwidth of a server's NIC in each direction [B/s]; may be infinite.
        nic: f64,
        /// Number of cores of a server.
        cores: u32,
    },
    /// Servers run on the nodes of the job, round robin.
    WithWorkers,
}

impl Servers {
    /// Returns the parts of buckets of `sizes` bytes, pushed and pulled, that each server holds, by bucket, then by server.
    /// `held` has for each server the bytes of other buckets that it holds, to which those of these buckets are added.
    #[must_use]
    pub fn divide(
        &self,
        held: &mut Vec<u64>,
        sizes: impl Iterator<Item = (u64, u64)>,
    ) -> Vec<Vec<BucketShare>> {
        held.resize(self.number() as usize, 0);
        sizes.map(|sizes| self.split.of(held, sizes)).collect()
    }

    /// Returns the number of servers.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.parts.first().map_or(0, |parts| parts.len() as u32)
    }

    /// Returns the share of the parameters that each server holds.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let mut held = vec![0.0; self.number() as usize];
        for (of, part) in self.parts.iter().flat_map(|parts| parts.iter().enumerate()) {
            held[of] += part.pull as f64;
        }
        let all: f64 = held.iter().sum();
        if all == 0.0 {
            // Parameters of less than a byte are at the first server.
            held.iter_mut().take(1).for_each(|first| *first = 1.0);
            return held;
        }
        held.iter().map(|of| of / all).collect()
    }

    /// Returns the number of nodes that only servers run on.
    #[must_use]
    pub fn own_nodes(&self) -> u32 {
        match self.place {
            ServerPlace::Own { .. } => self.number(),
            ServerPlace::WithWorkers => 0,
        }
    }

    /// Returns whether the gradients that all model copies make in a step are applied in one update.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        self.slack == Some(0)
    }
}

/// When a model copy may pull parameters.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Consistency {
    /// Parameters may be pulled when all model copies have pushed their gradients of the step: all gradients of a
    /// step make one update.
    Synchronous,
    /// Parameters may be pulled at once: each model copy goes on by itself.
    Asynchronous,
    /// Parameters may be pulled when the slowest model copy is at most this many steps behind: stale-synchronous (Q.
    /// Ho et al., *More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server*, NIPS 2013).
    Stale(Field<Count<0, MOST_AHEAD>>),
}

impl Consistency {
    /// Returns the number of exchanges that a model copy may be ahead of the slowest one, `Some(None)` for any
    /// number; `None` if the setting is wrong.
    fn slack(&self) -> Option<Option<u64>> {
        match self {
            Self::Synchronous => Some(Some(0)),
            Self::Asynchronous => Some(None),
            Self::Stale(steps) => steps.get().map(|steps| Some(steps.0)),
        }
    }
}

/// Nodes that servers run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Placement {
    /// Servers run on nodes of their own.
    Own,
    /// Servers run on the nodes of the job.
    WithWorkers,
}

/// How parameters are split among servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Split {
    /// Each server holds equally many bytes of each bucket.
    Even,
    /// Each bucket is whole on one server: the server that holds the fewest bytes so far.
    Buckets,
}

/// Placement, hardware and speed of a server.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerSettings {
    /// Nodes that servers run on: "own": nodes of their own; "with-workers": the nodes of the job (default: "own").
    #[schemars(extend("x-role" = Role::Choice))]
    placement: Field<Placement>,
    /// Bandwidth of a server's NIC in each direction (default: `cluster.network.nic`).
    #[schemars(extend("x-role" = Role::Limit))]
    nic: Field<Positive<Bandwidth>>,
    /// Cores of a server (default: `cluster.node.cores`).
    #[schemars(extend("x-role" = Role::Limit))]
    cores: Field<Count<1, 100_000>>,
    /// Rate at which one core adds pushed bytes to the parameters (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    update: Field<Positive<Bandwidth>>,
    /// How parameters are split among servers: "even": equally many bytes of each bucket; "buckets": whole buckets
    /// (default: "even").
    #[schemars(extend("x-role" = Role::Choice))]
    split: Field<Split>,
}

/// The keys of a sync table that describe its servers.
pub(super) struct Written<'s> {
    pub(super) number: &'s Field<Count<1, MOST_SERVERS>>,
    pub(super) server: &'s Field<ServerSettings>,
    pub(super) consistency: &'s Field<Consistency>,
    /// Number of exchanges that a model copy may be ahead of the slowest one if `consistency` is not set; `None`:
    /// any number.
    pub(super) slack: Option<u64>,
    /// Whether messages cost core time.
    pub(super) costly: bool,
}

/// Number of servers.
pub(super) type Number = Count<1, MOST_SERVERS>;

impl Written<'_> {
    /// Checks the keys of the table at document node `at` and returns the servers that they describe; `None` if a
    /// key is wrong. `pushed` and `pulled` are the buckets with the bytes that model copies push and pull.
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
            check.no_effect(self.consistency.at, "there is one model copy");
        }
        let place = server.place(check, of, self.costly);
        self.check_amount(check, at, pulled)?;
        let number = self.number.get().map_or(1, |number| number.small()) as usize;
        let split = server.split.get().copied().unwrap_or(Split::Even);
        let (mut held, both) = (vec![0; number], pushed.iter().zip(pulled));
        let sizes = both.map(|(pushed, pulled)| (pushed.bytes, pulled.bytes));
        let parts = sizes.map(|sizes| split.of(&mut held, sizes)).collect();
        if split == Split::Buckets && pushed.len() < number {
            let (buckets, idle) = (pushed.len(), number - pushed.len());
            check.remark(format!(
                "{idle} of {number} servers have nothing to do: there are only {buckets} buckets, and each bucket is whole on one server."
            ));
        }
        let update = server.update.get().map_or(f64::INFINITY, |rate| rate.0);
        Some(Servers { place, update, slack, parts, split })
    }

    /// Checks that the parts of buckets, and the bytes of parameters, are few enough to be simulated; reports a
    /// problem and returns `None` if not.
    fn check_amount(&self, check: Check<'_>, at: NodeId, buckets: &[Bucket]) -> Option<()> {
        let parts =
            buckets.len().saturating_mul(self.number.get().map_or(1, |n| n.small()) as usize);
        if parts > MOST_PARTS {
            let what = format!("the servers have {parts} parts of buckets: too many to simulate");
            check.wrong(at, what, "write larger `buckets`, or fewer `servers`");
            return None;
        }
        let bytes = buckets.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.bytes));
        if bytes > MOST_BYTES {
            let what = format!("there are {bytes} bytes of parameters");
            check.wrong(at, what, format!("write at most {MOST_BYTES} bytes of parameters"));
            return None;
        }
        Some(())
    }
}

impl ServerSettings {
    fn place(&self, check: Check<'_>, of: &OfModel, costly: bool) -> ServerPlace {
        if self.placement.get() == Some(&Placement::WithWorkers) {
            let why = "servers share the NICs and cores of the job's nodes";
            check.no_effect(self.nic.at, why);
            check.no_effect(self.cores.at, why);
            return ServerPlace::WithWorkers;
        }
        if !self.update.is_written() && !costly {
            check.no_effect(
                self.cores.at,
                "servers do no work: `update` is not written, and messages cost no core time",
            );
        }
        ServerPlace::Own {
            nic: self.nic.get().map_or(of.nic, |nic| nic.0),
            cores: self.cores.get().map_or(of.cores, |cores| cores.small()),
        }
    }
}

impl Split {
    /// Returns the part of a bucket that each server holds; `held` has the bytes that each server holds so far.
    fn of(self, held: &mut [u64], (push, pull): (u64, u64)) -> Vec<BucketShare> {
        let number = held.len() as u64;
        match self {
            Split::Even => (0..number)
                .map(|server| BucketShare {
                    push: share(push, number, server),
                    pull: share(pull, number, server),
                })
                .collect(),
            Split::Buckets => {
                let least = (0..held.len()).min_by_key(|server| held[*server]).unwrap_or(0);
                held[least] = held[least].saturating_add(pull);
                let mut parts = vec![BucketShare { push: 0, pull: 0 }; held.len()];
                parts[least] = BucketShare { push, pull };
                parts
            }
        }
    }
}

/// Returns the bytes of part number `part` if `bytes` is split into `parts` parts that differ by one byte at most.
fn share(bytes: u64, parts: u64, part: u64) -> u64 {
    bytes / parts + u64::from(part < bytes % parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_servers_together_hold_all_bytes_of_gradient_buckets() {
        // System: buckets of 10, 4, 3 and 7 B on three servers. Expectation: split evenly, the parts of a bucket
        // differ by one byte at most; whole buckets go to the server that holds the fewest bytes.
        let held = |split: Split| {
            let mut held = vec![0; 3];
            let parts = [10, 4, 3, 7].map(|bytes| split.of(&mut held, (bytes, bytes)));
            let sum = |server: usize| parts.iter().map(|of| of[server].pull).sum::<u64>();
            [sum(0), sum(1), sum(2)]
        };
        assert_eq!(held(Split::Even), [10, 7, 7]);
        assert_eq!(held(Split::Buckets), [10, 4, 10]);
    }
}
