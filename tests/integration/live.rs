//! The `forebay live` command: processes, files, errors, and no files left behind.

use super::support::Place;
use forebay::live::{self, Event, Settings, Source, Store};
use forebay::scenario::ScenarioFile;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Two jobs on one node, with files of varying size in the page cache.
const LIVE: &str = r#"# Do two jobs on this machine get their data?
name = "pair"
[run]
steps = 5
warm_up = "off"
[cluster]
nodes = 1
share_nodes = true
node = { cores = 1 }
[storage.disk.local-disk]
bandwidth = "1 GB/s"
access = "emulated"
[dataset.d]
samples = 30
sample_size = { lognormal = { median = "4 kB", p99 = "20 kB" } }
[[job]]
name = "j"
copies = 2
dataset = "d"
storage = "disk"
batch = 4
model.step = "1 ms"
loader.tf-queue = { threads = 2, capacity = "8 samples", decode = "20 us" }
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("live.toml", LIVE);
    place
}

fn report(place: &Place, arguments: &[&str]) -> Value {
    let arguments = [&["live", "live.toml", "--format", "json"], arguments].concat();
    let done = place.forebay(&arguments).assert().success();
    serde_json::from_slice(&done.get_output().stdout).expect("a report")
}

#[test]
fn live_jobs_run_concurrently_and_leave_no_files() {
    let place = place();
    let before = place.files();
    let report = report(&place, &["--trace", "trace.json"]);
    assert_eq!(report["world"], "live");
    assert_eq!(report["jobs"][0]["copies"], 2);
    assert_eq!(report["jobs"][0]["steps"]["mean"], 5.0);
    assert!(!report["notes"].as_array().expect("notes").is_empty());
    let trace: Value = serde_json::from_slice(&place.read("trace.json")).expect("a trace");
    assert!(trace["traceEvents"].as_array().expect("events").len() > 20);
    let after: Vec<String> = place.files().into_iter().filter(|f| f != "trace.json").collect();
    assert_eq!(after, before);
}

#[test]
fn live_runs_say_that_they_lived_on_a_token_bucket() {
    // System: 400 kB from a storage of 400 kB/s, which its bucket gives in milliseconds. Expectation: a warning with the share of the
    // bucket, and the rate in the long run; none if the bucket is empty.
    let set = |level: &str| {
        let burst = format!("{{ bandwidth = \"100 MB/s\", bucket = \"1 GB\", level = {level} }}");
        format!("storage.disk.local-disk.burst={burst}")
    };
    let slow = "storage.disk.local-disk.bandwidth=400 kB/s";
    let warnings = |level: &str| {
        let more = ["run.steps=25", "dataset.d.sample_size=2 kB", slow, &set(level)];
        let arguments: Vec<&str> = more.iter().flat_map(|set| ["--set", set]).collect();
        report(&place(), &arguments)["warnings"].to_string()
    };
    let full = warnings("1.0");
    for part in
        ["token bucket of `disk` (1 GB) gave", "% of what this run", "400 kB/s in the long run"]
    {
        assert!(full.contains(part), "{part}: {full}");
    }
    assert!(!warnings("0.0").contains("token bucket"));
}

#[test]
fn live_runs_report_power_settings_as_ineffective() {
    // System: a node with or without a written power. Expectation: a live run, which cannot measure power,
    // notes that the setting has no effect, and reports no energy.
    let (place, note) = (place(), "`cluster.node.power` has no effect here");
    let with = report(&place, &["--set", "cluster.node.power={ idle = \"100 W\" }"]);
    assert!(with["notes"].to_string().contains(note), "{}", with["notes"]);
    assert_eq!(with["energy"], Value::Null);
    let without = report(&place, &[]);
    assert!(!without["notes"].to_string().contains(note), "{}", without["notes"]);
}

#[test]
fn live_runs_with_per_rank_loaders_have_one_loader_queue_per_rank() {
    let place = place();
    let ranks = "job.parallel={ data = { copies_per_node = 2, loaders = \"per-rank\" } }";
    let report = report(&place, &["--set", "cluster.node.gpus=4", "--set", ranks]);
    assert_eq!(report["jobs"][0]["steps"]["mean"], 5.0);
    let queue = &report["jobs"][0]["queue"];
    assert_eq!(queue["capacity"], 16, "8 samples for each of two: {queue}");
}

#[test]
fn live_runs_support_the_old_keras_enqueuer() {
    let loader = "job.loader={ keras = { workers = 2, generator = { distinct = 0.5 } } }";
    let report = report(&place(), &["--set", loader]);
    assert_eq!(report["jobs"][0]["steps"]["mean"], 5.0);
}

#[test]
fn live_runs_read_every_sample_of_shards() {
    let place = place();
    let keys =
        ["dataset.d.layout={ shards = { samples = 7, request = \"5 kB\" } }", "run.epochs=2"];
    let text = LIVE
        .replace("steps = 5", "epochs = 2")
        .replace("copies = 2", "copies = 1")
        .replace("[[job]]", "layout.shards = { samples = 7, request = \"5 kB\" }\n[[job]]");
    place.write("live.toml", &text);
    let report = report(&place, &[]);
    assert_eq!(report["jobs"][0]["steps"]["mean"], 15.0, "{keys:?}");
}

#[test]
fn live_runs_write_and_read_every_layout() {
    // A sample at a wrong position would be an error.
    let place = place();
    for layout in [
        "layout.tfrecord = { samples = 7, request = \"5 kB\" }",
        "layout.webdataset = { samples = 7, request = \"5 kB\", members = 2 }",
        "sample_size = \"5 kB\"\nlayout.raw = {}",
        "layout.parquet = { row_group = 7 }",
        "layout.lmdb = {}",
    ] {
        let size = "sample_size = { lognormal = { median = \"4 kB\", p99 = \"20 kB\" } }\n";
        let kept = if layout.starts_with("sample_size") { "" } else { size };
        let text = LIVE
            .replace("steps = 5", "epochs = 2")
            .replace("copies = 2", "copies = 1")
            .replace(size, kept)
            .replace("[[job]]", &format!("{layout}\n[[job]]"));
        place.write("live.toml", &text);
        if layout.contains("parquet") || layout.contains("lmdb") {
            let done = place.forebay(&["live", "live.toml"]).assert().code(3);
            let error = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
            assert!(error.contains("layout.raw"), "{error}");
        } else {
            assert_eq!(report(&place, &[])["jobs"][0]["steps"]["mean"], 15.0, "{layout}");
        }
    }
}

#[test]
fn live_runs_generate_images_and_decode_them_in_a_later_stage() {
    let place = place();
    let stages = "[[job.loader.stages]]\nname = \"read\"\nworkers = 1\nper_sample = [\"read\"]\n\
                  buffer = 4\n[[job.loader.stages]]\nname = \"decode\"\nworkers = 1\n\
                  per_sample = [{ decode = { per_byte = \"1 ns\" } }]\nbuffer = 8\n";
    let text = LIVE
        .replace("{ lognormal = { median = \"4 kB\", p99 = \"20 kB\" } }", "\"1.8 kB\"")
        .replace("[[job]]", "image = { width = 64, height = 48, resize = 32 }\n[[job]]")
        .replace(
            "loader.tf-queue = { threads = 2, capacity = \"8 samples\", decode = \"20 us\" }\n",
            stages,
        )
        .replace("model.step", "model = { step = \"1 ms\" }\n#");
    place.write("live.toml", &text);
    let report = report(&place, &["--set", "job.copies=1"]);
    let notes = report["notes"].to_string();
    assert!(notes.contains("really decodes"), "{notes}");
    // No JPEG with so few pixels is as large as that.
    place.write("live.toml", &text.replace("1.8 kB", "90 kB"));
    let done = place.forebay(&["live", "live.toml"]).assert().code(2);
    let error = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(error.contains("sample_size"), "{error}");
    let huge = text.replace("width = 64, height = 48", "width = 60000, height = 40000");
    place.write("live.toml", &huge.replace("1.8 kB", "500 MB"));
    let done = place.forebay(&["live", "live.toml"]).assert().code(3);
    let error = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(error.contains("--data"), "{error}");
}

#[test]
fn missing_machine_resources_are_refused_before_a_live_run_writes_files() {
    let cases = [
        (
            "job.model={ step = \"1 ms\", launch = { work = \"0 s\", serial = \"1 ms\" } }",
            "leave out `job.model.launch.serial` of `j`",
        ),
        ("cluster.node.cores=99999", "cluster.node.cores ="),
        ("cluster.share_nodes=false", "need 2 nodes"),
        ("cluster.node.scheduling=\"fifo\"", "shared"),
    ];
    for (change, expected) in cases {
        let place = place();
        let before = place.files();
        let mut forebay = place.forebay(&["live", "live.toml", "--set", change]);
        let output = forebay.assert().failure().get_output().clone();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = if change.contains("share") { 2 } else { 3 };
        assert_eq!(output.status.code(), Some(code), "{change}: {text}");
        assert!(text.contains(expected), "{change}: {text}");
        assert_eq!(place.files(), before, "{change}");
    }
}

#[test]
fn an_interrupted_live_run_ends_its_children_and_removes_its_files() {
    let place = place();
    let before = place.files();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["live", "live.toml", "--set", "run.steps=1000000"]);
    let mut child = command.current_dir(place.directory()).spawn().expect("a process");
    let begin = Instant::now();
    while place.files() == before && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("a signal");
    let status = child.wait().expect("an end");
    assert_eq!(status.code(), Some(4));
    assert_eq!(place.files(), before);
}

#[test]
fn live_runs_read_the_users_own_files_in_place() {
    let place = place();
    std::fs::create_dir_all(place.path("own/deep")).expect("a directory");
    for i in 0..30 {
        place.write(&format!("own/deep/{i}.bin"), &"x".repeat(100 + i));
    }
    let pipe = std::process::Command::new("mkfifo").arg(place.path("own/pipe")).status();
    assert!(pipe.is_ok_and(|status| status.success()));
    let done = place.forebay(&["live", "live.toml", "--data", "own"]).assert().success();
    let text = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(text.contains("left out: ") && text.contains("own/pipe is a named pipe"), "{text}");
    std::fs::remove_file(place.path("own/deep/7.bin")).expect("a file");
    let output = place.forebay(&["live", "live.toml", "--data", "own"]).assert().code(2);
    let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(text.contains("29 files (left out: ") && text.contains("write fewer"), "{text}");
    std::fs::remove_dir_all(place.path("own/deep")).expect("a directory");
    let output = place.forebay(&["live", "live.toml", "--data", "own"]).assert().code(2);
    let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(text.contains("0 files (left out: ") && text.contains("name a directory"), "{text}");
}

#[test]
fn a_working_directory_that_cannot_be_used_is_refused_with_another_one_as_the_remedy() {
    let place = place();
    for (directory, why) in [("none", "no such file or directory"), ("s.toml", "not a directory")] {
        let arguments = ["live", "live.toml", "--directory", directory];
        let output = place.forebay(&arguments).assert().code(2);
        let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        let expected = format!("use the directory {directory}: {why}; name another --directory");
        assert!(text.contains(&expected), "{text}");
    }
}

/// Returns the notes of a live run with this storage.
fn notes(place: &Place, storage: &str) -> String {
    let storage = format!("storage.disk={{ {storage} }}");
    report(place, &["--set", &storage])["notes"].to_string()
}

#[test]
fn live_reads_are_throttled_to_the_specified_bandwidth_with_a_note() {
    let place = place();
    let slow = notes(&place, "local-disk = { access = \"emulated\", bandwidth = \"1 MB/s\" }");
    assert!(slow.contains("`disk` was paced: reads are held to"), "{slow}");
    assert!(slow.contains("1 MB/s") && slow.contains("counts as transfer"), "{slow}");
    assert!(!slow.contains("Warning"), "{slow}");
    // Reading 4 kB in 4 ns is impossible.
    let fast = notes(&place, "local-disk = { access = \"emulated\", bandwidth = \"1 TB/s\" }");
    assert!(fast.contains("Warning: this machine is slower"), "{fast}");
    let free = notes(&place, "local-disk = { access = \"emulated\" }");
    assert!(!free.contains("paced"), "{free}");
    // Reads of warm files pass no limit of the disk.
    let warm = notes(&place, "local-disk = { access = \"warm\", bandwidth = \"1 MB/s\" }");
    assert!(!warm.contains("paced") && warm.contains("in the page cache from the start"), "{warm}");
}

#[test]
fn processes_of_a_live_run_share_the_bandwidth_limit_of_a_storage() {
    // System: two processes that read 20 samples of 10 kB each, 1 MB/s together. Expectation: at least 0.4 s,
    // where each process alone would need 0.2 s.
    let place = place();
    let slow = "storage.disk={ local-disk = { access = \"emulated\", bandwidth = \"1 MB/s\" } }";
    let report = report(&place, &["--set", slow, "--set", "dataset.d.sample_size=\"10 kB\""]);
    let makespan = report["makespan"]["mean"].as_f64().expect("a makespan");
    assert!(makespan > 0.39, "{makespan}");
}

#[test]
fn live_runs_emulate_a_file_server_with_local_files() {
    let place = place();
    let server = "file-server = { bandwidth = \"10 MB/s\", per_stream = \"8 MB/s\", latency = \"1 ms\", \
                  operations = \"1000 /s\" }";
    let notes = notes(&place, server);
    assert!(notes.contains("`disk` is emulated: reads of local files are held to"), "{notes}");
    for limit in ["10 MB/s, 8 MB/s for each transfer", "1000 operations", "1 ms to the first byte"]
    {
        assert!(notes.contains(limit), "{limit}: {notes}");
    }
    assert!(!notes.contains("counts as transfer"), "the latency is known: {notes}");
}

#[test]
fn live_runs_emulate_io_queues_to_an_nvme_of_target() {
    // System: 40 files of 10 kB, read by two processes through one queue of 1 MB/s. Expectation: at least 0.4
    // s, and notes on the enforced limits. With one slot in the queue and 10 ms to the first byte, 20 ms a
    // file: 0.8 s.
    let place = place();
    let target = |more: &str| {
        let keys =
            format!("bandwidth = \"1 GB/s\", queues = 1, queue_bandwidth = \"1 MB/s\"{more}");
        format!("nvme-of = {{ {keys} }}")
    };
    let notes = notes(&place, &target(""));
    assert!(notes.contains("I/O queues (1) of 128 requests and 1 MB/s"), "{notes}");
    let makespan = |more: &str| {
        let storage = format!("storage.disk={{ {} }}", target(more));
        let arguments = ["--set", storage.as_str(), "--set", "dataset.d.sample_size=\"10 kB\""];
        report(&place, &arguments)["makespan"]["mean"].as_f64().expect("a makespan")
    };
    let (shared, one) = (makespan(""), makespan(", queue_depth = 1, latency = \"10 ms\""));
    assert!(shared > 0.39, "{shared}");
    assert!(one > 0.78, "{one}");
}

#[test]
fn consecutive_live_runs_reuse_generated_data_and_finally_delete_all_files() {
    let place = place();
    let before = place.files();
    let file = ScenarioFile::open(&place.path("live.toml")).expect("a scenario");
    let scenario = |change: &str| file.resolve(&[change.parse().expect("a change")]).expect(change);
    let mut store = Store::default();
    let mut generated = |change: &str| {
        let source = Source {
            name: file.name().to_owned(),
            text: file.text().to_owned(),
            overrides: vec![change.parse().expect("a change")],
        };
        let settings = Settings {
            directory: place.directory(),
            data: None,
            named: true,
            trace: false,
            executable: Path::new(env!("CARGO_BIN_EXE_forebay")),
            stop: &AtomicBool::new(false),
        };
        let mut files = 0;
        let mut on = |event| files += u32::from(matches!(event, Event::Generated(..)));
        live::run(&scenario(change), &source, &settings, &mut store, &mut Vec::new(), &mut on)
            .expect("a run");
        files
    };
    assert_eq!(generated("job.batch=4"), 30);
    assert_eq!(generated("job.batch=2"), 0, "the same data");
    assert_eq!(generated("dataset.d.samples=20"), 20);
    assert_eq!(generated("job.batch=4"), 0, "still there");
    drop(store);
    assert_eq!(place.files(), before);
}
