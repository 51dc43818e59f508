//! The resources and prompts of a server as the protocol has them: lists, reads, and what is refused. It runs nothing of a
//! runtime.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agentflow_schema::text::{did_you_mean, head, nearest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use rmcp::model::{
    ContentBlock, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, Role,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::served_prompt::ServedPrompt;
use super::served_resource::{Content, ResourceRead, ServedContent, ServedResource};
use super::server_settings::Shared;
use super::uri_template::{MOST_URI, UriTemplate};
use super::{asked_arguments, given_answers, served_answer, served_call};
use crate::message::{Message, Part};

/// How long the function of a resource or a prompt may take.
const LIMIT: Duration = Duration::from_secs(60);
/// The most bytes of a name of the client's in an error.
const MOST_NAME: usize = 128;
/// The code for a resource that is not there; `rmcp` makes the one of the newest revision of it.
const NOT_FOUND: ErrorCode = ErrorCode::RESOURCE_NOT_FOUND;
/// The code of an error of JSON-RPC for what a client may not have.
const FORBIDDEN: ErrorCode = ErrorCode(-32003);

/// A resource with its address as it was read.
#[derive(Clone, Debug)]
pub(super) struct Readable {
    template: UriTemplate,
    resource: ServedResource,
}

impl Readable {
    /// Those that have an address: first those that stand for one, each kind ordered.
    pub(super) fn all(resources: &[ServedResource]) -> Vec<Self> {
        let resources = resources.iter().cloned();
        let mut all: Vec<_> =
            resources.filter_map(|resource| Some(Self { template: resource.template().ok()?, resource })).collect();
        all.sort_by(|one, other| {
            (one.template.has_names(), &one.resource.uri).cmp(&(other.template.has_names(), &other.resource.uri))
        });
        all
    }
}

/// All resources that have an address, ordered.
pub(super) fn resources(shared: &Shared) -> ListResourcesResult {
    let listed = shared.readable.iter().filter(|readable| !readable.template.has_names());
    let listed = listed.map(|Readable { resource, .. }| {
        let mut listed = Resource::new(&resource.uri, resource.name.as_ref().unwrap_or(&resource.uri));
        (listed.title, listed.description) = (resource.title.clone(), resource.description.clone());
        listed.mime_type.clone_from(&resource.mime_type);
        listed
    });
    ListResourcesResult::with_all_items(listed.collect())
}

/// All forms of addresses, ordered.
pub(super) fn templates(shared: &Shared) -> ListResourceTemplatesResult {
    let listed = shared.readable.iter().filter(|readable| readable.template.has_names());
    let listed = listed.map(|Readable { resource, .. }| {
        let mut listed = ResourceTemplate::new(&resource.uri, resource.name.as_ref().unwrap_or(&resource.uri));
        (listed.title, listed.description) = (resource.title.clone(), resource.description.clone());
        listed.mime_type.clone_from(&resource.mime_type);
        listed
    });
    ListResourceTemplatesResult::with_all_items(listed.collect())
}

/// All prompts, ordered by name.
pub(super) fn prompts(shared: &Shared) -> ListPromptsResult {
    let listed = shared.prompts.iter().map(|prompt| {
        let arguments: Vec<_> = prompt
            .arguments
            .iter()
            .map(|argument| {
                let is_required = argument.is_required && !argument.is_asked;
                let mut listed = PromptArgument::new(&argument.name).with_required(is_required);
                listed.description.clone_from(&argument.description);
                listed
            })
            .collect();
        let arguments = (!arguments.is_empty()).then_some(arguments);
        let mut listed = Prompt::new(&prompt.name, prompt.description.as_deref(), arguments);
        listed.title.clone_from(&prompt.title);
        listed
    });
    ListPromptsResult::with_all_items(listed.collect())
}

/// Reads a resource: one whose address this is, else one of a form that it has.
///
/// # Errors
/// When it is not offered, the client may not read it, or it cannot be read.
pub(super) async fn read(
    shared: &Shared,
    uri: String,
    context: &RequestContext<RoleServer>,
) -> Result<ReadResourceResult, ErrorData> {
    let (resource, values) = readable(shared, &uri, context)?;
    let of = ResourceRead::new(uri.clone(), values, served_call::caller(context));
    let what = named(&uri);
    let ServedContent(content) = within_limits(async { resource.contents(of).await }, &what).await?;
    let size = match &content {
        Content::Text(text) => text.len(),
        Content::Bytes(bytes) => bytes.len(),
    };
    too_large(shared, size, &what)?;
    let mut contents = match &content {
        Content::Text(text) => ResourceContents::text(&**text, uri),
        Content::Bytes(bytes) => ResourceContents::blob(STANDARD.encode(bytes), uri),
    };
    if let ResourceContents::TextResourceContents { mime_type, .. }
    | ResourceContents::BlobResourceContents { mime_type, .. } = &mut contents
    {
        mime_type.clone_from(&resource.mime_type);
    }
    Ok(ReadResourceResult::new(vec![contents]))
}

/// How an error names a resource.
fn named(uri: &str) -> String {
    format!("the resource `{}`", head(uri, MOST_NAME))
}

/// What is read at an address, and what stands there in the places of names.
fn at<'s>(shared: &'s Shared, uri: &str) -> Option<(&'s ServedResource, BTreeMap<String, String>)> {
    shared.readable.iter().find_map(|readable| Some((&readable.resource, readable.template.values(uri)?)))
}

/// Whether there is a resource at an address.
pub(super) fn is_offered(shared: &Shared, uri: &str) -> bool {
    at(shared, uri).is_some()
}

/// Whether the client may read what is at an address.
///
/// # Errors
/// When it is not offered, or the client may not read it.
pub(super) fn check_readable(
    shared: &Shared,
    uri: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    readable(shared, uri, context).map(drop)
}

fn readable<'s>(
    shared: &'s Shared,
    uri: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(&'s ServedResource, BTreeMap<String, String>), ErrorData> {
    let Some((resource, values)) = at(shared, uri) else {
        let shown = head(uri, MOST_NAME);
        let known = shared.readable.iter().map(|readable| readable.resource.uri.as_str());
        let problem = match uri.len() > MOST_URI {
            true => format!("an address has at most {MOST_URI} bytes"),
            false => format!("there is no resource `{shown}`{}", did_you_mean(nearest(uri, known))),
        };
        return Err(ErrorData::new(NOT_FOUND, problem, Some(serde_json::json!({"uri": shown}))));
    };
    permitted(shared, &resource.scopes, &named(uri), context)?;
    Ok((resource, values))
}

/// Makes the messages of a prompt, or asks for what they need.
///
/// # Errors
/// When it is not offered, the client may not use it, its arguments do not fit, or it cannot be made.
pub(super) async fn prompt(
    shared: &Shared,
    request: GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let prompts = &shared.prompts;
    let Some(prompt) = prompts.iter().find(|prompt| prompt.name == request.name) else {
        let near = nearest(&request.name, prompts.iter().map(|prompt| prompt.name.as_str()));
        let problem = format!("there is no prompt `{}`{}", head(&request.name, MOST_NAME), did_you_mean(near));
        return Err(ErrorData::invalid_params(problem, None));
    };
    let what = format!("the prompt `{}`", prompt.name);
    permitted(shared, &prompt.scopes, &what, context)?;
    let invalid = |problem: String| ErrorData::invalid_params(problem, None);
    let most = shared.settings.max_arguments;
    let fits = |size: usize| match size > most {
        true => Err(invalid(format!("the arguments have {size} bytes, and {most} is the most"))),
        false => Ok(()),
    };
    let arguments = request.arguments.unwrap_or_default();
    fits(arguments.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum())?;
    let mut given = prompt.given(arguments).map_err(invalid)?;
    let responses = given_answers::checked(shared, request.input_responses)?;
    let asked = asked_arguments::complete(prompt, &mut given, responses, context)?;
    fits(given.bytes())?;
    if let Some(asked) = asked {
        return Ok(asked.into());
    }
    let messages = within_limits(async { prompt.made(given).await }, &what).await?;
    result(shared, prompt, &messages).map(Into::into)
}

fn result(shared: &Shared, prompt: &ServedPrompt, messages: &[Message]) -> Result<GetPromptResult, ErrorData> {
    let what = format!("the prompt `{}`", prompt.name);
    let mut sent = Vec::new();
    let mut size = 0;
    for message in messages {
        let role = match message.role() {
            crate::message::Role::User => Role::User,
            crate::message::Role::Assistant => Role::Assistant,
            _ => {
                let problem = format!("{what} has a message that is neither the user's nor the assistant's");
                return Err(ErrorData::internal_error(problem, None));
            }
        };
        for part in message.parts() {
            let (bytes, block) = match part {
                Part::Text { text } => (text.len(), ContentBlock::text(text)),
                Part::Media(media) => (media.url.len(), served_answer::media(media)),
                _ => {
                    let problem = format!("{what} has a part that is neither a text nor a file");
                    return Err(ErrorData::internal_error(problem, None));
                }
            };
            size += bytes;
            sent.push(PromptMessage::new(role.clone(), block));
        }
    }
    too_large(shared, size, &what)?;
    let mut result = GetPromptResult::new(sent);
    result.description.clone_from(&prompt.description);
    Ok(result)
}

/// What a function of the host makes, in bounded time.
async fn within_limits<T>(made: impl Future<Output = Result<T, String>>, what: &str) -> Result<T, ErrorData> {
    let made = tokio::time::timeout(LIMIT, AssertUnwindSafe(made).catch_unwind());
    let problem = match made.await {
        Ok(Ok(Ok(made))) => return Ok(made),
        Ok(Ok(Err(problem))) => problem,
        Ok(Err(_)) => {
            tracing::error!(what, "what a server makes for its clients panicked");
            "it could not be made".to_owned()
        }
        Err(_) => format!("it was not made within {LIMIT:?}"),
    };
    Err(ErrorData::internal_error(format!("{what}: {problem}"), None))
}

/// Whether the client has the scopes.
fn permitted(
    shared: &Shared,
    scopes: &[Arc<str>],
    what: &str,
    context: &RequestContext<RoleServer>,
) -> Result<(), ErrorData> {
    if scopes.is_empty() {
        return Ok(());
    }
    let granted = served_call::grants(shared, context);
    match scopes.iter().find(|scope| !granted.contains(scope)) {
        Some(scope) => Err(ErrorData::new(FORBIDDEN, format!("{what} needs the scope `{scope}`"), None)),
        None => Ok(()),
    }
}

fn too_large(shared: &Shared, bytes: usize, what: &str) -> Result<(), ErrorData> {
    let most = shared.runtime.context().host().max_output_bytes;
    match bytes > most {
        true => Err(ErrorData::internal_error(format!("{what} has {bytes} bytes, and {most} is the most"), None)),
        false => Ok(()),
    }
}
