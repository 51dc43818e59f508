//! Creates the streamable HTTP transport of a server at an address. It uses the HTTP client of the
//! model adapters, which does not retry requests.

use std::sync::Arc;

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::http_sender::HttpSender;
use super::mcp_settings::Described;
use agentflow_tools::__private::HttpAddress;

/// Creates the transport of one connection.
pub(super) fn transport(
    address: &HttpAddress,
    described: &Arc<Described>,
) -> Result<StreamableHttpClientTransport<HttpSender>, String> {
    let settings = &described.settings;
    let url = address.url()?;
    let client = agentflow_http::client(&url, settings.connect_timeout)
        .map_err(|error| error.to_string())?;
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(address.header_map()?)
        .max_sse_event_size(settings.max_message);
    let config = address.bearer.iter().fold(config, |config, key| config.auth_header(key.expose()));
    Ok(StreamableHttpClientTransport::with_client(HttpSender::new(client, described), config))
}
