//! The section of a profile.

use super::provenance::ORIGIN;
use super::read::counted;
use crate::commands::{profile_figure, profile_text};
use crate::measurement::Sample;
use crate::page::{Block, Cell, Column, Part, Section, Table};
use crate::profile::Profile;
use crate::report::format::{bytes, count, share};
use std::fs;
use std::path::Path;

/// Samples are read from a file of at most this size [B]; without them figures show fits only.
const LARGEST: u64 = 64 << 20;

/// Returns the section of the profile at `path`.
pub(super) fn section(path: &Path, profile: &Profile) -> Section {
    let fits = profile.fits();
    let mut doubts: Vec<(&str, Vec<String>)> = Vec::new();
    for (path, fit) in &fits {
        for (name, of) in &fit.parameters {
            let Some(why) = of.unidentified.as_deref() else { continue };
            let name = format!("`{}.{name}`", path.join("."));
            match doubts.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(name),
                None => doubts.push((why, vec![name])),
            }
        }
    }
    let warning = |(why, names): &(&str, Vec<String>)| {
        format!("The measurements do not identify {}: {why}.", names.join(", "))
    };
    let warnings = doubts.iter().map(warning).collect();
    let worst = fits.iter().max_by(|a, b| a.1.residual.total_cmp(&b.1.residual));
    let parameters: usize = fits.iter().map(|(_, fit)| fit.parameters.len()).sum();
    let machine = match profile.provenance.machine.as_str() {
        "" => "a machine",
        named => named,
    };
    let mut answer = vec![format!(
        "{} with {} describe how fast {machine} reads, decodes and computes.",
        counted(fits.len() as f64, "fit"),
        counted(parameters as f64, "parameter")
    )];
    answer.extend(worst.map(|(path, fit)| {
        let (path, residual) = (path.join("."), share(fit.residual));
        format!(
            "The fit that meets its measurements worst is `{path}`: its residual is {residual}."
        )
    }));
    let samples = samples(path, profile);
    let figures = profile_figure::figures(profile, &samples);
    let figures = figures.into_iter().map(|(_, figure)| Block::Figure(Box::new(figure)));
    let parts = vec![
        Part::new("Fits", figures.collect()),
        Part::new("Parameters", vec![parameter_table(profile)]),
        Part::new("How sure is it?", certainty(profile, samples.len())),
        Part::new(ORIGIN, origin(profile)),
    ];
    Section { title: format!("Profile of {machine}"), answer, warnings, parts }
}

/// Returns the samples that lie beside the profile; none if they are not there or not usable, because a page of the fits alone is still
/// right.
fn samples(path: &Path, profile: &Profile) -> Vec<Sample> {
    let name = &profile.provenance.samples;
    let file = path.parent().unwrap_or(Path::new("")).join(name);
    let is_small = fs::metadata(&file).is_ok_and(|of| of.is_file() && of.len() <= LARGEST);
    if name.is_empty() || !is_small {
        return Vec::new();
    }
    let text = fs::read_to_string(&file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn parameter_table(profile: &Profile) -> Block {
    let columns = vec![
        Column::text("fit"),
        Column::text("parameter"),
        Column::number("value"),
        Column::number("95 % interval"),
        Column::number("residual"),
        Column::number("trials"),
    ];
    let mut rows = Vec::new();
    for (path, fit) in profile.fits() {
        for (name, of) in profile_text::by_number(&fit.parameters) {
            let mark = if of.unidentified.is_some() { " ?" } else { "" };
            let value = profile_text::shown(of.value, &of.unit) + mark;
            rows.push(vec![
                Cell::from(path.join(".")),
                Cell::from(name.as_str()),
                Cell { text: value, value: Some(of.value).filter(|value| value.is_finite()) },
                Cell::from(profile_text::interval(of)),
                Cell::number(Some(fit.residual), share),
                Cell::number(Some(fit.samples as f64), count),
            ]);
        }
    }
    let caption = "Fitted parameters; a ? marks what the measurements do not identify".to_owned();
    Block::Table(Table { caption, columns, rows })
}

fn certainty(profile: &Profile, samples: usize) -> Vec<Block> {
    let mut all = vec![match samples {
        0 => "Figures show the fits alone: the samples are not beside the profile.".to_owned(),
        number => format!("Figures show {number} samples beside the fits."),
    }];
    for (path, fit) in profile.fits() {
        let range = profile_text::range(path.as_slice(), fit);
        all.extend((!range.trim().is_empty()).then(|| range.trim().to_owned()));
    }
    let beside = profile.neighbours.as_ref().map(profile_text::neighbours);
    all.extend(beside.map(|text| text.trim().to_owned()));
    vec![Block::List(all)]
}

fn origin(profile: &Profile) -> Vec<Block> {
    let of = &profile.provenance;
    let facts = [
        ("Machine", &of.machine),
        ("Date", &of.date),
        ("Plan", &of.plan),
        ("Samples", &of.samples),
        ("Version of forebay", &of.forebay),
    ];
    let known = facts.iter().filter(|(_, value)| !value.is_empty());
    let mut all: Vec<String> = known.map(|(what, value)| format!("{what}: {value}.")).collect();
    all.extend(of.versions.iter().map(|(what, version)| format!("{what}: {version}.")));
    let host = &profile.host;
    all.push(format!("{} cores, {} of memory.", count(host.cores), bytes(host.memory)));
    all.push("Profiles come from `forebay calibrate` or `forebay profile fit`.".to_owned());
    vec![Block::List(all)]
}
