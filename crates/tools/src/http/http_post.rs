//! A single `POST` to an address that another party chose, under the rules of the tool
//! `http_request` for hosts, addresses and TLS. There are no redirects or retries, and the body of
//! the answer is not read.

use std::net::IpAddr;

use agentflow_http::AddressGuard;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};

use super::http_exchange::{may_be_plain, send};
use super::http_request::HttpRequest;
use super::http_target::host_of;
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::ToolError;

impl HttpRequest {
    /// Checks an address without resolving its host. `has_key` is `true` if headers contain a
    /// secret.
    ///
    /// # Errors
    /// A message for the party that chose the address, if no request to it is ever sent.
    #[doc(hidden)]
    pub fn refuses(&self, url: &str, has_key: bool) -> Result<(), ToolError> {
        let url = self.targets.url(url, None)?;
        let host = host_of(&url);
        let address = host.parse::<IpAddr>().ok();
        if let Some(address) = address.filter(|address| !self.targets.guard.allows(*address)) {
            return Err(ToolError::new(format!(
                "{address} is not an address of the public internet"
            )));
        }
        let public = AddressGuard::default();
        let is_plain = url.scheme() != "https" && has_key;
        // A host name may resolve to a private address that the guard allows.
        let may_be_plain =
            address.map_or(self.targets.guard != public, |address| !public.allows(address));
        match is_plain && !may_be_plain {
            true => Err(plain_key(&host)),
            false => Ok(()),
        }
    }

    /// Sends a string and returns the status of the answer.
    ///
    /// # Errors
    /// The address is refused, or the server does not answer within the time limit.
    #[doc(hidden)]
    pub async fn post(
        &self,
        url: &str,
        headers: &HeaderMap,
        has_key: bool,
        body: &str,
    ) -> Result<u16, ToolError> {
        let sent = async {
            self.refuses(url, has_key)?;
            let url: Url = self.targets.url(url, None)?;
            let addresses = self.targets.addresses(&url).await?;
            if has_key && url.scheme() != "https" && !may_be_plain(&addresses) {
                return Err(plain_key(&host_of(&url)));
            }
            // Connect only to the checked addresses, and send no keys of this program: another
            // party chose the address.
            let sent =
                send(&self.targets, &url, &addresses, &Method::POST, headers.clone(), Some(body))
                    .await;
            let response = sent.map_err(|unsent| unsent.error)?;
            Ok(response.status().as_u16())
        };
        let late = |_| {
            let problem = format!("it did not answer within {:?}", self.timeout);
            Err(ToolError::with_status(ToolStatus::Timeout, problem))
        };
        tokio::time::timeout(self.timeout, sent).await.unwrap_or_else(late)
    }
}

fn plain_key(host: &str) -> ToolError {
    ToolError::new(format!("`{host}` is sent a token, which goes over `https:` alone"))
}
