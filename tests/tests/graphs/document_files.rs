//! Tests that endless files, special files and links out of the folder are refused with bounded
//! work.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use agentflow::document::{Document, FolderError};
use agentflow::mcp::McpConfig;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeConfig;
use agentflow_testing::ScriptedModel;

const DOCUMENT: &str = "name: it\noutput: number\nnodes:\n  - {name: number, does: {ask: {text: which?, answer: {type: integer}}}}\n";

/// Runs `read` on another thread and panics after a minute, since `read` might never return.
fn in_time<T: Send + 'static>(what: &str, read: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(read()));
    receive
        .recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{what} is not refused in a minute"))
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Returns the errors of all functions that read this file.
fn errors(path: PathBuf) -> Vec<String> {
    let what = path.display().to_string();
    in_time(&what, move || {
        vec![
            Document::open(&path).unwrap_err().to_string(),
            RuntimeConfig::open(&path).unwrap_err().to_string(),
            McpConfig::from_file(&path).unwrap_err().to_string(),
        ]
    })
}

#[test]
fn pipes_devices_and_folders_are_no_documents() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    pipe(&path("pipe"));
    fs::create_dir(path("folder")).unwrap();
    symlink("/dev/zero", path("link")).unwrap();
    for path in [path("pipe"), path("folder"), path("link"), "/dev/zero".into(), "/dev/null".into()]
    {
        for error in errors(path.clone()) {
            assert!(error.contains("it is not a regular file"), "{}: {error}", path.display());
        }
    }
}

/// Reads a file whose reported size is 0.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_longer_than_its_size_is_read_to_the_limit() {
    let symbols = Path::new("/proc/kallsyms");
    if fs::metadata(symbols).is_ok_and(|file| file.len() == 0)
        && fs::read(symbols).is_ok_and(|read| read.len() > 5 << 20)
    {
        for error in errors(symbols.to_owned()) {
            assert!(error.contains("it has more than 4194304 bytes"), "{error}");
        }
    }
    // Reads of this file block until the next log line. Some users have no permission to read it.
    for error in errors("/proc/kmsg".into()) {
        assert!(!error.is_empty());
    }
}

#[test]
fn a_file_of_too_many_bytes_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.yaml");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    for error in errors(path) {
        assert!(
            error.contains("it has 1099511627776 bytes, and at most 4194304 are read"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn no_link_leads_out_of_a_folder() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.yaml"), DOCUMENT).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // Kubernetes mounts configuration files through such links.
    fs::create_dir(path("..data")).unwrap();
    fs::write(path("..data/inside"), DOCUMENT).unwrap();
    symlink("..data/inside", path("inside.yaml")).unwrap();
    assert_eq!(Document::read_folder(folder.path()).unwrap()[0].name(), "it");
    let builder = Runtime::builder().model(ScriptedModel::new([]));
    let boot = builder.document_folder(folder.path()).boot().await;
    let runtime = boot.unwrap_or_else(|error| panic!("{error}"));

    symlink(outside.path().join("secret.yaml"), path("secret.yaml")).unwrap();
    symlink("/proc/kmsg", path("log.yaml")).unwrap();
    symlink("nothing", path("gone.yaml")).unwrap();
    pipe(&path("pipe.yaml"));
    let all = folder.path().to_owned();
    let Err(FolderError::Documents(errors)) =
        in_time("a folder", move || Document::read_folder(all))
    else {
        panic!("it is refused")
    };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 4, "{errors:#?}");
    for (error, of) in errors.iter().zip([
        "No such file",
        "it is a link that leads out of the folder",
        "it is not a regular file",
        "it is a link that leads out of the folder",
    ]) {
        assert!(error.contains(of), "{of}: {error}");
    }
    let reloaded = runtime.documents().reload().await.unwrap();
    assert_eq!((reloaded.removed.len(), reloaded.errors.len()), (0, 4), "{reloaded:?}");
}
