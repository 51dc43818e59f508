//! A Postgres server for the tests of one program.
//!
//! A shell starts the server, so that the data belongs to another user if the tests run as root,
//! which Postgres refuses. The shell reads commands from its standard input. When the test program
//! ends, even after a crash, the input is closed, and the shell stops the server and deletes its
//! data. Neither the shell nor the server has an output of the test program.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::install::{pinned_postgres, postgres_programs};
use crate::process::free_port;
use crate::skipped;

/// Time limit for a step of the server's start and stop.
const LIMIT: Duration = Duration::from_secs(60);

/// Commands: `start`, `kill`. The end of the input stops the server and deletes its data.
const SCRIPT: &str = r#"
bin=$1; port=$2
# Only the end of the input ends the shell. An answer fails if the test program has ended.
trap '' INT TERM HUP PIPE
# Fails if the folder exists, so that no other user can prepare it.
dir="${TMPDIR:-/tmp}/agentflow-postgres-$$-$port"
mkdir -m 700 "$dir" || exit 1
pid=
if "$bin/initdb" -D "$dir/data" -A trust -U agentflow --no-sync -E UTF8 --locale=C \
    </dev/null >"$dir/log" 2>&1
then echo "$dir"
else echo "failed: $(tail -n 1 "$dir/log")"; rm -rf "$dir"; exit 1
fi
while read -r command; do
    case $command in
    start)
        # After a kill, the processes of the server need a moment to notice it.
        tries=0
        while [ $tries -lt 100 ]; do
            "$bin/postgres" -D "$dir/data" -p "$port" -c listen_addresses=127.0.0.1 \
                -c unix_socket_directories= -c fsync=off -c max_connections=300 \
                -c shared_buffers=32MB </dev/null >>"$dir/log" 2>&1 &
            pid=$!
            sleep 0.3
            kill -0 "$pid" 2>/dev/null && break
            tries=$((tries + 1))
        done
        echo started ;;
    kill)
        kill -9 "$pid"
        wait "$pid" 2>/dev/null
        echo killed ;;
    esac
done
if [ -n "$pid" ]; then
    kill -QUIT "$pid" 2>/dev/null
    tries=0
    while kill -0 "$pid" 2>/dev/null && [ $tries -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -9 "$pid" 2>/dev/null
fi
rm -rf "$dir"
"#;

/// A Postgres server on a loopback port, with an empty database, without TLS. It stops with the
/// value, or with the test program.
#[derive(Debug)]
pub struct PostgresServer {
    port: u16,
    dir: PathBuf,
    commands: Mutex<Option<ChildStdin>>,
    answers: Mutex<Receiver<String>>,
    shell: Mutex<Child>,
}

/// The reason why a server could not be started.
enum Failure {
    /// A prerequisite is missing.
    Skip(String),
    Broken(String),
}

impl PostgresServer {
    /// Returns the server that all tests of this program share. Returns `None`, which skips the
    /// test, when there is no Postgres and it cannot be installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Result<PostgresServer, Failure>> = OnceLock::new();
        // A failure is kept too, so that a missing server does not delay each test.
        started(SERVER.get_or_init(|| Self::try_start(postgres_programs())).as_ref())
    }

    /// Starts a server for one test. Returns `None`, which skips the test, when there is no
    /// Postgres and it cannot be installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start() -> Option<Self> {
        let server = Self::try_start(postgres_programs());
        server.or_else(|failure| started(Err(&failure)).ok_or(())).ok()
    }

    /// Starts a server of the version that is installed where there is no Postgres. Returns `None`,
    /// which skips the test, when it cannot be installed.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start_pinned() -> Option<Self> {
        let server = Self::try_start(pinned_postgres());
        server.or_else(|failure| started(Err(&failure)).ok_or(())).ok()
    }

    fn try_start(programs: Result<PathBuf, String>) -> Result<Self, Failure> {
        let bin = programs.map_err(Failure::Skip)?;
        let mut command = shell(&bin)?;
        let port = free_port();
        command.arg("-c").arg(SCRIPT).arg("postgres").arg(bin).arg(port.to_string());
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().map_err(|error| Failure::Broken(error.to_string()))?;
        let (sender, answers) = channel();
        let output = shell.stdout.take().expect("the output is piped");
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let commands = shell.stdin.take();
        let mut server = Self {
            port,
            dir: PathBuf::new(),
            commands: Mutex::new(commands),
            answers: Mutex::new(answers),
            shell: Mutex::new(shell),
        };
        let dir = server.answer().map_err(Failure::Broken)?;
        if let Some(problem) = dir.strip_prefix("failed: ") {
            return Err(Failure::Broken(format!("`initdb` failed: {problem}")));
        }
        server.dir = dir.into();
        server.try_restart().map_err(Failure::Broken)?;
        Ok(server)
    }

    fn answer(&self) -> Result<String, String> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.recv_timeout(LIMIT).map_err(|error| match error {
            RecvTimeoutError::Disconnected => "the server of the test has ended".to_owned(),
            RecvTimeoutError::Timeout => "the server of the test does not answer".to_owned(),
        })
    }

    fn command(&self, command: &str) -> Result<(), String> {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let input = commands.as_mut().expect("the input is closed by the drop");
        writeln!(input, "{command}").map_err(|error| error.to_string())?;
        drop(commands);
        self.answer().map(drop)
    }

    /// Starts the server process. Returns when it listens.
    ///
    /// # Panics
    /// When it does not listen in time.
    pub fn restart(&self) {
        self.try_restart().unwrap_or_else(|problem| panic!("{problem}"));
    }

    fn try_restart(&self) -> Result<(), String> {
        self.command("start")?;
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if begun.elapsed() > LIMIT {
                return Err(format!("the server does not listen: {}", self.log()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends the server process by SIGKILL.
    ///
    /// # Panics
    /// When the shell of the server has ended.
    pub fn kill(&self) {
        self.command("kill").unwrap_or_else(|problem| panic!("{problem}"));
    }

    /// Returns the URL of the database, without TLS.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// Returns the URL of the database through another port of this machine.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://agentflow@127.0.0.1:{port}/postgres?sslmode=disable")
    }

    /// Creates an empty database. Returns its URL.
    ///
    /// # Panics
    /// When the name is in use, or is not an identifier of SQL.
    pub async fn new_database(&self, name: &str) -> String {
        let client = self.client("public").await;
        let created = client.batch_execute(&format!("CREATE DATABASE {name}")).await;
        created.unwrap_or_else(|error| panic!("the database `{name}` cannot be created: {error}"));
        self.url().replace("/postgres?", &format!("/{name}?"))
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder of the server, which contains the folder `data`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the log of the server.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Connects a plain client with the tables of a schema in its search path.
    ///
    /// # Panics
    /// When the server accepts no connection in time.
    pub async fn client(&self, schema: &str) -> Client {
        let begun = Instant::now();
        loop {
            match tokio_postgres::connect(&self.url(), NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    let path = format!("SET search_path TO \"{schema}\"");
                    client.batch_execute(&path).await.expect("the path can be set");
                    return client;
                }
                // The server answers before it accepts connections.
                Err(error) => {
                    assert!(begun.elapsed() < LIMIT, "{error}: {}", self.log());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        drop(self.commands.lock().unwrap_or_else(PoisonError::into_inner).take());
        let begun = Instant::now();
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        while begun.elapsed() < LIMIT && matches!(shell.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the started server. Skips or fails the test otherwise.
fn started<S>(server: Result<S, &Failure>) -> Option<S> {
    match server {
        Ok(server) => Some(server),
        Err(Failure::Skip(why)) => {
            skipped(why);
            None
        }
        Err(Failure::Broken(problem)) => panic!("{problem}"),
    }
}

/// Returns the command of a shell whose user may start a server.
fn shell(bin: &Path) -> Result<Command, Failure> {
    if !is_root() {
        return Ok(Command::new("sh"));
    }
    // The user `postgres` exists where Postgres is installed.
    let mut problem = String::new();
    for user in ["postgres", "nobody"] {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).args(["--clear-groups", "--regid"]);
        command.arg(group_of(user).unwrap_or_default());
        let mut tried = Command::new(command.get_program());
        tried.args(command.get_args()).arg(bin.join("initdb")).arg("--version");
        match tried.current_dir("/").stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => {
                command.arg("sh");
                return Ok(command);
            }
            Ok(output) => problem = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => problem = format!("setpriv: {error}"),
        }
    }
    Err(Failure::Skip(format!("no other user than root can start Postgres: {problem}")))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

/// Returns the id of the group of a user.
fn group_of(user: &str) -> Option<String> {
    let id = Command::new("id").args(["-g", user]).output().ok()?;
    Some(String::from_utf8_lossy(&id.stdout).trim().to_owned())
}
