//! `agentwf a2a` as a process: it shows the card of an A2A agent and sends it a message.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

use agentflow_testing::wait_until;
use agentflow_tests::{Agentwf, Ended};
use serde_json::{Value, json};

const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");

fn agentwf(args: &[&str]) -> Ended {
    Agentwf::new(HOST).args(args).env("AGENT_KEY", "sesame-street").run()
}

/// Starts an agent that repeats its input. For `ask` it asks a question.
pub(crate) fn agent() -> String {
    agent_with(&json!({}))
}

/// Starts an agent with these fields in its card.
fn agent_with(fields: &Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut card = json!({
        "name": "Echo", "description": "Says it again.", "version": "3",
        "supportedInterfaces": [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}],
        "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "Repeats.", "tags": ["echo"]}],
    });
    for (name, value) in fields.as_object().unwrap() {
        card[name] = value.clone();
    }
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 2 {}
            let length = |line: &str| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
            };
            let mut body = vec![0; head.lines().find_map(length).unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let answer = match (head.starts_with("GET "), head.contains("/tasks/t-2")) {
                (true, true) => approval()["task"].clone(),
                (true, false) if head.contains("/tasks/t-3") => mute()["task"].clone(),
                (true, false) => card.clone(),
                (false, _) => answer(&head, &serde_json::from_slice(&body).unwrap()),
            };
            let answer = answer.to_string();
            let length = answer.len();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            stream.write_all((head + &answer).as_bytes()).unwrap();
        }
    });
    url
}

/// Builds a task of google-adk that asks for the approval of a call.
fn approval() -> Value {
    let call = json!({"id": "adk-0", "name": "refund", "args": {"cents": 900}});
    let data = json!({"id": "adk-1", "name": "adk_request_confirmation", "args": {"originalFunctionCall": call}});
    let part = json!({"data": data, "metadata": {"adk_type": "function_call", "adk_is_long_running": true}});
    json!({"task": {"id": "t-2", "contextId": "c-2", "status": {
        "state": "TASK_STATE_INPUT_REQUIRED",
        "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [part]},
    }}})
}

/// Builds a task whose question is missing.
fn mute() -> Value {
    json!({"task": {"id": "t-3", "contextId": "c-3", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}})
}

fn answer(head: &str, request: &Value) -> Value {
    let message = &request["message"];
    if let Some(response) = message["parts"][0]["data"].as_object() {
        let said = format!("{} in {}", response["response"], message["contextId"]);
        return json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": said}]}});
    }
    let text = message["parts"][0]["text"].as_str().unwrap();
    let key = if head.contains("Bearer sesame-street") || head.contains("bearer sesame-street") {
        " with a key"
    } else {
        ""
    };
    match text {
        "refund" => approval(),
        "mute" => mute(),
        "ask" => json!({"task": {"id": "t-1", "contextId": "c-1", "status": {
            "state": "TASK_STATE_INPUT_REQUIRED",
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Which?"}]},
        }}}),
        _ => {
            let said =
                format!("{text}{key} in {}", message["taskId"].as_str().unwrap_or("no task"));
            json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": said}]}})
        }
    }
}

#[test]
fn it_shows_a_card_and_sends_a_message() {
    let url = agent();
    let card = agentwf(&["a2a", "card", &url]);
    assert_eq!(
        card.stdout,
        format!(
            "Echo 3\nSays it again.\nHTTP+JSON 1.0 at {url}\nstreams: no\npush notifications: no\nskill echo: Repeats.\n"
        ),
        "{}",
        card.stderr
    );
    assert_eq!(agentwf(&["a2a", "card", &url, "--json"]).line()["version"], "3");
    let sent = agentwf(&["a2a", "send", &url, "hello"]);
    assert_eq!(
        (sent.code, sent.stdout.as_str()),
        (Some(0), "hello in no task\n"),
        "{}",
        sent.stderr
    );
    let sent = agentwf(&[
        "a2a",
        "send",
        &url,
        "hello",
        "--key-from",
        "AGENT_KEY",
        "--task",
        "t-1",
        "--json",
    ]);
    assert_eq!(sent.line()["message"]["parts"][0]["text"], "hello with a key in t-1");
}

#[test]
fn a_card_is_shown_with_escaped_control_characters_and_unverified_signatures() {
    let forged = json!([{"protected": "eyJhbGciOiJub25lIn0", "signature": "AA"}]);
    let url = agent_with(
        &json!({"name": "Echo\u{1b}[2J", "description": "Says\u{202e} it\n again.\u{7}", "signatures": forged}),
    );
    let card = agentwf(&["a2a", "card", &url]);
    assert!(
        card.stdout.starts_with("Echo\\u{1b}[2J 3\nSays\\u{202e} it\n again.\\u{7}\n"),
        "{}",
        card.stdout
    );
    assert!(card.stdout.contains("\n1 signature not verified\n"), "{}", card.stdout);
    let json = agentwf(&["a2a", "card", &url, "--json"]);
    assert_eq!(json.line()["signatures"], forged);
    assert!(json.stderr.contains("the signatures of the card are not verified"), "{}", json.stderr);
}

#[test]
fn a_question_shows_the_call_that_it_is_about_and_is_answered_in_the_form_of_its_server() {
    let url = agent();
    let asks = agentwf(&["a2a", "send", &url, "refund"]);
    assert!(
        asks.stderr.contains("refund(cents: 900)") && asks.stderr.contains("`t-2`"),
        "{}",
        asks.stderr
    );
    let shown = agentwf(&["a2a", "task", &url, "t-2"]);
    assert!(shown.stdout.contains("refund(cents: 900)"), "{}", shown.stdout);
    let answered = agentwf(&["a2a", "send", &url, "--task", "t-2", "yes"]);
    assert_eq!(answered.stdout, "{\"confirmed\":true} in \"c-2\"\n", "{}", answered.stderr);
    let unclear = agentwf(&["a2a", "send", &url, "--task", "t-2", "perhaps"]);
    assert_eq!(
        (unclear.code, unclear.stderr.contains("`yes` or `no`")),
        (Some(1), true),
        "{}",
        unclear.stderr
    );
}

#[test]
fn a_task_that_waits_and_an_agent_that_is_not_there_are_exit_code_1() {
    let url = agent();
    let asks = agentwf(&["a2a", "send", &url, "ask"]);
    assert_eq!((asks.code, asks.stdout.as_str()), (Some(1), ""));
    assert!(asks.stderr.contains("Which?") && asks.stderr.contains("`t-1`"), "{}", asks.stderr);
    let asks = agentwf(&["a2a", "send", &url, "ask", "--json"]);
    assert_eq!((asks.code, &asks.line()["task"]["id"]), (Some(1), &json!("t-1")));
    let mute = agentwf(&["a2a", "send", &url, "mute"]);
    assert!(
        mute.stderr.contains("its question cannot be shown") && mute.stderr.contains("`t-3`"),
        "{}",
        mute.stderr
    );
    let unknown = agentwf(&["a2a", "send", &url, "--task", "t-3", "yes"]);
    assert_eq!(
        (unknown.code, unknown.stderr.contains("--data")),
        (Some(1), true),
        "{}",
        unknown.stderr
    );
    let data = agentwf(&[
        "a2a",
        "send",
        &url,
        "--task",
        "t-3",
        "--data",
        r#"{"response": {"confirmed": true}}"#,
    ]);
    assert_eq!(data.stdout, "{\"confirmed\":true} in null\n", "{}", data.stderr);
    let gone = agentwf(&["a2a", "card", "http://127.0.0.1:1"]);
    assert_eq!(
        (gone.code, gone.stderr.contains("cannot be reached")),
        (Some(1), true),
        "{}",
        gone.stderr
    );
    let unset = agentwf(&["a2a", "card", &url, "--key-from", "NO_SUCH_VARIABLE_HERE"]);
    assert_eq!(
        (unset.code, unset.stderr.contains("`NO_SUCH_VARIABLE_HERE`")),
        (Some(1), true),
        "{}",
        unset.stderr
    );
}

#[test]
fn a_server_that_others_reach_needs_a_token_and_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("tasks.db");
    let serve = |more: &[&str]| {
        let args = ["a2a", "serve", "--store", store.to_str().unwrap()];
        let ended = agentwf(&[&args[..], more].concat());
        (ended.code, ended.stderr)
    };
    let (code, said) = serve(&["--workflow", "quick", "--listen", "0.0.0.0:0"]);
    assert!(code == Some(1) && said.contains("--token-from"), "{code:?} {said}");
    let (code, said) = serve(&["--workflow", "quick", "--listen", "here"]);
    assert!(code == Some(1) && said.contains("127.0.0.1:3200"), "{code:?} {said}");
    let (code, said) = serve(&["--workflow", "quick", "--token-from", "NO_SUCH_VARIABLE"]);
    assert!(code == Some(1) && said.contains("`NO_SUCH_VARIABLE` is not set"), "{code:?} {said}");
    let (code, said) = serve(&["--workflow", "quick", "--push", "--push-allow", "somewhere"]);
    assert!(code == Some(1) && said.contains("`somewhere` is not a range"), "{code:?} {said}");
    let (code, said) = serve(&[]);
    assert!(code == Some(1) && said.contains("offers nothing"), "{code:?} {said}");
    let (code, said) = serve(&["--workflow", "quik"]);
    assert!(code == Some(1) && said.contains("`quick`"), "{code:?} {said}");
}

/// Starts a server of `publish` that requires the token `sesame-street`. Returns it with its
/// address.
fn served(store: &std::path::Path, more: &[&str]) -> (agentflow_tests::Process, String) {
    let mut command = std::process::Command::new(HOST);
    command.args([
        "a2a",
        "serve",
        "--workflow",
        "publish",
        "--listen",
        "127.0.0.1:0",
        "--token-from",
        "AGENT_KEY",
    ]);
    command.args(more).arg("--store").arg(store).env("AGENT_KEY", "sesame-street");
    let mut server = agentflow_tests::Process::start(&mut command).unwrap();
    let url = server.wait_until("its address", |process| {
        process.output().lines().find(|line| line.starts_with("http://")).map(str::to_owned)
    });
    (server, url)
}

#[test]
fn a_server_with_a_token_serves_whoever_sends_it() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = served(&folder.path().join("tasks.db"), &["--clients-approve"]);
    let refused = agentwf(&["a2a", "send", &url, "news"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("401"), "{refused:?}");
    let asked = agentwf(&["a2a", "send", &url, "news", "--key-from", "AGENT_KEY", "--json"]);
    let task = serde_json::from_str::<Value>(&asked.stdout).unwrap()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked:?}");
    let id = task["id"].as_str().unwrap();
    let answered =
        agentwf(&["a2a", "send", &url, "granted", "--task", id, "--key-from", "AGENT_KEY"]);
    assert_eq!((answered.code, answered.stdout.as_str()), (Some(0), "NEWS\n"), "{answered:?}");
}

#[test]
fn tasks_are_shown_listed_streamed_and_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = served(&folder.path().join("tasks.db"), &["--clients-approve"]);
    let a2a = |args: &[&str]| agentwf(&[&["a2a"], args, &["--key-from", "AGENT_KEY"]].concat());
    let streamed = a2a(&["send", &url, "news", "--stream"]);
    assert_eq!(streamed.code, Some(1), "{streamed:?}");
    assert!(streamed.stderr.contains("publish NEWS?"), "{streamed:?}");
    let first: Value = serde_json::from_str(streamed.stdout.lines().next().unwrap()).unwrap();
    let id = first["task"]["id"].as_str().unwrap().to_owned();
    let shown = a2a(&["task", &url, &id, "--history", "5"]);
    let expected = format!(
        "{id} TASK_STATE_INPUT_REQUIRED\nclient: news\nagent: publish NEWS?\npublish NEWS?\n"
    );
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(0), expected.as_str()), "{shown:?}");
    let listed = a2a(&["tasks", &url]);
    assert_eq!(listed.stdout, format!("{id} TASK_STATE_INPUT_REQUIRED\n"), "{listed:?}");
    let cancelled = a2a(&["cancel", &url, &id, "--json"]);
    assert_eq!(cancelled.line()["status"]["state"], "TASK_STATE_CANCELED", "{cancelled:?}");
    let again = a2a(&["cancel", &url, &id]);
    assert!(again.code == Some(1) && again.stderr.contains("-32002"), "{again:?}");
}

#[test]
fn an_approval_is_given_by_the_operator_and_not_by_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("tasks.db");
    let (_server, url) = served(&store, &[]);
    let asking =
        thread::spawn(move || agentwf(&["a2a", "send", &url, "news", "--key-from", "AGENT_KEY"]));
    let store = store.to_str().unwrap();
    let asked = wait_until("the question", || {
        let asked = agentwf(&["runs", "--store", store, "questions", "--json"]);
        assert!(!asking.is_finished(), "{asked:?}");
        let questions: Value = serde_json::from_str(&asked.stdout).unwrap();
        questions.as_array().unwrap().first().cloned()
    });
    let (run, node) = (asked["run"].as_str().unwrap(), asked["path"].as_str().unwrap());
    let approved = agentwf(&["runs", "--store", store, "approve", run, node, "--by", "ada"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    wait_until("the answer", || asking.is_finished().then_some(()));
    let ended = asking.join().unwrap();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "NEWS\n"), "{ended:?}");
}
