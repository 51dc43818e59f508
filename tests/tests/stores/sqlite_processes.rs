//! Two real processes with one store file. Each run has a single writer, and a killed process frees
//! its runs.
//!
//! The other process is this test program; its environment selects its role. It prints the
//! acknowledged writes.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

use agentflow::RunId;
use agentflow::store::{Append, MessageStore, SqliteStore, Store, StoreError, StoreErrorKind};
use agentflow_testing::within;
use agentflow_tests::journal::{noted, notes, started};
use agentflow_tests::{lines_of, test_as_process};

const FILE: &str = "AGENTFLOW_TEST_STORE";
const TASK: &str = "AGENTFLOW_TEST_TASK";

/// Another process that uses a store. It is killed when this value is dropped.
struct Other {
    child: Child,
    said: Box<dyn Iterator<Item = String>>,
}

impl Other {
    fn start(file: &Path, task: &str) -> Self {
        let mut child = test_as_process(module_path!(), "other_process")
            .env(FILE, file)
            .env(TASK, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Box::new(lines_of(child.stdout.take().unwrap()));
        Self { child, said }
    }

    /// Returns the next line that the process prints for its role.
    fn next(&mut self) -> Option<String> {
        self.said.by_ref().find_map(|line| line.split_once("> ").map(|(_, said)| said.to_owned()))
    }

    /// Kills the process like `kill -9`. Returns its remaining lines.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.next()).collect()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {text}").unwrap();
    out.flush().unwrap();
}

fn run() -> RunId {
    RunId::new("a")
}

#[tokio::test]
async fn other_process() {
    let (Ok(file), Ok(task)) = (std::env::var(FILE), std::env::var(TASK)) else { return };
    if task == "open" {
        return open_when_told(Path::new(&file));
    }
    let store = SqliteStore::open(file).await.unwrap();
    match task.as_str() {
        "hold" => {
            store.create(&run(), vec![started(&run())]).await.unwrap();
            say("held");
            // Waits until the process is killed or its parent ends.
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        "hold and start another" => {
            store.create(&run(), vec![started(&run())]).await.unwrap();
            // The process is killed, but its child survives.
            let mut child = Command::new("sleep")
                .arg("1000")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            say(&child.id().to_string());
            let _ = std::io::stdin().read_line(&mut String::new());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        "append" => {
            let epoch = store.open(&run()).await.unwrap();
            for after in store.record(&run()).await.unwrap().unwrap().events.. {
                let text = after.to_string();
                store
                    .append(
                        &run(),
                        epoch,
                        Append::new(after, vec![noted(&run(), after + 1, &text)]),
                    )
                    .await
                    .unwrap();
                say(&text);
            }
        }
        "compete" => {
            for text in compete(&store, "other").await {
                say(&text);
            }
            say("done");
        }
        task => panic!("there is no task {task}"),
    }
}

/// Opens the file of each number read from standard input on several threads at once, and prints
/// the outcome.
fn open_when_told(folder: &Path) {
    for number in std::io::stdin().lines() {
        let path = folder.join(number.unwrap());
        let said = open_at_once(&path, 3).into_iter().find_map(Result::err);
        say(&said.map_or_else(|| "opened".to_owned(), |error| error.to_string()));
    }
}

/// Opens and closes a file on several threads at once.
fn open_at_once(path: &Path, threads: usize) -> Vec<Result<(), StoreError>> {
    let start = Barrier::new(threads);
    let open = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        start.wait();
        runtime.block_on(within("the store to open", SqliteStore::open(path))).map(drop)
    };
    std::thread::scope(|scope| {
        let opening: Vec<_> = (0..threads).map(|_| scope.spawn(open)).collect();
        opening.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn many_processes_and_threads_open_a_new_file_at_the_same_time() {
    const FILES: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    let mut others: Vec<_> = (0..4).map(|_| Other::start(folder.path(), "open")).collect();
    for number in 0..FILES {
        for other in &mut others {
            writeln!(other.child.stdin.as_mut().unwrap(), "{number}").unwrap();
        }
        for opened in open_at_once(&folder.path().join(number.to_string()), 3) {
            opened.unwrap_or_else(|error| panic!("file {number}, in this process: {error}"));
        }
        for other in &mut others {
            assert_eq!(
                other.next().as_deref(),
                Some("opened"),
                "file {number}, in another process"
            );
        }
    }
}

/// Opens the run whenever it is free, writes a few events and closes it. Returns the acknowledged
/// texts.
async fn compete(store: &SqliteStore, who: &str) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let mut rounds = 0;
    while rounds < 30 {
        let free = async {
            loop {
                match store.open(&run()).await {
                    Ok(epoch) => return epoch,
                    Err(error) => assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}"),
                }
                tokio::task::yield_now().await;
            }
        };
        let epoch = within("the run to be free", free).await;
        let mut after = store.record(&run()).await.unwrap().unwrap().events;
        for _ in 0..3 {
            let text = format!("{who} {rounds} {after}");
            // This process has opened the run, so its write is not fenced.
            store
                .append(&run(), epoch, Append::new(after, vec![noted(&run(), after + 1, &text)]))
                .await
                .unwrap();
            acknowledged.push(text);
            after += 1;
        }
        store.close(&run(), epoch).await.unwrap();
        rounds += 1;
    }
    acknowledged
}

#[tokio::test]
async fn a_run_of_a_living_process_is_busy_and_of_a_killed_one_free() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let mut other = Other::start(&file, "hold");
    assert_eq!(other.next().as_deref(), Some("held"));
    let store = SqliteStore::open(&file).await.unwrap();
    let error = store.open(&run()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    let process = format!("process {}", other.child.id());
    assert!(error.to_string().contains(&process), "`{process}` is not in: {error}");
    assert_eq!(store.read(&run(), 0, 10).await.unwrap().len(), 1, "it can be read");
    store.send(&run(), "a message".to_owned()).await.unwrap();
    let owners = || {
        let names =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().contains("-owner-")).count()
    };
    assert_eq!(owners(), 2);

    other.kill();
    let epoch = store.open(&run()).await.expect("the run is free the moment its process has ended");
    assert_eq!(owners(), 1, "the file of the killed process is removed");
    store.append(&run(), epoch, Append::new(1, vec![noted(&run(), 2, "mine")])).await.unwrap();
    let messages = store.receive(&run(), epoch).await.unwrap();
    assert_eq!(
        messages.iter().map(|message| message.body.as_str()).collect::<Vec<_>>(),
        ["a message"]
    );
    drop(store);
    assert_eq!(owners(), 0, "and that of one that ended well too");
}

/// A child process of a run's process, such as one started by a tool, does not inherit the run's
/// lock.
#[cfg(unix)]
#[tokio::test]
async fn what_a_process_has_started_does_not_hold_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let mut other = Other::start(&file, "hold and start another");
    let child = other.next().unwrap();
    other.kill();
    let store = SqliteStore::open(&file).await.unwrap();
    let opened = store.open(&run()).await;
    let still_there = Command::new("kill").args(["-9", &child]).status().unwrap();
    opened.expect("the run is free the moment its process has ended");
    assert!(still_there.success(), "the other one was alive");
}

/// All processes agree on one name for the file, including the one that created it through a link.
#[cfg(unix)]
#[tokio::test]
async fn a_link_to_a_file_that_is_not_there_yet() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("runs.db"), folder.path().join("link.db"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mut other = Other::start(&link, "hold");
    assert_eq!(other.next().as_deref(), Some("held"));
    let store = SqliteStore::open(&file).await.unwrap();
    assert_eq!(store.open(&run()).await.unwrap_err().kind(), StoreErrorKind::Busy);
}

#[tokio::test]
async fn a_process_that_is_killed_while_it_writes_loses_nothing_it_was_told_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    {
        let store = SqliteStore::open(&file).await.unwrap();
        let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
        store.close(&run(), epoch).await.unwrap();
    }
    let (mut rng, mut acknowledged) = (fastrand::Rng::with_seed(3), Vec::new());
    for kill in 0..20 {
        let mut other = Other::start(&file, "append");
        for _ in 0..rng.u8(1..30) {
            acknowledged.push(other.next().expect("it writes until it is killed"));
        }
        acknowledged.extend(other.kill());
        let store = SqliteStore::open(&file).await.unwrap();
        let journal = store.read(&run(), 0, usize::MAX).await.unwrap();
        let places: Vec<u64> = journal.iter().map(|event| event.seq).collect();
        assert_eq!(places, (1..=journal.len() as u64).collect::<Vec<_>>(), "kill {kill}");
        let found = notes(&journal);
        // One event may have been written but not reported before the kill.
        assert!(
            found.len() - acknowledged.len() <= 1,
            "kill {kill}: {} of {}",
            acknowledged.len(),
            found.len()
        );
        assert_eq!(found[..acknowledged.len()], acknowledged, "kill {kill}");
        acknowledged = found;
        store.open(&run()).await.expect("the run is free the moment its process has ended");
    }
}

#[tokio::test]
async fn of_two_processes_one_writes_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db");
    let store = SqliteStore::open(&file).await.unwrap();
    let epoch = store.create(&run(), vec![started(&run())]).await.unwrap();
    store.close(&run(), epoch).await.unwrap();
    let mut other = Other::start(&file, "compete");
    let mut acknowledged = compete(&store, "this").await;
    loop {
        match other.next().expect("it says when it is done").as_str() {
            "done" => break,
            text => acknowledged.push(text.to_owned()),
        }
    }
    let mut found = notes(&store.read(&run(), 0, usize::MAX).await.unwrap());
    found.sort();
    acknowledged.sort();
    assert_eq!(found, acknowledged);
    assert_eq!(found.len(), 180);
}
