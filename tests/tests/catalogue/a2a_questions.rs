//! What an agent of another program asks in the middle of a task: asked of a person, over restarts, and answered in the same
//! task.

use std::time::Duration;

use agentflow::RunId;
use agentflow::a2a::{A2aClient, A2aClientBuilder};
use agentflow::a2a_server::A2aServer;
use agentflow::agent::RunRequest;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunFilter, SqliteStore};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{A2aTurn, ScriptedA2a, ScriptedModel, Turn, within};
use agentflow_tests::{Process, test_as_process};

use crate::a2a_served::serve;

fn client(far: &ScriptedA2a) -> A2aClientBuilder {
    let near = far.clone();
    A2aClient::in_memory("far", far.card(), move |request| near.respond(request))
}

fn asks_twice() -> ScriptedA2a {
    let turns = [
        A2aTurn::asks("Which colour?").expect_text("Paint it."),
        A2aTurn::asks("Which brush?").expect_text("blue"),
        A2aTurn::text("painted").expect_text("broad"),
    ];
    ScriptedA2a::new("Far", turns)
}

fn painter(client: A2aClient) -> Agent {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("a2a__far", json!({"message": "Paint it."})),
        _ => {
            let results = request.messages.messages().iter().flat_map(|message| message.results());
            Turn::text(results.map(|result| result.output.clone()).collect::<String>())
        }
    });
    Agent::new(model).name("painter").tools(client)
}

fn process(store: &MemoryStore, far: &ScriptedA2a) -> Runtime {
    let agent = painter(client(far).asks_people().build().unwrap());
    Runtime::builder().store(store.clone()).agent(&agent).build()
}

#[tokio::test]
async fn a_person_answers_it_in_other_processes_and_the_task_is_the_same() {
    let (far, store) = (asks_twice(), MemoryStore::new());
    let first = process(&store, &far);
    let run = first.start_agent("painter", "Go.").await.unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert_eq!(question.message, "the A2A agent `far` asks: Which colour?");
    assert_eq!(question.path, "tool#1.a2a__far/ask#1");
    let id = run.run_id().clone();
    drop(run);
    first.drain(Duration::from_secs(3600)).await;
    let second = process(&store, &far);
    second.answer(&id, &question.path, "blue", "ada").await.unwrap();
    let run = second.resume(&id).await.unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert_eq!(
        (&*question.message, &*question.path),
        ("the A2A agent `far` asks: Which brush?", "tool#1.a2a__far/ask#2")
    );
    drop(run);
    second.drain(Duration::from_secs(3600)).await;
    let third = process(&store, &far);
    third.answer(&id, &question.path, "broad", "ada").await.unwrap();
    third.recover().await.unwrap();
    let answer: String = third.output(&id).await.unwrap().decode().unwrap();
    assert!(answer.contains("painted"), "{answer}");
    assert!(far.cancelled().is_empty());
    far.finish();
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_waits_cancels_the_task() {
    let far = ScriptedA2a::new("Far", [A2aTurn::asks("Which colour?")]);
    let runtime = process(&MemoryStore::new(), &far);
    let run = runtime.start_agent("painter", "Go.").await.unwrap();
    run.asked().await.unwrap().unwrap();
    run.cancel("enough").await.unwrap();
    assert!(run.result().await.is_err());
    within("the cancellation to arrive", async {
        while far.cancelled().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    far.finish();
}

#[tokio::test]
async fn a_model_reads_it_by_default_and_a_node_asks_a_person() {
    let far = ScriptedA2a::new("Far", [A2aTurn::asks("Which colour?")]);
    let agent = painter(client(&far).build().unwrap());
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let answer = agent.runtime(&runtime).run("Go.").await.unwrap();
    assert!(answer.output().contains("input_required"), "{}", answer.output());
    far.finish();

    let far = asks_twice();
    let ask =
        json!({"call": {"kind": "tool", "name": "a2a.far", "with": {"object": {"message": {"value": "Paint it."}}}}});
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "paint", "output": "ask", "concurrency": 1, "nodes": [{"name": "ask", "does": ask}]
    }))
    .unwrap();
    let far_client = client(&far).build().unwrap();
    let runtime = Runtime::builder().store(MemoryStore::new()).toolset(far_client).graph(graph).build();
    let run = runtime.start_named("paint", Encoded::new(&json!({})).unwrap()).await.unwrap();
    for answer in ["blue", "broad"] {
        let question = run.asked().await.unwrap().unwrap();
        run.answer(&question.path, answer, "ada").await.unwrap();
    }
    let painted: serde_json::Value = run.result().await.unwrap().decode().unwrap();
    assert_eq!(painted["output"], "painted", "{painted}");
    assert!(runtime.approvals(RunFilter::new()).await.unwrap().is_empty());
    far.finish();
}

/// Asks for a colour before it paints.
#[workflow]
async fn colour_in(text: String) -> Result<String> {
    let colour = gate!("which colour?", text, answer = String).await?;
    let painted = format!("{text} {colour}");
    Ok(painted)
}

/// A process whose agent asks the one at `A2A_FAR`; it continues the run that an earlier one left.
#[tokio::test]
#[ignore = "it is a process of another test"]
#[expect(clippy::print_stdout, reason = "the other test reads it")]
async fn painter_process() {
    let (Ok(far), Ok(store)) = (std::env::var("A2A_FAR"), std::env::var("A2A_STORE")) else { return };
    let client = A2aClient::at("far", far).asks_people().build().unwrap();
    let store = SqliteStore::open(store).await.unwrap();
    let runtime = Runtime::builder().store(store).agent(&painter(client)).build();
    runtime.recover().await.unwrap();
    let id = RunId::new("paint-1");
    let run = match runtime.attach(&id).await {
        Ok(run) => run,
        Err(_) => runtime.start_agent("painter", RunRequest::new("Go.").run_id(id)).await.unwrap(),
    };
    let question = run.asked().await.unwrap().unwrap();
    println!("asks at {} {}", question.path, question.message);
    println!("answers {}", run.result().await.unwrap().as_str());
}

/// Waits for a line of a process; the rest of it.
async fn wait(mut process: Process, begins: &'static str) -> (Process, String) {
    let waited = tokio::task::spawn_blocking(move || {
        let said = process.wait_until(begins, |process| {
            process.output().lines().find_map(|line| line.strip_prefix(begins)).map(str::to_owned)
        });
        (process, said)
    });
    waited.await.unwrap()
}

#[tokio::test]
async fn a_process_that_is_killed_while_a_person_is_asked_has_sent_its_message_once() {
    let far = Runtime::builder().store(MemoryStore::new()).build();
    let url = serve(A2aServer::from_runtime(&far).workflows(["colour_in"])).await;
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let asking = || {
        let mut command = test_as_process(module_path!(), "painter_process");
        command.arg("--ignored").env("A2A_FAR", format!("{url}/a2a/colour_in")).env("A2A_STORE", &store);
        Process::start(&mut command).unwrap()
    };
    let (first, asked) = wait(asking(), "asks at ").await;
    assert!(asked.contains("the A2A agent `far` asks: which colour?"), "{asked}");
    drop(first); // It is killed.
    let (second, asked) = wait(asking(), "asks at ").await;
    let path = asked.split(' ').next().unwrap().to_owned();
    // A third process answers.
    let operator = Runtime::builder().store(SqliteStore::open(&store).await.unwrap()).build();
    operator.answer(&RunId::new("paint-1"), &path, "blue", "ada").await.unwrap();
    let (second, answer) = wait(second, "answers ").await;
    assert!(answer.contains("Paint it. blue"), "{answer}");
    drop(second);
    let tasks = far.runs(RunFilter::new()).await.unwrap();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
}
