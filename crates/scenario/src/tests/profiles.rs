//! Tests of scenarios that take defaults from a profile, and of profiles that lack them.

use super::*;
use crate::storage::Bandwidth;
use forebay_model::law::DecodeLaw;
use std::path::Path;

const SCENARIO: &str = r#"name = "x"
profile = "p.toml"
[run]
steps = 10
[cluster]
nodes = 1
node = {}
[storage.s.local-disk]
access = "warm"
[dataset.d]
samples = 1000
sample_size = "50 kB"
image = { width = 500, height = 375 }
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
[job.loader.tf-queue]
threads = 2
capacity = "64 samples"
[job.model]
catalogue = "lenet5"
device.cpu = { threads = 1 }
"#;

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../calibrate/profiles/example.toml");
    std::fs::read_to_string(path).expect("a shipped profile")
}

/// Resolves the scenario with some text replaced, beside this profile.
fn resolve(changes: &[(&str, &str)], profile: &str) -> Result<Scenario, Problems> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("p.toml"), profile).expect("written");
    let mut text = SCENARIO.to_owned();
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    let path = directory.path().join("a.toml").display().to_string();
    ScenarioFile::parse(&path, text)?.resolve(&[])
}

fn right(changes: &[(&str, &str)], profile: &str) -> Scenario {
    resolve(changes, profile).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn keys_missing_in_the_scenario_are_taken_from_the_profile() {
    let scenario = right(&[], &example());
    assert_eq!(scenario.cluster.node.cores, 2);
    assert_eq!(scenario.cluster.node.core_speed, [1.0, 0.95]);
    let RequestPath { latency, per_stream, access, cpu, .. } = scenario.storage[0].reads();
    assert_eq!((latency, *per_stream), (&Distribution::Constant(5e-6), 4e9));
    assert_eq!((*access, *cpu), (Access::Warm, ReadCpu { fixed: 5e-6, per_byte: 2.4e-10 }));
    let job = &scenario.jobs[0];
    let law = DecodeLaw { fixed: 1e-4, per_byte: 1e-8, per_pixel: 5e-9 };
    assert_eq!(job.loader.stages[0].per_sample, [Operation::Read, Operation::Decode(law)]);
    assert_eq!((job.step.fixed, job.step.per_sample, job.hand_off), (1e-4, 1e-4, 1e-6));
    assert!(job.step.jitter.is_some());
    assert_eq!((job.device, job.catalogue), (Device::Cpu { threads: 1 }, Some(Catalogue::Lenet5)));
    assert_eq!(scenario.remarks, [""; 0]);
}

#[test]
fn a_disk_has_the_token_bucket_of_the_profile_unless_the_scenario_writes_its_bandwidth() {
    // System: a profile of 500 MB/s with a bucket of 6 GB before 300 MB/s. Expectation: this bucket, full, and its sustained
    // bandwidth; none if the scenario writes a bandwidth or if the bucket means nothing.
    let profile = |bucket: &str| {
        let parameter = |name: &str, value: &str, unit: &str| {
            format!("parameters.{name} = {{ value = {value}, unit = \"{unit}\" }}\n")
        };
        let all = parameter("bandwidth", "9e8", "B/s")
            + &parameter("sustained", "3e8", "B/s")
            + &parameter("bucket", bucket, "B");
        format!("{}\n[burst.direct]\nsamples = 9\nresidual = 0.0\n{all}", example())
    };
    let path = |access: &str, profile: &str| {
        right(&[("access = \"warm\"", access)], profile).storage[0].path.clone()
    };
    let found = path("access = \"direct\"", &profile("6e9"));
    let burst = Burst { bandwidth: 9e8, bucket: 6e9, content: 6e9, period: None };
    assert_eq!((found.burst, found.bandwidth), (Some(burst), Bandwidth::Fixed(3e8)));
    let written = "access = \"direct\"\nbandwidth = \"1 GB/s\"";
    assert_eq!(path(written, &profile("6e9")).burst, None);
    assert_eq!(path("access = \"direct\"", &profile("1e-9")).burst, None);
}

#[test]
fn a_disk_behind_the_gate_of_a_throttle_has_the_profile_s_limits_and_the_speed_behind_it() {
    // System: a profile with a gate of 100 ms before the disk of `read.direct` (500 MB/s, 20,000 operations per second). Expectation: what
    // the limits allow in a period passes at once, with the latency and bandwidth behind the gate. The same with another bandwidth,
    // unless it is more than that behind the gate. Nothing of it if the scenario writes a bucket, or if the gate means nothing.
    let profile = |period: &str| {
        let values = [
            ("period", period, "s"),
            ("latency", "2e-4", "s"),
            ("per_stream", "1e9", "B/s"),
            ("bandwidth", "2e9", "B/s"),
        ];
        let parameter = |(name, value, unit): &(&str, &str, &str)| {
            format!("parameters.{name} = {{ value = {value}, unit = \"{unit}\" }}\n")
        };
        let all: String = values.iter().map(parameter).collect();
        format!("{}\n[gate.direct]\nsamples = 9\nresidual = 0.0\n{all}", example())
    };
    let path = |access: &str, profile: &str| {
        right(&[("access = \"warm\"", access)], profile).storage[0].path.clone()
    };
    let found = path("access = \"direct\"", &profile("0.1"));
    let burst = Burst { bandwidth: 2e9, bucket: 5e7, content: 5e7, period: Some(0.1) };
    assert_eq!((found.burst, found.bandwidth), (Some(burst), Bandwidth::Fixed(5e8)));
    let operations = found.operation_burst.expect("a bucket of operations");
    assert_eq!((operations.sustained, operations.bucket), (20_000.0, 2000.0));
    assert_eq!((found.latency.mean(), found.per_stream), (2e-4, 1e9));
    let other = path("access = \"direct\"\nbandwidth = \"1 GB/s\"", &profile("0.1"));
    assert_eq!(other.burst, Some(Burst { bucket: 1e8, content: 1e8, ..burst }));
    let other = path("access = \"direct\"\nbandwidth = \"3 GB/s\"", &profile("0.1"));
    assert_eq!((other.burst, other.bandwidth), (None, Bandwidth::Fixed(3e9)));
    let own = "access = \"direct\"\nbandwidth = \"1 GB/s\"\nburst = { operations_bucket = 0.5 }";
    for (keys, period) in [(own, "0.1"), ("access = \"direct\"", "1e-9")] {
        let found = path(keys, &profile(period));
        assert_eq!(found.burst, None, "{keys}");
        assert!(found.operation_burst.is_none_or(|of| of.bucket == 1.0), "{keys}");
        assert_ne!(found.latency.mean(), 2e-4);
    }
}

#[test]
fn a_pytorch_loader_costs_what_the_profile_has_measured_in_python() {
    // System: a profile with Pillow, collating, taking batches and starting workers; batches of 8 samples of 50 kB. Expectation: all of it in
    // the loader and the trainer: in the steps on cores, before the steps of an accelerator, or in the pinning thread. What the scenario
    // writes holds; a trainer without workers takes no batches from them.
    let fit = |path: &str, values: &[(&str, &str, &str)]| {
        let parameter = |(name, value, unit): &(&str, &str, &str)| {
            format!("parameters.{name} = {{ value = {value}, unit = \"{unit}\" }}\n")
        };
        let all: String = values.iter().map(parameter).collect();
        format!("\n[{path}]\nsamples = 9\nresidual = 0.0\n{all}")
    };
    let work = |name, value| (name, value, "core-s");
    let pillow =
        [work("fixed", "1e-3"), ("per_byte", "0.0", "core-s/B"), work("per_pixel", "1e-9")];
    let collate =
        [("fixed", "5e-4", "s"), ("per_sample", "1e-6", "s"), ("per_byte", "1e-9", "s/B")];
    let profile = example()
        + &fit("decode.pillow", &pillow)
        + &fit("loader.pytorch.collate", &collate)
        + &fit("loader.pytorch.lock-pillow", &[("share", "0.25", "1")])
        + &fit("loader.pytorch.inline", &[("fixed", "2e-4", "s"), ("per_byte", "0.0", "s/B")])
        + &fit("loader.pytorch.take", &[("fixed", "1e-3", "s"), ("per_byte", "1e-9", "s/B")])
        + &fit("loader.pytorch.start", &[("fixed", "2e-2", "s"), ("per_worker", "8e-3", "s")])
        + &fit(
            "loader.pytorch.ranks",
            &[("work", "4e-3", "s"), ("varying", "2e-4", "s"), ("serial", "5e-4", "s")],
        );
    let before = "[job.loader.tf-queue]\nthreads = 2\ncapacity = \"64 samples\"\n";
    let job = |keys: &str, more: &[(&str, &str)]| {
        let loader = format!("[job.loader.pytorch]\ndecode = \"pillow\"\n{keys}\n");
        right(&[&[(before, loader.as_str())], more].concat(), &profile).jobs.remove(0)
    };
    let compute = |seconds| Operation::Compute(Distribution::Constant(seconds));
    let near = |value: f64, expected: f64| {
        assert!((value / expected - 1.0).abs() < 1e-9, "{value} for {expected}");
    };
    let on_cores = job("workers = 2", &[]);
    let stage = &on_cores.loader.stages[0];
    let law = DecodeLaw { fixed: 1e-3, per_byte: 0.0, per_pixel: 1e-9 };
    assert_eq!(stage.per_sample[..2], [Operation::Read, Operation::Decode(law)]);
    let Operation::Compute(Distribution::Constant(each)) = stage.per_sample[2] else {
        panic!("{stage:?}");
    };
    near(each, 1e-6 + 5e4 * 1e-9);
    assert_eq!(stage.per_item, [compute(5e-4)]);
    assert_eq!(on_cores.loader.requests.expect("requests").start, 8e-3);
    near(on_cores.loader.taking, 1e-3 + 8.0 * 5e4 * 1e-9);
    assert_eq!(stage.lock, 0.0, "each process has an interpreter of its own");
    assert_eq!(job("workers = 2\nworker_kind = \"thread\"", &[]).loader.stages[0].lock, 0.25);
    assert_eq!(
        job("workers = 2\nworker_kind = \"thread\"\ngil = 0.5", &[]).loader.stages[0].lock,
        0.5
    );
    let alone = job("workers = 0", &[]);
    assert_eq!((alone.loader.taking, alone.loader.requests.expect("requests").start), (0.0, 0.0));
    near(on_cores.step.fixed - alone.step.fixed, 1.4e-3);
    assert_eq!(alone.loader.stages[0].per_item, [compute(2e-4)]);
    let step = [("catalogue = \"lenet5\"\ndevice.cpu = { threads = 1 }", "step = \"5 ms\"")];
    let launch = job("workers = 2", &step).launch.expect("a launch");
    near(launch.taking, 1.4e-3);
    assert!(!launch.overlap && !launch.has_work());
    let both = [(step[0].0, "step = \"5 ms\"\nlaunch = \"2 ms\"")];
    let launch = job("workers = 2\ntake = \"3 ms\"", &both).launch.expect("a launch");
    assert!(launch.overlap && launch.has_work() && launch.taking == 3e-3);
    let measured = [(step[0].0, "step = \"5 ms\"\nlaunch = { measured = true, overlap = false }")];
    let launch = job("workers = 2", &measured).launch.expect("a launch");
    // Taking a batch is in `take` already.
    assert_eq!(launch.work, Distribution::Constant(3e-3));
    assert_eq!(launch.varying, Distribution::Exponential { mean: 2e-4 });
    assert_eq!(launch.serial, 5e-4);
    let written =
        "step = \"5 ms\"\nlaunch = { measured = true, work = \"1 ms\", serial = \"0 s\" }";
    let launch = job("workers = 2", &[(step[0].0, written)]).launch.expect("a launch");
    assert_eq!((launch.work, launch.serial), (Distribution::Constant(1e-3), 0.0));
    let pinned = job("workers = 2\npin_memory = \"2 ms\"", &step);
    assert_eq!((pinned.loader.taking, &pinned.launch), (0.0, &None));
    assert_eq!(pinned.loader.stages[1].per_item.len(), 2);
    let own = job("workers = 2\ncollate = \"1 ms\"", &[]);
    assert_eq!(own.loader.stages[0].per_item, [compute(1e-3)]);
    assert_eq!(own.loader.stages[0].per_sample.len(), 2);
}

#[test]
fn a_disk_serves_reads_as_the_profile_says_unless_the_scenario_writes_it() {
    // System: profiles that found one, two or all requests served at once, or could not tell. Expectation: so many; as many as the scenario
    // writes; in order of arrival where nothing is known, or where the scenario describes another disk by its bandwidth.
    let profile = |in_flight: &str| {
        let parameter =
            format!("parameters.in_flight = {{ value = {in_flight}, unit = \"requests\" }}");
        format!("{}\n[service.direct]\nsamples = 12\nresidual = 0.0\n{parameter}\n", example())
    };
    let sharing = |keys: &str, profile: &str| {
        let keys = format!("access = \"direct\"\n{keys}");
        right(&[("access = \"warm\"", keys.as_str())], profile).storage[0].path.sharing
    };
    let in_order = |in_flight| Sharing::InOrder { in_flight };
    let two = profile("2.0");
    assert_eq!(sharing("", &profile("64.0")), Sharing::Fair);
    assert_eq!(sharing("", &two), in_order(Some(2)));
    assert_eq!(sharing("service = \"fair\"", &two), Sharing::Fair);
    assert_eq!(sharing("in_flight = 3", &two), in_order(Some(3)));
    assert_eq!(sharing("bandwidth = \"1 GB/s\"", &two), in_order(None));
    let unknown = two.replace("\"requests\" }\n", "\"requests\", unidentified = \"why\" }\n");
    assert_ne!(unknown, two);
    assert_eq!(sharing("", &unknown), in_order(None));
    // Nine tenths of 500 MB/s need five streams of 100 MB/s, whatever the profile found.
    assert_eq!(sharing("per_stream = \"100 MB/s\"", &profile("1.0")), in_order(Some(5)));
}

#[test]
fn keys_set_in_the_scenario_override_the_profile() {
    let changes = [
        ("node = {}", "node = { cores = 8, core_speed = [1.0] }"),
        (
            "access = \"warm\"",
            "access = \"emulated\"\nlatency = \"1 ms\"\ncpu = { fixed = \"1 us\" }",
        ),
        ("threads = 2\n", "threads = 2\ndecode = \"1 ms\"\n"),
        ("catalogue = ", "step = { fixed = \"1 ms\", floor = \"2 ms\" }\ncatalogue = "),
        ("batch = 8", "batch = 8\nhand_off = \"0 s\""),
    ];
    let scenario = right(&changes, &example());
    assert_eq!(scenario.cluster.node.cores, 8);
    assert_eq!(scenario.cluster.node.core_speed, [1.0]);
    let RequestPath { latency, per_stream, cpu, .. } = &scenario.storage[0].path;
    assert_eq!((latency, *per_stream), (&Distribution::Constant(1e-3), 4e9));
    assert_eq!(*cpu, ReadCpu { fixed: 1e-6, per_byte: 0.0 });
    let job = &scenario.jobs[0];
    let decode = Operation::Compute(Distribution::Constant(1e-3));
    assert_eq!(job.loader.stages[0].per_sample[1], decode);
    assert_eq!((job.step.fixed, job.step.floor, job.hand_off), (1e-3, 2e-3, 0.0));
    assert_eq!(job.step.jitter, None, "what is measured of a step is not what was written of it");
}

#[test]
fn threads_of_a_node_use_at_most_a_fractional_number_of_cores_in_total() {
    // System: a share of 1.5 cores, or of a quarter of a core. Expectation: threads together never use more than that.
    let with = |cores: &str| {
        let profile = example().replace("cores = 2.0", &format!("cores = {cores}"));
        right(&[], &profile).cluster.node
    };
    let node = with("1.5");
    assert_eq!((node.cores, node.usable_cores), (2, 1.5));
    assert_eq!([1, 2, 3].map(|threads| node.core_capacity(threads)), [1.0, 1.5, 1.5]);
    let node = with("0.25");
    assert_eq!((node.cores, node.core_capacity(1)), (1, 0.25));
    // The speed is linear between measured numbers of threads and constant beyond them.
    let without_draws = example().replace("draws = [[0.95], [0.94], [0.96]]\n", "");
    let profile = without_draws.replace(
        "speed_2 = { value = 0.95, unit = \"1\", ci95 = [0.94, 0.96] }",
        "speed_2 = { value = 0.9, unit = \"1\" }\nspeed_4 = { value = 0.7, unit = \"1\" }",
    );
    let speeds = |profile: &str, node: &str| {
        let node = right(&[("node = {}", node)], profile).cluster.node;
        node.core_speed.iter().map(|s| (s * 1e6).round() / 1e6).collect::<Vec<_>>()
    };
    let on_four = profile.replace("cores = 2.0", "cores = 4.0");
    assert_eq!(speeds(&on_four, "node = { cores = 16 }"), [1.0, 0.9, 0.8, 0.7]);
    // Four threads on two cores are two for each core, on any number of cores.
    assert_eq!(speeds(&profile, "node = {}"), [1.0, 0.9, 0.8, 0.7]);
    let on_four = speeds(&profile, "node = { cores = 4 }");
    assert_eq!(on_four, [1.0, 0.9, 0.9, 0.9, 0.85, 0.8, 0.75, 0.7]);
}

#[test]
fn threads_that_wait_for_cores_slow_them_as_written() {
    // System: two cores; each is half as fast while four threads or more want them. Expectation: both together do the work of one.
    let speeds = "node = { cores = 2, core_speed = [1.0, 1.0, 1.0, 0.5] }";
    let node = right(&[("node = {}", speeds)], &example()).cluster.node;
    assert_eq!(
        [1, 2, 3, 4, 9].map(|threads| node.core_capacity(threads)),
        [1.0, 2.0, 2.0, 1.0, 1.0]
    );
}

/// Returns the only problem of the scenario, rendered.
fn wrong(changes: &[(&str, &str)], profile: &str) -> String {
    let problems = resolve(changes, profile).expect_err("wrong");
    assert_eq!(problems.iter().count(), 1, "{problems}");
    problems.to_string()
}

#[test]
fn errors_for_keys_missing_in_scenario_and_profile_offer_two_remedies() {
    let none = ("profile = \"p.toml\"\n", "");
    let problems = resolve(&[none, ("\"warm\"", "\"cold\"")], "").expect_err("wrong").to_string();
    for expected in [
        "the key `cores` is missing",
        "write `cores = 20`, or name a profile that has host.cores",
        "write `bandwidth = \"2 GB/s\"`, or name a profile that has read.cold",
        "write `decode = \"2 ms\"`, or name a profile that has decode.jpeg",
        "write `step = \"3 ms\"`, or name a profile that has step.lenet5.cpu-1",
    ] {
        assert!(problems.contains(expected), "{expected}\n{problems}");
    }
    let cold = wrong(&[("\"warm\"", "\"cold\"")], &example());
    assert!(cold.contains("`bandwidth` is missing, and the profile has no read.cold"), "{cold}");
    let threads = wrong(&[("{ threads = 1 }", "{ threads = 3 }")], &example());
    assert!(threads.contains("the profile has no step.lenet5.cpu-3"), "{threads}");
    let plain = wrong(&[("catalogue = \"lenet5\"\n", "")], &example());
    assert!(plain.contains("or a `catalogue` model"), "{plain}");
}

#[test]
fn an_unusable_profile_is_reported_at_the_key_that_names_it() {
    for (changes, profile, expected) in [
        (&[("\"p.toml\"", "\"q.toml\"")][..], "", "q.toml"),
        (&[], "host = 3", "p.toml"),
        (&[], "[provenance", "p.toml"),
        (&[("\"p.toml\"", "7")], "", "the number 7"),
    ] {
        let shown = wrong(changes, profile);
        assert!(shown.contains(expected) && shown.contains("a.toml:2:11\n"), "{shown}");
        assert!(shown.contains("= help: ") && shown.contains("^"), "{shown}");
    }
}

#[test]
fn a_profile_is_read_from_disk_only_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let profile = directory.path().join("p.toml");
    std::fs::write(&profile, example()).expect("written");
    let path = directory.path().join("a.toml").display().to_string();
    let file = ScenarioFile::parse(&path, SCENARIO.to_owned()).expect("TOML");
    assert!(file.resolve(&[]).is_ok());
    std::fs::remove_file(profile).expect("removed");
    assert!(file.resolve(&[]).is_ok() && file.clone().profile(&[]).is_ok_and(|p| p.is_some()));
}

#[test]
fn scenarios_without_profile_can_run_live_but_not_be_simulated() {
    let file = ScenarioFile::parse("a.toml", SCENARIO.replace("profile = \"p.toml\"\n", ""));
    let file = file.expect("TOML");
    assert!(file.resolve(&[]).is_err());
    let reading = Reading { live: true, ..Reading::default() };
    let scenario = file.resolve_as(&[], reading).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(scenario.jobs[0].step.seconds(8.0), 0.0);
    assert_eq!(file.profile(&[]), Ok(None));
}

#[test]
fn invalid_settings_of_cores_neural_networks_and_decoding_are_reported() {
    let pipeline = ("batch = 8", "batch = 8\nparallel.pipeline.stages = 2");
    assert!(wrong(&[pipeline], &example()).contains("over accelerators, not over cores"));
    let speed = ("node = {}", "node = { core_speed = [1.0, 1.2] }");
    assert!(wrong(&[speed], &example()).contains("at most 1"));
    let empty = ("node = {}", "node = { core_speed = [] }");
    assert!(wrong(&[empty], &example()).contains("the list is empty"));
    let name = ("\"lenet5\"", "\"lenet\"");
    assert!(wrong(&[name], &example()).contains("did you mean `lenet5`?"));
    let stages = "[[job.loader.stages]]\nname = \"a\"\nworkers = 1\nbuffer = 64\n\
                  per_sample = [\"read\"";
    let queue = "[job.loader.tf-queue]\nthreads = 2\ncapacity = \"64 samples\"\n";
    let plain = format!("{stages}, \"decode\"]\n");
    let opaque = ("image = { width = 500, height = 375 }\n", "");
    assert!(wrong(&[(queue, &plain), opaque], &example()).contains("are not images"));
    right(&[(queue, &plain)], &example());
    let item = format!("{stages}]\nper_item = [\"decode\"]\n");
    assert!(wrong(&[(queue, &item)], &example()).contains("write it in `per_sample`"));
    let law = format!("{stages}, {{ decode = {{ fixed = 3 }} }}]\n");
    assert!(wrong(&[(queue, &law)], &example()).contains("has no unit"));
    let kind = format!("{stages}, {{ decode = {{ fixd = \"3 ms\" }} }}]\n");
    assert!(wrong(&[(queue, &kind)], &example()).contains("unknown kind `fixd`"));
}

#[test]
fn settings_without_effect_or_beyond_the_measured_range_get_a_remark() {
    let remark = |changes: &[(&str, &str)], expected: &str| {
        let remarks = right(changes, &example()).remarks;
        assert!(remarks.iter().any(|remark| remark.contains(expected)), "{remarks:?}");
        assert_eq!(remarks.len(), 1, "{remarks:?}");
    };
    remark(&[("batch = 8", "batch = 512"), ("64 s", "512 s")], "`job.j.batch` is 512");
    remark(
        &[("threads = 2\n", "threads = 5\n")],
        "workers of \"enqueue\"` is 5, and the profile's decode.jpeg was measured from 1 to 4",
    );
    remark(&[("500, height", "5000, height")], "`dataset.d.image` is 1875000");
    remark(&[("node = {}", "node = { gpu_speed = 2 }")], "`cluster.node.gpu_speed` has no effect");
    let law = "threads = 2\ndecode = { per_pixel = \"1 ns\" }\n";
    remark(
        &[("threads = 2\n", law), ("image = { width = 500, height = 375 }\n", "")],
        "the samples of `d` are not images",
    );
    let all = "bandwidth = \"1 GB/s\"\nper_stream = \"1 GB/s\"\nlatency = \"0 s\"\n\
               operations = \"1000 /s\"\ncpu = {}";
    let warm = format!("access = \"warm\"\n{all}");
    remark(&[("access = \"warm\"", &warm)], "The limits of `storage.s` have no effect");
    let direct = format!("access = \"direct\"\n{all}");
    remark(
        &[("access = \"warm\"", &direct)],
        "`storage.s.local-disk.access` has no effect: nodes have no page cache",
    );
    let stages = "[[job.loader.stages]]\nname = \"a\"\nworkers = 1\nbuffer = 64\n\
                  per_sample = [\"read\"]\n";
    let queue = "[job.loader.tf-queue]\nthreads = 2\ncapacity = \"64 samples\"\n";
    remark(&[(queue, stages)], "its loader does not decode");
}

#[test]
fn profiles_with_invalid_parameters_are_refused_or_give_finite_times() {
    // System: laws with negative, huge and infinite parameters, which random samples near zero may have. Expectation: values that
    // can be simulated.
    for value in ["-1.0", "nan", "inf", "1e300"] {
        let mut profile = String::new();
        for line in example().lines().filter(|line| !line.starts_with("draws")) {
            let number = line.split("value = ").nth(1).and_then(|rest| rest.split(',').next());
            profile += &match number {
                Some(number) => line.replacen(number, value, 1),
                None => line.to_owned(),
            };
            profile.push('\n');
        }
        if let Ok(scenario) = resolve(&[], &profile) {
            let job = &scenario.jobs[0];
            let times = [job.step.fixed, job.step.per_sample, job.hand_off];
            assert!(times.iter().all(|time| (0.0..=1e7).contains(time)), "{value}: {times:?}");
        }
    }
}

#[test]
fn a_profile_with_a_step_time_of_zero_is_reported() {
    let mut profile: crate::profile::Profile = toml::from_str(&example()).expect("a profile");
    let fit = profile.step.get_mut("lenet5").and_then(|devices| devices.get_mut("cpu-1"));
    let parameters = &mut fit.expect("a shipped step").parameters;
    parameters.values_mut().for_each(|parameter| parameter.value = 0.0);
    let reading = Reading { profile: Some(&profile), ..Reading::default() };
    let text = SCENARIO.replace("profile = \"p.toml\"\n", "");
    let file = ScenarioFile::parse("a.toml", text).expect("a scenario");
    let problems = file.resolve_as(&[], reading).expect_err("no time").to_string();
    assert!(problems.contains("step time of lenet5 on cpu-1 is 0"), "{problems}");
    assert!(!problems.contains("shorter run"), "{problems}");
}

#[test]
fn storage_settings_of_the_scenario_are_told_apart_from_profile_values() {
    let written = right(&[("[dataset.d]", "latency = \"1 ms\"\n[dataset.d]")], &example());
    assert_eq!(written.storage[0].written, Written { latency: true, ..Written::default() });
    let bucket = "access = \"direct\"\nburst = { bandwidth = \"2 GB/s\", bucket = \"1 GB\" }";
    let written = right(&[("access = \"warm\"", bucket)], &example());
    assert_eq!(written.storage[0].written, Written { burst: true, ..Written::default() });
    let server = [("local-disk", "file-server"), ("access = \"warm\"", "bandwidth = \"1 GB/s\"")];
    let written = right(&server, &example()).storage[0].written;
    assert_eq!(written, Written { bandwidth: true, ..Written::default() });
}

#[test]
fn step_times_between_measured_batches_are_interpolated() {
    // System: a fit of 100 us + 100 us for each sample, whose steps were measured at batches of 4 and 16 to take
    // 2 times and half of that: 1 ms and 0.85 ms. Expectation: these times at these batches, on the line between
    // them in between, and the ratio of the nearest batch beyond; the fit itself for micro-batches, whose size is
    // another one.
    let mut profile: crate::profile::Profile = toml::from_str(&example()).expect("a profile");
    let fit = profile.step.get_mut("lenet5").and_then(|devices| devices.get_mut("cpu-1"));
    fit.expect("a shipped step").ratios = [(4.0, 2.0), (16.0, 0.5)]
        .map(|(batch, ratio)| crate::profile::Ratio { batch, ratio })
        .into();
    let reading = Reading { profile: Some(&profile), ..Reading::default() };
    let text = SCENARIO.replace("profile = \"p.toml\"\n", "");
    let file = ScenarioFile::parse("a.toml", text).expect("a scenario");
    for (batch, expected) in
        [(2, 0.6e-3), (4, 1e-3), (8, 0.95e-3), (10, 0.925e-3), (16, 0.85e-3), (32, 1.65e-3)]
    {
        let set = format!("job.batch={batch}").parse().expect("an override");
        let scenario = file.resolve_as(&[set], reading).expect("a scenario");
        let seconds = scenario.jobs[0].step.seconds(f64::from(batch));
        assert!((seconds / expected - 1.0).abs() < 1e-9, "{batch}: {seconds}");
    }
    let set = ["job.batch=16", "job.model.step_of=micro-batch"].map(|set| set.parse().expect(set));
    let scenario = file.resolve_as(&set, reading).expect("a scenario");
    assert!((scenario.jobs[0].step.seconds(16.0) - 1.7e-3).abs() < 1e-12);
}

#[test]
fn a_profile_of_warm_reads_says_nothing_of_writes_to_the_disk() {
    // System: a disk whose files are in the page cache, and a profile of such reads alone. Expectation: checkpoints there need its
    // bandwidth.
    let checkpoint =
        ("\n[job.model]", "\n[job.checkpoint]\nsteps = 2\nbytes = \"1 GB\"\n[job.model]");
    let profile = example().replace("[read.direct", "[read.other");
    let problem = wrong(&[checkpoint], &profile);
    assert!(
        problem.contains("`bandwidth` is missing, and the profile has no read.direct"),
        "{problem}"
    );
}

#[test]
fn file_servers_say_that_they_take_nothing_of_a_profile() {
    let disk = "[storage.s.local-disk]\naccess = \"warm\"\n";
    let said = |keys: &str| {
        let server = format!("[storage.s.file-server]\nbandwidth = \"1 GB/s\"\n{keys}");
        let remarks = right(&[(disk, &server)], &example()).remarks;
        remarks.into_iter().find(|remark| remark.contains("takes nothing of the profile"))
    };
    let some = said("latency = \"1 ms\"\n").expect("a remark");
    assert!(some.starts_with("`storage.s.file-server` takes nothing"), "{some}");
    assert!(some.contains("`per_stream`, `operations`, `cpu` limit nothing"), "{some}");
    let all = "latency = \"1 ms\"\nper_stream = \"1 GB/s\"\noperations = \"9 /s\"\ncpu = {}\n";
    assert_eq!(said(all), None);
}
