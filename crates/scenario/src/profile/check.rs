//! Checks of the values of a profile, beyond the structure of its TOML.

use super::{
    Fit, NODE_VALUES, Neighbours, NodeProfile, Parameter, Profile, ProfileProblem, Ratio, known,
};

/// Maximum value in a profile [SI unit]: more than any machine has.
const GREATEST: f64 = 1e18;
/// Maximum number of ratios, or of measured sizes, of a fit.
const MOST: usize = 1000;
/// Maximum number of bootstrap draws of a fit.
const DRAWS: usize = 100_000;

/// Returns all problems of a profile, without line numbers.
pub(super) fn check(profile: &Profile) -> Vec<ProfileProblem> {
    let mut log = Log::default();
    log.number("host.cores", profile.host.cores);
    log.number("host.memory", profile.host.memory);
    if let Some(Neighbours { beside, others, waited, throttled }) = &profile.neighbours {
        log.share("neighbours.beside", *beside);
        log.number("neighbours.others", *others);
        log.share("neighbours.waited", *waited);
        log.number("neighbours.throttled", *throttled);
    }
    for (path, fit) in profile.fits() {
        check_fit(&path.join("."), &path[0], fit, &mut log);
    }
    for (name, node) in &profile.node {
        check_node(&format!("node.{name}"), node, &mut log);
    }
    for (name, table) in &profile.throughput {
        table.check(&format!("throughput.{name}"), &mut log);
    }
    log.0
}

/// Problems that were found so far.
#[derive(Default)]
pub(super) struct Log(Vec<ProfileProblem>);

impl Log {
    pub(super) fn add(&mut self, key: &str, what: impl Into<String>, remedy: impl Into<String>) {
        let (what, remedy) = (what.into(), remedy.into());
        self.0.push(ProfileProblem { line: None, key: key.to_owned(), what, remedy });
    }

    /// Returns whether `value` is a number from 0 to [`GREATEST`]; otherwise records a problem.
    fn number(&mut self, key: &str, value: f64) -> bool {
        let what = match value {
            v if v.is_nan() => "is not a number",
            v if v < 0.0 => "is negative",
            v if v.is_infinite() => "is infinite",
            v if v > GREATEST => "is too large",
            _ => return true,
        };
        self.add(key, what, format!("give a number from 0 to {GREATEST:e} in the SI unit"));
        false
    }
}

impl Log {
    fn share(&mut self, key: &str, value: f64) {
        if self.number(key, value) && value > 1.0 {
            self.add(key, "is more than 1", "give a share from 0 to 1");
        }
    }
}

fn check_node(path: &str, node: &NodeProfile, log: &mut Log) {
    log.number(&format!("{path}.cores"), node.cores);
    log.number(&format!("{path}.memory"), node.memory);
    for (name, parameter) in &node.values {
        let key = format!("{path}.values.{name}");
        match NODE_VALUES.iter().find(|(known, _)| known == name) {
            Some((_, unit)) if *unit != parameter.unit => {
                let what = format!("has the unit `{}` instead of `{unit}`", parameter.unit);
                log.add(&key, what, format!("give the value in {unit}"));
            }
            Some(_) => check_parameter(&key, parameter, log),
            None => {
                let all = NODE_VALUES.map(|(name, _)| name).join(", ");
                log.add(&key, "is no value of a node", format!("write one of {all}"));
            }
        }
    }
}

fn check_fit(path: &str, kind: &str, fit: &Fit, log: &mut Log) {
    let parameters = format!("{path}.parameters");
    for known in known::of(kind).iter().filter(|known| known.required) {
        if !fit.parameters.contains_key(known.name) {
            let remedy =
                format!("add `{} = {{ value = …, unit = \"{}\" }}`", known.name, known.unit);
            log.add(&parameters, format!("lacks `{}`", known.name), remedy);
        }
    }
    if kind == "cores" && fit.parameters.is_empty() {
        log.add(&parameters, "is empty", "add `speed_2 = { value = …, unit = \"1\" }`");
    }
    if kind == "transport" {
        check_ranges(&parameters, fit, log);
        let sizes = fit.parameters.keys().filter(|name| known::measured_size(name).is_some());
        if sizes.count() > MOST {
            log.add(
                &parameters,
                format!("has more than {MOST} measured sizes"),
                "keep fewer sizes",
            );
        }
    }
    for (name, parameter) in &fit.parameters {
        let key = format!("{parameters}.{name}");
        match known::unit(kind, name) {
            Ok(unit) if unit != parameter.unit => {
                let what = format!("has the unit `{}` instead of `{unit}`", parameter.unit);
                log.add(&key, what, format!("give the value in {unit}"));
            }
            Ok(_) => check_parameter(&key, parameter, log),
            Err(remedy) => log.add(&key, "is no parameter of this law", remedy),
        }
    }
    log.number(&format!("{path}.residual"), fit.residual);
    if let Some(alone) = &fit.alone {
        log.share(&format!("{path}.alone.share"), alone.share);
        for (name, value) in &alone.values {
            let key = format!("{path}.alone.values.{name}");
            if fit.parameters.contains_key(name) {
                log.number(&key, *value);
            } else {
                log.add(&key, "is no parameter of this fit", "leave it out");
            }
        }
    }
    check_ratios(&format!("{path}.ratios"), kind, fit, log);
    for (name, ends) in &fit.range {
        let key = format!("{path}.range.{name}");
        if ends.iter().all(|end| log.number(&key, *end)) && ends[0] > ends[1] {
            log.add(&key, "ends before it begins", "give the smaller end first");
        }
    }
    check_draws(&format!("{path}.draws"), fit, log);
}

/// Checks that only steps have ratios of measured to fitted times, and that these are in order and possible.
fn check_ratios(key: &str, kind: &str, fit: &Fit, log: &mut Log) {
    if fit.ratios.is_empty() {
        return;
    }
    if kind != "step" {
        return log.add(
            key,
            "has no meaning here",
            "leave it out: only fits of steps have `ratios`",
        );
    }
    let ascend = fit.ratios.windows(2).all(|pair| pair[0].batch < pair[1].batch);
    let possible =
        |of: &Ratio| of.batch > 0.0 && of.batch <= GREATEST && Ratio::POSSIBLE.contains(&of.ratio);
    if !ascend || fit.ratios.len() > MOST || !fit.ratios.iter().all(possible) {
        let [least, most] = [Ratio::POSSIBLE.start(), Ratio::POSSIBLE.end()];
        let remedy = format!(
            "give at most {MOST} pairs of `batch` and `ratio`, batches ascending, ratios from {least} to {most}"
        );
        log.add(key, "is no list of batches with ratios", remedy);
    }
}

/// Checks that every range of message sizes has its parameters, and begins above the range before it.
fn check_ranges(key: &str, fit: &Fit, log: &mut Log) {
    let numbers = fit.parameters.keys().filter_map(|name| known::of_range(name));
    let last = numbers.map(|(number, _)| number).max().unwrap_or(1);
    let mut before = 0.0;
    for number in 1..=last {
        let needed: &[&str] =
            if number == 1 { &["alpha", "beta"] } else { &["from", "alpha", "beta"] };
        for name in needed.iter().map(|name| format!("{name}_{number}")) {
            if !fit.parameters.contains_key(&name) {
                let unit = known::of_range(&name).map_or("", |(_, unit)| unit);
                let remedy = format!("add `{name} = {{ value = …, unit = \"{unit}\" }}`");
                return log.add(key, format!("lacks `{name}`"), remedy);
            }
        }
        let from = fit.value(&format!("from_{number}")).unwrap_or(0.0);
        if number > 1 && from <= before {
            let what = "begins at or below the range before it";
            log.add(
                &format!("{key}.from_{number}"),
                what,
                "give ranges in ascending order of sizes",
            );
        }
        before = from;
    }
}

fn check_parameter(key: &str, parameter: &Parameter, log: &mut Log) {
    let Parameter { value, unit, ci95, unidentified } = parameter;
    // Only a rate may be infinite, and then `unidentified` gives the reason.
    let unlimited = unidentified.is_some() && unit.ends_with("/s");
    if value.is_infinite() && *value > 0.0 && !unlimited {
        let remedy = "give a number, or write `unidentified = \"why\"` for a rate without limit";
        return log.add(key, "is infinite", remedy);
    }
    if !value.is_infinite() && !log.number(key, *value) {
        return;
    }
    if *value < 0.0 {
        return log.add(key, "is negative", "give a number of at least 0");
    }
    let Some([low, high]) = ci95 else { return };
    if low.is_nan() || high.is_nan() || *low < 0.0 || (high.is_infinite() && !unlimited) {
        log.add(key, "has an invalid interval", "give two numbers, or leave out ci95");
    } else if low > high {
        log.add(key, "has an interval that ends before it begins", "give the smaller end first");
    } else if !(low..=high).contains(&value) {
        log.add(key, "lies outside of its interval", "correct value or ci95");
    }
}

fn check_draws(key: &str, fit: &Fit, log: &mut Log) {
    let count = fit.parameters.len();
    let parameters: Vec<&Parameter> = fit.parameters.values().collect();
    if fit.draws.len() > DRAWS {
        log.add(key, "has too many draws", format!("keep at most {DRAWS}"));
    }
    for (index, draw) in fit.draws.iter().enumerate() {
        if draw.len() != count {
            let what = format!(
                "draw {} has {} values, but the fit has {count} parameters",
                index + 1,
                draw.len()
            );
            return log.add(key, what, "give a value for each, in the order of their names");
        }
        let unlimited = |at: usize| parameters[at].unidentified.is_some();
        let bad = |(at, value): (usize, &f64)| {
            let infinite = value.is_infinite() && unlimited(at);
            value.is_nan() || *value < 0.0 || (*value > GREATEST && !infinite)
        };
        if draw.iter().enumerate().any(bad) {
            let what = format!("draw {} has an invalid value", index + 1);
            return log.add(key, what, "leave out the draw");
        }
    }
}
