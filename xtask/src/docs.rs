//! `cargo xtask docs`: pages that are made, not written. `docs/reference/config.md` comes from
//! the table of configuration keys, `docs/reference/cli.md` from the command line's own help, and
//! `docs/reference/admin.md` from the table of admin commands.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::run::{build_as_tested, cargo, output, run};
use crate::workspace::Workspace;

/// Makes the pages, or checks them, and builds the API documentation.
pub(crate) fn docs(workspace: &Workspace, check: bool) -> Result<()> {
    build_as_tested(workspace, "command_line")?;
    let binary = workspace.binary("debug");
    let config = output(Command::new(&binary).args(["config", "explain", "--markdown"]))?;
    let admin = output(Command::new(&binary).args(["audit", "--actions", "--markdown"]))?;
    let mut cli = String::from(
        "# Command line\n\nMade by `cargo xtask docs` from what `--help` prints. Do not edit.\n",
    );
    describe(&binary, &mut Vec::new(), &mut cli)?;
    let dir = workspace.root.join("docs/reference");
    for (name, text) in [("config.md", config), ("cli.md", cli), ("admin.md", admin)] {
        let path = dir.join(name);
        if check {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            ensure!(
                found == text,
                "{} is out of date: run cargo xtask docs",
                path.display()
            );
        } else {
            std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
    }
    if check {
        return Ok(());
    }
    let mut rustdoc = cargo(
        workspace,
        [
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
    );
    // Pages of modules lead into what is private: they are for who changes the code.
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    run(rustdoc.env("RUSTDOCFLAGS", flags))
}

/// Appends the help of the command at `path` and of all below it.
fn describe(binary: &Path, path: &mut Vec<String>, out: &mut String) -> Result<()> {
    // The page must not depend on who makes it.
    let mut command = Command::new(binary);
    command
        .args(path.iter())
        .arg("--help")
        .env_clear()
        .env("COLUMNS", "100");
    let help = output(&mut command)?;
    let name = std::iter::once("dewar").chain(path.iter().map(String::as_str));
    let name = name.collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    write!(
        out,
        "\n## `{name}`\n\n```text\n{}\n```\n",
        lines.join("\n").trim_end()
    )?;
    for command in commands(&help) {
        path.push(command);
        describe(binary, path, out)?;
        path.pop();
    }
    Ok(())
}

/// The names in the help's list of commands.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        // Longer indents continue a description.
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|rest| !rest.starts_with(' '))
        })
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(ToOwned::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_help() {
        let help = "About\n\nUsage: dewar <COMMAND>\n\nCommands:\n  serve  Serve\n  key    Keys\n         \
                    and more\n  help   Print help\n\nOptions:\n  -h  Help\n";
        assert_eq!(commands(help), ["serve", "key"]);
        assert_eq!(commands("Usage: dewar serve\n"), [""; 0]);
    }
}
