//! Gradient exchanges in traces.

use super::runs::written;
use super::support::Place;
use forebay::report::Trace;
use forebay::sim::{self, Options};

/// Two nodes that reduce four tensors of 25 MB, each in 25 ms, ready after 5/8 … 8/8 of 100 ms.
const SCENARIO: &str = r#"# What does a trace show of gradients?
name = "timeline"
[run]
steps = 30
warm_up = "off"
[cluster]
nodes = 2
node = { cores = 8, gpus = 8 }
network = { nic = "1 GB/s" }
[storage.memory.memory]
[dataset.d]
samples = 100000
sample_size = "100 kB"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "memory"
batch = 8
model.step = "100 ms"
loader.in-memory = {}
[job.sync.allreduce]
gradients = "100 MB"
tensors = 4
backward = 0.5
buckets = "25 MB"
algorithm = "ring"
transport.nccl.per_tensor = "0 s"
"#;

fn trace(changes: &[(&str, &str)]) -> Trace {
    let options = Options { trace: true, ..Options::default() };
    sim::run(&written(SCENARIO, changes), 0, &options).trace.expect("asked for")
}

/// Returns the number of a track by its process and name.
fn track(trace: &Trace, process: &str, name: &str) -> u32 {
    let of =
        |(of, called): &(u32, String)| trace.processes[*of as usize] == process && called == name;
    trace.tracks.iter().position(of).expect(name) as u32
}

/// Returns the spans of a track: name, start and end [ms, rounded].
fn spans(trace: &Trace, track: u32) -> Vec<(String, f64, f64)> {
    let round = |seconds: f64| (seconds * 1e6).round() / 1e3;
    let all = trace.spans.iter().filter(|span| span.track == track);
    all.map(|s| (s.name.to_string(), round(s.start), round(s.start + s.duration))).collect()
}

#[test]
fn each_collective_is_a_span_in_the_trace_of_its_job_copy() {
    // Expectation: four collectives one after the other from 62.5 ms on, each after its tensor's overhead;
    // waiting bytes are counted until their collective begins: two tensors at 100 ms, when the last is ready.
    let found = trace(&[]);
    let collectives = spans(&found, track(&found, "j[0] gradients", "collectives"));
    let ends = [62.5, 87.5, 112.5, 137.5, 162.5];
    for (number, span) in collectives[..4].iter().enumerate() {
        let name = "allreduce 25 MB, ring".to_owned();
        assert_eq!(*span, (name, ends[number], ends[number + 1]));
    }
    assert_eq!(collectives.len(), 4 * 30);
    let waiting = track(&found, "j[0] gradients", "waiting [B]");
    let at = |ms: f64| {
        let so_far = |c: &&forebay::report::TraceCounter| c.track == waiting && c.time <= ms * 1e-3;
        found.counters.iter().rfind(so_far).map_or(0.0, |counter| counter.value)
    };
    let values = [60.0, 63.0, 76.0, 101.0, 113.0, 138.0].map(at);
    assert_eq!(values, [0.0, 0.0, 25e6, 50e6, 25e6, 0.0]);
    let late = trace(&[("job.sync.allreduce.transport.nccl.per_tensor", "\"5 ms\"")]);
    let collectives = spans(&late, track(&late, "j[0] gradients", "collectives"));
    assert_eq!(collectives[0], ("overhead".to_owned(), 62.5, 67.5));
    assert_eq!((collectives[1].1, collectives[1].2), (67.5, 92.5));
    // With a root: parameters first, then gradients, each as a collective of its own.
    let root = SCENARIO[..SCENARIO.find("[job.sync").expect("a sync")].to_owned()
        + "[job.sync.reduce-broadcast]\nparameters = \"50 MB\"\nbroadcast = \"ring\"\nreduce = \"flat\"\n";
    let options = Options { trace: true, ..Options::default() };
    let found = sim::run(&written(&root, &[]), 0, &options).trace.expect("asked for");
    let both = spans(&found, track(&found, "j[0] gradients", "collectives"));
    let of = |name: &str, start, end| (name.to_owned(), start, end);
    let first = [of("broadcast 50 MB, ring", 0.0, 50.0), of("reduce 50 MB, flat", 150.0, 200.0)];
    assert_eq!(both[..2], first);
    // Without an exchange there are no tracks of gradients.
    let alone = trace(&[("job.nodes", "1")]);
    assert!(!alone.processes.contains(&"j[0] gradients".to_owned()));
}

#[test]
fn figures_and_traces_of_a_run_show_communication() {
    let place = Place::new();
    place.write("s.toml", SCENARIO);
    let arguments = ["run", "s.toml", "--trace", "t.json", "--figure", "f.svg"];
    place.forebay(&arguments).assert().success();
    let text = |name| String::from_utf8(place.read(name)).expect("text");
    assert!(text("t.json").contains("\"allreduce 25 MB, ring\""));
    assert!(text("f.svg").contains("communication"));
}

#[test]
fn the_title_of_a_run_figure_is_the_first_sentence_of_the_report() {
    // System: 300 steps, more than a figure has points. Expectation: the report's first sentence is the title; the
    // subtitle says how many steps each median has.
    let place = Place::new();
    place.write("s.toml", SCENARIO);
    let arguments = ["run", "s.toml", "--set", "run.steps=300", "--figure", "f.svg"];
    let out = place.forebay(&arguments).assert().success();
    let report = String::from_utf8(out.get_output().stdout.clone()).expect("text");
    let first = report.split("\n\n").next().unwrap_or_default().replace(['\n', '`'], " ");
    let figure = String::from_utf8(place.read("f.svg")).expect("text");
    let text = figure.lines().filter(|line| !line.starts_with('<'));
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = text.clone().next().map(plain).expect("a title");
    assert!(title.contains("compute") && plain(&first).starts_with(&title), "{title}: {first}");
    assert!(text.into_iter().any(|line| line.contains("median of 3 steps")), "{figure}");
}
