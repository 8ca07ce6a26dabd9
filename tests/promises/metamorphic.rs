//! Checks what must not change an answer: how a scenario is written, and what has no part in it.

use forebay::report::{Report, Verdict, summarise};
use forebay::scenario::{Override, Reading, Scenario, ScenarioFile, Value as Written};
use forebay::{sim, verdict};
use toml::{Table, Value};

use crate::check::{Bounds, Checked, System};
use crate::levers;
use crate::tally::{Promise, Seen};

/// Events that a verdict may always take.
const EVENTS: u64 = 500_000;
/// Relative difference of step times that is allowed beyond their intervals, because runs do not end at the same point of a step.
const SLACK: f64 = 0.01;
/// Savings that differ by less are equal.
const EQUAL: f64 = 0.02;
/// Factor of all times where they are scaled.
const SLOWER: f64 = 10.0;

/// The answer to a scenario.
struct Answer {
    scenario: Scenario,
    report: Report,
    verdicts: Vec<Verdict>,
}

impl Answer {
    fn of(file: &ScenarioFile, overrides: &[Override], bounds: Bounds) -> Option<Answer> {
        let scenario = file.resolve(overrides).ok()?;
        let options = sim::Options { most_events: Some(bounds.largest), ..sim::Options::default() };
        let outcomes: Vec<_> =
            (0..scenario.run.replications).map(|i| sim::run(&scenario, i, &options)).collect();
        let report = summarise(&scenario, &outcomes, 0.0);
        let source = verdict::Source { file, overrides, reading: Reading::default() };
        let options = verdict::Options {
            others: true,
            least_events: Some(EVENTS),
            ..verdict::Options::default()
        };
        let verdicts = verdict::find_all(source, (&scenario, &outcomes, &report), &options);
        Some(Answer { scenario, report, verdicts })
    }

    fn parsed(text: &str, bounds: Bounds) -> Option<Answer> {
        Answer::of(&ScenarioFile::parse("changed.toml", text.to_owned()).ok()?, &[], bounds)
    }

    /// Returns what jobs did and what the verdicts say of them, without the words that repeat how the file writes amounts.
    fn bytes(&self) -> String {
        let mut all = serde_json::json!([self.report.jobs, self.verdicts]);
        remove(&mut all, &["changes", "text"]);
        serde_json::to_string_pretty(&all).expect("JSON")
    }

    /// Returns the step time of a job and the half-width of its interval [s].
    fn step(&self, job: &str) -> Option<(f64, f64)> {
        let shown = self.report.jobs.iter().find(|of| of.name == job)?;
        let figure = &shown.figures.step_time;
        let half = figure.ci95.map_or(0.0, |[low, high]| (high - low) / 2.0);
        figure.mean.map(|mean| (mean, half))
    }
}

fn remove(value: &mut serde_json::Value, keys: &[&str]) {
    match value {
        serde_json::Value::Object(all) => {
            all.retain(|key, _| !keys.contains(&key.as_str()));
            all.values_mut().for_each(|value| remove(value, keys));
        }
        serde_json::Value::Array(all) => all.iter_mut().for_each(|value| remove(value, keys)),
        _ => {}
    }
}

/// Returns what was seen of a scenario that is written otherwise, or has something in addition.
pub(crate) fn check(system: &System, bounds: Bounds) -> Checked {
    let Some(base) = Answer::of(&system.file, &[], bounds).filter(|of| !of.verdicts.is_empty())
    else {
        return Checked { left_out: "no verdict".to_owned(), ..Checked::default() };
    };
    let Ok(table) = system.file.text().parse::<Table>() else { return Checked::default() };
    let mut check = Check { system, bounds, base, done: Checked::default() };
    check.done.text.clone_from(&check.base.verdicts[0].text);
    // Printed changes spell amounts as the file does, so they are not compared.
    let expected = check.base.bytes();
    // Tables are written in the order of their keys.
    check.same("order of keys", &toml(&table), &expected);
    check.same("spelling of units", &toml(&respelled(&table)), &expected);
    check.same("unused storage", &toml(&with_storage(&table)), &expected);
    check.overrides(&table);
    // Which nodes a job gets depends on those before it, and nodes are equal without groups and faults.
    if !table.contains_key("fault") && table["cluster"].get("group").is_none() {
        check.alike("order of jobs", &toml(&reversed(&table)), 1.0);
        check.alike("idle job", &toml(&with_idle(&table)), 1.0);
    }
    check.alike("scale of time", &toml(&slower(&table)), SLOWER);
    check.more();
    check.done
}

struct Check<'a> {
    system: &'a System,
    bounds: Bounds,
    base: Answer,
    done: Checked,
}

impl Check<'_> {
    fn see(&mut self, promise: Promise, is_kept: bool, class: &str, detail: String) {
        self.done.seen.push(Seen {
            promise,
            is_kept,
            class: class.to_owned(),
            detail,
            system: self.system.name.clone(),
        });
    }

    /// Checks that a changed file has the same answer, to the byte.
    fn same(&mut self, what: &str, text: &str, expected: &str) {
        let found = Answer::parsed(text, self.bounds).map(|of| of.bytes());
        let found = found.unwrap_or_else(|| "refused".to_owned());
        let mut lines = expected.lines().zip(found.lines());
        let first = lines.find(|(before, after)| before != after);
        let detail = first.map_or(String::new(), |(a, b)| format!("{} | {}", a.trim(), b.trim()));
        self.see(Promise::SameBytes, expected == found, what, detail);
    }

    /// Checks that overrides and a file with the same values have the same answer.
    fn overrides(&mut self, table: &Table) {
        let mut edited = table.clone();
        let job = &self.base.scenario.jobs[0];
        let batch = i64::try_from(job.batch * 2).expect("a small batch");
        let key = self.system.file.editor(&[]).elements("job")[0].clone();
        let overrides = [
            Override::new("run.seed", Written::from(77_i64)),
            Override::new(format!("{key}.batch"), Written::from(batch)),
        ];
        let run = edited.entry("run").or_insert_with(|| Table::new().into());
        run.as_table_mut().expect("a table").insert("seed".to_owned(), 77.into());
        jobs(&mut edited)[0]
            .as_table_mut()
            .expect("a job")
            .insert("batch".to_owned(), batch.into());
        let Some(set) = Answer::of(&self.system.file, &overrides, self.bounds) else { return };
        self.same("overrides", &toml(&edited), &set.bytes());
    }

    /// Checks that a changed file has the same answer within intervals, with step times that are `times` as long.
    fn alike(&mut self, what: &str, text: &str, times: f64) {
        let Some(found) = Answer::parsed(text, self.bounds) else {
            return self.see(Promise::SameAnswer, false, what, "refused".to_owned());
        };
        for job in &self.base.report.jobs {
            let (Some((before, of_before)), Some((after, of_after))) =
                (self.base.step(&job.name), found.step(&job.name))
            else {
                continue;
            };
            let half = of_before + of_after / times + SLACK * before;
            let is_kept = (after / times - before).abs() <= half;
            let detail =
                format!("{}: {before:.4e} s, {:.4e} s ± {half:.1e}", job.name, after / times);
            self.done.seen.push(Seen {
                promise: Promise::SameAnswer,
                is_kept,
                class: what.to_owned(),
                detail,
                system: self.system.name.clone(),
            });
        }
        self.same_limit(what, &found);
    }

    /// Checks that the first limit of the same job is the same, or saves as much.
    fn same_limit(&mut self, what: &str, found: &Answer) {
        let of = &self.base.verdicts[0];
        let Some(then) = found.verdicts.iter().find(|then| then.job == of.job) else { return };
        let Some(first) = of.limits.first() else { return };
        let other = then.limits.iter().find(|limit| limit.name == first.name);
        let most = then.limits.first().map_or(0.0, |limit| limit.gain);
        let wide = |gain: [f64; 2]| (gain[1] - gain[0]) / 2.0;
        let is_kept = match other {
            Some(other) => other.gain >= most - EQUAL - wide(other.gain_interval),
            None => first.gain < EQUAL + wide(first.gain_interval),
        };
        let said = |verdict: &Verdict| {
            let first = verdict.limits.first();
            first.map_or("nothing".to_owned(), |of| format!("{} {:.1} %", of.name, 100.0 * of.gain))
        };
        let detail = format!("{} | {}", said(of), said(then));
        self.see(Promise::SameAnswer, is_kept, &format!("{what}, first limit"), detail);
    }

    /// Checks in a scenario of one job that more of a resource does not make the job slower.
    fn more(&mut self) {
        if self.base.scenario.jobs.len() > 1 {
            return;
        }
        let Some(name) = self.base.report.jobs.first().map(|of| of.name.clone()) else { return };
        let all = levers::all(&self.system.file, &[], &self.base.scenario, 0);
        let is_resource = |of: &&levers::Lever| {
            ["cluster.", "storage."].iter().any(|begin| of.class.starts_with(begin))
        };
        for lever in all.iter().filter(is_resource) {
            let Ok(scenario) = self.system.file.resolve(&lever.changes) else { continue };
            let options =
                sim::Options { most_events: Some(self.bounds.largest), ..sim::Options::default() };
            let outcomes: Vec<_> =
                (0..scenario.run.replications).map(|i| sim::run(&scenario, i, &options)).collect();
            let report = summarise(&scenario, &outcomes, 0.0);
            let then = Answer { scenario, report, verdicts: Vec::new() };
            let (Some((before, of_before)), Some((after, of_after))) =
                (self.base.step(&name), then.step(&name))
            else {
                continue;
            };
            let is_kept = after <= before * (1.0 + SLACK) + of_before.hypot(of_after);
            let detail = format!("{}: {before:.4e} s, then {after:.4e} s", lever.key);
            self.see(Promise::NeverSlower, is_kept, &lever.class, detail);
        }
    }
}

fn toml(table: &Table) -> String {
    toml::to_string(table).expect("TOML")
}

fn jobs(table: &mut Table) -> &mut Vec<Value> {
    table["job"].as_array_mut().expect("jobs")
}

fn reversed(table: &Table) -> Table {
    let mut table = table.clone();
    jobs(&mut table).reverse();
    table
}

fn with_storage(table: &Table) -> Table {
    let mut table = table.clone();
    let unused: Table = "[zz-unused.file-server]\nbandwidth = \"3 GB/s\"".parse().expect("TOML");
    table["storage"].as_table_mut().expect("storages").extend(unused);
    table
}

/// Returns the scenario with one more node, on which one more job makes long steps.
fn with_idle(table: &Table) -> Table {
    let mut table = table.clone();
    let cluster = table["cluster"].as_table_mut().expect("a cluster");
    let more = cluster["nodes"].as_integer().expect("a number") + 1;
    cluster.insert("nodes".to_owned(), more.into());
    let mut idle = jobs(&mut table)[0].as_table().expect("a job").clone();
    idle.retain(|key, _| ["dataset", "storage", "batch"].contains(&key));
    let rest: Table =
        "name = \"zz-idle\"\nnodes = 1\nsteps = 1\nmodel = { step = \"10 s\" }\nloader.in-memory = {}"
            .parse()
            .expect("TOML");
    idle.extend(rest);
    jobs(&mut table).push(idle.into());
    table
}

/// Returns a number in decimal digits times ten to the power of `places`.
fn shifted(digits: &str, places: i32) -> Option<String> {
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{part}");
    if !all.chars().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let point = i32::try_from(whole.len()).ok()? + places;
    let padded = match point {
        ..=0 => format!("0.{}{all}", "0".repeat(point.unsigned_abs() as usize)),
        _ if point as usize >= all.len() => {
            format!("{all}{}", "0".repeat(point as usize - all.len()))
        }
        _ => format!("{}.{}", &all[..point as usize], &all[point as usize..]),
    };
    Some(padded)
}

/// Units, and those a thousand times as large or as small.
const UNITS: [(&str, &str, i32); 8] = [
    ("B/s", "kB/s", -3),
    ("kB/s", "MB/s", -3),
    ("MB/s", "GB/s", -3),
    ("GB/s", "MB/s", 3),
    ("s", "ms", 3),
    ("ms", "us", 3),
    ("us", "ms", -3),
    ("B", "kB", -3),
];

/// Returns the file with each amount in another unit.
fn respelled(table: &Table) -> Table {
    let spell = |text: &str| {
        let (digits, unit) = text.split_once(' ')?;
        let (_, other, places) = UNITS.into_iter().find(|of| of.0 == unit)?;
        Some(format!("{} {other}", shifted(digits, places)?))
    };
    each(table, &spell)
}

/// Returns the file with all times ten times as long, and all rates a tenth.
fn slower(table: &Table) -> Table {
    let spell = |text: &str| {
        let (digits, unit) = text.split_once(' ')?;
        let number: f64 = digits.parse().ok()?;
        let factor = match unit {
            "s" | "ms" | "us" | "min" | "h" => SLOWER,
            _ if unit.ends_with("/s") => 1.0 / SLOWER,
            _ => return None,
        };
        Some(format!("{} {unit}", number * factor))
    };
    each(table, &spell)
}

/// Returns the file with each text that `spell` knows in its words.
fn each(table: &Table, spell: &dyn Fn(&str) -> Option<String>) -> Table {
    fn change(value: &mut Value, spell: &dyn Fn(&str) -> Option<String>) {
        match value {
            Value::Table(table) => table.iter_mut().for_each(|(_, value)| change(value, spell)),
            Value::Array(all) => all.iter_mut().for_each(|value| change(value, spell)),
            Value::String(text) => {
                if let Some(other) = spell(text) {
                    *text = other;
                }
            }
            _ => {}
        }
    }
    let mut table = table.clone();
    table.iter_mut().for_each(|(_, value)| change(value, spell));
    table
}
