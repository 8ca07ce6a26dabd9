use super::*;
use proptest::prelude::*;

fn time(text: &str) -> Result<f64, UnitError> {
    text.parse::<Quantity<Time>>().map(Quantity::si)
}

#[test]
fn bits_per_second_are_suggested_for_a_lower_case_b() {
    let said = |text: &str| text.parse::<Quantity<Bandwidth>>().expect_err("unknown").to_string();
    for text in ["25 Gb/s", "25 Gbps"] {
        assert!(said(text).contains("`Gbit/s`?"), "{}", said(text));
    }
    assert!(said("25 gB/s").contains("`GB/s`?"), "{}", said("25 gB/s"));
}

#[test]
fn units_are_suggested_for_their_names_in_words() {
    let said = |text: &str| time(text).expect_err("unknown").to_string();
    for (text, unit) in [
        ("2 days", "d"),
        ("1 day", "d"),
        ("8 Hours", "h"),
        ("8 hrs", "h"),
        ("30 minutes", "min"),
        ("5 mins", "min"),
        ("5 m", "min"),
        ("3 seconds", "s"),
        ("3 secs", "s"),
        ("20 milliseconds", "ms"),
        ("20 MS", "ms"),
        ("9 usec", "us"),
    ] {
        assert!(said(text).contains(&format!("`{unit}`?")), "{}", said(text));
    }
    let rate = "5000 IOPS".parse::<Quantity<Rate>>().expect_err("unknown").to_string();
    assert!(rate.contains("`/s`?"), "{rate}");
    let size = "16 gigabytes".parse::<Quantity<Size>>().expect_err("unknown").to_string();
    assert!(size.contains("`GB`?"), "{size}");
    // Words of another kind of quantity are not suggested.
    assert!(!said("3 gigabytes").contains('?'), "{}", said("3 gigabytes"));
}

#[test]
fn every_unit_is_parsed_with_its_conversion_factor() {
    let table: [(&str, f64); 51] = [
        ("1 ps", 1e-12),
        ("1 ns", 1e-9),
        ("1 us", 1e-6),
        ("1 µs", 1e-6),
        ("1 ms", 1e-3),
        ("1 s", 1.0),
        ("1 min", 60.0),
        ("1 h", 3600.0),
        ("1 d", 86400.0),
        ("1 B", 1.0),
        ("1 kB", 1e3),
        ("1 MB", 1e6),
        ("1 GB", 1e9),
        ("1 TB", 1e12),
        ("1 PB", 1e15),
        ("1 KiB", 1024.0),
        ("1 MiB", 1048576.0),
        ("1 GiB", 1073741824.0),
        ("1 TiB", 1099511627776.0),
        ("1 PiB", 1125899906842624.0),
        ("1 B/s", 1.0),
        ("1 kB/s", 1e3),
        ("1 MB/s", 1e6),
        ("1 GB/s", 1e9),
        ("1 TB/s", 1e12),
        ("1 PB/s", 1e15),
        ("1 KiB/s", 1024.0),
        ("1 MiB/s", 1048576.0),
        ("1 GiB/s", 1073741824.0),
        ("1 TiB/s", 1099511627776.0),
        ("8 bit/s", 1.0),
        ("8 kbit/s", 1e3),
        ("8 Mbit/s", 1e6),
        ("8 Gbit/s", 1e9),
        ("8 Tbit/s", 1e12),
        ("1 /s", 1.0),
        ("1 /ms", 1e3),
        ("1 /us", 1e6),
        ("60 /min", 1.0),
        ("3600 /h", 1.0),
        ("1 k/s", 1e3),
        ("1 M/s", 1e6),
        ("1 G/s", 1e9),
        ("1 T/s", 1e12),
        ("1 mW", 1e-3),
        ("1 W", 1.0),
        ("1 kW", 1e3),
        ("1 MW", 1e6),
        ("7 samples", 7.0),
        ("1 sample", 1.0),
        ("4 batches", 4.0),
    ];
    for (text, expected) in table {
        assert_eq!(si(text), Some(expected), "{text}");
    }
    assert_eq!(si("40 k /s"), Some(4e4), "as reports print it");
    let known: usize = FAMILIES.iter().map(|(_, units)| units.len()).sum();
    assert_eq!(known, table.len() + 1, "every unit but `batch` is in the table");
}

#[test]
fn numbers_in_every_notation_are_parsed_exactly() {
    for (text, expected) in [
        ("15.6 us", 15.6e-6),
        ("0.92 ms", 0.92e-3),
        (" 1_000  s ", 1000.0),
        ("1e3ms", 1.0),
        ("-2 s", -2.0),
        ("+.5 h", 1800.0),
        ("2.5e-3 s", 2.5e-3),
    ] {
        assert_eq!(time(text), Ok(expected), "{text}");
    }
}

#[test]
fn errors_about_invalid_quantities_explain_the_problem() {
    for (text, expected) in [
        ("", "does not begin with a number"),
        ("fast", "does not begin with a number"),
        ("_ s", "does not begin with a number"),
        ("nan s", "not a finite number"),
        ("-inf", "not a finite number"),
        ("1e999 s", "too large"),
        ("3", "a time needs a unit: one of ps, ns, us"),
        ("3 MS", "`MS` is not a unit of a time (`ms`?)"),
        ("3 sec", "`sec` is not a unit of a time"),
        ("3 GB/s", "`GB/s` is a unit of a bandwidth, but a time is expected"),
    ] {
        let error = time(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn formatted_quantities_read_back_exactly(value in proptest::num::f64::NORMAL) {
        let quantity = Quantity::<Bandwidth>::new(value).expect("normal numbers are finite");
        prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
        let quantity = Quantity::<Time>::new(value).expect("normal numbers are finite");
        prop_assert_eq!(quantity.to_string().parse(), Ok(quantity));
    }

    #[test]
    fn any_text_is_parsed_or_rejected_as_a_quantity_without_panic(text in "\\PC{0,40}") {
        let _ = text.parse::<Quantity<Size>>();
        let _ = si(&text);
    }
}

#[test]
fn times_are_read_as_reports_write_them() {
    // Expectation: several units, the largest first; nothing else is added up.
    let time = |text: &str| text.parse::<Quantity<Time>>().map(Quantity::si);
    assert_eq!(time("1 min 15 s"), Ok(75.0));
    assert_eq!(time("2 d 3 h 1.5 min"), Ok(2.0 * 86400.0 + 3.0 * 3600.0 + 90.0));
    assert_eq!("6 min 40 s".parse::<Quantity<LongTime>>().map(Quantity::si), Ok(400.0));
    for wrong in ["15 s 1 min", "1 min 15", "1 min -5 s", "1 min 5 s 5 s", "1 min 5 GB"] {
        assert!(time(wrong).is_err(), "{wrong}");
    }
    assert!("1 GB 5 MB".parse::<Quantity<Size>>().is_err());
}

#[test]
fn wrong_sums_of_times_are_reported_as_sums() {
    for text in ["-1 min 5 s", "1 min -5 s", "15 s 1 min", "1 min 5 s 5 s"] {
        let error = time(text).expect_err(text).to_string();
        assert!(error.contains("the larger unit first, without signs"), "{text}: {error}");
    }
    assert_eq!(time("1e308 d 1 h"), Err(UnitError::TooLarge));
    assert_eq!(time("1 h 1e999 s"), Err(UnitError::TooLarge));
    let unknown = time("1 min 5 secs").expect_err("no such unit").to_string();
    assert!(unknown.contains("`secs` is not a unit of a time (`s`?)"), "{unknown}");
    let size = "1 GB 5 MB".parse::<Quantity<Size>>().expect_err("no sum").to_string();
    assert!(size.contains("is not a unit of a size"), "{size}");
}

#[test]
fn parts_of_sums_of_times_are_read_in_every_notation() {
    for (text, expected) in
        [("1_0 min 1_0 s", 610.0), (" 1min  15s ", 75.0), ("1e0 h .5 min", 3630.0)]
    {
        assert_eq!(time(text), Ok(expected), "{text}");
        assert_eq!(si(text), Some(expected), "{text}");
    }
}

#[test]
fn the_schema_accepts_times_of_several_units_and_no_other_sums() {
    let pattern = |schema: schemars::Schema| {
        schema.to_value()["pattern"].as_str().expect("a pattern").to_owned()
    };
    for (times, units) in [(schema::<Time>(), "h|d"), (schema::<LongTime>(), "h|d|y")] {
        let (pattern, units) = (pattern(times), format!("(ps|ns|us|µs|ms|s|min|{units})"));
        assert_eq!(pattern.matches(&units).count(), 2, "{pattern}");
        assert!(pattern.ends_with(&format!(r"{units})*\s*$")), "{pattern}");
    }
    assert_eq!("1 y 5 d".parse::<Quantity<LongTime>>().map(Quantity::si), Ok(370.0 * 86400.0));
    assert!(pattern(schema::<Size>()).ends_with(r"TiB|PiB)\s*$"));
}

#[test]
fn quantities_times_a_factor_keep_the_units_of_the_text() {
    for (text, factor, expected) in [
        ("25 GB/s", 2.0, Some("50 GB/s")),
        ("800 MB/s", 2.0, Some("1600 MB/s")),
        ("1.7 ms", 0.5, Some("0.85 ms")),
        ("0.1 s", 3.0, Some("0.3 s")),
        ("1 GB", 1.0 / 3.0, Some("0.333333 GB")),
        ("1048576 B", 3.0, Some("3145728 B")),
        ("40 k /s", 2.0, Some("80 k /s")),
        ("1 min 15 s", 2.0, Some("2 min 30 s")),
        ("1 min 15 s", 0.5, Some("37.5 s")),
        ("1 h 59 min 30 s", 2.0, Some("3 h 59 min")),
        ("2000 samples", 0.5, Some("1000 samples")),
        ("1 batch", 2.0, Some("2 batches")),
        ("2 batches", 0.5, Some("1 batch")),
        ("3 samples", 1.1, Some("4 samples")),
        ("3 samples", 0.9, Some("2 samples")),
        ("0 s", 2.0, None),
        ("3 ms", 1.0, None),
        ("3", 2.0, None),
        ("circular", 2.0, None),
        ("3 parsecs", 2.0, None),
    ] {
        assert_eq!(scaled(text, factor).as_deref(), expected, "{factor} times {text}");
    }
}

#[test]
fn amounts_in_si_units_are_written_in_the_unit_with_the_shortest_text() {
    assert_eq!(natural::<Bandwidth>(50e9).as_deref(), Some("50 GB/s"));
    assert_eq!(natural::<Time>(1.0 / 3.0).as_deref(), Some("333.333 ms"));
    assert_eq!(natural::<Time>(0.0005).as_deref(), Some("500 us"));
    assert_eq!(natural::<Rate>(80e3).as_deref(), Some("80 k/s"));
    assert_eq!(natural::<Size>(1024.0 * 1024.0).as_deref(), Some("1 MiB"));
    assert_eq!(natural::<Batches>(1.0).as_deref(), Some("1 batch"));
    assert_eq!(natural::<Samples>(2000.0).as_deref(), Some("2000 samples"));
    assert_eq!(natural::<Size>(f64::INFINITY), None);
}

#[test]
fn all_spellings_of_an_amount_are_the_same_number() {
    // System: numbers of one to five digits, in seconds, milliseconds and microseconds. Expectation: the nearest double, the same for all.
    for number in (1..100_000_u32).step_by(7) {
        let [seconds, milli, micro] = [
            format!("{}.{:05} s", number / 100_000, number % 100_000),
            format!("{}.{:02} ms", number / 100, number % 100),
            format!("{} us", number * 10),
        ]
        .map(|text| text.parse::<Quantity<Time>>().expect("a time"));
        assert_eq!((seconds, seconds), (milli, micro), "{number}");
    }
}
