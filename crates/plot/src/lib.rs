//! Draws figures from rows of data; it never needs a running simulation.
//!
//! A [`Recipe`] selects columns of a [`Table`] and makes a [`Figure`] from them. The figure is laid out as shapes, which the
//! backends of plotters turn into SVG or pixels. Ranges follow from the data, text is set in a built-in font, and the same rows
//! give the same bytes.
//!
//! # Example
//!
//! ```
//! use forebay_plot::Table;
//!
//! let rows = Table::read("threads,step_time\n1,0.2\n2,0.1\n".as_bytes())?;
//! assert_eq!((rows.len(), rows.columns()), (2, &["threads".to_owned(), "step_time".to_owned()][..]));
//! # Ok::<(), forebay_plot::PlotError>(())
//! ```

mod axis;
mod bars;
mod build;
mod clip;
mod direct;
mod figure;
mod filter;
mod font;
mod groups;
mod heat;
mod inline;
mod key;
mod labels;
mod layout;
mod legend;
mod lines;
mod marks;
mod name;
mod naming;
mod palette;
mod recipe;
mod render;
mod shape;
mod signs;
mod table;
mod unit;
mod upright;

pub use axis::Scale;
pub use build::build;
pub use figure::{
    AxisSpec, Bar, BarPart, Bars, Cell, Figure, Heat, Key, Label, Lines, Mark, Panel, Point,
    Series, Sign, Style,
};
pub use inline::{Hint, Inline, inline};
pub use name::{label_of, unit_of};
pub use palette::{Colour, Theme, colour};
pub use recipe::{DataSource, Distribution, DrawnAs, Recipe, Rows, schema};
pub use render::{png, svg};
pub use signs::{INTERVAL, signs};
pub use table::Table;
pub use unit::Unit;

/// Why there is no figure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlotError {
    /// The recipe is invalid: byte offsets in ascending order, each with the problem there.
    #[error("{}", lines(.0))]
    Recipe(Vec<(usize, String)>),
    /// The rows cannot be read as a table.
    #[error("{0}")]
    Table(String),
    /// There is nothing to draw, or too much.
    #[error("{0}")]
    NoData(String),
    /// A backend failed.
    #[error("{0}")]
    Backend(String),
}

impl PlotError {
    /// Collects all problems with a recipe, each once, in the order of its text.
    fn all(problems: impl IntoIterator<Item = PlotError>) -> PlotError {
        let mut all: Vec<(usize, String)> = Vec::new();
        for problem in problems {
            let own = match problem {
                PlotError::Recipe(own) => own,
                other => vec![(usize::MAX, other.to_string())],
            };
            for one in own {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        all.sort_by_key(|(at, _)| *at);
        PlotError::Recipe(all)
    }
}

fn lines(problems: &[(usize, String)]) -> String {
    problems.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>().join("\n")
}
