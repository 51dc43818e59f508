//! `A2aCard`: what an agent says of itself. It fetches none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{A2A_VERSION, lenient};

/// The card of an agent, `/.well-known/agent-card.json`: who it is, where it is spoken with, what it can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aCard {
    /// Its name.
    #[serde(deserialize_with = "lenient::named")]
    pub name: String,
    /// The agent's purpose; empty if the card has none, as that of AG2.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub description: String,
    /// Where it is spoken with, in the order that it prefers.
    pub supported_interfaces: Vec<A2aInterface>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<A2aProvider>,
    /// The version of the agent itself; empty if the card has none.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub version: String,
    /// Where its documentation is.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// Which optional parts of the protocol it has.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub capabilities: A2aCapabilities,
    /// How a client may say who it is, as the card has it.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, Value>,
    /// Which of these it asks for, as the card has it.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<Value>,
    /// The media types that it reads.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub default_input_modes: Vec<String>,
    /// The media types that it writes.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub default_output_modes: Vec<String>,
    /// What it can do.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub skills: Vec<A2aSkill>,
    /// Signatures of the card, as it has them. They are not verified.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<Value>,
    /// Where its picture is.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// One place where an agent is spoken with, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aInterface {
    /// The address.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC` or another one.
    pub protocol_binding: String,
    /// What requests say of whom they are for, where the address serves several.
    #[serde(default, deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The version of the protocol, such as `1.0`.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub protocol_version: String,
}

impl A2aInterface {
    /// An interface of the version that is spoken here.
    pub fn new(url: impl Into<String>, binding: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            protocol_binding: binding.into(),
            tenant: None,
            protocol_version: A2A_VERSION.to_owned(),
        }
    }
}

/// Who runs an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct A2aProvider {
    /// The address of whoever runs it.
    pub url: String,
    /// The name of whoever runs it.
    pub organization: String,
}

/// Which optional parts of the protocol an agent has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct A2aCapabilities {
    /// Whether it streams.
    #[serde(deserialize_with = "lenient::or_default")]
    pub streaming: bool,
    /// Whether it sends push notifications.
    #[serde(deserialize_with = "lenient::or_default")]
    pub push_notifications: bool,
    /// Extensions of the protocol that it has.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<A2aExtension>,
    /// Whether it has another card for clients that it knows.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "lenient::is_false")]
    pub extended_agent_card: bool,
}

/// An extension of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct A2aExtension {
    /// Its name, an address.
    #[serde(deserialize_with = "lenient::or_default")]
    pub uri: String,
    /// How the agent uses it.
    #[serde(deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a client must know it.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "lenient::is_false")]
    pub required: bool,
    /// Its own settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// Something that an agent can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aSkill {
    /// Its id, within the agent.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub description: String,
    /// Words that it is found by.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub tags: Vec<String>,
    /// What one may ask.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The media types that it reads, where they are others than the agent's.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// The media types that it writes, where they are others than the agent's.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// Which ways to say who one is it asks for, as the card has it.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<Value>,
}

impl A2aSkill {
    /// A skill.
    pub fn new(id: impl Into<String>, name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            tags: Vec::new(),
            examples: Vec::new(),
            input_modes: Vec::new(),
            output_modes: Vec::new(),
            security_requirements: Vec::new(),
        }
    }

    /// Adds words that it is found by.
    #[must_use]
    pub fn tags<S: Into<String>>(mut self, tags: impl IntoIterator<Item = S>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }
}
