//! Connecting, and the tables: several stores at once, a newer release, another program, TLS.

use std::process::Command;
use std::time::{Duration, Instant};

use agentflow::serde_json::json;
use agentflow::store::{
    DocumentCommit, DocumentWrite, ExpectedVersion, PostgresStore, RunFilter, RunOrder, Store,
    StoreError, StoreErrorKind,
};
use agentflow::time::Timestamp;
use agentflow::{RunId, Runtime};
use agentflow_tests::{PostgresServer, free_port};
use futures_util::future::join_all;

use crate::{connect, event, in_time, new_schema, started};

fn kind(opened: Result<PostgresStore, StoreError>) -> (StoreErrorKind, String) {
    let error = opened.expect_err("the store must not be opened");
    (error.kind(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_may_create_the_tables_at_the_same_time() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        for _ in 0..5 {
            let schema = new_schema();
            let stores = join_all((0..6).map(|_| connect(server, &schema))).await;
            let identity = stores[0].identity();
            assert!(identity.is_some());
            assert!(stores.iter().all(|store| store.identity() == identity));
            let client = server.client(&schema).await;
            let sql = "SELECT count(*), min(version) FROM agentflow_store";
            let row = client.query_one(sql, &[]).await.unwrap();
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (1, 3));
        }
    })
    .await;
}

#[tokio::test]
async fn tables_of_a_newer_release_are_refused_and_not_changed() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        drop(connect(server, &schema).await);
        let client = server.client(&schema).await;
        for (version, expected) in [(4, StoreErrorKind::NewerVersion), (0, StoreErrorKind::Damaged)]
        {
            client.execute("UPDATE agentflow_store SET version = $1", &[&version]).await.unwrap();
            let opened = PostgresStore::builder(server.url()).schema(&schema).connect().await;
            let (kind, text) = kind(opened);
            assert_eq!(kind, expected, "{text}");
            let row = client.query_one("SELECT version FROM agentflow_store", &[]).await.unwrap();
            assert_eq!(row.get::<_, i32>(0), version);
        }
    })
    .await;
}

#[tokio::test]
async fn tables_of_the_first_layout_are_upgraded() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let store = connect(server, &schema).await;
        let (asks, ended) = (RunId::new("asks"), RunId::new("ended"));
        let question = json!({"id": "0000000a", "message": "go on?", "payload": 1, "answer": true});
        let mut question = event(&asks, 2, "approval.requested", &question);
        question.path = "review".parse().unwrap();
        let pause = event(&asks, 3, "run.paused", &json!({"reason": "approval"}));
        store.create(&asks, vec![started(&asks), question, pause]).await.unwrap();
        let end = event(&ended, 2, "run.cancelled", &json!({"reason": "enough"}));
        store.create(&ended, vec![started(&ended), end]).await.unwrap();
        let client = server.client(&schema).await;
        let sql = "ALTER TABLE runs DROP COLUMN questions; ALTER TABLE runs DROP COLUMN ended; \
                   ALTER TABLE runs DROP COLUMN document; DROP TABLE document_changes; \
                   DROP TABLE document_versions; DROP TABLE documents; \
                   UPDATE agentflow_store SET version = 1; UPDATE runs SET owner = NULL";
        client.batch_execute(sql).await.unwrap();
        drop(store);
        let store = connect(server, &schema).await;
        assert_eq!(store.record(&asks).await.unwrap().unwrap().questions, None);
        let by_change = RunFilter::new().order(RunOrder::Changed);
        let listed = store.list(by_change).await.unwrap();
        let ids: Vec<&str> = listed.iter().map(|run| run.run_id.as_str()).collect();
        assert_eq!(ids, ["asks", "ended"]);
        assert_eq!(store.count(RunFilter::unfinished()).await.unwrap(), 1);
        // The questions are read from the journal.
        let runtime = Runtime::builder().store(store).build();
        let questions = runtime.runs().questions(RunFilter::new()).await.unwrap();
        assert_eq!((questions.len(), &*questions[0].path), (1, "review"));
    })
    .await;
}

#[tokio::test]
async fn tables_of_the_first_layout_get_documents() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let client = server.client("public").await;
        let tables = include_str!("../../src/store/schema/1.sql");
        let sql = format!(
            "CREATE SCHEMA {schema}; SET search_path TO {schema}; {tables} \
             INSERT INTO agentflow_store (version, store_id) VALUES (1, 'earlier'); \
             INSERT INTO runs (run_id, version, name, status, created, updated, events, epoch, \
             tags, write_id) VALUES ('a', 1, 'job', 'paused', 1, 1, 1, 1, '{{}}', 'w')"
        );
        client.batch_execute(&sql).await.unwrap();
        let store = connect(server, &schema).await;
        assert!(store.identity().unwrap().contains("earlier"));
        let listed = store.list(RunFilter::new()).await.unwrap();
        assert_eq!((listed.len(), &listed[0].document), (1, &None));
        let documents = store.documents().unwrap();
        assert!(documents.list_documents(None, 10).await.unwrap().is_empty());
        let write = DocumentWrite::new("a", "text", Timestamp::from_millis(1)).unwrap();
        let saved = documents.put_document(write, ExpectedVersion::Absent).await.unwrap();
        assert!(matches!(saved, DocumentCommit::Done(record) if record.version == 1));
    })
    .await;
}

#[tokio::test]
async fn the_tables_of_another_program_are_not_changed() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let client = server.client("public").await;
        let sql = format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.events (id int)");
        client.batch_execute(&sql).await.unwrap();
        let opened = PostgresStore::builder(server.url()).schema(&schema).connect().await;
        let (kind, text) = kind(opened);
        assert_eq!(kind, StoreErrorKind::Io);
        assert!(text.contains("tables of another program"), "{text}");
        let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = $1";
        let tables: i64 = client.query_one(sql, &[&schema]).await.unwrap().get(0);
        assert_eq!(tables, 1);
    })
    .await;
}

#[tokio::test]
async fn problems_of_a_connection_are_explained() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        drop(server.client("public").await);
        let begun = Instant::now();
        let (unreachable, text) = kind(PostgresStore::connect(server.url_at(free_port())).await);
        assert_eq!(unreachable, StoreErrorKind::Unreachable, "{text}");
        assert!(begun.elapsed() < Duration::from_secs(5), "a read is attempted three times");
        let missing = server.url().replace("/postgres?", "/missing?");
        let (io, text) = kind(PostgresStore::connect(missing).await);
        assert_eq!(io, StoreErrorKind::Io);
        assert!(text.contains("does not exist"), "{text}");
        let secure = server.url().replace("sslmode=disable", "sslmode=require");
        let (_, text) = kind(PostgresStore::connect(secure).await);
        assert!(text.contains("TLS"), "{text}");
        for url in ["mysql://a", "postgres://a:secret@", "postgres:///x"] {
            let (io, text) = kind(PostgresStore::connect(url).await);
            assert_eq!(io, StoreErrorKind::Io);
            assert!(!text.contains("secret"), "{text}");
        }
        let opened = PostgresStore::builder(server.url()).schema("A-B").connect().await;
        assert!(kind(opened).1.contains("invalid schema name"));
    })
    .await;
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
async fn certificates_are_verified() {
    let Some(server) = PostgresServer::start() else { return };
    in_time(async {
        let certificate = |name: &str| {
            rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate")
        };
        let own = certificate("localhost");
        let data = server.dir().join("data");
        let key = data.join("server.key");
        std::fs::write(data.join("server.crt"), own.cert.pem()).unwrap();
        std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        // The server only reads a key that belongs to its user and is private.
        let is_root = std::fs::metadata("/proc/self").is_ok() && change_owner(&data, &key);
        assert!(is_root, "the key has the owner of the data");
        let client = server.client("public").await;
        let enabled = client.batch_execute("ALTER SYSTEM SET ssl = on").await;
        if let Err(error) = enabled {
            eprintln!("skipped: this Postgres has no TLS: {error}");
            return;
        }
        client.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
        let url = format!(
            "postgres://agentflow@localhost:{}/postgres?hostaddr=127.0.0.1&sslmode=verify-full",
            server.port()
        );
        let open = |roots: String| PostgresStore::builder(&*url).root_certificates(roots).connect();
        let begun = Instant::now();
        let opened = loop {
            match open(own.cert.pem()).await {
                // The server needs a moment to read its configuration.
                Err(_) if begun.elapsed() < Duration::from_secs(10) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                opened => break opened,
            }
        };
        if let Err(error) = &opened
            && server.log().contains("SSL is not supported by this build")
        {
            eprintln!("skipped: this Postgres has no TLS: {error}");
            return;
        }
        let store = opened.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
        let sql = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                   WHERE ssl AND application_name = 'agentflow'";
        let encrypted: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
        assert!(encrypted >= 1);
        drop(store);
        let (_, text) = kind(open(certificate("localhost").cert.pem()).await);
        assert!(text.contains("certificate"), "{text}");
    })
    .await;
}

/// Gives a file the owner of a folder, and makes it private.
fn change_owner(folder: &std::path::Path, file: &std::path::Path) -> bool {
    let run = |program: &str, of: &str| {
        Command::new(program).arg(of).arg(file).status().is_ok_and(|status| status.success())
    };
    run("chown", &format!("--reference={}", folder.display())) && run("chmod", "600")
}
