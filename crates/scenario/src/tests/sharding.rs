//! Tests of how states are sharded and gradients exchanged where a step is simulated pass by pass.

use super::*;

const SCENARIO: &str = r#"
name = "sharded"
[run]
steps = 4
[cluster]
nodes = 4
[cluster.node]
cores = 8
gpus = 4
intra = { kind = "switch", bandwidth = "100 GB/s" }
[cluster.network]
nic = "1 GB/s"
[storage.ram.memory]
[dataset.d]
samples = 100000
sample_size = "8 kB"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "ram"
batch = 4
loader.in-memory = {}
model = { catalogue = "bert-base", sequence = 512, step = "1 s", precision = "bf16" }
parallel.data.copies_per_node = 4
parallel.pipeline = { stages = 1, schedule = "1f1b", micro_batches = 1 }
sync.allreduce = {}
"#;

/// Returns the scenario with these overrides.
fn resolve(overrides: &[&str]) -> Result<Scenario, Problems> {
    let overrides: Vec<Override> =
        overrides.iter().map(|text| text.parse().expect("a key and a value")).collect();
    ScenarioFile::parse("a.toml", SCENARIO.to_owned()).expect("it is TOML").resolve(&overrides)
}

fn job(overrides: &[&str]) -> Job {
    resolve(overrides).unwrap_or_else(|problems| panic!("{problems}")).jobs.remove(0)
}

fn refused(overrides: &[&str]) -> String {
    resolve(overrides).map(|_| ()).expect_err("it is wrong").to_string()
}

#[test]
fn sharding_without_a_stage_of_zero_is_refused() {
    for zero in ["{ groups = \"node\" }", "{}"] {
        let problem = refused(&[&format!("job.j.parallel.zero={zero}")]);
        assert!(problem.contains("the key `stage` is missing"), "{problem}");
        assert!(problem.contains("write `stage = 3`"), "{problem}");
        assert_eq!(problem.matches("error:").count(), 1, "{problem}");
    }
}

#[test]
fn a_secondary_partition_over_all_ranks_is_refused() {
    let problem = refused(&["job.j.parallel.zero={ stage = 3, secondary = \"all\" }"]);
    assert!(problem.contains("job.j.parallel.zero.secondary"), "{problem}");
    assert!(problem.contains("leave out `secondary`"), "{problem}");
}

#[test]
fn too_many_gpus_are_refused_before_groups_of_them_are_laid_out() {
    for (nodes, copies) in [(200_000, 10_000), (1_000_000, 10_000)] {
        let changes = [
            "job.j.parallel.zero={ stage = 1, groups = \"node\" }".to_owned(),
            format!("cluster.nodes={nodes}"),
            format!("cluster.node.gpus={copies}"),
            format!("job.j.nodes={nodes}"),
            format!("job.j.parallel.data.copies_per_node={copies}"),
        ];
        let problem = refused(&changes.each_ref().map(String::as_str));
        assert!(problem.contains("too many to simulate"), "{problem}");
        assert!(!problem.contains("cannot be divided"), "{problem}");
    }
}

#[test]
fn groups_save_the_traffic_between_nodes_that_is_left_by_secondary_partitions_and_quantisation() {
    // System: 4 nodes of 4 ranks; a step reduce-scatters gradients once and, at stage 3, gathers parameters twice. With groups,
    // each shard of gradients crosses nodes twice in an allreduce. Expectation: 1 − 2 ÷ (1 + gathers between nodes).
    let saved = |zero: &str| job(&[&format!("job.j.parallel.zero={zero}")]).saved_by_groups();
    let near = |zero: &str, expected: f64| {
        assert!((saved(zero) - expected).abs() < 1e-12, "{zero}: {}", saved(zero));
    };
    near("{ stage = 3 }", 1.0 / 3.0);
    near("{ stage = 3, secondary = \"node\" }", 0.0);
    near("{ stage = 3, secondary = { size = 8 } }", 1.0 / 3.0);
    near("{ stage = 3, quantised_weights = { ratio = 0.75 } }", 0.2);
    near("{ stage = 3, quantised_weights = { ratio = 0.25 } }", 0.0);
}

#[test]
fn sparse_gradients_of_context_ranks_are_as_many_whatever_the_ratio() {
    // System: 16 ranks, 2 in each of 8 model copies, split sequences and send the largest r of their gradients. Expectation: a rank
    // gathers 16 r times the uncompressed bytes, also at r = 1/8, where the gradients of 8 copies are as large as uncompressed ones.
    let bytes = |ratio: f64| {
        let job = job(&[
            "cluster.nodes=8",
            "job.j.nodes=8",
            "job.j.parallel.data.copies_per_node=1",
            "job.j.parallel.context.ranks=2",
            "job.j.parallel.pipeline.micro_batches=1",
            &format!("job.j.sync.allreduce.compression.sparse.ratio={ratio}"),
        ]);
        let (of, sync) =
            (job.parallelism.as_ref().expect("split"), job.sync.as_ref().expect("one"));
        let buckets = of.buckets(sync, &[1.0], 0);
        let sum = |size: fn(&StageBucket) -> u64| buckets.iter().map(size).sum::<u64>() as f64;
        sum(|bucket| bucket.bytes) / sum(|bucket| bucket.raw)
    };
    for ratio in [0.1249, 0.125, 0.1251] {
        let found = bytes(ratio) / (16.0 * ratio);
        assert!((found - 1.0).abs() < 1e-3, "{ratio}: {found}");
    }
}

#[test]
fn schedules_that_do_not_fit_into_gpu_memory_are_not_offered() {
    // System: a model on eight stages, which needs a few per cent more memory with interleaved stages than with 1F1B.
    let offered = |memory: f64| {
        let job = job(&[
            "cluster.nodes=1",
            "cluster.node.gpus=8",
            &format!("cluster.node.gpu_memory=\"{memory} GB\""),
            "job.j.nodes=1",
            "job.j.batch=32",
            "job.j.sync={ allreduce = {} }",
            "job.j.model={ catalogue = \"gpt3-6.7b\", precision = \"bf16\", optimizer = \"adam\", step = \"1 s\" }",
            "job.j.parallel={ pipeline = { stages = 8, schedule = \"1f1b\", micro_batches = 8 } }",
        ]);
        let interleaved =
            |of: &OtherSchedule| matches!(of.parallelism.schedule, Schedule::Interleaved { .. });
        let most = |of: &OtherSchedule| {
            of.footprints.iter().fold(0.0, |most, held| held.total().max(most))
        };
        (
            job.other_schedules.iter().any(interleaved),
            job.other_schedules.iter().map(most).fold(0.0, f64::max),
        )
    };
    assert!(offered(1000.0).0);
    let (interleaved, most) = offered(124.0);
    assert!(!interleaved);
    assert!(most <= 124e9, "{most}");
}
