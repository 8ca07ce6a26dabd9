//! Values of a column as names: names of the lines in a panel, and names of positions on the x axis.

use super::build::find;
use super::recipe::Recipe;
use super::{PlotError, Table};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use toml::Spanned;

/// Names of lines with their rows, in order of appearance.
pub(super) type Groups = Vec<(String, Vec<usize>)>;

/// Returns the groups restricted to `rows`, without empty groups.
pub(super) fn within(groups: &Groups, rows: &BTreeSet<usize>) -> Groups {
    let own = |of: &Vec<usize>| of.iter().copied().filter(|row| rows.contains(row)).collect();
    let groups = groups.iter().map(|(name, of)| (name.clone(), own(of)));
    groups.filter(|(_, rows): &(String, Vec<usize>)| !rows.is_empty()).collect()
}

/// Groups rows by the value in the recipe's `group` column, in order of appearance. Without such a column, all rows are one
/// group.
pub(super) fn groups(recipe: &Recipe, table: &Table) -> Result<Groups, PlotError> {
    let Some(group) = &recipe.group else {
        return Ok(vec![(String::new(), (0..table.len()).collect())]);
    };
    let column = find(recipe, table, group)?;
    let mut rows: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for row in 0..table.len() {
        rows.entry(table.text(row, column)).or_default().push(row);
    }
    let names = table.distinct(column);
    let labels = shown(recipe, &names).into_iter();
    Ok(labels
        .zip(names)
        .map(|(label, name)| (label, rows.remove(name).unwrap_or_default()))
        .collect())
}

/// Returns the kind of a TOML table in a sweep: the table's first key, such as `pytorch`. `None` if the value is no table.
pub(super) fn kind(name: &str) -> Option<&str> {
    Some(name.strip_prefix("{ \"")?.split_once('"')?.0)
}

/// Returns a label for each value: the recipe's label if it sets one, otherwise the value itself. If all values are TOML tables,
/// such as `{ "pytorch" = { … } }`, with different first keys, the first key replaces the value.
pub(super) fn shown(recipe: &Recipe, names: &[&str]) -> Vec<String> {
    let kinds: Option<Vec<&str>> = names.iter().map(|name| kind(name)).collect();
    let differ = |kinds: &Vec<&str>| kinds.iter().collect::<BTreeSet<_>>().len() == kinds.len();
    let short = kinds.filter(differ).unwrap_or_else(|| names.to_vec());
    let label = |(name, short): (&&str, &str)| called(recipe, name).unwrap_or(short).to_owned();
    names.iter().zip(short).map(label).collect()
}

/// Returns the label that the recipe gives to a value, found by the value's text or its kind.
pub(super) fn called<'r>(recipe: &'r Recipe, name: &str) -> Option<&'r str> {
    let find = |wanted: &str| {
        let found = recipe.labels.iter().find(|(of, _)| plain(of.get_ref()) == plain(wanted));
        found.map(|(_, label)| label.as_str())
    };
    find(name).or_else(|| find(kind(name)?))
}

/// Returns a value's text without spaces and quotation marks.
fn plain(text: &str) -> String {
    text.replace([' ', '"'], "")
}

/// Checks for each label that its value exists. Missing columns are reported elsewhere.
pub(super) fn check_labels(recipe: &Recipe, table: &Table) -> Vec<Result<(), PlotError>> {
    if recipe.labels.is_empty() {
        return Vec::new();
    }
    let columns = recipe.group.iter().chain([&recipe.x]);
    let columns = columns.filter_map(|column| table.find(column.get_ref()));
    let names: Vec<&str> = columns.flat_map(|column| table.distinct(column)).collect();
    let known: HashSet<String> = names
        .iter()
        .flat_map(|name| [Some(plain(name)), kind(name).map(plain)])
        .flatten()
        .collect();
    let unknown = |of: &Spanned<String>| {
        let (some, more) =
            (names.len().min(super::build::MOST_NAMED), names.len() > super::build::MOST_NAMED);
        let what = format!(
            "there is no value \"{}\" to rename; there are {}{}",
            of.get_ref(),
            names[..some].join(", "),
            if more { ", …" } else { "" }
        );
        recipe.problem(of.span(), &what)
    };
    let check = |of: &Spanned<String>| {
        if known.contains(&plain(of.get_ref())) { Ok(()) } else { Err(unknown(of)) }
    };
    recipe.labels.keys().map(check).collect()
}
