//! A login of a person in a browser: creates the address with a PKCE challenge (RFC 7636), and
//! checks the address that the browser is sent back to. It does not open a browser.

use agentflow_schema::text::head;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use ring::digest::{SHA256, digest};

use super::discovery::AuthorizationServer;

/// Maximum number of bytes of the address that the browser is sent back to.
const LONGEST: usize = 16 << 10;

/// A login in progress. It contains secrets and has no `Debug`.
pub(super) struct BrowserLogin {
    pub(super) url: Url,
    pub(super) state: String,
    /// The PKCE verifier, the secret for the challenge in the address.
    pub(super) verifier: String,
    issuer: String,
    names_itself: bool,
}

impl BrowserLogin {
    pub(super) fn begin(
        server: &AuthorizationServer,
        client: &str,
        redirect_uri: &str,
        resource: &str,
        scopes: &[String],
    ) -> Result<Self, String> {
        let mut url = server.for_people()?.clone();
        let (state, verifier) = (random()?, random()?);
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        {
            let mut query = url.query_pairs_mut();
            query.extend_pairs([
                ("response_type", "code"),
                ("client_id", client),
                ("redirect_uri", redirect_uri),
                ("state", &state),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
                ("resource", resource),
            ]);
            if !scopes.is_empty() {
                query.append_pair("scope", &scopes.join(" "));
            }
        }
        Ok(Self {
            url,
            state,
            verifier,
            issuer: server.issuer.clone(),
            names_itself: server.names_itself,
        })
    }

    /// Returns the authorization code from the address that the browser was sent back to.
    ///
    /// # Errors
    /// Fails if the address is for another login, comes from another authorization server, or
    /// reports an error. The text does not contain the address.
    pub(super) fn code(&self, redirected: &str) -> Result<String, String> {
        if redirected.len() > LONGEST {
            return Err(format!("the browser was sent back with over {LONGEST} bytes"));
        }
        let query = redirected.split_once('?').map_or(redirected, |(_, query)| query);
        let query = query.split('#').next().unwrap_or_default();
        // Only the query is needed, so any base makes it parseable.
        let Ok(read) = Url::parse(&format!("back:?{query}")) else {
            return Err("the browser was sent back to what is not an address".to_owned());
        };
        let (mut state, mut issuer, mut code, mut error) = (None, None, None, None);
        for (name, value) in read.query_pairs() {
            let place = match &*name {
                "state" => &mut state,
                "iss" => &mut issuer,
                "code" => &mut code,
                "error" => &mut error,
                _ => continue,
            };
            if place.replace(value.into_owned()).is_some() {
                return Err(format!("the browser was sent back with two values of `{name}`"));
            }
        }
        // The check of `state` prevents another site from injecting its own code (RFC 6749, section
        // 10.12).
        if !state.is_some_and(|state| is_same(&state, &self.state)) {
            return Err(
                "the browser was sent back for another login: its `state` is not the one of this"
                    .to_owned(),
            );
        }
        let expected = head(&self.issuer, 200);
        match issuer {
            // The issuer is compared as text, because another spelling may be another server (RFC
            // 9207).
            Some(issuer) if issuer != self.issuer => {
                let issuer = head(&issuer, 200);
                return Err(format!("`{issuer}` answered the login at `{expected}`"));
            }
            None if self.names_itself => {
                return Err(format!(
                    "the answer to the login does not say that it is of `{expected}`, as it must"
                ));
            }
            _ => {}
        }
        if let Some(error) = error {
            // Only error codes are shown. Free text could contain secrets.
            let is_code = error.len() <= 64
                && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            let error = if is_code { &error } else { "an error" };
            return Err(format!("`{expected}` answered the login with `{error}`"));
        }
        code.filter(|code| !code.is_empty())
            .ok_or_else(|| format!("`{expected}` answered the login without a code"))
    }
}

/// Returns an unguessable text of 256 random bits.
fn random() -> Result<String, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Compares two strings. The time does not depend on the position of the first difference.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let differ =
        one.bytes().zip(other.bytes()).fold(0, |differ, (one, other)| differ | (one ^ other));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::{BrowserLogin, SHA256, URL_SAFE_NO_PAD, digest};

    fn login(names_itself: bool) -> BrowserLogin {
        let url = "https://login.example/authorize".parse().unwrap();
        BrowserLogin {
            url,
            state: "s".to_owned(),
            verifier: "v".to_owned(),
            issuer: "https://login.example".to_owned(),
            names_itself,
        }
    }

    /// Test vector of RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_standard() {
        let challenge =
            URL_SAFE_NO_PAD.encode(digest(&SHA256, b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn what_the_browser_brings_back_is_for_this_login() {
        let issuer = "iss=https%3A%2F%2Flogin.example";
        for (names_itself, back, expected) in [
            (true, format!("http://127.0.0.1/callback?code=c%2Bd&state=s&{issuer}"), Ok("c+d")),
            (false, "http://127.0.0.1/callback?state=s&code=c#x".to_owned(), Ok("c")),
            (false, "code=c&state=s".to_owned(), Ok("c")),
            (true, "?code=c&state=s".to_owned(), Err("does not say")),
            (false, "?code=c&state=S".to_owned(), Err("another login")),
            (false, "?code=c".to_owned(), Err("another login")),
            (false, "?code=c&state=s&state=s".to_owned(), Err("two values of `state`")),
            (
                false,
                "?code=c&state=s&iss=https://login.example/".to_owned(),
                Err("`https://login.example/` answered"),
            ),
            (false, "?error=access_denied&state=s".to_owned(), Err("`access_denied`")),
            (false, "?error=Secret%20words&state=s".to_owned(), Err("`an error`")),
            (
                true,
                "?error=access_denied&state=s&iss=https://evil.example".to_owned(),
                Err("evil.example"),
            ),
            (false, "?code=&state=s".to_owned(), Err("without a code")),
            (false, String::new(), Err("another login")),
            (false, "x".repeat(20_000), Err("over")),
        ] {
            match (login(names_itself).code(&back), expected) {
                (Ok(code), Ok(expected)) => assert_eq!(code, expected),
                (Err(problem), Err(says)) => assert!(problem.contains(says), "{back}: {problem}"),
                (Ok(code), Err(says)) => panic!("{back}: {code}, and not {says}"),
                (Err(problem), Ok(_)) => panic!("{back}: {problem}"),
            }
        }
    }
}
