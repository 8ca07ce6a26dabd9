//! Cases about checkpoints that are read back after a failure: from where, by whom, and how long it takes.

use forebay::report::RecoveryOutcome;

use super::super::runs::{simulate, written};

/// A job with steps of 1 s that fails once, after it has written checkpoints of 4 GB.
const FAILS: &str = r#"
name = "f"
run = { steps = 26, warm_up = "off", replications = 1 }
cluster = { nodes = 8, node = { gpus = 1, cores = 4, memory = "100 GB" }, network.nic = "10 GB/s" }
storage.m.memory = {}
storage.s.local-disk = { bandwidth = "1 GB/s" }
dataset.d = { samples = 100_000, sample_size = "1 kB" }
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model.step = "1 s"
sync.allreduce.gradients = "10 MB"
checkpoint = { steps = 10, bytes = "4 GB", storage = "s", writers = "each" }
failures = { at = ["25.5 s"], nodes = [1], restart = "3 s", read_back = true, node = "restarted" }
"#;

const DISK: &str = "local-disk = { bandwidth = \"1 GB/s\"";
const QUEUES: &str = "nvme-of = { queues = 4, bandwidth = \"1 GB/s\"";
const TARGETS: &str = "parallel-fs = { targets = 4, target_bandwidth = \"1 GB/s\", stripe_count = 1, stripe_size = \"1 MB\"";

fn recovery(storage: &str, changes: &[(&str, &str)]) -> RecoveryOutcome {
    let storage = format!("{{ {storage} }} }}");
    let changes = [&[("storage.s", &*storage)], changes].concat();
    let of = simulate(&written(FAILS, &changes)).jobs.remove(0).recovery.expect("checkpoints");
    assert_eq!(of.read_backs, 1, "{of:?}");
    of
}

#[track_caller]
fn near(of: &RecoveryOutcome, bytes: f64, seconds: f64, what: &str) {
    let equal = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
    assert!(
        equal(of.read_back, bytes) && equal(of.reading_seconds, seconds),
        "{what}: {} B in {} s, not {bytes} B in {seconds} s",
        of.read_back,
        of.reading_seconds
    );
}

#[test]
fn page_caches_that_hold_the_data_set_hold_no_checkpoints() {
    // System: four nodes read a checkpoint back, each its file from its own disk, or each all of it from one storage. Expectation:
    // the same if the page caches hold the files of the storage that a job reads, since checkpoints are not among these.
    for (storage, bytes, seconds) in [(DISK, 4e9, 1.0), (QUEUES, 16e9, 16.0)] {
        for access in ["cold", "warm"] {
            let of = recovery(&format!("{storage}, access = \"{access}\""), &[]);
            near(&of, bytes, seconds, access);
        }
    }
}

#[test]
fn servers_read_the_files_that_servers_wrote() {
    // System: four parameter servers, of which the first writes each checkpoint, or each writes its part. Expectation: they read
    // one file, which is on one target or on the first server's disk, at 1 GB/s; or four files side by side.
    let beside = "{ parameters = \"100 MB\", servers = 4, server.placement = \"with-workers\" }";
    let apart = "{ parameters = \"100 MB\", servers = 4, server.placement = \"own\" }";
    for (writers, seconds) in [("first", 4.0), ("each", 1.0)] {
        for (storage, servers) in [(TARGETS, beside), (TARGETS, apart), (DISK, beside)] {
            let of = recovery(
                storage,
                &[
                    ("job.j.sync", &format!("{{ parameter-server = {servers} }}")),
                    ("job.j.checkpoint.writers", writers),
                ],
            );
            near(&of, 4e9, seconds, &format!("{writers} {storage} {servers}"));
        }
    }
}
