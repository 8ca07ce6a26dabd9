//! Tests that the repository's results are consistent, and that files with errors are refused.

use super::*;

fn own() -> Published {
    Published::parse("scaling.toml", SCALING).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn shipped_scaling_results_match_their_publications() {
    let published = own();
    let find = |series: &str, gpus: u32| {
        let same = |one: &&PublishedResult| one.series == series && one.gpus == gpus;
        published.results.iter().find(same).unwrap_or_else(|| panic!("{series} {gpus}")).clone()
    };
    let salvaris = find("azure-headline-mixed", 32);
    assert_eq!((salvaris.measured, salvaris.batch), (23436.0, 256));
    assert_eq!(salvaris.precision, Precision::Mixed);
    assert_eq!(find("azure-p100-resnet50-nccl-tcp", 8).measured, 1098.7);
    assert_eq!(find("tensorflow-dgx1-vgg16-real-b64", 8).measured, 898.0);
    assert_eq!(find("dlperf-tf115", 32).measured, 9514.64);
    assert_eq!(find("mxnet-dgx2-fp32", 16).measured, 6338.0);
    let goyal = find("goyal-growth", 352);
    assert_eq!((goyal.quantity, goyal.baseline, goyal.measured), (Quantity::StepGrowth, 8, 1.12));
    let line = SCALING.lines().nth(salvaris.line - 1).expect("a line");
    assert!(line.contains("23436"), "{line}");
}

#[test]
fn shipped_scaling_results_have_expected_counts_of_fit_and_held_out_points() {
    let published = own();
    let fit = |one: &&PublishedResult| one.role() == Role::Fit;
    // System: the repository's results. Azure's V100 experiments separate costs per byte from costs per tensor, and its P100
    // runs are held out. Elsewhere one rate is fitted: to one result of a transport, or to one of each framework. Expectation:
    // these numbers of fit points.
    let of = |cluster: &str| {
        let fitted = published.results.iter().filter(fit);
        fitted.filter(|one| one.cluster.starts_with(cluster)).count()
    };
    assert_eq!([of("azure-v100"), of("dlperf"), of("horovod"), of("dgx1-p100")], [24, 6, 4, 1]);
    let count = |role: Role| published.results.iter().filter(|one| one.role() == role).count();
    assert_eq!(count(Role::Fit), 35);
    assert!(count(Role::HeldOut) > 100 && count(Role::Input) > 30);
    // Every throughput of several GPUs has a throughput of one GPU in its series, except for the headline result.
    for one in &published.results {
        let input = |other: &PublishedResult| other.series == one.series && other.gpus == 1;
        let needed = one.quantity == Quantity::Throughput && !one.series.contains("headline");
        assert!(!needed || published.results.iter().any(input), "{}", one.series);
        assert!(!one.source.is_empty() && one.url.starts_with("https://") && one.verified);
    }
}

const SMALL: &str = r#"
[cluster.c]
about = "two GPUs"
gpu = "p100-pcie"
gpus_per_node = 2
inside = "pcie3-x16"
[[series]]
name = "s"
cluster = "c"
model = "resnet50"
precision = "fp32"
batch = 64
data = "synthetic"
transport = "nccl"
framework = "f"
quantity = "throughput"
unit = "samples/s"
source = "somebody"
url = "https://example.org"
provenance = "primary"
verified = true
results = [
    { gpus = 1, measured = 100.0 },
    { gpus = 2, measured = 190.0, fit = true },
]
"#;

#[test]
fn each_row_of_a_scaling_results_file_is_read_as_one_result() {
    let before = Published::parse("s", SMALL).expect("results");
    let more = SMALL
        .replace("gpus_per_node = 2", "gpus_per_node = 4")
        .replace("fit = true },", "fit = true },\n    { gpus = 4, measured = 350 },");
    let after = Published::parse("s", &more).expect("results");
    assert_eq!((before.results.len(), after.results.len()), (2, 3));
    let roles: Vec<Role> = after.results.iter().map(PublishedResult::role).collect();
    assert_eq!(roles, [Role::Input, Role::Fit, Role::HeldOut]);
    assert_eq!(after.results[2].line, 25);
    assert_eq!((after.clusters["c"].nics, after.results[0].baseline), (1, 1));
}

#[test]
fn errors_in_a_scaling_results_file_are_reported_with_line_and_remedy() {
    for (from, to, words) in [
        (
            "p100-pcie",
            "p100-pci",
            "s:4: \"p100-pci\" is no GPU of the catalogue; did you mean \"p100-pcie\"?",
        ),
        (
            "pcie3-x16",
            "string",
            "s:6: \"string\" is no interconnect of the catalogue; write one of nvlink1,",
        ),
        (
            "\"resnet50\"",
            "\"resnet5o\"",
            "s:10: \"resnet5o\" is no model of the catalogue; did you mean",
        ),
        (
            "cluster = \"c\"",
            "cluster = \"d\"",
            "s:9: \"d\" is no cluster of this file; did you mean \"c\"?",
        ),
        (
            "\"samples/s\"",
            "\"img/s\"",
            "s:17: the unit of this quantity is \"samples/s\"; write that",
        ),
        ("batch = 64", "batch = 0", "s:12: write a number from 1 to 1000000"),
        ("fp32", "fp31", "s:11: cannot be used: unknown variant `fp31`, expected one of"),
        (
            "gpus = 2, ",
            "gpus = 3, ",
            "s:24: 3 GPUs are more than one node of \"c\" has, 2; give the cluster",
        ),
        ("gpus = 2, ", "gpus = 1, ", "s:24: the throughput of one GPU is an input; remove `fit`"),
        ("gpus = 1, ", "gpus = 2, ", "s:24: two results are of 2 GPUs; remove one"),
        ("190.0", "-1", "s:24: write `measured` as a number above 0"),
        ("190.0", "nan", "s:24: write `measured` as a number above 0"),
        ("\"somebody\"", "\" \"", "s:18: `source` is empty; write one"),
        ("verified = true", "verifed = true", "s:21: cannot be used: unknown field `verifed`"),
        (
            "\"throughput\"\nunit = \"samples/s\"",
            "\"efficiency\"\nunit = \"1\"",
            "s:16: the row needs `baseline`; add it",
        ),
        (
            "verified",
            "baseline = 2\nverified",
            "s:16: the row has no use for `baseline`; remove it",
        ),
        ("gpus_per_node = 2", "gpus_per_node = 99999", "s:5: write a number from 1 to 1024"),
        (
            "gpus_per_node = 2",
            "gpus_per_node = 2\nswitch = 1",
            "s:6: the links between switches are missing; write `between`",
        ),
        (
            "gpus_per_node = 2",
            "gpus_per_node = 2\nbetween = \"pcie3-x16\"",
            "s:6: the number of GPUs below each switch is missing; write `switch`",
        ),
        (
            "gpus_per_node = 2",
            "gpus_per_node = 2\nswitch = 1\nbetween = \"pci\"",
            "s:7: \"pci\" is no interconnect of the catalogue",
        ),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let error = Published::parse("s", &SMALL.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.contains(words), "{to}: {error}");
    }
    let twice = format!("{SMALL}{}", &SMALL[SMALL.find("[[series]]").expect("a series")..]);
    let error = Published::parse("s", &twice).expect_err("twice").to_string();
    assert!(error.contains("two series are named \"s\"; rename one"), "{error}");
    for end in (0..SMALL.len()).step_by(7) {
        // A truncated file is parsed or refused, without a panic.
        let _ = Published::parse("s", &SMALL[..end]);
    }
}

#[test]
fn bandwidths_fitted_far_below_link_speed_apply_only_to_the_fitted_dnn() {
    // System: DLPerf's V100 nodes, with a fitted 1.04 GB/s across nodes over a link of 12.5 GB/s, so that the link does not
    // explain the rate. Expectation: the rate is reported as absorbed, and so are those of other sites; the fit is used for
    // ResNet-50, which it was fitted on, while other models get the rate of the link.
    let published = own();
    let fitted = fit(&published);
    let of = |site: &str, transport: &str| &fitted[&(site.to_owned(), transport.to_owned())];
    let dlperf = of("dlperf", "nccl");
    let [rate] = dlperf.absorbed[..] else { panic!("{dlperf:?}") };
    assert_eq!((rate.limit, rate.sold), (Limit::Across, 12.5e9));
    assert!((11.0..13.0).contains(&rate.factor()), "{rate:?}");
    assert!(dlperf.holds_for("resnet50") && !dlperf.holds_for("vgg16"));
    // The time of a tensor is no rate of a link; a rate within a factor of two of the link's rate is explained by the link.
    assert!(of("horovod", "nccl-rdma").absorbed.is_empty());
    let mpi = of("horovod", "mpi-rdma");
    assert_eq!(
        mpi.absorbed.iter().map(|of| of.limit).collect::<Vec<_>>(),
        [Limit::Inside, Limit::Across]
    );
    let near = |site: &str, transport: &str, across: f64| {
        let results = published.results.iter();
        let of: Vec<&PublishedResult> = results
            .filter(|r| published.clusters[&r.cluster].site == site && r.transport == transport)
            .collect();
        let constants = Constants { across, ..Constants::of_kind(transport) };
        absorbed::absorbed(&published, &of, &constants)
    };
    assert!(near("dlperf", "nccl", 6.5e9).is_empty() && near("dlperf", "nccl", 99e9).is_empty());
    assert_eq!(near("dlperf", "nccl", 6.0e9).len(), 1);
    for one in compare(&published, &fitted) {
        let site = &published.clusters[&one.result.cluster].site;
        let fit = fitted.get(&(site.clone(), one.result.transport.clone()));
        let withheld = fit.is_some_and(|fit| !fit.holds_for(&one.result.model));
        assert_eq!(one.withheld, withheld, "{:?}", one.result);
        if withheld {
            let bare = predict(&published, one.result, &Constants::of_kind(&one.result.transport));
            assert_eq!(bare, Some(one.predicted), "{:?}", one.result);
            assert_eq!(one.result.role(), Role::HeldOut);
        }
    }
}
