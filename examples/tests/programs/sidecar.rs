//! Runs the service next to a second process that serves tools, like the profile `mcp` of its compose
//! file, and checks the profile against the program.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agentflow::serde_json::{self, Value, json};

/// A process of the service. It is killed when this value is dropped.
struct Service {
    process: Child,
    /// Address that the process printed.
    url: String,
}

impl Service {
    fn start(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
        command
            .args(arguments)
            .envs(environment.iter().copied())
            .current_dir(folder)
            .stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("http://"), "the service did not start: {line}");
        Self { process, url: line.trim().to_owned() }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = "host: localhost\r\nconnection: close\r\na2a-version: 1.0\r\ncontent-type: application/json\r\n\
                    authorization: Bearer sesame-street\r\n";
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{head}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_tools_of_the_container_beside_it_are_called() {
    let folder = tempfile::tempdir().unwrap();
    let token = ("SERVICE_TOKEN", "sesame-street");
    let tools = Service::start(folder.path(), &["--tools", "127.0.0.1:0"], &[token]);
    let own = ["--listen", "127.0.0.1:0"];
    let service = Service::start(folder.path(), &own, &[("MCP_URL", &tools.url), token]);
    let card = service.ask("GET", "/.well-known/agent-card.json", "");
    let skills: Vec<&Value> =
        card["skills"].as_array().unwrap().iter().map(|skill| &skill["id"]).collect();
    assert_eq!(skills, ["counted_elsewhere", "digest"]);
    let part = json!({"data": {"input": "the tide comes in"}});
    let message =
        json!({"message": {"messageId": "1", "role": "ROLE_USER", "parts": [part]}}).to_string();
    let task = service.ask("POST", "/a2a/counted_elsewhere/message:send", &message);
    assert_eq!(task["task"]["status"]["state"], json!("TASK_STATE_COMPLETED"), "{task}");
    assert!(task["task"]["artifacts"][0].to_string().contains('4'), "{task}");
    drop(service);
    // Without the sidecar the service offers only its own workflow, also if the variable is empty.
    let service = Service::start(folder.path(), &own, &[("MCP_URL", "")]);
    let card = service.ask("GET", "/.well-known/agent-card.json", "");
    assert_eq!(card["skills"].as_array().unwrap().len(), 1, "{card}");
    drop(service);
    // The service starts without its sidecar, and a task that needs it reports the missing server.
    let service =
        Service::start(folder.path(), &[own[0], own[1], "--mcp", "http://127.0.0.1:1/mcp"], &[]);
    let task = service.ask("POST", "/a2a/counted_elsewhere/message:send", &message);
    assert_eq!(task["task"]["status"]["state"], json!("TASK_STATE_FAILED"), "{task}");
    assert!(
        task.to_string().contains("the MCP server `sidecar` could not be connected to"),
        "{task}"
    );
}

#[test]
fn the_profile_fits_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/service");
    let compose = fs::read_to_string(folder.join("compose.yaml")).unwrap();
    let (service, tools) = compose.split_once("\n  tools:\n").unwrap();
    for says in [
        "profiles: [mcp]",
        "command: [\"--tools\", \"0.0.0.0:3300\", \"--host\", \"tools:3300\"]",
        "read_only: true",
        "cap_drop: [ALL]",
        "SERVICE_TOKEN: \"${SERVICE_TOKEN:?",
    ] {
        assert!(tools.contains(says), "{says}");
    }
    assert!(service.contains("MCP_URL=http://tools:3300/mcp"), "{service}");
    assert!(!tools.contains("ports:"), "its port is one of the network that the containers share");
    // A target folder has gigabytes and would be copied into the build image.
    let ignored = fs::read_to_string(folder.join("Dockerfile.dockerignore")).unwrap();
    assert!(
        ["**/target", ".git", "**/*.db"]
            .iter()
            .all(|pattern| ignored.lines().any(|line| line == *pattern))
    );
    let usage = Command::new(env!("CARGO_BIN_EXE_service")).arg("--help").output().unwrap();
    let usage = String::from_utf8(usage.stdout).unwrap();
    assert!(
        usage.contains("--tools ADDRESS")
            && usage.contains("--mcp URL")
            && usage.contains("MCP_URL"),
        "{usage}"
    );
}
