//! Collectives with measured times from a profile: imported, fitted, simulated.

use super::runs::{near, repository, simulate, step};
use super::support::Place;
use forebay::profile::Profile;
use forebay::report::JobOutcome;
use forebay::scenario::{Reading, Scenario, ScenarioFile};
use forebay::uncertainty;

/// A job of four model copies on nodes of their own, whose allreduces have measured times in the profile.
const SCENARIO: &str = r#"# What do measured collectives cost?
name = "measured-collectives"
profile = "p.toml"
[run]
steps = 6
warm_up = "off"
[cluster]
nodes = 4
node = { cores = 8, gpus = 4, core_speed = [1.0] }
network = { nic = "10 GB/s", latency = "10 us" }
[storage.memory.memory]
[dataset.d]
samples = 100000
sample_size = "100 kB"
[[job]]
name = "j"
nodes = 4
dataset = "d"
storage = "memory"
batch = 8
model.step = "100 ms"
hand_off = "0 s"
loader.in-memory = {}
[job.sync.allreduce]
gradients = "100 MB"
overlap = false
transport.nccl.profile = "nccl"
"#;

/// Returns a directory with an imported profile, as users have it, and the parsed profile.
fn place() -> (Place, Profile) {
    let place = Place::new();
    let table = repository("tests/data/nccl-allreduce-4.txt");
    let table = table.to_str().expect("a path");
    let output = place.forebay(&["import", "nccl-tests", table, "--format", "profile"]).assert();
    let text = String::from_utf8_lossy(&output.success().get_output().stdout).into_owned();
    place.write("p.toml", &text);
    (place, Profile::parse("p.toml", &text).expect("a profile"))
}

fn resolved(place: &Place, changes: &[(&str, &str)]) -> Result<Scenario, String> {
    let mut text = SCENARIO.to_owned();
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    place.write("s.toml", &text);
    let file = ScenarioFile::open(&place.path("s.toml")).map_err(|error| error.to_string())?;
    file.resolve(&[]).map_err(|error| error.to_string())
}

fn run(place: &Place, changes: &[(&str, &str)]) -> JobOutcome {
    let scenario = resolved(place, changes).unwrap_or_else(|error| panic!("{error}"));
    simulate(&scenario).jobs.remove(0)
}

/// Returns the fitted time of an allreduce of `bytes` bytes [s].
fn measured(profile: &Profile, bytes: f64) -> f64 {
    let fit = &profile.transport["nccl"]["allreduce-4"];
    fit.transport().expect("a law").seconds(bytes, 0.0)
}

const GRADIENTS: &str = "gradients = \"100 MB\"";

#[test]
fn measured_collectives_on_an_idle_network_take_their_measured_time() {
    // System: nccl-tests on four GPUs, whose protocol changes at 64 KiB. Expectation: the time of a step plus
    // that of the fitted law, on both sides of the change, as flows or by formula, in one bucket or four;
    // within 2 % of the table.
    let (place, profile) = place();
    for (gradients, bytes, table) in
        [("8192 B", 8192.0, 15.4e-6), ("4 MiB", 4_194_304.0, 2512e-6), ("100 MB", 100e6, 58.87e-3)]
    {
        let expected = measured(&profile, bytes);
        assert!((expected / table - 1.0).abs() < 0.02, "{gradients}: {expected}, not {table}");
        let gradients = format!("gradients = \"{gradients}\"");
        for fidelity in ["", "\nfidelity = \"analytic\""] {
            let changed = format!("{gradients}{fidelity}");
            near(step(&run(&place, &[(GRADIENTS, &changed)])), 0.1 + expected, &changed);
        }
    }
    let four = format!("{GRADIENTS}\ntensors = 4\nbuckets = \"25 MB\"");
    near(step(&run(&place, &[(GRADIENTS, &four)])), 0.1 + 4.0 * measured(&profile, 25e6), "four");
}

#[test]
fn measured_sizes_take_their_median_time_although_no_law_fits_them() {
    // System: 512 ranks; from 134 MB on an allreduce takes ten times as long, and then a third of that. Expectation: a step
    // takes what was measured for its size, however wrong a law is; half of another size lies between its neighbours.
    let mut table = String::from("# Collective test starting: all_reduce_perf\n# Using devices\n");
    for rank in 0..512 {
        table +=
            &format!("# Rank {rank} Group 0 Pid {rank} on node{} device {}\n", rank / 4, rank % 4);
    }
    table += "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    let times = [
        (8_u64, 200.0),
        (1 << 20, 1750.0),
        (1 << 24, 6000.0),
        (1 << 26, 10_300.0),
        (1 << 27, 105_000.0),
        (1 << 29, 35_000.0),
        (1 << 30, 36_000.0),
    ];
    for (size, micro) in times {
        let algorithm = size as f64 / micro / 1e3;
        let half = format!("{micro} {algorithm:.2} {:.2} 0", algorithm * 2.0 * 511.0 / 512.0);
        table += &format!("{size} 2 float sum -1 {half} {half}\n");
    }
    let place = Place::new();
    place.write("table.txt", &table);
    let output =
        place.forebay(&["import", "nccl-tests", "table.txt", "--format", "profile"]).assert();
    place.write("p.toml", &String::from_utf8_lossy(&output.success().get_output().stdout));
    let step_of = |bytes: u64| {
        let gradients = format!("gradients = \"{bytes} B\"\nfidelity = \"analytic\"");
        let changes = [
            (GRADIENTS, gradients.as_str()),
            ("nodes = 4\nnode", "nodes = 128\nnode"),
            ("nodes = 4\ndataset", "nodes = 128\nparallel.data.copies_per_node = 4\ndataset"),
        ];
        step(&run(&place, &changes)) - 0.1
    };
    for (size, micro) in &times[1..] {
        near(step_of(*size), micro * 1e-6, "a measured size");
    }
    let between = step_of(3 << 27);
    assert!((0.035..0.105).contains(&between), "{between}");
}

#[test]
fn measured_collectives_load_links_like_a_ring_at_the_bus_bandwidth() {
    // System: 100 MB on four ranks: each NIC carries 150 MB in beta x 100 MB. Expectation: each NIC serves
    // these bytes; a NIC of half the bus bandwidth takes twice as long for them, and a remark says so.
    let (place, profile) = place();
    let law = profile.transport["nccl"]["allreduce-4"].transport().expect("a law");
    let [fixed, moving] = law.parts(100e6);
    let bus = 1.5 * 100e6 / moving;
    let none = resolved(&place, &[]).expect("a scenario");
    assert!(!none.remarks.iter().any(|said| said.contains("slower")), "{:?}", none.remarks);
    let outcome = simulate(&none);
    let nic = outcome.resources.iter().find(|resource| resource.name == "node.nic");
    near(nic.expect("a NIC").served, 4.0 * 6.0 * 150e6, "bytes into NICs");
    let half = format!("nic = \"{} B/s\"", bus / 2.0);
    let slow = [("nic = \"10 GB/s\"", half.as_str())];
    near(step(&run(&place, &slow)), 0.1 + fixed + 2.0 * moving, "slow NICs");
    let remarks = resolved(&place, &slow).expect("a scenario").remarks.join("\n");
    assert!(remarks.contains("`cluster.network.nic` is slower than"), "{remarks}");
}

#[test]
fn only_links_slower_than_measured_collectives_are_reported() {
    // System: rings of four ranks on nodes of their own, or on one node; each of the ring's transfers runs at
    // the law's rate for its size. Expectation: a remark on a link if its bandwidth is less than that of its
    // transfers together.
    let (place, profile) = place();
    let law = profile.transport["nccl"]["allreduce-4"].transport().expect("a law");
    let rate = |bytes: f64| 1.5 * bytes / law.parts(bytes)[1];
    let remarks = |changes: &[(&str, &str)]| {
        resolved(&place, changes).expect("a scenario").remarks.join("\n")
    };
    let nic = |rate: f64| format!("nic = \"{rate} B/s\"");
    let told = |changes: &[(&str, &str)], key: &str, yes: bool| {
        let remarks = remarks(changes);
        assert_eq!(
            remarks.contains(&format!("`{key}` is slower than")),
            yes,
            "{changes:?}: {remarks}"
        );
    };
    // Small messages are slower; they are not sped up to the rate of large ones.
    let (small, large) = (rate(8192.0), rate(100e6));
    assert_ne!(small, large);
    let between = nic((small * large).sqrt());
    for (gradients, rate) in [("8192 B", small), ("100 MB", large)] {
        let gradients = format!("gradients = \"{gradients}\"");
        let changes = [("nic = \"10 GB/s\"", between.as_str()), (GRADIENTS, gradients.as_str())];
        told(&changes, "cluster.network.nic", rate > (small * large).sqrt());
    }
    let half = nic(large / 2.0);
    let analytic = format!("{GRADIENTS}\nfidelity = \"analytic\"");
    let idle = [("nic = \"10 GB/s\"", half.as_str()), (GRADIENTS, analytic.as_str())];
    told(&idle, "cluster.network.nic", false);
    let pcie = format!("gpus = 4, pcie = \"{} B/s\"", large / 2.0);
    let pcie = ("gpus = 4", pcie.as_str());
    told(&[pcie], "cluster.node.pcie", false);
    told(&[pcie, ("transport.nccl", "transport.tcp")], "cluster.node.pcie", true);
    for (nodes, factor, yes) in [(2, 0.5, true), (2, 1.5, false), (4, 0.5, false)] {
        let uplink = factor * large;
        let racks =
            format!("nic = \"10 GB/s\", racks = {{ nodes = {nodes}, uplink = \"{uplink} B/s\" }}");
        told(&[("nic = \"10 GB/s\"", &racks)], "cluster.network.racks.uplink", yes);
    }
    let on_one = |intra: &str, key: &str, yes: bool| {
        let intra = format!("gpus = 4, intra = {{ {intra} }}");
        let copies =
            ("nodes = 4\ndataset", "nodes = 1\nparallel.data.copies_per_node = 4\ndataset");
        told(&[("gpus = 4", &intra), copies], &format!("cluster.node.intra{key}"), yes);
    };
    for (kind, factor, yes) in [
        ("shared", 3.0, true),
        ("shared", 5.0, false),
        ("switch", 3.0, false),
        ("switch", 0.5, true),
    ] {
        let bandwidth = factor * large;
        on_one(&format!("kind = \"{kind}\", bandwidth = \"{bandwidth} B/s\""), "", yes);
    }
    for (switch, key, factor, yes) in [
        (2, "root", 1.5, true),
        (2, "root", 2.5, false),
        (4, "root", 0.5, false),
        (2, "uplink", 0.5, true),
        (2, "uplink", 1.5, false),
        (4, "uplink", 0.5, false),
    ] {
        let tree =
            format!("kind = \"tree\", switch = {switch}, {key} = \"{} B/s\"", factor * large);
        on_one(&tree, &format!(".{key}"), yes);
    }
}

#[test]
fn fused_buckets_larger_than_measured_sizes_are_reported() {
    // System: 20 tensors of 50 MB, which wait together although each has a cycle of its own. Expectation: a
    // remark if the buffer lets more of them join than the measured sizes cover.
    let (place, _) = place();
    for (buffer, yes) in [("1 GB", true), ("50 MB", false)] {
        let fusion = format!(
            "gradients = \"1 GB\"\ntensors = 20\nfusion = {{ cycle = \"1 us\", buffer = \"{buffer}\" }}"
        );
        let remarks = resolved(&place, &[(GRADIENTS, &fusion)]).expect("a scenario").remarks;
        assert_eq!(remarks.join("\n").contains("was measured from 1024 to"), yes, "{remarks:?}");
    }
}

#[test]
fn reads_and_measured_collectives_share_a_nic() {
    // System: NICs of exactly the bus bandwidth, which reads use too. Expectation: both get half, so that
    // collectives take twice the time of their bytes.
    let (place, profile) = place();
    let law = profile.transport["nccl"]["allreduce-4"].transport().expect("a law");
    let [fixed, moving] = law.parts(100e6);
    let nic = format!("nic = \"{} B/s\"", 1.5 * 100e6 / moving);
    let changes = [
        ("nic = \"10 GB/s\"", nic.as_str()),
        ("[storage.memory.memory]", "[storage.memory.file-server]\nbandwidth = \"1 TB/s\""),
        (
            "loader.in-memory = {}",
            "prefill = \"full\"\nloader.tf-queue = { threads = 1, capacity = \"900000 samples\" }",
        ),
        ("sample_size = \"100 kB\"", "sample_size = \"10 MB\""),
        ("latency = \"10 us\"", "latency = \"0 s\""),
        ("steps = 6", "duration = \"60 s\""),
        ("batch = 8", "batch = 100"),
    ];
    let found = step(&run(&place, &changes));
    near(found, 0.1 + fixed + 2.0 * moving, "beside reads");
}

#[test]
fn uncertainty_runs_sample_collective_times_around_the_fitted_law() {
    // System: each run of `--uncertainty` samples the law's parameters. Expectation: times near the fitted
    // law's time but different from it, each equal to the law with its own parameters.
    let (place, profile) = place();
    resolved(&place, &[]).expect("a scenario");
    let file = ScenarioFile::open(&place.path("s.toml")).expect("a scenario");
    let mut times = Vec::new();
    for number in 0..8 {
        let drawn = uncertainty::drawn(&profile, 1, number);
        let reading = Reading { profile: Some(&drawn), live: false };
        let scenario = file.resolve_as(&[], reading).expect("a scenario");
        let found = step(&simulate(&scenario).jobs[0]);
        near(found, 0.1 + measured(&drawn, 100e6), "a draw");
        times.push(found - 0.1);
    }
    let fitted = measured(&profile, 100e6);
    assert!(times.iter().any(|time| (time / fitted - 1.0).abs() > 1e-5), "{times:?}");
    assert!(times.iter().all(|time| (time / fitted - 1.0).abs() < 0.05), "{times:?}");
}

#[test]
fn collectives_without_measurements_are_refused_with_a_remedy() {
    let (place, _) = place();
    for (from, to, words) in [
        ("profile = \"p.toml\"\n", "", ["names no profile", "--format profile"]),
        ("profile = \"nccl\"", "profile = \"ncl\"", ["no transport \"ncl\"", "`nccl`"]),
        (
            "nodes = 4\ndataset",
            "nodes = 3\ndataset",
            ["no allreduce of 3 ranks", "that make 4 ranks in all"],
        ),
    ] {
        let error = resolved(&place, &[(from, to)]).expect_err(to);
        let error = error.replace("\n", " ");
        assert!(words.iter().all(|word| error.contains(word)), "{to}: {error}");
    }
    let root = [
        ("allreduce]", "reduce-broadcast]"),
        (GRADIENTS, "parameters = \"100 MB\""),
        ("overlap = false\n", ""),
    ];
    let error = resolved(&place, &root).expect_err("a root");
    assert!(
        error.contains("transfers of a root or of servers cannot be taken from a profile"),
        "{error}"
    );
    let idle = "profile = \"nccl\"\nalgorithm = \"ring\"\nchunk = \"1 MB\"\ntransport.nccl.latency = \"1 us\"\n\
                transport.nccl.cpu = {}";
    let idle = format!("transport.nccl.{idle}");
    let changes = [("transport.nccl.profile = \"nccl\"", idle.as_str())];
    let remarks = resolved(&place, &changes).expect("a scenario").remarks.join("\n");
    for key in ["algorithm", "chunk", "transport.nccl.latency", "transport.nccl.cpu"] {
        assert!(remarks.contains(&format!("{key}` has no effect")), "{key}: {remarks}");
    }
    let large = [(GRADIENTS, "gradients = \"1 GB\"")];
    let remarks = resolved(&place, &large).expect("a scenario").remarks.join("\n");
    assert!(remarks.contains("transport.nccl.allreduce-4 was measured from 1024 to"), "{remarks}");
    assert!(remarks.contains("half of its measured times differ by more than"), "{remarks}");
}

#[test]
fn extreme_transport_profiles_are_simulated_without_panics() {
    // Times as large as a profile may hold, and times of almost zero: no panic, and every step of the latter is
    // done.
    let (place, profile) = place();
    let with = |alpha: f64, beta: f64| {
        let mut odd = profile.clone();
        let fit = odd.transport.get_mut("nccl").and_then(|kinds| kinds.get_mut("allreduce-4"));
        let fit = fit.expect("a fit");
        fit.draws.clear();
        // Only the law is left.
        fit.parameters.retain(|name, _| !name.starts_with("at_"));
        for (name, parameter) in &mut fit.parameters {
            parameter.ci95 = None;
            match name.split_once('_').map(|(kind, _)| kind) {
                Some("alpha") => parameter.value = alpha,
                Some("beta") => parameter.value = beta,
                _ => {}
            }
        }
        place.write("p.toml", &odd.to_toml());
        let run = resolved(&place, &[]).expect("a scenario");
        simulate(&run).jobs.remove(0)
    };
    near(step(&with(0.0, 0.0)), 0.1, "no time");
    near(step(&with(1.0, 0.0)), 1.1, "no bytes");
    assert!(with(1e7, 1e7).steps.len() <= 6);
    assert!(with(1e18, 1e18).steps.len() <= 6);
    assert_eq!(with(1e-300, 1e-300).steps.len(), 6);
}
