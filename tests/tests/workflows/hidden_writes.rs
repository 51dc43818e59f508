//! A tool with side effects keeps its written order when a plain function of a step calls it. It
//! waits for the steps above, and gates and reads below wait for it, although the plan shows only
//! that the step calls a function. The same holds for steps that another runtime executes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::MemoryStore;
use agentflow_testing::test_runtime;
use agentflow_tests::Elsewhere;
use tokio::time::{Instant, sleep};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Books a room.
#[tool]
async fn book_room(room: u32, ms: u64, diary: Inject<Diary>) -> Result<u32, String> {
    sleep(Duration::from_millis(ms)).await;
    if room == 0 {
        return Err("no such room".into());
    }
    diary.note(format!("booked {room}"));
    Ok(room)
}

/// Looks at a room.
#[tool(effects = "read")]
async fn look_at_room(room: u32, diary: Inject<Diary>) -> u32 {
    diary.note(format!("looked at {room}"));
    room
}

/// Marks a room, at once.
#[tool]
fn mark_room(room: u32, diary: Inject<Diary>) -> u32 {
    diary.note(format!("marked {room}"));
    room
}

async fn reserve(cx: &Context, room: u32, ms: u64) -> Result<u32, Failed> {
    Ok(book_room(room, ms, cx.inject()?).await?)
}

async fn look(cx: &Context, room: u32) -> Result<u32, Failed> {
    Ok(look_at_room(room, cx.inject()?).await)
}

async fn mark(cx: &Context, room: u32, ms: u64) -> Result<u32, Failed> {
    sleep(Duration::from_millis(ms)).await;
    Ok(mark_room(room, cx.inject()?))
}

async fn slow(room: u32, ms: u64) -> Result<u32, Failed> {
    sleep(Duration::from_millis(ms)).await;
    if room == 0 { Err("there is no room".into()) } else { Ok(room) }
}

/// The runtime that executes the steps: the run's own, or another one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Here,
    Elsewhere,
}

const PLACES: [Place; 2] = [Place::Here, Place::Elsewhere];

impl Place {
    fn of(self, builder: RuntimeBuilder, diary: &Diary) -> Runtime {
        let builder = builder.resource(diary.clone());
        match self {
            Self::Here => builder.build(),
            Self::Elsewhere => {
                let worker = Runtime::builder().resource(diary.clone()).build();
                builder.executor(Elsewhere::on_task(worker)).build()
            }
        }
    }
}

async fn run<In: agentflow::workflow::Inputs>(
    place: Place,
    workflow: agentflow::Workflow<In, u32>,
    input: impl agentflow::workflow::IntoInputs<In>,
) -> (Result<u32, String>, Vec<String>) {
    let diary = Diary::default();
    let runtime = place.of(Runtime::builder(), &diary);
    let output = tokio::time::timeout(Duration::from_secs(600), workflow.run(&runtime, input))
        .await
        .expect("it ends");
    (output.map_err(|error| error.to_string()), diary.notes())
}

#[workflow]
async fn trip(cx: &Context, a: u32, b: u32) -> Result<u32, Failed> {
    let first = reserve(cx, a, 20).await?;
    let second = reserve(cx, b, 0).await?;
    Ok(first + second)
}

#[tokio::test(start_paused = true)]
async fn writes_in_functions_keep_their_order() {
    for place in PLACES {
        let (ended, notes) = run(place, trip::workflow(), (3, 7)).await;
        assert_eq!(
            (ended, notes),
            (Ok(10), vec!["booked 3".to_owned(), "booked 7".to_owned()]),
            "{place:?}"
        );
        let (ended, notes) = run(place, trip::workflow(), (0, 7)).await;
        assert!(ended.unwrap_err().contains("no such room"), "{place:?}");
        assert_eq!(notes, Vec::<String>::new(), "{place:?}: nothing is booked below what failed");
    }
}

#[workflow(concurrency = 1)]
async fn one_at_a_time(cx: &Context, a: u32, b: u32) -> Result<u32, Failed> {
    let loaded = slow(a, 5).await?;
    let first = reserve(cx, loaded, 20).await?;
    let second = reserve(cx, b, 0).await?;
    let third = slow(second, 1).await?;
    Ok(first + third)
}

/// A step that waits for its turn does not count against the concurrency limit.
#[tokio::test(start_paused = true)]
async fn a_waiting_step_does_not_block_others() {
    for place in PLACES {
        let (ended, notes) = run(place, one_at_a_time::workflow(), (3, 7)).await;
        assert_eq!(
            (ended, notes),
            (Ok(10), vec!["booked 3".to_owned(), "booked 7".to_owned()]),
            "{place:?}"
        );
    }
}

async fn fails_once(cx: &Context, room: u32) -> Result<u32, Failed> {
    let diary = cx.inject::<Diary>()?;
    diary.note(format!("tried {room}"));
    if diary.notes().len() == 1 { Err("not yet".into()) } else { Ok(room) }
}

#[workflow(concurrency = 1)]
async fn again_above(cx: &Context, a: u32, b: u32) -> Result<u32, Failed> {
    #[node(retry = 2)]
    let first = fails_once(cx, a).await?;
    #[node(timeout = "15ms")]
    let second = reserve(cx, b, 0).await?;
    Ok(first + second)
}

/// The step below starts while the step above waits for its second attempt. It releases its
/// concurrency slot to that attempt, and its time limit is suspended meanwhile.
#[tokio::test(start_paused = true)]
async fn a_step_above_is_retried_while_a_write_waits() {
    for place in PLACES {
        let (ended, notes) = run(place, again_above::workflow(), (3, 7)).await;
        assert_eq!(ended, Ok(10), "{place:?}");
        assert_eq!(notes, ["tried 3", "tried 3", "booked 7"], "{place:?}");
    }
}

#[workflow]
async fn after_a_read_that_fails(cx: &Context, a: u32, b: u32) -> Result<u32, Failed> {
    let first = slow(a, 20).await?;
    let second = reserve(cx, b, 0).await?;
    Ok(first + second)
}

#[tokio::test(start_paused = true)]
async fn a_write_in_a_function_does_not_run_after_a_failure_above() {
    for place in PLACES {
        let (ended, notes) = run(place, after_a_read_that_fails::workflow(), (0, 7)).await;
        assert!(ended.unwrap_err().contains("there is no room"), "{place:?}");
        assert_eq!(notes, Vec::<String>::new(), "{place:?}");
    }
}

#[workflow]
async fn reads_below(cx: &Context, a: u32, b: u32) -> Result<u32, Failed> {
    let first = reserve(cx, a, 20).await?;
    let seen = look_at_room(b, cx.inject()?).await;
    let again = look(cx, b + 1).await?;
    Ok(first + seen + again)
}

#[tokio::test(start_paused = true)]
async fn reads_below_see_the_write() {
    for place in PLACES {
        let (ended, mut notes) = run(place, reads_below::workflow(), (3, 7)).await;
        assert_eq!(ended, Ok(18), "{place:?}");
        notes[1..].sort();
        assert_eq!(notes, ["booked 3", "looked at 7", "looked at 8"], "{place:?}");
    }
}

#[workflow]
async fn marks_below(cx: &Context, a: u32, ms: u64) -> Result<u32, Failed> {
    let first = slow(a, 20).await?;
    let marked = mark(cx, a, ms).await?;
    Ok(first + marked)
}

/// A tool that is not `async` cannot wait, so it fails before it has its effect.
#[tokio::test(start_paused = true)]
async fn a_write_that_cannot_wait_fails_with_a_remedy() {
    for place in PLACES {
        let (ended, notes) = run(place, marks_below::workflow(), (3, 0)).await;
        let error = ended.unwrap_err();
        assert!(
            error.contains("`mark_room` writes") && error.contains("#[node(write)]"),
            "{place:?}: {error}"
        );
        assert_eq!(notes, Vec::<String>::new(), "{place:?}");
        let ended = run(place, marks_below::workflow(), (3, 50)).await;
        assert_eq!(ended, (Ok(6), vec!["marked 3".to_owned()]), "{place:?}");
    }
}

#[workflow]
async fn inner_trip(cx: &Context, a: u32, b: u32) -> Result<u32, Failed> {
    let first = reserve(cx, a, 20).await?;
    let second = reserve(cx, b, 0).await?;
    Ok(first + second)
}

#[workflow]
async fn nested_trips(cx: &Context, a: u32, b: u32) -> Result<u32, Failed> {
    let first = inner_trip(cx, a, b).await?;
    let second = inner_trip(cx, a + 10, b + 10).await?;
    Ok(first + second)
}

#[tokio::test(start_paused = true)]
async fn writes_in_functions_of_called_workflows_keep_their_order() {
    for place in PLACES {
        let (ended, notes) = run(place, nested_trips::workflow(), (3, 7)).await;
        let booked = ["booked 3", "booked 7", "booked 13", "booked 17"].map(str::to_owned).to_vec();
        assert_eq!((ended, notes), (Ok(40), booked), "{place:?}");
    }
}

#[workflow]
async fn asks_below(cx: &Context, a: u32) -> Result<u32, Failed> {
    let first = reserve(cx, a, 20).await?;
    let answer = gate!("is {a} right?").await?;
    Ok(first + u32::from(answer.is_granted()))
}

#[tokio::test(start_paused = true)]
async fn a_gate_asks_when_the_write_has_happened() {
    for place in PLACES {
        let diary = Diary::default();
        let runtime = place.of(test_runtime().store(MemoryStore::new()), &diary);
        let handle = runtime.start(asks_below::workflow(), 3).await.unwrap();
        sleep(Duration::from_millis(10)).await;
        assert!(
            runtime.runs().questions(agentflow::store::RunFilter::new()).await.unwrap().is_empty()
        );
        sleep(Duration::from_millis(50)).await;
        assert_eq!(diary.notes(), ["booked 3"]);
        runtime.run(handle.run_id()).approve("answer", Approval::granted(), "ada").await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 4);
    }
}

#[workflow]
async fn loads_two(a: u32, b: u32) -> Result<u32, Failed> {
    let first = slow(a, 30).await?;
    let second = slow(b, 30).await?;
    Ok(first + second)
}

#[tokio::test(start_paused = true)]
async fn functions_that_write_nothing_run_beside_each_other() {
    for place in PLACES {
        let began = Instant::now();
        assert_eq!(run(place, loads_two::workflow(), (1, 2)).await.0, Ok(3));
        assert_eq!(began.elapsed(), Duration::from_millis(30), "{place:?}");
    }
}
