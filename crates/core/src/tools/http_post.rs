//! One `POST` to an address that somebody else has chosen, under the same rules as the tool `http_request`: which hosts, which
//! addresses, over TLS where a key is sent. It follows no redirect, reads no body and repeats nothing.

use std::net::IpAddr;

use agentflow_http::AddressGuard;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};

use super::http_exchange::{may_be_plain, send};
use super::http_request::HttpRequest;
use super::http_target::host_of;
use crate::message::ToolStatus;
use crate::tool::ToolError;

impl HttpRequest {
    /// Why nothing is ever sent to an address, as far as that is known without a look at what its name means now.
    /// `has_key` says that headers with a secret are sent.
    ///
    /// # Errors
    /// A sentence for whoever chose the address.
    pub(crate) fn refuses(&self, url: &str, has_key: bool) -> Result<(), ToolError> {
        let url = self.targets.url(url, None)?;
        let host = host_of(&url);
        let address = host.parse::<IpAddr>().ok();
        if let Some(address) = address.filter(|address| !self.targets.guard.allows(*address)) {
            return Err(ToolError::new(format!("{address} is not an address of the public internet")));
        }
        let public = AddressGuard::default();
        let is_plain = url.scheme() != "https" && has_key;
        // A name may mean an address that the guard was told to allow.
        let may_be_plain = address.map_or(self.targets.guard != public, |address| !public.allows(address));
        match is_plain && !may_be_plain {
            true => Err(plain_key(&host)),
            false => Ok(()),
        }
    }

    /// Sends a text; the status of the answer, whose body is not read.
    ///
    /// # Errors
    /// When the address is refused, or nobody answers within the time limit.
    pub(crate) async fn post(
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
            // Connected to what was checked, without the keys of this program: somebody else has chosen the address.
            let sent = send(&self.targets, &url, &addresses, &Method::POST, headers.clone(), Some(body)).await;
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
