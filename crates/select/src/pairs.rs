//! Pairs of two ordered settings that meet a goal.

/// Number of pairs that are tried one after the other where more of a setting does not always help.
const MOST_SCANNED: usize = 256;

/// Places, in each of both lists, of pairs that are tried to see whether a pair before the border meets the goal after all.
const PROBES: usize = 4;

/// A pair of settings, by their places in their lists.
pub type Pair = (usize, usize);

/// The first pairs that meet a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs {
    /// The pairs that meet the goal while none with an earlier setting, and the other not later, does. The first place rises and the second
    /// falls.
    pub front: Vec<Pair>,
    /// Whether no pair met the goal that lies before one that missed it.
    pub is_monotone: bool,
    /// Number of pairs that might be on the front, were not tried and do not follow from monotony.
    pub untried: usize,
}

/// A search in progress.
struct Search<'a, E> {
    /// Places of the second setting that there are for each first one, ascending.
    allowed: Vec<Vec<usize>>,
    meets: &'a mut dyn FnMut(Pair) -> Result<bool, E>,
    met: Vec<Pair>,
    missed: Vec<Pair>,
}

impl<E> Search<'_, E> {
    fn try_pair(&mut self, pair: Pair) -> Result<bool, E> {
        if self.is_tried(pair) {
            return Ok(self.met.contains(&pair));
        }
        let meets = (self.meets)(pair)?;
        if meets {
            self.met.push(pair)
        } else {
            self.missed.push(pair)
        }
        Ok(meets)
    }

    fn is_tried(&self, pair: Pair) -> bool {
        self.met.contains(&pair) || self.missed.contains(&pair)
    }

    /// Follows the border between the pairs that meet the goal and those that do not.
    fn follow_border(&mut self) -> Result<(), E> {
        let mut below = usize::MAX;
        for i in 0..self.allowed.len() {
            let places: Vec<usize> =
                self.allowed[i].iter().copied().filter(|j| *j < below).collect();
            for j in places.into_iter().rev() {
                if !self.try_pair((i, j))? {
                    break;
                }
                below = j;
            }
        }
        Ok(())
    }

    /// Returns all pairs that would be on the front if they met the goal.
    fn before_front(&self) -> Vec<Pair> {
        let rows = self.allowed.iter().enumerate();
        let all = rows.flat_map(|(i, places)| places.iter().map(move |j| (i, *j)));
        all.filter(|pair| !self.met.iter().any(|met| is_before(*met, *pair))).collect()
    }

    fn is_monotone(&self) -> bool {
        let contradicts = |met: &Pair| self.missed.iter().any(|missed| is_before(*met, *missed));
        !self.met.iter().any(contradicts)
    }

    fn front(&self) -> Vec<Pair> {
        let is_first =
            |pair: &&Pair| !self.met.iter().any(|of| of != *pair && is_before(*of, **pair));
        let mut front: Vec<Pair> = self.met.iter().filter(is_first).copied().collect();
        front.sort_unstable();
        front
    }
}

/// Returns whether neither setting of the first pair comes later than that of the second.
fn is_before(a: Pair, b: Pair) -> bool {
    a.0 <= b.0 && a.1 <= b.1
}

/// Returns the first pairs that meet a goal. `allowed` has for each place of the first setting those of the second that may be tried with it,
/// ascending. It tries the pairs along the border between those that meet the goal and those that do not, at most as many as both lists are
/// long, as if more of either setting never made the goal harder to meet; and up to 24 pairs before the border, to see whether that
/// holds. Where it does not, up to 256 pairs before the border are tried.
///
/// # Errors
/// The first error of `meets`.
pub fn first_pairs<E>(
    allowed: Vec<Vec<usize>>,
    meets: &mut dyn FnMut(Pair) -> Result<bool, E>,
) -> Result<Pairs, E> {
    let mut search = Search { allowed, meets, met: Vec::new(), missed: Vec::new() };
    search.follow_border()?;
    let spread = |number: usize| {
        let of = PROBES.min(number);
        (0..of).map(move |probe| probe * (number - 1) / (of - 1).max(1))
    };
    for i in spread(search.allowed.len()) {
        for at in spread(search.allowed[i].len()) {
            let pair = (i, search.allowed[i][at]);
            if search.before_front().contains(&pair) {
                search.try_pair(pair)?;
            }
        }
    }
    // Just before the border, more of one setting may have hidden that less of it meets the goal.
    for (i, j) in search.front().into_iter().take(PROBES) {
        let row = i.checked_sub(1).and_then(|row| Some((row, *search.allowed[row].first()?)));
        let below = j.checked_sub(1);
        let column = below.and_then(|column| {
            let row = search.allowed.iter().position(|places| places.contains(&column))?;
            Some((row, column))
        });
        for pair in row.into_iter().chain(column) {
            search.try_pair(pair)?;
        }
    }
    let mut untried = 0;
    let is_monotone = search.is_monotone();
    if !is_monotone {
        let open: Vec<Pair> = search.before_front();
        let open: Vec<Pair> = open.into_iter().filter(|pair| !search.is_tried(*pair)).collect();
        for pair in open.iter().take(MOST_SCANNED) {
            search.try_pair(*pair)?;
        }
        untried = search.before_front().iter().filter(|pair| !search.is_tried(**pair)).count();
    }
    Ok(Pairs { front: search.front(), is_monotone, untried })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(first: usize, second: usize) -> Vec<Vec<usize>> {
        vec![(0..second).collect(); first]
    }

    /// Returns the front, and the number of pairs that were tried.
    fn found(allowed: Vec<Vec<usize>>, meets: impl Fn(usize, usize) -> bool) -> (Pairs, usize) {
        let mut tried = 0;
        let mut judge = |(i, j): Pair| {
            tried += 1;
            Ok::<_, ()>(meets(i, j))
        };
        let found = first_pairs(allowed, &mut judge).expect("no errors");
        (found, tried)
    }

    fn brute_force(allowed: &[Vec<usize>], meets: impl Fn(usize, usize) -> bool) -> Vec<Pair> {
        let rows = allowed.iter().enumerate();
        let pairs = rows.flat_map(|(i, places)| places.iter().map(move |j| (i, *j)));
        let met: Vec<Pair> = pairs.filter(|(i, j)| meets(*i, *j)).collect();
        let is_first = |pair: &&Pair| !met.iter().any(|of| of != *pair && is_before(*of, **pair));
        met.iter().filter(is_first).copied().collect()
    }

    #[test]
    fn first_pairs_are_those_of_brute_force_and_few_are_tried() {
        for needed in 1..60_usize {
            let meets = |i: usize, j: usize| (i + 1) * (j + 1) >= needed;
            let (found, tried) = found(all(7, 9), meets);
            assert_eq!(found.front, brute_force(&all(7, 9), meets), "{needed}");
            assert!(found.is_monotone && found.untried == 0 && tried <= 7 + 9 + 24);
        }
    }

    #[test]
    fn pairs_that_are_not_allowed_are_passed_over() {
        // System: pairs with i + j above 8 are refused, as where both settings share cores. Expectation: the front among the others, in
        // whichever order the lists come.
        let allowed: Vec<Vec<usize>> = (0..7).map(|i| (0..(9 - i).min(9)).collect()).collect();
        for needed in 1..30_usize {
            let meets = |i: usize, j: usize| (i + 1) * (j + 1) >= needed;
            let (found, _) = found(allowed.clone(), meets);
            assert_eq!(found.front, brute_force(&allowed, meets), "{needed}");
        }
        let none = vec![Vec::new(), vec![3], Vec::new()];
        assert_eq!(found(none, |_, _| true).0.front, [(1, 3)]);
    }

    #[test]
    fn a_setting_of_which_less_is_better_is_noticed() {
        // System: a goal that needs a first setting of 2, and one more for each of the second. Expectation: the pair (2, 0), whichever list is
        // the first, although the border walk passes it over.
        let meets = |i: usize, j: usize| i >= 2 + j;
        let (found, swapped) = (found(all(9, 5), meets).0, found(all(5, 9), |i, j| meets(j, i)).0);
        assert_eq!((&*found.front, &*swapped.front), (&[(2, 0)][..], &[(0, 2)][..]));
        assert!(!found.is_monotone);
    }

    #[test]
    fn an_island_before_the_border_is_found_and_said_not_to_be_monotone() {
        // System: pairs from (15, 15) on meet the goal, and those with i = 6 and a j of at most 10 as well. Expectation: a probe finds these,
        // and the pairs before it are tried.
        let meets = |i: usize, j: usize| (i >= 15 && j >= 15) || (i == 6 && j <= 10);
        let (found, tried) = found(all(20, 20), meets);
        assert!(!found.is_monotone);
        assert_eq!(found.front, [(6, 0)]);
        assert!(tried <= 20 + 20 + 24 + MOST_SCANNED);
    }
}
