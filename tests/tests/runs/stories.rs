//! Tests typical programs that combine many features: an agent that asks, an edited chat, stored
//! values and files, and a team with a budget. Each program is ended at every write to its store.
//! It is then started again, looks at the store and does the remaining work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::{AgentSettings, LargeOutputs, Limits, RunRequest, Team};
use agentflow::event::EventKind;
use agentflow::mailbox::Mailbox;
use agentflow::message::Role;
use agentflow::middleware::token_budget;
use agentflow::model::Usage;
use agentflow::prelude::*;
use agentflow::runtime::OpenQuestion;
use agentflow::serde_json::{self, Value, json};
use agentflow::session::{Session, SessionWindow, Summary};
use agentflow::state::StateTransform;
use agentflow::store::{MemoryStore, RunFilter, SessionFilter, StoreErrorKind};
use agentflow::{Error, RunId, schemars, serde};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime};

use crate::sessions_crash::{Ending, ends_at_each_of};

/// Maximum duration of one process, far more than any of them needs.
const LONGEST: Duration = Duration::from_secs(3600);

/// An external service that executes each idempotency key once.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, u64>>>);

impl Bank {
    fn pay(&self, key: String, cents: u64) {
        let before = self.0.lock().unwrap().insert(key.clone(), cents);
        assert!(
            before.is_none_or(|before| before == cents),
            "`{key}` paid {before:?} before and {cents} now"
        );
    }

    fn paid(&self) -> Vec<u64> {
        self.0.lock().unwrap().values().copied().collect()
    }
}

/// Resumes the runs of an earlier process and waits for them.
async fn take_over(runtime: &Runtime) -> Result<()> {
    for handle in runtime.recover().await?.resumed {
        tokio::time::timeout(LONGEST, handle.result()).await.expect("it waits for something")?;
    }
    Ok(())
}

/// Answers questions until the program has ended.
async fn with_a_person<T>(
    runtime: &Runtime,
    answer: impl AsyncFn(&OpenQuestion) -> Option<(Value, &'static str)>,
    program: impl Future<Output = Result<T>>,
) -> Result<T> {
    let answers = async || {
        for question in runtime.runs().questions(RunFilter::new()).await? {
            let Some((answer, by)) = answer(&question).await else { continue };
            runtime.run(&question.run).answer(&question.path, &answer, by).await?;
        }
        Ok(())
    };
    let person = async {
        loop {
            if let Err(problem) = answers().await {
                return problem;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let both = async {
        tokio::select! {
            done = program => done,
            problem = person => Err(problem),
        }
    };
    tokio::time::timeout(LONGEST, both).await.expect("it waits for something")
}

/// Returns the tool results in the last message.
fn results(request: &agentflow::model::ModelRequest) -> Vec<String> {
    let last = request.messages.last().expect("somebody asks");
    last.results().map(|result| result.text().trim_matches('"').to_owned()).collect()
}

// An agent that asks before it acts, in a workflow that asks before it starts and after the agent.

/// Pay money back.
#[tool(approve, idempotent)]
async fn story_refund(cx: &Context, bank: Inject<Bank>, order: u32, cents: u64) -> String {
    bank.pay(cx.idempotency_key(), cents);
    format!("{cents} cents of {order}")
}

/// Look an order up.
#[tool(effects = "read")]
async fn story_order(order: u32) -> String {
    format!("{order} came broken")
}

/// Help the customer.
#[agent(tools = [story_refund, story_order, agentflow::ask_user])]
async fn story_support(cx: &Context, letter: String) -> Result<String>;

#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
enum Way {
    Mail,
    Fax,
}

#[workflow(approve = "work on this?")]
async fn story_complaint(cx: &Context, letter: String) -> Result<String> {
    let answer = story_support(cx, letter).await?;
    #[node(timeout = "90s", on_timeout = answer(None))]
    let way = gate!("how is this sent: {answer}?", answer = Option<Way>).await?;
    let sent = match way {
        Some(Way::Mail) => format!("mailed: {answer}"),
        Some(Way::Fax) => format!("faxed: {answer}"),
        None => format!("posted: {answer}"),
    };
    Ok(sent)
}

/// Returns a model that makes all calls for the letter at once and answers with their results.
fn clerk() -> ScriptedModel {
    ScriptedModel::from_fn(|request| match &*results(request) {
        [] => Turn::calls([
            ("story_order", json!({"order": 7})),
            ("story_refund", json!({"order": 7, "cents": 900})),
            ("ask_user", json!({"question": "To which account?", "choices": ["giro", "savings"]})),
        ]),
        results => Turn::text(results.join(", ")),
    })
}

async fn complaint(store: Ending<MemoryStore>, bank: Bank, clock: TestClock) -> Result<()> {
    let runtime = test_runtime().clock(clock).store(store).model(clerk()).resource(bank).build();
    let id = RunId::new("complaint");
    let answers = async |question: &OpenQuestion| match &*question.path {
        "start" => Some((json!({"decision": "granted"}), "boss")),
        "answer/tool#1.story_refund" => {
            // The call that needs no approval is made in the meantime.
            let journal = runtime.run(&id).journal().await.unwrap();
            let looked = |event: &agentflow::Event| {
                matches!(&event.kind, EventKind::ToolCompleted { .. })
                    && event.path.to_string().ends_with("story_order")
            };
            journal.iter().any(looked).then_some(())?;
            assert_eq!(question.message, "call `story_refund(cents: 900, order: 7)`?");
            Some((json!({"decision": "granted", "arguments": {"order": 7, "cents": 500}}), "ada"))
        }
        "answer/tool#1.ask_user" => Some((json!("giro"), "customer")),
        _ => None,
    };
    let program = async {
        take_over(&runtime).await?;
        match runtime
            .start(story_complaint::workflow(), "It came broken.".to_owned())
            .run_id(id.clone())
            .await
        {
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {}
            started => drop(started?.result().await?),
        }
        Ok(())
    };
    with_a_person(&runtime, answers, program).await
}

#[tokio::test(start_paused = true)]
async fn an_agent_asks_before_it_acts() {
    // Questions and their timeouts outlive a process, so all processes share one clock.
    let (bank, clock) = (Mutex::new(Bank::default()), TestClock::new());
    let program = async |store| {
        let bank = bank.lock().unwrap().clone();
        complaint(store, bank, clock.clone()).await
    };
    let check = |store: MemoryStore, what: String| {
        let paid = std::mem::take(&mut *bank.lock().unwrap()).paid();
        async move {
            assert_eq!(paid, [500], "{what}");
            let runtime = test_runtime().store(store).build();
            let id = RunId::new("complaint");
            let said: String = runtime.run(&id).output().await.unwrap().decode().unwrap();
            assert_eq!(said, "posted: 7 came broken, 500 cents of 7, giro", "{what}");
            let journal = runtime.run(&id).journal().await.unwrap();
            check_events(&journal).unwrap_or_else(|error| panic!("{what}: {error}"));
            let by = |event: &agentflow::Event| match &event.kind {
                EventKind::ApprovalResolved { by, .. } => {
                    Some((event.path.to_string(), by.to_string()))
                }
                _ => None,
            };
            let mut answered: Vec<_> = journal.iter().filter_map(by).collect();
            answered.sort();
            let expected = [
                ("answer/tool#1.ask_user", "customer"),
                ("answer/tool#1.story_refund", "ada"),
                ("start", "boss"),
                ("way", "timeout"),
            ];
            assert_eq!(
                answered,
                expected.map(|(path, by)| (path.to_owned(), by.to_owned())),
                "{what}"
            );
            assert_eq!(runtime.runs().questions(RunFilter::new()).await.unwrap(), [], "{what}");
        }
    };
    ends_at_each_of(12, program, check).await;
}

// A chat whose second question is edited, and whose beginning is summarized.

/// Returns a model that repeats all questions, or summarizes them.
fn listener() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let messages = request.messages.messages();
        assert!(messages.iter().filter(|message| message.role() == Role::System).count() <= 1);
        let asked: Vec<_> =
            messages.iter().filter(|message| message.role() == Role::User).collect();
        if !messages[0].text().contains("Write a summary") {
            let brief = matches!(&*asked.last().unwrap().text(), "other two" | "four");
            assert!(
                messages[0].text() == "Be brief." || !brief && messages[0].text() == "Be kind."
            );
            return Turn::text(
                asked.iter().map(|it| it.text().replace('\n', " ")).collect::<Vec<_>>().join("|"),
            );
        }
        let text = asked[0].text();
        Turn::text(
            text.lines()
                .filter_map(|line| line.strip_prefix("User: "))
                .collect::<Vec<_>>()
                .join(" "),
        )
    })
}

/// Asks the question unless its run exists. An existing run was completed when it was resumed.
async fn ask(agent: &Agent, text: &str, session: Session) -> Result<()> {
    let session = session.window(SessionWindow::default().runs(2)).summarized(Summary::default());
    let request = RunRequest::new(text)
        .run_id(RunId::new(text))
        .session(session)
        .caller("ada")
        .tag("desk", "tea");
    match agent.run(request).await {
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => Ok(()),
        answered => answered.map(drop),
    }
}

async fn edited_chat(store: Ending<MemoryStore>) -> Result<()> {
    let talker =
        |instruction: &str| Agent::new(listener()).name("story_talker").instruct(instruction);
    let later = talker("Be brief.");
    let runtime = test_runtime().store(store).agent(&later).build();
    take_over(&runtime).await?;
    let (first, later) = (talker("Be kind.").runtime(&runtime), later.runtime(&runtime));
    for text in ["one", "two", "three"] {
        ask(&first, text, Session::from("s")).await?;
    }
    ask(&later, "other two", Session::existing("s").after(RunId::new("one"))).await?;
    ask(&later, "four", Session::existing("s").after(RunId::new("three"))).await
}

#[tokio::test(start_paused = true)]
async fn a_chat_is_edited_and_summed_up() {
    let check = |store: MemoryStore, what: String| async move {
        let runtime = test_runtime().store(store).build();
        let answer = async |run: &str| {
            runtime.run(&RunId::new(run)).output().await.unwrap().decode::<String>().unwrap()
        };
        assert_eq!(answer("three").await, "one|two|three", "{what}");
        assert_eq!(answer("other two").await, "one|other two", "{what}");
        assert_eq!(
            answer("four").await,
            "Summary of our conversation before this: one two|three|four",
            "{what}"
        );
        let branches = runtime.sessions().branches("s").await.unwrap();
        let mut ends: Vec<_> = branches.iter().map(RunId::as_str).collect();
        ends.sort_unstable();
        assert_eq!(ends, ["four", "other two"], "{what}");
        let of = async |run: &str| {
            let history = runtime.sessions().history_up_to(&RunId::new(run), 9).await.unwrap();
            history.into_iter().map(|run| run.run_id.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of("four").await, ["one", "two", "three", "four"], "{what}");
        assert_eq!(of("other two").await, ["one", "other two"], "{what}");
        let exported = runtime.sessions().export("s").await.unwrap();
        assert_eq!(exported.runs.len(), 5, "{what}");
        for run in &exported.runs {
            let journal = runtime.run(&run.run_id).journal().await.unwrap();
            check_events(&journal).unwrap_or_else(|error| panic!("{what}: {error}"));
            let summaries = journal
                .iter()
                .filter(|event| matches!(event.kind, EventKind::SessionSummarized(_)));
            assert_eq!(summaries.count(), usize::from(run.run_id.as_str() == "four"), "{what}");
        }
        let of_ada = SessionFilter::new().caller("ada").tag("desk", "tea");
        assert_eq!(runtime.sessions().list(of_ada).await.unwrap().len(), 1, "{what}");
        assert_eq!(runtime.sessions().delete("s").await.unwrap(), 5, "{what}");
        assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap(), [], "{what}");
    };
    ends_at_each_of(15, edited_chat, check).await;
}

// Values of the session, the user and the application, changed concurrently and by transforms.

static HEARD: StateKey<Vec<String>> = StateKey::session("story_heard");
static LOUD: StateKey<String> = StateKey::session("story_loud");
static LONG: StateKey<usize> = StateKey::session("story_long");
static VISITS: StateKey<u32> = StateKey::user("story_visits");
static TOTAL: StateKey<u32> = StateKey::app("story_total");
static SAID: StateKey<String> = StateKey::session("story_said");

/// Keep what was said.
#[tool(idempotent)]
async fn story_keep(cx: &Context, what: String) -> Result<String> {
    story_kept(cx, what).await
}

#[workflow]
async fn story_kept(cx: &Context, what: String) -> Result<String> {
    let loud = keep_loud(cx, what.clone()).await?;
    let long = keep_long(cx, what.clone()).await?;
    #[after(loud, long)]
    #[node(tap)]
    let seen = look_at_both(cx).await?;
    let heard = keep_heard(cx, seen, what).await?;
    Ok(heard)
}

async fn keep_loud(cx: &Context, what: String) -> Result<()> {
    cx.set(&LOUD, &what.to_uppercase())
}

async fn keep_long(cx: &Context, what: String) -> Result<()> {
    cx.set(&LONG, &what.len())
}

async fn look_at_both(cx: &Context) -> Result<String> {
    assert!(cx.set(&LONG, &0).is_err(), "who only looks changes nothing");
    let said = cx.state(&SAID).await?.unwrap_or_default();
    Ok(format!("{:?} {:?} {said}", cx.state(&LOUD).await?, cx.state(&LONG).await?))
}

async fn keep_heard(cx: &Context, seen: String, what: String) -> Result<String> {
    let mut heard = cx.state(&HEARD).await?.unwrap_or_default();
    heard.push(what);
    cx.set(&HEARD, &heard)?;
    cx.set(&VISITS, &(cx.state(&VISITS).await?.unwrap_or(0) + 1))?;
    cx.set(&TOTAL, &(cx.state(&TOTAL).await?.unwrap_or(0) + 10))?;
    cx.transform(&[
        StateTransform::rename([("story_loud", "story_last")]),
        StateTransform::drop(["story_long"]),
    ])
    .await?;
    Ok(seen)
}

fn keeper() -> Agent {
    let model = ScriptedModel::from_fn(|request| match &*results(request) {
        [] => Turn::call("story_keep", json!({"what": request.messages.last().unwrap().text()})),
        results => Turn::text(results.concat()),
    });
    Agent::new(model)
        .name("story_keeper")
        .tools(tools![story_keep])
        .settings(AgentSettings::new().output_key(&SAID))
}

async fn kept(store: Ending<MemoryStore>) -> Result<()> {
    let runtime = test_runtime().store(store).agent(&keeper()).build();
    take_over(&runtime).await?;
    let agent = keeper().runtime(&runtime);
    ask(&agent, "tea", Session::from("s")).await?;
    ask(&agent, "rice", Session::existing("s")).await
}

#[tokio::test(start_paused = true)]
async fn values_are_kept_once() {
    let check = |store: MemoryStore, what: String| async move {
        let runtime = test_runtime().store(store).build();
        let state = serde_json::to_value(runtime.sessions().state("s").await.unwrap()).unwrap();
        assert_eq!(state["story_heard"], json!(["tea", "rice"]), "{what}");
        assert_eq!(state["story_last"], json!("RICE"), "{what}");
        let said = r#"Some("RICE") Some(4) Some("TEA") Some(3) "#;
        assert_eq!(state["story_said"], json!(said), "{what}");
        assert_eq!(state.as_object().unwrap().len(), 3, "{what}: {state}");
        let user =
            serde_json::to_value(runtime.persistent_state().user("ada").await.unwrap()).unwrap();
        assert_eq!(user, json!({"user:story_visits": 2}), "{what}");
        let app = serde_json::to_value(runtime.persistent_state().app().await.unwrap()).unwrap();
        assert_eq!(app, json!({"app:story_total": 20}), "{what}");
    };
    ends_at_each_of(10, kept, check).await;
}

// Files: versions that a tool saves, and outputs that are too long for a conversation.

/// Add a line to the report.
#[tool(idempotent)]
async fn story_report(cx: &Context, line: String) -> Result<String> {
    let before = cx
        .artifact("report.txt")
        .await?
        .map(|report| report.text().unwrap().to_owned())
        .unwrap_or_default();
    cx.save_artifact("report.txt", format!("{before}{line};"), "text/plain").await?;
    Ok("x".repeat(3000))
}

fn reporter() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        match last.results().next() {
            None => Turn::call("story_report", json!({"line": last.text()})),
            Some(result) => {
                let moved: Value = serde_json::from_str(&result.output).unwrap();
                Turn::text(format!("{} v{}", moved["bytes"], moved["version"]))
            }
        }
    });
    let limits = Limits::default().large_outputs(LargeOutputs::over(1000).head(20));
    Agent::new(model).name("story_reporter").tools(tools![story_report]).settings(limits)
}

async fn reported(store: Ending<MemoryStore>) -> Result<()> {
    let runtime = test_runtime().store(store).agent(&reporter()).build();
    take_over(&runtime).await?;
    let agent = reporter().runtime(&runtime);
    ask(&agent, "tea", Session::from("s")).await?;
    ask(&agent, "rice", Session::existing("s")).await
}

#[tokio::test(start_paused = true)]
async fn files_are_kept_in_their_versions() {
    let check = |store: MemoryStore, what: String| async move {
        let runtime = test_runtime().store(store).build();
        let read = async |version| {
            let report =
                runtime.sessions().artifact("s", "report.txt", Some(version)).await.unwrap();
            report.map(|report| report.text().unwrap().to_owned())
        };
        assert_eq!(read(1).await.as_deref(), Some("tea;"), "{what}");
        assert_eq!(read(2).await.as_deref(), Some("tea;rice;"), "{what}");
        assert_eq!(read(3).await, None, "{what}");
        let (first, second) = (RunId::new("tea"), RunId::new("rice"));
        let names = async |run| {
            let saved = runtime.run(run).artifacts().await.unwrap();
            saved
                .into_iter()
                .map(|artifact| format!("{} {}", artifact.name, artifact.version))
                .collect::<Vec<_>>()
        };
        let (of_first, of_second) = (names(&first).await, names(&second).await);
        assert_eq!((of_first.len(), of_second.len()), (2, 2), "{what}: {of_first:?} {of_second:?}");
        assert_eq!(runtime.sessions().artifacts("s").await.unwrap().len(), 4, "{what}");
        assert_eq!(runtime.sessions().delete("s").await.unwrap(), 2, "{what}");
        assert!(runtime.run(&first).artifact("report.txt", None).await.is_err(), "{what}");
    };
    ends_at_each_of(8, reported, check).await;
}

// A team with a budget. The agent with the conversation calls two advisers, reads their messages,
// and repeats until the answer is good.

static NOTES: Mailbox<String> = Mailbox::new("story_notes", &["law", "market", "desk"]);

/// Tokens of each model call.
const COSTS: u64 = 40;

fn priced(turn: Turn) -> Turn {
    turn.usage(Usage::new(30, 10))
}

/// Returns an agent that sends the desk a note and then answers.
fn adviser(name: &'static str) -> Agent {
    let model = ScriptedModel::from_fn(move |request| {
        priced(match &*results(request) {
            [] => Turn::call(
                "story_notes_send",
                json!({"to": "desk", "message": format!("{name} agrees")}),
            ),
            _ => Turn::text(format!("{name} has written")),
        })
    });
    Agent::new(model).name(name).instruct("Advise.").tools(NOTES.tools(name).unwrap())
}

/// Returns a team whose first agent hands the conversation to the desk. The desk calls both
/// advisers and reads their messages.
fn advising() -> Agent {
    let first = ScriptedModel::from_fn(|_| {
        priced(Turn::call("transfer_to_agent", json!({"agent": "desk"})))
    });
    let desk = ScriptedModel::from_fn(|request| {
        let last = results(request);
        priced(match last.len() {
            2 => Turn::call("story_notes_read", json!({})),
            1 if !last[0].contains("has the conversation") => Turn::text(last[0].clone()),
            _ => Turn::calls([
                ("law", json!({"request": "go"})),
                ("market", json!({"request": "go"})),
            ]),
        })
    });
    let desk = Agent::new(desk).name("desk").tools(NOTES.tools("desk").unwrap());
    let desk = desk.tools(adviser("law")).tools(adviser("market"));
    Team::new(Agent::new(first).name("front"), &["desk"]).agent(desk, &[]).build().unwrap()
}

/// Ask the team, and hold its answer against what was wanted.
#[tool(idempotent)]
async fn story_advised(cx: &Context, draft: String) -> Result<String> {
    let advice = advising().run_in(cx, draft.clone()).await?.into_output();
    let good = ["law agrees", "market agrees"].iter().all(|wanted| advice.contains(wanted));
    if good && draft.ends_with('+') {
        cx.exit_loop()?;
    }
    Ok(format!("{draft}+"))
}

#[workflow]
async fn story_board(cx: &Context, draft: String) -> Result<String> {
    let advised = repeat!(draft, |draft| story_advised(cx, draft), max = 5).await?;
    Ok(advised)
}

/// Two rounds, each with the handoff, three calls of the desk, and two of each adviser.
const SPENT: u64 = 2 * 8 * COSTS;

async fn advised(store: Ending<MemoryStore>) -> Result<()> {
    // If a call counted twice, the budget would be exceeded.
    let budget = token_budget(SPENT).failing();
    let runtime = test_runtime().store(store).with(budget).build();
    take_over(&runtime).await?;
    let start =
        runtime.start(story_board::workflow(), "draft".to_owned()).run_id(RunId::new("board"));
    // A crash can interrupt one call of each adviser, and such calls count too.
    match start.max_llm_calls(18).await {
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => Ok(()),
        started => started?.result().await.map(drop),
    }
}

#[tokio::test(start_paused = true)]
async fn a_team_advises_within_its_budget() {
    let check = |store: MemoryStore, what: String| async move {
        let runtime = test_runtime().store(store).build();
        let id = RunId::new("board");
        assert_eq!(
            runtime.run(&id).output().await.unwrap().decode::<String>().unwrap(),
            "draft++",
            "{what}"
        );
        let journal = runtime.run(&id).journal().await.unwrap();
        check_events(&journal).unwrap_or_else(|error| panic!("{what}: {error}"));
        let spent = journal.iter().filter_map(|event| match &event.kind {
            EventKind::ModelCompleted(answer) => Some(answer.usage.total_tokens()),
            _ => None,
        });
        assert_eq!(spent.sum::<u64>(), SPENT, "{what}");
        let handoffs = journal.iter().filter(|event| event.name() == "agent.handoff").count();
        assert_eq!(handoffs, 2, "{what}");
        assert!(
            runtime.run(&id).state().await.unwrap().is_empty(),
            "all messages are read: {what}"
        );
    };
    ends_at_each_of(30, advised, check).await;
}
