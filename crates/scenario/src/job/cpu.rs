//! How a job's threads use cores, apart from their CPU time: quota, inner threads, memory traffic.

use super::Job;
use super::rules::Rules;
use super::settings::JobSettings;
use crate::Node;
use crate::check::Check;
use crate::document::NodeId;
use crate::field::Field;
use crate::number::{Amount, Count, Factor, Share};
use crate::role::Role;
use forebay_model::units::Time;
use schemars::JsonSchema;

/// Smallest quota that a control group can be held to: 1 ms in each 100 ms [cores].
const LEAST_QUOTA: f64 = 0.01;
/// Period of a quota unless it is set [s]: the kernel's default, which container runtimes keep.
const PERIOD: f64 = 0.1;
/// Shortest and longest period that the kernel takes [s].
const PERIODS: [f64; 2] = [1e-3, 1.0];
/// Largest factor by which waiting for memory may slow a core.
const SLOWEST: f64 = 1e6;

/// How the threads of a job use cores, apart from their CPU time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuUse {
    /// Cores that each copy may use on each node, as a control group's quota [cores]; infinite if not set.
    pub quota: f64,
    /// Period in which the quota holds [s]: a copy that has used the core-seconds of a period waits for the next one. `None`: the
    /// quota holds at every instant.
    pub period: Option<f64>,
    /// Threads that share a worker's computing for one sample; `None` if one thread does all of it.
    pub inner: Option<InnerThreads>,
    /// Memory traffic of a core while it works for the loader: bytes moved to and from memory [B/core-s].
    pub traffic: f64,
}

impl Default for CpuUse {
    fn default() -> CpuUse {
        CpuUse { quota: f64::INFINITY, period: None, inner: None, traffic: 0.0 }
    }
}

/// Threads inside an operation, as OpenMP or OpenCV start them; each runs on at most one core.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InnerThreads {
    /// Number of threads that share the computing for one sample.
    pub threads: u32,
    /// Speed of each thread relative to a thread that works alone: above 0, at most 1.
    pub efficiency: f64,
}

/// Threads inside an operation of a worker, as OpenMP or OpenCV start them.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InnerSettings {
    /// Threads that share the computing for one sample.
    #[schemars(required)]
    #[schemars(extend("x-role" = Role::Limit))]
    threads: Field<Count<1, 1000>>,
    /// Speed of each thread relative to a thread that works alone, above 0 and at most 1 (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    efficiency: Field<Share>,
}

impl JobSettings {
    /// Returns how the job's threads use cores.
    pub(super) fn cpu(&self, check: Check<'_>) -> CpuUse {
        if let Some((at, quota)) = self.cpu_quota.given()
            && quota.0 < LEAST_QUOTA
        {
            let what =
                format!("{} cores are less than the smallest quota of a control group", quota.0);
            check.wrong(at, what, format!("write at least {LEAST_QUOTA}"));
        }
        let inner = self.inner_threads.given();
        CpuUse {
            quota: self.cpu_quota.get().map_or(f64::INFINITY, |quota: &Factor| quota.0),
            period: self.cpu_period(check),
            inner: inner.and_then(|(at, inner)| inner.resolve(check, at)),
            traffic: self.memory_traffic.get().map_or(0.0, |traffic| traffic.0),
        }
    }
}

impl JobSettings {
    /// Returns the period of the quota [s]; `None` if there is no quota, or if it holds at every instant.
    fn cpu_period(&self, check: Check<'_>) -> Option<f64> {
        let period = self.cpu_period.get().map_or(PERIOD, |period: &Amount<Time>| period.0);
        if let (Some(at), true) = (self.cpu_period.at, period > 0.0)
            && !(PERIODS[0]..=PERIODS[1]).contains(&period)
        {
            let what = "the kernel takes periods of 1 ms to 1 s";
            check.wrong(
                at,
                what,
                "write \"100 ms\", or \"0 s\" for a quota that holds at every instant",
            );
            return None;
        }
        if self.cpu_quota.get().is_none() {
            check.no_effect(self.cpu_period.at, "`cpu_quota` is not set");
            return None;
        }
        (period > 0.0).then_some(period)
    }
}

impl InnerSettings {
    fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<InnerThreads> {
        let threads = check.required(at, &self.threads, "threads", "write `threads = 4`");
        let efficiency = self.efficiency.get().map_or(1.0, |share| share.0);
        if let Some((at, Share(share))) = self.efficiency.given()
            && *share < 1e-3
        {
            let what = format!("with an efficiency of {share} the threads get nothing done");
            check.wrong(at, what, "write a number from 0.001 to 1");
            return None;
        }
        Some(InnerThreads { threads: threads?.small(), efficiency })
    }
}

impl Rules<'_> {
    /// Checks that memory traffic slows a core at most by the factor `SLOWEST`.
    pub(super) fn check_traffic(&self, job: &Job, node: &Node) {
        let slowdown = job.cpu.traffic / node.memory_bandwidth;
        if slowdown > SLOWEST {
            let bandwidth = self.check.find(&["cluster", "node", "memory_bandwidth"]);
            let at = self.check.blame(&[self.settings.memory_traffic.at, bandwidth], self.at);
            let what = format!("memory slows a busy core by a factor of {slowdown:.0e}");
            let remedy = format!(
                "write a `memory_traffic` of at most {SLOWEST:.0e} times `cluster.node.memory_bandwidth`"
            );
            self.check.wrong(at, what, remedy);
        }
    }

    /// Remarks where memory traffic, copies to devices or a quota have no effect.
    pub(super) fn remark_cpu(&self, job: &Job, node: &Node) {
        if job.cpu.traffic > 0.0 && node.memory_bandwidth.is_infinite() {
            self.check.remark(format!(
                "`job.{}.memory_traffic` has no effect: `cluster.node.memory_bandwidth` is not set.",
                job.name
            ));
        }
        if job.loader.requests.is_some() && job.copies_to_devices() && node.pcie.is_infinite() {
            self.check.remark(format!(
                "`job.{}.loader.pytorch.to_device` has no effect: `cluster.node.pcie` is not set.",
                job.name
            ));
        }
        if job.cpu.quota >= node.usable_cores && job.cpu.quota.is_finite() {
            self.check.remark(format!(
                "`job.{}.cpu_quota` has no effect: a node has {} cores.",
                job.name, node.usable_cores
            ));
        }
    }
}
