//! `A2aCard`: the self-description of an agent, as the A2A protocol defines it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{A2A_VERSION, lenient};

/// The card of an agent, published at `/.well-known/agent-card.json`. It describes the agent, its
/// interfaces and its skills.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aCard {
    /// Name of the agent.
    #[serde(deserialize_with = "lenient::named")]
    pub name: String,
    /// Purpose of the agent; empty if the card has none (cards of AG2).
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub description: String,
    /// Interfaces of the agent, in the order of its preference.
    pub supported_interfaces: Vec<A2aInterface>,
    /// Operator of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<A2aProvider>,
    /// Version of the agent itself; empty if the card has none.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub version: String,
    /// URL of the documentation.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub documentation_url: Option<String>,
    /// Optional protocol features that the agent supports.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub capabilities: A2aCapabilities,
    /// Authentication schemes by name, in the JSON form of the card.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub security_schemes: BTreeMap<String, Value>,
    /// Required authentication schemes, in the JSON form of the card.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub security_requirements: Vec<Value>,
    /// Accepted media types.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub default_input_modes: Vec<String>,
    /// Media types of the output.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub default_output_modes: Vec<String>,
    /// Skills of the agent.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub skills: Vec<A2aSkill>,
    /// Signatures of the card, in its JSON form. They are not verified.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub signatures: Vec<Value>,
    /// URL of the icon.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub icon_url: Option<String>,
}

/// An endpoint of an agent, with the protocol binding that it uses.
///
/// ```
/// use agentflow::a2a::A2aInterface;
///
/// let interface = A2aInterface::new("https://agents.example/a2a", "JSONRPC");
/// assert_eq!(interface.url, "https://agents.example/a2a");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aInterface {
    /// URL of the endpoint.
    pub url: String,
    /// Protocol binding: `JSONRPC`, `HTTP+JSON`, `GRPC` or another name.
    pub protocol_binding: String,
    /// Tenant that requests must name, if several agents share the URL.
    #[serde(
        default,
        deserialize_with = "lenient::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub tenant: Option<String>,
    /// Version of the protocol, such as `1.0`.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub protocol_version: String,
}

impl A2aInterface {
    /// Creates an interface with the protocol version [`A2A_VERSION`].
    pub fn new(url: impl Into<String>, binding: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            protocol_binding: binding.into(),
            tenant: None,
            protocol_version: A2A_VERSION.to_owned(),
        }
    }
}

/// Operator of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct A2aProvider {
    /// URL of the operator.
    pub url: String,
    /// Name of the operator.
    pub organization: String,
}

/// Optional protocol features of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct A2aCapabilities {
    /// `true` if the agent supports streaming responses.
    #[serde(deserialize_with = "lenient::or_default")]
    pub streaming: bool,
    /// `true` if the agent sends push notifications.
    #[serde(deserialize_with = "lenient::or_default")]
    pub push_notifications: bool,
    /// Supported protocol extensions.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<A2aExtension>,
    /// `true` if authenticated clients can request an extended card.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "lenient::is_false")]
    pub extended_agent_card: bool,
}

/// A protocol extension.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct A2aExtension {
    /// URI that identifies the extension.
    #[serde(deserialize_with = "lenient::or_default")]
    pub uri: String,
    /// Description of how the agent uses the extension.
    #[serde(deserialize_with = "lenient::filled", skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `true` if clients must support the extension.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "lenient::is_false")]
    pub required: bool,
    /// Parameters of the extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
}

/// A skill of an agent.
///
/// ```
/// use agentflow::a2a::A2aSkill;
///
/// let skill = A2aSkill::new("refund", "Refunds", "Checks and grants refunds.").tags(["orders"]);
/// assert_eq!(skill.id, "refund");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2aSkill {
    /// Identifier, unique within the agent.
    pub id: String,
    /// Name of the skill.
    pub name: String,
    /// Description of the skill.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub description: String,
    /// Keywords.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub tags: Vec<String>,
    /// Example prompts.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub examples: Vec<String>,
    /// Accepted media types; empty if they are the same as for the agent.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub input_modes: Vec<String>,
    /// Media types of the output; empty if they are the same as for the agent.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub output_modes: Vec<String>,
    /// Required authentication schemes, in the JSON form of the card.
    #[serde(
        default,
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub security_requirements: Vec<Value>,
}

impl A2aSkill {
    /// Creates a skill without tags and examples.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
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

    /// Adds keywords.
    #[must_use]
    pub fn tags<S: Into<String>>(mut self, tags: impl IntoIterator<Item = S>) -> Self {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }
}
