//! The web page: files that are compiled into the program. Their headers restrict the page to its
//! own files and its own server.

use axum::Router;
use axum::extract::{OriginalUri, Path};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::api_error::ApiError;
use crate::server_options::ServerState;

/// Paths below this folder are public. The files contain no data of the runtime.
pub(crate) const FOLDER: &str = "/assets/";

/// Restricts the page to its own files and its own server, so that text from a run cannot load or
/// run anything (<https://www.w3.org/TR/CSP3/>).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

const INDEX: &str = include_str!("assets/index.html");
/// Place of the server's address in the page.
const ROOT: &str = "{{root}}";

/// A file of the page.
struct PageFile {
    name: &'static str,
    media_type: &'static str,
    text: &'static str,
}

macro_rules! file {
    ($name:literal, $media_type:literal) => {
        PageFile {
            name: $name,
            media_type: $media_type,
            text: include_str!(concat!("assets/", $name)),
        }
    };
}

const FILES: [PageFile; 13] = [
    file!("api.js", "text/javascript; charset=utf-8"),
    file!("app.css", "text/css; charset=utf-8"),
    file!("app.js", "text/javascript; charset=utf-8"),
    file!("catalogue.js", "text/javascript; charset=utf-8"),
    file!("chat.js", "text/javascript; charset=utf-8"),
    file!("dom.js", "text/javascript; charset=utf-8"),
    file!("form.js", "text/javascript; charset=utf-8"),
    PageFile {
        name: "graph.css",
        media_type: "text/css; charset=utf-8",
        text: agentflow_views::layout::STYLE_SHEET,
    },
    file!("icon.svg", "image/svg+xml"),
    file!("inbox.js", "text/javascript; charset=utf-8"),
    file!("run.js", "text/javascript; charset=utf-8"),
    file!("runs.js", "text/javascript; charset=utf-8"),
    file!("workflows.js", "text/javascript; charset=utf-8"),
];

/// Returns the routes of the page.
pub(crate) fn routes() -> Router<ServerState> {
    Router::new().route("/", get(index)).route("/assets/{name}", get(file))
}

async fn index(OriginalUri(uri): OriginalUri) -> Response {
    // A server that is mounted below `/flows` has its page at `/flows`, without a slash at the end.
    // The addresses of the files are relative to the part before it.
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    let root = match last {
        "" => String::new(),
        last => format!("{}/", escaped(last)),
    };
    respond("text/html; charset=utf-8", INDEX.replace(ROOT, &root))
}

/// Escapes a text in an attribute of HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}

async fn file(Path(name): Path<String>) -> Result<Response, ApiError> {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => Ok(respond(file.media_type, file.text)),
        None => Err(ApiError::not_found(format!("the page has no file `{name}`"))),
    }
}

fn respond(media_type: &'static str, text: impl IntoResponse) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // After an update of the program, an old file would not fit the new ones.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    );
    let mut response = (StatusCode::OK, text).into_response();
    response.headers_mut().extend(headers);
    response
}
