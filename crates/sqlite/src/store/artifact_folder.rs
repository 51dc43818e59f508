//! Stores large artifacts as files in a folder next to the database: `runs.db-artifacts/ab/cdef..`,
//! named by the SHA-256 of the bytes, and `runs.db-artifacts/new/` for files that are being
//! written.
//!
//! This module only handles files; `artifact_rows.rs` records which run refers to which file. No
//! path contains a name from user input, links are not followed, and only the user of the process
//! can read the files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentflow_core::__private::{private, sha256};
use agentflow_core::store::{StoreError, StoreErrorKind};

/// Name of the folder for files that are being written.
const NEW: &str = "new";

/// The SHA-256 of an artifact in a form that is safe in a path: 64 lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileHash(Arc<str>);

impl FileHash {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 64 && text.bytes().all(is_digit)).then(|| Self(text.into()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns true if a string is the id of a writer, which is a file name in `new/`: the id of the
/// process and a number.
fn is_writer(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 100
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[derive(Clone, Debug)]
pub(super) struct ArtifactFolder {
    path: Arc<Path>,
}

/// A file that is written and synced, but not yet renamed to its hash. Dropping it removes the
/// file.
#[derive(Debug)]
pub(super) struct NewFile(PathBuf);

impl Drop for NewFile {
    fn drop(&mut self) {
        // After a rename the file is no longer at this path. If the removal fails, the row in
        // `loose_files` still names the file, and a later cleanup removes it.
        let _ = fs::remove_file(&self.0);
    }
}

/// The result of reading the file of an artifact.
pub(super) enum Found {
    Bytes(Vec<u8>),
    Missing(StoreError),
    Damaged(StoreError),
}

impl ArtifactFolder {
    /// Returns the folder for the artifacts of a store's file.
    pub(super) fn for_store(store: &Path) -> Self {
        let mut path = store.as_os_str().to_owned();
        path.push("-artifacts");
        Self { path: PathBuf::from(path).into() }
    }

    pub(super) fn file(&self, hash: &FileHash) -> PathBuf {
        let (folder, name) = hash.0.split_at(2);
        self.path.join(folder).join(name)
    }

    /// Reads an artifact and verifies its size and its hash.
    pub(super) fn read(&self, hash: &FileHash, size: u64) -> Result<Found, StoreError> {
        let path = self.file(hash);
        let damaged = |what: &str| {
            let text = format!(
                "`{}`, the file of an artifact, {what}; nothing was changed; restore it from a backup, or save the artifact anew",
                path.display()
            );
            StoreError::new(StoreErrorKind::Damaged, text)
        };
        let file = match open(&path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(Found::Damaged(damaged("is a link or a folder and not a file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Found::Missing(damaged("is not there").caused_by(error)));
            }
            Err(error) => return Err(failed(&path, "be read", error)),
        };
        let length = file.metadata().map_err(|error| failed(&path, "be read", error))?.len();
        if length != size {
            return Ok(Found::Damaged(damaged(&format!(
                "has {length} bytes in the place of {size}"
            ))));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        // The file may grow while it is read.
        file.take(size + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| failed(&path, "be read", error))?;
        match sha256(&bytes) == hash.as_str() {
            true => Ok(Found::Bytes(bytes)),
            false => Ok(Found::Damaged(damaged("is not as it was saved"))),
        }
    }

    /// Returns true if the file exists and has the saved content.
    pub(super) fn has(&self, hash: &FileHash, size: u64) -> bool {
        matches!(self.read(hash, size), Ok(Found::Bytes(_)))
    }

    /// Returns true if a file of this size exists. This only reads the folder entry and not the
    /// content.
    pub(super) fn has_entry(&self, hash: &FileHash, size: u64) -> bool {
        fs::symlink_metadata(self.file(hash))
            .is_ok_and(|entry| entry.is_file() && entry.len() == size)
    }

    /// Returns true if any file or folder exists at the path of a hash.
    pub(super) fn exists(&self, hash: &FileHash) -> bool {
        fs::symlink_metadata(self.file(hash)).is_ok()
    }

    /// Writes bytes to a new file that belongs to one writer, and waits until the disk has them.
    pub(super) fn write(
        &self,
        writer: &str,
        hash: &FileHash,
        bytes: &[u8],
    ) -> Result<NewFile, StoreError> {
        let new = self.path.join(NEW);
        let place = self.file(hash);
        for folder in [&*self.path, &new, place.parent().unwrap_or(&self.path)] {
            make_folder(folder).map_err(|error| failed(folder, "be made", error))?;
        }
        let path = new.join(writer);
        let mut file = private(OpenOptions::new().write(true).create_new(true))
            .open(&path)
            .map_err(|error| failed(&path, "be made", error))?;
        let written = NewFile(path);
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(|error| failed(&written.0, "be written", error))?;
        Ok(written)
    }

    /// Renames a written file to its hash, and waits until the disk has the new name. Repeating the
    /// call changes nothing.
    pub(super) fn keep(
        &self,
        file: &NewFile,
        hash: &FileHash,
        size: u64,
    ) -> Result<(), StoreError> {
        let place = self.file(hash);
        match fs::rename(&file.0, &place) {
            Ok(()) => {}
            // A retried transaction has already renamed the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.has_entry(hash, size) => {
            }
            Err(error) => return Err(failed(&place, "be made", error)),
        }
        let folder = place.parent().unwrap_or(&self.path);
        sync_folder(folder).map_err(|error| failed(folder, "be written", error))
    }

    /// Removes the file of a hash, if it exists.
    pub(super) fn remove(&self, hash: &FileHash) -> Result<(), StoreError> {
        remove(&self.file(hash))
    }

    /// Removes the unfinished file of a writer.
    pub(super) fn remove_new(&self, writer: &str) -> Result<(), StoreError> {
        match is_writer(writer) {
            true => remove(&self.path.join(NEW).join(writer)),
            false => Ok(()),
        }
    }

    /// Lists the hashes of all files, and the writers of unfinished files. Ignores files with other
    /// names, which do not belong to the store.
    pub(super) fn list(&self) -> Result<(Vec<FileHash>, Vec<String>), StoreError> {
        let names = |folder: &Path| -> Result<Vec<String>, StoreError> {
            let entries = match fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(failed(folder, "be read", error)),
            };
            Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        };
        let (mut hashes, mut writers) = (Vec::new(), Vec::new());
        for folder in names(&self.path)? {
            let path = self.path.join(&folder);
            if folder == NEW {
                writers.extend(names(&path)?.into_iter().filter(|name| is_writer(name)));
            } else if folder.len() == 2 && is_folder(&path) {
                hashes.extend(
                    names(&path)?
                        .iter()
                        .filter_map(|name| FileHash::parse(&format!("{folder}{name}"))),
                );
            }
        }
        Ok((hashes, writers))
    }
}

fn failed(path: &Path, what: &str, error: io::Error) -> StoreError {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let path = path.display();
    let (kind, text) = match error.kind() {
        StorageFull | QuotaExceeded => (
            StoreErrorKind::Full,
            format!(
                "there is no room left for `{path}`, the file of an artifact; it was not saved; make room, then resume the run"
            ),
        ),
        _ => (
            StoreErrorKind::Io,
            format!(
                "`{path}`, where artifacts are, cannot {what} ({error}); check that this user may read and write it"
            ),
        ),
    };
    StoreError::new(kind, text).caused_by(error)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed(path, "be removed", error))
        }
        _ => Ok(()),
    }
}

/// Returns true for a folder, and false for a link to a folder.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|entry| entry.is_dir())
}

/// Creates a folder that only this user may read, if it does not exist.
fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Ok(()) => sync_folder(path.parent().unwrap_or(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match is_folder(path) {
            true => Ok(()),
            false => Err(io::Error::other("it is a link or a file and not a folder")),
        },
        Err(error) => Err(error),
    }
}

/// Opens a regular file. Returns `None` for a link, for a folder, and if a parent folder is a link.
fn open(path: &Path) -> io::Result<Option<File>> {
    if !fs::symlink_metadata(path)?.is_file() || !path.ancestors().skip(1).take(2).all(is_folder) {
        return Ok(None);
    }
    File::open(path).map(Some)
}

/// Waits until the disk has the entries of a folder.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Does nothing: outside Unix a folder cannot be opened, and the file system keeps its entries in
/// order.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps)]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}
