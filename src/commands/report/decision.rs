//! The section of a plan.

use super::provenance;
use super::purchase::{self, Bought};
use super::read::{capital, counted, value_cell};
use crate::commands::planned::{Planned, Row};
use crate::commands::{keys, plan_figure, plan_text};
use crate::metric::Unit;
use crate::page::{Block, Cell, Column, Part, Section, Table};
use crate::plan::goal::with_interval;
use crate::plan::{Answer, Choice, Figured, Rank, Standing, Tried};
use crate::report::format::{count, share};
use serde_json::Value;

/// Rows of which each has its answer in sentences, at most; of more there is a table.
const MOST_IN_SENTENCES: usize = 6;

/// Reads a plan.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(json: &Value) -> Result<Planned, String> {
    let planned: Planned = serde_json::from_value(json.clone()).map_err(|why| why.to_string())?;
    let shares = [planned.certainty, planned.within];
    match planned.rows.iter().all(|row| is_whole(&planned, row)) {
        _ if planned.rows.is_empty() => Err("it has no rows".to_owned()),
        _ if !shares.iter().all(|share| (0.0..=1.0).contains(share)) => {
            Err("`certainty` or `within` is no share".to_owned())
        }
        true => Ok(planned),
        false => Err("its rows do not fit together".to_owned()),
    }
}

/// Returns whether every index in a row is valid, and every list has the length that the goals and keys require.
fn is_whole(of: &Planned, row: &Row) -> bool {
    let goals = of.goals.len();
    let figures = |all: &[Figured]| all.is_empty() || all.len() == goals;
    let whole_answer = |answer: &Answer| {
        let mut indices = answer.found.iter().chain(&answer.nearest).chain(&answer.front);
        !of.unknowns.is_empty()
            && indices.all(|at| *at < answer.tried.len())
            && answer
                .tried
                .iter()
                .all(|tried| tried.values.len() == of.unknowns.len() && figures(&tried.figures))
    };
    let whole_choice = |choice: &Choice| {
        let mut indices = choice.best.iter().chain(&choice.nearest);
        indices.all(|at| *at < choice.options.len())
            && choice.options.iter().all(|option| {
                figures(&option.figures)
                    && option.misses.is_none_or(|goal| goal < option.figures.len())
            })
    };
    row.answer.as_ref().is_none_or(whole_answer)
        && row.choice.as_ref().is_none_or(whole_choice)
        && row.at.len() == of.rows[0].at.len()
}

/// Returns the section of a plan; `json` is the same plan, with the scenario's keys and defaults.
pub(super) fn section(plan: &Planned, json: &Value) -> Section {
    let parts = vec![
        Part::new("The decision in figures", figures(plan)),
        Part::new("Answers", plan.answers()),
        Part::new("What was tried", plan.tables()),
        plan.costs(),
        Part::new("How sure is it?", plan.sureness()),
        provenance::assumed(json),
        provenance::scenario(json),
        provenance::origin(json),
    ];
    let title = format!("{}: decision", plan.scenario);
    Section { title, answer: plan.answer_first(), warnings: plan.warnings(), parts }
}

fn figures(plan: &Planned) -> Vec<Block> {
    let Ok((mut figure, left_out)) = plan_figure::figure(plan) else { return Vec::new() };
    figure.subtitle = left_out.map_or_else(String::new, |of| capital(&of));
    vec![Block::Figure(Box::new(figure))]
}

impl Planned {
    /// Says what was decided: for each row, or for how many rows if they are many.
    fn answer_first(&self) -> Vec<String> {
        if self.rows.len() > MOST_IN_SENTENCES {
            let met = self.rows.iter().filter(|row| row.is_met()).count();
            let all = self.rows.len();
            return vec![format!("In {met} of {all} rows a setting meets the goals.")];
        }
        let each = plan_text::sentences(self).into_iter();
        let has_options = self.rows.iter().any(|row| row.option.is_some());
        let cheapest = has_options.then(|| self.cheapest(&self.rows)).filter(|of| !of.is_empty());
        each.chain(cheapest).collect()
    }

    /// Returns the reasons why answers may differ from those of the long run, and a sentence on how many are not certain.
    fn warnings(&self) -> Vec<String> {
        let of_row = |row: &Row| {
            let name = row.named();
            let begin = if name.is_empty() { name } else { format!("{name}: ") };
            plan_text::warnings(row).into_iter().map(move |of| format!("{begin}{of}"))
        };
        let is_unsure = |row: &&Row| {
            let of_choice = row.choice.as_ref().map(|choice| choice.certain);
            of_choice.or(row.answer.as_ref().map(|answer| answer.certain)) == Some(false)
        };
        let unsure = self.rows.iter().filter(is_unsure).count();
        let unsure = (unsure > 0 && self.rows.len() > 1)
            .then(|| format!("{unsure} of {} answers are not certain.", self.rows.len()));
        unsure.into_iter().chain(self.rows.iter().flat_map(of_row)).collect()
    }

    /// Returns the columns of the goals' figures.
    fn goal_columns(&self) -> impl Iterator<Item = Column> {
        self.goals.iter().map(|goal| Column::number(&goal.figure.figure))
    }

    /// Returns the cells of the goals' figures.
    fn goal_cells(&self, figures: &[Figured]) -> Vec<Cell> {
        let each = self.goals.iter().enumerate();
        each.map(|(at, goal)| self.cell(figures.get(at), goal.figure.unit)).collect()
    }

    fn cell(&self, figure: Option<&Figured>, unit: Unit) -> Cell {
        let currency = self.currency.as_deref().unwrap_or_default();
        let ends = figure.and_then(|of| of.ci95);
        Cell::number(figure.map(|of| of.mean), |mean| with_interval(mean, ends, unit, currency))
    }

    fn cost_cell(&self, cost: Option<&Figured>) -> Option<Cell> {
        self.currency.as_ref().map(|_| self.cell(cost, Unit::Money))
    }

    fn cost_column(&self) -> Option<Column> {
        self.currency.as_ref().map(|_| Column::number("cost of a month"))
    }

    /// Returns the table of the answers of several rows.
    fn answers(&self) -> Vec<Block> {
        if self.rows.len() < 2 {
            return Vec::new();
        }
        let keys = self.rows.first().map_or(&[][..], |row| &row.at);
        let keys: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
        let mut columns: Vec<Column> =
            keys::short_names(&keys).into_iter().map(Column::text).collect();
        let has_options = self.rows.iter().any(|row| row.option.is_some());
        columns.extend(has_options.then(|| Column::text("option")));
        let named = self.unknowns.iter().zip(self.short_names());
        columns.extend(named.map(|(of, name)| Column::text(format!("{} {name}", of.wanted))));
        let has_choices = self.rows.iter().any(|row| row.choice.is_some());
        columns.extend(has_choices.then(|| Column::text("best option")));
        columns.extend(self.goal_columns());
        columns.extend(self.cost_column());
        columns.push(Column::text("sure"));
        let row = |row: &Row| {
            let mut cells: Vec<Cell> = row.at.iter().map(|(_, value)| value_cell(value)).collect();
            cells
                .extend(has_options.then(|| Cell::from(row.option.as_deref().unwrap_or_default())));
            cells.extend(self.answer_cells(row));
            cells
        };
        let caption = "The answer of each row".to_owned();
        let rows = self.rows.iter().map(row).collect();
        vec![Block::Table(Table { caption, columns, rows })]
    }

    /// Returns the cells of a row's answer: the values or the option, the goals' figures, the cost, and whether it is certain.
    fn answer_cells(&self, row: &Row) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        let (figures, cost, certain) = match (&row.answer, &row.choice) {
            (Some(answer), _) => {
                let shown = answer.found.or(answer.nearest).map(|at| &answer.tried[at]);
                for index in 0..self.unknowns.len() {
                    cells.push(match (answer.found, shown) {
                        (Some(_), Some(tried)) => value_cell(&tried.values[index]),
                        (_, Some(tried)) => format!("none; nearest {}", tried.values[index]).into(),
                        (_, None) => "none".into(),
                    });
                }
                let of = |tried: &Tried| (tried.figures.clone(), tried.cost_per_month.clone());
                let (figures, cost) = shown.map(of).unwrap_or_default();
                (figures, cost, answer.certain)
            }
            (None, Some(choice)) => {
                let shown = choice.best.or(choice.nearest).map(|at| &choice.options[at]);
                let name = match (choice.best, shown) {
                    (Some(_), Some(option)) => option.name.clone(),
                    (_, Some(option)) => format!("none; nearest {}", option.name),
                    (_, None) => "none".to_owned(),
                };
                cells.push(name.into());
                let of = |of: &Standing| (of.figures.clone(), of.cost_per_month.clone());
                let (figures, cost) = shown.map(of).unwrap_or_default();
                (figures, cost, choice.certain)
            }
            (None, None) => {
                let width = self.unknowns.len().max(1);
                cells.extend((0..width).map(|_| Cell::from("none")));
                (Vec::new(), None, true)
            }
        };
        cells.extend(self.goal_cells(&figures));
        cells.extend(self.cost_cell(cost.as_ref()));
        cells.push(if certain { "yes" } else { "no" }.into());
        cells
    }

    fn tables(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        if !self.goals.is_empty() {
            let goals: Vec<String> =
                self.goals.iter().map(|goal| format!("`{}`", goal.goal)).collect();
            blocks.push(Block::Paragraph(format!("Goals: {}.", goals.join(" and "))));
        }
        for row in &self.rows {
            let of = |what: &str| match row.named().as_str() {
                "" => what.to_owned(),
                at => format!("{what}, {at}"),
            };
            if let Some(choice) = &row.choice {
                blocks.push(self.options_table(choice, of("Options")));
            }
            if let Some(answer) = &row.answer {
                blocks.push(self.tried_table(answer, of("Values that were tried")));
            }
            let failed = row.failed.as_ref().map(|why| format!("No answer: {why}."));
            blocks.extend(failed.map(Block::Paragraph));
        }
        blocks
    }

    fn options_table(&self, choice: &Choice, caption: String) -> Block {
        let mut columns = vec![Column::text("option"), Column::text("place")];
        columns.extend(self.goal_columns());
        let best = self.deciding_column();
        columns.extend(best.map(|best| Column::number(&best.figure)));
        columns.push(Column::number("samples/s"));
        columns.extend(self.cost_column());
        columns.extend(self.currency.as_ref().map(|_| Column::text("on the front")));
        columns.extend([Column::number("replications"), Column::text("what holds it back")]);
        let mut rows = Vec::new();
        for option in &choice.options {
            let place = match option.place {
                Rank::Best => "best",
                Rank::Worse => "worse",
                Rank::Misses => "misses a goal",
                Rank::Undecided => "undecided",
                Rank::Failed => "could not be tried",
            };
            let mut row = vec![Cell::from(option.name.as_str()), Cell::from(place)];
            row.extend(self.goal_cells(&option.figures));
            row.extend(best.map(|best| self.cell(option.best.as_ref(), best.unit)));
            row.push(self.cell(option.samples_per_second.as_ref(), Unit::Count));
            row.extend(self.cost_cell(option.cost_per_month.as_ref()));
            if self.currency.is_some() {
                let front = option.on_front.map(|on| if on { "yes" } else { "no" });
                row.push(front.unwrap_or("–").into());
            }
            row.push(Cell::number(Some(option.replications as f64), count));
            let why = option.failed.as_ref().or(option.bottleneck.as_ref());
            row.push(why.cloned().unwrap_or_default().into());
            rows.push(row);
        }
        Block::Table(Table { caption, columns, rows })
    }

    fn tried_table(&self, answer: &Answer, caption: String) -> Block {
        let mut columns: Vec<Column> = self.short_names().into_iter().map(Column::text).collect();
        columns.extend(self.goal_columns());
        columns.extend(self.cost_column());
        columns.extend([
            Column::text("goals"),
            Column::text("sure"),
            Column::number("replications"),
        ]);
        let row = |(index, tried): (usize, &Tried)| {
            let mut row: Vec<Cell> = tried.values.iter().map(|value| value_cell(value)).collect();
            row.extend(self.goal_cells(&tried.figures));
            row.extend(self.cost_cell(tried.cost_per_month.as_ref()));
            let met = match (&tried.failed, answer.found == Some(index), tried.meets) {
                (Some(why), ..) => format!("could not be tried: {why}"),
                (None, true, _) => "met: the answer".to_owned(),
                (None, false, true) => "met".to_owned(),
                (None, false, false) => "missed".to_owned(),
            };
            row.push(met.into());
            row.push(if tried.certain { "yes" } else { "no" }.into());
            row.push(Cell::number(Some(tried.replications as f64), count));
            row
        };
        let rows = answer.tried.iter().enumerate().map(row).collect();
        Block::Table(Table { caption, columns, rows })
    }

    fn costs(&self) -> Part {
        let options = self.rows.iter().flat_map(|row| {
            let options = row.choice.iter().flat_map(|choice| &choice.options);
            options.map(move |option| (row.named(), option))
        });
        let bought: Vec<Bought> = options
            .map(|(at, option)| Bought {
                name: if at.is_empty() {
                    option.name.clone()
                } else {
                    format!("{at}, {}", option.name)
                },
                purchase: option.purchase.clone(),
                items: option.items.clone(),
                month: option.cost_per_month.as_ref().map(|cost| cost.mean),
                currency: self.currency.clone().unwrap_or_default(),
            })
            .collect();
        purchase::part(&bought)
    }

    /// Says what the certainty of the answer means.
    fn sureness(&self) -> Vec<Block> {
        let (certainty, within) = (share(self.certainty), share(self.within));
        let simulated = counted(self.simulated as f64, "replication");
        let sentences = vec![
            format!(
                "An answer marked sure is right with {certainty} certainty as far as the simulation goes, wherever it matters by more than {within}."
            ),
            format!(
                "{simulated} with the same random numbers for all settings. Intervals are 95 % intervals of means."
            ),
        ];
        vec![Block::List(sentences)]
    }
}
