//! An address that a program gives, and what each request to it has: a key, headers. It sends nothing.

use std::collections::{BTreeMap, HashMap};

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use super::secret_header::secret_header;
use crate::mask;
use crate::model::Secret;

/// An address and what each request to it has.
#[derive(Clone, Default)]
pub(crate) struct HttpAddress {
    pub(crate) url: String,
    pub(crate) bearer: Option<Secret>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl HttpAddress {
    /// # Errors
    /// A sentence that says what cannot be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.url()?;
        self.header_map().map(drop)
    }

    pub(crate) fn url(&self) -> Result<Url, String> {
        let url: Url =
            self.url.parse().map_err(|error| format!("`{}` is not an address: {error}", self.masked(&self.url)))?;
        match matches!(url.scheme(), "http" | "https") && url.has_host() {
            true => Ok(url),
            false => Err(format!("the address must begin with `http://` or `https://`, not with `{}:`", url.scheme())),
        }
    }

    pub(crate) fn header_map(&self) -> Result<HashMap<HeaderName, HeaderValue>, String> {
        self.headers.iter().map(|(name, value)| secret_header(name, value)).collect()
    }

    /// A text without keys.
    pub(crate) fn masked(&self, text: &str) -> String {
        let bearer = self.bearer.as_ref().map(|key| key.expose().to_owned());
        let secrets = bearer.into_iter().chain(self.headers.values().filter(|value| value.len() >= 6).cloned());
        secrets.fold(text.to_owned(), |text, secret| mask::without(&text, &secret, "***").unwrap_or(text))
    }
}
