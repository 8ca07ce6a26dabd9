//! Formats profiles as readable TOML: a line for each parameter, and a line for each draw.

use super::{Fit, Neighbours, Parameter, Profile, Ratio};
use std::collections::BTreeMap;

impl Profile {
    /// Returns the profile as TOML, which reads back as an equal profile.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let provenance = &self.provenance;
        let mut text = "# Parameters of a machine, fitted by forebay; SI units.\n".to_owned();
        text += "[provenance]\n";
        let lines = [
            ("machine", &provenance.machine),
            ("forebay", &provenance.forebay),
            ("date", &provenance.date),
            ("plan", &provenance.plan),
            ("samples", &provenance.samples),
        ];
        for (key, value) in lines {
            text += &format!("{key} = {}\n", string(value));
        }
        table(&mut text, "provenance.versions", &provenance.versions, |value| string(value));
        let host = &self.host;
        text += &format!(
            "\n[host]\ncores = {}\nmemory = {}\n",
            number(host.cores),
            number(host.memory)
        );
        if let Some(Neighbours { beside, others, waited, throttled }) = &self.neighbours {
            text += "\n[neighbours]\n";
            let lines = [
                ("beside", beside),
                ("others", others),
                ("waited", waited),
                ("throttled", throttled),
            ];
            lines.iter().for_each(|(key, value)| text += &format!("{key} = {}\n", number(**value)));
        }
        for (path, fit) in self.fits() {
            let path: Vec<String> = path.iter().map(|name| key(name)).collect();
            write_fit(&mut text, &path.join("."), fit);
        }
        for (name, node) in &self.node {
            let path = format!("node.{}", key(name));
            let (cores, memory) = (number(node.cores), number(node.memory));
            text += &format!("\n[{path}]\ncores = {cores}\nmemory = {memory}\n");
            table(&mut text, &format!("{path}.values"), &node.values, inline);
        }
        self.throughput.iter().for_each(|(name, table)| table.write(&mut text, name));
        text
    }
}

fn write_fit(text: &mut String, path: &str, fit: &Fit) {
    let Fit { parameters, samples, residual, alone, ratios, range, draws } = fit;
    *text += &format!("\n[{path}]\nsamples = {samples}\nresidual = {}\n", number(*residual));
    if let Some(alone) = alone {
        let one = |(name, value): (&String, &f64)| format!("{} = {}", key(name), number(*value));
        let values: Vec<String> = alone.values.iter().map(one).collect();
        let (share, values) = (number(alone.share), values.join(", "));
        *text += &format!("alone = {{ share = {share}, values = {{ {values} }} }}\n");
    }
    if !ratios.is_empty() {
        let one = |of: &Ratio| {
            format!("{{ batch = {}, ratio = {} }}", number(of.batch), number(of.ratio))
        };
        let all: Vec<String> = ratios.iter().map(one).collect();
        *text += &format!("ratios = [{}]\n", all.join(", "));
    }
    if !draws.is_empty() {
        let names: Vec<&str> = parameters.keys().map(String::as_str).collect();
        *text += &format!("# {}\ndraws = [\n", names.join(", ").replace(char::is_control, " "));
        draws.iter().for_each(|draw| *text += &format!("  {},\n", list(draw)));
        *text += "]\n";
    }
    *text += &format!("[{path}.parameters]\n");
    for (name, parameter) in parameters {
        *text += &format!("{} = {}\n", key(name), inline(parameter));
    }
    table(text, &format!("{path}.range"), range, |ends| list(ends));
}

/// Writes a table, unless it is empty.
fn table<T>(text: &mut String, path: &str, of: &BTreeMap<String, T>, write: impl Fn(&T) -> String) {
    if of.is_empty() {
        return;
    }
    *text += &format!("[{path}]\n");
    for (name, value) in of {
        *text += &format!("{} = {}\n", key(name), write(value));
    }
}

fn inline(parameter: &Parameter) -> String {
    let Parameter { value, unit, ci95, unidentified } = parameter;
    let mut text = format!("{{ value = {}, unit = {}", number(*value), string(unit));
    if let Some(ends) = ci95 {
        text += &format!(", ci95 = {}", list(ends));
    }
    if let Some(why) = unidentified {
        text += &format!(", unidentified = {}", string(why));
    }
    text + " }"
}

pub(super) fn list(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
    format!("[{}]", values.join(", "))
}

/// Returns the shortest text that reads back as this number.
fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "nan".to_owned(),
        v => format!("{v:?}"),
    }
}

/// Formats `text` as a TOML basic string: quoted and escaped.
fn string(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escape).collect::<String>())
}

/// Formats `name` as a TOML key, quoted if it must be.
pub(super) fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { string(name) }
}
