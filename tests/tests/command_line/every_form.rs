//! Documents of all forms, run by the published command line. Its configuration provides tools,
//! servers, agents and models, which are fake servers here.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use agentflow_testing::{FakeProvider, FakeReply, ProviderFormat};
use agentflow_tests::{Agentwf, Ended};
use serde_json::{Value, json};

use crate::a2a::agent;
use crate::cli_workflows::Place;

/// A document, and the expected output of its workflow.
struct Case {
    file: &'static str,
    workflow: &'static str,
    form: &'static str,
    input: Value,
    replies: Vec<FakeReply>,
    output: Value,
}

impl Case {
    fn new(
        (file, workflow, form): (&'static str, &'static str, &'static str),
        input: Value,
        output: Value,
    ) -> Self {
        Self { file, workflow, form, input, replies: vec![FakeReply::text("not asked")], output }
    }

    fn replies<const N: usize>(mut self, replies: [FakeReply; N]) -> Self {
        self.replies = replies.into();
        self
    }
}

fn cases() -> Vec<Case> {
    let text = |text: &str| FakeReply::text(text);
    let search = || FakeReply::call("doc_search", json!({"query": "rates", "most": 1}));
    let change = || json!({"input": {"pr_url": "u/1"}});
    let review = |tool: &str, output: Value| json!({"output": output, "tool_used": tool, "server_id": "code_review"});
    let summary = |before: &Value| {
        let state = json!({"pr_url": "u/1", "review": before});
        let said = format!("summarize_findings\n\n{state} with a key in no task");
        json!(said)
    };
    let echoed = review("review", json!({"pr_url": "u/1"}));
    let read = review("review", json!("fine"));
    vec![
        Case::new(("count.yaml", "doc-count-found", "graph"), json!({"topic": "rust"}), json!(4)),
        Case::new(
            ("forms-both.yaml", "forms_both", "agents"),
            json!({"message": "?"}),
            json!({"one": "same", "two": "same"}),
        )
        .replies([text("same")]),
        Case::new(
            ("forms-camel.yaml", "forms_camel", "edges"),
            change(),
            json!({"pr_url": "u/1", "output": {"pr_url": "u/1"}, "tool_used": "review", "server_id": "code_review"}),
        ),
        Case::new(
            ("forms-composed.yaml", "forms_composed", "tree"),
            json!({"input": ["rust"]}),
            json!("checked"),
        )
        .replies([text("checked")]),
        Case::new(
            ("forms-edges.json", "forms_edges", "edges"),
            change(),
            json!({"pr_url": "u/1", "finding": {"pr_url": "u/1"}, "left": {"of": {"pr_url": "u/1"}}}),
        ),
        Case::new(
            ("forms-of-agents.yaml", "forms_of_agents", "graph"),
            json!({"task": "A poem."}),
            json!("final"),
        )
        .replies([text("draft"), text("final")]),
        Case::new(
            ("forms-plan.yaml", "forms_plan", "graph"),
            json!({"task": "rust"}),
            json!("seen"),
        )
        .replies([text("seen")]),
        Case::new(
            ("forms-report.yaml", "forms_report", "tools"),
            json!({"task": "rust"}),
            json!("4 words about rust!"),
        ),
        Case::new(
            ("forms-rounds.yaml", "forms_rounds", "agents"),
            json!({"message": "A poem."}),
            json!("final"),
        )
        .replies([text("draft"), text("final")]),
        Case::new(("forms-steps.yaml", "forms_steps", "steps"), change(), summary(&read)).replies(
            [FakeReply::call("mcp__code_review__review", json!({"pr_url": "u/1"})), text("fine")],
        ),
        Case::new(
            ("forms-tracker.yaml", "forms_tracker", "agents"),
            json!({"message": "The rates?"}),
            json!("It rises."),
        )
        .replies([search(), text("1.1 dollars"), text("It rises.")]),
        Case::new(
            ("forms-tree.yaml", "forms_tree", "tree"),
            json!({"input": {"task": "rust"}}),
            json!("helped and 1!"),
        )
        .replies([text("helped")]),
        Case::new(
            ("forms-until.yaml", "forms_until", "agents"),
            json!({"message": "A poem."}),
            json!("draft"),
        )
        .replies([text("draft"), FakeReply::call("exit_loop", json!({}))]),
        Case::new(
            ("letters.yaml", "letters", "tree"),
            json!({"input": ["a b", "c"]}),
            json!("sent: 6!!!!"),
        ),
        Case::new(
            ("research.yaml", "research_report", "tools"),
            json!({"task": "rust"}),
            json!(["rust: 6 words, of rust 1 1"]),
        ),
        Case::new(
            ("review.yaml", "review", "edges"),
            json!({"input": {"path": "a"}}),
            json!({"path": "a", "text": {"path": "a"}, "noted": "noted"}),
        )
        .replies([FakeReply::call("mcp__notes__note", json!({"text": "small"})), text("noted")]),
        Case::new(
            ("tracker.yaml", "exchange_tracker", "agents"),
            json!({"message": "The euro?"}),
            json!("It rises."),
        )
        .replies([search(), text("1.1 dollars"), text("It rises.")]),
        Case::new(("wf-001.yaml", "wf-001", "steps"), change(), summary(&echoed)),
    ]
}

/// Writes descriptions of the called tools into a folder.
fn describe_tools(place: &Place, url: &str) {
    fs::create_dir(place.path("api")).unwrap();
    for (name, fields) in [
        ("doc_search", &["query", "most"][..]),
        ("doc_count", &["texts"]),
        ("doc_twice", &["text"]),
        ("doc_grow", &["text"]),
        ("doc_note", &["text"]),
        ("doc_broken", &["nothing"]),
    ] {
        let parameter = |field: &&str| {
            (
                (*field).to_owned(),
                json!({"in": "field", "schema": {}, "required": !["most", "nothing"].contains(field)}),
            )
        };
        let parameters: serde_json::Map<String, Value> = fields.iter().map(parameter).collect();
        let tool = json!({
            "name": name, "description": "It.", "method": "POST", "url": format!("{url}/{name}"), "idempotent": true,
            "parameters": parameters,
        });
        fs::write(place.path(&format!("api/{name}.json")), tool.to_string()).unwrap();
    }
}

/// Starts the service behind these tools.
fn tools() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
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
            let given: Value = serde_json::from_slice(&body).unwrap_or_default();
            let tool = head
                .split_whitespace()
                .nth(1)
                .unwrap_or_default()
                .trim_start_matches('/')
                .to_owned();
            let (status, answer) = match done(&tool, &given) {
                Some(answer) => ("200 OK", answer.to_string()),
                None => ("400 Bad Request", "it is broken".to_owned()),
            };
            let kind = "content-type: application/json\r\nconnection: close";
            let head =
                format!("HTTP/1.1 {status}\r\n{kind}\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all((head + &answer).as_bytes()).unwrap();
        }
    });
    url
}

/// Returns the answer of a tool; `None` if the tool fails.
fn done(tool: &str, given: &Value) -> Option<Value> {
    let text = given["text"].as_str();
    Some(match tool {
        "doc_search" => {
            let query = given["query"].as_str()?;
            let pages = 1..=given["most"].as_u64().unwrap_or(2);
            json!(pages.map(|page| format!("{query} {page}")).collect::<Vec<_>>())
        }
        "doc_count" => {
            let texts = given["texts"].as_array()?.iter().filter_map(Value::as_str);
            json!(texts.map(|text| text.split_whitespace().count()).sum::<usize>())
        }
        "doc_twice" => json!(format!("{0} {0}", text?)),
        "doc_grow" => json!(
            text.map_or_else(|| given["text"]["words"].to_string(), |text| format!("{text}!"))
        ),
        "doc_note" => given["text"].clone(),
        _ => return None,
    })
}

/// Configures an MCP server whose only tool returns its arguments.
fn server(tool: &str) -> Value {
    json!({"command": env!("CARGO_BIN_EXE_mcp-peer"), "args": ["echo"], "env": {"PEER_TOOL": tool}})
}

fn alone(args: &[&str]) -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-alone")).args(args).env("AGENT_KEY", "sesame-street")
}

fn done_well(ended: Ended, what: &str) -> String {
    assert_eq!(ended.code, Some(0), "{what}: {ended:#?}");
    ended.stdout
}

/// Writes copies of all documents and their configuration. Returns its path.
fn configured(place: &Place) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/core/tests/documents");
    fs::create_dir(place.path("documents")).unwrap();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        fs::copy(
            file.path(),
            place.path(&format!("documents/{}", file.file_name().to_str().unwrap())),
        )
        .unwrap();
    }
    // An agent that several documents call.
    let helper = "name: forms_helping\nagents: [{name: forms_helper, model: openai/m, instruction: Help.}]\norchestration: {type: \
                  sequential, agents: [forms_helper]}\n";
    fs::create_dir(place.path("more")).unwrap();
    fs::write(place.path("more/helper.yaml"), helper).unwrap();
    describe_tools(place, &tools());
    let agent = json!({"url": agent(), "key": "${AGENT_KEY}"});
    let config = json!({
        "documents": ["documents", "more"],
        "agent_models": {"review.note": "openai/m", "forms_steps.review": "openai/m"},
        "mcp_servers": {"code": server("read"), "notes": server("note"), "code_review": server("review")},
        "a2a_agents": {"reviewer": agent, "summarize_findings": agent},
        "tools": {"api": {"folders": ["api"], "networks": ["127.0.0.0/8"]}},
    });
    let path = place.path("agentflow.json");
    fs::write(&path, config.to_string()).unwrap();
    path
}

#[test]
fn every_document_is_run_by_the_command_line_alone() {
    let place = Place::new();
    let config = configured(&place);
    let cases = cases();
    let files: BTreeSet<String> = cases.iter().map(|case| case.file.to_owned()).collect();
    let there = fs::read_dir(place.path("documents")).unwrap();
    let there: BTreeSet<String> =
        there.map(|file| file.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    assert_eq!(files, there);
    let forms: BTreeSet<&str> = cases.iter().map(|case| case.form).collect();
    assert_eq!(forms, BTreeSet::from(["agents", "edges", "graph", "steps", "tools", "tree"]));
    for Case { file, workflow, input, replies, output, .. } in cases {
        let model = FakeProvider::start(ProviderFormat::OpenAiChat, replies).unwrap();
        let provider = json!({"format": "openai-chat", "base_url": model.base_url(), "key": "k"});
        let providers =
            json!({"openai": provider, "openai-chat": provider, "anthropic": provider}).to_string();
        let input = input.to_string();
        let run = alone(&["run", workflow, "--input", &input, "--config", &config])
            .env("AGENTFLOW_PROVIDERS", &providers);
        let said = done_well(run.run(), file);
        let found: Value = serde_json::from_str(&said).unwrap_or_else(|_| json!(said.trim_end()));
        // The output of an A2A agent is compared by its text.
        let found = if workflow.contains("steps") || workflow == "wf-001" {
            found["output"].clone()
        } else {
            found
        };
        assert_eq!(found, output, "{file}");
        assert_eq!(model.refusals(), Vec::<String>::new(), "{file}");
    }
}

#[test]
fn every_document_is_checked_and_exported_by_the_command_line_alone() {
    let place = Place::new();
    let config = configured(&place);
    fs::create_dir(place.path("exported")).unwrap();
    let documents = place.path("documents");
    let checked = alone(&["validate", &documents, "--without-names", "--config", &config]).run();
    let checked = done_well(checked, "all documents");
    for Case { file, workflow, form, .. } in cases() {
        let path = place.path(&format!("documents/{file}"));
        assert!(
            checked.contains(&format!("{workflow} {path}: form {form}, ")),
            "{file}: {checked}"
        );
        let export = |path: &str, json: &[&str]| {
            let ended =
                alone(&["export", path, "--form", form, "--config", &config]).args(json).run();
            done_well(ended, file)
        };
        let again = place.path(&format!("exported/{file}"));
        fs::write(&again, export(&path, &[])).unwrap();
        assert_eq!(export(&path, &["--json"]), export(&again, &["--json"]), "{file}");
    }
    let exported = place.path("exported");
    let again = done_well(
        alone(&["validate", &exported, "--without-names"]).run(),
        "all exported documents",
    );
    assert_eq!(again.lines().count(), checked.lines().count(), "{again}");
}
