//! Tool outputs: JSON for programs, and text, files and links for the model. Progress that a tool
//! reports is live and is not recorded.

use std::sync::{Arc, Mutex};

use agentflow::Registry;
use agentflow::event::{Event, EventKind, EventSink};
use agentflow::message::{
    Media, ResourceLink, ToolCall, ToolContent, ToolPart, ToolResult, ToolStatus,
};
use agentflow::prelude::*;
use agentflow::tool::{FnTool, ToolError, ToolOutput};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, within};
use futures_util::{StreamExt, stream};
use serde_json::json;

/// What is drawn, with a picture.
#[tool(effects = "read")]
async fn calls_drawn(what: String) -> Result<ToolOutput, ToolError> {
    if what.is_empty() {
        return Err(ToolError::with_status(ToolStatus::Unauthorized, "say what"));
    }
    let drawn = ToolOutput::json(&json!({"drawn": what}))?;
    Ok(drawn
        .with_text(format!("A drawing of {what}."))
        .with_media(Media::of_bytes("image/png", [1, 2, 3]))
        .with_link(ResourceLink::new("file:///drawings").name("all").mime_type("text/html")))
}

#[tool(effects = "none")]
fn calls_plain_output() -> ToolOutput {
    ToolOutput::text("just \"text\"")
}

#[tool(effects = "none", max_output = 8)]
fn calls_long_text() -> ToolOutput {
    ToolOutput::text("short").with_text("much too long")
}

#[tool(effects = "none")]
fn calls_heavy() -> ToolOutput {
    ToolOutput::media(Media::new(
        "image/png",
        format!("data:image/png;base64,{}", "A".repeat(ToolContent::MAX_BYTES)),
    ))
}

async fn called(tool: &str, arguments: &str) -> ToolResult {
    let call = ToolCall::new("1", tool, arguments);
    Registry::linked().unwrap().invoke(&Context::detached(), &call, &[]).await
}

#[tokio::test]
async fn a_tool_made_at_run_time_says_the_class_of_its_failure() {
    let refusing = FnTool::new("refusing", "Refuse.", |_, (): ()| async {
        Err::<(), _>(ToolError::with_status(ToolStatus::Unauthorized, "not you"))
    });
    let failed = agentflow::Tool::call(&refusing, &Context::detached(), "{}").await.unwrap_err();
    assert_eq!((failed.status(), failed.message()), (ToolStatus::Unauthorized, "not you"));
}

#[tokio::test]
async fn an_answer_keeps_its_json_beside_what_the_model_reads() {
    let result = called("calls_drawn", r#"{"what": "a cat"}"#).await;
    assert_eq!(
        (result.status, result.output.as_str()),
        (ToolStatus::Success, r#"{"drawn":"a cat"}"#)
    );
    assert_eq!(result.text(), "A drawing of a cat.");
    let [ToolPart::Media(file), ToolPart::Link(link)] = result.parts() else {
        panic!("{:?}", result.parts())
    };
    assert_eq!(
        (file.mime_type.as_str(), file.url.as_str()),
        ("image/png", "data:image/png;base64,AQID")
    );
    assert_eq!((link.uri.as_str(), link.name.as_deref()), ("file:///drawings", Some("all")));
    let failed = called("calls_drawn", r#"{"what": ""}"#).await;
    assert_eq!((failed.status, failed.output.as_str()), (ToolStatus::Unauthorized, "say what"));
    let plain = called("calls_plain_output", "{}").await;
    assert_eq!((plain.output.as_str(), &*plain.text()), (r#""just \"text\"""#, "just \"text\""));
    assert_eq!(plain.content, None);
}

#[tokio::test]
async fn what_the_model_reads_and_what_is_kept_are_bounded() {
    for (tool, begins) in [
        (
            "calls_long_text",
            "the tool ran, but its answer of 13 bytes is over the limit of 8 bytes",
        ),
        ("calls_heavy", "the tool ran, but the files and links of its answer have 167772"),
    ] {
        let result = called(tool, "{}").await;
        assert_eq!(result.status, ToolStatus::OutputTooLarge);
        assert!(result.output.starts_with(begins), "{}", result.output);
        assert_eq!(result.content, None);
    }
}

#[test]
fn results_of_older_journals_are_read() {
    let old = json!({"call_id": "1", "name": "add", "status": "success", "output": "3"});
    let read: ToolResult = serde_json::from_value(old.clone()).unwrap();
    assert_eq!((&*read.text(), read.parts()), ("3", &[][..]));
    assert_eq!(
        serde_json::to_value(&read).unwrap(),
        old,
        "a plain answer is written as it always was"
    );
}

#[tokio::test]
async fn an_agent_records_the_whole_answer() {
    let model = ScriptedModel::new([
        Turn::call("calls_drawn", json!({"what": "a cat"})),
        Turn::text("Done."),
    ]);
    let run = Agent::new(model).tools(tools![calls_drawn]).run("Draw.").await.unwrap();
    let events = run.events();
    check_events(&events).unwrap();
    let recorded = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolCompleted { result, .. } => Some(result),
        _ => None,
    });
    let recorded = recorded.expect("the call has a result");
    assert_eq!(recorded.parts().len(), 2);
    let again: ToolResult =
        serde_json::from_str(&serde_json::to_string(recorded).unwrap()).unwrap();
    assert_eq!(again, **recorded);
    let told =
        run.conversation().messages().iter().find_map(|message| message.results().next().cloned());
    assert_eq!(told.as_ref(), Some(recorded));
}

/// Counts aloud.
#[tool(effects = "none")]
async fn calls_aloud(cx: &Context, to: u32) -> u32 {
    for n in 1..=to {
        cx.emit(&json!({"at": n}));
        tokio::task::yield_now().await;
    }
    to
}

#[workflow]
async fn aloud(cx: &Context, to: u32) -> Result<u32> {
    let node = calls_aloud(cx, to).await;
    Ok(node)
}

/// Middleware that collects the progress it sees.
#[derive(Clone)]
struct Seen(Arc<Mutex<Vec<String>>>, bool);

impl EventSink for Seen {
    fn emit(&self, event: &Event) {
        if let EventKind::StepProgress { value } = &event.kind {
            assert!(!event.is_recorded());
            self.0.lock().unwrap().push(format!("{} {value}", event.path));
        }
    }

    fn wants_deltas(&self) -> bool {
        self.1
    }
}

#[tokio::test]
async fn progress_is_live_in_order_and_never_recorded() {
    let (wants, plain) = (Seen(Arc::default(), true), Seen(Arc::default(), false));
    let runtime = test_runtime().sink(wants.clone()).sink(plain.clone()).build();
    let model =
        ScriptedModel::new([Turn::call("calls_aloud", json!({"to": 3})), Turn::text("Done.")]);
    let mut stream =
        Agent::new(model).tools(tools![calls_aloud]).runtime(&runtime).stream("Count.").unwrap();
    let mut streamed = Vec::new();
    while let Some(event) = within("the next event", stream.next()).await {
        if let EventKind::StepProgress { value } = &event.kind {
            streamed.push(format!("{} {value}", event.path));
        }
    }
    let path = "tool#1.calls_aloud";
    let expected: Vec<String> = (1..=3).map(|n| format!("{path} {{\"at\":{n}}}")).collect();
    assert_eq!(streamed, expected);
    assert_eq!(*wants.0.lock().unwrap(), expected);
    assert!(plain.0.lock().unwrap().is_empty());
    let events = stream.result().await.unwrap().events();
    check_events(&events).unwrap();
    assert!(!events.iter().any(|event| matches!(event.kind, EventKind::StepProgress { .. })));

    wants.0.lock().unwrap().clear();
    let handle = runtime.start(aloud::workflow(), (2,)).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    assert_eq!(*wants.0.lock().unwrap(), ["node {\"at\":1}", "node {\"at\":2}"]);
}

#[tokio::test]
async fn a_streamed_answer_is_shown_piece_by_piece_and_recorded_once() {
    let seen = Seen(Arc::default(), true);
    let runtime = test_runtime().sink(seen.clone()).build();
    let say = FnTool::streaming("say", "Says something.", |_cx: Context, (): ()| {
        stream::iter(["one, ", "two, ", "three"].map(Ok::<_, std::io::Error>))
    });
    let fails = FnTool::streaming("fails", "Begins well.", |_cx: Context, (): ()| {
        stream::iter([Ok("one"), Err("no more")])
    });
    let model = ScriptedModel::new([
        Turn::calls([("say", json!({})), ("fails", json!({}))]),
        Turn::text("Done.").expect_result("say", "one, two, three").expect_failure(
            "fails",
            ToolStatus::Error,
            "no more",
        ),
    ]);
    let tools = [say, fails].map(agentflow::tool::ToolRef::from);
    Agent::new(model.clone()).tools(tools).runtime(&runtime).run("Say it.").await.unwrap();
    model.finish();
    let mut seen = seen.0.lock().unwrap().clone();
    seen.sort();
    let expected = [
        "tool#1.fails \"one\"",
        "tool#1.say \"one, \"",
        "tool#1.say \"three\"",
        "tool#1.say \"two, \"",
    ];
    assert_eq!(seen, expected);
}
