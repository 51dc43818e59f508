//! `ServedResource`: a readable resource of a server, and the function that creates its content.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::uri_template::UriTemplate;
use agentflow_core::__private::extension::BoxFuture;
use agentflow_core::Caller;

/// Function that creates the content. The client receives the error.
type Read = dyn Fn(ResourceRead) -> BoxFuture<'static, Result<ServedContent, String>> + Send + Sync;

/// A resource of an [`McpServer`](super::McpServer), added with
/// [`McpServer::resource`](super::McpServer::resource). Clients read it by its address. Its content
/// is text, bytes, or the result of a function that runs for each read.
///
/// An address with `{names}` is a template for many resources. The function receives the values of
/// the names. A value has one or more characters other than `/`, `?` and `#`, and is
/// percent-decoded. The values come from the client: check them before you use them in a path or a
/// query.
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

/// Content of a resource: text or bytes.
#[derive(Clone, Debug)]
pub struct ServedContent(pub(super) Content);

#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// A read request, passed to the function of a resource.
#[derive(Clone, Debug)]
pub struct ResourceRead {
    uri: String,
    values: BTreeMap<String, String>,
    caller: Option<Caller>,
}

impl ResourceRead {
    pub(super) fn new(
        uri: String,
        values: BTreeMap<String, String>,
        caller: Option<Caller>,
    ) -> Self {
        Self { uri, values, caller }
    }

    /// Returns the requested address.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the value of a name in the address template.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns the caller, if [`authenticate`](super::McpServer::authenticate) has
    /// determined it.
    pub fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
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
        Self {
            uri,
            name: None,
            title: None,
            description: None,
            mime_type: None,
            scopes: Vec::new(),
            read,
        }
    }

    /// Creates a resource with a constant text. Its media type is `text/plain` unless
    /// [`mime_type`](Self::mime_type) changes it.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::constant(uri.into(), text.into().into()).mime_type("text/plain")
    }

    /// Creates a resource with constant bytes, such as an image of the media type `image/png`.
    pub fn bytes(
        uri: impl Into<String>,
        mime_type: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self::constant(uri.into(), bytes.into().into()).mime_type(mime_type)
    }

    fn constant(uri: String, content: ServedContent) -> Self {
        Self::new(uri, Arc::new(move |_| Box::pin(std::future::ready(Ok(content.clone())))))
    }

    /// Creates a resource whose content a function creates for each read, as text or bytes. The
    /// client receives the text of an error, and a general error after a panic. The future is
    /// dropped when the client no longer waits.
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

    /// Sets the name. Default: the address.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the display name for people. Default: none.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description for the client's model. Default: none.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the IANA media type, such as `application/json`. Default: none for content of a
    /// function.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the scopes that a client needs to read the resource. They are granted by
    /// [`McpServer::grant`](super::McpServer::grant) or to the caller. The resource is listed for
    /// all clients. Default: none.
    pub fn scopes<S: Into<Arc<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    pub(super) fn template(&self) -> Result<UriTemplate, String> {
        self.uri.parse()
    }

    /// Creates the content. Dropping the future stops the function.
    pub(super) fn contents(
        &self,
        read: ResourceRead,
    ) -> BoxFuture<'static, Result<ServedContent, String>> {
        (self.read)(read)
    }
}

impl fmt::Debug for ServedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedResource").field("uri", &self.uri).finish_non_exhaustive()
    }
}
