//! The command line: its commands and options, and the help for them; one file per command.

mod about;
mod calibrate;
mod changes;
mod compare;
mod diff;
mod doctor;
mod exit_code;
mod explain_defaults;
mod format;
mod import;
mod live;
mod new;
mod plan;
mod plot;
mod profile;
mod published;
mod reference;
mod report;
mod run;
mod scenario;
mod sweep;
mod validate;

use clap::{Parser, Subcommand};

pub use about::{Completions, Man, Schema, SchemaOf};
pub use calibrate::Calibrate;
pub use changes::{Changes, KeyChange};
pub use compare::Compare;
pub use diff::Diff;
pub use doctor::Doctor;
pub use exit_code::{EXIT_CODES, ExitCode};
pub use explain_defaults::ExplainDefaults;
pub use format::{FigureTheme, PictureFormat, ReportFormat, RowFormat};
pub use import::{
    CollectiveFormat, Collectives, Dlio, Import, ImportFormat, ImportFrom, Kineto, Mlperf,
    MlperfFormat,
};
pub use live::Live;
pub use new::{New, NewKind, NewPlan, NewPlot, NewScenario, NewTarget};
pub use plan::Plan;
pub use plot::Plot;
pub use profile::{
    ProfileArgs, ProfileCommand, ProfileDiff, ProfileFit, ProfileNodes, ProfilePlot, ProfileShow,
};
pub use published::{Published, PublishedTable};
pub use reference::Reference;
pub use report::Report;
pub use run::{Assume, Run, VerdictKind};
pub use scenario::{ScenarioArgs, ScenarioOptions};
pub use sweep::Sweep;
pub use validate::Validate;

/// Will the accelerators starve, on what, and what should be changed or bought?
///
/// forebay simulates deep-learning training on a shared cluster: storage, network, loaders, queues
/// and accelerators, as a scenario file describes them.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = after_help(), propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Show no progress and no warnings.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// Returns the text that `forebay --help` prints below the options: examples and exit codes.
fn after_help() -> String {
    let codes = EXIT_CODES.iter().map(|of| format!("{} {}", of.code, of.meaning));
    let codes = codes.collect::<Vec<_>>().join("; ");
    format!(
        "\
Examples:
  forebay run scenarios/fletcher-lenet.toml
  forebay sweep scenarios/fletcher-lenet.toml --output rows.csv
  forebay plot plots/*.toml --output figures

Exit codes: {codes}."
    )
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a first scenario, recipe of a figure, or plan of calibration
    New(Box<New>),
    /// Simulate a scenario and report what happened
    Run(Run),
    /// Run a scenario on this machine and report what happened
    Live(Live),
    /// Simulate every point of a scenario's `[sweep]` table
    Sweep(Sweep),
    /// Find the value of a key, or the option, that meets goals
    Plan(Plan),
    /// Put scenarios, options or reports side by side
    Compare(Compare),
    /// Compare two reports: what changed, and whether by more than chance
    Diff(Diff),
    /// Write a page of results that can be mailed: one HTML file
    Report(Report),
    /// Show each default that a run of a scenario takes, and whose it is
    ExplainDefaults(ExplainDefaults),
    /// Draw figures by recipe
    Plot(Plot),
    /// Compare predictions with live runs, or with runs that were made elsewhere
    Validate(Validate),
    /// Read what other programs measured
    Import(Import),
    /// Show, compare, fit and draw the parameters of machines
    Profile(ProfileArgs),
    /// Compare predictions with what clusters were published to do
    Published(Published),
    /// Measure this machine
    Calibrate(Calibrate),
    /// Say what this machine offers, and what is missing
    Doctor(Doctor),
    /// Print the JSON Schema of a file format
    Schema(Schema),
    /// Print every key, column, cause of stalls and exit code, as Markdown
    Reference(Reference),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page, or write one page per command into a directory
    Man(Man),
}
