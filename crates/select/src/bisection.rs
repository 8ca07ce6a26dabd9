//! The first of an ordered list of settings that meets a goal.

/// Number of settings that are tried one after the other where more of a key does not always help.
const MOST_SCANNED: usize = 64;

/// What is found of one setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Whether it meets the goal.
    pub meets: bool,
    /// How far it meets the goal, below 0 if it does not; NaN if that is not known.
    pub margin: f64,
    /// Half-width of the interval of the margin.
    pub half_width: f64,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Smallest {
    /// Index of the first setting that meets the goal; `None` if none was found.
    pub found: Option<usize>,
    /// Index of the setting that comes nearest to the goal, if none was found that meets it.
    pub nearest: Option<usize>,
    /// The settings that were tried, in the order of the list.
    pub tried: Vec<(usize, Judged)>,
    /// Whether the goal was met the better the further on in the list a setting is, up to the one found and as far as was tried.
    pub is_monotone: bool,
    /// Number of settings before the one found, or of all if none was, that were not tried and do not follow from monotony.
    pub untried: usize,
}

/// A search in progress.
struct Search<'a, E> {
    judge: &'a mut dyn FnMut(usize) -> Result<Judged, E>,
    tried: Vec<(usize, Judged)>,
}

impl<E> Search<'_, E> {
    fn judged(&mut self, at: usize) -> Result<Judged, E> {
        match self.tried.binary_search_by_key(&at, |(at, _)| *at) {
            Ok(place) => Ok(self.tried[place].1),
            Err(place) => {
                let judged = (self.judge)(at)?;
                self.tried.insert(place, (at, judged));
                Ok(judged)
            }
        }
    }

    fn meets(&mut self, at: usize) -> Result<bool, E> {
        self.judged(at).map(|judged| judged.meets)
    }

    /// Whether no setting up to this one meets the goal clearly less well than one before it. What lies beyond says nothing of whether a
    /// setting before may meet the goal.
    fn is_monotone(&self, until: usize) -> bool {
        let before = self.tried.partition_point(|(at, _)| *at <= until);
        self.tried[..before].windows(2).all(|pair| {
            let (before, after) = (pair[0].1, pair[1].1);
            let noise = before.half_width + after.half_width + 1e-3 * before.margin.abs();
            let falls = before.margin - after.margin > noise;
            !falls && (after.meets || !before.meets)
        })
    }

    /// Returns the first setting that meets the goal between one that does not and one that does.
    fn between(&mut self, mut misses: usize, mut meets: usize) -> Result<usize, E> {
        while meets - misses > 1 {
            let middle = misses + (meets - misses) / 2;
            match self.meets(middle)? {
                true => meets = middle,
                false => misses = middle,
            }
        }
        Ok(meets)
    }

    /// Returns the setting with the largest margin of those that were tried.
    fn nearest(&self) -> Option<usize> {
        let known = self.tried.iter().filter(|(_, judged)| !judged.margin.is_nan());
        let best = known.max_by(|a, b| a.1.margin.total_cmp(&b.1.margin));
        best.map(|(at, _)| *at)
    }

    /// Looks for a setting inside the list that meets the goal, where neither end does and the margin rises away from an end: by golden
    /// section, as if the margin had one peak.
    fn peak(&mut self, last: usize) -> Result<Option<usize>, E> {
        let (mut low, mut high) = (0, last);
        while high - low > 2 {
            let third = ((high - low) as f64 * 0.382).round().max(1.0) as usize;
            let (left, right) = (low + third, (high - third).max(low + third + 1));
            for at in [left, right] {
                if self.meets(at)? {
                    return Ok(Some(at));
                }
            }
            match self.judged(left)?.margin >= self.judged(right)?.margin {
                true => high = right,
                false => low = left,
            }
        }
        for at in low..=high {
            if self.meets(at)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Tries the last settings before `found`, at most [`MOST_SCANNED`], and returns the first that meets the goal, and how many were not tried.
    fn scan(&mut self, found: usize) -> Result<(usize, usize), E> {
        let from = found.saturating_sub(MOST_SCANNED);
        for at in from..found {
            if self.meets(at)? {
                return Ok((at, from));
            }
        }
        Ok((found, from))
    }

    /// Looks inside the list, where neither end meets the goal: at the quarters, and from the best of these for a peak.
    fn inside(&mut self, last: usize) -> Result<Option<usize>, E> {
        if last < 2 {
            return Ok(None);
        }
        let ends = self.judged(0)?.margin.max(self.judged(last)?.margin);
        let places = [1, last / 4, last / 2, last - last / 4, last - 1];
        let mut rises = false;
        for at in places {
            let judged = self.judged(at)?;
            if judged.meets {
                return Ok(Some(at));
            }
            rises |= judged.margin - ends > judged.half_width || ends.is_nan();
        }
        if rises { self.peak(last) } else { Ok(None) }
    }
}

/// Returns the first of `settings` settings that meets a goal; `judge` says whether an index does. It tries at most 2 + log2(settings) of
/// them if each meets the goal at least as well as those before it. Where those that were tried contradict that, it tries up to 64 settings
/// before the one found. Where neither end meets the goal, it tries five settings between them, and looks for a peak if one of them is better than both
/// ends.
///
/// # Errors
/// The first error of `judge`.
pub fn smallest<E>(
    settings: usize,
    judge: &mut dyn FnMut(usize) -> Result<Judged, E>,
) -> Result<Smallest, E> {
    let mut search = Search { judge, tried: Vec::new() };
    let last = settings.saturating_sub(1);
    let found = if settings == 0 {
        None
    } else if search.meets(0)? {
        Some(0)
    } else if search.meets(last)? {
        Some(search.between(0, last)?)
    } else {
        match search.inside(last)? {
            Some(inside) => Some(search.between(0, inside)?),
            None => None,
        }
    };
    let is_monotone = search.is_monotone(found.unwrap_or(last));
    let (found, untried) = match found {
        Some(at) if at > 0 && !is_monotone => {
            let (first, untried) = search.scan(at)?;
            (Some(first), untried)
        }
        Some(at) => (Some(at), 0),
        // If more always helped, the last setting would be the best.
        None if is_monotone => (None, 0),
        None => (None, settings - search.tried.len()),
    };
    let nearest = if found.is_some() { None } else { search.nearest() };
    Ok(Smallest { found, nearest, tried: search.tried, is_monotone, untried })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(settings: usize, margin: impl Fn(usize) -> f64) -> Smallest {
        let mut judge = |at: usize| {
            let margin = margin(at);
            Ok::<_, ()>(Judged { meets: margin >= 0.0, margin, half_width: 0.0 })
        };
        smallest(settings, &mut judge).expect("no errors")
    }

    #[test]
    fn bisection_finds_every_threshold_with_at_most_2_plus_log2_settings() {
        for settings in 1..70_usize {
            let most = 2 + settings.next_power_of_two().ilog2() as usize;
            for threshold in 0..settings {
                let found = search(settings, |at| at as f64 - threshold as f64);
                assert_eq!(found.found, Some(threshold));
                assert!(found.is_monotone && found.untried == 0 && found.tried.len() <= most);
            }
        }
    }

    #[test]
    fn a_goal_that_no_setting_meets_names_the_nearest_one() {
        let found = search(50, |at| at as f64 - 60.0);
        assert_eq!((found.found, found.nearest), (None, Some(49)));
        assert!(found.tried.len() <= 7);
        assert_eq!(search(0, |_| 1.0).found, None);
        // More of the key makes it worse: the first setting is the nearest.
        assert_eq!(search(50, |at| -1.0 - at as f64).nearest, Some(0));
    }

    #[test]
    fn a_peak_between_ends_that_miss_the_goal_is_found() {
        // System: figures that are best at one setting inside, such as workers for which cores become scarce. Expectation: the first
        // setting that meets the goal, for each place of the peak.
        for peak in 2..48_usize {
            let margin = |at: usize| 2.5 - (at as f64 - peak as f64).abs();
            assert_eq!(search(50, margin).found, Some(peak - 2), "{peak}");
        }
    }

    #[test]
    fn a_peak_is_found_where_the_margin_is_flat_at_both_ends() {
        // System: margins that are equal but for a stretch in the middle, in which the goal is met. Expectation: its first setting.
        let margin = |at: usize| if (20..30).contains(&at) { 1.0 } else { -1.0 };
        assert_eq!(search(50, margin).found, Some(20));
        let falls = search(50, |at| if at == 13 { -0.5 } else { -1.0 - at as f64 });
        assert!(falls.found.is_none() && !falls.is_monotone && falls.untried > 0);
    }

    #[test]
    fn where_more_does_not_always_help_all_settings_before_are_tried() {
        // System: the goal is met from 20 on and at 5, and the margins before 5 fall. Expectation: 5, found by trying all.
        let margin = |at: usize| match at {
            5 => 1.0,
            20.. => 1.0,
            at => -1.0 - at as f64,
        };
        let found = search(40, margin);
        assert_eq!((found.found, found.is_monotone, found.untried), (Some(5), false, 0));
    }

    #[test]
    fn settings_beyond_the_one_found_may_meet_the_goal_less_well() {
        // System: the goal is met from 22 on, and less well the further beyond 30. Expectation: bisection, as if it were met ever better.
        let margin = |at: usize| (at as f64 - 22.0).min(8.0 - 0.1 * (at as f64 - 30.0));
        let found = search(64, margin);
        assert_eq!((found.found, found.is_monotone, found.untried), (Some(22), true, 0));
        assert!(found.tried.len() <= 8);
    }

    #[test]
    fn the_first_error_ends_the_search() {
        let found = smallest(9, &mut |at| {
            if at == 8 {
                Err("no")
            } else {
                Ok(Judged { meets: false, margin: -1.0, half_width: 0.0 })
            }
        });
        assert_eq!(found, Err("no"));
    }
}
