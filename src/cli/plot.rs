//! The command `plot`.

use super::format::{FigureTheme, PictureFormat};
use clap::Args;
use std::path::PathBuf;

/// Draw figures by recipe.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay plot plots/batch-interval.toml
  forebay plot plots/*.toml --output figures --format both
  forebay plot recipe.toml --data rows.csv

A recipe says which columns of which rows to draw. Rows come from the CSV file or the scenario that \
its [data] table names (a scenario is swept, or run once for a series over time), or from --data. \
Each figure is named after its recipe and lies beside it unless --output is given. An existing figure of \
that name is replaced.")]
pub struct Plot {
    /// Recipe files
    #[arg(required = true, value_name = "RECIPE")]
    pub recipes: Vec<PathBuf>,
    /// Rows to draw, instead of those that the recipe names; `-` reads standard input
    #[arg(long, value_name = "FILE.csv")]
    pub data: Option<PathBuf>,
    /// Directory for the figures
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Kind of picture
    #[arg(long, value_enum, default_value_t = PictureFormat::Svg)]
    pub format: PictureFormat,
    /// Background colour of the figures
    #[arg(long, value_enum, default_value_t = FigureTheme::Light)]
    pub theme: FigureTheme,
    /// Threads to simulate with; all cores if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: Option<u16>,
}
