//! A storage with some writable folders. The rest is readable by the same paths, and no write ends
//! up there.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use agentflow::Tool;
use agentflow::message::{ToolCall, ToolResult};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::tools::Storage;
use agentflow_testing::test_runtime;
use tempfile::TempDir;

/// Creates a folder `in` with `src`, `src2` and `tests`, next to a file that must stay hidden.
fn folder() -> TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "swordfish").unwrap();
    for name in ["src", "src2", "tests"] {
        fs::create_dir_all(outside.path().join("in").join(name)).unwrap();
        fs::write(outside.path().join("in").join(name).join("a.txt"), name).unwrap();
    }
    fs::write(outside.path().join("in/top.txt"), "top").unwrap();
    outside
}

fn storage(outside: &TempDir) -> Storage {
    Storage::open(outside.path().join("in")).unwrap()
}

fn runtime(storage: &Storage) -> Runtime {
    test_runtime().tools(storage.tools()).build()
}

async fn call(runtime: &Runtime, name: &str, arguments: Value) -> ToolResult {
    runtime.invoke(&ToolCall::new("1", name, arguments.to_string()), &[]).await.unwrap()
}

async fn write(runtime: &Runtime, name: &str, path: &str) -> ToolResult {
    call(runtime, name, json!({"path": path, "content": "changed"})).await
}

/// Returns all files below a read-only folder with their texts. Links are not followed.
fn texts(folder: &Path, except: &[&str]) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !except.contains(&&*name) {
            let below = texts_below(&entry.path());
            texts.extend(below.into_iter().map(|(file, text)| (format!("{name}/{file}"), text)));
        } else if kind.is_file() {
            texts.push((name, fs::read_to_string(entry.path()).unwrap()));
        }
    }
    texts.sort();
    texts
}

fn texts_below(folder: &Path) -> Vec<(String, String)> {
    texts(folder, &[])
}

#[tokio::test]
async fn one_path_reads_and_writes_a_file() {
    let outside = folder();
    let runtime = runtime(&storage(&outside).writable(["src"]).unwrap());
    for (path, before) in
        [("src/a.txt", "src"), ("./src/a.txt", "changed"), ("src//a.txt", "changed")]
    {
        assert_eq!(call(&runtime, "storage_read", json!({"path": path})).await.text(), before);
        let written = write(&runtime, "storage_write", path).await;
        assert_eq!(written.text(), format!("7 bytes written to `{path}`"));
    }
    let added = write(&runtime, "storage_append", "src/new/deep.txt").await;
    assert_eq!(added.text(), "7 bytes added to `src/new/deep.txt`, which has 7 now");
    assert_eq!(fs::read_to_string(outside.path().join("in/src/new/deep.txt")).unwrap(), "changed");
    for (path, text) in [("tests/a.txt", "tests"), ("src2/a.txt", "src2"), ("top.txt", "top")] {
        assert_eq!(call(&runtime, "storage_read", json!({"path": path})).await.text(), text);
    }
}

#[tokio::test]
async fn what_is_not_below_them_is_not_written() {
    let outside = folder();
    let inner = outside.path().join("in");
    let absolute = inner.join("src/a.txt").to_str().unwrap().to_owned();
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("../tests", inner.join("src/folder")).unwrap();
        symlink("../tests/a.txt", inner.join("src/file")).unwrap();
        symlink("../../secret.txt", inner.join("src/secret")).unwrap();
        symlink(inner.join("tests"), inner.join("src/absolute")).unwrap();
        symlink("..", inner.join("src/up")).unwrap();
        symlink("src", inner.join("other")).unwrap();
    }
    let runtime = runtime(&storage(&outside).writable(["src", "docs/pages"]).unwrap());
    let before = texts(outside.path(), &[]);
    let paths = [
        "top.txt",
        "new.txt",
        "tests/a.txt",
        "tests/new/b.txt",
        "src2/a.txt",
        "src2",
        "sr/a.txt",
        "docs/a.txt",
        "docs/pages2/a.txt",
        "src/../tests/a.txt",
        "src/../src2/a.txt",
        "src/x/../../tests/a.txt",
        "./src/.././tests/a.txt",
        "src/../../secret.txt",
        "../secret.txt",
        "../in/src/a.txt",
        // The path is not normalized: its first component decides which folder is meant.
        "tests/../src/a.txt",
        "other/a.txt",
        &absolute,
        "src/folder/a.txt",
        "src/folder/new.txt",
        "src/absolute/a.txt",
        "src/up/tests/a.txt",
        "src/up/src/a.txt",
        "src",
        "src/",
        "src/.",
        "src/..",
        ".",
        "",
        "\0",
    ];
    for path in paths {
        for name in ["storage_write", "storage_append"] {
            let result = write(&runtime, name, path).await;
            assert!(!result.status.is_success(), "{name} {path:?}: {}", result.text());
            assert!(!result.text().contains("swordfish"), "{name} {path:?}");
            assert_eq!(texts(outside.path(), &[]), before, "{name} {path:?}");
        }
    }
    #[cfg(unix)]
    for (path, text) in [("src/file", "tests"), ("src/secret", "swordfish")] {
        // Appending would follow the link. Writing replaces the link and leaves its target
        // unchanged.
        assert!(!write(&runtime, "storage_append", path).await.status.is_success(), "{path}");
        assert_eq!(texts(outside.path(), &[]), before, "{path}");
        assert!(write(&runtime, "storage_write", path).await.status.is_success(), "{path}");
        assert!(texts(outside.path(), &["src"]).iter().any(|(_, there)| there == text), "{path}");
        fs::remove_file(inner.join(path)).unwrap();
        assert_eq!(texts(outside.path(), &[]), before, "{path}");
    }
}

#[tokio::test]
async fn a_refusal_and_a_description_name_the_folders() {
    let outside = folder();
    let storage = storage(&outside).writable(["src", "./docs/pages"]).unwrap();
    let runtime = runtime(&storage);
    let says = |path: &str| {
        format!("`{path}` may not be written; files may be written below `src`, `docs/pages` alone")
    };
    for path in ["tests/a.txt", "src/../tests/a.txt", "src2/a.txt", "../secret.txt", "src"] {
        assert_eq!(write(&runtime, "storage_write", path).await.text(), says(path));
        assert_eq!(write(&runtime, "storage_append", path).await.text(), says(path));
    }
    let tools = storage.tools();
    let about = |name: &str| {
        let tool = tools.iter().find(|tool| &*Tool::definition(*tool).name == name).unwrap();
        Tool::definition(tool).description.to_string()
    };
    let only = " Only below `src`, `docs/pages` may files be written.";
    assert!(about("storage_write").ends_with(only) && about("storage_append").ends_with(only));
    assert!(
        !about("storage_read").contains("Only below")
            && !about("storage_list").contains("Only below")
    );
}

#[tokio::test]
async fn a_folder_is_made_and_opened_once() {
    let outside = folder();
    let inner = outside.path().join("in");
    let runtime = runtime(&storage(&outside).writable(["out/here"]).unwrap());
    assert!(inner.join("out/here").is_dir());
    assert!(write(&runtime, "storage_write", "out/here/a.txt").await.status.is_success());
    assert_eq!(fs::read_to_string(inner.join("out/here/a.txt")).unwrap(), "changed");
    #[cfg(unix)]
    {
        // The folder is replaced by a link to another one. Writes stay in the folder that was
        // opened.
        fs::rename(inner.join("out/here"), inner.join("out/moved")).unwrap();
        std::os::unix::fs::symlink("../tests", inner.join("out/here")).unwrap();
        for name in ["storage_write", "storage_append"] {
            assert!(write(&runtime, name, "out/here/a.txt").await.status.is_success());
        }
        assert_eq!(fs::read_to_string(inner.join("tests/a.txt")).unwrap(), "tests");
        assert_eq!(fs::read_to_string(inner.join("out/moved/a.txt")).unwrap(), "changedchanged");
    }
}

#[test]
fn a_folder_that_cannot_be_held_is_refused_at_once() {
    let outside = folder();
    for wrong in ["", ".", "..", "../in", "src/..", "src/../tests", "/", "/tmp"] {
        let error = storage(&outside).writable([wrong]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong:?}");
        assert!(
            error
                .to_string()
                .contains("is not a folder below the storage; write its path from there"),
            "{error}"
        );
    }
    let none: [&str; 0] = [];
    assert!(
        storage(&outside)
            .writable(none)
            .unwrap_err()
            .to_string()
            .contains("give the `reading_tools` alone")
    );
    let file = storage(&outside).writable(["top.txt"]).unwrap_err();
    assert!(
        file.to_string().starts_with("`top.txt` is not a folder that may be written"),
        "{file}"
    );
    #[cfg(unix)]
    {
        let inner = outside.path().join("in");
        std::os::unix::fs::symlink("tests", inner.join("link")).unwrap();
        std::os::unix::fs::symlink("..", inner.join("up")).unwrap();
        for wrong in ["link", "link/new", "up", "up/new"] {
            let error = storage(&outside).writable([wrong]).unwrap_err();
            assert!(error.to_string().contains("without a link on its way"), "{wrong}: {error}");
        }
        assert_eq!(texts(&inner, &[]).len(), 4);
        assert!(!inner.join("tests/new").exists() && !outside.path().join("new").exists());
    }
}
