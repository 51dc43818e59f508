//! State that outlives runs, outside of any run: reading, setting and deleting what is kept of a user or of the application.

use std::sync::Arc;

use super::Runtime;
use crate::error::{Error, Result};
use crate::future::BoxFuture;
use crate::state::{StateKey, StateOwner, StateValue, StateValues};
use crate::store::{StateWrite, Store, StoreError};

impl Runtime {
    /// What is kept of a user in the runtime's store: the values of `user:` keys.
    ///
    /// # Errors
    /// When the runtime has no store, or it keeps no state or cannot be read.
    pub async fn user_state(&self, user: &str) -> Result<StateValues> {
        Ok(StateValues::kept(self.state_store()?.state(Some(user), None).await?))
    }

    /// What is kept of the application in the runtime's store: the values of `app:` keys.
    ///
    /// # Errors
    /// As [`user_state`](Self::user_state).
    pub async fn app_state(&self) -> Result<StateValues> {
        Ok(StateValues::kept(self.state_store()?.state(None, None).await?))
    }

    /// Sets a `user:` key of a user, or removes it with `None`, outside of any run. Of two that write one key the later one
    /// counts; a run that has read the key before sees what it read.
    ///
    /// # Errors
    /// As [`user_state`](Self::user_state), and [`Error::State`] when the key is not one of a user, or the value has no JSON
    /// form that gives it back.
    pub fn set_user_state<T: StateValue>(
        &self,
        user: &str,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'_, Result<()>> {
        self.set_lasting(StateOwner::User, Some(user), key, value)
    }

    /// Sets an `app:` key, or removes it with `None`, outside of any run; as [`set_user_state`](Self::set_user_state).
    ///
    /// # Errors
    /// As [`set_user_state`](Self::set_user_state).
    pub fn set_app_state<T: StateValue>(&self, key: &StateKey<T>, value: Option<&T>) -> BoxFuture<'_, Result<()>> {
        self.set_lasting(StateOwner::App, None, key, value)
    }

    /// Deletes all that is kept of a user; the journals of the user's runs are deleted with the runs.
    ///
    /// # Errors
    /// As [`user_state`](Self::user_state).
    pub async fn delete_user_state(&self, user: &str) -> Result<()> {
        let store = self.state_store()?;
        let kept = store.state(Some(user), None).await?;
        let removed = kept.into_iter().map(|(key, _)| StateWrite::new(Some(user), &key, None)).collect();
        Ok(store.put_state(removed).await?)
    }

    /// A future of no type of the value's: otherwise the compiler would report one mistake in it three times.
    fn set_lasting<T: StateValue>(
        &self,
        owner: StateOwner,
        user: Option<&str>,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'_, Result<()>> {
        let write = lasting_write(owner, user, key, value);
        Box::pin(async move { Ok(self.state_store()?.put_state(vec![write?]).await?) })
    }

    fn state_store(&self) -> Result<Arc<dyn Store>> {
        let store = self.require_store()?;
        if store.keeps_state() { Ok(store) } else { Err(StoreError::keeps_no_state().into()) }
    }
}

fn lasting_write<T: StateValue>(
    owner: StateOwner,
    user: Option<&str>,
    key: &StateKey<T>,
    value: Option<&T>,
) -> Result<StateWrite> {
    let problem = |problem: String| Error::State { key: key.to_string(), problem };
    if key.owner() != owner {
        let what = "its owner is another one; `set_user_state` sets `user:` keys, `set_app_state` `app:` keys, and a step \
                    all others";
        return Err(problem(what.to_owned()));
    }
    let encoded = value.map(T::encode).transpose();
    let encoded =
        encoded.map_err(|error| problem(format!("the value does not survive its way through JSON: {error}")))?;
    Ok(StateWrite::new(user, &key.to_string(), encoded))
}
