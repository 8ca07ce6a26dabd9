//! The table of metrics is the only one: columns, JSON and schema come from it, and each of its rows is used.

use super::runs::{repository, shipped, simulate};
use super::support::forebay;
use forebay::metric::{self, Metric, OVER_TIME, Unit, Value};
use forebay::report::{Report, json, summarise};
use forebay::scenario::ScenarioFile;
use forebay::sim::{self, Options};
use forebay::sweep::{Grid, header, occupancy_header};
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Returns the columns of a sweep, without the swept keys.
fn swept() -> Vec<String> {
    let path = repository("scenarios/energy.toml");
    let file = ScenarioFile::open(&path).expect("a file");
    let grid = Grid::new(file.axes().expect("axes")).expect("a grid");
    let columns = header(&grid).into_iter().chain(occupancy_header(&grid));
    columns.filter(|column| !column.contains('.') || column.starts_with("stall_")).collect()
}

#[test]
fn every_output_column_has_a_metric_and_every_metric_is_in_some_output() {
    // System: headers of all kinds of rows. Expectation: each column, without the suffix of interval ends, has
    // a metric with a unit and a meaning, and each metric has a column or a place in JSON.
    let over_time = ["time"].into_iter().chain(OVER_TIME.iter().map(|(name, _)| *name));
    let columns: BTreeSet<String> =
        swept().into_iter().chain(over_time.map(str::to_owned)).collect();
    for column in &columns {
        let name = column.strip_suffix("_lo").or(column.strip_suffix("_hi")).unwrap_or(column);
        let found = metric::of_column(name).unwrap_or_else(|| panic!("no row for `{column}`"));
        assert!(
            found.meaning.len() > 10 && found.meaning.ends_with('.'),
            "{name}: {}",
            found.meaning
        );
        assert!(!found.label.is_empty() && !found.unit.symbol().is_empty(), "{name}");
    }
    for row in metric::all() {
        assert!(!row.column.is_empty() || !row.json.is_empty(), "{row:?} is nowhere");
        assert!(row.column.is_empty() || columns.contains(row.column.as_ref()), "{}", row.column);
        assert!(row.meaning.ends_with('.') && !row.label.is_empty(), "{row:?}");
    }
    let names: Vec<&str> =
        metric::all().iter().map(|of| of.column.as_ref()).filter(|name| !name.is_empty()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a column is there twice");
}

#[test]
fn columns_of_sweep_output_have_fixed_names_and_a_fixed_order() {
    // Expectation: programs that read columns by position or by name continue to work.
    let all = swept();
    assert_eq!(all.len(), 1 + 3 * 79 + 2 + 3);
    assert_eq!(all[..4], ["job", "step_time", "step_time_lo", "step_time_hi"]);
    let means: Vec<&str> = all[1..238].iter().step_by(3).map(String::as_str).collect();
    assert_eq!(means[8..11], ["stall", "stall_open", "stall_latency"]);
    assert_eq!(means[41..43], ["stall_peer.compute", "queue_occupancy"]);
    assert_eq!(
        (means[78], &all[238..240]),
        ("makespan", &["largest_stall", "too_short"].map(str::to_owned)[..])
    );
}

/// Returns the node of a report at the dotted place of a metric, for this job or for the first resource.
fn at<'j>(report: &'j Json, place: &str, job: usize) -> Option<&'j Json> {
    let (start, cause) = match place.split_once(".stall.") {
        Some((before, cause)) => (format!("{before}.stall"), Some(cause)),
        None => (place.to_owned(), None),
    };
    let mut node = report;
    for key in start.split('.').chain(cause) {
        node = node.as_array().and_then(|list| list.get(job)).unwrap_or(node);
        node = node.as_array().and_then(|list| list.first()).unwrap_or(node);
        node = node.get(key)?;
    }
    Some(node)
}

/// Returns a metric's value for a job of a report, as in JSON: mean and interval, or a single number.
fn said(metric: &Metric, report: &Report, job: usize) -> Option<(Option<f64>, Option<[f64; 2]>)> {
    let figure = match metric.value {
        Value::Resource(find) => {
            report.resources.get(job).or(report.resources.first()).map(find)?
        }
        Value::Job(_) | Value::Stall(_) => metric.figure(report, &report.jobs[job])?,
        Value::Text(_) | Value::Row => return None,
    };
    Some((figure.mean, figure.ci95))
}

/// Returns every metric of the JSON report with every job.
fn pairs(report: &Report) -> impl Iterator<Item = (&'static Metric, usize)> {
    let metrics = metric::all().iter().filter(|of| !of.json.is_empty());
    metrics.flat_map(|metric| (0..report.jobs.len()).map(move |job| (metric, job)))
}

#[test]
fn every_metric_of_a_report_has_the_same_value_in_its_json_output() {
    // System: short runs of scenarios that together cover everything in reports. Expectation: each metric
    // equals the value at its place in JSON, and each is a number in at least one of them.
    let short = |name: &str, more: &[(&str, &str)]| {
        let usual = [("run.replications", "1"), ("run.steps", "20"), ("run.warm_up", "0")];
        shipped(name, &[&usual[..], more].concat())
    };
    let circular = [("job.queue", "circular"), ("job.copies", "1"), ("run.steps", "400")];
    let often = [
        ("job.failures.mtbf", "20 min"),
        ("job.checkpoint.interval", "1 min"),
        ("job.failures.read_back", "true"),
    ];
    let twice = [("job.copies", "2"), ("run.steps", "175"), ("run.replications", "2")];
    let scenarios = [
        short("fletcher-lenet", &circular),
        short("queue-runs-dry", &twice),
        short("energy", &[("prices.gpu", "1 EUR/h"), ("prices.kwh", "0.2 EUR")]),
        short("checkpoints", &often),
        short("data-locality", &[("run.steps", "2")]),
        short("gpu-occupancy", &[]),
        short("parameter-server", &[("prices.node", "100k EUR")]),
        short("adapters", &[("run.steps", "4")]),
    ];
    let mut seen = BTreeSet::new();
    for scenario in &scenarios {
        let runs = 0..scenario.run.replications;
        let outcomes: Vec<_> =
            runs.map(|run| sim::run(scenario, run, &Options::default())).collect();
        let report = summarise(scenario, &outcomes, 0.0);
        let text: Json = serde_json::from_str(&json::render(&report)).expect("JSON");
        for (metric, job) in pairs(&report) {
            let Some((mean, ci95)) = said(metric, &report, job) else { continue };
            let node = at(&text, &metric.json, job).filter(|node| !node.is_null());
            let there =
                node.map(|node| (node.get("mean").unwrap_or(node).as_f64(), node["ci95"].clone()));
            let (there, ends) = there.unwrap_or((None, Json::Null));
            // JSON omits causes that did not occur.
            let absent = matches!(metric.value, Value::Stall(_)) && mean == Some(0.0);
            let place = format!("{} of {}, job {job}", metric.json, scenario.name);
            assert!(there == mean || absent && there.is_none(), "{place}: {there:?}, {mean:?}");
            assert_eq!(ends, serde_json::to_value(ci95).expect("JSON"), "{place}");
            if there.is_some() {
                seen.insert(metric.json.as_ref());
            }
        }
    }
    let stalls = |of: &&Metric| matches!(of.value, Value::Stall(_) | Value::Text(_) | Value::Row);
    let places = metric::all().iter().filter(|of| !of.json.is_empty() && !stalls(of));
    let unseen: Vec<_> =
        places.map(|of| of.json.as_ref()).filter(|of| !seen.contains(of)).collect();
    assert!(unseen.is_empty(), "never a number: {unseen:?}");
    assert!(seen.contains("jobs.stall.latency"));
}

#[test]
fn the_json_schema_of_reports_contains_every_metric_and_report_key() {
    // System: `forebay schema report`, and the report of a run. Expectation: each key of the report is in the
    // schema.
    let schema = forebay(&["schema", "report"]).assert().success();
    let schema: Json = serde_json::from_slice(&schema.get_output().stdout).expect("JSON");
    let scenario = shipped("fletcher-lenet", &[("run.steps", "20"), ("job.copies", "1")]);
    let report = summarise(&scenario, &[simulate(&scenario)], 0.0);
    let report: Json = serde_json::from_str(&json::render(&report)).expect("JSON");
    known(&schema, &schema, &report, "");
    let text = schema.to_string();
    for metric in metric::all().iter().filter(|of| !of.json.is_empty() && of.unit != Unit::Text) {
        let meaning = Json::from(metric.meaning.as_ref()).to_string();
        assert!(text.contains(&meaning), "{}", metric.json);
    }
}

/// Checks that `of`, a part of `schema`, contains each key of `value`.
fn known(schema: &Json, of: &Json, value: &Json, path: &str) {
    if let Some(to) = of["$ref"].as_str() {
        return known(schema, schema.pointer(&to[1..]).expect("a definition"), value, path);
    }
    if let Some(forms) = of["anyOf"].as_array() {
        let form = forms.iter().find(|form| form.get("$ref").is_some() && !value.is_null());
        return form.map_or((), |form| known(schema, form, value, path));
    }
    match value {
        Json::Object(members) => {
            for (key, member) in members {
                let found = of["properties"].get(key);
                let found = found.unwrap_or_else(|| panic!("no {path}.{key} in {of}"));
                known(schema, found, member, &format!("{path}.{key}"));
            }
        }
        Json::Array(list) => list.iter().for_each(|one| known(schema, &of["items"], one, path)),
        _ => assert!(
            of.get("type").is_some() || of.get("enum").is_some() || of.get("oneOf").is_some(),
            "{path}"
        ),
    }
}
