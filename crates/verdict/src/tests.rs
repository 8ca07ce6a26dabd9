//! Tests of the verdict's tables and of levers.

use super::lever::{self, Source};
use super::rules;
use forebay_scenario::{Override, Reading, Role, ScenarioFile, roles};

/// Two storages, of which the first job reads one; faults, groups, and forms in which keys may be written.
const MIXED: &str = r#"
name = "mixed"
[cluster]
nodes = 3
node = { gpus = 2, cores = 16, memory = "64 GiB", page_cache.capacity = "32 GiB" }
network.nic = "10 Gbit/s"
group.old = { nodes = 1, node.cores = 4 }
[storage."my.nfs".file-server]
bandwidth = "2 GB/s"
latency = { lognormal = { median = "1 ms", p99 = "9 ms" } }
[storage.other.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 1000000
sample_size = "100 kB"
[[job]]
name = "a"
nodes = 2
dataset = "d"
storage = "my.nfs"
batch = 32
loader.pytorch = { workers = 0, decode = "5 ms" }
model = { step = "50 ms", jitter.gamma.cv = 0.1 }
sync.allreduce.gradients = "100 MB"
[[job]]
name = "b"
dataset = "d"
storage = "other"
batch = 32
loader.dali.threads = 4
model.step = "50 ms"
[[fault]]
storage = "my.nfs"
factor = 0.5
[[fault]]
link = "nic"
nodes = [0]
factor = 0.5
"#;

/// Returns the changes of all levers for a job, as options.
fn changes(text: &str, job: usize) -> Vec<String> {
    let file = ScenarioFile::parse("x.toml", text.to_owned()).unwrap_or_else(|e| panic!("{e}"));
    let source = Source { file: &file, overrides: &[], reading: Reading::default() };
    let scenario = file.resolve(&[]).unwrap_or_else(|e| panic!("{e}"));
    let all = lever::all(source, &scenario, job);
    let pasted =
        |changes: &[Override]| changes.iter().map(Override::pasted).collect::<Vec<_>>().join(" ");
    all.iter().map(|lever| pasted(&lever.changes)).collect()
}

#[test]
fn limits_are_changed_in_the_form_and_unit_of_the_file() {
    // System: amounts as quantities, distributions and counts. Expectation: twice the amount or half the time, written alike.
    let found = changes(MIXED, 0);
    for expected in [
        "--set 'storage.\"my.nfs\".file-server.bandwidth=4 GB/s'",
        "--set 'storage.\"my.nfs\".file-server.latency={ lognormal = { median = \"0.5 ms\", p99 = \"4.5 ms\" } }'",
        "--set 'cluster.network.nic=20 Gbit/s'",
        "--set cluster.node.cores=32",
        "--set cluster.group.old.node.cores=8",
        "--set job.a.loader.pytorch.workers=1",
        "--set 'job.a.loader.pytorch.decode=2.5 ms'",
        "--set 'job.a.model.step=25 ms'",
        "--set 'job.a.sync.allreduce.gradients=50 MB'",
        "--unset job.a.model.jitter",
    ] {
        assert!(found.iter().any(|of| of == expected), "{expected}: {found:#?}");
    }
}

#[test]
fn levers_of_a_job_are_those_of_what_it_uses() {
    // System: two jobs on storages of their own. Expectation: no lever of the other job, nor of the other storage.
    let [a, b] = [0, 1].map(|job| changes(MIXED, job));
    assert!(!a.iter().any(|of| of.contains("job.b.") || of.contains("storage.other")), "{a:#?}");
    assert!(!b.iter().any(|of| of.contains("job.a.") || of.contains("my.nfs")), "{b:#?}");
    assert!(b.iter().any(|of| of == "--set job.b.loader.dali.threads=8"), "{b:#?}");
    assert!(b.iter().any(|of| of == "--set job.b.loader.dali.prefetch_queue_depth=4"), "{b:#?}");
}

#[test]
fn faults_are_removed_one_by_one_and_all_together() {
    let found = changes(MIXED, 0);
    for expected in ["--unset fault.0", "--unset fault.1", "--unset fault.1 --unset fault.0"] {
        assert!(found.iter().any(|of| of == expected), "{expected}: {found:#?}");
    }
}

#[test]
fn a_larger_page_cache_gets_the_memory_that_holds_it() {
    let found = changes(MIXED, 0);
    let expected =
        "--set 'cluster.node.page_cache.capacity=64 GiB' --set 'cluster.node.memory=128 GiB'";
    assert!(found.iter().any(|of| of == expected), "{found:#?}");
}

#[test]
fn every_lever_resolves_to_another_scenario() {
    let file = ScenarioFile::parse("x.toml", MIXED.to_owned()).unwrap_or_else(|e| panic!("{e}"));
    let source = Source { file: &file, overrides: &[], reading: Reading::default() };
    let scenario = file.resolve(&[]).unwrap_or_else(|e| panic!("{e}"));
    let accepted = |lever: &lever::Lever| file.resolve(&lever.changes).is_ok();
    let scaled = lever::all(source, &scenario, 0);
    let scaled = scaled.iter().filter(|lever| lever.factor.is_some());
    for lever in scaled {
        assert!(accepted(lever), "{:?}", lever.changes);
    }
}

#[test]
fn every_row_of_the_tables_is_about_a_key() {
    // Expectation: each end or beginning of a path in the tables fits a key of the schema, so that no row is left behind.
    let keys: Vec<String> = roles().into_keys().collect();
    let fits = |end: &str| {
        let ends = |key: &String| {
            key == end || key.strip_suffix(end).is_some_and(|above| above.ends_with('.'))
        };
        keys.iter().any(ends)
    };
    let ends = rules::ends();
    let dead: Vec<&str> = ends.into_iter().filter(|end| !fits(end)).collect();
    assert!(dead.is_empty(), "{dead:?}");
    let begins = rules::begins();
    let dead: Vec<&str> =
        begins.into_iter().filter(|begin| !keys.iter().any(|key| key.starts_with(begin))).collect();
    assert!(dead.is_empty(), "{dead:?}");
}

#[test]
fn every_limit_and_choice_has_a_name_in_words() {
    for (key, role) in roles() {
        if matches!(role, Role::Limit | Role::Choice) {
            let words = rules::words(&key, Some("x"));
            assert!(
                !words.is_empty() && !words.contains('_') && !words.contains("{}"),
                "{key}: {words}"
            );
        }
    }
}
