//! Man pages, made from the same definitions as the help.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Command;

/// The page of the command itself.
pub(crate) fn page(command: Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

/// One page per command: `dewar.1`, `dewar-user-add.1` …
pub(crate) fn write(command: Command, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(command.disable_help_subcommand(true), folder)
        .with_context(|| format!("cannot write the pages to {}", folder.display()))
}
