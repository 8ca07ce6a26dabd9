//! Tests: files with mistakes are refused, in words and at the exact place.

use super::*;

#[test]
fn all_problems_of_a_scenario_file_are_reported_at_once() {
    let text = FLETCHER.replace("cores = 20", "coers = 20").replace("\"2 GB/s\"", "2");
    let text = text.replace("steps = 500 ", "steps = -500").replace("\"2000 s", "\"20 s");
    let text = text.replace("dataset = \"mnist\"", "dataset = \"minst\"");
    let rendered = wrong(&text);
    for expected in [
        "error: run.steps: -500 is out of range\n --> a.toml:5:9\n",
        "error: cluster.node.coers: unknown key `coers`\n  --> a.toml:13:1\n",
        "error: storage.hpctmp.file-server.bandwidth: the number 2 has no unit",
        "error: job.lenet.dataset: there is no dataset named \"minst\"",
        "error: job.lenet.loader.tf-queue.capacity: the last buffer holds 20 samples",
    ] {
        assert!(rendered.contains(expected), "{expected} is not in\n{rendered}");
    }
    assert_eq!(rendered.matches("error:").count(), 5, "{rendered}");
    assert_eq!(rendered.matches("= help:").count(), 5, "{rendered}");
}

/// Checks that the text `base`, with `from` replaced by `to`, has exactly one problem: at the mark `^` in `to`, with this key,
/// this message and this remedy.
pub(super) fn check(base: &str, (from, to, key, what, remedy): (&str, &str, &str, &str, &str)) {
    assert_eq!(base.matches(from).count(), 1, "{from} is not there once");
    let marked = base.replace(from, to);
    let at = marked.find('^').unwrap_or_else(|| panic!("no mark in {to}"));
    let text = marked.replacen('^', "", 1);
    let line = marked[..at].matches('\n').count() + 1;
    let column = marked[..at].chars().rev().take_while(|c| *c != '\n').count() + 1;
    let file = ScenarioFile::parse("a.toml", text).unwrap_or_else(|p| panic!("{to}:\n{p}"));
    let problems = file.resolve(&[]).map(|_| ()).and_then(|()| file.axes().map(|_| ()));
    let problems = problems.expect_err(to);
    let shown = problems.to_string();
    let all: Vec<_> = problems.iter().collect();
    let [problem] = all[..] else { panic!("{to}: {} problems\n{shown}", all.len()) };
    assert_eq!((problem.line, problem.column), (line, column), "{to}\n{shown}");
    assert_eq!(problem.key, key, "{to}\n{shown}");
    assert!(problem.what.contains(what), "{to}\n{shown}");
    assert!(problem.remedy.contains(remedy), "{to}\n{shown}");
    assert!(shown.contains(&format!("--> a.toml:{line}:{column}\n")), "{to}\n{shown}");
}

#[test]
fn scenario_quantities_with_wrong_unit_or_out_of_range_are_reported() {
    let size = |to, what, remedy| {
        check(FLETCHER, ("\"784 B\"", to, "dataset.mnist.sample_size", what, remedy));
    };
    size("^784", "the number 784 has no unit, where a size is expected", "B, kB, MB");
    size("^7.5", "the number 7.5 has no unit", "B, kB, MB");
    size("^nan", "has no unit", "B, kB, MB");
    size("^\"784\"", "a size needs a unit", "write a size with its unit: \"256 KiB\"");
    size("^\"784 MB/s\"", "`MB/s` is a unit of a bandwidth", "write a size");
    size("^\"784 kb\"", "`kb` is not a unit of a size (`kB`?)", "write a size");
    size("^\"nan B\"", "not a finite number", "write a size");
    size("^\"inf B\"", "not a finite number", "write a size");
    size("^\"-784 B\"", "is negative", "from 1 B to 1000 PB");
    size("^\"0 B\"", "without bytes", "write `sample_size");
    size("^\"0.1 B\"", "is smaller than anything", "from 1 B to 1000 PB");
    size("^\"1e30 B\"", "is larger than anything", "from 1 B to 1000 PB");
    size("^\"1e999 B\"", "too large", "write a size");
    size("^true", "found true", "write a size with its unit");
    size("^[1, 2]", "found an array", "write a size with its unit");
    size("^1979-05-27", "found a date", "write a size");
    size("^{}", "no kind is written", "lognormal");
    let nic = |to, what, remedy| {
        check(FLETCHER, ("\"10 Gbit/s\"", to, "cluster.network.nic", what, remedy));
    };
    nic("^\"0 Gbit/s\"", "is zero", "write a bandwidth from 1 B/s");
    nic("^\"10 Gbits/s\"", "`Gbits/s` is not a unit of a bandwidth (`Gbit/s`?)", "10 Gbit/s");
    nic("^\"10 Gb/s\"", "is not a unit of a bandwidth (`Gbit/s`?)", "10 Gbit/s");
    nic("^[\"10 Gbit/s\"]", "found an array", "write a bandwidth");
    let rate = "storage.hpctmp.file-server.operations";
    check(FLETCHER, ("\"100000 /s\"", "^\"3 ms\"", rate, "a unit of a time", "write a rate"));
}

#[test]
fn scenario_numbers_out_of_range_and_unknown_words_are_reported() {
    let rows = [
        ("cores = 20", "cores = ^0", "cluster.node.cores", "0 is out of", "from 0.001 to"),
        (
            "replications = 5",
            "replications = ^2.5",
            "run.replications",
            "found the number",
            "a whole",
        ),
        ("cores = 20", "cores = ^\"20\"", "cluster.node.cores", "found the text", "a number of"),
        ("cores = 20", "cores = ^nan", "cluster.node.cores", "is out of range", "from 0.001 to"),
        (
            "cores = 20",
            "cores = ^99999999999999999999999999999999999999999999",
            "cluster.node.cores",
            "is out of range",
            "from 0.001 to 100000",
        ),
        ("seed = 1", "seed = ^-1", "run.seed", "-1 is out of range", "from 0 to"),
        ("replications = 5", "replications = ^0", "run.replications", "0 is out", "from 1"),
        ("\"auto\" ", "^\"of\" ", "run.warm_up", "found the text \"of\"", "\"auto\", \"off\""),
        ("\"auto\" ", "^500 ", "run.warm_up", "all 500 steps are warm-up", "a smaller"),
        (
            "threads = 8",
            "threads = ^2000000",
            "job.lenet.loader.tf-queue.threads",
            "2000000",
            "1000000",
        ),
        ("samples = 60000", "samples = ^1e9", "dataset.mnist.samples", "found the number", "whole"),
        (
            "batch = 64 ",
            "batch = ^60001 ",
            "job.lenet.batch",
            "is larger than the data set",
            "smaller",
        ),
    ];
    for row in &rows[..11] {
        check(FLETCHER, *row);
    }
    let large = FLETCHER.replace("2000 samples", "90000 samples");
    check(&large, rows[11]);
}

#[test]
fn unknown_and_missing_scenario_keys_are_reported() {
    let rows = [
        ("seed = 1", "^sed = 1", "run.sed", "unknown key `sed`", "did you mean `seed`?"),
        ("seed = 1", "^xyzzyxyzzy = 1", "run.xyzzyxyzzy", "unknown key", "known here: `steps`"),
        ("seed = 1", "^\"a\\u0007b\" = 1", "run.\"a\\u0007b\"", "unknown", "known"),
        (
            "name = \"fletcher-lenet\"",
            "name = \"x\"\n^profiles = \"p\"",
            "profiles",
            "unknown key",
            "did you mean `profile`?",
        ),
        (
            "[cluster.node]\n",
            "[cluster.node]\n^core = 2\n",
            "cluster.node.core",
            "unknown key",
            "`cores`",
        ),
        (
            ".file-server]",
            ".^fileserver]",
            "storage.hpctmp.fileserver",
            "unknown kind",
            "`file-server`",
        ),
        (
            "[storage.hpctmp.file-server]",
            "[storage.hpctmp]\n^bandwidth = \"1 GB/s\"\n[storage.hpctmp.file-server]",
            "storage.hpctmp.bandwidth",
            "unknown kind",
            "`file-server.bandwidth`",
        ),
        (
            "[job.loader.tf-queue]",
            "[job.loader.^torchdata]",
            "job.lenet.loader.torchdata",
            "unknown kind",
            "`stages`",
        ),
        (
            "median = \"0.92 ms\"",
            "^medium = \"0.92 ms\"",
            "storage.hpctmp.file-server.latency.lognormal.medium",
            "unknown key",
            "`median`",
        ),
        (
            "layout.file-per-sample = {}",
            "layout.file-per-sample = { ^size = 3 }",
            "dataset.mnist.layout.file-per-sample.size",
            "unknown key",
            "request",
        ),
        (
            "layout.file-per-sample = {}",
            "layout = ^{}",
            "dataset.mnist.layout",
            "no kind",
            "file-per-sample, shards",
        ),
        (
            "layout.file-per-sample = {}",
            "layout.file-per-sample = {}\nlayout.^shards = { samples = 10 }",
            "dataset.mnist.layout.shards",
            "two kinds are written: `file-per-sample` and `shards`",
            "keep one",
        ),
        (
            "layout.file-per-sample = {}",
            "layout.^shards = {}",
            "dataset.mnist.layout.shards",
            "`samples` is missing",
            "samples = 1000",
        ),
        (
            "layout.file-per-sample = {}",
            "layout = ^\"shards\"",
            "dataset.mnist.layout.shards",
            "",
            "",
        ),
    ];
    for row in &rows[..12] {
        check(FLETCHER, *row);
    }
    let missing = [
        ("cores = 20\n", "cluster.node", "`cores` is missing", "cores = 20"),
        ("samples = 60000\n", "dataset.mnist", "`samples` is missing", "samples = 60000"),
        ("threads = 8\n", "job.lenet.loader.tf-queue", "`threads` is missing", "threads = 8"),
        ("bandwidth = \"2 GB/s\"\n", "storage.hpctmp.file-server", "`bandwidth`", "2 GB/s"),
    ];
    for (line, key, what, remedy) in missing {
        let problems = ScenarioFile::parse("a.toml", FLETCHER.replace(line, ""))
            .and_then(|file| file.resolve(&[]))
            .expect_err(line);
        let problem = problems.iter().next().expect("not empty");
        assert_eq!((problem.key.as_str(), problem.line > 0), (key, true), "{problems}");
        assert!(problem.what.contains(what) && problem.remedy.contains(remedy), "{problems}");
    }
    let empty = wrong("");
    for key in ["name", "cluster", "storage", "dataset", "job"] {
        assert!(empty.contains(&format!("the key `{key}` is missing")), "{empty}");
    }
}

#[test]
fn references_to_undefined_data_sets_and_storages_are_reported() {
    let rows = [
        (
            "dataset = \"mnist\"",
            "dataset = ^\"minst\"",
            "job.lenet.dataset",
            "no dataset named",
            "did you mean `mnist`?",
        ),
        (
            "storage = \"hpctmp\"",
            "storage = ^\"scratch\"",
            "job.lenet.storage",
            "no storage named",
            "known here: `hpctmp`",
        ),
    ];
    for row in rows {
        check(FLETCHER, row);
    }
}

#[test]
fn toml_syntax_errors_are_reported_with_help_and_no_control_characters() {
    for (text, expected) in [
        ("a = 1\na = 2\n", "duplicate key\n --> a.toml:2:1\n"),
        ("a = 2 GB\n", "must be quoted, expected literal string\n --> a.toml:1:5\n"),
        ("[a\n", "unclosed table"),
        ("\0\u{1}", "this is not TOML"),
        ("a = \"\\q\"", "this is not TOML"),
    ] {
        let shown = wrong(text);
        assert!(shown.contains(expected), "{text:?}:\n{shown}");
        assert!(shown.contains("= help: "), "{text:?}:\n{shown}");
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{text:?}: {shown:?}");
    }
    let deep = format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let shown = wrong(&deep);
    assert!(shown.contains("nest at most 80 levels deep"), "{shown}");
    let dotted = format!("{}a = 1", "a.".repeat(100_000));
    assert!(wrong(&dotted).contains("nest at most 80 levels deep"));
    let tables = format!("a = {}1{}", "{a=".repeat(100_000), "}".repeat(100_000));
    assert!(wrong(&tables).contains("nest at most 80 levels deep"));
}

#[test]
fn messages_about_malicious_files_are_short_without_control_characters() {
    let long = format!("x = \"{}\"\n{}", "y".repeat(1 << 20), FLETCHER);
    let shown = wrong(&long);
    assert!(shown.len() < 2000, "{} bytes", shown.len());
    let hidden = FLETCHER.replace("seed = 1", "\"s\\u001b[31m\u{202e}eed\" = 1");
    let shown = wrong(&hidden);
    assert!(shown.contains("unknown key"), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    let many: String = (0..5000).map(|n| format!("k{n} = 1\n")).collect();
    let shown = wrong(&many);
    assert!(shown.contains("more problems"), "{shown}");
}

#[test]
fn error_columns_count_characters_and_shown_lines_omit_line_ends() {
    let intra = "intra = { bandwidth = \"20 GB/s\", latency = \"10 us\" }";
    let to = "intra = { latency = \"10 µs\", bandwidth = ^\"0 B/s\" }";
    check(FLETCHER, (intra, to, "cluster.node.intra.bandwidth", "is zero", "a bandwidth"));
    let windows = format!("\u{feff}{FLETCHER}").replace('\n', "\r\n");
    let file = ScenarioFile::parse("a.toml", windows.clone()).expect("TOML");
    assert_eq!(file.resolve(&[]), fletcher().resolve(&[]));
    assert_eq!(file.question(), fletcher().question());
    let shown = wrong(&windows.replace("cores = 20", "cores = 0"));
    assert!(shown.contains("a.toml:13:9\n"), "{shown}");
    assert!(!shown.contains(['\u{fffd}', '\r']), "{shown:?}");
    let far =
        wrong(&FLETCHER.replace("intra = {", &format!("intra = {{{} x = 1, ", " ".repeat(200))));
    assert!(far.contains("a.toml:17:211\n") && far.contains('…'), "{far}");
}
