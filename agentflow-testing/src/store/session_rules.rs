//! Rules of sessions, for a store that supports them.

use agentflow::serde_json::json;
use agentflow::store::{
    Append, Epoch, RunFilter, SessionFilter, SessionRecord, StoreError, StoreErrorKind,
};
use agentflow::{Event, RunId};

use super::{StorePart, StoreUnderTest, artifact_rules, event, run, started_in};

fn completed(run: &RunId, seq: u64) -> Event {
    let message = json!({"role": "assistant", "parts": [{"type": "text", "text": "done"}]});
    let answer = json!({"message": message, "stop_reason": "stop", "steps": 1, "usage": {}});
    event(run, seq, "", "run.completed", &json!({"agent": answer}))
}

fn failed(run: &RunId, seq: u64) -> Event {
    event(run, seq, "", "run.cancelled", &json!({"reason": "enough"}))
}

async fn begin(
    t: &StoreUnderTest,
    name: &str,
    session: &str,
    number: u64,
) -> Result<Epoch, StoreError> {
    let id = run(name);
    t.store.create(&id, vec![started_in(&id, 10 * number, session, number, None)]).await
}

async fn end(t: &StoreUnderTest, name: &str, epoch: Epoch, end: fn(&RunId, u64) -> Event) {
    let id = run(name);
    t.ok(
        t.store.append(&id, epoch, Append::new(1, vec![end(&id, 2)])).await,
        "ending a run of a session",
    );
}

async fn session(t: &StoreUnderTest, id: &str) -> SessionRecord {
    let found = t.ok(t.sessions().session(id).await, "asking for a session");
    found.unwrap_or_else(|| panic!("{}: the session `{id}` has no record", t.rule))
}

pub(super) async fn a_session_has_one_unfinished_run(t: &StoreUnderTest) {
    t.same(
        t.ok(t.sessions().session("s").await, "asking for a session"),
        None,
        "a session without runs",
    );
    t.fails(
        begin(t, "a", "s", 2).await,
        StoreErrorKind::Fenced,
        "a session that begins with its second run",
    );
    let a = t.ok(begin(t, "a", "s", 1).await, "beginning a session");
    let record = session(t, "s").await;
    t.same(
        (record.runs, record.head, record.unfinished),
        (1, None, Some(run("a"))),
        "a session with its first run",
    );
    t.fails(
        begin(t, "b", "s", 2).await,
        StoreErrorKind::SessionBusy,
        "a second run at the same time",
    );
    t.fails(
        begin(t, "b", "s", 1).await,
        StoreErrorKind::SessionBusy,
        "a second first run at the same time",
    );
    t.same(t.ok(t.store.record(&run("b")).await, "a record"), None, "a run that was refused");
    t.ok(begin(t, "other", "t", 1).await, "beginning another session");
    end(t, "a", a, completed).await;
    for number in [0, 1, 3] {
        t.fails(
            begin(t, "b", "s", number).await,
            StoreErrorKind::Fenced,
            "a run with another number than the next",
        );
    }
    let b = t.ok(begin(t, "b", "s", 2).await, "beginning the second run");
    end(t, "b", b, failed).await;
    let c = t.ok(begin(t, "c", "s", 3).await, "beginning the third run");
    // A reopened run counts as the unfinished run of its session.
    let again = vec![event(&run("b"), 3, "", "run.resumed", &json!({"recovered": false}))];
    t.fails(
        t.store.amend(&run("b"), 2, again.clone()).await,
        StoreErrorKind::SessionBusy,
        "letting an ended run continue beside another one",
    );
    let record = session(t, "s").await;
    t.same(
        (record.runs, record.head, record.unfinished),
        (3, Some(run("a")), Some(run("c"))),
        "a session whose second run has failed",
    );
    end(t, "c", c, completed).await;
    t.ok(t.store.amend(&run("b"), 2, again).await, "letting an ended run continue");
    t.fails(
        begin(t, "d", "s", 4).await,
        StoreErrorKind::SessionBusy,
        "a run beside an ended run that continues",
    );
    let epoch = t.ok(t.store.open(&run("b")).await, "opening it");
    t.ok(
        t.store.append(&run("b"), epoch, Append::new(3, vec![completed(&run("b"), 4)])).await,
        "ending it",
    );
    let record = session(t, "s").await;
    t.same(
        (record.runs, record.head, record.unfinished),
        (3, Some(run("c")), None),
        "a session in which an earlier run has completed late",
    );
    let listed = t.ok(t.store.list(RunFilter::new().session("s")).await, "the runs of a session");
    let mut names: Vec<&str> = listed.iter().map(|run| run.run_id.as_str()).collect();
    names.sort_unstable();
    t.same(names, vec!["a", "b", "c"], "the runs of a session");
    t.same(
        listed.iter().all(|run| run.session.is_some()),
        true,
        "a record contains the session of its run",
    );
}

pub(super) async fn of_runs_that_begin_in_a_session_at_once_one_does(t: &StoreUnderTest) {
    for number in 1..=8 {
        let names: Vec<String> = (0..6).map(|writer| format!("{number}-{writer}")).collect();
        let begun =
            futures_util::future::join_all(names.iter().map(|name| begin(t, name, "s", number)))
                .await;
        let mut won = names
            .iter()
            .zip(begun)
            .filter_map(|(name, begun)| begun.ok().map(|epoch| (name, epoch)));
        let (Some((name, epoch)), None) = (won.next(), won.next()) else {
            panic!(
                "{}: of six runs that begin as number {number} of one session not one began",
                t.rule
            )
        };
        end(t, name, epoch, completed).await;
    }
    t.same(session(t, "s").await.runs, 8, "the runs that began");
}

pub(super) async fn sessions_are_listed_by_their_first_run(t: &StoreUnderTest) {
    for (id, runs) in [("s1", 2), ("s2", 1), ("s3", 3)] {
        for number in 1..=runs {
            let name = format!("{id}-{number}");
            let epoch = t.ok(begin(t, &name, id, number).await, "beginning a run of a session");
            end(t, &name, epoch, completed).await;
        }
    }
    let alone = run("alone");
    t.created(&alone).await;
    let last = session(t, "s2").await;
    let busy = session(t, "s3").await;
    // `idle_since` is exclusive, so one millisecond later includes all sessions.
    let later = agentflow::time::Timestamp::from_millis(busy.updated.as_millis() + 1);
    for (filter, expected) in [
        (SessionFilter::new(), "s3 s2 s1"),
        (SessionFilter::new().limit(1), "s3"),
        (SessionFilter::new().after(&last), "s1"),
        (SessionFilter::new().caller("ada").tag("at", "1"), "s3 s2 s1"),
        (SessionFilter::new().tag("at", "2"), ""),
        (SessionFilter::new().caller("bob"), ""),
        (SessionFilter::new().idle_since(busy.updated).limit(5), ""),
        (SessionFilter::new().idle_since(later).after(&busy), "s2 s1"),
        (SessionFilter::new().idle_since(later).limit(2), "s3 s2"),
    ] {
        let found = t.ok(t.sessions().list_sessions(filter.clone()).await, "listing sessions");
        let names: Vec<&str> = found.iter().map(|session| &*session.id).collect();
        t.same(names.join(" "), expected.to_owned(), &format!("the sessions of {filter:?}"));
    }
}

pub(super) async fn a_session_is_deleted_as_a_whole(t: &StoreUnderTest) {
    t.fails(
        t.sessions().delete_session("s").await,
        StoreErrorKind::NotFound,
        "deleting an unknown session",
    );
    for number in 1..=2 {
        let name = format!("r{number}");
        let epoch = t.ok(begin(t, &name, "s", number).await, "beginning a run of a session");
        t.fails(
            t.sessions().delete_session("s").await,
            StoreErrorKind::SessionBusy,
            "deleting a session with an open run",
        );
        if t.has(StorePart::Artifacts) {
            artifact_rules::fill(t, &run(&name), epoch).await;
        }
        end(t, &name, epoch, completed).await;
    }
    let kept = t.ok(begin(t, "kept", "t", 1).await, "beginning another session");
    if t.has(StorePart::Deletion) {
        t.fails(
            t.store.delete(&run("r1")).await,
            StoreErrorKind::InSession,
            "deleting one run of a session",
        );
    }
    t.same(
        t.ok(t.sessions().delete_session("s").await, "deleting a session"),
        2,
        "the runs of a deleted session",
    );
    t.same(t.ok(t.sessions().session("s").await, "asking for it"), None, "a deleted session");
    t.fails(
        t.store.read(&run("r1"), 0, 10).await,
        StoreErrorKind::NotFound,
        "reading a run of a deleted session",
    );
    end(t, "kept", kept, completed).await;
    t.same(session(t, "t").await.head, Some(run("kept")), "the session beside it");
    t.ok(begin(t, "r1", "s", 1).await, "beginning a session of the same id again");
    if t.has(StorePart::Artifacts) {
        artifact_rules::is_gone(t, &run("r1")).await;
    }
}
