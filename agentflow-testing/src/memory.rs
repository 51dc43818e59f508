//! Tests a memory against the rules of the `Memory` trait, using nothing but the trait.

use agentflow::Runtime;
use agentflow::memory::{Memory, MemoryEntry, MemoryNote, MemoryQuery};
use agentflow::time::Timestamp;

/// Texts that query languages reject or treat as syntax.
const HOSTILE: &[&str] = &[
    "",
    " ",
    "\"",
    "\"\"\"",
    "'; DROP TABLE memories; --",
    "window OR 1=1",
    "NEAR(window seat)",
    "NOT",
    "AND",
    "* *",
    "user:bob",
    "owner : bob",
    "{owner words} : x",
    "col^2 + window",
    "(((",
    "window\0seat",
    "%_[a-z]",
    "$.tags",
    "\u{202e}\u{feff}\u{1b}[2J",
];

/// Tests an implementation of the [`Memory`] trait against its rules.
///
/// `new` creates an empty memory; it is called once per rule. Search relevance is up to the memory.
/// The only requirement is that an entry is found by its complete text.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use agentflow::memory::InProcessMemory;
/// use agentflow_testing::check_memory;
///
/// check_memory(|| async { InProcessMemory::new() }).await;
/// # }
/// ```
///
/// # Panics
/// At the first broken rule, with the expectation.
pub async fn check_memory<M, F, Fut>(new: F)
where
    M: Memory,
    F: Fn() -> Fut,
    Fut: Future<Output = M>,
{
    what_was_saved_is_found_as_it_was(&new().await).await;
    an_id_is_there_once(&new().await).await;
    a_user_has_what_is_its_own(&new().await).await;
    all_are_listed_in_pages(&new().await).await;
    tags_are_compared_whole(&new().await).await;
    any_text_is_a_query(&new().await).await;
    at_the_same_time(new().await).await;
}

fn entry(id: &str, text: &str, millis: u64) -> MemoryEntry {
    MemoryEntry::new(id, text, Timestamp::from_millis(millis))
}

async fn save(memory: &impl Memory, user: &str, entry: MemoryEntry) {
    memory.save(user, entry).await.expect("an entry is saved");
}

async fn found(memory: &impl Memory, user: &str, query: MemoryQuery) -> Vec<MemoryEntry> {
    memory.search(user, &query).await.expect("a memory is searched")
}

async fn ids(memory: &impl Memory, user: &str, query: MemoryQuery) -> Vec<String> {
    found(memory, user, query).await.iter().map(|entry| entry.id.to_string()).collect()
}

async fn what_was_saved_is_found_as_it_was(memory: &impl Memory) {
    let texts = [
        "Prefers window seats.",
        "a\0b \u{1f600} \"quoted\" 'text'\n喜欢茶",
        &"long ".repeat(3000),
    ];
    for (at, text) in texts.into_iter().enumerate() {
        let note = MemoryNote::new(text).tag("topic", "travel").tag("ключ \"'", "värde\n");
        let mut saved =
            MemoryEntry::new(format!("id {at}"), note, Timestamp::from_millis(1_700_000_000_123));
        saved.run = (at == 0).then(|| agentflow::RunId::new("run-1"));
        save(memory, "ada", saved.clone()).await;
        let listed = found(memory, "ada", MemoryQuery::all()).await;
        assert!(listed.contains(&saved), "an entry is listed as it was saved: {saved:?}");
        let by_text = found(memory, "ada", MemoryQuery::text(text)).await;
        assert!(by_text.contains(&saved), "an entry is found by its whole text: {saved:?}");
    }
    assert!(found(memory, "nobody", MemoryQuery::all()).await.is_empty());
}

async fn an_id_is_there_once(memory: &impl Memory) {
    save(memory, "ada", entry("1", "Prefers window seats.", 1)).await;
    save(memory, "ada", entry("1", "Prefers window seats.", 1)).await;
    save(memory, "ada", entry("1", "Prefers aisle seats.", 2)).await;
    let all = found(memory, "ada", MemoryQuery::all()).await;
    assert_eq!(
        all,
        [entry("1", "Prefers aisle seats.", 2)],
        "saving an id again replaces the entry"
    );
    let gone = found(memory, "ada", MemoryQuery::text("window")).await;
    // A memory may search by similarity and find the new text, but not the old one.
    assert!(
        gone.iter().all(|entry| entry.text.contains("aisle")),
        "a replaced text is found no more: {gone:?}"
    );
    assert!(memory.delete("ada", "1").await.unwrap(), "a saved entry can be deleted");
    assert!(!memory.delete("ada", "1").await.unwrap(), "an entry is deleted once");
    assert!(ids(memory, "ada", MemoryQuery::text("Prefers aisle seats.")).await.is_empty());
}

/// Uses names that a less strict comparison would confuse.
async fn a_user_has_what_is_its_own(memory: &impl Memory) {
    const USERS: [&str; 12] = [
        "ada",
        "Ada",
        "ada ",
        "",
        "ad%",
        "a",
        "da",
        "ada\0",
        "a'da",
        "bob\" OR owner:\"ada",
        "*",
        "ada\u{301}",
    ];
    for (at, user) in USERS.into_iter().enumerate() {
        save(memory, user, entry("1", &format!("secret of {at}"), at as u64)).await;
    }
    for (at, user) in USERS.into_iter().enumerate() {
        let own = format!("secret of {at}");
        for query in [MemoryQuery::all(), MemoryQuery::text("secret of"), MemoryQuery::text(&own)] {
            let all = found(memory, user, query.limit(100)).await;
            assert!(
                all.iter().all(|entry| entry.text == own) && all.len() == 1,
                "{user:?} has its own alone: {all:?}"
            );
        }
    }
    assert!(memory.delete("Ada", "1").await.unwrap());
    assert_eq!(memory.delete_user("ada").await.unwrap(), 1);
    assert_eq!(memory.delete_user("ada").await.unwrap(), 0);
    for (at, user) in USERS.into_iter().enumerate() {
        let left = ids(memory, user, MemoryQuery::all()).await.len();
        assert_eq!(left, usize::from(at > 1), "deleting removed those of {user:?}");
    }
}

async fn all_are_listed_in_pages(memory: &impl Memory) {
    for at in [3, 1, 4, 2, 5] {
        save(memory, "ada", entry(&at.to_string(), "the same", at)).await;
    }
    assert_eq!(
        ids(memory, "ada", MemoryQuery::all()).await,
        ["5", "4", "3", "2", "1"],
        "the newest is first"
    );
    let page = |skip| MemoryQuery::all().limit(2).skip(skip);
    assert_eq!(ids(memory, "ada", page(0)).await, ["5", "4"]);
    assert_eq!(ids(memory, "ada", page(2)).await, ["3", "2"]);
    assert_eq!(ids(memory, "ada", page(4)).await, ["1"]);
    assert!(ids(memory, "ada", page(5)).await.is_empty());
    assert!(ids(memory, "ada", page(usize::MAX)).await.is_empty());
    assert!(ids(memory, "ada", MemoryQuery::all().limit(0)).await.is_empty());
    assert_eq!(ids(memory, "ada", MemoryQuery::all().limit(usize::MAX)).await.len(), 5);
}

async fn tags_are_compared_whole(memory: &impl Memory) {
    let tagged = |id: &str, key: &str, value: &str| {
        MemoryEntry::new(
            id,
            MemoryNote::new("Sits by the window.").tag(key, value),
            Timestamp::from_millis(1),
        )
    };
    save(memory, "ada", tagged("1", "topic", "travel")).await;
    save(memory, "ada", tagged("2", "topic", "travels")).await;
    save(memory, "ada", tagged("3", "a.b\"]", "'%")).await;
    for query in [MemoryQuery::all(), MemoryQuery::text("Sits by the window.")] {
        assert_eq!(ids(memory, "ada", query.clone().tag("topic", "travel")).await, ["1"]);
        assert_eq!(ids(memory, "ada", query.clone().tag("a.b\"]", "'%")).await, ["3"]);
        assert!(
            ids(memory, "ada", query.clone().tag("topic", "travel").tag("x", "y")).await.is_empty()
        );
        assert!(ids(memory, "ada", query.clone().tag("topic", "%")).await.is_empty());
        // The limit applies after the tag filter.
        assert_eq!(ids(memory, "ada", query.tag("topic", "travel").limit(1)).await, ["1"]);
    }
}

async fn any_text_is_a_query(memory: &impl Memory) {
    save(memory, "ada", entry("1", "Prefers window seats.", 1)).await;
    save(memory, "bob", entry("1", "bob owner window seat", 1)).await;
    for text in HOSTILE {
        let query = MemoryQuery::text(*text);
        let found = memory
            .search("ada", &query)
            .await
            .unwrap_or_else(|error| panic!("{text:?} is refused: {error}"));
        assert!(
            found.iter().all(|entry| entry.text.starts_with("Prefers")),
            "{text:?} finds {found:?}"
        );
        let _ = memory
            .delete("ada", text)
            .await
            .unwrap_or_else(|error| panic!("{text:?} as an id: {error}"));
    }
    let many = "window seat ".repeat(50_000);
    assert!(memory.search("ada", &MemoryQuery::text(many)).await.is_ok(), "a long text is a query");
    assert_eq!(ids(memory, "ada", MemoryQuery::all()).await, ["1"]);
    assert_eq!(ids(memory, "bob", MemoryQuery::all()).await, ["1"]);
}

async fn at_the_same_time(memory: impl Memory) {
    let runtime = Runtime::builder().memory(memory).build();
    let saves = (0..20).map(|at| {
        let memory =
            runtime.memories().user(format!("user {}", at % 2)).expect("there is a memory");
        tokio::spawn(
            async move { memory.save(format!("Number {at}.")).await.map(|entry| entry.id) },
        )
    });
    let mut ids = std::collections::BTreeSet::new();
    for save in saves.collect::<Vec<_>>() {
        ids.insert(save.await.expect("no panic").expect("an entry is saved"));
    }
    assert_eq!(ids.len(), 20, "each has an id of its own");
    for user in ["user 0", "user 1"] {
        let all = runtime
            .memories()
            .user(user)
            .expect("there is a memory")
            .search(MemoryQuery::all().limit(100))
            .await;
        assert_eq!(all.expect("a memory is searched").len(), 10);
    }
}
