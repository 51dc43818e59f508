//! Faults of a store's file: each one is a clear error, and acknowledged writes are not lost.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use agentflow::RunId;
use agentflow::event::PauseReason;
use agentflow::store::{
    Append, MessageStore, RunFilter, Snapshot, SqliteStore, Store, StoreError, StoreErrorKind,
};
use agentflow_tests::journal::{noted, notes, started};
use agentflow_tests::{skipped, test_as_process};
use futures_util::future::join;
use rusqlite::Connection;

/// Asserts the kind of an error and words of its message.
#[track_caller]
fn says(error: &StoreError, kind: StoreErrorKind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

fn run() -> RunId {
    RunId::new("a")
}

/// Creates a file with a run of many events, and closes it.
async fn written(path: &Path, events: u64) {
    let store = SqliteStore::open(path).await.unwrap();
    let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
    let rest =
        (2..=events).map(|seq| noted(&run(), seq, &format!("text of event {seq}."))).collect();
    store.append(&run(), epoch, Append::new(1, rest)).await.unwrap();
    let other = RunId::new("other");
    store.create(&other, vec![started(&other), noted(&other, 2, "whole")]).await.unwrap();
    store.close(&run(), epoch).await.unwrap();
}

#[tokio::test]
async fn a_byte_of_an_event_was_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    written(&path, 500).await;
    let mut bytes = fs::read(&path).unwrap();
    let text = b"text of event 321.";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] = b'T';
    fs::write(&path, &bytes).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let error = store.read(&run(), 0, 1000).await.unwrap_err();
    says(
        &error,
        StoreErrorKind::Damaged,
        &["event 321 of the run `a`", "320 before it can be read", "restore"],
    );
    assert_eq!(store.read(&run(), 0, 320).await.unwrap().len(), 320);
    assert_eq!(
        store.read(&run(), 321, 1000).await.unwrap().len(),
        179,
        "what is after it can be read too"
    );
    assert_eq!(notes(&store.read(&RunId::new("other"), 0, 10).await.unwrap()), ["whole"]);
}

#[tokio::test]
async fn pages_were_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    written(&path, 2000).await;
    let mut bytes = fs::read(&path).unwrap();
    let text = b"text of event 1500.";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    let page = at / 4096 * 4096;
    bytes[page..page + 4096].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let error = store.read(&run(), 0, 5000).await.unwrap_err();
    says(&error, StoreErrorKind::Damaged, &["runs.db", "restore it from a backup"]);
    assert_eq!(store.read(&run(), 0, 1000).await.unwrap().len(), 1000);
    drop(store);
    assert_eq!(fs::read(&path).unwrap(), bytes, "a damaged file is left as it is");
}

#[tokio::test]
async fn the_file_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    written(&path, 2000).await;
    let bytes = fs::read(&path).unwrap();
    for keep in [10, 100, 4096, bytes.len() / 2, bytes.len() - 5000] {
        fs::write(&path, &bytes[..keep]).unwrap();
        // Opening or reading reports the damage. Neither pretends that the run is complete or
        // missing.
        let read = match SqliteStore::open(&path).await {
            Ok(store) => store.read(&run(), 0, 5000).await.map(|events| events.len()),
            Err(error) => Err(error),
        };
        says(&read.unwrap_err(), StoreErrorKind::Damaged, &["runs.db"]);
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            keep as u64,
            "a damaged file is left as it is"
        );
    }
}

#[tokio::test]
async fn it_is_not_a_database_or_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "These are my notes, and no database.\n".repeat(200);
    fs::write(&path, &text).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    says(
        &error,
        StoreErrorKind::Damaged,
        &["notes.txt", "is not an SQLite database", "give the path of a store"],
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    let path = folder.path().join("theirs.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE runs (x)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    says(&error, StoreErrorKind::Io, &["theirs.db", "another program", "a file of its own"]);
    assert_eq!(fs::read(&path).unwrap(), before);

    let error = SqliteStore::open(folder.path()).await.unwrap_err();
    says(&error, StoreErrorKind::Io, &["is a folder", "give the path of a file"]);
    let error = SqliteStore::open(folder.path().join("none/runs.db")).await.unwrap_err();
    says(&error, StoreErrorKind::Io, &["there is no folder", "create the folder"]);
}

#[tokio::test]
async fn a_newer_release_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    written(&path, 5).await;
    let raw = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let newer = StoreErrorKind::NewerVersion;

    raw("UPDATE runs SET version = 2 WHERE run_id = 'a'");
    let store = SqliteStore::open(&path).await.unwrap();
    says(
        &store.read(&run(), 0, 10).await.unwrap_err(),
        newer,
        &["the run `a`", "update this program"],
    );
    says(&store.open(&run()).await.unwrap_err(), newer, &["the run `a`", "newer release"]);
    assert_eq!(
        store.read(&RunId::new("other"), 0, 10).await.unwrap().len(),
        2,
        "an older run is read as before"
    );
    assert_eq!(store.list(RunFilter::new()).await.unwrap().len(), 2);
    drop(store);

    raw("PRAGMA user_version = 99");
    let before = fs::read(&path).unwrap();
    says(
        &SqliteStore::open(&path).await.unwrap_err(),
        newer,
        &["runs.db", "newer release", "update this program"],
    );
    assert_eq!(fs::read(&path).unwrap(), before, "a newer file is left as it is");
}

/// A damaged run does not affect the others.
#[tokio::test]
async fn a_run_that_cannot_be_read_hides_no_other() {
    let damages = [
        ("UPDATE runs SET status = 'delighted' WHERE run_id = 'a'", "`delighted` is not a status"),
        ("UPDATE runs SET created = -5 WHERE run_id = 'a'", "other values than were written"),
        (
            "UPDATE runs SET name = CAST(x'ff' AS TEXT) WHERE run_id = 'a'",
            "other values than were written",
        ),
    ];
    for (damage, words) in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        written(&path, 5).await;
        Connection::open(&path).unwrap().execute_batch(damage).unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        says(&store.record(&run()).await.unwrap_err(), StoreErrorKind::Damaged, &[words]);
        for filter in [RunFilter::new(), RunFilter::unfinished()] {
            let found = store.list_with_unreadable(filter.clone()).await.unwrap();
            assert_eq!(
                found.runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(),
                ["other"],
                "{damage}"
            );
            let [(id, error)] = &*found.unreadable else {
                panic!("{damage}: {:?}", found.unreadable)
            };
            assert_eq!(*id, run());
            says(error, StoreErrorKind::Damaged, &[words]);
            assert_eq!(store.list(filter.limit(1)).await.unwrap(), found.runs);
        }
        let ended = store
            .list_with_unreadable(RunFilter::new().status(agentflow::store::RunStatus::Success))
            .await
            .unwrap();
        assert!(ended.runs.is_empty());
        assert_eq!(notes(&store.read(&RunId::new("other"), 0, 10).await.unwrap()), ["whole"]);
    }
}

#[tokio::test]
async fn a_list_needs_no_page_that_was_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    for id in ["first", "a", "last"].map(RunId::new) {
        let rest = (2..=500).map(|seq| noted(&id, seq, &format!("text of event {seq} of {id}.")));
        store.create(&id, [started(&id)].into_iter().chain(rest).collect()).await.unwrap();
    }
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    // Damages a page with the last events of the run, from which its update time is derived.
    for seq in [500, 490] {
        let text = format!("text of event {seq} of a.");
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text.as_bytes()) {
            bytes[at / 4096 * 4096..][..4096].fill(0x5a);
        }
    }
    fs::write(&path, &bytes).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let found = store.list_with_unreadable(RunFilter::unfinished()).await.unwrap();
    let mut seen: Vec<&str> = found.runs.iter().map(|run| run.run_id.as_str()).collect();
    assert!(seen.contains(&"first"), "{seen:?}");
    assert!(found.unreadable.iter().any(|(id, _)| *id == run()));
    for (run, error) in &found.unreadable {
        says(error, StoreErrorKind::Damaged, &["runs.db", "malformed"]);
        assert_eq!(store.record(run).await.unwrap_err().kind(), StoreErrorKind::Damaged);
        seen.push(run.as_str());
    }
    seen.sort_unstable();
    assert_eq!(seen, ["a", "first", "last"]);
}

#[tokio::test]
async fn a_damaged_snapshot_is_as_good_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
    store.put_snapshot(&run(), epoch, Snapshot::new(1, vec![started(&run())])).await.unwrap();
    assert!(store.snapshot(&run()).await.unwrap().is_some());
    Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE snapshots SET body = replace(body, 'job', 'bob')")
        .unwrap();
    assert_eq!(store.snapshot(&run()).await.unwrap(), None);
    assert_eq!(store.read(&run(), 0, 10).await.unwrap().len(), 1);
}

/// A fault is not reported as a newer release, and no number causes a panic.
#[tokio::test]
async fn numbers_that_nobody_writes() {
    let far = i64::from(i32::MAX) + 1;
    let damages = [
        "UPDATE runs SET version = 0 WHERE run_id = 'a'".to_owned(),
        "UPDATE runs SET version = -3 WHERE run_id = 'a'".to_owned(),
        "UPDATE runs SET version = 1 << 40 WHERE run_id = 'a'".to_owned(),
        "UPDATE runs SET epoch = 9223372036854775807 WHERE run_id = 'a'".to_owned(),
        "UPDATE runs SET epoch = -1 WHERE run_id = 'a'".to_owned(),
        format!("UPDATE runs SET key = {far} WHERE run_id = 'a'"),
        "UPDATE runs SET key = 9223372036854775807 WHERE run_id = 'a'".to_owned(),
        "UPDATE runs SET key = -1 WHERE run_id = 'a'".to_owned(),
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        written(&path, 5).await;
        Connection::open(&path)
            .unwrap()
            .execute_batch(&format!("PRAGMA foreign_keys = OFF; {damage}"))
            .unwrap();
        let store = SqliteStore::open(&path).await.unwrap();
        let error = store.open(&run()).await.expect_err(&damage);
        says(&error, StoreErrorKind::Damaged, &["runs.db", "restore"]);
        let other = RunId::new("other");
        assert_eq!(notes(&store.read(&other, 0, 10).await.unwrap()), ["whole"], "{damage}");
        let epoch = store.open(&other).await.unwrap();
        store.append(&other, epoch, Append::new(2, vec![noted(&other, 3, "on")])).await.unwrap();
        // SQLite would give the next run the number after the highest, and so its events the keys
        // of another run.
        let new = RunId::new("new");
        let created = store.create(&new, vec![started(&new)]).await;
        match damage.contains("key = 2147483648") || damage.contains("key = 9223372036854775807") {
            true => says(
                &created.unwrap_err(),
                StoreErrorKind::Damaged,
                &["a number that no store gives"],
            ),
            false => assert_eq!(store.read(&new, 0, 10).await.unwrap().len(), 1, "{damage}"),
        }
    }
    for version in ["0", "-1", "1 << 30", "5000"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        written(&path, 5).await;
        let version: i64 = Connection::open(&path)
            .unwrap()
            .query_row(&format!("SELECT {version}"), [], |row| row.get(0))
            .unwrap();
        Connection::open(&path).unwrap().pragma_update(None, "user_version", version).unwrap();
        let error = SqliteStore::open(&path).await.unwrap_err();
        says(&error, StoreErrorKind::Damaged, &["the table layout has the version", "restore"]);
    }
}

#[tokio::test]
async fn a_word_of_a_newer_release_is_not_called_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    written(&path, 5).await;
    let newer = "UPDATE runs SET status = 'waiting', version = 2 WHERE run_id = 'a'";
    Connection::open(&path).unwrap().execute_batch(newer).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    let found = store.list_with_unreadable(RunFilter::unfinished()).await.unwrap();
    assert_eq!(found.runs.len(), 1);
    says(
        &found.unreadable[0].1,
        StoreErrorKind::NewerVersion,
        &["the run `a`", "update this program"],
    );
}

#[tokio::test]
async fn a_reason_for_a_pause_of_a_newer_release_is_another_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    written(&path, 5).await;
    let newer = "UPDATE runs SET status = 'paused', pause_reason = 'mood' WHERE run_id = 'a'";
    Connection::open(&path).unwrap().execute_batch(newer).unwrap();
    let record = SqliteStore::open(&path).await.unwrap().record(&run()).await.unwrap().unwrap();
    assert_eq!(record.pause_reason, Some(PauseReason::Other));
    assert_eq!(serde_json::to_value(&record).unwrap()["pause_reason"], "other");
}

#[tokio::test]
async fn what_is_too_large_is_refused_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::builder(folder.path().join("runs.db"))
        .max_event_bytes(1000)
        .open()
        .await
        .unwrap();
    assert_eq!(store.max_event_bytes(), Some(1000));
    let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
    let large = "x".repeat(1000);
    let (small, refused) = join(
        store.append(&run(), epoch, Append::new(1, vec![noted(&run(), 2, "small")])),
        store.append(
            &run(),
            epoch,
            Append::new(2, vec![noted(&run(), 3, "not alone"), noted(&run(), 4, &large)]),
        ),
    )
    .await;
    small.unwrap();
    let kind = StoreErrorKind::TooLarge;
    says(&refused.unwrap_err(), kind, &["`note`", "the run `a`", "1056 bytes", "at most 1000"]);
    assert_eq!(notes(&store.read(&run(), 0, 10).await.unwrap()), ["small"]);
    store.append(&run(), epoch, Append::new(2, vec![noted(&run(), 3, "next")])).await.unwrap();

    let big = RunId::new("big");
    let events = vec![started(&big), noted(&big, 2, &large)];
    says(&store.create(&big, events).await.unwrap_err(), kind, &["the run `big`"]);
    assert_eq!(store.record(&big).await.unwrap(), None);

    // A snapshot contains many events.
    let many = |n| Snapshot::new(1, vec![noted(&run(), 2, &"x".repeat(700)); n]);
    store.put_snapshot(&run(), epoch, many(9)).await.unwrap();
    says(
        &store.put_snapshot(&run(), epoch, many(12)).await.unwrap_err(),
        kind,
        &["the snapshot of the run `a`", "8000"],
    );
    assert_eq!(
        store.snapshot(&run()).await.unwrap().unwrap().events.len(),
        9,
        "the earlier one is kept"
    );
    says(
        &store.send(&run(), large + "x").await.unwrap_err(),
        kind,
        &["a message for the run `a`", "1001 bytes"],
    );
}

/// Other systems do not allow deleting an open file.
#[cfg(unix)]
#[tokio::test]
async fn the_file_was_deleted_or_replaced() {
    use std::path::PathBuf;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("runs.db");
    let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
    let away = folder.path().join("away");
    let replaced = StoreErrorKind::Replaced;
    for name in ["", "-wal", "-shm"] {
        let store = SqliteStore::open(&path).await.unwrap();
        let epoch = match store.record(&run()).await.unwrap() {
            None => store.create(&run(), vec![started(&run())]).await.unwrap(),
            Some(_) => store.open(&run()).await.unwrap(),
        };
        let events = store.read(&run(), 0, 100).await.unwrap().len() as u64;
        let id = run();
        let append = |text| {
            store.append(&id, epoch, Append::new(events, vec![noted(&id, events + 1, text)]))
        };
        fs::rename(beside(name), &away).unwrap();
        for _ in 0..2 {
            let words = [
                &*format!("runs.db{name}`"),
                "deleted, moved or replaced",
                "nothing was written since",
            ];
            says(&append("gone").await.unwrap_err(), replaced, &words);
            says(&store.read(&run(), 0, 10).await.unwrap_err(), replaced, &words);
            says(&store.list(RunFilter::new()).await.unwrap_err(), replaced, &words);
            // A new file at the path is not the file that was opened.
            fs::write(beside(name), "").unwrap();
        }
        fs::rename(&away, beside(name)).unwrap();
        append("back").await.unwrap();
        assert_eq!(store.read(&run(), 0, 100).await.unwrap().len() as u64, events + 1);
    }
}

#[tokio::test]
async fn a_log_that_a_deleted_file_left_is_not_part_of_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let log = folder.path().join("runs.db-wal");
    let store = SqliteStore::open(&path).await.unwrap();
    store.create(&run(), vec![started(&run())]).await.unwrap();
    let left = fs::read(&log).unwrap();
    assert!(!left.is_empty());
    drop(store);
    fs::remove_file(&path).unwrap();
    fs::write(&log, left).unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    assert!(store.list(RunFilter::new()).await.unwrap().is_empty());
    store.create(&run(), vec![started(&run())]).await.unwrap();
}

/// Writes until the disk is full, then makes room.
async fn fill_up(store: &SqliteStore, make_room: impl FnOnce()) {
    let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
    let other = RunId::new("other");
    let other_epoch = store.create(&other, vec![started(&other)]).await.unwrap();
    let mut after = 1;
    let error = loop {
        let event = noted(&run(), after + 1, &"x".repeat(20_000));
        match store.append(&run(), epoch, Append::new(after, vec![event])).await {
            Ok(()) => after += 1,
            Err(error) => break error,
        }
        assert!(after < 10_000, "it is never full");
    };
    says(
        &error,
        StoreErrorKind::Full,
        &["no room left", "what was written before is kept", "make room"],
    );
    assert_eq!(
        store.read(&run(), 0, 10_000).await.unwrap().len() as u64,
        after,
        "what was acknowledged is there"
    );
    make_room();
    // Both are in one transaction: a write that is too large must not fail the small one.
    let (small, large) = join(
        store.append(&other, other_epoch, Append::new(1, vec![noted(&other, 2, "small")])),
        store.append(
            &run(),
            epoch,
            Append::new(after, vec![noted(&run(), after + 1, &"x".repeat(3_000_000))]),
        ),
    )
    .await;
    small.unwrap();
    says(&large.unwrap_err(), StoreErrorKind::Full, &["no room left"]);
    assert_eq!(notes(&store.read(&other, 0, 10).await.unwrap()), ["small"]);
    assert_eq!(store.read(&run(), 0, 10_000).await.unwrap().len() as u64, after);
}

#[tokio::test]
async fn the_file_has_reached_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = SqliteStore::builder(&path).max_bytes(1_000_000).open().await.unwrap();
    // The last page still has room for a small event.
    fill_up(&store, || {}).await;
    drop(store);
    let store = SqliteStore::open(&path).await.unwrap();
    let epoch = store.open(&run()).await.unwrap();
    let after = store.record(&run()).await.unwrap().unwrap().events;
    store
        .append(
            &run(),
            epoch,
            Append::new(after, vec![noted(&run(), after + 1, &"x".repeat(20_000))]),
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn the_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
        .arg(folder.path())
        .stderr(Stdio::null())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        skipped("this user cannot make a small disk");
        return;
    }
    let disk = Unmount(folder.path());
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![0; 300_000]).unwrap();
    let store = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    fill_up(&store, || fs::remove_file(&ballast).unwrap()).await;
    drop(store);
    drop(disk);
}

/// Unmounts the disk, also after a panic.
struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

const READ_ONLY: &str = "AGENTFLOW_TEST_READ_ONLY";

/// Runs a test of this program as a user without permissions for a store.
#[cfg(unix)]
fn without_rights(test: &str, path: &Path) {
    use std::os::unix::process::CommandExt;
    // Root may write anywhere, so another user is needed.
    let may_write = fs::OpenOptions::new().append(true).open(path).is_ok()
        && fs::write(path.with_file_name("probe"), "").is_ok();
    let mut child = test_as_process(module_path!(), test);
    child.env(READ_ONLY, path);
    if may_write {
        child.uid(65534).gid(65534);
    }
    match child.output() {
        Ok(output) => {
            let said =
                String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
        Err(error) => skipped(format!("this test cannot be run as another user: {error}")),
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_or_its_folder_is_read_only() {
    use std::os::unix::fs::PermissionsExt;
    if let Ok(path) = std::env::var(READ_ONLY) {
        let error = SqliteStore::open(&path).await.unwrap_err();
        return says(
            &error,
            StoreErrorKind::Io,
            &["runs.db", "is read-only", "the right to write it and its folder"],
        );
    }
    for (file, of_folder) in [(0o444, 0o777), (0o666, 0o555)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        written(&path, 5).await;
        fs::set_permissions(&path, fs::Permissions::from_mode(file)).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(of_folder)).unwrap();
        without_rights("the_file_or_its_folder_is_read_only", &path);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let store = Connection::open(&path).unwrap();
        let events: i64 =
            store.query_row("SELECT count(*) FROM journal", [], |row| row.get(0)).unwrap();
        assert_eq!(events, 7);
    }
}
