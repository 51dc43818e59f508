//! The optional parts of [`PostgresStore`]: sessions, artifacts, state, messages and leases.

use std::sync::{Arc, Mutex, PoisonError};

use agentflow_core::event::RunId;
use agentflow_core::store::{
    ArtifactStore, Epoch, LeaseStore, MessageId, MessageStore, SessionFilter, SessionRecord,
    SessionStore, StateStore, StateWrite, StoreError, StoreErrorKind, StoreMessage,
};
use agentflow_core::value::Encoded;
use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::event_row::{check_key, check_size};
use super::postgres_error::Failed;
use super::state_rows::{self, StateRows};
use super::{PostgresStore, lease, message_rows, run_reads, run_writes, session_rows};

/// A value that an earlier attempt of a write has read. If its commit happened although the
/// connection was lost, the next attempt finds nothing.
#[derive(Clone)]
struct Earlier<T>(Arc<Mutex<Option<T>>>);

impl<T: Clone> Earlier<T> {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    fn set(&self, value: &T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(value.clone());
    }

    fn get(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl SessionStore for PostgresStore {
    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError> {
        let id = session.to_owned();
        self.read_with(move |session, errors| {
            let id = id.clone();
            async move { session_rows::find(&session, &errors, &id).await }
        })
        .await
    }

    async fn list_sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError> {
        let filter = Arc::new(filter);
        self.read_with(move |session, errors| {
            let filter = Arc::clone(&filter);
            async move { session_rows::list(&session, &errors, &filter).await }
        })
        .await
    }

    async fn delete_session(&self, session: &str) -> Result<u64, StoreError> {
        let (id, earlier) = (session.to_owned(), Earlier::new());
        self.write_with(move |context| {
            let (id, earlier) = (id.clone(), earlier.clone());
            async move {
                match session_rows::delete(&context.session, &id).await {
                    Ok(runs) => {
                        earlier.set(&runs);
                        Ok(runs)
                    }
                    Err(Failed::Refused(error))
                        if context.repeated && error.kind() == StoreErrorKind::NotFound =>
                    {
                        earlier.get().ok_or(Failed::Refused(error))
                    }
                    Err(error) => Err(error),
                }
            }
        })
        .await
    }
}

#[async_trait]
impl ArtifactStore for PostgresStore {
    async fn put_artifact(
        &self,
        run: &RunId,
        epoch: Epoch,
        sha256: &str,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        let what = format!("an artifact of the run `{run}`");
        check_size(bytes.len(), self.0.limits.event, what)?;
        check_key(sha256, "the hash of the artifact")?;
        let saved = Arc::new((run.clone(), sha256.to_owned(), bytes));
        self.write_with(move |context| {
            let saved = Arc::clone(&saved);
            async move {
                let (run, hash, bytes) = &*saved;
                run_writes::put_artifact(&context.session, run, epoch, hash, bytes).await
            }
        })
        .await
    }

    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        let (run, hash) = (run.clone(), sha256.to_owned());
        let found = self
            .read_with(move |session, errors| {
                let (run, hash) = (run.clone(), hash.clone());
                async move { run_reads::artifact(&session, &errors, &run, &hash).await }
            })
            .await?;
        Ok(found.map(Arc::from))
    }
}

#[async_trait]
impl StateStore for PostgresStore {
    async fn put_state(&self, writes: Vec<StateWrite>) -> Result<(), StoreError> {
        let rows = Arc::new(StateRows::encode(&writes, self.0.limits.event)?);
        self.write_with(move |context| {
            let rows = Arc::clone(&rows);
            async move { Ok(rows.write(&context.session).await?) }
        })
        .await
    }

    async fn read_state(
        &self,
        user: Option<&str>,
        key: Option<&str>,
    ) -> Result<Vec<(String, Encoded)>, StoreError> {
        let (user, key) = (user.map(ToOwned::to_owned), key.map(ToOwned::to_owned));
        self.read_with(move |session, errors| {
            let (user, key) = (user.clone(), key.clone());
            async move {
                state_rows::read(&session, &errors, user.as_deref(), key.as_deref()).await
            }
        })
        .await
    }
}

#[async_trait]
impl MessageStore for PostgresStore {
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        let what = format!("a message for the run `{run}`");
        check_size(message.len(), self.0.limits.event, what)?;
        let sent = Arc::new((run.clone(), message));
        self.write_with(move |context| {
            let sent = Arc::clone(&sent);
            async move { message_rows::send(context.borrow(), &sent.0, &sent.1).await }
        })
        .await
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        let id = run.clone();
        self.read_with(move |session, errors| {
            let id = id.clone();
            async move { message_rows::receive(&session, &errors, &id, epoch).await }
        })
        .await
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        let owner = Arc::clone(&self.0.owner);
        self.read_with(move |session, errors| {
            let owner = Arc::clone(&owner);
            async move { message_rows::inbox(&session, &errors, &owner).await }
        })
        .await
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.read_with(move |session, errors| async move {
            message_rows::outcome(&session, &errors, message).await
        })
        .await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        let earlier = Earlier::new();
        self.write_with(move |context| {
            let earlier = earlier.clone();
            async move {
                let found =
                    message_rows::withdraw(&context.session, &context.errors, message).await?;
                match found {
                    Some(outcome) => {
                        earlier.set(&outcome);
                        Ok(Some(outcome))
                    }
                    None => Ok(earlier.get()),
                }
            }
        })
        .await
    }

    /// Completes when this process is notified of a message. Otherwise after 1.5 seconds, or 500
    /// milliseconds while notifications may not arrive.
    fn message_sent(&self) -> Option<BoxFuture<'static, ()>> {
        Some(self.0.notices.message_sent())
    }
}

#[async_trait]
impl LeaseStore for PostgresStore {
    async fn holder(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let (run, own) = (run.clone(), Arc::clone(&self.0.owner));
        self.read_with(move |session, errors| {
            let (run, own) = (run.clone(), Arc::clone(&own));
            async move {
                let owner = message_rows::owner(&session, &errors, &run).await?;
                match owner.filter(|owner| **owner != *own) {
                    Some(owner) => Ok(lease::alive(&session, &owner).await?),
                    None => Ok(None),
                }
            }
        })
        .await
    }
}
