//! Selects which columns of a sweep are written.

use super::columns::{figure_names, text_names};

/// Figures that are written by default, with all texts.
const USUAL: [&str; 4] = ["step_time", "samples_per_second", "accelerator_utilisation", "stall"];

/// Names of groups of figures that can be selected together.
const GROUPS: [&str; 3] = ["all", "default", "stalls"];

/// Columns to write: the selected figures, and always the swept keys and the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Indices of the columns in a whole row, in the order of writing.
    places: Vec<usize>,
}

impl Selection {
    /// Selects columns of `header`, which begins with `keys` swept keys and the job, by names of figures and groups; the
    /// default figures if `names` is empty.
    ///
    /// # Errors
    /// Returns a message with the first name that is neither a figure nor a group, and the most similar known name.
    pub fn new(header: &[String], keys: usize, names: &[String]) -> Result<Selection, String> {
        let usual = ["default".to_owned()];
        let names = if names.is_empty() { &usual[..] } else { names };
        let figures: Vec<String> = figure_names().collect();
        let mut wanted: Vec<String> = Vec::new();
        for name in names {
            wanted.extend(meant(name.trim(), &figures)?);
        }
        let mut places: Vec<usize> = (0..=keys).collect();
        for name in wanted {
            let all = [name.clone(), format!("{name}_lo"), format!("{name}_hi")];
            let own = header.iter().enumerate().skip(keys + 1).filter(|(_, of)| all.contains(of));
            for (place, _) in own {
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        Ok(Selection { places })
    }

    /// Checks that each name is a figure or a group.
    ///
    /// # Errors
    /// Returns a message with the first name that is neither, and the most similar known name.
    pub fn check(names: &[String]) -> Result<(), String> {
        let figures: Vec<String> = figure_names().collect();
        names.iter().try_for_each(|name| meant(name.trim(), &figures).map(drop))
    }

    /// Returns the selected columns of a whole row or of the header.
    pub fn of<T: Clone>(&self, whole: &[T]) -> Vec<T> {
        self.places.iter().filter_map(|place| whole.get(*place)).cloned().collect()
    }
}

/// Returns the figures that a name stands for: the figure itself, or the figures of a group.
fn meant(name: &str, figures: &[String]) -> Result<Vec<String>, String> {
    match name {
        "all" => Ok(figures.to_vec()),
        "default" => Ok(USUAL.into_iter().map(str::to_owned).chain(text_names()).collect()),
        "stalls" => Ok(figures.iter().filter(|of| of.starts_with("stall")).cloned().collect()),
        _ if figures.iter().any(|of| of == name) => Ok(vec![name.to_owned()]),
        _ => Err(unknown(name, figures)),
    }
}

fn unknown(name: &str, figures: &[String]) -> String {
    let known = figures.iter().map(String::as_str).chain(GROUPS);
    let near = known.min_by_key(|one| strsim::damerau_levenshtein(one, name));
    let near = near.filter(|one| strsim::damerau_levenshtein(one, name) <= 3 + name.len() / 4);
    let what = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`--columns all` writes all that there are".to_owned(),
    };
    format!("a sweep has no column `{name}`; {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::columns::header_after;

    fn header() -> Vec<String> {
        ["key".to_owned(), "job".to_owned()].into_iter().chain(header_after()).collect()
    }

    fn chosen(names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Selection::new(&header(), 1, &names).map(|selection| selection.of(&header()))
    }

    #[test]
    fn selected_metrics_keep_their_order_and_get_confidence_interval_columns() {
        let found = chosen(&["stall", "step_time"]).unwrap_or_default();
        let expected = [
            "key",
            "job",
            "stall",
            "stall_lo",
            "stall_hi",
            "step_time",
            "step_time_lo",
            "step_time_hi",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_column_groups_all_and_stalls_select_the_matching_columns() {
        let few = chosen(&[]).unwrap_or_default();
        assert!((12..=16).contains(&few.len()), "{few:?}");
        assert_eq!(few[few.len() - 2..], ["largest_stall", "too_short"]);
        assert_eq!(chosen(&["all"]), Ok(header()));
        let stalls = chosen(&["stalls"]).unwrap_or_default();
        assert!(stalls.contains(&"stall_latency".to_owned()), "{stalls:?}");
        assert!(!stalls.contains(&"step_time".to_owned()), "{stalls:?}");
    }

    #[test]
    fn an_unknown_column_name_is_refused_with_the_nearest_valid_name() {
        let error = chosen(&["step_tme"]).err().unwrap_or_default();
        assert!(error.contains("did you mean `step_time`?"), "{error}");
        let error = chosen(&["quite something else"]).err().unwrap_or_default();
        assert!(error.contains("--columns all"), "{error}");
    }
}
