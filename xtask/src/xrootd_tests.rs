//! `cargo xtask xrootd-tests`: XRootD's own tests of its client against a demo server made for the
//! occasion, compared with the list of tests that are known to pass.
//!
//! The tests are built from a checkout against the client libraries of the Python package, outside
//! CI. The list may only grow: a test on it that does not pass any more is a failure, and
//! `--record` adds new ones.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::demo::Demo;
use crate::passes;
use crate::run::{build_as_tested, output, python, run, told};
use crate::workspace::Workspace;

/// Away from the ports that people use by hand, and from those of other words.
const PORT_BASE: u16 = 19900;
/// The folder of the suite's files and of the lists of tests that pass, below the root of the
/// workspace.
const FOLDER: &str = "tests/xrootd-suite";
/// The folder of the tests' paths.
const BUCKET: &str = "data";

/// Sources of the checkout below `tests` that all programs share.
const COMMON_SOURCES: [&str; 3] = [
    "common/TestEnv.cc",
    "common/Utils.cc",
    "XrdCl/IdentityPlugIn.cc",
];
/// The sources with tests of the client that need a server. Each is a separate program, as in the
/// suite's build: two have a class of the same name.
const TEST_SOURCES: [&str; 8] = [
    "XrdCl/XrdClFileTest.cc",
    "XrdCl/XrdClFileClone.cc",
    "XrdCl/XrdClFileCopyTest.cc",
    "XrdCl/XrdClFileSystemTest.cc",
    "XrdCl/XrdClOperationsWorkflowTest.cc",
    "XrdCl/XrdClTTLManyStreams.cc",
    "XrdCl/XrdClThreadingTest.cc",
    "XrdCl/XrdClZip.cc",
];

/// Sample files of random bytes, as the suite's `setup.sh` makes them.
const SAMPLES: [&str; 10] = [
    "1db882c8-8cd6-4df1-941f-ce669bad3458.dat",
    "3c9a9dd8-bc75-422c-b12c-f00604486cc1.dat",
    "7235b5d1-cede-4700-a8f9-596506b4cc38.dat",
    "7e480547-fe1a-4eaf-a210-0f3927751a43.dat",
    "89120cec-5244-444c-9313-703e4bee72de.dat",
    "a048e67f-4397-4bb8-85eb-8d7e40d90763.dat",
    "b3d40b3f-1d15-4ad3-8cb5-a7516acb2bab.dat",
    "b74d025e-06d6-43e8-91e1-a862feb03c84.dat",
    "cb4aacf1-6f28-42f2-b68a-90a73460f424.dat",
    "cef4d954-936f-4945-ae49-60ec715b986e.dat",
];
const SAMPLE_BYTES: u64 = 16 << 20;
/// The one for the largest vector read: all bytes of a 31 bit number.
const LARGE_SAMPLE: &str = "2GB.dat";
const LARGE_SAMPLE_BYTES: u64 = (1 << 31) - 1;
/// Of four servers of the suite with a thousand names each.
const NAMES_OF_LARGE_FOLDER: usize = 4000;

/// How often a test is looked at; after so many looks, five minutes, it has failed.
const TEST_WAIT: Duration = Duration::from_millis(50);
const TEST_TRIES: u32 = 6000;

/// Settings of the server that the suite counts on.
const SETTINGS: [(&str, &str); 1] = [("DEWAR_LOG_LEVEL", "warn")];

/// The arguments of `cargo xtask xrootd-tests`.
#[derive(clap::Args)]
pub(crate) struct XrootdTests {
    /// A checkout of xrootd/xrootd
    #[arg(long, value_name = "CHECKOUT")]
    suite: PathBuf,
    /// A binary that is built already, instead of the one of the tests
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Another server of the protocol, as HOST:PORT, instead of a demo; nothing is recorded then
    #[arg(long, value_name = "LOCATION", conflicts_with_all = ["binary", "record"])]
    server: Option<String>,
    /// Add what passes for the first time to the list
    #[arg(long)]
    record: bool,
    /// Only tests whose names hold this; then nothing is recorded, and only what ran is compared
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Runs the suite.
pub(crate) fn xrootd_tests(workspace: &Workspace, asked: &XrootdTests) -> Result<()> {
    let suite = asked.suite.canonicalize();
    let suite = suite.with_context(|| format!("{} is no checkout", asked.suite.display()))?;
    let folder = workspace.root.join(FOLDER);
    let python = python(
        workspace,
        ".venv-xrootd-suite",
        &folder.join("requirements.txt"),
    )?;
    let build = Build {
        suite: &suite,
        folder: &workspace.target.join("xrootd-suite"),
        libraries: &libraries(&python)?,
    };
    let programs = build.programs()?;
    // The tests look for their files at `../cluster/data`.
    let samples = build.folder.join("cluster/data");
    make_samples(&samples, &suite.join("tests/cluster/mvdata"))?;

    let demo = match (&asked.server, &asked.binary) {
        (Some(_), _) => None,
        (None, Some(binary)) => Some(start(workspace, binary)?),
        (None, None) => {
            build_as_tested(workspace, "command_line")?;
            Some(start(workspace, &workspace.binary("debug"))?)
        }
    };
    let location = match (&asked.server, &demo) {
        (Some(server), _) => server.clone(),
        (None, Some(demo)) => demo.xrootd()?,
        (None, None) => unreachable!("either is there"),
    };
    let mut upload = Command::new(&python);
    upload.arg(folder.join("upload.py")).arg(&location);
    run(upload.arg(BUCKET).arg(samples.join("srv1").join(BUCKET)))?;

    let logs = build.folder.join("logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("make {}", logs.display()))?;
    let mut ran = BTreeMap::new();
    for program in &programs {
        let suite = Suite {
            program,
            logs: &logs,
            location: &location,
        };
        for test in suite.tests()? {
            if asked.only.as_ref().is_none_or(|only| test.contains(only)) {
                let outcome = suite.run(&test)?;
                eprintln!("{outcome} {test}");
                ran.insert(test, outcome.to_owned());
            }
        }
    }
    ensure!(!ran.is_empty(), "no test ran");
    println!("what the tests said is in {}", logs.display());
    passes::judge(
        &folder.join("passes.txt"),
        &ran,
        asked.only.is_some() || asked.server.is_some(),
        asked.record,
    )
}

fn start(workspace: &Workspace, binary: &Path) -> Result<Demo> {
    let port_base = PORT_BASE + u16::try_from(std::process::id() % 1000).unwrap_or_default() * 8;
    let folder = workspace.target.join("xrootd-suite-demo");
    Demo::start(binary, &folder, port_base, &SETTINGS)
}

/// The folder of the client's libraries.
fn libraries(python: &Path) -> Result<PathBuf> {
    let code = "import pyxrootd, os; print(os.path.dirname(pyxrootd.__file__))";
    let place = output(Command::new(python).args(["-c", code]))?;
    Ok(PathBuf::from(place.trim()))
}

/// Makes the programs of the tests.
struct Build<'a> {
    suite: &'a Path,
    folder: &'a Path,
    libraries: &'a Path,
}

impl Build<'_> {
    /// The programs. A compiled program that is newer than its source is kept.
    fn programs(&self) -> Result<Vec<PathBuf>> {
        let include = self.folder.join("include");
        std::fs::create_dir_all(&include).with_context(|| format!("make {}", include.display()))?;
        self.version_header(&include)?;
        let objects = COMMON_SOURCES.map(|source| self.object(source, &include));
        let common: Vec<PathBuf> = objects.into_iter().collect::<Result<_>>()?;
        let link = |source: &&str| {
            let object = self.object(source, &include)?;
            let program = object.with_extension("");
            let parts = common.iter().chain([&object]);
            if !parts.clone().all(|part| is_newer(&program, part)) {
                self.link(parts, &program)?;
            }
            Ok(program)
        };
        TEST_SOURCES.iter().map(link).collect()
    }

    fn object(&self, source: &str, include: &Path) -> Result<PathBuf> {
        let source = self.suite.join("tests").join(source);
        let stem = source.file_stem().context("a source has a name")?;
        let object = self.folder.join(stem).with_extension("o");
        if is_newer(&object, &source) {
            return Ok(object);
        }
        let mut compile = Command::new("g++");
        compile.args(["-std=c++20", "-O1", "-w", "-D_FILE_OFFSET_BITS=64"]);
        for folder in [
            &self.suite.join("src"),
            &self.suite.join("tests/common"),
            include,
        ] {
            compile.arg("-I").arg(folder);
        }
        run(compile.arg("-c").arg(&source).arg("-o").arg(&object))?;
        Ok(object)
    }

    fn link<'o>(&self, parts: impl Iterator<Item = &'o PathBuf>, program: &Path) -> Result<()> {
        let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
        rpath.push(self.libraries);
        let mut link = Command::new("g++");
        link.args(parts).arg("-L").arg(self.libraries).arg(rpath);
        link.args(["-lXrdCl", "-lXrdUtils", "-lgtest", "-lgtest_main"]);
        link.args(["-lz", "-lpthread", "-o"]).arg(program);
        run(&mut link).context("the tests need the packages g++, libgtest-dev and zlib1g-dev")
    }

    /// The file that the suite's own build makes of its template. The tests read the major version
    /// only.
    fn version_header(&self, include: &Path) -> Result<()> {
        let template = self.suite.join("src/XrdVersion.hh.in");
        let text = std::fs::read_to_string(&template)
            .with_context(|| format!("read {}", template.display()))?;
        let text = [
            ("@XRootD_VERSION_STRING@", "v6.2.1"),
            ("@XRootD_VERSION_NUMBER@", "60201"),
            ("@XRootD_VERSION_MAJOR@", "6"),
            ("@XRootD_VERSION_MINOR@", "2"),
            ("@XRootD_VERSION_PATCH@", "1"),
        ]
        .into_iter()
        .fold(text, |text, (name, value)| text.replace(name, value));
        let header = include.join("XrdVersion.hh");
        if std::fs::read_to_string(&header).is_ok_and(|there| there == text) {
            return Ok(());
        }
        std::fs::write(&header, text).with_context(|| format!("write {}", header.display()))
    }
}

fn is_newer(made: &Path, source: &Path) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
    matches!((modified(made), modified(source)), (Some(made), Some(source)) if made > source)
}

/// The files that the suite's cluster would have, of all its servers together, in the places where
/// the tests look for them.
fn make_samples(folder: &Path, from_suite: &Path) -> Result<()> {
    let complete = folder.join("complete");
    if complete.exists() {
        return Ok(());
    }
    let served = folder.join("srv1").join(BUCKET);
    let sources = folder.join("metaman").join(BUCKET);
    for made in [&served.join("bigdir"), &served.join("metalink"), &sources] {
        std::fs::create_dir_all(made).with_context(|| format!("make {}", made.display()))?;
    }
    let samples = SAMPLES.iter().map(|name| (*name, SAMPLE_BYTES));
    for (name, bytes) in samples.chain([(LARGE_SAMPLE, LARGE_SAMPLE_BYTES)]) {
        write_random(&served.join(name), bytes)?;
    }
    write_random(&sources.join("testFile.dat"), SAMPLE_BYTES)?;
    for number in 0..NAMES_OF_LARGE_FOLDER {
        let path = served.join(format!("bigdir/{number:04}.dat"));
        std::fs::write(&path, []).with_context(|| format!("write {}", path.display()))?;
    }
    let entries = std::fs::read_dir(from_suite);
    for entry in entries.with_context(|| format!("read {}", from_suite.display()))? {
        let path = entry.context("read the suite's files")?.path();
        let name = path.file_name().context("an entry has a name")?;
        let is_archive = path.extension().is_some_and(|ending| ending == "zip");
        let target = match is_archive {
            true => served.join(name),
            false => served.join("metalink").join(name),
        };
        std::fs::copy(&path, &target).with_context(|| format!("copy {}", path.display()))?;
    }
    std::fs::write(&complete, []).with_context(|| format!("write {}", complete.display()))
}

fn write_random(path: &Path, bytes: u64) -> Result<()> {
    let random = std::fs::File::open("/dev/urandom").context("open /dev/urandom")?;
    let mut file =
        std::fs::File::create(path).with_context(|| format!("make {}", path.display()))?;
    std::io::copy(&mut random.take(bytes), &mut file)
        .with_context(|| format!("write {}", path.display()))?;
    Ok(())
}

/// The paths that a test needs.
struct Suite<'a> {
    program: &'a Path,
    /// In which the tests run.
    logs: &'a Path,
    location: &'a str,
}

impl Suite<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("XRD") || name.starts_with("Xrd") {
                command.env_remove(name.as_ref());
            }
        }
        for server in [
            "MAINSERVER",
            "DISKSERVER",
            "MANAGER1",
            "MANAGER2",
            "SERVER1",
            "SERVER2",
            "SERVER3",
            "SERVER4",
        ] {
            command.env(format!("XRDTEST_{server}URL"), self.location);
        }
        command
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("BEARER_TOKEN")
            .env_remove("BEARER_TOKEN_FILE")
            .current_dir(self.logs);
        command
    }

    /// The names of all tests.
    fn tests(&self) -> Result<Vec<String>> {
        let listed = output(self.command().arg("--gtest_list_tests"))?;
        let (mut group, mut tests) = ("", Vec::new());
        for line in listed.lines() {
            match line.strip_prefix("  ") {
                Some(name) => tests.push(format!("{group}{}", name.trim())),
                None => group = line.trim(),
            }
        }
        Ok(tests)
    }

    /// Runs one test in a separate process, because tests leave settings of the client behind.
    fn run(&self, test: &str) -> Result<&'static str> {
        let log = self.logs.join(format!("{test}.txt"));
        let said =
            std::fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let mut command = self.command();
        command.arg(format!("--gtest_filter={test}"));
        let mut process = command
            .stdin(Stdio::null())
            .stdout(said.try_clone().context("share the log")?)
            .stderr(said)
            .spawn()
            .with_context(|| format!("run {}", told(&command)))?;
        for _ in 0..TEST_TRIES {
            if let Some(status) = process.try_wait().context("wait for a test")? {
                return Ok(if status.success() { "passed" } else { "failed" });
            }
            std::thread::sleep(TEST_WAIT);
        }
        process.kill().context("end a test")?;
        process.wait().context("wait for a test")?;
        Ok("failed")
    }
}
