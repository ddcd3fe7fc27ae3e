use clap::{CommandFactory as _, Parser};

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn parse(line: &str) -> Result<Command, clap::Error> {
    let words = std::iter::once("dewar").chain(line.split_whitespace());
    Cli::try_parse_from(words).map(|cli| cli.command)
}

#[test]
fn the_definitions_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn the_commands_of_the_manual_parse() {
    for line in [
        "serve",
        "lock list",
        "lock list /data/run --json",
        "lock break urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2",
        "lock break /data/run/file --json",
        "serve --config f --ready-file r",
        "serve --accept-loss --config f",
        "serve --accept-loss=1b4f-07a5",
        "demo",
        "demo --dir d --port-base 9500 --ready-file r",
        "config check f --json",
        "config default",
        "config explain",
        "config explain s3.listen",
        "config explain --markdown",
        "user add alice --config f",
        "user list --json --dir d",
        "user remove alice",
        "user disable alice",
        "user enable alice",
        "key add --user alice",
        "key add --user alice --access-key A --secret-key-file F --json",
        "key list",
        "key list --user alice",
        "key remove A",
        "key disable A --dir d",
        "key enable A",
        "bucket list --owner alice",
        "bucket show /@lab/atlas --json",
        "bucket create atlas --owner alice --versioning",
        "bucket remove atlas --dir d",
        "usage --json",
        "transfer list --json",
        "transfer cancel 7 --dir d",
        "worker list --json",
        "worker pause repair",
        "worker resume repair --dir d",
        "usage --user --pool main",
        "usage --bucket /atlas",
        "status --json",
        "disk list",
        "disk add /data/d7",
        "disk replace 3 /data/d7 --json",
        "disk drain /data/d3",
        "disk keep 3",
        "disk remove 1b4f07a5",
        "disk readmit /data/d3 --json",
    ] {
        if let Err(error) = parse(line) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn half_a_key_and_two_targets_are_refused() {
    for line in [
        "key add",
        "key add --user a --access-key A",
        "key add --user a --secret-key-file F",
        "user add",
        "bucket create atlas",
        "user add a --config f --dir d",
        "demo --port-base 70000",
        "config explain a --markdown",
        "serve --accept-loss=yes",
        "serve --accept-loss=1b4f",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn no_secret_can_be_given_on_the_command_line() {
    fn walk(command: &clap::Command) {
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            assert!(!id.contains("secret") || id.ends_with("_file"), "{id}");
        }
        command.get_subcommands().for_each(walk);
    }
    walk(&Cli::command());
}
