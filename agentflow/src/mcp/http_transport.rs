//! A server at an address: the transport of streamable HTTP, over the HTTP client that models are called with. It retries
//! nothing.

use reqwest::Client;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};

use super::mcp_settings::Settings;
use crate::model::{HttpAddress, http_client};

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
