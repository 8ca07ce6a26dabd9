//! Simultaneous multithreading, and the capacity of a node's cores by number of threads.

use super::{Node, Scheduling};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Count, Factor};
use crate::role::Role;
use schemars::JsonSchema;
use serde::Deserialize;

/// Simultaneous multithreading: a core that runs several threads at once gets more done, but not
/// several times as much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smt {
    /// Number of hardware threads of a core; at least 2.
    pub threads_per_core: u32,
    /// Throughput of a core with all its threads at work, relative to one thread.
    pub gain: f64,
}

impl Smt {
    /// Returns the throughput of `cores` cores with `threads` threads, relative to one thread on each core. Each
    /// thread beyond the number of cores adds the same amount, until every core runs all its hardware threads.
    #[must_use]
    pub fn factor(&self, cores: u32, threads: u32) -> f64 {
        let most = f64::from(cores) * f64::from(self.threads_per_core - 1);
        let beyond = f64::from(threads.saturating_sub(cores)).min(most);
        1.0 + (self.gain - 1.0) * beyond / most
    }
}

impl Node {
    /// Returns the throughput of all cores with `threads` threads, relative to one core with one thread [cores].
    #[must_use]
    pub fn core_capacity(&self, threads: u32) -> f64 {
        let threads = threads.max(1);
        let busy = threads.min(self.cores.max(1));
        let speed = self.core_speed.get(threads as usize - 1).or(self.core_speed.last());
        let factor = self.smt.map_or(1.0, |smt| smt.factor(self.cores, threads));
        // A quota may leave part of a core; threads share what it leaves.
        let part = self.usable_cores < f64::from(self.cores);
        let most = if part { self.usable_cores } else { f64::INFINITY };
        (f64::from(busy) * speed.copied().unwrap_or(1.0) * factor).min(most)
    }

    /// Returns the number of threads up to which the capacity of the cores must be tabulated. It is 1 if cores have
    /// one hardware thread each and do not slow each other down.
    #[must_use]
    pub fn most_threads(&self) -> u32 {
        let slowed = self.core_speed.iter().any(|speed| *speed != 1.0)
            || self.usable_cores < f64::from(self.cores);
        let most = match self.smt {
            Some(smt) => self.cores.saturating_mul(smt.threads_per_core),
            None if slowed => self.cores,
            None => 1,
        };
        if slowed { most.max(self.core_speed.len() as u32) } else { most }
    }
}

/// Hardware threads of a core.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SmtSettings {
    /// Number of hardware threads of a core (default: 2).
    #[schemars(extend("x-role" = Role::Limit))]
    threads_per_core: Field<Count<2, 16>>,
    /// Throughput of a core with all its threads at work, relative to one thread: at least 1.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    r#yield: Field<Factor>,
}

impl SmtSettings {
    pub(super) fn resolve(
        &self,
        check: Check<'_>,
        at: NodeId,
        scheduling: Scheduling,
    ) -> Option<Smt> {
        if scheduling == Scheduling::Fifo {
            let what = "with \"fifo\" scheduling a core runs one task at a time";
            check.wrong(at, what, "remove `smt`, or write `scheduling = \"shared\"`");
        }
        let remedy =
            "write `yield = 1.25`: throughput of a core with all its threads busy, relative to one";
        let threads_per_core = self.threads_per_core.get().map_or(2, |threads| threads.small());
        let gain = check.required(at, &self.r#yield, "yield", remedy)?.0;
        if !(1.0..=f64::from(threads_per_core)).contains(&gain) {
            let what = format!(
                "{threads_per_core} threads of a core cannot get {gain} times as much done as one"
            );
            let remedy = format!("write a number from 1 to {threads_per_core}");
            check.wrong(self.r#yield.at.unwrap_or(at), what, remedy);
            return None;
        }
        Some(Smt { threads_per_core, gain })
    }
}
