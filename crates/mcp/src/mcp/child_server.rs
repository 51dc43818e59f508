//! A server that runs as a child process: starting it, reading its standard error, and ending it.

use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::mcp_settings::CommandLine;
use agentflow_core::__private::extension::SecretMasker;
use agentflow_tools::__private::ProcessGroup;

/// Time that a process has to exit after its input was closed.
const GRACE: Duration = Duration::from_secs(2);
/// Number of bytes of standard error that are kept.
const MOST_WORDS: usize = 8192;

/// Environment variables that a server inherits by default. Programs need them to find files and
/// other programs. None of them holds a key.
const INHERITED: [&str; 22] = [
    "APPDATA",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LC_ALL",
    "LOCALAPPDATA",
    "LOGNAME",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SHELL",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "USERPROFILE",
];

/// The process of a server. Dropping this value closes the input of the process. Two seconds later,
/// the process and its descendants are killed.
pub(super) struct ChildServer {
    process: Option<Process>,
    words: StderrTail,
    heard: Option<JoinHandle<()>>,
}

/// A process with the process group of its descendants.
struct Process {
    child: Child,
    group: ProcessGroup,
}

/// The last bytes that the process wrote to its standard error.
#[derive(Clone, Default)]
pub(super) struct StderrTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    hidden: Arc<[SecretMasker; 2]>,
}

impl ChildServer {
    /// Starts the process. `hidden` and the values of its environment variables are masked in its
    /// standard error.
    pub(super) fn start(
        command: &CommandLine,
        hidden: SecretMasker,
    ) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let mut line = Command::new(&command.program);
        line.args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !command.inherits {
            line.env_clear();
            line.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        }
        line.envs(&command.environment).kill_on_drop(true);
        if let Some(folder) = &command.folder {
            line.current_dir(folder);
        }
        // With its own process group, `Process::kill` also reaches the descendants of the process.
        #[cfg(unix)]
        line.process_group(0);
        let mut child = line.spawn()?;
        let missing = || io::Error::other("the process has no standard streams");
        let (input, output) =
            (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let hidden = [hidden, SecretMasker::new(command.environment.values().cloned())];
        let words = StderrTail { kept: Arc::default(), hidden: Arc::new(hidden) };
        let heard = Some(tokio::spawn(words.clone().hear(stderr)));
        let group = ProcessGroup::from_leader(child.id());
        Ok((Self { process: Some(Process { child, group }), words, heard }, output, input))
    }

    pub(super) fn words(&self) -> &StderrTail {
        &self.words
    }

    /// Waits until the process has exited. Kills it and its descendants when the grace period ends.
    pub(super) async fn end(mut self) {
        if let Some(process) = self.process.take() {
            process.end().await;
        }
    }

    /// Returns the exit status and the last error message of a process whose connection has ended.
    pub(super) async fn epitaph(&mut self) -> String {
        let Some(process) = &mut self.process else { return String::new() };
        let status = tokio::time::timeout(GRACE / 4, process.child.wait()).await;
        // The process may have written its last lines immediately before it exited.
        if let Some(heard) = &mut self.heard {
            let _ = tokio::time::timeout(GRACE / 4, heard).await;
        }
        self.heard = None;
        let ended = status
            .ok()
            .and_then(Result::ok)
            .map(|status: ExitStatus| format!("its process ended: {status}"));
        let last = exit_reason(&self.words.text()).map(|line| format!("it said: {line}"));
        [ended, last].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Returns the line of standard error that explains why the process ended. This is the last line,
/// except for Node.js and npm, which print other lines after the error message.
fn exit_reason(words: &str) -> Option<&str> {
    let lines = || words.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = lines().next_back()?;
    let is_reason = |line: &&str| match line.strip_prefix("npm error ") {
        Some(text) => !text.starts_with("code "),
        None => line
            .split_once(':')
            .is_some_and(|(kind, _)| kind.ends_with("Error") || kind.contains("Error [")),
    };
    let is_end = last.starts_with("Node.js v") || last.starts_with("npm error A complete log");
    let reason = if is_end { lines().find(is_reason) } else { None };
    Some(reason.unwrap_or(last))
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        if let Some(heard) = self.heard.take() {
            heard.abort();
        }
        // Ending the process takes seconds and `drop` cannot wait, so a task does it. Without a
        // runtime, dropping `Process` kills the process at once.
        if let Some(process) = self.process.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(process.end());
        }
    }
}

impl Process {
    async fn end(mut self) {
        let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
        self.kill();
        let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
    }

    /// Kills the process and its descendants.
    fn kill(&mut self) {
        self.group.kill();
        // An error means that the process has already exited.
        let _ = self.child.start_kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl StderrTail {
    async fn hear(self, stderr: ChildStderr) {
        let mut stderr = BufReader::new(stderr);
        let mut piece = [0; 1024];
        while let Ok(read @ 1..) = stderr.read(&mut piece).await {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&piece[..read]);
            let over = kept.len().saturating_sub(MOST_WORDS);
            kept.drain(..over);
        }
    }

    /// Returns the text. The keys of the process and the values of its environment variables are
    /// masked.
    pub(super) fn text(&self) -> String {
        let kept: Vec<u8> =
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&kept).into_owned();
        self.hidden.iter().fold(text, |text, hidden| hidden.masked(&text).unwrap_or(text))
    }
}

#[cfg(test)]
mod tests {
    use super::exit_reason;

    #[test]
    fn the_reason_is_the_error_and_not_the_end_of_a_report() {
        let node = "/srv/index.js:3\nthrow new Error('no TOKEN')\n^\n\nError: no TOKEN\n    at Module._compile (node:x:1:2)\n\nNode.js v20.20.2\n";
        let of_system = "node:events:498\nError [ERR_X]: no port\n    at a {\n  code: 'ERR_X'\n}\n\nNode.js v22.1.0";
        let npm = "npm error code E404\nnpm error 404 Not Found - GET https://r.example/x\nnpm error 404\nnpm error A complete log of this run can be found in: /root/x.log\n";
        let python =
            "Traceback (most recent call last):\n  File \"x\", line 1\nRuntimeError: no TOKEN\n";
        for (words, reason) in [
            (node, "Error: no TOKEN"),
            (of_system, "Error [ERR_X]: no port"),
            (npm, "npm error 404 Not Found - GET https://r.example/x"),
            (python, "RuntimeError: no TOKEN"),
            ("Node.js v20.20.2", "Node.js v20.20.2"),
            ("  a line \n\n", "a line"),
        ] {
            assert_eq!(exit_reason(words), Some(reason));
        }
        assert_eq!(exit_reason(" \n"), None);
    }
}
