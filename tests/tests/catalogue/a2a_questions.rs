//! Questions that an A2A agent asks in the middle of a task. They are forwarded to a person,
//! survive restarts, and are answered in the same task.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::RunId;
use agentflow::a2a::{A2aClient, A2aClientBuilder, A2aContent, A2aError};
use agentflow::a2a_server::A2aServer;
use agentflow::agent::RunRequest;
use agentflow::message::ToolCall;
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunFilter, SqliteStore};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{A2aTurn, ScriptedA2a, ScriptedModel, Turn, within};
use agentflow_tests::{Process, test_as_process};

use crate::a2a_served::serve;
use crate::loopback_server::{Server, json_of};

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
    second.run(&id).answer(&question.path, "blue", "ada").await.unwrap();
    let run = second.run(&id).resume().await.unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert_eq!(
        (&*question.message, &*question.path),
        ("the A2A agent `far` asks: Which brush?", "tool#1.a2a__far/ask#2")
    );
    drop(run);
    second.drain(Duration::from_secs(3600)).await;
    let third = process(&store, &far);
    third.run(&id).answer(&question.path, "broad", "ada").await.unwrap();
    third.recover().await.unwrap();
    let answer: String = third.run(&id).output().await.unwrap().decode().unwrap();
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
    let ask = json!({"call": {"kind": "tool", "name": "a2a.far", "with": {"object": {"message": {"value": "Paint it."}}}}});
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "paint", "output": "ask", "concurrency": 1, "nodes": [{"name": "ask", "does": ask}]
    }))
    .unwrap();
    let far_client = client(&far).build().unwrap();
    let runtime =
        Runtime::builder().store(MemoryStore::new()).toolset(far_client).graph(graph).build();
    let run = runtime.start_named("paint", Encoded::new(&json!({})).unwrap()).await.unwrap();
    for answer in ["blue", "broad"] {
        let question = run.asked().await.unwrap().unwrap();
        run.answer(&question.path, answer, "ada").await.unwrap();
    }
    let painted: Value = run.result().await.unwrap().decode().unwrap();
    assert_eq!(painted["output"], "painted", "{painted}");
    assert!(runtime.runs().questions(RunFilter::new()).await.unwrap().is_empty());
    far.finish();
}

/// Asks for a colour before it paints.
#[workflow]
async fn colour_in(text: String) -> Result<String> {
    let colour = gate!("which colour?", text, answer = String).await?;
    let painted = format!("{text} {colour}");
    Ok(painted)
}

/// A process whose agent calls the one at `A2A_FAR`. It resumes the run of an earlier process.
#[tokio::test]
#[ignore = "it is a process of another test"]
#[expect(clippy::print_stdout, reason = "the other test reads it")]
async fn painter_process() {
    let (Ok(far), Ok(store)) = (std::env::var("A2A_FAR"), std::env::var("A2A_STORE")) else {
        return;
    };
    let client = A2aClient::at("far", far).asks_people().build().unwrap();
    let store = SqliteStore::open(store).await.unwrap();
    let runtime = Runtime::builder().store(store).agent(&painter(client)).build();
    runtime.recover().await.unwrap();
    let id = RunId::new("paint-1");
    let run = match runtime.run(&id).attach().await {
        Ok(run) => run,
        Err(_) => runtime.start_agent("painter", RunRequest::new("Go.").run_id(id)).await.unwrap(),
    };
    let question = run.asked().await.unwrap().unwrap();
    println!("asks at {} {}", question.path, question.message);
    println!("answers {}", run.result().await.unwrap().as_str());
}

/// Waits for an output line with this prefix and returns the rest of it.
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
        command
            .arg("--ignored")
            .env("A2A_FAR", format!("{url}/a2a/colour_in"))
            .env("A2A_STORE", &store);
        Process::start(&mut command).unwrap()
    };
    let (first, asked) = wait(asking(), "asks at ").await;
    assert!(asked.contains("the A2A agent `far` asks: which colour?"), "{asked}");
    drop(first); // It is killed.
    let (second, asked) = wait(asking(), "asks at ").await;
    let path = asked.split(' ').next().unwrap().to_owned();
    // A third process answers.
    let operator = Runtime::builder().store(SqliteStore::open(&store).await.unwrap()).build();
    operator.run(&RunId::new("paint-1")).answer(&path, "blue", "ada").await.unwrap();
    let (second, answer) = wait(second, "answers ").await;
    assert!(answer.contains("Paint it. blue"), "{answer}");
    drop(second);
    let tasks = far.runs().list(RunFilter::new()).await.unwrap();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
}

/// An agent that asks with these task fields, and completes with `done` after an answer.
struct Asking {
    client: A2aClient,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Asking {
    fn new(asks: Value) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let card = json!({
            "name": "Shop", "description": "Sells.", "version": "1", "skills": [], "supportedInterfaces": [],
            "capabilities": {"streaming": false}, "defaultInputModes": [], "defaultOutputModes": [],
        });
        let respond = move |request: Value| {
            seen.lock().unwrap().push(request.clone());
            let mut task = json!({"id": "t-1", "contextId": "c-1"});
            match request["params"]["message"]["taskId"].is_string() {
                true => {
                    task["status"] = json!({"state": "TASK_STATE_COMPLETED"});
                    task["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "done"}]}]);
                }
                false => {
                    task["status"] = json!({"state": "TASK_STATE_INPUT_REQUIRED"});
                    for (name, value) in asks.as_object().unwrap() {
                        match name.as_str() {
                            "parts" => {
                                let message =
                                    json!({"messageId": "m", "role": "ROLE_AGENT", "parts": value});
                                task["status"]["message"] = message;
                            }
                            other => task[other] = value.clone(),
                        }
                    }
                }
            }
            let result =
                if request["method"] == "SendMessage" { json!({"task": task}) } else { task };
            let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            futures_util::stream::iter([response])
        };
        Self { client: A2aClient::in_memory("shop", card, respond).build().unwrap(), requests }
    }

    fn sent(&self, method: &str) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        let of_method = requests.iter().filter(|request| request["method"] == method);
        of_method.map(|request| request["params"].clone()).collect()
    }

    /// Returns the parts of the message that answers the task.
    fn answer(&self) -> Value {
        let answer = self.sent("SendMessage").pop().unwrap();
        assert_eq!(
            (&answer["message"]["taskId"], &answer["message"]["contextId"]),
            (&json!("t-1"), &json!("c-1"))
        );
        answer["message"]["parts"].clone()
    }

    /// Builds a runtime with a one-node workflow that calls the agent.
    fn runtime(&self, store: Option<MemoryStore>) -> Runtime {
        let ask = json!({"call": {"kind": "tool", "name": "a2a.shop", "with": {"object": {"message": {"value": "Refund."}}}}});
        let graph: Graph = serde_json::from_value(json!({
            "version": 1, "name": "refund", "output": "ask", "concurrency": 1, "nodes": [{"name": "ask", "does": ask}]
        }))
        .unwrap();
        let builder = Runtime::builder().toolset(self.client.clone()).graph(graph);
        store.into_iter().fold(builder, agentflow::runtime::RuntimeBuilder::store).build()
    }
}

fn adk_call(name: &str, args: Value) -> Value {
    let metadata = json!({"adk_type": "function_call", "adk_is_long_running": true});
    json!({"data": {"id": "adk-1", "name": name, "args": args}, "metadata": metadata})
}

fn adk_confirmation() -> Value {
    let call = json!({"id": "adk-0", "name": "refund", "args": {"cents": 900}});
    let args = json!({"originalFunctionCall": call, "toolConfirmation": {"hint": "It is much.", "confirmed": false}});
    adk_call("adk_request_confirmation", args)
}

fn adk_response(name: &str, response: Value) -> Value {
    let data = json!({"id": "adk-1", "name": name, "response": response});
    json!([{"data": data, "metadata": {"adk_type": "function_response"}}])
}

#[tokio::test]
async fn a_question_shows_its_data_and_is_answered_in_the_form_of_its_server() {
    let data = json!({"tool": "refund", "arguments": {"cents": 900}});
    let interrupt =
        |id: &str, value: Value| json!({"kind": "data", "data": {"id": id, "value": value}});
    let interrupts = |parts: Value| json!({"artifacts": [{"artifactId": "i", "name": "Interrupt", "parts": parts}]});
    let offered = json!({"question": "q", "about": {"cents": 900}, "answer": {"type": "integer"}});
    let text = json!({"text": "How much?"});
    let call =
        |name: &str| json!({"name": name, "args": {"cents": 900}, "description": "It is much."});
    let listed = json!({"action_requests": [call("refund"), call("send")], "review_configs": []});
    let mut single = call("refund");
    single["type"] = json!("tool_approval");
    let granted = json!({"decision": "granted"});
    let confirmed =
        |confirmed: bool| adk_response("adk_request_confirmation", json!({"confirmed": confirmed}));
    // Each case: the task's fields, the question's text, its subject, the answers, and the parts
    // that are sent.
    let cases = [
        (
            json!({"parts": [{"data": data}]}),
            "refund",
            data.clone(),
            json!(["yes"]),
            json!([{"text": "yes"}]),
        ),
        (
            json!({"parts": [text, {"data": data}]}),
            "How much?",
            data.clone(),
            json!(["no"]),
            json!([{"text": "no"}]),
        ),
        (
            json!({"parts": [adk_confirmation()]}),
            "refund(cents: 900)",
            data.clone(),
            json!([granted]),
            confirmed(true),
        ),
        (
            json!({"parts": [adk_confirmation()]}),
            "It is much.",
            data.clone(),
            json!([{"decision": "denied", "comment": "no"}]),
            confirmed(false),
        ),
        (
            json!({"parts": [adk_call("adk_request_input", json!({"message": "Which colour?"}))]}),
            "Which colour?",
            json!({}),
            json!(["blue"]),
            adk_response("adk_request_input", json!({"result": "blue"})),
        ),
        (
            json!({"parts": [adk_call("ask_boss", json!({"cents": 900}))]}),
            "ask_boss(cents: 900)",
            json!({"tool": "ask_boss", "arguments": {"cents": 900}}),
            json!([{"status": "approved"}]),
            adk_response("ask_boss", json!({"status": "approved"})),
        ),
        (
            interrupts(json!([interrupt("i-1", data.clone())])),
            "refund",
            data.clone(),
            json!([{"approved": true}]),
            json!([{"data": {"resume": {"approved": true}}}]),
        ),
        (
            interrupts(json!([interrupt("i-1", data.clone()), interrupt("i-2", json!("Sure?"))])),
            "refund",
            data.clone(),
            json!([true, "yes"]),
            json!([{"data": {"resume": {"i-1": true, "i-2": "yes"}}}]),
        ),
        (
            interrupts(json!([interrupt("i-1", listed)])),
            "refund(cents: 900)",
            data.clone(),
            json!([granted, {"decision": "denied", "comment": "late"}]),
            json!([{"data": {"resume": {"decisions": [{"type": "approve"}, {"type": "reject", "message": "late"}]}}}]),
        ),
        (
            interrupts(json!([interrupt("i-1", single)])),
            "It is much.",
            data.clone(),
            json!([{"decision": "denied"}]),
            json!([{"data": {"resume": {"type": "reject"}}}]),
        ),
        (
            json!({"parts": [text, {"data": offered}]}),
            "How much?",
            json!({"cents": 900}),
            json!([7]),
            json!([{"data": 7}]),
        ),
    ];
    for (asks, shows, about, answers, sends) in cases {
        let agent = Asking::new(asks);
        let runtime = agent.runtime(Some(MemoryStore::new()));
        let run = runtime.start_named("refund", Encoded::new(&json!({})).unwrap()).await.unwrap();
        for (at, answer) in answers.as_array().unwrap().iter().enumerate() {
            let question = within("the question", run.asked()).await.unwrap().unwrap();
            if at == 0 {
                assert!(
                    question.message.starts_with("the A2A agent `shop` asks: "),
                    "{}",
                    question.message
                );
                assert!(question.message.contains(shows), "{}", question.message);
                assert_eq!(question.about.decode::<Value>().unwrap(), about);
            }
            run.answer(&question.path, answer, "ada").await.unwrap();
        }
        let output: Value =
            within("the end of the run", run.result()).await.unwrap().decode().unwrap();
        assert_eq!(output["output"], "done", "{output}");
        assert_eq!(agent.answer(), sends, "{shows}");
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_shown_or_answered_is_an_error_and_cancels_its_task() {
    let raw = json!({"parts": [{"raw": "AAAA", "filename": "a.png"}]});
    let credential = json!({"parts": [adk_call("adk_request_credential", json!({}))]});
    for (asks, says) in [
        (json!({}), "neither text nor data"),
        (json!({"parts": [{"text": " "}]}), "neither text nor data"),
        (raw, "neither text nor data"),
        (credential, "asks for credentials"),
    ] {
        let agent = Asking::new(asks);
        let runtime = agent.runtime(Some(MemoryStore::new()));
        let run = runtime.start_named("refund", Encoded::new(&json!({})).unwrap()).await.unwrap();
        let error = within("the end of the run", run.result()).await.unwrap_err().to_string();
        assert!(error.contains("the A2A agent `shop`") && error.contains(says), "{error}");
        within("the cancellation", async {
            while agent.sent("CancelTask").is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    // Without a store no other process could find the question, so the run fails.
    let agent = Asking::new(json!({"parts": [{"text": "Sure?"}]}));
    let run =
        agent.runtime(None).start_named("refund", Encoded::new(&json!({})).unwrap()).await.unwrap();
    let error = within("the end of the run", run.result()).await.unwrap_err().to_string();
    assert!(error.contains("without a store") && error.contains("Sure?"), "{error}");
}

#[tokio::test]
async fn a_model_reads_the_data_and_its_text_becomes_the_answer_of_the_server() {
    let agent = Asking::new(json!({"parts": [adk_confirmation()]}));
    let runtime = Runtime::builder().toolset(agent.client.clone()).build();
    let call = async |arguments: Value| {
        let call = ToolCall::new("c", "a2a.shop", arguments.to_string());
        runtime.invoke(&call, &[]).await.unwrap().output
    };
    let asked: Value = serde_json::from_str(&call(json!({"message": "Refund."})).await).unwrap();
    assert!(asked["output"].as_str().unwrap().contains("refund(cents: 900)"), "{asked}");
    assert_eq!(
        (&asked["note"], &asked["task"]),
        (&json!("answer with `yes` or `no`"), &json!("t-1")),
        "{asked}"
    );
    let unclear = call(json!({"message": "Perhaps.", "task": "t-1"})).await;
    assert!(unclear.contains("answer with `yes` or `no`"), "{unclear}");
    let done: Value =
        serde_json::from_str(&call(json!({"message": "Yes.", "task": "t-1"})).await).unwrap();
    assert_eq!(done["output"], "done", "{done}");
    assert_eq!(
        agent.answer(),
        adk_response("adk_request_confirmation", json!({"confirmed": true}))
    );
    // A program can answer in the same way.
    let message = agent.client.answer("t-1", "no").await.unwrap();
    assert_eq!(
        json!(message)["parts"],
        adk_response("adk_request_confirmation", json!({"confirmed": false}))
    );
    assert!(matches!(agent.client.answer("t-1", "?").await, Err(A2aError::Question { .. })));
}

/// Imitates LangGraph's server: a waiting task does not show its question, but its thread does, if
/// it can be reached.
fn langgraph(request: &str, has_threads: bool) -> Vec<u8> {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let host = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("host: ").map(ToOwned::to_owned))
        .unwrap();
    if head.starts_with("GET /apps/a2a/worker/.well-known/") {
        let interface = json!({"url": format!("http://{host}/apps/a2a/worker"), "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0"});
        return json_of(
            &json!({"name": "Worker", "description": "Works.", "version": "1", "capabilities": {},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
            "supportedInterfaces": [interface]}),
        );
    }
    if head.starts_with("GET /apps/threads/c-1 ") && has_threads {
        let call = json!({"name": "delete", "args": {"path": "/tmp/x"}, "description": "?"});
        let value = json!({"action_requests": [call], "review_configs": []});
        return json_of(
            &json!({"thread_id": "c-1", "interrupts": {"task": [{"id": "i-1", "value": value}]}}),
        );
    }
    let id = serde_json::from_str::<Value>(body).map_or(Value::Null, |body| body["id"].clone());
    let task = json!({"kind": "task", "id": "c-1:t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_INPUT_REQUIRED"},
        "history": [{"role": "ROLE_USER", "messageId": "m", "parts": [{"kind": "text", "text": "delete /tmp/x"}]}]});
    json_of(&json!({"jsonrpc": "2.0", "id": id, "result": task}))
}

/// The client of another process did not receive the question, because this server shows it once.
#[tokio::test]
async fn a_question_of_langgraph_is_read_from_the_thread_of_its_task() {
    let decision = |kind: &str| json!({"resume": {"decisions": [{"type": kind}]}});
    let server = Server::start(|request| langgraph(request, true)).await;
    for (text, expected) in [("yes", decision("approve")), ("no", decision("reject"))] {
        let client = A2aClient::at("worker", server.url("/apps/a2a/worker"))
            .bearer("sesame")
            .build()
            .unwrap();
        let answer = within("the answer", client.answer("c-1:t-1", text)).await.unwrap();
        assert_eq!(answer.parts[0].content, A2aContent::Data(expected));
        assert_eq!(
            (answer.task_id.as_deref(), answer.context_id.as_deref()),
            (Some("c-1:t-1"), Some("c-1"))
        );
        let asked = server.asked();
        assert_eq!(asked.len(), 3, "{asked:#?}");
        assert!(
            asked
                .iter()
                .all(|request| request.to_lowercase().contains("authorization: bearer sesame"))
        );
    }
    let server = Server::start(|request| langgraph(request, false)).await;
    let client = A2aClient::at("worker", server.url("/apps/a2a/worker")).build().unwrap();
    let error = within("the answer", client.answer("c-1:t-1", "yes")).await.unwrap_err();
    assert!(error.to_string().contains("does not show its question again"), "{error}");
}
