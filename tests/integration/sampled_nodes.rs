//! `fidelity.nodes`: the report of a run of a sample of nodes, and the scenarios that are refused. The error of samples against all
//! nodes is tested in `crates/sim/tests/sampled_nodes.rs`.

use super::support::Place;

const NODES: &str = r#"
name = "nodes"
run = { steps = 40, replications = 1 }
storage.nfs.file-server = { bandwidth = "20 GB/s", latency = "4 ms" }
dataset.images = { samples = 10_000_000, sample_size = "110 kB" }
cluster = { nodes = 200, node = { cores = 8, gpus = 2 }, network.nic = "25 Gbit/s" }
[[job]]
name = "train"
dataset = "images"
storage = "nfs"
nodes = 200
batch = 8
loader.pytorch = { workers = 4, decode = { lognormal = { mean = "8 ms", cv = 0.5 } } }
model.step = "50 ms"
parallel.data = { copies_per_node = 2, loaders = "per-node" }
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("nodes.toml", NODES);
    place
}

#[test]
fn reports_say_that_a_sample_of_nodes_was_simulated_and_how_far_it_may_be() {
    let place = place();
    let run = ["run", "nodes.toml", "--verdict", "quick", "--set", "fidelity.nodes=16"];
    let out = place.forebay(&run).assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("16 of 200 nodes were simulated to represent all"), "{text}");
    let out = place.forebay(&[&run[..], &["--format", "json"]].concat()).assert().success();
    let json: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    assert_eq!([&json["sampled"]["nodes"], &json["sampled"]["of"]], [16, 200]);
    let error = json["sampled"]["step_time"][0].as_f64().expect("an error");
    assert!((0.0..0.5).contains(&error), "{error}");
    let figure = &json["jobs"][0]["step_time"];
    let half = (figure["ci95"][1].as_f64().unwrap() - figure["ci95"][0].as_f64().unwrap()) / 2.0;
    assert!(half >= error * figure["mean"].as_f64().unwrap(), "{figure} {error}");
}

#[test]
fn runs_of_all_nodes_say_nothing_of_samples() {
    let place = place();
    for nodes in ["\"all\"", "\"auto\"", "200"] {
        let set = format!("fidelity.nodes={nodes}");
        let run = ["run", "nodes.toml", "--verdict", "quick", "--set", &set, "--format", "json"];
        let out = place.forebay(&run).assert().success();
        let json: serde_json::Value =
            serde_json::from_slice(&out.get_output().stdout).expect("JSON");
        assert!(json.get("sampled").is_none(), "{nodes}");
    }
}

#[test]
fn samples_that_cannot_stand_for_all_nodes_are_refused_with_a_remedy() {
    let place = place();
    for (set, words) in [
        ("fidelity.nodes=3", "from 4 to 1000000"),
        ("fidelity.nodes=\"some\"", "\"all\", \"auto\" or a number"),
        (
            "job.sync.allreduce={ gradients = \"10 MB\", fidelity = \"flow\" }",
            "over the NICs by which it reads",
        ),
    ] {
        let run = ["run", "nodes.toml", "--set", "fidelity.nodes=16", "--set", set];
        let out = place.forebay(&run).assert().code(2);
        let text = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words) && text.contains("help:"), "{text}");
    }
}
