//! Cases about slow GPUs among those that make a step together.

use super::super::runs::{simulate, written};

/// A model whose layers are split over the four GPUs of each of two nodes: 2 s a step at normal speed.
const TWO_NODES: &str = r#"
name = "s"
run = { steps = 4, warm_up = "off", replications = 1 }
cluster = { nodes = 1, node = { gpus = 4, cores = 8 }, group.other = { nodes = 1, node.gpu_speed = 1 } }
storage.m.memory = {}
dataset.d = { samples = 100_000, sample_size = "1 kB" }
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "m"
batch = 8
loader.in-memory = {}
model.step = "16 s"
parallel.pipeline = { stages = 1, schedule = "1f1b", micro_batches = 8 }
parallel.tensor = { ranks = 8, ranks_per_node = 4, allreduces = 2, activations = "0 B" }
"#;

/// Returns the time of each step of a job with these faults and this speed of the GPUs on node 1 [s].
fn step(text: &str, faults: &str, speed: f64) -> f64 {
    let speed = speed.to_string();
    let changes = [("fault", faults), ("cluster.group.other.node.gpu_speed", &speed)];
    simulate(&written(text, &changes)).makespan / 4.0
}

#[track_caller]
fn near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{what}: {found}, not {expected}");
}

#[test]
fn the_slowest_gpu_sets_the_pace_of_gpus_that_make_a_step_together() {
    let two = |gpus: &str| format!("{{ node = \"gpus\", nodes = [0], {gpus}factor = 0.5 }}");
    let (first, second) = (two("gpus = [0], "), two("gpus = [1], "));
    near(step(TWO_NODES, &format!("[{first}, {second}]"), 1.0), 4.0, "two GPUs at half speed");
    near(step(TWO_NODES, &format!("[{first}, {first}]"), 1.0), 8.0, "one GPU at a quarter");
    // The GPUs of the node at half speed are not yet slower than the others.
    near(step(TWO_NODES, "[]", 0.5), 4.0, "unequal nodes");
    near(step(TWO_NODES, &format!("[{}]", two("")), 0.5), 4.0, "a fault on the fast node");
}

#[test]
fn a_fault_of_a_node_slows_stages_that_have_later_gpus_there() {
    let second = "[{ node = \"gpus\", nodes = [1], factor = 0.5 }]";
    near(step(TWO_NODES, second, 1.0), 4.0, "tensor-parallel ranks");
    let context = TWO_NODES.replace(
        "ranks = 8, ranks_per_node = 4, allreduces = 2, activations = \"0 B\" }",
        "ranks = 4, ranks_per_node = 4, allreduces = 2, activations = \"0 B\" }\n\
         parallel.context = { ranks = 2, attentions = 2, keys_values = \"0 B\" }",
    );
    let (none, slow) = (step(&context, "[]", 1.0), step(&context, second, 1.0));
    near(slow, 2.0 * none, "context-parallel ranks");
}

#[test]
fn steps_take_as_long_as_on_the_slowest_gpu_under_all_faults() {
    // System: GPUs of two speeds, and up to three faults of random nodes, GPUs and factors at once. Expectation: a step takes 2 s
    // divided by the speed of the slowest GPU, which is its normal speed times the factors of all faults that slow it.
    let mut state = 3_u64;
    let mut draw = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for _ in 0..240 {
        let speeds = [1.0, (4 + draw(20)) as f64 / 10.0];
        let mut factors = [[1.0_f64; 4]; 2];
        let mut faults = Vec::new();
        for _ in 0..draw(4) {
            let factor = (1 + draw(9)) as f64 / 10.0;
            let nodes: &[usize] = [&[0, 1][..], &[0], &[1], &[0, 1]][draw(4) as usize];
            let gpus: Vec<usize> = (0..4).filter(|_| draw(2) == 0).collect();
            let named = if gpus.is_empty() { String::new() } else { format!("gpus = {gpus:?}, ") };
            for node in nodes {
                let slowed = if gpus.is_empty() { &[0, 1, 2, 3][..] } else { &gpus };
                slowed.iter().for_each(|gpu| factors[*node][*gpu] *= factor);
            }
            faults.push(format!(
                "{{ node = \"gpus\", nodes = {nodes:?}, {named}factor = {factor} }}"
            ));
        }
        let faults = format!("[{}]", faults.join(", "));
        let all = factors.iter().zip(speeds).flat_map(|(of, speed)| of.map(|of| of * speed));
        let expected = 2.0 / all.fold(f64::INFINITY, f64::min);
        near(step(TWO_NODES, &faults, speeds[1]), expected, &format!("{speeds:?} {faults}"));
    }
}
