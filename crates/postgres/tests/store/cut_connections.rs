//! Connections that are cut while a transaction is committed. A proxy between the store and the
//! server cuts one connection before or after the server has executed a `COMMIT`.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use agentflow::store::{
    Append, DocumentCommit, DocumentWrite, Epoch, ExpectedVersion, PostgresStore, Snapshot,
    StateWrite, Store, StoreError, StoreErrorKind,
};
use agentflow::time::Timestamp;
use agentflow::value::Encoded;
use agentflow::{RunId, serde_json};
use agentflow_tests::PostgresServer;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{cancelled, connect, event, in_time, new_schema, noted, started};

/// Forward everything.
const PASS: u8 = 0;
/// Drop the next `COMMIT` and cut its connection.
const BEFORE: u8 = 1;
/// Forward the next `COMMIT`, wait for the answer, and cut the connection.
const AFTER: u8 = 2;

/// Text in an event. A statement with it is treated as a `COMMIT`.
const CUT: &str = "this connection is cut";

/// A proxy in front of the server.
struct Proxy {
    url: String,
    mode: Arc<AtomicU8>,
    /// SQL that is executed after the server has executed a `COMMIT` and before the connection is
    /// cut.
    between: Arc<Mutex<Option<String>>>,
}

impl Proxy {
    async fn start(server: &'static PostgresServer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy =
            Self { url: server.url_at(port), mode: Arc::default(), between: Arc::default() };
        let (mode, between) = (Arc::clone(&proxy.mode), Arc::clone(&proxy.between));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mode, between) = (Arc::clone(&mode), Arc::clone(&between));
                tokio::spawn(forward(client, server, mode, between));
            }
        });
        proxy
    }

    async fn store(&self, schema: &str) -> PostgresStore {
        let builder = PostgresStore::builder(&*self.url).schema(schema).pool_size(4);
        builder.connect().await.expect("the store can be opened")
    }

    /// Executes an operation whose first `COMMIT` is cut.
    async fn cut<T>(&self, mode: u8, operation: impl Future<Output = T>) -> T {
        self.mode.store(mode, Ordering::SeqCst);
        let done = operation.await;
        assert_eq!(self.mode.load(Ordering::SeqCst), PASS, "a connection was cut");
        done
    }
}

/// Forwards the bytes of a connection until one side closes it, or until it is cut.
async fn forward(
    mut client: TcpStream,
    server: &'static PostgresServer,
    mode: Arc<AtomicU8>,
    between: Arc<Mutex<Option<String>>>,
) {
    let Ok(mut upstream) = TcpStream::connect(("127.0.0.1", server.port())).await else { return };
    let (mut sent, mut received) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut sent) => {
                let Ok(count @ 1..) = read else { return };
                let has = |text: &[u8]| sent[..count].windows(text.len()).any(|part| part == text);
                let is_write = has(b"COMMIT\0") || has(CUT.as_bytes());
                let cut = if is_write { mode.swap(PASS, Ordering::SeqCst) } else { PASS };
                if cut == BEFORE || upstream.write_all(&sent[..count]).await.is_err() {
                    return;
                }
                if cut == AFTER {
                    let _ = upstream.read(&mut received).await;
                    let sql = between.lock().unwrap().take();
                    if let Some(sql) = sql {
                        server.client("public").await.batch_execute(&sql).await.unwrap();
                    }
                    return;
                }
            }
            read = upstream.read(&mut received) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&received[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_write_happens_once_whenever_its_connection_is_cut() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        drop(server.client("public").await);
        let proxy = Proxy::start(server).await;
        for mode in [BEFORE, AFTER] {
            check_runs(&proxy, mode).await.unwrap();
            check_parts(&proxy, mode).await.unwrap();
            check_documents(&proxy, mode).await.unwrap();
        }
    })
    .await;
}

async fn check_runs(proxy: &Proxy, mode: u8) -> Result<(), StoreError> {
    let store = proxy.store(&new_schema()).await;
    let run = RunId::new("a");
    let first = proxy.cut(mode, store.create(&run, vec![started(&run)])).await?;
    assert_eq!(first, Epoch(1));
    let again = store.create(&run, vec![started(&run)]).await.unwrap_err();
    assert_eq!(again.kind(), StoreErrorKind::Exists, "only the repeated write is recognized");
    let append = Append::new(1, vec![noted(&run, 2, "x"), noted(&run, 3, "y")]);
    proxy.cut(mode, store.append(&run, first, append)).await?;
    // The run is known now, so this append is one statement without a `COMMIT`.
    let append = Append::new(3, vec![noted(&run, 4, CUT)]);
    proxy.cut(mode, store.append(&run, first, append)).await?;
    store.append(&run, first, Append::new(4, vec![noted(&run, 5, "quick")])).await?;
    let second = proxy.cut(mode, store.open(&run)).await?;
    assert_eq!(second, Epoch(2), "it is opened once");
    let late = store.append(&run, first, Append::new(5, vec![noted(&run, 6, "late")])).await;
    assert_eq!(late.unwrap_err().kind(), StoreErrorKind::Fenced);
    let snapshot = Snapshot::new(1, vec![started(&run)]);
    proxy.cut(mode, store.put_snapshot(&run, second, snapshot.clone())).await?;
    assert_eq!(store.snapshot(&run).await?, Some(snapshot));
    proxy.cut(mode, store.put_definition("d", "{}".to_owned())).await?;
    proxy.cut(mode, store.close(&run, second)).await?;
    proxy.cut(mode, store.amend(&run, 5, vec![noted(&run, 6, "z")])).await?;
    assert_eq!(store.open(&run).await?, Epoch(4), "the amendment has counted once");
    let end = Append::new(6, vec![cancelled(&run, 7)]);
    proxy.cut(mode, store.append(&run, Epoch(4), end)).await?;
    assert_eq!(store.read(&run, 0, 100).await?.len(), 7);
    proxy.cut(mode, store.delete(&run)).await?;
    assert_eq!(store.record(&run).await?, None);
    Ok(())
}

async fn check_documents(proxy: &Proxy, mode: u8) -> Result<(), StoreError> {
    let schema = new_schema();
    let store = proxy.store(&schema).await;
    let documents = store.documents().unwrap();
    let write = |text: &str| {
        DocumentWrite::new("a", text, Timestamp::from_millis(1)).expect("the name is allowed")
    };
    let versions = async || {
        let versions = documents.document_versions("a", None, 10).await.unwrap();
        versions.iter().map(|record| record.version).collect::<Vec<_>>()
    };
    let done = |commit| match commit {
        DocumentCommit::Done(record) => record.version,
        other => panic!("{other:?}"),
    };
    let put = documents.put_document(write("one"), ExpectedVersion::Absent);
    assert_eq!(done(proxy.cut(mode, put).await?), 1, "its own commit is no conflict");
    let put = documents.put_document(write("two"), ExpectedVersion::Any);
    assert_eq!(done(proxy.cut(mode, put).await?), 2);
    assert_eq!(versions().await, [2, 1], "each version is saved once");
    // Another writer saves a version after the commit of the removal, before it is repeated.
    let put = format!(
        "UPDATE {schema}.documents SET version = 3, removed = false, changed = 9; \
         UPDATE {schema}.document_changes SET number = 9; \
         INSERT INTO {schema}.document_versions SELECT name, 3, checksum, form, created, author, \
         comment, text, 'other', NULL FROM {schema}.document_versions WHERE version = 2"
    );
    *proxy.between.lock().unwrap() = (mode == AFTER).then_some(put);
    let remove = documents.remove_document("a", ExpectedVersion::Any);
    assert_eq!(done(proxy.cut(mode, remove).await?), 2);
    let current = documents.document("a", None).await?.map(|found| found.record.version);
    assert_eq!(current, (mode == AFTER).then_some(3), "only version 2 was removed");
    Ok(())
}

async fn check_parts(proxy: &Proxy, mode: u8) -> Result<(), StoreError> {
    let store = proxy.store(&new_schema()).await;
    let run = RunId::new("a");
    let agent = json!({"name": "clerk", "input": []});
    let began = json!({
        "version": 1, "body": {"agent": agent},
        "session": {"session": "s", "number": 1, "after": null}
    });
    let first = vec![event(&run, 1, "run.started", &began)];
    let epoch = proxy.cut(mode, store.create(&run, first)).await?;
    let messages = store.messages().unwrap();
    let message = proxy.cut(mode, messages.send(&run, "1".to_owned())).await?;
    assert_eq!(messages.receive(&run, epoch).await?.len(), 1, "it is sent once");
    // An append without events is recognized by its mark.
    let value = Encoded::from_json("1".to_owned()).ok();
    let append = Append::new(1, Vec::new()).answering(message, "done");
    let append = append.with_state([StateWrite::new(None, "k", value)]);
    proxy.cut(mode, store.append(&run, epoch, append)).await?;
    assert_eq!(store.state().unwrap().read_state(None, None).await?.len(), 1);
    let outcome = proxy.cut(mode, messages.withdraw(message)).await?;
    assert_eq!(outcome.as_deref(), Some("done"), "the outcome is not lost");
    let put = store.artifacts().unwrap().put_artifact(&run, epoch, "h", (*b"x").into());
    proxy.cut(mode, put).await?;
    let write = StateWrite::new(None, "k", None);
    proxy.cut(mode, store.state().unwrap().put_state(vec![write])).await?;
    store.append(&run, epoch, Append::new(1, vec![cancelled(&run, 2)])).await?;
    let runs = proxy.cut(mode, store.sessions().unwrap().delete_session("s")).await?;
    assert_eq!(runs, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_was_committed_succeeds_although_the_run_was_opened_since() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        drop(server.client("public").await);
        let proxy = Proxy::start(server).await;
        let schema = new_schema();
        let store = proxy.store(&schema).await;
        let other = connect(server, &schema).await;
        let run = RunId::new("a");
        let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
        let open = |epoch: u64| {
            let sql = format!(
                "UPDATE {schema}.runs SET epoch = {epoch}, write_id = 'other', owner = NULL"
            );
            *proxy.between.lock().unwrap() = Some(sql);
        };
        open(7);
        let append = Append::new(1, vec![noted(&run, 2, "x")]);
        proxy.cut(AFTER, store.append(&run, epoch, append)).await.unwrap();
        assert_eq!(other.read(&run, 1, 10).await.unwrap(), [noted(&run, 2, "x")]);
        // Without events, the outcome cannot be read back, so the writer stops.
        open(9);
        let append = Append::new(2, Vec::new());
        let done = proxy.cut(AFTER, store.append(&run, Epoch(7), append)).await;
        assert_eq!(done.unwrap_err().kind(), StoreErrorKind::Fenced);
        // A write that did not happen is executed.
        let append = Append::new(2, vec![noted(&run, 3, "x")]);
        let done = proxy.cut(BEFORE, store.append(&run, Epoch(9), append)).await;
        done.unwrap();
        assert_eq!(other.read(&run, 0, 10).await.unwrap().len(), 3);
    })
    .await;
}
