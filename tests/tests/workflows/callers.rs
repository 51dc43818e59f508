//! A tool's policy and middleware apply equally to every caller: an agent, a workflow step that
//! makes the call among others, a node that is the call, a registry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::middleware::{Flow, Middleware, ToolStep};
use agentflow::prelude::*;
use agentflow::run::RunHandle;
use agentflow::store::{MemoryStore, RunFilter, Store};
use agentflow::tool::FnTool;
use agentflow::value::NodeValue;
use agentflow::{Error, Registry, Result, async_trait};
use agentflow_testing::{CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime};
use serde::Serialize;
use serde_json::{Value, json};

/// Pays; it fails for 13 cents.
#[tool]
async fn pay(log: Inject<Paid>, cents: u64) -> Result<u64, String> {
    log.0.lock().unwrap().push(cents);
    if cents == 13 { Err("13 brings bad luck".to_owned()) } else { Ok(cents) }
}

#[derive(Default)]
struct Paid(Mutex<Vec<u64>>);

/// Looks into the books.
#[tool(effects = "read", scopes(books))]
async fn ledger(cents: u64) -> Result<u64, String> {
    Ok(cents)
}

/// Answers late.
#[tool(effects = "read", timeout = "5s")]
async fn slow(cents: u64) -> Result<u64, String> {
    tokio::time::sleep(Duration::from_secs(1000 * cents)).await;
    Ok(cents)
}

/// Returns more than its output limit.
#[tool(effects = "read", max_output = 2)]
async fn huge(cents: u64) -> Result<u64, String> {
    Ok(cents * 1000)
}

/// Panics.
#[tool(effects = "read")]
async fn panics(cents: u64) -> Result<u64, String> {
    assert!(cents == 0, "too many cents");
    Ok(cents)
}

#[workflow(name = "pay-in-step")]
async fn pay_in_step(cx: &Context, cents: u64) -> Result<(u64, bool), Failed> {
    let out = (pay(cx.inject()?, cents).await?, true);
    Ok(out)
}

#[workflow(name = "pay-as-node")]
async fn pay_as_node(cx: &Context, cents: u64) -> Result<u64, Failed> {
    let out = pay(cx.inject()?, cents).await?;
    Ok(out)
}

#[workflow(name = "others-in-step")]
async fn others_in_step(tool: String, cents: u64) -> Result<u64, Failed> {
    let out = match tool.as_str() {
        "ledger" => (ledger(cents).await?, true).0,
        "slow" => (slow(cents).await?, true).0,
        "huge" => (huge(cents).await?, true).0,
        _ => (panics(cents).await?, true).0,
    };
    Ok(out)
}

#[workflow(name = "others-as-node")]
async fn others_as_node(tool: String, cents: u64) -> Result<u64, Failed> {
    let out = match tool.as_str() {
        "ledger" => ledger(cents).await?,
        "slow" => slow(cents).await?,
        "huge" => huge(cents).await?,
        _ => panics(cents).await?,
    };
    Ok(out)
}

/// An error type with a conversion from all others.
#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Failed {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

type Notes = Arc<Mutex<Vec<String>>>;

/// Behavior of the inner of two hooks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Nothing,
    Denies,
    Answers,
    ChangesArguments,
    BreaksArguments,
    InventsArguments,
    ChangesAnswer,
    FailsAnswer,
    Recovers,
    FailsBefore,
    FailsAfter,
}

/// Middleware that records each call, without the names of steps.
struct Hook {
    name: &'static str,
    does: Does,
    notes: Notes,
}

impl Hook {
    fn note(&self, what: &str, seen: &str) {
        self.notes.lock().unwrap().push(format!("{}.{what} {seen}", self.name));
    }
}

#[async_trait]
impl Middleware for Hook {
    fn name(&self) -> &str {
        self.name
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        self.note("before", &step.arguments);
        assert_eq!(step.definition().unwrap().name, step.call().name.as_str().into());
        match self.does {
            Does::Denies => {
                return Ok(Flow::Return(step.result(ToolStatus::Unauthorized, "not on a Friday")));
            }
            Does::Answers => return Ok(Flow::Return(step.result(ToolStatus::Success, "99"))),
            Does::ChangesArguments => step.arguments = json!({"cents": 8}).to_string(),
            Does::BreaksArguments => step.arguments = json!({"cents": "many"}).to_string(),
            Does::InventsArguments => step.arguments = json!({"cents": 7, "euros": 1}).to_string(),
            Does::FailsBefore => {
                return Err(Error::Lost { reason: "the hook is broken".to_owned() });
            }
            _ => {}
        }
        Ok(Flow::Continue)
    }

    async fn after_tool(&self, _: &ToolStep, result: &mut ToolResult) -> Result<()> {
        self.note("after", &result.output);
        match self.does {
            Does::ChangesAnswer => result.output = "70".to_owned(),
            Does::FailsAnswer => {
                (result.status, result.output) = (ToolStatus::Error, "not good enough".to_owned());
            }
            Does::FailsAfter => {
                return Err(Error::Lost { reason: "the hook is broken".to_owned() });
            }
            _ => {}
        }
        Ok(())
    }

    async fn on_tool_error(
        &self,
        step: &ToolStep,
        result: &ToolResult,
    ) -> Result<Flow<ToolResult>> {
        self.note("error", result.status.as_str());
        Ok(match self.does {
            Does::Recovers => Flow::Return(step.result(ToolStatus::Success, "1")),
            _ => Flow::Continue,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    Agent,
    Step,
    Node,
    Registry,
}

/// Effects of a call: the tool's output or the kind of the failure, the calls seen by middleware,
/// the calls that reached the tool, and the recorded events.
#[derive(Debug, PartialEq)]
struct Came {
    outcome: Result<Value, String>,
    notes: Vec<String>,
    paid: Vec<u64>,
    recorded: Vec<String>,
}

async fn call(caller: Caller, tool: &str, cents: u64, does: Option<Does>) -> Came {
    let (notes, paid, store) = (Notes::default(), Arc::new(Paid::default()), MemoryStore::new());
    let mut runtime = test_runtime().resource(Arc::clone(&paid)).store(store.clone());
    for (name, does) in [("outer", does.map(|_| Does::Nothing)), ("inner", does)] {
        if let Some(does) = does {
            runtime = runtime.with(Hook { name, does, notes: Arc::clone(&notes) });
        }
    }
    let runtime = runtime.build();
    let outcome = match (caller, tool) {
        (Caller::Agent, _) => agent(&runtime, tool, cents).await,
        (Caller::Registry, _) => registry(&runtime, tool, cents).await,
        (Caller::Step, "pay") => ended(runtime.start(pay_in_step::workflow(), cents).await)
            .await
            .map(|all| all[0].clone()),
        (Caller::Node, "pay") => ended(runtime.start(pay_as_node::workflow(), cents).await).await,
        (Caller::Step, _) => {
            ended(runtime.start(others_in_step::workflow(), (tool.to_owned(), cents)).await).await
        }
        (Caller::Node, _) => {
            ended(runtime.start(others_as_node::workflow(), (tool.to_owned(), cents)).await).await
        }
    };
    let notes = notes.lock().unwrap().clone();
    let paid = paid.0.lock().unwrap().clone();
    Came { outcome, notes, paid, recorded: recorded(&store).await }
}

async fn agent(runtime: &Runtime, tool: &str, cents: u64) -> Result<Value, String> {
    let (tool, asked) = (tool.to_owned(), AtomicBool::new(false));
    let model = ScriptedModel::from_fn(move |_| match asked.swap(true, Ordering::Relaxed) {
        false => Turn::call(&tool, json!({"cents": cents})),
        true => Turn::text("done"),
    });
    let tools = tools![pay, ledger, slow, huge, panics];
    let ended = Agent::new(model).tools(tools).runtime(runtime).run("go").await;
    let ended = ended.map_err(|error| error.kind().to_string())?;
    let result = ended.events().into_iter().find_map(|event| match event.kind {
        EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
            Some(result)
        }
        _ => None,
    });
    as_outcome(&result.unwrap())
}

async fn registry(runtime: &Runtime, tool: &str, cents: u64) -> Result<Value, String> {
    let call = ToolCall::new("call-1", tool, json!({"cents": cents}).to_string());
    let mut registry = Registry::new();
    tools![pay, ledger, slow, huge, panics]
        .into_iter()
        .try_for_each(|tool| registry.register(tool))
        .unwrap();
    as_outcome(&registry.invoke(&runtime.context(), &call, &[]).await)
}

fn as_outcome(result: &ToolResult) -> Result<Value, String> {
    match result.status {
        ToolStatus::Success => Ok(result.output.parse().unwrap()),
        status => Err(status.as_str().to_owned()),
    }
}

async fn ended<Out>(started: Result<RunHandle<Out>>) -> Result<Value, String>
where
    Out: NodeValue + Serialize,
{
    let ended = started.unwrap().result().await.map_err(|error| error.kind().to_string())?;
    Ok(serde_json::to_value(ended).unwrap())
}

/// Returns the recorded tool calls without their paths.
async fn recorded(store: &MemoryStore) -> Vec<String> {
    let mut lines = Vec::new();
    for run in store.list(RunFilter::default()).await.unwrap() {
        let events = store.read(&run.run_id, 0, usize::MAX).await.unwrap();
        check_events(&events).unwrap();
        lines.extend(events.into_iter().filter_map(|event| match event.kind {
            EventKind::ToolStarted { call, effects, idempotent, given, .. } => {
                let given = given.map(|given| format!(" of {given}")).unwrap_or_default();
                Some(format!("{} {}{given} {effects:?} {idempotent}", call.name, call.arguments))
            }
            EventKind::ToolCompleted { answered_by, .. } => {
                Some(format!("completed {answered_by:?}"))
            }
            EventKind::ToolFailed { result, answered_by, .. } => {
                Some(format!("failed {} {answered_by:?}", result.status.as_str()))
            }
            _ => None,
        }));
    }
    lines
}

/// A tool, the behavior of the inner hook, and the expected effects: the outcome, the calls seen by
/// middleware, and the payments.
type Row = (&'static str, Does, Result<Value, String>, Vec<String>, Vec<u64>);

#[tokio::test(start_paused = true)]
async fn a_policy_does_not_depend_on_who_calls() {
    let err = |kind: &str| Err::<Value, _>(kind.to_owned());
    let pass = ["outer.before {\"cents\":7}", "inner.before {\"cents\":7}"];
    let with = |rest: &[&str]| pass.iter().chain(rest).map(ToString::to_string).collect::<Vec<_>>();
    let table: Vec<Row> = vec![
        ("pay", Does::Nothing, Ok(json!(7)), with(&["inner.after 7", "outer.after 7"]), vec![7]),
        ("pay", Does::Denies, err("unauthorized"), with(&["outer.error unauthorized"]), vec![]),
        ("pay", Does::Answers, Ok(json!(99)), with(&["outer.after 99"]), vec![]),
        (
            "pay",
            Does::ChangesArguments,
            Ok(json!(8)),
            with(&["inner.after 8", "outer.after 8"]),
            vec![8],
        ),
        (
            "pay",
            Does::BreaksArguments,
            err("invalid_arguments"),
            with(&["inner.error invalid_arguments", "outer.error invalid_arguments"]),
            vec![],
        ),
        (
            "pay",
            Does::InventsArguments,
            err("invalid_arguments"),
            with(&["inner.error invalid_arguments", "outer.error invalid_arguments"]),
            vec![],
        ),
        (
            "pay",
            Does::ChangesAnswer,
            Ok(json!(70)),
            with(&["inner.after 7", "outer.after 70"]),
            vec![7],
        ),
        (
            "pay",
            Does::FailsAnswer,
            err("error"),
            with(&["inner.after 7", "outer.error error"]),
            vec![7],
        ),
        ("ledger", Does::Nothing, err("unauthorized"), vec![], vec![]),
        ("ledger", Does::Answers, err("unauthorized"), vec![], vec![]),
        (
            "slow",
            Does::Nothing,
            err("timeout"),
            with(&["inner.error timeout", "outer.error timeout"]),
            vec![],
        ),
        (
            "slow",
            Does::Recovers,
            Ok(json!(1)),
            with(&["inner.error timeout", "outer.after 1"]),
            vec![],
        ),
        (
            "huge",
            Does::Nothing,
            err("output_too_large"),
            with(&["inner.error output_too_large", "outer.error output_too_large"]),
            vec![],
        ),
        (
            "panics",
            Does::Nothing,
            err("panicked"),
            with(&["inner.error panicked", "outer.error panicked"]),
            vec![],
        ),
        (
            "panics",
            Does::Recovers,
            Ok(json!(1)),
            with(&["inner.error panicked", "outer.after 1"]),
            vec![],
        ),
    ];
    for (tool, does, outcome, notes, paid) in table {
        let by_agent = call(Caller::Agent, tool, 7, Some(does)).await;
        let expected = Came { outcome, notes, paid, recorded: by_agent.recorded.clone() };
        assert_eq!(by_agent, expected, "{tool} {does:?}");
        for caller in [Caller::Step, Caller::Node] {
            let came = call(caller, tool, 7, Some(does)).await;
            assert_eq!(came, expected, "{caller:?} {tool} {does:?}");
        }
        let came = call(Caller::Registry, tool, 7, Some(does)).await;
        assert_eq!(came, Came { recorded: Vec::new(), ..expected }, "{tool} {does:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_hook_ends_whoever_calls() {
    for does in [Does::FailsBefore, Does::FailsAfter] {
        for caller in [Caller::Agent, Caller::Step, Caller::Node] {
            let came = call(caller, "pay", 7, Some(does)).await;
            assert_eq!(came.outcome, Err("lost".to_owned()), "{caller:?} {does:?}");
            assert_eq!(came.paid.len(), usize::from(does == Does::FailsAfter), "{caller:?}");
        }
        assert_eq!(
            call(Caller::Registry, "pay", 7, Some(does)).await.outcome,
            Err("error".to_owned())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_own_failure_of_a_tool_can_be_replaced() {
    for caller in [Caller::Agent, Caller::Step, Caller::Node, Caller::Registry] {
        let came = call(caller, "pay", 13, Some(Does::Nothing)).await;
        assert_eq!(came.outcome, Err("error".to_owned()), "{caller:?}");
        let came = call(caller, "pay", 13, Some(Does::Recovers)).await;
        assert_eq!((came.outcome, came.paid), (Ok(json!(1)), vec![13]), "{caller:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_hooks_the_limits_are_the_same() {
    for (tool, kind) in [
        ("ledger", "unauthorized"),
        ("slow", "timeout"),
        ("huge", "output_too_large"),
        ("panics", "panicked"),
    ] {
        for caller in [Caller::Agent, Caller::Step, Caller::Node, Caller::Registry] {
            assert_eq!(
                call(caller, tool, 7, None).await.outcome,
                Err(kind.to_owned()),
                "{caller:?} {tool}"
            );
        }
    }
    // A node that is a single call is itself the record of the call, unless middleware applies.
    assert_eq!(call(Caller::Node, "pay", 7, None).await.recorded, Vec::<String>::new());
}

/// Posts a letter. It is not idempotent.
#[tool]
async fn post(cx: &Context, log: Inject<EffectLog>, to: String) -> Result<String, String> {
    log.note(cx);
    Ok(format!("posted {to}"))
}

#[workflow(name = "posts")]
async fn posts(cx: &Context, to: String) -> Result<(Vec<String>, Vec<String>), Failed> {
    let alone = post(cx, cx.inject()?, to).await?;
    let both = (alone, post(cx, cx.inject()?, "bob".to_owned()).await?);
    let all =
        map!(vec!["x".to_owned(), "y".to_owned()], |name| post(cx, cx.inject()?, name)).await?;
    for name in all.clone() {
        post(cx, cx.inject()?, name).await?;
    }
    let first = vec![both.0, both.1];
    Ok((first, all))
}

/// Middleware that changes the receiver of every letter and marks every answer.
struct Redirects;

#[async_trait]
impl Middleware for Redirects {
    fn name(&self) -> &str {
        "redirects"
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        let mut arguments: Value = step.arguments.parse().unwrap();
        let to = arguments["to"].as_str().unwrap().to_uppercase();
        arguments["to"] = json!(to);
        step.arguments = arguments.to_string();
        Ok(Flow::Continue)
    }

    async fn after_tool(&self, _: &ToolStep, result: &mut ToolResult) -> Result<()> {
        result.output = result.output.replace("posted", "seen and posted");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_hooks_have_changed_are_known_again_after_a_crash() {
    let effects = EffectLog::new();
    let resource = effects.clone();
    let report = CrashTest::new(&posts::workflow(), || "ada".to_owned())
        .runtime(move |runtime| runtime.resource(resource.clone()).with(Redirects))
        .effects(&effects)
        .run()
        .await;
    assert!(report.crashes() > 30, "{report:?}");
    assert!(effects.counts().values().all(|count| *count == 1), "{effects:?}");
}

/// Finds a person.
#[tool(effects = "read")]
async fn find(to: String) -> Result<String, String> {
    Ok(format!("posted {to}"))
}

/// Never posts.
#[tool]
async fn lose(to: String) -> Result<String, String> {
    Err(format!("{to} is lost"))
}

async fn never() -> Result<String, Failed> {
    std::future::pending().await
}

#[workflow(name = "posts-one")]
async fn posts_one(cx: &Context, to: String) -> Result<String, Failed> {
    let one = post(cx, cx.inject()?, to).await?;
    Ok(one)
}

async fn post_two(cx: &Context) -> Result<String, Failed> {
    let one = posts_one(cx, "lee".to_owned()).await?;
    Ok(format!("{one}, {}", posts_one(cx, "mia".to_owned()).await?))
}

#[workflow(name = "posts-in-forms")]
async fn posts_in_forms(cx: &Context, to: String) -> Result<Vec<String>, Failed> {
    let raced = race!(find(to), never()).await?;
    let fallen =
        fallback!(lose("bob".to_owned()), post(cx, cx.inject()?, "kim".to_owned())).await?;
    let nested = posts_one(cx, "pia".to_owned()).await?;
    let helped = post_two(cx).await?;
    Ok(vec![raced, fallen, nested, helped])
}

#[tokio::test(start_paused = true)]
async fn hooks_stand_around_the_calls_in_forms_and_inner_workflows_also_after_a_crash() {
    let (lines, ended) = {
        let (store, log) = (MemoryStore::new(), EffectLog::new());
        let runtime = test_runtime().resource(log).with(Redirects).store(store.clone()).build();
        let ended = runtime
            .start(posts_in_forms::workflow(), "ada".to_owned())
            .await
            .unwrap()
            .result()
            .await;
        (recorded(&store).await, ended)
    };
    let posted =
        ["ADA", "KIM", "PIA", "LEE, seen and posted MIA"].map(|to| format!("seen and posted {to}"));
    assert_eq!(ended.unwrap(), posted, "{lines:#?}");
    let effects = EffectLog::new();
    let resource = effects.clone();
    let report = CrashTest::new(&posts_in_forms::workflow(), || "ada".to_owned())
        .runtime(move |runtime| runtime.resource(resource.clone()).with(Redirects))
        .effects(&effects)
        .run()
        .await;
    assert!(report.crashes() > 30, "{report:?}");
    assert_eq!(effects.counts().len(), 4, "{effects:?}");
    assert!(effects.counts().values().all(|count| *count == 1), "{effects:?}");
}

/// Takes a value that cannot be serialized.
#[tool(effects = "read")]
async fn take(order: Order) -> u32 {
    order.number
}

#[derive(agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Order {
    number: u32,
}

#[workflow(name = "takes")]
async fn takes(number: u64) -> Result<u32> {
    let taken = take(Order { number: u32::try_from(number).unwrap_or_default() }).await;
    Ok(taken)
}

/// Middleware without hooks for tools.
struct Elsewhere;

#[async_trait]
impl Middleware for Elsewhere {
    fn name(&self) -> &str {
        "elsewhere"
    }

    fn sees_tools(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn arguments_without_a_json_form_are_no_way_around_a_hook() {
    let hook = Hook { name: "hook", does: Does::Nothing, notes: Notes::default() };
    let (_, ended) = crate::calls::run_of(&takes::workflow(), |runtime| runtime.with(hook)).await;
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("an argument of `take` has no JSON form; derive `serde::Serialize`"),
        "{error}"
    );
    let (lines, ended) =
        crate::calls::run_of(&takes::workflow(), |runtime| runtime.with(Elsewhere)).await;
    assert_eq!(ended.unwrap(), 7);
    assert!(!lines.iter().any(|line| line.contains("tool#")), "{lines:#?}");
}

/// Middleware that returns a text instead of a number.
struct Babbles;

#[async_trait]
impl Middleware for Babbles {
    fn name(&self) -> &str {
        "babbles"
    }

    async fn after_tool(&self, _: &ToolStep, result: &mut ToolResult) -> Result<()> {
        result.output = "\"a lot\"".to_owned();
        Ok(())
    }
}

#[tokio::test]
async fn an_answer_that_the_function_could_not_return_fails_the_step() {
    let describe = |runtime: agentflow::runtime::RuntimeBuilder| {
        runtime.resource(Paid::default()).with(Babbles)
    };
    let (lines, ended) = crate::calls::run_of(&pay_in_step::workflow(), describe).await;
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("middleware answered the call of `pay`, and its answer cannot be read"),
        "{error}"
    );
    assert!(lines.iter().any(|line| line.starts_with("out/tool#1.pay failed error")), "{lines:#?}");
}

/// Half of a number.
#[tool(effects = "none")]
fn half(cents: u64) -> u64 {
    cents / 2
}

#[workflow(name = "halves")]
async fn halves(cents: u64) -> Result<(u64, u64)> {
    let alone = half(cents);
    let both = now(half(cents) + half(alone)).await?;
    Ok((alone, both))
}

fn half_of(cents: u64) -> u64 {
    half(cents)
}

#[workflow(name = "halves-as-value")]
async fn halves_as_value(cents: u64) -> Result<u64> {
    let half = half_of(cents);
    let same = now(half).await?;
    Ok(same)
}

/// Reads a book that requires a scope.
#[tool(effects = "read", scopes(books))]
fn book(cents: u64) -> u64 {
    cents
}

fn book_of(cents: u64) -> u64 {
    book(cents)
}

#[workflow(name = "books-as-value")]
async fn books_as_value(cents: u64) -> Result<u64> {
    let booked = book_of(cents);
    let same = now(booked).await?;
    Ok(same)
}

#[tokio::test]
async fn hooks_and_scopes_hold_for_the_calls_of_a_value() {
    let (_, ended) =
        crate::calls::run_of(&halves_as_value::workflow(), |runtime| runtime.with(Elsewhere)).await;
    assert_eq!(ended.unwrap(), 3);
    let notes = Notes::default();
    let hook = Hook { name: "hook", does: Does::Nothing, notes: Arc::clone(&notes) };
    let (_, ended) =
        crate::calls::run_of(&halves_as_value::workflow(), |runtime| runtime.with(hook)).await;
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("`half` is watched by this runtime's middleware, and a function calls it"),
        "{error}"
    );
    assert!(
        error.ends_with(
            "call `half` itself in the `let`, or make that function `async` and await it"
        ),
        "{error}"
    );
    let (_, ended) = crate::calls::run_of(&books_as_value::workflow(), |runtime| runtime).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("`book` needs a scope, and a function calls it"), "{error}");
}

async fn now<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Middleware that waits before each call.
struct Waits;

#[async_trait]
impl Middleware for Waits {
    fn name(&self) -> &str {
        "waits"
    }

    async fn before_tool(&self, _: &mut ToolStep) -> Result<Flow<ToolResult>> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(Flow::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_tool_has_hooks_that_do_not_wait() {
    let notes = Notes::default();
    let hook = Hook { name: "hook", does: Does::Nothing, notes: Arc::clone(&notes) };
    let (_, ended) = crate::calls::run_of(&halves::workflow(), |runtime| runtime.with(hook)).await;
    assert_eq!(ended.unwrap(), (3, 4));
    assert_eq!(notes.lock().unwrap().len(), 6, "{notes:?}");
    let hook = Hook { name: "hook", does: Does::ChangesArguments, notes };
    let (_, ended) = crate::calls::run_of(&halves::workflow(), |runtime| runtime.with(hook)).await;
    assert_eq!(ended.unwrap(), (4, 8));
    let (_, ended) = crate::calls::run_of(&halves::workflow(), |runtime| runtime.with(Waits)).await;
    let error = ended.unwrap_err().to_string();
    assert!(
        error.contains("middleware waits around the call of `half`, and `half` is not `async`"),
        "{error}"
    );
}

/// Calls a function and a closure through a registry, as a dispatcher does.
async fn dispatch(cx: &Context, cents: u64) -> Result<String> {
    let mut own = Registry::new();
    let third = FnTool::new("third", "A third of a number.", |_, of: Third| async move {
        Ok::<_, String>(of.cents / 3)
    });
    own.register(third).unwrap();
    tools![half].into_iter().try_for_each(|tool| own.register(tool)).unwrap();
    let arguments = json!({"cents": cents}).to_string();
    let half = own.invoke(cx, &ToolCall::new("1", "half", arguments.clone()), &[]).await;
    let third = own.invoke(cx, &ToolCall::new("2", "third", arguments), &[]).await;
    Ok(format!("{} {}", half.output, third.output))
}

#[derive(serde::Deserialize, agentflow::schemars::JsonSchema)]
#[schemars(crate = "agentflow::schemars")]
struct Third {
    cents: u64,
}

#[workflow(name = "dispatches")]
async fn dispatches(cx: &Context, cents: u64) -> Result<String> {
    let out = dispatch(cx, cents).await?;
    Ok(out)
}

#[tokio::test]
async fn a_registry_in_a_step_calls_each_hook_once() {
    let notes = Notes::default();
    let hook = Hook { name: "hook", does: Does::Nothing, notes: Arc::clone(&notes) };
    let (lines, ended) =
        crate::calls::run_of(&dispatches::workflow(), |runtime| runtime.with(hook)).await;
    assert_eq!(ended.unwrap(), "3 2");
    let seen =
        ["hook.before {\"cents\":7}", "hook.after 3", "hook.before {\"cents\":7}", "hook.after 2"];
    assert_eq!(*notes.lock().unwrap(), seen);
    assert!(lines.iter().any(|line| line == "out/tool#1.half completed 3"), "{lines:#?}");
}
