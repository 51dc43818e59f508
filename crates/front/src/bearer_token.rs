//! `BearerToken`: authenticates requests by one token.

use std::fmt;

use agentflow_core::__private::sha256;
use agentflow_core::Caller;
use async_trait::async_trait;

use crate::authenticate::{AuthRefusal, Authenticate, RequestHead};

/// Accepts requests with one token in the header `Authorization: Bearer ..`. All clients with the
/// token are the same caller.
///
/// Only a hash of the token is kept. The comparison takes the same time for every wrong token.
#[derive(Clone)]
pub struct BearerToken {
    /// SHA-256 of the token, in hexadecimal digits.
    expected: String,
    caller: Caller,
}

impl BearerToken {
    /// Requires this token, whose holders are the given caller. An empty token is never accepted.
    ///
    /// ```
    /// use agentflow::front::BearerToken;
    ///
    /// let token = "a secret, read from a file or from the environment";
    /// let authenticate = BearerToken::new(token, "partner");
    /// # drop(authenticate);
    /// ```
    pub fn new(token: &str, caller: impl Into<Caller>) -> Self {
        Self { expected: sha256(token.as_bytes()), caller: caller.into() }
    }
}

#[async_trait]
impl Authenticate for BearerToken {
    async fn authenticate(&self, request: RequestHead) -> Result<Caller, AuthRefusal> {
        // The time to compare two hashes does not depend on how much of the token is right.
        match request.bearer() {
            Some(token) if sha256(token.as_bytes()) == self.expected => Ok(self.caller.clone()),
            _ => Err(AuthRefusal::unauthenticated("send the key of this server as a bearer token")),
        }
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken").field("caller", &self.caller).finish_non_exhaustive()
    }
}
