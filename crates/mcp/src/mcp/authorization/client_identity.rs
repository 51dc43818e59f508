//! The identity of this program as a client of an authorization server: a client configured by the
//! program, a client metadata document, or a dynamic registration (RFC 7591). A secret is sent only
//! to the authorization server that it belongs to.

use agentflow_schema::text::head;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::auth_requests::{AuthRequests, is_loopback};
use super::discovery::AuthorizationServer;
use super::mcp_authorization::McpAuthorization;
use agentflow_core::time::{Clock as _, SystemClock};

/// Authentication method of the client at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientAuth {
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

impl ClientAuth {
    fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "client_secret_basic" => Some(Self::ClientSecretBasic),
            "client_secret_post" => Some(Self::ClientSecretPost),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }

    /// Returns the first of these methods that the server supports. A server without a list
    /// supports basic authentication (RFC 8414), and usually also clients without a secret.
    fn select(server: &AuthorizationServer, wanted: &[Self]) -> Option<Self> {
        let is_there = |auth: &&Self| {
            server
                .client_auth
                .as_ref()
                .is_none_or(|names| names.iter().any(|name| name == auth.name()))
        };
        wanted.iter().find(is_there).copied()
    }
}

/// Origin of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientOrigin {
    /// Configured by the program, which also has the secret.
    Given,
    Document,
    Registered,
}

/// A client. It contains a secret and has no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientIdentity {
    pub(super) id: String,
    /// Secret of a client that was registered by this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) auth: ClientAuth,
    pub(super) origin: ClientOrigin,
    #[serde(default)]
    pub(super) redirect_uri: String,
    /// Expiry of the secret in seconds since the Unix epoch. `0` means that it does not expire.
    #[serde(default)]
    pub(super) secret_ends: u64,
}

/// The client of the previous login.
#[derive(Clone, Copy)]
pub(super) struct Earlier<'e> {
    /// The client that was used at this authorization server.
    pub(super) client: Option<&'e ClientIdentity>,
    /// Id of a client that the authorization server no longer knows.
    pub(super) forgotten: Option<&'e str>,
}

#[derive(Deserialize)]
struct ClientRegistration {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<Value>,
    token_endpoint_auth_method: Option<String>,
}

impl ClientIdentity {
    /// Returns the client for a login: the configured client, the client metadata document, or else
    /// a registration. The registration of the previous login is reused unless it is known to be
    /// invalid.
    pub(super) async fn for_login(
        says: &McpAuthorization,
        requests: &AuthRequests,
        server: &AuthorizationServer,
        redirect_uri: &str,
        earlier: Earlier<'_>,
    ) -> Result<Self, String> {
        let redirect_uri = redirect_uri.to_owned();
        if let Some(client) = Self::given(says, server)? {
            return Ok(Self { redirect_uri, ..client });
        }
        // All users of the document are the same client. To prevent mix-up attacks, the server must
        // name itself when it returns a code.
        if let Some(document) =
            says.document.as_ref().filter(|_| server.takes_documents && server.names_itself)
        {
            let (id, origin, auth) = (document.clone(), ClientOrigin::Document, ClientAuth::None);
            return Ok(Self { id, secret: None, auth, origin, redirect_uri, secret_ends: 0 });
        }
        // A registration can be reused if it has the same redirect address and is still valid.
        let is_usable = |of: &&Self| {
            of.origin == ClientOrigin::Registered
                && of.redirect_uri == redirect_uri
                && earlier.forgotten != Some(&of.id)
                && !of.has_ended()
        };
        match earlier.client.filter(is_usable) {
            Some(earlier) => Ok(earlier.clone()),
            None => Self::registered(says, requests, server, redirect_uri).await,
        }
    }

    /// Returns `true` if the client's secret has expired.
    fn has_ended(&self) -> bool {
        self.secret_ends != 0
            && self.secret_ends.saturating_mul(1000) <= SystemClock.now().as_millis()
    }

    /// Returns the client that the program has configured for this authorization server.
    pub(super) fn given(
        says: &McpAuthorization,
        server: &AuthorizationServer,
    ) -> Result<Option<Self>, String> {
        let Some(given) = says.client.as_ref().filter(|client| client.issuer == server.issuer)
        else {
            return Ok(None);
        };
        let wanted: &[ClientAuth] = match &given.secret {
            Some(_) => &[ClientAuth::ClientSecretBasic, ClientAuth::ClientSecretPost],
            None => &[ClientAuth::None],
        };
        let auth = ClientAuth::select(server, wanted).ok_or_else(|| {
            let issuer = head(&server.issuer, 200);
            match &given.secret {
                Some(_) => format!("the authorization server `{issuer}` takes no secret of a client"),
                None => format!("the authorization server `{issuer}` wants a secret of its clients; give it, too"),
            }
        })?;
        let (origin, redirect_uri) = (ClientOrigin::Given, String::new());
        Ok(Some(Self {
            id: given.id.clone(),
            secret: None,
            auth,
            origin,
            redirect_uri,
            secret_ends: 0,
        }))
    }

    async fn registered(
        says: &McpAuthorization,
        requests: &AuthRequests,
        server: &AuthorizationServer,
        redirect_uri: String,
    ) -> Result<Self, String> {
        let issuer = head(&server.issuer, 200);
        let Some(url) = &server.registration else {
            return Err(format!(
                "the authorization server `{issuer}` registers no clients: register this program there, and give the client \
                 with `McpAuthorization::client`"
            ));
        };
        let wanted =
            [ClientAuth::None, ClientAuth::ClientSecretBasic, ClientAuth::ClientSecretPost];
        let Some(auth) = ClientAuth::select(server, &wanted) else {
            return Err(format!(
                "the authorization server `{issuer}` takes clients in no way that this program knows"
            ));
        };
        // Authorization servers may accept loopback addresses and own schemes only from native
        // clients (OpenID Connect Dynamic Client Registration).
        let is_native = redirect_uri.parse().is_ok_and(|url| is_loopback(&url))
            || !redirect_uri.starts_with("http");
        let body = json!({
            "client_name": says.client_name,
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": auth.name(),
            "application_type": if is_native { "native" } else { "web" },
        });
        let reply = requests.post(url, "application/json", None, body.to_string()).await?;
        if !reply.is_success() {
            return Err(format!(
                "the authorization server `{issuer}` did not register this program: {}",
                reply.status
            ));
        }
        let unusable =
            |why: String| format!("the registration at `{issuer}` cannot be used: {why}");
        let registration: ClientRegistration = reply.json().map_err(unusable)?;
        let secret = registration.client_secret.filter(|secret| !secret.is_empty());
        // The server may assign another method than the requested one (RFC 7591, section 3.2.1).
        let auth = match registration.token_endpoint_auth_method.as_deref() {
            Some(name) => ClientAuth::named(name)
                .ok_or_else(|| unusable("it asks for another way to be sent".into()))?,
            None => auth,
        };
        if registration.client_id.is_empty() || (auth != ClientAuth::None && secret.is_none()) {
            return Err(unusable("it has no name, or no secret where one is needed".to_owned()));
        }
        let secret_ends =
            registration.client_secret_expires_at.and_then(|at| at.as_u64()).unwrap_or(0);
        let (id, origin) = (registration.client_id, ClientOrigin::Registered);
        Ok(Self { id, secret, auth, origin, redirect_uri, secret_ends })
    }
}
