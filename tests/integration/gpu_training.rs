//! Scenarios that train on a real GPU: their simulation, messages of a machine without a GPU, and their
//! validation plan. These tests need no GPU.

use super::support::Place;
use forebay::catalogue::{self, model};
use forebay::device_memory::{Optimizer, Spread, Training, portions};
use forebay::probe::gpu::{Precision, block};
use serde_json::Value;

/// LeNet-5 on a GPU that the profile `p.toml` describes.
const GPU: &str = r#"# Does LeNet starve on this GPU?
name = "gpu"
profile = "p.toml"
[run]
steps = 200
warm_up = "off"
[cluster]
nodes = 1
share_nodes = true
node = { cores = 1 }
[storage.disk.local-disk]
bandwidth = "1 GB/s"
access = "emulated"
[dataset.d]
samples = 4000
sample_size = "4 kB"
[[job]]
name = "j"
dataset = "d"
storage = "disk"
batch = 20
model = { catalogue = "lenet5", device = { gpu = { number = 0 } } }
loader.pytorch = { workers = 2, pin_memory = "0 s", to_device = true }
"#;

/// Steps of 1 ms and 0.1 ms for each sample as a CUDA graph, in fp32; half of that in bf16, and three times as
/// much without a graph. Batches are copied at 8 MB/s.
const PROFILE: &str = r#"
[provenance]
machine = "m"
forebay = "0"
date = "2026-11-22"
plan = "gpu"
samples = "samples.jsonl"
[step.lenet5.cuda-0-fp32-graph]
samples = 9
residual = 0.0
parameters = { fixed = { value = 1e-3, unit = "s" }, per_sample = { value = 1e-4, unit = "s" } }
[step.lenet5.cuda-0-bf16-graph]
samples = 9
residual = 0.0
parameters = { fixed = { value = 5e-4, unit = "s" }, per_sample = { value = 5e-5, unit = "s" } }
[step.lenet5.cuda-1-fp32]
samples = 9
residual = 0.0
parameters = { fixed = { value = 3e-3, unit = "s" }, per_sample = { value = 3e-4, unit = "s" } }
[copy.cuda-0.pinned]
samples = 9
residual = 0.0
parameters = { latency = { value = 1e-5, unit = "s" }, bandwidth = { value = 8e6, unit = "B/s" } }
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("gpu.toml", GPU);
    place.write("p.toml", PROFILE);
    place
}

/// Returns the simulated median step time with these changes [s].
fn step(place: &Place, changes: &[&str]) -> f64 {
    step_figure(place, changes, "p50")
}

/// Returns a figure of the simulated step time with these changes: `p50`, `mean` [s].
fn step_figure(place: &Place, changes: &[&str], figure: &str) -> f64 {
    let mut arguments = vec!["run", "gpu.toml", "--format", "json"];
    changes.iter().for_each(|change| arguments.extend(["--set", change]));
    let output = place.forebay(&arguments).assert().success().get_output().stdout.clone();
    let report: Value = serde_json::from_slice(&output).expect("JSON");
    report["jobs"][0]["step_time"][figure].as_f64().expect("a time")
}

/// Returns the error message of a command that exits with `code`.
fn refused(place: &Place, arguments: &[&str], code: i32) -> String {
    let ended = place.forebay(arguments).assert().code(code);
    String::from_utf8_lossy(&ended.get_output().stderr).into_owned()
}

/// System: a profile with the network's steps on two GPUs, in two precisions, with and without a graph.
/// Expectation: the simulated step is that of the scenario's GPU, precision and graph; the step is the
/// bottleneck here.
#[test]
fn step_time_is_taken_from_the_profile_by_gpu_precision_and_graph_mode() {
    let place = place();
    let fast = "cluster.node.pcie=\"1 GB/s\"";
    let model = |rest: &str| format!("job.model={{ catalogue = \"lenet5\", {rest} }}");
    for (rest, expected) in [
        ("device = { gpu = {} }", 3e-3),
        ("device = { gpu = {} }, precision = \"bf16\"", 1.5e-3),
        ("device = { gpu = { number = 1, graph = false } }", 9e-3),
    ] {
        let found = step(&place, &[fast, &model(rest)]);
        assert!((found / expected - 1.0).abs() < 1e-6, "{rest}: {found}");
    }
    let said = refused(
        &place,
        &["run", "gpu.toml", "--set", &model("device = { gpu = { number = 2 } }")],
        2,
    );
    assert!(said.contains("step.lenet5.cuda-2-fp32-graph"), "{said}");
}

/// System: batches of 80 kB at 8 MB/s take 10 ms, steps 3 ms. Expectation: 10 ms a step where the scenario does
/// not set the link, and the time of the scenario's link otherwise; the profile's copies through pinned memory
/// take precedence.
#[test]
fn batches_are_copied_at_the_bandwidth_of_the_profile() {
    let place = place();
    let found = step(&place, &[]);
    assert!((found / 0.01 - 1.0).abs() < 1e-3, "{found}");
    let found = step(&place, &["cluster.node.pcie=\"16 MB/s\""]);
    assert!((found / 0.005 - 1.0).abs() < 1e-3, "{found}");
    let staged = PROFILE.replace("[copy.cuda-0.pinned]", "[copy.cuda-0.staged]");
    let pinned = PROFILE.split_once("[copy").expect("copies").1.replace("8e6", "8e8");
    place.write("p.toml", &format!("{staged}[copy{pinned}"));
    let found = step(&place, &[]);
    assert!((found / 0.01 - 1.0).abs() < 1e-3, "{found}");
}

/// System: as before; beside two threads that decode, copies have half the bandwidth. Expectation: batches of images that two
/// workers decode take 20 ms, those of other samples 10 ms, and the scenario's link is as fast as it says.
#[test]
fn copies_of_decoded_images_have_the_bandwidth_of_copies_beside_decoding() {
    let place = place();
    let copies =
        PROFILE.split_once("[copy.cuda-0.pinned]").expect("copies").1.replace("8e6", "4e6");
    place.write("p.toml", &format!("{PROFILE}[copy.cuda-0.pinned-beside-decode-2]{copies}"));
    let images = "dataset.d.image={ width = 64, height = 64 }";
    let size = "dataset.d.decoded_size=\"4 kB\"";
    let decode = "job.loader.pytorch.decode={ fixed = \"1 us\" }";
    let cores = "cluster.node.cores=2";
    for (changes, expected) in [
        (&[cores, decode, size][..], 0.01),
        (&[cores, decode, size, images], 0.02),
        (&[cores, decode, size, images, "cluster.node.pcie=\"16 MB/s\""], 0.005),
    ] {
        let found = step(&place, changes);
        assert!((found / expected - 1.0).abs() < 1e-3, "{changes:?}: {found}");
    }
}

#[test]
fn unsupported_gpu_settings_are_refused_with_a_remedy() {
    let place = place();
    for (change, expected) in [
        ("job.model.precision=\"fp16\"", "fp32, tf32 or bf16"),
        ("job.model={ step = \"1 ms\", device = { gpu = {} } }", "needs a catalogue model"),
        ("job.model.device={ gpu = { ahead = 65 } }", "64"),
        ("job.model.device={ gpu = { streams = 2 } }", "streams"),
    ] {
        let said = refused(&place, &["run", "gpu.toml", "--set", change], 2);
        assert!(said.contains(expected), "{change}: {said}");
    }
}

/// Returns whether steps can be trained on a GPU here.
fn has_gpu() -> bool {
    forebay::probe::gpu::ready(0).is_ok()
}

/// Without a driver, a live run on a GPU is refused before anything starts: exit code 3 with a message, and no
/// files are left behind.
#[test]
#[expect(clippy::print_stderr, reason = "whoever reads the test's output is told")]
fn a_live_run_on_a_gpu_without_a_driver_exits_with_code_3() {
    if has_gpu() {
        eprintln!("skipped: there is a GPU");
        return;
    }
    let place = place();
    let before = place.files();
    let said = refused(&place, &["live", "gpu.toml"], 3);
    for part in ["`j` cannot train on GPU 0", "driver", "forebay doctor", "accelerator"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(place.files(), before);
    let emulated =
        ["live", "gpu.toml", "--set", "job.model={ step = \"1 ms\" }", "--set", "run.steps=3"];
    place.forebay(&emulated).assert().success();
}

/// System: two learners that never wait for batches; a step on a batch of 20 takes 3 ms if its learner is alone. By the profile each
/// learner adds 3 ns, 1.5 ms, 4 ms, or 0.5 ms and 25 us for each sample to a step of the other one; or the profile has no reliable value
/// of both parameters, or of one. Expectation: 3 ms, since learners do not slow each other; 4.5 ms; 6 ms, since they share a full GPU;
/// 4 ms; without a reliable value 5 ms, since the GPU is idle only in the step's fixed part and 2 of 3 ms are work; 4 ms with one.
#[test]
fn learners_share_the_gpu_by_the_occupancy_of_the_profile() {
    let place = place();
    let learners = |[fixed, per_sample]: [&str; 2], [first, second]: [&str; 2]| {
        let fit = format!(
            "[learners.lenet5.cuda-0-fp32-graph]\nsamples = 9\nresidual = 0.0\nparameters = {{ fixed = {{ value = {fixed}, \
             unit = \"s\"{first} }}, per_sample = {{ value = {per_sample}, unit = \"s\"{second} }} }}\n"
        );
        place.write("p.toml", &format!("{PROFILE}{fit}"));
        let fast = "cluster.node.pcie=\"1 GB/s\"";
        step(&place, &[fast, "job.parallel.data.learners=2"])
    };
    let no = ", unidentified = \"no\"";
    for (added, rest, expected) in [
        (["3e-9", "0.0"], ["", ""], 3e-3),
        (["1.5e-3", "0.0"], ["", ""], 4.5e-3),
        (["4e-3", "0.0"], ["", ""], 6e-3),
        (["5e-4", "25e-6"], ["", ""], 4e-3),
        (["4e-3", "0.0"], [no, no], 5e-3),
        (["0.0", "5e-5"], [no, ""], 4e-3),
    ] {
        let found = learners(added, rest);
        assert!((found / expected - 1.0).abs() < 1e-3, "{added:?}{rest:?}: {found}");
    }
}

/// System: two learners with batches of 20 that fill hardly any of the GPU, steps of 3 ms, averaging every second step; the
/// profile says that an averaging takes 0.5 ms and 25 us per sample for each learner on this GPU or another one, or gives no
/// reliable value; or the scenario says 2 ms; the GPU's memory has a bandwidth of 1,000 TB/s or 10 GB/s. Expectation: a mean
/// step of 3 ms and half of an averaging of 2 ms; 3 ms without a reliable value for this GPU; the scenario's time takes precedence.
/// The profile's time includes moving the models; beside the scenario's, 14 passes over the model's 0.25 MB count.
#[test]
fn averaging_takes_the_time_of_the_profile_for_the_same_model_and_gpu() {
    let place = place();
    let mean = |gpu: &str, rest: &str, changes: [&str; 2]| {
        let fits = [
            ("learners", "cuda-0-fp32-graph", ["1e-9", "0.0"], ""),
            ("averaging", gpu, ["5e-4", "25e-6"], rest),
        ];
        let fit = |(kind, gpu, [fixed, per_sample], rest): (&str, &str, [&str; 2], &str)| {
            format!(
                "[{kind}.lenet5.{gpu}]\nsamples = 9\nresidual = 0.0\nparameters = {{ fixed = {{ value = {fixed}, \
                 unit = \"s\"{rest} }}, per_sample = {{ value = {per_sample}, unit = \"s\"{rest} }} }}\n"
            )
        };
        place.write("p.toml", &format!("{PROFILE}{}", fits.map(fit).concat()));
        let [sync, memory] = changes;
        let sync = format!("job.sync.model-averaging={{ {sync} }}");
        let memory = format!("cluster.node.gpu_memory_bandwidth=\"{memory}\"");
        let fast = "cluster.node.pcie=\"1 GB/s\"";
        step_figure(&place, &[fast, "job.parallel.data.learners=2", &sync, &memory], "mean")
    };
    let own = "cuda-0-fp32-graph";
    let written = "period = 2, latency = \"2 ms\"";
    let passes = 14.0 * 246_824.0 / 10e9;
    for (gpu, rest, changes, expected) in [
        (own, "", ["period = 2", "1000 TB/s"], 4e-3),
        ("cuda-1-fp32-graph", "", ["period = 2", "1000 TB/s"], 3e-3),
        (own, ", unidentified = \"no\"", ["period = 2", "1000 TB/s"], 3e-3),
        (own, "", [written, "1000 TB/s"], 5e-3),
        (own, "", ["period = 2", "10 GB/s"], 4e-3),
        (own, "", [written, "10 GB/s"], 5e-3 + passes / 2.0),
    ] {
        let found = mean(gpu, rest, changes);
        assert!((found / expected - 1.0).abs() < 0.01, "{gpu}{rest}, {changes:?}: {found}");
    }
}

/// System: learners of a model whose sharing was timed with batches of 16 to 64 and up to 4 learners, and whose averaging was timed,
/// was not, or takes the bandwidth of the GPU's memory. Expectation: the report says what the prediction extrapolates, and that averages
/// take no time if nothing says how long they take.
#[test]
fn the_report_says_where_learners_are_predicted_beyond_the_profile() {
    let place = place();
    let range = "range = { batch = [16.0, 64.0], learners = [1.0, 4.0] }";
    let fit = |kind: &str| {
        format!(
            "[{kind}.lenet5.cuda-0-fp32-graph]\nsamples = 9\nresidual = 0.0\nparameters = {{ fixed = {{ value = 1e-5, unit = \
             \"s\" }}, per_sample = {{ value = 1e-6, unit = \"s\" }} }}\n{range}\n"
        )
    };
    let said = |fits: &str, learners: &str, changes: &[&str]| {
        place.write("p.toml", &format!("{PROFILE}{fits}"));
        let learners = format!("job.parallel.data.learners={learners}");
        let set = ["run", "gpu.toml", "--set", "job.sync.model-averaging={}", "--set", &learners];
        let changes = changes.iter().flat_map(|change| ["--set", *change]);
        let arguments: Vec<&str> = set.into_iter().chain(changes).collect();
        let output = place.forebay(&arguments).assert().success().get_output().stdout.clone();
        let text = String::from_utf8_lossy(&output).into_owned();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let both = [fit("learners"), fit("averaging")].concat();
    let within = said(&both, "4", &[]);
    assert!(!within.contains("extrapolates") && !within.contains("take no time"), "{within}");
    for (learners, changes, table) in [
        ("8", vec![], "learners.lenet5.cuda-0-fp32-graph was measured from 1 to 4"),
        ("8", vec![], "averaging.lenet5.cuda-0-fp32-graph was measured from 1 to 4"),
        (
            "2",
            vec!["job.batch=128"],
            "averaging.lenet5.cuda-0-fp32-graph was measured from 16 to 64",
        ),
    ] {
        let text = said(&both, learners, &changes);
        assert!(text.contains(table), "{text}");
    }
    let bytes = "job.sync.model-averaging.parameters=\"10 GB\"";
    let no_effect = "the profile says how long an averaging takes";
    assert!(said(&both, "2", &[bytes]).contains(no_effect));
    assert!(!said(&fit("learners"), "2", &[bytes]).contains(no_effect));
    let unknown = "Averages of models on a GPU of `j` take no time";
    assert!(said(&fit("learners"), "2", &[]).contains(unknown));
    let memory = "cluster.node.gpu_memory_bandwidth=\"3 TB/s\"";
    assert!(!said(&fit("learners"), "2", &[memory]).contains(unknown));
    let latency = "job.sync.model-averaging.latency=\"10 us\"";
    assert!(!said(&fit("learners"), "2", &[latency]).contains(unknown));
}

/// Unsupported settings of a live run on a GPU are refused whatever the machine has.
#[test]
fn unsupported_settings_of_live_runs_on_gpus_are_refused() {
    let place = place();
    let stage = "job.loader={ stages = [{ name = \"all\", workers = 1, per_sample = [\"read\", \"copy\"], \
                 buffer = 64 }] }";
    for (changes, expected) in [
        (vec![stage], "copies single samples"),
        (vec!["job.model.launch=\"1 ms\""], "leave out `model.launch`"),
        (
            vec![
                "job.model={ step = { fixed = \"1 ms\", per_sample = \"1 us\" } }",
                "job.parallel.data.learners=2",
            ],
            "gpu = { number = 0 }",
        ),
        (vec!["job.parallel.data.learners={ auto = {} }"], "write a number"),
        (
            vec![
                "job.parallel.data.learners=2",
                "job.model.occupancy=0.1",
                "job.sync.model-averaging.overlap=true",
            ],
            "write `sync.model-averaging.overlap = false`",
        ),
        (
            vec!["cluster.node.gpus=2", "job.parallel.data.copies_per_node=2"],
            "`parallel.data.loaders = \"per-rank\"`",
        ),
    ] {
        let mut arguments = vec!["live", "gpu.toml"];
        changes.iter().for_each(|change| arguments.extend(["--set", change]));
        let said = refused(&place, &arguments, 3);
        assert!(said.contains(expected), "{changes:?}: {said}");
    }
}

/// Every point of the shipped validation plan on a GPU can be predicted from a profile of one GPU, and the plan
/// holds out enough points, over every dimension.
#[test]
fn every_point_of_the_shipped_gpu_validation_plan_can_be_predicted() {
    let place = Place::new();
    let mut profile = PROFILE.split_once("[step").expect("steps").0.to_owned();
    for model in ["lenet5", "resnet50", "gpt-small"] {
        for precision in ["fp32", "tf32", "bf16"] {
            profile += &format!(
                "[step.{model}.cuda-0-{precision}-graph]\nsamples = 9\nresidual = 0.0\nparameters = {{ \
                 fixed = {{ value = 1e-3, unit = \"s\" }}, per_sample = {{ value = 2e-4, unit = \"s\" }} }}\n"
            );
        }
    }
    profile += "[copy.cuda-0.staged]\nsamples = 9\nresidual = 0.0\nparameters = { latency = { value = 1e-5, \
                unit = \"s\" }, bandwidth = { value = 8e9, unit = \"B/s\" } }\n[decode.jpeg]\nsamples = 9\n\
                residual = 0.0\nparameters = { fixed = { value = 1e-4, unit = \"core-s\" }, per_byte = { \
                value = 1e-8, unit = \"core-s/B\" }, per_pixel = { value = 4e-9, unit = \"core-s\" } }\n\
                [read.warm]\nsamples = 9\nresidual = 0.0\nparameters = { latency = { value = 1e-5, unit = \
                \"s\" }, bandwidth = { value = 4e9, unit = \"B/s\" } }\n[host]\ncores = 16\nmemory = 1e11\n";
    place.write("gpu-profile.toml", &profile);
    let root = env!("CARGO_MANIFEST_DIR");
    let text = std::fs::read_to_string(format!("{root}/calibrate/plans/validate-gpu.toml"));
    let text = text.expect("the plan");
    // A few simulations for each point suffice to show that all can be predicted.
    let fewer = text.replace("predictions = 60", "predictions = 2").replace("../..", root);
    place.write("plan.toml", &fewer);
    let mut arguments = vec!["validate", "plan.toml", "--profile", "gpu-profile.toml"];
    arguments.extend(["--predict-only", "--format", "json"]);
    let output = place.forebay(&arguments).assert().success().get_output().stdout.clone();
    let found: Value = serde_json::from_slice(&output).expect("JSON");
    let points = found["points"].as_array().expect("points");
    let held_out = points.iter().filter(|point| point["held_out"] == true).count();
    assert!(held_out >= 16 && points.len() > held_out, "{held_out} of {}", points.len());
    for part in [
        "resnet50",
        "gpt-small",
        "lenet5",
        "tf32",
        "bf16",
        "batch_interval",
        "workers",
        "resize",
        "learners",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

/// System: the memory blocks of compiled steps of ResNet-50. Expectation: memory is linear in the batch, and
/// between the catalogue's sum of parameters, gradients, momentum and activations and 1.5 times this sum,
/// because the catalogue omits temporary memory of the backward pass.
#[test]
fn compiled_resnet50_steps_use_at_most_1_5_times_the_estimated_gpu_memory() {
    let bytes = |batch: usize| block("resnet50", batch, Precision::Fp32).expect("known") as f64;
    let slope = (bytes(64) - bytes(16)) / 48.0;
    let line = bytes(16) + 16.0 * slope;
    assert!((bytes(32) / line - 1.0).abs() < 0.01, "{} and {line}", bytes(32));
    let of = model("resnet50").expect("known");
    for batch in [16, 64] {
        let training = Training {
            precision: catalogue::Precision::Fp32,
            optimizer: Optimizer::Momentum,
            batch,
            workspace: 0.0,
        };
        let counted = training.footprint(&portions(&of, &[1.0])[0], 1.0, &Spread::NONE).total();
        let ratio = bytes(batch as usize) / counted;
        assert!((0.95..1.5).contains(&ratio), "{batch}: {ratio}");
    }
    assert_eq!(block("vgg", 1, Precision::Fp32), None);
}
