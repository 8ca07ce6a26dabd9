//! Cases about collective algorithms and file striping.

use super::{case, report_of};

/// Returns the mean step time of the first job of a case [s].
fn step(name: &str, changes: &[(&str, &str)]) -> f64 {
    report_of(&case(name, changes)).jobs[0].figures.step_time.mean.expect("steps")
}

#[test]
fn halving_doubling_exchanges_its_largest_messages_inside_nodes() {
    // System: 1 GB among m nodes of g GPUs with 50 GB/s for each GPU inside a node and 10 GB/s for each node
    // across; latencies of 5 and 20 us; a step of 100 ms without overlap. Expectation: 2 (1 - 1/g) n bytes
    // inside and 2 (1 - 1/m) n across, and a latency for each of log g and log m exchanges in both phases: 170,
    // 180 and 135 ms.
    for (name, nodes, gpus) in [("hd4x2", 4.0, 2.0), ("hd4x4", 4.0, 4.0), ("hd2x8", 2.0, 8.0)] {
        let (g, m): (f64, f64) = (gpus, nodes);
        let bytes = 2.0 * (1.0 - 1.0 / g) / 50.0 + 2.0 * (1.0 - 1.0 / m) / 10.0;
        let latencies = 2.0 * (5e-6 * g.log2() + 20e-6 * m.log2());
        for fidelity in ["\"flow\"", "\"analytic\""] {
            let found = step(name, &[("job.sync.allreduce.fidelity", fidelity)]);
            let expected = 0.1 + bytes + latencies;
            assert!(
                (found / expected - 1.0).abs() < 1e-6,
                "{name} {fidelity}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn double_binary_tree_allreduces_span_nodes_rather_than_gpus() {
    // System: 4 nodes of 4 GPUs, double binary trees in chunks of 4 MB. Expectation: a node's NIC carries the
    // buffer twice in each direction, up and down at once: 200 ms, as the chunks are pipelined; trees over GPUs
    // would take 305 ms.
    let trees = [
        ("job.sync.allreduce.algorithm", "\"double-binary-tree\""),
        ("job.sync.allreduce.chunk", "\"4 MB\""),
    ];
    let found = step("hd4x4", &trees) - 0.1;
    assert!((0.2..0.23).contains(&found), "{found}");
}

#[test]
fn one_stripe_files_are_read_from_all_storage_targets() {
    // System: 64 workers, 10 targets of 100 MB/s, files of 1 MB in one stripe, in random order. Expectation: a
    // closed network of 64 customers at 10 equally visited processor-sharing stations serves 64 / (64 + 10 - 1)
    // of 1,000 files a second.
    let storage = |count: u32| {
        format!(
            "{{ parallel-fs = {{ targets = 10, target_bandwidth = \"100 MB/s\", stripe_count = {count} }} }}"
        )
    };
    let rate = |count: u32| {
        let changes = [
            ("storage.s", storage(count)),
            ("job.loader.pytorch.workers", "64".to_owned()),
            ("cluster.node.cores", "64".to_owned()),
            ("run.steps", "3000".to_owned()),
            ("run.warm_up", "1000".to_owned()),
            ("cluster.network.nic", "\"100 Gbit/s\"".to_owned()),
        ];
        let changes: Vec<(&str, &str)> =
            changes.iter().map(|(key, of)| (*key, of.as_str())).collect();
        10.0 / step("w", &changes)
    };
    for count in [1, 2, 4, 9, 10] {
        let found = rate(count);
        let expected = 1e3 * 64.0 / 73.0;
        assert!((found / expected - 1.0).abs() < 0.03, "{count} stripes: {found}, not {expected}");
    }
}
