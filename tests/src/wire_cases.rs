//! Recorded traffic of real providers, and the server that replays it. The recordings are not part
//! of a release. `AGENTFLOW_WIRE_CASES` names their folder; the default is `../shared/wire-cases`
//! next to the workspace.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::http::{get, post};
use crate::install::Python;
use crate::process::Process;
use crate::skipped;

/// A recorded conversation.
#[derive(Clone, Debug)]
pub struct WireCase {
    /// Name of the case.
    pub id: String,
    /// Turns of the conversation.
    pub turns: Vec<WireTurn>,
}

/// A request and its response.
#[derive(Clone, Debug)]
pub struct WireTurn {
    /// Wire format of the provider.
    pub provider: String,
    /// Request body; null if it was not recorded.
    pub request: Value,
    /// `true` if the response was an event stream.
    pub streamed: bool,
    /// HTTP status of the response.
    pub status: u16,
    /// Body of the response, byte for byte.
    pub body: Vec<u8>,
    /// Result that the provider's own SDK produced from the response.
    pub expected: Value,
}

/// Returns the folder of recorded traffic, or `None`, which skips the test, when it does not exist.
fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("AGENTFLOW_WIRE_CASES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/wire-cases"),
    };
    if folder.join("replay.py").exists() {
        return Some(folder);
    }
    skipped("no recorded traffic; set AGENTFLOW_WIRE_CASES to its folder");
    None
}

/// Returns the recorded conversations whose names begin with `prefix`, sorted by name. Returns
/// `None`, which skips the test, without recorded traffic.
///
/// # Panics
/// When a case cannot be read, or no case has that prefix.
pub fn wire_cases(prefix: &str) -> Option<Vec<WireCase>> {
    let cases = folder()?.join("cases");
    let mut names: Vec<String> = fs::read_dir(&cases)
        .expect("the cases can be listed")
        .map(|entry| {
            entry.expect("the cases can be listed").file_name().to_string_lossy().into_owned()
        })
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no case is named {prefix}..");
    Some(names.iter().map(|name| read(&cases.join(name))).collect())
}

fn read(folder: &Path) -> WireCase {
    let json = |name: &str| -> Value {
        let text = fs::read_to_string(folder.join(name)).expect("a case has its files");
        serde_json::from_str(&text).expect("a case is JSON")
    };
    let (case, expected) = (json("case.json"), json("expected.json"));
    let turns = case["interactions"].as_array().expect("a case has turns").iter().enumerate();
    let turns = turns.map(|(at, turn)| {
        let file = turn["response"]["body_file"].as_str().expect("a turn names its body");
        WireTurn {
            provider: turn["provider"].as_str().expect("a turn has a provider").to_owned(),
            request: turn["request"]["body"].clone(),
            streamed: turn["response"]["stream"].as_bool().expect("a turn says whether it streams"),
            status: turn["response"]["status"]
                .as_u64()
                .and_then(|status| status.try_into().ok())
                .expect("a status"),
            body: fs::read(folder.join(file)).expect("a turn has its body"),
            expected: expected["turns"][at].clone(),
        }
    });
    WireCase {
        id: case["id"].as_str().expect("a case has a name").to_owned(),
        turns: turns.collect(),
    }
}

/// A server that replays recorded traffic. It stops when this value is dropped.
#[derive(Debug)]
pub struct Replay {
    process: Process,
    folder: PathBuf,
    base: String,
}

impl Replay {
    /// Starts the server on a free port. Returns `None`, which skips the test, without Python or
    /// recorded traffic.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn start() -> Option<Self> {
        let folder = folder()?;
        let mut command = Command::new("python3");
        command.arg(folder.join("replay.py")).arg(folder.join("cases")).args(["--port", "0"]);
        let mut process = match Process::start(&mut command) {
            Ok(process) => process,
            Err(error) => {
                skipped(format_args!("python3 cannot be started: {error}"));
                return None;
            }
        };
        let base = process.wait_until("it listens", |process| {
            let output = process.output();
            let (_, address) = output.split_once(" on ")?;
            Some(address.split_once('\n')?.0.to_owned())
        });
        Some(Self { process, folder, base })
    }

    /// Returns the base URL for a key such as `oai-error-404@chunk=1~a`, in the form that OpenAI's
    /// SDK expects.
    pub fn base_url(&self, key: &str) -> String {
        format!("{}/{key}/v1", self.base)
    }

    /// Returns the base URL for a key, in the form expected by the SDKs that append the version
    /// themselves.
    pub fn root_url(&self, key: &str) -> String {
        format!("{}/{key}", self.base)
    }

    /// Consumes a turn that was recorded in another wire format.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn skip_turn(&self, key: &str) {
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "skipped"}]}]});
        let url = format!("{}/{key}/v1beta/models/skipped:generateContent", self.base);
        let answer = post(&url, &body).expect("the replay server answers");
        assert!(answer.status < 410, "there is no turn to skip in {key}: {answer:?}");
    }

    /// Returns the requests received so far, in order.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn log(&self) -> Vec<Value> {
        let answer = get(&format!("{}/__log", self.base)).expect("the replay server answers");
        match answer.json() {
            Value::Array(log) => log,
            other => panic!("the log is not an array: {other}"),
        }
    }

    /// Returns the requests received so far for one key.
    pub fn log_of(&self, key: &str) -> Vec<Value> {
        self.log().into_iter().filter(|entry| entry["key"] == key).collect()
    }

    /// Checks every request received so far against the parameter types of the official SDKs.
    ///
    /// # Panics
    /// When a request does not match.
    pub fn validate(&self, python: &Python) {
        let log = self.log();
        assert!(!log.is_empty(), "nothing was sent");
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        serde_json::to_writer(&mut file, &log).expect("the log can be written");
        let output = python
            .command()
            .arg(self.folder.join("validate_requests.py"))
            .arg(file.path())
            .output();
        let output = output.expect("the validator can be started");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(&format!("{} passed, 0 failed", log.len())), "{said}");
    }

    /// Returns the server's process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// Variants of the transport encoding of the same response.
pub const VARIANTS: [&str; 6] = ["", "@chunk=1", "@chunk=7", "@crlf=1", "@comment=1", "@bom=1"];

/// Returns the fields of the output that `expected` contains.
pub fn relevant(printed: &Value, expected: &Value) -> Value {
    let printed = printed.get("error").unwrap_or(printed);
    let fields = expected.as_object().into_iter().flatten();
    fields.map(|(key, _)| (key.clone(), printed[key].clone())).collect()
}

/// Runs all jobs on a few threads, also after a job has failed.
///
/// # Panics
/// When a job failed, with the errors of all failed jobs.
pub fn run_all<J: Send + 'static>(
    jobs: Vec<J>,
    run: impl Fn(&J) -> Result<(), String> + Send + Sync + 'static,
) {
    let (queue, run) = (Arc::new(Mutex::new(VecDeque::from(jobs))), Arc::new(run));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (queue, run) = (Arc::clone(&queue), Arc::clone(&run));
            thread::spawn(move || {
                let mut problems = Vec::new();
                loop {
                    let Some(job) = queue.lock().expect("no job panics").pop_front() else {
                        return problems;
                    };
                    problems.extend(run(&job).err());
                }
            })
        })
        .collect();
    let problems: Vec<String> =
        workers.into_iter().flat_map(|worker| worker.join().expect("no job panics")).collect();
    assert!(problems.is_empty(), "{} failed:\n{}", problems.len(), problems.join("\n"));
}
