//! The HTTP client of one connection. It adds the token of the login to each request. In a session
//! it delays requests until the server's event stream is open, because questions of the server
//! arrive over that stream. The transport calls the variants of the trait's methods that take an
//! event size limit. These call the methods here, which apply the limit of this client. A request
//! that fails because the server wants a login is reported to its caller, who decides about the
//! login.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::sync::watch;

use super::mcp_settings::Described;

type Headers = HashMap<HeaderName, HeaderValue>;
type SendError = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Maximum time that the requests of a session wait for the server's event stream. Some servers
/// answer the request for the stream only with their first message.
const OPENS_WITHIN: Duration = Duration::from_secs(2);

/// An HTTP client that sends the login of the server, if one exists.
#[derive(Clone)]
pub(super) struct HttpSender {
    client: Client,
    /// Maximum number of bytes of an event.
    most: usize,
    /// `true` once the request for the session's event stream was answered. The server may lose
    /// questions that it sends before.
    has_stream: watch::Sender<bool>,
    /// Ids of requests that failed in an old session and are sent again in a new one.
    refused: Arc<Mutex<Vec<RequestId>>>,
    described: Arc<Described>,
}

impl HttpSender {
    pub(super) fn new(client: Client, described: &Arc<Described>) -> Self {
        Self {
            client,
            most: described.settings.max_message,
            has_stream: watch::Sender::new(false),
            refused: Arc::default(),
            described: Arc::clone(described),
        }
    }

    /// Masks keys in the text of a failure, because the transport logs it.
    fn masked(&self, failure: SendError) -> SendError {
        match failure {
            SendError::UnexpectedServerResponse(text) => {
                SendError::UnexpectedServerResponse(self.described.masked(&text).into())
            }
            other => other,
        }
    }

    #[cfg_attr(
        not(feature = "auth"),
        allow(clippy::unused_async, reason = "a login may have to be renewed")
    )]
    /// Returns the token of the login, if the server has a login, or else the key that the program
    /// configured.
    async fn key(&self, given: Option<String>) -> Result<Option<String>, SendError> {
        #[cfg(feature = "auth")]
        if let Some(login) = &self.described.login {
            let token =
                login.token().await.map_err(|error| SendError::Io(std::io::Error::other(error)))?;
            return Ok(token.map(|token| token.expose().to_owned()));
        }
        Ok(given)
    }

    /// Assigns an error without an id to its request. A server sends such an error if it cannot
    /// read a request or does not know its session, so it has not executed the request. In a
    /// session, the server was probably restarted: the first such error ends the session, and the
    /// transport sends the request again in a new one. If the request fails again, or outside of
    /// sessions, the request gets the error.
    fn correlate(
        &self,
        answer: StreamableHttpPostResponse,
        request: Option<RequestId>,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, SendError> {
        let Some(request) = request else { return Ok(answer) };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let was_refused = refused
            .iter()
            .position(|other| *other == request)
            .map(|at| refused.swap_remove(at))
            .is_some();
        match answer {
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(mut error), of)
                if error.id.is_none() =>
            {
                if in_session && !was_refused {
                    refused.push(request);
                    return Err(SendError::SessionExpired);
                }
                error.id = Some(request);
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), of))
            }
            answer => Ok(answer),
        }
    }

    /// Delays a request in a session until the server can send questions for it.
    async fn ready(&self, message: &ClientJsonRpcMessage, session: Option<&Arc<str>>) {
        if !matches!(message, JsonRpcMessage::Request(_)) {
            return;
        }
        if session.is_none() {
            // A request without a session may open one.
            self.has_stream.send_replace(false);
            return;
        }
        let mut has_stream = self.has_stream.subscribe();
        let _ =
            tokio::time::timeout(OPENS_WITHIN, has_stream.wait_for(|has_stream| *has_stream)).await;
        // Only the first request of a session waits.
        self.has_stream.send_replace(true);
    }
}

impl StreamableHttpClient for HttpSender {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        key: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, SendError> {
        self.ready(&message, session.as_ref()).await;
        let key = self.key(key).await?;
        let request = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let (client, most, in_session) = (&self.client, self.most, session.is_some());
        let posted = client
            .post_message_with_max_sse_event_size(uri, message, session, key, headers, most)
            .await;
        let answer = posted.map_err(|failure| self.masked(failure))?;
        self.correlate(answer, request, in_session)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        key: Option<String>,
        headers: Headers,
    ) -> Result<(), SendError> {
        let key = self.key(key).await?;
        let deleted = self.client.delete_session(uri, session, key, headers).await;
        deleted.map_err(|failure| self.masked(failure))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        key: Option<String>,
        headers: Headers,
    ) -> Result<Events, SendError> {
        let key = self.key(key).await?;
        let events = self
            .client
            .get_stream_with_max_sse_event_size(uri, session, last_event, key, headers, self.most)
            .await;
        self.has_stream.send_replace(true);
        events.map_err(|failure| self.masked(failure))
    }
}
