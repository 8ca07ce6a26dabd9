//! Tests of `[plan]`.

use super::*;

fn planned(plan: &str) -> Result<PlanTable, String> {
    let text = format!("{FLETCHER}\n[plan]\n{plan}\n");
    let file = ScenarioFile::parse("a.toml", text).map_err(|problems| problems.to_string())?;
    file.resolve(&[]).map_err(|problems| problems.to_string())?;
    file.plan(&[]).map_err(|problems| problems.to_string())
}

#[test]
fn goals_keys_rows_and_options_are_read_in_their_order() {
    let plan = r#"
goal = ["stall < 2 %", "epoch time < 1 h"]
min = "job.loader.tf-queue.threads = 1..32"
for."job.batch" = [32, 64]
option."as it is" = {}
option."faster NIC" = { "cluster.network.nic" = "100 Gbit/s", "job.batch" = 64 }
best = "cost per epoch"
"#;
    let plan = planned(plan).unwrap_or_else(|problems| panic!("{problems}"));
    let texts = |of: &[PlanText]| of.iter().map(|one| one.text.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&plan.goals), ["stall < 2 %", "epoch time < 1 h"]);
    assert_eq!(texts(&plan.min), ["job.loader.tf-queue.threads = 1..32"]);
    assert_eq!(texts(&plan.max), [""; 0]);
    assert_eq!(
        plan.rows.iter().map(Override::to_string).collect::<Vec<_>>(),
        ["--set job.batch=[32, 64]"]
    );
    let names: Vec<&str> = plan.options.iter().map(|option| &*option.name).collect();
    assert_eq!(names, ["as it is", "faster NIC"]);
    let changes: Vec<String> = plan.options[1].changes.iter().map(Override::pasted).collect();
    assert_eq!(changes, ["--set 'cluster.network.nic=100 Gbit/s'", "--set job.batch=64"]);
    assert_eq!(plan.best.map(|best| best.text).as_deref(), Some("cost per epoch"));
    assert_eq!(
        planned("goal = \"stall < 2 %\"").map(|plan| texts(&plan.goals)),
        Ok(vec!["stall < 2 %".to_owned()])
    );
    assert_eq!(fletcher().plan(&[]), Ok(PlanTable::default()));
}

#[test]
fn entries_of_plan_in_another_form_are_refused_with_line_and_remedy() {
    for (plan, words) in [
        ("goal = 5", "a text, or a list of texts"),
        ("goals = \"stall < 2 %\"", "unknown key `goals`"),
        ("option.nic = 5", "a table of dotted keys is expected"),
        ("option.nic = { cluster.network.nic = \"100 Gbit/s\" }", "write the whole key in quotes"),
        ("for = { job.batch = [1, 2] }", "write the whole key in quotes"),
    ] {
        let found = planned(plan).expect_err(plan);
        assert!(found.contains(words) && found.contains("a.toml:"), "{plan}: {found}");
    }
}

#[test]
fn a_text_of_plan_that_cannot_be_used_is_refused_where_it_stands() {
    let text = format!("{FLETCHER}\n[plan]\ngoal = [\"stall < 2 %\", \"stal < 1 %\"]\n");
    let file = ScenarioFile::parse("a.toml", text.clone()).expect("TOML");
    let plan = file.plan(&[]).expect("a plan");
    let refused = file.refuse(&[], &plan.goals[1], ("there is no figure `stal`", "write `stall`"));
    let line = text.lines().count();
    assert!(refused.to_string().contains(&format!("a.toml:{line}:24")), "{refused}");
}

#[test]
fn rows_that_cannot_be_read_are_named_as_the_user_wrote_them() {
    let rows = [Override::row("job.batch=64").expect("a key")];
    let refused = fletcher().axes_of(&rows).expect_err("no list").to_string();
    assert!(refused.contains("error: job.batch: a list of values is expected"), "{refused}");
}

#[test]
fn a_name_with_a_dot_that_a_key_does_not_quote_is_offered_in_quotes() {
    let text = FLETCHER.replace("name = \"lenet\"", "name = \"le.net\"");
    let file = ScenarioFile::parse("a.toml", text).expect("TOML");
    let change: Override = "job.le.net.batch=8".parse().expect("a key");
    let refused = file.resolve(&[change]).expect_err("no such job").to_string();
    assert!(refused.contains("write the name in quotes: `\"le.net\"`"), "{refused}");
}
