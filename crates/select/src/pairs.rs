//! Pairs of two ordered settings that meet a goal.

/// The smallest pairs that meet a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs {
    /// Indices of the pairs of which neither setting can be smaller; the first setting rises and the second falls.
    pub front: Vec<(usize, usize)>,
    /// Number of pairs that were tried.
    pub tried: usize,
}

/// Returns the pairs (i, j), i below `first` and j below `second`, that meet a goal, while no pair with a smaller i or a smaller j and the
/// other not larger does. More of either setting must not make the goal harder to meet. At most `first` + `second` pairs are tried: along the
/// border between those that meet the goal and those that do not.
///
/// # Errors
/// The first error of `meets`.
pub fn minimal_pairs<E>(
    (first, second): (usize, usize),
    meets: &mut dyn FnMut(usize, usize) -> Result<bool, E>,
) -> Result<Pairs, E> {
    let (mut front, mut tried) = (Vec::new(), 0);
    let (mut i, mut below) = (0, second);
    while i < first && below > 0 {
        tried += 1;
        if meets(i, below - 1)? {
            below -= 1;
            match front.last_mut() {
                Some((last, j)) if *last == i => *j = below,
                _ => front.push((i, below)),
            }
        } else {
            i += 1;
        }
    }
    Ok(Pairs { front, tried })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimal_pairs_are_those_of_brute_force_and_few_are_tried() {
        for needed in 1..60_usize {
            let meets = |i: usize, j: usize| (i + 1) * (j + 1) >= needed;
            let found = minimal_pairs((7, 9), &mut |i, j| Ok::<_, ()>(meets(i, j))).expect("none");
            let minimal = |&(i, j): &(usize, usize)| {
                meets(i, j) && (i == 0 || !meets(i - 1, j)) && (j == 0 || !meets(i, j - 1))
            };
            let all = (0..7).flat_map(|i| (0..9).map(move |j| (i, j)));
            assert_eq!(found.front, all.filter(minimal).collect::<Vec<_>>(), "{needed}");
            assert!(found.tried <= 16);
        }
    }
}
