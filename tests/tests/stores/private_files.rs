//! Files of a store, a memory and an event sink are readable only by the user of the process. A
//! store is opened by a single path.
#![cfg(unix)]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use agentflow::RunId;
use agentflow::event::{EventSink, JsonlSink};
use agentflow::memory::SqliteMemory;
use agentflow::store::{RunFilter, SqliteStore, Store, StoreErrorKind};
use agentflow_tests::journal::started;
use agentflow_tests::test_as_process;

const FOLDER: &str = "AGENTFLOW_PRIVATE_FILES";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns the modes of all files of a folder by name. Parts of names that differ between processes
/// are removed.
fn modes(folder: &Path) -> Vec<(String, u32)> {
    let name = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split_once("-owner-").map_or(name.clone(), |(store, _)| format!("{store}-owner"))
    };
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut modes: Vec<_> = paths.map(|path| (name(&path), mode(&path))).collect();
    modes.sort();
    modes
}

/// Runs in a process whose umask makes new files readable by all users.
#[tokio::test]
async fn files_of_a_process_with_an_open_mask() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    File::create(folder.join("public")).unwrap();
    symlink(folder.join("target.db"), folder.join("link.db")).unwrap();
    let run = RunId::new("a");
    let store = SqliteStore::open(folder.join("runs.db")).await.unwrap();
    store.create(&run, vec![started(&run)]).await.unwrap();
    let linked = SqliteStore::open(folder.join("link.db")).await.unwrap();
    let memory = SqliteMemory::open(folder.join("memory.db")).await.unwrap();
    JsonlSink::append(folder.join("events.jsonl")).unwrap().emit(&started(&run));
    let names = |ends: &[&str], mode: u32| {
        ends.iter().map(|end| ((*end).to_owned(), mode)).collect::<Vec<_>>()
    };
    let private = [
        "events.jsonl",
        "link.db",
        "memory.db",
        "runs.db",
        "runs.db-owner",
        "runs.db-shm",
        "runs.db-wal",
        "target.db",
        "target.db-shm",
        "target.db-wal",
    ];
    let mut expected = names(&private, 0o600);
    expected.extend(names(&["public"], 0o644));
    expected.sort();
    assert_eq!(modes(folder), expected);
    drop((store, linked, memory));

    // An existing file keeps its mode, whether wider or narrower.
    for wanted in [0o640, 0o400] {
        for file in ["runs.db", "memory.db", "events.jsonl"] {
            fs::set_permissions(folder.join(file), Permissions::from_mode(wanted)).unwrap();
        }
        let store = SqliteStore::open(folder.join("runs.db")).await;
        let memory = SqliteMemory::open(folder.join("memory.db")).await;
        drop((store, memory, JsonlSink::append(folder.join("events.jsonl"))));
        let now = ["runs.db", "memory.db", "events.jsonl"].map(|file| mode(&folder.join(file)));
        assert_eq!(now, [wanted; 3]);
    }
}

#[test]
fn new_files_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let test = test_as_process(module_path!(), "files_of_a_process_with_an_open_mask");
    let mut open = Command::new("sh");
    open.args(["-c", "umask 022; exec \"$0\" \"$@\""])
        .arg(test.get_program())
        .args(test.get_args());
    let output = open.env(FOLDER, folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(folder.path().join("public").exists(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn a_second_path_of_an_open_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a.db"), folder.path().join("b.db"));
    let store = SqliteStore::open(&first).await.unwrap();
    let run = RunId::new("a");
    store.create(&run, vec![started(&run)]).await.unwrap();
    fs::hard_link(&first, &second).unwrap();
    let error = SqliteStore::open(&second).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Io);
    let text = error.to_string();
    assert!(text.contains("b.db` is the same file as `") && text.ends_with("a.db`"), "{text}");
    assert!(!folder.path().join("b.db-wal").exists());
    assert_eq!(store.list(RunFilter::new()).await.unwrap().len(), 1);

    // Other folders are not searched for a second path.
    let elsewhere = tempfile::tempdir_in(folder.path()).unwrap();
    let third = elsewhere.path().join("c.db");
    fs::hard_link(&first, &third).unwrap();
    let error = SqliteStore::open(&third).await.unwrap_err().to_string();
    assert!(error.contains("c.db` has another path, a hard link"), "{error}");

    // A closed file has no log, and any of its paths can be used.
    drop(store);
    let store = SqliteStore::open(&second).await.unwrap();
    assert_eq!(store.list(RunFilter::new()).await.unwrap().len(), 1);
    let error = SqliteStore::open(&first).await.unwrap_err().to_string();
    assert!(error.contains("a.db` is the same file as `"), "{error}");
}

#[tokio::test]
async fn a_second_path_of_a_memory_with_a_journal_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a.db"), folder.path().join("b.db"));
    drop(SqliteMemory::open(&first).await.unwrap());
    fs::hard_link(&first, &second).unwrap();
    drop(SqliteMemory::open(&second).await.unwrap());
    // A crash leaves a rollback journal.
    fs::write(folder.path().join("a.db-journal"), "").unwrap();
    let error = SqliteMemory::open(&second).await.unwrap_err().to_string();
    assert!(error.contains("b.db` is the same file as `"), "{error}");
}
