//! A Postgres server for the tests of one program.
//!
//! A shell starts the server, so that the data belongs to the user `postgres` if the tests run as
//! root, which Postgres refuses. The shell reads commands from its standard input. When the test
//! program ends, even after a crash, the input is closed, and the shell stops the server and
//! deletes its data.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

/// Time limit for a step of the server's start and stop.
const LIMIT: Duration = Duration::from_secs(60);

/// Commands: `start`, `kill`. The end of the input stops the server and deletes its data.
const SCRIPT: &str = r#"
bin=$1; port=$2
# `mktemp` replaces the last X's by random characters.
dir=$(mktemp -d "${TMPDIR:-/tmp}/agentflow-postgres-XXXXXX") || exit 1
trap '' INT
pid=
if "$bin/initdb" -D "$dir/data" -A trust -U agentflow --no-sync -E UTF8 --locale=C >"$dir/log" 2>&1
then echo "$dir"
else cat "$dir/log" >&2; rm -rf "$dir"; exit 1
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
[ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
rm -rf "$dir"
"#;

pub(crate) struct PostgresServer {
    port: u16,
    dir: PathBuf,
    commands: Mutex<Option<ChildStdin>>,
    answers: Mutex<Receiver<String>>,
    shell: Mutex<Child>,
}

impl PostgresServer {
    /// Returns the server that all tests of this program share; `None` if Postgres is not
    /// installed.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
        SERVER.get_or_init(Self::start).as_ref()
    }

    /// Starts a server; `None` if Postgres is not installed.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
    pub(crate) fn start() -> Option<Self> {
        let Some(bin) = installed() else {
            eprintln!("skipped: there is no `initdb` and `postgres` on this machine");
            return None;
        };
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        let port = free_port();
        command.arg("-c").arg(SCRIPT).arg("postgres").arg(bin).arg(port.to_string());
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().expect("a shell can be started");
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
        server.dir = server.answer().into();
        server.restart();
        Some(server)
    }

    fn answer(&self) -> String {
        match self.answers.lock().unwrap().recv_timeout(LIMIT) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => panic!("the server of the test has ended"),
            Err(RecvTimeoutError::Timeout) => panic!("the server of the test does not answer"),
        }
    }

    fn command(&self, command: &str) {
        let mut commands = self.commands.lock().unwrap();
        writeln!(commands.as_mut().expect("it is running"), "{command}").expect("it is running");
        drop(commands);
        self.answer();
    }

    /// Starts the server process. Returns when it listens.
    pub(crate) fn restart(&self) {
        self.command("start");
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < LIMIT, "{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the server process by SIGKILL.
    pub(crate) fn kill(&self) {
        self.command("kill");
    }

    /// Returns the URL of the database, without TLS.
    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Folder with the data of the server, in the folder `data`.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Connects a plain client with the tables of a schema in its search path.
    pub(crate) async fn client(&self, schema: &str) -> Client {
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
        drop(self.commands.lock().unwrap().take());
        let begun = Instant::now();
        let mut shell = self.shell.lock().unwrap();
        while begun.elapsed() < LIMIT && matches!(shell.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the URL of the test database at a port.
pub(crate) fn url(port: u16) -> String {
    format!("postgres://agentflow@127.0.0.1:{port}/postgres?sslmode=disable")
}

/// Returns the folder with the programs of Postgres.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/local/bin".into());
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    folders
        .into_iter()
        .find(|folder| ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file()))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}
