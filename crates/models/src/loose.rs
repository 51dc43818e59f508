//! Parses the JSON of responses leniently. Accepts a number or an object where a string is
//! expected, and repairs JSON that only lenient parsers accept. This module does not depend on a
//! provider.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use agentflow_core::__private::adapters::MAX_TOKENS;
use agentflow_core::model::{ModelError, ModelErrorKind};
use agentflow_schema::text;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor, value};
use serde_json::Value;
use serde_json::value::RawValue;

/// Parses JSON as leniently as the parsers of other languages. `mended` stores the repaired text if
/// a repair is necessary; see [`mend`].
pub(crate) fn read<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    mended: &'a mut Vec<u8>,
) -> serde_json::Result<T> {
    let error = match from_bytes(bytes) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    // A truncated text cannot be repaired.
    let better = if error.is_eof() { None } else { mend(bytes) };
    match better {
        Some(better) => {
            *mended = better;
            from_bytes(mended).map_err(|_| error)
        }
        None => Err(error),
    }
}

/// Parses JSON. If all bytes are UTF-8, as usual, the strings need no separate validation.
fn from_bytes<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    }
}

/// Maximum size in bytes of a usage object that is kept in addition to the counts.
pub(crate) const MAX_RAW_USAGE: usize = 64 * 1024;

/// Deserializes a token count: any number, also in quotes, limited to the range of counts. Other
/// values give `None`. For `deserialize_with`.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = deserializer.deserialize_any(NumberVisitor)?;
    Ok(number.map(|number| {
        u64::try_from(number.max(0)).map_or(MAX_TOKENS, |count| count.min(MAX_TOKENS))
    }))
}

/// Deserializes the index of an item: a number from 0, also in quotes. Other values give `None`.
/// For `deserialize_with`.
pub(crate) fn index<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = deserializer.deserialize_any(NumberVisitor)?;
    Ok(number.and_then(|number| u64::try_from(number).ok()))
}

/// Deserializes a value. A value of a different type gives `None`. For `deserialize_with`.
pub(crate) fn or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

/// Returns the content of a JSON string, or `None` for another value.
#[cfg(any(feature = "anthropic", feature = "gemini", feature = "openai-responses"))]
pub(crate) fn unquoted(raw: &str) -> Option<String> {
    let mut mended = Vec::new();
    if !raw.trim_start().starts_with('"') {
        return None;
    }
    read(raw.as_bytes(), &mut mended).ok()
}

/// Returns a token count.
#[cfg(feature = "anthropic")]
pub(crate) fn count_of(value: &Value) -> Option<u64> {
    count(value).ok().flatten()
}

/// Parses a usage object so that it is kept unchanged. Returns `None` if it is too large, because a
/// parsed value uses much more memory than its text.
pub(crate) fn raw_usage(raw: &str) -> Option<Box<Value>> {
    let value = (raw.len() <= MAX_RAW_USAGE).then(|| serde_json::from_str(raw).ok())?;
    value.map(Box::new)
}

/// Maximum size in bytes of JSON that is repaired, because a parsed value uses much more memory
/// than its text.
const MAX_MENDED: usize = 1024 * 1024;

/// Returns JSON that every parser accepts, if a lenient parser could read the original. The repair
///
/// - replaces bytes that are not UTF-8;
/// - replaces unpaired surrogates, which occur if a server splits a string within a pair;
/// - replaces `NaN` and `Infinity`, which Python writes, with `null`;
/// - removes duplicate keys.
fn mend(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() > MAX_MENDED {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut better = String::with_capacity(text.len());
    let mut rest = &*text;
    let mut in_text = false;
    while let Some(next) = rest.chars().next() {
        let (taken, written) = match next {
            '\\' if in_text => mend_escape(rest),
            '"' => {
                in_text = !in_text;
                (1, "\"")
            }
            _ if in_text => (next.len_utf8(), &rest[..next.len_utf8()]),
            _ => match ["-Infinity", "Infinity", "NaN"]
                .into_iter()
                .find(|name| rest.starts_with(name))
            {
                Some(name) => (name.len(), "null"),
                None => (next.len_utf8(), &rest[..next.len_utf8()]),
            },
        };
        better.push_str(written);
        rest = &rest[taken..];
    }
    let value: Value = serde_json::from_str(&better).ok()?;
    serde_json::to_vec(&value).ok()
}

/// Returns the length of the escape at the start of a string, and its repaired form.
fn mend_escape(text: &str) -> (usize, &str) {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, &text[..12]),
        (Some(0xd800..=0xdfff), _) => (6, "\u{fffd}"),
        _ => {
            let length = 1 + text[1..].chars().next().map_or(0, char::len_utf8);
            (length, &text[..length])
        }
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Option<i128>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Some(number.into()))
    }

    #[expect(clippy::cast_possible_truncation, reason = "such a cast stays within the type")]
    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Some(number as i128))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Ok(None),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Maximum number of parts of a response, and of items in a list. A list of empty items is short on
/// the wire but large in memory.
pub(crate) const MAX_PARTS: usize = 4096;

const TOO_MANY: &str = "a list of more than 4096 items";

/// Deserializes a list of at most [`MAX_PARTS`] items. `null` gives `None`. For `deserialize_with`.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_option(ListVisitor(PhantomData))
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        items(seq).map(Some)
    }
}

/// Reads the items of a list, at most [`MAX_PARTS`].
pub(crate) fn items<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(
    mut seq: A,
) -> Result<Vec<T>, A::Error> {
    let mut items = Vec::new();
    while let Some(item) = seq.next_element()? {
        if items.len() == MAX_PARTS {
            return Err(serde::de::Error::custom(TOO_MANY));
        }
        items.push(item);
    }
    Ok(items)
}

/// Returns an error if a response has too many parts.
pub(crate) fn bounded(parts: usize) -> Result<(), ModelError> {
    match parts > MAX_PARTS {
        true => Err(too_large(format!("the answer has more than {MAX_PARTS} parts"))),
        false => Ok(()),
    }
}

fn too_large(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::AnswerTooLarge, problem)
}

/// Returns the error for a part of a response that cannot be parsed.
pub(crate) fn unread(what: &str, error: serde_json::Error, data: &[u8]) -> ModelError {
    if error.is_eof() {
        return ModelError::truncated().with_source(error);
    }
    let problem = error.to_string();
    match problem.starts_with(TOO_MANY) {
        true => too_large(format!("{what} holds {problem}")),
        false => invalid(what, &problem, data).with_source(error),
    }
}

/// Returns the error for a part of a response that violates the wire format.
pub(crate) fn invalid(what: &str, problem: &str, data: &[u8]) -> ModelError {
    let data = String::from_utf8_lossy(data);
    let shown = text::head(data.trim(), 200);
    ModelError::new(
        ModelErrorKind::InvalidResponse,
        format!("{what} cannot be read ({problem}): {shown}"),
    )
    .with_body(data)
}

/// A string that borrows from the input if it contains no escapes. Absent and `null` give an empty
/// text. A number or an object gives its JSON.
#[derive(Debug, Default)]
pub(crate) struct Loose<'a>(Cow<'a, str>);

impl std::ops::Deref for Loose<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

pub(crate) struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Loose(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Loose(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Loose::default())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Loose(Cow::Owned(value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Loose(Cow::Owned(value.to_string())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Loose(Cow::Owned(value.to_string())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Loose(Cow::Owned(value.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        let value = Value::deserialize(value::SeqAccessDeserializer::new(seq))?;
        Ok(Loose(Cow::Owned(value.to_string())))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let value = Value::deserialize(value::MapAccessDeserializer::new(map))?;
        Ok(Loose(Cow::Owned(value.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use agentflow_core::__private::adapters::MAX_TOKENS;
    use agentflow_core::model::ModelErrorKind;
    use serde::Deserialize;

    use super::{MAX_PARTS, MAX_RAW_USAGE, count, index, list, raw_usage, read, unread};

    #[derive(Debug, Deserialize)]
    struct Listed {
        #[serde(default, deserialize_with = "list")]
        items: Option<Vec<u8>>,
    }

    #[test]
    fn a_list_has_at_most_so_many_items() {
        let read = |text: &str| {
            serde_json::from_str::<Listed>(text).map(|listed| listed.items.map(|items| items.len()))
        };
        let of = |count: usize| format!("{{\"items\":[{}0]}}", "0,".repeat(count - 1));
        assert_eq!(read(&of(MAX_PARTS)).unwrap(), Some(MAX_PARTS));
        assert_eq!((read("{}").unwrap(), read("{\"items\":null}").unwrap()), (None, None));
        let error = unread("the answer", read(&of(MAX_PARTS + 1)).unwrap_err(), b"");
        assert_eq!(error.kind(), ModelErrorKind::AnswerTooLarge, "{error}");
        assert_eq!(
            unread("x", read("{\"items\":7}").unwrap_err(), b"").kind(),
            ModelErrorKind::InvalidResponse
        );
    }

    #[test]
    fn a_count_is_a_number_that_a_model_can_reach() {
        let read = |text: &str| count(&mut serde_json::Deserializer::from_str(text)).expect("JSON");
        for (text, expected) in [
            ("7", Some(7)),
            ("12.0", Some(12)),
            ("-3", Some(0)),
            ("18446744073709551615", Some(MAX_TOKENS)),
            // More than 64 bits.
            ("99999999999999999999", Some(MAX_TOKENS)),
            ("1e300", Some(MAX_TOKENS)),
            ("-1e300", Some(0)),
            ("null", None),
            ("\"12\"", Some(12)),
            ("\"many\"", None),
            ("[1,[2]]", None),
            ("{\"a\":{}}", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_place_is_a_number_from_zero() {
        let read = |text: &str| index(&mut serde_json::Deserializer::from_str(text)).expect("JSON");
        let places = ["7", "\"7\"", "7.0", "-1", "null", "{}"].map(read);
        assert_eq!(places, [Some(7), Some(7), Some(7), None, None, None]);
    }

    #[test]
    fn json_that_lenient_parsers_read_is_mended() {
        let mended = |text: &[u8]| {
            let mut mended = Vec::new();
            read::<Listed>(text, &mut mended)
                .map(|listed| listed.items)
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            mended(br#"{"items":[1],"x":[NaN,-Infinity,Infinity,"NaN \" Infinity"]}"#),
            Ok(Some(vec![1]))
        );
        assert_eq!(mended(br#"{"items":[1],"items":[2]}"#), Ok(Some(vec![2])));
        assert!(mended(br#"{"items":[1],"x":"\"}"#).is_err());
        assert!(mended(b"{\"items\":[1").is_err());
        let text = |text: &[u8]| {
            let mut mended = Vec::new();
            read::<String>(text, &mut mended).map_err(|error| error.to_string())
        };
        assert_eq!(text(br#""a\ud83d""#), Ok("a\u{fffd}".to_owned()));
        assert_eq!(
            text(br#""\ude00\\ud83d\ud83d\ude00""#),
            Ok("\u{fffd}\\ud83d\u{1f600}".to_owned())
        );
        assert_eq!(text(b"\"a\xff\""), Ok("a\u{fffd}".to_owned()));
    }

    #[test]
    fn a_usage_object_is_kept_up_to_a_size() {
        assert_eq!(raw_usage("{\"a\":1}"), Some(Box::new(serde_json::json!({"a": 1}))));
        assert_eq!(raw_usage(&format!("[{}0]", "0,".repeat(MAX_RAW_USAGE / 2))), None);
    }
}
