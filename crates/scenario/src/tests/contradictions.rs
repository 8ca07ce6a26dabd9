//! Tests of settings that contradict each other, of settings beyond all limits, and of axes.

use super::bad::check;
use super::*;

#[test]
fn contradictory_settings_are_reported() {
    let queue = "job.lenet.loader.tf-queue.capacity";
    let every = "batch_interval = 1 ";
    let rows = [
        (
            "steps = 500 ",
            "steps = 500\n^epochs = 2 ",
            "run.epochs",
            "`steps` and `epochs` contradict",
            "keep one",
        ),
        (
            "\"2000 samples\"",
            "^\"63 samples\"",
            queue,
            "holds 63 samples: less than one batch of 64",
            "64 samples",
        ),
        (
            "\"2000 samples\"",
            "^\"2.5 samples\"",
            queue,
            "is not a whole number",
            "a number of samples",
        ),
        (
            "copies = 16 ",
            "copies = ^17 ",
            "job.lenet.copies",
            "need 17 nodes, and the cluster has 16",
            "fewer copies",
        ),
        (
            "copies_per_node = 4",
            "copies_per_node = ^5",
            "job.lenet.parallel.data.copies_per_node",
            "5 model copies need 5 GPUs, and a node has 4",
            "fewer copies",
        ),
        (
            "copies_per_node = 4",
            "copies_per_node = ^4\n[job.parallel.pipeline]\nstages = 2",
            "job.lenet.parallel.data.copies_per_node",
            "4 model copies of 2 stages need 8 GPUs",
            "fewer copies",
        ),
        (
            "operations = \"100000 /s\"",
            "operations = \"100000 /s\"\nservice = \"fair\"\nin_flight = ^2",
            "storage.hpctmp.file-server.in_flight",
            "share fairly do not wait for each other",
            "`service = \"in-order\"`",
        ),
        (
            "operations = \"100000 /s\"",
            "operations = \"100000 /s\"\nservice = \"in-order\"\npiece = ^\"64 kB\"",
            "storage.hpctmp.file-server.piece",
            "only clients that take turns are served in pieces",
            "`service = \"round-robin\"`",
        ),
        (
            "operations = \"100000 /s\"",
            "operations = \"100000 /s\"\nservice = \"round-robin\"\npiece = ^\"100 B\"",
            "storage.hpctmp.file-server.piece",
            "storages serve at least a sector at once",
            "\"512 B\"",
        ),
        (
            "operations = \"100000 /s\"\n",
            "operations = \"100000 /s\"\n[storage.arm.local-disk]\nbandwidth = \"1 GB/s\"\nseek = \"8 ms\"\nin_flight = ^2\n",
            "storage.arm.local-disk.in_flight",
            "a hard disk's arm serves one request at a time",
            "leave out `seek`",
        ),
        (
            "operations = \"100000 /s\"\n",
            "operations = \"100000 /s\"\n[storage.arm.local-disk]\nbandwidth = \"1 GB/s\"\nseek = \"8 ms\"\nburst = ^{ bandwidth = \"2 GB/s\", bucket = \"1 GB\" }\n",
            "storage.arm.local-disk.burst",
            "no faster for a while",
            "leave out `seek`",
        ),
        (
            "operations = \"100000 /s\"\n",
            "operations = \"100000 /s\"\n[storage.arm.local-disk]\nbandwidth = [\"1 GB/s\", \"2 GB/s\"]\nburst = ^{ bandwidth = \"4 GB/s\", bucket = \"1 GB\" }\n",
            "storage.arm.local-disk.burst",
            "one value, not a list",
            "one value for the storage's `bandwidth`",
        ),
        (
            every,
            "batch_interval = ^0.5 ",
            "job.lenet.batch_interval",
            "less than one",
            "larger `batch`",
        ),
        (
            every,
            "batch_interval = ^\"2\" ",
            "job.lenet.batch_interval",
            "found the text",
            "a number",
        ),
        (
            every,
            "batch_interval.adaptive = { level = ^\"2001 samples\", max = 16 }\n",
            "job.lenet.batch_interval.adaptive.level",
            "never holds 2001",
            "lower `level`",
        ),
        (
            every,
            "batch_interval.adaptive = { level = ^\"63 samples\", max = 16 }\n",
            "job.lenet.batch_interval.adaptive.level",
            "less than one batch",
            "64 samples",
        ),
        (
            every,
            "batch_interval.^adaptive = { level = \"64 samples\" }\n",
            "job.lenet.batch_interval.adaptive",
            "`max` is missing",
            "max = 16",
        ),
        (
            every,
            "queue = ^\"circular\"\nbatch_interval.adaptive = { level = \"64 samples\", max = 16 }\n",
            "job.lenet.queue",
            "no effect",
            "bounded",
        ),
        (
            every,
            "queue = ^\"round\" ",
            "job.lenet.queue",
            "unknown value \"round\"",
            "`bounded`, `circular`",
        ),
        (
            every,
            "prefill = ^\"2001 samples\" ",
            "job.lenet.prefill",
            "do not fit into a queue of 2000",
            "full",
        ),
        (every, "prefill = ^2000 ", "job.lenet.prefill", "found the number", "\"full\""),
        (every, "stagger = ^\"1e6 s\" ", "job.lenet.stagger", "starts after", "shorter"),
        ("256 GiB", "256 KiB", "", "", ""),
        (
            "step = { fixed = \"2 ms\", per_sample = \"15.6 us\" }",
            "step = ^\"0 s\"",
            "job.lenet.model.step",
            "takes no time",
            "3 ms",
        ),
        (
            "step = { fixed = \"2 ms\", per_sample = \"15.6 us\" }",
            "step = ^3",
            "job.lenet.model.step",
            "the number 3 has no unit",
            "3 ms",
        ),
        (
            "[job.model]\n",
            "[job.model]\njitter.lognormal.cv = ^1000\n",
            "job.lenet.model.jitter.lognormal.cv",
            "out of range",
            "0.001 to 100",
        ),
        (
            "p99 = \"9.2 ms\"",
            "p99 = ^\"0.9 ms\"",
            "storage.hpctmp.file-server.latency.lognormal.p99",
            "not above `median`",
            "larger `p99`",
        ),
        (
            "p99 = \"9.2 ms\"",
            "p99 = \"9 ms\", ^cv = 1.0",
            "storage.hpctmp.file-server.latency.lognormal.cv",
            "contradict",
            "`mean` and `cv`",
        ),
        (
            "p99 = \"9.2 ms\"",
            "p99 = \"9 ms\", ^mean = \"1 s\"",
            "storage.hpctmp.file-server.latency.lognormal.mean",
            "contradict",
            "keep one",
        ),
        (
            "steps = 500 ",
            "steps = ^100000000 ",
            "run.steps",
            "1600000000 steps together",
            "a shorter run",
        ),
        ("per_stream = \"400 MB/s\"", "per_stream = \"1 B/s\"", "", "", ""),
    ];
    for row in rows.iter().filter(|row| !row.2.is_empty()) {
        check(FLETCHER, *row);
    }
    let memory = wrong(&FLETCHER.replace("256 GiB", "256 KiB"));
    assert!(memory.contains("the buffers need") && memory.contains("more memory"), "{memory}");
    assert!(memory.contains("a node has 262 kB"), "{memory}");
    let slow = FLETCHER.replace("400 MB/s", "1 B/s").replace("784 B", "5 TB");
    assert!(wrong(&slow).contains("reading one sample takes"), "{}", wrong(&slow));
}

#[test]
fn sweeps_with_unknown_keys_or_wrong_values_are_reported() {
    let batch = "\"job.batch_interval\" = [1, 2, 4, 8, 16, 32]";
    let rows = [
        (
            batch,
            "^\"job.batch_intervall\" = [1, 2]",
            "sweep.\"job.batch_intervall\"",
            "unknown key",
            "did you mean `batch_interval`",
        ),
        (
            batch,
            "^\"job.lent.batch\" = [1, 2]",
            "sweep.\"job.lent.batch\"",
            "unknown key `lent`",
            "known here",
        ),
        (
            batch,
            "\"job.batch\" = [64, ^\"x\"]",
            "sweep.\"job.batch\".1",
            "found the text",
            "whole number",
        ),
        (batch, "\"job.batch\" = ^[]", "sweep.\"job.batch\"", "has 0 values", "write 1 to"),
        (
            batch,
            "\"job.batch\" = ^64",
            "sweep.\"job.batch\"",
            "a list of values is expected",
            "[1, 2, 4]",
        ),
        (batch, "^\"job..batch\" = [64]", "sweep.\"job..batch\"", "not a dotted key", "job.batch"),
        (batch, "^\"sweep.x\" = [64]", "sweep.\"sweep.x\"", "cannot be swept", "single setting"),
        (batch, "^job.batch = [64]", "sweep.job", "a list of values is expected", "in quotes"),
        (
            batch,
            "\"cluster.network.nic\" = [\"1 GB/s\", ^\"0 GB/s\"]",
            "sweep.\"cluster.network.nic\".1",
            "is zero",
            "write a bandwidth",
        ),
    ];
    for row in &rows[..7] {
        check(FLETCHER, *row);
    }
    check(FLETCHER, rows[8]);
    assert!(wrong(&FLETCHER.replace(batch, "job.batch = [64]")).contains(rows[7].4));
}

/// Returns the messages about the example with `from` replaced by `to`.
fn said(from: &str, to: &str) -> String {
    assert!(FLETCHER.contains(from), "{from}");
    wrong(&FLETCHER.replace(from, to))
}

#[test]
fn scenarios_too_large_for_memory_or_with_invalid_names_are_refused() {
    for (from, to, expected) in [
        ("steps = 500 ", "duration = \"1e7 s\"\n", "make up to 53"),
        ("steps = 500 ", "epochs = 1e9\n", "steps together"),
        ("threads = 8", "threads = 1000000", "16000064 workers and model copies"),
        ("name = \"lenet\"", "name = \"a\\u001bb\"", "control characters"),
        ("name = \"lenet\"", "name = \" \"", "the name is empty"),
        ("name = \"fletcher-lenet\"", "name = \"\"", "the name is empty"),
        ("[storage.hpctmp", "[storage.\"\\u001b\".memory]\n[storage.hpctmp", "control characters"),
        ("samples = 60000", "samples = 2000000000000", "from 1 to 1000000000000"),
    ] {
        let shown = said(from, to);
        assert!(shown.contains(expected), "{to}\n{shown}");
        assert_eq!(shown.matches("error:").count(), 1, "{to}\n{shown}");
    }
    let jobs = "[[job]]\n".repeat(20_000);
    assert!(said("[[job]]", &format!("{jobs}[[job]]")).contains("20001 entries"));
    let second = "[[job]]\nname = \"lenet\"\n[[job]]";
    assert!(said("[[job]]", second).contains("the name \"lenet\" is taken"));
}

#[test]
fn distributions_with_missing_or_invalid_parameters_are_reported() {
    for (to, expected) in [
        ("{ exponential = {} }", "`mean` is missing"),
        ("{ gamma = { mean = \"1 B\" } }", "`cv` is missing"),
        ("{ normal = { mean = \"1 B\", sd = \"0 B\" } }", "is zero"),
        ("{ uniform = { low = \"2 B\", high = \"2 B\" } }", "`high` is not above `low`"),
        ("{ pareto = { shape = 2 } }", "`min`, `mean` is missing"),
        ("{ pareto = { mean = \"1 B\", shape = 1 } }", "the mean is infinite"),
        ("{ lognormal = { median = \"1 B\" } }", "`p99` is missing"),
        ("{ lognormal = { mean = \"1 B\" } }", "`cv` is missing"),
        ("{ lognromal = {} }", "did you mean `lognormal`?"),
        ("{ constant = 3 }", "the number 3 has no unit"),
        (
            "{ empirical = { file = \"/dev/zero\" } }",
            "\"/dev/zero\": the file is not a regular file",
        ),
        ("{ empirical = { file = \".\" } }", "\".\": the file is not a regular file"),
        ("{ empirical = { file = 3 } }", "found the number 3"),
    ] {
        let shown = said("\"784 B\"", to);
        assert!(shown.contains(expected), "{to}\n{shown}");
        assert_eq!(shown.matches("error:").count(), 1, "{to}\n{shown}");
    }
}

#[test]
fn invalid_background_loads_pipelines_and_storages_are_reported() {
    for (to, expected) in [
        ("[[background]]\nname = \"b\"\nstorage = \"hpctmp\"", "`streams`, `requests` is missing"),
        ("[[background]]\nname = \"b\"\nstorage = \"x\"\nstreams.streams = 1", "no storage named"),
        (
            "[[background]]\nname = \"b\"\nstorage = \"hpctmp\"\nstreams = {}",
            "`streams` is missing",
        ),
        (
            "[[background]]\nname = \"b\"\nstorage = \"hpctmp\"\nrequests.rate = \"1 /s\"",
            "`size` is missing",
        ),
        (
            "[storage.x.memory]\n[[background]]\nname = \"b\"\nstorage = \"x\"\nstreams.streams = 1",
            "\"x\" is local to each node",
        ),
        ("[storage.x]", "no kind is written"),
        ("[storage.x.memory]\nbandwidth = []", "the list is empty"),
        ("[storage.x.memory]\nbandwidth = [\"1 GB/s\", 2]", "the number 2 has no unit"),
        ("[storage.x.local-disk]", "`bandwidth` is missing"),
        ("[job.parallel.pipeline]", "`stages`, `shares` is missing"),
        ("[job.parallel.pipeline]\nshares = [0.4, 0.4]", "the shares sum to 0.8"),
        ("[job.parallel.pipeline]\nshares = [0.5, -0.5]", "-0.5 is out of range"),
        ("[job.parallel.pipeline]\nstages = 1\noverlap = \"no\"", "write true or false"),
    ] {
        let shown = said("[sweep]", &format!("{to}\n[sweep]"));
        assert!(shown.contains(expected), "{to}\n{shown}");
        assert_eq!(shown.matches("error:").count(), 1, "{to}\n{shown}");
    }
}

#[test]
fn a_circular_queue_with_an_infinitely_fast_loader_is_refused() {
    let with = |storage: &str, decode: &str| {
        let text =
            FLETCHER.replace("storage = \"hpctmp\"", "storage = \"ram\"\nqueue = \"circular\"");
        let text = text.replace("decode = \"50 us\"", decode).replace("nic = \"10 Gbit/s\"", "");
        // Reads from a page cache would take no time.
        let none = "memory = \"256 GiB\"\npage_cache = \"none\"";
        let text = text.replace("memory = \"256 GiB\"", none);
        let start = text.find("[storage.hpctmp").expect("there");
        let end = text.find("[dataset").expect("there");
        wrong(&format!("{}[storage.ram]\n{storage}\n{}", &text[..start], &text[end..]))
    };
    for (storage, decode) in [
        ("memory = {}", ""),
        ("memory = {}", "decode = \"0 s\""),
        ("memory = {}", "decode = { constant = \"1 ps\" }"),
        ("memory = {}", "decode = { normal = { mean = \"0 s\", sd = \"1 ps\" } }"),
        ("memory.bandwidth = \"1000000 TB/s\"", ""),
    ] {
        let shown = with(storage, decode);
        assert!(
            shown.contains("error: job.lenet.queue: a circular queue never blocks workers"),
            "{decode}\n{shown}"
        );
        assert!(shown.contains("`queue = \"bounded\"`"), "{decode}\n{shown}");
        assert_eq!(shown.matches("error:").count(), 1, "{decode}\n{shown}");
    }
    for (storage, decode) in [
        ("memory = {}", "decode = \"50 us\""),
        ("memory = {}", "decode = { normal = { mean = \"0 s\", sd = \"1 ms\" } }"),
        ("memory.bandwidth = \"10 GB/s\"", "decode = \"0 s\""),
        ("local-disk = { bandwidth = \"10 GB/s\" }", ""),
        ("file-server = { bandwidth = \"1000000 TB/s\" }", ""),
        ("local-disk = { bandwidth = \"1000000 TB/s\", operations = \"10000 /s\" }", ""),
    ] {
        assert_eq!(with(storage, decode), "", "{storage} {decode}");
    }
}
