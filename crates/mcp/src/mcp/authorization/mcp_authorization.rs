//! `McpAuthorization`: the settings for logging in to a server.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::challenge::is_scope;
use super::kept_login::{InMemory, McpLogins};
use agentflow_core::model::Secret;
use agentflow_tools::AddressGuard;

/// Function that sends a person to an address, and returns the address that the browser was sent
/// back to.
pub(super) type Visit = Arc<
    dyn Fn(String) -> BoxFuture<'static, Result<String, Box<dyn StdError + Send + Sync>>>
        + Send
        + Sync,
>;

/// Way to make a login.
#[derive(Clone)]
pub(super) enum How {
    Stored,
    Loopback(Arc<dyn Fn(&str) + Send + Sync>),
    Browser { redirect_uri: String, visit: Visit },
    ClientCredentials,
}

/// A client that the program has registered before.
#[derive(Clone)]
pub(super) struct ConfiguredClient {
    pub(super) issuer: String,
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
}

/// Settings for logging in to a server that requires it, with OAuth 2.1 as the protocol defines it.
/// Pass it to [`McpClientBuilder::authorization`](crate::mcp::McpClientBuilder::authorization).
/// Needs the feature `mcp-auth`.
///
/// A person logs in when the program calls [`McpClient::login`](crate::mcp::McpClient::login). By
/// default, a person is never asked at other times: a run that continues at night opens no browser,
/// and its calls fail with [`McpError::Unauthorized`](crate::mcp::McpError::Unauthorized).
/// [`when_needed`](Self::when_needed) changes this.
///
/// After a login, the access token is sent to this server only. It is renewed before it expires,
/// and once when the server refuses it. The store of [`logins`](Self::logins) keeps it.
///
/// ```no_run
/// use agentflow::mcp::{McpAuthorization, McpClient, McpLoginFolder};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let logins = McpLoginFolder::of_user().ok_or("there is no folder for logins")?;
/// let authorization = McpAuthorization::loopback(|url| eprintln!("Log in at {url}")).logins(logins);
/// let issues = McpClient::http("issues", "https://example.com/mcp").authorization(authorization).build()?;
/// issues.login().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct McpAuthorization {
    pub(super) how: How,
    pub(super) client: Option<ConfiguredClient>,
    pub(super) document: Option<String>,
    pub(super) client_name: String,
    pub(super) scopes: Vec<String>,
    pub(super) logins: Arc<dyn McpLogins>,
    pub(super) when_needed: bool,
    pub(super) login_timeout: Duration,
    pub(super) redirect_port: u16,
    pub(super) guard: AddressGuard,
}

impl McpAuthorization {
    fn new(how: How) -> Self {
        Self {
            how,
            client: None,
            document: None,
            client_name: "agentflow".to_owned(),
            scopes: Vec::new(),
            logins: Arc::new(InMemory::default()),
            when_needed: false,
            login_timeout: Duration::from_secs(300),
            redirect_port: 0,
            guard: AddressGuard::default(),
        }
    }

    /// Uses and renews existing logins. A person is never asked. Another program makes the logins.
    pub fn stored(logins: impl McpLogins + 'static) -> Self {
        Self::new(How::Stored).logins(logins)
    }

    /// Lets a person log in with a browser on this machine. `show` receives the address, and prints
    /// or opens it. The response arrives at a socket of `127.0.0.1` that is open only during the
    /// login.
    pub fn loopback(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::new(How::Loopback(Arc::new(show)))
    }

    /// Lets a person log in the way that the program implements, for example in a web application.
    /// `visit` receives the address to send the person to. It returns the address that the browser
    /// was sent back to, which is `redirect_uri` with a query. The query is checked by this
    /// library. The address contains a `state`, with which a program can match responses to logins.
    /// Each person needs a separate client and a separate store of logins, because access to the
    /// store is access to the login.
    pub fn browser<F, E>(
        redirect_uri: impl Into<String>,
        visit: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let visit = move |url| visit(url).map(|visited| visited.map_err(Into::into)).boxed();
        Self::new(How::Browser { redirect_uri: redirect_uri.into(), visit: Arc::new(visit) })
    }

    /// Logs in as the program itself, as a client with a secret at the authorization server
    /// `issuer`. A person is never asked.
    pub fn client_credentials(
        issuer: impl Into<String>,
        id: impl Into<String>,
        secret: Secret,
    ) -> Self {
        Self::new(How::ClientCredentials).client(issuer, id, Some(secret))
    }

    /// Sets the client that was registered for this program at the authorization server `issuer`.
    /// The program then logs in only there, and a login fails if the MCP server does not name this
    /// issuer. The secret is sent only to this authorization server, regardless of the MCP server's
    /// metadata. It is not stored with the login.
    #[must_use]
    pub fn client(
        mut self,
        issuer: impl Into<String>,
        id: impl Into<String>,
        secret: Option<Secret>,
    ) -> Self {
        self.client = Some(ConfiguredClient { issuer: issuer.into(), id: id.into(), secret });
        self
    }

    /// Sets the address of a client metadata document that describes this program. It must begin
    /// with `https://`. The document is used at authorization servers that accept such documents
    /// and return their issuer with each code (RFC 9207), unless the program has a
    /// [`client`](Self::client). At other authorization servers, the program is registered
    /// dynamically.
    #[must_use]
    pub fn client_document(mut self, url: impl Into<String>) -> Self {
        self.document = Some(url.into());
        self
    }

    /// Sets the name that people see after a dynamic registration. Default: `agentflow`.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// Sets the scopes for the first login. Default: the scopes that the server asks for, or else
    /// the scopes of its metadata, or else none, which leaves the choice to the authorization
    /// server. With [`client_credentials`](Self::client_credentials), no other scopes are
    /// requested, even if the server asks for them.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the store of logins. Default: in memory.
    #[must_use]
    pub fn logins(mut self, logins: impl McpLogins + 'static) -> Self {
        self.logins = Arc::new(logins);
        self
    }

    /// Also asks a person during a call, if a login is missing or lacks scopes. The call waits up
    /// to its own time limit, and the login up to [`login_timeout`](Self::login_timeout). If the
    /// call ends first, the next call uses the completed login.
    #[must_use]
    pub fn when_needed(mut self) -> Self {
        self.when_needed = true;
        self
    }

    /// Sets the time limit for a login by a person, including its preparation. Default: 5 minutes.
    #[must_use]
    pub fn login_timeout(mut self, limit: Duration) -> Self {
        self.login_timeout = limit;
        self
    }

    /// Sets the port of [`loopback`](Self::loopback), for clients that are registered with a fixed
    /// port. Default: any free port.
    #[must_use]
    pub fn redirect_port(mut self, port: u16) -> Self {
        self.redirect_port = port;
        self
    }

    /// Sets the addresses that an authorization server on another host may have, such as addresses
    /// of a company's network. Default: the public internet, and for a server on this machine also
    /// this machine. Connections to these addresses do not use a proxy.
    #[must_use]
    pub fn guard(mut self, guard: AddressGuard) -> Self {
        self.guard = guard;
        self
    }

    /// Checks the settings, and returns a description of the first invalid one.
    pub(in crate::mcp) fn check(&self) -> Result<(), String> {
        if let Some(document) = &self.document {
            let is_usable = document.parse::<reqwest::Url>().is_ok_and(|url| {
                url.scheme() == "https"
                    && url.has_host()
                    && url.path() != "/"
                    && url.fragment().is_none()
            });
            if !is_usable {
                return Err(format!(
                    "`{document}` is not the address of a document; it begins with `https://` and has a path"
                ));
            }
        }
        if let How::Browser { redirect_uri, .. } = &self.how
            && redirect_uri.parse::<reqwest::Url>().is_err()
        {
            return Err(format!(
                "`{redirect_uri}` is not an address that a browser can be sent back to"
            ));
        }
        match self.scopes.iter().find(|scope| !is_scope(scope)) {
            Some(scope) => {
                Err(format!("`{scope}` is not a scope: it has no blanks, quotes or backslashes"))
            }
            None => Ok(()),
        }
    }

    /// Returns `true` if this configuration can ask a person.
    pub(super) fn can_ask_person(&self) -> bool {
        matches!(self.how, How::Loopback(_) | How::Browser { .. })
    }
}

impl fmt::Debug for McpAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match &self.how {
            How::Stored => "stored",
            How::Loopback(_) => "loopback",
            How::Browser { .. } => "browser",
            How::ClientCredentials => "client credentials",
        };
        f.debug_struct("McpAuthorization")
            .field("how", &how)
            .field("client", &self.client.as_ref().map(|client| &client.id))
            .field("scopes", &self.scopes)
            .field("when_needed", &self.when_needed)
            .finish_non_exhaustive()
    }
}
