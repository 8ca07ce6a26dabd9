//! Keys whose numbers a scenario says were measured, although data sheets have such numbers too.

use super::check::Check;
use super::dotted::split_key;
use super::field::{Field, List};

/// Returns the keys, each as `--set` takes it for one job or storage; `None` if the list is wrong. That a key is not set is no mistake,
/// because a change may remove it.
pub(super) fn resolve(field: &Field<List<String>>, check: Check<'_>) -> Option<Vec<String>> {
    let Some((_, list)) = field.given() else {
        return (!field.is_written()).then(Vec::new);
    };
    let (mut found, mut not_set) = (Vec::new(), Vec::new());
    for entry in &list.0 {
        let key = entry.get()?;
        let at = split_key(key).map_or_else(Vec::new, |path| check.document.find(&path));
        if at.is_empty() {
            not_set.push(key.as_str());
        }
        found.extend(at.into_iter().map(|id| check.document.path(id)));
    }
    if let Some(first) = not_set.first() {
        let more = not_set.len() - 1;
        let others = if more > 0 { format!(" and {more} more keys") } else { String::new() };
        let verb = if more > 0 { "are not set: they have" } else { "which is not set: it has" };
        let comma = if more > 0 { " that" } else { "," };
        check.remark(format!("`achieved` names `{first}`{others}{comma} {verb} no effect."));
    }
    Some(found)
}
