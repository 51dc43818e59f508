//! `Secret`: a key that is never shown, and the variables that keys are read from.

use std::fmt;

use async_trait::async_trait;

/// A key. It is never shown: neither by `Debug`, nor in events, logs or errors.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Where keys come from: the environment, a vault, a file. Asked before every call, so a key may change.
#[async_trait]
pub trait SecretProvider: Send + Sync {
    /// The key of a name such as `OPENAI_API_KEY`; `None` when there is none.
    async fn secret(&self, name: &str) -> Option<Secret>;
}

/// Keys from environment variables of the same name; an empty variable counts as none.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvSecrets;

#[async_trait]
impl SecretProvider for EnvSecrets {
    async fn secret(&self, name: &str) -> Option<Secret> {
        std::env::var(name).ok().filter(|key| !key.trim().is_empty()).map(|key| Secret::new(key.trim()))
    }
}
