//! The command line of this process, for the provenance of results.

use crate::input::{printable_line, shell_word};

/// Options with a value that do not change results: where and how results are written, and the number of threads.
const WITH_VALUE: [&str; 7] =
    ["--output", "-o", "--format", "--threads", "--figure", "--trace", "--emit"];
/// Such options without a value.
const ALONE: [&str; 2] = ["--quiet", "-q"];

/// Returns the command that computed a result, as a shell takes it, without options that do not change the result.
pub(super) fn typed() -> String {
    of(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

fn of(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["forebay".to_owned()];
    let mut skips = false;
    for word in arguments {
        let joined = WITH_VALUE
            .iter()
            .any(|option| word.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')));
        if std::mem::take(&mut skips) || joined || ALONE.contains(&word.as_str()) {
            continue;
        }
        // `-qo FILE` and `-oFILE`.
        let short = word.strip_prefix('-').map(|rest| rest.trim_start_matches('q'));
        if let Some(value) = short.and_then(|rest| rest.strip_prefix('o')) {
            skips = value.is_empty();
            continue;
        }
        match WITH_VALUE.contains(&word.as_str()) {
            true => skips = true,
            false => words.push(printable_line(&shell_word(&word))),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_without_options_that_change_no_result() {
        let words =
            ["run", "a b.toml", "--threads", "2", "--format=json", "-o", "x", "-q", "--seed", "3"];
        let told = of(words.into_iter().map(str::to_owned));
        assert_eq!(told, "forebay run 'a b.toml' --seed 3");
        for words in
            [["run", "a", "-oout", "-q"], ["run", "a", "-qo", "out"], ["run", "a", "-qoout", "-q"]]
        {
            assert_eq!(of(words.into_iter().map(str::to_owned)), "forebay run a", "{words:?}");
        }
    }
}
