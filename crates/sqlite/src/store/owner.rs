//! Which process has a run open: each process holds a lock on a small file beside the store as long as it lives.
//!
//! The operating system frees the lock when the process ends, however it ends, so nobody waits for a lease to run out.
//! The lock only decides from whom a run may be taken; the epoch keeps two processes from writing one run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agentflow_core::__private::private;
use fs4::{FileExt, TryLockError};

use super::files::OpenFiles;

/// This process, as it has runs of one store open. The file is there as long as this is.
#[derive(Debug)]
pub(super) struct Owner {
    id: String,
    path: PathBuf,
    file: OpenFiles,
    _lock: File,
}

/// One for each store file, shared by all handles of this process.
static OWNERS: Mutex<Vec<(PathBuf, Weak<Owner>)>> = Mutex::new(Vec::new());

impl Owner {
    /// The owner of this process. Locks its file when there is none, and removes files of processes that are no more.
    ///
    /// Only to be called within a write transaction of the store: so nobody takes a file that is not locked yet for one
    /// that is not locked any more.
    pub(super) fn of_this_process(store: &Path) -> io::Result<Arc<Self>> {
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|(_, owner)| owner.strong_count() > 0);
        // One whose file was deleted, say with its folder, would be taken for a process that is no more.
        let mut ours = owners.iter().filter(|(path, _)| path == store).filter_map(|(_, owner)| owner.upgrade());
        if let Some(owner) = ours.find(|owner| owner.file.replaced().is_none()) {
            return Ok(owner);
        }
        sweep(store);
        let id = format!("{}-{:016x}", process::id(), fastrand::u64(..));
        let path = file(store, &id);
        let lock = private(File::options().write(true).create_new(true)).open(&path)?;
        FileExt::lock(&lock)?;
        let owner = Arc::new(Self { id, file: OpenFiles::one(path.clone()), path, _lock: lock });
        owners.push((store.to_owned(), Arc::downgrade(&owner)));
        Ok(owner)
    }

    /// The owner of this process, if it has had runs of the store open.
    pub(super) fn existing(store: &Path) -> Option<Arc<Self>> {
        let owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        owners.iter().find(|(path, _)| path == store).and_then(|(_, owner)| owner.upgrade())
    }

    /// What the store keeps of it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // What is left is removed by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

/// The process of an owner, for people, when it is alive.
pub(super) fn alive(store: &Path, id: &str) -> io::Result<Option<String>> {
    let alive = is_locked(&file(store, id))?;
    let number = id.split('-').next().unwrap_or(id);
    Ok(alive.then(|| format!("process {number}")))
}

/// Whether a process holds the file. A file that nobody holds is removed.
fn is_locked(path: &Path) -> io::Result<bool> {
    let lock = match File::options().read(true).write(true).open(path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match FileExt::try_lock(&lock) {
        Ok(()) => {
            fs::remove_file(path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
            Ok(false)
        }
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the files of processes that are no more. One that cannot be looked at is in nobody's way.
fn sweep(store: &Path) {
    let (Some(folder), Some(name)) = (store.parent(), store.file_name()) else { return };
    let begin = format!("{}-owner-", name.to_string_lossy());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&begin) {
            let _ = is_locked(&entry.path());
        }
    }
}

fn file(store: &Path, id: &str) -> PathBuf {
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(format!("-owner-{id}"));
    store.with_file_name(name)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::{Owner, alive};

    #[test]
    fn a_process_whose_file_was_deleted_gets_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("runs.db");
        let first = Owner::of_this_process(&store).unwrap();
        assert!(Arc::ptr_eq(&first, &Owner::of_this_process(&store).unwrap()));
        fs::remove_file(&first.path).unwrap();
        let second = Owner::of_this_process(&store).unwrap();
        assert_ne!(first.id(), second.id());
        assert_eq!(alive(&store, first.id()).unwrap(), None);
        assert_eq!(alive(&store, second.id()).unwrap(), Some(format!("process {}", std::process::id())));
        drop(first);
        assert!(Arc::ptr_eq(&second, &Owner::of_this_process(&store).unwrap()));
    }
}
