//! A model server on loopback that sends its replies in order, repeats the last one, and records
//! the request bodies. A reply is plain bytes, so the server does not depend on a wire format.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use agentflow::Model;
use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{HttpSettings, Secret};
use serde_json::Value;

/// The key of all models.
pub(super) const KEY: &str = "plainly-a-key-5f1d9c7e2b";

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

impl Format {
    pub(super) const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];

    /// Creates a model of this format at a server other than the provider's.
    pub(super) fn model(self, server: &ScriptedServer) -> Arc<dyn Model> {
        self.model_at(&server.url, HttpSettings::default().max_retries(0))
    }

    /// Creates a model of this format at an address.
    pub(super) fn model_at(self, server: &str, http: HttpSettings) -> Arc<dyn Model> {
        macro_rules! model {
            ($builder:expr) => {
                Arc::new(
                    $builder
                        .base_url(format!("{server}/v1"))
                        .http(http)
                        .api_key(Secret::new(KEY))
                        .build()
                        .unwrap(),
                )
            };
        }
        match self {
            Self::Chat => model!(OpenAiChat::builder("m")),
            Self::Responses => model!(OpenAiResponses::builder("m")),
            Self::Anthropic => model!(Anthropic::builder("m")),
            Self::Gemini => model!(Gemini::builder("m")),
        }
    }
}

/// The state of the connection after the body was sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum After {
    /// The connection is closed.
    Close,
    /// The connection stays open and silent until the client closes it.
    Silence,
    /// The text is sent repeatedly until the client closes the connection.
    Repeat(&'static str),
}

/// A reply. The default status is 200.
#[derive(Clone)]
pub(super) struct Reply {
    status: u16,
    content_type: String,
    body: String,
    after: After,
}

impl Reply {
    /// Creates a reply with a JSON document.
    pub(super) fn document(body: &Value) -> Self {
        Self::new("application/json", body.to_string())
    }

    /// Creates a reply with a stream of one event per item.
    pub(super) fn events(events: &[Value]) -> Self {
        Self::stream(events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
    }

    /// Creates a reply with the content type of event streams and any body.
    pub(super) fn stream(body: impl Into<String>) -> Self {
        Self::new("text/event-stream", body)
    }

    /// Creates a reply with any content type and any body.
    pub(super) fn new(content_type: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            status: 200,
            content_type: content_type.into(),
            body: body.into(),
            after: After::Close,
        }
    }

    /// Sets the status.
    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sets the state of the connection after the body.
    pub(super) fn then(mut self, after: After) -> Self {
        self.after = after;
        self
    }

    fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let Self { status, content_type, body, .. } = self;
        write!(
            stream,
            "HTTP/1.1 {status} -\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n{body}"
        )?;
        match self.after {
            After::Close => Ok(()),
            // The client sends no more data, so this returns when it closes the connection.
            After::Silence => stream.read(&mut [0]).map(drop),
            After::Repeat(text) => loop {
                stream.write_all(text.as_bytes())?;
                thread::sleep(Duration::from_millis(200));
            },
        }
    }
}

/// A running server.
pub(super) struct ScriptedServer {
    url: String,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    /// Starts a server. Its thread ends with the process.
    pub(super) fn start(replies: impl Into<Vec<Reply>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (bodies, replies) = (Arc::new(Mutex::new(Vec::new())), replies.into());
        let seen = Arc::clone(&bodies);
        thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let reply = replies[at.min(replies.len() - 1)].clone();
                let seen = Arc::clone(&seen);
                thread::spawn(move || {
                    seen.lock().unwrap().push(read_body(&stream).unwrap_or_default());
                    // The client may close the connection at any time.
                    let _ = reply.send(&mut stream);
                });
            }
        });
        Self { url, bodies }
    }

    /// Returns the bodies of the requests so far.
    pub(super) fn requests(&self) -> Vec<Value> {
        let bodies = self.bodies.lock().unwrap();
        bodies
            .iter()
            .map(|body| {
                serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
            })
            .collect()
    }
}

fn read_body(stream: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}
