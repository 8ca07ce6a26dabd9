//! What publications reached of nominal numbers, and the sentence that follows an answer which rests on one.

use std::collections::BTreeSet;
use std::fs;

use forebay::ranges::{self, DRAWS, Nominal, Question};
use forebay::report::{self, RestsOn};
use forebay::scenario::Scenario;
use forebay::sim;

use super::cases::kept;
use super::runs::{Case, near, repository, shipped, simulate, within};
use super::support::{Place, forebay};

const CASES: [&str; 3] = ["transformers-3274", "pytorch-36298", "oumi-213"];
const GRADIENTS: [&str; 3] = ["gradients-sockets", "gradients-rdma", "gradients-nvlink"];

/// Returns what the answer on the first job rests on.
fn rests_on(scenario: &Scenario) -> Option<RestsOn> {
    let (outcome, options) = (simulate(scenario), sim::Options::default());
    ranges::rests_on(Question { scenario, outcome: &outcome, job: 0, options: &options })
}

/// Returns the keys and ranges of the nominal numbers.
fn numbers(scenario: &Scenario) -> Vec<(&'static str, &'static str)> {
    ranges::nominal(scenario).iter().map(|of| (of.key, of.range.name.as_str())).collect()
}

#[test]
fn each_range_has_three_sources_that_can_be_looked_up() {
    let names: BTreeSet<&str> = ranges::all().iter().map(|range| range.name.as_str()).collect();
    assert_eq!(names, [&GRADIENTS[..], &["bulk-reads"]].concat().into_iter().collect());
    for range in ranges::all() {
        let sources: BTreeSet<_> = range.sources.iter().map(|of| (&of.title, &of.url)).collect();
        assert!(sources.len() >= 3 && sources.len() == range.sources.len(), "{}", range.name);
        for of in &range.sources {
            assert!(of.url.starts_with("https://") && of.text.len() > 20, "{of:?}");
            assert!(of.share > 0.0 && of.share <= 1.0, "{of:?}");
            // The threads that the cases come from judge the ranges, and make none.
            assert!(!["3274", "36298", "oumi"].iter().any(|case| of.url.contains(case)), "{of:?}");
        }
    }
}

#[test]
fn quantiles_are_those_of_the_log_normal_over_sources() {
    for range in ranges::all() {
        let logs: Vec<f64> = range.sources.iter().map(|of| of.share.ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let sd = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let (median, found) = range.median_and_sd();
        near(median, mean.exp(), &range.name);
        near(found, sd, &range.name);
        // 1.644854: the 95 % quantile of the standard normal distribution.
        let [low, high] = range.interval90();
        near(low, (mean - 1.644_854 * sd).exp(), &range.name);
        near(high, (mean + 1.644_854 * sd).exp().min(1.0), &range.name);
    }
}

#[test]
fn the_guide_shows_the_ranges_with_their_sources() {
    for (page, names) in [("gradients", &GRADIENTS[..]), ("storage", &["bulk-reads"])] {
        let text = fs::read_to_string(repository(&format!("docs/src/{page}.md"))).expect("a page");
        let table = ranges::table(names);
        assert!(text.contains(&table), "write into docs/src/{page}.md:\n{table}");
    }
}

#[test]
fn reported_threads_fall_where_their_answers_say() {
    // Reported: about 4 s, 1.76 s, and 55.3 samples/s in place of the 65.8 of a step of 2.92 s. Two of three were slower than 95 % of
    // what publications reached, and no range is stretched for them.
    let reported = [4.0, 1.76, 2.92 * 65.8 / 55.3];
    let expected = [[0.514, 0.928], [0.640, 1.54], [3.46, 5.92]];
    let inside = [false, false, true];
    for (index, case) in CASES.into_iter().enumerate() {
        let found = rests_on(&kept(case, &[]).scenario).expect("a sentence");
        assert_eq!((found.key.as_str(), found.draws), ("cluster.network.nic", DRAWS), "{case}");
        let [low, high] = found.step_time90;
        for (step, expected) in [low, high].into_iter().zip(expected[index]) {
            within(step, expected, 0.01, case);
        }
        let is_inside = (low..=high).contains(&reported[index]);
        assert_eq!(is_inside, inside[index], "{case}: {} in {low} to {high}", reported[index]);
        assert!(found.text.contains("the transport of gradients is not set"), "{}", found.text);
    }
}

#[test]
fn a_draw_is_what_the_key_of_its_share_gives() {
    // System: gradients over sockets at 40 % of the line. Expectation: as with `efficiency` of a transport; over a NIC that reads at
    // 80 % of its line too, gradients keep their own share of the line.
    let case = kept("pytorch-36298", &[]);
    let numbers = ranges::nominal(&case.scenario);
    let number = |range: &str| numbers.iter().find(|of| of.range.name == range).expect("a number");
    let drawn = ranges::with(&case.scenario, &[(number("gradients-sockets"), 0.4)]);
    let written = case.with(&[("job.roberta.sync.allreduce.transport.nccl.efficiency", "0.4")]);
    assert_eq!(simulate(&drawn).makespan, simulate(&written.scenario).makespan);
    let drawn = ranges::with(&case.scenario, &[(number("gradients-nvlink"), 0.5)]);
    let written = case.with(&[("cluster.node.intra.bandwidth", "12.5 GB/s")]);
    assert_eq!(simulate(&drawn).makespan, simulate(&written.scenario).makespan);
    let both = shipped("gradients", &[]);
    let numbers: Vec<Nominal> = ranges::nominal(&both);
    let of = |range: &str| numbers.iter().find(|of| of.range.name == range).expect("a number");
    let shares = [(of("gradients-sockets"), 0.4), (of("bulk-reads"), 0.8)];
    let drawn = ranges::with(&both, &shares);
    near(drawn.cluster.nic, 0.8 * both.cluster.nic, "NIC");
    let efficiency = drawn.jobs[0].sync.as_ref().expect("gradients").transport.efficiency;
    near(efficiency, 0.5, "share of what the NIC reaches");
}

#[test]
fn numbers_that_were_measured_have_no_range() {
    let scenario = |changes: &[(&str, &str)]| kept("pytorch-36298", changes).scenario;
    let transport = |kind: &str, costs: &str| {
        let key = format!("job.roberta.sync.allreduce.transport.{kind}");
        numbers(&scenario(&[(&key, costs)]))
    };
    let (nic, inside) = ("cluster.network.nic", "cluster.node.intra.bandwidth");
    let intra = (inside, "gradients-nvlink");
    assert_eq!(numbers(&scenario(&[])), [(nic, "gradients-sockets"), intra]);
    for (kind, range) in [
        ("tcp", "gradients-sockets"),
        ("gloo", "gradients-sockets"),
        ("mpi", "gradients-sockets"),
        ("nccl", "gradients-rdma"),
        ("mpi-cuda-aware", "gradients-rdma"),
    ] {
        assert_eq!(transport(kind, "{}"), [(nic, range), intra], "{kind}");
        assert_eq!(transport(kind, "{ efficiency = 0.5 }"), [intra], "{kind}");
        assert_eq!(transport(kind, "{ per_stream = \"1 GB/s\" }"), [intra], "{kind}");
    }
    let achieved = |keys: &str| numbers(&scenario(&[("achieved", keys)]));
    assert_eq!(achieved("[\"cluster.network.nic\"]"), [intra]);
    assert_eq!(achieved("[\"cluster.network.nic\", \"cluster.node.intra.bandwidth\"]"), []);
    // PCIe is no NVLink, and one node sends nothing over its NIC.
    assert_eq!(numbers(&scenario(&[(inside, "12 GB/s")])), [(nic, "gradients-sockets")]);
    assert_eq!(numbers(&scenario(&[("job.roberta.nodes", "1")])), [intra]);
    let storage = Case::shipped("gradients", &[]);
    let apart = storage.with(&[("cluster.network.storage_nic", "10 Gbit/s")]).scenario;
    assert!(numbers(&apart).contains(&("cluster.network.storage_nic", "bulk-reads")));
    let named = storage.with(&[("achieved", "[\"cluster.network.storage_nic\"]")]).scenario;
    assert!(named.remarks.iter().any(|of| of.contains("which is not set")), "{:?}", named.remarks);
}

#[test]
fn an_answer_without_nominal_numbers_has_no_second_sentence() {
    let fletcher = shipped("fletcher-in-memory", &[]);
    assert_eq!(numbers(&fletcher), []);
    assert_eq!(rests_on(&fletcher), None);
    // Gradients of a megabyte do not matter, whatever the line.
    let small = kept("pytorch-36298", &[("job.roberta.sync.allreduce.gradients", "1 MB")]).scenario;
    assert_eq!((numbers(&small).len(), rests_on(&small)), (2, None));
}

#[test]
fn draws_do_not_depend_on_the_number_of_threads() {
    let scenario = kept("oumi-213", &[]).scenario;
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| rests_on(&scenario))
    };
    assert_eq!(on(1), on(4));
}

#[test]
fn the_number_that_matters_most_is_named() {
    // System: many bytes over a slow NIC, then as many over a fast NIC and slow links inside. Expectation: the slow part is named.
    for (nic, inside, key) in [
        ("10 Gbit/s", "300 GB/s", "cluster.network.nic"),
        ("1000 Gbit/s", "20 GB/s", "cluster.node.intra.bandwidth"),
    ] {
        let changes = [
            ("cluster.network.nic", nic),
            ("cluster.node.intra.bandwidth", inside),
            ("job.roberta.model.step", "10 ms"),
        ];
        let scenario = kept("pytorch-36298", &changes).scenario;
        let outcome = simulate(&scenario);
        let options = sim::Options::default();
        let question =
            Question { scenario: &scenario, outcome: &outcome, job: 0, options: &options };
        assert_eq!(ranges::rests_on(question).map(|of| of.key).as_deref(), Some(key));
        let effects = ranges::effects(question);
        assert_eq!(effects[0].number.key, key);
        assert!(effects[0].spread() >= effects[1].spread());
    }
}

#[test]
fn the_sentence_follows_the_first_and_can_be_left_out() {
    let path = repository("tests/data/cases/pytorch-36298.toml");
    let path = path.to_str().expect("a path in UTF-8");
    let run = |options: &[&str]| {
        let out = forebay(&[&["run", path][..], options].concat()).assert().success();
        String::from_utf8_lossy(&out.get_output().stdout).into_owned()
    };
    let text = run(&[]);
    let first = text.lines().take_while(|line| !line.starts_with("This rests on 25 Gbit/s of NIC"));
    assert!(first.count() <= 2, "{text}");
    let nominal = run(&["--assume", "nominal"]);
    assert!(!nominal.contains("This rests on"), "{nominal}");
    assert!(!run(&["--verdict", "quick"]).contains("This rests on"));
    assert!(run(&["--verdict", "quick", "--assume", "ranges"]).contains("This rests on"));
    let json = |options: &[&str]| -> serde_json::Value {
        serde_json::from_str(&run(&[&["--format", "json"][..], options].concat())).expect("JSON")
    };
    let found = &json(&[])["rests_on"];
    assert_eq!(
        (found["draws"].as_u64(), found["sources"].as_u64()),
        (Some(19), Some(7)),
        "{found}"
    );
    assert!(json(&["--assume", "nominal"]).get("rests_on").is_none());
    // The figures of the run are those of the nominal numbers.
    let step = |json: serde_json::Value| json["jobs"][0]["step_time"]["mean"].as_f64();
    assert_eq!(step(json(&[])), step(json(&["--assume", "nominal"])));
}

#[test]
fn explain_defaults_ranks_numbers_by_how_much_the_step_depends_on_them() {
    let path = repository("tests/data/cases/pytorch-36298.toml");
    let path = path.to_str().expect("a path in UTF-8");
    let out = forebay(&["explain-defaults", path]).assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(at("cluster.network.nic = 25 Gbit/s") < at("cluster.node.intra.bandwidth = 25 GB/s"));
    assert!(text.lines().count() < 20 && text.contains("measure it: "), "{text}");
    let out = forebay(&["explain-defaults", path, "--format", "json"]).assert().success();
    let json: serde_json::Value = serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    assert_eq!(json["ranked"][0]["key"], "cluster.network.nic");
    assert_eq!(json["ranked"].as_array().map(Vec::len), Some(2));
    let out = Place::new().forebay(&["explain-defaults", "s.toml"]).assert().success();
    let text = String::from_utf8_lossy(&out.get_output().stdout).into_owned();
    assert!(text.starts_with("No number of this scenario has a range"), "{text}");
}

#[test]
fn the_nominal_step_of_a_sentence_is_that_of_the_report() {
    let scenario = kept("pytorch-36298", &[("run.replications", "1")]).scenario;
    let report = report::summarise(&scenario, &[simulate(&scenario)], 0.0);
    let found = rests_on(&scenario).expect("a sentence");
    assert_eq!(Some(found.step_time), report.jobs[0].figures.step_time.mean);
}
