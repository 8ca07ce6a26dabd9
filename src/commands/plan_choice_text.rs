//! The text of `forebay plan` on a choice between options.

use super::planned::Planned;
use super::profile_text::{cells, table};
use crate::metric::Unit;
use crate::plan::goal::{with_interval, written};
use crate::plan::{Choice, Figured, OverDraws, Rank, Standing};
use crate::report::format::{count, share};
use crate::report::money;
use crate::scenario::{Priced, printable_line};

/// Options at most of which each has a sentence; of more only those that come near the best one.
const MOST_TOLD: usize = 10;

impl Planned {
    /// Writes the sentences on a choice.
    pub(super) fn chosen(&self, choice: &Choice, draws: Option<&OverDraws>) -> String {
        let by = self.best.as_ref().map_or("", |best| &best.figure);
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
        text += &draws.map_or_else(String::new, |draws| over_draws(draws, choice));
        let best = choice.best.map(|at| &choice.options[at]);
        let losers = choice.options.iter().enumerate().filter(|(at, _)| choice.best != Some(*at));
        let (told, others): (Vec<&Standing>, Vec<&Standing>) =
            losers.map(|(_, option)| option).partition(|option| {
                choice.options.len() <= MOST_TOLD || is_close(option, best, choice.indifference)
            });
        for option in told {
            text += &self.loser(option, best, choice.indifference);
        }
        if !others.is_empty() {
            let number = others.len();
            text += &format!("The other {number} are worse or miss a goal: the table has each.\n");
        }
        text
    }

    /// Returns whether options are chosen by a cost.
    fn is_by_cost(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.unit == Unit::Money)
    }

    fn best_figure(&self, of: &Figured) -> String {
        let unit = self.best.as_ref().map_or(Unit::Count, |best| best.unit);
        with_interval(of.mean, of.ci95, unit, self.currency())
    }

    /// Says why an option is not the best.
    fn loser(&self, option: &Standing, best: Option<&Standing>, indifference: f64) -> String {
        let name = printable_line(&option.name);
        match (option.place, option.misses, &option.failed) {
            (_, _, Some(why)) => format!("`{name}` could not be tried: {}\n", printable_line(why)),
            (Rank::Misses, Some(goal), _) => {
                let wanted = &self.goals[goal];
                let by = (option.figures[goal].mean - wanted.limit).abs();
                let by = self.difference(by, wanted.figure.unit);
                format!("`{name}` misses `{}` by {by}.\n", printable_line(&wanted.goal))
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
                let worse = self.worse(&name, differ.unwrap_or_default(), indifference);
                let faster = self.faster(option, best);
                let comma =
                    if worse.ends_with("matter") && faster.starts_with(' ') { "," } else { "" };
                worse + comma + &faster
            }
        }
    }

    /// Says by how much an option is worse than the best one, whose figure is `best`.
    fn worse(&self, name: &str, (by, best): (f64, f64), indifference: f64) -> String {
        let unit = self.best.as_ref().map_or(Unit::Count, |best| best.unit);
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

    pub(super) fn options(&self, choice: &Choice) -> String {
        let has_cost = choice.options.iter().any(|option| option.cost_per_month.is_some());
        let mut heading = vec!["option".to_owned()];
        heading.extend(self.goals.iter().map(|goal| goal.figure.figure.clone()));
        let best = self.deciding_column().map(|best| best.figure.as_str());
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
                (0..self.goals.len()).map(|index| {
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
    pub(super) fn arithmetic(&self, choice: &Choice) -> String {
        let mut text = String::new();
        for option in choice.options.iter().filter(|option| !option.items.is_empty()) {
            let items = items(&option.items, self.currency());
            text += &format!("{}: {items}\n", printable_line(&option.name));
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }
}

/// Returns whether an option may be the best, or differs so little from it that this does not matter, or could not be tried.
fn is_close(option: &Standing, best: Option<&Standing>, indifference: f64) -> bool {
    let both = option.best.as_ref().zip(best.and_then(|best| best.best.as_ref()));
    match option.place {
        Rank::Best | Rank::Undecided | Rank::Failed => true,
        Rank::Worse => both.is_some_and(|(own, of)| (own.mean - of.mean).abs() <= indifference),
        Rank::Misses => false,
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

/// Says how often the choice is the best over the draws.
fn over_draws(of: &OverDraws, choice: &Choice) -> String {
    let named = choice.options.iter().zip(&of.best).filter(|(_, number)| **number > 0);
    let named: Vec<String> = named
        .map(|(option, number)| format!("`{}` in {number}", printable_line(&option.name)))
        .chain((of.none > 0).then(|| format!("none in {}", of.none)))
        .collect();
    let measure = of.measure.as_ref().map_or(String::new(), |what| format!(" To decide, {what}."));
    let (draws, over, named) = (of.draws, &of.over, named.join(", "));
    let of_best = choice.best.and_then(|at| of.best.get(at)).copied().unwrap_or(0);
    let is_stable = 2 * of_best > of.draws;
    let begin = if is_stable { "Over" } else { "That holds for the numbers as they are, but over" };
    format!("{begin} {draws} draws of {over}, the best is {named}.{measure}\n")
}
