//! Rules of documents with versions, for a store that supports them.

use std::collections::BTreeMap;

use agentflow::store::{
    DocumentChange, DocumentCommit, DocumentRecord, DocumentWrite, ExpectedVersion, StoredDocument,
};
use agentflow::time::Timestamp;
use fastrand::Rng;
use futures_util::future::join_all;

use super::StoreUnderTest;

fn write(name: &str, text: &str) -> DocumentWrite {
    let time = Timestamp::from_millis(1_700_000_000_000);
    DocumentWrite::new(name, text, time).expect("the name is allowed").form("steps")
}

async fn put(
    t: &StoreUnderTest,
    write: &DocumentWrite,
    expected: ExpectedVersion,
) -> DocumentCommit {
    t.ok(t.documents().put_document(write.clone(), expected).await, "saving a document")
}

async fn saved(t: &StoreUnderTest, name: &str, text: &str) -> DocumentRecord {
    done(t, put(t, &write(name, text), ExpectedVersion::Any).await, "a put without expectation")
}

fn done(t: &StoreUnderTest, commit: DocumentCommit, what: &str) -> DocumentRecord {
    match commit {
        DocumentCommit::Done(record) => record,
        other => panic!("{}: {what} should have been done, but: {other:?}", t.rule),
    }
}

fn conflicts(t: &StoreUnderTest, commit: DocumentCommit, current: Option<u64>, what: &str) {
    match commit {
        DocumentCommit::Conflict { current: found } => t.same(found, current, what),
        other => panic!("{}: {what} should be a conflict, but: {other:?}", t.rule),
    }
}

async fn get(t: &StoreUnderTest, name: &str, version: Option<u64>) -> Option<StoredDocument> {
    t.ok(t.documents().document(name, version).await, "reading a document")
}

async fn numbers(t: &StoreUnderTest, name: &str) -> Vec<u64> {
    let versions =
        t.ok(t.documents().document_versions(name, None, 1000).await, "listing versions");
    versions.iter().map(|record| record.version).collect()
}

pub(super) async fn versions_are_numbered_and_kept(t: &StoreUnderTest) {
    t.same(get(t, "a", None).await, None, "a name that was never used");
    t.same(numbers(t, "a").await, vec![], "the versions of a name that was never used");
    let texts = ["one", "two\r\n", "", "two\r\n", "\0 \u{1} \u{1F980} 'quoted' \\ \u{feff}"];
    for (text, number) in texts.into_iter().zip(1..) {
        let write = write("a", text);
        let write = write.by("a\u{e4} \"b\"").and_then(|write| write.comment("why\nnot"));
        let write = write.expect("they are short");
        let record = done(t, put(t, &write, ExpectedVersion::Any).await, "a put");
        t.same(record.clone(), write.record(number), "the record of a put");
        let found = get(t, "a", None).await.map(|found| (found.record, found.text.to_string()));
        t.same(found, Some((record, text.to_owned())), "the current version");
    }
    for (text, number) in texts.into_iter().zip(1..) {
        let found = get(t, "a", Some(number)).await.map(|found| found.text.to_string());
        t.same(found.as_deref(), Some(text), "an earlier version");
    }
    for number in [0, 6, u64::MAX] {
        t.same(get(t, "a", Some(number)).await, None, "a version that does not exist");
    }
    t.same(numbers(t, "a").await, vec![5, 4, 3, 2, 1], "the newest version is first");
    let page = t.ok(t.documents().document_versions("a", Some(4), 2).await, "a page of versions");
    t.same(page.iter().map(|record| record.version).collect(), vec![3, 2], "a page of versions");
    t.same(page[0].clone().created, Timestamp::from_millis(1_700_000_000_000), "the time");
    t.same(numbers(t, "b").await, vec![], "another name has its own versions");
}

pub(super) async fn a_put_compares_the_current_version(t: &StoreUnderTest) {
    let text = write("a", "text");
    conflicts(t, put(t, &text, ExpectedVersion::Current(1)).await, None, "a missing version");
    conflicts(t, put(t, &text, ExpectedVersion::Current(0)).await, None, "the version 0");
    done(t, put(t, &text, ExpectedVersion::Absent).await, "the first put");
    conflicts(t, put(t, &text, ExpectedVersion::Absent).await, Some(1), "a second first put");
    done(t, put(t, &text, ExpectedVersion::Current(1)).await, "a put of the next version");
    conflicts(t, put(t, &text, ExpectedVersion::Current(1)).await, Some(2), "an old version");
    conflicts(t, put(t, &text, ExpectedVersion::Current(3)).await, Some(2), "a later version");
    t.same(numbers(t, "a").await, vec![2, 1], "a conflict writes nothing");
    // Names are compared as they are.
    done(t, put(t, &write("A", "text"), ExpectedVersion::Absent).await, "a name in capitals");
    done(t, put(t, &write("a%", "text"), ExpectedVersion::Absent).await, "a name with a wildcard");
}

pub(super) async fn a_removed_document_keeps_its_versions(t: &StoreUnderTest) {
    let remove = async |expected| {
        t.ok(t.documents().remove_document("a", expected).await, "removing a document")
    };
    conflicts(t, remove(ExpectedVersion::Any).await, None, "removing what does not exist");
    let first = saved(t, "a", "one").await;
    let second = saved(t, "a", "two").await;
    conflicts(t, remove(ExpectedVersion::Current(1)).await, Some(2), "removing an old version");
    conflicts(t, remove(ExpectedVersion::Absent).await, Some(2), "removing an absent document");
    let removed = done(t, remove(ExpectedVersion::Current(2)).await, "removing");
    t.same(removed, second.clone(), "the removed version");
    conflicts(t, remove(ExpectedVersion::Any).await, None, "removing twice");
    t.same(get(t, "a", None).await, None, "a removed document has no current version");
    for record in [&first, &second] {
        let found = get(t, "a", Some(record.version)).await.map(|found| found.record);
        t.same(found.as_ref(), Some(record), "a version of a removed document");
    }
    t.same(numbers(t, "a").await, vec![2, 1], "the versions of a removed document");
    let listed = t.ok(t.documents().list_documents(None, 10).await, "listing");
    t.same(listed, vec![], "a removed document is not listed");
    let again = write("a", "three");
    conflicts(t, put(t, &again, ExpectedVersion::Current(2)).await, None, "a removed version");
    let record = done(t, put(t, &again, ExpectedVersion::Absent).await, "a put after the removal");
    t.same(record.version, 3, "a number is not used again");
}

pub(super) async fn documents_are_listed_in_the_order_of_their_names(t: &StoreUnderTest) {
    let names = ["z", "B", "a", "b c", "\u{e4}", "a-1", "a.1", "a0", "\u{1F980}"];
    for name in names {
        saved(t, name, "one").await;
        saved(t, name, "two").await;
    }
    saved(t, "gone", "one").await;
    let removed = t.documents().remove_document("gone", ExpectedVersion::Any).await;
    done(t, t.ok(removed, "removing"), "removing");
    let mut expected: Vec<String> = names.iter().map(ToString::to_string).collect();
    expected.sort();
    let listed = t.ok(t.documents().list_documents(None, 100).await, "listing");
    let found: Vec<String> = listed.iter().map(|record| record.name.to_string()).collect();
    t.same(found, expected.clone(), "all names, ordered by their bytes");
    t.same(listed.iter().all(|record| record.version == 2), true, "the current versions");
    let (mut paged, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let page = t.documents().list_documents(after.as_deref(), 4).await;
        let page = t.ok(page, "listing a page");
        paged.extend(page.iter().map(|record| record.name.to_string()));
        match page.last() {
            Some(last) if page.len() == 4 => after = Some(last.name.to_string()),
            _ => break,
        }
    }
    t.same(paged, expected, "the pages together");
    t.same(t.ok(t.documents().list_documents(None, 0).await, "listing").len(), 0, "no entries");
}

pub(super) async fn changes_of_documents_are_numbered(t: &StoreUnderTest) {
    let changes = async |after, limit| {
        let found = t.ok(t.documents().document_changes(after, limit).await, "reading changes");
        assert!(
            found.windows(2).all(|pair| pair[0].number < pair[1].number)
                && found.iter().all(|change| change.number > after),
            "{}: the changes after {after} are ordered: {found:?}",
            t.rule
        );
        found
    };
    t.same(changes(0, 10).await, vec![], "the changes of an empty store");
    for name in ["b", "a", "b", "c"] {
        saved(t, name, "text").await;
    }
    let seen = changes(0, 10).await;
    let named = |found: &[DocumentChange]| -> Vec<(String, Option<u64>)> {
        found.iter().map(|change| (change.name.to_string(), change.version)).collect()
    };
    let expected = [("a", Some(1)), ("b", Some(2)), ("c", Some(1))];
    let expected = expected.map(|(name, version)| (name.to_owned(), version)).to_vec();
    t.same(named(&seen), expected.clone(), "the last change of each name");
    t.same(named(&changes(0, 2).await), expected[..2].to_vec(), "the first changes");
    let last = seen.last().map_or(0, |change| change.number);
    t.same(changes(last, 10).await, vec![], "nothing has changed since");
    let removed = t.documents().remove_document("b", ExpectedVersion::Any).await;
    done(t, t.ok(removed, "removing"), "removing");
    conflicts(t, put(t, &write("a", "x"), ExpectedVersion::Absent).await, Some(1), "a conflict");
    t.same(named(&changes(last, 10).await), vec![("b".to_owned(), None)], "a removal is a change");
}

pub(super) async fn of_writers_that_expect_the_same_version_one_wins(t: &StoreUnderTest) {
    for round in 0..5_u64 {
        let expected = match round {
            0 => ExpectedVersion::Absent,
            _ => ExpectedVersion::Current(round),
        };
        let writers = (0..6).map(|writer| async move {
            let write = write("a", &format!("round {round}, writer {writer}"));
            (writer, put(t, &write, expected).await)
        });
        let outcomes = join_all(writers).await;
        let mut winners = Vec::new();
        for (writer, outcome) in outcomes {
            match outcome {
                DocumentCommit::Done(record) => winners.push((writer, record)),
                other => conflicts(t, other, Some(round + 1), "the others see the winner"),
            }
        }
        t.same(winners.len(), 1, "the number of winners");
        let (writer, record) = winners.remove(0);
        t.same(record.version, round + 1, "the version of the winner");
        let text = get(t, "a", None).await.map(|found| found.text.to_string());
        t.same(text, Some(format!("round {round}, writer {writer}")), "the text of the winner");
    }
}

/// A reference model: the versions of a name, and if it is removed.
#[derive(Default)]
struct ModelDocument {
    texts: Vec<String>,
    is_removed: bool,
}

impl ModelDocument {
    fn current(&self) -> Option<u64> {
        (!self.is_removed && !self.texts.is_empty()).then_some(self.texts.len() as u64)
    }
}

/// Executes random puts and removals, and compares the results with a model.
pub(super) async fn random_documents(t: &StoreUnderTest, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut model: BTreeMap<&str, ModelDocument> = BTreeMap::new();
    for request in 0..60 {
        let what = format!("seed {seed}, request {request}");
        let name = ["a", "b", "c"][rng.usize(0..3)];
        let named = model.entry(name).or_default();
        let expected = match rng.u8(0..4) {
            0 => ExpectedVersion::Any,
            1 => ExpectedVersion::Absent,
            _ => ExpectedVersion::Current(rng.u64(0..=named.texts.len() as u64 + 1)),
        };
        let current = named.current();
        if rng.u8(0..4) == 0 {
            let removed = t.documents().remove_document(name, expected).await;
            let removed = t.ok(removed, &what);
            match current.filter(|_| expected.admits(current)) {
                Some(version) => {
                    t.same(done(t, removed, &what).version, version, &what);
                    named.is_removed = true;
                }
                None => conflicts(t, removed, current, &what),
            }
        } else {
            let text = format!("{what} {}", "x".repeat(rng.usize(0..2000)));
            let outcome = put(t, &write(name, &text), expected).await;
            match expected.admits(current) {
                true => {
                    named.texts.push(text);
                    named.is_removed = false;
                    t.same(done(t, outcome, &what).version, named.texts.len() as u64, &what);
                }
                false => conflicts(t, outcome, current, &what),
            }
        }
    }
    for (name, named) in &model {
        let expected: Vec<u64> = (1..=named.texts.len() as u64).rev().collect();
        t.same(numbers(t, name).await, expected, "numbers have no gaps and no repeats");
        for (text, version) in named.texts.iter().zip(1..) {
            let found = get(t, name, Some(version)).await.map(|found| found.text.to_string());
            t.same(found.as_ref(), Some(text), "the text of a version");
        }
        let current = get(t, name, None).await.map(|found| found.record.version);
        t.same(current, named.current(), "the current version");
    }
}

/// Lets several writers put and remove one document at the same time, through several handles.
pub(super) async fn document_writers(stores: &[&StoreUnderTest], seed: u64) {
    let t = stores[0];
    let writers = (0..4_u64).map(|writer| async move {
        let mut rng = Rng::with_seed(seed * 10 + writer);
        let t = stores[usize::try_from(writer).unwrap_or_default() % stores.len()];
        let mut saved = Vec::new();
        for _ in 0..12 {
            let current = get(t, "shared", None).await.map(|found| found.record.version);
            let expected = current.map_or(ExpectedVersion::Absent, ExpectedVersion::Current);
            if rng.u8(0..5) == 0 && current.is_some() {
                let removed = t.documents().remove_document("shared", expected).await;
                let _ = t.ok(removed, "removing a document that others write");
                continue;
            }
            let write = write("shared", &format!("writer {writer}, {}", rng.u64(..)));
            if let DocumentCommit::Done(record) = put(t, &write, expected).await {
                saved.push((record.version, write));
            }
        }
        saved
    });
    let mut saved: Vec<_> = join_all(writers).await.into_iter().flatten().collect();
    saved.sort_by_key(|(version, _)| *version);
    let found: Vec<u64> = saved.iter().map(|(version, _)| *version).collect();
    let expected: Vec<u64> = (1..=saved.len() as u64).collect();
    t.same(found, expected, "each number has one writer, without gaps");
    for (version, write) in &saved {
        let found = get(t, "shared", Some(*version)).await;
        t.same(found.map(|found| found.text), Some(write.text().clone()), "the text of its writer");
    }
}

/// Saves a document for [`is_filled`].
pub(super) async fn fill(t: &StoreUnderTest) {
    saved(t, "kept", "one").await;
    saved(t, "kept", "two").await;
    let removed = t.documents().remove_document("kept", ExpectedVersion::Any).await;
    done(t, t.ok(removed, "removing"), "removing");
    saved(t, "kept", "three").await;
}

/// Checks that the document of [`fill`] is complete.
pub(super) async fn is_filled(t: &StoreUnderTest) {
    t.same(numbers(t, "kept").await, vec![3, 2, 1], "all versions are there");
    let texts = [(None, "three"), (Some(1), "one"), (Some(3), "three")];
    for (version, text) in texts {
        let found = get(t, "kept", version).await.map(|found| found.text.to_string());
        t.same(found.as_deref(), Some(text), "the text is there");
    }
}
