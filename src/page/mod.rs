//! Pages of results: one HTML file with everything in it, for mail and for print.
//!
//! A [`Page`] is what a page says, as plain data; [`render`] writes it as HTML. The page loads nothing, works from a file, and says
//! everything without scripts: the script only sorts tables. Every text is escaped. The same page gives the same bytes.

mod drawing;
mod html;
mod words;

pub use html::render;

use crate::plot::Figure;

/// A page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Title.
    pub title: String,
    /// Sections in reading order, one for each result.
    pub sections: Vec<Section>,
}

/// A result.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Title: what it is the result of.
    pub title: String,
    /// The answer in sentences, each a paragraph.
    pub answer: Vec<String>,
    /// What the reader should know before trusting the answer, in sentences.
    pub warnings: Vec<String>,
    /// What the answer rests on, in reading order. Parts without blocks are left out.
    pub parts: Vec<Part>,
}

/// A part of a section.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Title.
    pub title: String,
    /// Content in reading order.
    pub blocks: Vec<Block>,
}

impl Part {
    /// Makes a part.
    pub fn new(title: &str, blocks: Vec<Block>) -> Part {
        Part { title: title.to_owned(), blocks }
    }
}

/// A piece of content. In texts, what stands between backticks is shown as code.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Paragraph(String),
    /// Sentences, one for each item.
    List(Vec<String>),
    /// A figure. The page writes its title and subtitle above it.
    Figure(Box<Figure>),
    /// A table.
    Table(Table),
    /// Lines that the page shows unchanged: a file or a command.
    Lines {
        /// What they are.
        label: String,
        /// The lines.
        text: String,
    },
}

/// A table. The first cell of a row names the row.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// What the table shows.
    pub caption: String,
    /// Columns from left to right.
    pub columns: Vec<Column>,
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Whether its cells are numbers, which are aligned right.
    pub is_number: bool,
}

impl Column {
    /// Makes a column of texts.
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), is_number: false }
    }

    /// Makes a column of numbers.
    pub fn number(name: impl Into<String>) -> Column {
        Column { name: name.into(), is_number: true }
    }
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// What it shows.
    pub text: String,
    /// Number by which rows are sorted; `None`: the text.
    pub value: Option<f64>,
}

impl Cell {
    /// Makes a cell of a number as `text` writes it.
    pub fn number(value: Option<f64>, text: impl FnOnce(f64) -> String) -> Cell {
        Cell { text: value.map_or_else(|| "–".to_owned(), text), value }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), value: None }
    }
}
