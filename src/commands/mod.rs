//! The commands, one file each. Only this module handles files, standard output and progress.

mod calibrate;
mod calibrate_output;
mod calibrate_table;
mod cluster;
mod cluster_figure;
mod command_line;
mod compare;
mod compare_figure;
mod compare_text;
mod completions;
mod diff;
mod diff_text;
mod doctor;
mod explain_defaults;
mod failure;
mod import;
mod import_collective;
mod import_mlperf;
mod input;
mod interrupt;
mod keys;
mod live;
mod live_part;
mod man;
mod memory;
mod new;
mod options;
mod output;
mod over_time;
mod parity;
mod paths;
mod plan;
mod plan_choice_text;
mod plan_figure;
mod plan_text;
mod planned;
mod plot;
mod points;
mod profile;
mod profile_figure;
mod profile_text;
mod profile_trust;
mod progress;
mod published;
mod published_ranges;
mod published_storage;
mod published_transfer;
mod questions;
mod reference;
mod report;
mod run;
mod run_figure;
mod schema;
mod step_times;
mod sweep;
mod uncertain;
mod validate;
mod validate_figure;
mod validate_measured;
mod validate_points;

pub use failure::Failure;

use crate::cli::{Cli, Command};
use crate::input::{cut_words, printable};
use clap::Parser;
use std::process::ExitCode;

/// Parses the command line, carries it out and reports what went wrong.
pub fn main() -> ExitCode {
    // `forebay live` starts its processes with this argument. It is not a command of the parser, so that help, completions and
    // suggestions never show it. Such a process handles no signals: its parent ends it.
    if std::env::args_os().skip(1).eq([crate::live::PART]) {
        return end(live_part::execute());
    }
    // So does `forebay calibrate --hosts`, on other hosts.
    if std::env::args_os().skip(1).eq([cluster::RANK]) {
        return end(cluster::serve());
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return show_usage(&usage),
    };
    end(execute(&cli))
}

/// Prints the help or version that was asked for, or what is wrong with the command line.
fn show_usage(usage: &clap::Error) -> ExitCode {
    if !usage.use_stderr() {
        let text = match output::colour(&std::io::stdout()) {
            true => usage.render().ansi().to_string(),
            false => usage.render().to_string(),
        };
        return end(output::stdout(text.as_bytes()));
    }
    // The message repeats arguments: long ones are cut, and control characters are escaped.
    let text = usage.render().to_string();
    let fit = printable(&cut_words(&text));
    match fit == text && output::colour(&std::io::stderr()) {
        true => output::say(&usage.render().ansi().to_string()),
        false => output::say(&fit),
    }
    ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2))
}

/// Prints the message of a failure, and returns the exit code.
fn end(ended: Result<(), Failure>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::say(&failure.message(output::colour(&std::io::stderr())));
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Carries out a command.
pub fn execute(cli: &Cli) -> Result<(), Failure> {
    interrupt::install();
    match &cli.command {
        Command::New(new) => new::execute(new, cli.quiet),
        Command::Run(run) => run::execute(run, cli.quiet),
        Command::Live(live) => live::execute(live, cli.quiet),
        Command::Sweep(sweep) => sweep::execute(sweep, cli.quiet),
        Command::Plan(plan) => plan::execute(plan, cli.quiet),
        Command::Compare(compare) => compare::execute(compare, cli.quiet),
        Command::Diff(diff) => diff::execute(diff),
        Command::Report(page) => report::execute(page, cli.quiet),
        Command::ExplainDefaults(explain) => explain_defaults::execute(explain),
        Command::Plot(plot) => plot::execute(plot, cli.quiet),
        Command::Validate(validate) => validate::execute(validate, cli.quiet),
        Command::Import(import) => import::execute(import, cli.quiet),
        Command::Profile(profile) => profile::execute(profile, cli.quiet),
        Command::Published(published) => published::execute(published),
        Command::Calibrate(calibrate) => calibrate::execute(calibrate, cli.quiet),
        Command::Doctor(doctor) => doctor::execute(doctor),
        Command::Schema(schema) => schema::execute(schema),
        Command::Reference(reference) => reference::execute(reference),
        Command::Completions(completions) => completions::execute(completions),
        Command::Man(man) => man::execute(man),
    }
}
