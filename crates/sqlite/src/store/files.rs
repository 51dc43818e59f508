//! Checks that the open files of a store are still the files at their paths.
//!
//! A process with an open file does not notice that the file was deleted or replaced. It would
//! continue to write to a file that no other process can find. The write-ahead log and its index
//! are checked too: without them, processes share neither writes nor locks.

use std::io;
use std::path::{Path, PathBuf};

/// The files that were at the paths when the store was opened.
#[derive(Debug)]
pub(super) struct OpenFiles(Vec<(PathBuf, Identity)>);

impl OpenFiles {
    /// Records the file of a store that was opened just now, and SQLite's log and index next to it.
    pub(super) fn for_store(store: &Path) -> Self {
        Self::all(["", "-wal", "-shm"].map(|end| beside(store, end)))
    }

    /// Records a single file.
    pub(super) fn one(path: PathBuf) -> Self {
        Self::all([path])
    }

    fn all(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(
            paths
                .into_iter()
                .filter_map(|path| identity(&path).ok().map(|of| (path, of)))
                .collect(),
        )
    }

    /// Returns the first file that is no longer at its path. Costs one metadata call per file.
    pub(super) fn replaced(&self) -> Option<&Path> {
        let is_other = |path: &Path, was: &Identity| match identity(path) {
            Ok(now) => now != *was,
            // Other errors do not prove that the file was removed.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        self.0.iter().find(|(path, was)| is_other(path, was)).map(|(path, _)| path.as_path())
    }
}

/// Device and inode number of a file.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    // The file must not be opened: closing it would release all locks that this process has on it.
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Returns true if a file has more than one path (a hard link).
pub(super) fn has_other_path(path: &Path) -> bool {
    #[cfg(unix)]
    return std::fs::metadata(path)
        .is_ok_and(|file| std::os::unix::fs::MetadataExt::nlink(&file) > 1);
    #[cfg(not(unix))]
    return false;
}

/// Returns another hard link of the file, in the same folder, for which SQLite has a log or a
/// journal.
pub(super) fn path_with_log(path: &Path) -> Option<PathBuf> {
    if !has_other_path(path) {
        return None;
    }
    let has_log = |path: &Path| ["-wal", "-journal"].iter().any(|end| beside(path, end).exists());
    let same = identity(path).ok()?;
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| Some(&*entry.file_name()) != path.file_name());
    let mut others = entries
        .map(|entry| entry.path())
        .filter(|other| identity(other).is_ok_and(|other| other == same));
    others.find(|other| has_log(other))
}

fn beside(store: &Path, end: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Outside Unix an open file cannot be deleted or replaced, so its identity is not compared.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    std::fs::metadata(path).map(drop)
}
