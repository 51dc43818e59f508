//! State that outlives runs, accessed outside of runs: reads, sets and deletes the state of a user
//! or of the application.

use crate::error::{Error, Result};
use crate::future::BoxFuture;
use crate::runtime::Runtime;
use crate::state::{StateKey, StateOwner, StateValue, StateValues};
use crate::store::StateWrite;

/// The state of users and of the application in the store of a runtime, returned by
/// [`Runtime::persistent_state`].
///
/// # Cancel safety
/// If the future of a method that writes is dropped, either all or none of its changes are made.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the state"]
pub struct PersistentState<'a>(pub(super) &'a Runtime);

impl<'a> PersistentState<'a> {
    /// Returns the state of a user: the values of `user:` keys in the runtime's store.
    ///
    /// # Errors
    /// If the runtime has no store, or the store does not support state or cannot be read.
    #[doc(alias = "user_state")]
    pub async fn user(self, user: &str) -> Result<StateValues> {
        let store = self.0.require_store()?;
        Ok(StateValues::kept(store.require_state()?.read_state(Some(user), None).await?))
    }

    /// Returns the state of the application: the values of `app:` keys in the runtime's store.
    ///
    /// # Errors
    /// As [`user`](Self::user).
    #[doc(alias = "app_state")]
    pub async fn app(self) -> Result<StateValues> {
        let store = self.0.require_store()?;
        Ok(StateValues::kept(store.require_state()?.read_state(None, None).await?))
    }

    /// Sets a `user:` key of a user outside of runs, or removes it with `None`. The last of several
    /// writes wins. A run that has read the key before keeps the value that it read.
    ///
    /// # Errors
    /// As [`user`](Self::user), and [`Error::State`] if the key is not a `user:` key,
    /// or the value cannot be encoded as JSON and decoded again.
    #[doc(alias = "set_user_state")]
    pub fn set_user<T: StateValue>(
        self,
        user: &str,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'a, Result<()>> {
        self.set_value(StateOwner::User, Some(user), key, value)
    }

    /// Sets an `app:` key outside of runs, or removes it with `None`, like
    /// [`set_user`](Self::set_user).
    ///
    /// # Errors
    /// As [`set_user`](Self::set_user).
    #[doc(alias = "set_app_state")]
    pub fn set_app<T: StateValue>(
        self,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'a, Result<()>> {
        self.set_value(StateOwner::App, None, key, value)
    }

    /// Deletes the state of a user. The journals of the user's runs are not affected; delete the
    /// runs to remove them.
    ///
    /// # Errors
    /// As [`user`](Self::user).
    #[doc(alias = "delete_user_state")]
    pub async fn delete_user(self, user: &str) -> Result<()> {
        let store = self.0.require_store()?;
        let state = store.require_state()?;
        let kept = state.read_state(Some(user), None).await?;
        let removed =
            kept.into_iter().map(|(key, _)| StateWrite::new(Some(user), &key, None)).collect();
        Ok(state.put_state(removed).await?)
    }

    /// Returns a boxed future whose type does not depend on `T`. Otherwise the compiler would
    /// report an error in `T` three times.
    fn set_value<T: StateValue>(
        self,
        owner: StateOwner,
        user: Option<&str>,
        key: &StateKey<T>,
        value: Option<&T>,
    ) -> BoxFuture<'a, Result<()>> {
        let write = lasting_write(owner, user, key, value);
        Box::pin(async move {
            let write = write?;
            Ok(self.0.require_store()?.require_state()?.put_state(vec![write]).await?)
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
        let what = "its owner is another one; `set_user` sets `user:` keys, `set_app` `app:` keys, and a step \
                    all others";
        return Err(problem(what.to_owned()));
    }
    let encoded = value.map(T::encode).transpose();
    let encoded = encoded.map_err(|error| {
        problem(format!("the value does not survive its way through JSON: {error}"))
    })?;
    Ok(StateWrite::new(user, &key.to_string(), encoded))
}
