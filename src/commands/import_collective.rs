//! `forebay import nccl-tests`, `osu`, `imb`, `deepbench`: reads measured times of collectives.

use super::{Failure, input, output};
use crate::cli::{CollectiveFormat, Collectives};
use crate::fit;
use crate::import::collective::{self, Benchmark, Collective, CollectiveDefaults};
use crate::input::FileKind;
use crate::measurement::Sample;
use crate::profile::{Host, Provenance};
use std::path::Path;

pub(super) fn execute(of: Benchmark, from: &Collectives, quiet: bool) -> Result<(), Failure> {
    let wanted = wanted(of, from)?;
    let mut samples = Vec::new();
    for file in &from.files {
        samples.extend(read(of, file, &wanted, quiet)?);
    }
    let text = match from.format {
        CollectiveFormat::Samples => lines(&samples)?,
        CollectiveFormat::Profile => profile(&samples, from)?,
    };
    output::stdout(text.as_bytes())
}

/// Returns the values from the command line that apply where the files do not give them: name of the transport, collective, and
/// number of ranks.
fn wanted(of: Benchmark, from: &Collectives) -> Result<CollectiveDefaults, Failure> {
    let usual = match of {
        Benchmark::NcclTests => "nccl",
        Benchmark::Osu | Benchmark::Imb => "mpi",
        Benchmark::DeepBench => "deepbench",
    };
    let named = |word: &String| {
        Collective::named(word).ok_or_else(|| {
            let names = Collective::ALL.map(Collective::name).join(", ");
            Failure::Input(format!("--collective {word:?} is unknown; write one of {names}"))
        })
    };
    let transport = from.name.clone().unwrap_or_else(|| usual.to_owned());
    if transport.trim().is_empty() {
        return Err(Failure::Input(
            "--name is empty; write a name, or leave out --name".to_owned(),
        ));
    }
    let collective = from.collective.as_ref().map(named).transpose()?;
    Ok(CollectiveDefaults { transport, collective, ranks: from.ranks })
}

fn read(
    of: Benchmark,
    file: &Path,
    wanted: &CollectiveDefaults,
    quiet: bool,
) -> Result<Vec<Sample>, Failure> {
    let name = input::name(file);
    let text = input::text_or_standard_input(file, input::RECORDED)?;
    let own = match of {
        Benchmark::NcclTests => FileKind::NcclTests,
        Benchmark::Osu => FileKind::Osu,
        Benchmark::Imb => FileKind::Imb,
        Benchmark::DeepBench => FileKind::DeepBench,
    };
    let found = collective::read(of, &text, wanted).map_err(|error| {
        let hint = input::other_kind(&text, own);
        Failure::Input(format!("cannot use {name}: {error}{hint}"))
    })?;
    for what in &found.left_out {
        output::warn(quiet, &format!("{name}: left out {what}"));
    }
    for what in &found.notes {
        output::warn(quiet, &format!("{name}: {what}"));
    }
    Ok(found.samples)
}

fn lines(samples: &[Sample]) -> Result<String, Failure> {
    let mut text = String::new();
    for sample in samples {
        let line = serde_json::to_string(sample);
        text += &line.map_err(|error| Failure::Input(format!("cannot write JSON: {error}")))?;
        text.push('\n');
    }
    Ok(text)
}

fn profile(samples: &[Sample], from: &Collectives) -> Result<String, Failure> {
    let names = from.files.iter().filter_map(|file| file.file_name());
    let names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let provenance = Provenance {
        forebay: env!("CARGO_PKG_VERSION").to_owned(),
        plan: format!("imported from {}", names.join(", ")),
        ..Provenance::default()
    };
    let profile = fit::profile(samples, provenance, Host::default());
    if profile.transport.is_empty() {
        let what = format!("cannot fit {}: every row was excluded", names.join(", "));
        return Err(Failure::Input(what));
    }
    Ok(profile.to_toml())
}
