//! Runs `live_answer` as a program, offline: a streamed answer, a lost connection that is
//! continued, and an agent that does not exist. It uses a minimal HTTP/1.0 client that can
//! disconnect within a response.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agentflow::serde_json::{self, Value, json};

/// Longest wait for a part of a response.
const LIMIT: Duration = Duration::from_secs(60);

const ANSWER: &str = "The tide comes in. It lifts the boats, one by one. Then it goes, and leaves them where they were.";

struct Program {
    process: Child,
    address: String,
}

impl Program {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_live_answer"))
            .args(["--port", "0"])
            .env_remove("AGENTFLOW_MODEL")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { address: line.trim().strip_prefix("http://").unwrap().to_owned(), process }
    }

    /// Sends a request. Returns the status and a reader of the body.
    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> (u16, BufReader<TcpStream>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {length}"
        );
        write!(stream, "{head}\r\n{headers}\r\n{body}").unwrap();
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                return (status.split(' ').nth(1).unwrap().parse().unwrap(), reader);
            }
        }
    }

    fn ask(&self, agent: &str) -> (u16, Value) {
        let question = json!({"text": "Tell me about the tide."}).to_string();
        let (status, mut reader) =
            self.send("POST", &format!("/agents/{agent}/questions"), "", &question);
        let mut body = String::new();
        reader.read_to_string(&mut body).unwrap();
        (status, serde_json::from_str(&body).unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[derive(Debug, Default)]
struct SentEvent {
    id: String,
    name: String,
    data: Value,
}

impl SentEvent {
    fn text(&self) -> &str {
        self.data["text"].as_str().unwrap()
    }
}

/// Returns the next event, or `None` at the end of the stream.
fn next_event(reader: &mut impl BufRead) -> Option<SentEvent> {
    let mut event = SentEvent::default();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("id", id)) => event.id = id.to_owned(),
            Some(("event", name)) => event.name = name.to_owned(),
            Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
            _ if event.name.is_empty() => {}
            _ => return Some(event),
        }
    }
}

#[test]
fn an_answer_continues_where_a_lost_connection_ended() {
    let program = Program::start();
    let (status, asked) = program.ask("poet");
    assert_eq!(status, 202, "{asked}");
    let path = format!("/runs/{}/answer", asked["run"].as_str().unwrap());
    let (status, mut reader) = program.send("GET", &path, "", "");
    assert_eq!(status, 200);
    let first = next_event(&mut reader).unwrap();
    let second = next_event(&mut reader).unwrap();
    assert_eq!((&*first.name, &*second.name), ("restart", "text"), "{first:?} {second:?}");
    let mut text = format!("{}{}", first.text(), second.text());
    assert!(ANSWER.contains(&text) && text.len() < ANSWER.len(), "the model is writing: {text:?}");
    // The connection is lost, and the browser reconnects with the id of its last event.
    drop(reader);
    let (_, mut reader) =
        program.send("GET", &path, &format!("last-event-id: {}\r\n", second.id), "");
    let mut last = second.id;
    let end = loop {
        let event = next_event(&mut reader).expect("an end");
        if !event.id.is_empty() {
            last.clone_from(&event.id);
        }
        match &*event.name {
            "text" => text.push_str(event.text()),
            // The first deltas were sent before the run was followed.
            "restart" => event.text().clone_into(&mut text),
            "end" => break event,
            other => panic!("{other}: {event:?}"),
        }
    };
    assert_eq!(text, ANSWER, "nothing is lost and nothing comes twice");
    assert_eq!(end.text(), ANSWER);
    assert!(next_event(&mut reader).is_none(), "the stream ends");
    // A client that has seen everything, and a client that has seen nothing.
    let (_, mut reader) = program.send("GET", &path, &format!("last-event-id: {last}\r\n"), "");
    assert_eq!(next_event(&mut reader).unwrap().name, "end");
    let (_, mut reader) = program.send("GET", &path, "", "");
    assert_eq!(next_event(&mut reader).unwrap().text(), ANSWER);
}

#[test]
fn an_agent_and_a_run_that_do_not_exist_are_not_found() {
    let program = Program::start();
    let (status, answer) = program.ask("painter");
    assert_eq!(status, 404, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("painter"), "{answer}");
    assert_eq!(program.send("GET", "/runs/nothing/answer", "", "").0, 404);
}
