//! Real files with a paused clock: no timeout fires while a disk operation is pending.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentflow::prelude::*;
use agentflow::store::{RunFilter, RunStatus, SqliteStore, Store};
use agentflow_testing::{CrashTest, HoldsTime, hold_time, test_runtime};
use rusqlite::Connection;

/// A long time that costs nothing with the paused clock.
const HOUR: Duration = Duration::from_secs(3600);

/// A custom database that is accessed on blocking threads.
#[derive(Clone)]
struct Rows(Arc<PathBuf>);

impl Rows {
    async fn add(&self, key: String) {
        let path = Arc::clone(&self.0);
        let add = move || {
            let rows = Connection::open(&*path).unwrap();
            // Simulates a slow disk.
            std::thread::sleep(Duration::from_millis(3));
            rows.execute("INSERT OR IGNORE INTO rows VALUES (?1)", [key]).unwrap();
        };
        tokio::task::spawn_blocking(add).await.unwrap();
    }

    fn count(&self) -> i64 {
        Connection::open(&*self.0)
            .unwrap()
            .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
            .unwrap()
    }
}

#[tool(idempotent)]
async fn paused_adds(cx: &Context, name: String) -> Result<String> {
    cx.inject::<Rows>()?.add(format!("{name} {}", cx.run_id())).await;
    tokio::time::sleep(HOUR / 2).await;
    Ok(name)
}

#[workflow]
async fn paused_rows(cx: &Context) -> Result<String> {
    #[node(timeout = "2h")]
    let one = paused_adds(cx, "one".to_owned()).await?;
    #[node(timeout = "2h")]
    let two = paused_adds(cx, "two".to_owned()).await?;
    #[node(timeout = "1d", on_timeout = deny)]
    let answer = gate!("{one} and {two}?").await?;
    Ok(format!("{one} {two} {}", answer.is_granted()))
}

fn rows(folder: &tempfile::TempDir) -> Rows {
    let path = folder.path().join("rows.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE rows (key TEXT UNIQUE)").unwrap();
    Rows(Arc::new(path))
}

#[tokio::test(start_paused = true)]
async fn a_run_in_a_file_waits_for_hours() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(&folder);
    let store = hold_time(SqliteStore::open(folder.path().join("runs.db"))).await.unwrap();
    let runtime = test_runtime().store(HoldsTime::new(store)).resource(rows.clone()).build();
    let began = tokio::time::Instant::now();
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(runtime.start(paused_rows::workflow(), ()).await.unwrap());
    }
    for run in runs {
        assert_eq!(run.result().await.unwrap(), "one two false");
    }
    let hours = began.elapsed().as_secs() / HOUR.as_secs();
    assert_eq!(hours, 25);
    assert_eq!(rows.count(), 40);
    assert_eq!(
        runtime.runs().list(RunFilter::new().status(RunStatus::Success)).await.unwrap().len(),
        20
    );
}

#[tokio::test(start_paused = true)]
async fn no_time_passes_while_the_file_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let store =
        HoldsTime::new(hold_time(SqliteStore::open(folder.path().join("runs.db"))).await.unwrap());
    for _ in 0..100 {
        let read = Store::list(&store, RunFilter::new());
        assert_eq!(
            tokio::time::timeout(Duration::from_millis(1), read)
                .await
                .expect("no time passes")
                .unwrap(),
            []
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_test_beside_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(&folder);
    let of_runtime = rows.clone();
    let report = CrashTest::new(&paused_rows::workflow(), || ())
        .runtime(move |runtime| runtime.resource(of_runtime.clone()))
        .unanswered("answer")
        .run()
        .await;
    assert!(report.crashes() >= 10, "{report}");
    assert!(rows.count() >= 2);
}
