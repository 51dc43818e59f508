//! The scripted model with real agents: mismatches that fail a test, and their messages.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use agentflow::agent::Limits;
use agentflow::event::{EventKind, ModelDelta};
use agentflow::message::{Conversation, ToolStatus};
use agentflow::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelSettings, StopReason, Usage,
};
use agentflow::serde_json::{Value, json};
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::{Agent, Error, Event, Inject, Message, Model, tool, tools};
use agentflow_testing::{
    Call, Mocks, ScriptedModel, TestClock, Turn, assert_trace, check_events, test_runtime, trace,
    within,
};
use futures_util::StreamExt;

/// Creates a tool that adds `a` and `b`. It fails with a message if one is missing.
fn add() -> FnTool {
    let integer = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"a": integer, "b": integer}, "required": ["a", "b"]});
    FnTool::dynamic(
        ToolDefinition::new("add", "Add two integers.", schema),
        |_, arguments: Value| async move {
            match (arguments["a"].as_i64(), arguments["b"].as_i64()) {
                (Some(a), Some(b)) => Ok(a + b),
                _ => Err("give both `a` and `b`"),
            }
        },
    )
}

/// Creates a tool that waits for `ms` milliseconds and returns them.
fn wait() -> FnTool {
    let schema = json!({"type": "object", "properties": {"ms": {"type": "integer"}}});
    FnTool::dynamic(
        ToolDefinition::new("wait", "Wait.", schema),
        |_, arguments: Value| async move {
            let ms = arguments["ms"].as_u64().unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok::<_, String>(ms)
        },
    )
}

fn agent(model: &ScriptedModel) -> Agent {
    Agent::new(model.clone()).tools([add(), wait()]).runtime(&test_runtime().build())
}

/// Returns the panic message of `body`.
fn panic_of(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("it should have panicked");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&'static str>().expect("a panic with a text")).to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_story_from_question_to_answer() {
    let model = ScriptedModel::new([
        Turn::call("add", json!({"a": 2, "b": 3}))
            .and_text("Let me see.")
            .expect_system("Be exact.")
            .expect_last("What is 2 + 3?")
            .expect_tools(["add", "wait"])
            .expect_tool("add")
            .expect_messages(2)
            .usage(Usage::new(10, 2)),
        Turn::text("It is 5.")
            .expect_result("add", 5)
            .expect_result("call_1", json!(5))
            .expect_text("What is")
            .expect_no_text("7")
            .expect_conversation(
                "
                system: Be exact.
                user: What is ..
                assistant calls add {\"a\":2,\"b\":3}
                assistant: Let me see.
                tool add: 5
                ",
            )
            .usage(Usage::new(20, 3)),
    ]);
    let result = agent(&model).instruct("Be exact.").run("What is 2 + 3?").await.unwrap();
    assert_eq!(result.usage(), &Usage::new(30, 5));
    assert_eq!((model.calls(), model.in_flight()), (2, 0));
    assert_trace(
        result.events(),
        r#"
        run.started "What is 2 + 3?"
        model#1 completed tool_calls "Let me see."
        tool#1.add started {"a":2,"b":3}
        tool#1.add completed 5
        model#2 completed stop "It is 5."
        run.completed "It is 5."
        "#,
    );
    model.finish();
}

#[tokio::test]
async fn an_unexpected_call_fails_the_run_and_the_script() {
    let model = ScriptedModel::new([Turn::call("add", json!({"a": 1, "b": 1}))]);
    let Err(Error::Model(error)) = agent(&model).run("Go on.").await else {
        panic!("a model error")
    };
    assert_eq!((error.kind(), error.is_retryable()), (ModelErrorKind::BadRequest, false));
    assert_eq!(
        panic_of(|| model.finish()),
        "the model was not called as scripted

unexpected call 2 of the model: the script has 1 turn, and it was played before
the request was:
    user: Go on.
    assistant calls add {\"a\":1,\"b\":1}
    tool add: 2
"
    );
    assert_eq!(model.failures().len(), 1);
}

#[tokio::test]
async fn a_turn_that_is_left_fails_the_script_even_when_nobody_asks() {
    let model =
        ScriptedModel::new([Turn::text("one"), Turn::call("add", json!({})), Turn::stall()]);
    agent(&model).run("Go on.").await.unwrap();
    let text = "the model was not called as scripted

turn 2 was never asked for: call add {}

turn 3 was never asked for: stall
";
    assert_eq!(panic_of(|| drop(model)), text);
}

#[tokio::test]
async fn a_request_that_is_not_as_expected_fails_with_a_diff() {
    let model = ScriptedModel::new([
        Turn::call("add", json!({"a": 2, "b": 2})),
        Turn::text("5")
            .expect_result("add", 5)
            .expect_tools(["add", "multiply"])
            .expect_conversation(["user: Go on.", "..", "tool add: 5"]),
    ]);
    let error = agent(&model).run("Go on.").await.unwrap_err();
    assert!(error.to_string().contains("turn 2: the result of `add` is another one"), "{error}");
    assert_eq!(
        panic_of(|| model.finish()),
        "the model was not called as scripted

turn 2: the result of `add` is another one:
- success: 5
+ success: 4 (call_1)
turn 2: other tools are offered:
  add
- multiply
+ wait
turn 2: the conversation is another one:
  user: Go on.
  assistant calls add {\"a\":2,\"b\":2}
- tool add: 5
+ tool add: 4
the request was:
    user: Go on.
    assistant calls add {\"a\":2,\"b\":2}
    tool add: 4
"
    );
}

#[tokio::test]
async fn every_expectation_can_fail() {
    let turns: [(Turn, &str); 10] = [
        (
            Turn::text("x").expect_last("Go off."),
            "the newest message is another one:\n- Go off.\n+ Go on.",
        ),
        (Turn::text("x").expect_text("absent"), "no message contains \"absent\""),
        (Turn::text("x").expect_no_text("Go"), "a message contains \"Go\""),
        (Turn::text("x").expect_system("Be kind."), "the instructions are others:\n- Be kind."),
        (Turn::text("x").expect_messages(3), "there are 1 messages, not 3"),
        (
            Turn::text("x").expect_tool("ad"),
            "the tool `ad` is not offered; there are [\"add\", \"wait\"]",
        ),
        (
            Turn::text("x").expect_result("add", 1),
            "no tool has answered since the model spoke last",
        ),
        (Turn::text("x").expect_failure("add", ToolStatus::Timeout, ""), "no tool has answered"),
        (
            Turn::text("x").expect_settings(ModelSettings::default().seed(1)),
            "the settings are others:",
        ),
        (
            Turn::text("x").check(|request| assert_eq!(request.messages.len(), 7)),
            "its closure panicked: assertion",
        ),
    ];
    for (turn, expected) in turns {
        let model = ScriptedModel::new([turn]);
        let error = agent(&model).run("Go on.").await.unwrap_err();
        let problem = panic_of(|| model.finish());
        assert!(problem.contains(&format!("turn 1: {expected}")), "{problem}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn failures_of_tools_can_be_expected() {
    let model = ScriptedModel::new([
        Turn::calls([("add", json!({"a": 1})), ("multiply", json!({}))])
            .and_call("add", json!({"a": 1, "b": 2})),
        Turn::text("Never mind.")
            .expect_failure("call_1", ToolStatus::InvalidArguments, "`b`: this is missing")
            .expect_failure("multiply", ToolStatus::NotFound, "there is no tool `multiply`")
            .expect_result("add", 3),
    ]);
    agent(&model).run("Go on.").await.unwrap();
    model.finish();
}

#[tokio::test]
async fn a_failure_is_remembered_when_the_agent_swallows_it() {
    let model = ScriptedModel::new([Turn::text("x").expect_last("something else")]);
    let _ = agent(&model).run("Go on.").await;
    assert!(panic_of(|| drop(model)).contains("turn 1: the newest message is another one"));
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_turn_run_together_in_virtual_time() {
    let began = std::time::Instant::now();
    let model = ScriptedModel::new([
        Turn::calls([("wait", json!({"ms": 60_000})), ("wait", json!({"ms": 30_000}))])
            .after(Duration::from_secs(5)),
        Turn::text("Done."),
    ]);
    let result = agent(&model).run("Go on.").await.unwrap();
    assert_trace(
        result.events(),
        r#"
        run.started "Go on."
        model#1 completed tool_calls
        tool#1.wait started {"ms":60000}
        tool#1.wait[1] started {"ms":30000}
        tool#1.wait[1] completed 30000
        tool#1.wait completed 60000
        model#2 completed ..
        run.completed ..
        "#,
    );
    let events = result.events();
    assert_eq!(events.last().unwrap().time.since(TestClock::START), Duration::from_secs(65));
    assert!(began.elapsed() < Duration::from_secs(5), "virtual time must not be waited for");
    model.finish();
}

/// A resource that no test of this file provides.
struct Pantry;

/// Look into the pantry.
#[tool]
fn look_into_pantry(pantry: Inject<Pantry>) -> String {
    size_of_val(&*pantry).to_string()
}

/// Returns the panic message of a test that returns the error of its run with `?`.
async fn panic_after_error<T, R: Future<Output = agentflow::Result<T>>>(
    test: impl FnOnce(ScriptedModel) -> R,
) -> String {
    let model = ScriptedModel::new([Turn::text("It is empty.")]);
    assert!(test(model.clone()).await.is_err());
    panic_of(|| drop(model))
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_run_comes_before_the_turns_that_are_left() {
    let lacking = |model: ScriptedModel| Agent::new(model).tools(tools![look_into_pantry]);
    let run = panic_after_error(|model| async move { lacking(model).run("hi").await }).await;
    let start =
        panic_after_error(|model| async move { lacking(model).start("hi").map(drop) }).await;
    let by_name = panic_after_error(|model| async move {
        let runtime = test_runtime().agent(&lacking(model).name("cook")).build();
        runtime.start_agent("cook", "hi").await.map(drop)
    });
    for text in [run, start, by_name.await] {
        assert!(text.starts_with("the run ended with an error: "), "{text}");
        let error = text
            .find("these resources are missing: `agents::scripted::Pantry`")
            .expect("the error of the run");
        let left = text
            .find("turn 1 was never asked for: text \"It is empty.\"")
            .expect("the turn that is left");
        assert!(error < left, "{text}");
    }
    // An error that the script itself caused is listed among its problems.
    let model = ScriptedModel::new([Turn::text("one").expect_last("another"), Turn::text("two")]);
    assert!(agent(&model).run("Go on.").await.is_err());
    assert!(panic_of(|| drop(model)).starts_with("the model was not called as scripted"));
    // An error before a later successful run of the thread does not belong to the script.
    let model = ScriptedModel::new([Turn::text("one"), Turn::text("two")]);
    assert!(lacking(model.clone()).run("hi").await.is_err());
    agent(&model).run("hi").await.unwrap();
    assert!(panic_of(|| drop(model)).starts_with("the model was not called as scripted"));
    let mocks = Mocks::new().tool("look_into_pantry", Call::any());
    let agent = Agent::new(ScriptedModel::from_fn(|_| Turn::fails(ModelErrorKind::Auth)));
    assert!(agent.runtime(&mocks.runtime().build()).run("hi").await.is_err());
    let text = panic_of(|| drop(mocks));
    assert!(text.starts_with("the run ended with an error: "), "{text}");
    assert!(
        text.contains("the tool `look_into_pantry` was never called with any arguments"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stall_ends_at_the_time_limit_and_a_cancelled_call_is_dropped() {
    let model = ScriptedModel::new([Turn::stall(), Turn::pieces(["so ", "far"]).then_stall()]);
    let agent = agent(&model).settings(Limits::default().timeout(Duration::from_secs(60)));
    assert!(matches!(agent.run("Go on.").await, Err(Error::Timeout { .. })));
    assert_eq!(model.in_flight(), 0);
    let mut run = agent.stream("Go on.").unwrap();
    while let Some(event) = within("the next event", run.next()).await {
        if matches!(&event.kind, EventKind::ModelDelta(ModelDelta::Text(text)) if text == "far") {
            assert_eq!(model.in_flight(), 1);
            run.handle().cancel("enough").await.unwrap();
        }
    }
    assert!(matches!(run.result().await, Err(Error::Cancelled { .. })));
    assert_eq!((model.in_flight(), model.calls()), (0, 2));
    assert_trace(
        run.handle().recorded(),
        ["run.started \"Go on.\"", "model#1 failed cancelled ..", "run.cancelled \"enough\""],
    );
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn pieces_are_deltas_at_their_pace() {
    let model = ScriptedModel::new([
        Turn::pieces(["He", "llo"]).reasoning("Hm.").paced(Duration::from_secs(1)),
        Turn::call_pieces("add", ["{\"a\":1,", "\"b\":2}"]),
        Turn::text("3"),
    ]);
    let agent = agent(&model);
    let mut run = agent.stream("Greet.").unwrap();
    let events: Vec<Event> = run.by_ref().collect().await;
    check_events(&events).unwrap();
    let deltas: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ModelDelta(delta) => {
                Some((event.time.since(TestClock::START).as_secs(), delta.clone()))
            }
            _ => None,
        })
        .collect();
    let text = |text: &str| ModelDelta::Text(text.to_owned());
    assert_eq!(
        deltas,
        [(0, ModelDelta::Reasoning("Hm.".to_owned())), (1, text("He")), (2, text("llo"))]
    );
    let answered =
        events.iter().find(|event| matches!(event.kind, EventKind::ModelCompleted(_))).unwrap();
    assert_eq!(answered.time.since(TestClock::START), Duration::from_secs(3));

    let events: Vec<Event> = agent.stream("Add.").unwrap().collect().await;
    let arguments: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ModelDelta(ModelDelta::ToolCall(call)) => {
                Some((call.name.as_deref(), &*call.arguments))
            }
            _ => None,
        })
        .collect();
    assert_eq!(arguments, [(Some("add"), "{\"a\":1,"), (None, "\"b\":2}")]);
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn answers_break_off_and_fail_as_scripted() {
    let reset = || ModelError::new(ModelErrorKind::Transport, "connection reset");
    for (turn, kind) in [
        (Turn::fails(ModelErrorKind::RateLimited), ModelErrorKind::RateLimited),
        (Turn::error(reset()), ModelErrorKind::Transport),
        (Turn::text("half").then_error(reset()), ModelErrorKind::Transport),
        (Turn::pieces(["ha", "lf"]).then_cut(), ModelErrorKind::Truncated),
    ] {
        let model = ScriptedModel::new([turn]);
        let Err(Error::Model(error)) = agent(&model).run("Go on.").await else {
            panic!("a model error")
        };
        assert_eq!(error.kind(), kind);
        model.finish();
    }
    let model = ScriptedModel::new([Turn::text("half").stop_reason(StopReason::Length)]);
    assert_eq!(agent(&model).run("Go on.").await.unwrap().stop_reason(), &StopReason::Length);
    model.finish();
}

#[tokio::test]
async fn turns_are_computed_from_the_request() {
    let model = ScriptedModel::new([
        Turn::with(|request| Turn::call("add", json!({"a": request.messages.len(), "b": 1})))
            .expect_last("Go on."),
        Turn::with(|_| panic!("no idea")),
    ]);
    agent(&model).run("Go on.").await.unwrap_err();
    assert!(panic_of(|| model.finish()).contains("turn 2: its closure panicked: no idea"));
}

#[tokio::test]
async fn a_rule_answers_without_end() {
    let model = ScriptedModel::from_fn(|request| match request.messages.last() {
        Some(message) if message.results().next().is_some() => Turn::text("Done."),
        _ => Turn::call("add", json!({"a": 1, "b": 1})),
    });
    for _ in 0..3 {
        agent(&model).run("Go on.").await.unwrap();
    }
    assert_eq!(model.calls(), 6);
    model.finish();
}

#[tokio::test]
async fn lanes_serve_runs_at_the_same_time() {
    let lane = |n: i64| {
        let key = format!("question {n}.");
        (
            key,
            [
                Turn::call("add", json!({"a": n, "b": n})),
                Turn::text("fine").expect_result("add", 2 * n),
            ],
        )
    };
    let model = ScriptedModel::keyed((0..20).map(lane));
    let agent = agent(&model);
    let runs = (0..20).map(|n| agent.run(format!("This is question {n}.")));
    for result in futures_util::future::join_all(runs).await {
        result.unwrap();
    }
    model.finish();
}

#[tokio::test]
async fn a_request_must_fit_one_lane() {
    let model = ScriptedModel::keyed([("plan", vec![]), ("write", vec![Turn::text("a draft")])]);
    let agent = agent(&model);
    for question in ["plan it", "paint it", "plan and write it"] {
        agent.run(question).await.unwrap_err();
    }
    let problems = panic_of(|| model.finish());
    for problem in [
        "unexpected call 1 of the model: the script for \"plan\" has no turns",
        "unexpected call 2 of the model: it fits none of the lanes \"plan\", \"write\"",
        "unexpected call 3 of the model: it fits more than one lane: \"plan\", \"write\"; make their keys differ",
        "turn 1 of \"write\" was never asked for: text \"a draft\"",
    ] {
        assert!(problems.contains(problem), "{problems}");
    }
}

#[tokio::test]
async fn requests_are_kept_on_demand() {
    let model = ScriptedModel::new([Turn::call("add", json!({"a": 1, "b": 2})), Turn::text("3")])
        .capturing();
    agent(&model).run("Go on.").await.unwrap();
    assert_eq!(
        model.requests().iter().map(|request| request.messages.len()).collect::<Vec<_>>(),
        [1, 3]
    );
    model.finish();

    let model = ScriptedModel::new([]);
    assert!(panic_of(|| drop(model.requests())).contains("capturing()"));
}

#[tokio::test]
async fn no_request_is_kept_without_demand() {
    // Five messages in a list with a capacity of eight: a push reallocates only if the list is
    // shared.
    let mut messages = Conversation::new();
    (0..5).for_each(|_| messages.push(Message::user("Go on.")));
    let list = messages.messages().as_ptr();
    let model = ScriptedModel::new([Turn::text("x").check(|_| {})]);
    let mut stream = model.stream(ModelRequest::new(messages.clone()));
    assert!(matches!(
        within("the next event", stream.next()).await,
        Some(Ok(ModelEvent::Completed(_)))
    ));
    messages.push(Message::user("Go on."));
    assert_eq!(messages.messages().as_ptr(), list);
    model.finish();
}

#[tokio::test]
async fn another_course_is_reported_with_a_diff() {
    let model = ScriptedModel::new([Turn::call("add", json!({"a": 2, "b": 2})), Turn::text("4")]);
    let result = agent(&model).run("Go on.").await.unwrap();
    let story = [
        "run.started ..",
        "..",
        "tool#1.add completed 5",
        "model#2 completed stop ..",
        "run.completed \"5\"",
    ];
    assert_eq!(
        panic_of(|| assert_trace(result.events(), story)),
        "the run went another way (- expected, + happened):
  run.started \"Go on.\"
  model#1 completed tool_calls
  tool#1.add started {\"a\":2,\"b\":2}
- tool#1.add completed 5
+ tool#1.add completed 4
  model#2 completed stop \"4\"
- run.completed \"5\"
+ run.completed \"4\"
"
    );
    assert_eq!(trace(result.events()).len(), 6);
}

#[tokio::test]
async fn events_that_are_not_well_formed_are_found() {
    let model = ScriptedModel::new([Turn::call("add", json!({"a": 2, "b": 2})), Turn::text("4")]);
    let result = agent(&model).run("Go on.").await.unwrap();
    let events = result.events();
    check_events(&events).unwrap();
    let broken = |change: &dyn Fn(&mut Vec<Event>)| {
        let mut events = events.clone();
        change(&mut events);
        check_events(&events).unwrap_err().to_string()
    };
    let at = |name: &str| events.iter().position(|event| event.name() == name).unwrap();
    for (problem, text) in [
        (broken(&|events| drop(events.remove(at("tool.started")))), "it ends without a start"),
        (
            broken(&|events| drop(events.remove(at("tool.completed")))),
            "`tool#1.add` has no end when the run ends",
        ),
        (
            broken(&|events| drop(events.remove(0))),
            "the first event, and only the first, is run.started",
        ),
        (broken(&|events| drop(events.pop())), "the run has 0 ends"),
        (
            broken(&|events| events.push(events.last().unwrap().clone())),
            "comes after the end of the run",
        ),
        (broken(&|events| events[3].seq = 9), "comes after event 3"),
        (
            broken(&|events| events[3].time = agentflow::time::Timestamp::from_millis(1)),
            "is earlier than the event before",
        ),
        (
            broken(&|events| events[3].path = "node/tool#1.add".parse().unwrap()),
            "its parent `node` is not there",
        ),
        (broken(&|events| events.clear()), "there are no events"),
    ] {
        assert!(problem.contains(text), "{problem}");
    }
}
