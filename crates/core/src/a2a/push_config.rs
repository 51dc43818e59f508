//! `A2aPushConfig`: where a server notifies its client of a task's changes, and how it says who it is there. It sends
//! nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::lenient;

/// Where a client is notified of the changes of a task: each is a `POST` of one [`A2aUpdate`](super::A2aUpdate) to an address.
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
    /// Its id, within the task. Without one the server chooses it.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The task. A client leaves it out where the request says it.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The address that is notified.
    #[serde(deserialize_with = "lenient::named")]
    pub url: String,
    /// What the server sends as `X-A2A-Notification-Token`, so that the client knows whose notification it is.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What the server sends as `Authorization`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<A2aPushAuthentication>,
}

/// How a server says who it is to the address that it notifies: `Authorization: SCHEME CREDENTIALS`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct A2aPushAuthentication {
    /// The scheme, such as `Bearer`.
    #[serde(deserialize_with = "lenient::named")]
    pub scheme: String,
    /// The credentials. A server does not give them back.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
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
    /// What the next page is asked for by; empty on the last one.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

impl A2aPushConfig {
    /// An address that is notified, of an `https:` URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self { id: None, task_id: None, url: url.into(), token: None, authentication: None }
    }

    /// Gives it an id: one that the task has already is replaced.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Has each notification carry a token as `X-A2A-Notification-Token`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Has each notification carry `Authorization: SCHEME CREDENTIALS`.
    #[must_use]
    pub fn authentication(mut self, scheme: impl Into<String>, credentials: impl Into<String>) -> Self {
        let credentials = Some(credentials.into());
        self.authentication = Some(A2aPushAuthentication { scheme: scheme.into(), credentials });
        self
    }
}

/// A secret that is there, as its place.
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
