//! Tests advice for developers: it is logged, and models do not see it.

use agentflow::agent::{Limits, RunRequest};
use agentflow::event::EventKind;
use agentflow::memory::InProcessMemory;
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::store::MemoryStore;
use agentflow::tool::ToolError;
use agentflow::{Agent, ask_user, remember, tools};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};

use crate::redacted_logs::Log;

/// Send the money back.
#[tool(approve)]
async fn advised_refund(cents: u64) -> String {
    format!("refunded {cents}")
}

/// Read an account.
#[tool(scopes(accounts), effects = "read")]
async fn advised_account(name: String) -> String {
    name
}

/// Fails with an error that has its own remedy.
#[tool(effects = "read")]
async fn advised_own() -> Result<String, ToolError> {
    Err(ToolError::new("the desk is closed").remedy("open the desk with `Desk::open`"))
}

/// Reads an account in the step of a workflow.
#[workflow]
async fn advised_steps(name: String) -> Result<String> {
    let read = advised_account(name).await;
    Ok(read)
}

const NEEDS_A_PERSON: &str =
    "calls of a tool that needs a person are refused in a run without a store";

fn calls(tool: &str, arguments: serde_json::Value) -> ScriptedModel {
    ScriptedModel::new([Turn::call(tool, arguments), Turn::text("I cannot do that.")])
}

/// Returns the tool result that the model gets, and the log.
async fn told(agent: Agent) -> (String, Vec<String>) {
    let (log, _guard) = Log::for_this_thread();
    let run = agent.run("go").await.unwrap();
    let told = run.events().into_iter().find_map(|event| match event.kind {
        EventKind::ToolFailed { result, .. }
            if event.path.parent().is_some_and(|of| of.is_root()) =>
        {
            Some(result.output.clone())
        }
        _ => None,
    });
    (told.unwrap(), log.lines())
}

#[tokio::test]
async fn a_run_without_a_store_warns_of_tools_that_need_a_person() {
    let warnings = async |agent: Agent, request: RunRequest| {
        let (log, _guard) = Log::for_this_thread();
        agent.run(request).await.unwrap();
        log.lines().into_iter().filter(|line| line.contains(NEEDS_A_PERSON)).collect::<Vec<_>>()
    };
    let quiet = || ScriptedModel::new([Turn::text("hello")]);
    let refunds = || Agent::new(quiet()).tools(tools![advised_refund]);
    let [line] = &warnings(refunds(), "go".into()).await[..] else {
        panic!("one tool, one warning")
    };
    for part in ["advised_refund", "Runtime::builder().store(..)", "approve:advised_refund"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let [line] = &warnings(Agent::new(quiet()).tools(tools![ask_user]), "go".into()).await[..]
    else {
        panic!("one tool, one warning")
    };
    assert!(line.contains("ask_user") && line.contains("store(..)"), "{line}");

    // No warning if the scope is granted, if the runtime has a store, or if no tool needs approval.
    let granted = RunRequest::new("go").grant(["approve:advised_refund"]);
    assert_eq!(warnings(refunds(), granted).await, Vec::<String>::new());
    let stored = test_runtime().store(MemoryStore::new()).build();
    assert_eq!(warnings(refunds().runtime(&stored), "go".into()).await, Vec::<String>::new());
    let other = Agent::new(quiet()).tools(tools![advised_account]);
    assert_eq!(warnings(other, "go".into()).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_remedy_of_a_refused_call_is_in_the_log_alone() {
    let nested = Agent::new(ScriptedModel::from_fn(|_| Turn::call("advised_own", json!({}))))
        .name("clerk")
        .tools(tools![advised_own])
        .settings(Limits::default().max_steps(1));
    let workflow = advised_steps::workflow();
    let forgetful = test_runtime().memory(InProcessMemory::new()).build();
    for (agent, said, remedy) in [
        (
            Agent::new(calls("advised_account", json!({"name": "ada"})))
                .tools(tools![advised_account]),
            "`advised_account` needs the scope `accounts`, which this run was not granted; do without it",
            "begin the run with `grant([\\\"accounts\\\"])`",
        ),
        (
            Agent::new(calls("advised_refund", json!({"cents": 5}))).tools(tools![advised_refund]),
            "no person has approved this tool in this run; do without it, or explain why you need it",
            "Runtime::builder().store(..)",
        ),
        (
            Agent::new(calls("advised_own", json!({}))).tools(tools![advised_own]),
            "the desk is closed",
            "open the desk with `Desk::open`",
        ),
        (
            Agent::new(calls("http_request", json!({"url": "http://127.0.0.1:9/"})))
                .tools(tools::HttpRequest::new().tool()),
            "`127.0.0.1` is not requested: it is not an address of the public internet, and this program does not allow it",
            "add the network of 127.0.0.1 to `networks` of the tool in the configuration, or give the tool a `guard` with \
             `AddressGuard::default().allow(..)`",
        ),
        (
            Agent::new(calls("weather", json!({}))).tools(
                tools::ApiTool::new("weather", "Tells the weather.", "GET", "http://127.0.0.1:9/")
                    .tool()
                    .unwrap(),
            ),
            "`127.0.0.1` is not requested: it is not an address of the public internet, and this program does not allow it",
            "add the network of 127.0.0.1 to `networks` of the tool in the configuration",
        ),
        (
            Agent::new(calls("clerk", json!({"request": "go"}))).tools(nested),
            "the agent took 1 steps without an answer, which is its limit; ask for less",
            "raise it with `max_steps`",
        ),
        (
            Agent::new(calls("advised_steps", json!({"name": "ada"}))).tools(workflow),
            "the step `tool#1.advised_steps/read` failed: `advised_account` needs the scope `accounts`, which this run was not granted; do \
             without it",
            "begin the run with `grant([\\\"accounts\\\"])`",
        ),
        (
            Agent::new(calls("remember", json!({"text": "a"})))
                .tools(tools![remember])
                .runtime(&forgetful),
            "nothing can be remembered here, since the user of this conversation is not known; do without it",
            "begin the run with `caller(..)`",
        ),
    ] {
        let (told, log) = told(agent).await;
        assert_eq!(told, said);
        assert!(log.iter().any(|line| line.contains(remedy)), "{remedy}: {log:#?}");
    }
}
