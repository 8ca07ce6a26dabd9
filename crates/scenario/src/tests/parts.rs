//! Tests of faults of parts of the cluster, of nodes that fail, and of who writes checkpoints.

use super::*;

const SCENARIO: &str = r#"
name = "parts"
[run]
steps = 4
[cluster]
nodes = 2
[cluster.node]
cores = 8
gpus = 2
[cluster.network]
nic = "10 GB/s"
[storage.ram.memory]
[storage.ck.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 100000
sample_size = "8 kB"
[[job]]
name = "cpu"
nodes = 1
dataset = "d"
storage = "ram"
batch = 16
model.device.cpu = {}
loader.in-memory = {}
model.step = "100 ms"
[[job]]
name = "gpu"
nodes = 1
dataset = "d"
storage = "ram"
batch = 16
loader.in-memory = {}
model.step = "100 ms"
"#;

const IDLE: &str = "`fault.0.gpus` has no effect: no job uses these GPUs";

/// Returns the scenario with further lines at its end and these overrides.
fn resolve(more: &str, overrides: &[&str]) -> Result<Scenario, Problems> {
    let overrides: Vec<Override> =
        overrides.iter().map(|text| text.parse().expect("a key and a value")).collect();
    let file = ScenarioFile::parse("a.toml", format!("{SCENARIO}{more}")).expect("it is TOML");
    file.resolve(&overrides)
}

fn remarks(more: &str, overrides: &[&str]) -> String {
    let scenario = resolve(more, overrides).unwrap_or_else(|problems| panic!("{problems}"));
    scenario.remarks.join("\n")
}

fn refused(more: &str, overrides: &[&str]) -> String {
    resolve(more, overrides).map(|_| ()).expect_err("it is wrong").to_string()
}

fn fault(nodes: &str, gpus: &str) -> String {
    format!("[[fault]]\nnode = \"gpus\"\n{nodes}\ngpus = [{gpus}]\nfactor = 0.5\n")
}

#[test]
fn a_fault_of_the_gpu_of_a_job_after_one_on_cores_gets_no_remark() {
    assert!(!remarks(&fault("nodes = [1]", "0"), &[]).contains("fault"));
    assert!(remarks(&fault("nodes = [0]", "0"), &[]).contains(IDLE));
    assert!(remarks(&fault("nodes = [1]", "1"), &[]).contains(IDLE));
}

#[test]
fn gpus_of_different_nodes_do_not_count_together_for_a_fault() {
    // System: jobs that train on the first GPU of each of their nodes, which they share. Expectation: the second GPU is idle
    // unless two jobs train on the same node.
    let shared = ["cluster.share_nodes=true", "job.gpu.nodes=2"];
    assert!(remarks(&fault("", "1"), &shared).contains(IDLE));
    let two = [shared[0], shared[1], "job.gpu.copies=2"];
    assert!(!remarks(&fault("", "1"), &two).contains(IDLE));
}

#[test]
fn faults_beside_impossible_numbers_of_job_copies_are_refused_without_overflow() {
    let many = ["cluster.nodes=100000", "job.gpu.nodes=100000", "job.gpu.copies=100000"];
    for nodes in ["nodes = [5]", ""] {
        let problem = refused(&fault(nodes, "0"), &many);
        assert!(problem.contains("and the cluster has 100000"), "{problem}");
    }
}

#[test]
fn the_number_of_servers_that_write_checkpoints_matters_where_there_are_several() {
    let writers = |servers: u32| {
        let sync = format!(
            "sync.parameter-server = {{ parameters = \"100 MB\", servers = {servers} }}\n\
             checkpoint = {{ steps = 2, bytes = \"1 GB\", storage = \"ck\", writers = \"first\" }}\n"
        );
        remarks(&sync, &["cluster.nodes=4"])
    };
    assert!(!writers(2).contains("writers"), "{}", writers(2));
    assert!(writers(1).contains("`job.gpu.checkpoint.writers` has no effect"), "{}", writers(1));
}

#[test]
fn nodes_that_fail_and_are_not_there_are_told_in_grammatical_words() {
    let failing = |at: &str, nodes: &str| {
        let failures =
            format!("failures = {{ at = [{at}], nodes = [{nodes}], restart = \"1 s\" }}\n");
        refused(&format!("checkpoint = {{ steps = 2, bytes = \"1 GB\" }}\n{failures}"), &[])
    };
    let beyond = failing("\"1 s\"", "3");
    assert!(beyond.contains("node 3 fails, and the job has 1 node\n"), "{beyond}");
    assert!(beyond.contains("write 0\n") || beyond.ends_with("write 0"), "{beyond}");
    let few = failing("\"1 s\", \"2 s\"", "0");
    assert!(few.contains("1 node for 2 times in `at`"), "{few}");
    assert!(few.contains("`nodes = [0, 0]`"), "{few}");
}

#[test]
fn nodes_of_random_failures_get_one_remark() {
    let said = remarks(
        "checkpoint = { steps = 2, bytes = \"1 GB\", storage = \"ck\" }\n\
         failures = { mtbf = \"1 h\", nodes = [0], restart = \"1 s\" }\n",
        &[],
    );
    assert_eq!(said.matches("`job.gpu.failures.nodes` has no effect").count(), 1, "{said}");
}
