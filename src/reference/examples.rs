//! An example value for each key of a file format, and a shipped file that contains the key.

use std::collections::BTreeMap;

/// The shipped examples, one per line: key, value as in a scenario file, and path of a shipped file, separated by tabs; `-` if
/// there is no value or file.
pub const SHIPPED: &str = include_str!("examples.tsv");

/// Examples by dotted key. The key begins with the prefix of its file format (`recipe: `; none for scenarios) and has `NAME` in
/// place of the user's names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Examples(pub BTreeMap<String, Example>);

/// An example of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// An example value, as in a scenario file.
    pub value: Option<String>,
    /// Path of a shipped file with the key, relative to the root of the repository.
    pub file: Option<String>,
}

impl Examples {
    /// Reads lines in the form of [`SHIPPED`]; ignores lines of another form.
    #[must_use]
    pub fn parse(text: &str) -> Examples {
        let some = |text: &str| (text != "-").then(|| text.to_owned());
        let example = |line: &str| {
            let mut cells = line.split('\t');
            let (key, value, file) = (cells.next()?, cells.next()?, cells.next()?);
            Some((key.to_owned(), Example { value: some(value), file: some(file) }))
        };
        Examples(text.lines().filter_map(example).collect())
    }

    /// Returns the lines that [`Examples::parse`] reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let cell = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let line = |(key, of): (&String, &Example)| {
            format!("{key}\t{}\t{}\n", cell(&of.value), cell(&of.file))
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_values_of_scenario_keys_are_read_back_as_written() {
        let text = "job.batch\t64\tscenarios/loaders.toml\njob.name\t-\t-\n";
        let examples = Examples::parse(text);
        assert_eq!(examples.0["job.batch"].value.as_deref(), Some("64"));
        assert_eq!(examples.0["job.name"], Example { value: None, file: None });
        assert_eq!(examples.to_text(), text);
        assert_eq!(Examples::parse("nonsense\n"), Examples::default());
    }
}
