//! `agentwf runs list`: its orders, and the number of the runs.

use agentflow::RunId;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{Append, SqliteStore, Store};
use agentflow_tests::journal::{event, noted, started};

use crate::cli_workflows::agentwf;

#[test]
fn runs_are_listed_by_their_last_change_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        // All runs start at the same time, so they are ordered by their ids.
        for name in ["run-a", "run-b", "run-c", "run-d"] {
            let run = RunId::new(name);
            let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
            let next = match name {
                "run-a" => vec![noted(&run, 2, "changed"), noted(&run, 3, "again")],
                "run-b" => vec![event(&run, 2, "", "run.cancelled", json!({"reason": "enough"}))],
                _ => Vec::new(),
            };
            store.append(&run, epoch, Append::new(1, next)).await.unwrap();
            store.close(&run, epoch).await.unwrap();
        }
    });
    let file = file.to_str().unwrap();
    let listed = |more: &[&str]| {
        let ended = agentwf(&[&["runs", "list", "--store", file, "--json"], more].concat()).run();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str::<Value>(&ended.stdout).unwrap()
    };
    let ids = |more: &[&str]| {
        let ids: Vec<String> = listed(more)
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["run_id"].as_str().unwrap().to_owned())
            .collect();
        ids.join(" ")
    };
    assert_eq!(ids(&[]), "run-d run-c run-b run-a");
    assert_eq!(ids(&["--sort", "created"]), "run-d run-c run-b run-a");
    assert_eq!(ids(&["--sort", "changed"]), "run-a run-b run-d run-c");
    assert_eq!(ids(&["--sort", "changed", "--limit", "2"]), "run-a run-b");
    assert_eq!(listed(&["--count", "--limit", "1"]), json!({"count": 4}));
    assert_eq!(listed(&["--count", "--status", "cancelled"]), json!({"count": 1}));
    let counted = agentwf(&["runs", "list", "--store", file, "--count"]).run();
    assert_eq!((counted.code, &*counted.stdout), (Some(0), "4\n"));
    let wrong = agentwf(&["runs", "list", "--store", file, "--sort", "size"]).run();
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}
