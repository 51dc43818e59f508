//! Checks for untrusted bytes: answers of providers and stored data. The bounded tests and the fuzz
//! targets in `fuzz/` call the same functions. A check never requires that bytes are accepted.

use std::cell::OnceCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use agentflow::message::Conversation;
use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{HttpSettings, ModelError, ModelEvent, ModelRequest, ModelResponse, Secret};
use agentflow::{Event, Message, Model};
use futures_util::StreamExt;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Chat Completions.
    Chat,
    /// Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
}

impl Format {
    /// All formats.
    pub(crate) const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];
}

/// All events of a call, and its result.
type Answer = (Vec<ModelEvent>, Result<ModelResponse, ModelError>);

/// Reads the bytes as a provider's answer: as a stream, as the same stream split differently, and
/// as a document.
///
/// # Panics
/// If reading panics, or if a result violates a check.
pub(crate) fn answer(format: Format, bytes: &[u8]) {
    let whole = read(format, Body::Stream { bytes, piece: bytes.len().max(1) });
    let split = read(format, Body::Stream { bytes, piece: 7 });
    assert_eq!(shown(&whole), shown(&split), "the pieces in which a stream arrives change nothing");
    // The last event of Responses contains the whole answer again, which takes precedence if the
    // two differ.
    if let (events, Ok(response)) = &whole
        && format != Format::Responses
    {
        let (pieces, text) = (joined(events, text), response.text());
        if format == Format::Anthropic {
            // The blocks may be interleaved. The answer contains them in the order in which they
            // started.
            assert_eq!(sorted(&pieces), sorted(&text), "the pieces of the text make the text");
        } else {
            assert_eq!(pieces, text, "the pieces of the text make the text");
        }
    }
    for (_, ended) in [whole, read(format, Body::Document(bytes))] {
        let Ok(response) = ended else { continue };
        let said = Message::clone(&response.message);
        for call in said.tool_calls() {
            assert!(!call.id.is_empty(), "a call without id: {call:?}");
        }
        // The answer can be stored, read back, and sent to every provider.
        let mut conversation = Conversation::from(Message::user("hi"));
        conversation.push(said);
        kept(&conversation);
    }
}

fn sorted(text: &str) -> Vec<char> {
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters
}

/// Checks a complete HTTP response, including its head, after which the connection is closed.
///
/// # Panics
/// If reading it panics, or if it is refused without a message.
pub(crate) fn response(bytes: &[u8]) {
    for request in [ModelRequest::new("hi"), ModelRequest::new("hi").streamed()] {
        let (_, ended) = call(Format::Chat, Body::Response(bytes), request);
        if let Err(error) = ended {
            assert!(!error.to_string().trim().is_empty());
        }
    }
}

/// Reads the bytes as a stored event.
///
/// # Panics
/// If reading or displaying it panics, or if it changes in a round trip through the store.
pub(crate) fn event(bytes: &[u8]) {
    let Ok(event) = serde_json::from_slice::<Event>(bytes) else { return };
    let text = serde_json::to_string(&event).expect("an event that was read can be written");
    let again: Event = serde_json::from_str(&text).expect("an event that was written can be read");
    assert_eq!(event, again);
    assert_eq!(
        text,
        serde_json::to_string(&again).expect("as before"),
        "the stored form is stable"
    );
    let line = event.line().to_string();
    assert!(!line.chars().any(char::is_control), "{line:?}");
    drop(Conversation::from_events([&event]));
}

/// Reads the bytes as lines of a stored journal and skips unreadable lines.
///
/// # Panics
/// If building a conversation from any prefix of the journal panics.
pub(crate) fn journal(bytes: &[u8]) {
    let events: Vec<Event> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    for end in 0..=events.len() {
        drop(Conversation::from_events(&events[..end]));
    }
}

/// Reads the bytes as a stored conversation.
///
/// # Panics
/// If reading it or building requests from it panics, or if it changes in a round trip through the
/// store.
pub(crate) fn conversation(bytes: &[u8]) {
    let Ok(conversation) = serde_json::from_slice::<Conversation>(bytes) else { return };
    kept(&conversation);
    drop(conversation.open_calls());
    for format in Format::ALL {
        drop(call(format, Body::Document(b"{}"), ModelRequest::new(conversation.clone())));
    }
}

fn kept(conversation: &Conversation) {
    let text = serde_json::to_string(conversation).expect("a conversation can be written");
    let again: Conversation =
        serde_json::from_str(&text).expect("a conversation that was written can be read");
    assert!(*conversation == again, "{text}");
}

/// Formats an answer for comparison: errors have no equality, and strings may be split differently.
fn shown((events, ended): &Answer) -> String {
    format!("{:?} {:?} {ended:?}", joined(events, text), joined(events, reasoning))
}

fn joined(events: &[ModelEvent], pick: fn(&ModelEvent) -> &str) -> String {
    events.iter().map(pick).collect()
}

fn text(event: &ModelEvent) -> &str {
    if let ModelEvent::Text(text) = event { text } else { "" }
}

fn reasoning(event: &ModelEvent) -> &str {
    if let ModelEvent::Reasoning(text) = event { text } else { "" }
}

fn read(format: Format, body: Body<'_>) -> Answer {
    let request = ModelRequest::new("hi");
    let request = if matches!(body, Body::Stream { .. }) { request.streamed() } else { request };
    call(format, body, request)
}

/// Makes one call over loopback. To read bytes without a socket, replace only this function.
fn call(format: Format, body: Body<'_>, request: ModelRequest) -> Answer {
    thread_local! {
        static LINE: OnceCell<Line> = const { OnceCell::new() };
    }
    LINE.with(|line| {
        let line = line.get_or_init(Line::new);
        *line.served.lock().expect("no panic while it is held") =
            Served { response: body.written(), closes: matches!(body, Body::Response(_)) };
        let (_, model) =
            line.models.iter().find(|(of, _)| *of == format).expect("each format has a model");
        line.tokio.block_on(async {
            let mut stream = model.stream(request);
            let mut events = Vec::new();
            while let Some(item) = stream.next().await {
                match item {
                    Ok(ModelEvent::Completed(response)) => {
                        assert!(stream.next().await.is_none(), "the answer is the last item");
                        return (events, Ok(*response));
                    }
                    Ok(event) => events.push(event),
                    Err(error) => return (events, Err(error)),
                }
            }
            panic!("a stream ends with an answer or an error");
        })
    })
}

/// The body of an answer.
#[derive(Clone, Copy)]
enum Body<'a> {
    /// Server-sent events, in pieces of this size in bytes.
    Stream { bytes: &'a [u8], piece: usize },
    /// A JSON document.
    Document(&'a [u8]),
    /// A complete response with head and body.
    Response(&'a [u8]),
}

impl Body<'_> {
    /// Returns the HTTP response.
    fn written(self) -> Vec<u8> {
        match self {
            Self::Stream { bytes, piece } => {
                let mut response =
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                        .to_vec();
                for piece in bytes.chunks(piece) {
                    response.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    response.extend_from_slice(piece);
                    response.extend_from_slice(b"\r\n");
                }
                response.extend_from_slice(b"0\r\n\r\n");
                response
            }
            Self::Document(bytes) => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    bytes.len()
                );
                [head.as_bytes(), bytes].concat()
            }
            Self::Response(bytes) => bytes.to_vec(),
        }
    }
}

/// The response of the server.
#[derive(Clone, Default)]
struct Served {
    response: Vec<u8>,
    /// `true` if the connection is closed after the response.
    closes: bool,
}

/// A server on loopback that sends the configured response, and a model of each format that calls
/// it.
struct Line {
    served: Arc<Mutex<Served>>,
    models: Vec<(Format, Arc<dyn Model>)>,
    tokio: tokio::runtime::Runtime,
}

impl Line {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
        let served = Arc::new(Mutex::new(Served::default()));
        let answers = Arc::clone(&served);
        thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let answers = Arc::clone(&answers);
                thread::spawn(move || serve(socket, &answers));
            }
        });
        let mut http = HttpSettings::default();
        http = http.max_retries(0);
        let key = || Secret::new("key");
        macro_rules! model {
            ($adapter:ident) => {
                Arc::new(
                    $adapter::builder("m")
                        .base_url(&*url)
                        .api_key(key())
                        .http(http.clone())
                        .build()
                        .expect("usable"),
                )
            };
        }
        let models: Vec<(Format, Arc<dyn Model>)> = vec![
            (Format::Chat, model!(OpenAiChat)),
            (Format::Responses, model!(OpenAiResponses)),
            (Format::Anthropic, model!(Anthropic)),
            (Format::Gemini, model!(Gemini)),
        ];
        let tokio =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { served, models, tokio }
    }
}

/// Answers the requests of one connection until it is closed.
fn serve(socket: TcpStream, answers: &Mutex<Served>) {
    socket.set_nodelay(true).expect("a socket");
    let mut reader = BufReader::new(&socket);
    let mut line = String::new();
    let mut length = 0;
    loop {
        line.clear();
        if !matches!(reader.read_line(&mut line), Ok(read) if read > 0) {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.trim_end().is_empty() {
            let mut body = vec![0; std::mem::take(&mut length)];
            let answer = answers.lock().expect("no panic while it is held").clone();
            let is_read = reader.read_exact(&mut body).is_ok();
            if !is_read || (&socket).write_all(&answer.response).is_err() || answer.closes {
                return;
            }
        }
    }
}
