//! JSON encoding of message parts.
//!
//! A part is written with its type first, so it is normally decoded in one pass. A part with its
//! type at another position, which this crate never writes, is decoded via a [`Value`].

use std::fmt;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Media, Part, Reasoning, ToolCall, ToolResult};

/// The key that holds the type of a part.
const TYPE: &str = "type";

/// The type of a part.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartType {
    Text,
    Reasoning,
    ToolCall,
    ToolResult,
    Media,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessagePartVisitor)
    }
}

struct MessagePartVisitor;

impl<'de> Visitor<'de> for MessagePartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of a message, an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
        match map.next_key()? {
            None => Err(A::Error::missing_field(TYPE)),
            Some(FirstKey(None)) => {
                let part = map.next_value()?;
                let rest = MapAccessDeserializer::new(map);
                Ok(match part {
                    PartType::Text => Part::Text { text: Text::deserialize(rest)?.text },
                    PartType::Reasoning => Part::Reasoning(Reasoning::deserialize(rest)?),
                    PartType::ToolCall => Part::ToolCall(Arc::new(ToolCall::deserialize(rest)?)),
                    PartType::ToolResult => {
                        Part::ToolResult(Arc::new(ToolResult::deserialize(rest)?))
                    }
                    PartType::Media => Part::Media(Media::deserialize(rest)?),
                })
            }
            Some(FirstKey(Some(first))) => {
                // The derived implementation (`remote = "Self"`) finds the type at any position of
                // the object.
                let mut all = Map::from_iter([(first, map.next_value()?)]);
                while let Some((key, value)) = map.next_entry()? {
                    all.insert(key, value);
                }
                Part::deserialize(Value::Object(all)).map_err(A::Error::custom)
            }
        }
    }
}

/// The first key of an object. `None` if it is the key of the type.
struct FirstKey(Option<String>);

impl<'de> Deserialize<'de> for FirstKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FirstKeyVisitor;
        impl Visitor<'_> for FirstKeyVisitor {
            type Value = FirstKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, key: &str) -> Result<FirstKey, E> {
                Ok(FirstKey((key != TYPE).then(|| key.to_owned())))
            }
        }
        deserializer.deserialize_identifier(FirstKeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_wherever_its_type_stands() {
        let texts = [
            r#"{"type":"text","text":"a"}"#,
            r#"{"type":"reasoning","text":"b","provider":"p","opaque":{"k":[1]}}"#,
            r#"{"type":"tool_call","id":"1","name":"search","arguments":"{","opaque":{"s":"x"}}"#,
            r#"{"type":"tool_result","call_id":"1","name":"search","status":"success","output":"[1]"}"#,
            r#"{"type":"media","mime_type":"image/png","url":"https://example.org/a.png","name":"a.png"}"#,
        ];
        for text in texts {
            let part: Part = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&part).unwrap(), text);
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::from_value::<Part>(value.clone()).unwrap(), part);
            let (first, rest) = text.split_once(',').unwrap();
            let last = format!(
                "{{{},{}}}",
                rest.trim_end_matches('}').to_owned() + &"}".repeat(braces(rest)),
                &first[1..]
            );
            assert_eq!(serde_json::from_str::<Part>(&last).unwrap(), part, "{last}");
        }
    }

    /// Returns the number of closing braces at the end of a part.
    fn braces(rest: &str) -> usize {
        rest.len() - rest.trim_end_matches('}').len() - 1
    }

    #[test]
    fn what_is_no_part_is_refused() {
        let problem = |text: &str| serde_json::from_str::<Part>(text).unwrap_err().to_string();
        assert!(problem("{}").starts_with("missing field `type`"));
        assert!(problem(r#"{"text":"a"}"#).starts_with("missing field `type`"));
        assert!(problem(r#"{"type":"text"}"#).starts_with("missing field `text`"));
        // A part of a newer release is recognized by these words of the error.
        for text in [r#"{"type":"smell"}"#, r#"{"smell":1,"type":"smell"}"#] {
            assert!(problem(text).starts_with("unknown variant `smell`"), "{}", problem(text));
        }
        assert!(problem("1").contains("a part of a message"));
    }
}
