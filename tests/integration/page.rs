//! `forebay report`: pages of results.

use super::runs::repository;
use super::support::{Place, SCENARIO};
use scraper::{ElementRef, Html, Selector};
use std::fmt::Write;

/// A page, parsed.
struct Page {
    text: String,
    html: Html,
}

impl Page {
    fn of(text: String) -> Page {
        let html = Html::parse_document(&text);
        // SVG's elements are foreign to HTML, in which they may close themselves.
        let errors: Vec<_> = html.errors.iter().filter(|error| !error.is_empty()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        Page { text, html }
    }

    fn all(&self, selector: &str) -> Vec<ElementRef<'_>> {
        self.html.select(&Selector::parse(selector).expect("a selector")).collect()
    }

    fn texts(&self, selector: &str) -> Vec<String> {
        let text = |of: &ElementRef<'_>| of.text().collect::<String>();
        self.all(selector).iter().map(text).collect()
    }

    /// Checks what every page must fulfil: it loads nothing, its regions have names, its headings come in order, and its ids are unique.
    fn check(&self) {
        for attribute in ["src", "href", "srcset", "action", "data", "poster", "xlink:href"] {
            for element in self.all(&format!("[{}]", attribute.replace(':', "\\:"))) {
                let to = element.value().attr(attribute).unwrap_or_default();
                assert!(to.starts_with('#') || to == "data:,", "{attribute}={to}");
            }
        }
        for word in ["url(", "@import", "<link rel=\"stylesheet", "<iframe", "<img", "fetch("] {
            assert!(!self.text.contains(word), "{word}");
        }
        assert_eq!(self.all("h1").len(), 1);
        let levels: Vec<u8> =
            self.all("h1, h2, h3").iter().map(|of| of.value().name().as_bytes()[1]).collect();
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
        let mut ids: Vec<&str> = self.all("[id]").iter().filter_map(|of| of.value().id()).collect();
        let number = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), number, "ids are unique");
        for attribute in ["aria-labelledby", "aria-describedby"] {
            for element in self.all(&format!("[{attribute}]")) {
                let id = element.value().attr(attribute).unwrap_or_default();
                assert!(ids.binary_search(&id).is_ok(), "{id}");
            }
        }
        for region in self.all(".scroll") {
            let of = region.value();
            let named = of.attr("aria-label").or(of.attr("aria-labelledby"));
            assert_eq!((of.attr("role"), of.attr("tabindex")), (Some("region"), Some("0")));
            assert!(named.is_some_and(|name| !name.is_empty()));
        }
        for table in self.texts("table > caption") {
            assert!(!table.is_empty());
        }
        for head in self.all("table th") {
            assert!(head.value().attr("scope").is_some());
        }
        for figure in self.all("svg") {
            assert_eq!(figure.value().attr("role"), Some("img"));
            assert!(self.all("svg > title").len() >= self.all("figure").len());
        }
    }
}

/// Returns the page of inputs in a directory, after checking what holds for every page.
fn page(place: &Place, arguments: &[&str]) -> Page {
    let all = [&["report", "--quiet"], arguments].concat();
    let out = place.forebay(&all).assert().success();
    let text = String::from_utf8(out.get_output().stdout.clone()).expect("text");
    let page = Page::of(text);
    page.check();
    page
}

/// Writes the JSON report of a scenario.
fn run(place: &Place, scenario: &str, output: &str) {
    let run = ["run", scenario, "-q", "--verdict", "quick", "--format", "json", "--output", output];
    place.forebay(&run).assert().success();
}

#[test]
fn the_page_of_a_run_has_the_answer_first_and_every_figure_setting_and_default() {
    let place = Place::new();
    run(&place, "s.toml", "s.json");
    let page = page(&place, &["s.json", "--scenario", "s.toml"]);
    let report: serde_json::Value = serde_json::from_slice(&place.read("s.json")).expect("JSON");
    let answer = report["answer"].as_str().expect("an answer").replace('`', "");
    assert_eq!(page.texts(".answer > p")[0], answer);
    let whole = page.html.root_element().text().collect::<String>();
    for list in ["settings", "assumed"] {
        for entry in report[list].as_array().expect("a list") {
            for part in ["key", "value"] {
                let part = entry[part].as_str().expect("a text");
                assert!(whole.contains(&part.replace('`', "")), "{list}: {part}");
            }
        }
    }
    for metric in forebay::metric::all().iter().filter(|metric| metric.is_swept()) {
        let known = metric
            .json
            .strip_prefix("jobs.")
            .and_then(|place| place.split('.').try_fold(&report["jobs"][0], |at, key| at.get(key)));
        let known = known.and_then(|figure| figure["mean"].as_f64());
        if known.is_some() {
            assert!(whole.contains(&*metric.label), "{}", metric.label);
        }
    }
    let text = String::from_utf8(place.read("s.toml")).expect("text");
    assert!(whole.contains(text.trim_end()), "the scenario");
    assert!(whole.contains("forebay run s.toml"), "the command");
    assert!(page.texts("svg rect title").len() > 20, "values on hover");
}

#[test]
fn a_run_that_is_too_short_is_said_to_be_so_before_anything_else() {
    let place = Place::new();
    run(&place, "s.toml", "s.json");
    let report = String::from_utf8(place.read("s.json")).expect("text");
    let mut report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    report["jobs"][0]["length"] =
        serde_json::json!({ "enough": false, "why": "buffers fed it.", "drained": true });
    place.write("s.json", &report.to_string());
    let warnings = page(&place, &["s.json"]).texts(".warnings p");
    assert!(warnings[0].contains("too short: buffers fed it."), "{warnings:?}");
}

/// Returns rows of a sweep over two keys.
fn rows(points: usize) -> String {
    let mut rows =
        "job.batch,storage.nfs.file-server.bandwidth,job,step_time,step_time_lo,step_time_hi,\
                    samples_per_second,samples_per_second_lo,samples_per_second_hi,\
                    accelerator_utilisation,accelerator_utilisation_lo,accelerator_utilisation_hi,\
                    stall,stall_lo,stall_hi,largest_stall,too_short\n"
            .to_owned();
    for point in 0..points {
        let (batch, bandwidth) = (8 * (point / 25 + 1), point % 25 + 1);
        let time = 0.1 + batch as f64 / (1e3 * bandwidth as f64) + 1e-9 * point as f64;
        let (rate, busy) = (batch as f64 / time, 0.1 / time);
        let ends = |value: f64| format!("{value},{},{}", 0.99 * value, 1.01 * value);
        let figures = [time, rate, busy, 1.0 - busy].map(ends).join(",");
        writeln!(rows, "{batch},{bandwidth} GB/s,train,{figures},transfer,").expect("a row");
    }
    rows
}

#[test]
fn the_page_of_a_sweep_of_a_thousand_points_is_small_and_has_every_point() {
    let place = Place::new();
    place.write("rows.csv", &rows(1000));
    let page = page(&place, &["rows.csv"]);
    assert!(page.text.len() < 3_000_000, "{} B", page.text.len());
    assert_eq!(page.all("tbody tr").len(), 1000);
    let answer = &page.texts(".answer > p")[0];
    assert!(answer.contains("job.batch = 320") && answer.contains("25 GB/s"), "{answer}");
    assert!(!page.all("figure svg").is_empty());
    // A cell has its value in the SI unit, by which rows are sorted.
    let bandwidth = page.all("tbody tr td[data-v=\"2.5e10\"]");
    assert_eq!(bandwidth.len(), 40);
}

#[test]
fn rows_give_the_same_page_as_csv_and_as_json() {
    let place = Place::new();
    let vary = ["--vary", "job.loader.tf-queue.threads=[4, 8]", "--vary", "job.batch=[16, 32]"];
    for (format, output) in [("csv", "rows.csv"), ("json", "rows.json")] {
        let sweep = ["sweep", "s.toml", "-q", "--format", format, "--output", output];
        place.forebay(&[&sweep[..], &vary].concat()).assert().success();
    }
    let body = |name: &str| {
        let page = page(&place, &[name]);
        let mut parts = page.texts("section p, section td, section th");
        // The last paragraph names the file.
        parts.retain(|text| !text.contains("This was made from"));
        parts
    };
    let csv = body("rows.csv");
    assert_eq!(csv, body("rows.json"));
    assert!(csv.iter().any(|text| text.contains("job.loader.tf-queue.threads = 8")), "{csv:?}");
}

#[test]
fn the_pages_of_decisions_have_the_choice_its_figures_and_what_is_bought() {
    let place = Place::new();
    let text = std::fs::read_to_string(repository("scenarios/buy-storage.toml")).expect("a file");
    let short = text.replace("steps = 60", "steps = 8").replace("warm_up = 15", "warm_up = 2");
    place.write(
        "buy.toml",
        &short.replace("bandwidth = \"1 GB/s\"", "bandwidth = \"1 GB/s\"\ncapacity = \"200 TB\""),
    );
    let plan = ["plan", "buy.toml", "-q", "--format", "json", "--output", "plan.json"];
    place.forebay(&plan).assert().success();
    let compared = place.forebay(&["compare", "buy.toml", "-q", "--format", "json"]).assert();
    let compared = String::from_utf8(compared.get_output().stdout.clone()).expect("text");
    place.write("compare.json", &compared);
    for input in ["plan.json", "compare.json"] {
        let page = page(&place, &[input]);
        let whole = page.html.root_element().text().collect::<String>();
        for expected in ["as it is", "larger server", "largest server", "faster NIC", "nfs: 200 TB"]
        {
            assert!(whole.contains(expected), "{input}: {expected}");
        }
        let heads = page.texts("th");
        for expected in ["usable capacity", "rack units", "power at most", "price, paid once"] {
            assert!(heads.iter().any(|head| head == expected), "{input}: {heads:?}");
        }
        assert!(!page.all("figure svg").is_empty(), "{input}");
        assert!(whole.contains(&format!("forebay {}", input.trim_end_matches(".json"))));
    }
    let page = page(&place, &["plan.json", "compare.json", "--title", "Buy <this>?"]);
    assert_eq!(page.texts("h1"), ["Buy <this>?"]);
    assert_eq!((page.all("h2").len(), page.all("nav a").len()), (2, 2));
}

#[test]
fn the_page_of_a_value_draws_the_figure_of_the_goal_over_the_values_tried() {
    let place = Place::new();
    let plan = [
        "plan",
        "s.toml",
        "-q",
        "--goal",
        "stall < 99 %",
        "--min",
        "job.loader.tf-queue.threads=1..8",
    ];
    let output = ["--format", "json", "--output", "plan.json"];
    place.forebay(&[&plan[..], &output].concat()).assert().success();
    let page = page(&place, &["plan.json"]);
    let answer = &page.texts(".answer > p")[0];
    assert!(answer.contains("job.loader.tf-queue.threads = "), "{answer}");
    assert!(page.texts("figcaption")[0].contains("stall < 99 %"));
}

#[test]
fn the_page_of_a_validation_begins_with_the_errors_and_has_every_point() {
    let place = Place::new();
    let point = |name: &str, held_out: bool, measured: f64| {
        serde_json::json!({
            "name": name, "bound": "cores", "held_out": held_out,
            "predicted": { "median": { "samples_per_second": 100.0, "step_time": 0.1, "stall": 0.5 }, "interval": [90.0, 110.0] },
            "runs": [{ "samples_per_second": measured, "step_time": 0.1, "stall": 0.5 }],
        })
    };
    let points = [point("a", false, 100.0), point("b", true, 80.0), point("c", true, 100.0)];
    let verdict = serde_json::json!({ "points": 2, "mean_error": 0.125, "worst": ["b", 0.25], "too_noisy": 0 });
    let json = serde_json::json!({ "points": points, "verdict": verdict });
    place.write("validation.json", &json.to_string());
    let page = page(&place, &["validation.json"]);
    let answer = &page.texts(".answer > p")[0];
    assert!(
        answer.contains("12.5 % on average") && answer.contains("25.0 % at worst, at b"),
        "{answer}"
    );
    assert_eq!(page.texts("tbody th"), ["a", "b", "c"]);
    assert!(page.texts("svg rect title").len() >= 3);
}

#[test]
fn the_page_of_a_profile_has_every_parameter() {
    let place = Place::new();
    let path = repository("calibrate/profiles/example.toml");
    let page = page(&place, &[path.to_str().expect("a path")]);
    let profile = forebay::profile::Profile::open(&path).expect("a profile");
    let parameters = profile.fits().iter().map(|(_, fit)| fit.parameters.len()).sum::<usize>();
    assert_eq!(page.all("tbody tr").len(), parameters);
    assert!(!page.all("figure svg").is_empty());
}

#[test]
fn hostile_names_are_text_on_pages() {
    let place = Place::new();
    let name = "</script><script>alert(1)</script>\\\"'><img src=x onerror=alert(2)>";
    place.write("h.toml", &SCENARIO.replace("name = \"lenet\"", &format!("name = \"{name}\"")));
    let hostile = std::fs::read_to_string(place.path("h.toml")).expect("a file");
    assert!(hostile.contains("alert(1)"), "the scenario has the hostile name");
    run(&place, "h.toml", "h.json");
    place.write(
        "rows.csv",
        &rows(20).replace("train", "\"<script>x</script>`\"").replace("transfer", "<b>"),
    );
    let page = page(&place, &["h.json", "rows.csv", "--title", "<svg onload=x>"]);
    assert_eq!(page.all("script").len(), 1, "the page's own script");
    assert!(page.all("img, b, [onerror], [onload]").is_empty());
    let whole = page.html.root_element().text().collect::<String>();
    assert!(whole.contains("<script>alert(1)</script>") && whole.contains("<script>x</script>"));
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let place = Place::new();
    run(&place, "s.toml", "s.json");
    place.write("rows.csv", &rows(50));
    let bytes = || {
        let made = ["report", "s.json", "rows.csv", "-q", "--output", "page.html"];
        place.forebay(&made).assert().success();
        place.read("page.html")
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn inputs_that_are_no_results_are_refused_in_one_line_each_with_what_to_give_instead() {
    let place = Place::new();
    for (name, text, says) in [
        ("s.toml", SCENARIO, "`forebay run SCENARIO --format json"),
        ("empty.json", "", "the file is empty"),
        ("cut.json", "{\"jobs\": [", "not whole JSON"),
        ("other.json", "{\"a\": 1}", "it is no result of forebay"),
        ("other.csv", "a,b\n1,2\n", "it is no result of forebay"),
        ("trace.json", "{\"traceEvents\": []}", "`forebay import kineto`"),
        ("rows.csv", "job,step_time\n", "there are no rows"),
        ("profile.toml", "[provenance]\n[host]\nx = 1\n", "profile.toml"),
    ] {
        place.write(name, text);
        let out = place.forebay(&["report", name, "--output", "page.html"]).assert().code(2);
        let message = String::from_utf8(out.get_output().stderr.clone()).expect("text");
        assert!(message.contains(name) && message.contains(says), "{name}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    }
    let out = place.forebay(&["report", "none.json", "other.json"]).assert().code(2);
    let message = String::from_utf8(out.get_output().stderr.clone()).expect("text");
    assert!(message.contains("none.json") && message.contains("other.json"), "{message}");
    assert!(!place.path("page.html").exists());
}

#[test]
fn a_scenario_of_another_result_and_an_input_as_output_are_refused() {
    let place = Place::new();
    run(&place, "s.toml", "s.json");
    place.write("o.toml", &SCENARIO.replacen("name = \"", "name = \"other-", 1));
    let out = place.forebay(&["report", "s.json", "--scenario", "o.toml"]).assert().code(2);
    let message = String::from_utf8(out.get_output().stderr.clone()).expect("text");
    assert!(message.contains("--scenario o.toml"), "{message}");
    let before = place.read("s.json");
    place.forebay(&["report", "s.json", "--output", "s.json"]).assert().code(2);
    assert_eq!(place.read("s.json"), before);
}

#[test]
fn damaged_plans_comparisons_and_reports_are_refused_in_a_line() {
    // System: results whose parts do not fit together. Expectation: no page, and a line that names the file.
    let place = Place::new();
    let goal = ["--goal", "stall < 99 %", "--min", "job.loader.tf-queue.threads=1..4"];
    let plan =
        [&["plan", "s.toml", "-q", "--format", "json", "--output", "p.json"], &goal[..]].concat();
    place.forebay(&plan).assert().success();
    let options = ["--option", "a", "--option", "b=job.batch=4"];
    let compare = [&["compare", "s.toml", "-q", "--format", "json"], &options[..]].concat();
    let compared = place.forebay(&compare).assert().success();
    place.write("c.json", &String::from_utf8_lossy(&compared.get_output().stdout));
    run(&place, "s.toml", "r.json");
    let changes: [(&str, &str, serde_json::Value); 7] = [
        ("p.json", "/rows/0/answer/found", 99.into()),
        ("p.json", "/rows", serde_json::json!([])),
        ("p.json", "/certainty", 1e300.into()),
        ("p.json", "/rows/0/answer/tried/0/meets", "a\nb".into()),
        ("c.json", "/compared/1/jobs/0/figures/0/metric", "stall".into()),
        ("r.json", "/jobs/0/step_time", "x".into()),
        ("r.json", "/answer", 5.into()),
    ];
    for (name, pointer, value) in changes {
        let text = String::from_utf8(place.read(name)).expect("text");
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        *json.pointer_mut(pointer).expect("a value") = value;
        place.write("damaged.json", &json.to_string());
        let out =
            place.forebay(&["report", "damaged.json", "--output", "page.html"]).assert().code(2);
        let message = String::from_utf8_lossy(&out.get_output().stderr).into_owned();
        assert!(message.contains("damaged.json: it is no whole"), "{pointer}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    }
}

#[test]
fn costs_are_in_the_currency_of_each_scenario() {
    let place = Place::new();
    for (name, price) in [("usd", "$2 /h"), ("eur", "2 EUR /h")] {
        place
            .write(&format!("{name}.toml"), &format!("{SCENARIO}\n[prices]\nnode = \"{price}\"\n"));
    }
    let compared =
        place.forebay(&["compare", "usd.toml", "eur.toml", "-q", "--format", "json"]).assert();
    place.write("c.json", &String::from_utf8_lossy(&compared.get_output().stdout));
    let page = page(&place, &["c.json"]);
    let rows = page.texts("tbody tr");
    let of = |name: &str| {
        rows.iter().filter(|row| row.starts_with(name)).map(String::as_str).collect::<String>()
    };
    assert!(of("usd").contains('$') && !of("usd").contains("EUR"), "{}", of("usd"));
    assert!(of("eur").contains("EUR") && !of("eur").contains('$'), "{}", of("eur"));
    let answer = page.texts(".answer > p").join(" ");
    assert!(!answer.contains("costs the least"), "{answer}");
    assert!(page.text.contains("have no difference: write all prices in one currency"));
}

#[test]
fn a_lead_that_may_be_chance_is_said_to_be_so() {
    // System: three options whose throughputs are written here; the interval of the second overlaps that of the third, the fastest, and that
    // of the first does not. Expectation: only the lead over the second may be chance.
    let place = Place::new();
    let options = ["--option", "a", "--option", "b=job.batch=8", "--option", "c=job.batch=4"];
    let compare = [&["compare", "s.toml", "-q", "--format", "json"], &options[..]].concat();
    let out = place.forebay(&compare).assert().success();
    let mut json: serde_json::Value =
        serde_json::from_slice(&out.get_output().stdout).expect("JSON");
    for (at, mean) in [100.0, 190.0, 200.0].into_iter().enumerate() {
        let figures = json["compared"][at]["jobs"][0]["figures"].as_array_mut().expect("figures");
        let speed = figures.iter_mut().find(|of| of["metric"] == "samples_per_second");
        let speed = speed.expect("a throughput");
        speed["mean"] = mean.into();
        speed["ci95"] = serde_json::json!([mean - 20.0, mean + 20.0]);
    }
    place.write("c.json", &json.to_string());
    let answer = &page(&place, &["c.json"]).texts(".answer > p")[0];
    assert!(
        answer.starts_with("c trains lenet the fastest, 200 ± 20.0 samples/s: +100"),
        "{answer}"
    );
    assert!(
        answer.ends_with("against a, beyond chance. Its lead over b may be chance."),
        "{answer}"
    );
}

#[test]
fn draws_of_parameters_stand_in_brackets_and_changes_of_training_are_said() {
    let place = Place::new();
    run(&place, "s.toml", "s.json");
    let report = String::from_utf8(place.read("s.json")).expect("text");
    let mut report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    report["jobs"][0]["step_time"]["prediction90"] = serde_json::json!([0.001, 0.9]);
    report["verdict"]["limits"] = serde_json::json!([{
        "name": "batch interval", "changes": [{ "set": "job.batch_interval=2" }], "before": 0.2, "after": 0.1,
        "after_interval": [0.1, 0.1], "gain": 0.5, "gain_interval": [0.5, 0.5], "also": "changes training",
    }]);
    place.write("s.json", &report.to_string());
    let page = page(&place, &["s.json"]);
    assert!(page.texts("td").iter().any(|cell| cell.contains("[1 ms, 900 ms]")));
    assert!(page.texts("caption").iter().any(|text| text.contains("brackets hold 90 % of runs")));
    assert!(page.texts("td").iter().any(|cell| cell == "changes training"));
}

#[test]
fn of_equal_points_the_first_is_named_and_what_is_no_number_is_no_figure() {
    let place = Place::new();
    let rows = "job.batch,job,samples_per_second,samples_per_second_lo,samples_per_second_hi\n\
                8,a,4,,\n16,a,4,,\n32,a,NaN,,\n64,a,inf,inf,inf\n128,a,3,9,1\n";
    place.write("rows.csv", rows);
    let page = page(&place, &["rows.csv"]);
    let answer = &page.texts(".answer > p")[0];
    assert!(answer.contains("Of 3 points") && answer.contains("job.batch = 8"), "{answer}");
    assert!(
        !page.text.contains("NaN") || page.texts("td").iter().all(|cell| !cell.contains("NaN"))
    );
    place.write("one.csv", "job,step_time\na,1\n");
    let page = self::page(&place, &["one.csv"]);
    assert_eq!(page.texts(".answer > p"), ["a: step time 1 s."]);
}

#[test]
fn the_page_of_many_rows_has_their_answers_costs_and_warnings_apart() {
    // System: two options for seven batches, in runs too short for the figures. Expectation: a table with the choice of each row, costs
    // that name the row, and the warnings.
    let place = Place::new();
    let options = [
        "--option",
        "a",
        "--option",
        "b=job.loader.tf-queue.threads=4",
        "--set",
        "prices.node=$1 /h",
    ];
    let rows = ["--for", "job.batch=[2, 3, 4, 5, 6, 7, 8]", "--most", "5"];
    let plan = ["plan", "s.toml", "-q", "--format", "json", "--output", "p.json"];
    place.forebay(&[&plan[..], &options, &rows].concat()).output().expect("a plan");
    let page = page(&place, &["p.json"]);
    let captions = page.texts("caption");
    assert!(captions.iter().any(|text| text.contains("The answer of each row")), "{captions:?}");
    let names = page.texts("tbody th");
    assert!(names.iter().any(|name| name == "job.batch = 5, b"), "{names:?}");
    assert!(page.texts(".warnings p").iter().any(|text| text.contains("job.batch = 2: ")));
}
