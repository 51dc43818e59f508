//! Calls within a step. The policy of a tool, agent or workflow applies however the call is
//! wrapped, each call has its own record, and a recorded call is not repeated when its step runs
//! again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::store::{MemoryStore, SqliteStore, Store};
use agentflow::{Error, Result, RunId};
use agentflow_testing::{
    CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime, trace, within,
};
use futures_util::StreamExt;

/// Sends a letter. It is not idempotent.
#[tool]
async fn mail(cx: &Context, log: Inject<EffectLog>, to: String) -> Result<String, String> {
    log.note(cx);
    if to == "nobody" { Err(format!("{to} does not exist")) } else { Ok(format!("mailed {to}")) }
}

/// Charges a customer.
#[tool(idempotent)]
async fn charge(cx: &Context, keys: Inject<Keys>, cents: u64) -> u64 {
    keys.0.lock().unwrap().push(cx.idempotency_key());
    cents
}

#[derive(Default)]
struct Keys(Mutex<Vec<String>>);

/// Refunds a customer, which a person must agree to.
#[tool(approve)]
async fn refund(cx: &Context, log: Inject<EffectLog>, cents: u64) -> Result<u64, String> {
    log.note(cx);
    Ok(cents)
}

/// Looks something up.
#[tool(effects = "read")]
async fn look(looks: Inject<AtomicU32>, what: String) -> String {
    format!("{what}{}", looks.fetch_add(1, Ordering::Relaxed))
}

/// Never answers.
#[tool(timeout = "5s", effects = "read")]
async fn stall() -> u32 {
    std::future::pending().await
}

/// Fails twice.
#[tool(retry = 2)]
async fn flaky(cx: &Context, looks: Inject<AtomicU32>) -> Result<u32, String> {
    match looks.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Err("not yet".to_owned()),
        _ => Ok(cx.attempt()),
    }
}

fn failed(problem: String) -> Error {
    Error::Lost { reason: problem }
}

fn mailing(cx: &Context) -> Result<Inject<EffectLog>> {
    cx.inject()
}

/// Mails everyone in a loop, within a plain function.
async fn mail_all(cx: &Context, names: Vec<String>) -> Result<Vec<String>> {
    let mut done = Vec::new();
    for name in names {
        done.push(mail(cx, mailing(cx)?, name).await.map_err(failed)?);
    }
    Ok(done)
}

fn names() -> Vec<String> {
    ["ada", "bob", "eve"].map(str::to_owned).into()
}

#[workflow]
async fn letters(cx: &Context, names: Vec<String>) -> Result<Vec<String>> {
    let sent = mail_all(cx, names).await?;
    Ok(sent)
}

#[tokio::test(start_paused = true)]
async fn calls_in_a_helper_have_records_of_their_own_and_none_is_made_twice() {
    let effects = EffectLog::new();
    let resource = effects.clone();
    let report = CrashTest::new(&letters::workflow(), names)
        .runtime(move |runtime| runtime.resource(resource.clone()))
        .effects(&effects)
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 10, "{report:?}");
    let counts = effects.counts();
    let paths: Vec<&String> = counts.keys().collect();
    assert_eq!(paths, ["sent/tool#1.mail", "sent/tool#2.mail", "sent/tool#3.mail"]);
}

type Wrapped = ((u64, u64), (u64, String), Vec<String>);

#[workflow]
async fn wrapped(cx: &Context, cents: u64) -> Result<Wrapped> {
    let paid = (1, refund(cx, cx.inject()?, cents).await.map_err(failed)?);
    let both = tokio::try_join!(
        async { refund(cx, cx.inject()?, cents + 1).await.map_err(failed) },
        async { mail(cx, cx.inject()?, "ada".to_owned()).await.map_err(failed) },
    )?;
    let rest = mail_all(cx, vec!["bob".to_owned(), "eve".to_owned()]).await.unwrap_or_default();
    Ok((paid, both, rest))
}

#[tokio::test(start_paused = true)]
async fn no_way_to_write_a_call_loses_an_approval() {
    let effects = EffectLog::new();
    let resource = effects.clone();
    let report = CrashTest::new(&wrapped::workflow(), || 7)
        .runtime(move |runtime| runtime.resource(resource.clone()))
        .effects(&effects)
        .answer("paid/tool#1.refund", Approval::granted())
        .answer("both/tool#1.refund", Approval::granted())
        .run()
        .await;
    assert!(report.crashes() > 20, "{report:?}");
    let counts = effects.counts();
    let calls = [
        "both/tool#1.mail",
        "both/tool#1.refund",
        "paid/tool#1.refund",
        "rest/tool#1.mail",
        "rest/tool#2.mail",
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), calls.map(|path| (path.to_owned(), 1)));
}

#[workflow(name = "asked-refunds")]
async fn refunds(cx: &Context, cents: u64) -> Result<((u64, u64), u64)> {
    let first = (1, refund(cx, cx.inject()?, cents).await.map_err(failed)?);
    let all = (first, refund(cx, cx.inject()?, cents + 1).await.map_err(failed)?);
    Ok(all)
}

/// Waits until a call has asked.
async fn asked<T>(handle: &agentflow::run::RunHandle<T>, path: &str) {
    let mut events = handle.events();
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::ApprovalRequested(_)) && event.path.to_string() == path {
            return;
        }
    }
    panic!("`{path}` does not ask");
}

#[tokio::test]
async fn an_operator_answers_a_call_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let run = RunId::new("run-1");
    let effects = EffectLog::new();
    {
        let store = SqliteStore::open(&file).await.unwrap();
        let runtime = Runtime::builder().resource(effects.clone()).store(store).build();
        let handle = runtime.start(refunds::workflow(), 7).run_id(run.clone()).await.unwrap();
        asked(&handle, "first/tool#1.refund").await;
        handle.abandon();
    }
    assert_eq!(effects.counts().len(), 0);
    let store = SqliteStore::open(&file).await.unwrap();
    let runtime = Runtime::builder().resource(effects.clone()).store(store.clone()).build();
    let record = store.record(&run).await.unwrap().unwrap();
    assert_eq!(record.status.to_string(), "paused");
    runtime.run(&run).approve("first/tool#1.refund", Approval::granted(), "ada").await.unwrap();
    let handle = runtime.run(&run).resume().await.unwrap();
    asked(&handle, "all/tool#1.refund").await;
    runtime
        .run(&run)
        .approve("all/tool#1.refund", Approval::denied("too much"), "ada")
        .await
        .unwrap();
    let error = handle.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `all` failed: approval of `all/tool#1.refund` denied: too much"
    );
    assert_eq!(error.kind(), "denied");
    assert_eq!(effects.count("first/tool#1.refund"), 1);
    assert_eq!(effects.count("all/tool#1.refund"), 0);
}

/// Returns the steps of a run in memory as lines, and its result.
pub(crate) async fn run_of<Out: agentflow::value::NodeValue>(
    workflow: &agentflow::Workflow<(u64,), Out>,
    describe: impl FnOnce(agentflow::runtime::RuntimeBuilder) -> agentflow::runtime::RuntimeBuilder,
) -> (Vec<String>, Result<Out>) {
    let store = MemoryStore::new();
    let runtime = describe(test_runtime()).store(store.clone()).build();
    let handle = runtime.start(workflow.clone(), 7).await.unwrap();
    let run = handle.run_id().clone();
    let ended = handle.result().await;
    let events = store.read(&run, 0, usize::MAX).await.unwrap();
    check_events(&events).unwrap();
    (trace(&events), ended)
}

#[workflow]
async fn stalls(cents: u64) -> Result<(u64, u32)> {
    let late = (cents, stall().await);
    Ok(late)
}

#[tokio::test(start_paused = true)]
async fn a_time_out_ends_the_step_of_a_tool_that_returns_no_result() {
    let (lines, ended) = run_of(&stalls::workflow(), |runtime| runtime).await;
    assert_eq!(ended.unwrap_err().kind(), "timeout");
    assert_eq!(
        lines,
        [
            r#"run.started {"cents":7}"#,
            "late started",
            "late/tool#1.stall started {}",
            r#"late/tool#1.stall failed timeout "`stall` did not answer within 5s; it changes nothing""#,
            "late failed timeout \"`stall` did not answer within 5s; it changes nothing\"",
            "run.failed timeout \"the step `late` failed: `stall` did not answer within 5s; it changes nothing\"",
        ]
    );
}

#[workflow(name = "retried-of-calls")]
async fn retried(cx: &Context, _cents: u64) -> Result<(u32, u32)> {
    let came = (1, flaky(cx, cx.inject()?).await.map_err(failed)?);
    Ok(came)
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_retried_in_its_place() {
    let (lines, ended) =
        run_of(&retried::workflow(), |runtime| runtime.resource(AtomicU32::new(0))).await;
    assert_eq!(ended.unwrap(), (1, 3));
    let retrying = "came/tool#1.flaky retrying error \"not yet\"";
    assert_eq!(
        lines[2..6],
        ["came/tool#1.flaky started {}", retrying, retrying, "came/tool#1.flaky completed 3"]
    );
}

#[tokio::test]
async fn outside_of_a_step_a_call_is_a_plain_call() {
    let cx = Context::detached();
    assert_eq!(refund(&cx, Inject::new(EffectLog::new()), 5).await, Ok(5));
    assert!(tokio::time::timeout(Duration::from_millis(1), stall()).await.is_err());
}

#[derive(Default)]
struct Once(AtomicBool);

async fn mail_then_fail(cx: &Context) -> Result<Vec<String>> {
    let mut done = mail_all(cx, names()).await?;
    done.push(look(cx.inject()?, "read".to_owned()).await);
    charge(cx, cx.inject()?, 5).await;
    match cx.inject::<Once>()?.0.swap(true, Ordering::Relaxed) {
        false => Err(failed("the first attempt fails".to_owned())),
        true => Ok(done),
    }
}

#[workflow(name = "second-attempt")]
async fn second_attempt(cx: &Context, _cents: u64) -> Result<Vec<String>> {
    #[node(retry = 1)]
    let sent = mail_then_fail(cx).await?;
    Ok(sent)
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_keeps_what_was_written_and_reads_anew() {
    let effects = EffectLog::new();
    let describe = {
        let effects = effects.clone();
        move |runtime: agentflow::runtime::RuntimeBuilder| {
            runtime
                .resource(effects)
                .resource(AtomicU32::new(0))
                .resource(Once::default())
                .resource(Keys::default())
        }
    };
    let (lines, ended) = run_of(&second_attempt::workflow(), describe).await;
    assert_eq!(ended.unwrap(), ["mailed ada", "mailed bob", "mailed eve", "read1"]);
    assert!(effects.counts().values().all(|count| *count == 1) && effects.counts().len() == 3);
    assert!(
        lines.iter().any(|line| line == r#"sent/attempt#2/tool#1.look completed "read1""#),
        "{lines:#?}"
    );
    assert_eq!(
        lines.iter().filter(|line| line.contains("charge completed")).count(),
        1,
        "{lines:#?}"
    );
}

/// The order of the names in this process. `stops` ends the process after the first name.
struct Order {
    names: Mutex<Vec<String>>,
    stops: bool,
}

async fn mail_in_order(cx: &Context) -> Result<HashSet<String>> {
    let order = cx.inject::<Order>()?;
    let names = order.names.lock().unwrap().clone();
    let mut done = HashSet::new();
    for name in names {
        done.insert(mail(cx, mailing(cx)?, name).await.map_err(failed)?);
        if order.stops {
            std::future::pending::<()>().await;
        }
    }
    Ok(done)
}

#[workflow(name = "in-order")]
async fn in_order(cx: &Context, _cents: u64) -> Result<usize> {
    let sent = mail_in_order(cx).await?;
    Ok(sent.len())
}

/// Runs a workflow until a call has finished, stops the process, and completes the run in another
/// process.
async fn restarted<Out: agentflow::value::NodeValue + std::fmt::Debug>(
    workflow: &agentflow::Workflow<(u64,), Out>,
    describe: impl Fn(u32) -> agentflow::runtime::RuntimeBuilder,
) -> (Vec<String>, Result<Out>) {
    let (store, run) = (MemoryStore::new(), RunId::new("run-1"));
    {
        let runtime = describe(1).store(store.clone()).build();
        let handle = runtime.start(workflow.clone(), 7).run_id(run.clone()).await.unwrap();
        let mut events = handle.events();
        while let Some(event) = within("the next event", events.next()).await {
            if matches!(event.kind, EventKind::ToolCompleted { .. } | EventKind::ToolFailed { .. })
            {
                break;
            }
        }
        handle.abandon();
        while within("the next event", events.next()).await.is_some() {}
    }
    let runtime = describe(2).store(store.clone()).build();
    let handle = runtime.run(&run).resume_as(workflow).await.unwrap();
    let mut events = handle.events();
    let paused = async {
        while let Some(event) = within("the next event", events.next()).await {
            if matches!(event.kind, EventKind::RunPaused { .. }) {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = handle.result() => ended,
        () = paused => Err(failed("the run is paused".to_owned())),
    };
    drop(handle);
    (trace(store.read(&run, 0, usize::MAX).await.unwrap()), ended)
}

#[tokio::test]
async fn a_set_in_another_order_mails_nobody_twice_and_nobody_never() {
    let effects = EffectLog::new();
    let (lines, ended) = restarted(&in_order::workflow(), |life| {
        let mut names = names();
        if life == 2 {
            names.reverse();
        }
        test_runtime()
            .resource(effects.clone())
            .resource(Order { names: Mutex::new(names), stops: life == 1 })
    })
    .await;
    assert_eq!(ended.unwrap(), 3, "{lines:#?}");
    let mailed: Vec<&String> = lines.iter().filter(|line| line.contains("mail started")).collect();
    assert_eq!(
        mailed,
        [
            r#"sent/tool#1.mail started {"to":"ada"}"#,
            r#"sent/tool#2.mail started {"to":"eve"}"#,
            r#"sent/tool#3.mail started {"to":"bob"}"#
        ]
    );
}

#[tokio::test]
async fn arguments_that_change_from_process_to_process_are_reported() {
    let effects = EffectLog::new();
    let (_, ended) = restarted(&in_order::workflow(), |life| {
        let names = Mutex::new(vec![format!("{life} o'clock")]);
        test_runtime().resource(effects.clone()).resource(Order { names, stops: life == 1 })
    })
    .await;
    assert_eq!(ended.unwrap_err().to_string(), failed("the run is paused".to_owned()).to_string());
}

/// Serializable but not deserializable.
#[derive(agentflow::serde::Serialize)]
#[serde(crate = "agentflow::serde")]
struct Receipt {
    number: u32,
}

/// Books a seat.
#[tool]
async fn book(seat: u32) -> Receipt {
    Receipt { number: seat }
}

/// Reserves a seat, as often as one likes.
#[tool(idempotent)]
async fn reserve(keys: Inject<Keys>, seat: u32) -> Receipt {
    keys.0.lock().unwrap().push(seat.to_string());
    Receipt { number: seat }
}

async fn book_then_stop(cx: &Context, reserves: bool) -> Result<u32> {
    let receipt = if reserves { reserve(cx.inject()?, 4).await } else { book(4).await };
    if cx.inject::<Order>()?.stops {
        std::future::pending::<()>().await;
    }
    Ok(receipt.number)
}

#[workflow(name = "booked")]
async fn booked(cx: &Context, _cents: u64) -> Result<u32> {
    let seat = book_then_stop(cx, false).await?;
    Ok(seat)
}

#[workflow(name = "reserved")]
async fn reserved(cx: &Context, _cents: u64) -> Result<u32> {
    let seat = book_then_stop(cx, true).await?;
    Ok(seat)
}

#[tokio::test]
async fn an_outcome_that_cannot_be_read_back_is_not_made_twice_by_itself() {
    let order = |life| test_runtime().resource(Order { names: Mutex::default(), stops: life == 1 });
    let (lines, ended) = restarted(&booked::workflow(), order).await;
    ended.unwrap_err();
    assert!(
        lines.iter().any(|line| line.contains("cannot be read back as what the function returns")),
        "{lines:#?}"
    );
    let (lines, ended) =
        restarted(&reserved::workflow(), |life| order(life).resource(Keys::default())).await;
    assert_eq!(ended.unwrap(), 4);
    assert!(
        lines.iter().any(|line| line == "seat/tool#2.reserve completed {\"number\":4}"),
        "{lines:#?}"
    );
}

#[workflow(name = "branches")]
async fn branches(cx: &Context, cents: u64) -> Result<(Vec<String>, u64), Hidden> {
    let raced = race!(mail(cx, cx.inject()?, "ada".to_owned()), mail_later(cx)).await?;
    let fallen = fallback!(
        mail(cx, cx.inject()?, "nobody".to_owned()),
        mail(cx, cx.inject()?, "bob".to_owned())
    )
    .await?;
    let sent = vec![raced, fallen];
    Ok((sent, cents))
}

async fn mail_later(cx: &Context) -> Result<String, String> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    mail(cx, cx.inject().map_err(|error| error.to_string())?, "eve".to_owned()).await
}

#[tokio::test(start_paused = true)]
async fn branches_have_records_of_their_own() {
    let effects = EffectLog::new();
    let (lines, ended) =
        run_of(&branches::workflow(), |runtime| runtime.resource(effects.clone())).await;
    assert_eq!(ended.unwrap().0, ["mailed ada", "mailed bob"], "{lines:#?}");
    let paths: Vec<String> = effects.counts().into_keys().collect();
    assert_eq!(
        paths,
        ["fallen/mail/tool#1.mail", "fallen/mail_2/tool#1.mail", "raced/mail/tool#1.mail"]
    );
}

/// Mails the whole team.
#[tool]
async fn mail_team(cx: &Context, log: Inject<EffectLog>) -> Result<u32, String> {
    let log = log.into_shared();
    for name in names() {
        mail(cx, Arc::clone(&log).into(), name).await?;
    }
    Ok(3)
}

#[workflow(name = "team")]
async fn team(cx: &Context, _cents: u64) -> Result<(u32, (u32, u32)), Hidden> {
    let direct = mail_team(cx, cx.inject()?).await?;
    let wrapped = (1, mail_team(cx, cx.inject()?).await?);
    Ok((direct, wrapped))
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_calls_is_recorded_below_it() {
    let effects = EffectLog::new();
    let (lines, ended) =
        run_of(&team::workflow(), |runtime| runtime.resource(effects.clone())).await;
    assert_eq!(ended.unwrap(), (3, (1, 3)), "{lines:#?}");
    let mut paths: Vec<String> = effects.counts().into_keys().collect();
    paths.retain(|path| path.ends_with("1.mail"));
    assert_eq!(paths, ["direct/tool#1.mail", "wrapped/tool#1.mail_team/tool#1.mail"]);
}

/// Greet {name}.
#[agent]
async fn greet(name: String) -> Result<String>;

#[workflow(name = "inner-greeting")]
async fn inner(name: String) -> Result<String> {
    let said = greet(name).await?;
    Ok(said)
}

#[workflow(name = "outer-greeting")]
async fn outer(_cents: u64) -> Result<(Option<String>, String)> {
    let alone = Some(greet("ada".to_owned()).await?);
    let nested = inner("bob".to_owned()).await?;
    Ok((alone, nested))
}

#[tokio::test(start_paused = true)]
async fn agents_and_workflows_without_a_context_are_part_of_the_run() {
    let model = ScriptedModel::from_fn(|_| Turn::text("hello"));
    let described = model.clone();
    let report = CrashTest::new(&outer::workflow(), || 7)
        .runtime(move |runtime| runtime.model(described.clone()))
        .run()
        .await;
    let steps: Vec<&str> = report.steps().map(|(path, _)| path).collect();
    for path in ["alone", "alone/model#1", "nested", "nested/said", "nested/said/model#1"] {
        assert!(steps.contains(&path), "{path} is not among {steps:?}");
    }
}

/// An error type that hides the library's error.
#[derive(Debug)]
struct Hidden(String);

impl std::fmt::Display for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "greeting failed: {}", self.0)
    }
}

impl From<Error> for Hidden {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Hidden {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

async fn greet_hidden() -> Result<String, Hidden> {
    Ok(greet("ada".to_owned()).await?)
}

#[workflow(name = "hidden-greeting")]
async fn hidden(_cents: u64) -> Result<String, Hidden> {
    #[node(retry = 3)]
    let said = greet_hidden().await?;
    Ok(said)
}

#[tokio::test(start_paused = true)]
async fn an_error_type_that_hides_ours_does_not_make_a_final_failure_repeatable() {
    let model = ScriptedModel::from_fn(|_| Turn::text("hello"));
    let (lines, ended) =
        run_of(&hidden::workflow(), |runtime| runtime.model(model.clone()).max_llm_calls(0)).await;
    assert_eq!(ended.unwrap_err().kind(), "llm_call_limit", "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("retrying")), "{lines:#?}");
}

/// Charges at a service that takes a key; the first process stops while it waits.
#[tool(idempotent)]
async fn charge_slowly(
    cx: &Context,
    keys: Inject<Keys>,
    stops: Inject<Order>,
    cents: u64,
) -> Result<u64, String> {
    keys.0.lock().unwrap().push(cx.idempotency_key());
    if stops.stops { Err(format!("{cents} are too many")) } else { Ok(cents) }
}

async fn charge_twice(cx: &Context) -> Result<u64> {
    let mut sum = 0;
    for _ in 0..2 {
        sum += charge_slowly(cx, cx.inject()?, cx.inject()?, 5).await.unwrap_or_default();
    }
    match cx.attempt() {
        1 => Err(failed("again".to_owned())),
        _ => Ok(sum),
    }
}

#[workflow(name = "two-charges")]
async fn two_charges(cx: &Context, _cents: u64) -> Result<u64> {
    #[node(retry = 1)]
    let sum = charge_twice(cx).await?;
    Ok(sum)
}

#[tokio::test(start_paused = true)]
async fn each_call_has_a_key_of_its_own_that_a_further_attempt_keeps() {
    let keys = Arc::new(Keys::default());
    let describe = |runtime: agentflow::runtime::RuntimeBuilder| {
        runtime.resource(Arc::clone(&keys)).resource(Order { names: Mutex::default(), stops: true })
    };
    let (_, ended) = run_of(&two_charges::workflow(), describe).await;
    assert_eq!(ended.unwrap(), 0);
    let keys = keys.0.lock().unwrap().clone();
    let keys: Vec<&str> = keys.iter().map(|key| key.split_once('/').unwrap().1).collect();
    let (one, two) = ("sum/tool#1.charge_slowly", "sum/tool#2.charge_slowly");
    assert_eq!(keys, [one, two, one, two]);
}

/// Looks into the books.
#[tool(effects = "read", scopes(books))]
async fn audit(year: u32) -> u32 {
    year + 1
}

/// Looks into the books at once.
#[tool(effects = "read", scopes(books))]
fn audit_now(year: u32) -> u32 {
    year + 2
}

async fn audit_both(year: u32) -> Result<(u32, u32)> {
    Ok((audit(year).await, audit_now(year)))
}

#[workflow]
async fn audits(form: u32) -> Result<u32> {
    let year = match form {
        0 => audit(form).await,
        1 => (audit(form).await, form).0,
        2 => audit_both(form).await?.0,
        _ => {
            let now = audit_now(form);
            let first = tokio::join!(audit(now)).0;
            first
        }
    };
    Ok(year)
}

#[tokio::test]
async fn a_call_needs_the_scopes_of_its_tool() {
    let (without, with) = (test_runtime().build(), test_runtime().grant(["books"]).build());
    for form in 0..4 {
        let error = audits::workflow().run(&without, form).await.unwrap_err();
        assert_eq!(error.kind().as_str(), "unauthorized", "{form}: {error}");
        assert!(error.to_string().contains("needs the scope `books`"), "{error}");
        assert!(audits::workflow().run(&with, form).await.is_ok(), "{form}");
    }
    // Outside of a step it is a plain function.
    assert_eq!(audit(1).await, 2);
}
