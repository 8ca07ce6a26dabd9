//! `forebay doctor`: what this machine offers, and what is missing.

use super::{Failure, output};
use crate::cli::{Doctor, ReportFormat};
use crate::input::shown;
use crate::probe::gpu::{Card, Found, Survey};
use crate::probe::{Machine, Spoiler, spoilers};
use serde_json::{Value, json};
use std::path::Path;

/// Probes that need no GPU.
const ON_CORES: [&str; 7] = ["clock", "host", "queue", "read", "decode", "step", "cache"];
/// Probes that need a GPU.
const ON_GPUS: [&str; 3] = ["step on cuda", "copy", COLLECTIVE];
/// The probe that needs NCCL in addition to a GPU.
const COLLECTIVE: &str = "collective";

/// Says what works without what is missing.
const NOT_NEEDED: &str = "simulating (`run`, `sweep`, `plot`) needs nothing of what is missing: only calibrating and live runs on GPUs do";

pub(super) fn execute(doctor: &Doctor) -> Result<(), Failure> {
    let (machine, survey) = (Machine::look(Path::new(".")), Survey::look());
    let spoilers = spoilers(Path::new("."));
    match doctor.format {
        ReportFormat::Text => output::text(&(text(&machine, &survey) + &outlook(&spoilers))),
        ReportFormat::Json => {
            let json = serde_json::to_string_pretty(&as_json(&machine, &survey, &spoilers));
            output::stdout((json.unwrap_or_default() + "\n").as_bytes())
        }
    }
}

fn text(machine: &Machine, survey: &Survey) -> String {
    let mut lines = vec![machine.words()];
    lines.push(match &survey.driver {
        Ok(version) => {
            let release = survey.driver_release.as_deref().unwrap_or("version unknown");
            format!("NVIDIA driver: {release}, CUDA {version}")
        }
        Err(why) => format!("NVIDIA driver: {why}"),
    });
    lines.extend(
        survey.gpus.iter().enumerate().map(|(i, card)| format!("cuda:{i}: {}", words(card))),
    );
    lines.extend(survey.libraries.iter().map(library));
    lines.extend(match &survey.nccl {
        Ok(version) => Some(format!("NCCL: {version}")),
        // If NCCL is missing for the same reason as the driver, the reason is printed only once.
        Err(why) => (survey.driver.as_ref().err() != Some(why)).then(|| why.clone()),
    });
    lines.push(format!("probes that can run: {}", ready(survey).join(", ")));
    let can = ready(survey);
    let cannot: Vec<&str> = ON_GPUS.into_iter().filter(|probe| !can.contains(probe)).collect();
    if !cannot.is_empty() {
        lines.push(format!("probes that cannot: {}", cannot.join(", ")));
        lines.push(NOT_NEEDED.to_owned());
    }
    lines.join("\n") + "\n"
}

/// Describes a GPU in one line.
fn words(card: &Card) -> String {
    let gigabytes = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
    let mut parts = vec![card.name.clone()];
    if let Some(version) = &card.capability {
        parts.push(format!("compute {version}"));
    }
    if let Some((all, free)) = card.memory {
        parts.push(format!("{:.1} GiB, {:.1} GiB free", gigabytes(all), gigabytes(free)));
    }
    if let (Some(now), Some(most)) = (card.clock, card.most_clock) {
        parts.push(format!("{:.0} of {:.0} MHz", now / 1e6, most / 1e6));
    }
    if let Some(degrees) = card.temperature {
        parts.push(format!("{degrees} °C"));
    }
    if !card.throttled.is_empty() {
        parts.push(format!("held down by {}", card.throttled.join(", ")));
    }
    parts.join(", ")
}

fn library(of: &Found) -> String {
    let version = of.version.as_deref().unwrap_or("present");
    match &of.place {
        Ok(Some(path)) => format!("{}: {version}, {}", of.name, shown(path)),
        Ok(None) => format!("{}: {version}, found by the system's loader", of.name),
        Err(missing) => missing.clone(),
    }
}

/// Returns the probes that can run on this machine.
fn ready(survey: &Survey) -> Vec<&'static str> {
    let fine =
        |probe: &&&str| survey.ready().is_ok() && (**probe != COLLECTIVE || survey.nccl.is_ok());
    ON_CORES.iter().chain(ON_GPUS.iter().filter(fine)).copied().collect()
}

/// Returns the lines that say what would spoil a calibration in this directory.
fn outlook(spoilers: &[Spoiler]) -> String {
    let line = |of: &Spoiler| format!("a calibration here: {}: {}\n", of.about, of.text);
    match spoilers.is_empty() {
        true => "a calibration here: nothing that would spoil it was found\n".to_owned(),
        false => spoilers.iter().map(line).collect(),
    }
}

fn as_json(machine: &Machine, survey: &Survey, spoilers: &[Spoiler]) -> Value {
    let spoiler = |of: &Spoiler| json!({ "about": of.about, "text": of.text });
    let card = |card: &Card| {
        json!({
            "name": card.name,
            "memory": card.memory.map(|(all, _)| all),
            "memory_free": card.memory.map(|(_, free)| free),
            "compute_capability": card.capability,
            "clock": card.clock,
            "clock_max": card.most_clock,
            "temperature": card.temperature,
            "throttled": card.throttled,
        })
    };
    let found = |of: &Found| {
        json!({
            "name": of.name,
            "file": of.file,
            "version": of.version,
            "path": of.place.as_ref().ok().and_then(|path| path.as_deref()),
            "missing": of.place.as_ref().err(),
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "processor": machine.model,
        "cores": machine.cores,
        "memory": machine.memory,
        "kernel": machine.kernel,
        "file_system": machine.file_system,
        "cuda": survey.driver.as_ref().ok(),
        "cuda_missing": survey.ready().err(),
        "gpus": survey.gpus.iter().map(card).collect::<Vec<_>>(),
        "nccl": survey.nccl.as_ref().ok(),
        "nccl_missing": survey.nccl.as_ref().err(),
        "libraries": survey.libraries.iter().map(found).collect::<Vec<_>>(),
        "folders": survey.folders,
        "probes": ready(survey),
        "spoils_calibration": spoilers.iter().map(spoiler).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_described_with_their_throttle_reasons() {
        let card = Card {
            name: "H100".into(),
            memory: Some((80 << 30, 79 << 30)),
            capability: Some("9.0".into()),
            clock: Some(1.2e9),
            most_clock: Some(1.98e9),
            temperature: Some(60),
            throttled: vec!["power limit".into()],
        };
        let expected = "H100, compute 9.0, 80.0 GiB, 79.0 GiB free, 1200 of 1980 MHz, 60 °C, held down by power limit";
        assert_eq!(words(&card), expected);
        assert_eq!(words(&Card { name: "G".into(), ..Card::default() }), "G");
    }
}
