//! The limit behind the first one.

use super::constructed::RANKS;
use super::judged;
use crate::runs::written;

#[test]
fn the_next_limit_is_the_resource_that_binds_once_the_first_is_lifted() {
    // System: a ring of 16 GPUs on two nodes, through NICs of 12.5 GB/s and links of 20 GB/s between the GPUs of a node, for 12 steps and
    // for 300. Expectation: NICs are the limit, and the links inside nodes the next one, not the bytes that pass both.
    let ranks = RANKS
        .replace("gpus = 2", "gpus = 8")
        .replace("copies_per_node = 2", "copies_per_node = 8")
        .replace("bandwidth = \"50 GB/s\"", "bandwidth = \"20 GB/s\"")
        .replace("nic = \"10 GB/s\"", "nic = \"12.5 GB/s\"");
    for steps in ["12", "300"] {
        let changes = [
            ("run", format!("{{ steps = {steps}, replications = 1 }}")),
            ("job.sync.allreduce", "{ gradients = \"2 GB\", algorithm = \"ring\" }".to_owned()),
        ];
        let changes = changes.each_ref().map(|(key, value)| (*key, value.as_str()));
        let (_, verdict) = judged(&written(&ranks, &changes));
        let first = &verdict.limits[0];
        assert_eq!(first.lever, "nic", "{}", verdict.text);
        assert_eq!(
            first.next.as_deref(),
            Some("links between the GPUs of a node"),
            "{}",
            verdict.text
        );
    }
}
