//! Output formats, as options of several commands.

use clap::ValueEnum;

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for people
    Text,
    /// JSON for programs
    Json,
}

/// Format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// Comma-separated values with a header
    Csv,
    /// An array of objects
    Json,
    /// Parquet, compressed, with the units of columns; quantities in SI units
    Parquet,
}

/// Background colour of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FigureTheme {
    /// White, for paper
    Light,
    /// Nearly black, for dark pages and slides
    Dark,
    /// As the page around it, for websites (SVG; pixels are on white)
    Auto,
}

/// Kind of picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PictureFormat {
    /// Vector graphics
    Svg,
    /// Pixels
    Png,
    /// One of each
    Both,
}
