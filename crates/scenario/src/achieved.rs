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
    let mut found = Vec::new();
    for entry in &list.0 {
        let key = entry.get()?;
        let at = split_key(key).map_or_else(Vec::new, |path| check.document.find(&path));
        if at.is_empty() {
            check.remark(format!("`achieved` names `{key}`, which is not set: it has no effect."));
        }
        found.extend(at.into_iter().map(|id| check.document.path(id)));
    }
    Some(found)
}
