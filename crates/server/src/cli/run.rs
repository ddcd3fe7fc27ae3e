//! `dewar serve` and `dewar demo`: building the runtime and handing over.

use std::io::{BufRead as _, IsTerminal as _};

use dewar_admin::status::DoorStatus;
use dewar_engine::LossReport;
use dewar_env::Env;

use super::columns::print;
use super::exit::{CommandError, CommandResult, FAILED, FORCED};
use super::server_target::load;
use super::{DemoArgs, ServeArgs};
use crate::config::Config;
use crate::config::check::{Finding, Severity, findings};
use crate::demo::{Demo, default_folder, instructions, program};
use crate::engine::{LossCode, OpenEngine, Purpose, ServedStore};
use crate::listener::BoxError;
use crate::log;
use crate::process::{End, ProcessPlan, Signals, prepare, run};
use crate::serve::{Endpoints, Running, StartError};

/// Runs one command on a small runtime.
pub(super) fn block_on<T>(
    work: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    runtime(tokio::runtime::Builder::new_multi_thread().worker_threads(2))?.block_on(work)
}

fn runtime(builder: &mut tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, CommandError> {
    builder
        .enable_all()
        .build()
        .map_err(|error| CommandError::new(FAILED, format!("cannot start threads: {error}")))
}

fn failed(error: std::io::Error) -> CommandError {
    CommandError::new(FAILED, format!("cannot listen for signals: {error}"))
}

fn code_of(end: End) -> u8 {
    match end {
        End::Clean => 0,
        End::Forced => FORCED,
    }
}

pub(super) fn serve<O: OpenEngine>(args: ServeArgs, opener: &O) -> CommandResult {
    let config = load(args.config.as_deref())?;
    let logging = log::install(&config.log);
    warn_of(findings(&config));
    prepare();
    let runtime = runtime(&mut tokio::runtime::Builder::new_multi_thread())?;
    let end = runtime.block_on(async {
        let signals = Signals::listen().map_err(failed)?;
        let plan = ProcessPlan {
            config,
            reload: || load(args.config.as_deref()),
            ready_file: args.ready_file.as_deref(),
            prepare: async |running: &Running<O::Engine>| {
                say(&greeting(running.endpoints(), &running.config()));
                Ok(None)
            },
            logging: &logging,
            purpose: match args.accept_loss {
                Some(code) => Purpose::AcceptLoss(code),
                None => Purpose::Serve,
            },
        };
        Ok::<_, CommandError>(run(plan, opener, &Env::real(), signals).await?)
    });
    // A task that blocks must not keep the process.
    runtime.shutdown_background();
    end.map(code_of)
}

fn warn_of(findings: impl IntoIterator<Item = Finding>) {
    for finding in findings {
        if finding.severity == Severity::Warning {
            tracing::warn!(key = finding.key, "{}", finding.message);
        }
    }
}

pub(super) fn demo<O: OpenEngine>(args: DemoArgs, opener: &O) -> CommandResult {
    let env = Env::real();
    let folder = args.dir.clone().unwrap_or_else(default_folder);
    let demo = Demo::prepare(&folder, args.port_base, &*env.rng)?;
    let logging = log::install(&demo.config.log);
    // No other warnings: that a demo's disks share a device is the point of it.
    warn_of(
        findings(&demo.config)
            .into_iter()
            .filter(|finding| finding.key == "testing"),
    );
    prepare();
    let runtime = runtime(&mut tokio::runtime::Builder::new_multi_thread())?;
    let end = runtime.block_on(async {
        let signals = Signals::listen().map_err(failed)?;
        let plan = ProcessPlan {
            config: demo.config.clone(),
            reload: || demo.load(args.port_base),
            ready_file: args.ready_file.as_deref(),
            prepare: async |running: &Running<O::Engine>| fill(&demo, running).await,
            logging: &logging,
            purpose: Purpose::Serve,
        };
        Ok::<_, CommandError>(run(plan, opener, &env, signals).await?)
    });
    runtime.shutdown_background();
    end.map(code_of)
}

async fn fill<E: ServedStore>(
    demo: &Demo,
    running: &Running<E>,
) -> Result<Option<crate::serve::DemoCredentials>, StartError> {
    let shown = demo.fill(running).await?;
    let region = running.config().s3.region;
    say(&instructions(
        &demo.folder,
        &program(),
        running.endpoints(),
        &region,
        &shown,
    ));
    Ok(Some(shown))
}

/// Prints the possible loss, and continues only if the consent names exactly that loss: by its
/// code, on the command line or typed at a terminal. So neither a unit file nor a habit can accept
/// a loss that nobody has read about.
///
/// # Errors
/// Without that consent.
pub(crate) fn confirm_loss(report: &LossReport, given: Option<LossCode>) -> Result<(), BoxError> {
    let LossReport { text, code } = report;
    say(&format!("{text}\n"));
    let stdin = std::io::stdin();
    match given {
        Some(given) if given.to_string() == *code => {}
        None if stdin.is_terminal() => {
            say(&format!("To accept this loss type its code, {code}: "));
            let mut answer = String::new();
            stdin.lock().read_line(&mut answer)?;
            if answer.trim() != code {
                return Err("nothing was accepted, and nothing was changed".into());
            }
        }
        _ => {
            let other = given.map_or_else(String::new, |given| {
                format!(
                    "{given} is the code of another loss than the one that there would be now. "
                )
            });
            return Err(format!(
                "{other}Nothing was accepted, and nothing was changed. To accept what was said, once: \
                 `dewar serve --accept-loss={code}`"
            )
            .into());
        }
    }
    for line in text.lines().filter(|line| !line.is_empty()) {
        tracing::warn!("a loss is accepted: {line}");
    }
    Ok(())
}

/// Nobody may be reading, and that is no reason not to serve.
fn say(text: &str) {
    if let Err(error) = print(text) {
        tracing::warn!("{}", error.message);
    }
}

fn greeting(endpoints: &Endpoints, config: &Config) -> String {
    let mut text = String::new();
    for DoorStatus { name, endpoint } in &endpoints.doors {
        let more = match name.as_str() {
            "s3" => format!(" (region {})", config.s3.region),
            "metrics" => "/metrics".to_owned(),
            _ => String::new(),
        };
        text.push_str(&format!("{name:<8} {endpoint}{more}\n"));
    }
    text.push_str(&format!("admin    {}\n", endpoints.admin.display()));
    text
}
