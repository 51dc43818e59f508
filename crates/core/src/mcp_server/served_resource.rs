//! `ServedResource`: something that clients of a server may read, and how its contents are made. It sends nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::uri_template::UriTemplate;
use crate::future::BoxFuture;

/// How contents are made; the error is what the client reads.
type Read = dyn Fn(ResourceRead) -> BoxFuture<'static, Result<ServedContent, String>> + Send + Sync;

/// Something that clients of an [`McpServer`](super::McpServer) may read by its address, given to
/// [`McpServer::resource`](super::McpServer::resource): a text, bytes, or what a function makes for each read.
///
/// An address with `{names}` stands for many resources; the function is given what stood in their places, which is one or more
/// characters other than `/`, `?` and `#`, with percent signs decoded. What a client sends there is its own text: check it
/// before it becomes a part of a path or a query.
///
/// ```
/// use agentflow::mcp_server::{McpServer, ServedResource};
/// use agentflow::prelude::*;
///
/// # let runtime = Runtime::builder().build();
/// let server = McpServer::from_runtime(&runtime)
///     .resource(ServedResource::text("notes://welcome", "Ask for the notes of a day.").title("Welcome"))
///     .resource(ServedResource::read("notes://days/{day}", |read| async move {
///         match read.value("day") {
///             Some("monday") => Ok("Water the plants."),
///             _ => Err("there are no notes of this day"),
///         }
///     }));
/// # drop(server);
/// ```
#[derive(Clone)]
#[must_use = "a resource is offered when it is given to a server"]
pub struct ServedResource {
    pub(super) uri: String,
    pub(super) name: Option<String>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) scopes: Vec<Arc<str>>,
    read: Arc<Read>,
}

/// What a resource contains: a text, or bytes.
#[derive(Clone, Debug)]
pub struct ServedContent(pub(super) Content);

#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// A read, as the function of a resource is given it.
#[derive(Clone, Debug)]
pub struct ResourceRead {
    uri: String,
    values: BTreeMap<String, String>,
    caller: Option<String>,
}

impl ResourceRead {
    pub(super) fn new(uri: String, values: BTreeMap<String, String>, caller: Option<String>) -> Self {
        Self { uri, values, caller }
    }

    /// The address that is read.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// What stands in the place of a name of the address.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Who reads, where [`authenticate`](super::McpServer::authenticate) has found that out.
    pub fn caller(&self) -> Option<&str> {
        self.caller.as_deref()
    }
}

impl From<&str> for ServedContent {
    fn from(text: &str) -> Self {
        Self(Content::Text(text.into()))
    }
}

impl From<String> for ServedContent {
    fn from(text: String) -> Self {
        Self(Content::Text(text.into()))
    }
}

impl From<Vec<u8>> for ServedContent {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Content::Bytes(bytes.into()))
    }
}

impl ServedResource {
    fn new(uri: String, read: Arc<Read>) -> Self {
        Self { uri, name: None, title: None, description: None, mime_type: None, scopes: Vec::new(), read }
    }

    /// A text that stays as it is. Its media type is `text/plain` unless [`mime_type`](Self::mime_type) says otherwise.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of(uri.into(), text.into().into()).mime_type("text/plain")
    }

    /// Bytes that stay as they are, such as a picture of the media type `image/png`.
    pub fn bytes(uri: impl Into<String>, mime_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::of(uri.into(), bytes.into().into()).mime_type(mime_type)
    }

    fn of(uri: String, content: ServedContent) -> Self {
        Self::new(uri, Arc::new(move |_| Box::pin(std::future::ready(Ok(content.clone())))))
    }

    /// Contents that a function makes for each read: texts, or bytes. An error is shown to the client as it is; a panic is an
    /// error that says nothing else. The future is dropped when the client no longer waits.
    pub fn read<F, R, C, E>(uri: impl Into<String>, read: F) -> Self
    where
        F: Fn(ResourceRead) -> R + Send + Sync + 'static,
        R: Future<Output = Result<C, E>> + Send + 'static,
        C: Into<ServedContent>,
        E: fmt::Display,
    {
        let made = move |of| -> BoxFuture<'static, _> {
            let made = read(of);
            Box::pin(async move { made.await.map(Into::into).map_err(|error| error.to_string()) })
        };
        Self::new(uri.into(), Arc::new(made))
    }

    /// What it is called. Default: its address.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What it is called for people. Default: nothing.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it is, for a client's model. Default: nothing.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Its IANA media type, such as `application/json`. Default: nothing for what a function makes.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Scopes that a client must have to read it, granted by [`McpServer::grant`](super::McpServer::grant) or to its caller.
    /// It is listed all the same. Default: none.
    pub fn scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    pub(super) fn template(&self) -> Result<UriTemplate, String> {
        self.uri.parse()
    }

    /// Its contents. Dropping the future stops whoever makes them.
    pub(super) fn contents(&self, read: ResourceRead) -> BoxFuture<'static, Result<ServedContent, String>> {
        (self.read)(read)
    }
}

impl fmt::Debug for ServedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedResource").field("uri", &self.uri).finish_non_exhaustive()
    }
}
