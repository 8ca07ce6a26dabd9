//! Published scaling results compared with predictions: Azure with fitted transports, the others with the
//! catalogue or one fitted rate.

use super::support::{Place, forebay};
use forebay::published::{Compared, Published, Role, SCALING, compare, fit};
use std::sync::LazyLock;

/// The repository's results, and what they are compared with; the fits take seconds, so tests share them.
static PUBLISHED: LazyLock<Published> =
    LazyLock::new(|| Published::parse("scaling.toml", SCALING).expect("the repository's"));
pub(crate) static COMPARED: LazyLock<Vec<Compared<'static>>> =
    LazyLock::new(|| compare(&PUBLISHED, &fit(&PUBLISHED)));

fn mean(compared: &[Compared<'_>], of: impl Fn(&Compared<'_>) -> bool) -> f64 {
    let errors: Vec<f64> =
        compared.iter().filter(|one| of(one)).map(|one| one.relative_error().abs()).collect();
    assert!(!errors.is_empty(), "no such results");
    errors.iter().sum::<f64>() / errors.len() as f64
}

#[test]
fn mean_error_of_predicted_held_out_scaling_results_is_at_most_16_percent() {
    let (published, compared) = (&*PUBLISHED, &*COMPARED);
    // Every result is predicted except the single-GPU rates, and Goyal's epoch on eight GPUs, which serves as
    // such a rate.
    let judged = published.results.iter().filter(|result| result.role() != Role::Input).count();
    assert_eq!(compared.len(), judged - 1);
    let held_out = |one: &Compared<'_>| one.result.role() == Role::HeldOut && one.result.verified;
    for transport in ["mpi-ib", "nccl-tcp"] {
        let error = mean(compared, |one| {
            held_out(one)
                && one.result.cluster.starts_with("azure-p100")
                && one.result.transport == transport
        });
        assert!(error <= 0.08, "{transport}: {error}");
    }
    // The talk's headline: one cluster, two precisions and batches.
    for one in compared.iter().filter(|one| one.result.series.starts_with("azure-headline")) {
        assert!(
            one.relative_error().abs() <= 0.10,
            "{}: {}",
            one.result.series,
            one.relative_error()
        );
    }
    // Where a fit includes effects other than the link, other models are predicted without it, with larger
    // errors.
    let held_out = |one: &Compared<'_>| held_out(one) && !one.withheld;
    let others = mean(compared, |one| held_out(one) && !one.result.cluster.starts_with("azure"));
    assert!(others <= 0.10, "{others}");
    let withheld = compared.iter().filter(|one| one.withheld).count();
    assert_eq!(withheld, 9, "AlexNet over NCCL 1, Inception and VGG over Horovod's MPI");
    // TensorFlow's DGX-1, DLPerf, NVIDIA's MXNet, Horovod on 512 GPUs and Goyal: at most one fitted constant
    // for each cluster.
    let named = ["tensorflow-dgx1-", "dlperf-", "mxnet-", "horovod-512-", "goyal-"];
    let named = mean(compared, |one| {
        held_out(one) && named.iter().any(|name| one.result.series.starts_with(name))
    });
    assert!(named <= 0.08, "{named}");
    let horovod = mean(compared, |one| {
        held_out(one) && one.result.cluster == "horovod" && one.result.transport.starts_with("nccl")
    });
    assert!(horovod <= 0.16, "{horovod}");
    // NCCL 1 on a DGX-1: the link between its two groups of four GPUs, fitted on all eight, does not slow four
    // GPUs.
    let dgx = |one: &Compared<'_>| {
        held_out(one)
            && one.result.cluster == "dgx1-p100-nccl1"
            && one.result.series.contains("synthetic")
    };
    let error = mean(compared, dgx);
    assert!(error <= 0.10, "{error}");
    let four = mean(compared, |one| dgx(one) && one.result.model == "vgg16" && one.result.gpus < 8);
    assert!(four <= 0.06, "{four}");
}

#[test]
fn published_results_are_printed_as_scenarios_and_malformed_names_are_refused() {
    let shown = forebay(&["published", "--scenario", "goyal-growth:352"]).output().expect("runs");
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(text.contains("nodes = 44") && text.contains("resnet50"), "{text}");
    forebay::scenario::ScenarioFile::parse("x.toml", text)
        .and_then(|file| file.resolve(&[]))
        .expect("right");
    let wrong = forebay(&["published", "--scenario", "goyal:1"]).output().expect("runs");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("SERIES:GPUS"));
}

#[test]
fn the_table_of_published_results_cites_each_source_by_number() {
    // System: two sources, one of them of two results. Expectation: each source is listed once below the table,
    // with the number that marks its results.
    let series = |name: &str, source: &str| {
        format!(
            r#"[[series]]
name = "{name}"
cluster = "one"
model = "resnet50"
precision = "fp32"
batch = 64
data = "synthetic"
transport = "nccl"
framework = "any"
quantity = "throughput"
unit = "samples/s"
source = "{source}"
url = "https://example.org/{source}"
provenance = "primary"
verified = true
results = [{{ gpus = 1, measured = 100 }}, {{ gpus = 2, measured = 190 }}]
"#
        )
    };
    let cluster = "[cluster.one]\nabout = \"one\"\ngpu = \"v100-sxm2\"\ngpus_per_node = 8\ninside = \"nvlink2\"\n";
    let text = [cluster, &series("a", "first"), &series("b", "second"), &series("c", "first")];
    let place = Place::new();
    place.write("p.toml", &text.concat());
    let shown = place.forebay(&["published", "p.toml"]).assert().success();
    let shown = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
    let of = |name: &str| {
        let row = shown.lines().find(|line| line.starts_with(&format!("│ {name} ")));
        row.and_then(|row| row.split_whitespace().nth_back(1)).unwrap_or_default().to_owned()
    };
    assert_eq!(["a", "b", "c"].map(of), ["[1]", "[2]", "[1]"], "{shown}");
    let list = "[1] first, https://example.org/first\n[2] second, https://example.org/second\n";
    assert!(shown.ends_with(list), "{shown}");
}

/// Returns the repository's results of some clusters as a file.
pub(super) fn of_clusters(names: &[&str]) -> String {
    let mut all: toml::Table = SCALING.parse().expect("the repository's");
    all["cluster"].as_table_mut().expect("clusters").retain(|name, _| names.contains(&name));
    let series = all["series"].as_array_mut().expect("series");
    series.retain(|series| series["cluster"].as_str().is_some_and(|name| names.contains(&name)));
    all.to_string()
}

#[test]
fn a_fitted_bandwidth_below_the_nominal_link_bandwidth_is_reported() {
    // System: the repository's results of DLPerf's cluster and of a DGX-1. Expectation: DLPerf's fit is used for ResNet-50, the
    // DGX-1's is not for AlexNet.
    let place = Place::new();
    place.write("two.toml", &of_clusters(&["dlperf", "dgx1-p100-nccl1"]));
    let print = |arguments: &[&str]| {
        let mut command = place.forebay(arguments);
        let output = command.env("COLUMNS", "200").assert().success().get_output().stdout.clone();
        String::from_utf8(output).expect("text")
    };
    let text = print(&["published", "two.toml"]);
    let dlperf = text.split("Fitted, nccl of dlperf").nth(1).expect("a fit");
    let said: Vec<&str> = dlperf.lines().skip(1).take(4).flat_map(str::split_whitespace).collect();
    let said = said.join(" ");
    assert!(said.contains("absorbs something else"), "{said}");
    assert!(
        said.contains("across the link is sold at 12.5 GB/s") && said.contains("resnet50 only"),
        "{said}"
    );
    assert!(text.contains("held out, fit not used"), "{text}");
    let json = print(&["published", "two.toml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let fits = json["fitted"].as_array().expect("fits");
    let of = |site: &str| fits.iter().find(|fit| fit["site"] == site).expect("a fit");
    assert_eq!(of("dlperf")["absorbs_something_else"], true);
    assert_eq!(of("dlperf")["models"], serde_json::json!(["resnet50"]));
    assert_eq!(of("dlperf")["absorbed"][0]["sold"], 12.5e9);
    let results = json["results"].as_array().expect("results");
    assert!(results.iter().any(|one| one["fit_withheld"] == true));
    assert!(results.iter().any(|one| one["fit_withheld"] == false));
}
