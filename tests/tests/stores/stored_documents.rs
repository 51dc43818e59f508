//! Tests documents that are saved in a store while programs run: they take effect in all processes,
//! mistakes are refused, and of several writers one wins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentflow::access::{AccessAction, AccessControl, AccessRequest};
use agentflow::document::Document;
use agentflow::error::FailureKind;
use agentflow::event::RunId;
use agentflow::prelude::*;
use agentflow::runtime::DocumentsError;
use agentflow::store::{
    DocumentChange, DocumentCommit, DocumentLimitError, DocumentRecord, DocumentStore,
    DocumentWrite, ExpectedVersion, MemoryStore, Store, StoreError, StoreErrorKind, StoredDocument,
};
use agentflow_testing::{ScriptedModel, within};
use serde_json::{Value, json};

/// Adds two numbers.
#[tool(effects = "none")]
fn stored_add(a: i64, b: i64) -> i64 {
    a + b
}

/// Returns a document of tools that adds `a` and `b`.
pub(crate) fn sum(name: &str, a: i64, b: i64) -> String {
    format!(
        "id: {name}\nnodes:\n  - {{id: t, tool: stored_add, args_template: {{a: {a}, b: {b}}}}}\n"
    )
}

/// Returns a graph that calls another workflow without inputs.
fn calls(name: &str, callee: &str) -> String {
    format!(
        "name: {name}\noutput: c\nnodes:\n  - name: c\n    does: {{call: {{kind: workflow, name: {callee}, with: \
         {{object: {{}}}}}}}}\n"
    )
}

pub(crate) fn over(store: impl Store) -> Runtime {
    Runtime::builder().model(ScriptedModel::new([])).store(store).build()
}

pub(crate) async fn run(runtime: &Runtime, name: &str) -> Value {
    let run = runtime.start_named(name, json!({})).await.unwrap_or_else(|error| panic!("{error}"));
    let output = within("the end of a run", run.result()).await;
    output.unwrap_or_else(|error| panic!("{error}")).decode().unwrap()
}

pub(crate) async fn put(runtime: &Runtime, name: &str, text: String) -> DocumentRecord {
    let saved = within("saving a document", async { runtime.documents().put(name, text).await });
    saved.await.unwrap_or_else(|error| panic!("{error}"))
}

async fn unknown(runtime: &Runtime, name: &str) {
    let error = runtime.start_named(name, json!({})).await.expect_err("it is unknown");
    assert_eq!(error.kind(), FailureKind::UnknownWorkflow, "{error}");
}

#[tokio::test]
async fn a_saved_document_starts_at_once_and_its_runs_name_their_version() {
    let runtime = over(MemoryStore::new());
    unknown(&runtime, "price").await;
    let saved = put(&runtime, "price", sum("price", 1, 2)).await;
    assert_eq!((saved.version, &*saved.form, &*saved.name), (1, "tools", "price"));
    assert_eq!(run(&runtime, "price").await, json!(3));
    let documents = runtime.documents();
    let saved =
        documents.put("price", sum("price", 1, 3)).by("ada").comment("dearer").await.unwrap();
    assert_eq!((saved.author.as_deref(), saved.comment.as_deref()), (Some("ada"), Some("dearer")));
    let handle = runtime.start_named("price", json!({})).await.unwrap();
    let record = runtime.run(handle.run_id()).record().await.unwrap();
    assert_eq!(*record.document.unwrap(), saved.to_version());
    assert_eq!(handle.result().await.unwrap().decode::<i64>().unwrap(), 4);
    // The list, the versions and the texts.
    let listed = runtime.documents().list(None, 10).await.unwrap();
    assert_eq!(listed, [saved]);
    let versions = runtime.documents().versions("price", None, 10).await.unwrap();
    assert_eq!(versions.iter().map(|of| of.version).collect::<Vec<_>>(), [2, 1]);
    let first = runtime.documents().get("price", 1).await.unwrap();
    assert_eq!(*first.text, *sum("price", 1, 2));
    let diff = runtime.documents().diff("price", 1, 2).await.unwrap();
    assert_eq!(
        diff,
        "--- price (version 1)\n+++ price (version 2)\n@@ -1,3 +1,3 @@\n id: price\n nodes:\n\
         -  - {id: t, tool: stored_add, args_template: {a: 1, b: 2}}\n\
         +  - {id: t, tool: stored_add, args_template: {a: 1, b: 3}}\n"
    );
    assert_eq!(runtime.documents().diff("price", 2, 2).await.unwrap(), "");
    // A workflow of the program has no version in its record.
    let removed = runtime.documents().remove("price").expect_version(2).await.unwrap();
    assert_eq!(removed.version, 2);
    unknown(&runtime, "price").await;
    let error = runtime.documents().get("price", None).await.unwrap_err();
    assert!(matches!(&error, DocumentsError::NotFound { version: None, .. }), "{error}");
    assert_eq!(runtime.documents().get("price", 2).await.unwrap().record.version, 2);
    assert_eq!(put(&runtime, "price", sum("price", 5, 5)).await.version, 3);
    assert_eq!(run(&runtime, "price").await, json!(10));
}

#[tokio::test]
async fn a_document_with_mistakes_is_refused_and_nothing_is_saved() {
    let runtime = over(MemoryStore::new());
    put(&runtime, "price", sum("price", 1, 2)).await;
    let wrong = sum("price", 1, 2).replace("stored_add", "stored_ad");
    let error = runtime.documents().put("price", wrong.clone()).await.unwrap_err();
    let DocumentsError::Invalid(found) = &error else { panic!("{error}") };
    let problem = &found.problems()[0];
    assert_eq!((problem.line(), problem.column()), (3, 19), "{found}");
    assert!(problem.message().contains("did you mean `stored_add`?"), "{found}");
    // Checking a text finds the same mistakes.
    let checked = runtime.documents().validate(wrong).await.unwrap_err();
    assert_eq!(checked.problems()[0].message(), problem.message());
    let unreadable = "id: price\nnodes:\n  - {id: t, tool: stored_ad, retry: 1}\n";
    let error = runtime.documents().put("price", unreadable).await.unwrap_err();
    let DocumentsError::Invalid(found) = &error else { panic!("{error}") };
    assert_eq!(found.problems().len(), 2, "the name and the field: {found}");
    for text in ["", "{", "- 1", "\u{feff}", "id: price\nnodes: []\n", "&a [*a]"] {
        let error = runtime.documents().put("price", text).await.unwrap_err();
        assert!(matches!(error, DocumentsError::Invalid(_)), "{text:?}: {error}");
        assert!(runtime.documents().validate(text).await.is_err());
    }
    let error = runtime.documents().put("price", calls("price", "price")).await.unwrap_err();
    assert!(error.to_string().contains("calls itself"), "{error}");
    assert_eq!(runtime.documents().versions("price", None, 10).await.unwrap().len(), 1);
    assert_eq!(run(&runtime, "price").await, json!(3));
    // A valid text is checked and not saved.
    let document: Document = runtime.documents().validate(sum("other", 1, 2)).await.unwrap();
    assert_eq!(document.name(), "other");
    unknown(&runtime, "other").await;
}

#[tokio::test]
async fn names_that_are_not_allowed_are_refused() {
    let runtime = over(MemoryStore::new());
    let long = "n".repeat(201);
    for name in ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a\0b", "a\nb", " a", "a ", &long]
    {
        let error = runtime.documents().put(name, sum("x", 1, 2)).await.unwrap_err();
        let is_limit = matches!(error, DocumentsError::Limit(DocumentLimitError::Name { .. }));
        assert!(is_limit, "{name:?}: {error}");
        assert!(error.to_string().len() < 300, "{error}");
        // They may be asked for.
        assert!(runtime.documents().get(name, None).await.is_err());
        assert!(runtime.documents().remove(name).await.is_err());
        assert!(runtime.documents().list(Some(name), 1).await.unwrap().is_empty());
    }
    let error = runtime.documents().put("y", sum("x", 1, 2)).await.unwrap_err();
    assert!(matches!(error, DocumentsError::OtherName { .. }), "{error}");
    let much = "#".repeat(DocumentWrite::MAX_TEXT_BYTES + 1);
    let error = runtime.documents().put("x", much).await.unwrap_err();
    let is_text =
        matches!(error, DocumentsError::Limit(DocumentLimitError::TooLong { what: "text", .. }));
    assert!(is_text, "{error}");
    let comment = "c".repeat(DocumentWrite::MAX_COMMENT_BYTES + 1);
    let error = runtime.documents().put("x", sum("x", 1, 2)).comment(comment).await.unwrap_err();
    assert!(matches!(error, DocumentsError::Limit(_)), "{error}");
    let error = runtime.documents().list(None, 1001).await.unwrap_err();
    assert!(matches!(error, DocumentsError::Limit(DocumentLimitError::Page { .. })), "{error}");
    assert!(runtime.documents().list(None, 10).await.unwrap().is_empty());
    // Names of all scripts are allowed, as are quotes.
    for name in ["pr\u{fc}fung", "\u{4e2d}\u{6587}", "it's", "a.b-c_d 1", &"n".repeat(200)] {
        let text = format!("id: \"{name}\"\n{}", sum("x", 1, 2).split_once('\n').unwrap().1);
        assert_eq!(put(&runtime, name, text).await.version, 1);
        assert_eq!(run(&runtime, name).await, json!(3));
    }
}

#[workflow]
async fn stored_of_program(n: i64) -> Result<i64> {
    let twice = n * 2;
    Ok(twice)
}

#[tokio::test]
async fn a_stored_document_never_replaces_a_workflow_of_the_program() {
    let store = MemoryStore::new();
    let runtime = over(store.clone());
    let name = "stored_of_program";
    let error = runtime.documents().put(name, sum(name, 1, 2)).await.unwrap_err();
    assert!(matches!(error, DocumentsError::NameTaken { .. }), "{error}");
    // A later version of the program brings a workflow with the name of a stored document.
    put(&runtime, "price", sum("price", 1, 2)).await;
    put(&runtime, "caller", calls("caller", "price")).await;
    let document = Document::read("price.yaml", sum("price", 10, 20)).unwrap();
    let later = Runtime::builder()
        .model(ScriptedModel::new([]))
        .document(document)
        .store(store.clone())
        .build();
    assert_eq!(run(&later, "price").await, json!(30));
    assert_eq!(run(&later, "caller").await, json!(30));
    let error = later.documents().put("price", sum("price", 1, 2)).await.unwrap_err();
    assert!(matches!(error, DocumentsError::NameTaken { .. }), "{error}");
    let error = later.start_named("price", json!({})).version(1).await.err().unwrap();
    assert_eq!(error.kind(), FailureKind::UnknownWorkflow, "{error}");
    assert!(later.catalogue().snapshot().await.check().is_ok());
    // The earlier program is not affected.
    assert_eq!(run(&runtime, "price").await, json!(3));
    assert_eq!(run(&runtime, "caller").await, json!(3));
}

#[tokio::test]
async fn other_processes_use_a_document_within_a_second() {
    let store = MemoryStore::new();
    let one = over(store.clone());
    let other = over(store.as_another_process());
    unknown(&other, "price").await;
    put(&one, "price", sum("price", 1, 2)).await;
    // A name that is unknown is looked up at once.
    assert_eq!(run(&other, "price").await, json!(3));
    put(&one, "price", sum("price", 1, 3)).await;
    let found = within("the new version", async {
        let begun = std::time::Instant::now();
        while run(&other, "price").await != json!(4) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        begun.elapsed()
    });
    let took = found.await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
    one.documents().remove("price").await.unwrap();
    other.documents().refresh().await.unwrap();
    unknown(&other, "price").await;
    // Another store has other documents.
    let apart = one.with_store(MemoryStore::new());
    put(&one, "price", sum("price", 1, 4)).await;
    unknown(&apart, "price").await;
    put(&apart, "price", sum("price", 2, 2)).await;
    assert_eq!((run(&one, "price").await, run(&apart, "price").await), (json!(5), json!(4)));
}

#[tokio::test]
async fn documents_call_each_other_in_their_current_versions() {
    let runtime = over(MemoryStore::new());
    let error = runtime.documents().put("caller", calls("caller", "inner")).await.unwrap_err();
    assert!(error.to_string().contains("no workflow `inner`"), "{error}");
    put(&runtime, "inner", sum("inner", 1, 2)).await;
    put(&runtime, "caller", calls("caller", "inner")).await;
    assert_eq!(run(&runtime, "caller").await, json!(3));
    put(&runtime, "inner", sum("inner", 1, 3)).await;
    assert_eq!(run(&runtime, "caller").await, json!(4));
    // The document that closes a cycle is refused.
    let error = runtime.documents().put("inner", calls("inner", "caller")).await.unwrap_err();
    assert!(matches!(error, DocumentsError::Invalid(_)), "{error}");
    assert_eq!(run(&runtime, "caller").await, json!(4));
    runtime.documents().remove("inner").await.unwrap();
    let error = runtime.start_named("caller", json!({})).await.err().unwrap();
    assert!(error.to_string().contains("no workflow `inner`"), "{error}");
}

#[tokio::test]
async fn a_name_is_used_again_by_another_form() {
    let runtime = over(MemoryStore::new());
    let first = put(&runtime, "price", sum("price", 1, 2)).await;
    put(&runtime, "inner", sum("inner", 7, 7)).await;
    let second = put(&runtime, "price", calls("price", "inner")).await;
    assert_eq!((&*first.form, &*second.form), ("tools", "graph"));
    assert_eq!(run(&runtime, "price").await, json!(14));
    let old = runtime.start_named("price", json!({})).version(1).await.unwrap();
    assert_eq!(old.result().await.unwrap().decode::<i64>().unwrap(), 3);
}

#[tokio::test]
async fn of_tasks_that_expect_the_same_version_one_wins() {
    let store = MemoryStore::new();
    let runtimes: Vec<Runtime> = (0..4).map(|_| over(store.as_another_process())).collect();
    for round in 0..4_u64 {
        let writers = runtimes.iter().cloned().enumerate().map(|(writer, runtime)| {
            tokio::spawn(async move {
                let number = i64::try_from(writer).unwrap();
                let text = sum("price", number, i64::try_from(round).unwrap() * 10);
                let put = runtime.documents().put("price", text);
                match round {
                    0 => put.expect_absent().await,
                    _ => put.expect_version(round).await,
                }
            })
        });
        let mut winners = Vec::new();
        for (writer, outcome) in writers.collect::<Vec<_>>().into_iter().enumerate() {
            match within("a writer", outcome).await.unwrap() {
                Ok(record) => winners.push((writer, record)),
                Err(DocumentsError::Conflict { current, .. }) => {
                    assert_eq!(current, Some(round + 1));
                }
                Err(error) => panic!("{error}"),
            }
        }
        let [(writer, record)] = &winners[..] else { panic!("{winners:?}") };
        assert_eq!(record.version, round + 1);
        for runtime in &runtimes {
            runtime.documents().refresh().await.unwrap();
            let expected = i64::try_from(*writer).unwrap() + i64::try_from(round).unwrap() * 10;
            assert_eq!(run(runtime, "price").await, json!(expected));
        }
    }
}

#[tokio::test]
async fn a_start_by_version_names_the_versions_that_exist() {
    let runtime = over(MemoryStore::new());
    put(&runtime, "price", sum("price", 1, 1)).await;
    put(&runtime, "price", sum("price", 2, 2)).await;
    for (version, sum) in [(1, 2), (2, 4)] {
        let run = runtime.start_named("price", json!({})).version(version).await.unwrap();
        let record = runtime.run(run.run_id()).record().await.unwrap();
        assert_eq!(record.document.unwrap().version, version);
        assert_eq!(run.result().await.unwrap().decode::<i64>().unwrap(), sum);
    }
    for version in [0, 3, u64::MAX] {
        let error = runtime.start_named("price", json!({})).version(version).await.err().unwrap();
        assert_eq!(error.kind(), FailureKind::UnknownWorkflow, "{error}");
        assert!(error.to_string().ends_with("its current version is 2"), "{error}");
    }
    let error = runtime.start_named("price", json!({})).version(3).queued().await.err().unwrap();
    assert_eq!(error.kind(), FailureKind::UnknownWorkflow, "{error}");
    let error = runtime.start_named("stored_of_program", json!({"n": 1})).version(1).await;
    let error = error.err().unwrap();
    assert!(error.to_string().contains("it is not a stored document"), "{error}");
    let error = runtime.start(stored_of_program::workflow(), 1).version(1).await.err().unwrap();
    assert!(error.to_string().contains("it is not a stored document"), "{error}");
    runtime.documents().remove("price").await.unwrap();
    let error = runtime.start_named("price", json!({})).version(1).await.err().unwrap();
    assert_eq!(error.kind(), FailureKind::UnknownWorkflow, "{error}");
}

/// Callers see the documents whose names start with their own. Only `editor` may write.
struct OwnDocuments;

#[agentflow::async_trait]
impl AccessControl for OwnDocuments {
    async fn allows(&self, request: AccessRequest<'_>) -> bool {
        match request.action() {
            AccessAction::ReadDocument => request.name().starts_with(request.caller().name()),
            AccessAction::WriteDocument => request.caller().has_role("editor"),
            _ => true,
        }
    }
}

#[tokio::test]
async fn access_control_is_asked_for_each_document() {
    let store = MemoryStore::new();
    let runtime = Runtime::builder()
        .model(ScriptedModel::new([]))
        .store(store)
        .access_control(OwnDocuments)
        .build();
    let editor = runtime.for_caller(agentflow::Caller::new("ada").with_roles(["editor"]));
    let saved = editor.documents().put("ada1", sum("ada1", 1, 2)).by("eve").await.unwrap();
    assert_eq!(saved.author.as_deref(), Some("ada"));
    put(&runtime, "bob1", sum("bob1", 1, 2)).await;
    put(&runtime, "ada2", sum("ada2", 1, 2)).await;
    let listed = editor.documents().list(None, 1).await.unwrap();
    assert_eq!(listed.iter().map(|of| &*of.name).collect::<Vec<_>>(), ["ada1"]);
    let listed = editor.documents().list(Some("ada1"), 10).await.unwrap();
    assert_eq!(listed.iter().map(|of| &*of.name).collect::<Vec<_>>(), ["ada2"]);
    // A document that may not be read seems not to exist.
    for name in ["bob1", "bob9"] {
        let documents = editor.documents();
        let errors = [
            documents.get(name, None).await.err().unwrap(),
            documents.get(name, 1).await.err().unwrap(),
            documents.versions(name, None, 5).await.err().unwrap(),
            documents.diff(name, 1, 1).await.err().unwrap(),
            documents.remove(name).await.err().unwrap(),
        ];
        for error in errors {
            assert!(matches!(error, DocumentsError::NotFound { .. }), "{error}");
        }
        let error = documents.put(name, sum(name, 1, 2)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the caller `ada` may not write the document `{name}`")
        );
    }
    // A caller who may only read.
    let reader = runtime.for_caller("ada");
    assert!(reader.documents().get("ada1", None).await.is_ok());
    for error in [
        reader.documents().put("ada1", sum("ada1", 1, 2)).await.unwrap_err(),
        reader.documents().put("ada9", sum("ada9", 1, 2)).await.unwrap_err(),
        reader.documents().remove("ada1").await.unwrap_err(),
        reader.documents().validate(sum("ada1", 1, 2)).await.unwrap_err(),
        reader.documents().validate("{").await.unwrap_err(),
    ] {
        assert!(matches!(error, DocumentsError::Denied(_)), "{error}");
    }
    assert_eq!(runtime.documents().versions("ada1", None, 9).await.unwrap().len(), 1);
    assert!(editor.documents().remove("ada1").expect_version(1).await.is_ok());
}

/// A store whose documents cannot be read while `fails` is set.
#[derive(Clone, Debug)]
struct Failing {
    inner: MemoryStore,
    fails: Arc<AtomicBool>,
}

impl agentflow::store::StoreLayer for Failing {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn documents(&self) -> Option<&dyn DocumentStore> {
        Some(self)
    }
}

impl Failing {
    fn part(&self) -> Result<&dyn DocumentStore, StoreError> {
        match self.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::new(StoreErrorKind::Io, "the disk is away")),
            false => (&self.inner as &dyn Store).require_documents(),
        }
    }
}

#[agentflow::async_trait]
impl DocumentStore for Failing {
    async fn put_document(
        &self,
        write: DocumentWrite,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        let done = self.part()?.put_document(write, expected).await;
        // The process loses its store just after the commit.
        self.fails.store(true, Ordering::SeqCst);
        done
    }

    async fn remove_document(
        &self,
        name: &str,
        expected: ExpectedVersion,
    ) -> Result<DocumentCommit, StoreError> {
        self.part()?.remove_document(name, expected).await
    }

    async fn document(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<StoredDocument>, StoreError> {
        self.part()?.document(name, version).await
    }

    async fn list_documents(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        self.part()?.list_documents(after, limit).await
    }

    async fn document_versions(
        &self,
        name: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>, StoreError> {
        self.part()?.document_versions(name, before, limit).await
    }

    async fn document_changes(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DocumentChange>, StoreError> {
        self.part()?.document_changes(after, limit).await
    }
}

#[tokio::test]
async fn a_version_that_was_saved_before_a_failure_takes_effect_later() {
    let fails = Arc::new(AtomicBool::new(false));
    let store = Failing { inner: MemoryStore::new(), fails: Arc::clone(&fails) };
    let runtime = over(store.clone());
    // Saved, but not read back.
    assert_eq!(put(&runtime, "price", sum("price", 1, 2)).await.version, 1);
    let error = runtime.start_named("price", json!({})).await.err().unwrap();
    assert!(error.to_string().contains("the disk is away"), "{error}");
    fails.store(false, Ordering::SeqCst);
    assert_eq!(run(&runtime, "price").await, json!(3));
    // A process that starts after the crash of the first one.
    assert_eq!(run(&over(store.inner.as_another_process()), "price").await, json!(3));
}

#[tokio::test]
async fn a_put_that_is_dropped_is_done_or_not() {
    let store = MemoryStore::new();
    let mut versions = 0;
    for polls in 0..40 {
        let runtime = over(store.as_another_process());
        let put = runtime.documents().put("price", sum("price", polls, 0)).into_future();
        let mut put = Box::pin(put);
        let mut is_done = false;
        for _ in 0..polls {
            let polled = futures_util::poll!(&mut put);
            is_done = polled.is_ready();
            if is_done {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(put);
        let current = runtime.documents().get("price", None).await.ok();
        let now = current.as_ref().map_or(0, |of| of.record.version);
        assert!(now == versions || now == versions + 1, "{now} after {versions}");
        versions = now;
        runtime.documents().refresh().await.unwrap();
        if let Some(current) = current {
            let output = run(&runtime, "price").await;
            assert!(current.text.contains(&format!("a: {output},")), "{output}: {}", current.text);
        }
        if is_done {
            break;
        }
    }
    assert!(versions > 0, "one of the puts should have been done");
}

#[tokio::test]
async fn a_store_without_documents_says_so() {
    #[derive(Debug)]
    struct Without(MemoryStore);
    impl agentflow::store::StoreLayer for Without {
        fn inner(&self) -> &dyn Store {
            &self.0
        }
        fn documents(&self) -> Option<&dyn DocumentStore> {
            None
        }
    }
    let runtime = over(Without(MemoryStore::new()));
    let error = runtime.documents().put("price", sum("price", 1, 2)).await.unwrap_err();
    let DocumentsError::Store(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    let none = Runtime::builder().model(ScriptedModel::new([])).build();
    let error = none.documents().put("price", sum("price", 1, 2)).await.unwrap_err();
    assert!(error.to_string().contains("has no store"), "{error}");
    assert!(none.documents().validate(sum("price", 1, 2)).await.is_ok());
    unknown(&none, "price").await;
}

#[tokio::test]
async fn a_damaged_text_hides_no_other_document() {
    let store = MemoryStore::new();
    let documents = (&store as &dyn Store).require_documents().unwrap();
    // A text that this release cannot read, as a newer release would save it.
    let time = agentflow::time::Timestamp::from_millis(0);
    let newer = DocumentWrite::new("newer", "id: newer\nfuture: 1\n", time).unwrap();
    let _ = documents.put_document(newer, ExpectedVersion::Any).await.unwrap();
    let runtime = over(store.clone());
    put(&runtime, "price", sum("price", 1, 2)).await;
    assert_eq!(run(&runtime, "price").await, json!(3));
    let error = runtime.start_named("newer", json!({})).await.err().unwrap();
    assert!(error.to_string().contains("its document newer has problems"), "{error}");
    // It can be replaced.
    put(&runtime, "newer", sum("newer", 2, 2)).await;
    assert_eq!(run(&runtime, "newer").await, json!(4));
}

#[tokio::test]
async fn a_stored_document_with_a_missing_tool_does_not_stop_a_program() {
    let store = MemoryStore::new();
    let documents = (&store as &dyn Store).require_documents().unwrap();
    let text = sum("price", 1, 2).replace("stored_add", "tool_of_an_earlier_program");
    let time = agentflow::time::Timestamp::from_millis(0);
    let write = DocumentWrite::new("price", text, time).unwrap();
    let _ = documents.put_document(write, ExpectedVersion::Any).await.unwrap();
    let builder = Runtime::builder().model(ScriptedModel::new([])).store(store);
    let runtime = builder.boot().await.unwrap_or_else(|error| panic!("{error}"));
    let error = runtime.start_named("price", json!({})).await.err().unwrap();
    assert!(error.to_string().contains("no tool `tool_of_an_earlier_program`"), "{error}");
    let health = runtime.health().await;
    assert!(health.is_well(), "{health}");
    let catalogue = runtime.catalogue().snapshot().await;
    assert!(catalogue.check().is_err());
}

#[tokio::test]
async fn many_starts_at_the_same_time_find_a_new_document() {
    let store = MemoryStore::new();
    let other = over(store.as_another_process());
    put(&over(store), "price", sum("price", 1, 2)).await;
    let starts = (0..50).map(|_| async { run(&other, "price").await });
    let outputs = futures_util::future::join_all(starts).await;
    assert!(outputs.iter().all(|output| *output == json!(3)), "{outputs:?}");
}

#[tokio::test]
async fn a_worker_of_another_process_executes_a_queued_version() {
    let store = MemoryStore::new();
    let runtime = over(store.clone());
    put(&runtime, "price", sum("price", 1, 2)).await;
    let start = runtime.start_named("price", json!({})).run_id(RunId::new("q"));
    let id = start.queued().await.unwrap();
    put(&runtime, "price", sum("price", 10, 20)).await;
    runtime.documents().remove("price").await.unwrap();
    // A new runtime over the same store, as after a restart.
    let other = over(store.clone());
    let worker = tokio::spawn(other.worker().run());
    let output = within("the queued run", async {
        loop {
            match runtime.run(&id).output().await {
                Ok(output) => break output,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    assert_eq!(serde_json::to_value(output.await).unwrap(), json!(3));
    let record = runtime.run(&id).record().await.unwrap();
    assert_eq!(record.document.unwrap().version, 1);
    other.drain(Duration::from_secs(5)).await;
    within("the end of the worker", worker).await.unwrap().unwrap();
}
