//! `A2aPushConfig`: the address to which a server sends the updates of a task, and the credentials
//! that it sends there.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::lenient;

/// A push configuration: the address that a server notifies of the changes of a task. Each
/// notification is a `POST` of one [`A2aUpdate`](super::A2aUpdate).
///
/// [`Debug`](fmt::Debug) shows neither the token nor the credentials.
///
/// ```
/// use agentflow::a2a::A2aPushConfig;
///
/// let config = A2aPushConfig::new("https://client.example/hook").token("0f3a");
/// assert!(!format!("{config:?}").contains("0f3a"));
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aPushConfig {
    /// Identifier, unique within the task. If it is missing, the server chooses one.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub id: Option<String>,
    /// Identifier of the task. A client can leave it out if the request names the task.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_id: Option<String>,
    /// URL to notify.
    #[serde(deserialize_with = "lenient::named")]
    pub url: String,
    /// Token that the server sends as `X-A2A-Notification-Token`, so that the client can verify the
    /// origin of a notification.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub token: Option<String>,
    /// Credentials that the server sends as `Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<A2aPushAuthentication>,
}

/// Credentials for the notified address, sent as `Authorization: SCHEME CREDENTIALS`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct A2aPushAuthentication {
    /// Authentication scheme, such as `Bearer`.
    #[serde(deserialize_with = "lenient::named")]
    pub scheme: String,
    /// Credentials. A server never returns them.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub credentials: Option<String>,
}

/// A page of the push configurations of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct A2aPushConfigs {
    /// The configurations.
    #[serde(deserialize_with = "lenient::or_default")]
    pub configs: Vec<A2aPushConfig>,
    /// Token that requests the next page; empty on the last page.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

impl A2aPushConfig {
    /// Creates a configuration for an `https:` URL, without token and credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self { id: None, task_id: None, url: url.into(), token: None, authentication: None }
    }

    /// Sets the id. A configuration of the task with the same id is replaced.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the token that each notification carries as `X-A2A-Notification-Token`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the `Authorization: SCHEME CREDENTIALS` header of each notification.
    #[must_use]
    pub fn authentication(
        mut self,
        scheme: impl Into<String>,
        credentials: impl Into<String>,
    ) -> Self {
        let credentials = Some(credentials.into());
        self.authentication = Some(A2aPushAuthentication { scheme: scheme.into(), credentials });
        self
    }
}

/// Replaces a secret with `***`, so that its presence is visible.
fn hidden(secret: Option<&String>) -> Option<&'static str> {
    secret.map(|_| "***")
}

impl fmt::Debug for A2aPushConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, task_id, url: _, token, authentication } = self;
        f.debug_struct("A2aPushConfig")
            .field("id", id)
            .field("task_id", task_id)
            .field("token", &hidden(token.as_ref()))
            .field("authentication", authentication)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for A2aPushAuthentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("A2aPushAuthentication")
            .field("scheme", &self.scheme)
            .field("credentials", &hidden(self.credentials.as_ref()))
            .finish()
    }
}
