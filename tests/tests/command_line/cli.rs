//! The command line as a process: listings, error messages, and how it stops.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use agentflow_testing::wait_until;
use agentflow_tests::{Agentwf, Ended, free_port, interrupt, lines_of};
use serde_json::{Value, json};

fn agentwf(args: &[&str]) -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-host")).args(args)
}

fn ended(args: &[&str]) -> Ended {
    agentwf(args).run()
}

/// Printed immediately, because a tool may delay the end of the run.
const STOPPING: &str = "stopping; Ctrl-C again does not wait for it\n";

/// A server that sends the given chunks and then keeps the connection open until the client closes
/// it.
struct SlowServer {
    base: String,
    asked: Receiver<()>,
    closed: Receiver<()>,
}

impl SlowServer {
    /// Starts the server. The n-th request gets the n-th list of chunks as an unfinished event
    /// stream.
    fn start(answers: Vec<Vec<String>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let base = format!("http://127.0.0.1:{}/v1", listener.local_addr().unwrap().port());
        let (send, closed) = channel();
        let (hears, asked) = channel();
        thread::spawn(move || {
            for answer in answers {
                let Ok((stream, _)) = listener.accept() else { return };
                let (send, hears) = (send.clone(), hears.clone());
                thread::spawn(move || {
                    serve(stream, &answer, &hears);
                    let _ = send.send(());
                });
            }
        });
        Self { base, asked, closed }
    }

    /// Waits for a request.
    fn wait_for_request(&self) {
        self.asked.recv_timeout(Duration::from_secs(10)).expect("nobody asked");
    }

    /// Waits until the client has closed a connection.
    fn wait_for_close(&self) {
        self.closed.recv_timeout(Duration::from_secs(10)).expect("the connection was not closed");
    }
}

fn serve(mut stream: TcpStream, chunks: &[String], hears: &Sender<()>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let _ = hears.send(());
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    for chunk in chunks {
        if write!(stream, "data: {chunk}\n\n").is_err() {
            return;
        }
    }
    // Returns when the client closes or resets the connection.
    let _ = reader.read(&mut [0; 1]);
}

fn text(text: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
        .to_string()
}

fn call_of(name: &str, arguments: &Value) -> Vec<String> {
    let call = json!({"index": 0, "id": "c1", "function": {"name": name, "arguments": arguments.to_string()}});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3});
    vec![
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]}).to_string(),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": usage}).to_string(),
        "[DONE]".to_owned(),
    ]
}

/// A run whose events are read as they arrive.
struct Watched {
    child: Child,
    events: Box<dyn Iterator<Item = Value>>,
    seen: Vec<Value>,
}

impl Watched {
    fn start(server: &SlowServer, tools: &str) -> Self {
        let mut run = agentwf(&[
            "run",
            "--events",
            "jsonl",
            "--model",
            "openai-chat/slow",
            "--base-url",
            &server.base,
        ]);
        if !tools.is_empty() {
            run = run.args(["--tools", tools]);
        }
        let mut child = run.args(["--task", "Take your time."]).start();
        let lines = lines_of(child.stdout.take().unwrap());
        let events = Box::new(lines.map(|line| serde_json::from_str(&line).unwrap()));
        Self { child, events, seen: Vec::new() }
    }

    fn wait_for(&mut self, name: &str) {
        for event in self.events.by_ref() {
            let found = event["name"] == name;
            self.seen.push(event);
            if found {
                return;
            }
        }
        panic!("it ended without {name}: {:#?}", self.seen);
    }

    fn end(mut self) -> (Ended, Vec<Value>) {
        self.seen.extend(self.events);
        (Ended::of(self.child, Duration::from_secs(10), "a run that was stopped"), self.seen)
    }
}

#[test]
fn tools_are_listed_by_name() {
    let list = ended(&["tools", "list"]);
    assert_eq!(list.code, Some(0));
    let names: Vec<&str> = list
        .stdout
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split('(').next())
        .collect();
    assert_eq!(
        names,
        [
            "add",
            "annul",
            "await_file",
            "block",
            "deliver",
            "forget",
            "get_weather",
            "lend",
            "shred",
            "sign",
            "take_back",
            "wait"
        ]
    );
    assert!(
        list.stdout.contains("get_weather(city, unit?)  reads\n    The weather of a city.\n"),
        "{}",
        list.stdout
    );
    assert!(list.stdout.contains("needs approval, needs scope admin"), "{}", list.stdout);
    // Output into a pipe has no colors.
    assert!(!list.stdout.contains('\u{1b}'), "{list:?}");
}

#[test]
fn tools_are_listed_as_json() {
    let tools = ended(&["tools", "list", "--json"]).line();
    let tools = tools.as_array().unwrap();
    assert_eq!(tools.len(), 12);
    assert_eq!(tools[0]["name"], "add");
    assert_eq!(tools[0]["parameters_schema"]["required"], json!(["a", "b"]));
    assert_eq!(tools[5]["policy"]["scopes"], json!(["admin"]));
    assert_eq!(tools[5]["required_permissions"], json!(["admin"]));
    assert_eq!(
        (&tools[0]["required_permissions"], &tools[0]["supports_streaming"]),
        (&json!([]), &json!(false))
    );
    assert_eq!(
        (&tools[5]["wire_name"], &tools[5]["origin"]["from"]),
        (&json!("forget"), &json!("linked"))
    );
}

#[test]
fn everything_is_listed_with_where_it_comes_from() {
    let linked = "    linked from tests/src/bin/agentwf_host.rs:";
    for args in [["tools", "list"], ["agents", "list"], ["workflow", "list"], ["workflows", "list"]]
    {
        let list = ended(&args);
        let heads = list.stdout.lines().filter(|line| !line.starts_with(' ')).count();
        let origins = list.stdout.lines().filter(|line| line.starts_with(linked)).count();
        assert!(heads > 0 && heads == origins, "{args:?}: {list:#?}");
    }
    for args in [&["agents", "list", "--json"][..], &["workflows", "list", "--json"]] {
        let list = ended(args).line();
        assert!(
            list.as_array().unwrap().iter().all(|entry| entry["origin"]["line"].is_u64()),
            "{list}"
        );
    }
    let models = ended(&["models", "list", "--json"]).line();
    let origins: Vec<&Value> =
        models.as_array().unwrap().iter().map(|model| &model["origin"]["from"]).collect();
    let (given, built_in) = origins.split_last().unwrap();
    assert!(
        *given == "given"
            && built_in.len() == 7
            && built_in.iter().all(|origin| *origin == "built_in"),
        "{models}"
    );
    assert_eq!(ended(&["models", "list"]).stdout, ended(&["models"]).stdout);
}

#[test]
fn one_tool_or_agent_is_shown_with_its_schema() {
    let tool = ended(&["tools", "show", "get_weather"]);
    assert!(tool.stdout.starts_with(
        "get_weather(city, unit?)  reads\n    The weather of a city.\n    linked from "
    ));
    assert!(
        tool.stdout.contains("\n    takes\n    {\n")
            && tool.stdout.contains("\"The city's name.\""),
        "{tool:#?}"
    );
    let json = ended(&["tools", "show", "add", "--json"]).line();
    assert_eq!(json["parameters_schema"]["required"], json!(["a", "b"]));
    let agent = ended(&["agents", "show", "rate"]);
    assert!(
        agent.stdout.starts_with("rate(text)\n    Ask the agent `rate`.\n    linked from "),
        "{agent:#?}"
    );
    assert!(agent.stdout.contains("\n    answers\n    {\n"), "{agent:#?}");
    let drawn = ended(&["agents", "show", "rate", "--format", "mermaid"]);
    assert!(drawn.stdout.starts_with("flowchart TD\n    a0([\"rate (agent)\"])\n"), "{drawn:#?}");
    let dry = ended(&["agents", "show", "rate", "--format", "dry-run"]);
    assert!(dry.stdout.starts_with("agent rate(string) -> integer"), "{dry:#?}");
    assert!(dry.stdout.contains("    calls the model "), "{dry:#?}");
    let unknown = ended(&["tools", "show", "ad"]);
    assert_eq!(
        (unknown.code, unknown.stderr.contains("has no tool `ad`; did you mean `add`?")),
        (Some(1), true)
    );
}

#[test]
fn a_tool_is_called_as_an_agent_calls_it() {
    let called = |args: &[&str]| {
        let ended = ended(&[&["tools", "call"], args].concat());
        (ended.code, ended.stdout, ended.stderr)
    };
    let done = |text: &str| (Some(0), format!("{text}\n"), String::new());
    let failed = |text: &str| (Some(1), String::new(), format!("error: {text}\n"));
    assert_eq!(called(&["add", "--input", r#"{"a": 1, "b": 2}"#]), done("3"));
    assert_eq!(
        called(&["get_weather", "--input", r#"{"city": "Oslo"}"#]),
        done("12 degrees celsius in Oslo")
    );
    assert_eq!(
        called(&["add", "--input", r#"{"a": 1}"#]),
        failed("`b`: this argument is missing; give it a value")
    );
    assert_eq!(called(&["ad"]), failed("there is no tool `ad`; did you mean `add`?"));
    let scope = "`forget` needs the scope `admin`, which this run was not granted; do without it";
    assert_eq!(called(&["forget"]), failed(scope));
    let nobody =
        "no person has approved this tool in this run; do without it, or explain why you need it";
    assert_eq!(called(&["forget", "--grant", "admin"]), failed(nobody));
    assert_eq!(called(&["forget", "--grant", "admin,approve:forget"]), done("forgotten"));
}

#[test]
fn models_are_listed_with_the_origin_of_their_keys() {
    let list = agentwf(&["models"])
        .env("GEMINI_API_KEY", "a-key-of-gemini")
        .env("ANTHROPIC_BASE_URL", "https://user:pass-word@proxy.example:8443/claude?key=in-query")
        .run();
    assert_eq!(list.code, Some(0), "{list:#?}");
    assert_eq!(
        list.stdout,
        "anthropic  https://proxy.example:8443/claude
    key: ANTHROPIC_API_KEY not set
deepseek  https://api.deepseek.com/v1
    key: DEEPSEEK_API_KEY not set
gemini  https://generativelanguage.googleapis.com
    key from GEMINI_API_KEY
ollama  http://127.0.0.1:11434/v1
    key: OLLAMA_API_KEY not set
openai-chat  https://api.openai.com/v1
    key from OPENAI_API_KEY
openai-responses  https://api.openai.com/v1
    key from OPENAI_API_KEY
openrouter  https://openrouter.ai/api/v1
    key: OPENROUTER_API_KEY not set
parrot  of this program
"
    );
}

#[test]
fn models_are_listed_as_json() {
    let run = agentwf(&["models", "--json"])
        .env("GEMINI_API_KEY", "a-key-of-gemini")
        .env("OPENAI_BASE_URL", "nowhere");
    let list = run.run();
    let models = list.line();
    assert_eq!(
        models[2],
        json!({
            "name": "gemini", "host": false, "base_url": "https://generativelanguage.googleapis.com",
            "base_url_variable": "GOOGLE_GEMINI_BASE_URL", "key_names": ["GOOGLE_API_KEY", "GEMINI_API_KEY"],
            "key_from": "GEMINI_API_KEY", "problem": null, "origin": {"from": "built_in"},
        })
    );
    assert_eq!(models[4]["base_url"], Value::Null);
    assert!(models[4]["problem"].as_str().unwrap().contains("not an address"), "{models}");
    assert_eq!((&models[7]["name"], &models[7]["host"]), (&json!("parrot"), &json!(true)));
}

#[test]
fn servers_with_the_format_of_openai_are_known_by_their_names() {
    for (model, variable) in [
        ("deepseek/deepseek-chat", "DEEPSEEK_BASE_URL"),
        ("deepseek-chat", "DEEPSEEK_BASE_URL"),
        ("ollama/llama3:8b", "OLLAMA_BASE_URL"),
        ("openrouter/a/b", "OPENROUTER_BASE_URL"),
    ] {
        let end =
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).to_string();
        let server = SlowServer::start(vec![vec![text("Hello."), end, "[DONE]".to_owned()]]);
        let call = agentwf(&["call", "--model", model, "Hi"]).env(variable, &server.base).run();
        assert_eq!((call.code, call.stdout.as_str()), (Some(0), "Hello.\n"), "{call:#?}");
    }
    for (model, said) in [
        ("openrouter/a/b", "set OPENROUTER_API_KEY, or OPENROUTER_BASE_URL to another server"),
        ("deepseek-chat", "set DEEPSEEK_API_KEY"),
        ("opnai/m", "did you mean `openai`?"),
        ("opnrouter/a/b", "did you mean `openrouter`?"),
        ("mistral/large", "OPENAI_BASE_URL"),
    ] {
        let call = ended(&["call", "--model", model, "Hi"]);
        assert!(call.stderr.contains(said), "{call:#?}");
    }
}

#[test]
fn no_key_is_listed() {
    let secrets = ["a-key-of-the-tests", "a-key-of-gemini", "pass-word", "in-query"];
    for args in [&["models"][..], &["models", "--json"]] {
        let list = agentwf(args)
            .env("GEMINI_API_KEY", "a-key-of-gemini")
            .env("OPENAI_BASE_URL", "http://user:pass-word@127.0.0.1/v1?key=in-query")
            .env("ANTHROPIC_BASE_URL", "user:pass-word@in-query")
            .run();
        for secret in secrets {
            assert!(
                !format!("{}{}", list.stdout, list.stderr).contains(secret),
                "{secret}: {list:#?}"
            );
        }
    }
}

#[test]
fn models_of_the_host_are_called() {
    let call = ended(&["call", "--model", "parrot/grey", "Hello."]);
    assert_eq!((call.code, call.stdout.as_str()), (Some(0), "Hello.\n"), "{call:#?}");
    let run = ended(&["run", "--model", "parrot/grey", "--task", "Hello."]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "Hello.\n"), "{run:#?}");
    let call = ended(&["call", "--model", "parrot/grey", "--base-url", "http://h", "Hello."]);
    assert!(call.stderr.contains("leave out --base-url"), "{call:#?}");
}

#[test]
fn a_wrong_command_line_has_another_exit_code_than_a_failure() {
    for args in [
        &["nonsense"][..],
        &["call"],
        &["call", "--model", "openai/x", "--turns", "0", "Hi"],
        &["call", "--model", "openai/x", "--timeout", "soon", "Hi"],
        &["run", "--task", "x", "--model", "openai/x", "--events", "xml"],
    ] {
        let ended = ended(args);
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.stderr.contains("Usage:") || ended.stderr.contains("--help"), "{ended:?}");
    }
    assert_eq!(ended(&["--help"]).code, Some(0));
    assert!(ended(&["--version"]).stdout.contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn failures_are_one_sentence() {
    let nobody = format!("http://127.0.0.1:{}/v1", free_port());
    for (args, said) in [
        (
            &["run", "--task", "x", "--model", "openai/x", "--tools", "ad"][..],
            "did you mean `add`?",
        ),
        (
            &["run", "--task", "x", "--model", "openai/x", "--tools", "add,add"],
            "the tool `add` is given twice",
        ),
        (&["call", "--model", "mistake", "Hi"], "openai-chat/gpt-5-mini"),
        (&["call", "--model", "acme/x", "Hi"], "no adapter is called `acme`"),
        (
            &["call", "--model", "openai/x", "--base-url", "nowhere", "Hi"],
            "the base URL is not an address",
        ),
        (
            &["call", "--model", "openai/x", "--tool", "no-such-file.json", "Hi"],
            "no-such-file.json: it cannot be read",
        ),
        (
            &["call", "--model", "openai/x", "--base-url", &nobody, "--max-retries", "0", "Hi"],
            "transport",
        ),
        (
            &[
                "run",
                "--task",
                "x",
                "--model",
                "openai/x",
                "--base-url",
                &nobody,
                "--max-retries",
                "0",
            ],
            "transport",
        ),
    ] {
        let ended = ended(args);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{args:?}: {ended:#?}");
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: ") && last.contains(said), "{args:?}: {ended:#?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:#?}");
    }
}

#[test]
fn failures_are_objects_when_json_is_asked_for() {
    let nobody = format!("http://127.0.0.1:{}/v1", free_port());
    let call = ended(&[
        "call",
        "--json",
        "--model",
        "openai/x",
        "--base-url",
        &nobody,
        "--max-retries",
        "0",
        "Hi",
    ]);
    assert_eq!((call.code, call.stderr.as_str()), (Some(1), ""));
    let error = &call.line()["error"];
    let message = error["message"].as_str().unwrap();
    assert_eq!(
        *error,
        json!({"kind": "transport", "status": null, "provider_code": null, "message": message, "retryable": true})
    );
    let call = ended(&["call", "--json", "--model", "mistake", "Hi"]);
    assert_eq!(call.line()["error"]["kind"], "model_ref");
}

#[test]
fn a_missing_key_is_reported() {
    let call = agentwf(&["call", "--json", "--model", "openai/gpt-5-mini", "Hi"])
        .env("OPENAI_API_KEY", "")
        .run();
    assert_eq!(call.line()["error"]["kind"], "auth", "{call:?}");
    assert!(
        call.line()["error"]["message"].as_str().unwrap().contains("OPENAI_API_KEY"),
        "{call:?}"
    );
}

#[test]
fn a_streamed_answer_is_printed_as_it_comes() {
    let server = SlowServer::start(vec![vec![text("Hello"), text(", world")]]);
    let mut child = agentwf(&[
        "call",
        "--stream",
        "--model",
        "openai-chat/slow",
        "--base-url",
        &server.base,
        "Hi",
    ])
    .start();
    // The server never ends its answer, so this text was printed before the end.
    let mut said = [0; 12];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"Hello, world");
    interrupt(child.id());
    server.wait_for_close();
    let ended = Ended::of(child, Duration::from_secs(10), "a call that was stopped");
    assert_eq!(ended.code, Some(130), "{ended:#?}");
}

#[test]
fn a_tool_call_is_shown_and_answered() {
    let server = SlowServer::start(vec![
        call_of("add", &json!({"a": 1, "b": 2})),
        call_of("add", &json!({"a": 3})),
    ]);
    let call = ended(&[
        "call",
        "--turns",
        "2",
        "--model",
        "openai-chat/slow",
        "--base-url",
        &server.base,
        "Hi",
    ]);
    assert_eq!(call.code, Some(0), "{call:#?}");
    assert_eq!(call.stdout, "tool call add {\"a\":1,\"b\":2}\ntool call add {\"a\":3}\n");
    assert!(call.stderr.contains("tool_calls, 7 tokens in, 3 out"), "{}", call.stderr);
}

/// Text from a model, a tool or a server must not move the cursor, end a line or change the text
/// direction.
#[test]
fn what_others_say_draws_nothing() {
    let hostile = "a\u{1b}[2J\u{1b}[8m\r\n\u{9b}1A\u{202e}b";
    let shown = r"a\u{1b}[2J\u{1b}[8m\r\n\u{9b}1A\u{202e}b";
    let draws = |text: &str| text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');

    let server = SlowServer::start(vec![call_of(hostile, &json!({"text": hostile}))]);
    let call = ended(&["call", "--model", "openai-chat/slow", "--base-url", &server.base, "Hi"]);
    assert!(call.stdout.starts_with(&format!("tool call {shown} ")), "{call:#?}");
    assert!(call.stdout.lines().count() == 1 && !draws(&call.stdout), "{call:#?}");

    for events in [false, true] {
        let server = SlowServer::start(vec![call_of(hostile, &json!({"text": hostile}))]);
        let mut run =
            agentwf(&["run", "--max-steps", "1", "--task", "Hi", "--model", "openai-chat/slow"]);
        run = run.args(["--base-url", &server.base]).args(if events {
            &["--events", "jsonl"][..]
        } else {
            &[]
        });
        let run = run.run();
        assert!(!draws(&run.stdout) && !draws(&run.stderr), "{run:#?}");
        if events {
            let started =
                run.lines().into_iter().find(|event| event["name"] == "tool.failed").unwrap();
            assert_eq!(
                started["payload"]["result"]["name"], hostile,
                "it is the same text in JSON"
            );
        } else {
            assert!(run.stderr.contains(&format!("\n{shown} ")), "{run:#?}");
        }
    }

    let refused = |status| {
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let base = format!("http://127.0.0.1:{}/v1", listener.local_addr().unwrap().port());
    let answers = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        let body = json!({"error": {"message": hostile, "code": hostile}});
        write!(stream, "{}{body}", refused("400 Bad Request")).unwrap();
    });
    let failed = ended(&["call", "--model", "openai-chat/slow", "--base-url", &base, "Hi"]);
    wait_until("the server to end", || answers.is_finished().then_some(()));
    answers.join().unwrap();
    assert!(failed.stderr.contains(shown) && failed.stderr.lines().count() == 1, "{failed:#?}");
    assert!(!draws(&failed.stderr), "{failed:#?}");
}

#[test]
fn a_scope_is_granted() {
    for (grant, name) in [
        (&[][..], "tool.failed"),
        (&["--grant", "admin"], "tool.failed"),
        (&["--grant", "admin,approve:forget"], "tool.completed"),
    ] {
        let server = SlowServer::start(vec![call_of("forget", &json!({})), vec![text("Done.")]]);
        let mut run = agentwf(&[
            "run",
            "--events",
            "jsonl",
            "--max-steps",
            "1",
            "--tools",
            "forget",
            "--task",
            "Forget.",
        ]);
        run = run.args(["--model", "openai-chat/slow", "--base-url", &server.base]).args(grant);
        let ended = run.run();
        assert_eq!(
            ended.lines().iter().filter(|event| event["name"] == name).count(),
            1,
            "{ended:#?}"
        );
        // The run was limited to one turn, so it has no answer.
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains("raise it with `max_steps`"), "{ended:#?}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_in_an_answer_closes_the_connection() {
    let server = SlowServer::start(vec![vec![text("Once upon a time")]]);
    let mut run = Watched::start(&server, "");
    run.wait_for("model.delta");
    interrupt(run.child.id());
    server.wait_for_close();
    let (ended, events) = run.end();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_eq!(ended.stderr, format!("{STOPPING}stopped by Ctrl-C: 0 steps, 0 tokens in, 0 out\n"));
    assert_eq!(events.last().unwrap()["name"], "run.cancelled");
    assert_eq!(events.last().unwrap()["payload"]["reason"], "stopped by Ctrl-C");
}

/// Simulates `nohup` or a background job of a shell: the process inherits an ignored signal.
#[cfg(unix)]
#[test]
fn ctrl_c_is_heard_where_the_parent_ignores_it() {
    for json in [&[][..], &["--json"]] {
        let server = SlowServer::start(vec![vec![text("Once"), text(" upon")]]);
        let mut call = Agentwf::new("sh").args([
            "-c",
            "trap '' INT; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_agentwf-host"),
        ]);
        call = call
            .args([
                "call",
                "--stream",
                "--model",
                "openai-chat/slow",
                "--base-url",
                &server.base,
                "Hi",
            ])
            .args(json);
        let mut child = call.start();
        let said = &mut [0; 9][..if json.is_empty() { 9 } else { 0 }];
        child.stdout.as_mut().unwrap().read_exact(said).unwrap();
        if !json.is_empty() {
            server.wait_for_request();
        }
        interrupt(child.id());
        server.wait_for_close();
        let ended = Ended::of(child, Duration::from_secs(10), "a call that was stopped");
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(130), "stopped by Ctrl-C\n"),
            "{ended:#?}"
        );
        // The partial answer keeps its own line.
        assert_eq!(ended.stdout, if json.is_empty() { "\n" } else { "" });
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_in_a_tool_says_what_was_done() {
    let server = SlowServer::start(vec![
        call_of("add", &json!({"a": 1, "b": 2})),
        call_of("wait", &json!({"milliseconds": 60_000})),
    ]);
    let mut run = Watched::start(&server, "add,wait");
    run.wait_for("run.step");
    run.wait_for("tool.started");
    interrupt(run.child.id());
    let (ended, events) = run.end();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_eq!(
        ended.stderr,
        format!(
            "{STOPPING}stopped by Ctrl-C: 1 step, 1 call of add, 1 call of wait interrupted (it changes nothing), \
             14 tokens in, 6 out\n"
        )
    );
    let ends: Vec<_> = events.iter().filter(|event| event["name"] == "tool.failed").collect();
    assert_eq!((ends.len(), &ends[0]["payload"]["result"]["status"]), (1, &json!("cancelled")));
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_does_not_wait() {
    let server = SlowServer::start(vec![call_of("block", &json!({"milliseconds": 30_000}))]);
    let mut run = Watched::start(&server, "block");
    run.wait_for("tool.started");
    interrupt(run.child.id());
    // The tool blocks its thread, so the run cannot end.
    let mut said = String::new();
    BufReader::new(run.child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, STOPPING);
    interrupt(run.child.id());
    let (ended, _) = run.end();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_no_panic() {
    // The reader of a listing has closed the pipe.
    let mut child = agentwf(&["tools", "list"]).start();
    drop(child.stdout.take());
    let ended = Ended::of(child, Duration::from_secs(10), "a list for nobody");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");

    // If the reader of a run's events closes the pipe, the run is cancelled and its connection
    // closed.
    let server = SlowServer::start(vec![(0..2000).map(|n| text(&format!("{n} "))).collect()]);
    let mut child = agentwf(&[
        "run",
        "--events",
        "jsonl",
        "--model",
        "openai-chat/slow",
        "--base-url",
        &server.base,
        "--task",
        "x",
    ])
    .start();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    server.wait_for_close();
    let ended = Ended::of(child, Duration::from_secs(10), "a run for nobody");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(141), ""));
}
