//! Output formats that options of commands select.

use clap::ValueEnum;

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Form of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// Comma-separated values with a header
    Csv,
    /// An array of objects
    Json,
}

/// What figures are drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FigureTheme {
    /// White, for paper
    Light,
    /// Nearly black, for dark pages and slides
    Dark,
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
