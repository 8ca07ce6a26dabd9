//! Tests of storages whose files page caches hold from the start: `access = "warm"`.

use super::*;

const SCENARIO: &str = r#"
name = "warm"
[run]
steps = 4
[cluster]
nodes = 1
[cluster.node]
cores = 8
gpus = 2
memory = "256 GB"
[storage.a.local-disk]
access = "warm"
[dataset.w]
samples = 900
sample_size = "100 MB"
[[job]]
name = "j"
dataset = "w"
storage = "a"
batch = 10
loader.pytorch = { workers = 2 }
model.step = "10 ms"
"#;

/// Keys of a checkpoint of the job, which come after its other keys.
const CHECKPOINT: &str = "checkpoint = { steps = 2, bytes = \"1 GB\" }\n";
const DISK: &str = "[storage.a.local-disk]";
const TARGET: &str = "[storage.a.nvme-of]";

/// Returns the scenario with these changes and further lines at its end.
fn resolve(changes: &[(&str, &str)], more: &str) -> Result<Scenario, Problems> {
    let mut text = SCENARIO.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    ScenarioFile::parse("a.toml", text + more).expect("it is TOML").resolve(&[])
}

fn right(changes: &[(&str, &str)], more: &str) -> Scenario {
    resolve(changes, more).unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(changes: &[(&str, &str)], more: &str) -> String {
    resolve(changes, more).map(|_| ()).expect_err("it is wrong").to_string()
}

#[test]
fn a_warm_storage_that_is_only_read_needs_no_limits_of_its_own() {
    for changes in [&[][..], &[(DISK, TARGET)]] {
        let said = right(changes, "").remarks.join("\n");
        assert!(!said.contains("effect"), "{said}");
    }
}

#[test]
fn a_warm_storage_that_is_written_to_needs_its_own_bandwidth() {
    let disk = refused(&[], CHECKPOINT);
    assert!(disk.contains("the key `bandwidth` is missing"), "{disk}");
    assert_eq!(disk.matches("error:").count(), 1, "{disk}");
    let target = refused(&[(DISK, TARGET)], CHECKPOINT);
    assert!(target.contains("the key `bandwidth` is missing"), "{target}");
    assert!(target.contains("the key `queues` is missing"), "{target}");
    let load = "[[background]]\nname = \"b\"\nstorage = \"a\"\nstreams = { streams = 2 }\n";
    let target = refused(&[(DISK, TARGET)], load);
    assert!(target.contains("the key `bandwidth` is missing"), "{target}");
}

#[test]
fn requests_of_warm_files_take_the_core_time_that_the_file_sets() {
    let cpu = "access = \"warm\"\ncpu = { fixed = \"5 ms\", per_byte = \"1 ns\" }";
    for kind in [DISK, TARGET] {
        let scenario = right(&[(DISK, kind), ("access = \"warm\"", cpu)], "");
        let found = scenario.storage[0].reads().cpu;
        assert_eq!(found, ReadCpu { fixed: 5e-3, per_byte: 1e-9 }, "{kind}");
    }
}

/// Changes to a second job, which reads 60 GB from storage `c` with this `access` on the node of the first, whose page cache has
/// `capacity` and whose files are 90 GB.
fn together(capacity: &str, access: &str) -> [(&'static str, String); 3] {
    let cache = format!("gpus = 2\npage_cache = {{ capacity = \"{capacity}\" }}");
    let storage = format!(
        "{DISK}\nbandwidth = \"1 GB/s\"\n[storage.c.local-disk]\nbandwidth = \"1 GB/s\"\naccess = \"{access}\"\n\
         [dataset.k]\nsamples = 600\nsample_size = \"100 MB\"\n{DISK}"
    );
    let storage = storage.replacen(&format!("{DISK}\nbandwidth = \"1 GB/s\"\n"), "", 1);
    [
        ("nodes = 1", "nodes = 1\nshare_nodes = true".to_owned()),
        ("gpus = 2", cache),
        (DISK, storage),
    ]
}

const SECOND: &str = r#"
[[job]]
name = "second"
dataset = "k"
storage = "c"
batch = 10
loader.pytorch = { workers = 2 }
model.step = "10 ms"
"#;

#[test]
fn warm_files_of_one_job_leave_less_of_the_page_cache_to_another() {
    // System: a page cache of 100 GB, which holds 90 GB from the start. Expectation: 10 GB are left.
    let changes = together("100 GB", "cold");
    let changes: Vec<_> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
    let scenario = right(&changes, SECOND);
    let left = scenario.page_cache(&scenario.jobs[1], &scenario.cluster.node);
    assert_eq!(left, Some(10e9));
}

#[test]
fn warm_files_of_all_jobs_of_a_node_must_fit_into_its_page_cache() {
    // System: 90 and 60 GB in a page cache of 100 or 150 GB.
    let changes = together("100 GB", "warm");
    let changes: Vec<_> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
    let problem = refused(&changes, SECOND);
    assert!(problem.contains("the page cache holds 100.0 GB of 150.0 GB"), "{problem}");
    let less = "memory = \"140 GB\"";
    let larger = together("150 GB", "warm");
    let mut changes: Vec<_> = larger.iter().map(|(from, to)| (*from, to.as_str())).collect();
    right(&changes, SECOND);
    changes.push(("memory = \"256 GB\"", less));
    let problem = refused(&changes, SECOND);
    assert!(problem.contains("the page cache holds 140.0 GB of 150.0 GB"), "{problem}");
    // Jobs that read the same files share them.
    let changes = together("100 GB", "cold");
    let changes: Vec<_> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
    let same = SECOND.replace("\"k\"", "\"w\"").replace("\"c\"", "\"a\"");
    right(&changes, &same);
}

#[test]
fn limits_and_faults_of_a_storage_that_is_only_read_warm_get_a_remark() {
    let limits = "access = \"warm\"\nbandwidth = \"1 GB/s\"\nqueues = 8\noperations = \"10 /s\"";
    let target = [(DISK, TARGET), ("access = \"warm\"", limits)];
    let fault = "[[fault]]\nstorage = \"a\"\nfactor = 0.1\n";
    let copied = format!("copy = {{ to = \"l\" }}\n{fault}[storage.l.memory]\n");
    let nic = ("gpus = 2", "gpus = 2\n[cluster.network]\nnic = \"1 GB/s\"");
    let nic = (nic.0, nic.1.replace("gpus = 2", "gpus = 2\nmemory = \"256 GB\""));
    let on_network = [target[0], target[1], ("memory = \"256 GB\"\n", ""), (nic.0, nic.1.as_str())];
    for more in [fault, &copied] {
        let said = right(&on_network, more).remarks.join("\n");
        for expected in [
            "The limits of `storage.a` have no effect",
            "`fault.0.storage` has no effect: page caches hold all files of this storage",
            "`cluster.network.nic` has no effect",
        ] {
            assert!(said.contains(expected), "{expected}\n{said}");
        }
    }
    let said = right(&target, &format!("{CHECKPOINT}{fault}")).remarks.join("\n");
    assert!(!said.contains("effect"), "{said}");
}
