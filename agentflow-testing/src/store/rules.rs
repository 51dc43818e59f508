//! Rules of the `Store` trait, one function each, in the order of its methods.

use agentflow::serde_json::json;
use agentflow::store::{
    Append, Epoch, RunFilter, RunRecord, RunStatus, Snapshot, StateWrite, StoreErrorKind,
};
use agentflow::time::Timestamp;
use agentflow::value::Encoded;
use futures_util::future::join_all;

use super::message_rules::bodies;
use super::{
    StorePart, StoreUnderTest, artifact_rules, document_rules, end, event, noted, run, started,
    started_by,
};

pub(super) async fn a_run_is_created_once(t: &StoreUnderTest) {
    let id = run("a");
    let events = vec![started(&id, "job", 1), noted(&id, 2, "first")];
    let epoch = t.ok(t.store.create(&id, events.clone()).await, "creating a run");
    t.fails(
        t.store.create(&id, vec![started(&id, "other", 1)]).await,
        StoreErrorKind::Exists,
        "creating it again",
    );
    t.same(t.journal(&id).await, events, "the run is as it was created first");
    t.ok(
        t.store.append(&id, epoch, Append::new(2, vec![noted(&id, 3, "second")])).await,
        "appending with the epoch of its creation",
    );
}

pub(super) async fn an_unknown_run_is_not_found(t: &StoreUnderTest) {
    let (id, missing) = (run("none"), StoreErrorKind::NotFound);
    t.fails(t.store.open(&id).await, missing, "opening an unknown run");
    t.fails(
        t.store.append(&id, Epoch(1), Append::new(0, vec![noted(&id, 1, "x")])).await,
        missing,
        "appending to it",
    );
    t.fails(t.store.read(&id, 0, 10).await, missing, "reading it");
    if t.has(StorePart::Messages) {
        t.fails(t.messages().send(&id, "{}".to_owned()).await, missing, "leaving a message for it");
    }
    t.same(t.ok(t.store.record(&id).await, "asking for its record"), None, "it has no record");
    t.same(
        t.ok(t.store.snapshot(&id).await, "asking for its snapshot"),
        None,
        "it has no snapshot",
    );
    t.same(
        t.ok(t.store.definition("none").await, "asking for a definition"),
        None,
        "it is not there",
    );
}

pub(super) async fn what_was_appended_is_read_as_it_was(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let mut expected = vec![started(&id, "job", 1)];
    for size in [1, 3, 0, 2] {
        let after = expected.len() as u64;
        let events: Vec<_> = (1..=size).map(|n| noted(&id, after + n, "more")).collect();
        t.ok(t.store.append(&id, epoch, Append::new(after, events.clone())).await, "appending");
        expected.extend(events);
        t.same(t.journal(&id).await, expected.clone(), "all events are there, in order");
    }
}

pub(super) async fn reading_is_done_in_pages(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let events: Vec<_> = (2..=10).map(|seq| noted(&id, seq, "n")).collect();
    t.ok(t.store.append(&id, epoch, Append::new(1, events)).await, "appending");
    for (after, limit, expected) in
        [(0, 3, 1..4), (3, 3, 4..7), (9, 3, 10..11), (10, 3, 0..0), (99, 3, 0..0), (0, 0, 0..0)]
    {
        let read = t.ok(t.store.read(&id, after, limit).await, "reading");
        let places: Vec<u64> = read.iter().map(|event| event.seq).collect();
        t.same(places, expected.collect(), &format!("at most {limit} events after {after}"));
    }
}

pub(super) async fn opening_fences_off_the_writer_before(t: &StoreUnderTest) {
    let id = run("a");
    let first = t.created(&id).await;
    let second = t.ok(t.store.open(&id).await, "opening a run");
    assert!(
        second > first,
        "{}: the epoch grows with every opening: {first:?}, {second:?}",
        t.rule
    );
    let fenced = StoreErrorKind::Fenced;
    t.fails(
        t.store.append(&id, first, Append::new(1, vec![noted(&id, 2, "late")])).await,
        fenced,
        "appending with an old epoch",
    );
    if t.has(StorePart::Snapshots) {
        let snapshot = Snapshot::new(1, vec![started(&id, "job", 1)]);
        t.fails(
            t.store.put_snapshot(&id, first, snapshot).await,
            fenced,
            "a snapshot with an old epoch",
        );
    }
    if t.has(StorePart::Messages) {
        t.fails(
            t.messages().receive(&id, first).await,
            fenced,
            "taking messages with an old epoch",
        );
    }
    t.fails(
        t.store.append(&id, Epoch(second.0 + 1), Append::new(1, vec![])).await,
        fenced,
        "an epoch that nobody was given",
    );
    t.same(t.journal(&id).await.len(), 1, "nothing of it is written");
    t.ok(
        t.store.append(&id, second, Append::new(1, vec![noted(&id, 2, "new")])).await,
        "appending with the new epoch",
    );
}

pub(super) async fn an_append_at_another_place_writes_nothing(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    // Includes positions that overflow 32-bit and signed 64-bit integers.
    for after in [0, 2, 7, 1 << 32, u64::MAX - 1, u64::MAX] {
        let events = vec![noted(&id, after.saturating_add(1), "misplaced")];
        let misplaced = t.store.append(&id, epoch, Append::new(after, events)).await;
        t.fails(misplaced, StoreErrorKind::Fenced, "appending elsewhere");
    }
    t.same(t.journal(&id).await, vec![started(&id, "job", 1)], "nothing of it is written");
    t.ok(
        t.store.append(&id, epoch, Append::new(1, vec![noted(&id, 2, "placed")])).await,
        "appending at the end",
    );
}

pub(super) async fn what_is_too_large_is_refused(t: &StoreUnderTest) {
    /// Larger events would make the test too slow, so stores with a larger limit are not tested.
    const MOST: u64 = 1 << 20;
    let Some(limit) = t.store.max_event_bytes().filter(|limit| *limit <= MOST) else { return };
    // The text alone has the maximum size, so the whole event exceeds it.
    let text = "x".repeat(usize::try_from(limit).unwrap_or_default());
    let (id, other) = (run("a"), run("b"));
    let epoch = t.created(&id).await;
    let events = vec![noted(&id, 2, "small"), noted(&id, 3, &text)];
    t.fails(
        t.store.append(&id, epoch, Append::new(1, events)).await,
        StoreErrorKind::TooLarge,
        "appending a larger event",
    );
    let events = vec![started(&other, "job", 1), noted(&other, 2, &text)];
    t.fails(
        t.store.create(&other, events).await,
        StoreErrorKind::TooLarge,
        "creating a run with a larger event",
    );
    t.same(t.ok(t.store.record(&other).await, "asking for its record"), None, "it is not created");
    t.ok(
        t.store.append(&id, epoch, Append::new(1, vec![noted(&id, 2, "on")])).await,
        "appending in its place",
    );
    t.same(t.journal(&id).await.len(), 2, "nothing of the refused commit is written");
}

pub(super) async fn closing_with_an_old_epoch_changes_nothing(t: &StoreUnderTest) {
    let id = run("a");
    let first = t.created(&id).await;
    let second = t.ok(t.store.open(&id).await, "opening a run");
    t.ok(t.store.close(&id, first).await, "closing with an old epoch");
    t.ok(
        t.store.append(&id, second, Append::new(1, vec![noted(&id, 2, "on")])).await,
        "appending with the new one",
    );
}

pub(super) async fn a_closed_run_can_be_opened(t: &StoreUnderTest) {
    let id = run("a");
    let first = t.created(&id).await;
    t.ok(t.store.close(&id, first).await, "closing a run");
    let second = t.ok(t.store.open(&id).await, "opening a closed run");
    assert!(
        second > first,
        "{}: the epoch grows with every opening: {first:?}, {second:?}",
        t.rule
    );
    t.ok(t.store.append(&id, second, Append::new(1, vec![noted(&id, 2, "on")])).await, "appending");
}

pub(super) async fn a_run_that_is_open_here_has_no_other_holder(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let holder = t.ok(t.leases().holder(&id).await, "asking who holds a run");
    t.same(holder, None, "the process that asks is not named as another one");
    t.ok(t.store.close(&id, epoch).await, "closing a run");
    let holder = t.ok(t.leases().holder(&id).await, "asking who holds a closed run");
    t.same(holder, None, "no process holds a closed run");
}

pub(super) async fn the_record_follows_from_the_events(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let failure = json!({"error": {"kind": "tool", "message": "it broke", "retryable": false}});
    let steps = [
        (RunStatus::Running, "run.step", json!({"step": 1})),
        (RunStatus::Paused, "run.paused", json!({"reason": "approval"})),
        (RunStatus::Paused, "run.step", json!({"step": 2})),
        (RunStatus::Paused, "run.resumed", json!({"waiting": "approval"})),
        (RunStatus::Running, "run.resumed", json!({})),
        (RunStatus::Failed, "run.failed", failure),
        (RunStatus::Running, "run.resumed", json!({})),
        (RunStatus::Cancelled, "run.cancelled", json!({"reason": "enough"})),
        (RunStatus::Running, "run.resumed", json!({})),
        (RunStatus::Success, "run.completed", json!({"workflow": {"output": 7}})),
    ];
    let mut folded = RunRecord::new(&started(&id, "job", 1)).expect("it begins a run");
    t.same(t.record(&id).await, folded.clone(), "the record after run.started");
    for (after, (status, name, payload)) in (1..).zip(steps) {
        let next = event(&id, after + 1, "", name, &payload);
        folded.apply(&next);
        t.ok(t.store.append(&id, epoch, Append::new(after, vec![next])).await, "appending");
        let record = t.record(&id).await;
        t.same(record.clone(), folded.clone(), &format!("the record after {name}"));
        t.same(record.status, status, &format!("the status after {name}"));
    }
}

pub(super) async fn lists_are_filtered_and_the_newest_is_first(t: &StoreUnderTest) {
    for (name, workflow, time, end) in [
        ("r1", "nightly", 30, None),
        ("r2", "hourly", 10, Some(("run.completed", json!({"workflow": {"output": 1}})))),
        ("r3", "nightly", 20, Some(("run.cancelled", json!({"reason": "stop"})))),
        ("r4", "hourly", 20, Some(("run.paused", json!({"reason": "operator"})))),
    ] {
        let id = run(name);
        let mut events = vec![started(&id, workflow, time)];
        events.extend(end.map(|(kind, payload)| event(&id, 2, "", kind, &payload)));
        t.ok(t.store.create(&id, events).await, "creating a run");
    }
    let at = |time: u64| Timestamp::from_millis(1_700_000_000_000 + time);
    for (filter, expected) in [
        (RunFilter::new(), "r1 r4 r3 r2"),
        (RunFilter::new().limit(2), "r1 r4"),
        (RunFilter::new().limit(0), ""),
        (RunFilter::unfinished(), "r1 r4"),
        (RunFilter::new().status(RunStatus::Success).status(RunStatus::Cancelled), "r3 r2"),
        (RunFilter::new().name("hourly"), "r4 r2"),
        (RunFilter::unfinished().name("hourly"), "r4"),
        (RunFilter::new().name("never"), ""),
        (RunFilter::new().since(at(20)), "r1 r4 r3"),
        (RunFilter::new().since(at(20)).until(at(30)), "r4 r3"),
        (RunFilter::new().until(at(10)), ""),
        (RunFilter::new().after(&t.record(&run("r4")).await), "r3 r2"),
        (RunFilter::new().after(&t.record(&run("r1")).await).limit(1), "r4"),
        (RunFilter::unfinished().after(&t.record(&run("r2")).await), ""),
    ] {
        let found = t.ok(t.store.list(filter.clone()).await, "listing runs");
        let names: Vec<&str> = found.iter().map(|run| run.run_id.as_str()).collect();
        t.same(names.join(" "), expected.to_owned(), &format!("the runs of {filter:?}"));
        for listed in found {
            t.same(t.record(&listed.run_id).await, listed, "a list has the same records");
        }
    }
}

pub(super) async fn released_runs_are_claimable_and_the_oldest_is_first(t: &StoreUnderTest) {
    for (at, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let id = run(name);
        let first = started(&id, "w", u64::try_from(at).unwrap_or_default() * 1000);
        let epoch = t.ok(t.store.create(&id, vec![first]).await, "creating a run");
        t.ok(t.store.close(&id, epoch).await, "closing a run");
    }
    let end = event(&run("b"), 2, "", "run.cancelled", &json!({"reason": "enough"}));
    let epoch = t.ok(t.store.open(&run("b")).await, "opening a closed run");
    t.ok(t.store.append(&run("b"), epoch, Append::new(1, vec![end])).await, "ending a run");
    let claimable = t.store.claimable(RunFilter::unfinished()).await;
    let ids: Vec<_> =
        t.ok(claimable, "listing claimable runs").into_iter().map(|run| run.run_id).collect();
    t.same(ids, vec![run("a"), run("c"), run("d")], "unfinished runs, the oldest first");
    let limited = t.store.claimable(RunFilter::unfinished().limit(2)).await;
    let ids: Vec<_> = t
        .ok(limited, "listing two claimable runs")
        .into_iter()
        .map(|run| run.run_id)
        .take(2)
        .collect();
    t.same(ids, vec![run("a"), run("c")], "the limit counts the oldest runs");
}

pub(super) async fn runs_are_found_by_their_tags_and_caller(t: &StoreUnderTest) {
    let odd = " O'Hara \"%_\"\n\u{1F980}";
    for (name, time, end, caller, tags) in [
        ("r1", 30, false, Some("ada"), json!({"tenant": "acme", "job": "7"})),
        ("r2", 10, true, Some("bob"), json!({"tenant": "acme"})),
        ("r3", 20, false, None, json!({"tenant": "ACME", "job": "7"})),
        ("r4", 40, false, Some(odd), json!({odd: odd, "": ""})),
        ("r5", 50, false, None, json!({})),
    ] {
        let id = run(name);
        let mut events = vec![started_by(&id, time, caller, &tags)];
        if end {
            events.push(event(&id, 2, "", "run.cancelled", &json!({"reason": "stop"})));
        }
        let expected = RunRecord::from_events(&events).expect("it begins a run");
        t.ok(t.store.create(&id, events).await, "creating a run");
        t.same(t.record(&id).await, expected, "the record of a run with tags");
    }
    let tenant = || RunFilter::new().tag("tenant", "acme");
    for (filter, expected) in [
        (tenant(), "r1 r2"),
        (tenant().limit(1), "r1"),
        (tenant().status(RunStatus::Cancelled), "r2"),
        (tenant().after(&t.record(&run("r1")).await), "r2"),
        (tenant().tag("job", "7"), "r1"),
        (tenant().caller("bob"), "r2"),
        (RunFilter::new().tag("job", "7"), "r1 r3"),
        (RunFilter::new().tag("job", "7").tag("job", "8"), ""),
        (RunFilter::new().tag("acme", "tenant"), ""),
        (RunFilter::new().tag("", ""), "r4"),
        (RunFilter::new().tag(odd, odd).caller(odd), "r4"),
        (RunFilter::new().caller("ada"), "r1"),
        (RunFilter::new().caller("ad"), ""),
        (RunFilter::new().caller(""), ""),
    ] {
        let found = t.ok(t.store.list(filter.clone()).await, "listing runs");
        let names: Vec<&str> = found.iter().map(|run| run.run_id.as_str()).collect();
        t.same(names.join(" "), expected.to_owned(), &format!("the runs of {filter:?}"));
    }
    if t.has(StorePart::Deletion) {
        t.ok(t.store.delete(&run("r2")).await, "deleting a run with tags");
        t.same(
            t.ok(t.store.list(tenant()).await, "listing runs").len(),
            1,
            "the runs of a tag after one was deleted",
        );
    }
}

pub(super) async fn what_is_deleted_is_gone(t: &StoreUnderTest) {
    let (id, other) = (run("a"), run("b"));
    t.fails(t.store.delete(&id).await, StoreErrorKind::NotFound, "deleting an unknown run");
    let epoch = t.created(&id).await;
    let kept = t.created(&other).await;
    t.fails(
        t.store.delete(&id).await,
        StoreErrorKind::Unfinished,
        "deleting a run that has not ended",
    );
    t.ok(
        t.store.put_snapshot(&id, epoch, Snapshot::new(1, vec![started(&id, "job", 1)])).await,
        "a snapshot",
    );
    let end = event(&id, 2, "", "run.cancelled", &json!({"reason": "enough"}));
    t.ok(t.store.append(&id, epoch, Append::new(1, vec![end])).await, "ending");
    t.ok(t.store.delete(&id).await, "deleting a run that has ended");
    t.same(t.ok(t.store.record(&id).await, "its record"), None, "the record of a deleted run");
    t.fails(t.store.read(&id, 0, 10).await, StoreErrorKind::NotFound, "reading its events");
    t.same(
        t.ok(t.store.snapshot(&id).await, "its snapshot").is_none(),
        true,
        "the snapshot of a deleted run",
    );
    t.fails(t.store.delete(&id).await, StoreErrorKind::NotFound, "deleting it again");
    let listed = t.ok(t.store.list(RunFilter::new()).await, "listing runs");
    t.same(listed.len(), 1, "the runs that are left");
    // A new run may reuse the id. It starts with its own journal.
    let again = t.created(&id).await;
    let late = t.store.append(&other, kept, Append::new(1, vec![noted(&other, 2, "x")])).await;
    t.ok(late, "the run beside it is as it was");
    t.ok(
        t.store.append(&id, again, Append::new(1, vec![noted(&id, 2, "x")])).await,
        "writing the new run",
    );
    t.same(
        t.ok(t.store.read(&id, 0, 10).await, "reading it").len(),
        2,
        "the events of the new run",
    );
}

pub(super) async fn state_is_written_with_its_commit_or_not_at_all(t: &StoreUnderTest) {
    let value = |json: &str| Encoded::from_json(json.to_owned()).ok();
    let all = async |user: Option<&str>, key: Option<&str>| {
        let values = t.ok(t.state().read_state(user, key).await, "reading state");
        values
            .into_iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let id = run("a");
    let first = t.created(&id).await;
    let writes = || {
        [("x", value("1")), ("y", value("null"))]
            .map(|(key, value)| StateWrite::new(Some("ann"), key, value))
    };
    let append = Append::new(1, vec![noted(&id, 2, "n")]).with_state(writes());
    t.ok(t.store.append(&id, first, append).await, "appending with state");
    t.same(all(Some("ann"), None).await, "x=1 y=null".to_owned(), "it is written with the events");
    t.same(all(Some("ann"), Some("y")).await, "y=null".to_owned(), "one key of it");
    for (user, key) in [(Some("bob"), None), (None, None), (Some("ann"), Some("z"))] {
        t.same(all(user, key).await, String::new(), "nobody else has it");
    }
    let gone = [StateWrite::new(Some("ann"), "x", None), StateWrite::new(None, "x", value("2"))];
    let wrong = Append::new(9, Vec::new()).with_state(gone.clone());
    t.fails(
        t.store.append(&id, first, wrong).await,
        StoreErrorKind::Fenced,
        "appending at another place",
    );
    let epoch = t.ok(t.store.open(&id).await, "opening the run again");
    let late = Append::new(2, Vec::new()).with_state(gone.clone());
    t.fails(
        t.store.append(&id, first, late.clone()).await,
        StoreErrorKind::Fenced,
        "appending with an old epoch",
    );
    t.same(all(Some("ann"), None).await, "x=1 y=null".to_owned(), "a refused append writes none");
    t.ok(t.store.append(&id, epoch, late).await, "appending with the new one");
    t.same(all(Some("ann"), None).await, "y=null".to_owned(), "a key that is removed is gone");
    t.same(all(None, None).await, "x=2".to_owned(), "the application's is beside it");
    t.ok(
        t.state().put_state(vec![StateWrite::new(None, "x", value("3"))]).await,
        "setting state outside of runs",
    );
    t.same(all(None, None).await, "x=3".to_owned(), "the later one counts");
}

pub(super) async fn the_last_snapshot_is_kept(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    t.ok(
        t.store
            .append(&id, epoch, Append::new(1, vec![noted(&id, 2, "x"), noted(&id, 3, "y")]))
            .await,
        "appending",
    );
    for snapshot in
        [Snapshot::new(2, vec![started(&id, "job", 1)]), Snapshot::new(3, t.journal(&id).await)]
    {
        t.ok(t.store.put_snapshot(&id, epoch, snapshot.clone()).await, "keeping a snapshot");
        let kept = t.ok(t.store.snapshot(&id).await, "asking for the snapshot");
        t.same(kept, Some(snapshot), "the last snapshot is the one that is kept");
    }
    t.same(t.journal(&id).await.len(), 3, "the journal is whole");
}

pub(super) async fn definitions_are_kept_under_their_hash(t: &StoreUnderTest) {
    for graph in ["{\"nodes\": 1}", "{\"nodes\": 2}"] {
        t.ok(t.store.put_definition("h1", graph.to_owned()).await, "keeping a definition");
    }
    t.ok(t.store.put_definition("h2", "{}".to_owned()).await, "keeping another one");
    let found = t.ok(t.store.definition("h1").await, "asking for a definition");
    t.same(found, Some("{\"nodes\": 1}".to_owned()), "keeping one again changes nothing");
}

pub(super) async fn a_run_that_has_ended_is_not_opened(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    end(t, &id, epoch).await;
    t.fails(t.store.open(&id).await, StoreErrorKind::Ended, "opening a run that has ended");
}

pub(super) async fn amending_is_one_commit_at_the_end_of_a_journal(t: &StoreUnderTest) {
    let id = run("a");
    t.fails(
        t.store.amend(&id, 0, vec![]).await,
        StoreErrorKind::NotFound,
        "amending an unknown run",
    );
    let epoch = t.created(&id).await;
    t.ok(t.store.close(&id, epoch).await, "closing a run");
    let misplaced = t.store.amend(&id, 7, vec![noted(&id, 8, "x")]).await;
    t.fails(misplaced, StoreErrorKind::Fenced, "amending elsewhere");
    let failed = json!({"error": {"kind": "tool", "message": "it broke", "retryable": false}});
    t.ok(t.store.amend(&id, 1, vec![event(&id, 2, "", "run.failed", &failed)]).await, "amending");
    let late = t.store.append(&id, epoch, Append::new(2, vec![noted(&id, 3, "late")])).await;
    t.fails(late, StoreErrorKind::Fenced, "appending with an epoch of before");
    let resumed = event(&id, 3, "", "run.resumed", &json!({"queued": true}));
    t.ok(t.store.amend(&id, 2, vec![resumed]).await, "amending a run that has ended");
    t.same(t.record(&id).await.status, RunStatus::Queued, "its record follows");
    let epoch = t.ok(t.store.open(&id).await, "opening it");
    t.ok(t.store.append(&id, epoch, Append::new(3, vec![noted(&id, 4, "on")])).await, "appending");
    t.same(t.journal(&id).await.len(), 4, "all events are there");
}

pub(super) async fn every_kind_of_text_is_kept(t: &StoreUnderTest) {
    let id = run("a run / of \"odd\" name; 'ä' %00 \u{1F980}");
    let epoch = t.created(&id).await;
    let texts = [
        "",
        "\u{0}",
        "line\nline\r\n",
        "'; DROP TABLE runs; --",
        "\u{1F980} \u{2028}",
        "\\u0000",
        &"x".repeat(200_000),
    ];
    let events: Vec<_> = (2..).zip(texts).map(|(seq, text)| noted(&id, seq, text)).collect();
    t.ok(t.store.append(&id, epoch, Append::new(1, events.clone())).await, "appending");
    t.same(t.ok(t.store.read(&id, 1, 100).await, "reading"), events, "texts are as they were");
    let odd = event(&id, 9, "tool#1.a%2Fb[1]/inner/model#3", "run.step", &json!({"step": 1}));
    t.ok(t.store.append(&id, epoch, Append::new(8, vec![odd.clone()])).await, "appending");
    t.same(t.ok(t.store.read(&id, 8, 100).await, "reading"), vec![odd], "a path is as it was");
}

pub(super) async fn many_runs_at_the_same_time(t: &StoreUnderTest) {
    let ids: Vec<_> = (0..50).map(|number| run(&format!("r{number}"))).collect();
    join_all(ids.iter().map(|id| async move {
        let epoch = t.created(id).await;
        for after in 1..6 {
            t.ok(
                t.store
                    .append(id, epoch, Append::new(after, vec![noted(id, after + 1, id.as_str())]))
                    .await,
                "appending",
            );
            // A refused append must not affect appends of other writers that share a transaction
            // with it.
            let misplaced =
                t.store.append(id, epoch, Append::new(99, vec![noted(id, 100, "x")])).await;
            t.fails(misplaced, StoreErrorKind::Fenced, "appending elsewhere");
        }
    }))
    .await;
    for id in &ids {
        let texts: Vec<_> = t.journal(id).await.into_iter().skip(1).collect();
        t.same(
            texts,
            (2..7).map(|seq| noted(id, seq, id.as_str())).collect(),
            "each run has its own events",
        );
    }
}

/// Writes data of each kind.
pub(super) async fn fill(t: &StoreUnderTest) -> Epoch {
    let id = run("kept");
    let epoch = t.created(&id).await;
    t.ok(
        t.store.append(&id, epoch, Append::new(1, vec![noted(&id, 2, "kept")])).await,
        "appending",
    );
    let paused = event(&id, 3, "", "run.paused", &json!({"reason": "interrupted"}));
    t.ok(t.store.append(&id, epoch, Append::new(2, vec![paused])).await, "appending");
    t.ok(
        t.store.put_snapshot(&id, epoch, Snapshot::new(1, vec![started(&id, "job", 1)])).await,
        "keeping a snapshot",
    );
    t.ok(t.store.put_definition("d1", "{}".to_owned()).await, "keeping a definition");
    if t.has(StorePart::Messages) {
        t.ok(t.messages().send(&id, "later".to_owned()).await, "leaving a message");
    }
    if t.has(StorePart::Artifacts) {
        artifact_rules::fill(t, &id, epoch).await;
    }
    if t.has(StorePart::Documents) {
        document_rules::fill(t).await;
    }
    epoch
}

/// Checks that the data of [`fill`] is complete.
pub(super) async fn is_filled(t: &StoreUnderTest, before: Epoch) {
    let id = run("kept");
    let journal = t.journal(&id).await;
    t.same(journal.len(), 3, "all events are there");
    t.same(journal[1].clone(), noted(&id, 2, "kept"), "they are as they were");
    t.same(t.record(&id).await.status, RunStatus::Paused, "the status is there");
    if t.has(StorePart::Snapshots) {
        let snapshot = t.ok(t.store.snapshot(&id).await, "asking for the snapshot");
        t.same(
            snapshot,
            Some(Snapshot::new(1, vec![started(&id, "job", 1)])),
            "the snapshot is there",
        );
    }
    if t.has(StorePart::Definitions) {
        t.same(
            t.ok(t.store.definition("d1").await, "asking for a definition"),
            Some("{}".to_owned()),
            "it is there",
        );
    }
    if t.has(StorePart::Artifacts) {
        artifact_rules::is_filled(t, &id).await;
    }
    if t.has(StorePart::Documents) {
        document_rules::is_filled(t).await;
    }
    let epoch = t.ok(t.store.open(&id).await, "opening a run of a store that was dropped");
    assert!(epoch > before, "{}: the epoch never falls: {before:?}, {epoch:?}", t.rule);
    let late = t.store.append(&id, before, Append::new(3, vec![noted(&id, 4, "late")])).await;
    t.fails(late, StoreErrorKind::Fenced, "appending with an epoch of before");
    if t.has(StorePart::Messages) {
        t.same(
            bodies(&t.ok(t.messages().receive(&id, epoch).await, "taking messages")),
            "later".to_owned(),
            "it is there",
        );
    }
}
