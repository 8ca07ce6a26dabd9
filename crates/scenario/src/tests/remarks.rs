//! Tests: settings without effect are remarked, and settings with an effect are not.

use super::{ScenarioFile, wrong};

/// Returns the remarks on a job on one node with these changes, one per line.
fn remarks(changes: &[(&str, &str)]) -> String {
    let mut text = SCENARIO.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let file = ScenarioFile::parse("a.toml", text).expect("it is TOML");
    file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}")).remarks.join("\n")
}

const SCENARIO: &str = r#"
name = "remarked"
[run]
steps = 5
[cluster]
nodes = 1
[cluster.node]
cores = 4
gpus = 1
[storage.nvme.local-disk]
bandwidth = "1 GB/s"
[storage.s.file-server]
bandwidth = "1 GB/s"
[dataset.d]
samples = 1000
sample_size = "1 MB"
decoded_size = "2 MB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 8
loader.pytorch = { workers = 2, decode = "1 ms" }
model = { step = "1 ms" }
"#;

const LOADER: &str = "{ workers = 2, decode = \"1 ms\" }";
const SERVER: &str = "[storage.s.file-server]";
const STEP: &str = "{ step = \"1 ms\" }";

/// Checks that the words are among the remarks with these `changes`, and are not among the remarks if the `more`
/// changes are made as well.
fn assert_remarked(changes: &[(&str, &str)], words: &str, more: &[(&str, &str)]) {
    let said = remarks(changes);
    assert!(said.contains(words), "{changes:?}: {said}");
    let said = remarks(&[changes, more].concat());
    assert!(!said.contains("effect"), "{changes:?} {more:?}: {said}");
}

#[test]
fn a_cache_smaller_than_one_sample_one_file_or_one_request_gets_a_remark() {
    let decoded = [("batch = 8", "batch = 8\ndecoded_cache = { capacity = \"1.9 MB\" }")];
    let words = "`job.j.decoded_cache` has no effect: it holds less than one decoded sample";
    assert_remarked(&decoded, words, &[("1.9 MB", "2 MB")]);

    let shards = "sample_size = \"1 MB\"\nlayout.shards = { samples = 100, request = \"4 MB\" }";
    let cache = "[storage.s.file-server]\ncache = { on = \"nvme\", capacity = \"99 MB\" }";
    let tier = [(SERVER, cache), ("sample_size = \"1 MB\"", shards)];
    let words = "`storage.s.cache` has no effect on `d`: it is smaller than one file of this";
    assert_remarked(&tier, words, &[("99 MB", "100 MB")]);
    let pages = [tier[0], tier[1], ("\"99 MB\"", "\"3 MB\", unit = \"page\"")];
    let words = "`storage.s.cache` has no effect on `d`: it is smaller than one request of this";
    assert_remarked(&pages, words, &[("\"3 MB\"", "\"4 MB\"")]);

    let page_cache = [("gpus = 1", "gpus = 1\npage_cache = { capacity = \"0.9 MB\" }")];
    let words = "`cluster.node.page_cache` has no effect on `d`: it is smaller than one request";
    assert_remarked(&page_cache, words, &[("0.9 MB", "1 MB")]);
    let varying = "{ lognormal = { median = \"1 MB\", p99 = \"3 MB\" } }";
    let said =
        remarks(&[page_cache[0], ("sample_size = \"1 MB\"", &format!("sample_size = {varying}"))]);
    assert!(said.contains("hardly any effect on `d`: it is smaller than a mean request"), "{said}");
}

#[test]
fn an_interpreter_lock_without_contention_gets_a_remark() {
    const LAUNCH: &str = "{ step = \"1 ms\", launch = { work = \"1 ms\", gil = 0.5 } }";
    let words = "`gil` of job `j` has no effect";
    let pinned = (LOADER, "{ workers = 2, pin_memory = { work = \"1 ms\", gil = 0.6 } }");
    let threads = (LOADER, "{ workers = 2, worker_kind = \"thread\", gil = 0.5 }");
    assert_remarked(&[(STEP, LAUNCH)], words, &[pinned]);
    assert_remarked(&[(STEP, LAUNCH)], words, &[threads]);
    assert_remarked(&[threads], words, &[("gil = 0.5", "gil = 0.6")]);
    // Two trainers of one loader are one process.
    let copies =
        [("gpus = 1", "gpus = 2"), ("batch = 8", "batch = 8\nparallel.data.copies_per_node = 2")];
    assert_remarked(&[(STEP, LAUNCH)], words, &[copies[0], copies[1], ("gil = 0.5", "gil = 0.6")]);
    // A trainer that loads between its own steps does not wait for itself.
    let alone = (LOADER, "{ workers = 0, gil = 0.9 }");
    assert_remarked(
        &[(STEP, LAUNCH), alone],
        words,
        &[("workers = 0", "workers = 0, pin_memory = { gil = 0.2 }")],
    );
}

#[test]
fn loader_settings_without_effect_at_the_given_worker_count_get_a_remark() {
    for (loader, words, more) in [
        (
            "pytorch = { workers = 0, ipc = \"1 GB/s\" }",
            "ipc` has no effect: there are no workers",
            ("= 0", "= 1"),
        ),
        (
            "keras = { workers = 0, ipc = \"1 GB/s\" }",
            "ipc` has no effect: there are no workers",
            ("= 0,", "= 2, use_multiprocessing = true,"),
        ),
        (
            "keras = { workers = 0, use_multiprocessing = true }",
            "use_multiprocessing` has no effect",
            ("= 0", "= 1"),
        ),
        ("keras = { workers = 0, gil = 0.9 }", "`gil` of job `j` has no effect", ("= 0,", "= 2,")),
        (
            "pytorch = { workers = 1, in_order = false }",
            "in_order` has no effect: one worker",
            ("= 1", "= 2"),
        ),
        (
            "pytorch = { workers = 1, iterable = true }",
            "iterable` has no effect: one worker",
            ("= 1", "= 2"),
        ),
    ] {
        let loader = format!("loader.{loader}");
        let written = format!("loader.pytorch = {LOADER}");
        assert_remarked(&[(&written, &loader)], words, &[more]);
    }
}

#[test]
fn converting_a_data_set_to_itself_is_refused() {
    let own = SCENARIO
        .replace("batch = 8", "batch = 8\ncopy = { to = \"nvme\", convert = { from = \"d\" } }");
    let own = own.replace(
        "bandwidth = \"1 GB/s\"\n[storage.s",
        "bandwidth = \"1 GB/s\"\ncapacity = \"1 TB\"\n[storage.s",
    );
    let said = wrong(&own);
    assert!(said.contains("job.j.copy: \"d\" cannot be converted from itself"), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "{said}");
}

#[test]
fn old_names_of_keys_are_read_with_a_remark() {
    // System: the key `job.copy` under its old name `job.stage`: in the file as a value and as a table, in an override of one
    // key and of the whole job, and in `[sweep]`. Expectation: the scenario is that of the new name, and a remark says it.
    let with = |text: &str| {
        let sized = "[storage.nvme.local-disk]\ncapacity = \"1 TB\"\n";
        let text = SCENARIO.replace("batch = 8\n", &format!("batch = 8\n{text}\n"));
        text.replace("[storage.nvme.local-disk]\n", sized)
    };
    let resolved = |text: &str, overrides: &[&str]| {
        let file = ScenarioFile::parse("a.toml", text.to_owned()).expect("it is TOML");
        let overrides: Vec<crate::Override> =
            overrides.iter().map(|text| text.parse().expect("a key and a value")).collect();
        file.resolve(&overrides).expect("it is valid")
    };
    let new = resolved(&with("copy = { to = \"nvme\", streams = 3 }"), &[]);
    assert!(new.jobs[0].staging.is_some(), "the job copies its data set");
    for (text, overrides) in [
        ("stage = { to = \"nvme\", streams = 3 }", &[][..]),
        ("stage.to = \"nvme\"\nstage.streams = 3", &[]),
        ("stage.to = \"nvme\"", &["job.j.stage.streams=3"]),
        ("copy.to = \"nvme\"", &["job.stage.streams=3"]),
        ("stage.to = \"nvme\"", &["job.0.copy.streams=3"]),
        ("", &["job.stage={ to = \"nvme\", streams = 3 }"]),
    ] {
        let old = resolved(&with(text), overrides);
        assert_eq!(old.jobs, new.jobs, "{text} {overrides:?}");
        let remark = "`job.stage` is called `job.copy` now: write `copy`.";
        let found = old.remarks.iter().filter(|sentence| sentence.starts_with(remark)).count();
        assert_eq!(found, 1, "{text} {overrides:?}: {:?}", old.remarks);
    }
    assert!(new.remarks.iter().all(|sentence| !sentence.contains("stage")), "{:?}", new.remarks);
    let swept =
        format!("{}\n[sweep]\n\"job.stage.streams\" = [1, 2]\n", with("stage.to = \"nvme\""));
    assert_eq!(wrong(&swept), "");
    let both = wrong(&with("copy.to = \"nvme\"\nstage.streams = 3"));
    assert!(both.contains("`stage`") && both.contains("unknown"), "{both}");
}

#[test]
fn tiny_numbers_in_error_messages_are_shown_in_scientific_notation() {
    let said = wrong(&SCENARIO.replace("batch = 8", "batch = 8\ncpu_quota = 1e-300"));
    assert!(said.contains("job.j.cpu_quota: 1e-300 is out of range"), "{said}");
    assert!(said.contains("write a number above 0, at least 1e-9"), "{said}");
}

#[test]
fn idle_gpus_on_the_nodes_of_a_job_get_a_remark() {
    let gpus = |gpus: u32| format!("gpus = {gpus}");
    assert_eq!(remarks(&[]), "");
    let said = remarks(&[("gpus = 1", &gpus(4))]);
    assert!(said.contains("Job `j` trains on 1 of the 4 GPUs of its nodes"), "{said}");
    let two = ("batch = 8", "batch = 8\nparallel.data.copies_per_node = 2");
    let said = remarks(&[("gpus = 1", &gpus(4)), two]);
    assert!(said.contains("Job `j` trains on 2 of the 4 GPUs"), "{said}");
    for all in ["2", "\"gpus\""] {
        let all = format!("batch = 8\nparallel.data.copies_per_node = {all}");
        let said = remarks(&[("gpus = 1", &gpus(2)), ("batch = 8", &all)]);
        assert_eq!(said, "", "{all}");
    }
    let cores = ("model = {", "model = { device.cpu = { threads = 1 },");
    assert!(!remarks(&[("gpus = 1", &gpus(4)), cores]).contains("idle"));
}

#[test]
fn a_default_page_cache_that_is_left_out_gets_a_remark_with_the_reason_and_the_key() {
    // System: 100 million files of 1 kB, which fit into 256 GB of memory. Expectation: a remark says why there is no page cache and
    // how to have one, unless the user wrote that there is none.
    let many =
        ("samples = 1000\nsample_size = \"1 MB\"", "samples = 100000000\nsample_size = \"1 kB\"");
    let with = |keys: &str| {
        remarks(&[many, ("gpus = 1", &format!("gpus = 1\nmemory = \"256 GB\"\n{keys}"))])
    };
    let said = with("");
    for part in [
        "Every epoch reads all of `d` from `s`, though its 100 GB would fit into a node's memory",
        "because nodes would track 100000000 files and requests; write `page_cache = {}`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!with("page_cache = \"none\"").contains("Every epoch"));
}

#[test]
fn keys_in_remarks_quote_the_names_of_jobs_that_need_it() {
    let said =
        remarks(&[("gpus = 1", "gpus = 2"), ("name = \"j\"", "name = \"random, one replica\"")]);
    assert!(said.contains("`job.\"random, one replica\".parallel.data.copies_per_node"), "{said}");
}
