//! Suggestions for a name that is not known.

/// Maximum number of names that are suggested if several known names begin with the unknown one.
const MOST_OFFERED: usize = 4;
/// Minimum length of a known name that is suggested because the unknown name begins with it.
const TELLING: usize = 3;

/// Returns the known names that `name` probably stands for: one that differs by a letter; otherwise those that begin with
/// `name`; otherwise the longest that `name` begins with; otherwise those that contain `name`; otherwise the most similar one. Returns none if no known name is
/// similar.
fn near<'n>(name: &str, known: &[&'n str]) -> Vec<&'n str> {
    let name: String = name.chars().take(64).collect::<String>().to_lowercase();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&known.to_lowercase(), &name);
    let Some(nearest) = known.iter().min_by_key(distance) else { return Vec::new() };
    let far = distance(&nearest);
    if far <= 1 {
        return vec![nearest];
    }
    let longer = known.iter().copied().filter(|of| of.starts_with(&name));
    let longer: Vec<&str> = longer.take(MOST_OFFERED + 1).collect();
    if name.len() > 1 && (1..=MOST_OFFERED).contains(&longer.len()) {
        return longer;
    }
    let shorter = known.iter().filter(|of| of.len() >= TELLING && name.starts_with(**of));
    if let Some(longest) = shorter.max_by_key(|of| of.len()) {
        return vec![longest];
    }
    let inside = known
        .iter()
        .copied()
        .filter(|of| name.len() >= TELLING && of.to_lowercase().contains(&name));
    let inside: Vec<&str> = inside.take(MOST_OFFERED + 1).collect();
    if (1..=MOST_OFFERED).contains(&inside.len()) {
        return inside;
    }
    let is_near = far <= nearest.chars().count().max(name.chars().count()) / 3 + 1;
    if is_near { vec![nearest] } else { longer.into_iter().take(1).collect() }
}

/// Returns a remedy for an unknown name: the known names that are most likely meant, and all known names.
#[must_use]
pub fn choose(name: &str, known: &[&str]) -> String {
    let all: Vec<_> = known.iter().take(30).map(|known| format!("`{known}`")).collect();
    let all = all.join(", ");
    let meant: Vec<_> = near(name, known).iter().map(|near| format!("`{near}`")).collect();
    match meant.join(" or ") {
        meant if !meant.is_empty() && known.len() > 1 => {
            format!("did you mean {meant}? known here: {all}")
        }
        meant if !meant.is_empty() => format!("did you mean {meant}?"),
        _ if known.is_empty() => "remove it: nothing can be written here".to_owned(),
        _ => format!("known here: {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_similar_to_an_unknown_name_are_suggested() {
        let gpus = ["k80", "p100-pcie", "a100-sxm4-80gb", "h100-pcie", "h100-sxm5"];
        assert_eq!(near("h100", &gpus), ["h100-pcie", "h100-sxm5"]);
        assert_eq!(near("H100-SXM5-80GB", &gpus), ["h100-sxm5"]);
        assert_eq!(near("h100-pci", &gpus), ["h100-pcie"]);
        assert_eq!(near("a100-sxm4-40g", &gpus), ["a100-sxm4-80gb"]);
        assert_eq!(near("radeon", &gpus), [""; 0]);
        assert_eq!(near("sxm5", &gpus), ["h100-sxm5"]);
        assert_eq!(near("x", &[]), [""; 0]);
    }
}
