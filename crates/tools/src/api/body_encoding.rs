//! Encodes the body of a request in the media type of its headers: JSON,
//! `application/x-www-form-urlencoded`, or `multipart/form-data`.

use std::fmt::Write as _;

use reqwest::header::HeaderValue;
use serde_json::Value;

use super::url_template::plain_text;
use crate::http::oauth_tokens;
use agentflow_core::__private::sha256;
use agentflow_core::tool::ToolError;

/// Media type of a URL-encoded form.
pub(crate) const FORM: &str = oauth_tokens::FORM;
/// Media type of a form whose fields are parts with headers.
pub(crate) const PARTS: &str = "multipart/form-data";

/// An encoded body and its `content-type`.
#[derive(Debug, PartialEq)]
pub(crate) struct EncodedBody {
    pub(crate) text: String,
    pub(crate) content_type: HeaderValue,
}

impl EncodedBody {
    /// Encodes a value for a `content-type`. `schema` describes the value.
    ///
    /// Without a `content-type`, and for all media types except those of forms, the body is JSON.
    /// In a form, each field is text, or JSON for an object; each item of a list is a separate
    /// field; `null` fields are left out. In a multipart form, a string is a file if its schema has
    /// `contentMediaType` or the format `binary`.
    ///
    /// # Errors
    /// The value for a form is not an object.
    pub(crate) fn new(
        value: &Value,
        schema: &Value,
        content_type: Option<&HeaderValue>,
    ) -> Result<Self, ToolError> {
        let named = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
        match essence(named).as_str() {
            FORM => {
                let fields = fields_of(value, schema)?;
                let fields: Vec<(&str, &str)> =
                    fields.iter().map(|field| (field.name.as_str(), field.text.as_str())).collect();
                Ok(Self {
                    text: oauth_tokens::form(&fields),
                    content_type: HeaderValue::from_static(FORM),
                })
            }
            PARTS => Ok(in_parts(&fields_of(value, schema)?)),
            _ => {
                let json = HeaderValue::from_static("application/json");
                Ok(Self {
                    text: value.to_string(),
                    content_type: content_type.cloned().unwrap_or(json),
                })
            }
        }
    }
}

/// Returns a media type without its parameters.
pub(crate) fn essence(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A field of a form.
struct Field {
    name: String,
    text: String,
    media_type: Option<String>,
    is_file: bool,
}

impl Field {
    fn new(name: &str, value: &Value, schema: &Value) -> Self {
        let media_type = schema["contentMediaType"].as_str().map(ToOwned::to_owned);
        let is_file = value.is_string() && (media_type.is_some() || schema["format"] == "binary");
        let text = plain_text(value);
        let json = || Some("application/json".to_owned());
        let media_type = match (is_file, &text) {
            (true, _) => media_type.or_else(|| Some("application/octet-stream".to_owned())),
            (false, Some(_)) => None,
            (false, None) => json(),
        };
        Self {
            name: name.to_owned(),
            text: text.unwrap_or_else(|| value.to_string()),
            media_type,
            is_file,
        }
    }
}

fn fields_of(value: &Value, schema: &Value) -> Result<Vec<Field>, ToolError> {
    let Value::Object(fields) = value else {
        return Err(ToolError::invalid_arguments(
            "a form is an object with a value for each field",
        ));
    };
    let mut all = Vec::new();
    for (name, value) in fields {
        let schema = &schema["properties"][name];
        match value {
            Value::Null => {}
            Value::Array(items) => {
                all.extend(items.iter().map(|item| Field::new(name, item, &schema["items"])));
            }
            value => all.push(Field::new(name, value, schema)),
        }
    }
    Ok(all)
}

/// Encodes a multipart form (RFC 7578).
fn in_parts(fields: &[Field]) -> EncodedBody {
    let mut parts = Vec::new();
    for field in fields {
        let name = quoted(&field.name);
        let mut part = format!("Content-Disposition: form-data; name=\"{name}\"");
        if field.is_file {
            let _ = write!(part, "; filename=\"{name}\"");
        }
        // The media type comes from an OpenAPI document of another author. It must not be able to
        // add headers.
        let media_type =
            field.media_type.as_deref().filter(|kind| HeaderValue::from_str(kind).is_ok());
        if let Some(kind) = media_type {
            let _ = write!(part, "\r\nContent-Type: {kind}");
        }
        let _ = write!(part, "\r\n\r\n{}\r\n", field.text);
        parts.push(part);
    }
    // A repeated request needs the same body, so the boundary is a hash of the parts. A part cannot
    // contain the hash of itself.
    let boundary = format!("agentflow-{}", &sha256(parts.concat().as_bytes())[..32]);
    let mut text = String::new();
    for part in parts {
        let _ = write!(text, "--{boundary}\r\n{part}");
    }
    let _ = write!(text, "--{boundary}--\r\n");
    let content_type = HeaderValue::from_str(&format!("{PARTS}; boundary={boundary}"));
    EncodedBody { text, content_type: content_type.unwrap_or(HeaderValue::from_static(PARTS)) }
}

/// Escapes a name for the header of a part, as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn encoded(value: &Value, schema: &Value, kind: &'static str) -> EncodedBody {
        EncodedBody::new(value, schema, Some(&HeaderValue::from_static(kind))).unwrap()
    }

    #[test]
    fn a_form_has_a_pair_for_each_value() {
        let value = json!({"a": "b c&d", "list": [1, true], "of": {"x": 1}, "none": null});
        let body = encoded(&value, &json!({}), "application/x-www-form-urlencoded; charset=utf-8");
        assert_eq!(body.text, "a=b+c%26d&list=1&list=true&of=%7B%22x%22%3A1%7D");
        assert_eq!(body.content_type, FORM);
        let error =
            EncodedBody::new(&json!([1]), &json!({}), Some(&HeaderValue::from_static(FORM)))
                .unwrap_err();
        assert_eq!(error.message(), "a form is an object with a value for each field");
        let json = EncodedBody::new(&value, &json!({}), None).unwrap();
        assert_eq!(
            (json.text, json.content_type.to_str().unwrap()),
            (value.to_string(), "application/json")
        );
    }

    #[test]
    fn parts_have_headers_of_their_own() {
        let schema = json!({"properties": {
            "file": {"type": "string", "contentMediaType": "text/csv"},
            "raw": {"type": "array", "items": {"type": "string", "format": "binary"}},
            "split": {"type": "string", "contentMediaType": "text/csv\r\nx-more: 1"},
        }});
        let value = json!({
            "file": "a,b\r\n", "raw": ["x"], "note": "n", "of": {"x": 1}, "a\"\r\nb": "q", "split": "s"
        });
        let body = encoded(&value, &schema, PARTS);
        let kind = body.content_type.to_str().unwrap().to_owned();
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let mut parts: Vec<&str> = body.text.split(&format!("--{boundary}")).collect();
        assert_eq!((parts.remove(0), parts.pop()), ("", Some("--\r\n")));
        parts.sort_unstable();
        assert_eq!(
            parts,
            [
                "\r\nContent-Disposition: form-data; name=\"a%22%0D%0Ab\"\r\n\r\nq\r\n",
                "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\nContent-Type: text/csv\r\n\r\na,b\r\n\r\n",
                "\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nn\r\n",
                "\r\nContent-Disposition: form-data; name=\"of\"\r\nContent-Type: application/json\r\n\r\n{\"x\":1}\r\n",
                "\r\nContent-Disposition: form-data; name=\"raw\"; filename=\"raw\"\r\nContent-Type: application/octet-stream\r\n\r\nx\r\n",
                "\r\nContent-Disposition: form-data; name=\"split\"; filename=\"split\"\r\n\r\ns\r\n",
            ]
        );
        assert_eq!(encoded(&value, &schema, PARTS), body);
        assert_ne!(encoded(&json!({"note": "m"}), &schema, PARTS).content_type, body.content_type);
    }
}
