//! Nodes of several kinds, and jobs with more model copies on some nodes than on others.

use super::runs::{near, repository, run, simulate, step, written};
use super::support::forebay;
use forebay::collective::{Across, Algorithm, Collective, Cost, Levels, Operation, closed_form};
use forebay::report::{Outcome, Owner};
use forebay::scenario::{ScenarioFile, Tree};

/// Bytes of all gradients.
const BYTES: u64 = 120_000_000;

/// Returns a job with steps of 100 ms on `nodes` nodes; `cluster` has further keys of the cluster after its
/// first two nodes, `job` further keys of the job.
fn text(cluster: &str, nodes: u32, job: &str) -> String {
    format!(
        r#"# What do other nodes cost?
name = "kinds"
[run]
steps = 6
warm_up = "off"
[cluster]
nodes = 2
node = {{ cores = 8, gpus = 4, intra = {{ kind = "switch", bandwidth = "20 GB/s", latency = "2 us" }} }}
network = {{ nic = "1 GB/s", latency = "10 us" }}
{cluster}
[storage.memory.memory]
[dataset.d]
samples = 120000
sample_size = "100 kB"
[[job]]
name = "j"
nodes = {nodes}
dataset = "d"
storage = "memory"
batch = 8
model.step = "100 ms"
loader.in-memory = {{}}
{job}
"#
    )
}

const RING: &str = "[job.sync.allreduce]\ngradients = \"120 MB\"\nalgorithm = \"ring\"\n\
                    transport.nccl = { latency = \"0 s\", latency_inside = \"0 s\" }";

#[test]
fn the_slowest_accelerator_of_a_job_sets_its_step_time() {
    // System: two nodes, then one whose GPUs are half as fast, then one of the first kind. Expectation: steps
    // of 100 ms without the slow node, 200 ms with it, whatever follows; jobs on other nodes are not slowed.
    let groups = "[cluster.group.old]\nnodes = 1\nnode = { gpu_speed = 0.5 }\n\
                  [cluster.group.new]\nnodes = 1\n";
    for (nodes, expected) in [(1, 0.1), (2, 0.1), (3, 0.2), (4, 0.2)] {
        near(step(&run(&text(groups, nodes, ""))), expected, &format!("{nodes} nodes"));
    }
    let apart = written(&text(groups, 1, "copies = 4"), &[]);
    let steps: Vec<f64> = simulate(&apart).jobs.iter().map(step).collect();
    for (found, expected) in steps.iter().zip([0.1, 0.1, 0.2, 0.1]) {
        near(*found, expected, &format!("{steps:?}"));
    }
    // Gradients of the slow node are ready last: 0.2 s, and a ring of three with 40 MB in each of 4 phases.
    near(step(&run(&text(groups, 3, RING))), 0.2 + 0.16, "with gradients");
}

#[test]
fn gpu_models_differ_in_peak_flops_supported_precisions_and_memory_size() {
    // System: step times of ResNet-50 from FLOPs on V100, of 15.7 TFLOPS, and P100 with PCIe. Expectation:
    // longer by the ratio of their peaks; GPUs that lack the precision, or have too little memory, are refused
    // if the job runs on them.
    let of = |first: &str, group: &str, model: &str, nodes| {
        let model = format!("model = {{ catalogue = \"resnet50\", efficiency = 0.4, {model} }}");
        text(&format!("[cluster.group.old]\nnodes = 1\nnode = {{ {group} }}\n"), nodes, "")
            .replace("gpus = 4", &format!("gpus = 4, gpu = \"{first}\""))
            .replace("model.step = \"100 ms\"", &model)
    };
    let peak = |name| forebay::catalogue::gpu(name).expect("known").fp32;
    let time =
        |nodes| step(&run(&of("v100-sxm2", "gpu = \"p100-pcie\"", "precision = \"fp32\"", nodes)));
    near(time(3) / time(2), peak("v100-sxm2") / peak("p100-pcie"), "by their peaks");
    let wrong = |text: String| {
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).map_err(|problems| problems.to_string())
    };
    let bf16 =
        |nodes| wrong(of("a100-sxm4-80gb", "gpu = \"v100-sxm2\"", "precision = \"bf16\"", nodes));
    assert_eq!(bf16(2), Ok(()));
    let found = bf16(3).expect_err("no bf16");
    assert!(found.contains("`v100-sxm2` has no peak rate in bf16"), "{found}");
    let small = wrong(of("v100-sxm2", "gpu_memory = \"100 MB\"", "precision = \"fp32\"", 3));
    let found = small.expect_err("too small");
    assert!(found.contains("but a GPU has 100 MB"), "{found}");
}

#[test]
fn gpu_decoding_time_does_not_depend_on_the_precision_of_training_steps() {
    // System: decoding of 8 samples of 10 ms of GPU time each, beside short steps in fp16, of which a V100
    // computes 125 TFLOPS and a P100 21. Expectation: 80 ms on both; twice that with half the `gpu_speed`.
    let of = |group: &str| {
        let groups = format!("[cluster.group.old]\nnodes = 1\nnode = {{ {group} }}\n");
        let model = "model = { catalogue = \"lenet5\", efficiency = 0.4, precision = \"fp16\" }";
        let decode = "loader.dali = { threads = 1, gpu = { decode = \"10 ms\" } }";
        let text = text(&groups, 1, "copies = 3")
            .replace("gpus = 4", "gpus = 4, gpu = \"v100-sxm2\"")
            .replace("model.step = \"100 ms\"", model)
            .replace("loader.in-memory = {}", decode);
        simulate(&written(&text, &[])).jobs.iter().map(step).collect::<Vec<_>>()
    };
    for (group, expected) in
        [("gpu = \"p100-sxm2\"", 0.08), ("gpu = \"p100-sxm2\", gpu_speed = 0.5", 0.16)]
    {
        let found = of(group);
        assert!((found[1] / 0.08 - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found[2] / expected - 1.0).abs() < 1e-3, "{group}: {found:?}");
    }
}

#[test]
fn a_quota_and_a_fault_of_cores_slow_nodes_with_shared_and_fifo_cores_alike() {
    // System: two nodes with shared cores and a third one with FIFO cores; steps of 100 ms on four of eight
    // cores of each node. Expectation: a quota of two cores doubles the step, on two nodes or on three; so does a
    // fault that leaves two cores, on either kind of node, and one that leaves four cores has no effect.
    let group = "[cluster.group.g]\nnodes = 1\nnode.scheduling = \"fifo\"\n";
    let train = "model.device = { cpu = { threads = 4 } }";
    let time = |nodes: u32, job: &str| step(&run(&text(group, nodes, job)));
    for nodes in [2, 3] {
        near(time(nodes, train), 0.1, "alone");
        near(time(nodes, &format!("{train}\ncpu_quota = 2\ncpu_period = \"0 s\"")), 0.2, "a quota");
    }
    for (factor, nodes, expected) in [("0.25", 0, 0.2), ("0.25", 2, 0.2), ("0.5", 2, 0.1)] {
        let fault =
            format!("{train}\n[[fault]]\nnode = \"cores\"\nfactor = {factor}\nnodes = [{nodes}]");
        near(time(3, &fault), expected, &fault);
    }
}

#[test]
fn gradient_fusion_in_cpu_training_does_not_depend_on_gpu_speed() {
    // System: jobs that train on cores, whose gradients become ready during the step and are sent every 20 ms.
    // Expectation: the same steps whatever the GPUs of the first nodes or of a group.
    let job = "model.device = { cpu = { threads = 2 } }\n[job.sync.allreduce]\ngradients = \"120 MB\"\n\
               tensors = 6\nfusion = { buffer = \"64 MB\", cycle = \"20 ms\" }";
    let ends = |first: f64, group: f64, job: &str| {
        let groups = format!("[cluster.group.g]\nnodes = 1\nnode.gpu_speed = {group}\n");
        let text =
            text(&groups, 3, job).replace("gpus = 4", &format!("gpus = 4, gpu_speed = {first}"));
        run(&text).steps.iter().map(|step| step.end).collect::<Vec<_>>()
    };
    let plain = ends(1.0, 1.0, job);
    assert_eq!(ends(0.3, 0.3, job), plain);
    assert_eq!(ends(1.0, 0.3, job), plain);
    let every = job.replace("20 ms", "90 ms");
    assert_ne!(ends(1.0, 1.0, &every), plain);
}

#[test]
fn a_node_group_with_a_single_intra_node_switch_inherits_no_pcie_tree() {
    // System: PCIe trees on the first nodes, and a group with one switch for all GPUs. Expectation: the group
    // has no tree, and no remark on keys that have an effect on the first nodes; a group with its own `switch`
    // key gets a remark.
    let of = |own: &str| {
        let group = format!("[cluster.group.g]\nnodes = 1\nnode.intra = {{ {own} }}\n");
        let tree = "kind = \"tree\", switch = 2, root = \"9 GB/s\"";
        let scenario = written(&text(&group, 1, "").replacen("kind = \"switch\"", tree, 1), &[]);
        // One node, and data in memory: nothing crosses the network.
        let said = scenario
            .remarks
            .iter()
            .filter(|said| !said.contains("cluster.network") && !said.contains("are idle"));
        let said = said.cloned().collect::<Vec<_>>().join("\n");
        (scenario.cluster.node_at(2).intra, said)
    };
    let (intra, said) = of("kind = \"switch\"");
    assert_eq!((intra.tree, intra.bandwidth, said.as_str()), (Tree::NONE, 20e9, ""));
    let (_, said) = of("kind = \"switch\", switch = 4");
    assert!(said.contains("`cluster.group.g.node.intra.switch` has no effect"), "{said}");
    let (intra, _) = of("root = \"1 GB/s\"");
    assert_eq!((intra.tree.switch, intra.tree.root), (2, 1e9));
}

#[test]
fn a_ring_allreduce_takes_the_time_of_its_slowest_link() {
    // System: rings of four nodes with 6 messages of 30 MB each; two nodes may have half the NIC bandwidth.
    // Expectation: 360 ms with the slow NICs, 180 ms without, as flows and by formula.
    for (nic, seconds) in [("1 GB/s", 0.18), ("0.5 GB/s", 0.36)] {
        let groups = format!("[cluster.group.far]\nnodes = 2\nnic = \"{nic}\"\n");
        for fidelity in ["flow", "analytic"] {
            let sync = format!("{RING}\nfidelity = \"{fidelity}\"");
            near(step(&run(&text(&groups, 4, &sync))) - 0.1, seconds, fidelity);
        }
    }
    // A ring over links inside nodes depends on the slowest link too: 4 ranks on each of 3 nodes, the last with
    // 0.1 GB/s inside: 22 messages of 10 MB.
    let groups = "[cluster.group.slow]\nnodes = 1\nnode.intra.bandwidth = \"0.1 GB/s\"\n";
    let job = format!("parallel.data.copies_per_node = 4\n{RING}");
    near(step(&run(&text(groups, 3, &job))) - 0.1, 22.0 * 0.1, "inside");
    near(step(&run(&text(groups, 2, &job))) - 0.1, 14.0 * 0.015, "without it");
}

#[test]
fn a_node_group_inherits_all_settings_that_it_does_not_override() {
    // System: a loader that decodes 8 samples of 20 ms each on 4 workers, on nodes with 8 cores or, in the
    // group, with one. Expectation: 100 ms of compute hide the 40 ms with 8 cores; with one core a batch takes
    // 160 ms; a group's key in a nested table leaves the other keys of the table unchanged.
    let decode = "loader.pytorch = { workers = 4, decode = \"20 ms\" }";
    let of = |cluster: &str, nodes| {
        let text = text(cluster, nodes, "").replace("loader.in-memory = {}", decode);
        step(&run(&text.replace("steps = 6", "steps = 60")))
    };
    let one = "[cluster.group.weak]\nnodes = 2\nnode.cores = 1\n";
    assert!(of(one, 2) < 0.11, "{}", of(one, 2));
    let with = of(one, 3);
    assert!((0.15..0.17).contains(&with), "{with}");
    let same = "[cluster.group.weak]\nnodes = 2\n";
    assert!(of(same, 3) < 0.11);
    let nested = "[cluster.group.g]\nnodes = 1\nnode.intra.latency = \"1 ms\"\n";
    let cluster = written(&text(nested, 1, ""), &[]).cluster;
    let (base, other) = (cluster.node_at(1).intra, cluster.node_at(2).intra);
    assert_eq!((other.kind, other.bandwidth, other.latency), (base.kind, base.bandwidth, 1e-3));
    assert_eq!((cluster.nodes, base.latency), (3, 2e-6));
}

#[test]
fn allreduces_over_unequal_nodes_take_the_textbook_formulas() {
    // System: ranks on idle nodes, as many on each node as in the list. Expectation: equal times as flows, on
    // an idle network and by formula: a ring through all ranks is as slow as a NIC; a hierarchy takes the
    // largest group's reduction to its leader and back, and the leaders' allreduce in between.
    let outer = Cost { alpha: 10e-6, beta: 1e-9, gamma: 0.0 };
    let inner = Cost { alpha: 2e-6, beta: 1.0 / 20e9, gamma: 0.0 };
    for placement in [&[4, 4, 2][..], &[1, 3], &[3, 1, 2], &[2, 2, 1, 4], &[4, 1, 1]] {
        let ranks = placement.iter().sum();
        let levels = |inner| Levels {
            groups: placement.to_vec(),
            inner,
            outer: Algorithm::Ring,
            across: Across::Leaders,
        };
        let whole = |algorithm, levels| Collective {
            levels,
            ..Collective::new(Operation::Allreduce, algorithm, ranks, BYTES)
        };
        let [ring, tree] = [Algorithm::Ring, Algorithm::BinomialTree];
        for (keys, collective) in [
            ("algorithm = \"ring\"".to_owned(), whole(ring, None)),
            (
                "algorithm = \"hierarchical\"".to_owned(),
                whole(Algorithm::Hierarchical, Some(levels(ring))),
            ),
            (
                "algorithm = \"hierarchical\"\ninner = \"binomial-tree\"".to_owned(),
                whole(Algorithm::Hierarchical, Some(levels(tree))),
            ),
        ] {
            let expected = 0.1 + closed_form(&collective, &inner, &outer).expect("known");
            for fidelity in ["flow", "analytic"] {
                let found =
                    step(&run(&unequal(placement, &format!("{keys}\nfidelity = \"{fidelity}\""))));
                near(found, expected, &format!("{placement:?} {keys} {fidelity}"));
            }
        }
    }
}

/// Returns a job with `placement` ranks on its nodes, which reduce 120 MB.
fn unequal(placement: &[u32], sync: &str) -> String {
    let job = format!(
        "parallel.data = {{ copies_per_node = {placement:?}, loaders = \"per-rank\" }}\n\
         [job.sync.allreduce]\ngradients = \"120 MB\"\n{sync}"
    );
    text("", placement.len() as u32, &job).replace("nodes = 2\nnode", "nodes = 4\nnode")
}

#[test]
fn bytes_and_samples_of_unequal_nodes_are_all_accounted_for() {
    // System: a ring of 4 + 4 + 2 ranks, 6 steps of 8 samples for each rank. Expectation: each rank sends 2 ·
    // 9/10 of the bytes to the next; three of the ten next ranks are on another node; 80 samples a step, from
    // ten equal loaders.
    let outcome = simulate(&written(&unequal(&[4, 4, 2], "algorithm = \"ring\""), &[]));
    let served = |outcome: &Outcome, name: &str| {
        outcome.resources.iter().filter(|r| r.name == name).map(|r| r.served).sum::<f64>()
    };
    let each = 1.8 * BYTES as f64 * 6.0;
    near(served(&outcome, "node.nic.out"), 3.0 * each, "out of nodes");
    near(served(&outcome, "node.nic"), 3.0 * each, "into nodes");
    near(served(&outcome, "node.intra"), 7.0 * each, "inside");
    let job = &outcome.jobs[0];
    assert!(job.steps.iter().all(|step| step.samples == 80));
    assert_eq!(job.samples.dequeued, 480);
    // An epoch is over when all samples have been trained on: 120,000 / 80 steps.
    let epoch = unequal(&[4, 4, 2], "fidelity = \"analytic\"").replace("steps = 6", "epochs = 1");
    assert_eq!(run(&epoch).steps.len(), 1500);
}

#[test]
fn utilisation_of_nodes_is_relative_to_their_own_capacity() {
    // System: two kinds of nodes whose data arrive over NICs of 1 GB/s and 0.5 GB/s, at full rate. Expectation:
    // both kinds of NICs are fully utilised, whatever their bandwidth, and each kind is known by its group.
    let storage = "[storage.memory.file-server]\nbandwidth = \"100 GB/s\"";
    let groups = "[cluster.group.thin]\nnodes = 1\nnic = \"0.5 GB/s\"\n";
    let text = text(groups, 1, "copies = 3")
        .replace("[storage.memory.memory]", storage)
        .replace("sample_size = \"100 kB\"", "sample_size = \"12.5 MB\"")
        .replace("steps = 6", "duration = \"20 s\"")
        .replace("model.step = \"100 ms\"", "model.step = \"1 ms\"")
        .replace("loader.in-memory = {}", "loader.pytorch = { workers = 4 }");
    let outcome = simulate(&written(&text, &[]));
    let nic = outcome.resources.iter().find(|r| r.name == "node.nic").expect("a NIC");
    assert_eq!((nic.count, nic.capacity), (3, 1e9));
    assert!(nic.utilisation > 0.98 && nic.utilisation_max <= 1.0 + 1e-9, "{}", nic.utilisation);
    assert!((nic.served / (2.5e9 * 20.0) - 1.0).abs() < 0.02, "{}", nic.served);
    let [first, thin] = &nic.groups[..] else { panic!("two kinds: {:?}", nic.groups) };
    let known = [first, thin].map(|of| (of.of.owner, of.count, of.capacity));
    assert_eq!(known, [(Owner::Node, 2, 1e9), (Owner::Group(0), 1, 5e8)]);
    near(first.served + thin.served, nic.served, "both kinds");
    assert!((thin.served / (0.5e9 * 20.0) - 1.0).abs() < 0.02, "{}", thin.served);
    assert!(thin.utilisation > 0.98 && thin.utilisation_max <= 1.0 + 1e-9, "{}", thin.utilisation);
}

#[test]
fn network_stalls_and_stalls_caused_by_slow_nodes_are_distinguished() {
    // System: `scenarios/old-nodes.toml` with the new nodes only, then with the old ones too. Expectation:
    // first the largest stall is for exposed communication, then for peers that compute longer; and more GPUs
    // are slower together.
    let run = |nodes: &str| {
        let file = repository("scenarios/old-nodes.toml");
        let file = file.to_str().expect("a path");
        let set = format!("job.nodes={nodes}");
        let shown =
            forebay(&["run", file, "--set", &set, "--format", "json"]).output().expect("runs");
        serde_json::from_slice::<serde_json::Value>(&shown.stdout).expect("JSON")
    };
    let cause = |report: &serde_json::Value| report["bottleneck"]["cause"].clone();
    let (new, both) = (run("4"), run("5"));
    assert_eq!((cause(&new), cause(&both)), ("communication".into(), "peer.compute".into()));
    let speed = |report: &serde_json::Value| {
        report["jobs"][0]["samples_per_second"]["mean"].as_f64().expect("a number")
    };
    assert!(speed(&both) < 0.75 * speed(&new), "{} {}", speed(&both), speed(&new));
}

#[test]
fn job_copies_are_refused_if_settings_derived_from_their_nodes_differ() {
    // System: two copies of a job, each on two nodes, the second copy on another kind of node. Expectation:
    // refused if a setting found from the nodes differs and matters, and only then.
    let group = |keys: &str| format!("[cluster.group.g]\nnodes = 2\nnode = {{ {keys} }}\n");
    let resolve = |keys: &str, job: &str| {
        let text = text(&group(keys), 2, &format!("copies = 2\n{job}"));
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).map_err(|problems| problems.to_string())
    };
    let ring = "[job.sync.allreduce]\ngradients = \"120 MB\"\n";
    let four = format!("parallel.data.copies_per_node = 4\n{ring}");
    let fused = format!("{ring}fusion = {{ cycle = \"30 ms\" }}\n");
    let gpus = "parallel.data.copies_per_node = \"gpus\"";
    let (latency, slow) = ("intra.latency = \"1 ms\"", "gpu_speed = 0.5");
    for (keys, job, what) in [
        (latency, four.as_str(), "different latencies inside"),
        (slow, &fused, "different cycles of `fusion`"),
        ("gpus = 2", gpus, "different numbers of GPUs"),
        ("gpus = 8", gpus, "different numbers of GPUs"),
    ] {
        let found = resolve(keys, job).expect_err(what);
        assert!(found.contains(what) && found.contains("for each kind of node"), "{found}");
    }
    let written = format!("parallel.data.copies_per_node = 4\n{RING}");
    for (keys, job) in [
        (latency, written.as_str()),
        (latency, ring),
        (slow, &four),
        ("cores = 16", &fused),
        ("cores = 16", &four),
        ("cores = 16", gpus),
    ] {
        assert_eq!(resolve(keys, job), Ok(()), "{keys} {job}");
    }
}

#[test]
fn tf_data_auto_parallel_calls_are_refused_on_unequal_core_counts() {
    // System: nodes of 8 cores and one of 4, in one copy of a job or in several. Expectation: "auto", which
    // follows the number of cores, is refused; an explicit number is accepted, and so is "auto" on nodes with
    // equal core counts.
    let of = |cores: u32, nodes: u32, copies: u32, calls: &str| {
        let group = format!("[cluster.group.old]\nnodes = 1\nnode = {{ cores = {cores} }}\n");
        let loader = format!("loader.tf-data = {{ parallel_calls = {calls} }}");
        let copies = format!("copies = {copies}");
        let text = text(&group, nodes, &copies).replace("loader.in-memory = {}", &loader);
        let file = ScenarioFile::parse("test.toml", text).expect("TOML");
        file.resolve(&[]).err().map(|problems| problems.to_string())
    };
    for (nodes, copies) in [(3, 1), (1, 3)] {
        let said = of(4, nodes, copies, "\"auto\"").expect("a problem");
        assert!(said.contains("nodes of this job have 8 and 4"), "{said}");
        assert_eq!(of(8, nodes, copies, "\"auto\""), None);
        assert_eq!(of(4, nodes, copies, "6"), None);
    }
    assert_eq!(of(4, 2, 1, "\"auto\""), None);
}

#[test]
fn jobs_that_do_not_fit_on_every_node_are_refused_with_a_remedy() {
    let wrong = |text: String| {
        let file = ScenarioFile::parse("x.toml", text).and_then(|file| file.resolve(&[]));
        file.map(|_| ()).expect_err("wrong").to_string()
    };
    let group = |keys: &str| format!("[cluster.group.g]\nnodes = 1\n{keys}\n");
    let copies = |copies: &str| format!("parallel.data = {{ {copies} }}");
    for (cluster, nodes, job, what) in [
        (group("node.gpus = 2"), 3, copies("copies_per_node = 4"), "a node has 2"),
        (group("node.gpus = 2"), 4, String::new(), "the cluster has 3"),
        (
            group("node.cores = 0"),
            1,
            String::new(),
            "cluster.group.g.node.cores: 0 is out of range",
        ),
        (group("node.gpuss = 2"), 1, String::new(), "unknown key `gpuss`"),
        (
            "[cluster.group.g]\nnic = \"1 GB/s\"\n".to_owned(),
            1,
            String::new(),
            "`nodes` is missing",
        ),
        (String::new(), 2, copies("copies_per_node = [2]"), "numbers for 1 nodes"),
        (String::new(), 2, copies("copies_per_node = [2, 1]"), "loaders = \"per-rank\""),
        (String::new(), 2, copies("copies_per_node = []"), "the list is empty"),
        (String::new(), 2, copies("copies_per_node = [1, 0]"), "0 is out of range"),
        (String::new(), 2, copies("copies_per_node = \"all\""), "an array of them, or \"gpus\""),
        (
            String::new(),
            2,
            copies("copies_per_node = [2, 5], loaders = \"per-rank\""),
            "5 model copies need 5 GPUs",
        ),
    ] {
        let found = wrong(text(&cluster, nodes, &job));
        assert!(found.contains(what), "{cluster} {job}: {found}");
    }
    // Synthetic data take no memory, data that are read do.
    let small = text(&group("node.memory = \"1 MB\""), 3, "");
    let reads = "loader.tf-queue = { threads = 1, capacity = \"64 samples\" }";
    let found = wrong(small.replace("loader.in-memory = {}", reads));
    assert!(found.contains("the data set in memory and the buffers need"), "{found}");
    // Where all nodes have equal counts, a list equals a number, and "gpus" equals a list.
    let own = format!("{}\n", copies("copies_per_node = \"gpus\", loaders = \"per-rank\""));
    let counts = |nodes, job: &str| {
        let job = written(&text(&group("node.gpus = 2"), nodes, job), &[]).jobs.remove(0);
        (job.copies_by_node().collect::<Vec<_>>(), job.ranks())
    };
    assert_eq!(counts(3, &own), (vec![4, 4, 2], 10));
    assert_eq!(counts(2, &own), (vec![4, 4], 8));
    let split = own + "parallel.pipeline.stages = 2";
    assert_eq!(counts(3, &split), (vec![2, 2, 1], 5));
    let same = text("", 2, &copies("copies_per_node = [3, 3]"));
    assert_eq!(written(&same, &[]).jobs, written(&same.replace("[3, 3]", "3"), &[]).jobs);
}
