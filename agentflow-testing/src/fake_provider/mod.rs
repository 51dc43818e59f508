//! A model provider's server on loopback, which refuses requests that real providers refuse.
//!
//! [`ScriptedModel`](crate::ScriptedModel) replaces the provider's adapter too, so tests with it do
//! not check the requests that a provider receives. [`FakeProvider`] replaces only the provider: it
//! accepts connections, lets `seen_request` parse and `request_rules` check each request, and
//! answers with the next [`FakeReply`] in its [`ProviderFormat`].

mod fake_reply;
mod request_rules;
mod seen_request;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

pub use self::fake_reply::FakeReply;
use self::request_rules::RequestFault;

/// Time limit for a request of a client.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest request, in bytes.
const MAX_REQUEST: usize = 64 * 1024 * 1024;

/// A wire format of a [`FakeProvider`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderFormat {
    /// OpenAI's Chat Completions.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's generateContent.
    Gemini,
}

/// A server for one wire format on loopback. It sends its replies in order and repeats the last
/// one.
///
/// It is strict: if a real provider would refuse a request, it responds with status 400 and an
/// error in the provider's format, and uses no reply. It refuses tool names with characters other
/// than letters, digits, `_` and `-`, arguments that are not a JSON object, calls without a result
/// or with two, results without a call, messages without content, a wrong order of roles, schemas
/// with unsupported keywords, and for Gemini results with the key `$ref`.
///
/// It streams the answer if the request asks for a stream. Dropping the value stops the server.
///
/// ```
/// use agentflow::model::openai_chat::OpenAiChat;
/// use agentflow::prelude::*;
/// use agentflow_testing::{FakeProvider, FakeReply, ProviderFormat};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let provider = FakeProvider::start(ProviderFormat::OpenAiChat, [FakeReply::text("Hello.")])?;
/// let model = OpenAiChat::builder("m").base_url(provider.base_url()).build()?;
/// assert_eq!(Agent::new(model).run("Hi").await?.output(), "Hello.");
/// assert_eq!(provider.requests()[0]["messages"][0]["content"], "Hi");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FakeProvider {
    base_url: String,
    state: Arc<Mutex<ProviderState>>,
}

#[derive(Debug)]
struct ProviderState {
    format: ProviderFormat,
    is_strict: bool,
    replies: Vec<FakeReply>,
    requests: Vec<Value>,
    /// The number of replies that were sent.
    given: usize,
    refusals: Vec<String>,
    is_closed: bool,
}

impl FakeProvider {
    /// Starts a server with these replies.
    ///
    /// # Errors
    /// If no port of the loopback address is free.
    ///
    /// # Panics
    /// If there are no replies.
    pub fn start(
        format: ProviderFormat,
        replies: impl IntoIterator<Item = FakeReply>,
    ) -> io::Result<Self> {
        let replies: Vec<FakeReply> = replies.into_iter().collect();
        assert!(!replies.is_empty(), "a provider needs at least one reply");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let state = ProviderState {
            format,
            is_strict: true,
            replies,
            requests: Vec::new(),
            given: 0,
            refusals: Vec::new(),
            is_closed: false,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                if locked(&shared).is_closed {
                    return;
                }
                let shared = Arc::clone(&shared);
                // Errors are ignored, because a client may close the connection at any time.
                thread::spawn(move || drop(serve(stream, &shared)));
            }
        });
        Ok(Self { base_url, state })
    }

    /// Accepts every request. Default: strict.
    #[must_use]
    pub fn lenient(self) -> Self {
        locked(&self.state).is_strict = false;
        self
    }

    /// Returns the base URL for a model's builder, such as `OpenAiChat::builder(..).base_url(..)`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns the bodies of all requests so far, including refused ones.
    pub fn requests(&self) -> Vec<Value> {
        locked(&self.state).requests.clone()
    }

    /// Returns the messages of all refusals so far.
    pub fn refusals(&self) -> Vec<String> {
        locked(&self.state).refusals.clone()
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        locked(&self.state).is_closed = true;
        // Connects once to wake the listener, which then sees the flag and stops.
        if let Some(address) =
            self.base_url.strip_prefix("http://").and_then(|url| url.strip_suffix("/v1"))
        {
            drop(TcpStream::connect(address));
        }
    }
}

fn locked(state: &Mutex<ProviderState>) -> MutexGuard<'_, ProviderState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, state: &Mutex<ProviderState>) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let (path, body) = read_request(&stream)?;
    let (status, content_type, body) = locked(state).answer(&path, &body);
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Reads the path and the body of a request.
fn read_request(stream: &TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0_usize;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    if length > MAX_REQUEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too large"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((path, body))
}

impl ProviderState {
    fn answer(&mut self, path: &str, body: &[u8]) -> (&'static str, &'static str, String) {
        const JSON: &str = "application/json";
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let checked = match self.is_strict {
            true => request_rules::check(self.format, &body),
            false => Ok(()),
        };
        let streams = body["stream"] == true || path.contains(":streamGenerateContent");
        self.requests.push(body);
        if let Err(fault) = checked {
            let error = self.format.error(&fault);
            self.refusals.push(format!("{}: {}", fault.at, fault.message));
            return ("400 Bad Request", JSON, error.to_string());
        }
        self.given += 1;
        let Some(reply) = self.replies.get(self.given - 1).or(self.replies.last()) else {
            return ("500 Internal Server Error", JSON, String::new());
        };
        match streams {
            true => ("200 OK", "text/event-stream", reply.events(self.format, self.given)),
            false => ("200 OK", JSON, reply.whole(self.format, self.given).to_string()),
        }
    }
}

impl ProviderFormat {
    /// Returns the body of a refusal in the provider's format.
    fn error(self, fault: &RequestFault) -> Value {
        let RequestFault { at, message } = fault;
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => json!({"error": {
                "message": format!("Invalid '{at}': {message}."), "type": "invalid_request_error", "param": at,
                "code": "invalid_value",
            }}),
            Self::Anthropic => json!({"type": "error",
                "error": {"type": "invalid_request_error", "message": format!("{at}: {message}")}}),
            Self::Gemini => json!({"error": {"code": 400, "status": "INVALID_ARGUMENT",
                "message": format!("* GenerateContentRequest.{at}: {message}")}}),
        }
    }
}
