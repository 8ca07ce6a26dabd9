//! Tests of `[[job.loader.stages]]`.

use super::*;

const STAGES: &str = r#"
[[job.loader.stages]]
name = "read"
workers = 8
per_sample = ["read", { delay = "1 ms" }]
buffer = "128 samples"
[[job.loader.stages]]
name = "decode"
workers = 4
unit = "batch"
per_sample = [{ compute = { gamma = { mean = "2 ms", cv = 0.5 } } }]
per_item = ["copy"]
order = "in-order"
buffer = "4 batches"
"#;

fn text(stages: &str) -> String {
    let start = FLETCHER.find("[job.loader.tf-queue]").expect("there");
    let end = FLETCHER.find("[job.model]").expect("there");
    let sweep = FLETCHER.find("[sweep]").expect("there");
    format!("{}{stages}{}", &FLETCHER[..start], &FLETCHER[end..sweep])
}

#[test]
fn loader_stages_are_read_with_their_settings_and_overrides() {
    let file = ScenarioFile::parse("a.toml", text(STAGES)).expect("TOML");
    let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
    let gamma = Distribution::Gamma { shape: 4.0, scale: 0.5e-3 };
    assert_eq!(
        scenario.jobs[0].loader.stages,
        [
            Stage {
                name: "read".to_owned(),
                workers: 8,
                unit: Unit::Sample,
                per_sample: vec![Operation::Read, Operation::Delay(Distribution::Constant(1e-3)),],
                per_item: vec![],
                order: Order::Any,
                buffer: 128,
                ..Stage::default()
            },
            Stage {
                name: "decode".to_owned(),
                workers: 4,
                unit: Unit::Batch,
                per_sample: vec![Operation::Compute(gamma)],
                per_item: vec![Operation::Copy],
                order: Order::InOrder,
                buffer: 4,
                ..Stage::default()
            },
        ]
    );
    let changed = ["job.loader.stages.decode.workers=2", "job.loader.stages.0.buffer=2 batches"];
    let changed: Vec<Override> = changed.iter().map(|c| c.parse().expect("right")).collect();
    let stages = file.resolve(&changed).expect("right").jobs.remove(0).loader.stages;
    assert_eq!((stages[1].workers, stages[0].buffer), (2, 128));
}

#[test]
fn inconsistent_stage_graphs_are_refused() {
    for (from, to, line, what, remedy) in [
        ("\"read\", {", "{", 43, "the first stage does not read", "per_sample = [\"read\"]"),
        ("\"read\", {", "\"read\", \"read\", {", 46, "a sample is read once", "remove"),
        ("[\"copy\"]", "[\"read\"]", 53, "samples can be read only one by one", "first stage"),
        ("{ delay = ", "{ dealy = ", 46, "unknown kind `dealy`", "did you mean `delay`"),
        ("\"copy\"", "\"cpoy\"", 53, "unknown value \"cpoy\"", "did you mean `copy`"),
        ("[\"copy\"]", "\"copy\"", 53, "found the text \"copy\"", "an array"),
        ("\"copy\"", "{ copy = 1 }", 53, "`copy` takes no settings", "in quotes"),
        (
            "unit = \"batch\"",
            "unit = \"batches\"",
            51,
            "unknown value \"batches\"",
            "did you mean `batch`",
        ),
        ("\"4 batches\"", "\"100 samples\"", 55, "no whole number of batches of 64", "4 batches"),
        ("\"4 batches\"", "\"4 bytes\"", 55, "found the text \"4 bytes\"", "64 samples"),
        ("\"128 samples\"", "63", 47, "less than the 64 that the next stage takes", "64 samples"),
        ("\"4 batches\"", "0", 55, "0 is out of range", "from 1 to"),
        ("\"decode\"", "\"read\"", 48, "two stages are named \"read\"", "rename"),
        ("\"128 samples\"", "\"128 samples\"\nunit = \"batch\"", 47, "", ""),
    ] {
        let text = text(&STAGES.replacen(from, to, 1));
        let problems = ScenarioFile::parse("a.toml", text).and_then(|file| file.resolve(&[]));
        if what.is_empty() {
            // 128 samples are two batches.
            assert!(problems.is_ok());
            continue;
        }
        let problems = problems.expect_err(to);
        let all: Vec<_> = problems.iter().collect();
        let [problem] = all[..] else { panic!("{to}: {problems}") };
        assert_eq!(problem.line, line, "{to}\n{problems}");
        assert!(problem.what.contains(what), "{to}\n{problems}");
        assert!(problem.remedy.contains(remedy), "{to}\n{problems}");
    }
    let backwards = STAGES
        .replacen("buffer", "unit = \"batch\"\nbuffer", 1)
        .replace("workers = 4\nunit = \"batch\"", "workers = 4");
    assert!(wrong(&text(&backwards)).contains("follows one with `unit = \"batch\"`"));
    let circular = text(STAGES).replace("batch_interval", "queue = \"circular\"\nbatch_interval");
    assert!(wrong(&circular).contains("a circular queue holds samples, not batches"));
    let prefill =
        text(STAGES).replace("batch_interval", "prefill = \"65 samples\"\nbatch_interval");
    assert!(wrong(&prefill).contains("whole batches of 64"));
    let none = text("[job.loader]\nstages = []\n");
    assert!(wrong(&none).contains("at least one stage"));
}
