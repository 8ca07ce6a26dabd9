//! Changes to keys of a scenario, in the order of the command line.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The arguments of `--set` and `--unset`, in the order of the command line: a later one may set again what an earlier one removed.
#[derive(Debug, Clone, Default)]
pub struct Changes(pub Vec<KeyChange>);

/// One of these arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChange {
    /// `KEY=VALUE` of `--set`.
    Set(String),
    /// `KEY` of `--unset`.
    Unset(String),
}

/// Id of the option `--set`.
const SET: &str = "set";
/// Id of the option `--unset`.
const UNSET: &str = "unset";

impl Changes {
    fn read(&mut self, matches: &ArgMatches) {
        let of = |id: &'static str, make: fn(String) -> KeyChange| {
            let places = matches.indices_of(id).into_iter().flatten();
            let texts = matches.get_many::<String>(id).into_iter().flatten();
            places.zip(texts.cloned().map(make)).collect::<Vec<_>>()
        };
        let mut all = of(SET, KeyChange::Set);
        all.extend(of(UNSET, KeyChange::Unset));
        all.sort_by_key(|(place, _)| *place);
        self.0 = all.into_iter().map(|(_, change)| change).collect();
    }
}

impl Args for Changes {
    fn augment_args(command: Command) -> Command {
        let option = |id: &'static str, value: &'static str, help: &'static str| {
            Arg::new(id).long(id).value_name(value).action(ArgAction::Append).help(help)
        };
        let set = "Give a key of the scenario another value; may be repeated";
        let unset = "Remove a key, table or list entry of the scenario, so that it has its default; may be repeated";
        command.arg(option(SET, "KEY=VALUE", set)).arg(option(UNSET, "KEY", unset))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Changes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut changes = Self::default();
        changes.read(matches);
        Ok(changes)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.read(matches);
        Ok(())
    }
}
