//! Tests of scenarios written with changed keys.

use super::*;

fn emitted(changes: &[&str], without: &[&str]) -> String {
    let changes: Vec<Override> = changes.iter().map(|text| text.parse().expect("a key")).collect();
    let (text, before) = (fletcher().emit(&changes, without), fletcher().resolve(&changes));
    let again = ScenarioFile::parse("b.toml", text.clone()).expect(&text);
    let after = again.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    assert_eq!(before.expect("a scenario"), after, "{text}");
    assert_eq!(again.axes().expect("axes").is_empty(), without.contains(&"sweep"));
    text
}

#[test]
fn values_of_written_keys_are_replaced_and_all_else_stays() {
    let text = emitted(&["job.batch=32", "cluster.network.nic=25 Gbit/s"], &[]);
    let differs = FLETCHER.lines().zip(text.lines()).filter(|(before, after)| before != after);
    let after: Vec<&str> =
        differs.map(|(_, after)| after.split('#').next().unwrap_or("").trim()).collect();
    assert_eq!(after, ["nic = \"25 Gbit/s\"", "batch = 32"]);
}

#[test]
fn a_scenario_with_keys_that_its_file_lacks_is_written_anew_with_its_question() {
    let text = emitted(&["cluster.node.power.idle=300 W", "job.batch=32"], &["sweep"]);
    let question = fletcher().question().expect("a question").to_owned();
    assert!(text.starts_with(&format!("# {question}")), "{text}");
    assert!(text.contains("[[job]]\n") && !text.contains("[sweep]"), "{text}");
}

#[test]
fn every_kind_of_table_is_read_back_as_written() {
    for (changes, unset) in [
        (&["job.loader={ pytorch = { workers = 4 } }"][..], None),
        (
            &["storage.hpctmp={ parallel-fs = { targets = 4, target_bandwidth = \"1 GB/s\" } }"],
            None,
        ),
        (&["cluster.group.old={ nodes = 2, node = { gpus = 1, cores = 8 } }"], None),
        (
            &["fault=[{ storage = \"hpctmp\", from = \"1 s\", until = \"2 s\", factor = 0.1 }]"],
            None,
        ),
        (&["prices.gpu=$1.20 /h", "prices.\"other\".\"a b\"=$5"], None),
        (&["run.seed=7"], Some("cluster.network.nic")),
        (&[], Some("cluster.network.nic")),
    ] {
        let changes = changes.iter().map(|text| text.parse::<Override>().expect("a key"));
        let unset = unset.map(|key| Override::parse_unset(key).expect("a key"));
        let changes: Vec<Override> = changes.chain(unset).collect();
        let before = fletcher().resolve(&changes);
        let before = before.unwrap_or_else(|problems| panic!("{changes:?}: {problems}"));
        let text = fletcher().emit(&changes, &["sweep"]);
        let again = ScenarioFile::parse("b.toml", text.clone()).expect(&text).resolve(&[]);
        assert_eq!(Ok(before), again, "{text}");
    }
}
