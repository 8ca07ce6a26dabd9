//! What to offer for a name that is not known.

/// The nearest of some names, if any is near.
fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> Option<&'n str> {
    let name: String = name.chars().take(64).collect();
    let distance = |known: &str| strsim::damerau_levenshtein(known, &name);
    let (near, far) =
        known.clone().map(|known| (known, distance(known))).min_by_key(|&(_, far)| far)?;
    let is_near = far <= near.chars().count().max(name.chars().count()) / 3 + 1;
    let longer = || known.clone().find(|of| name.len() > 1 && of.starts_with(&name));
    is_near.then_some(near).or_else(longer)
}

/// A remedy for a name that is not among those known: the nearest, and what there is.
#[must_use]
pub fn choose(name: &str, known: &[&str]) -> String {
    let all: Vec<_> = known.iter().take(30).map(|known| format!("`{known}`")).collect();
    let all = all.join(", ");
    match nearest(name, known.iter().copied()) {
        Some(near) if known.len() > 1 => format!("did you mean `{near}`? known here: {all}"),
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "remove it: nothing can be written here".to_owned(),
        None => format!("known here: {all}"),
    }
}
