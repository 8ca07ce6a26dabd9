//! Profiles read back from their files unchanged, and files that are no profiles are refused with a message.

use super::{
    Alone, Fit, Host, Neighbours, Parameter, Profile, Provenance, Ratio, Verdict, compare,
};
use proptest::prelude::*;
use std::path::Path;

fn parameter(value: f64, unit: &str) -> Parameter {
    let ci95 = Some([0.9 * value, 1.1 * value]);
    Parameter { value, unit: unit.to_owned(), ci95, unidentified: None }
}

fn profile() -> Profile {
    let unlimited = Parameter {
        value: f64::INFINITY,
        unit: "1/s".into(),
        ci95: None,
        unidentified: Some("no trial was \"bound\"".into()),
    };
    let read = Fit {
        parameters: [
            ("latency".to_owned(), parameter(6.1e-5, "s")),
            ("operations".to_owned(), unlimited),
        ]
        .into(),
        samples: 120,
        residual: 0.02,
        alone: Some(Alone { share: 0.75, values: [("operations".to_owned(), 9e4)].into() }),
        ratios: Vec::new(),
        range: [("size".to_owned(), [4096.0, 1e6])].into(),
        draws: vec![vec![6e-5, f64::INFINITY], vec![6.2e-5, 1e5]],
    };
    let step = Fit {
        parameters: [("fixed", "s"), ("per_sample", "s")]
            .map(|(n, u)| (n.to_owned(), parameter(1e-3, u)))
            .into(),
        ratios: [(16.0, 1.25), (64.0, 0.75)].map(|(batch, ratio)| Ratio { batch, ratio }).into(),
        ..Fit::default()
    };
    Profile {
        provenance: Provenance {
            machine: "8 cores, \"fast\"\tdisk".into(),
            versions: [("linux".to_owned(), "6.1".to_owned())].into(),
            ..Provenance::default()
        },
        host: Host { cores: 1.5, memory: 1e9 },
        neighbours: Some(Neighbours { beside: 0.25, others: 0.5, waited: 0.1, throttled: 0.0 }),
        read: [("direct".to_owned(), read)].into(),
        step: [("a model".to_owned(), [("cpu-1".to_owned(), step)].into())].into(),
        ..Profile::default()
    }
}

/// Returns the messages about a profile in whose text `from` is replaced by `to`.
fn refused(from: &str, to: &str) -> String {
    let text = profile().to_toml();
    assert!(text.contains(from), "{text}");
    Profile::parse("p.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn values_alone_are_of_parameters_of_their_fit_and_shares_at_most_one() {
    let message = refused("share = 0.75", "share = 1.75");
    assert!(message.contains("read.direct.alone.share` is more than 1"), "{message}");
    let message = refused("values = { operations", "values = { laziness");
    assert!(message.contains("laziness` is no parameter of this fit; leave it out"), "{message}");
    assert!(refused("waited = 0.1", "waited = -0.1").contains("neighbours.waited` is negative"));
}

#[test]
fn a_profile_reads_back_as_it_was_written() {
    let text = profile().to_toml();
    assert_eq!(Profile::parse("p.toml", &text), Ok(profile()), "{text}");
    assert_eq!(Profile::parse("p.toml", &text).unwrap().to_toml(), text);
    assert!(text.contains("latency = { value = 6.1e-5, unit = \"s\", ci95 = ["), "{text}");
}

#[test]
fn invalid_entries_of_profiles_are_refused_with_line_key_and_remedy() {
    let line = profile().to_toml().lines().position(|l| l.starts_with("latency")).unwrap() + 1;
    let message = refused("value = 6.1e-5", "value = -6.1e-5");
    let expected = format!("p.toml:{line}: `read.direct.parameters.latency` is negative; give");
    assert!(message.starts_with(&expected), "{message}");
    for (from, to, words) in [
        ("value = 6.1e-5", "value = nan", "is not a number"),
        ("value = 6.1e-5", "value = inf", "is infinite"),
        ("value = 6.1e-5", "value = 1e300", "is too large"),
        ("value = 6.1e-5", "value = 1.0", "lies outside of its interval"),
        ("value = 6.1e-5", "value = \"fast\"", "invalid type"),
        ("unit = \"s\"", "unit = \"ms\"", "has the unit `ms` instead of `s`"),
        ("latency =", "latncy =", "`latency`? it may be one of"),
        ("latency =", "per_stream =", "lacks `latency`"),
        ("residual =", "residul =", "unknown field `residul`"),
        ("size = [4096.0, 1000000.0]", "size = [2.0, 1.0]", "ends before it begins"),
        ("[6e-5, inf]", "[6e-5]", "draw 1 has 1 values, but the fit has 2 parameters"),
        ("[6.2e-5, 100000.0]", "[-1.0, 100000.0]", "draw 2 has an invalid value"),
        ("batch = 16.0", "batch = 64.0", "is no list of batches with ratios"),
        ("ratio = 1.25", "ratio = 0.0", "ratios from 0.01 to 100"),
        ("batch = 16.0", "batch = -16.0", "is no list of batches with ratios"),
        ("batch = 16.0", "batch = 16.0, seconds = 1.0", "unknown field `seconds`"),
        (
            "residual = 0.02",
            "residual = 0.02\nratios = [{ batch = 1, ratio = 1 }]",
            "no meaning here",
        ),
        ("cores = 1.5", "cores = -1", "`host.cores` is negative"),
        ("[host]", "[hosts]", "unknown field `hosts`"),
        ("[provenance]", "[provenance", "p.toml:2: cannot be used"),
    ] {
        let message = refused(from, to);
        assert!(message.contains(words), "{to}: {message}");
        assert!(message.contains("; "), "{message}");
    }
}

#[test]
fn files_that_are_no_profiles_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.toml");
    let refused = |path: &Path| Profile::open(path).unwrap_err().to_string();
    assert!(refused(&path).contains("cannot be read"));
    assert!(refused(directory.path()).contains("is a directory"));
    for (bytes, words) in [
        (&b""[..], "is empty"),
        (&b"\xff\xfe\x00"[..], "not UTF-8 text"),
        (&b"a = 1"[..], "unknown field `a`"),
        (&b"# nothing"[..], "missing field `provenance`"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        assert!(refused(&path).contains(words), "{}", refused(&path));
    }
    std::fs::File::create(&path).unwrap().set_len(17 << 20).unwrap();
    assert!(refused(&path).contains("more than 16 MiB"));
}

#[test]
fn profile_changes_within_a_confidence_interval_are_not_significant() {
    let first = profile();
    let change = |value: f64| {
        let mut second = profile();
        let fit = second.read.get_mut("direct").unwrap();
        fit.parameters.insert("latency".into(), parameter(value, "s"));
        let all = compare(&first, &second);
        let latency = all.into_iter().find(|change| change.parameter == "latency").unwrap();
        (latency.verdict, latency.relative.unwrap())
    };
    assert_eq!(change(6.1e-5), (Verdict::Same, 0.0));
    assert_eq!(change(6.4e-5).0, Verdict::Within);
    assert_eq!(change(12.2e-5), (Verdict::Beyond, 1.0));
    let empty = compare(&first, &Profile::default());
    assert!(empty.iter().all(|change| change.verdict == Verdict::Gone));
    let operations = compare(&first, &first).into_iter().find(|c| c.parameter == "operations");
    assert_eq!(operations.unwrap().relative, None);
}

proptest! {
    #[test]
    fn reading_any_text_as_a_calibration_profile_causes_no_panic(text in ".{0,200}", at in 0usize..2000, byte in any::<u8>()) {
        Profile::parse("p.toml", &text).ok();
        let mut bytes = profile().to_toml().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            Profile::parse("p.toml", &text).ok();
        }
    }

    #[test]
    fn profiles_with_any_text_in_names_read_back_unchanged(machine in any::<String>(), model in any::<String>()) {
        let mut profile = profile();
        profile.provenance.machine = machine;
        let devices = profile.step.pop_first().unwrap().1;
        profile.step.insert(model, devices);
        let text = profile.to_toml();
        prop_assert_eq!(Profile::parse("p.toml", &text), Ok(profile));
    }
}

#[test]
fn message_size_ranges_of_a_transport_fit_are_validated() {
    let parameter =
        |value: f64, unit: &str| Parameter { value, unit: unit.to_owned(), ..Parameter::default() };
    let parameters = [
        ("alpha_1", 1e-5, "s"),
        ("beta_1", 1e-9, "s/B"),
        ("from_2", 65_536.0, "B"),
        ("alpha_2", 3e-5, "s"),
        ("beta_2", 1e-10, "s/B"),
        ("gamma_2", 2e-10, "s/B"),
    ];
    let parameters =
        parameters.map(|(name, value, unit)| (name.to_owned(), parameter(value, unit))).into();
    let fit = Fit { parameters, ..Fit::default() };
    let law = fit.transport().expect("a law");
    assert_eq!(law.ranges().len(), 2);
    assert!((law.seconds(1e6, 1e6) / 3.3e-4 - 1.0).abs() < 1e-12);
    let transport = [("nccl".to_owned(), [("allreduce-8".to_owned(), fit)].into())].into();
    let text = Profile { transport, ..Profile::default() }.to_toml();
    let profile = Profile::parse("p.toml", &text).expect("a profile");
    assert_eq!(profile.to_toml(), text);
    assert_eq!(profile.fits()[0].0, ["transport", "nccl", "allreduce-8"]);
    for (from, to, words) in [
        (
            "alpha_2",
            "alpha_3",
            "parameters` lacks `alpha_2`; add `alpha_2 = { value = …, unit = \"s\" }`",
        ),
        ("beta_1", "beta_01", "parameters` lacks `beta_1`; add"),
        ("from_2", "from_1", "parameters` lacks `from_2`; add"),
        (
            "value = 65536.0",
            "value = 0.0",
            "from_2` begins at or below the range before it; give ranges",
        ),
        ("gamma_2", "gamma_x", "gamma_x` is no parameter of this law; name it after its range"),
        ("gamma_2", "gamma_99999999999999999999", "is no parameter of this law; name it after"),
        ("gamma_2", "gamma_99999999999999", "parameters` lacks `from_3`; add"),
        ("unit = \"s/B\"", "unit = \"s\"", "beta_1` has the unit `s` instead of `s/B`"),
    ] {
        assert!(text.contains(from), "{text}");
        let message =
            Profile::parse("p.toml", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(message.contains(words), "{to}: {message}");
    }
}

/// System: copies alone at 8 GB/s, beside 4 threads that decode at 6.4 GB/s and beside 12 at 4 GB/s; later without copies alone.
/// Expectation: time per byte is interpolated by threads, and constant beyond the last; copies from pinned memory stand in for
/// staged ones.
#[test]
fn copies_beside_decoding_are_interpolated_by_the_number_of_threads() {
    let of = |rate: f64| Fit {
        parameters: [("bandwidth".to_owned(), parameter(rate, "B/s"))].into(),
        ..Fit::default()
    };
    let named = |kind: &str| {
        let names = [("", 8e9), ("-beside-decode-4", 6.4e9), ("-beside-decode-12", 4e9)];
        let all = names.map(|(name, rate)| (format!("{kind}{name}"), of(rate)));
        let other = [("staged-beside-step-decode-2".to_owned(), of(1e9))];
        Profile {
            copy: [("cuda-0".to_owned(), all.into_iter().chain(other).collect())].into(),
            ..profile()
        }
    };
    for kind in ["staged", "pinned"] {
        let profile = named(kind);
        for (threads, nanoseconds) in
            [(0, 0.125), (2, 0.140625), (4, 0.15625), (8, 0.203125), (12, 0.25), (64, 0.25)]
        {
            let found = 1e9 / profile.copy_bandwidth(threads).expect("measured");
            assert!((found - nanoseconds).abs() < 1e-9, "{kind}, {threads}: {found}");
        }
    }
    assert_eq!(named("pageable").copy_bandwidth(4), None);
}
