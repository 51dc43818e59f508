//! Records which process has a run open: each process locks a small file next to the store for its
//! lifetime.
//!
//! The operating system releases the lock when the process ends, even after a crash, so other
//! processes do not wait for a lease to expire. The lock only decides if a run may be taken from a
//! process. The epoch prevents two processes from writing to one run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agentflow_core::__private::private;
use fs4::{FileExt, TryLockError};

use super::files::OpenFiles;

/// This process as the owner of runs in one store. The lock file exists as long as this value.
#[derive(Debug)]
pub(super) struct ProcessOwner {
    id: String,
    path: PathBuf,
    file: OpenFiles,
    _lock: File,
}

/// The owner for each store file. All handles of this process share it.
static OWNERS: Mutex<Vec<(PathBuf, Weak<ProcessOwner>)>> = Mutex::new(Vec::new());

impl ProcessOwner {
    /// Returns the owner for this process. If none exists, creates and locks its file, and removes
    /// files of ended processes.
    ///
    /// Call this only within a write transaction of the store. Otherwise another process could see
    /// a file that is not locked yet, and remove it as the file of an ended process.
    pub(super) fn for_this_process(store: &Path) -> io::Result<Arc<Self>> {
        let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|(_, owner)| owner.strong_count() > 0);
        // If the owner's file was deleted, for example with its folder, other processes would take
        // this process for an ended one. Then a new owner is created.
        let mut ours = owners
            .iter()
            .filter(|(path, _)| path == store)
            .filter_map(|(_, owner)| owner.upgrade());
        if let Some(owner) = ours.find(|owner| owner.file.replaced().is_none()) {
            return Ok(owner);
        }
        sweep(store);
        let id = format!("{}-{:016x}", process::id(), fastrand::u64(..));
        let path = file(store, &id);
        let lock = private(File::options().write(true).create_new(true)).open(&path)?;
        // The new file has a random name, so no other process competes for the lock.
        FileExt::lock(&lock)?;
        let owner = Arc::new(Self { id, file: OpenFiles::one(path.clone()), path, _lock: lock });
        owners.push((store.to_owned(), Arc::downgrade(&owner)));
        Ok(owner)
    }

    /// Returns the owner for this process, if the process has had runs of the store open.
    pub(super) fn existing(store: &Path) -> Option<Arc<Self>> {
        let owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
        owners.iter().find(|(path, _)| path == store).and_then(|(_, owner)| owner.upgrade())
    }

    /// The id that the store records.
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for ProcessOwner {
    fn drop(&mut self) {
        // If this fails, the next process removes the file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns a description of the owner's process if it is alive.
pub(super) fn alive(store: &Path, id: &str) -> io::Result<Option<String>> {
    let alive = is_locked(&file(store, id))?;
    let number = id.split('-').next().unwrap_or(id);
    Ok(alive.then(|| format!("process {number}")))
}

/// Returns true if a process holds the lock on a file. Removes the file if no process holds it.
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

/// Removes the files of ended processes. Files that cannot be opened are skipped; they do no harm.
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

    use super::{ProcessOwner, alive};

    #[test]
    fn a_process_whose_file_was_deleted_gets_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("runs.db");
        let first = ProcessOwner::for_this_process(&store).unwrap();
        assert!(Arc::ptr_eq(&first, &ProcessOwner::for_this_process(&store).unwrap()));
        fs::remove_file(&first.path).unwrap();
        let second = ProcessOwner::for_this_process(&store).unwrap();
        assert_ne!(first.id(), second.id());
        assert_eq!(alive(&store, first.id()).unwrap(), None);
        assert_eq!(
            alive(&store, second.id()).unwrap(),
            Some(format!("process {}", std::process::id()))
        );
        drop(first);
        assert!(Arc::ptr_eq(&second, &ProcessOwner::for_this_process(&store).unwrap()));
    }
}
