//! Child processes that end when their handle is dropped, with free ports and folders for them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::guard::ChildGuard;

/// Maximum time for a server to start.
const STARTUP: Duration = Duration::from_secs(120);

/// A child process that is killed by its id when this value is dropped, or when the test program
/// ends.
///
/// Its output goes to a file, and from there into the output of a failing test.
#[derive(Debug)]
pub struct Process {
    child: Child,
    _guard: ChildGuard,
    output: tempfile::NamedTempFile,
}

impl Process {
    /// Starts a process without input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let output = tempfile::NamedTempFile::new()?;
        let file: File = output.reopen()?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        let _guard = ChildGuard::new(child.id());
        Ok(Self { child, _guard, output })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills the process, and waits for its end.
    pub fn kill(&mut self) {
        // Fails only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the output so far.
    pub fn output(&self) -> String {
        fs::read(self.output.path())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Polls `ready` until it returns a value.
    ///
    /// # Panics
    /// When the process ends first, or after two minutes.
    pub fn wait_until<T>(&mut self, what: &str, mut ready: impl FnMut(&Self) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(answer) = ready(self) {
                return answer;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("it ended with {status} before {what}:\n{}", self.output());
            }
            assert!(began.elapsed() < STARTUP, "waited too long for {what}:\n{}", self.output());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "captured with the output of the test that failed")]
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- what the process {} printed:\n{}", self.child.id(), self.output());
        }
    }
}

/// Returns an iterator over the output lines of a child process. Each line has a limit of two
/// minutes.
///
/// # Panics
/// The iterator panics when no line arrives in that time, or a line is not UTF-8.
pub fn lines_of(output: impl Read + Send + 'static) -> impl Iterator<Item = String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            // A test that stops reading early drops the receiver.
            if send.send(line.expect("a process writes text")).is_err() {
                return;
            }
        }
    });
    std::iter::from_fn(move || match lines.recv_timeout(STARTUP) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("the process wrote no line in {STARTUP:?}"),
    })
}

/// Sends Ctrl-C (SIGINT) to another process.
///
/// # Panics
/// When the `kill` command is missing.
pub fn interrupt(process: u32) {
    signal(process, "-INT");
}

/// Sends SIGTERM to a process.
///
/// # Panics
/// When there is no `kill`.
pub fn terminate(process: u32) {
    signal(process, "-TERM");
}

/// Stops a process by SIGSTOP, until it is [continued](unfreeze).
///
/// # Panics
/// When there is no `kill`.
pub fn freeze(process: u32) {
    signal(process, "-STOP");
}

/// Continues a process that was stopped by [`freeze`].
///
/// # Panics
/// When there is no `kill`.
pub fn unfreeze(process: u32) {
    signal(process, "-CONT");
}

fn signal(process: u32, name: &str) {
    let mut kill = Command::new("kill");
    // The process may have ended already, so the exit code is ignored.
    kill.args([name, &process.to_string()])
        .stderr(Stdio::null())
        .status()
        .expect("there is a `kill`");
}

/// Returns a command that runs one test of this program in a new process. A test cannot change its
/// own environment, but it can set the environment of a new process. `module` is the caller's
/// `module_path!()`.
///
/// # Panics
/// When the running program has no path.
pub fn test_as_process(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
    // The test's name is its path without the name of the program.
    let name = module
        .split_once("::")
        .map_or_else(|| test.to_owned(), |(_, within)| format!("{within}::{test}"));
    command.args(["--exact", &name, "--nocapture"]);
    command
}

/// Returns a loopback port that was free a moment ago.
///
/// # Panics
/// When no port is free.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// Returns Cargo's target folder, in which the running test was built.
///
/// # Panics
/// When the test is not run from a target folder.
pub fn target_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").exists();
    test.ancestors().find(is_target).expect("a test runs from cargo's target folder").to_owned()
}
