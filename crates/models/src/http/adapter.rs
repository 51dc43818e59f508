//! The front of every adapter: a model at a server, its builder, and the parts that a wire format adds.
//!
//! It holds what the models of all providers have in common. It knows no provider and shows no key.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use agentflow_core::__private::adapters::{Provider, ServerSettings};
use agentflow_core::model::{
    HttpSettings, Model, ModelError, ModelInfo, ModelRequest, ModelStream, OutputMode, OutputSchema, Secret,
    SecretProvider,
};
use reqwest::Url;
use serde_json::Value;

#[cfg(test)]
use super::read_events;
use super::{Decode, Outgoing, Refusal, Server, exchange};

/// How one provider's calls are written and its refusals read, for one model at one server.
pub(crate) trait WireFormat: Sized + Send + Sync + 'static {
    /// The provider's name, server and keys.
    const PROVIDER: &'static Provider;

    /// Reads this provider's answers.
    type Decoder: Decode;

    /// The format for the calls of a model.
    fn new(model: &Arc<str>, server: &Server) -> Result<Self, ModelError>;

    /// Where a call goes, and its body.
    fn encode(&self, request: &ModelRequest) -> Result<(Url, Vec<u8>), ModelError>;

    /// Reads the answer to a call; `messages` is how many there are in its conversation.
    fn decoder(&self, messages: usize) -> Self::Decoder;

    /// The meaning of an answer whose status is not 2xx. Build the error with [`Refusal::error`].
    fn refused(refusal: &Refusal<'_>) -> ModelError;

    /// How the model is brought to answer in a given shape, when the host has not set it.
    fn output_mode(&self, server: &Server, with_tools: bool) -> OutputMode;

    /// Refuses a schema that the provider cannot express, naming the field.
    fn check_schema(schema: &Value) -> Result<(), String>;
}

/// A model at a server: what its calls have in common.
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

    /// Returns true if text may contain thinking in tags: on all servers except the format's own.
    pub(super) fn may_think_in_tags(&self) -> bool {
        !self.server.official
    }

    pub(super) fn settings(&self) -> &HttpSettings {
        &self.server.http
    }

    pub(crate) fn stream(self: &Arc<Self>, request: ModelRequest) -> ModelStream {
        exchange(Arc::clone(self), request)
    }

    pub(crate) fn output_mode(&self, schema: &OutputSchema, with_tools: bool) -> Result<OutputMode, String> {
        let mode = self.output_mode.unwrap_or_else(|| self.format.output_mode(&self.server, with_tools));
        if mode == OutputMode::Native {
            F::check_schema(&schema.schema)?;
        }
        Ok(mode)
    }

    /// Writes a call; keys are asked for here. The request is dropped before anything is sent.
    pub(super) async fn prepare(&self, request: ModelRequest) -> Result<(Outgoing, F::Decoder), ModelError> {
        let (headers, hidden) = self.server.headers().await?;
        let (url, body) = self.format.encode(&request)?;
        let outgoing = Outgoing { url, headers, body: body.into(), stream: request.stream, hidden };
        Ok((outgoing, self.format.decoder(request.messages.len())))
    }

    /// Shows neither keys nor the values of headers.
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

/// Makes a struct with a `HttpAdapter` of a wire format in it a model, and submits the adapter to the list of the core.
#[allow(unused_macros, reason = "a build may have no adapter")]
macro_rules! http_model {
    ($model:ident, $format:ty) => {
        impl agentflow_core::model::Model for $model {
            fn info(&self) -> &agentflow_core::model::ModelInfo {
                self.0.info()
            }

            fn stream(&self, request: agentflow_core::model::ModelRequest) -> agentflow_core::model::ModelStream {
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

        /// Shows neither keys nor the values of headers.
        impl std::fmt::Debug for $model {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.show(stringify!($model), f)
            }
        }
    };
}
pub(crate) use http_model;

/// A model that is reached over HTTP: one of those that agentflow has an adapter for.
///
/// Others implement [`Model`]; this trait only joins the adapters' builders in one, [`HttpModelBuilder`].
#[allow(private_bounds, reason = "only adapters implement it")]
pub trait HttpModel: Model + FromParts + 'static {}

/// Makes a model from its adapter.
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

/// Opens a model by its name at a server.
pub(crate) fn open<M: HttpModel>(model: Arc<str>, server: ServerSettings) -> Result<Arc<dyn Model>, ModelError> {
    let parts = Parts { model, server, output_mode: None };
    Ok(Arc::new(M::from_adapter(HttpAdapter::new(parts)?)))
}

/// Reads a body of server-sent events as a model's answer, without a server.
#[cfg(test)]
pub(crate) fn decode<M: HttpModel>(body: &[u8]) -> Result<agentflow_core::model::ModelResponse, ModelError> {
    let mut server = ServerSettings::new(M::Format::PROVIDER);
    server.base_url = Some(M::Format::PROVIDER.base_url.to_owned());
    let adapter = HttpAdapter::<M::Format>::new(Parts { model: "m".into(), server, output_mode: None })?;
    read_events(body, adapter.format.decoder(1))
}

/// Describes a model that is reached over HTTP, and the server it is at.
///
/// The addresses, names of keys and modes that count when nothing is set are named at each model's type.
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

    /// Sets the server's address, in the form in which the provider's own clients take it. A query (`?api-version=..`)
    /// is kept. Default: the provider's environment variable for it, else the provider's own server.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.parts.server.base_url = Some(url.into());
        self
    }

    /// Sets the key to send. Default: asked for by name before each call.
    pub fn api_key(mut self, key: Secret) -> Self {
        self.parts.server.key = Some(key);
        self
    }

    /// Sets the only name by which the key is asked for. Default: the provider's names. A server other than the
    /// provider's own is called without a key when there is none.
    pub fn api_key_name(mut self, name: impl Into<String>) -> Self {
        self.parts.server.key_name = Some(name.into());
        self
    }

    /// Sets where the key is asked for. Default: the environment.
    pub fn secrets(mut self, secrets: Arc<dyn SecretProvider>) -> Self {
        self.parts.server.secrets = secrets;
        self
    }

    /// Sends a header with every call. It replaces an own one of the same name; `Authorization`, or the provider's
    /// header for keys, is sent in place of the key. Values are never shown.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parts.server.headers.push((name.into(), value.into()));
        self
    }

    /// Sets time-outs, retries and limits.
    pub fn http(mut self, settings: HttpSettings) -> Self {
        self.parts.server.http = settings;
        self
    }

    /// Sets how the model is brought to answer in a given shape. Default: what works with the model and its server.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.parts.output_mode = Some(mode);
        self
    }

    /// The model. Nothing is sent yet.
    ///
    /// # Errors
    /// When the base URL is not an `http` or `https` address, a header cannot be sent, or the model's name cannot be
    /// part of an address that needs it.
    pub fn build(self) -> Result<M, ModelError> {
        Ok(M::from_adapter(HttpAdapter::new(self.parts)?))
    }
}

/// Shows neither keys nor the values of headers, nor the address, which may hold a key.
impl<M> fmt::Debug for HttpModelBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModelBuilder")
            .field("model", &self.parts.model)
            .field("http", &self.parts.server.http)
            .finish_non_exhaustive()
    }
}
