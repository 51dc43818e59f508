//! The rules of a store, and texts with characters that Postgres refuses.

use agentflow::store::{
    Append, PostgresStore, RunFilter, SessionFilter, StateWrite, Store, StoreErrorKind,
};
use agentflow::value::Encoded;
use agentflow::{RunId, serde_json};
use agentflow_testing::{check_store, check_store_reopened};
use agentflow_tests::PostgresServer;
use serde_json::json;

use crate::{connect, event, in_time, new_schema, noted, started};

#[tokio::test]
async fn the_store_obeys_the_rules_of_stores() {
    let Some(server) = PostgresServer::shared() else { return };
    drop(server.client("public").await);
    let new = || async {
        // A limit of this size enables the rule for events that are too large.
        let builder = PostgresStore::builder(server.url()).schema(new_schema()).pool_size(4);
        builder.max_event_bytes(1 << 20).connect().await.expect("the store can be opened")
    };
    let checked = in_time(check_store(new)).await;
    assert_eq!(checked.skipped(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_the_store_is_opened_again() {
    let Some(server) = PostgresServer::shared() else { return };
    let schema = new_schema();
    let checked = in_time(check_store_reopened(|| connect(server, &schema))).await;
    assert_eq!(checked.skipped(), []);
}

/// Texts with NUL, with the character that the encoding of NUL uses, and others.
const ODD: &str = "nul \0 \u{1} \u{1}\u{2} '\"\\%_ ä \u{1F980} \u{2028}\n";

#[tokio::test]
async fn every_text_may_contain_nul_and_any_other_character() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let store = connect(server, &new_schema()).await;
        let run = RunId::new(ODD);
        let agent = json!({"name": ODD, "input": []});
        let session = json!({"session": ODD, "number": 1, "after": null});
        let began = json!({
            "version": 1, "body": {"agent": agent}, "caller": ODD, "tags": {ODD: ODD},
            "session": session
        });
        let first = event(&run, 1, "run.started", &began);
        let epoch = store.create(&run, vec![first.clone()]).await.unwrap();

        let state = [
            StateWrite::new(Some(ODD), ODD, Encoded::from_json(json!(ODD).to_string()).ok()),
            StateWrite::new(None, "k\0", Encoded::from_json("1".to_owned()).ok()),
        ];
        let message = store.messages().unwrap().send(&run, ODD.to_owned()).await.unwrap();
        let received = store.messages().unwrap().receive(&run, epoch).await.unwrap();
        assert_eq!(received[0].body, ODD);
        assert_eq!(received[0].run, run);
        let note = noted(&run, 2, ODD);
        let append = Append::new(1, vec![note.clone()]).with_state(state).answering(message, ODD);
        store.append(&run, epoch, append).await.unwrap();
        let failed = json!({"error": {"kind": "tool", "message": ODD, "retryable": false}});
        let end = event(&run, 3, "run.failed", &failed);
        store.append(&run, epoch, Append::new(2, vec![end.clone()])).await.unwrap();

        assert_eq!(store.read(&run, 0, 10).await.unwrap(), [first, note, end]);
        let outcome = store.messages().unwrap().outcome(message).await.unwrap();
        assert_eq!(outcome.as_deref(), Some(ODD));
        let record = store.record(&run).await.unwrap().unwrap();
        assert_eq!(record.run_id, run);
        assert_eq!((&*record.name, record.caller.as_deref()), (ODD, Some(ODD)));
        assert_eq!(record.error.as_deref(), Some(ODD));
        assert_eq!(record.tags[ODD], ODD);
        let filters = [
            RunFilter::new().name(ODD),
            RunFilter::new().caller(ODD),
            RunFilter::new().tag(ODD, ODD),
            RunFilter::new().session(ODD),
        ];
        for filter in filters {
            assert_eq!(store.list(filter).await.unwrap(), std::slice::from_ref(&record));
        }
        let sessions = store.sessions().unwrap();
        assert_eq!(&*sessions.session(ODD).await.unwrap().unwrap().id, ODD);
        assert_eq!(sessions.list_sessions(SessionFilter::new()).await.unwrap().len(), 1);
        let values = store.state().unwrap().read_state(Some(ODD), None).await.unwrap();
        assert_eq!(values[0].0, ODD);
        assert_eq!(values[0].1.as_str(), json!(ODD).to_string());
        assert_eq!(store.state().unwrap().read_state(None, Some("k\0")).await.unwrap().len(), 1);
        store.put_definition(ODD, ODD.to_owned()).await.unwrap();
        assert_eq!(store.definition(ODD).await.unwrap().as_deref(), Some(ODD));

        let view = server.client("public").await;
        let sql = format!("SELECT count(*) FROM \"{}\".journal", schema_of(&store));
        let count: i64 = view.query_one(&sql, &[]).await.unwrap().get(0);
        assert_eq!(count, 3, "the view decodes the events");
    })
    .await;
}

/// Returns the schema of a store, the last part of its identity.
fn schema_of(store: &PostgresStore) -> String {
    let identity = store.identity().unwrap_or_default();
    identity.rsplit(':').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn long_names_are_found_and_long_ids_are_refused() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let store = connect(server, &new_schema()).await;
        let long = "ä".repeat(5000);
        let run = RunId::new("a".repeat(1000));
        let workflow = json!({"name": long, "definition": long, "input": {}});
        let began = json!({
            "version": 1, "body": {"workflow": workflow}, "caller": long, "tags": {&long: &long}
        });
        store.create(&run, vec![event(&run, 1, "run.started", &began)]).await.unwrap();
        let filter = RunFilter::new().name(long.as_str()).caller(long.as_str()).tag(&long, &long);
        assert_eq!(store.list(filter).await.unwrap().len(), 1);
        let other = RunFilter::new().name(format!("{long}x"));
        assert_eq!(store.list(other).await.unwrap().len(), 0, "the whole name is compared");
        let longer = RunId::new("a".repeat(1001));
        let error = store.create(&longer, vec![started(&longer)]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TooLarge);
    })
    .await;
}

#[tokio::test]
async fn damaged_and_newer_runs_are_listed_as_unreadable() {
    let Some(server) = PostgresServer::shared() else { return };
    in_time(async {
        let schema = new_schema();
        let store = connect(server, &schema).await;
        for name in ["good", "status", "version", "gap"] {
            let run = RunId::new(name);
            store.create(&run, vec![started(&run), noted(&run, 2, "x")]).await.unwrap();
        }
        let client = server.client(&schema).await;
        let damage = "UPDATE runs SET status = 'sleeping' WHERE run_id = 'status'; \
                      UPDATE runs SET version = 2 WHERE run_id = 'version'; \
                      DELETE FROM events USING runs WHERE run = key AND run_id = 'gap' AND seq = 1";
        client.batch_execute(damage).await.unwrap();
        let error = store.read(&RunId::new("gap"), 0, 10).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
        for filter in [RunFilter::new(), RunFilter::unfinished(), RunFilter::new().limit(2)] {
            let list = store.list_with_unreadable(filter.clone()).await.unwrap();
            let runs: Vec<&str> = list.runs.iter().map(|run| run.run_id.as_str()).collect();
            assert_eq!(runs, ["good", "gap"], "{filter:?}");
            let mut kinds: Vec<_> =
                list.unreadable.iter().map(|(run, error)| (run.as_str(), error.kind())).collect();
            kinds.sort_by_key(|(run, _)| *run);
            let expected =
                [("status", StoreErrorKind::Damaged), ("version", StoreErrorKind::NewerVersion)];
            assert_eq!(kinds, expected, "{filter:?}");
        }
        let error = store.open(&RunId::new("version")).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NewerVersion);
    })
    .await;
}
