//! Tests that the repository's results are consistent, and that files with errors are refused.

use super::predict::Ready;
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
fn rates_fitted_far_below_link_speed_are_reported_as_absorbing_something_else() {
    // System: DLPerf's V100 nodes, with a fitted 1.04 GB/s across nodes over a link of 12.5 GB/s, so that the link does not
    // explain the rate. Expectation: the rate is reported as absorbed, and so are those of other sites; the fits serve all
    // models.
    let published = own();
    let fitted = fit(&published);
    let of = |site: &str, transport: &str| &fitted[&(site.to_owned(), transport.to_owned())];
    let dlperf = of("dlperf", "nccl");
    let [rate] = dlperf.absorbed[..] else { panic!("{dlperf:?}") };
    assert_eq!((rate.limit, rate.sold), (Limit::Across, 12.5e9));
    assert!((11.0..13.0).contains(&rate.factor()), "{rate:?}");
    assert!(fitted.values().all(|fit| fit.serves("resnet50") && fit.serves("vgg16")));
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
    // With the transport of AlexNet, which only VGG-16 was fitted on, as with any other.
    for one in compare(&published, &fitted, &transfers(&published)) {
        let fit = fitted.get(&published.group(one.result));
        assert_eq!(one.rates == Rates::Fitted, fit.is_some(), "{:?}", one.result);
        assert!(one.interval90.is_some(), "{:?}", one.result);
    }
}

#[test]
fn costs_set_in_a_resolved_scenario_predict_what_its_text_does() {
    let published = own();
    let mut two_groups = 0;
    for (index, result) in published.results.iter().enumerate() {
        let (Some(ready), true) = (Ready::new(&published, result), result.gpus > 1) else {
            continue;
        };
        let at = index as f64;
        let constants = Constants {
            latency: 1e-6 * (1.0 + at),
            inside: 1e9 + 1e7 * at,
            across: 4e8 + 1e7 * at,
            between: 2e9 + 1e7 * at,
            per_tensor: 3e-6 * at,
        };
        let text = scenario(&published, result, &constants).expect("a scenario");
        let read =
            crate::scenario::ScenarioFile::parse("x", text).and_then(|file| file.resolve(&[]));
        let outcome = crate::sim::run(&read.expect("right"), 0, &crate::sim::Options::default());
        let steps = &outcome.jobs[0].steps;
        let step = (steps[2].end - steps[0].end) / 2.0;
        if result.quantity == Quantity::Throughput {
            let predicted = ready.predict(&constants).expect("a prediction");
            let throughput = f64::from(result.gpus * result.batch) / step;
            assert_eq!(predicted, throughput, "{} {}", result.series, result.gpus);
            two_groups += usize::from(published.clusters[&result.cluster].switch.is_some());
        }
    }
    assert!(two_groups > 10);
}

/// Results of four models on 8 and 16 GPUs of one site, all but those of the last one marked for fits.
const FOUR: [&str; 4] = ["inceptionv3", "resnet101", "vgg16", "resnet50"];
/// Rate of the network of these models' nodes [B/s].
const LINE: f64 = 3.125e9;

/// Returns results of these models whose measured values `truth` invents: from the index of the model in [`FOUR`], and a function that
/// predicts the result with some costs.
fn planted(names: &[&str], truth: impl Fn(usize, &dyn Fn(&Constants) -> f64) -> f64) -> Published {
    let series = |name: &str| {
        let fit = if name == FOUR[3] { "" } else { ", fit = true" };
        format!(
            "[[series]]\nname = \"{name}\"\ncluster = \"c\"\nmodel = \"{name}\"\nprecision = \"fp32\"\nbatch = 64\n\
             data = \"synthetic\"\ntransport = \"nccl-tcp\"\nframework = \"f\"\nquantity = \"throughput\"\n\
             unit = \"samples/s\"\nsource = \"somebody\"\nurl = \"https://example.org\"\nprovenance = \"primary\"\n\
             verified = true\nresults = [{{ gpus = 1, measured = 600 }}, {{ gpus = 8, measured = 1{fit} }}, \
             {{ gpus = 16, measured = 1{fit} }}]\n"
        )
    };
    let cluster = "[cluster.c]\nabout = \"c\"\ngpu = \"v100-pcie\"\ngpus_per_node = 4\ninside = \"pcie3-x16\"\n\
                   network = \"nic-25g\"\n";
    let text: String = names.iter().map(|name| series(name)).collect();
    let mut all = Published::parse("planted", &format!("{cluster}{text}")).expect("results");
    let before = all.clone();
    for result in all.results.iter_mut().filter(|result| result.gpus > 1) {
        let at = |costs: &Constants| predict(&before, result, costs).expect("a prediction");
        let model = FOUR.iter().position(|name| *name == result.model).expect("a model");
        result.measured = truth(model, &at);
    }
    all
}

/// Results that a rate of 30 % of the line explains.
fn of_a_rate(names: &[&str]) -> Published {
    let slow = Constants { across: 0.3 * LINE, ..Constants::of_kind("nccl-tcp") };
    planted(names, |_, at| at(&slow))
}

/// Results at the line's rate, of models that are slower for reasons of their own: most so the one that sends least.
fn of_own_costs(names: &[&str]) -> Published {
    planted(names, |model, at| at(&Constants::of_kind("nccl-tcp")) * [0.5, 0.95, 1.0, 1.0][model])
}

#[test]
fn models_that_share_an_effective_rate_predict_each_other() {
    // System: three models of which a rate of 30 % of the line is true. Expectation: each model is predicted from the others with
    // their rate; the nominal rate is far off. The fit to all serves a fourth model.
    let three = of_a_rate(&FOUR[..3]);
    let all = left_out(&three);
    assert_eq!(all.len(), 3);
    for of in all {
        assert_eq!(of.among_others.better, Rates::Fitted, "{of:?}");
        assert_eq!((of.among_others.models, of.results.len()), (2, 2));
        for one in &of.results {
            assert_eq!(one.predicted, one.fitted);
            assert!((one.predicted / one.result.measured - 1.0).abs() < 0.02, "{one:?}");
            assert!(one.nominal / one.result.measured > 1.1, "{one:?}");
        }
    }
    let four = of_a_rate(&FOUR);
    let fitted = fit(&four);
    let fit = fitted.values().next().expect("a fit");
    assert!((fit.constants.across / LINE - 0.3).abs() < 0.01, "{fit:?}");
    assert!(fit.serves(FOUR[3]) && !fit.models.contains(FOUR[3]));
    for one in compare(&four, &fitted, &transfers(&four)) {
        assert!(one.relative_error().abs() < 0.02 && one.rates == Rates::Fitted, "{one:?}");
    }
}

#[test]
fn models_with_costs_of_their_own_choose_nominal_rates() {
    let three = of_own_costs(&FOUR[..3]);
    for of in left_out(&three) {
        assert_eq!(of.among_others.better, Rates::Nominal, "{of:?}");
        assert!(of.results.iter().all(|one| one.predicted == one.nominal));
    }
    // A fit to the three is used for these only.
    let four = of_own_costs(&FOUR);
    let fitted = fit(&four);
    let fit = fitted.values().next().expect("a fit");
    assert_eq!(fit.others, Rates::Nominal);
    for one in compare(&four, &fitted, &transfers(&four)) {
        let of_fit = one.result.model != FOUR[3];
        assert_eq!(one.rates == Rates::Fitted, of_fit, "{one:?}");
        assert!(of_fit || one.relative_error().abs() < 1e-9, "{one:?}");
    }
    // Fits to two models leave no choice.
    let two = of_own_costs(&[FOUR[0], FOUR[1], FOUR[3]]);
    assert!(super::fit(&two).values().all(|fit| fit.others == Rates::Fitted));
}

#[test]
fn a_model_that_is_left_out_does_not_influence_its_prediction() {
    let before = of_a_rate(&FOUR);
    let mut after = before.clone();
    for result in after.results.iter_mut().filter(|of| of.model == FOUR[3] && of.gpus > 1) {
        result.measured *= 0.3;
    }
    let said = |all: &Published, model: &str| {
        let left_out = left_out(all);
        let of = left_out.iter().find(|of| of.model == model).expect("the model");
        let results = of.results.iter();
        let results: Vec<_> =
            results.map(|one| (one.fitted, one.predicted, one.interval90)).collect();
        (of.among_others.clone(), results)
    };
    assert_eq!(said(&before, FOUR[3]), said(&after, FOUR[3]));
    assert_ne!(said(&before, FOUR[0]), said(&after, FOUR[0]));
    let intervals = |all: &Published| -> Vec<_> {
        let compared = compare(all, &fit(all), &transfers(all));
        let of = compared.iter().filter(|one| one.result.role() == Role::HeldOut);
        of.map(|one| (one.predicted, one.interval90)).collect()
    };
    assert_eq!(intervals(&before), intervals(&after));
    assert_eq!(intervals(&before).len(), 2);
}

#[test]
fn fits_and_transfer_errors_do_not_depend_on_the_number_of_threads() {
    let published = of_own_costs(&FOUR);
    let [one, four] = [1, 4].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            let (fitted, transfers) = (fit(&published), transfers(&published));
            let compared = compare(&published, &fitted, &transfers);
            format!("{fitted:?} {transfers:?} {compared:?} {:?}", left_out(&published))
        })
    });
    assert_eq!(one, four);
}

#[test]
fn intervals_hold_the_residual_and_the_transfer_error() {
    // Student's 95 % quantile at 4 degrees of freedom is 2.132.
    let near = |[low, high]: [f64; 2], expected: [f64; 2]| {
        assert!((low / expected[0] - 1.0).abs() < 1e-3, "{low}");
        assert!((high / expected[1] - 1.0).abs() < 1e-3, "{high}");
    };
    let spread = Spread { square: 0.01, freedom: 4.0 };
    near(spread.interval90(100.0), [80.80, 123.76]);
    let both = spread.and(Some(Spread { square: 0.03, freedom: 9.0 }));
    assert_eq!((both.root(), both.freedom), (0.2, 4.0));
    // Two transports over several nodes and one within a node; of the first, "a" is predicted.
    let errors = |fitted: f64, models: usize| Errors {
        fitted,
        nominal: 4.0 * fitted,
        better: Rates::Fitted,
        models,
    };
    let transfer = |spans_nodes, all: &[(&str, Errors)]| Transfer {
        spans_nodes,
        without: all.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect(),
    };
    let group = |name: &str| (name.to_owned(), "nccl".to_owned());
    let transfers = Transfers::from([
        (group("x"), transfer(true, &[("a", errors(0.01, 2)), ("b", errors(0.03, 2))])),
        (group("y"), transfer(true, &[("b", errors(0.05, 3)), ("c", errors(0.07, 3))])),
        (group("z"), transfer(false, &[("a", errors(0.5, 2))])),
    ]);
    let of = |name: &str, spans, model: Option<&str>, rates| {
        let of = transferred(&group(name), spans, model, rates, &transfers).expect("errors");
        (of.spread.square, of.spread.freedom, of.pooled)
    };
    assert_eq!(of("x", true, Some("a"), Rates::Fitted), (0.01, 2.0, false));
    assert_eq!(of("x", true, Some("a"), Rates::Nominal), (0.04, 2.0, false));
    assert_eq!(of("x", true, None, Rates::Fitted), (0.02, 2.0, false));
    // Of other transports that span nodes: "a" has no influence on 0.01 of x, and 0.06 is the mean of y.
    assert_eq!(of("w", true, Some("a"), Rates::Fitted), (0.035, 5.0, true));
    assert_eq!(of("w", false, Some("a"), Rates::Fitted), (0.5, 2.0, true));
    assert!(transferred(&group("w"), true, None, Rates::Fitted, &Transfers::new()).is_none());
}

#[test]
fn a_publication_has_no_part_in_the_ranges_and_intervals_that_it_is_judged_by() {
    // System: results of three publications, and the same with one publication's measurements halved. Expectation: its own intervals stay, and those
    // of others become wider. Of ranges, its own sources are left out: Salvaris is one of those for sockets.
    let mut before = own();
    let publications = ["OneFlow", "Horovod", "P. Goyal"];
    before.results.retain(|of| publications.iter().any(|name| of.source.starts_with(name)));
    let mut after = before.clone();
    let is_halved = |of: &PublishedResult| of.source.starts_with("OneFlow") && of.gpus > 1;
    after.results.iter_mut().filter(|of| is_halved(of)).for_each(|of| of.measured /= 2.0);
    let (before, after) = (over_ranges(&before), over_ranges(&after));
    let all: Vec<_> = before.iter().zip(&after).collect();
    assert!(all.iter().any(|(one, _)| is_halved(one.result)));
    for (one, other) in &all {
        assert_eq!(one.draws, other.draws);
        let [low, high] = [0, 1].map(|end| one.interval90[end] - other.interval90[end]);
        match is_halved(one.result) {
            true => assert_eq!((low, high), (0.0, 0.0), "{:?}", one.result),
            false => assert!(low >= 0.0 && high <= 0.0, "{:?}", one.result),
        }
    }
    let wider = all.iter().filter(|(one, other)| one.interval90 != other.interval90).count();
    assert!(wider > 3, "{wider}");
    let sockets = crate::ranges::all().iter().find(|range| range.name == "gradients-sockets");
    let sockets = sockets.expect("a range");
    let salvaris = |url: &str| url.contains("msalvaris/BatchAIHorovodBenchmark");
    assert!(sockets.sources.iter().any(|of| salvaris(&of.url)));
    assert_eq!(sockets.without(|of| salvaris(&of.url)).sources.len(), sockets.sources.len() - 1);
}

#[test]
fn results_lie_outside_draws_by_how_much_faster_or_slower_they_are() {
    let published = own();
    let find = |quantity: Quantity| {
        published.results.iter().find(|of| of.quantity == quantity).expect("a result")
    };
    let one = |result, measured: f64| {
        let result = PublishedResult { measured, ..Clone::clone(result) };
        let one =
            OverRanges { result: &result, nominal: 2.0, draws: [1.0, 2.0], interval90: [1.0, 2.0] };
        (one.is_drawn(), one.widened([0.5_f64.ln(), 1.25_f64.ln()]))
    };
    let near = |[a, b]: [f64; 2], [x, y]: [f64; 2]| (a - x).abs() < 1e-12 && (b - y).abs() < 1e-12;
    let (throughput, time) = (find(Quantity::Throughput), find(Quantity::EpochTime));
    assert!(one(throughput, 1.5).0 && !one(throughput, 0.9).0 && !one(time, 2.1).0);
    // Twice as slow is half of the throughput, and twice the time.
    assert!(near(one(throughput, 1.5).1, [0.5, 2.5]));
    assert!(near(one(time, 1.5).1, [0.8, 4.0]));
}
