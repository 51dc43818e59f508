//! Rules of messages between processes: order, outcomes, withdrawal and ended runs.

use agentflow::store::{Append, Epoch, StoreErrorKind, StoreMessage};

use super::{StoreUnderTest, end, noted, run};

/// Returns the bodies of messages, separated by spaces.
pub(super) fn bodies(messages: &[StoreMessage]) -> String {
    messages.iter().map(|message| message.body.as_str()).collect::<Vec<_>>().join(" ")
}

pub(super) async fn messages_wait_in_order_until_they_have_an_outcome(t: &StoreUnderTest) {
    let (id, other) = (run("a"), run("b"));
    let epoch = t.created(&id).await;
    t.created(&other).await;
    let first = t.ok(t.messages().send(&id, "1".to_owned()).await, "leaving a message");
    t.ok(t.messages().send(&id, "2".to_owned()).await, "leaving a message");
    t.ok(t.messages().send(&other, "other".to_owned()).await, "leaving a message for another run");
    let strange = t.messages().receive(&id, Epoch(epoch.0 + 7)).await;
    t.fails(strange, StoreErrorKind::Fenced, "taking messages with an epoch that nobody was given");
    let epoch = t.ok(t.store.open(&id).await, "opening a run");
    let third =
        t.ok(t.messages().send(&id, "3".to_owned()).await, "leaving a message after the opening");
    // Receiving does not remove messages.
    for _ in 0..2 {
        let messages = t.ok(t.messages().receive(&id, epoch).await, "taking messages");
        t.same(
            bodies(&messages),
            "1 2 3".to_owned(),
            "they wait, the oldest first, until they have an outcome",
        );
    }
    let inbox = t.ok(t.messages().inbox().await, "asking for all messages");
    t.same(
        bodies(&inbox),
        "1 2 other 3".to_owned(),
        "the messages of all runs that are open here, the oldest first",
    );
    t.same(
        t.ok(t.messages().outcome(first).await, "asking for an outcome"),
        None,
        "there is none yet",
    );
    // An outcome can be appended with its events, or without any.
    let append = Append::new(1, vec![noted(&id, 2, "done")]).answering(first, "ok");
    t.ok(t.store.append(&id, epoch, append).await, "appending with an outcome");
    // A refused append must not record its outcome either.
    let refused = Append::new(9, vec![noted(&id, 10, "x")]).answering(third, "never");
    t.fails(
        t.store.append(&id, epoch, refused).await,
        StoreErrorKind::Fenced,
        "appending elsewhere",
    );
    t.same(
        t.ok(t.messages().outcome(third).await, "asking for an outcome"),
        None,
        "a refused append answers no message",
    );
    t.ok(
        t.store.append(&id, epoch, Append::new(2, vec![]).answering(third, "no")).await,
        "answering alone",
    );
    let messages = t.ok(t.messages().receive(&id, epoch).await, "taking messages");
    t.same(bodies(&messages), "2".to_owned(), "what has an outcome is not taken again");
    for (message, outcome) in [(first, "ok"), (third, "no")] {
        let outcome = Some(outcome.to_owned());
        t.same(
            t.ok(t.messages().outcome(message).await, "asking for an outcome"),
            outcome.clone(),
            "it is there",
        );
        t.same(
            t.ok(t.messages().withdraw(message).await, "taking a message back"),
            outcome,
            "its outcome is given",
        );
        t.same(t.ok(t.messages().outcome(message).await, "asking again"), None, "and forgotten");
    }
    t.same(t.journal(&id).await.len(), 2, "messages are no events");
}

pub(super) async fn a_message_that_is_taken_back_has_no_effect(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let message = t.ok(t.messages().send(&id, "1".to_owned()).await, "leaving a message");
    t.same(t.ok(t.messages().withdraw(message).await, "taking it back"), None, "it has no outcome");
    let messages = t.ok(t.messages().receive(&id, epoch).await, "taking messages");
    t.same(bodies(&messages), String::new(), "it is gone");
    let next = t.ok(t.messages().send(&id, "2".to_owned()).await, "leaving another one");
    assert!(next > message, "{}: a number is never used again: {message:?}, {next:?}", t.rule);
}

pub(super) async fn a_run_that_has_ended_takes_no_messages(t: &StoreUnderTest) {
    let id = run("a");
    let epoch = t.created(&id).await;
    let message = t.ok(t.messages().send(&id, "late".to_owned()).await, "leaving a message");
    end(t, &id, epoch).await;
    t.fails(
        t.messages().send(&id, "x".to_owned()).await,
        StoreErrorKind::Ended,
        "leaving it a message",
    );
    let inbox = t.ok(t.messages().inbox().await, "asking for all messages");
    t.same(bodies(&inbox), String::new(), "its messages are gone");
    t.same(
        t.ok(t.messages().outcome(message).await, "asking for an outcome"),
        None,
        "without an outcome",
    );
}
