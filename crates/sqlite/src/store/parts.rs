//! The optional parts of [`SqliteStore`]: sessions, artifacts, durable state, messages and leases.

use std::sync::Arc;

use agentflow_core::event::RunId;
use agentflow_core::store::{
    ArtifactStore, Epoch, LeaseStore, MessageId, MessageStore, SessionFilter, SessionRecord,
    SessionStore, StateStore, StateWrite, StoreError, StoreMessage,
};
use agentflow_core::value::Encoded;
use async_trait::async_trait;

use super::artifact_folder::FileHash;
use super::owner::ProcessOwner;
use super::writer::AbandonedPolicy;
use super::{SqliteStore, artifact_rows, reader, row, session_rows, tables};

#[async_trait]
impl SessionStore for SqliteStore {
    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError> {
        let session = session.to_owned();
        self.read_with(move |connection, errors| {
            session_rows::session(connection, errors, &session)
        })
        .await
    }

    async fn list_sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError> {
        self.read_with(move |connection, errors| {
            session_rows::sessions(connection, errors, &filter)
        })
        .await
    }

    async fn delete_session(&self, session: &str) -> Result<u64, StoreError> {
        let session = session.to_owned();
        let (runs, loose) = self
            .0
            .writer
            .submit(None, AbandonedPolicy::Done, move |tables| tables.delete_session(&session))
            .await?;
        if loose {
            self.collect_files().await;
        }
        Ok(runs)
    }
}

#[async_trait]
impl ArtifactStore for SqliteStore {
    async fn put_artifact(
        &self,
        run: &RunId,
        epoch: Epoch,
        sha256: &str,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        // Only a valid hash may become a part of a path. Other names are stored in the tables.
        if let Some(hash) =
            FileHash::parse(sha256).filter(|_| bytes.len() as u64 > self.0.limits.artifact)
        {
            return self.put_file(run, epoch, hash, bytes).await;
        }
        row::check_size(
            bytes.len(),
            self.0.limits.event,
            format_args!("an artifact of the run `{run}`"),
        )?;
        let (id, sha256) = (run.clone(), sha256.to_owned());
        self.write(run, move |tables| tables.put_artifact(&id, epoch, &sha256, &bytes)).await
    }

    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        let (run, sha256) = (run.clone(), sha256.to_owned());
        self.read_with(move |connection, errors| {
            artifact_rows::artifact(connection, errors, &run, &sha256)
        })
        .await
    }
}

#[async_trait]
impl StateStore for SqliteStore {
    async fn put_state(&self, writes: Vec<StateWrite>) -> Result<(), StoreError> {
        let size =
            |write: &StateWrite| write.value.as_ref().map_or(0, |value| value.as_str().len());
        let largest = writes.iter().map(size).max().unwrap_or_default();
        row::check_size(largest, self.0.limits.event, format_args!("a value"))?;
        self.0
            .writer
            .submit(None, AbandonedPolicy::Done, move |tables| Ok(tables.put_state(&writes)?))
            .await
    }

    async fn read_state(
        &self,
        user: Option<&str>,
        key: Option<&str>,
    ) -> Result<Vec<(String, Encoded)>, StoreError> {
        let (owner, key) = (tables::owner_of_state(user), key.map(ToOwned::to_owned));
        self.read_with(move |connection, errors| {
            reader::state(connection, errors, &owner, key.as_deref())
        })
        .await
    }
}

#[async_trait]
impl MessageStore for SqliteStore {
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        row::check_size(
            message.len(),
            self.0.limits.event,
            format_args!("a message for the run `{run}`"),
        )?;
        let id = run.clone();
        self.write(run, move |tables| tables.send(&id, &message)).await
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        let id = run.clone();
        self.write(run, move |tables| tables.receive(&id, epoch)).await
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        // A process that never opened a run receives no messages.
        let Some(owner) = ProcessOwner::existing(self.path()) else { return Ok(Vec::new()) };
        self.read_with(move |connection, errors| reader::inbox(connection, errors, owner.id()))
            .await
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.read_with(move |connection, errors| reader::outcome(connection, errors, message)).await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.0
            .writer
            .submit(None, AbandonedPolicy::Done, move |tables| tables.withdraw(message))
            .await
    }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn holder(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let id = run.clone();
        // Only within a write transaction does an unlocked owner file prove that its process has
        // ended.
        self.write(run, move |tables| tables.holder(&id)).await
    }
}
