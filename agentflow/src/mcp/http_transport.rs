//! A server at an address: the transport of streamable HTTP, over the HTTP client that models are called with. It retries
//! nothing.

use reqwest::Client;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::mcp_settings::Described;
use crate::model::{HttpAddress, http_client};

#[cfg(feature = "mcp-auth")]
type Sender = super::authorization::AuthorizedClient;
#[cfg(not(feature = "mcp-auth"))]
type Sender = Client;

/// The transport of one connection.
pub(super) fn transport(
    address: &HttpAddress,
    described: &Described,
) -> Result<StreamableHttpClientTransport<Sender>, String> {
    let settings = &described.settings;
    let url = address.url()?;
    let client = http_client(&url, settings.connect_timeout).map_err(|error| error.to_string())?;
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(address.header_map()?)
        .max_sse_event_size(settings.max_message);
    let config = address.bearer.iter().fold(config, |config, key| config.auth_header(key.expose()));
    Ok(StreamableHttpClientTransport::with_client(sender(client, described), config))
}

#[cfg(feature = "mcp-auth")]
fn sender(client: Client, described: &Described) -> Sender {
    Sender::new(client, described.login.clone())
}

#[cfg(not(feature = "mcp-auth"))]
fn sender(client: Client, _: &Described) -> Sender {
    client
}
