//! Tests tools whose compensation is missing or does not fit. That is reported before the run
//! starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::agent::RunRequest;
use agentflow::error::{FailureKind, RegistryError};
use agentflow::prelude::*;
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::{Error, Workflow};
use agentflow_testing::{ScriptedModel, test_runtime};
use serde_json::{Value, json};

/// Returns a dynamic tool that counts its calls.
fn tool(
    name: &str,
    parameters: Value,
    policy: ToolPolicy,
    calls: &Arc<AtomicUsize>,
) -> impl agentflow::tool::IntoTools + use<> {
    let calls = Arc::clone(calls);
    FnTool::dynamic(
        ToolDefinition::new(name, "Does it.", parameters).policy(policy),
        move |_, _: Value| {
            calls.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>(json!(5)) }
        },
    )
}

fn takes(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn counting() -> Workflow<(u32,), u32> {
    Workflow::build("checked-counting", ["n"], |b, (n,)| {
        b.node("one", (n,), |_, (n,): (u32,)| async move { Ok::<_, Error>(n + 1) })
    })
    .unwrap()
}

/// Returns the problems in the catalogue, and the error of starting a run that compensates.
async fn said(undoes: Option<Value>, policy: ToolPolicy) -> (Vec<String>, Option<String>) {
    let calls = Arc::default();
    let does = takes(&json!({"cents": {"type": "integer"}}));
    let does =
        tool("checked-charge", does, ToolPolicy::default().compensate("checked-refund"), &calls);
    let mut builder = test_runtime().tools(does);
    if let Some(parameters) = undoes {
        builder = builder.tools(tool("checked-refund", parameters, policy, &calls));
    }
    let runtime = builder.build();
    let problems = runtime.catalogue().snapshot().await;
    let of_ours = |problem: &&Error| problem.to_string().contains("checked-");
    let problems = problems.problems().iter().filter(of_ours).map(ToString::to_string).collect();
    assert!(runtime.start(counting(), 1).await.is_ok(), "a run that undoes nothing begins");
    let started =
        runtime.start(counting(), 1).run_id(agentflow::RunId::new("second")).compensate().await;
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    (problems, started.err().map(|error| error.to_string()))
}

#[tokio::test(start_paused = true)]
async fn what_undoes_a_tool_is_there_and_fits() {
    let fits = takes(&json!({"cents": {"type": "integer"}, "output": {}}));
    assert_eq!(said(Some(fits.clone()), ToolPolicy::default()).await, (vec![], None));

    let (problems, refused) = said(None, ToolPolicy::default()).await;
    assert_eq!(
        problems,
        ["`checked-refund`, which is to undo the tool `checked-charge`, is not known here"]
    );
    let refused = refused.unwrap();
    assert!(
        refused.contains(
            "`checked-refund`, which is to undo the tool `checked-charge`, is not known here"
        ),
        "{refused}"
    );

    for (undoes, problem) in [
        (takes(&json!({"cents": {"type": "integer"}})), "has no parameter `output`"),
        (
            takes(&json!({"euros": {"type": "integer"}, "output": {}})),
            "does not take the arguments of the call",
        ),
        (
            takes(&json!({"cents": {"type": "string"}, "output": {}})),
            "`cents`: string is expected, and integer is given",
        ),
    ] {
        let (problems, refused) = said(Some(undoes), ToolPolicy::default()).await;
        assert!(problems.len() == 1 && problems[0].contains(problem), "{problem}: {problems:?}");
        assert_eq!(refused.as_ref(), Some(&problems[0]));
    }

    // The scopes of the run are known when it is started.
    let policy = ToolPolicy::default().scopes(["pay"]).approve();
    let (problems, refused) = said(Some(fits), policy).await;
    assert!(problems.is_empty());
    assert_eq!(
        refused.unwrap(),
        "`checked-refund`, which is to undo the tool `checked-charge`, may not be called by this run; grant it `pay` and \
         `approve:checked-refund`"
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_tool_cannot_be_undone_begins_nothing() {
    let calls = Arc::default();
    let does = || {
        tool(
            "checked-send",
            takes(&json!({})),
            ToolPolicy::default().compensate("checked-unsend"),
            &calls,
        )
    };
    let model = ScriptedModel::new([]);
    let agent = Agent::new(model.clone()).tools(does());
    let error = agent.run(RunRequest::new("Send.").compensate()).await.unwrap_err();
    let Error::Registry(RegistryError::Compensation { tool, by, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!((&**tool, &**by), ("checked-send", "checked-unsend"));
    // The same for an agent in a step of a compensating run.
    let asks = Workflow::<(String,), String>::build("checked-asks", ["what"], |b, (what,)| {
        b.node("asked", (what,), move |cx: Context, (what,): (String,)| {
            let agent = agent.clone();
            async move { Ok::<_, Error>(agent.run_in(&cx, what).await?.output().clone()) }
        })
    });
    let runtime = test_runtime().build();
    let run = runtime.start(asks.unwrap(), "Send.".to_owned()).compensate().await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Registry);
    assert!(error.to_string().contains("`checked-unsend`"), "{error}");
    model.finish();
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_graph_that_calls_a_tool_which_cannot_be_undone_is_refused() {
    let calls = Arc::default();
    let does = tool(
        "checked-open",
        takes(&json!({})),
        ToolPolicy::default().compensate("checked-opne"),
        &calls,
    );
    let graph = json!({"version": 1, "name": "checked", "output": "opened", "concurrency": 4, "nodes": [
        {"name": "opened", "does": {"call": {"kind": "tool", "name": "checked-open", "with": {"object": {}}}}},
    ]});
    let runtime = test_runtime().tools(does).graph(serde_json::from_value(graph).unwrap()).build();
    let refused = runtime.catalogue().workflow_graph("checked").unwrap_err().to_string();
    assert!(
        refused.contains(
            "`checked-opne`, which is to undo the tool `checked-open`, is not known here"
        ),
        "{refused}"
    );
}
