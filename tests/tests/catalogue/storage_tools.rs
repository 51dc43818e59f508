//! Tools for files in a folder: their behavior, and that no path leads out of the folder,
//! regardless of the model's arguments and of links in it.

use std::fs;
use std::path::Path;

use agentflow::Tool;
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::tool::Effects;
use agentflow::tools::Storage;
use agentflow_testing::{test_runtime, wait_until};
use tempfile::TempDir;

/// Creates a folder `in` with a file, next to a file that must stay hidden.
fn folder() -> TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("in")).unwrap();
    fs::write(outside.path().join("secret.txt"), "swordfish").unwrap();
    fs::write(outside.path().join("in/a.txt"), "tea and rice").unwrap();
    outside
}

fn runtime(outside: &TempDir) -> Runtime {
    let storage = Storage::open(outside.path().join("in")).unwrap().max_bytes(1000);
    test_runtime().tools(storage.tools()).build()
}

async fn call(runtime: &Runtime, name: &str, arguments: Value) -> ToolResult {
    runtime.invoke(&ToolCall::new("1", name, arguments.to_string()), &[]).await.unwrap()
}

async fn text(runtime: &Runtime, name: &str, arguments: Value) -> String {
    call(runtime, name, arguments).await.text().into_owned()
}

fn unchanged(outside: &TempDir) {
    assert_eq!(fs::read_to_string(outside.path().join("secret.txt")).unwrap(), "swordfish");
    let mut names: Vec<_> = fs::read_dir(outside.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["in", "secret.txt"]);
}

#[tokio::test]
async fn files_are_written_read_listed_and_appended_to() {
    let outside = folder();
    let runtime = runtime(&outside);
    let written =
        text(&runtime, "storage_write", json!({"path": "notes/deep/b.txt", "content": "é1"})).await;
    assert_eq!(written, "3 bytes written to `notes/deep/b.txt`");
    let added =
        text(&runtime, "storage_append", json!({"path": "notes/deep/b.txt", "content": "2"})).await;
    assert_eq!(added, "1 bytes added to `notes/deep/b.txt`, which has 4 now");
    assert_eq!(text(&runtime, "storage_read", json!({"path": "notes/deep/b.txt"})).await, "é12");
    assert_eq!(
        text(&runtime, "storage_read", json!({"path": "a.txt", "from": 4, "bytes": 3})).await,
        "and"
    );
    assert_eq!(
        text(&runtime, "storage_read", json!({"path": "a.txt", "from": 400, "bytes": 3})).await,
        ""
    );
    text(&runtime, "storage_append", json!({"path": "new/c.txt", "content": "made"})).await;
    assert_eq!(fs::read_to_string(outside.path().join("in/new/c.txt")).unwrap(), "made");
    let list = text(&runtime, "storage_list", json!({})).await;
    let expected = json!({"entries": [
        {"name": "a.txt", "kind": "file", "bytes": 12},
        {"name": "new", "kind": "folder"},
        {"name": "notes", "kind": "folder"},
    ], "more": false});
    let mut list: Value = list.parse().unwrap();
    // The size of a folder depends on the file system.
    list["entries"].as_array_mut().unwrap()[1..].iter_mut().for_each(|entry| {
        entry.as_object_mut().unwrap().remove("bytes");
    });
    assert_eq!(list, expected);
    // An existing file is replaced atomically.
    text(&runtime, "storage_write", json!({"path": "a.txt", "content": "b"})).await;
    assert_eq!(fs::read_to_string(outside.path().join("in/a.txt")).unwrap(), "b");
    unchanged(&outside);
}

#[tokio::test]
async fn no_path_leads_out() {
    let outside = folder();
    let inner = outside.path().join("in");
    let secret = outside.path().join("secret.txt").to_str().unwrap().to_owned();
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("../secret.txt", inner.join("link")).unwrap();
        symlink(&secret, inner.join("absolute")).unwrap();
        symlink("..", inner.join("up")).unwrap();
        symlink("/", inner.join("root")).unwrap();
        symlink("link", inner.join("link-to-link")).unwrap();
        symlink("loop", inner.join("loop")).unwrap();
    }
    let runtime = runtime(&outside);
    let paths = [
        "../secret.txt",
        "x/../../secret.txt",
        "./.././secret.txt",
        &secret,
        "link",
        "absolute",
        "link-to-link",
        "up/secret.txt",
        &format!("root{secret}"),
        "loop",
        "..",
        "",
        "\0",
        "a.txt\0",
        "//etc/passwd",
        "a.txt/../../secret.txt",
    ];
    for path in paths {
        for name in ["storage_read", "storage_append", "storage_write", "storage_list"] {
            let arguments = match name {
                "storage_read" | "storage_list" => json!({"path": path}),
                _ => json!({"path": path, "content": "changed"}),
            };
            // A write replaces the link itself, which is inside the storage. The empty path lists
            // the storage.
            let within = !path.contains('/') && path.contains("l") && !path.contains('\0')
                || path == "absolute";
            if name == "storage_write" && within || name == "storage_list" && path.is_empty() {
                continue;
            }
            let result = call(&runtime, name, arguments).await;
            assert!(!result.status.is_success(), "{name} {path:?}: {}", result.text());
            assert!(!result.text().contains("swordfish"), "{name} {path:?}");
            unchanged(&outside);
        }
    }
    let text = text(&runtime, "storage_read", json!({"path": "up/secret.txt"})).await;
    assert_eq!(
        text,
        "`up/secret.txt` leads out of the storage; give a path within it, such as `notes/a.txt`"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_is_replaced_and_not_followed_by_a_write() {
    let outside = folder();
    std::os::unix::fs::symlink("../secret.txt", outside.path().join("in/link")).unwrap();
    std::os::unix::fs::symlink("a.txt", outside.path().join("in/inner")).unwrap();
    let runtime = runtime(&outside);
    assert_eq!(text(&runtime, "storage_read", json!({"path": "inner"})).await, "tea and rice");
    for link in ["link", "inner"] {
        let written =
            text(&runtime, "storage_write", json!({"path": link, "content": "mine"})).await;
        assert_eq!(written, format!("4 bytes written to `{link}`"));
        assert_eq!(text(&runtime, "storage_read", json!({"path": link})).await, "mine");
    }
    assert_eq!(text(&runtime, "storage_read", json!({"path": "a.txt"})).await, "tea and rice");
    unchanged(&outside);
}

/// A concurrent thread keeps replacing a folder by a link to the outside while files are written through
/// it.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_becomes_a_link_meanwhile_leads_nowhere() {
    let outside = folder();
    let inner = outside.path().join("in");
    fs::create_dir(inner.join("away")).unwrap();
    fs::write(inner.join("away/secret.txt"), "inner").unwrap();
    std::os::unix::fs::symlink("away", inner.join("real")).unwrap();
    let runtime = runtime(&outside);
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = std::sync::Arc::clone(&done);
    let swapper = std::thread::spawn(move || {
        for target in ["..", "away"].into_iter().cycle() {
            std::os::unix::fs::symlink(target, inner.join("next")).unwrap();
            fs::rename(inner.join("next"), inner.join("real")).unwrap();
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                return;
            }
        }
    });
    let (mut inside, mut refused) = (0, 0);
    for number in 0..500 {
        let read = call(&runtime, "storage_read", json!({"path": "real/secret.txt"})).await;
        assert!(!read.text().contains("swordfish"), "{number}");
        if read.text().starts_with("inner") {
            inside += 1;
        } else {
            refused += 1;
        }
        call(&runtime, "storage_append", json!({"path": "real/added.txt", "content": "x"})).await;
        call(&runtime, "storage_append", json!({"path": "real/secret.txt", "content": ""})).await;
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    wait_until("the swapping to end", || swapper.is_finished().then_some(()));
    swapper.join().unwrap();
    assert!(inside > 0 && refused > 0, "it was swapped meanwhile: {inside} {refused}");
    unchanged(&outside);
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_file_is_named_and_makes_nobody_wait() {
    let outside = folder();
    let pipe = outside.path().join("in/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    fs::write(outside.path().join("in/bytes"), [b'a', 0xff]).unwrap();
    fs::write(outside.path().join("in/large"), "x".repeat(1001)).unwrap();
    let runtime = runtime(&outside);
    for (name, path, says) in [
        ("storage_read", "pipe", "`pipe` is not a file; `storage_list` shows what is there"),
        ("storage_append", "pipe", "pipe"),
        (
            "storage_read",
            "no.txt",
            "the storage has no file `no.txt`; `storage_list` shows what is there",
        ),
        ("storage_list", "no", "the storage has no folder `no`"),
        ("storage_list", "a.txt", "a part of `a.txt` is a file and not a folder"),
        ("storage_read", "a.txt/b", "a part of `a.txt/b` is a file and not a folder"),
        ("storage_write", ".", "leads out of the storage"),
        ("storage_read", "bytes", "`bytes` is not text of UTF-8 at byte 1"),
        (
            "storage_read",
            "large",
            "`large` has 1001 bytes, and 1000 are read at once; read a part of it",
        ),
        (
            "storage_append",
            "large",
            "`large` would have 1008 bytes, and a file of the storage has at most 1000",
        ),
        ("storage_write", ".agentflow-unfinished-1", "is a name of the storage's own"),
    ] {
        let arguments = match name {
            "storage_read" | "storage_list" => json!({"path": path}),
            _ => json!({"path": path, "content": "changed"}),
        };
        let result = tokio::time::timeout(
            std::time::Duration::from_secs(10),
            call(&runtime, name, arguments),
        );
        let result = result.await.expect("nobody waits");
        assert!(
            !result.status.is_success() && result.text().contains(says),
            "{name} {path}: {}",
            result.text()
        );
    }
    let large =
        call(&runtime, "storage_write", json!({"path": "b", "content": "x".repeat(1001)})).await;
    assert!(large.text().contains("would have 1001 bytes"), "{}", large.text());
    assert_eq!(
        text(&runtime, "storage_read", json!({"path": "large", "from": 1, "bytes": 2})).await,
        "xx"
    );
    let wrong = call(&runtime, "storage_read", json!({"pth": "a.txt"})).await;
    assert_eq!(wrong.status, ToolStatus::InvalidArguments);
}

/// Readers of a file that is being rewritten always see a complete text, and no temporary files
/// remain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_whole_at_any_time() {
    let outside = folder();
    let runtime = runtime(&outside);
    let write = |letter: char| json!({"path": "a.txt", "content": letter.to_string().repeat(900)});
    call(&runtime, "storage_write", write('a')).await;
    let writer = async {
        for number in 0..100_u8 {
            let result =
                call(&runtime, "storage_write", write(char::from(b'a' + number % 26))).await;
            assert!(result.status.is_success(), "{}", result.text());
        }
    };
    let reader = async {
        for _ in 0..200 {
            let read = text(&runtime, "storage_read", json!({"path": "a.txt"})).await;
            let first = read.chars().next().unwrap();
            assert_eq!(read, first.to_string().repeat(900));
        }
    };
    tokio::join!(writer, reader);
    let names = fs::read_dir(Path::new(&outside.path().join("in"))).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn policies_say_what_is_changed() {
    let outside = folder();
    let storage = Storage::open(outside.path().join("in")).unwrap();
    let policies: Vec<_> = storage
        .tools()
        .iter()
        .map(|tool| {
            let definition = Tool::definition(tool);
            (definition.name.to_string(), definition.policy.effects, definition.policy.idempotent)
        })
        .collect();
    let of = |name: &str, effects, idempotent| (name.to_owned(), effects, idempotent);
    let expected = [
        of("storage_list", Effects::Read, false),
        of("storage_read", Effects::Read, false),
        of("storage_write", Effects::Write, true),
        of("storage_append", Effects::Write, false),
    ];
    assert_eq!(policies, expected);
    assert_eq!(storage.reading_tools().len(), 2);
    assert!(Storage::open(outside.path().join("nowhere")).is_err());
    assert!(Storage::open(outside.path().join("secret.txt")).is_err());
}
