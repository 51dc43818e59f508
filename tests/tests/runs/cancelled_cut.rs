//! Tests processes that end while they record a cancellation. The store then has the ends of some
//! steps but not the end of the run.

use std::collections::BTreeSet;
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::ToolStatus;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, Store};
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy, ToolRef};
use agentflow::{Agent, Context, Event, RunId, Runtime, Workflow};
use agentflow_testing::{EffectLog, ScriptedModel, Turn, check_events, trace};

/// Duration of a step that is cancelled halfway.
const LONG: Duration = Duration::from_secs(9);

fn tool(effects: &EffectLog, name: &'static str, policy: ToolPolicy) -> ToolRef {
    let effects = effects.clone();
    let definition = ToolDefinition::new(name, "Does it.", json!({"type": "object"}));
    FnTool::dynamic(definition, move |cx: Context, _: Value| {
        let effects = effects.clone();
        async move {
            effects.note(&cx);
            tokio::time::sleep(LONG).await;
            Ok::<_, String>("done")
        }
    })
    .policy(policy)
    .into()
}

fn pays(effects: &EffectLog) -> ToolRef {
    tool(effects, "pay", ToolPolicy::default().effects(Effects::Write))
}

/// Returns a workflow with an agent. One of the agent's tools is idempotent and runs another agent,
/// whose tool calls are also in progress.
fn flow(effects: &EffectLog) -> Workflow<(u32,), String> {
    let says = |calls: &'static [&'static str]| {
        ScriptedModel::from_fn(move |request| {
            match request
                .messages
                .messages()
                .iter()
                .any(|message| message.tool_calls().next().is_some())
            {
                true => Turn::text("It is done."),
                false => Turn::calls(calls.iter().map(|tool| (*tool, json!({})))),
            }
        })
    };
    let reads = ToolPolicy::default().effects(Effects::None);
    let helper = Agent::new(says(&["look", "pay"]))
        .name("helper")
        .tools([tool(effects, "look", reads.clone()), pays(effects)]);
    let ask = FnTool::dynamic(
        ToolDefinition::new("ask", "Asks.", json!({"type": "object"})),
        move |cx: Context, _: Value| {
            let helper = helper.clone();
            async move {
                helper
                    .run_in(&cx, RunRequest::from("Help."))
                    .await
                    .map(|answer| answer.into_output())
            }
        },
    )
    .policy(ToolPolicy::default().effects(Effects::Write).idempotent());
    let part = Workflow::<(u32,), u32>::build("part", ["n"], |b, (n,)| {
        b.node("wait", (n,), |_, (n,)| async move {
            tokio::time::sleep(LONG).await;
            Ok::<_, String>(n)
        })
    })
    .unwrap();
    let plan = FnTool::dynamic(
        ToolDefinition::new("plan", "Plans.", json!({"type": "object"})),
        move |cx: Context, _: Value| {
            let part = part.clone();
            async move { part.run_in(&cx, 1).await }
        },
    )
    .policy(ToolPolicy::default().effects(Effects::Write).idempotent());
    let tools: [ToolRef; 4] =
        [ask.into(), pays(effects), tool(effects, "look", reads), plan.into()];
    let chief = Agent::new(says(&["ask", "pay", "look", "plan"])).name("chief").tools(tools);
    Workflow::build("office", ["n"], move |b, (n,)| {
        let said = b.node("chief", (n,), move |cx, (n,)| {
            let chief = chief.clone();
            async move {
                chief
                    .run_in(&cx, RunRequest::from(format!("{n}.")))
                    .await
                    .map(|answer| answer.into_output())
            }
        });
        let waits = b.node("beside", (n,), |_, (n,)| async move {
            tokio::time::sleep(LONG).await;
            Ok::<_, String>(n + 1)
        });
        b.value("end", (said, waits), |(said, n)| Ok::<_, String>(format!("{said} {n}")))
    })
    .unwrap()
}

async fn cancelled(id: &RunId) -> Vec<Event> {
    let flow = flow(&EffectLog::new());
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let run = runtime.start(flow, 1).run_id(id.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.cancel("enough").await.unwrap();
    run.recorded()
}

#[tokio::test(start_paused = true)]
async fn the_run_continues_and_what_is_done_stays_done() {
    let id = RunId::new("run-1");
    let events = cancelled(&id).await;
    let first_end =
        events.iter().position(|event| matches!(event.kind, EventKind::ToolFailed { .. })).unwrap();
    // Steps within a node end on their own and are recorded. All events from the end of the first
    // node on are recorded in a single write.
    let of_node = |event: &Event| {
        matches!(event.kind, EventKind::NodeFailed { .. })
            && event.path.parent().is_some_and(|of| of.is_root())
    };
    let last = events.iter().position(of_node).unwrap();
    assert!(last - first_end >= 8, "{:#?}", trace(&events));
    let mut begun_again = BTreeSet::new();
    for cut in first_end..=last {
        let (effects, store) = (EffectLog::new(), MemoryStore::new());
        store.create(&id, events[..cut].to_vec()).await.unwrap();
        let flow = flow(&effects);
        let runtime = Runtime::builder().workflow(&flow).store(store).build();
        let run = runtime.run(&id).resume_as(&flow).await.unwrap();
        let output = run.result().await;
        let all = run.recorded();
        let text = || format!("cut after {cut}: {:#?}", trace(&all));
        assert_eq!(output.ok().as_deref(), Some("It is done. 2"), "{}", text());
        assert_eq!(check_events(&all), Ok(()), "{}", text());
        for (at, event) in all.iter().enumerate() {
            let EventKind::ToolStarted { idempotent, effects, .. } = &event.kind else { continue };
            let of_call =
                |before: &&Event| before.path == event.path && before.name().starts_with("tool.");
            let before = all[..at].iter().rev().find(of_call);
            let Some(before) = before.filter(|_| at >= cut) else { continue };
            let name = event.path.to_string();
            assert!(*idempotent || *effects == Effects::None, "`{name}` began again; {}", text());
            match &before.kind {
                EventKind::ToolStarted { .. } => {}
                EventKind::ToolFailed { result, .. } => {
                    let stopped =
                        matches!(result.status, ToolStatus::Cancelled | ToolStatus::Interrupted);
                    assert!(stopped, "`{name}` was done and began again; {}", text());
                }
                kind => panic!("`{name}` began again after {kind:?}; {}", text()),
            }
            begun_again.insert(name);
        }
        // A call that must not be repeated started once, in the process that ended.
        let counts = effects.counts();
        assert!(counts.keys().all(|path| !path.ends_with("pay")), "{counts:?}; {}", text());
    }
    let begun_again: Vec<&str> = begun_again.iter().map(String::as_str).collect();
    assert_eq!(
        begun_again,
        [
            "chief/tool#1.ask",
            "chief/tool#1.ask/tool#1.look",
            "chief/tool#1.look",
            "chief/tool#1.plan"
        ]
    );
}
