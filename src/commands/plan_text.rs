//! The text of `forebay plan`.

use super::keys::last;
use super::planned::{Planned, Row};
use super::profile_text::{cells, table};
use crate::metric::Unit;
use crate::plan::goal::{with_interval, written};
use crate::plan::{Answer, Figured, Tried};
use crate::report::format::{count, share};
use crate::report::money;
use crate::scenario::printable_line;

/// Settings that are listed at most: those around the answer.
const MOST_LISTED: usize = 20;

/// Returns the answer first, then what it rests on.
pub(super) fn text(of: &Planned) -> String {
    let mut text = match &of.rows[..] {
        [row] => of.single(row),
        rows if of.unknowns.is_empty() => {
            let each = rows.iter().map(|row| format!("{}\n{}", row.named(), of.single(row)));
            each.collect::<Vec<_>>().join("\n")
        }
        rows => of.table_of_rows(rows),
    };
    text += &format!("\nSimulated {} replications.\n", of.simulated);
    text
}

/// Returns the answer to each row in sentences, without tables and warnings.
pub(super) fn sentences(of: &Planned) -> Vec<String> {
    let one = |row: &Row| match row.keys().as_str() {
        "" => of.sentences_on(row).trim().to_owned(),
        keys => format!("{keys}: {}", of.sentences_on(row).trim()),
    };
    of.rows.iter().map(one).collect()
}

/// Returns the reasons why the answer to a row may differ from that of the long run, a sentence each.
pub(super) fn warnings(row: &Row) -> Vec<String> {
    let shown = row.answer.as_ref().and_then(|of| of.found.or(of.nearest).map(|at| &of.tried[at]));
    let of_value = shown.into_iter().flat_map(|tried| tried.warnings.iter().cloned());
    let options = row.choice.iter().flat_map(|choice| &choice.options);
    let of_options = options.flat_map(|option| {
        option.warnings.iter().map(|of| format!("`{}`: {of}", printable_line(&option.name)))
    });
    of_value.chain(of_options).collect()
}

impl Planned {
    pub(super) fn currency(&self) -> &str {
        self.currency.as_deref().unwrap_or_default()
    }

    pub(super) fn certainty(&self, certain: bool) -> String {
        let percent = share(self.certainty).replace(".0 %", " %");
        match certain {
            true => format!("with {percent} certainty"),
            false => format!("though not with {percent} certainty"),
        }
    }

    pub(super) fn goals(&self) -> String {
        self.goals
            .iter()
            .map(|goal| format!("`{}`", printable_line(&goal.goal)))
            .collect::<Vec<_>>()
            .join(" and ")
    }

    /// Writes the figure of goal `index`.
    pub(super) fn figure(&self, index: usize, of: &Figured) -> String {
        let Some(goal) = self.goals.get(index) else { return String::new() };
        let (unit, currency) = (goal.figure.unit, self.currency());
        let text = with_interval(of.mean, of.ci95, unit, currency);
        let is_at_limit = of.mean != goal.limit
            && written(of.mean, unit, currency) == written(goal.limit, unit, currency);
        match unit {
            Unit::Share if is_at_limit => precise_share(of, goal.limit),
            Unit::Seconds if is_at_limit => format!("{text} ({} s)", count(of.mean)),
            _ => text,
        }
    }

    fn figures(&self, of: &[Figured]) -> String {
        let each = of.iter().enumerate().map(|(index, figured)| {
            let name = self.goals.get(index).map(|goal| goal.figure.in_sentence());
            format!("{} {}", name.unwrap_or_default(), self.figure(index, figured))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Writes the sentences on a row, its warnings, and its tables.
    fn single(&self, row: &Row) -> String {
        let warned = warnings(row).into_iter();
        let warned: String =
            warned.map(|of| format!("Warning: {}\n", printable_line(&of))).collect();
        let tables = match (&row.answer, &row.choice) {
            (Some(answer), _) => format!("\n{}", self.tried(answer)),
            (None, Some(choice)) => {
                format!("\n{}\n{}", self.options(choice), self.arithmetic(choice))
            }
            (None, None) => String::new(),
        };
        self.sentences_on(row) + &warned + &tables
    }

    fn sentences_on(&self, row: &Row) -> String {
        let mut begin = String::new();
        if let Some(option) = &row.option {
            begin += &format!("With option `{}`: ", printable_line(option));
        }
        if row.is_stopped() {
            begin += "Interrupted; so far: ";
        }
        let text = match (&row.answer, &row.choice, &row.failed) {
            (Some(answer), _, _) => self.answered(answer),
            (None, Some(choice), _) => self.chosen(choice, row.over_draws.as_ref()),
            (None, None, why) => {
                format!("There is no answer: {}.\n", printable_line(why.as_deref().unwrap_or("")))
            }
        };
        begin + &text + &self.binds(row).map_or_else(String::new, |text| text + "\n")
    }

    /// Says what holds the nearest setting back, where none meets the goals.
    fn binds(&self, row: &Row) -> Option<String> {
        let of_answer = row.answer.as_ref().filter(|answer| answer.found.is_none());
        let limit = of_answer.and_then(|of| of.bottleneck.as_ref()).map(|of| printable_line(of));
        let binds = row.binds.clone().or(limit)?;
        let nearest = match (of_answer, &row.choice) {
            (Some(answer), _) => self.values(&answer.tried[answer.nearest?]),
            (None, Some(choice)) => {
                format!("`{}`", printable_line(&choice.options[choice.nearest?].name))
            }
            (None, None) => return None,
        };
        Some(format!("With {nearest}: {binds}"))
    }

    /// Writes the values of the unknown keys of a tried setting.
    fn values(&self, tried: &Tried) -> String {
        let each = self.unknowns.iter().zip(&tried.values);
        each.map(|(of, value)| format!("`{} = {value}`", of.key)).collect::<Vec<_>>().join(" and ")
    }

    /// Writes the sentences on an answer.
    fn answered(&self, answer: &Answer) -> String {
        let mut text = match (answer.found, answer.nearest) {
            (Some(found), _) => self.found(answer, &answer.tried[found]),
            (None, nearest) => self.not_found(answer, nearest.map(|at| &answer.tried[at])),
        };
        text += &self.monotony(answer);
        if let (Some(limit), Some(_)) = (&answer.bottleneck, answer.found) {
            text += &format!("{}\n", printable_line(limit));
        }
        if let Some((number, why)) = &answer.refused {
            let noun = self.noun();
            let refused =
                if *number == 1 { format!("1 {noun} is") } else { format!("{number} {noun}s are") };
            text += &format!("{refused} refused by the scenario: {}\n", printable_line(why));
        }
        text
    }

    /// Returns the noun for a setting of the searched keys: `value`, `pair` or `combination`.
    fn noun(&self) -> &'static str {
        match self.unknowns.len() {
            0 | 1 => "value",
            2 => "pair",
            _ => "combination",
        }
    }

    fn not_found(&self, answer: &Answer, nearest: Option<&Tried>) -> String {
        let all: usize = answer.values.iter().product();
        let tried = match answer.tried.len() == all {
            true => "all were tried".to_owned(),
            false => format!("{} of {all} were tried", answer.tried.len()),
        };
        let noun = self.noun();
        let certainty = self.certainty(answer.certain);
        let nearest = nearest.map_or(String::new(), |tried| {
            format!(" The nearest is {}: {}.", self.values(tried), self.figures(&tried.figures))
        });
        format!("No {noun} meets {}, {certainty} ({tried}).{nearest}\n", self.goals())
    }

    /// Says where more of a key does not always help, and how many better settings were not tried.
    fn monotony(&self, answer: &Answer) -> String {
        if answer.monotone {
            return String::new();
        }
        let more =
            if self.unknowns.iter().all(|of| of.wanted == "largest") { "Less" } else { "More" };
        let rest = match (answer.untried, answer.found) {
            (0, Some(_)) => "every better setting was tried".to_owned(),
            (0, None) => "all were tried".to_owned(),
            (number, Some(_)) => format!("{number} better settings were not tried"),
            (number, None) => format!("{number} settings were not tried"),
        };
        format!("{more} of a key does not always help here: {rest}.\n")
    }

    /// Writes the first sentence on an answer, with what the next better value would give.
    fn found(&self, answer: &Answer, found: &Tried) -> String {
        let certainty = self.certainty(answer.certain);
        let cost = found.cost_per_month.as_ref();
        let cost = cost.map_or(String::new(), |cost| {
            format!(", for {} a month", money(cost.mean, self.currency()))
        });
        let words: Vec<&str> = self.unknowns.iter().map(|of| of.wanted.as_str()).collect();
        let figures = self.figures(&found.figures);
        if words.len() > 1 {
            let (number, goals) = (answer.front.len(), self.goals());
            let noun = format!("{} {}", words[0], self.noun());
            let which = match (number, found.cost_per_month.is_some()) {
                (1, _) => format!("The {noun} that meets {goals}"),
                (_, true) => format!("The cheapest of the {number} {noun}s that meet {goals}"),
                (_, false) => format!("One of the {number} {noun}s that meet {goals}"),
            };
            return format!("{which} is {}{cost}, {certainty}: {figures}.\n", self.values(found));
        }
        let at = answer.found.unwrap_or(0);
        let beside = if words[0] == "largest" { at.checked_add(1) } else { at.checked_sub(1) };
        let beside = beside.and_then(|at| answer.tried.get(at)).filter(|tried| !tried.meets);
        let beside = beside.map_or(String::new(), |tried| match &tried.failed {
            Some(why) => format!(
                "; with {} there is no figure: {}",
                tried.values.join(", "),
                printable_line(why)
            ),
            None => {
                format!("; with {}: {}", tried.values.join(", "), self.figures(&tried.figures))
            }
        });
        let whose = match answer.refused {
            Some(_) => "that the scenario accepts",
            None => "in the range",
        };
        let end = beside.is_empty().then(|| format!(", the {} value {whose}", words[0]));
        let now = self.unknowns[0].now.as_ref().map_or_else(String::new, |now| {
            let is_same = found.values.first() == Some(now);
            if is_same { " (as now)".to_owned() } else { format!(" (now {})", printable_line(now)) }
        });
        format!(
            "The {} value that meets {} is {}{now}{}{cost}, {certainty}: {figures}{beside}.\n",
            words[0],
            self.goals(),
            self.values(found),
            end.unwrap_or_default(),
        )
    }

    /// Writes the settings that were tried.
    fn tried(&self, answer: &Answer) -> String {
        let has_cost = answer.tried.iter().any(|tried| tried.cost_per_month.is_some());
        let mut heading: Vec<String> = self.short_names().into_iter().map(str::to_owned).collect();
        heading.extend(self.goals.iter().map(|goal| goal.figure.figure.clone()));
        heading.extend(has_cost.then(|| "cost of a month".to_owned()));
        heading.extend(["goals", "replications"].map(str::to_owned));
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        let mut rows = table(&heading);
        let listed: Vec<&Tried> = match answer.front.is_empty() {
            true => answer.tried.iter().collect(),
            false => answer.front.iter().map(|at| &answer.tried[*at]).collect(),
        };
        let answer_at = answer.found.or(answer.nearest).unwrap_or(0);
        let begin = answer_at.saturating_sub(MOST_LISTED / 2);
        let begin = begin.min(listed.len().saturating_sub(MOST_LISTED));
        for tried in listed.iter().skip(begin).take(MOST_LISTED) {
            let mut row: Vec<String> = tried.values.clone();
            let figures = (0..self.goals.len()).map(|index| {
                tried.figures.get(index).map_or_else(|| "-".to_owned(), |of| self.figure(index, of))
            });
            row.extend(figures);
            if has_cost {
                let cost = tried.cost_per_month.as_ref();
                row.push(cost.map_or_else(|| "-".to_owned(), |of| money(of.mean, self.currency())));
            }
            let met = match (tried.meets, &tried.failed, tried.certain) {
                (_, Some(_), _) => "refused",
                (true, None, true) => "met",
                (false, None, true) => "missed",
                (true, None, false) => "met?",
                (false, None, false) => "missed?",
            };
            row.extend([met.to_owned(), tried.replications.to_string()]);
            rows.add_row(cells(&row));
        }
        let sizes: Vec<String> = answer.values.iter().map(ToString::to_string).collect();
        format!("{rows}\nTried {} of {} values.\n", answer.tried.len(), sizes.join(" × "))
    }

    /// Writes one line for each row.
    fn table_of_rows(&self, rows: &[Row]) -> String {
        let keys: Vec<String> = rows
            .first()
            .map_or(Vec::new(), |row| row.at.iter().map(|(key, _)| last(key).to_owned()).collect());
        let has_options = rows.iter().any(|row| row.option.is_some());
        let has_cost = self.currency.is_some();
        let mut heading = keys;
        heading.extend(has_options.then(|| "option".to_owned()));
        let named = self.unknowns.iter().zip(self.short_names());
        heading.extend(named.map(|(of, name)| format!("{} {name}", of.wanted)));
        heading.extend(self.goals.iter().map(|goal| goal.figure.figure.clone()));
        heading.extend(has_cost.then(|| "cost of a month".to_owned()));
        let names: Vec<&str> = heading.iter().map(String::as_str).collect();
        let mut lines = table(&names);
        let mut notes = String::new();
        for row in rows {
            let mut line: Vec<String> = row.at.iter().map(|(_, value)| value.clone()).collect();
            line.extend(has_options.then(|| row.option.clone().unwrap_or_default()));
            let answer = row.answer.as_ref();
            let shown = answer.and_then(|of| of.found.or(of.nearest).map(|at| &of.tried[at]));
            let is_found = row.is_met();
            let certain = answer.is_some_and(|of| of.certain);
            line.extend((0..self.unknowns.len()).map(|index| match shown {
                Some(tried) if is_found => {
                    format!("{}{}", tried.values[index], if certain { "" } else { "?" })
                }
                Some(tried) => format!("none (nearest {})", tried.values[index]),
                None => "none".to_owned(),
            }));
            line.extend((0..self.goals.len()).map(|index| {
                let figured = shown.and_then(|tried| tried.figures.get(index));
                figured.map_or_else(|| "-".to_owned(), |of| self.figure(index, of))
            }));
            if has_cost {
                let cost = shown.and_then(|tried| tried.cost_per_month.as_ref());
                line.push(
                    cost.map_or_else(|| "-".to_owned(), |of| money(of.mean, self.currency())),
                );
            }
            lines.add_row(cells(&line));
            let named = printable_line(&row.named());
            for warning in warnings(row) {
                notes += &format!("{named}: Warning: {}\n", printable_line(&warning));
            }
            let failed = row.failed.as_ref().map(|why| printable_line(why));
            if let Some(why) = failed.or_else(|| self.binds(row)) {
                notes += &format!("{named}: {why}\n");
            }
        }
        if has_options && has_cost {
            notes += &self.cheapest(rows);
        }
        let all_certain = rows.iter().all(|row| row.answer.as_ref().is_none_or(|of| of.certain));
        format!("Goals: {}, {}.\n\n{lines}\n{notes}", self.goals(), self.certainty(all_certain))
    }

    /// Says which option is the cheapest that meets the goals, for each value of the row's keys.
    pub(super) fn cheapest(&self, rows: &[Row]) -> String {
        let cost = |row: &Row| {
            let answer = row.answer.as_ref()?;
            Some(answer.tried[answer.found?].cost_per_month.as_ref()?.mean)
        };
        let mut text = String::new();
        for (at, row) in rows.iter().enumerate() {
            if rows[..at].iter().any(|earlier| earlier.at == row.at) {
                continue;
            }
            let same = rows.iter().filter(|other| other.at == row.at);
            let known = same.filter_map(|other| Some((other, cost(other)?)));
            let Some((best, cost)) = known.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            let named =
                if row.at.is_empty() { String::new() } else { format!("With {}: ", row.keys()) };
            let option = printable_line(best.option.as_deref().unwrap_or_default());
            text += &format!(
                "{named}`{option}` is the cheapest, {} a month.\n",
                money(cost, self.currency())
            );
        }
        text
    }
}

/// Writes a share near a limit with as many digits as tell the two apart, four decimals at most.
fn precise_share(of: &Figured, limit: f64) -> String {
    let percent = |value: f64, decimals: usize| format!("{:.decimals$}", 100.0 * value);
    let differs = |decimals: &usize| percent(of.mean, *decimals) != percent(limit, *decimals);
    let decimals = (1..4).find(differs).unwrap_or(4);
    let half = of.ci95.map_or(0.0, |[low, high]| (high - low) / 2.0);
    let half = if half > 0.0 { format!(" ± {}", percent(half, decimals)) } else { String::new() };
    format!("{}{half} %", percent(of.mean, decimals))
}
