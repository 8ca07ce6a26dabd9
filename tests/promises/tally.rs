//! What was seen, summed up: the share of promises kept, and classes of those that were not.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What a verdict promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// A printed change is read back as what it is, and the scenario accepts it.
    Accepted,
    /// The step time with a printed change is inside the printed interval.
    Inside,
    /// The half-width of the printed interval is at most 5 % of the step time.
    Narrow,
    /// A lever that saves 5 % or more is listed.
    Listed,
    /// The first limit is the one that saves most.
    First,
    /// The next limit is the one that saves most behind the first.
    Next,
    /// A job that waits for input has its needs listed, or nothing suffices.
    Needs,
    /// With all needs the job does not wait for input.
    Suffices,
    /// With less of a need it waits.
    Needed,
    /// A scenario that is written otherwise has the same answer, to the byte.
    SameBytes,
    /// What has no part in a scenario changes the answer by no more than chance.
    SameAnswer,
    /// More of a resource makes no job slower that is alone.
    NeverSlower,
}

impl Promise {
    const ALL: [Promise; 12] = [
        Promise::Accepted,
        Promise::Inside,
        Promise::Narrow,
        Promise::Listed,
        Promise::First,
        Promise::Next,
        Promise::Needs,
        Promise::Suffices,
        Promise::Needed,
        Promise::SameBytes,
        Promise::SameAnswer,
        Promise::NeverSlower,
    ];

    /// Returns what is promised in words, and the share of cases in which it must be kept.
    fn words(self) -> (&'static str, f64) {
        match self {
            Promise::Accepted => ("printed changes that are accepted", 1.0),
            Promise::Inside => ("step times inside their intervals", 0.93),
            Promise::Narrow => ("intervals of at most 5 % to each side", 0.90),
            Promise::Listed => ("levers that save 5 % and are listed", 0.95),
            Promise::First => ("first limits that save most", 0.96),
            Promise::Next => ("next limits that save most", 0.88),
            Promise::Needs => ("waiting jobs with needs, or rightly none", 0.90),
            Promise::Suffices => ("needs with which the job does not wait", 0.90),
            Promise::Needed => ("needs without which it waits", 0.90),
            Promise::SameBytes => ("other spellings with the same bytes", 1.0),
            Promise::SameAnswer => ("idle changes with the same answer", 0.95),
            Promise::NeverSlower => ("more of a resource that slows nothing", 0.95),
        }
    }
}

/// One promise that was checked.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) promise: Promise,
    pub(crate) is_kept: bool,
    /// What kind of failure it is, if it is one.
    pub(crate) class: String,
    /// The numbers printed and true.
    pub(crate) detail: String,
    /// Name of the scenario.
    pub(crate) system: String,
}

/// Number of examples of each class of failures.
const EXAMPLES: usize = 4;
/// Probability at which failures count as more than chance, where few cases were checked.
const BY_CHANCE: f64 = 0.01;

/// Returns a table of the shares of promises kept, a list of the classes of failures, and whether all shares are as large as they must be. If
/// `few`, a share may be as small as chance makes it.
pub(crate) fn summary(all: &[Seen], few: bool) -> (String, bool) {
    let (mut text, mut is_right) = (String::new(), true);
    for promise in Promise::ALL {
        let (words, least) = promise.words();
        let of: Vec<&Seen> = all.iter().filter(|of| of.promise == promise).collect();
        if of.is_empty() {
            continue;
        }
        let (number, kept) = (of.len(), of.iter().filter(|of| of.is_kept).count());
        let share = kept as f64 / number as f64;
        let enough = share >= least
            || (few && least < 1.0 && at_least(number - kept, number, 1.0 - least) > BY_CHANCE);
        is_right &= enough;
        let mark = if enough { "" } else { "  TOO FEW" };
        let _ = writeln!(
            text,
            "{words:42} {kept:5} of {number:5}  {:5.1} %  (at least {:.0} %){mark}",
            100.0 * share,
            100.0 * least
        );
    }
    (text + &classes(all), is_right)
}

fn classes(all: &[Seen]) -> String {
    let mut classes: BTreeMap<(Promise, &str), Vec<&Seen>> = BTreeMap::new();
    for of in all.iter().filter(|of| !of.is_kept) {
        classes.entry((of.promise, &of.class)).or_default().push(of);
    }
    let mut classes: Vec<_> = classes.into_iter().collect();
    classes.sort_by_key(|(of, seen)| (std::cmp::Reverse(seen.len()), *of));
    let mut text = String::new();
    for ((promise, class), seen) in classes {
        let _ = writeln!(text, "{:4} x not {}: {class}", seen.len(), promise.words().0);
        for of in seen.iter().take(EXAMPLES) {
            let _ = writeln!(text, "       {}: {}", of.system, of.detail);
        }
    }
    text
}

/// Returns the probability of at least `number` events in `all` trials, each with this probability.
fn at_least(number: usize, all: usize, probability: f64) -> f64 {
    let ratio = probability / (1.0 - probability);
    let mut term = (1.0 - probability).powi(all as i32);
    let mut below = 0.0;
    for k in 0..number {
        below += term;
        term *= ratio * (all - k) as f64 / (k + 1) as f64;
    }
    1.0 - below
}

/// Checks that shares are counted, and that few cases may fail by chance where many may not.
pub(crate) fn shares_are_counted() {
    let seen = |is_kept| Seen {
        promise: Promise::First,
        is_kept,
        class: "class".to_owned(),
        detail: String::new(),
        system: "a".to_owned(),
    };
    let mut all = vec![seen(true); 9];
    all.push(seen(false));
    let (text, is_right) = summary(&all, false);
    assert!(!is_right && text.contains("9 of    10   90.0 %"), "{text}");
    assert!(summary(&all, true).1);
    all.extend(vec![seen(false); 3]);
    assert!(!summary(&all, true).1);
    // Of three throws of a coin, one is heads at least in 7 of 8 cases.
    assert!((at_least(1, 3, 0.5) - 0.875).abs() < 1e-12);
}
