//! The last line of `calibrate`: by how much the laws in a profile may be wrong, and what was not measured.

use crate::law::ReadLaw;
use crate::profile::{Fit, Profile};
use crate::report::format::share;
use crate::scenario::printable_line;

/// Returns a line that says within how much of the measured values the fitted laws hold, and what nothing is known of.
pub(super) fn line(profile: &Profile) -> String {
    let named = |kind: &str, name: &str, within: Option<f64>| {
        let name = printable_line(name);
        match within {
            Some(within) => format!("{kind} {name} within {}", share(within)),
            None => format!("{kind} {name} with an unknown error"),
        }
    };
    let read = profile.read.iter().map(|(name, fit)| named("reads", name, reads(fit)));
    let decode = profile.decode.iter().map(|(name, fit)| named("decoding", name, decoding(fit)));
    let steps = profile.step.iter().flat_map(|(model, devices)| {
        devices.iter().map(move |(device, fit)| {
            named("steps", &format!("{model} on {device}"), stepping(fit))
        })
    });
    let known: Vec<String> = read.chain(decode).chain(steps).collect();
    if known.is_empty() {
        return "trust: no reads, decoding or steps were measured: predictions take nothing from this profile\n".to_owned();
    }
    let beside = profile.neighbours.as_ref().filter(|of| of.beside > 0.0).map(|of| {
        format!(
            "; {} of the trials ran beside others, so this holds with such neighbours",
            share(of.beside)
        )
    });
    format!(
        "trust: {} (95 %, in the measured range){}; `forebay validate` measures how far predictions are off\n",
        known.join(", "),
        beside.unwrap_or_default()
    )
}

/// Returns the larger of the errors at the smallest and at the largest size, read by the most readers.
fn reads(fit: &Fit) -> Option<f64> {
    let (size, readers) = (fit.range.get("size")?, fit.range.get("readers")?[1]);
    let rate = |law: ReadLaw, size: f64| law.requests_per_second(size, readers);
    larger(size.map(|size| spread(fit, |fit| Some(rate(fit.read()?, size)))))
}

fn decoding(fit: &Fit) -> Option<f64> {
    let (bytes, pixels) = (fit.range.get("bytes")?, fit.range.get("pixels")?);
    let time =
        |end: usize| spread(fit, |fit| Some(fit.decode()?.core_seconds(bytes[end], pixels[end])));
    larger([time(0), time(1)])
}

fn stepping(fit: &Fit) -> Option<f64> {
    let batch = fit.range.get("batch")?;
    larger(batch.map(|batch| spread(fit, |fit| Some(fit.step()?.seconds(batch)))))
}

fn larger([a, b]: [Option<f64>; 2]) -> Option<f64> {
    Some(a?.max(b?))
}

/// Returns the largest relative deviation of 95 % of the fit's draws from its value; `None` without draws.
fn spread(fit: &Fit, value: impl Fn(&Fit) -> Option<f64>) -> Option<f64> {
    let centre = value(fit).filter(|value| *value > 0.0)?;
    let draws = (0..fit.draws.len()).filter_map(|draw| value(&fit.drawn(draw)));
    let mut off: Vec<f64> = draws.map(|value| (value / centre - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    crate::stats::quantile(&off, 0.95)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_trust_has_the_error_of_each_fit_and_names_what_is_unknown() {
        let text = include_str!("../../calibrate/profiles/example.toml");
        let mut profile = Profile::parse("example.toml", text).expect("a profile");
        let said = line(&profile);
        for part in
            ["trust: reads direct within 2", "decoding jpeg within", "steps lenet5 on cpu-1 within"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        profile.read.values_mut().for_each(|fit| fit.draws.clear());
        assert!(
            line(&profile).contains("reads direct with an unknown error"),
            "{}",
            line(&profile)
        );
        assert!(line(&Profile::default()).contains("no reads, decoding or steps were measured"));
    }
}
