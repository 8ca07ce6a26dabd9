//! Work that outlasts the simulation clock of 213 days: no command reports such a run as a result.

use super::runs::repository;
use super::support::Place;
use std::fs;

/// 40 samples at 1e6 s each by two threads: 2e7 s, more than the clock's 1.8e7 s.
const SCENARIO: &str = r#"# Does it end?
name = "endless"
profile = "machine.toml"
[run]
steps = 5
warm_up = "off"
seed = 1
[cluster]
nodes = 1
share_nodes = true
[storage.memory.memory]
[dataset.d]
samples = 1000
sample_size = "1 kB"
[[job]]
name = "slow"
dataset = "d"
storage = "memory"
batch = 8
loader.tf-queue = { threads = 2, capacity = "64 samples", decode = "1e6 s" }
model.step = "3 ms"
[sweep]
"run.steps" = [1, 5]
"#;

const SAID: &str = "job \"slow\" takes longer than 213 days";

fn place() -> Place {
    let place = Place::new();
    place.write("e.toml", SCENARIO);
    place.write(
        "f.toml",
        "title = \"t\"\nx = \"run.steps\"\ny = [\"makespan\"]\n[data]\nscenario = \"e.toml\"\n",
    );
    place.write(
        "t.toml",
        "title = \"t\"\nx = \"time\"\ny = [\"queue_occupancy\"]\n[data]\nscenario = \"e.toml\"\nseries = true\n",
    );
    place.write(
        "plan.toml",
        "scenario = \"e.toml\"\nrepetitions = 1\nretries = 0\nnoise_floor = 1.0\npredictions = 2\n\
         [[point]]\nname = \"p\"\nuse = \"held-out\"\n",
    );
    let profile = repository("calibrate/profiles/example.toml");
    place.write("machine.toml", &fs::read_to_string(profile).expect("a shipped profile"));
    place
}

#[test]
fn valid_plot_recipes_are_drawn_even_if_other_recipes_fail() {
    // System: a recipe whose simulation does not end, one whose simulation needs too much memory, and valid ones between them.
    // Expectation: the valid recipes are drawn, also after a failure, and all failures are reported at the end.
    let place = place();
    let good = "title = \"t\"\nx = \"job.batch_interval\"\ny = [\"step_time\"]\ngroup = \"job.loader.tf-queue.threads\"\n\
                [data]\nscenario = \"s.toml\"\n";
    place.write("good.toml", good);
    let huge = "set = [\"job.copies=1000000000\", \"cluster.share_nodes=true\"]\n";
    place.write("huge.toml", &format!("{good}{huge}"));
    place.write("last.toml", good);
    let arguments = ["plot", "f.toml", "good.toml", "huge.toml", "t.toml", "last.toml"];
    let out = place.forebay(&arguments).output().expect("a process");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && out.status.code() != Some(4), "{said}");
    assert!(place.path("good.svg").exists() && place.path("last.svg").exists(), "{said}");
    assert_eq!(said.matches(SAID).count(), 2, "{said}");
    let (wrote, failed) = (said.rfind("wrote last.svg"), said.find(SAID));
    assert!(wrote.is_some() && wrote < failed, "failures are said at the end: {said}");
    assert!(!place.path("f.svg").exists() && !place.path("huge.svg").exists());
}

#[test]
fn commands_fail_on_runs_that_exceed_the_range_of_the_simulation_clock() {
    let place = place();
    for arguments in [
        &["run", "e.toml"][..],
        &["run", "e.toml", "--uncertainty", "2"],
        &["sweep", "e.toml", "--output", "rows.csv"],
        &["plot", "f.toml"],
        &["plot", "t.toml"],
        &["validate", "plan.toml", "--predict-only", "--profile", "machine.toml"],
    ] {
        let out = place.forebay(arguments).assert().code(2);
        let said = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(said.contains(SAID), "{arguments:?}: {said}");
        assert!(out.get_output().stdout.is_empty(), "{arguments:?}");
    }
    assert!(!place.path("f.svg").exists() && !place.path("t.svg").exists());
}

#[test]
fn an_event_beyond_the_range_of_the_simulation_clock_is_an_error() {
    // System: one sample of 1e7 s on a hundredth of a core: 1e9 s. Expectation: no step, and an error.
    let place = place();
    let out = place.forebay(&[
        "run",
        "e.toml",
        "--set",
        "job.loader.tf-queue.decode=1e7 s",
        "--set",
        "job.cpu_quota=0.01",
        "--set",
        "job.cpu_period=0 s",
    ]);
    let out = { out }.assert().code(2);
    assert!(String::from_utf8_lossy(&out.get_output().stderr).contains(SAID));
}

#[test]
fn a_run_for_a_duration_may_end_with_work_unfinished() {
    let place = place();
    let text = SCENARIO.replace("steps = 5\n", "duration = \"1e6 s\"\n");
    let text = text.replace("\"3 ms\"", "\"3 s\"");
    place.write("e.toml", &text.replace("[sweep]\n\"run.steps\" = [1, 5]\n", ""));
    place.forebay(&["run", "e.toml"]).assert().success();
}
