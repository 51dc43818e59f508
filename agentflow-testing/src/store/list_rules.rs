//! Rules of lists and records: open questions in records, counting, the order of the last change,
//! and reading a single step.

use std::collections::BTreeSet;

use agentflow::path::StepPath;
use agentflow::serde_json::json;
use agentflow::store::{
    Append, EventFilter, RunFilter, RunOrder, RunRecord, RunStatus, StoreErrorKind,
};
use agentflow::time::Timestamp;
use agentflow::{Event, RunId};

use super::{StoreUnderTest, event, noted, run, started, started_by};

/// Builds the event of a question with a payload of this size.
fn asked(run: &RunId, seq: u64, path: &str, payload: usize) -> Event {
    let question = json!({
        "id": format!("{seq:08x}"), "message": "\u{1F980} go on?\n\u{0}", "payload": "x".repeat(payload),
        "answer": {"type": "boolean"}, "timeout_ms": 60_000,
    });
    event(run, seq, path, "approval.requested", &question)
}

pub(super) async fn the_record_contains_the_open_questions(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let answer = json!({"answer": true, "by": "ada"});
    let started_again = json!({"attempt": 2, "repeatable": true});
    let completed = json!({"output": 1, "duration_ms": 0});
    let paused = json!({"reason": "approval"});
    let steps = [
        (asked(&id, 2, "review", 10), "review"),
        (asked(&id, 3, "all[1]/pay", 10), "all[1]/pay review"),
        (asked(&id, 4, "all[2]", 10), "all[1]/pay all[2] review"),
        (event(&id, 5, "", "run.paused", &paused), "all[1]/pay all[2] review"),
        (event(&id, 6, "review", "approval.resolved", &answer), "all[1]/pay all[2]"),
        (asked(&id, 7, "review", 20), "all[1]/pay all[2] review"),
        (event(&id, 8, "all[2]", "workflow.node.started", &started_again), "all[1]/pay review"),
        (event(&id, 9, "all", "workflow.node.completed", &completed), "review"),
        (asked(&id, 10, "large", 20 << 10), "large review"),
        (event(&id, 11, "large", "approval.resolved", &answer), "review"),
        (event(&id, 12, "", "run.cancelled", &json!({"reason": "enough"})), ""),
    ];
    let mut folded = RunRecord::new(&started(&id, "job", 1)).expect("it begins a run");
    for (next, expected) in steps {
        folded.apply(&next);
        let (after, name) = (next.seq - 1, next.kind.name().to_owned());
        t.ok(t.store.append(&id, epoch, Append::new(after, vec![next])).await, "appending");
        let record = t.record(&id).await;
        let Some(questions) = &record.questions else {
            panic!(
                "{}: `RunRecord::questions` of a run that was created with this release is `None`",
                t.rule
            );
        };
        let open: Vec<String> =
            questions.open.iter().map(|question| question.path.to_string()).collect();
        t.same(open.join(" "), expected.to_owned(), &format!("the open questions after {name}"));
        t.same(record, folded.clone(), &format!("the record after {name}"));
    }
}

pub(super) async fn counting_is_the_length_of_the_list(t: &StoreUnderTest) {
    for at in 0..25_u64 {
        let id = run(&format!("r{at}"));
        let caller = (at % 3 == 0).then_some("ada");
        let mut events = vec![started_by(&id, at, caller, &json!({"even": (at % 2).to_string()}))];
        if at % 5 == 0 {
            events.push(event(&id, 2, "", "run.cancelled", &json!({"reason": "enough"})));
        }
        t.ok(t.store.create(&id, events).await, "creating a run");
    }
    let at = |time: u64| Timestamp::from_millis(1_700_000_000_000 + time);
    for (filter, expected) in [
        (RunFilter::new(), 25),
        (RunFilter::new().limit(3), 25),
        (RunFilter::new().after(&t.record(&run("r5")).await), 25),
        (RunFilter::new().order(RunOrder::Changed), 25),
        (RunFilter::unfinished(), 20),
        (RunFilter::new().status(RunStatus::Cancelled).status(RunStatus::Cancelled), 5),
        (RunFilter::new().caller("ada"), 9),
        (RunFilter::unfinished().caller("ada").tag("even", "1"), 3),
        (RunFilter::new().name("job"), 25),
        (RunFilter::new().name("other"), 0),
        (RunFilter::new().session("none"), 0),
        (RunFilter::new().since(at(20)), 5),
        (RunFilter::new().until(at(20)).tag("even", "0"), 10),
        // A run that was cancelled changed at 2.
        (RunFilter::new().changed_since(at(20)), 4),
    ] {
        let count = t.ok(t.store.count(filter.clone()).await, "counting runs");
        t.same(count, expected, &format!("the number of runs of {filter:?}"));
        let all = t.ok(t.store.list(filter.without_page()).await, "listing runs");
        t.same(all.len() as u64, expected, "the length of the list");
    }
}

/// Changes a run: appends an event with this time.
async fn change(t: &StoreUnderTest, id: &RunId, time: u64, ends: bool) {
    let record = t.record(id).await;
    let mut next = match ends {
        true => event(id, record.events + 1, "", "run.cancelled", &json!({"reason": "enough"})),
        false => noted(id, record.events + 1, "changed"),
    };
    next.time = Timestamp::from_millis(1_700_000_000_000 + time);
    let epoch = t.ok(t.store.open(id).await, "opening a run");
    let append = Append::new(record.events, vec![next]);
    t.ok(t.store.append(id, epoch, append).await, "changing a run");
    t.ok(t.store.close(id, epoch).await, "closing a run");
}

pub(super) async fn a_list_by_change_begins_with_the_last_change(t: &StoreUnderTest) {
    for at in 0..12_u64 {
        let id = run(&format!("r{at:02}"));
        let first = started_by(&id, at, Some("ada"), &json!({"at": "desk"}));
        let epoch = t.ok(t.store.create(&id, vec![first]).await, "creating a run");
        t.ok(t.store.close(&id, epoch).await, "closing a run");
    }
    // Two runs change at the same time.
    for (at, time, ends) in
        [(3, 100, false), (7, 101, true), (1, 102, true), (9, 102, false), (5, 103, true)]
    {
        change(t, &run(&format!("r{at:02}")), time, ends).await;
    }
    // A run that is retried is unfinished again.
    let retried = RunId::new("r07");
    let record = t.record(&retried).await;
    let mut resumed = event(&retried, record.events + 1, "", "run.resumed", &json!({}));
    resumed.time = Timestamp::from_millis(1_700_000_000_000 + 104);
    t.ok(t.store.amend(&retried, record.events, vec![resumed]).await, "retrying a run");
    let expected = "r07 r05 r09 r01 r03 r11 r10 r08 r06 r04 r02 r00";
    let changed = RunFilter::new().order(RunOrder::Changed);
    let at = |time: u64| Timestamp::from_millis(1_700_000_000_000 + time);
    for (filter, expected) in [
        (changed.clone(), expected),
        (changed.clone().limit(3), "r07 r05 r09"),
        (changed.clone().caller("ada").tag("at", "desk").limit(2), "r07 r05"),
        (changed.clone().name("other"), ""),
        (changed.clone().status(RunStatus::Cancelled), "r05 r01"),
        (changed.clone().changed_since(at(102)), "r07 r05 r09 r01"),
        (RunFilter::new().changed_since(at(102)), "r09 r07 r05 r01"),
        (changed.clone().since(at(8)).until(at(11)), "r09 r10 r08"),
        (changed.clone().after(&t.record(&run("r09")).await).limit(2), "r01 r03"),
    ] {
        let found = t.ok(t.store.list(filter.clone()).await, "listing runs");
        let names: Vec<&str> = found.iter().map(|run| run.run_id.as_str()).collect();
        t.same(names.join(" "), expected.to_owned(), &format!("the runs of {filter:?}"));
        for listed in found {
            t.same(t.record(&listed.run_id).await, listed, "a list has the same records");
        }
    }
}

pub(super) async fn pages_by_change_repeat_no_run(t: &StoreUnderTest) {
    for at in 0..30_u64 {
        let id = run(&format!("r{at:02}"));
        let epoch = t.ok(t.store.create(&id, vec![started(&id, "job", at)]).await, "creating");
        t.ok(t.store.close(&id, epoch).await, "closing a run");
        if at % 3 == 0 {
            change(t, &id, at, true).await;
        }
    }
    let begun = Timestamp::from_millis(1_700_000_000_000 + 1000);
    let (mut seen, mut changed) = (Vec::new(), BTreeSet::new());
    let mut filter = RunFilter::new().order(RunOrder::Changed).limit(4);
    for page in 0.. {
        let runs = t.ok(t.store.list(filter.clone()).await, "listing a page");
        let Some(last) = runs.last() else { break };
        filter = filter.after(last);
        seen.extend(runs.iter().map(|run| run.run_id.to_string()));
        // A listed run changes, and a run that is not listed yet.
        for at in [28 - page, 1 + page] {
            let id = run(&format!("r{at:02}"));
            if at % 3 != 0 && changed.insert(id.to_string()) {
                change(t, &id, 1000 + page, at % 2 == 0).await;
            }
        }
    }
    let distinct: BTreeSet<&String> = seen.iter().collect();
    t.same(distinct.len(), seen.len(), "no run is listed twice");
    let since = RunFilter::new().order(RunOrder::Changed).changed_since(begun);
    let again = t.ok(t.store.list(since).await, "listing the changed runs");
    let mut found: BTreeSet<String> = seen.iter().cloned().collect();
    found.extend(again.iter().map(|run| run.run_id.to_string()));
    t.same(found.len(), 30, "a run that moved is found by the time of its change");
    let moved: BTreeSet<String> = again.iter().map(|run| run.run_id.to_string()).collect();
    t.same(moved, changed, "the runs that changed meanwhile");
}

pub(super) async fn the_events_of_a_step_are_read_alone(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let paths = [
        "pay",
        "pay_2",
        "pay/tool#1.refund",
        "pay[3]",
        "pay[3]/sum",
        "pa",
        "payment",
        "other/pay",
        "tool#1.pay",
        "pay/tool#1.refund/ask#1",
        "all[1]/pay",
        "",
    ];
    let skipped = |(seq, path): (u64, &str)| {
        event(&id, seq, path, "workflow.node.skipped", &json!({"reason": path}))
    };
    let events: Vec<Event> = (2..).zip(paths).map(skipped).collect();
    t.ok(t.store.append(&id, epoch, Append::new(1, events.clone())).await, "appending");
    let of = |step: &str| EventFilter::new().step(step.parse().expect("it is a path"));
    for (filter, after, limit, expected) in [
        (of("pay"), 0, 100, "2 4 5 6 11"),
        (of("pay"), 2, 2, "4 5"),
        (of("pay"), 11, 100, ""),
        (of("pay"), 0, 0, ""),
        (of("pay[3]"), 0, 100, "5 6"),
        (of("pay/tool#1.refund"), 0, 100, "4 11"),
        (of("tool#1.pay"), 0, 100, "10"),
        (of("none"), 0, 100, ""),
        (of(""), 1, 3, "2 3 4"),
        (EventFilter::new(), 1, 2, "2 3"),
        (EventFilter::new().at(StepPath::root()), 0, 100, "1 13"),
        (of("pa").at(StepPath::root()), 0, 100, "1 7 13"),
        (of("payment").step("other".parse().expect("it is a path")), 0, 100, "8 9"),
    ] {
        let found = t.store.read_selected(&id, &filter, after, limit).await;
        let found = t.ok(found, "reading the events of a filter");
        let numbers: Vec<String> = found.iter().map(|event| event.seq.to_string()).collect();
        let what = format!("at most {limit} events of {filter:?} after {after}");
        t.same(numbers.join(" "), expected.to_owned(), &what);
        let whole = t.journal(&id).await;
        for event in found {
            t.same(whole.contains(&event), true, "an event is the same in the journal");
        }
    }
    let missing = t.store.read_selected(&run("none"), &EventFilter::new(), 0, 1).await;
    t.fails(missing, StoreErrorKind::NotFound, "reading an unknown run");
    let missing = t.store.read_selected(&run("none"), &of("pay"), 0, 1).await;
    t.fails(missing, StoreErrorKind::NotFound, "reading a step of an unknown run");
}
