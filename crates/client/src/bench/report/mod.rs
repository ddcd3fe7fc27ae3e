//! Prints the results: a table and a comparison on standard output, CSV, JSON and plots in files.

mod compare;
mod csv;
mod plot;
mod spread;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub(super) use text::{columns, figure, figure_or_dash};

use std::path::Path;

use anyhow::{Context as _, Result};

use super::args::OutputArgs;
use super::result::Campaign;

/// Prints the tables and writes the files that were asked for.
pub(super) fn write_reports(campaign: &Campaign, output: &OutputArgs) -> Result<()> {
    println!("{}", table::table(campaign));
    if let Some(text) = compare::table(campaign) {
        println!("{text}");
    }
    if let Some(path) = &output.csv {
        write(path, &csv::csv(campaign))?;
    }
    if let Some(path) = &output.json {
        let mut text = serde_json::to_string_pretty(campaign).context("form the JSON")?;
        text.push('\n');
        write(path, &text)?;
    }
    if let Some(dir) = &output.plot {
        std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        for (name, svg) in plot::plots(campaign) {
            write(&dir.join(name), &svg)?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
