//! First files for a new user, generated from a few answers: a scenario, a recipe of a figure, a plan of calibration.
//!
//! Nothing here asks or prints: functions take answers and return text. Every text is parsed again before it is returned, so
//! that the file is valid.

mod choice;
mod plan;
mod plot;
mod refusal;
mod scenario;
mod shares;
mod storage;
mod sweep;
mod training;
mod workload;

pub use choice::{Choice, DATASETS, LOADERS, STORAGES, find, models};
pub use plan::{PROBES, PlanAnswers};
pub use plot::PlotAnswers;
pub use scenario::ScenarioAnswers;

/// Why no file can be written from the answers: what is wrong, and what to answer instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub String);

/// Returns a text as a TOML string in quotes.
fn quoted(text: &str) -> String {
    crate::scenario::Value::from(text).to_string()
}

/// Column at which comments after keys begin.
const COMMENTS: usize = 38;

/// Moves the comments behind keys to one column.
fn aligned(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" # ") {
        // A line that is only a comment stays as it is, and so does a `#` within quotes.
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
    fn comments_in_templates_are_aligned_and_quoted_texts_are_unchanged() {
        let text = "# a # b\nkey = 1 # one\nname = \"a # b\"\nlonger = [1, 2]    # two\n";
        let column = |line: &str| line.find(" # ").map(|at| at + 1);
        let found = aligned(text);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!([lines[0], lines[2]], ["# a # b", "name = \"a # b\""]);
        assert_eq!([column(lines[1]), column(lines[3])], [Some(COMMENTS + 1); 2]);
    }
}
