//! Records which run refers to which artifact. Small artifacts are in the tables, large artifacts
//! are files (`artifact_folder.rs`).
//!
//! A file exists before the commit that refers to it, and is removed after the commit that deletes
//! its last reference. In between, a row of `loose_files` names the file, so that files left by a
//! crash are found without listing the folder. Files are renamed and removed only within a write
//! transaction. All processes together have at most one write transaction at a time, so no process
//! removes a file that another process has just found.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentflow_core::__private::sha256;
use agentflow_core::event::RunId;
use agentflow_core::store::{Epoch, StoreError, StoreErrorKind};
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::artifact_folder::{ArtifactFolder, FileHash, Found, NewFile};
use super::owner::ProcessOwner;
use super::row::number;
use super::sqlite_error::{Failed, StoreErrors};
use super::tables::Tables;
use super::writer::AbandonedPolicy;

/// The report of [`SqliteStore::check_artifacts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArtifactCheck {
    /// Number of files with the saved content.
    pub whole: u64,
    /// Files that a run refers to and that do not exist.
    pub missing: Vec<PathBuf>,
    /// Files that a run refers to and whose content has changed.
    pub damaged: Vec<PathBuf>,
    /// Number of removed files, to which no run referred.
    pub removed: u64,
}

/// The contribution of a writer to the commit of a file.
enum Brought {
    /// The file existed and had the saved content.
    Nothing,
    File(NewFile),
}

impl SqliteStore {
    /// Stores an artifact in a file. If the future is dropped, at most a row remains that names a
    /// possible file.
    pub(super) async fn put_file(
        &self,
        run: &RunId,
        epoch: Epoch,
        hash: FileHash,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        let (id, announced) = (run.clone(), hash.clone());
        let writer =
            self.on_writer(move |tables| tables.announce_file(&id, epoch, &announced)).await?;
        let kept = self.write_and_commit_file(run, epoch, &hash, &writer, bytes).await;
        if kept.is_err() {
            // The file may have been renamed before the transaction failed.
            let _ = self.on_writer(move |tables| tables.mark_file_loose(&hash, &writer)).await;
        }
        kept
    }

    async fn write_and_commit_file(
        &self,
        run: &RunId,
        epoch: Epoch,
        hash: &FileHash,
        writer: &Arc<str>,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        let size = bytes.len() as u64;
        let mut may_be_there = true;
        loop {
            let (bytes, hash, writer, look) =
                (Arc::clone(&bytes), hash.clone(), Arc::clone(writer), may_be_there);
            // The file is written on a reading thread, so that the writer does not wait for the
            // disk.
            let (at, name) = (hash.clone(), Arc::clone(&writer));
            let brought = self
                .read_with(move |_, errors| {
                    let folder = ArtifactFolder::for_store(errors.path());
                    match look && folder.has(&at, size) {
                        true => Ok(Brought::Nothing),
                        false => folder.write(&name, &at, &bytes).map(Brought::File),
                    }
                })
                .await?;
            let id = run.clone();
            let kept = move |tables: &mut Tables| {
                tables.keep_file(&id, epoch, &hash, &writer, size, &brought)
            };
            if self.on_writer(kept).await? {
                return Ok(());
            }
            // The run that referred to the file was deleted, and the file with it. Write the file
            // again.
            may_be_there = false;
        }
    }

    /// Removes the files that are listed as loose and to which no run refers. A file that cannot be
    /// removed is tried again later.
    pub(super) async fn collect_files(&self) {
        if let Err(error) = self.on_writer(Tables::collect_files).await {
            tracing::warn!(%error, "files of artifacts that no run has any more could not be removed");
        }
    }

    /// Executes an operation on the writer's thread, after the operations that are already queued.
    /// It may wait for files there.
    async fn on_writer<T: Send + 'static>(
        &self,
        act: impl FnMut(&mut Tables) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.writer.submit(None, AbandonedPolicy::Done, act).await
    }

    /// Reads all artifact files, compares them with the saved hashes, and removes files that no run
    /// refers to.
    ///
    /// A crash, or a file that could not be removed, leaves unreferenced files. The store removes
    /// those that it knows of when it is opened and when a run with artifacts is deleted, so
    /// calling this function is optional. Runs may be executed during the check.
    ///
    /// # Errors
    /// `io` if a folder or a file cannot be read or removed, `locked` if runs are being deleted at
    /// the same time, and the errors of reading a [`Store`](agentflow_core::store::Store).
    pub async fn check_artifacts(&self) -> Result<ArtifactCheck, StoreError> {
        // The files are listed before the references are read. A file that is added later is not in
        // the list, so it cannot be removed by mistake.
        let folder = ArtifactFolder::for_store(self.path());
        let (found, writers) = self.read_with(move |_, _| folder.list()).await?;
        let mut check = self.read_with(verify).await?;
        check.removed =
            self.on_writer(move |tables| tables.remove_unknown(&found, &writers)).await?;
        Ok(check)
    }
}

fn verify(connection: &Connection, errors: &StoreErrors) -> Result<ArtifactCheck, StoreError> {
    let sql = |error| errors.sql(error);
    let folder = ArtifactFolder::for_store(errors.path());
    let mut select = connection
        .prepare_cached("SELECT DISTINCT sha256, size FROM artifact_files")
        .map_err(sql)?;
    let files: Vec<(String, i64)> = select
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(sql)?;
    let mut check = ArtifactCheck::default();
    for (hash, size) in files {
        let hash = hash_in(&hash, errors)?;
        match folder.read(&hash, size.unsigned_abs())? {
            Found::Bytes(_) => check.whole += 1,
            // The run may have been deleted after the rows were read.
            Found::Missing(_) if !is_referred_to(connection, &hash).map_err(sql)? => {}
            Found::Missing(_) => check.missing.push(folder.file(&hash)),
            Found::Damaged(_) => check.damaged.push(folder.file(&hash)),
        }
    }
    Ok(check)
}

fn is_referred_to(connection: &Connection, hash: &FileHash) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM artifact_files WHERE sha256 = ?1)")?
        .query_row([hash.as_str()], |row| row.get(0))
}

fn hash_in(text: &str, errors: &StoreErrors) -> Result<FileHash, StoreError> {
    FileHash::parse(text).ok_or_else(|| errors.damaged("a row about an artifact has no hash"))
}

/// Returns true if there may be files that no run refers to.
pub(super) fn has_loose_files(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM loose_files)", [], |row| row.get(0))
}

/// Returns the bytes of an artifact, after comparing them with the hash.
pub(super) fn artifact(
    connection: &Connection,
    errors: &StoreErrors,
    run: &RunId,
    hash: &str,
) -> Result<Option<Arc<[u8]>>, StoreError> {
    let found: Option<Vec<u8>> = connection
        .prepare_cached(
            "SELECT bytes FROM artifacts JOIN runs ON runs.key = artifacts.run WHERE runs.run_id = ?1 AND sha256 = ?2",
        )
        .and_then(|mut select| select.query_row([run.as_str(), hash], |row| row.get(0)).optional())
        .map_err(|error| errors.sql(error))?;
    match found {
        Some(bytes) if sha256(&bytes) != hash => {
            Err(errors
                .damaged(format_args!("an artifact of the run `{run}` is not as it was saved")))
        }
        None => in_file(connection, errors, run, hash),
        found => Ok(found.map(Arc::from)),
    }
}

fn in_file(
    connection: &Connection,
    errors: &StoreErrors,
    run: &RunId,
    hash: &str,
) -> Result<Option<Arc<[u8]>>, StoreError> {
    let size = || {
        let of_run = "SELECT size FROM artifact_files JOIN runs ON runs.key = artifact_files.run \
                      WHERE sha256 = ?2 AND runs.run_id = ?1";
        let select = connection.prepare_cached(of_run);
        let size = select.and_then(|mut select| {
            select.query_row([run.as_str(), hash], |row| row.get(0)).optional()
        });
        size.map(|size| size.map(i64::unsigned_abs)).map_err(|error| errors.sql(error))
    };
    let Some(saved) = size()? else { return Ok(None) };
    match ArtifactFolder::for_store(errors.path()).read(&hash_in(hash, errors)?, saved)? {
        Found::Bytes(bytes) => Ok(Some(bytes.into())),
        // The run may have been deleted in the meantime.
        Found::Missing(_) if size()?.is_none() => Ok(None),
        Found::Missing(error) | Found::Damaged(error) => Err(error),
    }
}

impl Tables {
    /// Stores bytes in the tables.
    pub(super) fn put_artifact(
        &mut self,
        run: &RunId,
        epoch: Epoch,
        hash: &str,
        bytes: &[u8],
    ) -> Result<(), Failed> {
        let key = self.writable_key(run, epoch)?;
        self.connection()
            .prepare_cached("INSERT INTO artifacts (run, sha256, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?
            .execute(params![key, hash, bytes])?;
        Ok(())
    }

    /// Records that a writer is about to add a file. Returns the id of the writer.
    fn announce_file(
        &mut self,
        run: &RunId,
        epoch: Epoch,
        hash: &FileHash,
    ) -> Result<Arc<str>, Failed> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        self.writable_key(run, epoch)?;
        let owner = self.owner()?;
        let writer = format!("{}-{}", owner.id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        self.connection()
            .prepare_cached("INSERT INTO loose_files (sha256, writer) VALUES (?1, ?2)")?
            .execute([hash.as_str(), &writer])?;
        Ok(writer.into())
    }

    /// Records that a run refers to a file. Returns false if the file no longer exists.
    fn keep_file(
        &mut self,
        run: &RunId,
        epoch: Epoch,
        hash: &FileHash,
        writer: &str,
        size: u64,
        brought: &Brought,
    ) -> Result<bool, Failed> {
        let key = self.writable_key(run, epoch)?;
        let folder = self.artifact_folder();
        match brought {
            Brought::File(file) => folder.keep(file, hash, size)?,
            Brought::Nothing if folder.has_entry(hash, size) => {}
            Brought::Nothing => return Ok(false),
        }
        self.connection()
            .prepare_cached(
                "INSERT INTO artifact_files (sha256, run, size) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?
            .execute(params![hash.as_str(), key, number(size)])?;
        self.delete_loose_row(hash.as_str(), writer)?;
        Ok(true)
    }

    fn delete_loose_row(&self, hash: &str, writer: &str) -> rusqlite::Result<()> {
        let sql = "DELETE FROM loose_files WHERE sha256 = ?1 AND writer = ?2";
        self.connection().prepare_cached(sql)?.execute([hash, writer]).map(drop)
    }

    /// Records that a writer failed: the file may or may not exist.
    fn mark_file_loose(&mut self, hash: &FileHash, writer: &str) -> Result<(), Failed> {
        self.delete_loose_row(hash.as_str(), writer)?;
        self.connection()
            .prepare_cached(
                "INSERT INTO loose_files (sha256, writer) VALUES (?1, '') ON CONFLICT DO NOTHING",
            )?
            .execute([hash.as_str()])?;
        Ok(())
    }

    /// Removes the references of a run to artifacts. Returns true if files may now be unreferenced.
    pub(super) fn remove_artifacts(&mut self, key: i64) -> rusqlite::Result<bool> {
        self.connection().prepare_cached("DELETE FROM artifacts WHERE run = ?1")?.execute([key])?;
        let loose = self
            .connection()
            .prepare_cached(
                "INSERT INTO loose_files (sha256, writer) SELECT sha256, '' FROM artifact_files WHERE run = ?1 \
                 ON CONFLICT DO NOTHING",
            )?
            .execute([key])?;
        let removed = self
            .connection()
            .prepare_cached("DELETE FROM artifact_files WHERE run = ?1")?
            .execute([key])?;
        // The files may only be removed after this transaction is committed.
        if removed > 0 {
            self.note_removed_files();
        }
        Ok(loose + removed > 0)
    }

    /// Removes the loose files that no run refers to, except those of writers in a living process.
    pub(super) fn collect_files(&mut self) -> Result<(), Failed> {
        // This transaction removed references. If it is rolled back, the references exist again, so
        // their files must not be removed before the commit.
        if self.has_removed_files() {
            return Ok(());
        }
        let loose: Vec<(String, String)> = self
            .connection()
            .prepare_cached("SELECT sha256, writer FROM loose_files")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let folder = self.artifact_folder();
        for (hash, writer) in loose {
            if self.is_writing(&writer)? {
                continue;
            }
            let unused = match FileHash::parse(&hash) {
                Some(hash) if !is_referred_to(self.connection(), &hash)? => Some(hash),
                _ => None,
            };
            let removed = unused
                .map_or(Ok(()), |hash| folder.remove(&hash))
                .and_then(|()| folder.remove_new(&writer));
            match removed {
                Ok(()) => self.delete_loose_row(&hash, &writer)?,
                Err(error) => {
                    tracing::warn!(%error, "a file that no run has any more is left until later");
                }
            }
        }
        Ok(())
    }

    /// Returns true if a writer belongs to a living process.
    fn is_writing(&mut self, writer: &str) -> Result<bool, Failed> {
        match writer.rsplit_once('-') {
            Some((owner, _)) => {
                match ProcessOwner::existing(self.errors().path()).filter(|own| own.id() == owner) {
                    Some(_) => Ok(true),
                    None => Ok(self.alive(owner)?.is_some()),
                }
            }
            None => Ok(false),
        }
    }

    /// Removes the files that no run refers to, and returns their number.
    fn remove_unknown(&mut self, found: &[FileHash], writers: &[String]) -> Result<u64, Failed> {
        if self.has_removed_files() {
            let text = "runs are being deleted; check again";
            return Err(StoreError::new(StoreErrorKind::Locked, text).into());
        }
        self.collect_files()?;
        let (folder, mut removed) = (self.artifact_folder(), 0);
        for hash in found {
            if !is_referred_to(self.connection(), hash)? && folder.exists(hash) {
                folder.remove(hash)?;
                removed += 1;
            }
        }
        for writer in writers {
            if !self.is_writing(writer)? {
                folder.remove_new(writer)?;
            }
        }
        Ok(removed)
    }

    fn artifact_folder(&self) -> ArtifactFolder {
        ArtifactFolder::for_store(self.errors().path())
    }
}
