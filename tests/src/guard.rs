//! [`ChildGuard`]: ends child processes when the test program ends, also if it is killed.
//!
//! A process with an inherited standard error would keep the reader of the test's output waiting
//! after the end of the tests. Destructors do not run when the program is killed or exits, so a
//! shell does the rest: it knows the ids of the children and reads its standard input, which the
//! system closes when the program ends.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Adds and removes ids, one a line. At the end of the input, kills the processes that are left,
/// also stopped ones.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids=
while read -r sign pid; do
    left=
    for other in $pids; do [ "$other" = "$pid" ] || left="$left $other"; done
    pids=$left
    [ "$sign" = + ] && pids="$pids $pid"
done
for pid in $pids; do kill -9 "$pid"; done
"#;

/// The shell that kills the children.
struct Watch {
    input: Mutex<ChildStdin>,
    /// Never waited for: it ends after this program.
    _shell: Child,
}

/// Kills a child process by its id if the test program ends before this value is dropped. Drop it
/// after the child has been waited for. Does nothing on systems without `sh`.
#[derive(Debug)]
pub struct ChildGuard(u32);

impl ChildGuard {
    /// Guards a running child process.
    pub fn new(process: u32) -> Self {
        tell('+', process);
        Self(process)
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        tell('-', self.0);
    }
}

fn tell(sign: char, process: u32) {
    static WATCH: OnceLock<Option<Watch>> = OnceLock::new();
    let Some(watch) = WATCH.get_or_init(start) else { return };
    let mut input = watch.input.lock().unwrap_or_else(PoisonError::into_inner);
    // Fails only if someone has killed the shell.
    let _ = input.write_all(format!("{sign} {process}\n").as_bytes());
}

fn start() -> Option<Watch> {
    let mut shell = Command::new("sh")
        .args(["-c", SCRIPT])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let input = Mutex::new(shell.stdin.take()?);
    Some(Watch { input, _shell: shell })
}
