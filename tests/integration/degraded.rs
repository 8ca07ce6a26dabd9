//! Faults: servers, links and nodes that are slower for a while.

use forebay::scenario::{Override, ScenarioFile};

use super::base::{base, changed, outcome};
use super::runs::simulate;

/// Returns the end of each step of the first job with a fault and these changes [s].
fn ends(changes: &[(&str, &str)], fault: &str) -> Vec<f64> {
    let fault = format!("[{fault}]");
    let scenario = changed(&[changes, &[("fault", fault.as_str())]].concat());
    simulate(&scenario).jobs[0].steps.iter().map(|step| step.end).collect()
}

/// Returns the mean time of the steps that end from `from` to `until` [s].
fn pace(ends: &[f64], from: f64, until: f64) -> f64 {
    let inside: Vec<f64> = ends.iter().copied().filter(|t| (from..until).contains(t)).collect();
    (inside[inside.len() - 1] - inside[0]) / (inside.len() - 1) as f64
}

#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} instead of {expected}");
}

/// Steps of 16 samples of 100 kB over a server or a NIC that is the bottleneck: 16 ms at 100 MB/s.
const BOUND: [(&str, &str); 4] = [
    ("storage.s.file-server.latency", "{ exponential = { mean = \"500 us\" } }"),
    ("job.loader.tf-queue.decode", "\"0 s\""),
    ("job.loader.tf-queue.threads", "32"),
    ("run.steps", "600"),
];

#[test]
fn a_link_fault_slows_reads_by_its_factor_only_while_it_lasts() {
    // System: the bottleneck has a quarter of its bandwidth from 2 s to 6 s. Expectation: 16 ms a step before
    // and after, 64 ms meanwhile.
    let cases = [
        ("storage.s.file-server.bandwidth", "storage = \"s\""),
        ("cluster.network.nic", "link = \"nic\""),
    ];
    for (key, what) in cases {
        let changes = [&BOUND[..], &[(key, "\"100 MB/s\"")]].concat();
        let of = |factor: f64| {
            let until = "from = \"2 s\", until = \"6 s\"";
            ends(&changes, &format!("{{ {what}, factor = {factor}, {until} }}"))
        };
        let ends = of(0.25);
        assert_near(pace(&ends, 0.5, 2.0), 16e-3, 0.02);
        assert_near(pace(&ends, 2.2, 6.0), 64e-3, 0.02);
        assert_near(pace(&ends, 6.2, 1e9), 16e-3, 0.02);
        assert_near(pace(&of(0.5), 2.2, 6.0), 32e-3, 0.02);
    }
}

#[test]
fn a_storage_fault_slows_operations_by_its_factor() {
    // System: a limit of 1,000 opens a second, 16 opens a step. Expectation: 16 ms a step, and 32 ms at half
    // the speed.
    let changes = [&BOUND[..], &[("storage.s.file-server.operations", "\"1000 /s\"")]].concat();
    let ends = ends(&changes, "{ storage = \"s\", factor = 0.5, from = \"2 s\", until = \"6 s\" }");
    assert_near(pace(&ends, 0.5, 2.0), 16e-3, 0.02);
    assert_near(pace(&ends, 2.2, 6.0), 32e-3, 0.02);
    assert_near(pace(&ends, 6.2, 1e9), 16e-3, 0.02);
}

#[test]
fn a_link_that_is_down_stops_all_reads() {
    // System: the NIC is down from 2 s to 5 s. Expectation: the queue of 64 samples is trained on, then no step
    // ends; the run ends 3 s later than without the fault.
    let changes = [&BOUND[..], &[("cluster.network.nic", "\"100 MB/s\"")]].concat();
    let plain = simulate(&changed(&changes)).makespan;
    let ends = ends(&changes, "{ link = \"nic\", factor = 0, from = \"2 s\", until = \"5 s\" }");
    assert!(!ends.iter().any(|end| (2.1..5.0).contains(end)), "nothing comes");
    assert_near(ends[599], plain + 3.0, 0.005);
}

#[test]
fn faults_of_intra_node_links_slow_pcie_uplinks_and_the_root_complex() {
    // System: a ring of four GPUs, 6 messages of 25 MB, with two of its links over uplinks of 5 GB/s or a root
    // of 10 GB/s; steps of 1 ms. Expectation: 30 ms for the ring, and 60 ms from 0.5 s on, on the first nodes
    // and in a group.
    let tree = |above: &str| format!("{{ kind = \"tree\", switch = 2, {above} }}");
    for above in ["uplink = \"5 GB/s\"", "root = \"10 GB/s\""] {
        let group = format!("{{ g = {{ nodes = 1, node = {{ intra = {} }} }} }}", tree(above));
        let first = tree(above);
        for (key, intra, nodes) in
            [("cluster.node.intra", &first, "8"), ("cluster.group", &group, "1")]
        {
            let changes = [
                ("storage.s", "{ memory = {} }"),
                ("job.loader.tf-queue.decode", "\"0 s\""),
                ("job.parallel.data.copies_per_node", "4"),
                ("job.sync.allreduce", "{ gradients = \"100 MB\", algorithm = \"ring\" }"),
                ("job.copies", "2"),
                ("cluster.nodes", nodes),
                (key, intra.as_str()),
            ];
            let slow = "[{ link = \"intra\", factor = 0.5, from = \"0.5 s\" }]";
            let scenario = changed(&[&changes[..], &[("fault", slow)]].concat());
            // One node for each copy, and data in memory: nothing crosses the network.
            let said = scenario.remarks.iter().filter(|said| !said.contains("cluster.network"));
            assert_eq!(said.count(), 0, "{key}: {:?}", scenario.remarks);
            let last = &simulate(&scenario).jobs[1];
            let ends: Vec<f64> = last.steps.iter().map(|step| step.end).collect();
            assert_near(pace(&ends, 0.0, 0.5), 31e-3, 1e-3);
            assert_near(pace(&ends, 0.6, 1e9), 61e-3, 1e-3);
        }
    }
}

#[test]
fn faults_reported_as_ineffective_change_no_step() {
    // System: faults of resources that are not limited, not used, or not simulated. Expectation: a remark, and
    // the same steps; no remark where the fault has an effect on a group.
    let analytic = "{ gradients = \"100 MB\", fidelity = \"analytic\" }";
    let memory = [("storage.s", "{ memory = {} }"), ("job.loader.tf-queue.decode", "\"0 s\"")];
    let store = [("storage.s", "{ object-store = { per_connection = \"100 MB/s\" } }")];
    let cores = [memory[0], memory[1], ("job.model.device", "{ cpu = {} }")];
    let idle = [memory[0], memory[1], ("job.nodes", "4"), ("job.sync.allreduce", analytic)];
    for (changes, fault) in [
        (&memory[..], "{ storage = \"s\", factor = 0.1 }"),
        (&store, "{ storage = \"s\", factor = 0.1 }"),
        (&cores, "{ node = \"gpus\", factor = 0.1 }"),
        (&idle, "{ link = \"nic\", factor = 0.1 }"),
        (&memory, "{ link = \"intra\", factor = 0.1 }"),
    ] {
        let faults = format!("[{fault}]");
        let with = [changes, &[("fault", faults.as_str())]].concat();
        let said = changed(&with).remarks.join("\n");
        assert!(said.contains("has no effect"), "{fault}: {said}");
        let plain: Vec<f64> = outcome(changes).jobs[0].steps.iter().map(|step| step.end).collect();
        assert_eq!(ends(changes, fault), plain);
    }
    let shared = [("storage.s", "{ memory = { bandwidth = \"1 GB/s\" } }")];
    let flows = [idle[0], idle[1], idle[2], ("job.sync.allreduce", "{ gradients = \"100 MB\" }")];
    let pcie = ("cluster.group", "{ g = { nodes = 1, node = { pcie = \"1 GB/s\" } } }");
    for (changes, fault) in [
        (&shared[..], "[{ storage = \"s\", factor = 0.1 }]"),
        (&memory, "[{ node = \"gpus\", factor = 0.1 }]"),
        (&flows, "[{ link = \"nic\", factor = 0.1 }]"),
        (&[pcie], "[{ link = \"pcie\", factor = 0.1 }]"),
    ] {
        let said = changed(&[changes, &[("fault", fault)]].concat()).remarks.join("\n");
        assert!(!said.contains("`fault"), "{fault}: {said}");
    }
}

#[test]
fn a_slow_gpu_delays_its_peers() {
    // System: data in memory, steps of 1 ms on two nodes; the GPUs of one node at half speed from 20 ms on.
    // Expectation: 2 ms a step from then on, of which the other node waits 1 ms.
    let changes = [
        ("storage.s", "{ memory = {} }"),
        ("job.loader.tf-queue.decode", "\"0 s\""),
        ("job.nodes", "2"),
    ];
    let slow = "{ node = \"gpus\", nodes = [1], factor = 0.5, from = \"20 ms\" }";
    let found = ends(&changes, slow);
    assert_near(pace(&found, 0.002, 0.02), 1e-3, 1e-6);
    assert_near(pace(&found, 0.022, 1.0), 2e-3, 1e-6);
    let nobody = ends(&changes, &slow.replace("[1]", "[7]"));
    assert_near(pace(&nobody, 0.022, 1.0), 1e-3, 1e-6);
    // Two faults at a time: a quarter of the speed.
    let both = ends(&changes, &format!("{slow}, {slow}"));
    assert_near(pace(&both, 0.024, 1.0), 4e-3, 1e-6);
}

#[test]
fn a_fault_of_cores_slows_decoding() {
    // System: eight threads that decode for 8 ms on eight cores; for a while only two cores. Expectation: 16
    // samples in 16 ms, and in 64 ms meanwhile.
    let changes = [
        ("storage.s", "{ memory = {} }"),
        ("job.loader.tf-queue.decode", "{ gamma = { mean = \"8 ms\", cv = 0.3 } }"),
        ("job.loader.tf-queue.threads", "8"),
        ("run.steps", "200"),
    ];
    let fault = "{ node = \"cores\", factor = 0.25, from = \"1 s\", until = \"5 s\" }";
    let ends = ends(&changes, fault);
    assert_near(pace(&ends, 0.1, 1.0), 16e-3, 0.05);
    assert_near(pace(&ends, 1.2, 5.0), 64e-3, 0.05);
}

#[test]
fn a_fault_of_factor_one_changes_nothing() {
    let plain: Vec<f64> = outcome(&BOUND).jobs[0].steps.iter().map(|step| step.end).collect();
    let none = "{ storage = \"s\", factor = 1, from = \"0 s\", until = \"1 s\" }";
    assert_eq!(ends(&BOUND, none), plain);
}

#[test]
fn invalid_fault_settings_are_reported() {
    let cases = [
        ("{ storage = \"s\" }", "the key `factor` is missing"),
        ("{ factor = 0.5 }", "one of the keys `storage`, `link`, `node` is missing"),
        ("{ storage = \"t\", factor = 0.5 }", "there is no storage named \"t\""),
        ("{ storage = \"s\", factor = 1.5 }", "1.5 is out of range"),
        ("{ storage = \"s\", factor = 0 }", "practically nothing gets done"),
        ("{ link = \"nic\", factor = 0 }", "no job can end while a link stays down for ever"),
        ("{ node = \"gpus\", nodes = [8], factor = 0.5 }", "there is no node or rack 8"),
        ("{ storage = \"s\", nodes = [1], factor = 0.5 }", "all nodes share this storage"),
        (
            "{ storage = \"s\", factor = 0.5, from = \"2 s\", until = \"1 s\" }",
            "the fault ends at 1 s, but begins at 2 s",
        ),
    ];
    let file = ScenarioFile::parse("test.toml", base()).expect("TOML");
    for (fault, expected) in cases {
        let change: Override = format!("fault=[{fault}]").parse().expect("an override");
        let said = file.resolve(&[change]).expect_err("it is wrong").to_string();
        assert!(said.contains(expected), "{said}\ninstead of {expected}");
    }
    let remark = |fault: &str| changed(&[("fault", fault)]).remarks.join("\n");
    assert!(remark("[{ link = \"pcie\", factor = 0.5 }]").contains("has no effect"));
}

#[test]
fn a_gpu_fault_slows_kernels_that_fill_part_of_the_gpu() {
    // System: only steps, of one learner or two, that fill part of a GPU at half its speed. Expectation: twice
    // the time, whatever part they fill.
    let fed = [("storage.s", "{ memory = {} }"), ("job.loader", "{ in-memory = {} }")];
    for part in ["0.2", "0.4", "0.8", "1.0"] {
        for learners in ["1", "2"] {
            let of = |fault: &str| {
                let kernels =
                    [("job.model.occupancy", part), ("job.parallel.data.learners", learners)];
                ends(&[&fed[..], &kernels].concat(), fault).pop().expect("a step")
            };
            let usual = of("{ node = \"gpus\", factor = 1.0 }");
            assert_near(of("{ node = \"gpus\", factor = 0.5 }") / usual, 2.0, 1e-9);
        }
    }
}

#[test]
fn a_gpu_fault_slows_gradient_decompression() {
    // System: 20 MB of gradients compressed to a quarter, decompressed at 0.1 GB/s: 50 ms, beside a step.
    // Expectation: at half the speed twice the time for both, except half a millisecond of transfer.
    let changes = [
        ("storage.s", "{ memory = {} }"),
        ("job.loader", "{ in-memory = {} }"),
        ("job.nodes", "2"),
        (
            "job.sync.allreduce",
            "{ gradients = \"20 MB\", compression = { quantised = { ratio = 0.25, decompress = \"0.1 GB/s\" } } }",
        ),
    ];
    let of = |fault: &str| ends(&changes, fault).pop().expect("a step");
    let usual = of("{ node = \"gpus\", factor = 1.0 }");
    assert_near(of("{ node = \"gpus\", factor = 0.5 }") / usual, 2.0, 0.02);
}
