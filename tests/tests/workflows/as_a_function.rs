//! A workflow behaves like its function. Each body is written once and compiled as a plain `async
//! fn` and as a `#[workflow]`. Both have the same results and the same effects, in an order that
//! the function could have.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::store::{MemoryStore, Store};
use agentflow_testing::{CrashTest, test_runtime};
use tokio::time::{Instant, sleep};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Expands the same body twice, within a `macro_rules!` macro.
macro_rules! grouped {
    ($name:ident, $value:expr) => {
        #[workflow]
        async fn $name(x: i64) -> Result<i64> {
            let y = $value * 2;
            Ok(same(&y).await? + x)
        }
    };
}

grouped!(grouped_sum, 1 + 2);

#[tokio::test]
async fn an_expression_of_a_macro_stays_together() {
    assert_eq!(grouped_sum(1).await.unwrap(), 7);
}

macro_rules! twin {
    ($plain:ident, $flow:ident, ($($input:ident: $ty:ty),*) -> $output:ty $body:block) => {
        async fn $plain($($input: $ty),*) -> Result<$output, Failed> $body

        #[workflow]
        async fn $flow($($input: $ty),*) -> Result<$output, Failed> $body
    };
}

/// The log of effects of each test.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

tokio::task_local! {
    static EFFECTS: Arc<Mutex<Vec<String>>>;
}

fn note(what: String) {
    // Steps are polled in the task of their run.
    let _ = EFFECTS.try_with(|effects| effects.lock().unwrap().push(what));
}

async fn noted<T>(run: impl Future<Output = T>) -> (T, Vec<String>) {
    let effects = Arc::<Mutex<Vec<String>>>::default();
    let output = EFFECTS.scope(Arc::clone(&effects), run).await;
    let all = effects.lock().unwrap().clone();
    (output, all)
}

fn new_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Order {
    id: u32,
    name: String,
    items: Vec<String>,
    status: Status,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
enum Status {
    New,
    Paid { cents: u32 },
    Closed(Option<String>),
}

async fn load(id: u32) -> Result<Order> {
    let items = (0..id).map(|n| format!("item {n}")).collect();
    let status = match id % 4 {
        0 => Status::New,
        1 => Status::Paid { cents: 10 * id },
        2 => Status::Closed(Some("sold out".to_owned())),
        _ => Status::Closed(None),
    };
    Ok(Order { id, name: format!(" Bob {id} "), items, status })
}

async fn find(id: u32) -> Result<Option<Order>, Failed> {
    match id {
        0 => Err("no such database".into()),
        1..=3 => Ok(Some(load(id).await?)),
        _ => Ok(None),
    }
}

async fn is_odd(id: u32) -> Result<bool> {
    Ok(id % 2 == 1)
}

async fn same<T: Clone + Send>(value: &T) -> Result<T> {
    Ok(value.clone())
}

/// Mails somebody.
#[tool]
async fn mail(to: String, text: String) -> Result<u32, Failed> {
    note(format!("{to}: {text}"));
    if to == "nobody" { Err("there is nobody".into()) } else { Ok(u32::try_from(text.len())?) }
}

/// Reads a counter.
#[tool(effects = "read")]
async fn look(n: u32) -> Result<u32, Failed> {
    if n == 99 { Err("nothing to see".into()) } else { Ok(n * 2) }
}

twin!(plain_values, values, (id: u32, names: Vec<String>) -> String {
    let order = load(id).await?;
    let order = same(&order).await?;
    let name = order.name.trim();
    let count = order.items.len();
    let doubled = [count, count * 2];
    let total: usize = doubled.iter().sum();
    let label = if total > 3 { "big" } else { "small" };
    let sorted = { let mut all = names; all.sort(); all.dedup(); all };
    let twice = |n: usize| n * total;
    let r#type = same(&sorted.join(",")).await?;
    let größe = same(&r#type.len()).await?;
    let 名 = same(&größe).await?;
    let width = 6;
    let (a, b) = (look(3).await?, Some(look(4).await?));
    let n: u8 = "7".parse()?;
    const LIMIT: u8 = 9;
    fn capped(n: u8) -> u8 { n.min(LIMIT) }
    #[cfg(test)]
    let built = same(&"test".to_owned()).await?;
    #[cfg(not(test))]
    let built = same(&"release".to_owned()).await?;
    Ok(format!("{name} {label} {type} {名} {} {a} {b:?} {:?} {built} {n:0width$}", twice(2), capped(n)))
});

twin!(plain_choices, choices, (id: u32) -> String {
    if id == 9 {
        return Ok("nine".to_owned());
    }
    let Some(order) = find(id).await? else {
        mail("owner".to_owned(), format!("there is no {id}")).await?;
        return Ok("none".to_owned());
    };
    let Some(first) = order.items.first() else { return Err("it is empty".into()) };
    let kind = match &order.status {
        Status::New => "new".to_owned(),
        Status::Paid { cents } if *cents > 5 => {
            let seen = look(*cents).await?;
            format!("paid {seen}")
        }
        Status::Paid { .. } => unreachable!("it costs more"),
        Status::Closed(Some(why)) if why.len() > 3 => same(why).await?,
        Status::Closed(_) => "closed".to_owned(),
    };
    let status = match order.status.clone() {
        Status::Closed(Some(mut why)) => same(&{ why.push('!'); why }).await?,
        _ => "open".to_owned(),
    };
    let text = match look(if id == 3 { 99 } else { id }).await.map_err(|error| error.to_string()) {
        Ok(n) if n > 3 => format!("many {n}"),
        Ok(n) => { mail("ok".to_owned(), n.to_string()).await?; "few".to_owned() }
        Err(error) => {
            mail("err".to_owned(), error).await?;
            if kind == "closed" { mail("again".to_owned(), kind).await?; return Err("failed and closed".into()); }
            return Ok("failed".to_owned());
        }
    };
    if is_odd(id).await? {
        mail("odd".to_owned(), kind.clone()).await?;
    } else if is_odd(id + 1).await? && !first.is_empty() {
        mail("even".to_owned(), kind.clone()).await?;
    }
    let size = match order.name.trim().to_lowercase().as_str() {
        "bob 1" => same(&1).await?,
        other => same(&other.len()).await?,
    };
    assert!(size > 0, "sizes are counted");
    Ok(format!("{first} {kind} {text} {size} {status}"))
});

twin!(plain_rounds, rounds, (n: u32) -> String {
    let list: Vec<u32> = (0..n).collect();
    for x in &list {
        let seen = look(*x).await?;
        if seen > 2 {
            mail(format!("team {x}"), seen.to_string()).await?;
        }
    }
    for (at, x) in list.iter().enumerate() {
        mail(format!("all {at}"), (x * 10).to_string()).await?;
    }
    for x in &list {
        if *x == 2 {
            continue;
        }
        mail(format!("some {x}"), "-".to_owned()).await?;
    }
    let mut_free = { let mut left = list.clone(); while let Some(x) = left.pop() { if look(x).await? == 2 { break; } } left };
    if n == 4 {
        mail("four".to_owned(), mut_free.len().to_string()).await?;
        let _: u32 = "x".parse()?;
    }
    let (left, right) = tokio::try_join!(look(1), look(2))?;
    let Ok(small) = u8::try_from(n * 100) else { return Ok("too much".to_owned()) };
    same(&small).await?;
    Ok(format!("{list:?} {left} {right}"))
});

#[tokio::test(start_paused = true)]
async fn twins_agree() {
    let strings = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    for (id, names) in [(0, strings(&[])), (1, strings(&["b", "a", "b"])), (3, strings(&["x"]))] {
        let (plain, flow) = (plain_values(id, names.clone()).await, values(id, names).await);
        assert_eq!(flow.unwrap(), plain.unwrap(), "{id}");
    }
    for id in 0..11 {
        let (plain, before) = noted(plain_choices(id)).await;
        let (flow, effects) = noted(choices(id)).await;
        assert_eq!(
            (flow.map_err(|e| e.to_string()), effects),
            (plain.map_err(|e| e.to_string()), before),
            "{id}"
        );
    }
    for n in 0..5 {
        let (plain, before) = noted(plain_rounds(n)).await;
        let (flow, effects) = noted(rounds(n)).await;
        assert_eq!(
            (flow.map_err(|e| e.to_string()), effects),
            (plain.map_err(|e| e.to_string()), before),
            "{n}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn they_survive_a_crash_at_every_write() {
    CrashTest::new(&values::workflow(), || (3, vec!["b".to_owned(), "a".to_owned()])).run().await;
    for id in [1, 2, 7, 9] {
        CrashTest::new(&choices::workflow(), move || (id,)).run().await;
    }
    CrashTest::new(&rounds::workflow(), || (3,)).run().await;
}

/// Reads one value in steps, in a gate and at the end.
#[workflow]
async fn one_id() -> Result<Vec<u32>> {
    let id = new_id();
    let hashed: HashSet<u32> = (0..20).map(|n| n * id).collect();
    let order: Vec<u32> = hashed.into_iter().collect();
    let one = same(&id).await?;
    let two = same(&(id, order.clone())).await?;
    let approval = gate!("use {id}?", order).await?;
    let three = match approval {
        Approval::Granted { .. } => same(&id).await?,
        Approval::Denied { .. } => 0,
    };
    assert_eq!(two.1, order);
    Ok(vec![id, one, two.0, three])
}

#[tokio::test(start_paused = true)]
async fn a_value_is_computed_once() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let handle = runtime.start(one_id::workflow(), ()).await.unwrap();
    let run = handle.run_id().clone();
    sleep(Duration::from_secs(1)).await;
    drop(handle);
    drop(runtime);
    // Simulates another process, whose ids start at another value.
    new_id();
    let other = test_runtime().store(store.as_another_process()).build();
    let handle = other.run(&run).resume().await.unwrap();
    other.run(&run).approve("approval", Approval::granted(), "ada").await.unwrap();
    let ids: Vec<u32> = handle.result().await.unwrap().decode().unwrap();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

/// A tool that takes its time.
#[tool]
async fn write_slowly(seconds: u64) -> u64 {
    sleep(Duration::from_secs(seconds)).await;
    LOG.lock().unwrap().push(format!("wrote {seconds}"));
    seconds
}

/// A tool that reads.
#[tool(effects = "read")]
async fn read_slowly(seconds: u64) -> Result<u64, Failed> {
    sleep(Duration::from_secs(seconds)).await;
    LOG.lock().unwrap().push(format!("read {seconds}"));
    if seconds == 13 { Err("bad luck".into()) } else { Ok(seconds) }
}

#[workflow]
async fn ordered(first: u64) -> Result<u64, Failed> {
    let a = read_slowly(first).await?;
    let b = read_slowly(4).await?;
    let w = write_slowly(2).await;
    let v = write_slowly(1).await;
    #[node(unordered)]
    let free = write_slowly(3).await;
    let c = read_slowly(5).await?;
    Ok(a + b + w + v + free + c)
}

#[workflow]
async fn gated() -> Result<u64, Failed> {
    let meanwhile = read_slowly(6).await?;
    let approval = gate!("go on?").await?;
    let now = new_id();
    let sent = write_slowly(7).await;
    let after = read_slowly(8).await?;
    let _ = (approval, now);
    Ok(meanwhile + sent + after)
}

fn passes(what: &str) -> Result<(), Failed> {
    if what == "bad" { Err("it is bad".into()) } else { Ok(()) }
}

/// Has each check and gate in the body of a loop or a form.
#[workflow]
async fn held_back_by_bodies(words: Vec<String>) -> Result<u32, Failed> {
    let first = look(1).await?;
    for word in words.clone() {
        let length = look(word.len() as u32).await?;
        passes(if length > 30 { "bad" } else { "good" })?;
    }
    let second = look(2).await?;
    let all = map!(words, |word| {
        let length = look(word.len() as u32).await?;
        assert!(length < 40);
        length
    })
    .await?;
    let third = look(3).await?;
    #[node(id = "either")]
    let either = fallback!(look(4), {
        let approval = gate!("take 5?").await?;
        look(if approval.is_granted() { 5 } else { 6 }).await?
    })
    .await?;
    let fourth = look(7).await?;
    #[node(unordered)]
    let beside = map!(vec![8], |n| {
        let seen = look(n).await?;
        assert!(seen > 0);
        mail("ada".to_owned(), seen.to_string()).await?
    })
    .await?;
    let fifth = look(9).await?;
    Ok(first + second + third + either + fourth + fifth + all.iter().chain(&beside).sum::<u32>())
}

#[test]
fn what_is_below_a_body_with_a_check_or_a_gate_waits_for_it() {
    let graph = held_back_by_bodies::workflow().graph();
    let order = |node: &str| -> Vec<String> {
        let edges = &graph.node(node).unwrap().order;
        edges.iter().map(|edge| format!("{}: {}", edge.node, edge.reason.as_str())).collect()
    };
    assert_eq!(order("for"), [""; 0], "what reads above a check may still run");
    assert_eq!(order("second"), ["for: check"]);
    assert_eq!(order("all"), ["for: check"]);
    assert_eq!(order("third"), ["all: check"]);
    assert_eq!(order("either"), ["first: above", "second: above", "all: check", "third: above"]);
    assert_eq!(order("fourth"), ["either: gate"]);
    assert_eq!(order("fifth"), ["either: gate"], "the author lets `beside` happen when it suits");
}

/// A single test, because the cases share a log.
#[tokio::test(start_paused = true)]
async fn written_order_is_kept_where_it_can_be_noticed() {
    let log = || std::mem::take(&mut *LOG.lock().unwrap());
    let began = Instant::now();
    assert_eq!(ordered(3).await.unwrap(), 18);
    assert_eq!(log(), ["read 3", "wrote 3", "read 4", "wrote 2", "wrote 1", "read 5"]);
    // The two reads run together, then the writes in order, then the read below them.
    assert_eq!(began.elapsed().as_secs(), 4 + 2 + 1 + 5);
    // A failure above a write prevents the write.
    assert!(ordered(13).await.is_err());
    assert_eq!(log(), ["wrote 3", "read 4", "read 13"]);
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let handle = runtime.start(gated::workflow(), ()).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(log(), ["read 6"], "nothing below the gate begins before the answer");
    runtime.run(handle.run_id()).approve("approval", Approval::granted(), "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 21);
    assert_eq!(log(), ["wrote 7", "read 8"]);
}

#[test]
fn the_graph_says_why_a_node_waits() {
    let graph = gated::workflow().graph();
    let order = |node: &str| -> Vec<String> {
        let edges = &graph.node(node).unwrap().order;
        edges.iter().map(|edge| format!("{}: {}", edge.node, edge.reason.as_str())).collect()
    };
    assert_eq!(order("sent"), ["approval: gate", "now: above"]);
    assert_eq!(order("after"), ["approval: gate", "sent: write"]);
    assert_eq!(
        order("now"),
        ["meanwhile: above", "approval: gate"],
        "a clock is read at its place"
    );
}

/// Has more reads than the longest tuple.
#[workflow]
async fn many_reads(n: u32) -> Result<u32> {
    let (a, b, c, d, e) = (n + 1, n + 2, n + 3, n + 4, n + 5);
    let f = same(&a).await?;
    let g = same(&b).await?;
    let h = same(&c).await?;
    let i = same(&d).await?;
    let j = same(&e).await?;
    let k = same(&f).await?;
    let l = same(&g).await?;
    let m = same(&h).await?;
    let o = same(&i).await?;
    let p = same(&j).await?;
    let q = same(&k).await?;
    let r = same(&l).await?;
    let s = same(&m).await?;
    let t = same(&o).await?;
    let u = same(&p).await?;
    let v = same(&q).await?;
    let w = same(&r).await?;
    let x = same(&s).await?;
    Ok(same(&(f + g + h + i + j + k + l + m + o + p + q + r + s + t + u + v + w + x)).await? + n)
}

#[tokio::test]
async fn there_is_no_limit_of_reads() {
    assert_eq!(many_reads(0).await.unwrap(), 3 * 15 + 1 + 2 + 3);
}

/// Node names are derived from calls, not from positions.
#[workflow]
async fn names(to: String) -> Result<u32, Failed> {
    let text = same(&to).await?;
    let text = same(&text).await?;
    mail("ann".to_owned(), text.clone()).await?;
    mail("bob".to_owned(), text.clone()).await?;
    let _ = look(1).await?;
    if text.is_empty() {
        mail("eve".to_owned(), text).await?;
    }
    look(2).await
}

#[test]
fn names_follow_from_calls() {
    let graph = names::workflow().graph();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "to",
            "text",
            "text_same",
            "mail(ann.to_owned(),text.clone())",
            "mail(bob.to_owned(),text.clone())",
            "look(1)",
            "if",
            "if/then/mail",
            "if/then/yield",
            "if/else/yield",
            "if/end",
            "look(2)"
        ]
    );
}

static REPAIRED: AtomicU32 = AtomicU32::new(0);

async fn lost_after(seconds: u64) -> Result<u32, Failed> {
    sleep(Duration::from_secs(seconds)).await;
    Err("lost".into())
}

async fn fails_at_first(seconds: u64) -> Result<u32, Failed> {
    sleep(Duration::from_secs(seconds)).await;
    if REPAIRED.load(Ordering::Relaxed) == 0 { Err("not yet".into()) } else { Ok(7) }
}

async fn read_slowly_apart(seconds: u32) -> u32 {
    sleep(Duration::from_secs(seconds.into())).await;
    seconds
}

/// `lost` fails after the failure of `once` has stopped the later nodes, so `reader` is decided
/// while everything is stopped.
#[workflow]
async fn decided_while_stopped() -> Result<u32, Failed> {
    let slow = read_slowly_apart(4).await;
    #[node(on_error = skip)]
    let lost = lost_after(2).await?;
    let once = fails_at_first(1).await?;
    let reader = same(&lost).await?;
    #[after(reader)]
    let last = same(&once).await?;
    Ok(slow + last)
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_while_a_run_was_stopped_has_its_turn_after_a_retry() {
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let handle = runtime.start(decided_while_stopped::workflow(), ()).await.unwrap();
    let run = handle.run_id().clone();
    // `slow` precedes the failure and still runs, so the run has not ended.
    sleep(Duration::from_secs(3)).await;
    REPAIRED.store(1, Ordering::Relaxed);
    runtime.run(&run).retry("once", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 11);
}

static ABOVE: AtomicU32 = AtomicU32::new(0);

async fn fails_once(seconds: u64) -> Result<u32, Failed> {
    sleep(Duration::from_secs(seconds)).await;
    if ABOVE.fetch_add(1, Ordering::Relaxed) == 0 { Err("not yet".into()) } else { Ok(7) }
}

#[workflow]
async fn failed_twice() -> Result<u32, Failed> {
    let above = fails_once(2).await?;
    let below = lost_after(1).await?;
    let beside = look(1).await?;
    let sent = mail("ada".to_owned(), "all is well".to_owned()).await?;
    Ok(above + below + beside + sent)
}

#[tokio::test(start_paused = true)]
async fn what_is_below_a_failure_stays_stopped_when_another_one_is_retried() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let handle = runtime.start(failed_twice::workflow(), ()).await.unwrap();
    let run = handle.run_id().clone();
    assert!(handle.result().await.unwrap_err().to_string().contains("not yet"));
    runtime.run(&run).retry("above", "ada").await.unwrap();
    let error = runtime.run(&run).resume().await.unwrap().result().await.unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    let events = store.read(&run, 0, 1000).await.unwrap();
    let begun = |node: &str| events.iter().filter(|event| event.path.to_string() == node).count();
    assert!(begun("above") > 2, "it was retried");
    assert_eq!(begun("sent"), 0, "`below` has failed, so nothing is sent");
}

#[tokio::test(start_paused = true)]
async fn what_is_above_a_failure_goes_to_its_end() {
    let began = Instant::now();
    let error = stopped_late().await.unwrap_err();
    assert_eq!(error.to_string(), "lost");
    assert_eq!(
        began.elapsed().as_secs(),
        2,
        "the first failure in written order counts, though another was faster"
    );
}

#[workflow]
async fn stopped_late() -> Result<u32, Failed> {
    let first = lost_after(2).await?;
    let second = lost_after(1).await?;
    Ok(first + second)
}
