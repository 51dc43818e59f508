//! `Programs`: the tool `run_program`, which runs programs that the program's author has listed,
//! within limits and without a shell.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use agentflow_schema::text::{did_you_mean, nearest};
use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::process_group::ProcessGroup;
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::{Effects, FnTool, ToolError, ToolPolicy};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_MAX_OUTPUT: usize = 64 << 10;
/// Time to read the remaining output after a program has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Programs that set a memory limit and then execute the given program in the same process.
#[cfg(target_os = "linux")]
const LIMITERS: [&str; 2] = ["/usr/bin/prlimit", "/bin/prlimit"];
/// Maximum number of arguments of a call.
const MOST_ARGUMENTS: usize = 1000;

/// Builder of the tool `run_program`, which runs one of the listed programs in a folder.
///
/// The arguments are `{"program": .., "arguments": [..], "input": ..}`. The answer is `{"status",
/// "output", "errors"}`: the exit status (`null` if a signal ended the program), the standard
/// output and the standard error. An exit status other than 0 is a normal answer.
///
/// - Only [listed](Self::program) programs run, each from a fixed path that is not searched for. No
///   shell interprets the arguments.
/// - The environment contains only the variables [set here](Self::env): no keys and no `PATH`. The
///   standard input is the text of the call.
/// - Time, [output](Self::max_output) and, on Linux, [memory](Self::max_memory) are limited.
/// - A program is started in a new process group. When it ends, times out or its call is cancelled,
///   the remaining processes of the group are killed. Processes that left the group are not found.
///   On systems other than Unix, child processes are not found either.
///
/// The programs themselves are not restricted: an argument may name any file that this process can
/// access. List only programs that are safe with any arguments, or fix the first arguments
/// ([`program_with`](Self::program_with)). If that is not enough, require an approval
/// (`ToolPolicy::approve`). The effects are `write`, so a call that a crash interrupted is not
/// repeated automatically.
///
/// ```
/// use agentflow::message::ToolCall;
/// use agentflow::{Runtime, tools};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(unix)] {
/// let programs = tools::Programs::in_folder(".")?.program("echo", "/bin/echo");
/// let runtime = Runtime::builder().tools(programs.tool()).build();
/// let arguments = json!({"program": "echo", "arguments": ["tea; rm -rf /"]});
/// let result = runtime.invoke(&ToolCall::new("1", "run_program", arguments.to_string()), &[]).await?;
/// assert_eq!(result.text(), r#"{"status":0,"output":"tea; rm -rf /\n","errors":""}"#);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Programs {
    folder: PathBuf,
    programs: Vec<Program>,
    environment: BTreeMap<String, String>,
    timeout: Duration,
    max_output: usize,
    max_memory: Option<u64>,
}

#[derive(Clone)]
struct Program {
    name: String,
    path: PathBuf,
    first: Vec<String>,
}

impl Programs {
    /// Creates the tool for programs that run in `folder`.
    ///
    /// # Errors
    /// The folder does not exist or is not a folder.
    pub fn in_folder(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref().canonicalize()?;
        if !folder.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                format!("`{}` is not a folder", folder.display()),
            ));
        }
        Ok(Self {
            folder,
            programs: Vec::new(),
            environment: BTreeMap::new(),
            timeout: DEFAULT_TIMEOUT,
            max_output: DEFAULT_MAX_OUTPUT,
            max_memory: None,
        })
    }

    /// Adds a program with the name that a model uses and its path. The path is not searched for. A
    /// relative path is resolved now against the current folder of this process, and not against
    /// the folder in which programs run, because a model may write there.
    #[must_use]
    pub fn program(self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.program_with(name, path, Vec::<String>::new())
    }

    /// Adds a program with fixed arguments, such as `test`, that precede the model's arguments.
    #[must_use]
    pub fn program_with<A: Into<String>>(
        mut self,
        name: impl Into<String>,
        path: impl Into<PathBuf>,
        first: impl IntoIterator<Item = A>,
    ) -> Self {
        let (first, path) = (first.into_iter().map(Into::into).collect(), path.into());
        let path = std::path::absolute(&path).unwrap_or(path);
        self.programs.push(Program { name: name.into(), path, first });
        self
    }

    /// Sets an environment variable of all programs.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets the time limit of a program. Default: 60 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum number of bytes that are kept of the standard output and of the standard
    /// error, each. Default: 64 KiB. Longer output is cut in the middle, and a line there contains
    /// the number of omitted bytes.
    #[must_use]
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    /// Sets the memory limit in bytes of a program and of each process that it starts, as address
    /// space (`RLIMIT_AS`). Default: no limit, because many programs reserve far more memory than
    /// they use. Applies to Linux only.
    ///
    /// The program is started by `prlimit` of util-linux, so that the limit applies from its first
    /// instruction. If `prlimit` is not in `/usr/bin` or `/bin`, the limit is set right after the
    /// start, and processes that the program starts before that are not limited.
    #[must_use]
    pub fn max_memory(mut self, bytes: u64) -> Self {
        self.max_memory = Some(bytes);
        self
    }

    /// Creates the tool.
    pub fn tool(&self) -> FnTool {
        let names: Vec<&str> = self.programs.iter().map(|program| program.name.as_str()).collect();
        let about = format!(
            "Runs a program without a shell and gives the number it ended with, its output and its errors. Programs: {}.",
            names.join(", ")
        );
        let programs = Arc::new(self.clone());
        let tool = FnTool::new("run_program", about, move |_cx, asked: ProgramArguments| {
            let programs = Arc::clone(&programs);
            async move { programs.run(asked).await }
        });
        tool.policy(ToolPolicy::default().effects(Effects::Write))
    }

    async fn run(&self, asked: ProgramArguments) -> Result<ProgramResult, ToolError> {
        let program = self.find(&asked.program)?;
        let mut running = RunningProgram::start(self, program, &asked)?;
        let child = &mut running.child;
        let (stdout, stderr, stdin) =
            (child.stdout.take(), child.stderr.take(), child.stdin.take());
        let write = async {
            if let (Some(mut stdin), Some(text)) = (stdin, &asked.input) {
                // A program may exit without reading its input, so a failed write is not an error.
                let _ = stdin.write_all(text.as_bytes()).await;
            }
        };
        let (mut output, mut errors) =
            (BoundedOutput::new(self.max_output), BoundedOutput::new(self.max_output));
        let status = {
            let read = async { tokio::join!(output.read(stdout), errors.read(stderr)) };
            let (mut read, mut write) = (pin!(read.fuse()), pin!(write.fuse()));
            let ended = async {
                let mut wait = pin!(child.wait());
                loop {
                    tokio::select! {
                        status = &mut wait => return status,
                        _ = &mut read, if !read.is_terminated() => {}
                        () = &mut write, if !write.is_terminated() => {}
                    }
                }
            };
            let status = tokio::time::timeout(self.timeout, ended).await;
            // A child process may keep the output open, so the group is killed before the rest is
            // read.
            running.group.kill();
            read_rest(read).await;
            status
        };
        match status {
            Ok(Ok(status)) => Ok(ProgramResult {
                status: status.code(),
                output: output.text(),
                errors: errors.text(),
            }),
            Ok(Err(error)) => {
                Err(ToolError::new(format!("`{}` cannot be waited for: {error}", program.name)))
            }
            Err(_) => {
                let (said, name) = (format!("{}{}", output.text(), errors.text()), &program.name);
                let problem = format!(
                    "`{name}` did not end within {:?} and was killed; it wrote: {said}",
                    self.timeout
                );
                Err(ToolError::with_status(ToolStatus::Timeout, problem))
            }
        }
    }

    fn find(&self, name: &str) -> Result<&Program, ToolError> {
        self.programs.iter().find(|program| program.name == name).ok_or_else(|| {
            let names = || self.programs.iter().map(|program| program.name.as_str());
            let hint = match nearest(name, names()) {
                near @ Some(_) => did_you_mean(near),
                None => format!("; there are: {}", names().collect::<Vec<_>>().join(", ")),
            };
            ToolError::invalid_arguments(format!("there is no program `{name}`{hint}"))
        })
    }
}

/// Reads the remaining output for at most [`LAST_WORDS`]. The future may have finished already:
/// polling it again would never complete.
async fn read_rest(read: Pin<&mut impl FusedFuture>) {
    if !read.is_terminated() {
        let _ = tokio::time::timeout(LAST_WORDS, read).await;
    }
}

/// A started program. Dropping this value kills its process group.
struct RunningProgram {
    child: Child,
    group: ProcessGroup,
}

impl RunningProgram {
    fn start(
        programs: &Programs,
        program: &Program,
        asked: &ProgramArguments,
    ) -> Result<Self, ToolError> {
        let name = &program.name;
        if asked.arguments.len() > MOST_ARGUMENTS {
            let count = asked.arguments.len();
            let problem =
                format!("a call has at most {MOST_ARGUMENTS} arguments, and this one has {count}");
            return Err(ToolError::invalid_arguments(problem));
        }
        let cannot =
            |error: io::Error| ToolError::new(format!("`{name}` cannot be started: {error}"));
        let limited = programs
            .max_memory
            .map(|bytes| limited(&program.path, bytes))
            .transpose()
            .map_err(cannot)?
            .flatten();
        let is_limited = limited.is_some();
        let mut command = limited.unwrap_or_else(|| Command::new(&program.path));
        command.args(&program.first).args(&asked.arguments).current_dir(&programs.folder);
        command.env_clear().envs(&programs.environment).kill_on_drop(true);
        let stdin = if asked.input.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        // A new process group, so that processes started by the program can be killed with it.
        command.process_group(0);
        let child = command.spawn().map_err(cannot)?;
        let running = Self { group: ProcessGroup::from_leader(child.id()), child };
        if let Some(bytes) = programs.max_memory.filter(|_| !is_limited) {
            running.limit(bytes).map_err(|error| {
                ToolError::new(format!(
                    "the memory of `{name}` cannot be limited, so it was killed: {error}"
                ))
            })?;
        }
        Ok(running)
    }

    #[cfg(target_os = "linux")]
    fn limit(&self, bytes: u64) -> io::Result<()> {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let Some(process) = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?))
        else {
            return Ok(());
        };
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Some(process), Resource::As, limit)?;
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "the same on all systems")]
    fn limit(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a command that starts a program with a memory limit, if the system has a tool for that.
#[cfg(target_os = "linux")]
fn limited(path: &Path, bytes: u64) -> io::Result<Option<Command>> {
    use rustix::process::{Resource, getrlimit};
    let Some(limiter) = LIMITERS.into_iter().map(Path::new).find(|limiter| limiter.is_file())
    else {
        return Ok(None);
    };
    // Check the path first: for a missing program, the limiter would start and write its own error
    // to the program's output.
    std::fs::metadata(path)?;
    let bytes = getrlimit(Resource::As).maximum.map_or(bytes, |most| most.min(bytes));
    let mut command = Command::new(limiter);
    command.arg(format!("--as={bytes}:{bytes}")).arg("--").arg(path);
    Ok(Some(command))
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "the same on all systems")]
fn limited(_: &Path, _: u64) -> io::Result<Option<Command>> {
    Ok(None)
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.group.kill();
    }
}

/// The first and the last part of a program's output.
struct BoundedOutput {
    half: usize,
    first: Vec<u8>,
    last: VecDeque<u8>,
    left_out: u64,
}

impl BoundedOutput {
    fn new(most: usize) -> Self {
        Self { half: most / 2, first: Vec::new(), last: VecDeque::new(), left_out: 0 }
    }

    async fn read(&mut self, from: Option<impl AsyncRead + Unpin>) {
        let Some(mut from) = from else { return };
        let mut piece = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            // Fills the first half, then keeps the newest bytes in the second half.
            let room = (self.half - self.first.len()).min(count);
            self.first.extend_from_slice(&piece[..room]);
            self.last.extend(&piece[room..count]);
            let over = self.last.len().saturating_sub(self.half);
            self.last.drain(..over);
            self.left_out += over as u64;
        }
    }

    /// Returns the text. Invalid UTF-8 is replaced.
    fn text(self) -> String {
        let last: Vec<u8> = self.last.into();
        match self.left_out {
            0 => String::from_utf8_lossy(&[self.first, last].concat()).into_owned(),
            left_out => {
                let (first, last) =
                    (String::from_utf8_lossy(&self.first), String::from_utf8_lossy(&last));
                format!("{first}\n[{left_out} bytes are left out]\n{last}")
            }
        }
    }
}

/// Prints the names of the programs, but no environment variables.
impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.programs.iter().map(|program| program.name.as_str()).collect();
        f.debug_struct("Programs")
            .field("folder", &self.folder)
            .field("programs", &names)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize, JsonSchema)]
struct ProgramArguments {
    /// The name of a program.
    program: String,
    /// Its arguments, one by one.
    #[serde(default)]
    arguments: Vec<String>,
    /// What it reads from its standard input.
    input: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ProgramResult {
    /// The number that the program ended with; null when a signal ended it.
    status: Option<i32>,
    output: String,
    errors: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_read_already_is_not_waited_for() {
        let begin = tokio::time::Instant::now();
        let mut read = pin!(std::future::ready(()).fuse());
        read.as_mut().await;
        read_rest(read).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        read_rest(pin!(std::future::pending::<()>().fuse())).await;
        assert_eq!(begin.elapsed(), LAST_WORDS);
    }
}
