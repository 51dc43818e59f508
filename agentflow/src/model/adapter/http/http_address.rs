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
        let secrets = self
            .key_of_address()
            .into_iter()
            .chain(bearer)
            .chain(self.headers.values().filter(|value| value.len() >= 6).cloned());
        secrets.fold(text.to_owned(), |text, secret| mask::without(&text, &secret, "***").unwrap_or(text))
    }

    /// The user and the password in the address, also of a text that is not an address.
    fn key_of_address(&self) -> Vec<String> {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let place = match self.url.parse::<Url>() {
            Ok(_) => rest.split(['/', '?', '#', '\\']).next().unwrap_or_default(),
            Err(_) => rest,
        };
        let Some((user, _)) = place.rsplit_once('@') else { return Vec::new() };
        match user.split_once(':') {
            Some((_, password)) if !password.is_empty() => vec![user.to_owned(), password.to_owned()],
            _ if user.len() >= 6 => vec![user.to_owned()],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HttpAddress;

    #[test]
    fn a_key_in_an_address_is_masked() {
        for url in ["https://bob:pw9@h.example/mcp", "https://bob:p/w9@h.example:x", "bob:pw9@", "https://bob:pw9@"] {
            let address = HttpAddress { url: url.to_owned(), ..HttpAddress::default() };
            let text = format!("{} {}", address.url().err().unwrap_or_default(), address.masked(&format!("at {url}")));
            assert!(!text.contains("w9"), "{text}");
        }
        let address = HttpAddress { url: "https://a@h.example/@b".to_owned(), ..HttpAddress::default() };
        assert_eq!(address.masked("a banana"), "a banana");
    }
}
