//! State that outlives runs, accessed outside of runs: reads, sets and deletes the state of a user
//! or of the application.

use super::Runtime;
use crate::error::{Error, Result};
use crate::future::BoxFuture;
use crate::state::{StateKey, StateOwner, StateValue, StateValues};
use crate::store::StateWrite;

impl Runtime {
    /// Returns the state of a user: the values of `user:` keys in the runtime's store.
    ///
    /// # Errors
    /// If the runtime has no store, or the store does not support state or cannot be read.
    pub async fn user_state(&self, user: &str) -> Result<StateValues> {
        Ok(StateValues::kept(
            self.require_store()?.require_state()?.read_state(Some(user), None).await?,
        ))
    }

    /// Returns the state of the application: the values of `app:` keys in the runtime's store.
    ///
    /// # Errors
    /// As [`user_state`](Self::user_state).
    pub async fn app_state(&self) -> Result<StateValues> {
        Ok(StateValues::kept(self.require_store()?.require_state()?.read_state(None, None).await?))
    }

    /// Sets a `user:` key of a user outside of runs, or removes it with `None`. The last of several
    /// writes wins. A run that has read the key before keeps the value that it read.
    ///
    /// # Errors
    /// As [`user_state`](Self::user_state), and [`Error::State`] if the key is not a `user:` key,
    /// or the value cannot be encoded as JSON and decoded again.
    pub fn set_user_state<T: StateValue>(
        &self,
        user: &str,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'_, Result<()>> {
        self.set_lasting(StateOwner::User, Some(user), key, value)
    }

    /// Sets an `app:` key outside of runs, or removes it with `None`, like
    /// [`set_user_state`](Self::set_user_state).
    ///
    /// # Errors
    /// As [`set_user_state`](Self::set_user_state).
    pub fn set_app_state<T: StateValue>(
        &self,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'_, Result<()>> {
        self.set_lasting(StateOwner::App, None, key, value)
    }

    /// Deletes the state of a user. The journals of the user's runs are not affected; delete the
    /// runs to remove them.
    ///
    /// # Errors
    /// As [`user_state`](Self::user_state).
    pub async fn delete_user_state(&self, user: &str) -> Result<()> {
        let store = self.require_store()?;
        let state = store.require_state()?;
        let kept = state.read_state(Some(user), None).await?;
        let removed =
            kept.into_iter().map(|(key, _)| StateWrite::new(Some(user), &key, None)).collect();
        Ok(state.put_state(removed).await?)
    }

    /// Returns a boxed future whose type does not depend on `T`. Otherwise the compiler would
    /// report an error in `T` three times.
    fn set_lasting<T: StateValue>(
        &self,
        owner: StateOwner,
        user: Option<&str>,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'_, Result<()>> {
        let write = lasting_write(owner, user, key, value);
        Box::pin(async move {
            let write = write?;
            Ok(self.require_store()?.require_state()?.put_state(vec![write]).await?)
        })
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
    let encoded = encoded.map_err(|error| {
        problem(format!("the value does not survive its way through JSON: {error}"))
    })?;
    Ok(StateWrite::new(user, &key.to_string(), encoded))
}
