//! GPUs of the catalogue: the memory that a model needs, and its step time.

use super::runs::{near, simulate, written};
use forebay::catalogue::{Precision, gpu, model};
use forebay::report::{DeviceMemoryReport, json, summarise, text};
use forebay::scenario::ScenarioFile;

/// Returns a job with batches of 64 and the keys `model` of its model, on GPUs with the keys `node` of their
/// node.
fn scenario(node: &str, model: &str, rest: &str) -> String {
    format!(
        r#"# What fits, and how fast is it?
name = "gpus"
[run]
steps = 3
warm_up = "off"
[cluster]
nodes = 2
node = {{ cores = 8, gpus = 8, {node} }}
network = {{ nic = "10 GB/s" }}
[storage.memory.memory]
[dataset.d]
samples = 1000000
sample_size = "100 B"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "memory"
batch = 64
loader.in-memory = {{}}
model = {{ {model} }}
{rest}
"#
    )
}

const RESNET: &str = "catalogue = \"resnet50\", step = \"100 ms\"";

fn held(text: &str) -> DeviceMemoryReport {
    let scenario = written(text, &[]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    report.jobs[0].device_memory.expect("known")
}

fn step(text: &str) -> f64 {
    let job = simulate(&written(text, &[])).jobs.remove(0);
    job.steps[2].end / 3.0
}

fn refused(text: &str) -> String {
    let file = ScenarioFile::parse("x.toml", text.to_owned()).and_then(|file| file.resolve(&[]));
    file.map(|_| ()).expect_err(text).to_string()
}

#[test]
fn step_time_follows_from_flops_efficiency_and_peak_compute_rate() {
    // System: ResNet-50 on a V100. Expectation: FLOPs of forward and backward of the batch, divided by the
    // share of the peak.
    let resnet = model("resnet50").expect("known");
    let flops = (resnet.flops() + resnet.backward_flops()) as f64;
    let of = |name: &str, keys: &str, extra: &str| {
        let model = format!("catalogue = \"resnet50\", {keys}");
        step(&scenario(&format!("gpu = \"{name}\", {extra} gpu_memory = \"1 TB\""), &model, ""))
    };
    let peak = |name: &str, precision| gpu(name).and_then(|gpu| gpu.peak(precision)).expect("it");
    let fp32 = 64.0 * flops / (0.4 * peak("v100-sxm2", Precision::Fp32));
    near(of("v100-sxm2", "efficiency = 0.4", ""), fp32, "fp32");
    near(of("v100-sxm2", "efficiency = 0.2", ""), 2.0 * fp32, "half the share");
    near(of("v100-sxm2", "efficiency = 0.4", "gpu_speed = 2.0,"), fp32 / 2.0, "a faster one");
    let fp16 = 64.0 * flops / (0.4 * peak("v100-sxm2", Precision::Fp16));
    near(of("v100-sxm2", "efficiency = 0.4, precision = \"fp16\"", ""), fp16, "fp16");
    let tf32 = 64.0 * flops / (0.4 * peak("a100-sxm4-40gb", Precision::Tf32));
    near(of("a100-sxm4-40gb", "efficiency = 0.4, precision = \"tf32\"", ""), tf32, "tf32");
    let twice = scenario("gpu = \"v100-sxm2\"", "catalogue = \"resnet50\", efficiency = 0.4", "")
        .replace("batch = 64", "batch = 128");
    near(step(&twice), 2.0 * fp32, "twice the batch");
}

#[test]
fn contradictory_or_incomplete_gpu_settings_are_refused_with_a_remedy() {
    let v100 = "gpu = \"v100-sxm2\"";
    for (node, model, what) in [
        (
            v100,
            "catalogue = \"resnet50\", efficiency = 0.4, step = \"1 s\"",
            "contradict each other",
        ),
        (v100, "catalogue = \"resnet50\"", "`efficiency = 0.4` on a `cluster.node.gpu`"),
        (v100, "efficiency = 0.4", "`efficiency` needs the FLOPs of a step"),
        (v100, "catalogue = \"resnet50\", efficiency = 0", "`efficiency` is too small"),
        (v100, "catalogue = \"resnet50\", efficiency = 1e-320", "`efficiency` is too small"),
        (v100, "catalogue = \"resnet50\", efficiency = 1.5", "from 0 to 1"),
        (
            v100,
            "catalogue = \"resnet50\", efficiency = 0.4, precision = \"bf16\"",
            "`v100-sxm2` has no peak rate in bf16",
        ),
        (
            v100,
            "catalogue = \"resnet50\", efficiency = 0.4, device = { cpu = {} }",
            "the steps run on cores",
        ),
        (
            "smt = {}",
            "catalogue = \"resnet50\", efficiency = 0.4",
            "`efficiency` needs the peak rate of a GPU",
        ),
        ("gpu = \"v100-sxm\"", RESNET, "did you mean `v100-sxm2`?"),
        (
            v100,
            "step = \"1 s\", memory = { workspace = \"1 GB\" }",
            "write `parameters = \"102 MB\"`",
        ),
        (
            v100,
            "step = \"1 s\", memory = { parameters = \"1 GB\" }",
            "write `activations = \"89 MB\"`",
        ),
    ] {
        let found = refused(&scenario(node, model, ""));
        assert!(found.contains(what), "{node} {model}: {found}");
    }
    // A changed setting takes precedence over the written one.
    let file = scenario(v100, RESNET, "");
    let by_peak = written(&file, &[("job.j.model.efficiency", "0.4")]);
    assert!(by_peak.jobs[0].step.per_sample > 0.0);
}

#[test]
fn a_node_group_with_another_gpu_model_has_the_memory_of_that_model() {
    // System: V100 with an explicit 32 GB, beside a group. Expectation: if the group has P100, a job on it has
    // 16 GiB for each GPU, and a job on the first nodes 32 GB; if the group has V100 as well, 32 GB; if it has
    // memory of its own, that memory.
    let of = |group: &str, nodes: u32, batch: u32| {
        let rest = format!("[cluster.group.old]\nnodes = 1\nnode = {{ {group} }}");
        scenario("gpu = \"v100-sxm2\", gpu_memory = \"32 GB\"", RESNET, &rest)
            .replace("nodes = 2\ndataset", &format!("nodes = {nodes}\ndataset"))
            .replace("batch = 64", &format!("batch = {batch}"))
    };
    let p100 = "gpu = \"p100-sxm2\"";
    let capacity = |group, nodes| held(&of(group, nodes, 64)).capacity;
    assert_eq!(capacity(p100, 3), gpu("p100-sxm2").map(|gpu| gpu.memory));
    assert_eq!(capacity(p100, 2), Some(32e9));
    assert_eq!(capacity("gpu_speed = 0.5", 3), Some(32e9));
    assert_eq!(capacity("gpu = \"p100-sxm2\", gpu_memory = \"20 GB\"", 3), Some(20e9));
    assert!(refused(&of(p100, 3, 220)).contains("but a GPU has 17.2 GB"));
    held(&of(p100, 2, 220));
}

#[test]
fn a_model_larger_than_gpu_memory_is_refused_with_a_batch_that_fits() {
    // System: ResNet-50 on a V100 of 16 GiB. Expectation: the batch that the message offers fits, a batch
    // larger by one does not; mixed precision, a larger memory or stages make the original batch fit.
    let of = |node: &str, keys: &str, batch: u64, rest: &str| {
        scenario(node, &format!("{RESNET}{keys}"), rest)
            .replace("batch = 64", &format!("batch = {batch}"))
    };
    let v100 = "gpu = \"v100-sxm2\"";
    let found = refused(&of(v100, "", 256, ""));
    assert!(found.contains("but a GPU has 17.2 GB") && !found.contains("GiB"), "{found}");
    assert!(found.contains("`model.precision = \"fp16\"`"), "{found}");
    assert!(found.contains("x.toml:19:") && found.contains("job.j.batch"), "{found}");
    let offered = offered_batch(&found).expect("a batch");
    assert!((150..256).contains(&offered), "{offered}");
    assert!(held(&of(v100, "", offered, "")).total <= 16.0 * f64::from(1 << 30));
    assert!(refused(&of(v100, "", offered + 1, "")).contains("GPU memory"));
    held(&of(v100, ", precision = \"fp16\"", 256, ""));
    held(&of("gpu = \"v100-sxm3-32gb\"", "", 256, ""));
    held(&of("gpu = \"v100-sxm2\", gpu_memory = \"24 GiB\"", "", 256, ""));
    held(&of(v100, "", 256, "parallel.pipeline = { stages = 4, overlap = false }"));
    // Overlapping stages keep several batches in memory.
    let overlapping = of(v100, "", 256, "parallel.pipeline = { stages = 4 }");
    assert!(refused(&overlapping).contains("GPU memory"));
}

/// Returns the batch that a message offers.
fn offered_batch(message: &str) -> Option<u64> {
    message.split("`batch = ").nth(1)?.split('`').next()?.parse().ok()
}

/// Eight replicas on each node, of a model that is too large for their GPUs.
const REPLICAS: &str = "gpu = \"a100-sxm4-40gb\", pcie = \"25 GB/s\", memory = \"1 TB\", \
                        intra = { kind = \"switch\", bandwidth = \"300 GB/s\" }";

#[test]
fn an_offered_batch_can_be_divided_among_micro_batches() {
    // System: two stages of GPT-2 XL and 16 micro-batches of 8 samples; of a batch of 16 samples not even one sample in each
    // micro-batch is a third of what fits. Expectation: the offered batch is a multiple of 16, and it is accepted; if a single
    // sample in each micro-batch is too much, the message says that no smaller batch fits.
    let gpt = "catalogue = \"gpt2-xl\", step = \"1 s\", optimizer = \"adam\"";
    let of = |batch: u64, micro: u64| {
        let parallel = format!(
            "parallel = {{ data.copies_per_node = 4, pipeline = {{ stages = 2, schedule = \"gpipe\", micro_batches = {micro} }} }}"
        );
        scenario(REPLICAS, gpt, &parallel).replace("batch = 64", &format!("batch = {batch}"))
    };
    let found = refused(&of(128, 2));
    let offered = offered_batch(&found).expect("a batch");
    assert_eq!(offered % 2, 0, "{found}");
    held(&of(offered, 2));
    assert!(refused(&of(offered + 2, 2)).contains("GPU memory"));
    let found = refused(&of(128, 32));
    assert!(offered_batch(&found).is_none() && found.contains("no smaller batch fits"), "{found}");
}

#[test]
fn an_offered_global_batch_can_be_divided_among_model_copies() {
    // System: ResNet-50 on 16 GPUs of 16 GiB with a global batch of 4096. Expectation: the offered batch is a multiple of 16, and
    // it is accepted.
    let of = |batch: u64| {
        scenario("gpu = \"v100-sxm2\"", RESNET, "parallel.data.copies_per_node = 8")
            .replace("batch = 64", &format!("global_batch = {batch}"))
    };
    let found = refused(&of(4096));
    let offered = found.split("`global_batch = ").nth(1).and_then(|rest| rest.split('`').next());
    let offered: u64 = offered.and_then(|number| number.parse().ok()).expect("a batch");
    assert_eq!(offered % 16, 0, "{found}");
    held(&of(offered));
    assert!(refused(&of(offered + 16)).contains("GPU memory"));
}

#[test]
fn every_change_that_is_offered_for_a_model_too_large_for_its_gpus_is_accepted() {
    // System: GPT-2 XL with Adam on 16 GPUs of 40 GB; a batch of one sample fits, and ZeRO alone does not help. GPT-3 6.7B, for
    // which no single change is enough. Expectation: each line that the message offers makes the scenario valid; pairs are offered
    // only for the second model.
    let of = |model: &str| {
        let keys = format!("catalogue = \"{model}\", efficiency = 0.4, optimizer = \"adam\"");
        scenario(REPLICAS, &keys, "parallel.data.copies_per_node = 8")
            .replace("batch = 64", "batch = 8")
            .replace("sample_size = \"100 B\"", "sample_size = \"8 kB\"")
    };
    for (model, batch_alone) in [("gpt2-xl", true), ("gpt3-6.7b", false)] {
        let found = refused(&of(model));
        let remedy = found.split("help: ").nth(1).expect("a remedy");
        assert_eq!(!remedy.contains("no smaller batch fits"), batch_alone, "{found}");
        assert!(!remedy.contains("`parallel.zero.stage = 3` (then"), "{found}");
        let offers: Vec<&str> = remedy.split(" (then ").collect();
        assert!(offers.len() > 2, "{found}");
        for offer in &offers[..offers.len() - 1] {
            // Every other piece between backticks is `key = value`.
            let changes = offer.split('`').skip(1).step_by(2).filter(|of| of.contains(" = "));
            let changes: Vec<(String, &str)> = changes
                .filter_map(|change| change.split_once(" = "))
                .map(|(key, value)| (format!("job.j.{key}"), value))
                .collect();
            let changes: Vec<_> =
                changes.iter().map(|(key, value)| (key.as_str(), *value)).collect();
            assert!(!changes.is_empty(), "{offer}");
            written(&of(model), &changes);
        }
    }
}

#[test]
fn a_model_that_no_change_makes_fit_needs_larger_gpus() {
    // System: GPT-3 6.7B on V100 of 16 GiB with one GPU for each job, no PCIe. Expectation: the message says so, with the memory
    // that it needs.
    let gpt = "catalogue = \"gpt3-6.7b\", step = \"1 s\"";
    let text = scenario("gpu = \"v100-sxm2\"", gpt, "").replace("gpus = 8", "gpus = 1");
    let found = refused(&text.replace("nodes = 2", "nodes = 1"));
    assert!(found.contains("no other change that was tried is enough"), "{found}");
    assert!(found.contains("take GPUs with"), "{found}");
}

#[test]
fn every_setting_changes_the_memory_footprint_in_the_right_direction() {
    // System: ResNet-50 has 25,557,032 parameters. Expectation: four bytes for each parameter, gradient and
    // optimizer value; with mixed precision two bytes, plus fp32 master weights in the optimizer.
    let of = |keys: &str, rest: &str| {
        held(&scenario("pcie = \"10 GB/s\"", &format!("{RESNET}{keys}"), rest))
    };
    let n = 25_557_032.0;
    let plain = of("", "");
    let parts = [plain.parameters, plain.gradients, plain.optimizer, plain.workspace];
    assert_eq!((parts, plain.capacity), ([4.0 * n, 4.0 * n, 4.0 * n, 0.0], None));
    let elements = (model("resnet50").expect("known").activations() + 3 * 224 * 224) as f64;
    near(plain.activations, 4.0 * 64.0 * elements, "activations");
    assert_eq!(plain.total, 12.0 * n + plain.activations);
    assert_eq!(of(", optimizer = \"sgd\"", "").optimizer, 0.0);
    assert_eq!(of(", optimizer = \"adam\"", "").optimizer, 8.0 * n);
    let mixed = of(", optimizer = \"adam\", precision = \"bf16\"", "");
    assert_eq!([mixed.parameters, mixed.gradients, mixed.optimizer], [2.0 * n, 2.0 * n, 12.0 * n]);
    assert_eq!(mixed.activations, plain.activations / 2.0);
    let given =
        ", memory = { parameters = \"1 GB\", activations = \"10 MB\", workspace = \"3 GB\" }";
    let given = of(given, "");
    assert_eq!(given.total, 3.0 * 1e9 + 64.0 * 10e6 + 3e9);
    let stages = of("", "parallel.pipeline = { stages = 4, overlap = false }");
    assert!(stages.total < 0.7 * plain.total, "{} {}", stages.total, plain.total);
    let shares = of("", "parallel.pipeline = { shares = [0.9, 0.1], overlap = false }");
    assert!(shares.total > stages.total);
}

#[test]
fn reports_list_the_contents_of_gpu_memory() {
    let scenario = written(&scenario("gpu = \"v100-sxm2\"", RESNET, ""), &[]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let page = text::render(&report, 200, false);
    let said = "A GPU of `j` holds 5.702 GB of 17.18 GB: parameters 102.2 MB, gradients 102.2 MB, optimizer \
                102.2 MB, activations 5.396 GB.";
    assert!(page.contains(said), "{page}");
    let value: serde_json::Value = serde_json::from_str(&json::render(&report)).expect("JSON");
    let held = &value["jobs"][0]["device_memory"];
    assert_eq!(held["parameters"], 4.0 * 25_557_032.0);
    assert_eq!(held["capacity"], 16.0 * f64::from(1 << 30));
}

#[test]
fn gradients_are_sent_in_the_precision_of_the_model() {
    // System: two nodes reduce ResNet-50's gradients. Expectation: half of the bytes in mixed precision, unless
    // the reduction is set to 32 bits.
    let of = |keys: &str, sync: &str| {
        let sync = format!("sync.allreduce = {{ algorithm = \"ring\"{sync} }}");
        let text = scenario("pcie = \"10 GB/s\"", &format!("{RESNET}{keys}"), &sync);
        step(&text) - 0.1
    };
    let whole = of("", "");
    near(whole, 4.0 * 25_557_032.0 / 10e9, "32 bits");
    near(of(", precision = \"fp16\"", ""), whole / 2.0, "16 bits");
    near(of(", precision = \"fp16\"", ", precision = \"fp32\""), whole, "32 bits of 16");
    near(of("", ", precision = \"fp16\""), whole / 2.0, "16 bits of 32");
}

#[test]
fn gpu_settings_without_effect_are_reported() {
    let remarks =
        |node: &str, model: &str| written(&scenario(node, model, ""), &[]).remarks.join("\n");
    let idle = remarks(
        "gpu_memory = \"16 GiB\"",
        "step = \"1 s\", optimizer = \"sgd\", precision = \"fp16\"",
    );
    for key in ["gpu_memory", "optimizer", "precision"] {
        assert!(idle.contains(&format!("{key}` has no effect")), "{key}: {idle}");
    }
    let cpu = "device = { cpu = {} }, step = \"1 s\", optimizer = \"sgd\", memory = { workspace = \"1 GB\" }";
    let cpu = remarks("pcie = \"1 GB/s\"", cpu);
    for key in ["optimizer", "memory"] {
        assert!(cpu.contains(&format!("{key}` has no effect: the steps run on cores")), "{cpu}");
    }
    let used = format!("{RESNET}, optimizer = \"sgd\", precision = \"fp16\"");
    assert!(!remarks("gpu_memory = \"16 GiB\"", &used).contains("no effect"));
}
