//! A remote A2A agent as part of a team: alone, as the target of a handoff, within a workflow,
//! cancelled, and resumed in another process. Each message is sent once.

use std::time::Duration;

use agentflow::a2a::A2aClient;
use agentflow::agent::{RunRequest, Team};
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::store::MemoryStore;
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{A2aTurn, ScriptedA2a, ScriptedModel, Turn, within};

fn client(far: &ScriptedA2a) -> A2aClient {
    let near = far.clone();
    A2aClient::in_memory("billing", far.card(), move |request| near.respond(request))
        .build()
        .unwrap()
}

/// Builds a local agent that relays to the remote one.
fn billing(far: &ScriptedA2a) -> Agent {
    let client = client(far);
    Agent::new(client.relay()).name("billing").tools(client)
}

fn desk(far: &ScriptedA2a) -> Agent {
    let triage =
        ScriptedModel::from_fn(|_| Turn::call("transfer_to_agent", json!({"agent": "billing"})));
    let triage = Agent::new(triage).name("triage");
    Team::new(triage, &["billing"])
        .agent(billing(far), &[])
        .about("billing", "Knows invoices.")
        .build()
        .unwrap()
}

#[tokio::test]
async fn it_answers_alone_and_a_session_continues_its_conversation() {
    let far = ScriptedA2a::new(
        "Billing",
        [A2aTurn::asks("Which invoice?"), A2aTurn::text("Paid.").expect_text("Number 4.")],
    );
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let agent = billing(&far).runtime(&runtime);
    let asked = agent.run(RunRequest::new("Is it paid?").session("s")).await.unwrap();
    assert_eq!(asked.output(), "Which invoice?");
    let answer = agent.run(RunRequest::new("Number 4.").session("s")).await.unwrap();
    assert_eq!(answer.output(), "Paid.");
    far.finish();
    let sent = far.messages();
    assert_eq!(
        (&sent[0]["taskId"], &sent[1]["taskId"]),
        (&json!(null), &json!("task-1")),
        "{sent:?}"
    );
    assert_eq!(sent[1]["contextId"], "context-of-task-1");
}

#[tokio::test]
async fn a_conversation_is_transferred_to_it() {
    let far = ScriptedA2a::new(
        "Billing",
        [A2aTurn::text("The second charge is gone.").expect_text("Why do I pay twice?")],
    );
    let result = desk(&far).run("Why do I pay twice?").await.unwrap();
    assert_eq!(result.output(), "The second charge is gone.");
    far.finish();
}

#[tokio::test]
async fn what_it_fails_at_fails_the_run() {
    let far = ScriptedA2a::new("Billing", [A2aTurn::fails("the archive is closed")]);
    let problem = desk(&far).run("Why?").await.unwrap_err();
    assert!(problem.to_string().contains("the archive is closed"), "{problem}");
    far.finish();
}

#[tokio::test]
async fn a_team_that_is_cancelled_cancels_the_task() {
    let far = ScriptedA2a::new("Billing", [A2aTurn::works()]);
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let run = desk(&far).runtime(&runtime).start("Why?").unwrap();
    within("the message to arrive", async {
        while far.messages().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    run.cancel("enough").await.unwrap();
    assert!(run.result().await.is_err());
    within("the cancellation to arrive", async {
        while far.cancelled().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(far.messages().len(), 1);
    far.finish();
}

#[tokio::test]
async fn a_team_that_waits_for_a_person_is_resumed_and_the_message_was_sent_once() {
    let turns = [
        A2aTurn::asks("Which invoice?").expect_text("Is it paid?"),
        A2aTurn::text("Paid.").expect_text("4"),
    ];
    let (far, store) = (ScriptedA2a::new("Billing", turns), MemoryStore::new());
    let process = || {
        let near = far.clone();
        let client =
            A2aClient::in_memory("billing", far.card(), move |request| near.respond(request));
        let client = client.asks_people().build().unwrap();
        let billing = Agent::new(client.relay()).name("billing").tools(client);
        let triage = ScriptedModel::from_fn(|_| {
            Turn::call("transfer_to_agent", json!({"agent": "billing"}))
        });
        let desk = Team::new(Agent::new(triage).name("triage"), &["billing"])
            .agent(billing, &[])
            .build()
            .unwrap();
        Runtime::builder().store(store.clone()).agent(&desk).build()
    };
    let first = process();
    let run = first.start_agent("triage", "Is it paid?").await.unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert_eq!(question.message, "the A2A agent `billing` asks: Which invoice?");
    let id = run.run_id().clone();
    drop(run);
    first.drain(Duration::from_secs(3600)).await;
    let second = process();
    second.run(&id).answer(&question.path, "4", "ada").await.unwrap();
    second.recover().await.unwrap();
    assert_eq!(second.run(&id).output().await.unwrap().decode::<String>().unwrap(), "Paid.");
    far.finish();
    assert_eq!(far.messages().len(), 2);
}

/// Asks the desk.
#[workflow]
async fn complain(cx: &Context, text: String) -> Result<String> {
    let answer = complained(cx, text).await?;
    Ok(answer)
}

async fn complained(cx: &Context, text: String) -> Result<String> {
    let desk = cx.resource::<Agent>().expect("the desk");
    Ok(desk.run_in(cx, text).await?.into_output())
}

#[tokio::test]
async fn a_team_in_a_step_of_a_workflow_transfers_to_it() {
    let far = ScriptedA2a::new("Billing", [A2aTurn::text("Gone.").expect_text("Why?")]);
    let runtime = Runtime::builder().resource(desk(&far)).store(MemoryStore::new()).build();
    let run = runtime.start(complain::workflow(), "Why?".to_owned()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "Gone.");
    far.finish();
}

#[tokio::test]
async fn a_node_of_a_graph_gives_the_output_the_agent_and_the_endpoint() {
    let far = ScriptedA2a::new("Billing", [A2aTurn::text("Paid.").expect_text("Is it paid?")]);
    let ask = json!({"call": {
        "kind": "tool", "name": "a2a.billing", "with": {"object": {"message": {"value": "Is it paid?"}}},
    }});
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "pay", "output": "ask", "concurrency": 1, "nodes": [{"name": "ask", "does": ask}]
    }))
    .unwrap();
    let runtime =
        Runtime::builder().store(MemoryStore::new()).toolset(client(&far)).graph(graph).build();
    let run = runtime.start_named("pay", Encoded::new(&json!({})).unwrap()).await.unwrap();
    let value: serde_json::Value = run.result().await.unwrap().decode().unwrap();
    assert_eq!(
        (&value["output"], &value["agent_id"]),
        (&json!("Paid."), &json!("billing")),
        "{value}"
    );
    assert!(
        value["endpoint"].as_str().is_some_and(|endpoint| endpoint.starts_with("http")),
        "{value}"
    );
    far.finish();
}
