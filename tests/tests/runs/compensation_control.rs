//! Tests the cancellation of compensating runs: a paused run, a process that lacks the tools, a run
//! that is compensating, a compensation that hangs. Also tests the reports afterwards.

use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::{ControlErrorKind, FailureKind};
use agentflow::event::{Event, EventKind, PauseReason, RunId};
use agentflow::prelude::*;
use agentflow::runtime::{Changes, RuntimeBuilder, UndoStatus};
use agentflow::store::{MemoryStore, RunFilter, RunStatus, Store};
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::{Error, Workflow};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};
use serde_json::{Value, json};

use crate::deeds::{Boxed, Deeds};

/// Lends something.
#[tool(compensate = undo_return)]
async fn undo_lend(deeds: Inject<Deeds>, what: String) -> String {
    deeds.note(format!("lend {what}"));
    what
}

/// Takes it back. Some things never come back, fail or panic.
#[tool(idempotent)]
async fn undo_return(deeds: Inject<Deeds>, what: String, output: String) -> Result<(), String> {
    deeds.note(format!("return {output}"));
    match what.as_str() {
        "for ever" => std::future::pending().await,
        "a bomb" => panic!("boom"),
        "a promise" => Err("it was broken".to_owned()),
        _ => Ok(()),
    }
}

/// Sends something.
#[tool(compensate = undo_call_back)]
async fn undo_send(deeds: Inject<Deeds>, what: String) -> String {
    deeds.note(format!("send {what}"));
    what
}

/// Calls it back, which must not be done twice.
#[tool]
async fn undo_call_back(deeds: Inject<Deeds>, what: String, output: String) -> bool {
    deeds.note(format!("call back {output}"));
    what == output
}

#[workflow(name = "undo-rests")]
async fn undo_rests(cx: &Context, first: String, second: String) -> Boxed<String> {
    let lent = undo_lend(cx.inject()?, first).await;
    let sent = undo_send(cx.inject()?, second).await;
    let open: String = gate!("more?", (lent, sent)).await?;
    let more = undo_lend(cx.inject()?, open).await;
    Ok(more)
}

#[workflow(name = "undo-fails")]
async fn undo_fails(cx: &Context, first: String, second: String) -> Boxed<String> {
    let lent = undo_lend(cx.inject()?, first).await;
    let also = undo_lend(cx.inject()?, second).await;
    let over = undo_over(lent, also).await?;
    Ok(over)
}

async fn undo_over(_: String, _: String) -> Result<String, String> {
    Err("it is over".to_owned())
}

fn runtime(store: &MemoryStore, deeds: &Deeds) -> Runtime {
    test_runtime().store(store.clone()).resource(deeds.clone()).build()
}

/// Returns a run that waits for an approval and that no process executes.
async fn at_rest(store: &MemoryStore, deeds: &Deeds, first: &str, second: &str) -> RunId {
    let runtime = runtime(store, deeds);
    let run = runtime
        .start(undo_rests::workflow(), (first.to_owned(), second.to_owned()))
        .compensate()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.drain(Duration::ZERO).await;
    run.run_id().clone()
}

#[tokio::test(start_paused = true)]
async fn a_resting_run_is_undone_before_it_is_cancelled() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let id = at_rest(&store, &deeds, "a pen", "a letter").await;
    deeds.take();
    let second = runtime(&store, &deeds);
    second.run(&id).cancel("enough").await.unwrap();
    assert_eq!(
        deeds.take(),
        ["call back a letter", "return a pen"],
        "when the request has its outcome, all is undone"
    );
    let record = second.run(&id).record().await.unwrap();
    assert_eq!((record.status, record.error.as_deref()), (RunStatus::Cancelled, Some("enough")));
    let events = second.run(&id).journal().await.unwrap();
    check_events(&events).unwrap();
    let report = second.run(&id).inspect().await.unwrap();
    let undone: Vec<_> = report
        .compensation
        .unwrap()
        .calls
        .into_iter()
        .map(|call| (call.path, call.status))
        .collect();
    let expected = [
        ("sent/tool#1.undo_send", UndoStatus::Undone),
        ("lent/tool#1.undo_lend", UndoStatus::Undone),
    ];
    assert_eq!(undone, expected.map(|(path, status)| (path.to_owned(), status)));
    let again = second.run(&id).cancel("more than enough").await.unwrap_err().to_string();
    assert_eq!(again, "the run cannot be cancelled: it is over (cancelled)");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_did_nothing_to_undo_is_cancelled_at_once_by_any_program() {
    let store = MemoryStore::new();
    let waits = Workflow::<(u32,), u32>::build("undo-waits", ["n"], |b, (n,)| {
        b.gate("open", (n,), |(n,)| Ok::<_, Error>((format!("{n}?"), n)))
    })
    .unwrap();
    let first = test_runtime().store(store.clone()).build();
    let run = first.start(waits, 5).compensate().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.drain(Duration::ZERO).await;
    // This program has neither the workflow nor its tools.
    let other = test_runtime().store(store.clone()).build();
    other.run(run.run_id()).cancel("enough").await.unwrap();
    check_events(&other.run(run.run_id()).journal().await.unwrap()).unwrap();
    assert_eq!(other.run(run.run_id()).record().await.unwrap().status, RunStatus::Cancelled);
}

/// Adds dynamic tools, which one program has and another one lacks.
fn with_tools(builder: RuntimeBuilder, deeds: &Deeds) -> RuntimeBuilder {
    let tool = |name: &'static str, policy: ToolPolicy| {
        let deeds = deeds.clone();
        let definition =
            ToolDefinition::new(name, "Does it.", json!({"type": "object"})).policy(policy);
        FnTool::dynamic(definition, move |_, given: Value| {
            deeds.note(format!("{name} {}", given["n"]));
            async move { Ok::<_, String>(json!(5)) }
        })
    };
    builder
        .tools(tool("undo-take", ToolPolicy::default().compensate("undo-untake")))
        .tools(tool("undo-untake", ToolPolicy::default().idempotent()))
}

#[tokio::test(start_paused = true)]
async fn what_a_program_cannot_undo_is_owed_and_the_next_one_does_only_that() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let build = |with: bool| {
        let builder = test_runtime().store(store.clone());
        if with { with_tools(builder, &deeds) } else { builder }
    };
    let asking = ScriptedModel::from_fn(|request| {
        match request.messages.messages().iter().any(|one| one.results().next().is_some()) {
            false => Turn::call("undo-take", json!({"n": 3})),
            true => Turn::text("never").after(Duration::from_secs(3600)),
        }
    });
    let first = build(true).build();
    let agent = |runtime: &Runtime| {
        let tools = FnTool::dynamic(
            ToolDefinition::new("undo-take", "Does it.", json!({"type": "object"}))
                .policy(ToolPolicy::default().compensate("undo-untake")),
            {
                let deeds = deeds.clone();
                move |_, given: Value| {
                    deeds.note(format!("undo-take {}", given["n"]));
                    async move { Ok::<_, String>(json!(5)) }
                }
            },
        );
        Agent::new(asking.clone()).name("undo-taker").tools(tools).runtime(runtime)
    };
    let run = agent(&first).start(RunRequest::new("Take it.").compensate()).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = run.run_id().clone();
    first.drain(Duration::ZERO).await;
    assert_eq!(deeds.take(), ["undo-take 3"]);

    // This program has neither the agent nor the tool.
    let without = build(false).build();
    let owed = without.run(&id).cancel("enough").await.unwrap_err();
    let Error::CompensationOwed { calls, problem, .. } = &owed else { panic!("{owed}") };
    assert_eq!(calls.iter().map(ToString::to_string).collect::<Vec<_>>(), ["tool#1.undo-take"]);
    assert!(problem.contains("undo-taker"), "{problem}");
    let record = &without.runs().list(RunFilter::unfinished()).await.unwrap()[0];
    assert_eq!((record.status, record.error.as_deref()), (RunStatus::Compensating, Some("enough")));
    let report = without.run(&id).inspect().await.unwrap();
    let owed = report.compensation.unwrap();
    assert_eq!(owed.reason, "enough");
    assert_eq!(
        (owed.calls[0].status, &*owed.calls[0].tool, &*owed.calls[0].by),
        (UndoStatus::Owed, "undo-take", "undo-untake")
    );
    for refused in [without.run(&id).pause().await, without.run(&id).retry("model#2", "ada").await]
    {
        assert_eq!(refused.unwrap_err().kind(), FailureKind::WrongState);
    }
    let left = without.recover().await.unwrap().left;
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(deeds.take().is_empty());

    // This program has both the tools and the agent.
    let third = build(true).agent(&agent(&first)).build();
    let resumed = third.recover().await.unwrap().resumed;
    let error = resumed[0].result().await.unwrap_err();
    assert_eq!(error.to_string(), "the run was cancelled: enough");
    assert_eq!(deeds.take(), ["undo-untake 3"]);
    check_events(&third.run(&id).journal().await.unwrap()).unwrap();
}

/// Returns the workflow in a version. Another program has another version or none.
fn changing(version: u32) -> Workflow<(String,), String> {
    Workflow::build("undo-changes", ["what"], |b, (what,)| {
        let lent = b.node(
            if version == 1 { "lent" } else { "given" },
            (what,),
            |cx: Context, (what,): (String,)| async move {
                Ok::<_, Error>(undo_lend(cx.inject()?, what).await)
            },
        );
        b.gate("open", (lent,), |(lent,): (String,)| Ok::<_, Error>(("go on?".to_owned(), lent)))
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_has_changed_or_is_gone_is_not_needed_to_undo() {
    for version in [Some(1), Some(2), None] {
        let (store, deeds) = (MemoryStore::new(), Deeds::default());
        let first = runtime(&store, &deeds);
        let run = first.start(changing(1), "a pen".to_owned()).compensate().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        first.drain(Duration::ZERO).await;
        let second =
            test_runtime().store(store.clone()).resource(deeds.clone()).changes(Changes::Refuse);
        let second = match version {
            Some(version) => second.workflow(&changing(version)),
            None => second,
        };
        let second = second.build();
        second.run(run.run_id()).cancel("enough").await.unwrap();
        assert_eq!(deeds.take(), ["lend a pen", "return a pen"], "{version:?}");
        check_events(&second.run(run.run_id()).journal().await.unwrap()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_resource_leaves_the_undoing_to_a_program_that_has_it() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let id = at_rest(&store, &deeds, "a pen", "a letter").await;
    deeds.take();
    let without = test_runtime().store(store.clone()).build();
    let owed = without.run(&id).cancel("enough").await.unwrap_err();
    assert_eq!(owed.kind(), FailureKind::CompensationOwed);
    assert!(owed.to_string().contains("Deeds"), "{owed}");
    let answered = without.run(&id).approve("open", Approval::granted(), "ada").await.unwrap_err();
    assert_eq!(
        answered.to_string(),
        "the run cannot be answered: it is undoing what it had done, and ends after that"
    );
    let report = without.run(&id).inspect().await.unwrap();
    assert!(report.nodes.iter().all(|node| node.question.is_none()), "{report:?}");
    let open = report.nodes.iter().find(|node| node.name == "open").unwrap();
    assert_eq!(open.on_resume, "is not run again: the run only undoes what it had done");
    let second = runtime(&store, &deeds);
    second.run(&id).cancel("again").await.unwrap();
    assert_eq!(deeds.take(), ["call back a letter", "return a pen"]);
}

/// Returns the events of a run that was cancelled while paused, and the position at which the
/// compensation starts.
async fn cancelled_at_rest(deeds: &Deeds) -> (RunId, Vec<Event>, usize) {
    let store = MemoryStore::new();
    let id = at_rest(&store, deeds, "a pen", "a letter").await;
    let runtime = runtime(&store, deeds);
    runtime.run(&id).cancel("enough").await.unwrap();
    let events = runtime.run(&id).journal().await.unwrap();
    let from = events
        .iter()
        .position(|event| matches!(event.kind, EventKind::RunCompensating { .. }))
        .unwrap();
    (id, events, from)
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_at_any_write_of_the_undoing_leaves_the_rest_to_the_next() {
    let deeds = Deeds::default();
    let (id, events, from) = cancelled_at_rest(&deeds).await;
    deeds.take();
    for kept in from + 1..events.len() {
        let events = &events[..kept];
        let store = MemoryStore::new();
        store.create(&id, events.to_vec()).await.unwrap();
        let runtime = runtime(&store, &deeds);
        let resumed = runtime.recover().await.unwrap().resumed;
        let error = resumed[0].result().await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Cancelled);
        check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
        let is = |event: &Event, kind: &str, tool: &str| {
            event.kind.name() == kind
                && event.path.to_string().ends_with(&format!("undo#1/tool#1.{tool}"))
        };
        let has = |kind: &str, tool: &str| events.iter().any(|event| is(event, kind, tool));
        let mut expected = Vec::new();
        if !has("tool.started", "undo_call_back") {
            expected.push("call back a letter");
        }
        if !has("tool.completed", "undo_return") {
            expected.push("return a pen");
        }
        assert_eq!(deeds.take(), expected, "after {kept} events");
        let stopped =
            has("tool.started", "undo_call_back") && !has("tool.completed", "undo_call_back");
        let report = runtime.run(&id).inspect().await.unwrap().compensation.unwrap();
        let status = if stopped { UndoStatus::NotUndone } else { UndoStatus::Undone };
        assert_eq!(
            report.calls.iter().map(|call| call.status).collect::<Vec<_>>(),
            [status, UndoStatus::Undone]
        );
        assert_eq!(
            error.to_string().contains("stopped in the middle of `undo_call_back`"),
            stopped,
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_names_what_is_not_undone() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let id = at_rest(&store, &deeds, "a promise", "a letter").await;
    let second = runtime(&store, &deeds);
    second.run(&id).cancel("enough").await.unwrap();
    let said = "enough; these calls are not undone: `lent/tool#1.undo_lend` (it was broken)";
    let error = second.run(&id).attach().await.unwrap().result().await.unwrap_err();
    assert_eq!(error.to_string(), format!("the run was cancelled: {said}"));
    let Error::Compensation { left, .. } = error else { panic!("{error}") };
    assert_eq!(
        (left[0].path.to_string().as_str(), &*left[0].tool),
        ("lent/tool#1.undo_lend", "undo_lend")
    );
    assert_eq!(second.run(&id).record().await.unwrap().error.as_deref(), Some(said));
    let json = serde_json::to_value(second.run(&id).inspect().await.unwrap()).unwrap();
    let call = json!({"path": "lent/tool#1.undo_lend", "tool": "undo_lend", "by": "undo_return", "status": "not_undone",
        "problem": "it was broken"});
    assert_eq!(json["compensation"]["calls"][1], call);

    // The handle of a run in this process reports the same.
    let given = ("a promise".to_owned(), "a letter".to_owned());
    let run = second
        .start(undo_rests::workflow(), given)
        .run_id(RunId::new("here"))
        .compensate()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.cancel("enough").await.unwrap();
    assert_eq!(
        run.result().await.unwrap_err().to_string(),
        format!("the run was cancelled: {said}")
    );
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_run_whose_compensation_hangs_have_an_outcome() {
    let (store, deeds) = (MemoryStore::new(), Deeds::default());
    let runtime = runtime(&store, &deeds);
    let given = ("a pen".to_owned(), "for ever".to_owned());
    let run = runtime.start(undo_fails::workflow(), given).compensate().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(runtime.run(run.run_id()).record().await.unwrap().status, RunStatus::Compensating);
    let report = runtime.run(run.run_id()).inspect().await.unwrap().compensation.unwrap();
    assert_eq!(
        report.calls.iter().map(|call| call.status).collect::<Vec<_>>(),
        [UndoStatus::Running, UndoStatus::Owed]
    );
    let began = tokio::time::Instant::now();
    for (what, refused) in [
        ("paused", run.pause().await),
        ("unpaused", run.unpause().await),
        ("retried", run.retry("over", "ada").await),
        ("answered", run.approve("over", Approval::granted(), "ada").await),
        ("cancelled", run.cancel("enough").await),
        ("paused", runtime.run(run.run_id()).pause().await),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ControlErrorKind::WrongState.as_str(), "{what}: {refused}");
    }
    run.cancel("really").await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    let error = run.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `over` failed: it is over; these calls are not undone: `also/tool#1.undo_lend` (`undo_return` was given \
         up, since the run was cancelled while it was running; whether it is undone is unknown: find out)"
    );
    assert_eq!(deeds.take(), ["lend a pen", "lend for ever", "return for ever", "return a pen"]);
    check_events(&run.recorded()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_cancellation_gives_up_what_hangs_and_both_have_their_outcome() {
    let deeds = Deeds::default();
    let runtime = test_runtime().resource(deeds.clone()).build();
    let given = ("for ever".to_owned(), "a letter".to_owned());
    let run = runtime.start(undo_rests::workflow(), given).compensate().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let first = tokio::spawn({
        let run = run.clone();
        async move { run.cancel("enough").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!first.is_finished());
    run.cancel("really").await.unwrap();
    first.await.unwrap().unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Cancelled);
    assert!(
        error
            .to_string()
            .starts_with("the run was cancelled: enough; these calls are not undone: `lent/"),
        "{error}"
    );
    check_events(&run.recorded()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_compensation_without_a_time_out_has_five_minutes() {
    let deeds = Deeds::default();
    let runtime = test_runtime().resource(deeds.clone()).build();
    let given = ("a bomb".to_owned(), "for ever".to_owned());
    let run = runtime.start(undo_fails::workflow(), given).compensate().await.unwrap();
    let began = tokio::time::Instant::now();
    let error = run.result().await.unwrap_err().to_string();
    assert_eq!(began.elapsed(), Duration::from_secs(300));
    let unknown = "whether it is undone is unknown: find out";
    assert!(
        error.contains(&format!("(`undo_return` did not answer within 300s; {unknown})")),
        "{error}"
    );
    assert!(error.contains(&format!("(`undo_return` panicked: boom; {unknown})")), "{error}");
    assert!(!error.contains("other arguments"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn draining_ends_a_run_in_memory_whose_compensations_hang() {
    let deeds = Deeds::default();
    let runtime = test_runtime().resource(deeds.clone()).build();
    let given = ("for ever".to_owned(), "for ever".to_owned());
    let run = runtime.start(undo_fails::workflow(), given).compensate().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    runtime.drain(Duration::from_secs(5)).await;
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("`also/tool#1.undo_lend` (`undo_return` was given up"), "{error}");
    assert!(error.contains("`lent/tool#1.undo_lend` ("), "{error}");
    check_events(&run.recorded()).unwrap();
}

/// Gives something back by lending another thing, which is not undone in turn.
#[workflow(name = "undo-swaps")]
async fn undo_swaps(cx: &Context, what: String, output: String) -> Boxed<String> {
    let instead = undo_lend(cx.inject()?, format!("instead of {output}")).await;
    let sent = undo_send(cx.inject()?, format!("{what} and {instead}")).await;
    Ok(sent)
}

#[tokio::test(start_paused = true)]
async fn what_a_compensation_does_is_no_deed_of_the_run() {
    let deeds = Deeds::default();
    let store = MemoryStore::new();
    let build = |store: &MemoryStore| {
        let undo = undo_swaps::workflow();
        test_runtime().store(store.clone()).resource(deeds.clone()).tools(undo).build()
    };
    let take = |deeds: &Deeds| {
        let deeds = deeds.clone();
        let parameters = json!({"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]});
        let definition = ToolDefinition::new("undo-hold", "Holds it.", parameters);
        FnTool::dynamic(
            definition.policy(ToolPolicy::default().compensate("undo-swaps")),
            move |_, given: Value| {
                deeds.note(format!("hold {}", given["what"]));
                async { Ok::<_, String>(json!("held")) }
            },
        )
    };
    let model = ScriptedModel::new([
        Turn::call("undo-hold", json!({"what": "a door"})),
        Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
    ]);
    let first = build(&store);
    let agent = |runtime: &Runtime| {
        Agent::new(model.clone()).name("undo-holder").tools(take(&deeds)).runtime(runtime)
    };
    let run = agent(&first).start(RunRequest::new("Hold.").compensate()).unwrap();
    assert!(run.result().await.is_err());
    let expected = ["lend instead of held", "send a door and instead of held"];
    assert_eq!(deeds.take(), [&["hold \"a door\""], &expected[..]].concat());
    let events = first.run(run.run_id()).journal().await.unwrap();
    check_events(&events).unwrap();

    // A process ends at each write of the compensation. The next process must not undo the
    // compensation itself.
    let from = events
        .iter()
        .position(|event| matches!(event.kind, EventKind::RunCompensating { .. }))
        .unwrap();
    for kept in from + 1..events.len() {
        let store = MemoryStore::new();
        store.create(run.run_id(), events[..kept].to_vec()).await.unwrap();
        let runtime = build(&store);
        let resumed = agent(&runtime).resume(run.run_id()).await.unwrap();
        if tokio::time::timeout(Duration::from_secs(1), resumed.result()).await.is_err() {
            // The interrupted step of the compensation must not be repeated without an operator's
            // decision.
            let record = runtime.run(run.run_id()).record().await.unwrap();
            assert_eq!(
                (record.status, record.pause_reason),
                (RunStatus::Compensating, Some(PauseReason::Interrupted))
            );
            let nodes = ["instead", "sent"]
                .map(|node| format!("tool#1.undo-hold/undo#1/tool#1.undo-swaps/{node}"));
            let mut retried = false;
            for node in nodes {
                retried |= runtime.run(run.run_id()).retry(&node, "ada").await.is_ok();
            }
            assert!(retried, "after {kept} events");
        }
        assert!(resumed.result().await.is_err());
        let after = runtime.run(run.run_id()).journal().await.unwrap();
        check_events(&after).unwrap();
        let undone: Vec<String> = deeds.take();
        assert!(
            undone.iter().all(|deed| expected.contains(&deed.as_str())),
            "after {kept} events: {undone:?}"
        );
        assert!(
            after.iter().all(|event| event.path.to_string().matches("undo#1").count() <= 1),
            "after {kept} events"
        );
    }
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_undoes_since_its_time_is_over_takes_its_time_for_that() {
    let deeds = Deeds::default();
    let runtime = test_runtime().resource(deeds.clone()).build();
    let run = runtime
        .start(undo_lingers::workflow(), "a pen".to_owned())
        .compensate()
        .timeout(Duration::from_secs(5));
    let run = run.await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Timeout);
    assert_eq!(
        deeds.take(),
        ["lend a pen", "lend a pen again", "return a pen again", "return a pen"]
    );
    check_events(&run.recorded()).unwrap();
}

#[workflow(name = "undo-lingers")]
async fn undo_lingers(cx: &Context, what: String) -> Boxed<Vec<String>> {
    let each =
        map!(vec![what.clone(), format!("{what} again")], |what| undo_lend_then_linger(cx, what))
            .await?;
    Ok(each)
}

async fn undo_lend_then_linger(cx: &Context, what: String) -> Boxed<String> {
    let lent = undo_lend(cx.inject()?, what).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    Ok(lent)
}

/// Gives it back when a person agrees.
#[workflow(name = "undo-asks")]
async fn undo_asks(cx: &Context, what: String, output: String) -> Boxed<String> {
    let agreed: String = gate!("give it back?", what).await?;
    let sent = undo_send(cx.inject()?, format!("{agreed} {output}")).await;
    Ok(sent)
}

#[tokio::test(start_paused = true)]
async fn a_compensation_may_ask_a_person_also_one_who_answers_after_a_restart() {
    for restarts in [false, true] {
        let (store, deeds) = (MemoryStore::new(), Deeds::default());
        let build = || {
            let parameters = json!({"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]});
            let definition = ToolDefinition::new("undo-keep", "Keeps it.", parameters);
            let keep = FnTool::dynamic(
                definition.policy(ToolPolicy::default().compensate("undo-asks")),
                |_, _: Value| async { Ok::<_, String>(json!("kept")) },
            );
            test_runtime()
                .store(store.clone())
                .resource(deeds.clone())
                .tools(undo_asks::workflow())
                .tools(keep)
                .build()
        };
        let model = ScriptedModel::new([
            Turn::call("undo-keep", json!({"what": "a key"})),
            Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
        ]);
        let mut runtime = build();
        let tools = runtime.catalogue().tool("undo-keep").await.unwrap();
        let agent = Agent::new(model).name("undo-keeper").tools(tools);
        let mut run =
            agent.clone().runtime(&runtime).start(RunRequest::new("Keep.").compensate()).unwrap();
        let id = run.run_id().clone();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let record = runtime.run(&id).record().await.unwrap();
        assert_eq!((record.status, record.pause_reason.is_some()), (RunStatus::Compensating, true));
        let node = "tool#1.undo-keep/undo#1/tool#1.undo-asks/agreed";
        if restarts {
            runtime.drain(Duration::ZERO).await;
            runtime = build();
            run = agent.clone().runtime(&runtime).resume(&id).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        runtime.run(&id).answer(node, "yes", "ada").await.unwrap();
        assert!(run.result().await.is_err());
        assert_eq!(deeds.take(), ["send yes kept"], "restarts: {restarts}");
        check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
        assert_eq!(runtime.run(&id).record().await.unwrap().status, RunStatus::Failed);
    }
}
