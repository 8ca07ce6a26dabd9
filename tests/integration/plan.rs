//! `forebay plan`: its answers, its texts, its figures, and bad input.

use super::support::{Place, SCENARIO};

/// A plan of the small scenario of the tests of the program.
fn plan(place: &Place, arguments: &[&str]) -> assert_cmd::Command {
    place.forebay(&[&["plan", "s.toml", "--quiet"], arguments].concat())
}

/// Returns a text without its line ends, which depend on its width.
fn words(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns what a plan prints as JSON; its exit code is `code`.
fn json(place: &Place, arguments: &[&str], code: i32) -> serde_json::Value {
    let out = plan(place, &[arguments, &["--format", "json"]].concat()).assert().code(code);
    serde_json::from_slice(&out.get_output().stdout).expect("JSON")
}

const GOAL: [&str; 2] = ["--goal", "stall < 20 %"];
const THREADS: &str = "job.loader.tf-queue.threads=1..16";

#[test]
fn the_smallest_value_is_the_same_whatever_the_number_of_threads() {
    let place = Place::new();
    let of = |threads: &str| {
        json(&place, &[&GOAL[..], &["--min", THREADS, "--threads", threads]].concat(), 0)
    };
    let one = of("1");
    assert_eq!(one, of("2"));
    let answer = &one["rows"][0]["answer"];
    let found = answer["found"].as_u64().expect("an answer") as usize;
    let tried = answer["tried"].as_array().expect("settings");
    assert!(tried.len() <= 6 && tried[found]["meets"] == true, "{answer}");
    // The value before is not enough.
    assert_eq!(tried[found - 1]["meets"], false, "{answer}");
    let values = [0, 1]
        .map(|at| tried[found - at]["values"][0].as_str().and_then(|of| of.parse::<u32>().ok()));
    assert_eq!(values[0], values[1].map(|value| value + 1));
    let text = plan(&place, &[&GOAL[..], &["--min", THREADS]].concat()).assert().success();
    let text = words(&text.get_output().stdout);
    assert!(text.contains("The smallest value that meets `stall < 20 %` is"), "{text}");
    assert!(text.contains("with 95 % certainty"), "{text}");
}

#[test]
fn a_goal_that_nothing_meets_exits_with_1_and_says_what_binds_and_what_comes_nearest() {
    let place = Place::new();
    let arguments = ["--goal", "step time < 2.05 ms", "--min", THREADS];
    let out = plan(&place, &arguments).assert().code(1);
    let text = words(&out.get_output().stdout);
    assert!(text.contains("No value meets `step time < 2.05 ms`, with 95 % certainty (7 of 16 were tried). The nearest is"), "{text}");
    assert!(text.contains("`lenet` is limited by computing"), "{text}");
    let found = json(&place, &arguments, 1);
    let answer = &found["rows"][0]["answer"];
    assert!(answer["found"].is_null() && answer["nearest"].is_u64(), "{answer}");
}

#[test]
fn there_is_an_answer_for_each_value_of_another_key() {
    let place = Place::new();
    let rows = ["--min", THREADS, "--for", "job.batch=[4, 8, 16]"];
    let found = json(&place, &[&GOAL[..], &rows].concat(), 0);
    let threads = |row: &serde_json::Value| {
        let answer = &row["answer"];
        let found = answer["found"].as_u64().expect("an answer") as usize;
        answer["tried"][found]["values"][0]
            .as_str()
            .expect("a value")
            .parse::<u32>()
            .expect("a number")
    };
    let rows = found["rows"].as_array().expect("rows");
    assert_eq!(
        rows.iter().map(|row| row["at"][0][1].as_str()).collect::<Vec<_>>(),
        [Some("4"), Some("8"), Some("16")]
    );
    let threads: Vec<u32> = rows.iter().map(threads).collect();
    assert!(threads.windows(2).all(|pair| pair[0] <= pair[1]), "{threads:?}");
}

#[test]
fn the_largest_value_is_found_and_written_as_a_scenario() {
    let place = Place::new();
    let key = "job.batch_interval=[1, 2, 4, 8]";
    let goal = ["--goal", "stall < 90 %", "--max", key, "--emit", "choice.toml"];
    plan(&place, &goal).assert().success();
    let text = String::from_utf8(place.read("choice.toml")).expect("text");
    assert!(
        text.contains("batch_interval = 8") && text.starts_with("# Does the loader keep up?"),
        "{text}"
    );
    place.forebay(&["run", "choice.toml", "--verdict", "quick"]).assert().success();
}

#[test]
fn the_cheapest_option_is_chosen_and_one_that_fails_leaves_the_others() {
    let place = Place::new();
    let plan_table = r#"
[prices]
core = "$0.05 /h"
node = "$20000"
[plan]
goal = "stall < 60 %"
option."as it is" = {}
option."more threads" = { "job.loader.tf-queue.threads" = 16 }
option."many cores" = { "job.loader.tf-queue.threads" = 16, "cluster.node.cores" = 64 }
option.broken = { "cluster.node.cores" = -1 }
"#;
    let scenario = String::from_utf8(place.read("s.toml")).expect("text");
    place.write("s.toml", &scenario.replace("[sweep]", &format!("{plan_table}\n[sweep]")));
    let found = json(&place, &[], 0);
    let choice = &found["rows"][0]["choice"];
    let options = choice["options"].as_array().expect("options");
    let best = choice["best"].as_u64().expect("a choice") as usize;
    let costs = |at: usize| options[at]["cost_per_month"]["mean"].as_f64().expect("a cost");
    assert!(best < 2 && costs(2) > costs(best), "{choice}");
    assert_eq!(options[3]["place"], "failed");
    assert!(options[3]["failed"].as_str().is_some_and(|why| why.contains("cores")), "{choice}");
    let text = plan(&place, &[]).assert().success();
    let text = words(&text.get_output().stdout);
    for words in [
        "is the cheapest that meets `stall < 60 %`",
        "`many cores` costs",
        "`broken` could not be tried",
        "× $0.05/h",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The scenario of the choice has no options left that could be chosen instead of it.
    plan(&place, &["--emit", "choice.toml"]).assert().success();
    let text = String::from_utf8(place.read("choice.toml")).expect("text");
    assert!(!text.contains("[plan]") && text.contains("[prices]"), "{text}");
}

#[test]
fn options_without_prices_are_chosen_by_throughput() {
    let place = Place::new();
    let options = [
        "--option",
        "few=job.loader.tf-queue.threads=1",
        "--option",
        "many=job.loader.tf-queue.threads=16",
    ];
    let found = json(&place, &options, 0);
    assert_eq!(
        (&found["best"]["figure"], &found["rows"][0]["choice"]["best"]),
        (&"throughput".into(), &1.into())
    );
}

#[test]
fn two_keys_have_a_front_of_smallest_pairs() {
    let place = Place::new();
    let keys = [
        "--min",
        "job.loader.tf-queue.threads=1..8",
        "--min",
        "storage.disk.file-server.per_stream=1 MB/s..100 MB/s",
    ];
    let found = json(&place, &[&GOAL[..], &keys].concat(), 0);
    let answer = &found["rows"][0]["answer"];
    let front = answer["front"].as_array().expect("pairs");
    assert!(!front.is_empty() && answer["found"].is_u64(), "{answer}");
}

/// A scenario on four nodes that is short of workers.
const SMALL: &str = r#"
name = "small"
run = { steps = 60, warm_up = 15, seed = 1 }
cluster = { nodes = 4, node = { cores = 16, gpus = 1, page_cache = "none" } }
[storage.s.file-server]
bandwidth = "600 MB/s"
[dataset.d]
samples = 20000
sample_size = "100 kB"
[[job]]
name = "j"
dataset = "d"
storage = "s"
batch = 16
model = { step = "20 ms", jitter.lognormal.cv = 0.05 }
loader.pytorch = { workers = 4, decode = "3 ms" }
"#;

/// Returns the values of the answer.
fn found(of: &serde_json::Value) -> Vec<&str> {
    let answer = &of["rows"][0]["answer"];
    let at = answer["found"].as_u64().expect("an answer") as usize;
    let values = answer["tried"][at]["values"].as_array().expect("values");
    values.iter().map(|value| value.as_str().expect("text")).collect()
}

#[test]
fn pairs_that_the_scenario_refuses_are_passed_over_whichever_key_comes_first() {
    // System: workers and copies, of which more than four do not fit on the nodes. Expectation: the pair that the search of workers alone finds.
    let place = Place::new();
    place.write("s.toml", SMALL);
    let (workers, copies) = ("job.loader.pytorch.workers=1..12", "job.copies=1..8");
    let goal = ["--goal", "stall < 30 %"];
    let one = json(&place, &[&goal[..], &["--min", workers]].concat(), 0);
    let needed = found(&one)[0].to_owned();
    let both = |keys: [&str; 2]| {
        let arguments = ["--min", keys[0], "--min", keys[1]];
        json(&place, &[&goal[..], &arguments].concat(), 0)
    };
    let (first, second) = (both([workers, copies]), both([copies, workers]));
    assert_eq!((found(&first), found(&second)), (vec![&*needed, "1"], vec!["1", &*needed]));
    assert_eq!(first["rows"][0]["answer"]["refused"][0], 4 * 12);
}

#[test]
fn a_figure_that_the_run_is_too_short_to_show_is_not_certain() {
    // System: checkpoints every 40 s in a run of a few seconds. Expectation: their share is 0 in the run, and the answer says why that is not so.
    let place = Place::new();
    let checkpoint = "checkpoint = { interval = \"1 s\", bytes = \"1 GB\", storage = \"s\" }\n";
    place.write("s.toml", &(SMALL.to_owned() + checkpoint));
    let key = "job.checkpoint.interval=[\"1 s\", \"40 s\"]";
    let arguments = ["--goal", "checkpoint share < 5 %", "--min", key];
    let planned = json(&place, &arguments, 0);
    let answer = &planned["rows"][0]["answer"];
    let at = answer["found"].as_u64().expect("an answer") as usize;
    let warnings = answer["tried"][at]["warnings"].to_string();
    assert!(answer["certain"] == false && warnings.contains("checkpoint"), "{answer}");
    let text = plan(&place, &arguments).assert().success();
    let text = words(&text.get_output().stdout);
    assert!(text.contains("though not with 95 %") && text.contains("Warning: "), "{text}");
}

#[test]
fn equal_replications_are_not_taken_for_certainty_where_nodes_may_fail() {
    // System: a run of two seconds in which a node fails with a probability of a twentieth, and then needs 20 s. Expectation: more than the first
    // replications are made, and none of four seeds says with certainty that the run ends in 2.5 s, which it does not on average.
    let place = Place::new();
    let failures = "checkpoint = { interval = \"0.4 s\", bytes = \"1 MB\", storage = \"s\" }\nfailures = { mtbf = \"40 s\", restart = \"20 s\" }\n";
    let quiet = SMALL.replace(", jitter.lognormal.cv = 0.05", "");
    let quiet = quiet
        .replace("loader.pytorch = { workers = 4, decode = \"3 ms\" }", "loader.in-memory = {}");
    place.write(
        "s.toml",
        &quiet
            .replace("steps = 60", "steps = 100")
            .replace("[[job]]", &format!("[[job]]\n{failures}")),
    );
    for seed in ["1", "2", "3", "4"] {
        let seed = format!("run.seed={seed}");
        let arguments = ["--goal", "makespan < 2.5 s", "--max", "job.batch=[8]", "--set", &seed];
        let out = plan(&place, &[&arguments[..], &["--format", "json"]].concat()).output();
        let planned: serde_json::Value =
            serde_json::from_slice(&out.expect("a plan").stdout).expect("JSON");
        let answer = &planned["rows"][0]["answer"];
        let tried = &answer["tried"][0];
        assert!(tried["replications"].as_u64().is_some_and(|of| of >= 59), "{tried}");
        assert!(tried["meets"] == false || answer["certain"] == false, "{answer}");
    }
}

#[test]
fn of_options_that_cost_the_same_the_faster_one_is_the_best() {
    let place = Place::new();
    place.write("s.toml", SMALL);
    let options = [
        "--set",
        "prices.node=$1 /h",
        "--option",
        "slow=job.loader.pytorch.workers=1",
        "--option",
        "fast=job.loader.pytorch.workers=3",
    ];
    let planned = json(&place, &options, 0);
    assert_eq!(planned["rows"][0]["choice"]["best"], 1);
    let text = plan(&place, &options).assert().success();
    let text = words(&text.get_output().stdout);
    assert!(text.contains("`slow` costs the same and is"), "{text}");
}

#[test]
fn options_and_draws_are_the_same_whatever_the_number_of_threads() {
    let place = Place::new();
    place.write("s.toml", SMALL);
    let options = [
        "--set",
        "job.nodes=2",
        "--set",
        "job.sync.allreduce.gradients=100 MB",
        "--set",
        "cluster.network.nic=25 Gbit/s",
        "--option",
        "few=job.loader.pytorch.workers=2",
        "--option",
        "many=job.loader.pytorch.workers=6",
        "--option",
        "nic=cluster.network.nic=100 Gbit/s",
    ];
    let of = |threads: &str| {
        let out = plan(&place, &[&options[..], &["--threads", threads]].concat()).assert();
        String::from_utf8_lossy(&out.success().get_output().stdout).into_owned()
    };
    let one = of("1");
    assert!(one.contains("Over 19 draws of what publications reached, the best is"), "{one}");
    assert_eq!(one, of("2"));
    assert_eq!(one, of("5"));
}

#[test]
fn figures_show_the_values_tried_the_pairs_and_the_options() {
    let place = Place::new();
    let priced = ["--set", "prices.core=1 EUR/h"];
    let options =
        ["--option", "few", "--option", "more=cluster.node.cores=8,job.loader.tf-queue.threads=8"];
    let pairs = [
        "--min",
        "job.loader.tf-queue.threads=1..8",
        "--min",
        "storage.disk.file-server.per_stream=1 MB/s..100 MB/s",
    ];
    for (arguments, words) in [
        (&["--min", THREADS, "--for", "job.batch=[4, 8]"][..], &["batch 4", "batch 8", "20 %"][..]),
        (&pairs, &["per_stream"]),
        (&[&priced[..], &options[..]].concat(), &["few", "more", "Cost of a month"]),
        (
            &[&priced[..], &options[..], &["--best", "cost per epoch"]].concat(),
            &["cost per epoch [EUR]", "(chosen)"],
        ),
    ] {
        plan(&place, &[&GOAL[..], arguments, &["--figure", "f.svg"]].concat())
            .output()
            .expect("a plan");
        let figure = String::from_utf8(place.read("f.svg")).expect("text");
        words.iter().for_each(|word| assert!(figure.contains(word), "{word}: {arguments:?}"));
    }
    plan(&place, &[&GOAL[..], &["--min", THREADS, "--figure", "f.gif"]].concat()).assert().code(2);
}

#[test]
fn figures_of_many_options_keep_the_best_and_say_what_they_leave_out() {
    // System: nine options at one price, the fastest named last; the same options for two batches; options without prices.
    // Expectation: the fastest is drawn, a panel for each batch, and what is left out is said; without prices, bars of throughput.
    let place = Place::new();
    let options: Vec<String> = (1..=9)
        .map(|number| format!("--option=opt{number}=job.loader.tf-queue.threads={number}"))
        .collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let drawn = |more: &[&str]| {
        let all = [&["plan", "s.toml", "--figure", "f.svg", "--most", "20"], &options[..], more];
        let out = place.forebay(&all.concat()).output().expect("a plan");
        words(&out.stderr)
    };
    let priced = ["--set", "prices.node=$1 /h", "--best", "throughput"];
    let said = drawn(&priced);
    assert!(said.contains("the figure has 7 of 9 options"), "{said}");
    let figure = String::from_utf8(place.read("f.svg")).expect("text");
    assert!(figure.contains("opt9") && figure.contains("opt1"), "{figure}");
    let said = drawn(&[&priced[..], &["--for", "job.batch=[4, 8]"]].concat());
    assert!(said.contains("the figure has 7 of 9 options"), "{said}");
    let figure = String::from_utf8(place.read("f.svg")).expect("text");
    assert!(figure.contains("batch 4") && figure.contains("batch 8"), "{figure}");
    drawn(&["--best", "throughput"]);
    let figure = String::from_utf8(place.read("f.svg")).expect("text");
    assert!(figure.contains("Options by throughput") && figure.contains("opt9"), "{figure}");
}

#[test]
fn plans_that_cannot_be_made_are_refused_with_what_to_write() {
    let place = Place::new();
    let min = ["--min", THREADS];
    for (arguments, words) in [
        (&[][..], "write `--min KEY`"),
        (&min[..], "write `--goal \"stall < 2 %\"`"),
        (&["--goal", "stal < 2 %", "--min", THREADS], "there is no figure `stal`"),
        (&["--goal", "stall < 2", "--min", THREADS], "share of the time"),
        (&["--goal", "cost per month < $5", "--min", THREADS], "[prices]"),
        (&["--goal", "stall < 2 %", "--min", "job.loader.tf-queue.threds=1..4"], "threads"),
        (&["--goal", "stall < 2 %", "--min", "job.batch=8..4"], "8 is larger than 4"),
        (&["--goal", "stall < 2 %", "--min", "job.name"], "write its range"),
        (&["--goal", "time to accuracy < 1 h", "--min", THREADS], "is not known"),
        (&["--goal", "stall < 2 %", "--for", "job.batch=8", "--min", THREADS], "a list of values"),
        (
            &["--option", "a=job.batch=8", "--option", "a=job.batch=9"],
            "another option has this name",
        ),
        (
            &["--goal", "stall < 5 %", "--goal", "stall > 10 %", "--min", THREADS],
            "no value meets both `stall < 5 %` and `stall > 10 %`",
        ),
        (
            &["--goal", "stall < 90 %", "--min", THREADS, "--best", "throughput"],
            "`--best` has no effect",
        ),
        (&["--goal", "stall < 90 %", "--min", THREADS, "--max", THREADS], "is searched twice"),
        (
            &["--goal", "stall < 90 %", "--min", "job.batch=1..8", "--for", "job.batch=[4, 8]"],
            "`--for` gives it values as well",
        ),
        (
            &["--goal", "stall < 90 %", "--min", "job.batch=1..8", "--option", "a=job.batch=4"],
            "option `a` sets it",
        ),
        (
            &["--goal", "stall < 90 %", "--min", "job.batch=1..701", "--min", THREADS],
            "at most 10000 combinations",
        ),
        (&["--option", "job.batch=8"], "write a name first"),
        (&["--option", "a", "--best", "speeed"], "there is no figure"),
        (&["--option", "a", "--best", "queue_occupancy"], "neither more nor less"),
        (&["--goal", "stall < 1", "--min", THREADS], "share of the time"),
        (&["--goal", "stall < 2 %", "--min", "=1..4"], "write the key first"),
        (&["--goal", "stall < 2 %", "--min", THREADS, "--certainty", "95"], "`95 %` or `0.95`"),
        (
            &["--goal", "stall < 2 %", "--min", THREADS, "--certainty", "120 %"],
            "write a probability",
        ),
        (
            &[
                "--goal",
                "stall < 90 %",
                "--min",
                THREADS,
                "--for",
                "job.batch=[4, 8]",
                "--emit",
                "x.toml",
            ],
            "one scenario",
        ),
        (&["--goal", "stall < 90 %", "--min", THREADS, "--emit", "s.toml"], "s.toml"),
    ] {
        let out = plan(&place, arguments).assert().code(2);
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(
            message.contains(words) && !message.contains("panicked"),
            "{arguments:?}: {message}"
        );
        assert!(out.get_output().stdout.is_empty(), "{arguments:?}");
    }
    place.write(
        "p.toml",
        &format!(
            "{}\n[plan]\ngoal = \"stal < 2 %\"\nmin = \"{THREADS}\"\n",
            super::support::SCENARIO
        ),
    );
    for arguments in [
        &["plan", "p.toml"][..],
        &["run", "p.toml"],
        &["run", "p.toml", "--set", "job.batch=4"],
        &["sweep", "p.toml"],
        &["explain-defaults", "p.toml"],
    ] {
        let out = place.forebay(arguments).assert().code(2);
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        let is_shown = message.contains("p.toml:") && message.contains("goal = \"stal < 2 %\"");
        assert!(is_shown, "{arguments:?}: {message}");
    }
}

#[test]
fn a_plan_that_only_fits_the_file_as_it_is_does_not_hinder_runs_without_its_prices() {
    let place = Place::new();
    let plan = "[prices]\ncore = \"$0.05 /h\"\n[plan]\ngoal = \"cost per month < $500\"\n";
    place.write("p.toml", &format!("{}\n{plan}", super::support::SCENARIO));
    let quick = ["--verdict", "quick", "--replications", "1"];
    place
        .forebay(&[&["run", "p.toml", "--unset", "prices"][..], &quick].concat())
        .assert()
        .success();
}

#[test]
fn an_interrupted_plan_prints_what_was_tried() {
    // System: two options, one with half a million times as many steps, and Ctrl-C while that one is simulated. Expectation: the figures of the
    // finished option, marked as unfinished, and the exit code of an interruption.
    let place = Place::new();
    let options = ["--option", "short", "--option", "endless=run.steps=10000000"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["plan", "s.toml", "--threads", "1", "--most", "5"]).args(options);
    command.current_dir(place.directory()).stdout(std::process::Stdio::piped());
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("a process");
    std::thread::sleep(std::time::Duration::from_secs(2));
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a signal");
    let out = child.wait_with_output().expect("an end");
    let (text, said) = (words(&out.stdout), words(&out.stderr));
    assert_eq!(out.status.code(), Some(4), "{text} {said}");
    assert!(text.starts_with("Interrupted; so far: `short` is the best by throughput"), "{text}");
    assert!(text.contains("`endless` could not be tried: the plan was interrupted"), "{text}");
    assert!(said.contains("0 of 1 answers were found"), "{said}");
}

#[test]
fn workers_in_lockstep_are_warned_of_and_make_no_answer_certain() {
    // System: constant times of several workers, which march in step. Expectation: a warning, and no certainty; with times that vary, both are
    // gone.
    let place = Place::new();
    let constant = ["--set", "storage.disk.file-server.latency=1 ms"];
    let usual = [&GOAL[..], &["--min", THREADS, "--set", "run.steps=400"]].concat();
    let found = json(&place, &[&usual[..], &constant].concat(), 0);
    let answer = &found["rows"][0]["answer"];
    assert_eq!(answer["certain"], false, "{answer}");
    let out = plan(&place, &[&usual[..], &constant].concat()).assert().success();
    let text = words(&out.get_output().stdout);
    assert!(text.contains("Warning: Nothing in this scenario varies"), "{text}");
    let out = plan(&place, &usual).assert().success();
    assert!(!words(&out.get_output().stdout).contains("Nothing in this scenario varies"));
}

#[test]
fn three_keys_have_a_front_of_smallest_combinations() {
    // System: nodes that are paid for, threads, and the bandwidth of a stream. Expectation: the front is that of the fronts of the last two with each number of
    // nodes, without combinations that another one is at least as small as in all keys; the cheapest is the answer.
    let place = Place::new();
    let keys = [
        "--min",
        "job.copies, cluster.nodes=[1, 2]",
        "--min",
        "job.loader.tf-queue.threads=1..40",
        "--min",
        "storage.disk.file-server.per_stream=[0.2 MB/s, 0.5 MB/s, 1 MB/s, 5 MB/s, 100 MB/s]",
    ];
    let priced = ["--set", "prices.node=$1 /h"];
    let found = json(&place, &[&GOAL[..], &keys, &priced].concat(), 0);
    let answer = &found["rows"][0]["answer"];
    let tried = answer["tried"].as_array().expect("settings");
    let number = |of: &serde_json::Value| of.as_str()?.split(' ').next()?.parse::<f64>().ok();
    let values = |at: &serde_json::Value| {
        let tried = &tried[at.as_u64().expect("an index") as usize];
        assert_eq!(tried["meets"], true, "{tried}");
        let values = tried["values"].as_array().expect("values").iter().map(number);
        values.collect::<Option<Vec<f64>>>().expect("numbers")
    };
    let front: Vec<Vec<f64>> =
        answer["front"].as_array().expect("a front").iter().map(values).collect();
    let mut expected: Vec<Vec<f64>> = Vec::new();
    for nodes in [1.0, 2.0] {
        let fixed = [format!("job.copies={nodes}"), format!("cluster.nodes={nodes}")];
        let set = ["--set", &fixed[0], "--set", &fixed[1]];
        let of_two = json(&place, &[&GOAL[..], &keys[2..], &priced, &set].concat(), 0);
        let answer = &of_two["rows"][0]["answer"];
        let pair = |at: &serde_json::Value| {
            let values = &answer["tried"][at.as_u64().expect("an index") as usize]["values"];
            let values = values.as_array().expect("values").iter().map(number);
            std::iter::once(Some(nodes)).chain(values).collect::<Option<Vec<f64>>>()
        };
        let pairs = answer["front"].as_array().expect("a front").iter().map(pair);
        expected.extend(pairs.collect::<Option<Vec<_>>>().expect("numbers"));
    }
    let all = expected.clone();
    let covers =
        |other: &[f64], one: &[f64]| other != one && other.iter().zip(one).all(|(a, b)| a <= b);
    expected.retain(|one| !all.iter().any(|other| covers(other, one)));
    assert!(front[0].len() == 3 && expected.len() > 1, "{answer}");
    assert_eq!(front, expected);
    let chosen = values(&answer["found"]);
    // The cost depends on the number of nodes alone, so that one node is the cheapest. Both keys with a comma between them take the
    // value.
    assert_eq!(chosen[0], 1.0, "{front:?}");
    let text = plan(&place, &[&GOAL[..], &keys, &priced].concat()).assert().success();
    assert!(words(&text.get_output().stdout).contains("combination"));
}

#[test]
fn each_value_of_a_key_may_be_an_option() {
    let place = Place::new();
    let among = ["--among", "job.loader.tf-queue.threads=[1, 16]", "--best", "throughput"];
    let found = json(&place, &among, 0);
    let options = found["rows"][0]["choice"]["options"].as_array().expect("options");
    let names: Vec<&str> = options.iter().filter_map(|of| of["name"].as_str()).collect();
    assert_eq!((names, &found["rows"][0]["choice"]["best"]), (vec!["1", "16"], &1.into()));
}

#[test]
fn runs_without_a_length_are_as_long_as_a_plan_needs_unless_the_scenario_says_otherwise() {
    // System: a scenario without a length, and the same with a finer precision that the user wrote. Expectation: the same answer, with a
    // narrower interval for the second, and a written scenario without a precision.
    let place = Place::new();
    let text = SCENARIO.replace("steps = 20\n", "").replace("warm_up = \"off\"\n", "");
    place.write("s.toml", &text);
    let all = [&GOAL[..], &["--min", THREADS, "--emit", "e.toml"]].concat();
    let coarse = json(&place, &all, 0);
    let written = String::from_utf8(place.read("e.toml")).expect("text");
    assert!(!written.contains("precision"), "{written}");
    let fine = json(&place, &[&all[..], &["--set", "run.precision=0.005"]].concat(), 0);
    let found = |of: &serde_json::Value| {
        let answer = &of["rows"][0]["answer"];
        let at = answer["found"].as_u64().expect("an answer") as usize;
        let tried = &answer["tried"][at];
        let ends = tried["figures"][0]["ci95"].as_array().expect("an interval").clone();
        let width = ends[1].as_f64().expect("an end") - ends[0].as_f64().expect("an end");
        (tried["values"][0].clone(), width)
    };
    let ((coarse, wide), (fine, narrow)) = (found(&coarse), found(&fine));
    assert_eq!(coarse, fine);
    assert!(wide > narrow, "{wide} {narrow}");
}
