//! `forebay profile`: shows, compares, fits and draws profiles of machines.

use super::cluster::cost_of_nodes;
use super::paths::Paths;
use super::{Failure, input, output, plot, profile_figure, profile_text, run_figure};
use crate::cli::{ProfileArgs, ProfileCommand, ReportFormat};
use crate::cli::{ProfileDiff, ProfileFit, ProfileNodes, ProfilePlot, ProfileShow};
use crate::fit;
use crate::input::shown;
use crate::measurement::Sample;
use crate::plot::Figure;
use crate::profile::{Profile, Provenance, compare};
use serde::Serialize;
use std::fs;
use std::path::Path;

pub(super) fn execute(arguments: &ProfileArgs, quiet: bool) -> Result<(), Failure> {
    match &arguments.command {
        ProfileCommand::Show(arguments) => show(arguments),
        ProfileCommand::Diff(arguments) => diff(arguments),
        ProfileCommand::Fit(arguments) => refit(arguments, quiet),
        ProfileCommand::Plot(arguments) => draw(arguments, quiet),
        ProfileCommand::Nodes(arguments) => nodes(arguments),
    }
}

fn open(path: &Path) -> Result<Profile, Failure> {
    Profile::open(path).map_err(|error| Failure::Input(error.to_string()))
}

fn show(arguments: &ProfileShow) -> Result<(), Failure> {
    Paths::default().prints(true).reads("the profile", &arguments.profile).check()?;
    let profile = open(&arguments.profile)?;
    match arguments.format {
        ReportFormat::Text => output::text(&profile_text::show(&profile)),
        ReportFormat::Json => json(&profile),
    }
}

fn diff(arguments: &ProfileDiff) -> Result<(), Failure> {
    let profiles = [&arguments.before, &arguments.after];
    Paths::default().prints(true).reads_all("the profile", profiles).check()?;
    let changes = compare(&open(&arguments.before)?, &open(&arguments.after)?);
    match arguments.format {
        ReportFormat::Text => output::text(&profile_text::diff(&changes)),
        ReportFormat::Json => json(&changes),
    }
}

fn nodes(arguments: &ProfileNodes) -> Result<(), Failure> {
    let paths = Paths::default().prints(true).reads("the profile", &arguments.profile);
    paths.reads("the scenario", &arguments.scenario).check()?;
    let profile = open(&arguments.profile)?;
    if profile.node.is_empty() {
        let file = shown(&arguments.profile);
        let what = "has no nodes; `forebay calibrate --plan cluster` measures them";
        return Err(Failure::Input(format!("{file} {what}")));
    }
    output::text(&cost_of_nodes(&arguments.scenario, &profile)?)
}

/// Prints a value as JSON; infinite numbers become null.
fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Failure::Input(format!("cannot write JSON: {error}")))?;
    output::stdout(format!("{text}\n").as_bytes())
}

fn refit(arguments: &ProfileFit, quiet: bool) -> Result<(), Failure> {
    let paths = Paths::default().writes("--output", arguments.output.as_ref())?;
    let paths = paths.prints(arguments.output.is_none()).reads("the samples", &arguments.samples);
    paths.reads_all("--like", arguments.like.as_ref()).check()?;
    let samples = samples(&arguments.samples, quiet)?;
    let machine = |path| Profile::open_machine(path).map_err(|e| Failure::Input(e.to_string()));
    let like = arguments.like.as_deref().map(machine).transpose()?.unwrap_or_default();
    let name = arguments.samples.file_name().unwrap_or_default().to_string_lossy();
    let provenance = Provenance {
        forebay: env!("CARGO_PKG_VERSION").to_owned(),
        samples: name.into_owned(),
        ..like.provenance
    };
    let profile = fit::profile(&samples, provenance, like.host);
    if profile.fits().is_empty() {
        let file = shown(&arguments.samples);
        return Err(Failure::Input(format!("cannot fit {file}: the file has no usable samples")));
    }
    let text = profile.to_toml();
    match &arguments.output {
        None => output::stdout(text.as_bytes()),
        Some(path) => output::file(path, |to| to.write_all(text.as_bytes())),
    }
}

/// Reads the samples of a file, one per line. A last line without a line end was cut off and is left out.
fn samples(path: &Path, quiet: bool) -> Result<Vec<Sample>, Failure> {
    let text = input::text(path)?;
    let mut samples = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(sample) => samples.push(sample),
            Err(_) if !line.ends_with('\n') => {
                let what = format!("{}: the last line was cut off and is left out", shown(path));
                output::warn(quiet, &what);
            }
            Err(error) => {
                let (file, line) = (shown(path), index + 1);
                let what = format!("cannot read {file}: line {line} is no sample: {error}");
                return Err(Failure::Input(what));
            }
        }
    }
    Ok(samples)
}

fn draw(arguments: &ProfilePlot, quiet: bool) -> Result<(), Failure> {
    let profile = open(&arguments.profile)?;
    let beside = arguments.profile.parent().unwrap_or(Path::new(""));
    let directory = arguments.output.as_deref().unwrap_or(beside);
    if !directory.as_os_str().is_empty() {
        fs::create_dir_all(directory).map_err(|error| Failure::unwritable(directory, &error))?;
    }
    let named = beside.join(&profile.provenance.samples);
    let all = match profile.provenance.samples.is_empty() || !named.exists() {
        false => samples(&named, quiet)?,
        true => {
            output::warn(quiet, "the profile's samples are not there: only its fits are drawn");
            Vec::new()
        }
    };
    let mut paths = Paths::default().reads("the profile", &arguments.profile);
    paths = paths.reads("the samples", &named);
    let mut targets = Vec::new();
    let theme = plot::theme(arguments.theme);
    for (name, figure) in profile_figure::figures(&profile, &all) {
        let figure = Figure { theme, ..figure };
        for (kind, extension) in plot::kinds(arguments.format) {
            let target = directory.join(format!("{name}.{extension}"));
            paths = paths.writes_below("a figure", &target);
            targets.push((target, *kind, figure.clone()));
        }
    }
    paths.check()?;
    for (target, kind, figure) in targets {
        run_figure::save(&target, kind, &figure)?;
        output::warn(quiet, &format!("wrote {}", shown(&target)));
    }
    Ok(())
}
