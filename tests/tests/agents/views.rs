//! Views of a run's events in the formats of other interfaces: a golden line for each kind of event
//! and view, and one run in all of them.

use std::fmt::Write;

use agentflow::prelude::*;
use agentflow::state::StateKey;
use agentflow::views::{
    AgentEvents, Rfc3339, ScreenEvent, ScreenEvents, TaskChunks, TaskResult, TaskStatus, final_text,
};
use agentflow::{Event, serde_json};
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use futures_util::StreamExt;
use serde_json::json;

const KINDS: &str = include_str!("../../golden/event-kinds.jsonl");

#[test]
fn every_kind_of_event_has_a_golden_line_in_each_view() {
    let mut seen = String::new();
    for line in KINDS.lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        let sse = ScreenEvent::of(&event)
            .map(|sse| json!({"event": sse.name, "data": sse.data, "added": sse.is_added()}));
        let agent = AgentEvents::default().next(&event);
        let task = TaskChunks::default().next(&event);
        let views = json!({"of": event.name(), "sse": sse, "agent": agent, "task": task});
        writeln!(seen, "{views}").unwrap();
    }
    crate::events::golden("event-views.jsonl", &seen);
}

/// Adds.
#[tool]
async fn views_add(a: u32, b: u32) -> u32 {
    a + b
}

#[tokio::test(start_paused = true)]
async fn a_run_of_an_agent_is_shown_whole() {
    let model = ScriptedModel::new([
        Turn::call("views_add", json!({"a": 2, "b": 3})),
        Turn::text("It is 5."),
    ]);
    let agent =
        Agent::new(model).name("adder").tools(tools![views_add]).runtime(&test_runtime().build());
    let mut stream = agent.stream("2 + 3?").unwrap();
    let mut events = Vec::new();
    while let Some(event) = within("the next event", stream.next()).await {
        events.push(event);
    }
    stream.result().await.unwrap();

    let said = AgentEvents::of(&events);
    assert_eq!(final_text(&said), "It is 5.");
    assert!(said.iter().all(|event| event.author == "adder"), "{said:#?}");
    assert_eq!(said.iter().filter(|event| event.is_final).count(), 1);
    assert_eq!(said.iter().flat_map(|event| &event.tool_calls).count(), 1);
    assert_eq!(final_text(&said[..said.len() - 1]), "");

    let chunks = TaskChunks::of(&events);
    assert!(chunks.iter().zip(1..).all(|(chunk, number)| chunk.sequence_id == number));
    assert_eq!(chunks.iter().filter(|chunk| chunk.is_final).count(), 1);
    assert!(chunks.last().unwrap().is_final);

    // The view of a cancelled run also contains its end.
    let stalls = Agent::new(ScriptedModel::from_fn(|_| Turn::stall()))
        .name("adder")
        .runtime(&test_runtime().build());
    let run = stalls.start("2 + 3?").unwrap();
    run.cancel("enough").await.unwrap();
    let last = AgentEvents::of(&run.recorded()).pop().unwrap();
    assert_eq!(
        (last.is_final, last.error.as_deref()),
        (true, Some("the run was cancelled: enough"))
    );

    let recorded: Vec<Event> = events.into_iter().filter(Event::is_recorded).collect();
    let result = TaskResult::of(&recorded).unwrap();
    assert_eq!((result.status, result.agent_id.as_deref()), (TaskStatus::Success, Some("adder")));
    let written = serde_json::to_value(&result).unwrap();
    let messages: Vec<_> = written["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["role"], &one["content"]))
        .collect();
    assert_eq!(
        messages,
        [
            (&json!("user"), &json!("2 + 3?")),
            (&json!("assistant"), &json!("")),
            (&json!("tool"), &json!("5")),
            (&json!("assistant"), &json!("It is 5.")),
        ]
    );
    assert_eq!(written["tool_results"].as_array().unwrap().len(), 1);
    // An unfinished run has a partial result.
    assert_eq!(TaskResult::of(&recorded[..3]).unwrap().status, TaskStatus::Partial);
    assert_eq!(TaskResult::of(&[]), None);
}

/// Fails after a while.
#[tool]
async fn views_fail(n: u32) -> Result<u32, agentflow::tool::ToolError> {
    Err(agentflow::tool::ToolError::new(format!("{n} is too much")))
}

#[workflow(stop = best_effort)]
async fn views_best_effort(n: u32) -> Result<u32> {
    let failed = views_fail(n).await.map_err(|error| {
        agentflow::Error::Recorded(std::sync::Arc::new(agentflow::error::Failure::new(
            "no",
            error.to_string(),
        )))
    })?;
    Ok(failed)
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_says_why() {
    let run = test_runtime().build().start(views_best_effort::workflow(), 7).await.unwrap();
    run.result().await.unwrap_err();
    let events = run.recorded();
    let result = TaskResult::of(&events).unwrap();
    assert_eq!(result.status, TaskStatus::Error);
    assert!(result.error_message.unwrap().contains("7 is too much"));
    let last = TaskChunks::of(&events).pop().unwrap();
    assert_eq!(serde_json::to_value(last.chunk_type).unwrap(), "error");
    let sent = events.iter().filter_map(ScreenEvent::of).next_back().unwrap();
    assert_eq!((sent.name, sent.is_added()), ("workflow_failed", true));
    assert!(
        sent.to_string().starts_with(&format!("id: {}\nevent: workflow_failed\ndata: {{", sent.id)),
        "{sent}"
    );
    assert!(sent.to_string().ends_with("}\n\n"));
}

#[workflow]
async fn views_sized(text: String) -> Result<u32> {
    let size = u32::try_from(text.len()).unwrap_or(0) * 2;
    let word = gate!("{size}?").await?;
    let sum = views_add(size, u32::from(word.is_granted())).await;
    let doubled = sum * 2;
    Ok(doubled)
}

#[tokio::test(start_paused = true)]
async fn every_node_with_an_end_on_a_screen_has_a_start() {
    let run =
        test_runtime().build().start(views_sized::workflow(), "text".to_owned()).await.unwrap();
    let question = run.asked().await.unwrap().unwrap();
    run.approve(&question.id, Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 18);
    let mut screen = ScreenEvents::default();
    let shown: Vec<_> = run.recorded().iter().filter_map(|event| screen.next(event)).collect();
    let shown: Vec<_> = shown
        .iter()
        .map(|event| (event.name, event.data["node_id"].as_str().unwrap_or("")))
        .collect();
    let awaited = [
        ("awaiting_approval", "word"),
        ("run_paused", ""),
        ("approval_resolved", "word"),
        ("run_resumed", ""),
    ];
    let done = [("node_start", "sum"), ("node_complete", "sum"), ("workflow_complete", "")];
    assert_eq!(shown, [&awaited[..], &done[..]].concat());
}

#[tokio::test(start_paused = true)]
async fn the_id_of_a_question_in_each_stream_is_one_for_its_answer() {
    let asking = async || {
        let run =
            test_runtime().build().start(views_sized::workflow(), "text".to_owned()).await.unwrap();
        run.asked().await.unwrap().unwrap();
        run
    };
    let run = asking().await;
    let chunks = TaskChunks::of(&run.recorded());
    let asked =
        chunks.iter().find(|chunk| chunk.metadata["event"] == "approval.requested").unwrap();
    let asked = serde_json::to_value(asked).unwrap();
    let id = asked["content"]["id"].as_str().unwrap();
    assert!(id.starts_with("word@"), "{id}");
    run.approve(id, Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 18);

    let run = asking().await;
    let screen: Vec<_> = run.recorded().iter().filter_map(ScreenEvent::of).collect();
    let asked = screen.iter().find(|event| event.name == "awaiting_approval").unwrap();
    run.approve(asked.data["id"].as_str().unwrap(), Approval::granted(), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 18);
}

/// Keeps a word in the state.
#[tool]
async fn views_keep(cx: &Context, word: String) -> Result<u32> {
    cx.set(&StateKey::<String>::session("word"), &word)?;
    cx.set(&StateKey::<u32>::session("letters"), &7)?;
    Ok(1)
}

#[workflow]
async fn views_kept(cx: &Context, word: String) -> Result<u32> {
    let kept = views_keep(cx, word).await?;
    Ok(kept)
}

#[tokio::test(start_paused = true)]
async fn events_for_a_screen_have_their_name_and_the_state_at_the_end() {
    let run =
        test_runtime().build().start(views_kept::workflow(), "letters".to_owned()).await.unwrap();
    run.result().await.unwrap();
    let events = run.recorded();
    let mut screen = ScreenEvents::default();
    let shown: Vec<_> = events.iter().filter_map(|event| screen.next(event)).collect();
    assert!(shown.iter().all(|event| event.data["event"] == event.name), "{shown:#?}");
    let end = shown.last().unwrap();
    let state = json!({"letters": 7, "word": "letters"});
    assert_eq!(end.data, json!({"event": "workflow_complete", "output": 1, "state": state}));
    let alone = ScreenEvent::of(events.last().unwrap()).unwrap();
    assert_eq!(alone.data, json!({"event": "workflow_complete", "output": 1}));
}

#[test]
fn a_time_is_written_as_rfc_3339() {
    let at = |millis| Rfc3339(agentflow::time::Timestamp::from_millis(millis)).to_string();
    assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(at(1_767_225_600_014), "2026-01-01T00:00:00.014Z");
    assert_eq!(at(u64::MAX), "9999-12-31T23:59:59.000Z");
}
