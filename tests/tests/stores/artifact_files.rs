//! Large artifacts are files next to the database. A file is named by its hash, is complete or a
//! typed error, and is removed with the last run that uses it. No file is missing or left over
//! after `kill -9` or with two concurrent processes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use agentflow::RunId;
use agentflow::prelude::*;
use agentflow::store::{
    Append, ArtifactStore, Epoch, RunFilter, SqliteStore, Store, StoreErrorKind,
};
use agentflow_testing::test_runtime;
use agentflow_tests::journal::{event, started};
use agentflow_tests::test_as_process;
use serde_json::json;

const FILE: &str = "AGENTFLOW_TEST_ARTIFACTS";

/// Creates some bytes and their hash.
async fn bytes_of(seed: u8, size: usize) -> (Arc<[u8]>, String) {
    let bytes: Vec<u8> = (0..size).map(|at| seed.wrapping_add((at % 251) as u8)).collect();
    let saved = Context::detached().save_artifact("hash", bytes.clone(), "a/b").await.unwrap();
    (bytes.into(), saved.sha256.to_string())
}

async fn created(store: &SqliteStore, run: &str) -> (RunId, Epoch) {
    let run = RunId::new(run);
    let epoch = store.create(&run, vec![started(&run)]).await.unwrap();
    (run, epoch)
}

async fn ended(store: &SqliteStore, (run, epoch): &(RunId, Epoch)) {
    let end = event(run, 2, "", "run.cancelled", json!({"reason": "enough"}));
    store.append(run, *epoch, Append::new(1, vec![end])).await.unwrap();
}

fn folder_of(store: &Path) -> PathBuf {
    PathBuf::from(format!("{}-artifacts", store.display()))
}

fn file_of(store: &Path, hash: &str) -> PathBuf {
    folder_of(store).join(&hash[..2]).join(&hash[2..])
}

/// Returns all files below the artifact folder.
fn files(store: &Path) -> BTreeSet<PathBuf> {
    let names = |path: &Path| {
        fs::read_dir(path).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let folders: Vec<PathBuf> = names(&folder_of(store));
    folders.iter().flat_map(|folder| -> Vec<PathBuf> { names(folder) }).collect()
}

fn raw(path: &Path, sql: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_large_artifact_is_a_file_until_its_last_run_is_deleted() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap().join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let ((small, of_small), (large, of_large)) =
        (bytes_of(1, 100_000).await, bytes_of(1, 100_001).await);
    let (a, b) = (created(&store, "a").await, created(&store, "b").await);
    for (run, epoch) in [&a, &b, &a] {
        store.put_artifact(run, *epoch, &of_small, small.clone()).await.unwrap();
        store.put_artifact(run, *epoch, &of_large, large.clone()).await.unwrap();
        assert_eq!(store.artifact(run, &of_large).await.unwrap().as_deref(), Some(&*large));
        assert_eq!(store.artifact(run, &of_small).await.unwrap().as_deref(), Some(&*small));
    }
    assert_eq!(
        files(&path),
        BTreeSet::from([file_of(&path, &of_large)]),
        "the same bytes are one file"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = file_of(&path, &of_large);
        assert_eq!(
            (mode(&file), mode(file.parent().unwrap()), mode(&folder_of(&path))),
            (0o600, 0o700, 0o700)
        );
    }
    assert_eq!(store.artifact(&RunId::new("c"), &of_large).await.unwrap(), None);
    // A fenced writer leaves no file and grants no run access to one.
    let epoch = store.open(&a.0).await.unwrap();
    let (other, of_other) = bytes_of(9, 200_000).await;
    let late = store.put_artifact(&a.0, a.1, &of_other, other.clone()).await.unwrap_err();
    assert_eq!(late.kind(), StoreErrorKind::Fenced);
    assert_eq!(files(&path).len(), 1);
    ended(&store, &(a.0.clone(), epoch)).await;
    ended(&store, &b).await;
    store.delete(&a.0).await.unwrap();
    assert_eq!(store.artifact(&a.0, &of_large).await.unwrap(), None);
    assert_eq!(store.artifact(&b.0, &of_large).await.unwrap().as_deref(), Some(&*large));
    store.delete(&b.0).await.unwrap();
    assert_eq!(files(&path), BTreeSet::new());
    let check = store.check_artifacts().await.unwrap();
    assert_eq!(
        (check.whole, check.missing.len(), check.damaged.len(), check.removed),
        (0, 0, 0, 0)
    );
}

#[tokio::test]
async fn nothing_but_a_hash_becomes_a_path_and_nothing_is_too_small_for_a_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap().join("runs.db");
    let store = SqliteStore::builder(&path).artifact_file_bytes(0).open().await.unwrap();
    let (run, epoch) = created(&store, "a").await;
    let long = "/".repeat(64);
    let upper = "A".repeat(64);
    for name in ["../../x", "", "x", &long, &upper, "\0", "é"] {
        // Unusual names are stored, but the content is checked against the name when it is read.
        store.put_artifact(&run, epoch, name, vec![1, 2].into()).await.unwrap();
        assert_eq!(
            store.artifact(&run, name).await.unwrap_err().kind(),
            StoreErrorKind::Damaged,
            "{name:?}"
        );
    }
    assert_eq!(files(&path), BTreeSet::new());
    let (none, of_none) = bytes_of(0, 0).await;
    let (one, of_one) = bytes_of(7, 1).await;
    for (bytes, hash) in [(none, of_none), (one, of_one.clone())] {
        store.put_artifact(&run, epoch, &hash, bytes.clone()).await.unwrap();
        assert_eq!(store.artifact(&run, &hash).await.unwrap(), Some(bytes));
    }
    assert_eq!(files(&path), BTreeSet::from([file_of(&path, &of_one)]));
    // A file whose bytes do not match its name is replaced.
    fs::write(file_of(&path, &of_one), "x").unwrap();
    assert_eq!(store.artifact(&run, &of_one).await.unwrap_err().kind(), StoreErrorKind::Damaged);
    store.put_artifact(&run, epoch, &of_one, vec![7].into()).await.unwrap();
    assert_eq!(store.artifact(&run, &of_one).await.unwrap().as_deref(), Some(&[7][..]));
}

#[tokio::test]
async fn what_is_missing_or_damaged_is_an_error_that_names_the_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap().join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let (run, epoch) = created(&store, "a").await;
    let (bytes, hash) = bytes_of(1, 150_000).await;
    let file = file_of(&path, &hash);
    let anew = async || store.put_artifact(&run, epoch, &hash, bytes.clone()).await.unwrap();
    let error = async || {
        let error = store.artifact(&run, &hash).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        error.to_string()
    };
    anew().await;
    let mut other = bytes.to_vec();
    other[77_777] ^= 1;
    fs::write(&file, &other).unwrap();
    assert!(error().await.contains("is not as it was saved"));
    assert_eq!(store.check_artifacts().await.unwrap().damaged, std::slice::from_ref(&file));
    anew().await;
    fs::write(&file, &bytes[1..]).unwrap();
    assert!(error().await.contains("has 149999 bytes in the place of 150000"));
    fs::remove_file(&file).unwrap();
    assert!(error().await.contains("is not there"));
    assert_eq!(store.check_artifacts().await.unwrap().missing, std::slice::from_ref(&file));
    anew().await;
    assert_eq!(store.check_artifacts().await.unwrap().whole, 1);
    #[cfg(unix)]
    {
        // A link is not followed, even if its target has the right bytes.
        let elsewhere = home.path().join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert!(error().await.contains("is a link"));
        anew().await;
        assert!(
            fs::symlink_metadata(&file).unwrap().is_file(),
            "the link is replaced, and what it led to is as it was"
        );
        assert_eq!(fs::read(&elsewhere).unwrap(), *bytes);
    }
}

/// Saves a large page.
#[tool]
async fn artifact_files_page(cx: &Context, size: usize) -> Result<String> {
    Ok(cx.save_artifact("page", vec![5; size], "a/b").await?.to_string())
}

/// Saves pages.
#[workflow]
async fn artifact_files_flow(cx: &Context, size: usize) -> Result<String> {
    let saved = artifact_files_page(cx, size).await?;
    Ok(saved)
}

#[tokio::test]
async fn where_no_file_can_be_made_the_step_fails_and_nothing_is_half() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap().join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let runtime = test_runtime().store(store.clone()).build();
    let folder = folder_of(&path);
    let fails = async || {
        let run = runtime.start(artifact_files_flow::workflow(), 300_000).await.unwrap();
        let error = run.result().await.unwrap_err().to_string();
        assert!(
            error.contains(folder.to_str().unwrap()) && error.contains("cannot be made"),
            "{error}"
        );
        assert_eq!(runtime.run(run.run_id()).artifacts().await.unwrap(), []);
        runtime.run(run.run_id()).delete().await.unwrap();
    };
    // A file instead of the folder, and a link to a foreign folder.
    fs::write(&folder, "mine").unwrap();
    fails().await;
    assert_eq!(fs::read(&folder).unwrap(), b"mine");
    fs::remove_file(&folder).unwrap();
    #[cfg(unix)]
    {
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &folder).unwrap();
        fails().await;
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::remove_file(&folder).unwrap();
    }
    let run = runtime.start(artifact_files_flow::workflow(), 300_000).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "page (version 1, a/b, 300000 bytes)");
    runtime.run(run.run_id()).delete().await.unwrap();
    assert_eq!(files(&path), BTreeSet::new());
}

#[tokio::test]
async fn what_a_crash_left_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap().join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let (run, epoch) = created(&store, "a").await;
    let (kept, of_kept) = bytes_of(1, 150_000).await;
    store.put_artifact(&run, epoch, &of_kept, kept.clone()).await.unwrap();
    drop(store);
    // A dead process had announced two files: one was renamed to its hash, the other was not. A
    // third file is unknown, and a file whose name is not a hash is not ours.
    let (left, unknown) = ("e".repeat(64), "d".repeat(64));
    let writer = "999999999-0123456789abcdef-3";
    for file in
        [file_of(&path, &left), file_of(&path, &unknown), folder_of(&path).join("new").join(writer)]
    {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "half").unwrap();
    }
    let other = folder_of(&path).join("ee").join("notes.txt");
    fs::write(&other, "mine").unwrap();
    raw(
        &path,
        &format!(
            "INSERT INTO loose_files VALUES ('{left}', '{writer}'), ('{of_kept}', ''), ('../../x', 'y-../z')"
        ),
    );
    drop(SqliteStore::open(&path).await.unwrap());
    assert_eq!(
        files(&path),
        [file_of(&path, &of_kept), file_of(&path, &unknown), other.clone()].into()
    );
    let store = SqliteStore::open(&path).await.unwrap();
    let check = store.check_artifacts().await.unwrap();
    assert_eq!((check.whole, check.removed), (1, 1));
    assert_eq!(files(&path), [file_of(&path, &of_kept), other].into());
    assert_eq!(store.artifact(&run, &of_kept).await.unwrap(), Some(kept));
}

/// Starts runs that save artifacts, and deletes them, until it is killed. There are few distinct
/// contents, so that one process removes a file that another one is about to use.
async fn churn(store: &SqliteStore, who: &str, mut say: impl FnMut(usize)) {
    let contents = [bytes_of(1, 120_000).await, bytes_of(2, 120_001).await];
    for round in 0.. {
        let name = format!("{who}-{round}");
        let run = created(store, &name).await;
        for (bytes, hash) in contents.iter().cycle().skip(round).take(1 + round % 2) {
            store.put_artifact(&run.0, run.1, hash, bytes.clone()).await.unwrap();
            assert_eq!(
                store.artifact(&run.0, hash).await.unwrap().as_ref(),
                Some(bytes),
                "no reference without bytes"
            );
        }
        ended(store, &run).await;
        if round % 3 != 0 {
            store.delete(&run.0).await.unwrap();
        }
        say(round);
    }
}

struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn artifact_process() {
    let Ok(file) = std::env::var(FILE) else { return };
    let store = SqliteStore::builder(file)
        .synchronous(agentflow::store::Synchronous::Normal)
        .open()
        .await
        .unwrap();
    churn(&store, &std::process::id().to_string(), |round| {
        let mut out = std::io::stdout().lock();
        // The parent may have ended.
        let _ = writeln!(out, "> {round}").and_then(|()| out.flush());
    })
    .await;
}

#[test]
fn two_processes_are_killed_while_they_save_and_delete() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().canonicalize().unwrap().join("runs.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for round in 0..6_usize {
        let start = || {
            let mut command = test_as_process(module_path!(), "artifact_process");
            Other(command.env(FILE, &path).stdout(Stdio::piped()).spawn().unwrap())
        };
        let mut others = [start(), start()];
        for other in &mut others {
            let said = BufReader::new(other.0.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
            let rounds = said.filter(|line| line.contains("> ")).take(1 + round * 3).count();
            assert_eq!(rounds, 1 + round * 3, "it works until it is killed");
        }
        drop(others);
        runtime.block_on(async {
            let store = SqliteStore::open(&path).await.unwrap();
            let check = store.check_artifacts().await.unwrap();
            assert_eq!(
                (check.missing.len(), check.damaged.len(), check.removed),
                (0, 0, 0),
                "round {round}: {check:?}"
            );
            for run in store.list(RunFilter::new()).await.unwrap() {
                let epoch = match run.status.has_ended() {
                    true => continue,
                    false => store.open(&run.run_id).await.unwrap(),
                };
                let end = event(
                    &run.run_id,
                    run.events + 1,
                    "",
                    "run.cancelled",
                    json!({"reason": "enough"}),
                );
                store.append(&run.run_id, epoch, Append::new(run.events, vec![end])).await.unwrap();
            }
            for run in store.list(RunFilter::new()).await.unwrap() {
                store.delete(&run.run_id).await.unwrap();
            }
            assert_eq!(files(&path), BTreeSet::new(), "round {round}");
        });
    }
}
