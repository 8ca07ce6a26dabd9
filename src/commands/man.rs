//! `forebay man`: prints or writes manual pages.

use super::{Failure, output};
use crate::cli::{Cli, Man};
use clap::CommandFactory;
use std::fs;
use std::path::Path;

pub(super) fn execute(man: &Man) -> Result<(), Failure> {
    // The command `help` gets no page, because each command's page has its help.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    match &man.directory {
        None => output::stdout(&page(&command)?),
        Some(directory) => {
            fs::create_dir_all(directory)
                .map_err(|error| Failure::unwritable(directory, &error))?;
            write_pages(&command, "forebay", directory)
        }
    }
}

/// Returns the manual page of one command.
fn page(command: &clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command.clone()).render(&mut page);
    rendered.map_err(|error| Failure::stdout(&error))?;
    Ok(page)
}

/// Writes the manual page of `command`, called `name`, and the pages of all commands below it.
fn write_pages(command: &clap::Command, name: &str, directory: &Path) -> Result<(), Failure> {
    let page = page(command)?;
    output::file(&directory.join(format!("{name}.1")), |to| to.write_all(&page))?;
    let shown = |sub: &&clap::Command| !sub.is_hide_set();
    let below = command.get_subcommands().filter(shown);
    below
        .into_iter()
        .try_for_each(|sub| write_pages(sub, &format!("{name}-{}", sub.get_name()), directory))
}
