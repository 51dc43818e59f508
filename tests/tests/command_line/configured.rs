//! The published command line with a configuration file: model providers, MCP servers, A2A agents
//! and tools as data.

use std::fs;

use agentflow_testing::{FakeProvider, FakeReply, ProviderFormat};
use agentflow_tests::{Agentwf, Ended};
use serde_json::{Value, json};

use crate::a2a::agent;
use crate::cli_workflows::Place;

const EDGES: &str = include_str!("../../../crates/core/tests/documents/forms-edges.json");
const STEPS: &str = include_str!("../../../crates/core/tests/documents/forms-steps.yaml");

fn alone(args: &[&str]) -> Agentwf {
    Agentwf::new(env!("CARGO_BIN_EXE_agentwf-alone")).args(args)
}

fn output(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

fn write(place: &Place, name: &str, text: &str) -> String {
    let path = place.path(name);
    fs::write(&path, text).unwrap();
    path
}

/// Configures an MCP server whose tool `review` returns its arguments.
fn reviewer() -> Value {
    let peer = env!("CARGO_BIN_EXE_mcp-peer");
    json!({"command": peer, "args": ["echo"], "env": {"PEER_TOOL": "review", "PEER_KEY": "${REVIEW_KEY}"}})
}

#[test]
fn a_document_of_edges_runs_with_a_configuration() {
    let place = Place::new();
    let document = write(&place, "edges.json", EDGES);
    let config = json!({"mcp_servers": {"code_review": reviewer(), "away": {"command": "${NO_SUCH_PROGRAM}"}}});
    let config = write(&place, "agentflow.yaml", &config.to_string());
    let input = json!({"input": {"pr_url": "u/1"}}).to_string();
    let args = ["run", &document, "--input", &input, "--config", &config];
    let ended = alone(&args).env("REVIEW_KEY", "sesame-street").run();
    let expected =
        json!({"pr_url": "u/1", "finding": {"pr_url": "u/1"}, "left": {"of": {"pr_url": "u/1"}}});
    assert_eq!(output(&ended), expected);
    // An unused server is not started, so its fault does not matter.
    assert_eq!(ended.stderr.matches("NO_SUCH_PROGRAM").count(), 0, "{ended:#?}");
    let checked = alone(&["validate", &document, "--config", &config])
        .env("REVIEW_KEY", "sesame-street")
        .run();
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    // A missing key is an error where the server is needed, and in `health`.
    let missing = alone(&args).run();
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(1), ""), "{missing:#?}");
    for says in ["mcp.code_review", "the variable `REVIEW_KEY` is not set"] {
        assert!(missing.stderr.contains(says), "{missing:#?}");
    }
    let health = alone(&["health", "--config", &config]).env("REVIEW_KEY", "sesame-street").run();
    assert!(
        health.code == Some(1) && health.stdout.contains("configuration: well\n"),
        "{health:#?}"
    );
    assert!(health.stdout.contains("the variable `NO_SUCH_PROGRAM` is not set"), "{health:#?}");
    assert_eq!(health.stdout.matches("NO_SUCH_PROGRAM").count(), 1, "{health:#?}");
    // Variables without a file have the same effect.
    let servers = json!({"code_review": reviewer()}).to_string();
    let ended =
        alone(&args[..4]).env("REVIEW_KEY", "k").env("AGENTFLOW_MCP_SERVERS", &servers).run();
    assert_eq!(output(&ended), expected);
}

#[test]
fn a_document_of_steps_runs_with_a_configuration() {
    let place = Place::new();
    let calls = FakeReply::call("mcp__code_review__review", json!({"pr_url": "u/1"}));
    let model =
        FakeProvider::start(ProviderFormat::OpenAiChat, [calls, FakeReply::text("fine")]).unwrap();
    let document = write(&place, "steps.yaml", STEPS);
    let config = json!({
        "model": "local/small", "providers": {"local": {"base_url": model.base_url(), "key": "${LOCAL_KEY}"}},
        "mcp_servers": {"code_review": reviewer()},
        "a2a_agents": {"summarize_findings": {"url": agent(), "key": "${AGENT_KEY}"}},
    });
    let config = write(&place, "agentflow.json", &config.to_string());
    let input = json!({"input": {"pr_url": "u/1"}}).to_string();
    let command = || {
        let command = alone(&["run", &document, "--input", &input, "--config", &config]);
        command.env("REVIEW_KEY", "k").env("LOCAL_KEY", "k").env("AGENT_KEY", "sesame-street")
    };
    let answer = output(&command().run());
    let review = "{\"output\":\"fine\",\"server_id\":\"code_review\",\"tool_used\":\"review\"}";
    let said = format!(
        "summarize_findings\n\n{{\"pr_url\":\"u/1\",\"review\":{review}}} with a key in no task"
    );
    assert_eq!(
        (&answer["output"], &answer["agent_id"]),
        (&json!(said), &json!("summarize_findings"))
    );
    assert_eq!(model.requests().len(), 2);
    assert_eq!(model.refusals(), Vec::<String>::new());
    // A provider that cannot be used is reported by name.
    let ended = alone(&["run", &document, "--input", &input, "--config", &config])
        .env("REVIEW_KEY", "k")
        .env("AGENT_KEY", "k")
        .run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stderr.contains("`providers.local`") && ended.stderr.contains("`LOCAL_KEY`"),
        "{ended:#?}"
    );
}

#[test]
fn the_progress_names_the_model_that_the_user_named() {
    let place = Place::new();
    let model = FakeProvider::start(
        ProviderFormat::OpenAiChat,
        [FakeReply::text("fine"), FakeReply::text("fine")],
    )
    .unwrap();
    let config = json!({"providers": {"local": {"base_url": model.base_url(), "key": "k"}}});
    let config = write(&place, "agentflow.json", &config.to_string());
    let ended =
        alone(&["run", "--model", "local/small", "--task", "Hi", "--config", &config]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "fine\n"), "{ended:#?}");
    assert!(ended.stderr.starts_with("step 1: local/small\n"), "{ended:#?}");
    let base_url = ["--base-url", model.base_url()];
    let ended = alone(&["run", "--model", "openai/small", "--task", "Hi"])
        .args(base_url)
        .env("OPENAI_API_KEY", "k")
        .run();
    assert!(ended.stderr.starts_with("step 1: openai/small\n"), "{ended:#?}");
}

#[test]
fn tools_of_a_configuration_are_known_and_bad_ones_are_named() {
    let place = Place::new();
    fs::create_dir(place.path("files")).unwrap();
    fs::create_dir(place.path("api")).unwrap();
    write(&place, "files/a.txt", "tea");
    write(
        &place,
        "api/issues.yaml",
        "name: open_issues\ndescription: Lists issues.\nurl: https://api.example.org/issues\n",
    );
    write(
        &place,
        "api/pets.yaml",
        "openapi: 3.1.0\nservers: [{url: 'https://api.example.org/v1'}]\npaths: {/pets: {get: {operationId: listPets, summary: Lists.}}}\n",
    );
    write(
        &place,
        "api/wrong.yaml",
        "name: wrong\ndescription: It.\nurll: https://api.example.org\n",
    );
    let config = "tools:\n  storage: {folder: files}\n  alert: {url: '${NO_SUCH_ADDRESS}'}\n  http_request: {hosts: [api.example.org], methods: [POST]}\n  api: {folders: [api], hosts: [api.example.org]}\n";
    let config = write(&place, "agentflow.yaml", config);
    let run = |args: &[&str]| alone(args).args(["--config", &config]).run();
    let listed: Value = run(&["tools", "list", "--json"]).line();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let all = [
        "condition",
        "http_request",
        "listPets",
        "open_issues",
        "storage_append",
        "storage_list",
        "storage_read",
        "storage_write",
        "transform",
    ];
    assert_eq!(names, all);
    let request =
        listed.as_array().unwrap().iter().find(|tool| tool["name"] == "http_request").unwrap();
    assert!(
        request["description"].as_str().unwrap().contains("Methods: POST. Hosts: api.example.org."),
        "{request}"
    );
    assert_eq!(request["origin"]["from"], "configuration");
    let read = run(&["tools", "call", "storage_read", "--input", r#"{"path": "a.txt"}"#]);
    assert_eq!((read.code, read.stdout.as_str()), (Some(0), "tea\n"), "{read:#?}");
    for says in
        ["`tools.alert`", "`NO_SUCH_ADDRESS` is not set", "wrong.yaml`", "did you mean `url`?"]
    {
        assert!(read.stderr.contains(says), "{says}: {read:#?}");
    }
    let health = run(&["health"]);
    assert!(
        health.code == Some(1)
            && health.stdout.starts_with("configuration: the entry `tools.alert`"),
        "{health:#?}"
    );
    let document = write(
        &place,
        "calls.yaml",
        "agents: [{name: a, model: openai/gpt-5-mini, tools: [http_request, condition, storage_read]}]\norchestration: {type: sequential, agents: [a]}\nname: calls\n",
    );
    let checked = run(&["validate", &document]);
    assert!(!checked.stderr.contains("has no tool"), "{checked:#?}");
    // Unknown names are reported as mistakes in the file.
    let wrong = write(
        &place,
        "wrong.yaml",
        "tools: {storage: {foldr: files}}\nmcp_servers: {a: {comand: b}}\n",
    );
    let ended = alone(&["list", "--config", &wrong]).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    for says in ["did you mean `folder`?", "did you mean `command`?", ":1:19", ":2:19"] {
        assert!(ended.stderr.contains(says), "{says}: {ended:#?}");
    }
    let ended = alone(&["list"]).env("AGENTFLOW_TOOLS", "{storge: {}}").run();
    assert!(ended.code == Some(1) && ended.stderr.contains("`AGENTFLOW_TOOLS`"), "{ended:#?}");
    assert!(ended.stderr.contains("did you mean `storage`?"), "{ended:#?}");
}

/// `cli::run()` provides linked tools only, so its message about an unknown tool mentions the
/// functions that take a runtime.
#[test]
fn a_tool_that_only_a_runtime_has_is_explained() {
    let place = Place::new();
    let document = write(
        &place,
        "a.yaml",
        "id: a\nnodes:\n  - {id: t, tool: http_request, args_template: {url: x}}\n",
    );
    let ended =
        Agentwf::new(env!("CARGO_BIN_EXE_called-by-name")).args(["validate", &document]).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stderr.contains("has no tool `http_request`"), "{ended:#?}");
    assert!(ended.stderr.contains("`cli::run_with(&runtime)`"), "{ended:#?}");
    // A missing agent is not reported as a missing tool.
    let steps = write(
        &place,
        "steps.yaml",
        "workflow_id: s\nsteps: [{node_id: n, kind: a2a, task: nobody}]\n",
    );
    let ended = alone(&["validate", &steps]).run();
    assert!(ended.stderr.contains("this program has no A2A agent `nobody`"), "{ended:#?}");
    assert!(!ended.stderr.contains("has no tool"), "{ended:#?}");
}

#[test]
fn logs_are_shown_of_one_run() {
    let place = Place::new();
    let text = "id: one\nnodes:\n  - {id: t, tool: condition, args_template: {expression: 1 < 2, variables: {}}}\n";
    let document = write(&place, "one.yaml", text);
    let store = place.store();
    let said = |args: &[&str]| {
        let ended =
            alone(&["run", &document, "--input", "{}", "-vvv", "--store", &store]).args(args).run();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended
            .stderr
            .lines()
            .filter(|line| line.contains(" INFO "))
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    // At full detail, the end of each call is logged.
    let all = said(&["--run-id", "one"]);
    assert!(
        all.iter().any(|line| line.contains(" close ") && line.contains("conversation.id=\"one\"")),
        "{all:#?}"
    );
    assert!(all.iter().any(|line| line.contains("documents were read")), "{all:#?}");
    // Events of other runs and of the program itself are filtered out.
    assert_eq!(said(&["--run-id", "two", "--log-run", "other"]), Vec::<String>::new());
    let wrong = alone(&["list", "--log-run", "a]b"]).run();
    assert!(
        wrong.code == Some(1) && wrong.stderr.contains("cannot be the id of a run"),
        "{wrong:#?}"
    );
}

/// Builds a document of the form `agents` with a single agent that uses this model.
fn greets(model: &str) -> String {
    let agent = json!({"name": "greeter", "model": model, "instruction": "Greet."});
    let order = json!({"type": "sequential", "agents": ["greeter"]});
    json!({"name": "greets", "agents": [agent], "orchestration": order}).to_string()
}

#[test]
fn every_known_provider_is_named_in_documents_configurations_and_variables() {
    let place = Place::new();
    for (model, variable, name) in [
        ("deepseek/deepseek-reasoner", "DEEPSEEK", "deepseek-reasoner"),
        ("deepseek-chat", "DEEPSEEK", "deepseek-chat"),
        ("ollama/llama3:8b", "OLLAMA", "llama3:8b"),
        ("openrouter/maker/small", "OPENROUTER", "maker/small"),
    ] {
        let server =
            FakeProvider::start(ProviderFormat::OpenAiChat, vec![FakeReply::text("Hello."); 4])
                .unwrap();
        let own = write(&place, "own.json", &greets(model));
        let other = write(&place, "other.json", &greets("anthropic/claude-sonnet-4-5"));
        let config = write(&place, "agentflow.json", &json!({"model": model}).to_string());
        let of_agent = json!({"greeter": model}).to_string();
        let run = |document: &str| {
            let command = alone(&["run", document, "--task", "Hi"]);
            command
                .env(&format!("{variable}_BASE_URL"), server.base_url())
                .env(&format!("{variable}_API_KEY"), "k")
        };
        for command in [
            run(&own),
            run(&other).args(["--config", &config]),
            run(&other).env("AGENTFLOW_MODEL", model),
            run(&other).env("AGENTFLOW_AGENT_MODELS", &of_agent),
        ] {
            let ended = command.run();
            assert_eq!(
                (ended.code, ended.stdout.trim()),
                (Some(0), "\"Hello.\""),
                "{model}: {ended:#?}"
            );
        }
        let asked: Vec<Value> =
            server.requests().iter().map(|request| request["model"].clone()).collect();
        assert_eq!(asked, vec![json!(name); 4]);
        assert_eq!(server.refusals(), Vec::<String>::new());
    }
    let wrong = write(&place, "wrong.json", &greets("olama/llama3"));
    let ended = alone(&["validate", &wrong]).run();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        format!("{}{}", ended.stdout, ended.stderr).contains("did you mean `ollama`?"),
        "{ended:#?}"
    );
}
