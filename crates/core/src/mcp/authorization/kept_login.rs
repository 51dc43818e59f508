//! `McpLogins`: where logins are kept, and the form of one. A login is a secret as a whole; nothing here shows it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::client_identity::ClientIdentity;
use crate::model::Secret;

/// Where the logins of servers are kept, such as a keychain or a table of a database; [`McpLoginFolder`](super::McpLoginFolder)
/// keeps them in files. Without one they are kept in memory, as long as the client is there.
///
/// One store is for one person, and for one program where the program itself logs in: whoever has it has their logins. A login
/// counts only for the client that it was made with.
///
/// A login is one text that only this library reads. It holds tokens, so keep it as a password is kept. It is saved whenever
/// it changes: authorization servers give another token each time that one is renewed, and may then refuse the one before.
#[async_trait]
pub trait McpLogins: Send + Sync {
    /// The login of a server, if it has one. Asked before a server is first connected to, before a
    /// login is renewed, and when the server refuses it, since another process may have saved another or removed it.
    ///
    /// # Errors
    /// When nobody knows whether there is one. The request fails with it.
    async fn load(&self, server: &str) -> io::Result<Option<Secret>>;

    /// Keeps the login of a server in place of the one before; with `None` removes it. `server` is its address.
    ///
    /// # Errors
    /// When it cannot be kept. The login is used all the same, as long as the client is there, and a warning is logged.
    async fn save(&self, server: &str, login: Option<&Secret>) -> io::Result<()>;

    /// Waits until nobody else has the login of a server locked, and locks it until the value that it gives is dropped. Held while
    /// a login is read again, renewed and saved, or removed, so that of two processes one uses a refresh token and the other
    /// has what the first was given. A store that several processes have locks for all of them; one that waits long gives up,
    /// and dropping the future does, too. Default: nothing is locked, which is right for a store of one client.
    ///
    /// # Errors
    /// When it cannot be locked. A warning is logged, and the login is renewed or removed all the same.
    async fn lock(&self, server: &str) -> io::Result<Box<dyn Send>> {
        let _ = server;
        Ok(Box::new(()))
    }
}

/// Logins in memory, and who has one of them locked.
#[derive(Default)]
pub(super) struct InMemory {
    logins: Mutex<BTreeMap<String, Secret>>,
    locks: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

#[async_trait]
impl McpLogins for InMemory {
    async fn load(&self, server: &str) -> io::Result<Option<Secret>> {
        Ok(self.logins.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned())
    }

    async fn save(&self, server: &str, login: Option<&Secret>) -> io::Result<()> {
        let mut all = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        match login {
            Some(login) => all.insert(server.to_owned(), login.clone()),
            None => all.remove(server),
        };
        Ok(())
    }

    async fn lock(&self, server: &str) -> io::Result<Box<dyn Send>> {
        let lock =
            Arc::clone(self.locks.lock().unwrap_or_else(PoisonError::into_inner).entry(server.to_owned()).or_default());
        Ok(Box::new(lock.lock_owned().await))
    }
}

/// The form that is read here.
const VERSION: u32 = 1;

/// A login as it is kept. It has no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptLogin {
    pub(super) version: u32,
    /// The address of the server that the token is sent to, and to no other.
    pub(super) server: String,
    /// Whether the program itself logged in, and not a person.
    #[serde(default)]
    pub(super) is_of_client: bool,
    pub(super) issuer: String,
    pub(super) resource: String,
    pub(super) token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: ClientIdentity,
    /// The scopes that were asked for.
    pub(super) scopes: Vec<String>,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// When it is to be renewed, in milliseconds since the Unix epoch; unknown where the authorization server says no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) renew_at: Option<u64>,
}

impl KeptLogin {
    pub(super) const VERSION: u32 = VERSION;

    pub(super) fn secret(&self) -> Secret {
        Secret::new(serde_json::to_string(self).unwrap_or_default())
    }

    /// The login of a server; `None` for one of another server or of a later release.
    pub(super) fn read(server: &str, text: &Secret) -> Option<Self> {
        let login: Self = serde_json::from_str(text.expose()).ok()?;
        (login.version == VERSION && login.server == server).then_some(login)
    }
}
