//! `forebay import mlperf`: folders of results as submitters lay them out.

use super::support::Place;
use std::fs;
use std::path::Path;

const CONFIGURATION: &str = "workload:\n  model: unet3d\n  framework: pytorch\n  dataset: {num_files_train: 4000, record_length: 146600628}\n  \
                             reader: {data_loader: pytorch, batch_size: 7, read_threads: 16}\n  train: {epochs: 2, computation_time: 0.323}\n";

/// Writes the files of a run of two accelerators on a host, with steps of 350 ms and first batches of 5 s, as `configuration` and `epochs` name
/// them.
fn run(at: &Path, configuration: &str, epochs: &str) {
    run_with(at, [5.0, 5.0], configuration, epochs);
}

/// The same with first batches of two epochs that take this time [s].
fn run_with(at: &Path, firsts: [f64; 2], configuration: &str, epochs: &str) {
    let (steps, step) = (285.0, 0.35);
    let wholes = firsts.map(|first| first + 0.323 + (steps - 1.0) * step);
    let (utilisation, rates) = (100.0 * 0.323 / step, wholes.map(|whole| steps * 14.0 / whole));
    let [rate, later] = rates;
    fs::create_dir_all(at.join(configuration)).expect("a folder");
    fs::write(at.join(configuration).join("config.yaml"), CONFIGURATION).expect("a file");
    fs::write(
        at.join("summary.json"),
        format!(
            r#"{{"num_accelerators": 2, "num_hosts": 1, "host_cpu_count": [64], "host_memory_GB": [64], "metric": {{"train_au_percentage": [{utilisation}, {utilisation}],
            "train_throughput_samples_per_second": [{rate}, {later}]}}}}"#
        ),
    )
    .expect("a file");
    let [first, second] =
        wholes.map(|whole| format!(r#"{{"block1": {{"duration": "{whole:.3}"}}}}"#));
    fs::write(at.join(epochs), format!(r#"{{"1": {first}, "2": {second}}}"#)).expect("a file");
}

#[test]
fn three_layouts_of_result_folders_give_the_same_figures() {
    let place = Place::new();
    let one = place.directory().join("one/run-1");
    run(&one, "configs", "per_epoch_stats.json");
    for number in 1..=3 {
        run(
            &place.directory().join(format!("several/runs/run{number}")),
            "configs",
            "per_epoch_stats.json",
        );
    }
    let nested = place.directory().join("nested/training/unet3d/run/20260722_024313");
    run(&nested, "dlio_config", "0_per_epoch_stats.json");
    // Folders without results are passed over.
    fs::create_dir_all(place.directory().join("nested/training/unet3d/datagen/20260721"))
        .expect("a folder");
    for (folder, epochs) in [("one/run-1", 2), ("several", 6), ("nested", 2)] {
        let output = place.forebay(&["import", "mlperf", folder]).output().expect("a program");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected =
            format!("2 accelerators on 1 host of 64 cores, {epochs} epochs of 285 steps");
        assert!(text.contains(&expected), "{text}");
        assert!(text.contains("v1.0") && text.contains("92.3 %"), "{text}");
        assert!(text.contains("first batch          5 s"), "{text}");
        // 4,000 files of 146.6 MB, and 586.4 GB ÷ (1 host of 64 GiB).
        assert!(text.contains("586.4 GB, 285 steps an epoch (500 asked), 8.533 times"), "{text}");
    }
}

#[test]
fn an_imported_folder_becomes_a_scenario_that_reproduces_its_row() {
    let place = Place::new();
    run(&place.directory().join("run"), "configs", "per_epoch_stats.json");
    let stdout = |args: &[&str]| {
        let output = place.forebay(args).output().expect("a program");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    fs::write(
        place.directory().join("mine.toml"),
        stdout(&["import", "mlperf", "run", "--format", "scenario"]),
    )
    .expect("a file");
    let row = stdout(&["import", "mlperf", "run", "--format", "csv"]);
    fs::write(place.directory().join("runs.csv"), &row).expect("a file");
    let report = stdout(&["run", "mine.toml", "--verdict", "quick", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let step = report["jobs"][0]["step_time"]["mean"].as_f64().expect("steps");
    let measured: f64 = row
        .lines()
        .nth(1)
        .and_then(|line| line.split(',').nth(4))
        .expect("a column")
        .parse()
        .expect("a number");
    assert!((step / measured - 1.0).abs() < 0.02, "{step} for {measured}");
    let first =
        report["jobs"][0]["epoch_starts"]["first_batch"]["mean"].as_f64().expect("an epoch");
    assert!((first / 5.0 - 1.0).abs() < 0.1, "{first}");
}

#[test]
fn a_later_first_batch_of_the_first_epoch_becomes_the_start_of_workers() {
    // System: sixteen workers; the first batch takes 9 s in the first epoch and 4 s in the second. Expectation: 5 s ÷ 16 for each worker, and
    // a simulation whose epochs begin as the run's did.
    let place = Place::new();
    run_with(&place.directory().join("run"), [9.0, 4.0], "configs", "per_epoch_stats.json");
    let output = place.forebay(&["import", "mlperf", "run", "--format", "scenario"]).output();
    let text = String::from_utf8(output.expect("a program").stdout).expect("text");
    assert!(text.contains("start = \"312.5 ms\""), "{text}");
    fs::write(place.directory().join("mine.toml"), text).expect("a file");
    let mut run = place.forebay(&["run", "mine.toml", "--verdict", "quick", "--format", "json"]);
    let report = run.output().expect("a program").stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
    let epochs = report["jobs"][0]["epoch_starts"]["epochs"].as_array().expect("epochs");
    for (epoch, measured) in epochs.iter().zip([9.0, 4.0]) {
        let found = epoch["median"].as_f64().expect("a time");
        assert!((found / measured - 1.0).abs() < 0.1, "{found} for {measured}");
    }
}

#[test]
fn a_description_of_the_system_gives_the_scenario_cores_and_nics() {
    let place = Place::new();
    run(&place.directory().join("run"), "configs", "per_epoch_stats.json");
    place.write(
        "system.json",
        r#"{"properties": {"nodes": [{"node_type_name": "client", "CPU": {"socket_count": 2, "threads_per_socket": 24},
            "nic_ports": [{"bitrate": 100, "count_of_this_type": 2}]}]}}"#,
    );
    let import = ["import", "mlperf", "run", "--system", "system.json", "--format", "scenario"];
    let output = place.forebay(&import).output().expect("a program");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("network.nic = \"200 Gbit/s\"") && text.contains("cores = 48"), "{text}");
    place.write("system.json", "{}");
    let output = place.forebay(&import).output().expect("a program");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no client host"));
}

#[test]
fn folders_that_are_no_result_are_refused_with_what_to_name() {
    let place = Place::new();
    let refused = |folder: &str| {
        let output = place.forebay(&["import", "mlperf", folder]).output().expect("a program");
        assert_eq!(output.status.code(), Some(2), "{folder}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused("nothing").contains("No such file"), "{}", refused("nothing"));
    fs::create_dir_all(place.directory().join("empty/below")).expect("a folder");
    std::os::unix::fs::symlink("..", place.directory().join("empty/below/up")).expect("a link");
    assert!(refused("empty").contains("no `summary.json`"));
    run(&place.directory().join("two/a"), "configs", "per_epoch_stats.json");
    run(&place.directory().join("two/b"), "configs", "per_epoch_stats.json");
    let other = CONFIGURATION.replace("0.323", "0.636");
    fs::write(place.directory().join("two/b/configs/config.yaml"), other).expect("a file");
    let two = refused("two");
    assert!(
        two.contains("it has 2 results") && two.contains("two/a") && two.contains("two/b"),
        "{two}"
    );
    run(&place.directory().join("bare"), "configs", "per_epoch_stats.json");
    fs::remove_file(place.directory().join("bare/configs/config.yaml")).expect("a file");
    assert!(refused("bare").contains("no `config.yaml`"));
    run(&place.directory().join("bad"), "configs", "per_epoch_stats.json");
    fs::write(place.directory().join("bad/summary.json"), "{\"num_accelerators\": 2}")
        .expect("a file");
    assert!(refused("bad").contains("`metric` is missing"));
    fs::write(place.directory().join("bad/summary.json"), vec![0xff_u8; 1000]).expect("a file");
    assert!(refused("bad").contains("summary.json"));
}
