//! The error message for a command that does not exist.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Jobs that other programs do, and what does them.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &[
            "cp", "get", "put", "ls", "mv", "rm", "sync", "cat", "upload", "download",
        ],
        "files are moved by S3 and XRootD clients, like `aws s3`, `rclone` and `xrdcp`: see the README",
    ),
    (
        &["mount", "umount", "fuse"],
        "`rclone mount` and `s3fs` mount a bucket: see the README",
    ),
    (
        &["bucket", "mb", "rb"],
        "buckets are made and removed by S3 clients, like `aws s3 mb`: see the README",
    ),
    (
        &["useradd", "adduser"],
        "users are made by `dewar user add`",
    ),
];

/// The error with a suggestion if it looks like a typing error, and otherwise with the command for
/// the job.
pub(crate) fn improved(mut error: clap::Error, root: &clap::Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let typed = typed.clone();
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    let is_top = root
        .get_subcommands()
        .any(|command| suggested.iter().any(|name| name == command.get_name()))
        || suggested.is_empty();
    let near: Vec<String> = suggested
        .into_iter()
        .filter(|name| is_near(&typed, name))
        .collect();
    error.remove(ContextKind::SuggestedSubcommand);
    if !near.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(near),
        );
        return error;
    }
    let elsewhere = ELSEWHERE.iter().find(|(words, _)| words.contains(&&*typed));
    if let Some((_, who)) = elsewhere.filter(|_| is_top) {
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(*who)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// Whether a typing error can make one name of the other.
fn is_near(typed: &str, name: &str) -> bool {
    #[cfg(feature = "server")]
    {
        dewar_server::config::nearest::nearest(typed, [name.to_owned()]).is_some()
    }
    #[cfg(not(feature = "server"))]
    {
        name.starts_with(typed) || typed.starts_with(name)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::Cli;

    fn said(words: &[&str]) -> String {
        let command = Cli::command();
        let error = command
            .clone()
            .try_get_matches_from(words)
            .expect_err("no such command");
        super::improved(error, &command).to_string()
    }

    #[test]
    fn suggestions_are_near_or_say_who_does_the_job() {
        for (typed, wrong) in [
            ("cp", "completions"),
            ("mount", "logout"),
            ("useradd", "share"),
        ] {
            let text = said(&["dewar", typed]);
            assert!(!text.contains(wrong), "{text}");
        }
        assert!(said(&["dewar", "cp"]).contains("rclone"));
        assert!(said(&["dewar", "mount"]).contains("rclone mount"));
        assert!(said(&["dewar", "useradd"]).contains("dewar user add"));
        assert!(said(&["dewar", "statsu"]).contains("'status'"));
    }
}
