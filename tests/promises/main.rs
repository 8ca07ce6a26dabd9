//! Checks what verdicts promise, by following them to the letter.
//!
//! ```text
//! cargo test --release --test promises -- --scenarios 300 --shipped --cases
//! ```
//!
//! For each scenario it finds the verdict and makes the changes that it prints, in long runs with other random numbers. It also tries a
//! list of changes of its own, so that a verdict must name what helps most. It prints how often each promise was kept, and lists the
//! failures by class; it fails if one was kept too seldom. Without options it checks a few random scenarios.

mod check;
mod levers;
mod long;
mod metamorphic;
mod random;
mod tally;

use check::{Bounds, Checked, System};
use clap::Parser;
use forebay::scenario::{ScenarioFile, Stop};
use forebay::sim;
use rayon::prelude::*;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Events of the user's run of a random scenario, at most.
const LARGEST_RANDOM: u64 = 200_000;
/// Random scenarios that are drawn for each that is taken, at most.
const TRIES: u64 = 40;
/// Number of random scenarios that were drawn, and not taken.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
static TOO_LARGE: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Clone, Parser)]
struct Arguments {
    /// Number of random scenarios.
    #[arg(long, default_value_t = 0)]
    scenarios: u64,
    /// Number of the first random scenario.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Checks what must not change an answer, in place of what verdicts promise.
    #[arg(long)]
    metamorphic: bool,
    /// Checks all scenarios in `scenarios`.
    #[arg(long)]
    shipped: bool,
    /// Checks all scenarios in `tests/data/cases`.
    #[arg(long)]
    cases: bool,
    /// Checks a scenario file, or all of them in a folder.
    #[arg(long)]
    path: Vec<PathBuf>,
    /// Events of all long runs with one change, at most.
    #[arg(long, default_value_t = 2_000_000)]
    long: u64,
    /// Events of a scenario's own run, beyond which it is left out.
    #[arg(long, default_value_t = 3_000_000)]
    largest: u64,
    /// Events of a random scenario's own run, at most.
    #[arg(long, default_value_t = LARGEST_RANDOM)]
    random: u64,
    /// Events that a verdict may always take, in place of the default.
    #[arg(long)]
    verdict: Option<u64>,
    /// Folder to write each random scenario into, with what was seen.
    #[arg(long)]
    write: Option<PathBuf>,
}

/// What is checked without options.
const FEW: Arguments = Arguments {
    scenarios: 6,
    seed: 1,
    metamorphic: false,
    shipped: false,
    cases: false,
    path: Vec::new(),
    long: 150_000,
    largest: 3_000_000,
    random: 20_000,
    verdict: None,
    write: None,
};

fn main() -> ExitCode {
    tally::shares_are_counted();
    // `cargo test` passes its own flags to every test binary.
    let asked = std::env::args().len() > 1;
    let (arguments, few) = match Arguments::try_parse() {
        Ok(arguments) if asked => (arguments, false),
        Err(error) if !error.use_stderr() => error.exit(),
        _ => (FEW, true),
    };
    let mut all = check_all(&arguments, few);
    if few {
        all.extend(check_all(&Arguments { metamorphic: true, scenarios: 2, ..FEW }, few));
    }
    let seen: Vec<tally::Seen> = all.iter().flat_map(|of| of.seen.clone()).collect();
    let (text, is_right) = tally::summary(&seen, few);
    if !few || !is_right {
        let events: u64 = all.iter().map(|of| of.events).sum();
        let left_out = all.iter().filter(|of| !of.left_out.is_empty()).count();
        say(&format!(
            "{} scenarios, {left_out} left out, {events:.2e} events",
            all.len(),
            events = events as f64
        ));
        let [refused, large] = [&REFUSED, &TOO_LARGE].map(|of| of.load(Ordering::Relaxed));
        say(&format!("random scenarios not taken: {refused} refused, {large} too large"));
        say(&text);
    }
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks all scenarios that are asked for, and says what was seen of each unless they are `few`.
fn check_all(arguments: &Arguments, few: bool) -> Vec<Checked> {
    let sources = sources(arguments);
    let Arguments { long, verdict, largest, .. } = *arguments;
    let bounds = Bounds { long, verdict, largest };
    let done = AtomicUsize::new(0);
    let one = |source: &Source| {
        let system = match source {
            Source::Written(system) => system.clone(),
            Source::Drawn(seed) => drawn(*seed, arguments.random)?,
        };
        let checked = match arguments.metamorphic {
            true => metamorphic::check(&system, bounds),
            false => check::check(&system, bounds),
        };
        let number = done.fetch_add(1, Ordering::Relaxed) + 1;
        if !few {
            say(&line(&system, &checked, number, sources.len()));
        }
        if let Some(folder) = &arguments.write {
            write(folder, &system, &checked);
        }
        Some(checked)
    };
    sources.par_iter().filter_map(one).collect()
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn line(system: &System, checked: &Checked, number: usize, all: usize) -> String {
    let broken: Vec<String> = checked
        .seen
        .iter()
        .filter(|of| !of.is_kept)
        .map(|of| format!("\n    {:?}: {} ({})", of.promise, of.class, of.detail))
        .collect();
    let remarks: Vec<String> = checked.remarks.iter().map(|of| format!("\n    ? {of}")).collect();
    let kept = checked.seen.iter().filter(|of| of.is_kept).count();
    let said = match checked.left_out.as_str() {
        "" => {
            format!("{kept} of {} kept, {:.1e} events", checked.seen.len(), checked.events as f64)
        }
        why => format!("left out: {why}"),
    };
    format!("{number}/{all} {}: {said}{}{}", system.name, broken.concat(), remarks.concat())
}

/// Writes a scenario with what was seen as comments.
fn write(folder: &Path, system: &System, checked: &Checked) {
    let mut text = String::new();
    for of in checked.seen.iter().filter(|of| !of.is_kept) {
        text += &format!("# {:?}: {} ({})\n", of.promise, of.class, of.detail);
    }
    for line in checked.text.lines() {
        text += &format!("# | {line}\n");
    }
    text += system.file.text();
    let _ = fs::create_dir_all(folder);
    let name = system.name.replace('/', "-").replace(".toml", "");
    let _ = fs::write(folder.join(format!("{name}.toml")), text);
}

/// Where a scenario comes from.
enum Source {
    Written(System),
    /// The number of a random one.
    Drawn(u64),
}

fn sources(arguments: &Arguments) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    if arguments.shipped {
        paths.push(root.join("scenarios"));
    }
    if arguments.cases {
        paths.push(root.join("tests/data/cases"));
    }
    paths.extend(arguments.path.iter().cloned());
    let written = paths.iter().flat_map(|path| written(path)).map(Source::Written);
    let end = arguments.seed + arguments.scenarios;
    written.chain((arguments.seed..end).map(Source::Drawn)).collect()
}

/// Returns the scenario at a path, or those in a folder.
fn written(path: &Path) -> Vec<System> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![path.to_owned()],
    };
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let open = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(System { name, file: ScenarioFile::open(path).ok()? })
    };
    paths.iter().filter_map(open).collect()
}

/// Returns a random scenario whose own run, and one of automatic length, take at most so many events.
fn drawn(seed: u64, largest: u64) -> Option<System> {
    (0..TRIES).find_map(|number| {
        let seed = seed * TRIES + number;
        let text = random::scenario(seed);
        let name = format!("random-{seed}");
        let file = ScenarioFile::parse(&format!("{name}.toml"), text).ok();
        let written = file.as_ref().and_then(|file| file.resolve(&[]).ok());
        let Some((file, written)) = file.zip(written) else {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let mut automatic = written.clone();
        automatic.run.stop = Stop::Known { precision: 0.005, most: 20_000_000 };
        let options = sim::Options { most_events: Some(largest), ..sim::Options::default() };
        let fits = |scenario| sim::run(scenario, 0, &options).events < largest;
        let fits = fits(&automatic) && fits(&written);
        if !fits {
            TOO_LARGE.fetch_add(1, Ordering::Relaxed);
        }
        fits.then_some(System { name, file })
    })
}
