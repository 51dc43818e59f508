//! Creates SQLite files that only the user of the process can read and write.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use agentflow_core::__private::private;

/// Creates an empty private file for SQLite. SQLite itself would create a file that all users can
/// read. An existing file is kept.
///
/// SQLite gives its log and its journal the mode of the database. Errors are ignored here, because
/// SQLite reports them when it opens the file.
pub(crate) fn create_for_sqlite(path: &Path) {
    // SQLite does not treat these values as paths.
    if path.as_os_str().is_empty()
        || path.starts_with(":memory:")
        || path.as_os_str().as_encoded_bytes().starts_with(b"file:")
    {
        return;
    }
    static CREATING: Mutex<()> = Mutex::new(());
    // POSIX locks belong to the process: closing a file releases all locks that the process has on
    // it. So another thread must not open the file with SQLite until this handle is closed.
    let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = private(OpenOptions::new().write(true).create_new(true)).open(without_links(path));
}

/// Resolves symbolic links, also if the target does not exist.
fn without_links(path: &Path) -> PathBuf {
    /// The limit that Linux applies.
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().map(|folder| folder.join(&target)).unwrap_or(target);
    }
    path
}
