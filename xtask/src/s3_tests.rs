//! `cargo xtask s3-tests`: the public suite ceph/s3-tests against a demo server made for the
//! occasion, compared with the list of tests that are known to pass.
//!
//! The suite is in no package registry, so it runs from a checkout, outside CI. The list may only
//! grow: a test on it that does not pass any more is a failure, and `--record` adds new ones.
//! `--iam` runs the suite's tests of IAM and STS instead, with a Keycloak beside the demo.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::demo::Demo;
use crate::passes;
use crate::run::{build_as_tested, python, told};
use crate::s3_provider::KeycloakProvider;
use crate::workspace::Workspace;

/// Away from the ports that people use by hand, and from those of the benchmark.
const PORT_BASE: u16 = 19100;
/// The folder of the suite's files and of the lists of tests that pass, below the root of the
/// workspace.
const FOLDER: &str = "tests/s3-suite";
/// Left out as issue and conformance page say: KMS, bucket logging, cloud tiers and what restores
/// from them.
const SELECTION: &str = "not kms and not bucket_logging and not cloud_ and not restore_object and \
                         not restore_noncur and not read_through";
/// Tests that count the buckets of a user, and so must not run beside others.
const ALONE: &str = "list_buckets or buckets_list";
const FILES: &[&str] = &["test_s3.py", "test_headers.py"];
const IAM_FILES: &[&str] = &["test_iam.py"];
const STS_FILES: &[&str] = &["test_sts.py"];
/// It waits for a session of a quarter of an hour to end, so it runs beside the others.
const EXPIRY: &str = "test_assume_role_creds_expiry";
/// It leaves a user behind, which as in AWS is not removed while it is in a group, under a name that
/// the next test of the same process gives too.
const LEFT_BEHIND: &str = "test_account_inline_group_policy_allow";
/// How long that test has to get its session before others clean up roles.
const EXPIRY_START: Duration = Duration::from_secs(10);

/// The users in the suite's configuration: section, name, tenant. A root of an account has a tenant
/// of its own.
const USERS: [(&str, &str, &str); 6] = [
    ("s3 main", "main", ""),
    ("s3 alt", "alt", ""),
    ("s3 tenant", "tenanted", "suite"),
    ("iam", "iam", ""),
    ("iam root", "iamroot", "rooted"),
    ("iam alt root", "iamaltroot", "altrooted"),
];
/// Sections whose users administer their tenant.
const ADMINS: &[&str] = &["iam", "iam root", "iam alt root"];
/// The same for the tests of IAM, in which roots of accounts make roles of their accounts.
const IAM_ADMINS: &[&str] = &["iam"];

/// The region of the buckets. It is the one region in which creating a bucket twice is no error, as
/// the suite expects.
const REGION: &str = "us-east-1";

const OWNERSHIP: &str = "DEWAR_S3_OBJECT_OWNERSHIP";

/// Settings of the server that the suite counts on.
const SETTINGS: [(&str, &str); 5] = [
    ("DEWAR_LOG_LEVEL", "warn"),
    ("DEWAR_S3_REGION", REGION),
    ("DEWAR_LIFECYCLE_DAY", "10s"),
    ("DEWAR_LIFECYCLE_STORAGE_CLASSES", "LUKEWARM,FROZEN"),
    // Its tests of access control lists want them to count.
    (OWNERSHIP, "ObjectWriter"),
];

/// The audience of the tokens in the tests of web identity.
const AUDIENCE: &str = "https://storage.example.org";

/// Further settings that the tests of IAM and STS need.
const IAM_SETTINGS: [(&str, &str); 4] = [
    // Their providers are on this machine.
    ("DEWAR_FEDERATION_PROVIDER_HOSTS", "localhost"),
    // They have no client ids.
    ("DEWAR_FEDERATION_AUDIENCES", AUDIENCE),
    // Their roles trust all users of a client.
    ("DEWAR_FEDERATION_CLIENT_TRUST", "true"),
    // One of them asks for the keys of a session's tags by the name of a request's.
    ("DEWAR_FEDERATION_SESSION_TAG_KEYS", "true"),
];

/// The arguments of `cargo xtask s3-tests`.
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
    /// The suite's tests of IAM and STS instead, with a Keycloak of `.tools` on port 8080; a quarter of an
    /// hour. Compared with lists of their own
    #[arg(long, conflicts_with = "storage_classes")]
    iam: bool,
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
    let paths = SuitePaths {
        python: &python,
        checkout: &suite,
        folder: &folder,
        binary: &binary,
        scratch: &scratch,
        port_base,
    };
    if asked.iam {
        return iam_tests(&paths, asked);
    }
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
        let suite = paths.run_of(&configuration, FILES, "outcomes");
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

/// The paths that runs of the suite need.
struct SuitePaths<'a> {
    python: &'a Path,
    checkout: &'a Path,
    folder: &'a Path,
    binary: &'a Path,
    scratch: &'a Path,
    port_base: u16,
}

impl SuitePaths<'_> {
    fn run_of(
        &self,
        configuration: &Path,
        files: &'static [&'static str],
        outcomes: &str,
    ) -> SuiteRun {
        SuiteRun {
            python: self.python.to_owned(),
            checkout: self.checkout.to_owned(),
            folder: self.folder.to_owned(),
            configuration: configuration.to_owned(),
            outcomes: self.scratch.join(outcomes),
            files,
        }
    }

    /// A demo for tests of IAM or STS, and the configuration for it.
    fn demo_of_iam(
        &self,
        asked: &S3Tests,
        settings: &[(&str, &str)],
        section: &str,
    ) -> Result<(Demo, PathBuf)> {
        let demo = Demo::start(self.binary, self.scratch, self.port_base, settings)?;
        let configuration = self.scratch.join("suite.conf");
        let text = configure(&demo, self.port_base, asked)? + section;
        std::fs::write(&configuration, text)
            .with_context(|| format!("write {}", configuration.display()))?;
        Ok((demo, configuration))
    }
}

/// Runs the tests of IAM and STS, and compares each of the two with its own list. Each test removes
/// all roles of one user at its end, so they run one by one.
fn iam_tests(paths: &SuitePaths<'_>, asked: &S3Tests) -> Result<()> {
    let only = asked.only.as_deref().unwrap_or("test");
    let mut iam = BTreeMap::new();
    let (demo, configuration) =
        paths.demo_of_iam(asked, &[&SETTINGS[..], &IAM_SETTINGS].concat(), "")?;
    for selection in [
        format!("({only}) and not {LEFT_BEHIND}"),
        format!("({only}) and {LEFT_BEHIND}"),
    ] {
        let run = paths.run_of(&configuration, IAM_FILES, "outcomes");
        iam.extend(run.run(&selection, 0, &asked.pytest)?);
    }
    drop(demo);

    let log = paths.scratch.with_extension("provider");
    std::fs::create_dir_all(&log).with_context(|| format!("make {}", log.display()))?;
    let provider = KeycloakProvider::start(paths.python, paths.folder, &log, AUDIENCE)?;
    // Roles of a tenant write objects that are theirs where lists count, and the tests of STS have
    // the bucket's policy speak of these.
    let others = SETTINGS.iter().filter(|(name, _)| *name != OWNERSHIP);
    let settings: Vec<_> = others.chain(&IAM_SETTINGS).copied().collect();
    let (demo, configuration) = paths.demo_of_iam(asked, &settings, provider.section())?;
    let expiry = paths.run_of(&configuration, STS_FILES, "outcomes-expiry");
    let (selection, more) = (format!("({only}) and {EXPIRY}"), asked.pytest.clone());
    let expiry = std::thread::spawn(move || expiry.run(&selection, 0, &more));
    std::thread::sleep(EXPIRY_START);
    let run = paths.run_of(&configuration, STS_FILES, "outcomes");
    let mut sts = run.run(&format!("({only}) and not {EXPIRY}"), 0, &asked.pytest)?;
    let expiry = expiry
        .join()
        .map_err(|_| anyhow!("the run of {EXPIRY} panicked"))?;
    sts.extend(expiry?);
    drop((demo, provider));

    ensure!(!iam.is_empty() || !sts.is_empty(), "no test ran");
    let judge = |list, ran| {
        let list = paths.folder.join(list);
        passes::judge(&list, ran, asked.only.is_some(), asked.record)
    };
    let (iam, sts) = (judge("passes-iam.txt", &iam), judge("passes-sts.txt", &sts));
    iam.and(sts)
}

/// The paths that a run of pytest needs.
struct SuiteRun {
    python: PathBuf,
    checkout: PathBuf,
    folder: PathBuf,
    configuration: PathBuf,
    outcomes: PathBuf,
    files: &'static [&'static str],
}

impl SuiteRun {
    /// Runs the selected tests, `jobs` at once (0: in one process), and returns the result of each
    /// test.
    fn run(&self, selection: &str, jobs: u32, more: &[String]) -> Result<BTreeMap<String, String>> {
        if self.outcomes.exists() {
            std::fs::remove_file(&self.outcomes).context("forget the run before")?;
        }
        let mut pytest = Command::new(&self.python);
        pytest
            .args(["-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"])
            .args(["-p", "outcomes", "-k", selection])
            .args(["-n", &jobs.to_string(), "--dist", "worksteal"])
            .args(more)
            .args(
                self.files
                    .iter()
                    .map(|file| format!("s3tests/functional/{file}")),
            )
            .current_dir(&self.checkout)
            .env("S3TEST_CONF", &self.configuration)
            .env("PYTHONPATH", &self.folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("OUTCOMES", &self.outcomes)
            .env("AWS_DEFAULT_REGION", REGION);
        for name in ["AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_ENDPOINT_URL"] {
            pytest.env_remove(name);
        }
        eprintln!("+ {}", told(&pytest));
        // Failed tests are no failure of the run: the list decides.
        pytest.status().context("run pytest")?;
        read_outcomes(&self.outcomes)
    }
}

/// Makes the users, and the suite's configuration file from them.
fn configure(demo: &Demo, port: u16, asked: &S3Tests) -> Result<String> {
    // The tests make addresses of providers out of the path.
    let path = if asked.iam { "localhost" } else { "suite" };
    let mut text = format!(
        "[DEFAULT]\nhost = 127.0.0.1\nport = {port}\nis_secure = False\nssl_verify = False\n\
         [fixtures]\nbucket prefix = suite-{{random}}-\n\
         iam name prefix = suite-{{random}}-\niam path prefix = /{path}/{{random}}/\n"
    );
    let admins = if asked.iam { IAM_ADMINS } else { ADMINS };
    for (section, name, tenant) in USERS {
        let email = format!("{name}@example.org");
        // Accounts name each other's buckets, which those of one tenant can.
        let tenant = if asked.iam && section.ends_with(" root") {
            "accounts"
        } else {
            tenant
        };
        let mut add = vec!["user", "add", name, "--email", &email];
        if !tenant.is_empty() {
            add.extend(["--tenant", tenant]);
        }
        if admins.contains(&section) {
            add.push("--tenant-admin");
        }
        let user = demo.admin(&add)?;
        // Principals of the tests of STS have what Ceph calls an id behind `user/`: the name.
        let id = if asked.iam && section == "s3 alt" {
            &user["name"]
        } else {
            &user["id"]
        };
        let id = id
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

/// The result of each test.
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
