//! The HTTP client of one connection, which sends the token of the login with each request. It logs nobody in: what a server
//! refuses is for whoever asked.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::authorizer::Authorizer;

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A client with the login of a server, if there is one.
#[derive(Clone)]
pub(in crate::mcp) struct AuthorizedClient {
    client: Client,
    login: Option<Arc<Authorizer>>,
}

impl AuthorizedClient {
    pub(in crate::mcp) fn new(client: Client, login: Option<Arc<Authorizer>>) -> Self {
        Self { client, login }
    }

    /// The key of the program, else the token of the login.
    async fn key(&self, given: Option<String>) -> Result<Option<String>, Failure> {
        match &self.login {
            Some(login) => {
                let token = login.token().await.map_err(|error| Failure::Io(io::Error::other(error)))?;
                Ok(token.map(|token| token.expose().to_owned()))
            }
            None => Ok(given),
        }
    }
}

impl StreamableHttpClient for AuthorizedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        key: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let key = self.key(key).await?;
        self.client.post_message(uri, message, session, key, headers).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        key: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let key = self.key(key).await?;
        self.client.post_message_with_max_sse_event_size(uri, message, session, key, headers, most).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        key: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let key = self.key(key).await?;
        self.client.delete_session(uri, session, key, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        key: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let key = self.key(key).await?;
        self.client.get_stream(uri, session, last_event, key, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        key: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<Events, Failure> {
        let key = self.key(key).await?;
        self.client.get_stream_with_max_sse_event_size(uri, session, last_event, key, headers, most).await
    }
}
