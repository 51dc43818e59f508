//! Runs the service as a program: its health, its tasks, and SIGTERM during a request. Also checks
//! the container files against it, without a container engine.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use agentflow::serde_json::{self, Value, json};
use agentflow_testing::wait_until;

/// Time limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);

struct Service {
    process: Option<Child>,
    address: String,
}

impl Service {
    fn start(folder: &Path) -> Self {
        Self::start_at(folder, "127.0.0.1:0", None)
    }

    fn start_at(folder: &Path, listen: &str, token: Option<&str>) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_service"))
            .args(["--listen", listen, "--store", "service.db"])
            .env("SERVICE_TOKEN", token.unwrap_or_default())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").expect("the service did not start");
        Self { process: Some(process), address: address.replace("0.0.0.0", "127.0.0.1") }
    }

    fn signal(&self, name: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    fn end(mut self) -> Output {
        let mut process = self.process.take().unwrap();
        wait_until("the service to end", || process.try_wait().unwrap());
        process.wait_with_output().unwrap()
    }

    fn begin(&self, method: &str, path: &str, body: &str) -> TcpStream {
        self.begin_with(method, path, body, "")
    }

    fn begin_with(&self, method: &str, path: &str, body: &str, header: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let head = "host: localhost\r\nconnection: close\r\na2a-version: 1.0\r\ncontent-type: application/json\r\n";
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{head}{header}content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (String, Value) {
        answer(self.begin(method, path, body))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Reads the status and the JSON of a response.
fn answer(mut stream: TcpStream) -> (String, Value) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) =
        text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("half an answer: {text:?}"));
    let status = head.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn message(id: &str, text: &str, pause_ms: u64) -> String {
    let part = json!({"data": {"text": text, "pause_ms": pause_ms}});
    json!({"message": {"messageId": id, "role": "ROLE_USER", "parts": [part]}}).to_string()
}

fn result_of(task: &Value) -> &Value {
    &task["task"]["artifacts"][0]["parts"][0]["data"]
}

#[test]
fn it_answers_its_health_check_and_its_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path());
    assert_eq!(service.ask("GET", "/healthz", ""), ("200".to_owned(), json!({"status": "ok"})));
    let (status, card) = service.ask("GET", "/.well-known/agent-card.json", "");
    assert_eq!((&*status, &card["skills"][0]["id"]), ("200", &json!("digest")));
    let (status, task) =
        service.ask("POST", "/message:send", &message("m1", "the tide comes in", 0));
    assert_eq!(
        (&*status, result_of(&task)),
        ("200", &json!({"words": 4, "longest": "comes"})),
        "{task}"
    );
    // As the container's health check requests it.
    let check = |address: &str| {
        Command::new(env!("CARGO_BIN_EXE_service")).args(["--check", address]).output().unwrap()
    };
    assert!(check(&service.address).status.success());
    let address = service.address.clone();
    service.signal("INT");
    assert!(service.end().status.success());
    assert_eq!(check(&address).status.code(), Some(1));
    for (arguments, problem) in [
        (&["--lsten"][..], "there is no option --lsten"),
        (&["--listen", "8080"], "`8080` is not an address"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_service")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(problem), "{output:?}");
    }
}

#[test]
fn sigterm_interrupts_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path());
    // The task has started once it is in the service's list.
    let asked = service.begin("POST", "/message:send", &message("m1", "two words", 1500));
    let begun = || {
        let (_, tasks) = service.ask("GET", "/tasks", "");
        tasks["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty())
    };
    wait_until("the task to begin", || begun().then_some(()));
    service.signal("TERM");
    let (status, task) = answer(asked);
    assert_eq!(
        (&*status, result_of(&task)),
        ("200", &json!({"words": 2, "longest": "words"})),
        "{task}"
    );
    let output = service.end();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("asked to end") && said.contains("ended; 0 runs are left"), "{said}");
    // The next process has the task.
    let service = Service::start(folder.path());
    let (_, tasks) = service.ask("GET", "/tasks", "");
    assert_eq!(tasks["tasks"][0]["status"]["state"], json!("TASK_STATE_COMPLETED"), "{tasks}");
}

#[test]
fn an_address_beyond_loopback_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [["--listen", "0.0.0.0:0"], ["--tools", "0.0.0.0:0"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
        let output = command
            .args(arguments)
            .env_remove("SERVICE_TOKEN")
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success()
                && said.contains("other machines reach 0.0.0.0:0; set SERVICE_TOKEN"),
            "{said}"
        );
    }
    let service = Service::start_at(folder.path(), "0.0.0.0:0", Some("sesame-street"));
    let with = |header: &str| {
        let mut text = String::new();
        service.begin_with("GET", "/tasks", "", header).read_to_string(&mut text).unwrap();
        text
    };
    assert!(with("").starts_with("HTTP/1.1 401 "), "{}", with(""));
    assert!(with("authorization: Bearer sesame-stree\r\n").starts_with("HTTP/1.1 401 "));
    let answered = with("authorization: Bearer sesame-street\r\n");
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
}

#[test]
fn the_files_for_containers_fit_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/service");
    let docker = fs::read_to_string(folder.join("Dockerfile")).unwrap();
    let line = |begin: &str| {
        let mut found = docker.lines().filter(|line| line.starts_with(begin));
        found.next().unwrap_or_else(|| panic!("the Dockerfile has no line {begin}"))
    };
    assert_eq!(docker.lines().filter(|line| line.starts_with("FROM ")).count(), 2);
    assert_ne!(line("USER "), "USER root");
    let words = |line: &str| -> Vec<String> {
        serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
    };
    // The container file uses arguments that the program accepts.
    let health = words(line("HEALTHCHECK "));
    assert_eq!((&*health[0], &*health[1], &*health[2]), ("service", "--check", "127.0.0.1:8080"));
    let command = words(line("CMD "));
    assert_eq!((&*command[0], &*command[1]), ("--listen", "0.0.0.0:8080"));
    assert!(docker.contains("-e SERVICE_TOKEN"), "{docker}");
    let usage = Command::new(env!("CARGO_BIN_EXE_service")).arg("--help").output().unwrap();
    let usage = String::from_utf8(usage.stdout).unwrap();
    for option in command.iter().chain(&health).filter(|word| word.starts_with("--")) {
        assert!(usage.contains(option.as_str()), "{option}");
    }
    assert_eq!(line("EXPOSE "), "EXPOSE 8080");
    assert!(line("RUN cargo build").contains("--bin service"));
    let compose = fs::read_to_string(folder.join("compose.yaml")).unwrap();
    for says in [
        "dockerfile: examples/src/bin/service/Dockerfile",
        "127.0.0.1:8080:8080",
        "read_only: true",
        "cap_drop: [ALL]",
    ] {
        assert!(compose.contains(says), "{says}");
    }
    let grace: u64 = compose
        .split("stop_grace_period: ")
        .nth(1)
        .unwrap()
        .split('s')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(grace > 9, "the service may need nine seconds to end");
}
