//! Cases about faults and memory on single nodes, and about what reports say of checkpoints.

use forebay::report::{Verdict, text};

use super::{case, report_of};
use crate::runs::{Case, written};
use crate::verdicts::{judged, thoroughly_judged};

/// Four nodes whose NICs are nearly fast enough for 64 samples of 100 kB each 11 ms.
const READING: &str = r#"
name = "f"
run = { steps = 200, replications = 1, seed = 1 }
cluster = { nodes = 4, node = { cores = 16, gpus = 1, page_cache = "none" }, network.nic = "1 GB/s" }
storage.nfs.file-server = { bandwidth = "100 GB/s" }
dataset.d = { samples = 10_000_000, sample_size = "100 kB" }
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "nfs"
batch = 64
loader.pytorch = { workers = 16, decode = "1 ms" }
model.step = "11 ms"
"#;

fn needs(verdict: &Verdict) -> Vec<(String, f64)> {
    verdict.needs.iter().map(|need| (need.resource.clone(), need.needed)).collect()
}

#[test]
fn needs_beside_faults_of_several_nodes_are_those_of_the_slowest_node() {
    // System: 582 MB/s are needed, and NICs at half of 1 GB/s give 500 MB/s. Expectation: twice the bare need, whether one node or
    // two are slow, and four times if both faults are of one node, in steps of a fifth.
    let need = |nodes: [u32; 2]| {
        let one = |node: u32| format!("{{ link = \"nic\", nodes = [{node}], factor = 0.5 }}");
        let faults = format!("[{}, {}]", one(nodes[0]), one(nodes[1]));
        let verdict = thoroughly_judged(&Case::written(READING, &[("fault", &faults)]));
        let found = needs(&verdict).into_iter().find(|(resource, _)| resource == "node.nic");
        found.unwrap_or_else(|| panic!("{}", verdict.text)).1
    };
    let bare = 64.0 * 100e3 / 11e-3;
    let just_enough = |said: f64, times: f64| {
        assert!((0.95..1.25).contains(&(said / times / bare)), "{said}, not {times} × {bare}");
    };
    just_enough(need([0, 1]), 2.0);
    just_enough(need([0, 0]), 4.0);
}

#[test]
fn faults_of_nodes_that_a_job_is_not_on_do_not_change_its_verdict() {
    // System: too few workers on nodes 0 and 1; the NIC of node 3 has a tenth of its speed. Expectation: the verdict without it.
    let changes =
        [("job.nodes", "2"), ("job.loader.pytorch.workers", "4"), ("cluster.node.cores", "8")];
    let of = |fault: &str| {
        judged(&Case::written(READING, &[&changes[..], &[("fault", fault)]].concat())).1
    };
    let healthy = of("[]");
    let faulty = of("[{ link = \"nic\", nodes = [3], factor = 0.1 }]");
    assert!(healthy.text.contains("workers"), "{}", healthy.text);
    assert_eq!(faulty.text, healthy.text);
    assert_eq!(needs(&faulty), needs(&healthy));
}

/// Two nodes, the second one of a group, that keep a state of 60 GB until it is written.
const KEEPING: &str = r#"
name = "g"
run = { steps = 300, replications = 1, seed = 1, warm_up = "off" }
[cluster]
nodes = 1
node = { cores = 8, gpus = 1, memory = "256 GB" }
group.small = { nodes = 1, node = { memory = "16 GB" } }
network.nic = "10 GB/s"
[storage]
ram.memory = {}
scratch.file-server = { bandwidth = "1 GB/s" }
[dataset.d]
samples = 10_000_000
sample_size = "8 kB"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "ram"
batch = 16
loader.in-memory = {}
model.step = "1 s"
[job.checkpoint]
interval = "60 s"
bytes = "60 GB"
storage = "scratch"
writers = "each"
asynchronous = true
pause = "1 s"
"#;

#[test]
fn states_that_wait_to_be_written_are_compared_with_the_memory_of_each_node() {
    // System: each node keeps 30 GB, or the first one 60 GB. Expectation: a warning if a node with 16 GB keeps a state, with the key
    // of its memory.
    let said = |changes: &[(&str, &str)]| {
        let warnings = report_of(&written(KEEPING, changes)).warnings;
        warnings.into_iter().find(|of| of.contains("keeps in the memory")).unwrap_or_default()
    };
    let swapped = [("cluster.node.memory", "16 GB"), ("cluster.group.small.node.memory", "256 GB")];
    let first = ("job.checkpoint.writers", "first");
    let second = said(&[]);
    assert!(second.contains("take up to 30 GB, and node 1 has 16 GB"), "{second}");
    assert!(second.contains("more `cluster.group.small.node.memory`"), "{second}");
    // Neither a longer interval nor more writers help.
    assert!(!second.contains("interval") && !second.contains("writers"), "{second}");
    let first_node = said(&swapped);
    assert!(first_node.contains("take up to 30 GB, and node 0 has 16 GB"), "{first_node}");
    assert!(first_node.contains("more `cluster.node.memory`"), "{first_node}");
    assert_eq!(said(&[first]), "", "the first node has 256 GB");
    let whole = said(&[swapped[0], swapped[1], first]);
    assert!(whole.contains("take up to 60 GB, and node 0 has 16 GB"), "{whole}");
    assert!(whole.contains("`writers = \"each\"`"), "{whole}");
    // Small states fit one by one: the advice is to keep fewer of them at once.
    let queue = [
        ("job.checkpoint.bytes", "10 GB"),
        ("job.checkpoint.interval", "5 s"),
        ("job.checkpoint.when_busy", "queue"),
    ];
    let many = said(&queue);
    assert!(many.contains("longer interval, `when_busy = \"wait\"`, or more"), "{many}");
    assert_eq!(said(&[queue[0], queue[1]]), "", "training waits by default");
}

#[test]
fn jobs_and_their_copies_on_shared_nodes_share_the_memory_of_a_node() {
    // System: a job keeps 10 GB of 16 GB; its loader worker takes 5 GB more, and that of a second copy 5 GB. Expectation: a warning
    // for two copies only.
    let said = |copies: &str| {
        let changes = [
            (
                "cluster",
                "{ nodes = 1, share_nodes = true, node = { cores = 8, gpus = 2, memory = \"16 GB\" } }",
            ),
            ("job.nodes", "1"),
            ("job.copies", copies),
            ("job.checkpoint.bytes", "10 GB"),
            ("job.storage", "scratch"),
            ("job.worker_memory", "5 GB"),
            ("job.loader", "{ pytorch = { workers = 1 } }"),
        ];
        report_of(&written(KEEPING, &changes)).warnings.join("\n")
    };
    assert!(!said("1").contains("keeps in the memory"), "{}", said("1"));
    assert!(said("2").contains("keeps in the memory"), "{}", said("2"));
}

#[test]
fn reports_count_the_checkpoints_that_were_read_back_to_the_end() {
    // System: four nodes read 30 GB each from 1 GB/s, 120 s after a restart of 10 s; the second failure interrupts the first
    // reading. Expectation: three failures and two checkpoints read back.
    let failures =
        "{ at = [\"110 s\", \"150 s\", \"400 s\"], restart = \"10 s\", read_back = true }";
    let of = |failures: &str| {
        let changes = [
            ("cluster.nodes", "4"),
            ("cluster.group", "{}"),
            ("job.nodes", "4"),
            ("job.checkpoint.bytes", "30 GB"),
            ("job.checkpoint.interval", "20 s"),
            ("job.failures", failures),
        ];
        text::render(&report_of(&written(KEEPING, &changes)), 4000, false)
    };
    let page = of(failures);
    assert!(page.contains("3 failures"), "{page}");
    assert!(page.contains("2 checkpoints were read back, 120 GB in 2 min 0 s each;"), "{page}");
    let page = of(&failures.replace("\"150 s\", \"400 s\"", "\"150 s\""));
    assert!(page.contains("1 checkpoint was read back, 120 GB in 2 min 0 s;"), "{page}");
}

#[test]
fn reports_call_checkpoints_that_are_begun_and_not_written_pending() {
    // System: a checkpoint of 10 s falls due after each of 40 steps of 1 s. Expectation: 38 waits of 9 s, or 36 pending of 10 GB.
    let page = |busy: &str| {
        let changes = [("job.checkpoint.when_busy", busy), ("cluster.node.memory", "64 GB")];
        text::render(&report_of(&case("turn3/f10-async-interval", &changes)), 4000, false)
    };
    let (waits, queue) = (page("wait"), page("queue"));
    for (page, said) in [
        (
            &waits,
            "38 fell due while the previous one was being written; training waited 5 min 42 s in all",
        ),
        (
            &queue,
            "up to 36 were pending at once (360 GB of a node's memory); 36 were pending when the run ended",
        ),
        (&queue, "the backlog keeps growing (36 at the last checkpoint)"),
    ] {
        assert!(page.contains(said), "{page}");
    }
}
