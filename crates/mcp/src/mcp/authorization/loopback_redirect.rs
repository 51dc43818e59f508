//! A local socket for the redirect of the browser after a login. It accepts only the response to
//! one login, identified by its `state`. Requests of other pages and programs get an error, and the
//! socket continues to wait.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::browser_login::is_same;

const PATH: &str = "/callback";
/// Maximum number of bytes of the head of a request.
const MOST_BYTES: usize = 16 << 10;
/// Maximum number of concurrent connections. A further one closes the oldest. Browsers open some
/// connections that they do not use.
const MOST_CONNECTIONS: usize = 16;
/// Maximum time to send the final page.
const LONGEST_PAGE: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum time for a connection to send its request.
const LONGEST: Duration = Duration::from_secs(10);

const DONE: &str = "<!doctype html><meta charset=utf-8><title>Login</title><p>The program has what it needs; this page can be closed.";
const OTHER: &str = "<!doctype html><meta charset=utf-8><title>Login</title><p>This is not the login that the program waits for.";

pub(super) struct LoopbackRedirect {
    listener: TcpListener,
    uri: String,
}

impl LoopbackRedirect {
    /// Binds the port. For port `0`, tries the port of an earlier login first, because the
    /// registered client may be bound to it, and then any free port.
    pub(super) async fn bind(port: u16, earlier: Option<&str>) -> Result<Self, String> {
        let known = earlier.and_then(|uri| uri.parse::<Url>().ok()?.port()).filter(|_| port == 0);
        let mut bound = TcpListener::bind((Ipv4Addr::LOCALHOST, known.unwrap_or(port))).await;
        if bound.is_err() && known.is_some() {
            bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        }
        let failed = |error: std::io::Error| format!("no socket for the browser's answer: {error}");
        let listener = bound.map_err(failed)?;
        let uri = format!("http://{}{PATH}", listener.local_addr().map_err(failed)?);
        Ok(Self { listener, uri })
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits for the response to the login with this `state`. Returns the path and the query of the
    /// request.
    pub(super) async fn answer(&self, state: &str) -> Result<String, String> {
        let mut open = JoinSet::new();
        let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        oldest.retain(|handle| !handle.is_finished());
                        if oldest.len() >= MOST_CONNECTIONS && let Some(oldest) = oldest.pop_front() {
                            oldest.abort();
                        }
                        let state = state.to_owned();
                        oldest.push_back(open.spawn(async move {
                            tokio::time::timeout(LONGEST, answered(stream, &state)).await.ok().flatten()
                        }));
                    }
                    // The client closed the connection, or the program has too many open files.
                    Err(error) => {
                        tracing::debug!(%error, "a connection of the browser cannot be taken");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(ended) = open.join_next() => {
                    if let Ok(Some((target, mut stream))) = ended {
                        let _ = tokio::time::timeout(LONGEST_PAGE, reply(&mut stream, "200 OK", DONE)).await;
                        return Ok(target);
                    }
                }
            }
        }
    }
}

/// Reads a request. Returns its target if it is the expected response. Otherwise answers the
/// request with an error page.
async fn answered(mut stream: TcpStream, state: &str) -> Option<(String, TcpStream)> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut piece = [0; 2048];
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 || head.len() + read > MOST_BYTES {
            return None;
        }
        head.extend_from_slice(&piece[..read]);
    }
    match target(&head, state) {
        // The target is returned before the page is sent, so that a time-out cannot lose it.
        Some(target) => Some((target, stream)),
        None => {
            reply(&mut stream, "404 Not Found", OTHER).await;
            None
        }
    }
}

async fn reply(stream: &mut TcpStream, status: &str, page: &str) {
    let length = page.len();
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\ncache-control: no-store\r\nreferrer-policy: \
         no-referrer\r\nconnection: close\r\n\r\n{page}"
    );
    // A failure to show the page does not affect the login.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn target(head: &[u8], state: &str) -> Option<String> {
    let head = std::str::from_utf8(head).ok()?;
    let target = head.lines().next()?.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    let is_of_login =
        url.query_pairs().any(|(name, value)| name == "state" && is_same(&value, state));
    // `starts_with` refuses absolute targets such as `http://example.com/callback`.
    (url.path() == PATH && target.starts_with(PATH) && is_of_login).then(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn only_the_answer_to_the_login_is_taken() {
        for (line, is_taken) in [
            ("GET /callback?code=c&state=s HTTP/1.1", true),
            ("GET /callback?code=c&state=t HTTP/1.1", false),
            ("GET /callback?code=c HTTP/1.1", false),
            ("GET /favicon.ico?state=s HTTP/1.1", false),
            ("POST /callback?code=c&state=s HTTP/1.1", false),
            ("GET //evil.example/callback?state=s HTTP/1.1", false),
            ("GET http://evil.example/callback?state=s HTTP/1.1", false),
            ("", false),
        ] {
            assert_eq!(
                target(format!("{line}\r\nhost: h\r\n\r\n").as_bytes(), "s").is_some(),
                is_taken,
                "{line}"
            );
        }
    }
}
