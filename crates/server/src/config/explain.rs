//! The reference: as text for a terminal, as Markdown for the book, and as a TOML file with every
//! key, commented out, at its default. All three are made from the key table.

use std::fmt::Write as _;

use super::keys::SECTIONS;
use super::table::{Key, Reload, Section};

/// Width to which comments of the default file and the text reference are wrapped.
const COLUMNS: usize = 78;

fn wrap(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        if column == 0 {
            out.push_str(indent);
            column = indent.len();
        } else if column + 1 + word.chars().count() > COLUMNS {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.chars().count();
    }
    out.push('\n');
    out
}

fn reload_text(key: &Key) -> &'static str {
    match key.reload {
        Reload::Live => "on SIGHUP",
        Reload::Restart => "at the next start",
    }
}

/// Name and value of each fact about a key, in the order in which all three forms show them.
fn facts(key: &Key) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("type", key.kind.to_owned()),
        ("default", key.default_toml()),
        ("range", key.range.to_string()),
        ("unit", key.unit.to_owned()),
        ("changes", reload_text(key).to_owned()),
        ("variable", key.variable()),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// One key, for a terminal.
#[must_use]
pub fn key(key: &Key) -> String {
    let mut out = format!("{}\n", key.path());
    out.push_str(&wrap(&key.description(), "    "));
    for (name, value) in facts(key) {
        let _ = writeln!(out, "    {:<9} {value}", format!("{name}:"));
    }
    out
}

/// Every key, for a terminal.
#[must_use]
pub fn everything() -> String {
    let mut out = String::new();
    for each in SECTIONS {
        out.push_str(&section(each));
        out.push('\n');
    }
    out
}

/// One table with its keys, for a terminal.
#[must_use]
pub fn section(section: &Section) -> String {
    let mut out = format!("[{}]\n", section.name);
    out.push_str(&wrap(&section.description(), ""));
    for entry in section.keys {
        out.push('\n');
        out.push_str(&key(entry));
    }
    out
}

/// A key as JSON.
#[must_use]
pub fn json(key: &Key) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert("key".to_owned(), key.path().into());
    object.insert("description".to_owned(), key.description().into());
    for (name, value) in facts(key) {
        object.insert(name.to_owned(), value.into());
    }
    object.into()
}

/// The reference page of the book.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         Made by `dewar config explain --markdown` from the key table in\n\
         `crates/server/src/config/keys.rs`: change it there.\n\n\
         One TOML file. An environment variable overrides its key; lists are then separated by\n\
         commas. Relative paths start at the folder of the file. `dewar config check FILE` says\n\
         what is wrong with one, `dewar config default` prints one to start from.\n",
    );
    for section in SECTIONS {
        let _ = write!(
            out,
            "\n## [{}]\n\n{}\n",
            section.name,
            section.description()
        );
        for entry in section.keys {
            let _ = write!(out, "\n### {}\n\n{}\n\n", entry.path(), entry.description());
            for (name, value) in facts(entry) {
                let value = match name {
                    "default" | "variable" => format!("`{value}`"),
                    _ => value,
                };
                let _ = writeln!(out, "- {name}: {value}");
            }
        }
    }
    out
}

/// A configuration file with every key commented out at its default.
#[must_use]
pub fn default_toml() -> String {
    let mut out = String::from(
        "# Configuration of dewar. Every key stands here with its default; take the # away to\n\
         # change one. `dewar config check FILE` reads the result, `dewar config explain KEY`\n\
         # says more.\n",
    );
    for section in SECTIONS {
        let _ = write!(
            out,
            "\n{}[{}]\n",
            wrap(&section.description(), "# "),
            section.name
        );
        for key in section.keys {
            let _ = write!(out, "\n{}", wrap(&key.description(), "# "));
            let range = key.range.to_string();
            if !range.is_empty() {
                out.push_str(&wrap(&format!("Range: {range}."), "# "));
            }
            let _ = writeln!(out, "# Changes take effect {}.", reload_text(key));
            let _ = writeln!(out, "#{} = {}", key.name, key.default_toml());
        }
    }
    out
}
