//! Operators who answer twice, concurrently, late, from other processes and while no process
//! executes the run, at every place where a call can ask. The first decision counts, each granted
//! call is made once, a denied call is never made, and the run ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::runtime::OpenQuestion;
use agentflow::store::{MemoryStore, RunFilter};
use agentflow::value::Encoded;
use agentflow::workflow::WorkflowTool;
use agentflow::{Result, RunHandle, RunId, Workflow};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};
use agentflow_tests::Elsewhere;
use serde_json::json;

thread_local! {
    /// Calls made on the current test's thread.
    static WIPED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static TRIES: Cell<u32> = const { Cell::new(0) };
}

/// Wipes a level and returns the next one.
#[tool(approve)]
async fn atk_wipe(level: u32) -> Result<u32> {
    WIPED.with_borrow_mut(|wiped| wiped.push(level));
    Ok(level + 1)
}

/// Wipes a level by another tool. It can be repeated, so that no person decides on it after a crash.
#[tool(idempotent)]
async fn atk_order(level: u32) -> Result<u32> {
    let done = atk_wipe(level).await?;
    atk_wipe(done + 20).await
}

async fn by_helper(level: u32) -> Result<u32> {
    let first = atk_wipe(level).await?;
    atk_wipe(first + 10).await
}

async fn at_once(level: u32) -> Result<u32> {
    let (left, right) = tokio::join!(atk_wipe(level), atk_wipe(level + 5));
    Ok(left? + right?)
}

async fn either(level: u32) -> Result<u32> {
    match atk_wipe(level).await {
        Ok(done) => Ok(done),
        Err(_) => atk_wipe(level + 30).await,
    }
}

async fn slow(level: u32) -> Result<u32> {
    tokio::time::sleep(Duration::from_secs(1000)).await;
    Ok(level)
}

#[workflow]
async fn atk_direct(level: u32) -> Result<u32> {
    let done = atk_wipe(level).await?;
    Ok(done)
}

#[workflow]
async fn atk_helper(level: u32) -> Result<u32> {
    let done = by_helper(level).await?;
    Ok(done)
}

#[workflow]
async fn atk_helpers(level: u32) -> Result<u32> {
    let first = by_helper(level).await?;
    let second = by_helper(level + 40).await?;
    Ok(first + second)
}

#[workflow]
async fn atk_map(level: u32) -> Result<u32> {
    let all = map!(vec![level, level + 50], |level| by_helper(level)).await?;
    Ok(all.iter().sum())
}

#[workflow]
async fn atk_map_of_two(level: u32) -> Result<u32> {
    let all = map!(vec![level, level + 50], |level| {
        let first = atk_wipe(level).await?;
        let asked = gate!("go on with {first}?").await?;
        if asked.is_granted() { atk_wipe(first + 70).await? } else { 0 }
    })
    .await?;
    Ok(all.iter().sum())
}

#[workflow]
async fn atk_repeat(level: u32) -> Result<u32> {
    let last = repeat!(level, |level| by_helper(level), max = 2).await?;
    Ok(last)
}

#[workflow]
async fn atk_for(level: u32) -> Result<u32> {
    for level in [level, level + 3] {
        let asked = gate!("take {level}?").await?;
        let _ = if asked.is_granted() { by_helper(level).await? } else { 0 };
    }
    Ok(level)
}

#[workflow]
async fn atk_race(level: u32) -> Result<u32> {
    let first = race!(by_helper(level), slow(level)).await?;
    Ok(first)
}

#[workflow]
async fn atk_race_of_two(level: u32) -> Result<u32> {
    let first = race!(atk_wipe(level), atk_wipe(level + 60)).await?;
    Ok(first)
}

#[workflow]
async fn atk_fallback(level: u32) -> Result<u32> {
    let done = fallback!(by_helper(level), atk_wipe(level + 80)).await?;
    Ok(done)
}

#[workflow]
async fn atk_timeout(level: u32) -> Result<u32> {
    let done = timeout!("5m", by_helper(level)).await?;
    Ok(done)
}

#[workflow]
async fn atk_at_once(level: u32) -> Result<u32> {
    let done = at_once(level).await?;
    Ok(done)
}

#[workflow]
async fn atk_either(level: u32) -> Result<u32> {
    let done = either(level).await?;
    Ok(done)
}

#[workflow]
async fn atk_match(level: u32) -> Result<u32> {
    let done = match atk_wipe(level).await {
        Ok(done) => done,
        Err(_) => atk_wipe(level + 10).await?,
    };
    Ok(done)
}

#[workflow]
async fn atk_tool(level: u32) -> Result<u32> {
    let done = atk_order(level).await?;
    Ok(done)
}

#[workflow]
async fn atk_nested(level: u32) -> Result<u32> {
    let done = atk_map(level).await?;
    let more = atk_for(level + 90).await?;
    Ok(done + more)
}

async fn helper_of_workflow(level: u32) -> Result<u32> {
    let first = atk_direct(level).await?;
    atk_fallback(first + 100).await
}

#[workflow]
async fn atk_nested_in_helper(level: u32) -> Result<u32> {
    let done = helper_of_workflow(level).await?;
    Ok(done)
}

#[workflow]
async fn atk_nested_in_map(level: u32) -> Result<u32> {
    let all = map!(vec![level, level + 50], |level| helper_of_workflow(level)).await?;
    Ok(all.iter().sum())
}

#[workflow]
async fn atk_nested_in_repeat(level: u32) -> Result<u32> {
    let last = repeat!(level, |level| helper_of_workflow(level), max = 2).await?;
    Ok(last)
}

fn calling(tool: &'static str, level: u32) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let called =
            request.messages.messages().iter().any(|message| message.results().next().is_some());
        match called {
            false => Turn::call(tool, json!({"level": level})),
            true => Turn::text("done"),
        }
    })
}

async fn by_agent(cx: &Context, level: u32) -> Result<u32> {
    let agent = Agent::new(calling("atk_wipe", level)).name("wiper").tools(tools![atk_wipe]);
    agent.run_in(cx, "Wipe it.").await?;
    Ok(level)
}

async fn by_agent_with_a_workflow(cx: &Context, level: u32) -> Result<u32> {
    let tool = WorkflowTool::new(&atk_nested_in_helper::workflow());
    let agent = Agent::new(calling("atk_nested_in_helper", level)).name("caller").tools(tool);
    agent.run_in(cx, "Call it.").await?;
    Ok(level)
}

#[workflow]
async fn atk_agent(cx: &Context, level: u32) -> Result<u32> {
    let done = by_agent(cx, level).await?;
    Ok(done)
}

#[workflow]
async fn atk_agent_with_a_workflow(cx: &Context, level: u32) -> Result<u32> {
    let done = by_agent_with_a_workflow(cx, level).await?;
    Ok(done)
}

#[workflow]
async fn atk_agents(cx: &Context, level: u32) -> Result<u32> {
    let all = map!(vec![level, level + 50], |level| by_agent(cx, level)).await?;
    Ok(all.iter().sum())
}

type Flow = Workflow<(u32,), u32>;

fn flows() -> Vec<Flow> {
    vec![
        atk_direct::workflow(),
        atk_helper::workflow(),
        atk_helpers::workflow(),
        atk_map::workflow(),
        atk_map_of_two::workflow(),
        atk_repeat::workflow(),
        atk_for::workflow(),
        atk_race::workflow(),
        atk_race_of_two::workflow(),
        atk_fallback::workflow(),
        atk_timeout::workflow(),
        atk_at_once::workflow(),
        atk_either::workflow(),
        atk_match::workflow(),
        atk_tool::workflow(),
        atk_nested::workflow(),
        atk_nested_in_helper::workflow(),
        atk_nested_in_map::workflow(),
        atk_nested_in_repeat::workflow(),
        atk_agent::workflow(),
        atk_agent_with_a_workflow::workflow(),
        atk_agents::workflow(),
    ]
}

/// Action of the operators on a question.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OperatorAction {
    Grant,
    Deny,
    GrantFromAnotherProcess,
    /// No process executes the run when it is answered.
    GrantAtRest,
    DenyAtRest,
    /// The next process asks the question again.
    CrashAndGrant,
    GrantTwice,
    DenyAndGrant,
    /// Two operators decide concurrently.
    GrantAndDeny,
    /// Answers with the id of another question at the same path.
    GrantByWrongId,
    Cancel,
}

const DEEDS: [OperatorAction; 11] = [
    OperatorAction::Grant,
    OperatorAction::Deny,
    OperatorAction::GrantFromAnotherProcess,
    OperatorAction::GrantAtRest,
    OperatorAction::DenyAtRest,
    OperatorAction::CrashAndGrant,
    OperatorAction::GrantTwice,
    OperatorAction::DenyAndGrant,
    OperatorAction::GrantAndDeny,
    OperatorAction::GrantByWrongId,
    OperatorAction::Cancel,
];

const PATIENCE: Duration = Duration::from_secs(3600);
const BY: &str = "ada";

/// A run under attack.
struct AttackedRun {
    store: MemoryStore,
    elsewhere: bool,
    runtime: Runtime,
    operator: Runtime,
    run: RunId,
    handle: RunHandle<Encoded>,
    granted: Vec<u32>,
    /// Questions with their paths, and the action on each.
    deeds: Vec<(String, String, OperatorAction)>,
}

fn no() -> Approval {
    Approval::denied("no")
}

impl AttackedRun {
    fn process(store: &MemoryStore, elsewhere: bool) -> Runtime {
        let builder = test_runtime().store(store.clone());
        match elsewhere {
            true => builder.executor(Elsewhere::on_task(test_runtime().build())).build(),
            false => builder.build(),
        }
    }

    async fn begin(flow: &Flow, elsewhere: bool) -> Self {
        WIPED.with_borrow_mut(Vec::clear);
        let store = MemoryStore::new();
        let runtime = Self::process(&store, elsewhere);
        let operator = test_runtime().store(store.clone()).build();
        let run = RunId::new("run-1");
        let handle = runtime.start(flow.clone(), 1).run_id(run.clone()).await.unwrap().untyped();
        Self {
            store,
            elsewhere,
            runtime,
            operator,
            run,
            handle,
            granted: Vec::new(),
            deeds: Vec::new(),
        }
    }

    /// Ends the process of the run, so that no process executes it.
    async fn crash(&mut self) {
        self.handle.clone().abandon();
        self.runtime = Self::process(&self.store, self.elsewhere);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn resume(&mut self) {
        self.handle = self.runtime.run(&self.run).resume().await.unwrap();
    }

    async fn asked(&self) -> Option<OpenQuestion> {
        let Ok(asked) = tokio::time::timeout(PATIENCE, self.handle.asked()).await else {
            let open = self.operator.runs().questions(RunFilter::new()).await.unwrap();
            let trace =
                agentflow_testing::trace(self.operator.run(&self.run).journal().await.unwrap());
            panic!("it neither asks nor ends; {:?}; {open:?}; {trace:#?}", self.deeds)
        };
        asked.unwrap()
    }

    /// Checks that an answer is refused with a control error.
    async fn is_refused(&self, id: &str, answer: Approval) {
        for runtime in [&self.operator, &self.runtime] {
            let refused =
                runtime.run(&self.run).approve(id, answer.clone(), "eve").await.unwrap_err();
            assert!(matches!(refused, agentflow::Error::Control(_)), "{refused:?}");
        }
    }

    /// Acts on a question. Returns `true` if it was granted, and `None` if the run was cancelled.
    async fn deed(&mut self, deed: OperatorAction, question: &OpenQuestion) -> Option<bool> {
        let id = &question.id;
        match deed {
            OperatorAction::Grant => {
                self.handle.approve(id, Approval::granted(), BY).await.unwrap();
            }
            OperatorAction::GrantFromAnotherProcess => {
                self.operator.run(&self.run).approve(id, Approval::granted(), BY).await.unwrap();
            }
            OperatorAction::Deny => {
                self.handle.approve(&question.path, no(), BY).await.unwrap();
                return Some(false);
            }
            OperatorAction::GrantAtRest | OperatorAction::DenyAtRest => {
                self.crash().await;
                let is_granted = deed == OperatorAction::GrantAtRest;
                let answer = if is_granted { Approval::granted() } else { no() };
                self.operator.run(&self.run).approve(id, answer, BY).await.unwrap();
                self.is_refused(id, no()).await;
                self.resume().await;
                return Some(is_granted);
            }
            OperatorAction::CrashAndGrant => {
                self.crash().await;
                self.resume().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.operator.run(&self.run).approve(id, Approval::granted(), BY).await.unwrap();
            }
            OperatorAction::GrantTwice => {
                self.operator.run(&self.run).approve(id, Approval::granted(), BY).await.unwrap();
                self.is_refused(id, Approval::granted()).await;
            }
            OperatorAction::DenyAndGrant => {
                self.operator.run(&self.run).approve(id, no(), BY).await.unwrap();
                self.is_refused(id, Approval::granted()).await;
                return Some(false);
            }
            OperatorAction::GrantAndDeny => {
                let denied = self.operator.run(&self.run).approve(id, no(), BY);
                let granted = self.handle.approve(id, Approval::granted(), BY);
                let (denied, granted) = tokio::join!(denied, granted);
                assert!(denied.is_ok() != granted.is_ok(), "{denied:?} {granted:?}");
                return Some(granted.is_ok());
            }
            OperatorAction::GrantByWrongId => {
                self.is_refused(&format!("{}@00000000", question.path), Approval::granted()).await;
                self.handle.approve(id, Approval::granted(), BY).await.unwrap();
            }
            OperatorAction::Cancel => {
                self.operator.run(&self.run).cancel("enough").await.unwrap();
                self.is_refused(id, Approval::granted()).await;
                return None;
            }
        }
        Some(true)
    }

    /// Acts on every question until the run ends.
    async fn attack(mut self, mut choose: impl FnMut(usize) -> OperatorAction) {
        let (mut questions, mut is_cancelled) = (0, false);
        while let Some(question) = self.asked().await {
            // Lets the steps run that do not wait for the answer.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let deed = choose(questions);
            questions += 1;
            assert!(questions < 60, "it asks without an end");
            self.deeds.push((question.id.clone(), question.about.to_string(), deed));
            let level = question.about.decode::<serde_json::Value>().unwrap()["level"].as_u64();
            match self.deed(deed, &question).await {
                Some(true) => self.granted.extend(level.map(|level| u32::try_from(level).unwrap())),
                Some(false) => {}
                None => is_cancelled = true,
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let ended = tokio::time::timeout(PATIENCE, self.handle.result()).await.expect("it ends");
        assert_eq!(is_cancelled, ended.is_err_and(|error| error.kind().as_str() == "cancelled"));
        assert!(self.operator.runs().questions(RunFilter::new()).await.unwrap().is_empty());
        let events = self.operator.run(&self.run).journal().await.unwrap();
        check_events(&events).unwrap();
        let mut open = BTreeMap::new();
        for event in &events {
            let path = event.path.to_string();
            match &event.kind {
                EventKind::ApprovalRequested(_) => drop(open.insert(path, true)),
                EventKind::ApprovalResolved { by, .. } => {
                    assert_eq!(&**by, BY, "an answer that was refused is recorded");
                    assert_eq!(
                        open.insert(path.clone(), false),
                        Some(true),
                        "`{path}` has two answers"
                    );
                }
                _ => {}
            }
        }
        let (mut granted, mut wiped) = (self.granted, WIPED.with_borrow(Clone::clone));
        granted.sort_unstable();
        wiped.sort_unstable();
        assert_eq!(
            wiped, granted,
            "calls that were made, and those that were granted: {:?}",
            self.deeds
        );
    }
}

/// Runs an attack. A failure names the workflow and the attack.
async fn attacked(
    flow: &Flow,
    elsewhere: bool,
    how: &str,
    choose: impl FnMut(usize) -> OperatorAction,
) {
    use futures_util::FutureExt;
    let attack = async { AttackedRun::begin(flow, elsewhere).await.attack(choose).await };
    let attack = std::panic::AssertUnwindSafe(attack).catch_unwind();
    let ended = tokio::time::timeout(PATIENCE * 100, attack).await.expect("it ends");
    assert!(ended.is_ok(), "{}, elsewhere: {elsewhere}, {how}", flow.name());
}

#[tokio::test(start_paused = true)]
async fn each_deed_at_each_question() {
    for flow in flows() {
        for elsewhere in [false, true] {
            for deed in DEEDS {
                for at in 0..2 {
                    let how = format!("{deed:?} at question {at}");
                    attacked(&flow, elsewhere, &how, |question| {
                        if question == at { deed } else { OperatorAction::Grant }
                    })
                    .await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_deeds_at_all_questions() {
    for seed in 1..=6_usize {
        for (at, flow) in flows().iter().enumerate() {
            let mut state = (seed * 1_000_003 + at) as u64;
            let choose = |_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                DEEDS[(state >> 33) as usize % (DEEDS.len() - usize::from(seed % 2 == 0))]
            };
            attacked(flow, seed % 3 == 0, &format!("seed {seed}"), choose).await;
        }
    }
}

async fn fails_twice(level: u32) -> Result<u32> {
    TRIES.set(TRIES.get() + 1);
    match TRIES.get() {
        ..=2 => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(agentflow::Error::Lost { reason: format!("no {level}") })
        }
        _ => Ok(level),
    }
}

#[workflow]
async fn atk_beside_a_failure(level: u32) -> Result<u32> {
    let below = fails_twice(level).await?;
    #[node(unordered)]
    let done = atk_wipe(level).await?;
    Ok(below + done)
}

/// A failure closes concurrent questions. They are asked again when the failed node is retried, and
/// answers to the closed ones are refused.
#[tokio::test(start_paused = true)]
async fn a_failed_node_is_retried_while_a_call_beside_it_waits() {
    for elsewhere in [false, true] {
        TRIES.set(0);
        let mut attacked = AttackedRun::begin(&atk_beside_a_failure::workflow(), elsewhere).await;
        let mut before: Option<OpenQuestion> = None;
        for _ in 0..2 {
            let question = attacked.asked().await.unwrap();
            if let Some(before) = before {
                assert_ne!(before.id, question.id);
                attacked.is_refused(&before.id, Approval::granted()).await;
            }
            tokio::time::timeout(PATIENCE, attacked.handle.result())
                .await
                .expect("it fails")
                .unwrap_err();
            attacked.is_refused(&question.id, Approval::granted()).await;
            before = Some(question);
            attacked.operator.run(&attacked.run).retry("below", BY).await.unwrap();
            attacked.runtime = AttackedRun::process(&attacked.store, elsewhere);
            attacked.handle = attacked.operator.run(&attacked.run).attach().await.unwrap();
        }
        let question = attacked.asked().await.unwrap();
        attacked
            .operator
            .run(&attacked.run)
            .approve(&question.id, Approval::granted(), BY)
            .await
            .unwrap();
        let ended =
            tokio::time::timeout(PATIENCE, attacked.handle.result()).await.expect("it ends");
        assert_eq!(ended.unwrap().as_str(), "3");
        assert_eq!(WIPED.with_borrow(Clone::clone), [1]);
    }
}
