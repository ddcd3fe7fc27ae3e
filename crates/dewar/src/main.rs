//! The one binary: subcommands of the server and client libraries, and what belongs to the command
//! line as a whole (version, completions, man pages).

mod manual;
mod suggest;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Bodies are served from buffers of up to a megabyte; glibc gives their memory back and fetches
/// it again for every request, which doubles the cost of a large GET.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A storage element for science collaborations
#[derive(Debug, Parser)]
#[command(
    name = "dewar",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong command line or configuration, \
    3 not found, 4 exists or in use, 5 not now, 130 ended by a second signal."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "server")]
    #[command(flatten)]
    Server(dewar_server::cli::Command),
    #[cfg(feature = "client")]
    #[command(flatten)]
    Login(dewar_client::login::LoginCommand),
    /// Load an endpoint or disks, and report throughput and cost
    #[cfg(any(feature = "client", feature = "server"))]
    #[command(subcommand)]
    Bench(Bench),
    /// Print the version
    Version {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual, or write one page per command
    Man {
        /// Write dewar.1, dewar-serve.1 … into this folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// The subcommands of `dewar bench`.
#[cfg(any(feature = "client", feature = "server"))]
#[derive(Debug, Subcommand)]
enum Bench {
    #[cfg(feature = "client")]
    #[command(flatten)]
    Endpoint(dewar_client::bench::BenchCommand),
    /// Write to a bare journal in some folders, to measure a put without HTTP and the catalog
    #[cfg(feature = "server")]
    Journal(dewar_server::cli::JournalBenchArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => suggest::improved(error, &Cli::command()).exit(),
    };
    match cli.command {
        #[cfg(all(feature = "server", feature = "client"))]
        Command::Server(dewar_server::cli::Command::Share(args)) if args.is_by_login() => {
            code_of(share_by_login(&args))
        }
        #[cfg(feature = "server")]
        Command::Server(command) => {
            dewar_server::cli::run(command, &dewar_server::store_engine::OpenStore::real())
        }
        #[cfg(feature = "client")]
        Command::Login(command) => code_of(dewar_client::login::run(command)),
        #[cfg(feature = "client")]
        Command::Bench(Bench::Endpoint(what)) => code_of(dewar_client::bench::run(&what)),
        #[cfg(feature = "server")]
        Command::Bench(Bench::Journal(args)) => dewar_server::cli::bench_journal(&args),
        Command::Version { json } => print(version(json).as_bytes()),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "dewar", &mut text);
            print(&text)
        }
        Command::Man { out } => code_of(match out {
            Some(folder) => manual::write(Cli::command(), &folder),
            None => manual::page(Cli::command()).map(|page| {
                print(&page);
            }),
        }),
    }
}

#[cfg(all(feature = "server", feature = "client"))]
fn share_by_login(args: &dewar_server::cli::ShareArgs) -> anyhow::Result<()> {
    let share = args.by_login().map_err(anyhow::Error::msg)?;
    dewar_client::login::share::share(&dewar_client::login::share::Share {
        endpoint: share.endpoint,
        path: share.path,
        seconds: share.seconds,
        upload: share.upload,
        ca: share.ca,
    })
}

fn version(json: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        let parts = serde_json::json!({
            "version": version,
            "server": cfg!(feature = "server"),
            "client": cfg!(feature = "client"),
        });
        format!("{parts}\n")
    } else {
        format!("dewar {version}\n")
    }
}

/// Writes to standard output; a reader that has gone away (`| head`) is no failure.
fn print(bytes: &[u8]) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn code_of(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            #[cfg(feature = "client")]
            if error.is::<dewar_client::bench::WrongUse>() {
                return ExitCode::from(2);
            }
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound_and_every_command_says_what_it_does() {
        fn walk(command: &clap::Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} says nothing");
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{name} {}",
                    argument.get_id()
                );
            }
            command.get_subcommands().for_each(walk);
        }
        Cli::command().debug_assert();
        walk(&Cli::command());
    }

    #[test]
    fn completions_and_pages_name_every_command() {
        let mut bash = Vec::new();
        let shell = clap_complete::Shell::Bash;
        clap_complete::generate(shell, &mut Cli::command(), "dewar", &mut bash);
        let bash = String::from_utf8(bash).expect("UTF-8");
        let page = manual::page(Cli::command()).expect("renders");
        // A hyphen is escaped there, so that it stays one.
        let page = String::from_utf8(page).expect("UTF-8").replace("\\-", "-");
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(bash.contains(name) && page.contains(name), "{name}");
        }
    }

    #[test]
    fn the_version_is_also_json() {
        let json: serde_json::Value = serde_json::from_str(&version(true)).expect("JSON");
        assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
        assert!(version(false).starts_with("dewar "));
    }
}
