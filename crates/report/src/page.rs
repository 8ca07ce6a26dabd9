//! Lines, paragraphs and tables on a terminal.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use forebay_scenario::printable_line;

/// Returns an empty table with these column heads.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(cells(&header.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()));
    table
}

/// Returns the cells of a row: the first aligned left, the others (numbers) right.
pub(super) fn cells(values: &[String]) -> Vec<Cell> {
    let align = |i| if i == 0 { CellAlignment::Left } else { CellAlignment::Right };
    values.iter().enumerate().map(|(i, value)| Cell::new(value).set_alignment(align(i))).collect()
}

/// How a piece of text looks.
#[derive(Clone, Copy)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Bar,
    Warning,
}

/// The text written so far of a page for the terminal.
pub(super) struct Page {
    pub(super) width: usize,
    colour: bool,
    pub(super) text: String,
}

impl Page {
    /// Creates an empty page of `width` columns, with ANSI colours if `colour`.
    pub(super) fn new(width: usize, colour: bool) -> Page {
        Page { width, colour, text: String::new() }
    }

    /// Appends an empty line.
    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn table(&mut self, mut table: Table) {
        table.set_width(u16::try_from(self.width).unwrap_or(u16::MAX));
        for line in table.lines() {
            self.text += line.trim_end();
            self.text.push('\n');
        }
    }

    /// Appends the beginning of a line, which [`Page::more`] ends.
    pub(super) fn line(&mut self, text: &str, style: Style) {
        self.styled(text, style);
    }

    pub(super) fn more(&mut self, text: &str, style: Style) {
        self.styled(text, style);
        self.text.push('\n');
    }

    /// Appends `text`, wrapped to the page's width; lines after the first start with `indent`.
    pub(super) fn paragraph(&mut self, text: &str, indent: &str, style: Style) {
        for line in wrapped(&printable_line(text), self.width, indent) {
            self.styled(&line, style);
            self.text.push('\n');
        }
    }

    fn styled(&mut self, text: &str, style: Style) {
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Bar => "31",
            Style::Warning => "33",
            Style::Plain => "",
        };
        if self.colour && !code.is_empty() {
            self.text += &format!("\u{1b}[{code}m{text}\u{1b}[0m");
        } else {
            self.text += text;
        }
    }
}

/// Returns `text` in lines of at most `width` characters, broken between words where that is possible; lines after the first
/// start with `indent`.
fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(width - indent.len()) {
            let line = lines.last().map_or(0, |line| line.chars().count());
            let started = line > indent.len() || (lines.len() == 1 && line > 0);
            if started && line + 1 + piece.len() > width {
                lines.push(indent.to_owned());
            } else if started {
                lines.iter_mut().last().into_iter().for_each(|line| line.push(' '));
            }
            lines.iter_mut().last().into_iter().for_each(|line| line.extend(piece));
        }
    }
    lines
}
