//! Storage with measured throughput, in closed loops of readers.

use super::base::{base, changed};
use super::runs::{simulate, steady};
use super::support::{Place, SCENARIO};
use forebay::report::Outcome;
use forebay::scenario::ScenarioFile;

/// Throughputs that rise, saturate and fall with the number of requests.
const TABLE: &str = r#"{ measured = {
    sizes = ["4 KiB", "64 KiB", "1 MiB"], requests = [1, 4, 16],
    throughput = [["10 MB/s", "30 MB/s", "60 MB/s"], ["80 MB/s", "200 MB/s", "240 MB/s"],
                  ["300 MB/s", "500 MB/s", "350 MB/s"]] } }"#;

/// Returns the outcome of the base scenario with `readers` readers of files of `size` on `storage`, whose time
/// is only reading.
fn readers(storage: &str, readers: u32, size: &str, more: &[(&str, &str)]) -> Outcome {
    let loader =
        format!("{{ threads = {readers}, capacity = \"100000 samples\", decode = \"0 s\" }}");
    let size = format!("\"{size}\"");
    let changes = [
        ("storage.s", storage),
        ("dataset.d.sample_size", &size),
        ("dataset.d.samples", "100000"),
        ("job.loader.tf-queue", &loader),
        ("job.model.step", "\"1 ns\""),
        ("run.steps", "200"),
    ];
    simulate(&changed(&[&changes[..], more].concat()))
}

/// Returns the bytes per second of the first job, whose samples have `size` bytes.
fn rate(outcome: &Outcome, size: f64) -> f64 {
    let job = &outcome.jobs[0];
    let (first, last) = (&job.steps[20], &job.steps[job.steps.len() - 1]);
    (last.queue.enqueued - first.queue.enqueued) as f64 * size / (last.end - first.end)
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = found / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {found}, not {expected}");
}

#[test]
fn simulated_storage_throughput_equals_or_interpolates_the_measured_table() {
    // System: as many readers as in a column, files of the size of a row. Expectation: the throughput of the
    // table's entry.
    let sizes = [("4 KiB", 4096.0), ("64 KiB", 65_536.0), ("1 MiB", 1_048_576.0)];
    let rows = [[10e6, 30e6, 60e6], [80e6, 200e6, 240e6], [300e6, 500e6, 350e6]];
    for ((size, bytes), row) in sizes.into_iter().zip(rows) {
        for (number, expected) in [1, 4, 16].into_iter().zip(row) {
            let outcome = readers(TABLE, number, size, &[]);
            near(size, rate(&outcome, bytes), expected, 0.01);
            let resource =
                outcome.resources.iter().find(|r| r.name == "s.measured").expect("there");
            near("in progress", resource.mean_flows, f64::from(number), 0.01);
            let read = outcome.jobs[0].samples.enqueued as f64 * bytes;
            let ahead = f64::from(number) * bytes;
            assert!((read..=read + ahead).contains(&resource.served), "{}", resource.served);
        }
    }
    // Between entries the interpolation applies: half way from 4 to 16, by logarithm.
    near(
        "between",
        rate(&readers(TABLE, 8, "64 KiB", &[]), 65_536.0),
        (200e6_f64 * 240e6).sqrt(),
        0.01,
    );
    near("larger", rate(&readers(TABLE, 4, "8 MiB", &[]), 8_388_608.0), 500e6, 0.01);
    near("smaller", rate(&readers(TABLE, 4, "1 KiB", &[]), 1024.0), 7.5e6, 0.01);
    near("more", rate(&readers(TABLE, 40, "1 MiB", &[]), 1_048_576.0), 350e6, 0.01);
}

#[test]
fn concurrent_requests_of_different_sizes_get_equal_shares_of_storage_time() {
    // System: two readers of 64 KiB and two of 1 MiB on one node, always four at once. Expectation: each reader
    // gets a quarter of the throughput of four readers of its size.
    let other = r#"[{ name = "j", dataset = "d", storage = "s", batch = 16,
        loader.tf-queue = { threads = 2, capacity = "100000 samples", decode = "0 s" },
        model.step = "1 ms" }, { name = "k", dataset = "e", storage = "s", batch = 16,
        loader.tf-queue = { threads = 2, capacity = "100000 samples", decode = "0 s" },
        model.step = "1 ms" }]"#;
    let datasets = r#"{ d = { samples = 100000, sample_size = "64 KiB" },
        e = { samples = 100000, sample_size = "1 MiB" } }"#;
    let outcome = simulate(&changed(&[
        ("storage.s", TABLE),
        ("dataset", datasets),
        ("job", other),
        ("cluster.share_nodes", "true"),
        ("run", "{ duration = \"2 s\", warm_up = \"off\", replications = 1 }"),
    ]));
    let rate = |job: usize, size: f64| outcome.jobs[job].samples.enqueued as f64 * size / 2.0;
    near("64 KiB", rate(0, 65_536.0), 2.0 * 200e6 / 4.0, 0.01);
    near("1 MiB", rate(1, 1_048_576.0), 2.0 * 500e6 / 4.0, 0.02);
}

#[test]
fn storage_with_a_measured_table_is_shared_between_nodes_only_if_remote() {
    // System: two nodes with two readers each. Expectation: remote storage serves them as four readers, local
    // storage serves each node as two readers; remote reads are no faster than the NIC.
    let size = 1_048_576.0;
    let nodes = |storage: &str, nic: &str| {
        let nic = format!("\"{nic}\"");
        let more = [("job.copies", "2"), ("cluster.network.nic", nic.as_str())];
        rate(&readers(storage, 2, "1 MiB", &more), size)
    };
    let remote = TABLE.replace("{ measured = {", "{ measured = { remote = true,");
    near("shared", nodes(&remote, "10 GB/s"), 250e6, 0.01);
    near("each", nodes(TABLE, "100 MB/s"), (300e6_f64 * 500e6).sqrt(), 0.01);
    near("NIC", nodes(&remote, "100 MB/s"), 100e6, 0.01);
}

#[test]
fn a_throughput_table_is_read_from_a_csv_file() {
    let place = Place::new();
    place.write(
        "table.csv",
        "size,requests,throughput\n64 KiB,4,200 MB/s # any order\n1048576,1,3e8\n65536,1,80 MB/s\n\
         1 MiB,4,500 MB/s\n",
    );
    let old = SCENARIO.find("[storage.disk.file-server]").expect("there");
    let end = SCENARIO.find("[dataset.digits]").expect("there");
    let text = |file: &str| {
        format!(
            "{}[storage.disk.measured]\nfile = \"{file}\"\n{}",
            &SCENARIO[..old],
            &SCENARIO[end..]
        )
    };
    let refused = |table: &str, says: &str| {
        place.write("wrong.csv", table);
        place.write("s.toml", &text("wrong.csv"));
        let done = place.forebay(&["run", "s.toml"]).assert().code(2);
        let error = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(error.contains(says), "{error}");
    };
    place.write("s.toml", &text("table.csv"));
    place.forebay(&["run", "s.toml"]).assert().success();
    let live = place
        .forebay(&["live", "s.toml", "--set", "job.copies=1", "--set", "cluster.node.cores=1"])
        .assert()
        .code(3);
    let error = String::from_utf8_lossy(&live.get_output().stderr).into_owned();
    assert!(error.contains("table of throughput"), "{error}");
    refused("64 KiB,1,1 MB/s\n1 MiB,4,2 MB/s\n", "2 throughputs for 2 sizes by 2 numbers");
    refused("64 KiB,1,1 MB/s\n64 KiB,1,2 MB/s\n", "are already in the file");
    refused("64 KiB,1\n", "there are 2 columns here");
    refused("64 KiB,0,1 MB/s\n", "between 1 and");
    refused("size,requests,throughput\n", "has 0 throughputs");
    refused("64 KiB,1,fast\n", "wrong.csv");
    refused("64 KiB,1,1 MB/s\nnan,1,1 MB/s\n", "is not between");
}

#[test]
fn invalid_throughput_tables_are_refused() {
    let file = ScenarioFile::parse("test.toml", base()).expect("a scenario");
    let refused = |table: &str, says: &str| {
        let set = format!("storage.s={{ measured = {table} }}");
        let problems = file.resolve(&[set.parse().expect("an override")]).expect_err(table);
        assert!(problems.to_string().contains(says), "{table}: {problems}");
    };
    let of = |sizes: &str, requests: &str, rates: &str| {
        format!("{{ sizes = {sizes}, requests = {requests}, throughput = {rates} }}")
    };
    let (two, one) = ("[\"1 kB\", \"2 kB\"]", "[\"1 kB\"]");
    refused(&of(two, "[1]", "[[\"1 MB/s\"]]"), "1 rows for 2 sizes");
    refused(&of(one, "[1, 2]", "[[\"1 MB/s\"]]"), "1 throughputs for 2 numbers");
    refused(
        &of("[\"2 kB\", \"2 kB\"]", "[1]", "[[\"1 MB/s\"], [\"1 MB/s\"]]"),
        "is not larger than",
    );
    refused(&of("[]", "[1]", "[]"), "the list is empty");
    refused(&of(one, "[0]", "[[\"1 MB/s\"]]"), "out of range");
    refused(&of(one, "[1]", "[[\"0 MB/s\"]]"), "is zero");
    refused("{ sizes = [\"1 kB\"] }", "`throughput`");
    refused("{ file = \"there-is-none.csv\" }", "there-is-none.csv");
    refused("{ file = \"a.csv\", sizes = [\"1 kB\"] }", "`file` already gives these numbers");
    refused("{ throughput = [[\"1 MB/s\"]] }", "`sizes` is missing");
    // A table whose slowest read exceeds the time limit of simulations is refused.
    refused(&of(one, "[1]", "[[\"1 B/s\"]]").replace("1 kB", "1 TB"), "takes");
    let load = "background=[{ name = \"b\", storage = \"s\", streams = { streams = 1 } }]";
    let sets = [format!("storage.s={TABLE}").replace('\n', " "), load.to_owned()];
    let sets: Vec<_> = sets.iter().map(|set| set.parse().expect("an override")).collect();
    assert!(file.resolve(&sets).expect_err("refused").to_string().contains("local to each node"));
}

#[test]
fn a_page_cache_in_front_of_a_measured_storage_serves_repeated_reads() {
    let all = readers(
        TABLE,
        4,
        "64 KiB",
        &[("cluster.node.page_cache", "{ capacity = \"100 MB\" }"), ("dataset.d.samples", "800")],
    );
    let served = all.resources.iter().find(|r| r.name == "s.measured").expect("there").served;
    near("served", served, 800.0 * 65_536.0, 0.01);
    // From the table a step takes 5 ms; a file that is requested again while it is being read is read twice.
    let step = steady(&all, 100).step;
    assert!(step < 1e-4, "{step}");
}
