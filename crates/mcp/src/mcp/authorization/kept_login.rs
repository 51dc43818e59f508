//! `McpLogins`: the interface of stores for logins, and the stored form of a login. The whole login
//! is a secret and is never shown.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::client_identity::ClientIdentity;
use agentflow_core::model::Secret;

/// A store for the logins of servers, such as a keychain or a database table.
/// [`McpLoginFolder`](super::McpLoginFolder) stores them in files. By default they are in memory,
/// for the lifetime of the client.
///
/// A store belongs to a single person, or to one program if the program itself logs in: each user of a
/// store can use its logins. A login is valid only for the client that it was made with.
///
/// A login is one text that only this library reads. It contains tokens, so protect it like a
/// password. It is saved on each change. Authorization servers issue a new refresh token with each
/// renewal and may then refuse the previous one.
#[async_trait]
pub trait McpLogins: Send + Sync {
    /// Returns the login of a server, or `None` if it has no login. `server` is the server's
    /// address. Called before the first connection to a server, before a login is renewed, and when
    /// the server refuses a login, because another process may have replaced or removed it.
    ///
    /// # Errors
    /// Fails if the store cannot be read. The request of the caller fails with this error.
    async fn load(&self, server: &str) -> io::Result<Option<Secret>>;

    /// Stores the login of a server and replaces the previous one. `None` removes it. `server` is
    /// the server's address.
    ///
    /// # Errors
    /// Fails if the store cannot be written. A warning is logged, and the login is still used for
    /// the lifetime of the client.
    async fn save(&self, server: &str, login: Option<&Secret>) -> io::Result<()>;

    /// Waits until no other process has locked the login of a server, and locks it until the
    /// returned value is dropped. The lock is held while a login is read again, renewed and saved,
    /// or removed. If two processes renew at the same time, one uses the refresh token and the
    /// other one finds the new tokens.
    ///
    /// A store that several processes share must lock across processes. An implementation should
    /// give up after a long wait. The default implementation does not lock, which is sufficient for
    /// a store with one client.
    ///
    /// # Errors
    /// Fails if the login cannot be locked. A warning is logged, and the login is renewed or
    /// removed without the lock.
    ///
    /// # Cancel safety
    /// Dropping the future must end the wait.
    async fn lock(&self, server: &str) -> io::Result<Box<dyn Send>> {
        let _ = server;
        Ok(Box::new(()))
    }
}

/// Logins and their locks in memory.
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
        let lock = Arc::clone(
            self.locks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(server.to_owned())
                .or_default(),
        );
        Ok(Box::new(lock.lock_owned().await))
    }
}

/// Version of the stored form.
const VERSION: u32 = 1;

/// A stored login. It contains tokens and has no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    pub(super) version: u32,
    /// Address of the server. The token is sent only to this server.
    pub(super) server: String,
    /// `true` if the program itself logged in, not a person.
    #[serde(default)]
    pub(super) is_of_client: bool,
    pub(super) issuer: String,
    pub(super) resource: String,
    pub(super) token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: ClientIdentity,
    /// Scopes that were requested.
    pub(super) scopes: Vec<String>,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// Time at which the login should be renewed, in milliseconds since the Unix epoch. `None` if
    /// the authorization server gave no expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) renew_at: Option<u64>,
}

impl StoredLogin {
    pub(super) const VERSION: u32 = VERSION;

    pub(super) fn secret(&self) -> Secret {
        Secret::new(serde_json::to_string(self).unwrap_or_default())
    }

    /// Parses a login. Returns `None` if it belongs to another server or has a different version.
    pub(super) fn read(server: &str, text: &Secret) -> Option<Self> {
        let login: Self = serde_json::from_str(text.expose()).ok()?;
        (login.version == VERSION && login.server == server).then_some(login)
    }
}
