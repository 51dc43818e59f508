//! The common part of all model adapters: [`HttpAdapter`], its builder [`HttpModelBuilder`], and
//! the trait [`WireFormat`] that each provider implements.
//!
//! This module does not depend on providers. Its `Debug` output contains no keys.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use agentflow_core::__private::adapters::{Provider, ServerSettings};
use agentflow_core::model::{
    HttpSettings, Model, ModelError, ModelInfo, ModelRequest, ModelStream, OutputMode,
    OutputSchema, Secret, SecretProvider,
};
use reqwest::Url;
use serde_json::Value;

#[cfg(test)]
use super::read_events;
use super::{Decode, EncodedRequest, Refusal, Server, exchange};

/// A provider's wire format, for one model at one server: encodes calls and decodes responses.
pub(crate) trait WireFormat: Sized + Send + Sync + 'static {
    /// The provider's name, server and keys.
    const PROVIDER: &'static Provider;

    /// The decoder of this provider's responses.
    type Decoder: Decode;

    /// Creates the wire format for a model at a server.
    fn new(model: &Arc<str>, server: &Server) -> Result<Self, ModelError>;

    /// Returns the URL and the body of a call.
    fn encode(&self, request: &ModelRequest) -> Result<(Url, Vec<u8>), ModelError>;

    /// Creates a decoder for one response. `messages` is the number of messages in the
    /// conversation.
    fn decoder(&self, messages: usize) -> Self::Decoder;

    /// Converts a response with a status other than 2xx to an error, by [`Refusal::error`].
    fn refused(refusal: &Refusal<'_>) -> ModelError;

    /// Returns the output mode for a model for which the host has not set one.
    fn output_mode(&self, server: &Server, with_tools: bool) -> OutputMode;

    /// Returns an error that names the field, if the provider cannot express the schema.
    fn check_schema(schema: &Value) -> Result<(), String>;
}

/// A model at a server.
pub(crate) struct HttpAdapter<F> {
    info: ModelInfo,
    server: Server,
    format: F,
    output_mode: Option<OutputMode>,
}

impl<F: WireFormat> HttpAdapter<F> {
    fn new(parts: Parts) -> Result<Self, ModelError> {
        let Parts { model, server, output_mode } = parts;
        let server = Server::new(server)?;
        let format = F::new(&model, &server)?;
        let info = ModelInfo::new(server.provider_name(), model);
        Ok(Self { info, server, format, output_mode })
    }

    pub(crate) fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Returns true if the text of responses may contain thinking in tags. The servers of the
    /// format's own provider never send such text.
    pub(super) fn may_think_in_tags(&self) -> bool {
        !self.server.official
    }

    pub(super) fn settings(&self) -> &HttpSettings {
        &self.server.http
    }

    pub(crate) fn stream(self: &Arc<Self>, request: ModelRequest) -> ModelStream {
        exchange(Arc::clone(self), request)
    }

    pub(crate) fn output_mode(
        &self,
        schema: &OutputSchema,
        with_tools: bool,
    ) -> Result<OutputMode, String> {
        let mode =
            self.output_mode.unwrap_or_else(|| self.format.output_mode(&self.server, with_tools));
        if mode == OutputMode::Native {
            F::check_schema(&schema.schema)?;
        }
        Ok(mode)
    }

    /// Encodes a call and requests its key. The request is dropped here, before the call is sent.
    pub(super) async fn prepare(
        &self,
        request: ModelRequest,
    ) -> Result<(EncodedRequest, F::Decoder), ModelError> {
        let (headers, hidden) = self.server.headers().await?;
        let (url, body) = self.format.encode(&request)?;
        let outgoing =
            EncodedRequest { url, headers, body: body.into(), stream: request.stream, hidden };
        Ok((outgoing, self.format.decoder(request.messages.len())))
    }

    /// Formats the model without keys and without the values of headers.
    pub(crate) fn show(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { url, headers, http, .. } = &self.server;
        f.debug_struct(name)
            .field("model", &self.info.model)
            .field("host", &url.host_str())
            .field("headers", &headers.keys())
            .field("http", http)
            .finish_non_exhaustive()
    }
}

/// Implements [`Model`] for a struct that contains an `HttpAdapter`, and registers the adapter in a
/// list of the core.
#[allow(unused_macros, reason = "a build may have no adapter")]
macro_rules! http_model {
    ($model:ident, $format:ty) => {
        impl agentflow_core::model::Model for $model {
            fn info(&self) -> &agentflow_core::model::ModelInfo {
                self.0.info()
            }

            fn stream(
                &self,
                request: agentflow_core::model::ModelRequest,
            ) -> agentflow_core::model::ModelStream {
                self.0.stream(request)
            }

            fn output_mode(
                &self,
                schema: &agentflow_core::model::OutputSchema,
                with_tools: bool,
            ) -> Result<agentflow_core::model::OutputMode, String> {
                self.0.output_mode(schema, with_tools)
            }
        }

        impl $crate::http::HttpModel for $model {}

        impl $crate::http::FromParts for $model {
            type Format = $format;

            fn from_adapter(adapter: $crate::http::HttpAdapter<$format>) -> Self {
                Self(std::sync::Arc::new(adapter))
            }
        }

        inventory::submit! {
            agentflow_core::__private::adapters::LinkedAdapter {
                format: <$format as $crate::http::WireFormat>::PROVIDER.format,
                open: $crate::http::open::<$model>,
                check: $crate::http::check,
            }
        }

        /// Omits keys and the values of headers.
        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.show(stringify!($model), f)
            }
        }
    };
}
pub(crate) use http_model;

/// A model that is accessed over HTTP by an adapter of agentflow.
///
/// To add another model, implement [`Model`]. This trait only connects the adapters to their common
/// builder, [`HttpModelBuilder`].
#[allow(private_bounds, reason = "only adapters implement it")]
pub trait HttpModel: Model + FromParts + 'static {}

/// Creates a model from its adapter.
pub(crate) trait FromParts: Sized {
    type Format: WireFormat;

    fn from_adapter(adapter: HttpAdapter<Self::Format>) -> Self;
}

/// The values of a builder.
struct Parts {
    model: Arc<str>,
    server: ServerSettings,
    output_mode: Option<OutputMode>,
}

/// Opens a model by name at a server.
pub(crate) fn open<M: HttpModel>(
    model: Arc<str>,
    server: ServerSettings,
) -> Result<Arc<dyn Model>, ModelError> {
    let parts = Parts { model, server, output_mode: None };
    Ok(Arc::new(M::from_adapter(HttpAdapter::new(parts)?)))
}

/// Decodes a body of server-sent events as a response, without a server.
#[cfg(test)]
pub(crate) fn decode<M: HttpModel>(
    body: &[u8],
) -> Result<agentflow_core::model::ModelResponse, ModelError> {
    let mut server = ServerSettings::new(M::Format::PROVIDER);
    server.base_url = Some(M::Format::PROVIDER.base_url.to_owned());
    let adapter =
        HttpAdapter::<M::Format>::new(Parts { model: "m".into(), server, output_mode: None })?;
    read_events(body, adapter.format.decoder(1))
}

/// A builder for a model that is accessed over HTTP, and for the server of the model.
///
/// The type of each model documents the default URL, key names and output mode.
///
/// ```
/// use agentflow::Agent;
/// use agentflow::model::openai_chat::OpenAiChat;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = OpenAiChat::builder("qwen3").base_url("http://127.0.0.1:8080/v1").build()?;
/// let agent = Agent::new(model);
/// # drop(agent);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct HttpModelBuilder<M> {
    parts: Parts,
    model: PhantomData<fn() -> M>,
}

impl<M: HttpModel> HttpModelBuilder<M> {
    pub(crate) fn new(model: impl Into<Arc<str>>) -> Self {
        let server = ServerSettings::new(M::Format::PROVIDER);
        Self { parts: Parts { model: model.into(), server, output_mode: None }, model: PhantomData }
    }

    /// Sets the base URL of the server, in the form that the provider's own clients use. A query
    /// (`?api-version=..`) is kept. Default: the provider's environment variable, or else the
    /// provider's server.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.parts.server.base_url = Some(url.into());
        self
    }

    /// Sets the key to send. Default: the key is requested by name before each call.
    pub fn api_key(mut self, key: Secret) -> Self {
        self.parts.server.key = Some(key);
        self
    }

    /// Sets the name by which the key is requested. Default: the provider's names. Without a key,
    /// calls to the provider's own server fail if it requires one. Calls to other servers are sent
    /// without a key.
    pub fn api_key_name(mut self, name: impl Into<String>) -> Self {
        self.parts.server.key_name = Some(name.into());
        self
    }

    /// Sets the source of the key. Default: the environment.
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.parts.server.secrets = secrets;
        self
    }

    /// Adds a header to every call. It replaces a default header of the same name. If the name is
    /// `Authorization` or the provider's header for keys, the header is sent instead of the key.
    /// Values are never displayed.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parts.server.headers.push((name.into(), value.into()));
        self
    }

    /// Sets time-outs, retries and limits.
    pub fn http(mut self, settings: HttpSettings) -> Self {
        self.parts.server.http = settings;
        self
    }

    /// Sets the method that makes the model return a typed answer. Default: a method that the model
    /// and its server support.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.parts.output_mode = Some(mode);
        self
    }

    /// Creates the model. Sends no requests.
    ///
    /// # Errors
    /// Returns an error if
    ///
    /// - the base URL is not an `http` or `https` URL;
    /// - a header is not valid;
    /// - the model's name must be a part of the URL but is not valid there.
    pub fn build(self) -> Result<M, ModelError> {
        Ok(M::from_adapter(HttpAdapter::new(self.parts)?))
    }
}

/// Omits keys, the values of headers, and the URL, which may contain a key.
impl<M> fmt::Debug for HttpModelBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModelBuilder")
            .field("model", &self.parts.model)
            .field("http", &self.parts.server.http)
            .finish_non_exhaustive()
    }
}
