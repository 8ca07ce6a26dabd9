//! Cases about default values of settings.

use super::super::runs::repository;
use super::{case, report_of};
use forebay::scenario::{Override, Scenario, ScenarioFile, schema};
use serde_json::Value as Json;

#[test]
fn step_time_grows_with_micro_batches_only_if_given_per_micro_batch() {
    // System: steps of 0.8 s, layers split over eight GPUs. Expectation: 0.1 s in one micro-batch or in 64;
    // where `step` is the time of a micro-batch, 64 take 64 times as long.
    let step = |micro_batches: &str, of: &str| {
        let micro_batches = ("job.parallel.pipeline.micro_batches", micro_batches);
        let report = report_of(&case("sem", &[micro_batches, ("job.model.step_of", of)]));
        report.jobs[0].figures.step_time.mean.expect("steps")
    };
    for (micro_batches, of, expected) in [
        ("1", "\"batch\"", 0.1),
        ("64", "\"batch\"", 0.1),
        ("1", "\"micro-batch\"", 0.1),
        ("64", "\"micro-batch\"", 6.4),
    ] {
        let found = step(micro_batches, of);
        // Allreduces of a kilobyte take a few microseconds.
        assert!((found - expected).abs() < 2e-3 * expected, "{micro_batches} {of}: {found}");
    }
    let unsaid = report_of(&case("sem", &[]));
    assert!(unsaid.jobs[0].figures.step_time.mean.is_some_and(|step| (step - 0.1).abs() < 1e-3));
}

#[test]
fn ranks_with_uneven_sample_shares_take_equally_many_steps_per_epoch() {
    // System: 8,001 samples for eight ranks with loaders of their own, batches of 100, three epochs.
    // Expectation (`torch.utils.data.DistributedSampler`): each rank has 1,001 samples, 11 batches, in every
    // epoch; with the loader's `drop_last`, ten batches.
    let ragged = [
        ("dataset.x.samples", "8001"),
        ("cluster.node.gpus", "8"),
        ("job.parallel.data.copies_per_node", "8"),
        ("job.parallel.data.loaders", "per-rank"),
    ];
    for (drop_last, steps, samples) in [("false", 11, 8008), ("true", 10, 8000)] {
        let dropped = [("job.loader.pytorch.drop_last", drop_last)];
        let scenario = case("ep", &[&ragged[..], &dropped].concat());
        let outcome = forebay::sim::run(&scenario, 0, &forebay::sim::Options::default());
        let all: Vec<u64> = outcome.jobs[0].steps.iter().map(|step| step.samples).collect();
        assert_eq!(all.len(), 3 * steps, "{drop_last}");
        for epoch in all.chunks(steps) {
            assert_eq!(epoch.iter().sum::<u64>(), samples, "{drop_last}");
        }
        let report = report_of(&scenario);
        let job = &report.jobs[0];
        let of = |figures: &Option<forebay::report::JobFigures>| {
            figures.as_ref().and_then(|figures| figures.steps.mean)
        };
        assert_eq!(of(&job.first_epoch), Some(steps as f64), "{drop_last}");
        assert_eq!(of(&job.later_epochs), Some(2.0 * steps as f64), "{drop_last}");
    }
}

/// Returns the mean step time of a case with these changes [s], and its remarks.
fn step_of(name: &str, changes: &[(&str, &str)]) -> (f64, String) {
    let scenario = case(name, changes);
    let report = report_of(&scenario);
    (report.jobs[0].figures.step_time.mean.expect("steps"), scenario.remarks.join("\n"))
}

const BUCKETS: &str = "job.sync.allreduce.buckets";

#[test]
fn pytorch_reduces_gradient_buckets_during_the_backward_pass() {
    // System: 102 MB of gradients of which only the total bytes are known, data in memory. Expectation: by
    // default and with explicit buckets, most of the reduction is hidden; with one bucket for all, it follows
    // the step of 210 ms.
    let memory = ("storage.nfs", "{ memory = {} }");
    let decode = ("job.loader.pytorch.decode", "\"1 us\"");
    let of = |changes: &[(&str, &str)]| step_of("t2", &[&[memory, decode], changes].concat());
    let (by_default, _) = of(&[]);
    let (written, _) = of(&[(BUCKETS, "\"25 MiB\"")]);
    let (together, _) = of(&[(BUCKETS, "\"all\"")]);
    let exposed = together - 0.21;
    assert!(exposed > 5e-3, "{together}");
    assert!(by_default - 0.21 < 0.6 * exposed, "{by_default} and {together}");
    assert!((written - by_default).abs() < 0.2 * exposed, "{written} and {by_default}");
    // Gradients that are one tensor are not cut into buckets, and a remark says so.
    let (one, said) = of(&[(BUCKETS, "\"25 MiB\""), ("job.sync.allreduce.tensors", "1")]);
    assert!((one - together).abs() < 1e-6, "{one} and {together}");
    assert!(said.contains("buckets` has no effect"), "{said}");
}

/// Returns the default value of a key of a case with its source, or `None` if the key is written.
fn assumed(name: &str, changes: &[(&str, &str)], key: &str) -> Option<(String, String)> {
    let scenario = case(name, changes);
    let assumed = scenario.origins.assumed();
    let found = assumed.iter().find(|of| of.key == key);
    found.map(|of| (of.value.clone(), of.source.clone()))
}

#[test]
fn loader_and_transport_select_the_defaults_of_gradient_exchange() {
    const LIBRARY: &str = "job.resnet.sync.allreduce.library";
    let buckets = |loader: &str| {
        let changes = [("job.loader", loader)];
        assumed("t2", &changes, "job.resnet.sync.allreduce.buckets").expect("assumed")
    };
    let (value, source) = buckets("{ pytorch = { workers = 2 } }");
    assert!(value.contains("25 MiB") && source.contains("bucket_cap_mb=25"), "{value}: {source}");
    let (value, source) = buckets("{ tf-data = { parallel_calls = 2, prefetch = 2 } }");
    assert!(value == "all together" && source.contains("bytes_per_pack"), "{value}: {source}");
    let (value, source) = buckets("{ in-memory = {} }");
    assert!(value == "all together" && source.contains("no framework"), "{value}: {source}");
    for (transport, library) in
        [("nccl", "nccl"), ("mpi", "open-mpi"), ("mpi-cuda-aware", "open-mpi")]
    {
        let transport = format!("{{ {transport} = {{}} }}");
        let of = [("job.sync.allreduce.transport", transport.as_str())];
        assert_eq!(assumed("t2", &of, LIBRARY).expect("assumed").0, library, "{transport}");
    }
    let gloo = [("job.sync.allreduce", "{ gradients = \"1 MB\", transport.gloo = {} }")];
    let (value, source) =
        assumed("t2", &gloo, "job.resnet.sync.allreduce.algorithm").expect("assumed");
    assert!(value == "ring" && source.contains("Gloo"), "{value}: {source}");
    // System: high latencies and few bytes to reduce. Expectation: ranks of MPI use the algorithm of Open MPI,
    // not that of NCCL.
    let sync = |library: &str| {
        let of = format!(
            "{{ gradients = \"1 kB\", overlap = false, transport.mpi.latency = \"1 ms\" {library} }}"
        );
        let changes =
            [("job.sync.allreduce", of.as_str()), ("run.steps", "20"), ("run.warm_up", "2")];
        step_of("t2", &[&changes[..], &[("storage.nfs", "{ memory = {} }")]].concat()).0
    };
    let (by_default, nccl) = (sync(""), sync(", library = \"nccl\""));
    assert_eq!(by_default, sync(", library = \"open-mpi\""));
    assert!((by_default - nccl).abs() > 1e-3, "{by_default} and {nccl}");
}

/// Three epochs from a disk.
const THRICE: &[(&str, &str)] = &[
    ("run.epochs", "3"),
    ("run.warm_up", "\"off\""),
    ("job.loader.pytorch.persistent_workers", "true"),
];

#[test]
fn nodes_with_a_given_memory_size_have_a_page_cache_by_default() {
    // System: 100 MB on a disk of 100 MB/s, read three times. Expectation: with 1 GB of memory, the page cache
    // beside workers and buffers holds all files, so that only the first epoch waits for the disk; without
    // known memory, or with `page_cache = "none"`, all epochs do, without a remark: the user asked for it.
    let of = |changes: &[(&str, &str)]| {
        let scenario = case("ep", &[THRICE, changes].concat());
        let time = report_of(&scenario).makespan.mean.expect("an end");
        (time, scenario.remarks.join("\n"))
    };
    let memory = ("cluster.node.memory", "\"1 GB\"");
    let none = ("cluster.node.page_cache", "\"none\"");
    let (unknown, said) = of(&[]);
    assert!((3.0..3.2).contains(&unknown) && !said.contains("page cache"), "{unknown}: {said}");
    let (kept, said) = of(&[memory]);
    assert!((1.0..1.5).contains(&kept) && !said.contains("page cache"), "{kept}: {said}");
    let (cold, said) = of(&[memory, none]);
    assert_eq!(cold, unknown);
    assert!(!said.contains("would fit"), "{said}");
    let (small, said) = of(&[("cluster.node.memory", "\"95 MB\""), none]);
    assert!(small == unknown && !said.contains("would fit"), "{small}: {said}");
    let (small, _) = of(&[("cluster.node.memory", "\"95 MB\"")]);
    assert!(small > kept + 0.3, "{small}");
    // Direct reads, and reads of objects over HTTP, bypass the page cache.
    let direct =
        ("storage.d", "{ local-disk = { bandwidth = \"100 MB/s\", access = \"direct\" } }");
    assert!(of(&[memory, direct]).0 > 2.9);
    let objects = ("storage.d", "{ object-store = { bandwidth = \"100 MB/s\" } }");
    assert!(of(&[memory, objects]).0 > 2.9);
    let files = ("storage.d", "{ file-server = { bandwidth = \"100 MB/s\" } }");
    assert!(of(&[memory, files]).0 < 1.5);
}

#[test]
fn overrides_of_unused_keys_are_refused() {
    let file = repository("tests/data/cases/ep.toml");
    for (change, words) in [
        ("sweep.foo=1", "no command reads `sweep` from `--set`"),
        ("sweep.job.batch=[1, 2]", "`job`"),
        ("storage.e.memory={}", "did you mean `d`"),
        ("dataset.y.samples=10", "did you mean `x`"),
        ("job.bach=2", "did you mean `batch`"),
    ] {
        let change: Override = change.parse().expect("a change");
        let file = ScenarioFile::open(&file).expect("a file");
        let said = file.resolve(std::slice::from_ref(&change)).expect_err("refused").to_string();
        assert!(said.contains(words), "{change}: {said}");
    }
    let both = ["storage.e={ memory = {} }", "job.storage=\"e\""];
    let both = both.map(|change| change.parse::<Override>().expect("a change"));
    assert!(ScenarioFile::open(&file).expect("a file").resolve(&both).is_ok(), "it is read");
}

#[test]
fn settings_of_unused_links_are_reported_as_ineffective() {
    // System: one GPU on one node with a disk. Expectation: settings of the network and of links between GPUs
    // are reported as without effect, and have none; with a file server, or two GPUs, they are not reported.
    let links = [
        ("cluster.network", "{ nic = \"1 kB/s\", latency = \"1 s\" }"),
        ("cluster.node.intra", "{ kind = \"switch\", bandwidth = \"1 kB/s\" }"),
    ];
    let of = |changes: &[(&str, &str)]| step_of("ep", changes);
    let (with, said) = of(&links);
    for key in ["cluster.network.nic", "cluster.network.latency", "cluster.node.intra"] {
        assert!(said.contains(&format!("`{key}` has no effect")), "{key}: {said}");
    }
    assert_eq!(with, of(&[]).0);
    let server = ("storage.d", "{ file-server = { bandwidth = \"100 MB/s\" } }");
    let (_, said) = of(&[server, ("cluster.network.nic", "\"1 GB/s\"")]);
    assert!(!said.contains("network"), "{said}");
    let two = [("cluster.node.gpus", "2"), ("job.parallel.data.copies_per_node", "2"), links[1]];
    assert!(!of(&two).1.contains("intra"), "two GPUs");
}

/// Optional keys without a default, by their last parts: alternatives of which one is written, kinds, and parts
/// of written values.
const NO_DEFAULT: [&str; 47] = [
    "background.requests",
    "background.streams",
    "lognormal.cv",
    "lognormal.mean",
    "lognormal.median",
    "lognormal.p99",
    "pareto.mean",
    "pareto.min",
    "intra.switch",
    "fault.link",
    "fault.node",
    "fault.storage",
    "accuracy.critical_batch",
    "accuracy.epochs",
    "accuracy.least_epochs",
    "accuracy.table",
    "accuracy.usefulness",
    "job.batch",
    "job.global_batch",
    "batch_interval.adaptive",
    "batch_interval.every",
    "checkpoint.interval",
    "checkpoint.steps",
    "failures.at",
    "failures.mtbf",
    "model.efficiency",
    "occupancy.added",
    "occupancy.constant",
    "occupancy.half",
    "occupancy.kernels",
    "step.fixed",
    "step.floor",
    "step.per_sample",
    "learners.auto",
    "learners.constant",
    "pipeline.chunks",
    "pipeline.micro_batches",
    "pipeline.shares",
    "pipeline.stages",
    "run.duration",
    "run.epochs",
    "run.steps",
    "measured.file",
    "measured.profile",
    "measured.requests",
    "measured.sizes",
    "measured.throughput",
];

/// Calls `visit` with the path and the description of each optional key of a schema.
fn optional(
    schema: &Json,
    node: &Json,
    path: &str,
    seen: &mut Vec<String>,
    visit: &mut dyn FnMut(&str, &str),
) {
    if let Some(to) = node["$ref"].as_str() {
        if !seen.iter().any(|of| of == to) {
            seen.push(to.to_owned());
            optional(schema, schema.pointer(&to[1..]).expect("a target"), path, seen, visit);
        }
        return;
    }
    let required = node["required"].as_array().into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Json::as_str).collect();
    for (key, of) in node["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{key}").trim_start_matches('.').to_owned();
        if !required.contains(&key.as_str()) {
            visit(&path, of["description"].as_str().unwrap_or_default());
        }
        optional(schema, of, &path, seen, visit);
    }
    let forms = ["oneOf", "anyOf"].iter().filter_map(|forms| node[forms].as_array()).flatten();
    for form in forms.chain(node.get("items")).chain(node.get("additionalProperties")) {
        optional(schema, form, path, seen, visit);
    }
}

#[test]
fn every_optional_key_documents_its_default() {
    let schema = schema();
    let mut silent = Vec::new();
    optional(&schema, &schema, "", &mut Vec::new(), &mut |path, description| {
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let listed = NO_DEFAULT.iter().any(|of| path == *of || path.ends_with(&format!(".{of}")));
        if !description.contains("(default: ") && !listed {
            silent.push(format!("{path}: {description}"));
        }
    });
    assert!(silent.is_empty(), "{} keys:\n{}", silent.len(), silent.join("\n"));
}

/// Returns the literal of a default for `--set`, or `None` if the default is a description in words.
fn literal(value: &str) -> Option<String> {
    let quoted = value.starts_with('"') && value.ends_with('"') && value.matches('"').count() == 2;
    let plain = value.parse::<f64>().is_ok() || ["true", "false"].contains(&value);
    let quantity = value.split_once(' ').is_some_and(|(number, unit)| {
        number.parse::<f64>().is_ok() && !unit.contains(' ') && unit.len() <= 5
    });
    (quoted || plain).then(|| value.to_owned()).or(quantity.then(|| format!("\"{value}\"")))
}

#[test]
fn writing_out_a_default_value_changes_nothing() {
    // System: shipped scenarios. Expectation: their default values, written out, give the same scenario.
    let names =
        ["fletcher-lenet", "gradients", "cloud-storage", "checkpoints", "split-model", "energy"];
    let mut wrong = Vec::new();
    let mut checked = 0;
    for name in names {
        let place = repository(&format!("scenarios/{name}.toml"));
        let file = ScenarioFile::open(&place).expect("a file");
        let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(scenario.origins.assumed().len() > 10, "{name}");
        for of in scenario.origins.assumed() {
            // A default of "0 s" means that there is no such operation; writing it adds an operation that takes no time.
            let Some(value) = literal(&of.value).filter(|of| of != "\"0 s\"") else { continue };
            let change: Override = format!("{}={value}", of.key).parse().expect("a change");
            match file.resolve(std::slice::from_ref(&change)) {
                Err(problems) => wrong.push(format!("{name}: {problems}")),
                Ok(written) => {
                    // Remarks and notes may be on what the scenario leaves open.
                    let (remarks, notes) = (scenario.remarks.clone(), scenario.notes.clone());
                    let written = Scenario { remarks, notes, ..written };
                    if written != scenario {
                        wrong.push(format!("{name}: {change} is not what is assumed"));
                    }
                }
            }
            checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 60, "{checked}");
}
