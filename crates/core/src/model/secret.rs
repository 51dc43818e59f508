//! [`Secret`]: an API key that is never displayed. [`SecretProvider`]: the source of keys.

use std::fmt;

use async_trait::async_trait;

/// An API key. It is never displayed: neither by `Debug`, nor in events, logs or errors.
///
/// ```
/// use agentflow::model::Secret;
///
/// let key = Secret::new("sk-1234");
/// assert_eq!(format!("{key:?}"), "Secret(..)");
/// assert_eq!(key.expose(), "sk-1234");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Returns the key, for the code that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Source of API keys: the environment, a vault, a file. It is called before every model call, so a
/// key may change.
#[async_trait]
pub trait SecretProvider: Send + Sync {
    /// Returns the key with a name such as `OPENAI_API_KEY`; `None` if it does not exist.
    async fn secret(&self, name: &str) -> Option<Secret>;
}

/// Reads keys from environment variables with the same name. An empty variable counts as missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvSecrets;

#[async_trait]
impl SecretProvider for EnvSecrets {
    async fn secret(&self, name: &str) -> Option<Secret> {
        std::env::var(name)
            .ok()
            .filter(|key| !key.trim().is_empty())
            .map(|key| Secret::new(key.trim()))
    }
}
