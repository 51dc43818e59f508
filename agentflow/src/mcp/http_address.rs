//! A server at an address: the transport of streamable HTTP, over the HTTP client that models are called with. It retries
//! nothing.

use std::collections::HashMap;

use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};

use super::mcp_settings::{HttpAddress, Settings};
use crate::mask;
use crate::model::http_client;

impl HttpAddress {
    /// # Errors
    /// A sentence that says what cannot be used.
    pub(super) fn check(&self) -> Result<(), String> {
        self.url()?;
        self.header_map().map(drop)
    }

    fn url(&self) -> Result<reqwest::Url, String> {
        let url: reqwest::Url =
            self.url.parse().map_err(|error| format!("`{}` is not an address: {error}", self.masked(&self.url)))?;
        match matches!(url.scheme(), "http" | "https") && url.has_host() {
            true => Ok(url),
            false => Err(format!("the address must begin with `http://` or `https://`, not with `{}:`", url.scheme())),
        }
    }

    fn header_map(&self) -> Result<HashMap<HeaderName, HeaderValue>, String> {
        let header = |(name, value): (&String, &String)| {
            let name: HeaderName = name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
            let mut value =
                HeaderValue::from_str(value).map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
            value.set_sensitive(true);
            Ok((name, value))
        };
        self.headers.iter().map(header).collect()
    }

    /// A text without keys.
    pub(super) fn masked(&self, text: &str) -> String {
        let bearer = self.bearer.as_ref().map(|key| key.expose().to_owned());
        let secrets = bearer.into_iter().chain(self.headers.values().filter(|value| value.len() >= 6).cloned());
        secrets.fold(text.to_owned(), |text, secret| mask::without(&text, &secret, "***").unwrap_or(text))
    }
}

/// The transport of one connection.
pub(super) fn transport(
    address: &HttpAddress,
    settings: &Settings,
) -> Result<StreamableHttpClientTransport<Client>, String> {
    let url = address.url()?;
    let client = http_client(&url, settings.connect_timeout).map_err(|error| error.to_string())?;
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(address.header_map()?)
        .max_sse_event_size(settings.max_message);
    let config = address.bearer.iter().fold(config, |config, key| config.auth_header(key.expose()));
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Whether a message cannot have reached the server: there was no connection to it.
pub(super) fn never_arrived(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(StreamableHttpError::Client(error)) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
            return error.is_connect();
        }
        cause = error.source();
    }
    false
}
