//! Tests control requests, crashes and restarts at every point of a run. A scheduler counts the
//! points that the run passes (each reading of the clock, each access to the store, and the bodies
//! of steps), and issues requests at chosen points, on the run's own stack.
//!
//! An acknowledged request is in the journal once and takes effect, no effect happens twice, and
//! the run ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow::store::{
    Append, Epoch, MemoryStore, RunFilter, RunStatus, Store, StoreError, StoreLayer,
};
use agentflow::time::{Clock, Timestamp};
use agentflow::value::Encoded;
use agentflow::{Error, Event, RunHandle, RunId, async_trait};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, sequential_ids};
use agentflow_tests::Elsewhere;
use tokio::task::JoinSet;

use crate::deeds::Boxed;

type RequestOutcome = Result<(), Error>;
type Request = std::pin::Pin<Box<dyn Future<Output = (usize, RequestOutcome)> + Send>>;

/// A request of an operator, or a crash of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Grant,
    Deny,
    Retry,
    Pause,
    Unpause,
    Cancel,
    Message,
    /// Ends the process of the run.
    Crash,
}

const ALL: [Action; 8] = [
    Action::Grant,
    Action::Deny,
    Action::Retry,
    Action::Pause,
    Action::Unpause,
    Action::Cancel,
    Action::Message,
    Action::Crash,
];

/// Actions, each with the number of the point at which it starts.
type Plan = Vec<(usize, Action)>;

/// Counts the points that a run passes, and starts the actions due there.
#[derive(Clone)]
struct Places(Arc<State>);

struct State {
    store: MemoryStore,
    passed: AtomicUsize,
    due: Mutex<Vec<(usize, usize, Action)>>,
    begun: Mutex<JoinSet<(usize, RequestOutcome)>>,
    outcomes: Mutex<BTreeMap<usize, RequestOutcome>>,
    /// The runtimes of two operators, the path of the question, and the path of the node to retry.
    operators: Mutex<Option<([Runtime; 2], &'static str, &'static str)>>,
    /// The run's handle in the process that executes it, and the runtime of that process.
    handle: Mutex<Option<RunHandle<Encoded>>>,
    own: Mutex<Option<Runtime>>,
    /// Number of payments.
    paid: AtomicU32,
    /// Number of points passed, each time the run came to rest.
    rests: Mutex<Vec<usize>>,
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Places").field(&self.0.passed).finish()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn id() -> RunId {
    RunId::new("run-1")
}

/// Returns the operator's name in the journal for an action.
fn name_of(action: usize) -> String {
    format!("action-{action}")
}

impl Places {
    fn new(plan: &Plan) -> Self {
        let mut due: Vec<_> = plan
            .iter()
            .enumerate()
            .map(|(number, (place, action))| (*place, number, *action))
            .collect();
        due.sort_by_key(|(place, number, _)| (*place, *number));
        Self(Arc::new(State {
            store: MemoryStore::new(),
            passed: AtomicUsize::new(0),
            due: Mutex::new(due),
            begun: Mutex::default(),
            outcomes: Mutex::default(),
            operators: Mutex::default(),
            handle: Mutex::default(),
            own: Mutex::default(),
            paid: AtomicU32::new(0),
            rests: Mutex::default(),
        }))
    }

    /// Counts a point and starts the actions that are due.
    fn pass(&self) {
        let Ok(mut due) = self.0.due.try_lock() else { return };
        let passed = self.0.passed.fetch_add(1, Ordering::SeqCst) + 1;
        while due.first().is_some_and(|(place, ..)| *place <= passed) {
            let (_, number, action) = due.remove(0);
            self.begin(number, action);
        }
    }

    /// Starts the next action at the current point. Returns `false` if no action is left.
    fn begin_next(&self) -> bool {
        let mut due = locked(&self.0.due);
        if due.is_empty() {
            return false;
        }
        let (_, number, action) = due.remove(0);
        self.begin(number, action);
        true
    }

    /// Passes two points in a step and lets other tasks run between them.
    async fn pause(&self) {
        self.pass();
        tokio::task::yield_now().await;
        self.pass();
    }

    /// Passes a point in an access to the store. Actions start on another task, since the run holds
    /// a lock while it polls its store.
    async fn pass_in_store(&self) {
        let places = self.clone();
        tokio::spawn(async move { places.pass() });
        tokio::task::yield_now().await;
    }

    /// Starts an action. Every third request is sent through the process of the run, the others
    /// alternate between two operators.
    fn begin(&self, number: usize, action: Action) {
        if action == Action::Crash {
            if let Some(handle) = locked(&self.0.handle).take() {
                handle.abandon();
            }
            return;
        }
        let Some((operators, asks, retried)) = locked(&self.0.operators).clone() else { return };
        let own = locked(&self.0.own).clone().filter(|_| number % 3 == 2);
        let is_own = own.is_some();
        let runtime = own.unwrap_or_else(|| operators[number % 2].clone());
        let question = self.journal().iter().rev().find_map(|event| match &event.kind {
            EventKind::ApprovalRequested(question) => {
                Some(format!("{}@{}", event.path, question.id))
            }
            _ => None,
        });
        let question = question.unwrap_or_else(|| asks.to_owned());
        let mut request: Request = Box::pin(async move {
            let by = name_of(number);
            let run = id();
            let outcome = match action {
                Action::Grant => {
                    runtime.run(&run).approve(&question, Approval::granted(), &by).await
                }
                Action::Deny => {
                    runtime.run(&run).approve(&question, Approval::denied(""), &by).await
                }
                Action::Retry => runtime.run(&run).retry(retried, &by).await,
                Action::Pause => runtime.run(&run).pause().by(by).await,
                Action::Unpause => runtime.run(&run).unpause().by(by).await,
                Action::Cancel => runtime.run(&run).cancel(&by).await,
                Action::Message => runtime.run(&run).send_message(by).await,
                Action::Crash => Ok(()),
            };
            (number, outcome)
        });
        if is_own {
            // The run may hold a lock that its own process needs for the request.
            locked(&self.0.begun).spawn(request);
            return;
        }
        // The first poll happens here, on the stack of the run. Requests that must wait continue in
        // their own tasks.
        let waker = std::task::Waker::noop();
        match request.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            Poll::Ready((number, outcome)) => {
                drop(locked(&self.0.outcomes).insert(number, outcome));
            }
            Poll::Pending => drop(locked(&self.0.begun).spawn(request)),
        }
    }

    fn journal(&self) -> Vec<Event> {
        use futures_util::FutureExt;
        // A `MemoryStore` answers immediately.
        self.0
            .store
            .read(&id(), 0, usize::MAX)
            .now_or_never()
            .and_then(Result::ok)
            .unwrap_or_default()
    }
}

/// A clock that passes a point at each reading.
#[derive(Debug)]
struct SchedulerClock(TestClock, Places);

impl Clock for SchedulerClock {
    fn now(&self) -> Timestamp {
        self.1.pass();
        self.0.now()
    }
}

/// A store that passes a point at each access.
#[derive(Debug)]
struct SchedulerStore(Places);

#[async_trait]
impl StoreLayer for SchedulerStore {
    fn inner(&self) -> &dyn Store {
        &self.0.0.store
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.0.pass_in_store().await;
        let kept = self.inner().append(run, epoch, append).await;
        self.0.pass_in_store().await;
        kept
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        self.0.pass_in_store().await;
        self.inner().amend(run, after, events).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        self.0.pass_in_store().await;
        let opened = self.inner().open(run).await;
        self.0.pass_in_store().await;
        opened
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.0.pass_in_store().await;
        self.inner().read(run, after, limit).await
    }
}

/// Pays.
#[tool]
async fn mixed_pay(places: Inject<Places>, cents: u32) -> u32 {
    places.pause().await;
    places.0.paid.fetch_add(1, Ordering::SeqCst);
    places.pause().await;
    cents
}

/// Pays, if a person agrees.
#[tool(approve, approve_timeout = "1d", on_timeout = deny)]
async fn mixed_pay_if(places: Inject<Places>, cents: u32) -> u32 {
    places.pause().await;
    places.0.paid.fetch_add(1, Ordering::SeqCst);
    cents
}

#[workflow]
async fn mixed_ask_and_pay(cx: &Context, cents: u32) -> Boxed<u32> {
    let word = gate!("pay {cents}?").await?;
    let paid = if word.is_granted() { mixed_pay(cx.inject()?, cents).await } else { 0 };
    Ok(paid)
}

#[workflow]
async fn mixed_ask_in_time(cx: &Context, cents: u32) -> Boxed<u32> {
    #[node(timeout = "1d", on_timeout = deny)]
    let word = gate!("pay {cents}?").await?;
    let paid = if word.is_granted() { mixed_pay(cx.inject()?, cents).await } else { 0 };
    Ok(paid)
}

async fn prepared(cx: &Context, cents: u32) -> Boxed<u32> {
    cx.inject::<Places>()?.pause().await;
    mixed_ask_and_pay(cx, cents).await
}

async fn prepared_in_time(cx: &Context, cents: u32) -> Boxed<u32> {
    cx.inject::<Places>()?.pause().await;
    mixed_ask_in_time(cx, cents).await
}

#[workflow]
async fn mixed_order(cx: &Context, cents: u32) -> Boxed<u32> {
    let done = prepared(cx, cents).await?;
    Ok(done)
}

#[workflow]
async fn mixed_order_in_time(cx: &Context, cents: u32) -> Boxed<u32> {
    let done = prepared_in_time(cx, cents).await?;
    Ok(done)
}

async fn ordered(cx: &Context, cents: u32) -> Boxed<u32> {
    cx.inject::<Places>()?.pause().await;
    mixed_order(cx, cents).await
}

#[workflow]
async fn mixed_orders(cx: &Context, cents: u32) -> Boxed<u32> {
    let order = ordered(cx, cents).await?;
    Ok(order)
}

/// Pay {cents}.
#[agent(tools = [mixed_pay_if], model = "mixed/model")]
async fn mixed_clerk(cx: &Context, cents: u32) -> Result<String>;

#[workflow]
async fn mixed_asks_clerk(cx: &Context, cents: u32) -> Boxed<String> {
    let said = asked_clerk(cx, cents).await?;
    Ok(said)
}

async fn asked_clerk(cx: &Context, cents: u32) -> Boxed<String> {
    cx.inject::<Places>()?.pause().await;
    Ok(mixed_clerk(cx, cents).await?)
}

/// Orders.
#[tool]
async fn mixed_buy(cx: &Context, cents: u32) -> Result<u32, String> {
    prepared(cx, cents).await.map_err(|error| error.to_string())
}

/// Buy for {cents}.
#[agent(tools = [mixed_buy], model = "mixed/model")]
async fn mixed_buyer(cx: &Context, cents: u32) -> Result<String>;

/// A run, with the path of its question and the path of the node to retry.
struct Scenario {
    name: &'static str,
    asks: &'static str,
    retried: &'static str,
    elsewhere: bool,
}

const fn scenario(name: &'static str, asks: &'static str, retried: &'static str) -> Scenario {
    Scenario { name, asks, retried, elsewhere: false }
}

const SCENARIOS: [Scenario; 6] = [
    scenario("mixed_order", "done/word", "done/paid"),
    scenario("mixed_orders", "order/done/word", "order/done/paid"),
    scenario("mixed_order_in_time", "done/word", "done/paid"),
    scenario("mixed_asks_clerk", "said/tool#1.mixed_pay_if", "said"),
    scenario("mixed_buyer", "tool#1.mixed_buy/word", "tool#1.mixed_buy/paid"),
    Scenario { elsewhere: true, ..scenario("mixed_orders", "order/done/word", "order/done/paid") },
];

impl Scenario {
    fn builder(&self, places: &Places) -> RuntimeBuilder {
        let of = places.clone();
        let tool = if self.name == "mixed_buyer" { "mixed_buy" } else { "mixed_pay_if" };
        let model = ScriptedModel::from_fn(move |request| {
            of.pass();
            let called = request
                .messages
                .messages()
                .iter()
                .any(|message| message.results().next().is_some());
            match called {
                false => Turn::call(tool, json!({"cents": 5})),
                true => Turn::text("done"),
            }
        });
        Runtime::builder().run_ids(sequential_ids("run")).resource(places.clone()).model(model)
    }

    fn runtime(&self, places: &Places, clock: &TestClock) -> Runtime {
        let built = self
            .builder(places)
            .clock(SchedulerClock(clock.clone(), places.clone()))
            .store(SchedulerStore(places.clone()));
        match self.elsewhere {
            true => built
                .executor(Elsewhere::on_task(self.builder(places).clock(clock.clone()).build()))
                .build(),
            false => built.build(),
        }
    }

    async fn start(&self, runtime: &Runtime) -> Result<RunHandle<Encoded>, Error> {
        let input = json!({"cents": 5});
        match self.name {
            "mixed_buyer" => {
                let agent = mixed_buyer::agent(5).runtime(runtime);
                Ok(agent.start(agentflow::agent::RunRequest::default().run_id(id()))?.untyped())
            }
            name => {
                runtime.start_named(name, Encoded::new(&input).expect("JSON")).run_id(id()).await
            }
        }
    }
}

const QUIET: Duration = Duration::from_secs(3600);

/// Executes a plan. Returns the number of points passed each time the run came to rest and at its
/// end, or the violated guarantee.
async fn play(scenario: &Scenario, plan: &Plan) -> Result<Vec<usize>, String> {
    let (places, clock) = (Places::new(plan), TestClock::new());
    let operator =
        || scenario.builder(&places).clock(clock.clone()).store(places.0.store.clone()).build();
    let operators = [operator(), operator()];
    let operator = operators[0].clone();
    *locked(&places.0.operators) = Some((operators, scenario.asks, scenario.retried));
    let mut runtime = scenario.runtime(&places, &clock);
    let mut handle =
        scenario.start(&runtime).await.map_err(|error| format!("it does not start: {error}"))?;
    let mut finishing = 0;
    loop {
        *locked(&places.0.handle) = Some(handle.clone());
        *locked(&places.0.own) = Some(runtime.clone());
        let ended = tokio::time::timeout(QUIET, handle.result()).await;
        let record = places.0.store.record(&id()).await.map_err(|error| error.to_string())?;
        let status = record.as_ref().map_or(RunStatus::Running, |record| record.status);
        locked(&places.0.rests).push(places.0.passed.load(Ordering::SeqCst));
        match ended {
            Ok(_) if status.has_ended() && !places.begin_next() => break,
            Ok(_) if status.has_ended() => continue,
            // The process ended before the run was stored.
            Ok(_) if record.is_none() => {
                while places.begin_next() {}
                break;
            }
            Ok(ended) => {
                if locked(&places.0.rests).len() > 100 {
                    return Err(format!("it is resumed without an end: {:?}", ended.err()));
                }
                runtime = scenario.runtime(&places, &clock);
                match runtime.run(&id()).resume().await {
                    Ok(resumed) => handle = resumed,
                    Err(error) => {
                        let record = places
                            .0
                            .store
                            .record(&id())
                            .await
                            .map_err(|error| error.to_string())?;
                        if !record.is_some_and(|record| record.status.has_ended()) {
                            return Err(format!("it is not resumed: {error}"));
                        }
                        // The run was cancelled while no process executed it.
                    }
                }
            }
            Err(_) if places.begin_next() => {}
            Err(_) => {
                finishing += 1;
                if finishing > 8 || !finish(&runtime, &operator).await? {
                    return Err(format!("the run does not end: it is {status}"));
                }
            }
        }
    }
    let mut begun = std::mem::take(&mut *locked(&places.0.begun));
    while !begun.is_empty() {
        let ended = tokio::time::timeout(QUIET, begun.join_next()).await;
        let Ok(Some(Ok((number, outcome)))) = ended else {
            return Err("a request has no outcome".to_owned());
        };
        locked(&places.0.outcomes).insert(number, outcome);
    }
    check(scenario, &places, plan)?;
    let rests = locked(&places.0.rests).clone();
    Ok(rests)
}

/// Ends the wait of a run with an answer or a retry. Returns `false` if the run does not wait.
async fn finish(runtime: &Runtime, operator: &Runtime) -> Result<bool, String> {
    let text = |error: Error| error.to_string();
    let run = id();
    if operator.run(&run).unpause().by("finisher").await.is_ok() {
        return Ok(true);
    }
    let asked = operator.runs().questions(RunFilter::new()).await.map_err(text)?;
    for question in &asked {
        let approved =
            operator.run(&run).approve(&question.id, Approval::granted(), "finisher").await;
        approved.map_err(|error| format!("a listed question is not answered: {error}"))?;
    }
    let report = runtime.run(&run).inspect().await.map_err(text)?;
    let waits =
        report.nodes.iter().filter(|node| node.on_resume.starts_with("waits for a decision"));
    let mut names: Vec<&str> = waits.map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    for name in names.into_iter().rev() {
        if operator.run(&run).retry(name, "finisher").await.is_ok() {
            return Ok(true);
        }
    }
    Ok(!asked.is_empty())
}

/// Checks the guarantees: acknowledged requests are recorded once, refused ones are not recorded,
/// pauses take effect, each question has one answer, and the number of payments fits the approvals
/// and retries.
fn check(scenario: &Scenario, places: &Places, plan: &Plan) -> Result<(), String> {
    let journal = places.journal();
    if !journal.is_empty() {
        check_events(&journal).map_err(|problems| {
            let lines: String = journal
                .iter()
                .map(|event| format!("{} {} {}\n", event.seq, event.name(), event.path))
                .collect();
            format!("{problems}\n{lines}")
        })?;
    }
    let outcomes = locked(&places.0.outcomes);
    let count =
        |of: &dyn Fn(&EventKind) -> bool| journal.iter().filter(|event| of(&event.kind)).count();
    for (number, (_, action)) in plan.iter().enumerate() {
        let name = name_of(number);
        let recorded = match action {
            Action::Grant | Action::Deny => count(
                &|kind| matches!(kind, EventKind::ApprovalResolved { by, .. } if **by == *name),
            ),
            Action::Retry => {
                count(&|kind| matches!(kind, EventKind::NodeReset { by } if **by == *name))
            }
            Action::Cancel if matches!(outcomes.get(&number), Some(Ok(()))) => {
                count(&|kind| matches!(kind, EventKind::RunCancelled { .. }))
            }
            Action::Cancel => count(
                &|kind| matches!(kind, EventKind::RunCancelled { reason, .. } if **reason == *name),
            ),
            Action::Message => count(
                &|kind| matches!(kind, EventKind::MessageReceived { message, .. } if *message.text() == *name),
            ),
            Action::Pause => count(
                &|kind| matches!(kind, EventKind::RunPaused { by: Some(by), .. } if **by == *name),
            ),
            Action::Unpause => count(
                &|kind| matches!(kind, EventKind::RunResumed { by: Some(by), .. } if **by == *name),
            ),
            Action::Crash => continue,
        };
        let wanted = match outcomes.get(&number) {
            Some(Ok(())) => 1,
            Some(Err(Error::Control(_) | Error::Store(_))) => 0,
            Some(Err(error)) => {
                return Err(format!("{name} ({action:?}) has an untyped error: {error}"));
            }
            None => return Err(format!("{name} ({action:?}) has no outcome")),
        };
        if recorded != wanted {
            let outcome = outcomes.get(&number);
            return Err(format!(
                "{name} ({action:?}) is recorded {recorded} times, and its outcome is {outcome:?}"
            ));
        }
    }
    pauses_alternate(&journal)?;
    decided_once(&journal)?;
    let paid = places.0.paid.load(Ordering::SeqCst) as usize;
    let resets = count(&|kind| matches!(kind, EventKind::NodeReset { .. }));
    let granted = journal.iter().any(|event| {
        matches!(&event.kind, EventKind::ApprovalResolved { answer, .. }
            if answer.decode::<Approval>().is_ok_and(|answer| answer.is_granted()))
    });
    let completed = journal.last().is_some_and(|event| event.name() == "run.completed");
    let decides = scenario.name.starts_with("mixed_order")
        || !plan.iter().any(|(_, action)| *action == Action::Crash);
    if paid > resets + 1 || paid > 0 && !granted || decides && paid == 0 && granted && completed {
        return Err(format!("it was paid {paid} times, with {resets} retries; granted: {granted}"));
    }
    Ok(())
}

/// Checks that pauses and unpauses alternate, so that each one takes effect.
fn pauses_alternate(journal: &[Event]) -> Result<(), String> {
    let mut paused = false;
    for event in journal.iter().filter(|event| event.path.to_string().is_empty()) {
        let (now, wanted) = match &event.kind {
            EventKind::RunPaused { reason: PauseReason::Operator, .. } => (true, false),
            EventKind::RunResumed { recovered: false, by: Some(_), .. } => (false, true),
            _ => continue,
        };
        if paused != wanted {
            return Err(format!("`{}` {} has no effect", event.name(), event.seq));
        }
        paused = now;
    }
    Ok(())
}

fn decided_once(journal: &[Event]) -> Result<(), String> {
    let mut open = BTreeMap::new();
    for event in journal {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::ApprovalRequested(_) => drop(open.insert(path, true)),
            EventKind::ApprovalResolved { .. }
                if open.insert(path.clone(), false) != Some(true) =>
            {
                return Err(format!(
                    "the question at `{path}` has two answers, or an answer and no question"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A pseudo-random generator with a fixed seed.
struct SeededRng(u64);

impl SeededRng {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("an index")
    }
}

async fn played(scenario: &Scenario, plan: &Plan) -> Vec<usize> {
    let played = tokio::time::timeout(1000 * QUIET, play(scenario, plan)).await;
    match played {
        Ok(Ok(rests)) => rests,
        Ok(Err(problem)) => {
            panic!("`{}`, elsewhere: {}, {plan:?}: {problem}", scenario.name, scenario.elsewhere)
        }
        Err(_) => {
            panic!("`{}`, elsewhere: {}, {plan:?}: it hangs", scenario.name, scenario.elsewhere)
        }
    }
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |value| value.parse().expect("a number"))
}

const LAST: usize = usize::MAX;

/// Sends two answers at pairs of points of a run that is resumed while it waits for an answer. Tries
/// all pairs if `AGENTFLOW_SCHEDULES` is set, and every sixth one otherwise.
#[tokio::test(start_paused = true)]
async fn two_answers_at_every_place_of_a_restart() {
    let (mut schedules, step) = (0, if variable("AGENTFLOW_SCHEDULES", 0) > 0 { 1 } else { 6 });
    for scenario in SCENARIOS.iter().filter(|scenario| !scenario.elsewhere) {
        let asked = played(scenario, &vec![(LAST, Action::Deny)]).await[0];
        let crash = (asked + 1, Action::Crash);
        let again = played(scenario, &vec![crash, (LAST, Action::Deny)]).await[2];
        for first in asked + 1..=again + 1 {
            for second in (first..=again + 1).step_by(step) {
                played(scenario, &vec![crash, (first, Action::Deny), (second, Action::Grant)])
                    .await;
                schedules += 1;
            }
        }
    }
    assert!(schedules > 0, "no place was tried");
}

/// Sends similar requests of several operators at the same or nearby points, with crashes in
/// between.
#[tokio::test(start_paused = true)]
async fn several_operators_ask_at_once() {
    const ASKED: [Action; 8] = [
        Action::Pause,
        Action::Pause,
        Action::Pause,
        Action::Unpause,
        Action::Unpause,
        Action::Cancel,
        Action::Grant,
        Action::Retry,
    ];
    let (seed, schedules) = (variable("AGENTFLOW_SEED", 7), variable("AGENTFLOW_SCHEDULES", 240));
    let mut dice = SeededRng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut lengths = Vec::new();
    for scenario in &SCENARIOS {
        lengths
            .push(*played(scenario, &vec![(LAST, Action::Grant)]).await.last().expect("it ended"));
    }
    for schedule in 0..schedules {
        let at = usize::try_from(schedule).expect("an index") % SCENARIOS.len();
        let place = dice.below(2 * lengths[at]);
        let mut plan: Plan = Vec::new();
        for _ in 0..2 + dice.below(4) {
            plan.push((place + dice.below(4), ASKED[dice.below(ASKED.len())]));
        }
        for _ in 0..dice.below(3) {
            plan.push((place + dice.below(12), Action::Crash));
        }
        played(&SCENARIOS[at], &plan).await;
    }
}

/// Regression test: a cancellation arrived together with the retry of a step whose agent had just
/// ended.
#[tokio::test(start_paused = true)]
async fn a_retry_a_denial_a_crash_and_a_cancellation() {
    let plan =
        vec![(28, Action::Deny), (43, Action::Cancel), (26, Action::Retry), (31, Action::Crash)];
    played(&SCENARIOS[3], &plan).await;
}

#[tokio::test(start_paused = true)]
async fn any_requests_at_any_places() {
    let (seed, schedules) = (variable("AGENTFLOW_SEED", 7), variable("AGENTFLOW_SCHEDULES", 240));
    let mut dice = SeededRng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut lengths = Vec::new();
    for scenario in &SCENARIOS {
        lengths
            .push(*played(scenario, &vec![(LAST, Action::Grant)]).await.last().expect("it ended"));
    }
    for schedule in 0..schedules {
        let at = usize::try_from(schedule).expect("an index") % SCENARIOS.len();
        let actions = 1 + dice.below(5);
        let mut plan: Plan = (0..actions)
            .map(|_| (dice.below(2 * lengths[at]), ALL[dice.below(ALL.len())]))
            .collect();
        if schedule % 2 == 0 {
            plan.push((dice.below(lengths[at]), Action::Crash));
        }
        played(&SCENARIOS[at], &plan).await;
    }
}
