//! [`HttpAddress`]: the URL of a server with the key and the headers that are sent with each
//! request, and the masking of these secrets in messages.

use std::collections::{BTreeMap, HashMap};

use agentflow_http::{percent_decoded, secret_header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use agentflow_core::__private::extension::mask;
use agentflow_core::model::Secret;

/// Headers whose values are not secret.
const PLAIN_HEADERS: [&str; 4] = ["accept", "accept-language", "content-type", "user-agent"];
/// Minimum number of bytes of a secret. Shorter strings would be found everywhere.
const SHORTEST: usize = 6;

/// URL of a server with the credentials and headers of each request.
#[derive(Clone, Default)]
#[allow(missing_debug_implementations, reason = "it holds a token")]
pub struct HttpAddress {
    /// The address.
    pub url: String,
    /// The token of the header `Authorization`.
    pub bearer: Option<Secret>,
    /// Further headers of each request.
    pub headers: BTreeMap<String, String>,
}

impl HttpAddress {
    /// Checks the URL and the headers.
    ///
    /// # Errors
    /// A message that describes the invalid part.
    pub fn check(&self) -> Result<(), String> {
        self.url()?;
        self.header_map().map(drop)
    }

    /// Returns the address.
    ///
    /// # Errors
    /// A message about an address that cannot be used.
    pub fn url(&self) -> Result<Url, String> {
        let url: Url = self
            .url
            .parse()
            .map_err(|error| format!("`{}` is not an address: {error}", self.masked(&self.url)))?;
        match matches!(url.scheme(), "http" | "https") && url.has_host() {
            true => Ok(url),
            false => Err(format!(
                "the address must begin with `http://` or `https://`, not with `{}:`",
                url.scheme()
            )),
        }
    }

    /// Returns all headers.
    ///
    /// # Errors
    /// A message about an invalid header.
    pub fn header_map(&self) -> Result<HashMap<HeaderName, HeaderValue>, String> {
        self.headers.iter().map(|(name, value)| secret_header(name, value)).collect()
    }

    /// Replaces all secrets of this address in a string with `***`.
    pub fn masked(&self, text: &str) -> String {
        let secrets = self.key_of_address().into_iter().chain(self.sent_secrets());
        secrets.fold(text.to_owned(), |text, secret| {
            mask::without(&text, &secret, "***").unwrap_or(text)
        })
    }

    /// Returns the secrets that are sent to the server: the key, the values of headers with and without the authentication
    /// scheme, and the keys in the address.
    pub fn secrets(&self) -> Vec<String> {
        self.key_of_address().into_iter().chain(self.sent_secrets()).collect()
    }

    fn sent_secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> =
            self.bearer.iter().map(|key| key.expose().to_owned()).collect();
        for (name, value) in &self.headers {
            if PLAIN_HEADERS.iter().any(|plain| name.eq_ignore_ascii_case(plain)) {
                continue;
            }
            // `Bearer KEY` has two secret forms: the whole value, and the key after the scheme.
            let key = value.split_once(' ').map(|(_, key)| key);
            secrets
                .extend([Some(value.as_str()), key].into_iter().flatten().map(ToOwned::to_owned));
        }
        if let Ok(url) = self.url.parse::<Url>() {
            secrets.extend(basic_auth(&url));
            let pairs = url.query_pairs().filter(|(name, _)| names_key(name));
            secrets.extend(pairs.map(|(_, value)| value.into_owned()));
        }
        secrets.retain(|secret| secret.len() >= SHORTEST);
        // Longest first, so that a secret that contains another is masked whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }

    /// Returns the user and the password in the URL, also if the text is not a valid URL.
    fn key_of_address(&self) -> Vec<String> {
        // The text is parsed without `Url`, since error messages quote addresses that `Url`
        // refuses.
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let place = match self.url.parse::<Url>() {
            Ok(_) => rest.split(['/', '?', '#', '\\']).next().unwrap_or_default(),
            Err(_) => rest,
        };
        let Some((user, _)) = place.rsplit_once('@') else { return Vec::new() };
        match user.split_once(':') {
            Some((_, password)) if !password.is_empty() => {
                vec![user.to_owned(), password.to_owned()]
            }
            // A short user name without a password is not a key; masking it would damage ordinary
            // text.
            _ if user.len() >= 6 => vec![user.to_owned()],
            _ => Vec::new(),
        }
    }
}

/// Returns the value of the header `Authorization` for a user and a password in an address.
fn basic_auth(url: &Url) -> Option<String> {
    let user = percent_decoded(url.username());
    url.password().map(|password| STANDARD.encode(format!("{user}:{}", percent_decoded(password))))
}

/// Returns true if a parameter of this name in an address holds a key.
fn names_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "pass", "secret", "sig", "token"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::HttpAddress;

    #[test]
    fn every_form_in_which_a_key_is_sent_is_a_secret() {
        let address = HttpAddress {
            url: "https://bob:p%40ss@h.example/mcp?project=research&api_key=ak-123456".to_owned(),
            headers: [
                ("x-auth", "Bearer sk-123456"),
                ("accept-language", "english"),
                ("x-n", "12345"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            ..HttpAddress::default()
        };
        let masked = address.masked("Ym9iOnBAc3M= ak-123456 sk-123456 research english 12345");
        assert_eq!(masked, "*** *** *** research english 12345");
    }

    #[test]
    fn a_key_in_an_address_is_masked() {
        for url in [
            "https://bob:pw9@h.example/mcp",
            "https://bob:p/w9@h.example:x",
            "bob:pw9@",
            "https://bob:pw9@",
        ] {
            let address = HttpAddress { url: url.to_owned(), ..HttpAddress::default() };
            let text = format!(
                "{} {}",
                address.url().err().unwrap_or_default(),
                address.masked(&format!("at {url}"))
            );
            assert!(!text.contains("w9"), "{text}");
        }
        let address =
            HttpAddress { url: "https://a@h.example/@b".to_owned(), ..HttpAddress::default() };
        assert_eq!(address.masked("a banana"), "a banana");
    }
}
