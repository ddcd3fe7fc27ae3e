//! `cargo xtask s3-tests`: the public suite ceph/s3-tests against a demo server made for the
//! occasion, compared with the list of tests that are known to pass.
//!
//! The suite is in no package registry, so it runs from a checkout, outside CI. The list may only
//! grow: a test on it that does not pass any more is a failure, and `--record` adds new ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::demo::Demo;
use crate::passes;
use crate::run::{build_as_tested, python, told};
use crate::workspace::Workspace;

/// Away from the ports that people use by hand, and from those of the benchmark.
const PORT_BASE: u16 = 19100;
/// Below the root of the workspace: what the suite needs, and what is known to pass.
const FOLDER: &str = "tests/s3-suite";
/// Left out as issue and conformance page say: KMS, bucket logging, cloud tiers and what restores
/// from them.
const SELECTION: &str = "not kms and not bucket_logging and not cloud_ and not restore_object and \
                         not restore_noncur and not read_through";
/// Tests that count the buckets of a user, and so must not run beside others.
const ALONE: &str = "list_buckets or buckets_list";
const FILES: [&str; 2] = ["test_s3.py", "test_headers.py"];

/// The users that the suite's configuration asks for: section, name, tenant. A root of an account
/// has a tenant of its own.
const USERS: [(&str, &str, &str); 6] = [
    ("s3 main", "main", ""),
    ("s3 alt", "alt", ""),
    ("s3 tenant", "tenanted", "suite"),
    ("iam", "iam", ""),
    ("iam root", "iamroot", "rooted"),
    ("iam alt root", "iamaltroot", "altrooted"),
];
/// Sections whose users administer their tenant.
const ADMINS: [&str; 3] = ["iam", "iam root", "iam alt root"];

/// Where the buckets are: the one region where making a bucket again is no error, as the suite
/// expects.
const REGION: &str = "us-east-1";

/// Settings of the server that the suite counts on.
const SETTINGS: [(&str, &str); 5] = [
    ("DEWAR_LOG_LEVEL", "warn"),
    ("DEWAR_S3_REGION", REGION),
    ("DEWAR_LIFECYCLE_DAY", "10s"),
    ("DEWAR_LIFECYCLE_STORAGE_CLASSES", "LUKEWARM,FROZEN"),
    // Its tests of access control lists want them to count.
    ("DEWAR_S3_OBJECT_OWNERSHIP", "ObjectWriter"),
];

/// What `cargo xtask s3-tests` was asked.
#[derive(clap::Args)]
pub(crate) struct S3Tests {
    /// A checkout of ceph/s3-tests
    #[arg(long, value_name = "CHECKOUT")]
    suite: PathBuf,
    /// A binary that is built already, instead of the one of the tests
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Add what passes for the first time to the list
    #[arg(long)]
    record: bool,
    /// Only tests that match; then nothing is recorded, and only what ran is compared
    #[arg(long, value_name = "EXPRESSION")]
    only: Option<String>,
    /// Name storage classes in the suite's configuration too, which multiplies its tests of copies
    /// and runs those of transitions; compared with a list of its own
    #[arg(long)]
    storage_classes: bool,
    /// Tests that run side by side; those of lifecycle mostly wait
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    jobs: u32,
    /// Arguments for pytest
    #[arg(last = true)]
    pytest: Vec<String>,
}

/// Runs the suite.
pub(crate) fn s3_tests(workspace: &Workspace, asked: &S3Tests) -> Result<()> {
    let suite = asked.suite.canonicalize();
    let suite = suite.with_context(|| format!("{} is no checkout", asked.suite.display()))?;
    let binary = match &asked.binary {
        Some(binary) => binary.clone(),
        None => {
            build_as_tested(workspace, "command_line")?;
            workspace.binary("debug")
        }
    };
    let folder = workspace.root.join(FOLDER);
    let python = python(
        workspace,
        ".venv-s3-suite",
        &folder.join("requirements.txt"),
    )?;
    let scratch = workspace.target.join("s3-suite");
    let port_base = PORT_BASE + u16::try_from(std::process::id() % 1000).unwrap_or_default() * 8;
    let demo = Demo::start(&binary, &scratch, port_base, &SETTINGS)?;
    let configuration = scratch.join("suite.conf");
    std::fs::write(&configuration, configure(&demo, port_base, asked)?)
        .with_context(|| format!("write {}", configuration.display()))?;

    let mut ran = BTreeMap::new();
    let selection = match &asked.only {
        Some(only) => format!("({SELECTION}) and ({only})"),
        None => SELECTION.to_owned(),
    };
    for (jobs, selection) in [
        (asked.jobs, format!("({selection}) and not ({ALONE})")),
        (0, format!("({selection}) and ({ALONE})")),
    ] {
        let suite = Suite {
            python: &python,
            checkout: &suite,
            folder: &folder,
            configuration: &configuration,
            outcomes: &scratch.join("outcomes"),
        };
        ran.extend(suite.run(&selection, jobs, &asked.pytest)?);
    }
    ensure!(!ran.is_empty(), "no test ran");
    let list = if asked.storage_classes {
        "passes-with-storage-classes.txt"
    } else {
        "passes.txt"
    };
    passes::judge(&folder.join(list), &ran, asked.only.is_some(), asked.record)
}

/// Where everything is that a run of pytest needs.
struct Suite<'a> {
    python: &'a Path,
    checkout: &'a Path,
    folder: &'a Path,
    configuration: &'a Path,
    outcomes: &'a Path,
}

impl Suite<'_> {
    /// Runs what is selected, `jobs` at once (0: in one process), and says what became of each test.
    fn run(&self, selection: &str, jobs: u32, more: &[String]) -> Result<BTreeMap<String, String>> {
        if self.outcomes.exists() {
            std::fs::remove_file(self.outcomes).context("forget the run before")?;
        }
        let mut pytest = Command::new(self.python);
        pytest
            .args(["-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"])
            .args(["-p", "outcomes", "-k", selection])
            .args(["-n", &jobs.to_string(), "--dist", "worksteal"])
            .args(more)
            .args(FILES.map(|file| format!("s3tests/functional/{file}")))
            .current_dir(self.checkout)
            .env("S3TEST_CONF", self.configuration)
            .env("PYTHONPATH", self.folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("OUTCOMES", self.outcomes)
            .env("AWS_DEFAULT_REGION", REGION);
        for name in ["AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_ENDPOINT_URL"] {
            pytest.env_remove(name);
        }
        eprintln!("+ {}", told(&pytest));
        // Failed tests are no failure of the run: the list decides.
        pytest.status().context("run pytest")?;
        read_outcomes(self.outcomes)
    }
}

/// Makes the users, and the suite's configuration file from them.
fn configure(demo: &Demo, port: u16, asked: &S3Tests) -> Result<String> {
    let mut text = format!(
        "[DEFAULT]\nhost = 127.0.0.1\nport = {port}\nis_secure = False\nssl_verify = False\n\
         [fixtures]\nbucket prefix = suite-{{random}}-\n\
         iam name prefix = suite-{{random}}-\niam path prefix = /suite/{{random}}/\n"
    );
    for (section, name, tenant) in USERS {
        let email = format!("{name}@example.org");
        let mut add = vec!["user", "add", name, "--email", &email];
        if !tenant.is_empty() {
            add.extend(["--tenant", tenant]);
        }
        if ADMINS.contains(&section) {
            add.push("--tenant-admin");
        }
        let user = demo.admin(&add)?;
        let id = user["id"]
            .as_str()
            .with_context(|| format!("no id of user {name}"))?;
        let designation = user["name"].as_str().unwrap_or(name);
        let key = demo.admin(&["key", "add", "--user", designation])?;
        let said = |member: &str| {
            let said = key[member].as_str();
            said.with_context(|| format!("no {member} of user {name}"))
        };
        let (access_key, secret_key) = (said("access_key")?, said("secret_key")?);
        write!(
            text,
            "[{section}]\ndisplay_name = {name}\nuser_id = {id}\nemail = {email}\n\
             access_key = {access_key}\nsecret_key = {secret_key}\ntenant = {tenant}\n"
        )
        .context("write the configuration")?;
        if section == "s3 main" {
            writeln!(text, "api_name = {REGION}\nlc_debug_interval = 10")
                .context("write the configuration")?;
            if asked.storage_classes {
                text.push_str("storage_classes = LUKEWARM, FROZEN\n");
            }
        }
    }
    Ok(text)
}

/// What became of each test.
fn read_outcomes(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("no outcomes in {}: did pytest start?", path.display()))?;
    let ran: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(outcome, test)| (test.to_owned(), outcome.to_owned()))
        .collect();
    Ok(ran)
}
