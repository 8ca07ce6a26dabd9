//! Keys that have a new name. This release still reads the old name, with a remark that gives the new one.

/// A key with a new name.
#[derive(Debug)]
struct Renamed {
    /// Path of the table that has the key, without names or positions of array elements.
    table: &'static [&'static str],
    old: &'static str,
    new: &'static str,
}

/// All keys that the next release no longer reads.
const RENAMED: [Renamed; 1] = [Renamed { table: &["job"], old: "stage", new: "copy" }];

/// Returns the new name of the key `key` of the table at path `table`; `None` if the key has no new name.
pub(super) fn new_name(table: &[&str], key: &str) -> Option<&'static str> {
    RENAMED
        .iter()
        .find(|renamed| renamed.table == table && renamed.old == key)
        .map(|found| found.new)
}

/// Returns the remark that the key `old` of the table at path `table` is called `new` now.
pub(super) fn remark(table: &[&str], old: &str, new: &str) -> String {
    let table = table.join(".");
    format!(
        "`{table}.{old}` is called `{table}.{new}` now: write `{new}`. The next release will not read `{old}`."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// System: the table of renamed keys. Expectation: it has no key twice, and no new name is the old name of another key.
    #[test]
    fn each_renamed_scenario_key_has_exactly_one_new_name() {
        for (index, renamed) in RENAMED.iter().enumerate() {
            let again = |other: &&Renamed| other.table == renamed.table && other.old == renamed.old;
            assert_eq!(RENAMED.iter().position(|other| again(&other)), Some(index));
            assert_eq!(new_name(renamed.table, renamed.new), None, "{renamed:?}");
        }
    }
}
