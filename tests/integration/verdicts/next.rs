//! The limit behind the first one.

use super::constructed::RANKS;
use super::{find, judged, limit};
use crate::runs::Case;

#[test]
fn the_next_limit_is_the_resource_that_binds_once_the_first_is_lifted() {
    // System: a ring of 16 GPUs on two nodes, through NICs of 12.5 GB/s and links of 20 GB/s between the GPUs of a node, for 12 steps and
    // for 300. Expectation: NICs are a limit and the links inside nodes are not, but bytes, which pass both, are more of one.
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
        let (_, verdict) = judged(&Case::written(&ranks, &changes));
        // Half the bytes save more than NICs twice as fast, which leave the links.
        let (bytes, nics) = (limit(&verdict, "gradients"), limit(&verdict, "network.nic"));
        assert!(bytes.after < 0.9 * nics.after, "{}", verdict.text);
        assert!(find(&verdict, "intra.bandwidth").is_none(), "{}", verdict.text);
    }
}
