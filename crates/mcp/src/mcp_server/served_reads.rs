//! Lists and reads the resources and prompts of a server. It does not start runs.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use agentflow_schema::text::{did_you_mean, head, nearest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use rmcp::model::{
    ContentBlock, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, Prompt, PromptArgument,
    PromptMessage, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::served_prompt::ServedPrompt;
use super::served_resource::{Content, ResourceRead, ServedContent, ServedResource};
use super::server_settings::Shared;
use super::uri_template::{MOST_URI, UriTemplate};
use super::{asked_arguments, given_answers, served_answer, served_call};
use agentflow_core::__private::extension::max_output_bytes;
use agentflow_core::message::{Message, Part};

/// Maximum time for the function of a resource or a prompt.
const LIMIT: Duration = Duration::from_secs(60);
/// Maximum number of bytes of a client's name or address in an error.
const MOST_NAME: usize = 128;
/// Error code for an unknown resource. `rmcp` translates it to the code of the newest revision.
const NOT_FOUND: ErrorCode = ErrorCode::RESOURCE_NOT_FOUND;
/// JSON-RPC error code for a missing scope.
const FORBIDDEN: ErrorCode = ErrorCode(-32003);

/// A resource with its parsed address.
#[derive(Clone, Debug)]
pub(super) struct ParsedResource {
    template: UriTemplate,
    resource: ServedResource,
}

impl ParsedResource {
    /// Parses the addresses and leaves out invalid resources. Plain addresses precede templates,
    /// and both are sorted.
    pub(super) fn all(resources: &[ServedResource]) -> Vec<Self> {
        let resources = resources.iter().cloned();
        let mut all: Vec<_> = resources
            .filter_map(|resource| Some(Self { template: resource.template().ok()?, resource }))
            .collect();
        all.sort_by(|one, other| {
            (one.template.has_names(), &one.resource.uri)
                .cmp(&(other.template.has_names(), &other.resource.uri))
        });
        all
    }
}

/// Lists all resources with a plain address.
pub(super) fn resources(shared: &Shared) -> ListResourcesResult {
    let listed = shared.readable.iter().filter(|readable| !readable.template.has_names());
    let listed = listed.map(|ParsedResource { resource, .. }| {
        let mut listed =
            Resource::new(&resource.uri, resource.name.as_ref().unwrap_or(&resource.uri));
        (listed.title, listed.description) = (resource.title.clone(), resource.description.clone());
        listed.mime_type.clone_from(&resource.mime_type);
        listed
    });
    ListResourcesResult::with_all_items(listed.collect())
}

/// Lists all resource templates.
pub(super) fn templates(shared: &Shared) -> ListResourceTemplatesResult {
    let listed = shared.readable.iter().filter(|readable| readable.template.has_names());
    let listed = listed.map(|ParsedResource { resource, .. }| {
        let mut listed =
            ResourceTemplate::new(&resource.uri, resource.name.as_ref().unwrap_or(&resource.uri));
        (listed.title, listed.description) = (resource.title.clone(), resource.description.clone());
        listed.mime_type.clone_from(&resource.mime_type);
        listed
    });
    ListResourceTemplatesResult::with_all_items(listed.collect())
}

/// Lists all prompts, ordered by name.
pub(super) fn prompts(shared: &Shared) -> ListPromptsResult {
    let listed = shared.prompts.iter().map(|prompt| {
        let arguments: Vec<_> = prompt
            .arguments
            .iter()
            .map(|argument| {
                // A client may omit an argument whose value the server can request from its person.
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

/// Reads the resource at an address. Plain addresses have precedence over templates.
///
/// # Errors
/// Fails if the resource is not offered, the client may not read it, or its function fails.
pub(super) async fn read(
    shared: &Shared,
    uri: String,
    context: &RequestContext<RoleServer>,
) -> Result<ReadResourceResult, ErrorData> {
    let (resource, values) = readable(shared, &uri, context)?;
    let of = ResourceRead::new(uri.clone(), values, served_call::caller(context).cloned());
    let what = named(&uri);
    let ServedContent(content) =
        within_limits(async { resource.contents(of).await }, &what).await?;
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

/// Returns the name of a resource in errors.
fn named(uri: &str) -> String {
    format!("the resource `{}`", head(uri, MOST_NAME))
}

/// Returns the resource at an address, with the values of the placeholders in its template.
fn at<'s>(shared: &'s Shared, uri: &str) -> Option<(&'s ServedResource, BTreeMap<String, String>)> {
    shared
        .readable
        .iter()
        .find_map(|readable| Some((&readable.resource, readable.template.values(uri)?)))
}

/// Returns `true` if the server offers a resource at this address.
pub(super) fn is_offered(shared: &Shared, uri: &str) -> bool {
    at(shared, uri).is_some()
}

/// Checks that the client may read the resource.
///
/// # Errors
/// Fails if the resource is not offered, or the client may not read it.
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
        // The address comes from the client, so the error contains only its beginning.
        let shown = head(uri, MOST_NAME);
        let known = shared.readable.iter().map(|readable| readable.resource.uri.as_str());
        let problem = match uri.len() > MOST_URI {
            true => format!("an address has at most {MOST_URI} bytes"),
            false => format!("there is no resource `{shown}`{}", did_you_mean(nearest(uri, known))),
        };
        return Err(ErrorData::new(NOT_FOUND, problem, Some(serde_json::json!({"uri": shown}))));
    };
    check_scopes(shared, &resource.scopes, &named(uri), context)?;
    Ok((resource, values))
}

/// Creates the messages of a prompt, or asks the person for missing arguments.
///
/// # Errors
/// Fails if the prompt is not offered, the client may not use it, its arguments are invalid, or its
/// function fails.
pub(super) async fn prompt(
    shared: &Shared,
    request: GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let prompts = &shared.prompts;
    let Some(prompt) = prompts.iter().find(|prompt| prompt.name == request.name) else {
        let near = nearest(&request.name, prompts.iter().map(|prompt| prompt.name.as_str()));
        let problem = format!(
            "there is no prompt `{}`{}",
            head(&request.name, MOST_NAME),
            did_you_mean(near)
        );
        return Err(ErrorData::invalid_params(problem, None));
    };
    let what = format!("the prompt `{}`", prompt.name);
    check_scopes(shared, &prompt.scopes, &what, context)?;
    let invalid = |problem: String| ErrorData::invalid_params(problem, None);
    let most = shared.settings.max_arguments;
    let fits = |size: usize| match size > most {
        true => Err(invalid(format!("the arguments have {size} bytes, and {most} is the most"))),
        false => Ok(()),
    };
    let arguments = request.arguments.unwrap_or_default();
    // The size is checked before the arguments are copied, and again with the person's answers.
    fits(
        arguments.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum(),
    )?;
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

fn result(
    shared: &Shared,
    prompt: &ServedPrompt,
    messages: &[Message],
) -> Result<GetPromptResult, ErrorData> {
    let what = format!("the prompt `{}`", prompt.name);
    let mut sent = Vec::new();
    let mut size = 0;
    for message in messages {
        let role = match message.role() {
            agentflow_core::message::Role::User => Role::User,
            agentflow_core::message::Role::Assistant => Role::Assistant,
            _ => {
                let problem =
                    format!("{what} has a message that is neither the user's nor the assistant's");
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

/// Runs a function of the host with a time limit, and converts a panic into an error.
async fn within_limits<T>(
    made: impl Future<Output = Result<T, String>>,
    what: &str,
) -> Result<T, ErrorData> {
    // The function is code of the host. Its panic must not end the connection.
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

/// Checks that the client has the scopes.
fn check_scopes(
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
        Some(scope) => {
            Err(ErrorData::new(FORBIDDEN, format!("{what} needs the scope `{scope}`"), None))
        }
        None => Ok(()),
    }
}

fn too_large(shared: &Shared, bytes: usize, what: &str) -> Result<(), ErrorData> {
    // The runtime's limit for tool outputs applies to resources and prompts, too.
    let most = max_output_bytes(&shared.runtime);
    match bytes > most {
        true => Err(ErrorData::internal_error(
            format!("{what} has {bytes} bytes, and {most} is the most"),
            None,
        )),
        false => Ok(()),
    }
}
