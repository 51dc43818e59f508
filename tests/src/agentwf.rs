//! Runs the `agentwf` command line as a user does: as a process with arguments, an environment and
//! a deadline.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use agentflow_testing::wait_until;
use serde_json::Value;

/// An invocation of the command line.
#[derive(Debug)]
pub struct Agentwf {
    command: Command,
    deadline: Duration,
}

/// The outcome of a command.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Agentwf {
    /// Creates an invocation of the program at `path`. The environment contains a fake API key and
    /// none of the caller's keys, proxies and addresses.
    pub fn new(path: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(path);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "RUST_LOG", "NO_COLOR"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command
            .env_remove("ANTHROPIC_AUTH_TOKEN")
            .env_remove("GOOGLE_API_KEY")
            .env_remove("GOOGLE_GEMINI_BASE_URL");
        for provider in ["ANTHROPIC", "DEEPSEEK", "GEMINI", "OLLAMA", "OPENAI", "OPENROUTER"] {
            command
                .env_remove(format!("{provider}_API_KEY"))
                .env_remove(format!("{provider}_BASE_URL"));
        }
        command.env("OPENAI_API_KEY", "a-key-of-the-tests").stdin(Stdio::null());
        Self { command, deadline: Duration::from_secs(60) }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the maximum duration of [`run`](Self::run). Default: one minute.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts the process with piped output, for a test that communicates with it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(mut self) -> Child {
        self.command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command line can be started")
    }

    /// Starts the process with the given standard input.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_with(mut self, stdin: Stdio) -> Child {
        self.command.stdin(stdin);
        self.start()
    }

    /// Runs the process until it ends.
    ///
    /// # Panics
    /// When the deadline passes first.
    pub fn run(self) -> Ended {
        let (deadline, what) = (self.deadline, format!("{:?}", self.command));
        Ended::of(self.start(), deadline, &what)
    }
}

impl Ended {
    /// Waits for the end of a process whose output is piped.
    ///
    /// # Panics
    /// When it takes longer than `deadline`.
    pub fn of(mut child: Child, deadline: Duration, what: &str) -> Self {
        let began = Instant::now();
        // Threads read the output, because a full pipe would block the process.
        let stdout = child.stdout.take().map(reader);
        let stderr = child.stderr.take().map(reader);
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break Some(status);
            }
            if began.elapsed() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let text = |reader: Option<thread::JoinHandle<String>>| {
            let Some(reader) = reader else { return String::new() };
            wait_until("the end of its output", || reader.is_finished().then_some(()));
            reader.join().expect("a reader does not panic")
        };
        let ended = Self {
            code: status.and_then(|status| status.code()),
            stdout: text(stdout),
            stderr: text(stderr),
            took: began.elapsed(),
        };
        assert!(status.is_some(), "it was not done after {deadline:?}: {what}\n{ended:#?}");
        ended
    }

    /// Returns standard output, parsed as JSON lines.
    ///
    /// # Panics
    /// When a line is not JSON.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("{error} in {line:?}: {self:#?}"))
            })
            .collect()
    }

    /// Returns standard output, parsed as a single JSON line.
    ///
    /// # Panics
    /// When the output is not exactly one line of JSON.
    pub fn line(&self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{self:#?}");
        lines.remove(0)
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
