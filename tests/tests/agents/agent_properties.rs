//! Property tests of the agent loop. With random answers and cancellations the journal stays
//! well-formed, every prefix of it is a conversation that a provider accepts, limits are enforced,
//! and equal runs have equal journals.

use std::time::Duration;

use agentflow::agent::Limits;
use agentflow::event::EventKind;
use agentflow::message::{Conversation, Role};
use agentflow::model::{ModelErrorKind, ModelRequest};
use agentflow::serde_json::{Value, json};
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::{Agent, Error, Event};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, trace};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Says {
    Calls(Vec<Call>),
    Text,
    Nothing,
    Fails,
    BreaksOff,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Good,
    BadArguments,
    NoJson,
    Unknown,
    Panics,
    TooSlow,
    Slow(u64),
    TooLarge,
    Unauthorized,
    SameId,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => Just(Call::Good),
        1 => Just(Call::BadArguments),
        1 => Just(Call::NoJson),
        1 => Just(Call::Unknown),
        1 => Just(Call::Panics),
        1 => Just(Call::TooSlow),
        2 => (0..40_u64).prop_map(Call::Slow),
        1 => Just(Call::TooLarge),
        1 => Just(Call::Unauthorized),
        1 => Just(Call::SameId),
    ]
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![
        8 => prop::collection::vec(call(), 1..5).prop_map(Says::Calls),
        1 => Just(Says::Text),
        1 => Just(Says::Nothing),
        1 => Just(Says::Fails),
        1 => Just(Says::BreaksOff),
    ]
}

#[derive(Clone, Debug)]
struct Case {
    script: Vec<Says>,
    max_steps: u32,
    max_llm_calls: u32,
    max_tool_failures: u32,
    max_parallel_tools: usize,
    timeout: u64,
    cancel_after: Option<u64>,
    streamed: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let bounds = (1..7_u32, 1..7_u32, 1..6_u32, 1..4_usize);
    let times = (prop_oneof![Just(60_000_u64), 1..150_u64], prop::option::of(0..150_u64));
    (prop::collection::vec(says(), 0..7), bounds, times, any::<bool>()).prop_map(
        |(script, bounds, times, streamed)| {
            let (max_steps, max_llm_calls, max_tool_failures, max_parallel_tools) = bounds;
            let (timeout, cancel_after) = times;
            Case {
                script,
                max_steps,
                max_llm_calls,
                max_tool_failures,
                max_parallel_tools,
                timeout,
                cancel_after,
                streamed,
            }
        },
    )
}

/// Builds a tool whose behavior is selected by its argument.
fn tool(name: &'static str, policy: ToolPolicy) -> FnTool {
    let schema = json!({"type": "object", "properties": {"do": {"type": "string"}, "ms": {"type": "integer"}}});
    FnTool::dynamic(
        ToolDefinition::new(name, "Does it.", schema),
        |_, arguments: Value| async move {
            tokio::time::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0))).await;
            match arguments["do"].as_str() {
                Some("panic") => panic!("as it was told"),
                Some("much") => Ok("x".repeat(1000)),
                Some("well") => Ok("well".to_owned()),
                _ => Err("`do` is not one of the things that can be done"),
            }
        },
    )
    .policy(policy)
}

fn turn(says: &Says) -> Turn {
    let calls = match says {
        Says::Calls(calls) => calls,
        Says::Text => return Turn::pieces(["do", "ne"]).paced(Duration::from_millis(1)),
        Says::Nothing => return Turn::text(""),
        Says::Fails => return Turn::fails(ModelErrorKind::BadRequest),
        Says::BreaksOff => return Turn::text("half").then_cut(),
    };
    let turn = calls.iter().fold(Turn::calls::<&str, Value>([]), |turn, call| match call {
        Call::Good => turn.and_call("act", json!({"do": "well"})),
        Call::BadArguments => turn.and_call("act", json!({"do": 7})),
        Call::NoJson => turn.and_call("act", json!("not an object")),
        Call::Unknown => turn.and_call("atc", json!({})),
        Call::Panics => turn.and_call("act", json!({"do": "panic"})),
        Call::TooSlow => turn.and_call("act", json!({"do": "well", "ms": 1000})),
        Call::Slow(ms) => turn.and_call("act", json!({"do": "well", "ms": ms})),
        Call::TooLarge => turn.and_call("act", json!({"do": "much"})),
        Call::Unauthorized => turn.and_call("guarded", json!({"do": "well"})),
        Call::SameId => turn.and_call("act", json!({"do": "well"})).id("the same"),
    });
    turn.after(Duration::from_millis(5))
}

/// Runs a case. Returns its journal and its outcome.
fn run(case: &Case) -> (Vec<Event>, Result<String, Error>) {
    let script = case.script.clone();
    let model = ScriptedModel::from_fn(move |request: &ModelRequest| {
        let turns = request
            .messages
            .messages()
            .iter()
            .filter(|message| message.role() == Role::Assistant)
            .count();
        script.get(turns).map_or_else(|| Turn::text("done"), turn)
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let limits = Limits::default()
            .max_steps(case.max_steps)
            .max_llm_calls(case.max_llm_calls)
            .max_tool_failures(case.max_tool_failures)
            .max_parallel_tools(case.max_parallel_tools)
            .timeout(Duration::from_millis(case.timeout));
        let policy = || ToolPolicy::default().timeout(Duration::from_millis(100)).max_output(500);
        let agent = Agent::new(model.clone())
            .instruct("Do it.")
            .tools([tool("act", policy()), tool("guarded", policy().scopes(["admin"]))])
            .settings(limits)
            .runtime(&test_runtime().build());
        let handle = agent.start("Go on.").unwrap();
        let listener = case.streamed.then(|| handle.events());
        if let Some(after) = case.cancel_after {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let _ = handle.cancel("enough").await;
        }
        let result = handle.result().await.map(|result| result.output().clone());
        drop(listener);
        assert_eq!(model.in_flight(), 0, "a model call outlived its run");
        (handle.recorded(), result)
    })
}

/// Checks that the results follow each assistant message with calls, in the order of the calls.
fn results_in_order(conversation: &Conversation) -> Result<(), TestCaseError> {
    let messages = conversation.messages();
    for (at, message) in messages.iter().enumerate() {
        let calls: Vec<&str> = message.tool_calls().map(|call| call.id.as_str()).collect();
        if !calls.is_empty() {
            let next = messages
                .get(at + 1)
                .map(|next| next.results().map(|result| result.call_id.as_str()).collect());
            prop_assert_eq!(Some(calls), next);
        }
    }
    Ok(())
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.name() == name).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_journal_is_sound(case in case()) {
        let (events, result) = run(&case);
        prop_assert!(check_events(&events).is_ok(), "{}\n{:#?}", check_events(&events).unwrap_err(), trace(&events));
        for end in 0..=events.len() {
            let conversation = Conversation::from_events(&events[..end]);
            prop_assert_eq!(conversation.open_calls(), Vec::<&str>::new());
            results_in_order(&conversation)?;
        }

        let last = &events[events.len() - 1].kind;
        match &result {
            Ok(output) => {
                let EventKind::RunCompleted(completed) = last else { panic!("{last:?}") };
                prop_assert_eq!(completed.agent().unwrap().message.text(), output.as_str());
            }
            Err(Error::Cancelled { .. }) => prop_assert_eq!(last.name(), "run.cancelled"),
            Err(error) => {
                let EventKind::RunFailed { error: recorded } = last else { panic!("{last:?}") };
                prop_assert_eq!(&recorded.kind, &error.kind());
            }
        }

        let limit = case.max_steps.min(case.max_llm_calls) as usize;
        prop_assert!(count(&events, "model.started") <= limit);
        let (mut open, mut failures) = (0_usize, 0);
        for event in &events {
            match &event.kind {
                EventKind::ToolStarted { .. } => open += 1,
                EventKind::ToolCompleted { .. } | EventKind::ToolFailed { .. } => open -= 1,
                EventKind::ModelStarted { .. } => {
                    prop_assert!(failures < case.max_tool_failures, "the model was called after too many failures");
                }
                _ => {}
            }
            prop_assert!(open <= case.max_parallel_tools);
            if let EventKind::RunStep { .. } = &event.kind {
                let so_far = Conversation::from_events(&events[..usize::try_from(event.seq).unwrap()]);
                let results = so_far.last().into_iter().flat_map(|message| message.results());
                for result in results {
                    failures = if result.status.is_success() { 0 } else { failures + 1 };
                }
            }
        }
        let took = events[events.len() - 1].time.since(events[0].time);
        // A timer of tokio may fire one millisecond late.
        prop_assert!(took <= Duration::from_millis(case.timeout + 1), "{took:?}");
    }

    #[test]
    fn the_same_run_gives_the_same_journal(case in case()) {
        let ((first, _), (second, _)) = (run(&case), run(&case));
        prop_assert_eq!(first, second);
    }
}
