//! Agents of other programs that a document names by address: the addresses that are contacted, and
//! failures without an answer.

use agentflow::document::{Document, DocumentForm};
use agentflow::prelude::*;
use agentflow::runtime::RuntimeConfig;
use agentflow::serde_json::{self, Value, json};
use agentflow::tools::AddressGuard;
use agentflow_testing::{ScriptedModel, Turn, within};

use crate::loopback_server::{Server, json_of};

fn loopback() -> AddressGuard {
    AddressGuard::default().allow("127.0.0.1".parse().unwrap(), 8)
}

/// Starts an agent that repeats each message.
async fn agent() -> Server {
    Server::start(|request| {
        let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        if request.starts_with("GET ") {
            return json_of(&json!({
                "name": "Echo", "description": "Says it again.", "version": "3",
                "supportedInterfaces": [{
                    "url": format!("http://{host}"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"
                }],
                "capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
                "skills": [],
            }));
        }
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let sent: Value = serde_json::from_str(body).unwrap_or_default();
        let text = format!("[{}]", sent["message"]["parts"][0]["text"].as_str().unwrap_or_default());
        json_of(&json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}}))
    })
    .await
}

/// Builds a document with a node that depends on an agent.
fn edges(dependency: &str, more: &str) -> String {
    format!(
        "workflow_id: far\nnodes:\n  - {{node_id: n, kind: a2a, task: Say it., dependencies: [{{dependency_id: d, dependency_type: \
         a2a_agent, {dependency}}}]{more}}}\nedges: []\n"
    )
}

fn fixed(url: &str) -> String {
    edges(&format!("fixed_ref: {{endpoint: '{url}'}}"), "")
}

fn read(text: &str) -> Document {
    Document::read("far.yaml", text).unwrap_or_else(|error| panic!("{error}"))
}

async fn result(runtime: &Runtime, input: Value) -> Result<Value> {
    let run = runtime.start_named("far", json!({ "input": input })).await?;
    within("the run", run.result()).await?.decode::<Value>().map_err(|error| panic!("{error}"))
}

#[tokio::test]
async fn the_agent_at_an_endpoint_is_asked() {
    let server = agent().await;
    let url = server.url("");
    let steps = format!(
        "workflow_id: far\nsteps:\n  - {{node_id: n, kind: a2a, task: Say it., endpoint: '{url}'}}\n"
    );
    for text in [fixed(&url), steps] {
        let document = read(&text);
        let runtime = Runtime::builder().a2a_guard(loopback()).document(document.clone()).build();
        runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
        // Nothing is fetched before the node starts.
        assert_eq!(server.asked(), Vec::<String>::new());
        let output = result(&runtime, json!({"x": 1})).await.unwrap();
        assert_eq!(output["output"], "[Say it.\n\n{\"x\":1}]", "{output}");
        assert_eq!((&output["endpoint"], &output["agent_id"]), (&json!(url), &json!(url)));
        assert_eq!(server.asked().len(), 2);
        for form in [document.form(), DocumentForm::Graph] {
            let written = form.export(document.graph()).unwrap().to_string();
            let again = read(&written);
            assert_eq!(again.graph().hash(), document.graph().hash(), "{written}");
            assert!(
                form == DocumentForm::Graph || written.contains(&format!("\"endpoint\":\"{url}\"")),
                "{written}"
            );
        }
    }
    // Only the selected agent of a pool is contacted.
    let other = agent().await;
    let pool = format!(
        "resolution_mode: pool, pool_refs: [{{endpoint: '{}'}}, {{endpoint: '{url}'}}]",
        other.url("")
    );
    let model = ScriptedModel::new([Turn::text("1")]).capturing();
    let document = read(&edges(&pool, ""));
    let runtime =
        Runtime::builder().a2a_guard(loopback()).model(model.clone()).document(document).build();
    assert_eq!(result(&runtime, json!({})).await.unwrap()["endpoint"], json!(url));
    assert_eq!((other.asked().len(), server.asked().len()), (0, 2));
    let shown = model.requests()[0].messages.messages()[1].text().to_string();
    assert!(shown.contains(&format!("1: server=- tool=- agent=- endpoint={url}")), "{shown}");
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused_unless_it_is_allowed() {
    let server = agent().await;
    for url in [server.url(""), format!("http://localhost:{}", server.port)] {
        let document = read(&fixed(&url));
        let runtime = Runtime::builder().document(document.clone()).build();
        // The document is valid; the node fails.
        runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
        let error = result(&runtime, json!({})).await.unwrap_err().to_string();
        for says in [
            "is not an address of the public internet",
            "`a2a_networks`",
            "`RuntimeBuilder::a2a_guard`",
        ] {
            assert!(error.contains(says), "{error}");
        }
    }
    assert_eq!(server.asked(), Vec::<String>::new());
    // A card cannot redirect to another address either.
    let home = server.url("");
    let lured = Server::start(move |_| {
        json_of(&json!({
            "name": "Lure", "description": "d", "version": "1",
            "supportedInterfaces": [{"url": home, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}],
            "capabilities": {}, "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
        }))
    })
    .await;
    let runtime =
        Runtime::builder().a2a_guard(loopback()).document(read(&fixed(&lured.url("")))).build();
    let error = result(&runtime, json!({})).await.unwrap_err().to_string();
    assert!(error.contains("where the card is not"), "{error}");
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_configuration_allows_networks() {
    let server = agent().await;
    let document = read(&fixed(&server.url("")));
    let with = |text: String| async move {
        let config = RuntimeConfig::read("agentflow.yaml", &text).unwrap();
        Runtime::builder().config(config).await.unwrap()
    };
    let runtime =
        with("a2a_networks: [127.0.0.0/8]".to_owned()).await.document(document.clone()).build();
    assert!(result(&runtime, json!({})).await.unwrap()["output"].is_string());
    let runtime =
        with("a2a_networks: [127.0.0/8]".to_owned()).await.document(document.clone()).build();
    let error = result(&runtime, json!({})).await.unwrap_err().to_string();
    assert!(error.contains("`a2a_networks`"), "{error}");
    let health = format!("{:?}", runtime.health().await);
    assert!(health.contains("`127.0.0/8` is not a network"), "{health}");
    // Environment variables override the file.
    let config = RuntimeConfig::read("agentflow.yaml", "a2a_networks: [10.0.0.0/8]").unwrap();
    let variable = |name: &str| {
        (name == "AGENTFLOW_A2A_NETWORKS").then(|| "127.0.0.0/8, 10.1.0.0/16".to_owned())
    };
    let config = config.with_variables(variable).unwrap();
    assert_eq!(config.a2a_networks, ["127.0.0.0/8", "10.1.0.0/16"]);
}

#[tokio::test]
async fn without_an_answer_only_the_node_fails() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let node = edges(&format!("fixed_ref: {{endpoint: '{url}'}}"), ", on_error: skip_node");
    let document = read(&node);
    let runtime = Runtime::builder().a2a_guard(loopback()).document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(result(&runtime, json!({"x": 1})).await.unwrap(), json!({"x": 1}));
    let runtime = Runtime::builder().a2a_guard(loopback()).document(read(&fixed(&url))).build();
    let error = result(&runtime, json!({})).await.unwrap_err().to_string();
    assert!(error.contains(&format!("the A2A agent `{url}` cannot be reached")), "{error}");
}

#[test]
fn an_agent_has_a_name_or_an_address() {
    for (text, problem) in [
        (edges("fixed_ref: {}", ""), "or `endpoint`, its address"),
        (
            fixed("agents.example"),
            "the `endpoint` `agents.example` is not an address that begins with `http://` or `https://`",
        ),
        (
            "workflow_id: far\nsteps:\n  - {node_id: n, kind: a2a, task: Say it., endpoint: far}\n".to_owned(),
            "the `endpoint` `far` is not an address",
        ),
        (
            "workflow_id: far\nsteps:\n  - {node_id: n, kind: mcp, capability: s, endpoint: 'https://a.example'}\n"
                .to_owned(),
            "a step of the kind `mcp` has no `endpoint`",
        ),
    ] {
        let error = Document::read("far.yaml", text.as_str()).unwrap_err();
        assert_eq!(error.problems().len(), 1, "{error}");
        assert!(error.problems()[0].message().contains(problem), "{error}");
    }
}
