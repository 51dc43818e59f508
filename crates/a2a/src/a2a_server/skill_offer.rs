//! The skills of a server: agents and workflows of the catalogue, each with its input schema.
//! Converts messages to inputs.

use std::sync::Arc;

use agentflow_schema::schema_check::SchemaCheck;
use agentflow_schema::strict;
use serde::Deserialize;
use serde_json::{Value, json};

use super::a2a_server_error::A2aServerError;
use super::fault::Fault;
use super::served_settings::Settings;
use crate::a2a::{A2aContent, A2aErrorCode, A2aMessage, A2aPart, A2aSkill};
use agentflow_core::message::{Conversation, Media, Message, Part, Role};
use agentflow_core::runtime::{CatalogueEntry, EntryKind, Runtime};

/// Maximum length of a name, in bytes.
const MOST_NAME: usize = 128;
/// Media types that are accepted and returned.
pub(super) const TEXT: &str = "text/plain";
pub(super) const JSON: &str = "application/json";
/// Media type for files of any kind.
pub(super) const ANY_FILE: &str = "application/octet-stream";
/// Maximum length of a file URL, in bytes.
const MOST_ADDRESS: usize = 8 << 10;

/// An agent or a workflow that the server offers.
pub(super) struct SkillOffer {
    pub(super) kind: EntryKind,
    pub(super) name: Arc<str>,
    pub(super) description: Arc<str>,
    pub(super) version: Option<String>,
    pub(super) skills: Vec<A2aSkill>,
    input: Input,
}

/// Form of the input that a skill takes.
enum Input {
    /// Text, with files of these media types.
    Text { files: Vec<String> },
    /// An object that matches the schema. A message with only text is the value of the required
    /// field, if exactly one is required.
    Object { check: SchemaCheck, only: Option<RequiredField> },
}

/// The only required field of an input.
struct RequiredField {
    name: String,
    /// `true` if the field has the type string.
    is_text: bool,
}

/// Input of a skill, converted from a message.
pub(super) struct SkillInput {
    /// Arguments as JSON text.
    pub(super) arguments: String,
    /// User message for an agent that takes text, if the message also has files. Otherwise empty.
    pub(super) conversation: Conversation,
}

/// The `a2a` section of a workflow document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardSection {
    version: Option<String>,
    #[serde(default)]
    skills: Option<Vec<CardSectionSkill>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardSectionSkill {
    id: String,
    name: Option<String>,
    description: Option<String>,
    tags: Option<Vec<String>>,
}

/// Returns all offered skills, ordered by name.
pub(super) async fn offers(
    runtime: &Runtime,
    settings: &Settings,
) -> Result<Vec<Arc<SkillOffer>>, A2aServerError> {
    let catalogue = runtime.catalogue().snapshot().await;
    let agents = settings.agents.iter().map(|name| (EntryKind::Agent, name));
    let named = agents.chain(settings.workflows.iter().map(|name| (EntryKind::Workflow, name)));
    let mut offers: Vec<Arc<SkillOffer>> = Vec::new();
    for (kind, name) in named {
        let unusable = |problem: String| A2aServerError::Unusable {
            kind: kind.as_str(),
            name: name.to_string(),
            problem,
        };
        // A name of a different kind gets a more specific error.
        let is = |other: EntryKind| kind != other && catalogue.get(other, name).is_ok();
        let entry = match catalogue.get(kind, name) {
            Ok(entry) => entry,
            Err(_) if is(EntryKind::Agent) => {
                return Err(unusable("it is an agent; name it with `agents`".to_owned()));
            }
            Err(_) if is(EntryKind::Workflow) => {
                return Err(unusable("it is a workflow; name it with `workflows`".to_owned()));
            }
            Err(_) if is(EntryKind::Tool) => {
                let problem = "it is a tool, which is not a skill; offer an agent or a workflow that calls it";
                return Err(unusable(problem.to_owned()));
            }
            Err(error) => {
                // A workflow may exist and fail to build, for example because of missing tools. Its
                // own error is more helpful than "not found".
                drop(runtime.catalogue().fetch_toolsets_of(name).await);
                let made = match kind {
                    EntryKind::Workflow => runtime.catalogue().workflow_graph(name).map(drop),
                    _ => Ok(()),
                };
                return Err(A2aServerError::Offer(made.err().unwrap_or_else(|| error.into())));
            }
        };
        if offers.iter().any(|other| other.name == *name) {
            return Err(unusable("an agent has this name, too; leave one of them out".to_owned()));
        }
        let section = settings.sections.get(&**name);
        #[cfg(feature = "documents")]
        let of_document =
            runtime.catalogue().card_section(name).filter(|_| kind == EntryKind::Workflow);
        #[cfg(feature = "documents")]
        let section = section.or(of_document.as_deref());
        offers.push(Arc::new(offer(entry, section, &settings.input_files).map_err(unusable)?));
    }
    if offers.is_empty() {
        return Err(A2aServerError::Empty);
    }
    // A setting that names a skill which is not offered is a mistake of the host.
    let unusable = |name: &str, problem: &str| A2aServerError::Unusable {
        kind: "workflow",
        name: name.to_owned(),
        problem: problem.to_owned(),
    };
    if let Some(name) = settings.sections.keys().find(|name| !settings.workflows.contains(&***name))
    {
        return Err(unusable(name, "it has a card and is not offered; name it with `workflows`"));
    }
    if let Some(name) =
        settings.extended.iter().find(|name| !offers.iter().any(|of| of.name == **name))
    {
        return Err(unusable(
            name,
            "it is on the extended card and is not offered; name it with `agents` or `workflows`",
        ));
    }
    if let Some(name) =
        settings.default_skill.iter().find(|name| !offers.iter().any(|of| *of.name == ***name))
    {
        return Err(unusable(
            name,
            "it is the default and is not offered; name it with `agents` or `workflows`",
        ));
    }
    offers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(offers)
}

fn offer(
    entry: &CatalogueEntry,
    section: Option<&Value>,
    files: &[String],
) -> Result<SkillOffer, String> {
    let name = &entry.name;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > MOST_NAME || !name.bytes().all(is_name) {
        return Err("its name is a part of an address: 1 to 128 letters, digits, `_`, `-` and `.`"
            .to_owned());
    }
    let input = match (&entry.input, entry.kind) {
        (Some(input), EntryKind::Agent) if input["type"] == "string" => {
            Input::Text { files: files.to_vec() }
        }
        (Some(input), _) => {
            let check = SchemaCheck::new(input).map_err(|problem| problem.message())?;
            Input::Object { check, only: required_field(input) }
        }
        _ => {
            return Err(
                "its arguments have no schema, and a client must know them; offer another one"
                    .to_owned(),
            );
        }
    };
    let section: Option<CardSection> = match section {
        Some(section) => Some(
            serde_path_to_error::deserialize(section)
                .map_err(|error| format!("its card has a mistake: {error}"))?,
        ),
        None => None,
    };
    let (version, said) = section.map_or((None, None), |section| (section.version, section.skills));
    let described = |skill: CardSectionSkill| {
        let text = skill.description.unwrap_or_else(|| entry.description.to_string());
        let known = skill.name.unwrap_or_else(|| skill.id.clone());
        A2aSkill::new(skill.id, known, text).tags(skill.tags.unwrap_or_default())
    };
    let mut skills: Vec<A2aSkill> = match said.filter(|skills| !skills.is_empty()) {
        Some(skills) => skills.into_iter().map(described).collect(),
        None => vec![
            A2aSkill::new(name.to_string(), name.to_string(), entry.description.to_string())
                .tags([entry.kind.as_str()]),
        ],
    };
    // Only agents that take text accept files, so only their skills list the media types.
    if matches!(input, Input::Text { .. }) && !files.is_empty() {
        let modes = [TEXT, JSON].into_iter().chain(files.iter().map(String::as_str));
        skills
            .iter_mut()
            .for_each(|skill| skill.input_modes = modes.clone().map(str::to_owned).collect());
    }
    Ok(SkillOffer {
        kind: entry.kind,
        name: Arc::clone(name),
        description: Arc::clone(&entry.description),
        version,
        skills,
        input,
    })
}

/// Returns the required field of an object schema that requires exactly one field.
fn required_field(schema: &Value) -> Option<RequiredField> {
    let [Value::String(name)] = schema.get("required")?.as_array()?.as_slice() else { return None };
    let kind = schema
        .get("properties")
        .and_then(|fields| fields.get(name))
        .and_then(|field| field.get("type"));
    Some(RequiredField { name: name.clone(), is_text: kind.is_some_and(|kind| kind == "string") })
}

impl SkillOffer {
    /// Returns `true` if a skill id in a message selects this offer.
    pub(super) fn has_skill(&self, id: &str) -> bool {
        *self.name == *id || self.skills.iter().any(|skill| skill.id == id)
    }

    /// Returns `true` if the skill is an agent that takes the text of the message.
    pub(super) fn takes_text(&self) -> bool {
        matches!(self.input, Input::Text { .. })
    }

    /// Returns the text of an input that a client can send as plain text.
    pub(super) fn text_alone(&self, input: &Value) -> Option<String> {
        let Input::Object { only: Some(RequiredField { name, is_text: true }), .. } = &self.input
        else {
            return None;
        };
        input.as_object().filter(|fields| fields.len() == 1)?.get(name)?.as_str().map(str::to_owned)
    }

    /// Converts a message to the input of the skill.
    ///
    /// # Errors
    /// `InvalidParams` with a description of the expected input, or `ContentTypeNotSupported`.
    pub(super) fn input_of(&self, message: &A2aMessage) -> Result<SkillInput, Fault> {
        let mut conversation = Conversation::new();
        let arguments = match &self.input {
            Input::Text { files } => {
                let (text, media) = read_text_and_files(message, files)?;
                let arguments = json!({"message": text});
                if !media.is_empty() {
                    let text =
                        Some(text).filter(|text| !text.is_empty()).map(|text| Part::Text { text });
                    let parts: Vec<Part> =
                        text.into_iter().chain(media.into_iter().map(Part::Media)).collect();
                    conversation.push(Message::new(Role::User, parts));
                }
                arguments
            }
            Input::Object { check, only } => {
                let (texts, objects) = contents(message)?;
                let arguments = match (texts.as_slice(), objects.as_slice(), only) {
                    ([], [object], _) => Some((*object).clone()),
                    ([_, ..], [], Some(RequiredField { name, is_text: true })) => {
                        Some(json!({name: texts.join("\n")}))
                    }
                    ([text], [], only) => from_json_text(text, check, only.as_ref()),
                    _ => None,
                };
                let arguments = arguments.ok_or_else(|| {
                    let of = &self.name;
                    Fault::params(format!(
                        "`{of}` takes one part with `data`, an object that fits its input, or the same as JSON in one text"
                    ))
                })?;
                check.check(&arguments).map_err(|problem| {
                    Fault::params(format!("the input does not fit: {problem}"))
                })?;
                arguments
            }
        };
        Ok(SkillInput { arguments: whole_numbers(&arguments), conversation })
    }
}

/// Parses the input from JSON in a text part, for clients that cannot send structured parts. The
/// text is the whole object, or the value of its only required field.
fn from_json_text(text: &str, check: &SchemaCheck, only: Option<&RequiredField>) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    match only {
        // A value that matches the whole schema is the whole input.
        Some(RequiredField { name, .. }) if check.check(&value).is_err() => {
            Some(json!({name: value}))
        }
        _ => value.is_object().then_some(value),
    }
}

/// Serializes a value with whole numbers as integers. Clients that use `google.protobuf.Value` have
/// no integers and send `2.0`.
pub(super) fn whole_numbers(value: &Value) -> String {
    let text = value.to_string();
    strict::with_integers(&text).unwrap_or(text)
}

/// Returns the text of a message for an agent, and the files for its model: bytes of the accepted
/// media types. A file URL becomes a line of the text; the server does not fetch it.
fn read_text_and_files(
    message: &A2aMessage,
    files: &[String],
) -> Result<(String, Vec<Media>), Fault> {
    let (mut texts, mut values, mut media) = (Vec::new(), Vec::new(), Vec::new());
    for part in &message.parts {
        match &part.content {
            A2aContent::Text(text) if is_read(part, TEXT) => texts.push(text.clone()),
            A2aContent::Data(value) if is_read(part, JSON) => values.push(value.to_string()),
            A2aContent::Raw(bytes) => {
                let kind =
                    part.media_type.as_deref().map(base_type).filter(|kind| is_file(kind, files));
                let kind = kind.ok_or_else(|| unread(part, files))?;
                let file = Media::of_bytes(kind, bytes);
                media.push(part.filename.iter().cloned().fold(file, Media::name));
            }
            A2aContent::Url(url) => {
                let is_file =
                    part.media_type.as_deref().is_none_or(|kind| is_file(&base_type(kind), files));
                if files.is_empty() || !is_file {
                    return Err(unread(part, files));
                }
                // The URL becomes part of a line of text, so whitespace and control characters are
                // refused.
                let is_address = (url.starts_with("https://") || url.starts_with("http://"))
                    && url.len() <= MOST_ADDRESS
                    && !url.contains(|of: char| of.is_whitespace() || of.is_control());
                if !is_address {
                    let problem =
                        "message.parts: `url` is the address of a file, with `https:` or `http:`";
                    return Err(Fault::params(problem));
                }
                let about = [part.filename.as_deref(), part.media_type.as_deref()];
                let about = about.into_iter().flatten().collect::<Vec<_>>().join(", ");
                let about = if about.is_empty() { "a file".to_owned() } else { about };
                texts.push(format!("{about}: {url}"));
            }
            _ => return Err(unread(part, files)),
        }
    }
    texts.extend(values);
    Ok((texts.join("\n"), media))
}

fn unread(part: &A2aPart, files: &[String]) -> Fault {
    let kinds = [TEXT, JSON].into_iter().chain(files.iter().map(String::as_str));
    let kinds = kinds.map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
    let what =
        part.media_type.as_deref().map_or("a file without a media type".to_owned(), |kind| {
            format!("a part of the media type `{}`", agentflow_schema::text::head(kind, 128))
        });
    Fault::new(
        A2aErrorCode::ContentTypeNotSupported,
        format!("{what} is not read; these are: {kinds}"),
    )
}

/// Removes the parameters of a media type.
fn base_type(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns `true` if a media type matches one of `named`, which may contain entries such as
/// `image/*`.
fn is_file(kind: &str, named: &[String]) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let Some((major, minor)) =
        kind.split_once('/').filter(|(major, minor)| is_token(major) && is_token(minor))
    else {
        return false;
    };
    named.iter().any(|named| {
        named.split_once('/').is_some_and(|(of, sub)| of == major && (sub == "*" || sub == minor))
    })
}

/// Returns the text and the data values of a message.
pub(super) fn contents(message: &A2aMessage) -> Result<(Vec<&str>, Vec<&Value>), Fault> {
    let (mut texts, mut values) = (Vec::new(), Vec::new());
    for part in &message.parts {
        match &part.content {
            A2aContent::Text(text) if is_read(part, TEXT) => texts.push(text.as_str()),
            A2aContent::Data(value) if is_read(part, JSON) => values.push(value),
            _ => {
                let problem =
                    format!("a part is neither a text nor a value; `{TEXT}` and `{JSON}` are read");
                return Err(Fault::new(A2aErrorCode::ContentTypeNotSupported, problem));
            }
        }
    }
    Ok((texts, values))
}

/// Returns `true` if a part has the media type `usual`, or none. All `text/*` types count as text.
fn is_read(part: &A2aPart, usual: &str) -> bool {
    let Some(media_type) = &part.media_type else { return true };
    let kind = base_type(media_type);
    kind == usual || (usual == TEXT && kind.starts_with("text/"))
}
