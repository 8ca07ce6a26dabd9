//! Compares reports before and after a change that must not alter any figure.
//!
//! ```text
//! cargo test --test reports -- write FOLDER [--program target/release/forebay]
//! cargo test --test reports -- compare BEFORE AFTER
//! ```
//!
//! `write` simulates each shipped scenario unchanged, with another seed, and with three other changes, and
//! writes a JSON report for each, or the error message if the scenario is refused. `compare` lists each figure
//! that differs by more than a relative 1e-9, and fails if there is one. Without a command the comparison
//! itself is tested.

mod compare;
mod write;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the reports of all shipped scenarios and their variants into a folder.
    Write {
        folder: PathBuf,
        /// The program that simulates; the one just built if not given.
        #[arg(long, default_value = env!("CARGO_BIN_EXE_forebay"))]
        program: PathBuf,
    },
    /// Compares two such folders.
    Compare {
        before: PathBuf,
        after: PathBuf,
        /// Names of figures that may differ, as "events".
        #[arg(long)]
        ignore: Vec<String>,
    },
}

fn main() -> ExitCode {
    // `cargo test` passes its own flags to every test binary.
    let commands = ["write", "compare", "help", "--help"];
    let asked = std::env::args().nth(1).is_some_and(|first| commands.contains(&first.as_str()));
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if asked => error.exit(),
        Err(_) => return tested(),
    };
    let done = match arguments.command {
        None => return tested(),
        Some(Command::Write { folder, program }) => write::write(&program, &folder),
        Some(Command::Compare { before, after, ignore }) => {
            compare::folders(&before, &after, &ignore)
        }
    };
    let (code, said) = match done {
        Ok(said) => (ExitCode::SUCCESS, said),
        Err(said) => (ExitCode::FAILURE, said),
    };
    let _ = writeln!(std::io::stdout(), "{said}");
    code
}

fn tested() -> ExitCode {
    compare::differences_are_found();
    ExitCode::SUCCESS
}
