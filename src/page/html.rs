//! A page as HTML.

use super::words::{Lines, marked, split};
use super::{Block, Cell, Column, Page, Section, Table, drawing};
use crate::plot::Inline;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What a browser may load: the style and the script of the page itself, nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                      form-action 'none'";

/// Numbers tables, figures and other regions of a page.
#[derive(Default)]
struct Numbers {
    figures: usize,
    tables: usize,
    texts: usize,
}

fn next(number: &mut usize) -> usize {
    *number += 1;
    *number
}

/// Returns the page as HTML.
pub fn render(page: &Page) -> String {
    let dark =
        format!("@media screen and (prefers-color-scheme: dark) {{\n{}}}\n", Inline::dark_rules());
    let mut numbers = Numbers::default();
    let sections: Vec<Markup> = page
        .sections
        .iter()
        .enumerate()
        .map(|(index, section)| {
            let is_alone = page.sections.len() == 1 && section.title == page.title;
            of_section(section, (index + 1, is_alone), &mut numbers)
        })
        .collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="generator" content=(concat!("forebay ", env!("CARGO_PKG_VERSION")));
                link rel="icon" href="data:,";
                title { (page.title.replace('`', "")) }
                style { (PreEscaped(STYLE)) (PreEscaped(&dark)) }
            }
            body {
                a.skip href="#content" { "Skip to the result" }
                header { h1 id="title" { (marked(&page.title)) } }
                @if page.sections.len() > 1 { (contents(page)) }
                main id="content" tabindex="-1" {
                    @for section in &sections { (section) }
                }
                footer {
                    p {
                        "Written by forebay " (env!("CARGO_PKG_VERSION")) ". Everything is in this file: it loads nothing, and its script \
                         only sorts tables. Point at a figure to read its values."
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// Returns links to the sections.
fn contents(page: &Page) -> Markup {
    html! {
        nav aria-label="Results on this page" {
            ol {
                @for (index, section) in page.sections.iter().enumerate() {
                    li { a href=(format!("#result-{}", index + 1)) { (marked(&section.title)) } }
                }
            }
        }
    }
}

/// Returns a section. If it `is_alone`, the title of the page is its title, and its parts are one level higher.
fn of_section(
    section: &Section,
    (number, is_alone): (usize, bool),
    numbers: &mut Numbers,
) -> Markup {
    let id = format!("result-{number}");
    let label = if is_alone { "title".to_owned() } else { format!("{id}-title") };
    let parts: Vec<(usize, &str, Vec<Markup>)> = section
        .parts
        .iter()
        .enumerate()
        .filter(|(_, part)| !part.blocks.is_empty())
        .map(|(index, part)| {
            let blocks = part.blocks.iter().map(|block| of_block(block, numbers)).collect();
            (index, part.title.as_str(), blocks)
        })
        .collect();
    html! {
        section.alone[is_alone] id=(id) aria-labelledby=(label) {
            @if !is_alone { h2 id=(label) { (marked(&section.title)) } }
            div.answer {
                @for text in &section.answer { (text_block(text, "Lines of the answer")) }
            }
            @if !section.warnings.is_empty() {
                div.warnings role="note" aria-label="Warnings" {
                    @for warning in &section.warnings { p { strong { "Warning: " } (marked(warning)) } }
                }
            }
            @for (_, title, blocks) in &parts {
                @if is_alone { h2 { (marked(title)) } } @else { h3 { (marked(title)) } }
                @for block in blocks { (block) }
            }
        }
    }
}

/// Returns paragraphs, and indented lines unchanged.
fn text_block(text: &str, label: &str) -> Markup {
    html! {
        @for lines in split(text) {
            @match lines {
                Lines::Paragraph(line) => p { (marked(line)) },
                Lines::Fixed(lines) => {
                    // All of these lines are indented.
                    @let lines: Vec<&str> = lines.iter().map(|line| &line[2..]).collect();
                    (fixed(&lines.join("\n"), label))
                }
            }
        }
    }
}

/// Returns unchanged lines in a region that scrolls.
fn fixed(text: &str, label: &str) -> Markup {
    html! { pre.scroll role="region" tabindex="0" aria-label=(label) { code { (text) } } }
}

fn of_block(block: &Block, numbers: &mut Numbers) -> Markup {
    match block {
        Block::Paragraph(text) => {
            let number = next(&mut numbers.texts);
            text_block(text, &format!("Lines {number}"))
        }
        Block::List(items) => html! { ul { @for item in items { li { (marked(item)) } } } },
        Block::Figure(figure) => drawing::figure(figure, next(&mut numbers.figures)),
        Block::Table(table) => of_table(table, next(&mut numbers.tables)),
        Block::Lines { label, text } => {
            let number = next(&mut numbers.texts);
            html! {
                p.label { (marked(label)) ":" }
                (fixed(text.trim_end(), &format!("{label}, text {number}")))
            }
        }
    }
}

/// Number of rows above which a table scrolls on screens.
const TALL: usize = 40;

fn of_table(table: &Table, number: usize) -> Markup {
    let id = format!("table-{number}");
    let is_tall = table.rows.len() > TALL;
    html! {
        div.scroll.tall[is_tall] role="region" tabindex="0" aria-labelledby=(id) {
            table {
                caption id=(id) { span { "Table " (number) ": " (marked(&table.caption)) } }
                thead { tr {
                    @for Column { name, is_number } in &table.columns {
                        th.n[*is_number] scope="col" { (marked(name)) }
                    }
                } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (index, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
                                (of_cell(cell, column, index == 0))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Length above which a text in a cell counts as long [B].
const LONG: usize = 40;

fn of_cell(cell: &Cell, column: &Column, is_name: bool) -> Markup {
    // A number in the text itself need not be repeated.
    let value = cell.value.map(short).filter(|value| *value != cell.text);
    // Long texts get room, so that they do not become tall columns of single words.
    let is_long = !column.is_number && cell.text.len() > LONG;
    html! {
        @if is_name {
            th.n[column.is_number] scope="row" data-v=[value] { (marked(&cell.text)) }
        } @else {
            td.n[column.is_number].wide-text[is_long] data-v=[value] { (marked(&cell.text)) }
        }
    }
}

/// Writes a number to seven digits, as scripts read it.
fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    let plain = rounded.to_string();
    let scientific = format!("{rounded:e}");
    if scientific.len() < plain.len() { scientific } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_to_sort_by_are_short() {
        assert_eq!(
            [0.1234567891, 1e-12, 533.0, 2e9].map(short),
            ["0.1234568", "1e-12", "533", "2e9"]
        );
    }
}
