//! The report as text: the verdict comes first, in common words and units.

use crate::support::Place;

/// Returns the text report of one job on two nodes with this run table, loader, step time and further keys.
fn text(run: &str, loader: &str, step: &str, more: &str) -> String {
    let place = Place::new();
    place.write(
        "s.toml",
        &format!(
            r#"# Is it fast enough?
name = "s"
[run]
{run}
[cluster]
nodes = 2
[cluster.node]
cores = 16
gpus = 2
[cluster.network]
nic = "1 Gbit/s"
[storage.nas.file-server]
bandwidth = "10 GB/s"
latency = "5 ms"
[dataset.d]
samples = 1000000
sample_size = "100 kB"
[[job]]
name = "j"
nodes = 2
dataset = "d"
storage = "nas"
batch = 32
loader.{loader}
model.step = "{step}"
{more}
"#
        ),
    );
    let out = place.forebay(&["run", "s.toml", "-q"]).assert().success();
    String::from_utf8_lossy(&out.get_output().stdout).into_owned()
}

/// Returns the first paragraph of a report as one line.
fn head(text: &str) -> String {
    let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

const USUAL: &str = "replications = 1";

#[test]
fn the_first_sentence_tells_the_first_epoch_from_later_ones_where_caches_make_them_differ() {
    // System: two epochs from a slow server, of which the second is in the page cache, or is not. Expectation: the first sentence
    // has both step times only if they differ, and then its share of computing is that of the second epoch.
    let run = |cache: &str, warm_up: &str| {
        let place = Place::new();
        let text = format!(
            "name = \"x\"\nrun = {{ epochs = 2, replications = 1, warm_up = \"{warm_up}\" }}\n\
             [cluster]\nnodes = 1\nnode = {{ cores = 8, gpus = 1, memory = \"64 GB\", page_cache = {cache} }}\n\
             [storage.s.file-server]\nbandwidth = \"10 MB/s\"\n[dataset.d]\nsamples = 640\nsample_size = \"100 kB\"\n\
             [[job]]\nname = \"j\"\ndataset = \"d\"\nstorage = \"s\"\nbatch = 16\nmodel.step = \"4 ms\"\n\
             loader.pytorch = {{ workers = 4, decode = {{ exponential = {{ mean = \"1 ms\" }} }} }}\n"
        );
        place.write("x.toml", &text);
        let out = place.forebay(&["run", "x.toml", "--verdict", "quick"]).assert().success();
        let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let cached = run("{}", "auto");
    assert!(cached.contains(" in the first epoch and "), "{cached}");
    assert!(
        cached.contains("compute 87.4 % of the time in later epochs, 2.5 % in the first"),
        "{cached}"
    );
    assert!(cached.contains("stalls 12.6 % of the time in later epochs"), "{cached}");
    let mixed = run("{}", "off");
    assert!(mixed.contains("of the time, first and later epochs together"), "{mixed}");
    // The table has a row for each of the two, with the sentence's figures.
    for text in [&cached, &mixed] {
        let (_, step) = text.split_once("A step takes ").expect("a step");
        let (first, rest) = step.split_once(" in the first epoch and ").expect("both");
        let (later, _) = rest.split_once(" in later ones").expect("both");
        for (epochs, step) in [("first", first), ("later", later)] {
            assert!(text.contains(&format!(" j {epochs} 1 {step} ")), "{epochs}: {text}");
        }
    }
    let uncached = run("\"none\"", "auto");
    assert!(!uncached.contains(" in the first epoch and "), "{uncached}");
    assert!(!uncached.contains(" epochs "), "no column for them: {uncached}");
}

#[test]
fn a_run_that_ends_while_a_data_set_is_copied_says_so() {
    // System: 64 MB are copied to the node at 1 MB/s, in a run of 5 s. Expectation: the warning names the copy, not the warm-up.
    let place = Place::new();
    let text = "name = \"x\"\nrun = { duration = \"5 s\", replications = 1 }\n\
                cluster = { nodes = 1, node = { cores = 8, gpus = 1 } }\n\
                [storage.s.file-server]\nbandwidth = \"1 MB/s\"\n\
                [storage.nvme.local-disk]\nbandwidth = \"1 GB/s\"\ncapacity = \"1 TB\"\n\
                [dataset.d]\nsamples = 640\nsample_size = \"100 kB\"\n\
                [[job]]\nname = \"j\"\ndataset = \"d\"\nstorage = \"s\"\nbatch = 16\nmodel.step = \"4 ms\"\n\
                copy = { to = \"nvme\" }\nloader.pytorch = { workers = 4, decode = \"1 ms\" }\n";
    place.write("x.toml", text);
    let out = place.forebay(&["run", "x.toml"]).assert().success();
    let said = String::from_utf8_lossy(&out.get_output().stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("The data set of `j` was still being copied to the nodes"), "{said}");
    assert!(!said.contains("warm_up"), "{said}");
}

#[test]
fn a_job_that_ends_long_before_another_is_warned_of() {
    // System: two jobs of 100 steps on one server, of which one has steps ten times as long, or as long. Expectation: only in the
    // first case a warning says that most of the slow job's steps ran without the fast one.
    let run = |step: &str, storage: &str| {
        let place = Place::new();
        let job = |name: &str, step: &str| {
            format!(
                "[[job]]\nname = \"{name}\"\ndataset = \"d\"\nstorage = \"s\"\nbatch = 16\nmodel.step = \"{step}\"\n\
                 loader.in-memory = {{}}\n"
            )
        };
        let text = format!(
            "name = \"x\"\nrun = {{ steps = 100, replications = 1 }}\n[cluster]\nnodes = 2\nnode = {{ cores = 8, gpus = 1 }}\n\
             [storage.{storage}]\n[dataset.d]\nsamples = 6400\nsample_size = \"100 kB\"\n{}{}",
            job("fast", "10 ms"),
            job("slow", step)
        );
        place.write("x.toml", &text);
        let out = place.forebay(&["run", "x.toml", "--verdict", "quick"]).assert().success();
        String::from_utf8_lossy(&out.get_output().stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let server = "s.file-server]\nbandwidth = \"10 GB/s\"\n[storage.t.memory";
    let far = run("100 ms", server);
    assert!(far.contains("`fast` ended at 1 s, and `slow` went on without it until 10 s"), "{far}");
    assert!(!run("11 ms", server).contains("went on without it"));
    assert!(!run("100 ms", "s.memory").contains("went on without it"));
}

#[test]
fn a_starving_job_is_reported_with_its_limit_and_the_setting_to_change() {
    // System: one worker that reads with 5 ms of latency for a GPU that could take 3,200 samples/s.
    // Expectation: the three sentences in this order, with the setting to change.
    let text = text(USUAL, "pytorch = { workers = 1, decode = \"1 ms\" }", "10 ms", "");
    let head = head(&text);
    let said = [
        "`j` starves: its accelerators compute",
        "`j` is limited by",
        "--set job.j.loader.pytorch.workers=2",
    ];
    let at: Vec<Option<usize>> = said.iter().map(|said| head.find(said)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{at:?}\n{text}");
}

#[test]
fn a_job_without_stalls_is_reported_as_busy() {
    let text = text(USUAL, "in-memory = {}", "100 ms", "");
    assert!(head(&text).contains("`j` keeps its accelerators busy: they compute 100.0 % of the time. A step takes 100 ms."), "{text}");
}

#[test]
fn a_job_that_waits_for_gradients_is_not_reported_as_starving() {
    // System: 100 MB of gradients in each step through a NIC of 125 MB/s. Expectation: the job does not starve,
    // and NICs are its limit.
    let sync = "sync.allreduce.gradients = \"100 MB\"";
    let text = text(USUAL, "in-memory = {}", "100 ms", sync);
    let head = head(&text);
    assert!(
        head.contains("`j` has input in time, and its accelerators still compute only"),
        "{text}"
    );
    assert!(head.contains("is limited by NICs"), "{text}");
}

#[test]
fn a_job_that_waits_only_for_a_slow_gpu_is_not_reported_as_starving() {
    // System: synthetic data and one of two GPUs at half its speed, without costs of the network. Expectation: the job waits for a
    // computing peer alone, so it has input in time.
    let place = Place::new();
    let text = "name = \"s\"\nrun = { steps = 50, replications = 1 }\ncluster = { nodes = 2, node = { cores = 8, gpus = 1 } }\n\
                storage.ram.memory = {}\ndataset.d = { samples = 100000, sample_size = \"4 kB\" }\n[[job]]\nname = \"j\"\n\
                nodes = 2\ndataset = \"d\"\nstorage = \"ram\"\nbatch = 8\nloader.in-memory = {}\nmodel.step = \"100 ms\"\n\
                sync.allreduce.gradients = \"10 MB\"\n[[fault]]\nnode = \"gpus\"\nnodes = [1]\nfactor = 0.5\n";
    place.write("s.toml", text);
    let out = place.forebay(&["run", "s.toml", "-q"]).assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    assert!(head(&text).contains("`j` has input in time"), "{text}");
}

#[test]
fn reports_print_mean_and_interval_with_one_unit_and_rates_without_k_prefix() {
    // System: jittered steps of 10 ms on a batch of 32 on two nodes: 6,400 samples/s. Expectation: thousands
    // are written without a prefix, and `ms` occurs once for a mean with its half-width.
    let text = text(USUAL, "in-memory = {}", "10 ms", "model.jitter.lognormal.cv = 0.3");
    let row = text.lines().find(|line| line.starts_with(" j ")).expect("the job's row");
    assert!(row.contains(" ± ") && row.matches("ms").count() == 2, "{row}");
    assert!(row.contains(','), "{row}");
    assert!(!text.contains(" k samples/s"), "{text}");
}

#[test]
fn a_run_that_is_too_short_has_no_confidence_intervals() {
    // System: a queue that is full at the start and drains within the run. Expectation: the report says so, and no
    // figure of the job has an interval.
    let loader = "tf-queue = { threads = 1, capacity = \"640 samples\", decode = { lognormal = { mean = \"5 ms\", cv = 0.3 } } }";
    let text =
        text("steps = 12\nwarm_up = 2\nreplications = 5", loader, "10 ms", "prefill = \"full\"");
    assert!(text.contains("The run is too short for `j`"), "{text}");
    let row = text.lines().find(|line| line.starts_with(" j ")).expect("the job's row");
    assert!(!row.contains('±'), "{row}");
}

#[test]
fn a_written_warm_up_of_more_than_half_of_the_run_is_named() {
    let loader = "tf-queue = { threads = 4, capacity = \"64 samples\", decode = \"1 ms\" }";
    let run = |steps: u32| {
        let text =
            text(&format!("steps = {steps}\nwarm_up = 50\nreplications = 1"), loader, "10 ms", "");
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("its warm-up is more than half of the run")
    };
    assert_eq!((run(90), run(120)), (true, false));
}

#[test]
fn the_reported_stall_free_training_rate_is_summed_over_all_loaders() {
    // System: two nodes with a loader each, whose batches are ready at different times. Expectation: without
    // waiting, trainers would take 64 samples in each step of 10 ms, whichever loader is later.
    let loader = "pytorch = { workers = 2, decode = { exponential = { mean = \"10 ms\" } } }";
    let text = text("steps = 400\nreplications = 1", loader, "10 ms", "");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, rest) = text.split_once("trainers take out ").expect("a rate");
    let rate: f64 =
        rest.split(' ').next().expect("a number").replace(',', "").parse().expect("a number");
    assert!((rate / 6400.0 - 1.0).abs() < 0.02, "{rate}: {text}");
}

#[test]
fn the_resource_table_notes_that_analytic_collectives_are_not_counted() {
    // System: gradients, keys and values, partial sums or tokens over NICs, with transfers simulated or by formula. Expectation: by
    // formula, the legend names the job whose transfers use links that the table shows as free.
    let told =
        "Collectives with `fidelity = \"analytic\"` (`j`) take time, but are not counted here.";
    for (table, keys) in [
        ("sync.allreduce", "gradients = \"10 MB\""),
        ("parallel.context", "ranks = 2, attentions = 4, keys_values = \"1 MB\""),
        ("parallel.tensor", "ranks = 2, allreduces = 4, activations = \"1 MB\""),
        (
            "parallel.expert",
            "ranks = 2, layers = 4, dispatched = \"1 MB\", parameters = 0.5, time = 0.5",
        ),
    ] {
        let of = |fidelity: &str| {
            let more = format!("{table} = {{ {keys}, fidelity = \"{fidelity}\" }}");
            let text = text("steps = 30", "in-memory = {}", "10 ms", &more);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(of("analytic").contains(told), "{table}");
        assert!(!of("flow").contains("are not counted here"), "{table}");
    }
}

#[test]
fn the_resource_table_leaves_out_and_counts_resources_that_are_hardly_used() {
    // System: a job that decodes for milliseconds what a server and a NIC send in a microsecond. Expectation: the table has the cores,
    // and a sentence counts the rest; the JSON report has all.
    let place = Place::new();
    place.write(
        "x.toml",
        "name = \"x\"\nrun = { steps = 100, replications = 1 }\n[cluster]\nnodes = 1\n\
         node = { cores = 8, gpus = 1 }\nnetwork.nic = \"10 Gbit/s\"\n\
         [storage.s.file-server]\nbandwidth = \"1 GB/s\"\n[dataset.d]\nsamples = 640\nsample_size = \"100 B\"\n\
         [[job]]\nname = \"j\"\ndataset = \"d\"\nstorage = \"s\"\nbatch = 16\nmodel.step = \"40 ms\"\n\
         loader.pytorch = { workers = 4, decode = \"10 ms\" }\n",
    );
    let run = |arguments: &[&str]| {
        let all = [&["run", "x.toml", "--verdict", "quick"], arguments].concat();
        let out = place.forebay(&all).assert().success();
        String::from_utf8_lossy(&out.get_output().stdout).into_owned()
    };
    let text = run(&[]);
    let (_, listed) = text.split_once("capacity").expect("a table");
    assert!(listed.contains(" node.cores ") && !listed.contains(" s.bandwidth "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&run(&["--format", "json"])).expect("JSON");
    let idle = json["resources"].as_array().expect("resources").len() - 1;
    let told = format!("{idle} more are used less than 0.05 %");
    let legend = listed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(idle > 1 && legend.contains(&told), "{told}: {text}");
}
