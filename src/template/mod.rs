//! First files for a new user: a scenario, a recipe of a figure, a plan of calibration, from a few answers.
//!
//! Nothing here asks or prints: answers come in, text goes out. Every text is parsed again before it is returned, so that
//! the file runs.

mod choice;
mod plan;
mod plot;
mod scenario;
mod storage;
mod training;

pub use choice::{Choice, DATASETS, LOADERS, STORAGES, find, models};
pub use plan::{PROBES, PlanAnswers};
pub use plot::PlotAnswers;
pub use scenario::ScenarioAnswers;

/// Why no file can be written from the answers: what is wrong, and what to say instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub String);

/// A text as TOML has it, in quotes.
fn quoted(text: &str) -> String {
    crate::scenario::Value::from(text).to_string()
}

/// Column at which comments after keys begin.
const COMMENTS: usize = 38;

/// The text with the comments behind its keys in one column.
fn aligned(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" # ") {
        // A whole line of comment is left as it is, and so is a `#` within quotes.
        Some((before, after))
            if (!line.starts_with('#') || before.contains(" = "))
                && before.matches('"').count() % 2 == 0 =>
        {
            format!("{:<COMMENTS$} # {after}\n", before.trim_end())
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_below_each_other_and_texts_stay() {
        let text = "# a # b\nkey = 1 # one\nname = \"a # b\"\nlonger = [1, 2]    # two\n";
        let column = |line: &str| line.find(" # ").map(|at| at + 1);
        let found = aligned(text);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!([lines[0], lines[2]], ["# a # b", "name = \"a # b\""]);
        assert_eq!([column(lines[1]), column(lines[3])], [Some(COMMENTS + 1); 2]);
    }
}
