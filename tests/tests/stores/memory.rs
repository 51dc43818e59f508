//! Long-term memories. Both implementations follow the rules of the `Memory` trait. Includes
//! reopening a file, files of another kind, and arbitrary query texts.

use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::memory::{InProcessMemory, Memory, MemoryEntry, MemoryQuery, SqliteMemory};
use agentflow::store::{SqliteStore, StoreErrorKind};
use agentflow::time::Timestamp;
use agentflow_testing::check_memory;

fn entry(id: &str, text: &str, millis: u64) -> MemoryEntry {
    MemoryEntry::new(id, text, Timestamp::from_millis(millis))
}

async fn texts(memory: &impl Memory, query: impl Into<MemoryQuery>) -> Vec<String> {
    memory.search("ada", &query.into()).await.unwrap().into_iter().map(|entry| entry.text).collect()
}

#[tokio::test]
async fn the_memory_in_process() {
    check_memory(|| async { InProcessMemory::new() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let number = AtomicUsize::new(0);
    check_memory(|| async {
        let path = folder.path().join(format!("{}.db", number.fetch_add(1, Ordering::Relaxed)));
        SqliteMemory::open(path).await.unwrap()
    })
    .await;
    // Several memories in one file.
    let shared = SqliteMemory::open(folder.path().join("shared.db")).await.unwrap();
    check_memory(|| async {
        let app = number.fetch_add(1, Ordering::Relaxed);
        shared.clone().of_app(app.to_string())
    })
    .await;
}

#[tokio::test]
async fn a_file_has_everything_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    {
        let memory = SqliteMemory::open(&path).await.unwrap();
        memory.save("ada", entry("1", "Prefers window seats.", 1)).await.unwrap();
    }
    let memory = SqliteMemory::open(&path).await.unwrap();
    // Two handles of one file, as in two processes.
    let other = SqliteMemory::open(&path).await.unwrap();
    other.save("ada", entry("2", "Allergic to nuts.", 2)).await.unwrap();
    assert_eq!(
        texts(&memory, MemoryQuery::all()).await,
        ["Allergic to nuts.", "Prefers window seats."]
    );
    assert_eq!(texts(&memory, "nut allergy?").await, ["Allergic to nuts."]);
    let error = SqliteMemory::open(folder.path().join("none/memory.db")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Io, "{error}");
}

#[tokio::test]
async fn the_better_it_fits_the_earlier_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteMemory::open(folder.path().join("memory.db")).await.unwrap();
    let in_process = InProcessMemory::new();
    let all = [
        "The cat likes fish.",
        "The dog likes walking.",
        "A fish has fins.",
        "The fish that the dog likes.",
    ];
    for (at, text) in all.into_iter().enumerate() {
        sqlite.save("ada", entry(&at.to_string(), text, at as u64)).await.unwrap();
        in_process.save("ada", entry(&at.to_string(), text, at as u64)).await.unwrap();
    }
    for found in [texts(&sqlite, "dog fish").await, texts(&in_process, "dog fish").await] {
        assert_eq!(found[0], "The fish that the dog likes.");
        assert_eq!(found.len(), 4);
    }
    // Stemming and accents are handled by SQLite.
    assert_eq!(texts(&sqlite, "walks").await, ["The dog likes walking."]);
    sqlite.save("ada", entry("9", "喜欢茶, café", 9)).await.unwrap();
    assert_eq!(texts(&sqlite, "茶").await, ["喜欢茶, café"]);
    assert_eq!(texts(&sqlite, "cafe").await, ["喜欢茶, café"]);
}

#[tokio::test]
async fn a_user_has_as_many_as_there_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let memory = SqliteMemory::open(folder.path().join("memory.db")).await.unwrap().max_entries(2);
    for id in ["1", "2", "2"] {
        memory.save("ada", entry(id, "text", 1)).await.unwrap();
    }
    let full = memory.save("ada", entry("3", "text", 1)).await.unwrap_err();
    assert_eq!(full.kind(), StoreErrorKind::Full);
    assert!(full.to_string().contains("delete some"), "{full}");
    memory.save("bob", entry("3", "text", 1)).await.unwrap();
    memory.delete("ada", "1").await.unwrap();
    memory.save("ada", entry("3", "text", 1)).await.unwrap();
}

#[tokio::test]
async fn what_is_old_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = SqliteMemory::open(folder.path().join("memory.db")).await.unwrap();
    let other_app = sqlite.clone().of_app("other");
    let in_process = InProcessMemory::new();
    for at in 1..=4 {
        for memory in [&sqlite as &dyn Memory, &other_app, &in_process] {
            memory
                .save(if at % 2 == 0 { "ada" } else { "bob" }, entry("1", &format!("of {at}"), at))
                .await
                .unwrap();
        }
    }
    assert_eq!(sqlite.delete_before(Timestamp::from_millis(4)).await.unwrap(), 1);
    assert_eq!(in_process.delete_before(Timestamp::from_millis(4)), 1);
    for memory in [&sqlite as &dyn Memory, &in_process] {
        assert!(memory.search("bob", &"of".into()).await.unwrap().is_empty());
        assert_eq!(memory.search("ada", &"of".into()).await.unwrap().len(), 1);
    }
    assert_eq!(other_app.search("bob", &"of".into()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_of_something_else_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |name: &str, kind: StoreErrorKind, says: &str| {
        let path = folder.path().join(name);
        let before = std::fs::read(&path).unwrap();
        let error = SqliteMemory::open(&path).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    };
    drop(SqliteStore::open(folder.path().join("runs.db")).await.unwrap());
    refused("runs.db", StoreErrorKind::Io, "give the memory a file of its own").await;
    std::fs::write(
        folder.path().join("notes.txt"),
        "Not a database, and longer than a header of one: ".repeat(40),
    )
    .unwrap();
    refused("notes.txt", StoreErrorKind::Damaged, "is not an SQLite database").await;
    drop(SqliteMemory::open(folder.path().join("newer.db")).await.unwrap());
    rusqlite::Connection::open(folder.path().join("newer.db"))
        .unwrap()
        .pragma_update(None, "user_version", 2)
        .unwrap();
    refused("newer.db", StoreErrorKind::NewerVersion, "newer release").await;
    // And the other way round.
    drop(SqliteMemory::open(folder.path().join("memory.db")).await.unwrap());
    let error = SqliteStore::open(folder.path().join("memory.db")).await.unwrap_err();
    assert!(error.to_string().contains("give the store a file of its own"), "{error}");
}

#[tokio::test]
async fn a_row_of_another_hand_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let memory = SqliteMemory::open(&path).await.unwrap();
    memory.save("ada", entry("1", "text", 1)).await.unwrap();
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute("UPDATE memories SET tags = '[1'", [])
        .unwrap();
    let error = memory.search("ada", &MemoryQuery::all()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
}

/// Generates operators of query languages in any order, around words that occur in the text.
#[test]
fn no_text_is_more_than_a_text() {
    use proptest::prelude::*;

    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let memory = runtime.block_on(async {
        let memory = SqliteMemory::open(folder.path().join("memory.db")).await.unwrap();
        memory.save("ada", entry("1", "window seat near the wing", 1)).await.unwrap();
        memory.save("bob", entry("1", "window secret of bob owner words", 1)).await.unwrap();
        memory
    });
    let piece = prop_oneof![
        prop::sample::select(vec![
            "\"", "'", "(", ")", "*", "^", ":", "-", "+", "{", "}", "[", "]", ",", ";", "\0", "\\",
            "%", "_", "$", "?", "@", " AND ", " OR ", " NOT ", "NEAR(", "owner:", "words:",
            "owner", "bob", "window", "seat", "rowid", "\u{301}",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    let texts = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    proptest!(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() }, |(text in texts)| {
        let found = runtime.block_on(memory.search("ada", &MemoryQuery::text(text.clone())));
        let found = found.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        prop_assert!(found.iter().all(|entry| entry.text.starts_with("window seat")), "{text:?}");
        // An accent is a part of its word.
        let plain: String = text.to_lowercase().chars().filter(|sign| !('\u{300}'..='\u{36f}').contains(sign)).collect();
        let has_word = plain.split(|sign: char| !sign.is_alphanumeric()).any(|word| word == "window" || word == "seat");
        prop_assert!(!has_word || found.len() == 1, "{text:?} finds nothing");
    });
}
