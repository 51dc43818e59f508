//! Finds the authorization server of an MCP server and its capabilities, from protected resource
//! metadata (RFC 9728) and authorization server metadata (RFC 8414, OpenID Connect Discovery).
//! Metadata that names another server is refused.

use agentflow_schema::text::head;
use reqwest::Url;
use serde::Deserialize;

use super::auth_requests::AuthRequests;
use super::challenge::{Challenge, parse_scopes};

/// Path prefix of a resource's metadata.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Result of the discovery.
pub(super) struct LoginTarget {
    /// Published name of the MCP server. Tokens are valid only for this resource (RFC 8707).
    pub(super) resource: String,
    /// Scopes that the MCP server lists in its metadata.
    pub(super) scopes: Vec<String>,
    pub(super) server: AuthorizationServer,
}

/// An authorization server, as described by its metadata.
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization: Option<Url>,
    pub(super) token: Url,
    pub(super) registration: Option<Url>,
    pub(super) revocation: Option<Url>,
    /// Supported authentication methods of clients. `None` if the metadata does not list them.
    pub(super) client_auth: Option<Vec<String>>,
    pub(super) scopes: Vec<String>,
    /// `true` if the server accepts the address of a client metadata document as a client id.
    pub(super) takes_documents: bool,
    /// `true` if the server adds its issuer to the address that the browser is sent back to (RFC
    /// 9207).
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

/// Finds the authorization server for a login. `only` is the issuer at which the program has a
/// client. No other issuer is contacted, because it could pass a login for that client on and
/// receive its code.
///
/// # Errors
/// Describes the metadata that cannot be used.
pub(super) async fn discovered(
    requests: &AuthRequests,
    server: &Url,
    challenge: &Challenge,
    only: Option<&str>,
) -> Result<LoginTarget, String> {
    match fetch_resource_metadata(requests, server, challenge).await? {
        Some(Resource { resource, authorization_servers, scopes_supported }) => {
            let Some(first) = authorization_servers.first() else {
                return Err(format!(
                    "the metadata of `{}` names no authorization server",
                    head(&resource, 200)
                ));
            };
            // Without a configured client, the first issuer is used.
            let issuer = match only {
                Some(only) => authorization_servers
                    .iter()
                    .find(|issuer| *issuer == only)
                    .ok_or_else(|| not_of_client(first, only))?,
                None => first,
            };
            let server = authorization_server(requests, issuer).await?;
            Ok(LoginTarget { resource, scopes: parse_scopes(&scopes_supported.join(" ")), server })
        }
        // Servers of earlier protocol revisions are their own authorization servers.
        None => {
            let issuer = server.origin().ascii_serialization();
            if let Some(only) = only.filter(|only| *only != issuer) {
                return Err(not_of_client(&issuer, only));
            }
            let server_of = authorization_server(requests, &issuer).await.map_err(|problem| {
                format!("the server does not say where to log in, by no metadata of RFC 9728; and itself: {problem}")
            })?;
            Ok(LoginTarget { resource: name_of(server), scopes: Vec::new(), server: server_of })
        }
    }
}

fn not_of_client(issuer: &str, only: &str) -> String {
    format!(
        "its authorization server is `{}`, and the program has no client there, but at `{}`",
        head(issuer, 200),
        head(only, 200)
    )
}

/// Returns the address of a server as the name of its resource.
fn name_of(server: &Url) -> String {
    let mut name = server.clone();
    name.set_fragment(None);
    name.set_query(None);
    let text = name.as_str();
    if name.path() == "/" { text.trim_end_matches('/').to_owned() } else { text.to_owned() }
}

async fn fetch_resource_metadata(
    requests: &AuthRequests,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<Resource>, String> {
    let said = match &challenge.metadata {
        Some(text) => {
            let url = server
                .join(text)
                .map_err(|_| "the server says where its metadata is by no address")?;
            Some(requests.address(url.as_str())?)
        }
        None => None,
    };
    let path = server.path().trim_end_matches('/');
    let well_known = [format!("{WELL_KNOWN}{path}"), WELL_KNOWN.to_owned()];
    let mut tried: Vec<Url> = Vec::new();
    // The address of the challenge comes first, then the well-known path for the server's own path,
    // then the one for the whole host.
    for url in said.into_iter().chain(well_known.iter().map(|path| at(server, path))) {
        if tried.contains(&url) {
            continue;
        }
        let reply = requests.get(&url).await?;
        if reply.is_success() {
            let shown = head(url.as_str(), 200);
            let resource: Resource = reply
                .json()
                .map_err(|why| format!("the metadata at `{shown}` cannot be used: {why}"))?;
            let named = head(&resource.resource, 200);
            return match match_resource(&resource.resource, server) {
                Some(ResourceRelation::Itself) => Ok(Some(resource)),
                // The owner of one path of a host must not obtain tokens for the whole host.
                Some(ResourceRelation::Above(place)) if place == url => Ok(Some(resource)),
                Some(ResourceRelation::Above(place)) => Err(format!(
                    "the metadata at `{shown}` is of `{named}`, which the server is only a part of; that is read from `{}` alone",
                    head(place.as_str(), 200)
                )),
                None => Err(format!(
                    "the metadata at `{shown}` is of `{named}`, which is another server"
                )),
            };
        }
        // Any other status means that this address has no metadata, so the next one is tried.
        if (300..400).contains(&reply.status) || reply.status >= 500 {
            return Err(format!(
                "`{}` answered {}; redirects are not followed",
                head(url.as_str(), 200),
                reply.status
            ));
        }
        tried.push(url);
    }
    Ok(None)
}

/// Returns the server's address with a different path and without a query.
fn at(server: &Url, path: &str) -> Url {
    let mut url = server.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Relation of a resource to the server.
#[derive(Debug, PartialEq, Eq)]
enum ResourceRelation {
    Itself,
    /// The server is a part of the resource. Contains the address of the resource's metadata.
    Above(Url),
}

/// Compares the name of a resource with the server. Returns `None` if it names another server.
fn match_resource(resource: &str, server: &Url) -> Option<ResourceRelation> {
    let resource = resource.parse::<Url>().ok()?;
    let path = resource.path().trim_end_matches('/');
    // A resource at a parent path covers the server, but only at a boundary between path segments.
    let rest = server.path().strip_prefix(path)?;
    let is_of = resource.origin() == server.origin()
        && resource.fragment().is_none()
        && resource.has_host()
        && resource.username().is_empty()
        && resource.password().is_none()
        && (rest.is_empty() || rest.starts_with('/'))
        && resource.query().is_none_or(|query| server.query() == Some(query));
    let above = || {
        let mut place = at(&resource, &format!("{WELL_KNOWN}{path}"));
        place.set_query(resource.query());
        ResourceRelation::Above(place)
    };
    is_of.then(|| {
        if rest.trim_end_matches('/').is_empty() { ResourceRelation::Itself } else { above() }
    })
}

pub(super) async fn authorization_server(
    requests: &AuthRequests,
    issuer: &str,
) -> Result<AuthorizationServer, String> {
    let shown = head(issuer, 200);
    let url = requests.address(issuer)?;
    if url.query().is_some() {
        return Err(format!(
            "`{shown}` is not the name of an authorization server: it has a query"
        ));
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
            let metadata: Metadata = reply
                .json()
                .map_err(|why| format!("the metadata of `{shown}` cannot be used: {why}"))?;
            return convert_metadata(requests, issuer, metadata);
        }
        if (300..400).contains(&reply.status) || reply.status >= 500 {
            return Err(format!("`{shown}` answered {}; redirects are not followed", reply.status));
        }
    }
    Err(format!(
        "the authorization server `{shown}` has no metadata at the places of RFC 8414 and OpenID Connect"
    ))
}

fn convert_metadata(
    requests: &AuthRequests,
    issuer: &str,
    metadata: Metadata,
) -> Result<AuthorizationServer, String> {
    let shown = head(issuer, 200);
    // The issuer is compared as text: a host that distinguishes `https://a` and `https://a/` may
    // have two servers.
    if metadata.issuer != issuer {
        let says = head(&metadata.issuer, 200);
        return Err(format!(
            "the metadata of the authorization server `{shown}` is that of `{says}`"
        ));
    }
    let address =
        |text: &Option<String>| text.as_ref().map(|text| requests.address(text)).transpose();
    Ok(AuthorizationServer {
        issuer: metadata.issuer,
        authorization: address(&metadata.authorization_endpoint)?,
        token: requests.address(&metadata.token_endpoint)?,
        registration: address(&metadata.registration_endpoint)?,
        revocation: address(&metadata.revocation_endpoint)?,
        client_auth: metadata.token_endpoint_auth_methods_supported,
        scopes: parse_scopes(&metadata.scopes_supported.join(" ")),
        takes_documents: metadata.client_id_metadata_document_supported,
        names_itself: metadata.authorization_response_iss_parameter_supported,
        challenge_methods: metadata.code_challenge_methods_supported,
        response_types: metadata.response_types_supported,
    })
}

impl AuthorizationServer {
    /// Returns the address at which a person logs in. Fails unless the server supports
    /// authorization codes and PKCE with SHA-256.
    pub(super) fn for_people(&self) -> Result<&Url, String> {
        let issuer = head(&self.issuer, 200);
        let has =
            // RFC 8414 treats a missing list as "PKCE is not supported".
            |list: &Option<Vec<String>>, name: &str| list.as_ref().is_some_and(|of| of.iter().any(|of| of == name));
        if !has(&self.challenge_methods, "S256") {
            return Err(format!(
                "the authorization server `{issuer}` does not say that it has PKCE by `S256`"
            ));
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
    use reqwest::Url;

    use super::{ResourceRelation, match_resource, name_of};

    #[test]
    fn a_resource_is_the_server_or_what_it_is_a_part_of() {
        let server = "https://h.example/a/mcp".parse().unwrap();
        let above = |path: &str| {
            let place = format!("https://h.example/.well-known/oauth-protected-resource{path}");
            Some(ResourceRelation::Above(place.parse::<Url>().unwrap()))
        };
        for (resource, expected) in [
            ("https://h.example/a/mcp", Some(ResourceRelation::Itself)),
            ("https://h.example/a/mcp/", Some(ResourceRelation::Itself)),
            ("https://h.example/a", above("/a")),
            ("https://h.example/a/", above("/a")),
            ("https://h.example", above("")),
            ("HTTPS://H.example:443/", above("")),
            ("https://h.example/a/mc", None),
            ("https://h.example/a/mcp/more", None),
            ("https://h.example/a?b", None),
            ("https://h.example/#a", None),
            ("http://h.example/a/mcp", None),
            ("https://h.example:444/a/mcp", None),
            ("https://evil.example/a/mcp", None),
            ("https://h.example@evil.example/a/mcp", None),
            ("https://bob@h.example/a/mcp", None),
            ("urn:a", None),
            ("", None),
        ] {
            assert_eq!(match_resource(resource, &server), expected, "{resource}");
        }
        assert_eq!(name_of(&"https://h.example/".parse().unwrap()), "https://h.example");
        assert_eq!(name_of(&"https://h.example/mcp?a=b".parse().unwrap()), "https://h.example/mcp");
    }
}
