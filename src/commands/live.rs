//! `forebay live`: runs one scenario on this machine, one replication after the other.

use super::paths::Paths;
use super::points::{self, Opened};
use super::{Failure, input, interrupt, output};
use crate::cli::Live;
use crate::live::{self, Event, Settings, Source, Store};
use crate::report;
use crate::scenario::{Override, Value};
use std::path::Path;
use std::time::Instant;

pub(super) fn execute(args: &Live, quiet: bool) -> Result<(), Failure> {
    let paths = Paths::default().writes("--output", args.output.as_ref())?;
    let paths = paths.writes("--trace", args.trace.as_ref())?.prints(args.output.is_none());
    let mut opened = Opened::open(&args.scenario, &points::texts(&args.changes))?;
    if let Some(replications) = args.replications {
        opened.add(Override::new("run.replications", replications.into()));
    }
    let scenario = opened.resolve_live()?;
    opened.read_by(paths).reads_below("--data", args.data.as_ref()).check()?;
    if let (Some(path), Some(profile)) = (opened.profile_path(), opened.profile()?)
        && input::is_read_once(&path)
    {
        // The profile comes from a pipe, which has been read. The processes of the run read the profile, too: give them a copy
        // in memory.
        let copy = input::in_memory(&profile.to_toml())?;
        opened.add(Override::new("profile", Value::from(copy.to_string_lossy().as_ref())));
    }
    let source = Source {
        name: opened.name().to_owned(),
        text: opened.text().to_owned(),
        overrides: opened.overrides().to_vec(),
    };
    let executable = std::env::current_exe().map_err(|error| {
        Failure::Machine(format!("cannot find the path of the program `forebay` itself: {error}"))
    })?;
    let settings = Settings {
        directory: args.directory.as_deref().unwrap_or(Path::new(".")),
        data: args.data.as_deref(),
        named: args.directory.is_some() || args.data.is_some(),
        trace: args.trace.is_some(),
        executable: &executable,
        stop: interrupt::careful_flag(),
    };
    let begin = Instant::now();
    let mut outcomes = Vec::new();
    let bar = points::progress(u64::from(scenario.run.replications), quiet);
    let mut on = |event| match event {
        Event::Note(note) => output::warn(quiet, &note),
        Event::Generated(..) => {}
        Event::Finished(..) => bar.inc(1),
    };
    let ended =
        live::run(&scenario, &source, &settings, &mut Store::default(), &mut outcomes, &mut on);
    bar.finish_and_clear();
    let wall_time = begin.elapsed().as_secs_f64();
    let interrupted = match ended {
        Ok(()) => false,
        Err(live::Failure::Interrupted) if !outcomes.is_empty() => true,
        Err(failure) => return Err(failure.into()),
    };
    let report = report::summarise(&scenario, &outcomes, wall_time);
    if let Some(path) = &args.trace {
        let trace = outcomes.iter().find_map(|outcome| outcome.trace.clone()).unwrap_or_default();
        output::file(path, |to| report::trace::write(&trace, to))?;
    }
    output::report(&report, (args.format, args.output.as_deref()), quiet)?;
    if interrupted {
        let (done, all) = (outcomes.len(), scenario.run.replications);
        let kept = format!("the report is of {done} of {all} replications");
        return Err(Failure::Interrupted(kept));
    }
    Ok(())
}
