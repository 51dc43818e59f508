//! Which authorization server a server belongs to, and what that one can do: protected resource metadata (RFC 9728) and the
//! metadata of authorization servers (RFC 8414, OpenID Connect Discovery). What does not name the server itself is refused.

use reqwest::Url;
use serde::Deserialize;

use super::auth_requests::AuthRequests;
use super::challenge::{Challenge, scopes_of};
use crate::text::head;

/// What a login is for, and where.
pub(super) struct Discovered {
    /// The name of the server, as it is published: tokens are for it alone (RFC 8707).
    pub(super) resource: String,
    /// The scopes that it says it knows.
    pub(super) scopes: Vec<String>,
    pub(super) server: AuthorizationServer,
}

/// An authorization server, by its own metadata.
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization: Option<Url>,
    pub(super) token: Url,
    pub(super) registration: Option<Url>,
    pub(super) revocation: Option<Url>,
    /// How a client says who it is; `None` when it is not said.
    pub(super) client_auth: Option<Vec<String>>,
    pub(super) scopes: Vec<String>,
    /// Whether a client can be the address of a document about it.
    pub(super) takes_documents: bool,
    /// Whether it says who it is when it sends the browser back.
    pub(super) names_itself: bool,
    challenge_methods: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    code_challenge_methods_supported: Option<Vec<String>>,
    response_types_supported: Option<Vec<String>>,
}

/// Finds out where to log in. `prefers` is the issuer at which the program has a client.
///
/// # Errors
/// A sentence that says which metadata cannot be used.
pub(super) async fn discovered(
    requests: &AuthRequests,
    server: &Url,
    challenge: &Challenge,
    prefers: Option<&str>,
) -> Result<Discovered, String> {
    match resource_of(requests, server, challenge).await? {
        Some(Resource { resource, authorization_servers, scopes_supported }) => {
            let preferred = authorization_servers.iter().find(|issuer| Some(issuer.as_str()) == prefers);
            let Some(issuer) = preferred.or(authorization_servers.first()) else {
                return Err(format!("the metadata of `{}` names no authorization server", head(&resource, 200)));
            };
            let server = authorization_server(requests, issuer).await?;
            Ok(Discovered { resource, scopes: scopes_of(&scopes_supported.join(" ")), server })
        }
        // Servers of earlier revisions are their own authorization servers.
        None => {
            let issuer = server.origin().ascii_serialization();
            let server_of = authorization_server(requests, &issuer).await.map_err(|problem| {
                format!("the server does not say where to log in, by no metadata of RFC 9728; and itself: {problem}")
            })?;
            Ok(Discovered { resource: name_of(server), scopes: Vec::new(), server: server_of })
        }
    }
}

/// The address of a server as its name.
fn name_of(server: &Url) -> String {
    let mut name = server.clone();
    name.set_fragment(None);
    name.set_query(None);
    let text = name.as_str();
    if name.path() == "/" { text.trim_end_matches('/').to_owned() } else { text.to_owned() }
}

async fn resource_of(requests: &AuthRequests, server: &Url, challenge: &Challenge) -> Result<Option<Resource>, String> {
    let said = match &challenge.metadata {
        Some(text) => {
            let url = server.join(text).map_err(|_| "the server says where its metadata is by no address")?;
            Some(requests.address(url.as_str())?)
        }
        None => None,
    };
    let path = server.path().trim_end_matches('/');
    let well_known =
        [format!("/.well-known/oauth-protected-resource{path}"), "/.well-known/oauth-protected-resource".into()];
    let mut tried: Vec<Url> = Vec::new();
    for url in said.into_iter().chain(well_known.iter().map(|path| at(server, path))) {
        if tried.contains(&url) {
            continue;
        }
        let reply = requests.get(&url).await?;
        if reply.is_success() {
            let shown = head(url.as_str(), 200);
            let resource: Resource =
                reply.json().map_err(|why| format!("the metadata at `{shown}` cannot be used: {why}"))?;
            return match is_of(&resource.resource, server) {
                true => Ok(Some(resource)),
                false => Err(format!(
                    "the metadata at `{shown}` is of `{}`, which is another server",
                    head(&resource.resource, 200)
                )),
            };
        }
        if (300..400).contains(&reply.status) || reply.status >= 500 {
            return Err(format!("`{}` answered {}; redirects are not followed", head(url.as_str(), 200), reply.status));
        }
        tried.push(url);
    }
    Ok(None)
}

/// A server's address with another path, and no query.
fn at(server: &Url, path: &str) -> Url {
    let mut url = server.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Whether the name of a resource is that of a server, or of what the server is a part of.
fn is_of(resource: &str, server: &Url) -> bool {
    let Ok(resource) = resource.parse::<Url>() else { return false };
    let path = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(path);
    resource.origin() == server.origin()
        && resource.fragment().is_none()
        && resource.has_host()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && resource.query().is_none_or(|query| server.query() == Some(query))
}

async fn authorization_server(requests: &AuthRequests, issuer: &str) -> Result<AuthorizationServer, String> {
    let shown = head(issuer, 200);
    let url = requests.address(issuer)?;
    if url.query().is_some() {
        return Err(format!("`{shown}` is not the name of an authorization server: it has a query"));
    }
    let path = url.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    for place in places {
        let reply = requests.get(&at(&url, &place)).await?;
        if reply.is_success() {
            let metadata: Metadata =
                reply.json().map_err(|why| format!("the metadata of `{shown}` cannot be used: {why}"))?;
            return of_metadata(requests, issuer, metadata);
        }
        if (300..400).contains(&reply.status) || reply.status >= 500 {
            return Err(format!("`{shown}` answered {}; redirects are not followed", reply.status));
        }
    }
    Err(format!("the authorization server `{shown}` has no metadata at the places of RFC 8414 and OpenID Connect"))
}

fn of_metadata(requests: &AuthRequests, issuer: &str, metadata: Metadata) -> Result<AuthorizationServer, String> {
    let shown = head(issuer, 200);
    // Compared as texts: whoever may write `https://a` and `https://a/` alike may mean two servers.
    if metadata.issuer != issuer {
        let says = head(&metadata.issuer, 200);
        return Err(format!("the metadata of the authorization server `{shown}` is that of `{says}`"));
    }
    let address = |text: &Option<String>| text.as_ref().map(|text| requests.address(text)).transpose();
    Ok(AuthorizationServer {
        issuer: metadata.issuer,
        authorization: address(&metadata.authorization_endpoint)?,
        token: requests.address(&metadata.token_endpoint)?,
        registration: address(&metadata.registration_endpoint)?,
        revocation: address(&metadata.revocation_endpoint)?,
        client_auth: metadata.token_endpoint_auth_methods_supported,
        scopes: scopes_of(&metadata.scopes_supported.join(" ")),
        takes_documents: metadata.client_id_metadata_document_supported,
        names_itself: metadata.authorization_response_iss_parameter_supported,
        challenge_methods: metadata.code_challenge_methods_supported,
        response_types: metadata.response_types_supported,
    })
}

impl AuthorizationServer {
    /// Where a person logs in, if that can be done as it must be: with a code, and with PKCE by SHA-256.
    pub(super) fn for_people(&self) -> Result<&Url, String> {
        let issuer = head(&self.issuer, 200);
        let has =
            |list: &Option<Vec<String>>, name: &str| list.as_ref().is_some_and(|of| of.iter().any(|of| of == name));
        if !has(&self.challenge_methods, "S256") {
            return Err(format!("the authorization server `{issuer}` does not say that it has PKCE by `S256`"));
        }
        if self.response_types.is_some() && !has(&self.response_types, "code") {
            return Err(format!("the authorization server `{issuer}` gives no codes"));
        }
        self.authorization
            .as_ref()
            .ok_or_else(|| format!("at the authorization server `{issuer}` no person can log in"))
    }
}

#[cfg(test)]
mod tests {
    use super::{is_of, name_of};

    #[test]
    fn a_resource_is_the_server_or_what_it_is_a_part_of() {
        let server = "https://h.example/a/mcp".parse().unwrap();
        for (resource, expected) in [
            ("https://h.example/a/mcp", true),
            ("https://h.example/a/mcp/", true),
            ("https://h.example/a", true),
            ("https://h.example", true),
            ("HTTPS://H.example:443/", true),
            ("https://h.example/a/mc", false),
            ("https://h.example/a/mcp/more", false),
            ("https://h.example/a?b", false),
            ("https://h.example/#a", false),
            ("http://h.example/a/mcp", false),
            ("https://h.example:444/a/mcp", false),
            ("https://evil.example/a/mcp", false),
            ("https://h.example@evil.example/a/mcp", false),
            ("urn:a", false),
            ("", false),
        ] {
            assert_eq!(is_of(resource, &server), expected, "{resource}");
        }
        assert_eq!(name_of(&"https://h.example/".parse().unwrap()), "https://h.example");
        assert_eq!(name_of(&"https://h.example/mcp?a=b".parse().unwrap()), "https://h.example/mcp");
    }
}
