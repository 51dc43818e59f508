//! The mode of new SQLite files: only the user of the process can read and write them.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use agentflow_core::__private::private;

/// Creates an empty private file for SQLite, which would create a file that all users can read. A file that exists is kept.
///
/// SQLite gives its log and its journal the mode of the database. It also reports why a file cannot be created.
pub(crate) fn create_for_sqlite(path: &Path) {
    // SQLite does not read these as paths.
    if path.as_os_str().is_empty()
        || path.starts_with(":memory:")
        || path.as_os_str().as_encoded_bytes().starts_with(b"file:")
    {
        return;
    }
    static CREATING: Mutex<()> = Mutex::new(());
    // Closing a file frees all locks that this process has on it: another thread opens the file after it is closed here.
    let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = private(OpenOptions::new().write(true).create_new(true)).open(without_links(path));
}

/// Resolves symbolic links, also to a file that does not exist.
fn without_links(path: &Path) -> PathBuf {
    /// As many as Linux follows.
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().map(|folder| folder.join(&target)).unwrap_or(target);
    }
    path
}
