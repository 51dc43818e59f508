//! Sends random requests to a store: sequentially, compared with a simple reference, and from
//! several concurrent writers.

use std::cell::RefCell;

use agentflow::Event;
use agentflow::event::EventKind;
use agentflow::store::{Append, Epoch, StoreErrorKind};
use fastrand::Rng;
use futures_util::future::join_all;

use super::{StoreUnderTest, noted, run, started};

const REQUESTS: u32 = 40;

/// The state of a run as one writer assumes it.
#[derive(Clone, Copy)]
struct AssumedWriter {
    epoch: Epoch,
    after: u64,
}

/// Executes random requests of three writers of one run, and compares the results with a list of
/// the expected events.
pub(super) async fn requests(t: &StoreUnderTest, seed: u64) {
    let (id, mut rng) = (run("a"), Rng::with_seed(seed));
    let mut epoch = t.created(&id).await;
    let mut journal = vec![started(&id, "job", 1)];
    let mut writers = [AssumedWriter { epoch, after: 1 }; 3];
    for request in 0..REQUESTS {
        let who = rng.usize(0..writers.len());
        let AssumedWriter { epoch: believed, after } = writers[who];
        let what = format!("seed {seed}, request {request} of writer {who}");
        match rng.u8(0..10) {
            0..2 => {
                let opened = t.ok(t.store.open(&id).await, &what);
                assert!(
                    opened > epoch,
                    "{}: {what}: the epoch grows: {epoch:?}, {opened:?}",
                    t.rule
                );
                epoch = opened;
                writers[who] = AssumedWriter { epoch, after: journal.len() as u64 };
            }
            2 => t.ok(t.store.close(&id, Epoch(epoch.0.saturating_sub(1))).await, &what),
            3 => {
                let (from, limit) = (rng.usize(0..=journal.len()), rng.usize(0..8));
                let expected: Vec<Event> = journal.iter().skip(from).take(limit).cloned().collect();
                t.same(t.ok(t.store.read(&id, from as u64, limit).await, &what), expected, &what);
            }
            4 => t.same(t.record(&id).await.events, journal.len() as u64, &what),
            _ => {
                let events: Vec<_> =
                    (1..=rng.u64(1..4)).map(|n| noted(&id, after + n, &what)).collect();
                let appended =
                    t.store.append(&id, believed, Append::new(after, events.clone())).await;
                // Only the writer with the newest epoch and the correct position may append.
                if believed == epoch && after == journal.len() as u64 {
                    t.ok(appended, &what);
                    journal.extend(events);
                    writers[who].after = journal.len() as u64;
                } else {
                    t.fails(appended, StoreErrorKind::Fenced, &what);
                }
            }
        }
    }
    t.same(t.journal(&id).await, journal, &format!("the whole journal, seed {seed}"));
}

/// Runs four concurrent writers of one run. Each opens the run, writes until it is fenced off, and
/// opens it again.
pub(super) async fn writers(t: &StoreUnderTest, seed: u64) {
    let id = run("a");
    t.created(&id).await;
    let done = RefCell::new(Vec::new());
    join_all((0..4).map(|who| write(t, who, seed, &done))).await;
    committed_once(t, done.into_inner()).await;
}

/// Like [`writers`], with two handles on the store.
pub(super) async fn handles(one: &StoreUnderTest, other: &StoreUnderTest) {
    one.created(&run("a")).await;
    let done = RefCell::new(Vec::new());
    join_all((0..4).map(|who| write(if who % 2 == 0 { one } else { other }, who, 7, &done))).await;
    committed_once(other, done.into_inner()).await;
}

/// An append that succeeded.
struct Done {
    epoch: Epoch,
    first: u64,
    texts: Vec<String>,
}

async fn write(t: &StoreUnderTest, who: u64, seed: u64, done: &RefCell<Vec<Done>>) {
    let (id, mut rng) = (run("a"), Rng::with_seed(seed * 100 + who));
    for round in 0..6 {
        let epoch = t.ok(t.store.open(&id).await, "opening a run");
        let mut after = t.journal(&id).await.len() as u64;
        for _ in 0..rng.u8(1..8) {
            let texts: Vec<String> =
                (0..rng.u8(1..4)).map(|n| format!("{who} {round} {after} {n}")).collect();
            let events: Vec<_> =
                (after + 1..).zip(&texts).map(|(seq, text)| noted(&id, seq, text)).collect();
            let written = events.len() as u64;
            match t.store.append(&id, epoch, Append::new(after, events)).await {
                Ok(()) => done.borrow_mut().push(Done { epoch, first: after + 1, texts }),
                Err(error) if error.kind() == StoreErrorKind::Fenced => break,
                Err(error) => panic!("{}: appending failed with: {error}", t.rule),
            }
            after += written;
        }
    }
}

/// Checks that the journal consists of exactly the acknowledged events, at the requested positions,
/// in the order of the epochs.
async fn committed_once(t: &StoreUnderTest, mut done: Vec<Done>) {
    done.sort_by_key(|done| done.first);
    let expected: Vec<String> = done.iter().flat_map(|done| done.texts.clone()).collect();
    let journal = t.journal(&run("a")).await;
    let found: Vec<String> = journal
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::NodeSkipped { reason } => Some(reason.to_string()),
            _ => None,
        })
        .collect();
    t.same(found, expected, "the journal has what was acknowledged, and nothing else");
    let places: Vec<u64> = journal.iter().map(|event| event.seq).collect();
    t.same(places, (1..=journal.len() as u64).collect(), "the places have no gaps");
    let epochs: Vec<Epoch> = done.iter().map(|done| done.epoch).collect();
    assert!(
        epochs.is_sorted(),
        "{}: a writer writes nothing after another has opened the run: {epochs:?}",
        t.rule
    );
}
