//! The agent loop, tested through the public API. Every failure of a tool or a model reaches the
//! model or the caller, and no run hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::agent::{AgentSettings, Limits, RunRequest};
use agentflow::message::{Conversation, Role, ToolStatus};
use agentflow::middleware::Middleware;
use agentflow::model::{ModelErrorKind, ModelRef, StopReason, Usage};
use agentflow::tool::{FnTool, ToolDefinition, ToolFuture, ToolPolicy};
use agentflow::{Agent, Context, Error, Message, Tool};
use agentflow_testing::{ScriptedModel, Turn, assert_trace, check_events, test_runtime, within};
use serde_json::{Value, json};

fn tool<F, Fut>(name: &str, body: F) -> FnTool
where
    F: Fn(Context, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, String>> + Send + 'static,
{
    FnTool::dynamic(ToolDefinition::new(name, "A tool of a test.", json!({"type": "object"})), body)
}

fn add() -> FnTool {
    tool("add", |_, args| async move {
        Ok(json!(args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0)))
    })
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_tools() {
    let model =
        ScriptedModel::new([Turn::text("Hello.").expect_system("Be short.").expect_last("Hi")]);
    let result = Agent::new(model.clone()).instruct("Be short.").run("Hi").await.unwrap();
    assert_eq!(result.output(), "Hello.");
    assert_eq!(result.steps(), 1);
    assert_trace(
        result.events(),
        r#"
        run.started "Hi"
        model#1 completed stop "Hello."
        run.completed "Hello."
        "#,
    );
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn a_tool_and_then_an_answer() {
    let model = ScriptedModel::new([
        Turn::call("add", json!({"a": 2, "b": 3})).expect_tools(["add"]).usage(Usage::new(10, 4)),
        Turn::text("5").expect_result("add", 5).usage(Usage::new(20, 1)),
    ]);
    let result = Agent::new(model.clone()).tools([add()]).run("2 + 3?").await.unwrap();
    assert_eq!((result.usage().input_tokens, result.usage().output_tokens), (30, 5));
    assert_eq!(result.conversation().len(), 4);
    check_events(&result.events()).unwrap();
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn the_conversation_continues() {
    let model =
        ScriptedModel::new([Turn::text("Ada."), Turn::text("You said Ada.").expect_messages(3)]);
    let agent = Agent::new(model.clone());
    let first = agent.run("Name somebody.").await.unwrap();
    let mut conversation = first.conversation().clone();
    conversation.push(Message::user("Whom did you name?"));
    assert_eq!(agent.run(conversation).await.unwrap().output(), "You said Ada.");
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn instructions_are_sent_once_however_often_a_conversation_continues() {
    let model = ScriptedModel::new([
        Turn::text("1").expect_conversation(["system: Count.", "user: go"]),
        Turn::text("2").expect_conversation([
            "system: Count.",
            "user: go",
            "assistant: 1",
            "user: on",
        ]),
        Turn::text("3").expect_conversation([
            "system: Count down.",
            "user: go",
            "assistant: 1",
            "user: on",
            "assistant: 2",
            "user: back",
        ]),
    ]);
    let agent = Agent::new(model.clone()).instruct("Count.");
    let mut conversation = Conversation::from("go");
    for (agent, next) in
        [(agent.clone(), "on"), (agent.clone(), "back"), (agent.instruct("Count down."), "")]
    {
        let run = agent.start(conversation).unwrap();
        let result = run.result().await.unwrap();
        assert!(
            result.conversation().messages().iter().all(|message| message.role() != Role::System)
        );
        assert_eq!(run.conversation(), *result.conversation());
        conversation = result.conversation().clone();
        conversation.push(Message::user(next));
    }
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn instructions_that_a_stored_conversation_repeats_are_sent_once() {
    let model = ScriptedModel::new([Turn::text("2").expect_conversation([
        "system: Count.",
        "system: Never stop.",
        "user: go",
        "assistant: 1",
        "user: on",
    ])]);
    let kept: Conversation = [
        Message::system("Count."),
        Message::system("Count."),
        Message::system("Never stop."),
        Message::user("go"),
        Message::assistant("1"),
        Message::user("on"),
    ]
    .into_iter()
    .collect();
    let result = Agent::new(model).instruct("Count.").run(kept).await.unwrap();
    // Other system messages of the caller are kept.
    assert_eq!(result.conversation().messages()[0].text(), "Never stop.");
}

/// A tool that panics inside `call`, as the body of a sync `#[tool]` does.
struct Panics(Arc<ToolDefinition>);

impl Tool for Panics {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.0
    }

    fn call<'a>(&'a self, _: &'a Context, _: &'a str) -> ToolFuture<'a> {
        panic!("boom")
    }
}

#[tokio::test(start_paused = true)]
async fn every_way_a_call_can_fail_is_a_result_for_the_model() {
    let tools: Vec<agentflow::tool::ToolRef> = vec![
        tool("fails", |_, _| async { Err("out of paper".to_owned()) }).into(),
        tool("slow", |_, _| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(Value::Null)
        })
        .policy(ToolPolicy::default().timeout(Duration::from_secs(2)))
        .into(),
        tool("huge", |_, _| async { Ok(json!("x".repeat(100))) })
            .policy(ToolPolicy::default().max_output(50))
            .into(),
        tool("secret", |_, _| async { Ok(json!("key")) })
            .policy(ToolPolicy::default().scopes(["vault"]))
            .into(),
        Panics(Arc::new(ToolDefinition::new("panics", "", json!({"type": "object"})))).into(),
    ];
    let model = ScriptedModel::new([
        Turn::call("fails", json!({})),
        Turn::call("slow", json!({})).expect_failure("fails", ToolStatus::Error, "out of paper"),
        Turn::call("huge", json!({})).expect_failure("slow", ToolStatus::Timeout, "within 2s"),
        Turn::call("secret", json!({})).expect_failure(
            "huge",
            ToolStatus::OutputTooLarge,
            "102 bytes",
        ),
        Turn::call("panics", json!({})).expect_failure(
            "secret",
            ToolStatus::Unauthorized,
            "`vault`",
        ),
        Turn::call("hug", json!({})).expect_failure("panics", ToolStatus::Panicked, "boom"),
        Turn::raw_call("fails", "{not json").expect_failure(
            "hug",
            ToolStatus::NotFound,
            "did you mean `huge`?",
        ),
        Turn::text("I give up.").expect_failure(
            "fails",
            ToolStatus::InvalidArguments,
            "key must be a string",
        ),
    ]);
    let agent =
        Agent::new(model.clone()).tools(tools).settings(Limits::default().max_tool_failures(20));
    let result = agent.run("try").await.unwrap();
    assert_eq!(result.output(), "I give up.");
    check_events(&result.events()).unwrap();
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn granted_scopes_open_tools() {
    let secret = || {
        tool("secret", |_, _| async { Ok(json!("42")) })
            .policy(ToolPolicy::default().scopes(["vault"]))
    };
    let script = || {
        ScriptedModel::new([
            Turn::call("secret", json!({})),
            Turn::text("ok").expect_result("secret", "42"),
        ])
    };
    Agent::new(script())
        .tools([secret()])
        .settings(AgentSettings::new().grant(["vault"]))
        .run("go")
        .await
        .unwrap();
    Agent::new(script())
        .tools([secret()])
        .run(RunRequest::new("go").grant(["vault"]))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_needs_approval_is_not_called_without() {
    let refund = || {
        tool("refund", |_, _| async { Ok(json!("sent")) }).policy(ToolPolicy::default().approve())
    };
    let refused = Turn::text("I may not.").expect_failure(
        "refund",
        ToolStatus::Unauthorized,
        "no person has approved",
    );
    let model = ScriptedModel::new([Turn::call("refund", json!({})), refused]);
    Agent::new(model.clone())
        .tools([refund()])
        .settings(AgentSettings::new().grant(["approve:other"]))
        .run("go")
        .await
        .unwrap();
    model.finish();
    let model = ScriptedModel::new([
        Turn::call("refund", json!({})),
        Turn::text("Done.").expect_result("refund", "sent"),
    ]);
    let approved = RunRequest::new("go").grant(["approve:refund"]);
    Agent::new(model.clone()).tools([refund()]).run(approved).await.unwrap();
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_turn_run_together_and_answer_in_order() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let wait = {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        tool("wait", move |_, args| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(args["ms"].as_u64().unwrap_or(0))).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(args["ms"].clone())
            }
        })
    };
    let waits = || Turn::calls([300, 100, 200, 100, 100].map(|ms| ("wait", json!({"ms": ms}))));
    let in_order = Turn::with(|request| {
        let results: Vec<_> = request
            .messages
            .last()
            .unwrap()
            .results()
            .map(|result| result.output.clone())
            .collect();
        assert_eq!(results, ["300", "100", "200", "100", "100"]);
        Turn::text("ok")
    });
    let model = ScriptedModel::new([waits(), in_order]);
    let began = tokio::time::Instant::now();
    let limits = Limits::default().max_parallel_tools(3);
    let result = Agent::new(model.clone()).tools([wait]).settings(limits).run("go").await.unwrap();
    // Concurrent lanes: 300 ms, 100 + 200 ms, and 100 + 100 ms.
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    assert_eq!(most.load(Ordering::SeqCst), 3);
    let paths: Vec<_> = result
        .events()
        .iter()
        .filter(|e| e.name() == "tool.started")
        .map(|e| e.path.to_string())
        .collect();
    assert_eq!(
        paths,
        ["tool#1.wait", "tool#1.wait[1]", "tool#1.wait[2]", "tool#1.wait[3]", "tool#1.wait[4]"]
    );
    check_events(&result.events()).unwrap();
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn each_limit_has_an_error_of_its_own() {
    let looping = || ScriptedModel::from_fn(|_| Turn::call("add", json!({"a": 1, "b": 1})));
    let agent = |limits| Agent::new(looping()).tools([add()]).settings(limits);

    let error = agent(Limits::default()).run("go").await.unwrap_err();
    assert!(matches!(error, Error::MaxStepsReached { steps: 20 }), "{error}");
    let error = agent(Limits::default().max_llm_calls(3)).run("go").await.unwrap_err();
    assert!(matches!(error, Error::LlmCallLimit { calls: 3 }), "{error}");

    let lost = ScriptedModel::from_fn(|_| Turn::call("nowhere", json!({})));
    let error = Agent::new(lost).tools([add()]).run("go").await.unwrap_err();
    assert!(
        matches!(error, Error::ToolFailures { failures: 8, ref tool, status: ToolStatus::NotFound, .. } if tool == "nowhere"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_ends_the_run_with_its_error() {
    for (turn, kind) in [
        (Turn::fails(ModelErrorKind::RateLimited), ModelErrorKind::RateLimited),
        (Turn::text("half").then_cut(), ModelErrorKind::Truncated),
    ] {
        let model = ScriptedModel::new([turn]);
        let run = Agent::new(model.clone()).start("go").unwrap();
        let error = run.result().await.unwrap_err();
        assert!(matches!(error, Error::Model(ref error) if error.kind() == kind), "{error}");
        assert!(error.is_retryable());
        let recorded = run.recorded();
        let names: Vec<_> = recorded.iter().map(agentflow::Event::name).collect();
        assert_eq!(names, ["run.started", "model.started", "model.failed", "run.failed"]);
        model.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_off_says_so() {
    let model = ScriptedModel::new([Turn::text("Once upon a").stop_reason(StopReason::Length)]);
    let result = Agent::new(model).run("Tell me a story.").await.unwrap();
    assert_eq!(*result.stop_reason(), StopReason::Length);
    let model = ScriptedModel::new([Turn::text("").stop_reason(StopReason::Length)]);
    let error = Agent::new(model).run("Tell me a story.").await.unwrap_err();
    assert!(
        matches!(error, Error::NoAnswer { ref stop_reason } if stop_reason == "length"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_paused_is_continued() {
    let paused = || Turn::text("I am searching.").stop_reason(StopReason::PauseTurn);
    let model = ScriptedModel::new([
        paused(),
        Turn::with(|request| {
            // A paused turn is continued: the request ends with the partial answer, without a new
            // user message.
            assert_eq!(request.messages.len(), 2);
            assert_eq!(request.messages.last().unwrap().text(), "I am searching.");
            Turn::text("Found it.")
        }),
    ]);
    let result = Agent::new(model.clone()).run("Find it.").await.unwrap();
    assert_eq!((result.output().as_str(), result.steps()), ("Found it.", 2));
    model.finish();
    // A provider that pauses every turn reaches the limit.
    let model = ScriptedModel::new([paused(), paused()]);
    let agent = Agent::new(model).settings(Limits::default().max_steps(2));
    assert!(matches!(
        agent.run("Find it.").await.unwrap_err(),
        Error::MaxStepsReached { steps: 2 }
    ));
}

#[tokio::test(start_paused = true)]
async fn calls_without_an_id_of_their_own_get_one() {
    let model = ScriptedModel::new([
        Turn::call("add", json!({"a": 1})).id("same").and_call("add", json!({"a": 2})).id("same"),
        Turn::with(|request| {
            assert_eq!(request.messages.open_calls(), Vec::<&str>::new());
            let ids: Vec<_> = request
                .messages
                .last()
                .unwrap()
                .results()
                .map(|result| result.call_id.clone())
                .collect();
            assert_eq!(ids, ["call_1_1", "call_1_2"]);
            Turn::text("ok")
        }),
    ]);
    Agent::new(model.clone()).tools([add()]).run("go").await.unwrap();
    model.finish();
}

#[test]
fn what_is_wrong_with_an_agent_is_said_when_it_is_built() {
    let error =
        Agent::new(ScriptedModel::new([])).name("sums").tools([add(), add()]).build().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the agent `sums` cannot be built: two tools are named `add`"),
        "{error}"
    );
    for (name, says) in [
        ("mystery", "name its provider too"),
        ("nobody/some-model", "no adapter is called `nobody`"),
        ("openai/", "name its provider too"),
    ] {
        let error = Agent::new(name).build().unwrap_err();
        assert!(matches!(error, Error::ModelRef(_)) && error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_host_adds_a_provider_of_its_own() {
    let runtime = test_runtime()
        .model_provider("house", |model: &ModelRef, _| {
            Ok(Arc::new(ScriptedModel::new([Turn::text(format!("I am {}.", model.model()))])))
        })
        .build();
    let result = Agent::new("house:small").runtime(&runtime).run("Who are you?").await.unwrap();
    assert_eq!(result.output(), "I am small.");
    assert_eq!(result.run_id().as_str(), "run-1");
}

#[tokio::test]
async fn bare_names_of_models_lead_to_a_provider_of_the_host() {
    let named = |provider: &'static str| {
        move |model: &ModelRef, _: &_| -> Result<Arc<dyn agentflow::Model>, String> {
            Ok(Arc::new(ScriptedModel::new([Turn::text(format!("{provider} {}", model.model()))])))
        }
    };
    let runtime = test_runtime()
        .model_provider("house", named("house"))
        .model_provider("lab", named("lab"))
        .model_prefixes("house", ["house-", "gpt-house"])
        .model_prefixes("lab", ["house-lab-"])
        .build();
    for (name, expected) in [
        ("house-small", "house house-small"),
        ("house-lab-small", "lab house-lab-small"),
        // A registered name takes precedence over the prefixes of known providers.
        ("gpt-house", "house gpt-house"),
        ("lab/house-small", "lab house-small"),
    ] {
        let result = Agent::new(name).runtime(&runtime).run("Who are you?").await.unwrap();
        assert_eq!(result.output(), expected, "{name}");
    }
    let error = Agent::new("houses-small").runtime(&runtime).build().unwrap_err();
    assert!(error.to_string().contains("name its provider too"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn many_runs_of_one_agent_at_once() {
    let model = ScriptedModel::from_fn(|request| {
        let text =
            request.messages.last().map(|message| message.text().into_owned()).unwrap_or_default();
        Turn::text(text).after(Duration::from_millis(10))
    });
    let agent = Agent::new(model);
    let runs = (0..100).map(|n| {
        let agent = agent.clone();
        tokio::spawn(async move { agent.run(n.to_string()).await.unwrap().into_output() })
    });
    let answers = futures_util::future::join_all(runs).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), n.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_runs_of_three_steps_at_once() {
    const RUNS: usize = 10_000;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let model = ScriptedModel::from_fn(|request| {
        let results =
            request.messages.messages().iter().flat_map(|message| message.results()).count();
        let turn = if results < 2 { Turn::call("count", json!({})) } else { Turn::text("3") };
        turn.after(Duration::from_millis(10))
    });
    let count = {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        tool("count", move |_, _| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(json!(1))
            }
        })
    };
    let agent = Agent::new(model).tools([count]);
    let began = tokio::time::Instant::now();
    let runs = (0..RUNS).map(|_| {
        let agent = agent.clone();
        tokio::spawn(async move { agent.run("Count.").await.unwrap().steps() })
    });
    let steps = futures_util::future::join_all(runs).await;
    assert!(steps.into_iter().all(|steps| steps.unwrap() == 3));
    // The runs were concurrent: together they took as long as one, and many of their tool calls
    // overlapped.
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert!(most.load(Ordering::SeqCst) > RUNS / 10, "{most:?}");
}

/// Builds a turn with this many calls of `add`.
fn many(calls: usize) -> Turn {
    Turn::calls((0..calls).map(|at| ("add", json!({"a": at, "b": 1}))))
}

#[tokio::test(start_paused = true)]
async fn a_turn_has_a_limit_of_calls_and_the_model_sees_it() {
    for (limits, made) in
        [(Limits::default(), 128), (Limits::default().max_tool_calls_per_turn(3), 3)]
    {
        let model = ScriptedModel::new([many(130), Turn::text("done")]);
        let result =
            Agent::new(model.clone()).settings(limits).tools([add()]).run("go").await.unwrap();
        let results: Vec<_> = result.conversation().messages()[2].results().cloned().collect();
        assert_eq!(results.len(), 130);
        assert!(results[..made].iter().all(|result| result.status == ToolStatus::Success));
        assert!(results[made..].iter().all(|result| result.status == ToolStatus::TooManyCalls));
        assert_eq!(
            results[129].output,
            format!(
                "you asked for 130 tool calls at once, and only the first {made} were made; this one was not, so make it \
                 in a later turn if you still need it"
            )
        );
        assert!(result.conversation().open_calls().is_empty());
        check_events(&result.events()).unwrap();
        model.finish();
    }
}

/// Middleware without any effect. It selects the code path with hooks.
struct Nothing;

impl Middleware for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
}

#[tokio::test]
async fn many_calls_that_never_wait_leave_room_for_a_cancellation() {
    for middleware in [false, true] {
        let (made, began) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
        let (counted, notify) = (Arc::clone(&made), Arc::clone(&began));
        let add = tool("add", move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            notify.notify_one();
            async { Ok(json!(1)) }
        });
        let limits = Limits::default().max_tool_calls_per_turn(1000);
        let mut agent = Agent::new(ScriptedModel::new([many(1000)])).settings(limits).tools([add]);
        if middleware {
            agent = agent.with(Nothing);
        }
        let run = agent.start("go").unwrap();
        within("`began`", began.notified()).await;
        run.cancel("enough").await.unwrap();
        assert!(matches!(run.result().await.unwrap_err(), Error::Cancelled { .. }));
        let made = made.load(Ordering::Relaxed);
        assert!(made < 1000, "{made}");
    }
}
