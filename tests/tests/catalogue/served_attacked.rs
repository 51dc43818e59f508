//! Clients that answer twice, concurrently or with nonsense, clients that disconnect or cancel
//! during a question, and a store that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentflow::event::EventKind;
use agentflow::mcp_server::McpServer;
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::{
    MemoryStore, RunFilter, RunRecord, RunStatus, Store, StoreError, StoreErrorKind, StoreLayer,
};
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow_testing::within;

use crate::served::Lines;
use crate::served_over_http::{post, served};
use crate::served_tasks::{accepted, ask, begin, durable, get, only, server, until, with_meta};

/// Returns the number of recorded answers of a run.
async fn answers(runtime: &Runtime) -> usize {
    let run = runtime.runs().list(RunFilter::new()).await.unwrap().remove(0).run_id;
    let journal = runtime.run(&run).journal().await.unwrap();
    journal.iter().filter(|event| matches!(event.kind, EventKind::ApprovalResolved { .. })).count()
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts() {
    let store = MemoryStore::new();
    let (mut one, mut other) = (Lines::of(&server(&store)), Lines::of(&server(&store)));
    let task = begin(&mut one, "asked_booking", json!({"to": "Oslo"})).await;
    let (key, _) = only(&until(&mut one, &task, "input_required").await);
    let answer = |name: &str| {
        with_meta(
            json!({"taskId": task, "inputResponses": {key.clone(): accepted(json!({"answer": name}))}}),
        )
    };
    one.send(1, "tasks/update", answer("Ada")).await;
    other.send(1, "tasks/update", answer("Eve")).await;
    for lines in [&mut one, &mut other] {
        assert_eq!(lines.next().await["result"]["resultType"], "complete");
    }
    let (_, request) = only(&until(&mut one, &task, "input_required").await);
    let about = request["params"]["message"].as_str().unwrap();
    assert!(about.contains("Ada") != about.contains("Eve"), "{about}");
    assert_eq!(answers(&durable(&store)).await, 1);
}

#[tokio::test]
async fn of_an_answer_and_a_cancellation_at_once_both_are_taken_and_the_run_is_cancelled() {
    let store = MemoryStore::new();
    let (mut one, mut other) = (Lines::of(&server(&store)), Lines::of(&server(&store)));
    let task = begin(&mut one, "asked_booking", json!({"to": "Oslo"})).await;
    let (key, _) = only(&until(&mut one, &task, "input_required").await);
    let answer =
        json!({"taskId": task, "inputResponses": {key: accepted(json!({"answer": "Ada"}))}});
    one.send(1, "tasks/update", with_meta(answer)).await;
    other.send(1, "tasks/cancel", with_meta(json!({"taskId": task}))).await;
    for lines in [&mut one, &mut other] {
        assert_eq!(lines.next().await["result"]["resultType"], "complete");
    }
    assert_eq!(get(&mut one, &task).await["status"], "cancelled");
}

#[tokio::test]
async fn a_client_that_goes_away_or_cancels_in_a_question_leaves_what_each_means() {
    let store = MemoryStore::new();
    let asking = json!({"elicitation": {}});
    let mut lines = Lines::greeted_with(&server(&store), asking.clone()).await;
    assert_eq!(
        lines.call(1, "asked_booking", json!({"to": "Oslo"})).await["method"],
        "elicitation/create"
    );
    tokio::time::pause();
    lines.leave().await.unwrap();
    tokio::time::resume();
    let runtime = durable(&store);
    assert_eq!(runtime.runs().questions(RunFilter::new()).await.unwrap().len(), 1);

    let store = MemoryStore::new();
    let mut lines = Lines::greeted_with(&server(&store), asking).await;
    let asked = lines.call(7, "asked_booking", json!({"to": "Oslo"})).await;
    lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    let runtime = durable(&store);
    within("the run to be cancelled", async {
        while runtime.runs().list(RunFilter::new()).await.unwrap()[0].status != RunStatus::Cancelled
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The answer comes too late, and twice.
    for _ in 0..2 {
        let late = json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted(json!({"answer": "Eve"}))});
        lines.say(&late).await;
    }
    lines.send(8, "tools/call", json!({"name": "double", "arguments": {"n": 4}})).await;
    let doubled = loop {
        let said = lines.next().await;
        if said["id"] == 8 {
            break said;
        }
    };
    assert_eq!(doubled["result"]["content"][0]["text"], "8", "{doubled}");
    assert_eq!(answers(&runtime).await, 0);
}

#[tokio::test]
async fn nonsense_about_a_task_is_an_error_and_changes_nothing() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    let task = begin(&mut lines, "asked_booking", json!({"to": "Oslo"})).await;
    let before = until(&mut lines, &task, "input_required").await;
    let (key, _) = only(&before);
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for params in [
        json!({}),
        json!({"taskId": 1}),
        json!({"taskId": null}),
        json!({"taskId": [task]}),
        json!({"taskId": task, "inputResponses": []}),
        json!({"taskId": task, "inputResponses": {key.clone(): accepted(json!({"answer": deep}))}}),
        json!({"taskId": task, "inputResponses": {key.clone(): accepted(json!("Ada"))}}),
        json!({"taskId": task, "inputResponses": {key.clone(): accepted(json!({"answer": ["Ada"]}))}}),
    ] {
        let answer = ask(&mut lines, "tasks/update", params.clone()).await;
        let is_ignored = answer["result"]["resultType"] == "complete";
        assert!(answer["error"]["code"].is_i64() || is_ignored, "{params}: {answer}");
        assert_eq!(get(&mut lines, &task).await, before, "{params}");
    }
    let many = (0..10_000)
        .map(|n| (format!("asked_booking@{n}"), accepted(json!({"answer": "Eve"}))))
        .collect();
    let ack = ask(
        &mut lines,
        "tasks/update",
        json!({"taskId": task, "inputResponses": Value::Object(many)}),
    )
    .await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
    assert_eq!(get(&mut lines, &task).await, before);
    assert_eq!(answers(&durable(&store)).await, 0);
}

#[tokio::test]
async fn over_http_a_task_that_the_headers_do_not_name_is_refused() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    let task = begin(&mut lines, "asked_booking", json!({"to": "Oslo"})).await;
    let address = served(server(&store)).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/cancel", "params": with_meta(json!({"taskId": task}))});
    for wrong in ["mcp-name: another\r\n", "", "mcp-name: \u{1}\r\n"] {
        let head =
            format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: tasks/cancel\r\n{wrong}");
        let (status, answer) = post(address, &head, &body.to_string()).await;
        assert_eq!(status, 400, "{wrong}: {answer}");
    }
    until(&mut lines, &task, "input_required").await;
}

#[tokio::test]
async fn over_http_a_header_that_differs_from_its_argument_is_refused() {
    let schema = json!({
        "type": "object", "required": ["region"],
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}
    });
    let tool = FnTool::dynamic(
        ToolDefinition::new("query_region", "", schema),
        |_, arguments: Value| async move { Ok::<_, String>(arguments) },
    );
    let runtime = Runtime::builder().tools(tool).build();
    let address = served(McpServer::from_runtime(&runtime).tools(["query_region"])).await;
    let call = json!({"name": "query_region", "arguments": {"region": "north"}});
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": with_meta(call)})
            .to_string();
    for (header, expected) in
        [("mcp-param-region: south\r\n", 400), ("", 400), ("mcp-param-region: north\r\n", 200)]
    {
        let head = format!(
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: query_region\r\n{header}"
        );
        let (status, answer) = post(address, &head, &body).await;
        assert_eq!(status, expected, "{header}: {answer}");
        assert_eq!(answer.to_string().contains("-32020"), expected == 400, "{header}: {answer}");
    }
}

/// A store whose errors contain its path.
#[derive(Clone, Debug)]
struct FailingStore(MemoryStore, Arc<AtomicBool>);

impl FailingStore {
    fn check(&self) -> std::result::Result<(), StoreError> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(StoreError::new(StoreErrorKind::Io, "/secret/place: no space left")),
            false => Ok(()),
        }
    }
}

#[agentflow::async_trait]
impl StoreLayer for FailingStore {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn record(
        &self,
        run: &agentflow::RunId,
    ) -> std::result::Result<Option<RunRecord>, StoreError> {
        self.check()?;
        self.inner().record(run).await
    }

    async fn list(&self, filter: RunFilter) -> std::result::Result<Vec<RunRecord>, StoreError> {
        self.check()?;
        self.inner().list(filter).await
    }
}

#[tokio::test]
async fn a_store_that_fails_makes_no_task_unknown_and_is_not_described() {
    let fails = Arc::new(AtomicBool::new(false));
    let runtime = Runtime::builder().store(FailingStore(MemoryStore::new(), fails.clone())).build();
    let mut lines = Lines::of(&McpServer::from_runtime(&runtime).workflows(["asked_booking"]));
    let call = json!({"name": "asked_booking", "arguments": {"to": "Oslo"}});
    let task = begin(&mut lines, "asked_booking", json!({"to": "Oslo"})).await;
    fails.store(true, Ordering::Relaxed);
    let mut continued = call.clone();
    continued["requestState"] = json!(format!("{}+00000001", task.as_str()));
    for (method, params) in [
        ("tasks/get", json!({"taskId": task})),
        ("tasks/update", json!({"taskId": task, "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": task})),
        ("tools/call", continued),
        ("tools/call", call),
    ] {
        let refused = ask(&mut lines, method, params).await;
        assert_eq!(refused["error"]["code"], -32603, "{method}: {refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
    fails.store(false, Ordering::Relaxed);
    until(&mut lines, &task, "input_required").await;
}
