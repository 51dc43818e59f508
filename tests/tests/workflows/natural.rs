//! Bodies as a Rust developer would write them without considering a graph: checks, early returns,
//! nested branches and loops, destructuring, shadowing, closures. Each body is written once as a
//! plain `async fn` and as a `#[workflow]`, with the same results and effects for several inputs.

#![allow(
    clippy::manual_is_multiple_of,
    clippy::needless_question_mark,
    clippy::never_loop,
    clippy::unnecessary_lazy_evaluations,
    reason = "written as people write"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};

pub(super) type Failed = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Outcome = (Result<u32, String>, Vec<String>);

tokio::task_local! {
    static EFFECTS: Arc<Mutex<Vec<String>>>;
}

fn note(what: String) {
    // Steps are polled in the task of their run.
    let _ = EFFECTS.try_with(|effects| effects.lock().unwrap().push(what));
}

/// Returns the result and the effects. The text of a panic is not compared, because the run adds
/// the name of the step.
pub(super) async fn outcome(
    run: impl Future<Output = Result<u32, Failed>> + Send + 'static,
) -> Outcome {
    let effects = Arc::<Mutex<Vec<String>>>::default();
    let of_run = EFFECTS.scope(Arc::clone(&effects), run);
    let ended = match tokio::spawn(of_run).await {
        Ok(ended) => ended.map_err(|error| error.to_string()),
        Err(_) => Err("panicked".to_owned()),
    };
    let ended = ended
        .map_err(|error| if error.contains("panicked") { "panicked".to_owned() } else { error });
    let all = effects.lock().unwrap().clone();
    (ended, all)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Order {
    id: u32,
    name: String,
    items: Vec<u32>,
    status: Status,
    note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
enum Status {
    New,
    Paid { cents: u32 },
    Closed(Option<String>),
}

async fn load(id: u32) -> Result<Order, Failed> {
    if id == 7 {
        return Err("no such order".into());
    }
    let status = match id % 3 {
        0 => Status::New,
        1 => Status::Paid { cents: id * 10 },
        _ => Status::Closed((id % 2 == 0).then(|| "sold out".to_owned())),
    };
    let note = (id > 4).then(|| format!("note {id}"));
    Ok(Order { id, name: format!(" bob {id} "), items: (0..id % 5).collect(), status, note })
}

async fn find(id: u32) -> Result<Option<Order>, Failed> {
    if id > 5 { Ok(None) } else { Ok(Some(load(id).await?)) }
}

async fn look(n: u32) -> Result<u32, Failed> {
    if n == 13 { Err("thirteen".into()) } else { Ok(n) }
}

async fn odd(n: u32) -> Result<bool, Failed> {
    Ok(n % 2 == 1)
}

#[tool]
async fn send(to: String, n: u32) -> u32 {
    note(format!("send {to} {n}"));
    n
}

#[tool]
async fn charge(n: u32) -> Result<u32, Failed> {
    note(format!("charge {n}"));
    if n > 30 { Err("over the limit".into()) } else { Ok(n) }
}

fn valid(n: u32) -> Result<u32, Failed> {
    if n > 9 { Err(format!("{n} is large").into()) } else { Ok(n) }
}

fn known(text: &str) -> bool {
    !text.contains('4')
}

/// Expands each body as a function and as a workflow, and compares them.
macro_rules! twins {
    ($n:ident, $list:ident; $($name:ident $body:tt)*) => {
        twins!(@ $($name ($n, $list) $body)*);
    };
    (@ $($name:ident ($n:ident, $list:ident) { $($body:tt)* })*) => {
        $(mod $name {
            #![allow(unused_variables, unused_imports)]
            use super::*;

            pub(super) async fn plain($n: u32, $list: Vec<u32>) -> Result<u32, Failed> { $($body)* }

            #[workflow]
            pub(super) async fn $name($n: u32, $list: Vec<u32>) -> Result<u32, Failed> { $($body)* }
        })*

        #[tokio::test]
        async fn a_natural_body_means_the_same() {
            let inputs: [(u32, &[u32]); 10] = [
                (0, &[]), (1, &[1, 2]), (2, &[12, 1]), (3, &[7]), (4, &[1, 13]), (5, &[3, 4, 5]), (6, &[2]), (7, &[1]),
                (8, &[40, 2]), (11, &[9]),
            ];
            for (n, list) in inputs {
                $(
                    let plain = outcome($name::plain(n, list.to_vec())).await;
                    let flow = outcome($name::$name(n, list.to_vec())).await;
                    assert_eq!(plain, flow, "{} {n} {list:?}", stringify!($name));
                )*
            }
        }
    };
}

pub(super) use twins;

twins! {
    n, list;

    an_error_of_a_choice {
        let order = load(n).await?;
        if order.items.is_empty() {
            return Err("empty".into());
        }
        let paid = charge(order.id).await?;
        Ok(paid)
    }
    an_end_in_let_else {
        let Some(order) = find(n).await? else { return Ok(0) };
        let Order { id, name, .. } = order;
        let name = name.trim().to_owned();
        let sent = send(name, id).await;
        Ok(sent)
    }
    arms_with_errors_and_guards {
        let order = load(n).await?;
        let total = match order.status {
            Status::New => return Err("new".into()),
            Status::Paid { cents } if cents > 50 => charge(cents).await?,
            Status::Paid { cents } => {
                send("small".to_owned(), cents).await;
                cents
            }
            Status::Closed(Some(why)) => send(why, 1).await,
            Status::Closed(None) => 0,
        };
        Ok(total)
    }
    a_check_in_a_loop {
        for id in list {
            let order = load(id).await?;
            if order.name.contains('4') {
                return Err("four".into());
            }
            charge(order.id).await?;
        }
        Ok(send("done".to_owned(), n).await)
    }
    checks_between_steps {
        let total: u32 = list.iter().sum();
        assert!(total < 40, "too many: {total}");
        let total = total + look(n).await?;
        let total = total * 2;
        let _ = valid(total / 10)?;
        charge(total).await
    }
    a_closure {
        let double = |x: u32| x * 2;
        let a = look(double(n)).await?;
        let b = look(double(a)).await?;
        Ok(a + b)
    }
    nested_choices {
        if n > 3 {
            if odd(n).await? {
                charge(n).await?;
            } else {
                send("even".to_owned(), n).await;
                if list.len() > 1 {
                    return Ok(99);
                }
            }
        }
        let rest = look(n).await?;
        send("rest".to_owned(), rest).await;
        Ok(rest)
    }
    a_list_in_parts {
        let (first, rest) = match list.split_first() {
            Some((first, rest)) => (*first, rest.to_vec()),
            None => return Ok(1),
        };
        let first = look(first).await?;
        for x in &rest {
            send("rest".to_owned(), *x).await;
        }
        Ok(first)
    }
    a_borrowed_match {
        let order = find(n).await?;
        let name = match &order {
            Some(order) if known(&order.name) => order.name.clone(),
            Some(_) => "unknown".to_owned(),
            None => "none".to_owned(),
        };
        send(name, n).await;
        let Some(Order { status: Status::Paid { cents }, .. }) = order else { return Err("not paid".into()) };
        charge(cents).await
    }
    a_condition_that_waits {
        let limit = 10;
        let ok = n < limit && odd(n).await?;
        if ok {
            send("ok".to_owned(), n).await;
        }
        let text = if ok { "yes" } else { "no" };
        Ok(look(text.len() as u32).await?)
    }
    a_matched_error {
        let found = match load(n).await.map_err(|e| e.to_string()) {
            Ok(order) => order.id,
            Err(error) => {
                send(error, 0).await;
                0
            }
        };
        Ok(look(found).await?)
    }
    a_numbered_loop {
        for (i, x) in list.iter().enumerate() {
            let y = look(*x).await?;
            assert!(y != 12, "twelve at {i}");
            send(format!("at {i}"), y).await;
        }
        Ok(n)
    }
    a_value_or_a_step {
        let mut_free: Vec<u32> = {
            let mut v = list.clone();
            v.sort();
            v
        };
        let max = mut_free.last().copied().unwrap_or(0);
        let x = if max > 10 { valid(max)? } else { look(max).await? };
        Ok(send("x".to_owned(), x).await)
    }
    shadowed_names {
        let x = look(n).await?;
        let x = {
            let y = x + 1;
            look(y).await?
        };
        let x = if x > 3 {
            let x = look(x).await?;
            x + 1
        } else {
            x
        };
        if let Some(last) = list.last() {
            send("last".to_owned(), *last).await;
        }
        Ok(x)
    }
    a_loop_in_a_block {
        let orders = {
            let mut all = Vec::new();
            for x in &list {
                all.push(load(*x).await?);
            }
            all
        };
        let by_name: BTreeMap<String, u32> = orders.iter().map(|o| (o.name.clone(), o.id)).collect();
        if by_name.len() > 2 {
            Err("many")?;
        }
        for (name, id) in by_name {
            send(name, id).await;
        }
        Ok(orders.len() as u32)
    }
    ends_of_a_match {
        match n {
            0 => Ok(0),
            1 | 2 => charge(n).await,
            _ if list.is_empty() => Err("nothing".into()),
            n => {
                let x = look(n).await?;
                send("many".to_owned(), x).await;
                Ok(x)
            }
        }
    }
    early_ends {
        if list.is_empty() {
            return Ok(0);
        }
        let first = look(list[0]).await?;
        if first > 8 {
            send("large".to_owned(), first).await;
            return Err("large".into());
        } else if first == 1 {
            return Ok(look(1).await?);
        }
        charge(first).await
    }
    borrowed_fields {
        let order = load(n).await?;
        let Order { items, note, .. } = &order;
        let count = items.len();
        let note = note.as_deref().unwrap_or("none");
        send(note.to_owned(), count as u32).await;
        Ok(look(count as u32).await? + items.iter().sum::<u32>())
    }
    a_closure_that_checks {
        let a = look(n).await?;
        let check = |x: u32| -> Result<(), Failed> { if x > 6 { Err("closure".into()) } else { Ok(()) } };
        check(a)?;
        let b = charge(a).await?;
        check(b + 2)?;
        send("after".to_owned(), b).await;
        Ok(b)
    }
    loops_in_arms {
        for x in list {
            match find(x).await? {
                None => {
                    send("none".to_owned(), x).await;
                }
                Some(Order { items, .. }) => {
                    for item in items {
                        if item > 1 {
                            charge(item).await?;
                        }
                    }
                }
            }
        }
        debug_assert!(n < 10);
        Ok(send("end".to_owned(), n).await)
    }
    an_option_tried {
        let x: u32 = look(n).await?.checked_sub(1).ok_or("below zero")?;
        let y = x.checked_mul(10).ok_or_else(|| "over")?;
        send("y".to_owned(), y).await;
        Ok(y)
    }
    an_error_looked_at {
        let result = charge(n * 5).await.map_err(|e| e.to_string());
        if result.is_err() {
            return Err("charged too much".into());
        }
        let got = result?;
        Ok(got)
    }
    a_struct_updated {
        let id = n;
        let order = load(id).await?;
        let id = order.id + 1;
        let order = load(id).await?;
        let order = Order { name: order.name.trim().to_owned(), ..order };
        send(order.name, order.id).await;
        Ok(id)
    }
    steps_joined {
        let (a, b) = tokio::try_join!(look(n), look(n + 1))?;
        if a + b > 12 {
            return Err(format!("{a} and {b}").into());
        }
        Ok(charge(a + b).await?)
    }
    a_loop_once {
        loop {
            let x = look(n).await?;
            if x > 2 {
                break;
            }
            send("small".to_owned(), x).await;
            break;
        }
        let flag = matches!(list.as_slice(), [1, ..]);
        if !flag {
            note("no".to_owned());
        }
        Ok(u32::from(flag))
    }
    an_end_after_a_step {
        let status = load(n).await?.status;
        let Status::Paid { cents } = status else {
            send("unpaid".to_owned(), n).await;
            return Err("unpaid".into());
        };
        Ok(cents)
    }
    a_filtered_loop {
        let names: Vec<String> = list.iter().map(|x| format!("<{x}>")).collect();
        for name in names.iter().filter(|name| known(name)).cloned() {
            send(name, n).await;
        }
        if names.iter().any(|name| !known(name)) {
            return Err("unknown".into());
        }
        Ok(look(names.len() as u32).await?)
    }
    a_block_of_steps {
        let x = look(n).await?;
        {
            let y = valid(x)?;
            send("inner".to_owned(), y).await;
        }
        let unit = send("after".to_owned(), x).await;
        let () = ();
        Ok(unit)
    }
    let_ok_else {
        let Ok(order) = load(n).await else { return Ok(77) };
        let Order { ref name, id, .. } = order;
        let len = name.len();
        Ok(look(id + len as u32).await?)
    }
    a_chain_of_conditions {
        if let Some(order) = find(n).await?
            && order.id > 2
        {
            charge(order.id).await?;
        } else {
            valid(n)?;
            send("else".to_owned(), n).await;
        }
        while false {
            look(1).await?;
        }
        Ok(n)
    }
}

/// Doubles a number.
#[tool(effects = "none")]
async fn doubled(n: u32) -> u32 {
    2 * n
}

async fn refused(_: u32) -> Result<u32> {
    Err(agentflow::Error::Cancelled { reason: "no".into() })
}

#[workflow]
async fn cannot_fail(all: Vec<u32>) -> Result<(Vec<u32>, u32, u32, u32)> {
    let twice = map!(all, |n| doubled(n)).await?;
    let again = map!(twice, |n| { doubled(n).await }).await?;
    let grown = repeat!(1, |n| doubled(n), until = |n| *n > 50, max = 10).await?;
    let instead = fallback!(refused(1), doubled(4)).await?;
    let soon = timeout!("1m", doubled(5)).await?;
    Ok((again, grown, instead, soon))
}

#[tokio::test]
async fn a_form_takes_steps_that_cannot_fail() {
    assert_eq!(cannot_fail(vec![1, 2]).await.unwrap(), (vec![4, 8], 64, 8, 10));
}
