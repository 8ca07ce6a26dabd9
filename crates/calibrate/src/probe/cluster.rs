//! The table `[cluster]` of a plan: what several nodes measure together. The probes themselves run on several nodes, and so elsewhere;
//! the samples that they make are named here.

use super::{Bytes, Count, List, Seconds};
use schemars::JsonSchema;
use serde::Deserialize;

/// Names of the probes that several nodes run together, in the order in which they run.
pub const CLUSTER_PROBES: [&str; 8] = [
    "pair",
    "shared-read",
    "service",
    "shared-open",
    "shared-write",
    "allreduce",
    "nccl",
    "beside",
];

/// The table `[cluster]` of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettings {
    /// Largest size of the files that each node writes for the others to read, at most 1,000 of them.
    pub disk: Bytes,
    /// Sizes of the files that are read; each read opens a file and reads it whole.
    pub size: List<Bytes>,
    /// Numbers of threads of each node that read or write at the same time.
    pub streams: List<Count>,
    /// Numbers of nodes that work at the same time; larger numbers than there are nodes are left out (default: 1, 2, 4, … and all).
    pub nodes: Option<List<Count>>,
    /// Time of a trial that counts (default: "1 s"). Trials with so many or so large requests that few end in that time take up to five
    /// times as long.
    pub window: Option<Seconds>,
    /// Time of a trial before its requests count (default: "300 ms").
    pub before: Option<Seconds>,
    /// Number of trials of each kind (default: 3).
    pub trials: Option<Count>,
    /// Number of rounds in which each node is paired with another one, all pairs at once (default: 3).
    pub rounds: Option<Count>,
    /// Whether every node is paired with every other one, in as many rounds as it takes (default: false).
    pub all_pairs: Option<bool>,
    /// Whether all nodes send to one at once, which can disturb others on the same switches (default: false).
    pub incast: Option<bool>,
    /// Sizes of the vectors that all nodes add up (default: none).
    pub allreduce: Option<List<Bytes>>,
    /// Size of a checkpoint that each thread writes (default: nothing is written). Where this would take longer than three seconds, less is written.
    pub checkpoint: Option<Bytes>,
    /// Bytes that all nodes together may read and write on the shared storage (default: "200 GB").
    pub most_bytes: Option<Bytes>,
    /// Files that all nodes together may open (default: 2,000,000).
    pub most_operations: Option<u64>,
}

/// Largest number of files that a node writes.
const MOST_FILES: u64 = 1000;

impl ClusterSettings {
    /// Returns the sizes of the files that a node writes, each with their number.
    #[must_use]
    pub fn files(&self) -> Vec<(u64, u64)> {
        let sizes = self.size.0.len() as u64;
        let (share, most) = (self.disk.0 / sizes, MOST_FILES / sizes);
        self.size.iter().map(|size| (size.0, (share / size.0).min(most))).collect()
    }

    /// Returns why the settings contradict each other, with a remedy; `None` if they do not.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let (streams, sizes) = (self.streams.iter().max()?.0 as u64, self.size.0.len() as u64);
        let (largest, smallest) = (self.size.iter().max()?.0, self.size.iter().min()?.0);
        if sizes > MOST_FILES / 4 {
            return Some(format!(
                "cluster.size: {sizes} sizes are too many; write at most {}",
                MOST_FILES / 4
            ));
        }
        // Each thread has a file of its own.
        let needed = streams.saturating_mul(sizes).saturating_mul(largest);
        if self.disk.0 < needed {
            return Some(format!(
                "cluster.disk: {} B are too few for a file of each size for {streams} threads; write at least \"{needed} B\"",
                self.disk.0
            ));
        }
        (streams > MOST_FILES / sizes).then(|| {
            format!(
                "cluster.streams: {streams} threads need as many files of {smallest} B, and a node writes at most {MOST_FILES} of all sizes; write fewer threads or sizes"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> ClusterSettings {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn files_of_a_node_stay_below_their_limits() {
        let of = settings("disk = \"128 MiB\"\nsize = [\"16 KiB\", \"4 MiB\"]\nstreams = [1, 4]");
        assert_eq!(of.files(), [(16 << 10, 500), (4 << 20, 16)]);
        assert_eq!(of.problem(), None);
    }

    #[test]
    fn contradictory_settings_are_refused_with_a_remedy() {
        let few =
            settings("disk = \"1 MiB\"\nsize = [\"4 MiB\"]\nstreams = [4]").problem().unwrap();
        assert!(few.contains("at least \"16777216 B\""), "{few}");
        let many = settings("disk = \"1 GiB\"\nsize = [\"4 KiB\"]\nstreams = [2000]").problem();
        assert!(many.unwrap().contains("at most 1000"));
    }
}
