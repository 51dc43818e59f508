//! `#[workflow]`: straight-line Rust as a graph, with every form.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::{EventKind, EventSink};
use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::store::{MemoryStore, Store};
use agentflow::workflow::{Graph, NodeKind, OnError, StopPolicy};
use agentflow::{Error, Event, Result};
use agentflow_testing::{check_events, test_runtime, trace};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Event>>>);

impl EventSink for Seen {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn runtime() -> (Runtime, Seen) {
    let seen = Seen::default();
    (test_runtime().sink(seen.clone()).build(), seen)
}

impl Seen {
    fn lines(&self) -> Vec<String> {
        let events = std::mem::take(&mut *self.0.lock().unwrap());
        check_events(&events).unwrap();
        trace(&events)
    }
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.name.as_str()).collect()
}

// Without `Clone`: every reader decodes its own copy.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct PullRequest {
    diff: String,
    files: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Lint {
    issues: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    outcome: String,
    notes: Vec<String>,
}

fn pr() -> PullRequest {
    PullRequest { diff: "diff".into(), files: vec!["a".into(), "b".into()] }
}

async fn run_linter(_cx: &Context, pr: PullRequest) -> Result<Lint> {
    Ok(Lint { issues: u32::try_from(pr.files.len()).unwrap() })
}

async fn summarize(_cx: &Context, diff: &str) -> Result<String> {
    Ok(diff.to_uppercase())
}

async fn annotate(_cx: &Context, file: String, issues: u32) -> Result<String> {
    Ok(format!("{file}{issues}"))
}

async fn judge_risk(_cx: &Context, summary: String) -> Result<String> {
    Ok(format!("risk of {summary}"))
}

async fn merge(_cx: &Context, pr: PullRequest) -> Result<String> {
    Ok(format!("merged {}", pr.diff))
}

async fn comment_on(_cx: &Context, pr: PullRequest, comment: Option<String>) -> Result<String> {
    Ok(format!("{}: {}", pr.diff, comment.unwrap_or_default()))
}

/// Reviews a change.
///
/// A person has the last word.
#[workflow]
async fn review(cx: &Context, pr: PullRequest) -> Result<Verdict> {
    let lint = run_linter(cx, pr).await?;
    let summary = summarize(cx, &pr.diff).await?;
    let notes = map!(pr.files, |file| annotate(cx, file, lint.issues)).await?;
    let risk = judge_risk(cx, summary.clone()).await?;
    #[node(timeout = "7d")]
    let approval = gate!("merge {summary}?", risk).await?;
    let outcome = match approval {
        Approval::Granted { .. } => merge(cx, pr).await?,
        Approval::Denied { comment } => comment_on(cx, pr, comment).await?,
    };
    Ok(Verdict { outcome, notes })
}

#[test]
fn a_graph_is_available_without_running() {
    let graph = review::workflow().graph();
    assert_eq!(graph.description, "Reviews a change.\n\nA person has the last word.");
    assert_eq!(
        names(&graph),
        [
            "pr",
            "lint",
            "summary",
            "notes.items",
            "notes",
            "risk",
            "approval",
            "outcome",
            "outcome/Granted/merge",
            "outcome/Denied/comment_on",
            "outcome/end",
            "output"
        ]
    );
    let of = |name: &str| graph.node(name).unwrap();
    assert_eq!(of("summary").reads, ["pr"]);
    assert_eq!(of("notes").reads, ["notes.items", "lint"]);
    assert_eq!(of("approval").kind, NodeKind::Gate);
    assert_eq!(of("approval").policy.timeout_ms, Some(7 * 86_400_000));
    assert_eq!(of("outcome/Denied/comment_on").reads, ["pr", "approval"]);
    assert_eq!(of("outcome/Denied/comment_on").guard.as_ref().unwrap().arm, "Denied");
    assert_eq!(of("outcome").calls, "match approval");
    assert_eq!(of("lint").calls, "run_linter");
    assert_eq!(of("summary").line, of("lint").line + 1);
    assert_eq!(of("lint").type_name, std::any::type_name::<Lint>());
    let mermaid = graph.to_mermaid();
    assert!(mermaid.contains("summary"), "{mermaid}");
}

#[derive(Debug, PartialEq)]
enum Own {
    Empty,
    Run(String),
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl From<Error> for Own {
    fn from(error: Error) -> Self {
        Self::Run(error.to_string())
    }
}

impl From<std::num::ParseIntError> for Own {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Run(error.to_string())
    }
}

type OwnResult<T> = Result<T, Own>;

async fn parse(text: String) -> Result<i32, std::num::ParseIntError> {
    text.parse()
}

async fn positive(n: i32) -> OwnResult<i32> {
    if n > 0 { Ok(n) } else { Err(Own::Empty) }
}

#[workflow(name = "own-errors", concurrency = 2, stop = best_effort)]
async fn own_errors(text: String) -> OwnResult<i32> {
    let n = parse(text).await?;
    positive(n).await
}

#[tokio::test]
async fn a_call_gives_the_steps_own_error() {
    assert_eq!(own_errors("5".into()).await, Ok(5));
    assert_eq!(own_errors("-5".into()).await, Err(Own::Empty));
    assert_eq!(own_errors("x".into()).await, Err(Own::Run("invalid digit found in string".into())));
    let graph = own_errors::workflow().graph();
    assert_eq!(
        (graph.name.as_str(), graph.concurrency, graph.stop_policy),
        ("own-errors", 2, StopPolicy::BestEffort)
    );
}

async fn pair() -> Result<(u32, String)> {
    Ok((3, "three".into()))
}

async fn double(n: u32) -> Result<u32> {
    Ok(n * 2)
}

async fn plain(n: u32) -> u32 {
    n + 1
}

async fn generic<T: AsRef<str>>(text: T) -> Result<usize> {
    Ok(text.as_ref().len())
}

struct Client;

impl Client {
    async fn fetch(&self, n: u32) -> Result<u32> {
        Ok(n + 100)
    }

    async fn open() -> Result<u32> {
        Ok(7)
    }
}

/// Uses every kind of `let`.
#[workflow]
async fn lets(seed: u32) -> Result<(u32, String, Vec<usize>)> {
    let (n, word) = pair().await?;
    let seeds = [seed, n];
    let seeds = seeds.map(|seed| seed + 1);
    let twice: u64 = double(seeds[0]).await?.into();
    let (low, _high) = (seeds[0].min(seeds[1]), 0);
    let next = plain(low).await;
    let text = format!("{word}-{twice}");
    let length = generic(&text).await?;
    let other = generic(text.clone()).await?;
    let fetched = Client.fetch(next).await?;
    let opened = Client::open().await?;
    let nested = double(double(opened).await?).await?;
    let computed = async { "12".parse::<u32>() }.await.unwrap_or(0);
    let closure = |x: u32| x + nested;
    let _unused = double(1).await?;
    let _ = double(2).await?;
    let length = {
        let mut sum = length;
        for more in [other, 0] {
            sum += more;
        }
        sum
    };
    Ok((closure(fetched) + computed, text, vec![length]))
}

#[tokio::test]
async fn every_let() {
    let (runtime, seen) = runtime();
    let output = lets::workflow().run(&runtime, 1).await.unwrap();
    assert_eq!(output, (103 + 28 + 12, "three-4".to_owned(), vec![14]));
    assert_eq!(lets(1).await.unwrap(), output);
    let graph = lets::workflow().graph();
    assert_eq!(
        names(&graph),
        [
            "seed",
            "n_word",
            "seeds",
            "seeds_map",
            "twice",
            "low__high",
            "next",
            "text",
            "length",
            "other",
            "fetched",
            "opened",
            "nested",
            "computed",
            "unused",
            "double",
            "length_again",
            "output"
        ]
    );
    assert_eq!(graph.node("seeds").unwrap().reads, ["seed", "n_word"]);
    assert_eq!(graph.node("twice").unwrap().reads, ["seeds_map"]);
    assert_eq!(graph.node("length").unwrap().reads, ["text"]);
    assert_eq!(
        graph.node("output").unwrap().reads,
        ["text", "fetched", "nested", "computed", "length_again"]
    );
    assert_eq!(graph.node("opened").unwrap().calls, "Client::open");
    assert!(seen.lines().iter().any(|line| line == "double completed 4"));
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
enum Kind {
    Bug { ticket: u32 },
    Feature(String),
    Chore,
}

async fn classify(text: String) -> Result<Kind> {
    Ok(match text.as_str() {
        "bug" => Kind::Bug { ticket: 7 },
        "old" => Kind::Bug { ticket: 0 },
        "chore" => Kind::Chore,
        other => Kind::Feature(other.to_owned()),
    })
}

async fn say(text: impl fmt::Display + Send) -> Result<String> {
    Ok(format!("<{text}>"))
}

async fn find(text: &str) -> Result<Option<u32>> {
    Ok(text.len().checked_sub(5).map(|n| u32::try_from(n).unwrap()))
}

/// Routers in routers.
#[workflow(name = "routes-of-workflow-macro")]
async fn routes(text: String) -> Result<String> {
    let kind = classify(text).await?;
    let found = find(&text).await?;
    let limit = 5;
    let action = match kind {
        Kind::Bug { ticket } if ticket > limit => say(ticket).await?,
        Kind::Bug { .. } => "closed".to_owned(),
        Kind::Feature(name) => {
            let shout = name.to_uppercase();
            let plan = say(&shout).await?;
            if let Some(n) = found
                && n > 1
            {
                say(format!("{plan} {n}")).await?
            } else if plan.len() > 4 {
                plan
            } else {
                match text.as_str() {
                    "a" | "b" => say(1).await?,
                    _ => format!("{plan}?"),
                }
            }
        }
        _ => say("chore").await?,
    };
    let size = if action.len() > 5 { "big" } else { "small" };
    if size == "big" { say(action).await } else { Ok(format!("{action} {size}")) }
}

#[tokio::test]
async fn routers_run_one_arm() {
    for (text, expected) in [
        ("bug", "<7> small"),
        ("old", "<closed>"),
        ("chore", "<<chore>>"),
        ("a", "<1> small"),
        ("c", "<C>? small"),
        ("feat", "<<FEAT>>"),
        ("feature", "<<<FEATURE> 2>>"),
    ] {
        assert_eq!(routes(text.into()).await.unwrap(), expected, "{text}");
    }
    let graph = routes::workflow().graph();
    assert_eq!(
        names(&graph),
        [
            "text",
            "kind",
            "found",
            "limit",
            "action",
            "action/Bug/say",
            "action/Bug_2/yield",
            "action/Feature/shout",
            "action/Feature/plan",
            "action/Feature/if",
            "action/Feature/if/then/say",
            "action/Feature/if/else_if_1/yield",
            "action/Feature/if/else/match",
            "action/Feature/if/else/match/a_or_b/say",
            "action/Feature/if/else/match/else/yield",
            "action/Feature/if/else/match/end",
            "action/Feature/if/end",
            "action/else/say",
            "action/end",
            "if",
            "if/then/say",
            "if/else/yield",
            "if/end",
        ]
    );
}

async fn slow(n: u32) -> Result<u32> {
    tokio::time::sleep(Duration::from_secs(u64::from(n))).await;
    Ok(n)
}

async fn broken(_n: u32) -> Result<u32> {
    Err(Error::from(agentflow::model::ModelError::new(
        agentflow::model::ModelErrorKind::BadRequest,
        "no",
    )))
}

/// Every form.
#[workflow(name = "forms-of-workflow-macro")]
async fn forms(xs: Vec<u32>, set: std::collections::BTreeSet<u32>) -> Result<Vec<u32>> {
    let offset = double(1).await?;
    #[node(concurrency = 1)]
    let mapped = map!(xs, |x| double(x + offset)).await?;
    let all: Vec<u32> = map!(set, |x| double(x)).await?;
    let pairs = map!(mapped.iter().zip(all).map(|(a, b)| a + b), |sum: u32| async move {
        Result::<u32>::Ok(sum + 1)
    })
    .await?;
    let raced = race!(slow(3), slow(1), broken(2)).await?;
    let fallen = fallback!(broken(1), double(raced)).await?;
    let repeated = repeat!(offset, |n| double(n), until = |n| *n > 20, max = 9).await?;
    let bounded = repeat!(1, |n| double(n), max = 2).await?;
    let limited = timeout!("5s", slow(2)).await?;
    let mut_free = [raced, fallen, repeated, bounded, limited];
    Ok(pairs.into_iter().chain(mut_free).collect())
}

#[tokio::test(start_paused = true)]
async fn every_form() {
    let (runtime, seen) = runtime();
    let input = (vec![1, 2], [5, 6].into());
    let output = forms::workflow().run(&runtime, input).await.unwrap();
    assert_eq!(output, [6 + 10 + 1, 8 + 12 + 1, 1, 2, 32, 4, 2]);
    let lines = seen.lines();
    for line in
        ["raced/broken failed bad_request", "fallen/double completed 2", "limited completed 2"]
    {
        assert!(lines.iter().any(|seen| seen.starts_with(line)), "{line}: {lines:#?}");
    }
    let graph = forms::workflow().graph();
    assert_eq!(graph.node("raced").unwrap().branches, ["slow", "slow_2", "broken"]);
    assert_eq!(graph.node("limited").unwrap().policy.timeout_ms, Some(5000));
    // The list of `mapped` is the input itself, so it has no items node. `set` must first be
    // converted to a list.
    assert!(graph.node("mapped.items").is_none() && graph.node("all.items").is_some());
}

static TRIES: AtomicU32 = AtomicU32::new(0);

async fn flaky() -> Result<u32, String> {
    match TRIES.fetch_add(1, Ordering::SeqCst) {
        0..2 => Err("not yet".into()),
        n => Ok(n),
    }
}

/// Uses every node option of a `let`.
#[workflow]
async fn attributes(n: u32) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    #[node(id = "tries", retry = 3, timeout = "1m", repeatable = false)]
    let tried = flaky().await?;
    #[after(tried)]
    let later = double(n).await?;
    #[node(on_error = skip)]
    let skipped = broken(n).await?;
    let _reader = double(skipped).await?;
    #[node(on_error = route(double(n)))]
    let routed = broken(n).await?;
    #[after(later, routed)]
    #[node(approve)]
    let _asked = double(routed).await?;
    #[node(approve = "really?")]
    let _asked_twice = double(routed).await?;
    Ok(later + routed + tried)
}

#[test]
fn attributes_are_policies() {
    let graph = attributes::workflow().graph();
    let of = |name: &str| graph.node(name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(of("tries").policy.retry.max_attempts, 4);
    assert_eq!(of("tries").policy.timeout_ms, Some(60_000));
    assert_eq!(of("tries").policy.repeatable, Some(false));
    assert_eq!(of("later").after, ["tries"]);
    assert_eq!(of("skipped").policy.on_error, OnError::Skip);
    assert_eq!(of("routed").kind, NodeKind::Fallback);
    assert_eq!(of("routed").branches, ["broken", "double"]);
    assert_eq!(of("asked").after, ["later", "routed"]);
    assert_eq!(of("asked").policy.approve.as_deref(), Some("run `asked`?"));
    assert_eq!(of("asked_twice").policy.approve.as_deref(), Some("really?"));
}

/// Uses node options on the last expression of a body and of an arm.
#[workflow]
async fn attributed_ends(n: u32) -> Result<u32> {
    let _first = double(n).await?;
    match n {
        0 =>
        {
            #[node(id = "again", retry = 3)]
            double(n).await
        }
        1 => Ok(
            #[node(timeout = "7d")]
            gate!("continue with {n}?", answer = u32).await?,
        ),
        _ =>
        {
            #[after(_first)]
            #[node(on_error = route(double(n)))]
            broken(n).await
        }
    }
}

#[workflow]
async fn asked_at_the_end(n: u32) -> Result<u32> {
    #[node(id = "asked", timeout = "1m")]
    gate!("how many of {n}?", answer = u32).await
}

#[tokio::test(start_paused = true)]
async fn attributes_of_what_a_body_ends_with_are_policies() {
    let graph = attributed_ends::workflow().graph();
    let of = |name: &str| graph.node(name).unwrap_or_else(|| panic!("{name}: {:?}", names(&graph)));
    assert_eq!(of("match/0/again").policy.retry.max_attempts, 4);
    assert_eq!(of("match/1/gate").policy.timeout_ms, Some(7 * 24 * 60 * 60 * 1000));
    assert_eq!(of("match/else/fallback").branches, ["broken", "double"]);
    assert_eq!(of("match/else/fallback").after, ["first"]);
    assert_eq!(
        attributed_ends(5).await.unwrap(),
        10,
        "the other step is tried, and its value is the output"
    );

    let (runtime, seen) = runtime();
    let error = asked_at_the_end::workflow().run(&runtime, 3).await.unwrap_err();
    assert!(error.to_string().contains("nobody answered within 60s"), "{error}");
    assert!(seen.lines().iter().any(|line| line.starts_with("asked approval.requested")));
}

#[tool(effects = "read", timeout = "2s", retry = 2)]
async fn look(n: u32) -> Result<u32> {
    Ok(n)
}

#[tool]
async fn book(cx: &Context, n: u32) -> Result<u32> {
    let _ = cx;
    Ok(n)
}

/// A workflow of one step.
#[workflow(name = "inner-of-workflow-macro")]
async fn inner(cx: &Context, n: u32) -> Result<u32> {
    let booked = book(cx, n).await?;
    Ok(booked + 1)
}

/// Name a colour for {n}.
#[agent]
async fn name_colour(cx: &Context, n: u32) -> Result<String>;

#[workflow]
async fn painted(cx: &Context, n: u32) -> Result<String> {
    let colour = name_colour(cx, n).await?;
    Ok(colour)
}

#[workflow(name = "outer-of-workflow-macro")]
async fn outer(cx: &Context, n: u32) -> Result<u32> {
    let looked = look(n).await?;
    let sub = inner(cx, looked).await?;
    let many = map!(vec![1, 2], |n| book(cx, n)).await?;
    let either = race!(look(1), book(cx, 1)).await?;
    let other = inner(cx, sub).await?;
    Ok(other + many[1] + either)
}

#[tokio::test]
async fn tools_and_workflows_are_known() {
    let graph = outer::workflow().graph();
    let of = |name: &str| graph.node(name).unwrap();
    assert_eq!(of("looked").callee.as_deref(), Some("tool"));
    assert_eq!(of("looked").policy.repeatable, Some(true));
    assert_eq!(of("looked").policy.timeout_ms, Some(2000));
    assert_eq!(of("looked").policy.retry.max_attempts, 3);
    assert_eq!(of("sub").callee.as_deref(), Some("workflow"));
    assert_eq!(of("many").policy.repeatable, Some(false));
    // Calls in branches are recovered separately.
    assert_eq!(of("either").policy.repeatable, None);
    assert_eq!(
        painted::workflow().graph().node("colour").unwrap().callee.as_deref(),
        Some("agent")
    );
    let (runtime, seen) = runtime();
    assert_eq!(outer::workflow().run(&runtime, 1).await.unwrap(), 3 + 2 + 1);
    let lines = seen.lines();
    assert!(lines.iter().any(|line| line == "sub/booked completed 1"), "{lines:#?}");
    // Within a run the call is a part of it; otherwise it is a run of its own.
    assert_eq!(outer(&Context::detached(), 1).await.unwrap(), 6);
}

/// Has no input and no steps.
#[workflow]
async fn nothing() -> Result<()> {
    Ok(())
}

/// Reads the context in the last expression, which is therefore a step.
#[workflow]
async fn who(cx: &Context) -> Result<String> {
    Ok(cx.path().to_string())
}

#[tokio::test]
async fn small_ones() {
    nothing().await.unwrap();
    assert_eq!(who(&Context::detached()).await.unwrap(), "output");
}

#[tokio::test(start_paused = true)]
async fn a_person_decides() {
    for (approval, outcome) in
        [(Approval::granted(), "merged diff"), (Approval::denied("no"), "diff: no")]
    {
        let runtime = test_runtime().store(MemoryStore::new()).build();
        let handle = runtime.start(review::workflow(), pr()).await.unwrap();
        let run = handle.run_id().clone();
        // All steps before the gate finish immediately.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let asked = handle.recorded().into_iter().find_map(|event| match event.kind {
            EventKind::ApprovalRequested(request) => Some(request),
            _ => None,
        });
        assert_eq!(asked.unwrap().message, "merge DIFF?");
        runtime.run(&run).approve("approval", approval, "test").await.unwrap();
        let verdict = handle.result().await.unwrap();
        assert_eq!(
            verdict,
            Verdict { outcome: outcome.to_owned(), notes: vec!["a2".into(), "b2".into()] }
        );
    }
}

static PAID: AtomicU32 = AtomicU32::new(0);

/// Takes money.
#[tool]
async fn pay(n: u32) -> Result<u32> {
    PAID.fetch_add(1, Ordering::SeqCst);
    Ok(n)
}

async fn checked(n: u32) -> Result<u32> {
    Ok(n)
}

#[workflow]
async fn order(n: u32) -> Result<u32> {
    let checked = checked(n).await?;
    let paid = pay(checked).await?;
    Ok(paid + 1)
}

#[tokio::test(start_paused = true)]
async fn a_tool_with_effects_is_never_run_again_by_itself() {
    let first = test_runtime().store(MemoryStore::new()).build();
    let handle = first.start(order::workflow(), 5).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 6);
    let events = handle.recorded();
    let begun = |event: &Event| {
        event.path.to_string() == "paid"
            && matches!(event.kind, EventKind::NodeStarted { repeatable: false, .. })
    };
    let cut =
        events.iter().position(begun).expect("the tool's step says that it cannot be repeated") + 1;
    let store = MemoryStore::new();
    store.create(&events[0].run_id, events[..cut].to_vec()).await.unwrap();
    // The workflow is linked into the program and found by its name.
    let second = test_runtime().store(store).build();
    let handle = second.run(&events[0].run_id).resume().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(PAID.load(Ordering::SeqCst), 1);
    second.run(&events[0].run_id).retry("paid", "test").await.unwrap();
    handle.result().await.unwrap();
    assert_eq!(PAID.load(Ordering::SeqCst), 2);
}

#[test]
fn linked_workflows_are_listed() {
    let all = Runtime::default().catalogue().workflows().unwrap();
    let names: Vec<&str> = all.iter().map(|graph| graph.name.as_str()).collect();
    assert!(names.contains(&"review") && names.contains(&"own-errors"), "{names:?}");
    assert!(names.is_sorted(), "{names:?}");
}

/// Sends money back.
#[tool(approve)]
async fn refund(order: u32, cents: u64) -> Result<u64> {
    Ok(u64::from(order) + cents)
}

#[workflow]
async fn refunds(order: u32, orders: Vec<u32>) -> Result<u64> {
    let price = double(order).await?;
    let sent = refund(order, u64::from(price)).await?;
    let all = map!(orders, |order| refund(order, 1)).await?;
    Ok(sent + all.iter().sum::<u64>())
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_for_an_approval_sees_what_the_tool_is_called_with() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let handle = runtime.start(refunds::workflow(), (7, vec![1, 2])).await.unwrap();
    let run = handle.run_id().clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked: Vec<_> = handle
        .recorded()
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::ApprovalRequested(request) => {
                Some((event.path.to_string(), request.message.clone(), request.payload.to_string()))
            }
            _ => None,
        })
        .collect();
    let asked: Vec<_> =
        asked.iter().map(|(path, question, about)| [&**path, &**question, &**about]).collect();
    // The second refund is written below the first, so its question comes after the first refund
    // was made.
    let first =
        ["sent/tool#1.refund", "call `refund(cents: 14, order: 7)`?", r#"{"cents":14,"order":7}"#];
    assert_eq!(asked, [first]);
    let about = async || {
        let report = runtime.run(&run).inspect().await.unwrap();
        report
            .nodes
            .iter()
            .filter_map(|node| node.about.as_ref())
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(about().await, [r#"{"cents":14,"order":7}"#]);
    runtime.run(&run).approve("sent/tool#1.refund", Approval::granted(), "test").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(about().await, [r#"{"cents":1,"order":1}"#, r#"{"cents":1,"order":2}"#]);
    for item in ["all[0]/tool#1.refund", "all[1]/tool#1.refund"] {
        runtime.run(&run).approve(item, Approval::granted(), "test").await.unwrap();
    }
    assert_eq!(handle.result().await.unwrap(), 21 + 5);
}
