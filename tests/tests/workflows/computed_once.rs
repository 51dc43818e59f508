//! A value is computed once, even if its methods have names of the standard library. Only methods
//! of standard types are computed again by each reader. Each body runs as a plain `async fn` and as
//! a `#[workflow]`.

use std::sync::atomic::{AtomicU32, Ordering};

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::schemars;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::store::MemoryStore;
use agentflow_testing::{test_runtime, within};
use futures_util::StreamExt;

type Failed = Box<dyn std::error::Error + Send + Sync>;

tokio::task_local! {
    static DRAWN: AtomicU32;
}

/// Returns the number of the draw in this test.
fn draw() -> u32 {
    DRAWN.try_with(|drawn| drawn.fetch_add(1, Ordering::SeqCst)).unwrap_or_default()
}

/// A type of the program whose methods have names of the standard library.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
struct Deck {
    cards: Vec<String>,
}

impl Deck {
    fn last(&self) -> u32 {
        draw() * 10 + self.cards.len() as u32
    }

    fn get(&self, card: usize) -> Option<u32> {
        (card < self.cards.len()).then(draw)
    }

    fn first(&self) -> Option<String> {
        self.cards.first().map(|card| format!("{card}{}", draw()))
    }

    fn strip_prefix(&self, text: &str) -> Option<String> {
        self.cards
            .first()
            .and_then(|card| card.strip_prefix(text))
            .map(|rest| format!("{rest}{}", draw()))
    }

    /// Returns a part of the value, as the method of the standard library does.
    fn as_str(&self) -> &str {
        self.cards.first().map_or("", String::as_str)
    }
}

struct Dispenser;

impl Dispenser {
    fn last(&self) -> u32 {
        draw()
    }
}

static TICKETS: Dispenser = Dispenser;

async fn show(ticket: u32) -> Result<u32, Failed> {
    Ok(ticket)
}

async fn spell(text: &str) -> Result<String, Failed> {
    Ok(text.to_owned())
}

macro_rules! twins {
    ($($name:ident ($deck:ident) $body:tt)*) => {$(
        mod $name {
            #![allow(unused_imports)]
            use super::*;

            pub(super) async fn plain($deck: Deck) -> Result<String, Failed> $body

            #[workflow]
            pub(super) async fn $name($deck: Deck) -> Result<String, Failed> $body

            #[tokio::test]
            async fn computes_each_value_once() {
                for cards in [&[][..], &["ace"][..], &["two", "three"][..]] {
                    let deck = Deck { cards: cards.iter().map(ToString::to_string).collect() };
                    let plain = DRAWN.scope(AtomicU32::new(1), plain(deck.clone())).await;
                    let flow = DRAWN.scope(AtomicU32::new(1), $name(deck.clone())).await;
                    assert_eq!(plain.unwrap(), flow.unwrap(), "{cards:?}");
                }
            }
        }
    )*};
}

twins! {
    of_a_static(deck) {
        let ticket = TICKETS.last();
        let inside = show(ticket).await?;
        let outside = show(ticket).await?;
        Ok(format!("{}: {inside} {outside} {ticket}", deck.cards.len()))
    }

    of_a_recorded_value(deck) {
        let ticket = deck.last();
        let inside = show(ticket).await?;
        let outside = show(ticket).await?;
        Ok(format!("{inside} {outside} {ticket}"))
    }

    of_a_part_of_a_value(deck) {
        let decks = vec![deck.clone(), deck];
        let ticket = decks[1].last();
        let inside = show(ticket).await?;
        Ok(format!("{inside} {ticket}"))
    }

    within_a_chain(deck) {
        let decks = vec![deck];
        let ticket = decks.first().map(|deck| deck.last()).unwrap_or(7);
        let inside = show(ticket).await?;
        Ok(format!("{inside} {ticket}"))
    }

    of_a_name_for_a_static(deck) {
        let tickets = &TICKETS;
        let ticket = tickets.last();
        let inside = show(ticket).await?;
        Ok(format!("{inside} {ticket} {}", deck.cards.len()))
    }

    of_an_if_let(deck) {
        let found = if let Some(ticket) = deck.get(0) { show(ticket).await? } else { 99 };
        let again = if let Some(ticket) = deck.get(1) {
            let inside = show(ticket).await?;
            inside + ticket
        } else {
            98
        };
        Ok(format!("{found} {again}"))
    }

    of_an_else_if_let(deck) {
        let found = if deck.cards.len() > 1 {
            show(1).await?
        } else if let Some(ticket) = deck.get(0) {
            show(ticket).await? * 100 + ticket
        } else {
            show(deck.last()).await?
        };
        Ok(format!("{found}"))
    }

    of_a_match(deck) {
        let found = match deck.first() {
            Some(name) if name.len() > 4 => {
                let spelt = spell(&name).await?;
                format!("{spelt} {name}")
            }
            Some(name) => spell(&name).await?,
            None => spell("none").await?,
        };
        Ok(found)
    }

    of_a_let_else(deck) {
        let Some(rest) = deck.strip_prefix("a") else { return Ok("no".to_owned()) };
        let one = spell(&rest).await?;
        let other = spell(&rest).await?;
        Ok(format!("{one} {other} {rest}"))
    }

    of_a_question_mark(deck) {
        let deck = Deck { cards: [deck.cards, vec!["last".to_owned()]].concat() };
        let rest = deck.first().ok_or("none")?;
        let one = spell(&rest).await?;
        Ok(format!("{one} {rest}"))
    }

    of_a_round(deck) {
        for n in 0..3_u32 {
            let ticket = deck.last();
            let inside = show(ticket + n).await?;
            let outside = show(ticket).await?;
            assert!(inside == outside + n && outside == ticket);
        }
        let all = {
            let mut all = Vec::new();
            for n in 0..3_u32 {
                let ticket = deck.last();
                all.push(show(ticket + n).await? + ticket);
            }
            all
        };
        Ok(format!("{all:?}"))
    }

    borrowed_from_a_recorded_value(deck) {
        let name = deck.as_str();
        let one = spell(name).await?;
        let upper = deck.cards.first().map(|card| card.to_uppercase());
        let shown = match upper.as_deref() {
            Some(upper) => spell(upper).await?,
            None => "-".to_owned(),
        };
        let trimmed = &one.trim().to_lowercase();
        let again = spell(trimmed).await?;
        Ok(format!("{one} {shown} {again} {name}"))
    }
}

/// Draws from a counter of the process, so another process would draw other numbers.
static OF_PROCESS: AtomicU32 = AtomicU32::new(1);

struct Counter;

impl Counter {
    fn last(&self) -> u32 {
        OF_PROCESS.fetch_add(1, Ordering::SeqCst)
    }
}

static COUNTER: Counter = Counter;

async fn asked(ticket: u32) -> Result<u32, Failed> {
    Ok(ticket)
}

#[workflow]
async fn drawn_before_a_restart(desk: u32) -> Result<String, Failed> {
    let ticket = COUNTER.last();
    let inside = asked(ticket).await?;
    let answer = gate!("serve {ticket}?").await?;
    let outside = asked(ticket).await?;
    Ok(format!("{desk}: {inside} {outside} {ticket} {}", answer.is_granted()))
}

#[tokio::test]
async fn a_value_is_the_same_after_a_restart() {
    let store = MemoryStore::new();
    let runtime =
        test_runtime().store(store.clone()).workflow(&drawn_before_a_restart::workflow()).build();
    let handle = runtime.start(drawn_before_a_restart::workflow(), 3).await.unwrap();
    let id = handle.run_id().clone();
    let mut events = handle.events();
    within("the question", async {
        while !matches!(events.next().await.expect("it asks").kind, EventKind::ApprovalRequested(_))
        {
        }
    })
    .await;
    handle.abandon();
    drop(runtime);
    OF_PROCESS.fetch_add(50, Ordering::SeqCst);
    let runtime = test_runtime().store(store).workflow(&drawn_before_a_restart::workflow()).build();
    let handle = runtime.run(&id).resume().await.unwrap();
    runtime.run(&id).approve("answer", Approval::granted(), "ada").await.unwrap();
    let output = handle.result().await.unwrap();
    assert_eq!(output.as_str(), "\"3: 1 1 1 true\"");
}

/// Views of standard types are not nodes, so the graph does not change.
#[test]
fn a_view_of_a_standard_type_is_not_a_node() {
    let graph = borrowed_from_a_recorded_value::borrowed_from_a_recorded_value::workflow().graph();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert!(!names.iter().any(|name| name.contains("trimmed")), "{names:?}");
    let graph = of_a_static::of_a_static::workflow().graph();
    assert!(graph.node("ticket").is_some());
}
