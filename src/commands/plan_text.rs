//! The text of `forebay plan`.

use super::plan::{Planned, Row};
use super::profile_text::{cells, table};
use crate::metric::Unit;
use crate::plan::goal::{with_interval, written};
use crate::plan::{Answer, Choice, Figured, OverDraws, Rank, Standing, Tried, Wanted};
use crate::report::format::{count, share};
use crate::report::money;
use crate::scenario::{Priced, printable_line};

/// Settings that are listed at most: those around the answer.
const MOST_LISTED: usize = 20;

/// Returns the answer first, then what it rests on.
pub(super) fn text(of: &Planned) -> String {
    let mut text = match &of.rows[..] {
        [row] => of.single(row),
        rows if of.unknowns.is_empty() => {
            rows.iter().map(|row| of.named(row) + &of.single(row)).collect::<Vec<_>>().join("\n")
        }
        rows => of.table_of_rows(rows),
    };
    text += &format!("\nSimulated {} replications.\n", of.simulated);
    text
}

impl Planned {
    fn currency(&self) -> &str {
        self.currency.as_deref().unwrap_or_default()
    }

    fn certainty(&self, certain: bool) -> String {
        let percent = share(self.certainty).replace(".0 %", " %");
        match certain {
            true => format!("with {percent} certainty"),
            false => format!("though not with {percent} certainty"),
        }
    }

    fn goals(&self) -> String {
        self.goals
            .iter()
            .map(|goal| format!("`{}`", printable_line(goal)))
            .collect::<Vec<_>>()
            .join(" and ")
    }

    /// Writes the figure of goal `index`.
    fn figure(&self, index: usize, of: &Figured) -> String {
        let unit = self.shown.goals.get(index).map_or(Unit::Count, |goal| goal.wanted.unit());
        with_interval(of.mean, of.ci95, unit, self.currency())
    }

    fn figures(&self, of: &[Figured]) -> String {
        let each = of.iter().enumerate().map(|(index, figured)| {
            let name = self.shown.goals.get(index).map_or("", |goal| &goal.wanted.text);
            format!("{} {}", printable_line(name), self.figure(index, figured))
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Returns the values of the row's keys as a heading.
    fn named(&self, row: &Row) -> String {
        let keys = row.at.iter().map(|(key, value)| format!("{key} = {value}"));
        keys.collect::<Vec<_>>().join(", ") + "\n"
    }

    fn single(&self, row: &Row) -> String {
        let mut text = match (&row.answer, &row.choice, &row.failed) {
            (Some(answer), _, _) => self.answer(answer),
            (None, Some(choice), _) => self.choice(choice, row.over_draws.as_ref()),
            (None, None, why) => {
                format!("There is no answer: {}.\n", printable_line(why.as_deref().unwrap_or("")))
            }
        };
        if let Some(binds) = &row.binds {
            let nearest = match (&row.answer, &row.choice) {
                (Some(answer), _) => answer.nearest.map(|at| self.values(&answer.tried[at])),
                (None, choice) => choice.as_ref().and_then(|choice| {
                    Some(format!("`{}`", printable_line(&choice.options[choice.nearest?].name)))
                }),
            };
            text += &format!("\nWith {}: {binds}\n", nearest.unwrap_or_default());
        }
        text
    }

    /// Writes the values of the unknown keys of a tried setting.
    fn values(&self, tried: &Tried) -> String {
        let each = self.unknowns.iter().zip(&tried.values);
        each.map(|((key, _), value)| format!("`{key} = {value}`")).collect::<Vec<_>>().join(" and ")
    }

    fn answer(&self, answer: &Answer) -> String {
        let mut text = match (answer.found, answer.nearest) {
            (Some(found), _) => self.found(answer, &answer.tried[found]),
            (None, nearest) => self.not_found(answer, nearest.map(|at| &answer.tried[at])),
        };
        text += &self.monotony(answer);
        let shown = answer.found.or(answer.nearest).map(|at| &answer.tried[at]);
        text += &warnings(shown.map_or(&[], |tried| &tried.warnings));
        if let (Some(limit), Some(_)) = (&answer.bottleneck, answer.found) {
            text += &format!("{}\n", printable_line(limit));
        }
        if let Some((number, why)) = &answer.refused {
            let noun = if self.unknowns.len() > 1 { "pair" } else { "value" };
            let refused =
                if *number == 1 { format!("1 {noun} is") } else { format!("{number} {noun}s are") };
            text += &format!("{refused} refused by the scenario: {}\n", printable_line(why));
        }
        text + "\n" + &self.tried(answer)
    }

    fn not_found(&self, answer: &Answer, nearest: Option<&Tried>) -> String {
        let all: usize = answer.values.iter().product();
        let tried = match answer.tried.len() == all {
            true => "all were tried".to_owned(),
            false => format!("{} of {all} were tried", answer.tried.len()),
        };
        let noun = if self.unknowns.len() > 1 { "pair of values" } else { "value" };
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
            if self.unknowns.iter().all(|(_, word)| *word == "largest") { "Less" } else { "More" };
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
        let words: Vec<&str> = self.unknowns.iter().map(|(_, word)| *word).collect();
        let figures = self.figures(&found.figures);
        if words.len() > 1 {
            let pairs = answer.front.len();
            let which = match (pairs, found.cost_per_month.is_some()) {
                (1, _) => format!("The only {} pair that meets {}", words[0], self.goals()),
                (_, true) => {
                    format!(
                        "The cheapest of the {pairs} {} pairs that meet {}",
                        words[0],
                        self.goals()
                    )
                }
                (_, false) => {
                    format!("One of the {pairs} {} pairs that meet {}", words[0], self.goals())
                }
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
        let end = beside.is_empty().then(|| format!(", the {} value in the range", words[0]));
        format!(
            "The {} value that meets {} is {}{}{cost}, {certainty}: {figures}{beside}.\n",
            words[0],
            self.goals(),
            self.values(found),
            end.unwrap_or_default(),
        )
    }

    /// Writes the settings that were tried.
    fn tried(&self, answer: &Answer) -> String {
        let has_cost = answer.tried.iter().any(|tried| tried.cost_per_month.is_some());
        let mut heading: Vec<String> = self.unknowns.iter().map(|(key, _)| last(key)).collect();
        heading.extend(self.shown.goals.iter().map(|goal| goal.wanted.text.clone()));
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
            let figures = (0..self.shown.goals.len()).map(|index| {
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
            .map_or(Vec::new(), |row| row.at.iter().map(|(key, _)| last(key)).collect());
        let has_options = rows.iter().any(|row| row.option.is_some());
        let has_cost = self.currency.is_some();
        let mut heading = keys;
        heading.extend(has_options.then(|| "option".to_owned()));
        heading.extend(self.unknowns.iter().map(|(key, word)| format!("{word} {}", last(key))));
        heading.extend(self.shown.goals.iter().map(|goal| goal.wanted.text.clone()));
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
            line.extend((0..self.shown.goals.len()).map(|index| {
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
            let named = || match &row.option {
                Some(option) => format!("{} ({})", self.named(row).trim(), printable_line(option)),
                None => self.named(row).trim().to_owned(),
            };
            for warning in shown.map_or(&[][..], |tried| &tried.warnings) {
                notes += &format!("{}: Warning: {}\n", named(), printable_line(warning));
            }
            let binds = answer.filter(|_| !is_found).and_then(|of| of.bottleneck.as_ref());
            if let Some(why) = row.failed.as_ref().or(binds) {
                notes += &format!("{}: {}\n", named(), printable_line(why));
            }
        }
        if has_options && has_cost {
            notes += &self.cheapest(rows);
        }
        let all_certain = rows.iter().all(|row| row.answer.as_ref().is_none_or(|of| of.certain));
        format!("Goals: {}, {}.\n\n{lines}\n{notes}", self.goals(), self.certainty(all_certain))
    }

    /// Says which option is the cheapest that meets the goals, for each value of the row's keys.
    fn cheapest(&self, rows: &[Row]) -> String {
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
            let named = if row.at.is_empty() {
                String::new()
            } else {
                format!("With {}: ", self.named(row).trim())
            };
            let option = printable_line(best.option.as_deref().unwrap_or_default());
            text += &format!(
                "{named}`{option}` is the cheapest, {} a month.\n",
                money(cost, self.currency())
            );
        }
        text
    }

    fn choice(&self, choice: &Choice, draws: Option<&OverDraws>) -> String {
        let by = self.best.as_deref().unwrap_or_default();
        let mut text = match choice.best.map(|at| &choice.options[at]) {
            None => {
                let certainty = self.certainty(choice.certain);
                format!("No option meets {}, {certainty}.\n", self.goals())
            }
            Some(best) => {
                let which = match self.is_by_cost() {
                    true => "the cheapest".to_owned(),
                    false => format!("the best by {by}"),
                };
                let meets = match self.goals.is_empty() {
                    true => String::new(),
                    false => format!(" that meets {}", self.goals()),
                };
                let figure = best.best.as_ref().map_or_else(String::new, |of| self.best_figure(of));
                format!(
                    "`{}` is {which}{meets}, {}: {by} {figure}.\n",
                    printable_line(&best.name),
                    self.certainty(choice.certain)
                )
            }
        };
        let best = choice.best.map(|at| &choice.options[at]);
        for (at, option) in choice.options.iter().enumerate() {
            if choice.best != Some(at) {
                text += &self.loser(option, best, choice.indifference);
            }
        }
        for option in &choice.options {
            let named = option.warnings.iter().map(|of| format!("`{}`: {of}", option.name));
            text += &warnings(&named.collect::<Vec<_>>());
        }
        if let Some(draws) = draws {
            text += &over_draws(draws, choice);
        }
        text += &format!("\n{}\n", self.options(choice));
        text + &self.arithmetic(choice)
    }

    /// Returns whether options are chosen by a cost.
    fn is_by_cost(&self) -> bool {
        self.shown.best.as_ref().is_some_and(|best| best.unit() == Unit::Money)
    }

    fn best_figure(&self, of: &Figured) -> String {
        let unit = self.shown.best.as_ref().map_or(Unit::Count, |best| best.unit());
        with_interval(of.mean, of.ci95, unit, self.currency())
    }

    /// Says why an option is not the best.
    fn loser(&self, option: &Standing, best: Option<&Standing>, indifference: f64) -> String {
        let name = printable_line(&option.name);
        match (option.place, option.misses, &option.failed) {
            (_, _, Some(why)) => format!("`{name}` could not be tried: {}\n", printable_line(why)),
            (Rank::Misses, Some(goal), _) => {
                let wanted = &self.shown.goals[goal];
                let by = wanted.margin(option.figures[goal].mean).abs();
                let by = self.difference(by, wanted.wanted.unit());
                format!("`{name}` misses `{}` by {by}.\n", printable_line(&wanted.text))
            }
            (Rank::Undecided, ..) if best.is_some() => format!(
                "Whether `{name}` is better is not decided after {} replications.\n",
                option.replications
            ),
            (Rank::Undecided, ..) => format!(
                "Whether `{name}` meets the goals is not decided after {} replications.\n",
                option.replications
            ),
            _ => {
                let both = option.best.as_ref().zip(best.and_then(|best| best.best.as_ref()));
                let differ = both.map(|(own, of)| (own.mean - of.mean, of.mean));
                self.worse(&name, differ.unwrap_or_default(), indifference)
                    + &self.faster(option, best)
            }
        }
    }

    /// Says by how much an option is worse than the best one, whose figure is `best`.
    fn worse(&self, name: &str, (by, best): (f64, f64), indifference: f64) -> String {
        let unit = self.shown.best.as_ref().map_or(Unit::Count, Wanted::unit);
        let amount = match unit {
            _ if by == 0.0 => "the same".to_owned(),
            Unit::Share => self.difference(by.abs(), unit),
            _ if best == 0.0 => self.difference(by.abs(), unit),
            _ => share((by / best).abs()),
        };
        let is_within = by.abs() <= indifference;
        match (by == 0.0, is_within, self.is_by_cost()) {
            (true, _, true) => format!("`{name}` costs the same"),
            (true, _, false) => format!("`{name}` is as good"),
            (_, true, true) => format!("`{name}` costs {amount} more, which does not matter"),
            (_, true, false) => format!("`{name}` differs by {amount}, which does not matter"),
            (_, false, true) => format!("`{name}` costs {amount} more"),
            (_, false, false) => format!("`{name}` is {amount} worse"),
        }
    }

    /// Ends the sentence on an option that costs more than the best one: how much faster or slower it is.
    fn faster(&self, option: &Standing, best: Option<&Standing>) -> String {
        let speeds = option
            .samples_per_second
            .as_ref()
            .zip(best.and_then(|of| of.samples_per_second.as_ref()));
        match speeds.filter(|_| self.is_by_cost()) {
            Some((own, of)) if of.mean > 0.0 => {
                let ratio = own.mean / of.mean - 1.0;
                let word = if ratio >= 0.0 { "faster" } else { "slower" };
                match share(ratio.abs()).as_str() {
                    "0.0 %" => " and is as fast.\n".to_owned(),
                    by => format!(" and is {by} {word}.\n"),
                }
            }
            _ => ".\n".to_owned(),
        }
    }

    /// Writes a difference between two figures of a unit: shares in points.
    fn difference(&self, by: f64, unit: Unit) -> String {
        match unit {
            Unit::Share => format!("{:.1} points", 100.0 * by),
            unit => written(by, unit, self.currency()),
        }
    }

    fn options(&self, choice: &Choice) -> String {
        let has_cost = choice.options.iter().any(|option| option.cost_per_month.is_some());
        let mut heading = vec!["option".to_owned()];
        heading.extend(self.shown.goals.iter().map(|goal| goal.wanted.text.clone()));
        let usual = ["throughput", "cost per month", "cost_per_month"];
        let best = self.best.as_deref().filter(|of| !usual.contains(of));
        heading.extend(best.map(str::to_owned));
        heading.push("samples/s".to_owned());
        if has_cost {
            heading.extend(["cost of a month", "on the front"].map(str::to_owned));
        }
        heading.push("replications".to_owned());
        let names: Vec<&str> = heading.iter().map(String::as_str).collect();
        let mut rows = table(&names);
        let or_none = |of: Option<String>| of.unwrap_or_else(|| "-".to_owned());
        for (at, option) in choice.options.iter().enumerate() {
            let mark = if choice.best == Some(at) { "* " } else { "" };
            let mut row = vec![format!("{mark}{}", printable_line(&option.name))];
            row.extend(
                (0..self.shown.goals.len()).map(|index| {
                    or_none(option.figures.get(index).map(|of| self.figure(index, of)))
                }),
            );
            row.extend(best.map(|_| or_none(option.best.as_ref().map(|of| self.best_figure(of)))));
            let speed = option.samples_per_second.as_ref();
            row.push(or_none(speed.map(|of| with_interval(of.mean, of.ci95, Unit::Count, ""))));
            if has_cost {
                let cost = option.cost_per_month.as_ref();
                row.push(or_none(cost.map(|of| money(of.mean, self.currency()))));
                row.push(or_none(
                    option.on_front.map(|on| if on { "yes" } else { "no" }.to_owned()),
                ));
            }
            row.push(option.replications.to_string());
            rows.add_row(cells(&row));
        }
        rows.to_string()
    }

    /// Writes what the cost of each option consists of.
    fn arithmetic(&self, choice: &Choice) -> String {
        let mut text = String::new();
        for option in choice.options.iter().filter(|option| !option.items.is_empty()) {
            let items = items(&option.items, self.currency());
            text += &format!("{}: {items}\n", printable_line(&option.name));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }
}

/// Writes what a cost consists of: `8 nodes × $2.00/h = $16.0/h; …`.
pub(super) fn items(all: &[Priced], currency: &str) -> String {
    let one = |item: &Priced| {
        let time = if item.hourly { "/h" } else { "" };
        format!(
            "{} {} × {}{time} = {}/h",
            count(item.count),
            printable_line(&item.what),
            money(item.each, currency),
            money(item.per_hour, currency)
        )
    };
    all.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Writes warnings, a line each.
fn warnings(all: &[String]) -> String {
    all.iter().map(|of| format!("Warning: {}\n", printable_line(of))).collect()
}

/// Says how often the choice is the best over the draws.
fn over_draws(of: &OverDraws, choice: &Choice) -> String {
    let named = choice.options.iter().zip(&of.best).filter(|(_, number)| **number > 0);
    let named: Vec<String> = named
        .map(|(option, number)| format!("`{}` in {number}", printable_line(&option.name)))
        .chain((of.none > 0).then(|| format!("none in {}", of.none)))
        .collect();
    let measure = of.measure.as_ref().map_or(String::new(), |what| format!(" To decide, {what}."));
    let (draws, over, named) = (of.draws, &of.over, named.join(", "));
    format!("Over {draws} draws of {over}, the best is {named}.{measure}\n")
}

/// Returns the last part of a key.
fn last(key: &str) -> String {
    key.rsplit('.').next().unwrap_or(key).to_owned()
}
