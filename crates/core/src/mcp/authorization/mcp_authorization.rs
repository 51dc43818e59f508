//! `McpAuthorization`: what a program says about logging in to a server. It sends nothing.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::challenge::is_scope;
use super::kept_login::{InMemory, McpLogins};
use crate::model::Secret;
use crate::tools::AddressGuard;

/// Sends a person to an address, and gives what the browser was sent back to.
pub(super) type Visit =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, Box<dyn StdError + Send + Sync>>> + Send + Sync>;

/// How a login is made.
#[derive(Clone)]
pub(super) enum How {
    Stored,
    Loopback(Arc<dyn Fn(&str) + Send + Sync>),
    Browser { redirect_uri: String, visit: Visit },
    ClientCredentials,
}

/// A client that was registered by hand.
#[derive(Clone)]
pub(super) struct GivenClient {
    pub(super) issuer: String,
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
}

/// How a program logs in to a server that wants it, by OAuth 2.1 as the protocol has it: given with
/// [`McpClientBuilder::authorization`](crate::mcp::McpClientBuilder::authorization). Needs the feature `mcp-auth`.
///
/// A person logs in when the program calls [`McpClient::login`](crate::mcp::McpClient::login), and at no other time unless
/// [`when_needed`](Self::when_needed) says so: a run that continues at night opens no browser, its calls fail with
/// [`McpError::Unauthorized`](crate::mcp::McpError::Unauthorized). From then on tokens are sent, to this server alone, renewed
/// before they end and once when the server refuses them, and kept as [`logins`](Self::logins) says.
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
    pub(super) client: Option<GivenClient>,
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

    /// Uses the logins that are kept and renews them. Nobody is ever asked: another program logs in.
    pub fn stored(logins: impl McpLogins + 'static) -> Self {
        Self::new(How::Stored).logins(logins)
    }

    /// A person logs in in a browser of this machine: `show` is given the address, to print it or to open it, and the answer
    /// arrives at a socket of `127.0.0.1`, which is open during the login alone.
    pub fn loopback(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::new(How::Loopback(Arc::new(show)))
    }

    /// A person logs in as the program arranges it, such as one that is a web application: `visit` is given the address to
    /// send the person to, and returns the address that their browser was sent back to, which is `redirect_uri` with a query.
    /// That query is checked here. The address has a `state`, by which a program finds the login of an answer. Each person
    /// needs a client and a store of logins of their own, since whoever has the store has the login.
    pub fn browser<F, E>(redirect_uri: impl Into<String>, visit: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let visit = move |url| visit(url).map(|visited| visited.map_err(Into::into)).boxed();
        Self::new(How::Browser { redirect_uri: redirect_uri.into(), visit: Arc::new(visit) })
    }

    /// The program itself logs in, as a client with a secret at the authorization server `issuer`; nobody is asked.
    pub fn client_credentials(issuer: impl Into<String>, id: impl Into<String>, secret: Secret) -> Self {
        Self::new(How::ClientCredentials).client(issuer, id, Some(secret))
    }

    /// The client that this program is at the authorization server `issuer`, where it was registered by hand. The program then
    /// logs in at no other, and a server that does not name this one cannot be logged in to. The secret is
    /// sent to that server alone, whatever a server of tools says, and is not kept with the login.
    #[must_use]
    pub fn client(mut self, issuer: impl Into<String>, id: impl Into<String>, secret: Option<Secret>) -> Self {
        self.client = Some(GivenClient { issuer: issuer.into(), id: id.into(), secret });
        self
    }

    /// The address of a document that describes this program as a client, beginning with `https://`. It is the client where
    /// an authorization server takes such documents and says with each code that it is of it (RFC 9207), unless the program
    /// has a [`client`](Self::client); else the program is registered.
    #[must_use]
    pub fn client_document(mut self, url: impl Into<String>) -> Self {
        self.document = Some(url.into());
        self
    }

    /// The name that people read when this program was registered. Default: `agentflow`.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = name.into();
        self
    }

    /// The scopes that are asked for first. Default: those that the server asks for, else those that its metadata lists, else
    /// none, which leaves it to the authorization server. With
    /// [`client_credentials`](Self::client_credentials) no others are asked for, whatever the server asks for.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Where logins are kept. Default: in memory.
    #[must_use]
    pub fn logins(mut self, logins: impl McpLogins + 'static) -> Self {
        self.logins = Arc::new(logins);
        self
    }

    /// Asks a person also when a call needs it: without a login, and for scopes that the login lacks. The call waits as long
    /// as its time limit, the login as long as its own; once a person has logged in, the next call has it.
    #[must_use]
    pub fn when_needed(mut self) -> Self {
        self.when_needed = true;
        self
    }

    /// The longest that a person may take, and what comes before they are asked. Default: 5 minutes.
    #[must_use]
    pub fn login_timeout(mut self, limit: Duration) -> Self {
        self.login_timeout = limit;
        self
    }

    /// The port of [`loopback`](Self::loopback), for clients that were registered with it. Default: any that is free.
    #[must_use]
    pub fn redirect_port(mut self, port: u16) -> Self {
        self.redirect_port = port;
        self
    }

    /// Which addresses an authorization server on another host may have, such as those of a company's network. Default: those
    /// of the public internet; for a server on this machine, also this machine. They are connected to without a proxy.
    #[must_use]
    pub fn guard(mut self, guard: AddressGuard) -> Self {
        self.guard = guard;
        self
    }

    /// What cannot be used of it.
    pub(in crate::mcp) fn check(&self) -> Result<(), String> {
        if let Some(document) = &self.document {
            let is_usable = document.parse::<reqwest::Url>().is_ok_and(|url| {
                url.scheme() == "https" && url.has_host() && url.path() != "/" && url.fragment().is_none()
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
            return Err(format!("`{redirect_uri}` is not an address that a browser can be sent back to"));
        }
        match self.scopes.iter().find(|scope| !is_scope(scope)) {
            Some(scope) => Err(format!("`{scope}` is not a scope: it has no blanks, quotes or backslashes")),
            None => Ok(()),
        }
    }

    /// Whether a person can be asked at all.
    pub(super) fn has_people(&self) -> bool {
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
